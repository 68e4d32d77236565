"""A query attached to a replay: it answers as the events come."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from replay.online import OnlineFlow
from replay.pacing.events import PacedReplay
from replay.running.online_query import OnlineQuery


def answers(paced: PacedReplay, query: OnlineQuery | OnlineFlow) -> Iterator[pa.Table]:
    """Yield a query's answer to the events of a replay, piece by piece.

    A row is told as soon as time has come so far that it is certain, which is at the replay's next
    beat where no event comes: a window that is over, a situation that has lasted long enough. A
    row pattern waits for the next event. The last piece is told when the replay has ended. A query
    that follows its load is given as many events at once as it asks for.
    """
    for events in paced:
        yield query.push(events)
        if isinstance(query, OnlineFlow):
            if query.tuning is not None:
                paced.together = query.tuning.batch
            if paced.reached is not None:
                yield query.advance(paced.reached)
        if query.is_done:
            break
    yield query.finish()
