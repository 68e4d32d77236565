"""Event store: time-ordered streams as Delta tables, with a TAB+-tree beside each.

``import chronicle`` is the one import that a user needs: queries, indexes and all errors are
offered here too, though the rooms above have them (``chronicle/door.py``).
"""

from typing import TYPE_CHECKING

from chronicle.door import offer
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
from chronicle.version import __version__

if TYPE_CHECKING:
    from chronicle.append_report import AppendReport
    from chronicle.describe import StreamDescription, describe_stream, history
    from chronicle.ingest.local import AppendFilesReport, append_files
    from chronicle.ingest.report import AppendOptions
    from chronicle.log.history import HistoryEntry
    from chronicle.maintenance.check import check_store, check_stream
    from chronicle.maintenance.compaction import CompactionReport, compact_events
    from chronicle.maintenance.finding import Finding, Severity
    from chronicle.maintenance.repair import RepairReport, repair_store, repair_stream
    from chronicle.maintenance.vacuum import VacuumReport, vacuum
    from chronicle.settings import StreamSettings
    from chronicle.snapshot import DataFile, Snapshot
    from chronicle.store import Store, Stream, create_store, ensure_store, open_store
    from chronicle.tree.summary import AttributeBounds, Leaves
    from chronicle.tree.tab_tree import Aggregate
    from chronicle.write.adopt import AdoptReport, adopt
    from chronicle.write.evolve import add_column, add_derived
    from chronicle.write.lifecycle import DeleteReport, delete_range, drop_stream, rename_stream
    from indexing import (
        CorruptRunError,
        IndexingError,
        UnknownIndexError,
        create_index,
        drop_index,
        list_indexes,
    )
    from replay import (
        Dataflow,
        Explanation,
        OnlineFlow,
        OnlineQuery,
        PacedReplay,
        Result,
        batches,
        events,
        explain,
        stream,
    )
    from replay.calibration.measure import CalibrationError
    from replay.errors import (
        BindError,
        LimitExceededError,
        NotSupportedError,
        PatternSyntaxError,
        PlanError,
        QueryError,
        SkipError,
        StepLimitError,
        UnknownNameError,
    )
    from replay.online import online
    from replay.query import query

offer(
    __name__,
    {
        "chronicle.append_report": ("AppendReport",),
        "chronicle.describe": ("StreamDescription", "describe_stream", "history"),
        "chronicle.ingest.local": ("AppendFilesReport", "append_files"),
        "chronicle.ingest.report": ("AppendOptions",),
        "chronicle.log.history": ("HistoryEntry",),
        "chronicle.maintenance.check": ("check_store", "check_stream"),
        "chronicle.maintenance.compaction": ("CompactionReport", "compact_events"),
        "chronicle.maintenance.finding": ("Finding", "Severity"),
        "chronicle.maintenance.repair": ("RepairReport", "repair_store", "repair_stream"),
        "chronicle.maintenance.vacuum": ("VacuumReport", "vacuum"),
        "chronicle.settings": ("StreamSettings",),
        "chronicle.snapshot": ("DataFile", "Snapshot"),
        "chronicle.store": ("Store", "Stream", "create_store", "ensure_store", "open_store"),
        "chronicle.tree.summary": ("AttributeBounds", "Leaves"),
        "chronicle.tree.tab_tree": ("Aggregate",),
        "chronicle.write.adopt": ("AdoptReport", "adopt"),
        "chronicle.write.evolve": ("add_column", "add_derived"),
        "chronicle.write.lifecycle": (
            "DeleteReport",
            "delete_range",
            "drop_stream",
            "rename_stream",
        ),
        "indexing": (
            "CorruptRunError",
            "IndexingError",
            "UnknownIndexError",
            "create_index",
            "drop_index",
            "list_indexes",
        ),
        "replay": (
            "Dataflow",
            "Explanation",
            "OnlineFlow",
            "OnlineQuery",
            "PacedReplay",
            "Result",
            "batches",
            "events",
            "explain",
            "stream",
        ),
        "replay.calibration.measure": ("CalibrationError",),
        "replay.errors": (
            "BindError",
            "LimitExceededError",
            "NotSupportedError",
            "PatternSyntaxError",
            "PlanError",
            "QueryError",
            "SkipError",
            "StepLimitError",
            "UnknownNameError",
        ),
        "replay.online": ("online",),
        "replay.query": ("query",),
    },
)

__all__ = [
    "AdoptReport",
    "AdoptedStreamError",
    "Aggregate",
    "AppendFilesReport",
    "AppendOptions",
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
    "append_files",
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
