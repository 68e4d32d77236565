"""Secondary indexes: keys, runs, fences and lookups."""

from typing import TYPE_CHECKING

from chronicle.door import offer

if TYPE_CHECKING:
    from indexing.check import check_runs
    from indexing.errors import CorruptRunError, IndexingError, UnknownIndexError
    from indexing.index import Index, IndexSet, clear_answers, clear_caches, open_indexes
    from indexing.key_range import Key, KeyRange, KeyRanges
    from indexing.kway_merge import merge_runs
    from indexing.lifecycle import (
        CompactionReport,
        IndexDescription,
        IndexReport,
        compact_index,
        create_index,
        drop_index,
        list_indexes,
    )
    from indexing.lookup import Lookup
    from indexing.writer import RunWriter, writer_for

offer(
    __name__,
    {
        "indexing.check": ("check_runs",),
        "indexing.errors": ("CorruptRunError", "IndexingError", "UnknownIndexError"),
        "indexing.index": ("Index", "IndexSet", "clear_answers", "clear_caches", "open_indexes"),
        "indexing.key_range": ("Key", "KeyRange", "KeyRanges"),
        "indexing.kway_merge": ("merge_runs",),
        "indexing.lifecycle": (
            "CompactionReport",
            "IndexDescription",
            "IndexReport",
            "compact_index",
            "create_index",
            "drop_index",
            "list_indexes",
        ),
        "indexing.lookup": ("Lookup",),
        "indexing.writer": ("RunWriter", "writer_for"),
    },
)

__all__ = [
    "CompactionReport",
    "CorruptRunError",
    "Index",
    "IndexDescription",
    "IndexReport",
    "IndexSet",
    "IndexingError",
    "Key",
    "KeyRange",
    "KeyRanges",
    "Lookup",
    "RunWriter",
    "UnknownIndexError",
    "check_runs",
    "clear_answers",
    "clear_caches",
    "compact_index",
    "create_index",
    "drop_index",
    "list_indexes",
    "merge_runs",
    "open_indexes",
    "writer_for",
]
