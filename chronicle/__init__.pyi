"""What ``import chronicle`` offers, by the modules it is taken from: see ``chronicle/door.py``."""

from chronicle.append_report import AppendReport as AppendReport
from chronicle.describe import (
    StreamDescription as StreamDescription,
    describe_stream as describe_stream,
    history as history,
)
from chronicle.errors import (
    AdoptedStreamError as AdoptedStreamError,
    ChangedFileError as ChangedFileError,
    ChronicleError as ChronicleError,
    CommitConflictError as CommitConflictError,
    CorruptBlockError as CorruptBlockError,
    CorruptTreeError as CorruptTreeError,
    EnvironmentFaultError as EnvironmentFaultError,
    ExhaustedError as ExhaustedError,
    ForeignFileError as ForeignFileError,
    FormatVersionError as FormatVersionError,
    LateEventError as LateEventError,
    NoEventError as NoEventError,
    SchemaError as SchemaError,
    SourceError as SourceError,
    StorageError as StorageError,
    StoreExistsError as StoreExistsError,
    StoreNotFoundError as StoreNotFoundError,
    StreamExistsError as StreamExistsError,
    StreamNotFoundError as StreamNotFoundError,
    StreamReplacedError as StreamReplacedError,
    UnflushedCommitError as UnflushedCommitError,
    UnreadFileError as UnreadFileError,
    UnusableFileError as UnusableFileError,
    VacuumedVersionError as VacuumedVersionError,
    VersionNotFoundError as VersionNotFoundError,
)
from chronicle.ingest.local import (
    AppendFilesReport as AppendFilesReport,
    append_files as append_files,
)
from chronicle.ingest.report import AppendOptions as AppendOptions
from chronicle.log.history import HistoryEntry as HistoryEntry
from chronicle.maintenance.check import (
    check_store as check_store,
    check_stream as check_stream,
)
from chronicle.maintenance.compaction import (
    CompactionReport as CompactionReport,
    compact_events as compact_events,
)
from chronicle.maintenance.finding import (
    Finding as Finding,
    Severity as Severity,
)
from chronicle.maintenance.repair import (
    RepairReport as RepairReport,
    repair_store as repair_store,
    repair_stream as repair_stream,
)
from chronicle.maintenance.vacuum import (
    VacuumReport as VacuumReport,
    vacuum as vacuum,
)
from chronicle.settings import StreamSettings as StreamSettings
from chronicle.snapshot import (
    DataFile as DataFile,
    Snapshot as Snapshot,
)
from chronicle.store import (
    Store as Store,
    Stream as Stream,
    create_store as create_store,
    ensure_store as ensure_store,
    open_store as open_store,
)
from chronicle.tree.summary import (
    AttributeBounds as AttributeBounds,
    Leaves as Leaves,
)
from chronicle.tree.tab_tree import Aggregate as Aggregate
from chronicle.version import __version__ as __version__
from chronicle.write.adopt import (
    AdoptReport as AdoptReport,
    adopt as adopt,
)
from chronicle.write.evolve import (
    add_column as add_column,
    add_derived as add_derived,
)
from chronicle.write.lifecycle import (
    DeleteReport as DeleteReport,
    delete_range as delete_range,
    drop_stream as drop_stream,
    rename_stream as rename_stream,
)
from indexing import (
    CorruptRunError as CorruptRunError,
    IndexingError as IndexingError,
    UnknownIndexError as UnknownIndexError,
    create_index as create_index,
    drop_index as drop_index,
    list_indexes as list_indexes,
)
from replay import (
    Dataflow as Dataflow,
    Explanation as Explanation,
    OnlineFlow as OnlineFlow,
    OnlineQuery as OnlineQuery,
    PacedReplay as PacedReplay,
    Result as Result,
    batches as batches,
    events as events,
    explain as explain,
    stream as stream,
)
from replay.calibration.measure import CalibrationError as CalibrationError
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
from replay.online import online as online
from replay.query import query as query
