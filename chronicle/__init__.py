"""Event store: time-ordered streams as Delta tables, with a TAB+-tree beside each."""

from chronicle.aggregate import Aggregate
from chronicle.append import AppendReport
from chronicle.check import check_store, check_stream
from chronicle.compaction import CompactionReport, compact_events
from chronicle.describe import StreamDescription, describe_stream
from chronicle.errors import ChronicleError
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

__all__ = [
    "Aggregate",
    "AppendReport",
    "AttributeBounds",
    "ChronicleError",
    "CompactionReport",
    "DataFile",
    "DeleteReport",
    "Finding",
    "HistoryEntry",
    "Leaves",
    "RepairReport",
    "Severity",
    "Snapshot",
    "Store",
    "Stream",
    "StreamDescription",
    "StreamSettings",
    "VacuumReport",
    "add_column",
    "add_derived",
    "check_store",
    "check_stream",
    "compact_events",
    "create_store",
    "delete_range",
    "describe_stream",
    "drop_stream",
    "ensure_store",
    "history",
    "open_store",
    "rename_stream",
    "repair_store",
    "repair_stream",
    "vacuum",
]
