"""Event store: time-ordered streams as Delta tables, with a TAB+-tree beside each.

``import chronicle`` is the one import that a user needs: queries, indexes and all errors are
offered here too, though the rooms above have them (``chronicle/door.py``).
"""

from typing import TYPE_CHECKING

from chronicle.adopt import AdoptReport, adopt
from chronicle.aggregate import Aggregate
from chronicle.append import AppendReport
from chronicle.check import check_store, check_stream
from chronicle.compaction import CompactionReport, compact_events
from chronicle.describe import StreamDescription, describe_stream
from chronicle.door import resolve as __getattr__  # noqa: F401 -- Python calls it
from chronicle.errors import (
    AdoptedStreamError,
    ChangedFileError,
    ChronicleError,
    CommitConflictError,
    CorruptBlockError,
    CorruptTreeError,
    EnvironmentFaultError,
    ExhaustedError,
    ForeignFileError,
    FormatVersionError,
    LateEventError,
    SchemaError,
    SourceError,
    StorageError,
    StoreExistsError,
    StoreNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    StreamReplacedError,
    UnflushedCommitError,
    UnreadFileError,
    UnusableFileError,
    VacuumedVersionError,
    VersionNotFoundError,
)
from chronicle.evolve import add_column, add_derived
from chronicle.finding import Finding, Severity
from chronicle.history import HistoryEntry, history
from chronicle.layout import AttributeBounds, DataFile, Leaves
from chronicle.lifecycle import DeleteReport, delete_range, drop_stream, rename_stream
from chronicle.repair import RepairReport, repair_store, repair_stream
from chronicle.settings import StreamSettings
from chronicle.snapshot import Snapshot
from chronicle.store import Store, Stream, create_store, ensure_store, open_store
from chronicle.vacuum import VacuumReport, vacuum
from chronicle.version import __version__

if TYPE_CHECKING:
    from indexing import (
        CorruptRunError,
        IndexingError,
        UnknownIndexError,
        create_index,
        drop_index,
        list_indexes,
    )
    from replay import (
        BindError,
        Dataflow,
        Explanation,
        LimitExceededError,
        NotSupportedError,
        OnlineFlow,
        OnlineQuery,
        PacedReplay,
        PatternSyntaxError,
        PlanError,
        QueryError,
        Result,
        SkipError,
        StepLimitError,
        UnknownNameError,
        batches,
        events,
        explain,
        stream,
    )
    from replay.calibration.measure import CalibrationError
    from replay.online import online
    from replay.query import query

__all__ = [
    "AdoptReport",
    "AdoptedStreamError",
    "Aggregate",
    "AppendReport",
    "AttributeBounds",
    "BindError",
    "CalibrationError",
    "ChangedFileError",
    "ChronicleError",
    "CommitConflictError",
    "CompactionReport",
    "CorruptBlockError",
    "CorruptRunError",
    "CorruptTreeError",
    "DataFile",
    "Dataflow",
    "DeleteReport",
    "EnvironmentFaultError",
    "ExhaustedError",
    "Explanation",
    "Finding",
    "ForeignFileError",
    "FormatVersionError",
    "HistoryEntry",
    "IndexingError",
    "LateEventError",
    "Leaves",
    "LimitExceededError",
    "NotSupportedError",
    "OnlineFlow",
    "OnlineQuery",
    "PacedReplay",
    "PatternSyntaxError",
    "PlanError",
    "QueryError",
    "RepairReport",
    "Result",
    "SchemaError",
    "Severity",
    "SkipError",
    "Snapshot",
    "SourceError",
    "StepLimitError",
    "StorageError",
    "Store",
    "StoreExistsError",
    "StoreNotFoundError",
    "Stream",
    "StreamDescription",
    "StreamExistsError",
    "StreamNotFoundError",
    "StreamReplacedError",
    "StreamSettings",
    "UnflushedCommitError",
    "UnknownIndexError",
    "UnknownNameError",
    "UnreadFileError",
    "UnusableFileError",
    "VacuumReport",
    "VacuumedVersionError",
    "VersionNotFoundError",
    "__version__",
    "add_column",
    "add_derived",
    "adopt",
    "batches",
    "check_store",
    "check_stream",
    "compact_events",
    "create_index",
    "create_store",
    "delete_range",
    "describe_stream",
    "drop_index",
    "drop_stream",
    "ensure_store",
    "events",
    "explain",
    "history",
    "list_indexes",
    "online",
    "open_store",
    "query",
    "rename_stream",
    "repair_store",
    "repair_stream",
    "stream",
    "vacuum",
]
