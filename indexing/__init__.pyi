"""What ``import indexing`` offers, by the modules it is taken from: see ``chronicle/door.py``."""

from indexing.check import check_runs as check_runs
from indexing.errors import (
    CorruptRunError as CorruptRunError,
    IndexingError as IndexingError,
    UnknownIndexError as UnknownIndexError,
)
from indexing.index import (
    Index as Index,
    IndexSet as IndexSet,
    clear_answers as clear_answers,
    clear_caches as clear_caches,
    open_indexes as open_indexes,
)
from indexing.key_range import (
    Key as Key,
    KeyRange as KeyRange,
    KeyRanges as KeyRanges,
)
from indexing.kway_merge import merge_runs as merge_runs
from indexing.lifecycle import (
    CompactionReport as CompactionReport,
    IndexDescription as IndexDescription,
    IndexReport as IndexReport,
    compact_index as compact_index,
    create_index as create_index,
    drop_index as drop_index,
    list_indexes as list_indexes,
)
from indexing.lookup import Lookup as Lookup
from indexing.writer import (
    RunWriter as RunWriter,
    writer_for as writer_for,
)
