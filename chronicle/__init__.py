"""Event store: time-ordered streams as Delta tables, with a TAB+-tree beside each."""

from chronicle.aggregate import Aggregate
from chronicle.describe import StreamDescription, describe_stream
from chronicle.errors import ChronicleError
from chronicle.settings import StreamSettings
from chronicle.snapshot import AttributeBounds, DataFile, Leaves, Snapshot
from chronicle.store import Store, Stream, create_store, ensure_store, open_store

__all__ = [
    "Aggregate",
    "AttributeBounds",
    "ChronicleError",
    "DataFile",
    "Leaves",
    "Snapshot",
    "Store",
    "Stream",
    "StreamDescription",
    "StreamSettings",
    "create_store",
    "describe_stream",
    "ensure_store",
    "open_store",
]
