"""What ``import replay`` offers, by the modules it is taken from: see ``chronicle/door.py``."""

from replay.dataflow import (
    Dataflow as Dataflow,
    Windowed as Windowed,
    stream as stream,
)
from replay.errors import (
    BindError as BindError,
    LimitExceededError as LimitExceededError,
    NotSupportedError as NotSupportedError,
    PatternSyntaxError as PatternSyntaxError,
    PlanError as PlanError,
    QueryError as QueryError,
    SkipError as SkipError,
    StepLimitError as StepLimitError,
    UnknownNameError as UnknownNameError,
)
from replay.online import (
    OnlineFlow as OnlineFlow,
    online as online,
)
from replay.pacing.events import (
    PacedReplay as PacedReplay,
    events as events,
)
from replay.query import (
    Explanation as Explanation,
    batches as batches,
    clear_caches as clear_caches,
    explain as explain,
    query as query,
    query_many as query_many,
)
from replay.result import Result as Result
from replay.running.online_query import OnlineQuery as OnlineQuery
