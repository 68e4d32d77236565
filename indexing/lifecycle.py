"""Create, drop, list and compact the indexes of a filled stream."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa

from chronicle.arguments import check_name, check_names, check_type
from chronicle.config import EVENTS_TABLE
from chronicle.derived import DerivedChange, DerivedFile
from chronicle.errors import StorageError
from chronicle.jobs import Runner, run_locally
from chronicle.log import delta_log
from chronicle.log.delta_log import new_files
from chronicle.log.stream_metadata import add_metadata, drop_metadata
from chronicle.settings import StreamSettings
from chronicle.snapshot import Snapshot
from chronicle.store import Stream, watched
from chronicle.stream_folder import own_folders
from chronicle.time import to_int64
from chronicle.tree.blocks import BlockReader
from chronicle.tree.derived_attributes import find_derived
from chronicle.write.commit import OPERATION, commit_tidy, make_tables
from chronicle.write.evolve import add_derived
from indexing.attributes import columns_to_index, find_composite, names_attribute
from indexing.compaction import merge_indexes
from indexing.config import FILES_PER_COMMIT, TAIL_FILE_EVENTS
from indexing.errors import IndexingError, UnknownIndexError
from indexing.index import open_indexes
from indexing.tables import (
    DROPPED_PREFIX,
    INDEX_FOLDER,
    index_table,
    indexed_attributes,
    names_folder,
)
from indexing.writer import RunWriter

CREATE_INDEX = "create index"
"""What commits of runs to an index that is being filled call their operation."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What creating an index did."""

    attribute: str
    existed: bool
    """Whether there was an index; what it lacked was added."""

    n_files: int
    """Data files that got a run."""

    n_entries: int
    size_bytes: int
    n_tail_events: int
    """Events of data files that are too small for a run."""

    replaced: tuple[str, ...]
    """Sentences on runs that were damaged and have left the index."""


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What merging the runs of an index did."""

    attribute: str
    n_runs_before: int
    n_runs_after: int
    n_entries: int
    """Entries written."""


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """What there is of an index, on one snapshot."""

    attribute: str
    n_runs: int
    n_entries: int
    size_bytes: int
    """Size of the runs."""

    n_events: int
    """Events of the snapshot."""

    n_tail_events: int
    """Those that no run covers."""

    faults: tuple[str, ...]
    """Sentences on runs that are missing or damaged."""

    @property
    def bytes_per_entry(self) -> float:
        """Size of the runs per entry of a live event; 0 if there is none."""
        return self.size_bytes / self.n_entries if self.n_entries else 0.0

    @property
    def covered_share(self) -> float:
        """Share of the events that runs cover; 1 if there are no events."""
        return 1 - self.n_tail_events / self.n_events if self.n_events else 1.0


@watched
def create_index(
    stream: Stream,
    attributes: Sequence[str],
    *,
    runner: Runner = run_locally,
    least_events: int = TAIL_FILE_EVENTS,
    progress: Callable[[str], None] | None = None,
) -> list[IndexReport]:
    """Index attributes of a stream that holds events; each data file is read once for all of them.

    Answers are right at any moment: data files without a run are tail. What was done before a
    crash stays, and running it again does the rest; so does running it for an index that lacks
    runs or holds damaged ones, for which all of its runs are read.

    Parameters
    ----------
    stream
        The stream; others may append to it meanwhile.
    attributes
        Columns of any type with an order; two to four such columns together, as ``district+beat``;
        and derived attributes such as ``delta(speed)``, which are declared if they are new.
    runner
        Runs the jobs, one for each data file.
    least_events
        Data files of fewer events stay tail.
    progress
        Told in words how far it is.

    Returns
    -------
    list of IndexReport
        One for each attribute, in their order. ``existed`` with no file means it was whole.

    Raises
    ------
    IndexingError
        If an attribute is missing, is named twice or has a type without an order.
    SchemaError
        If one cannot be derived.
    CorruptBlockError
        If a data file cannot be read.
    """
    check_names(attributes, "attribute")
    names = _declare(stream, attributes)
    time, key = stream.settings.time, stream.settings.key
    writer = RunWriter(names, time, key=key, least_events=least_events)
    tables = writer.tables(stream.schema)
    for attribute, table in zip(names, tables, strict=True):
        # Those of before go on; the log of one has no history, without which nothing is vacuumed.
        if re.search("[#?]", attribute) and not delta_log.table_exists(stream.path / table):
            raise IndexingError(
                f"attribute '{attribute}' cannot name an index folder, as it holds # or ?; rename "
                "the column to index it"
            )
    created = make_tables(stream, tables)
    add_metadata(stream.path, tables=list(tables))
    files = {file.name: file.n_events for file in stream.snapshot().files}
    listed = writer.listed(stream.path, files, deep=True)
    lacking = {
        table: runs.lacking(files, least_events=least_events) for table, runs in listed.items()
    }
    written = _write_runs(stream, names, lacking, runner, progress)
    for table, runs in listed.items():
        # A run written anew has the name of the damaged one and has taken its place already.
        stale = runs.damaged.keys() - {file.name for file in written[table]}
        _commit(stream, DerivedChange(table, (), tuple(sorted(stale))))
    n_tail_events = sum(n for n in files.values() if n < least_events)
    return [
        IndexReport(
            attribute,
            existed=table not in created,
            n_files=len(written[table]),
            n_entries=sum(file.n_rows for file in written[table]),
            size_bytes=sum(file.size_bytes for file in written[table]),
            n_tail_events=n_tail_events,
            replaced=tuple(
                f"run '{error.path}' was damaged ({error.reason}) and has been replaced"
                for error in listed[table].damaged.values()
            ),
        )
        for attribute, table in ((name, index_table(name)) for name in names)
    ]


def _declare(stream: Stream, attributes: Sequence[str]) -> tuple[str, ...]:
    """Declare what is derived; return the attributes under the names they are stored by."""
    schema = stream.schema
    found = [None if find_composite(schema, a) else find_derived(schema, a) for a in attributes]
    derived = [each.name for each in found if each is not None]
    if derived:
        add_derived(stream, derived)
    return tuple(
        name if each is None else each.name for name, each in zip(attributes, found, strict=True)
    )


def _write_runs(
    stream: Stream,
    attributes: Sequence[str],
    lacking: Mapping[str, Collection[str]],
    runner: Runner,
    progress: Callable[[str], None] | None,
) -> dict[str, list[DerivedFile]]:
    """Write and commit the runs that are lacking, some data files at a time, by table."""
    tasks = []
    for name in sorted({name for files in lacking.values() for name in files}):
        wanted = tuple(a for a in attributes if name in lacking[index_table(a)])
        tasks.append((name, wanted))
    job = partial(
        write_runs, stream_dir=stream.path, schema=stream.schema, settings=stream.settings
    )
    written: dict[str, list[DerivedFile]] = {table: [] for table in lacking}
    for start in range(0, len(tasks), FILES_PER_COMMIT):
        chunk = tasks[start : start + FILES_PER_COMMIT]
        files = list(chain(*runner(job, chunk)))
        for table in written:
            fresh = [file for file in files if file.table == table]
            _commit(stream, DerivedChange(table, tuple(fresh), ()))
            written[table] += fresh
        if progress is not None:
            progress(f"indexed {start + len(chunk):,} of {len(tasks):,} data files")
    return written


def _commit(stream: Stream, change: DerivedChange) -> None:
    if change.added or change.removed:
        with stream.held():
            delta_log.commit_changes(
                stream.path / change.table,
                add=new_files((file.name, file.size_bytes, file.n_rows) for file in change.added),
                remove=change.removed,
                read_version=None,
                metadata={OPERATION: CREATE_INDEX},
            )


@watched
def drop_index(stream: Stream, attribute: str) -> int:
    """Drop the index of an attribute, whatever state it is in.

    It is gone at once, for all processes. Queries that use it meanwhile read the events instead.

    Returns
    -------
    int
        Bytes that were freed.

    Raises
    ------
    UnknownIndexError
        If there is none.
    StorageError
        If its files cannot be deleted.
    """
    check_name(attribute, "attribute")
    folder = stream.path / INDEX_FOLDER
    gone = folder / f"{DROPPED_PREFIX}{uuid.uuid4().hex}"
    names = (stream.schema.names, stream.settings.derived)
    known = indexed_attributes(stream.path, *names)
    is_index = names_attribute(*names, attribute) and names_folder(attribute)
    is_there = is_index and (folder / attribute).is_dir()
    if not is_there and attribute not in known:
        raise UnknownIndexError(attribute, candidates=known)
    # Before the folder goes: what is dropped must never look lost, or repair would bring it back.
    drop_metadata(stream.path, index_table(attribute))
    try:
        if is_there:
            (folder / attribute).rename(gone)
        n_bytes = 0
        # What a crash in the middle of an earlier drop left is deleted too.
        for dropped in own_folders(folder, DROPPED_PREFIX):
            n_bytes += sum(file.stat().st_size for file in dropped.rglob("*") if file.is_file())
            shutil.rmtree(dropped)
    except OSError as error:
        raise StorageError(
            f"the files of index '{attribute}' in '{folder}' cannot be deleted ({error}); check "
            f"its permissions and remove what starts with '{DROPPED_PREFIX}'"
        ) from error
    return n_bytes


def list_indexes(snapshot: Snapshot) -> list[IndexDescription]:
    """Describe the indexes of a stream on one snapshot, sorted by attribute.

    Opens their runs; reads no entry and no event.
    """
    check_type(snapshot, Snapshot)
    opened = open_indexes(snapshot)
    descriptions = []
    for attribute in opened.attributes:
        index = opened.index(attribute)
        n_runs = index.n_runs  # opens the runs, after which the faults are known
        descriptions.append(
            IndexDescription(
                attribute,
                n_runs=n_runs,
                n_entries=index.n_entries,
                size_bytes=index.size_bytes,
                n_events=snapshot.n_events,
                n_tail_events=index.n_tail_events,
                faults=index.faults,
            )
        )
    return descriptions


@watched
def compact_index(
    stream: Stream,
    attribute: str | None = None,
    *,
    full: bool = False,
    runner: Runner = run_locally,
) -> list[CompactionReport]:
    """Merge the runs of an index, or of all, whatever it costs.

    Parameters
    ----------
    stream
        The stream; others may append to it meanwhile.
    attribute
        Whose runs; None for all indexes.
    full
        Whether to make one run of all, instead of merging only those of like size.
    runner
        Runs the jobs, one for each index.

    Returns
    -------
    list of CompactionReport
        One for each index, sorted by attribute.

    Raises
    ------
    UnknownIndexError
        If there is none on ``attribute``.
    """
    snapshot = stream.snapshot()
    before = {described.attribute: described for described in list_indexes(snapshot)}
    if attribute is not None and attribute not in before:
        raise UnknownIndexError(attribute, candidates=before)
    chosen = list(before) if attribute is None else [attribute]
    live = tuple(file.name for file in snapshot.files)
    keyed = stream.settings.key is not None
    changes = runner(
        partial(_merge, stream_dir=stream.path, live=live, full=full, keyed=keyed), chosen
    )
    commit_tidy(stream, [change for one in changes for change in one])
    after = {one.attribute: one.n_runs for one in list_indexes(stream.snapshot())}
    return [
        CompactionReport(
            name,
            n_runs_before=before[name].n_runs,
            n_runs_after=after.get(name, 0),  # it may have been dropped meanwhile
            n_entries=sum(file.n_rows for change in of_index for file in change.added),
        )
        for name, of_index in zip(chosen, changes, strict=True)
    ]


def _merge(
    attribute: str, stream_dir: Path, *, live: tuple[str, ...], full: bool, keyed: bool
) -> list[DerivedChange]:
    """Merge the runs of an index: a job of runners."""
    return list(merge_indexes(stream_dir, [attribute], live, full=full, keyed=keyed))


def write_runs(
    task: tuple[str, tuple[str, ...]],
    *,
    stream_dir: Path,
    schema: pa.Schema,
    settings: StreamSettings,
) -> list[DerivedFile]:
    """Write the runs that a data file lacks, of some attributes: a job of runners."""
    data_file, attributes = task
    time, key = settings.time, settings.key
    reader = BlockReader(stream_dir / EVENTS_TABLE, schema)
    counts = reader.block_counts(data_file)
    needed = (*columns_to_index(schema, attributes, key), time, *([] if key is None else [key]))
    events = reader.read(data_file, range(len(counts)), list(dict.fromkeys(needed)))
    times = to_int64(events.column(time), name=time)
    return RunWriter(attributes, time, key=key).write(stream_dir, data_file, events, times, counts)
