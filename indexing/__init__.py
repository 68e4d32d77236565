"""Secondary indexes: keys, runs, fences and lookups."""

from indexing.errors import CorruptRunError, IndexingError, UnknownIndexError
from indexing.index import Index, IndexSet, clear_caches, open_indexes
from indexing.key_range import Key, KeyRange, KeyRanges
from indexing.lookup import Lookup
from indexing.merge import merge_runs
from indexing.writer import RunWriter

__all__ = [
    "CorruptRunError",
    "Index",
    "IndexSet",
    "IndexingError",
    "Key",
    "KeyRange",
    "KeyRanges",
    "Lookup",
    "RunWriter",
    "UnknownIndexError",
    "clear_caches",
    "merge_runs",
    "open_indexes",
]
