"""Writes level-0 runs while events are written: one per data file and indexed attribute."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from chronicle.derived import DerivedChange, DerivedFile
from chronicle.disk import discard, writing
from chronicle.store import Stream
from chronicle.stream_folder import make_table_folder
from indexing.attributes import indexed_field, keys_of, with_derived
from indexing.compaction import merge_indexes
from indexing.config import FENCE_ENTRIES, TAIL_FILE_EVENTS
from indexing.coverage import RunListing, expired_runs, list_runs
from indexing.entries import Entries, sort_entries
from indexing.errors import IndexingError
from indexing.keys import KeyKind, key_kind
from indexing.objects import object_kind, to_objects
from indexing.run_format import CoveredFile, RunHead, TimeScale, write_entries
from indexing.tables import FOLDER_BYTES_MAX, index_table, indexed_attributes, names_folder


class RunWriter:
    """Derives level-0 runs from data files (a :class:`chronicle.derived.DerivedWriter`).

    Parameters
    ----------
    attributes
        What to index: columns, derived attributes, and columns together (``a+b``).
    time
        Name of the time column.
    key
        Name of the key column, if the stream has one: entries then carry its value, the object, and
        derived attributes are differences within it. Runs of these are wrong without.
    least_events
        Data files of fewer events get no run: they are tail, answered from memory.
    fence_entries
        Most entries of a group.

    Raises
    ------
    IndexingError
        If an attribute is named twice or cannot name a folder.
    """

    def __init__(
        self,
        attributes: tuple[str, ...],
        time: str,
        *,
        key: str | None = None,
        least_events: int = 0,
        fence_entries: int = FENCE_ENTRIES,
    ) -> None:
        for i, attribute in enumerate(attributes):
            if attribute in attributes[:i]:
                raise IndexingError(f"attribute '{attribute}' is named twice; index it once")
            if not names_folder(attribute):
                raise IndexingError(
                    f"attribute {attribute!r} cannot name an index folder (it is empty or longer "
                    f"than {FOLDER_BYTES_MAX} bytes, starts with '.' or '_', or holds one of "
                    "/ \\ % : or a control character); rename the column to index it"
                )
        self._attributes = attributes
        self._time = time
        self._key = key
        self._least_events = least_events
        self._fence_entries = fence_entries

    def tables(self, schema: pa.Schema) -> tuple[str, ...]:
        """Return the Delta tables of the runs, for events of ``schema``.

        Raises
        ------
        IndexingError
            If an attribute is missing or of a type without an order.
        """
        if self._key is not None:
            self._object_kind(schema)
        for attribute in self._attributes:
            key_kind(indexed_field(schema, attribute).type, attribute)
        return tuple(index_table(attribute) for attribute in self._attributes)

    def write(
        self,
        stream_dir: Path,
        data_file: str,
        events: pa.Table,
        time: pa.Array,
        block_counts: list[int],  # noqa: ARG002
    ) -> list[DerivedFile]:
        """Write the runs of one data file; commit nothing, leave nothing behind on failure.

        An attribute without any usable key has a run too: an empty one, which says so. A data file
        of fewer than ``least_events`` has none. Runs are named like their data file. Columns of
        derived attributes may be among ``events`` already; entries do not depend on
        ``block_counts``.
        """
        written: list[DerivedFile] = []
        if events.num_rows < self._least_events:
            return written
        times = time.to_numpy(zero_copy_only=False)
        scale = TimeScale.of(times)
        events = with_derived(events, self._attributes, self._key)
        of_key = objects = None
        if self._key is not None:
            of_key = self._object_kind(events.schema)
            column = events.column(indexed_field(events.schema, self._key).name)
            objects = to_objects(column, self._key)
        try:
            for attribute in self._attributes:
                kind = key_kind(indexed_field(events.schema, attribute).type, attribute)
                entries = sort_entries(
                    keys_of(events, attribute),
                    times,
                    fence_entries=self._fence_entries,
                    objects=objects,
                )
                cover = CoveredFile(data_file, events.num_rows, len(entries.t))
                head = RunHead(attribute, kind, of_key, scale, (cover,))
                written.append(_write_run(stream_dir, head, entries))
        except BaseException:
            discard(stream_dir / file.table / file.name for file in written)
            raise
        return written

    def lacking(self, stream_dir: Path, files: Mapping[str, int]) -> dict[str, set[str]]:
        """Return the data files that should have a run and that no whole one covers, by table.

        Opens the runs; reads no entry.
        """
        return {
            table: runs.lacking(files, least_events=self._least_events)
            for table, runs in self.listed(stream_dir, files).items()
        }

    def damaged(self, stream_dir: Path, files: Mapping[str, int]) -> dict[str, set[str]]:
        """Return the runs that are listed and cannot be used, by table."""
        return {table: set(runs.damaged) for table, runs in self.listed(stream_dir, files).items()}

    def listed(
        self, stream_dir: Path, live: Collection[str], *, deep: bool = False
    ) -> dict[str, RunListing]:
        """Return the runs of each table as they are found on disk, see ``list_runs``."""
        return {
            index_table(attribute): list_runs(
                stream_dir, attribute, live, keyed=self._key is not None, deep=deep
            )
            for attribute in self._attributes
        }

    def expired(self, stream_dir: Path, kept: Collection[str]) -> list[DerivedChange]:
        """Return the runs that cover none of the data files in ``kept``, by table.

        Opens merged runs; reads no entry, commits nothing.
        """
        found = {name: expired_runs(stream_dir, name, kept) for name in self._attributes}
        return [
            DerivedChange(index_table(attribute), (), runs)
            for attribute, runs in found.items()
            if runs
        ]

    def tidy(
        self, stream_dir: Path, live: Sequence[str], *, budget: int
    ) -> Iterator[DerivedChange]:
        """Merge runs of like size, writing at most ``budget`` entries; commit nothing.

        The budget is for all indexes together. Merges that cost more are left for
        ``chronicle index compact``.
        """
        return merge_indexes(
            stream_dir,
            self._attributes,
            live,
            budget=budget,
            keyed=self._key is not None,
            fence_entries=self._fence_entries,
        )

    def _object_kind(self, schema: pa.Schema) -> KeyKind:
        assert self._key is not None, "asked of streams with a key column only"
        return object_kind(indexed_field(schema, self._key).type, self._key)


def _write_run(stream_dir: Path, head: RunHead, entries: Entries) -> DerivedFile:
    """Write the run of one data file, which is named like it."""
    table, [covered] = index_table(head.attribute), head.cover
    path = stream_dir / table / covered.name

    def write() -> int:
        make_table_folder(stream_dir, table)
        return write_entries(path, entries, head)

    with writing(path):
        try:
            size_bytes = write()
        except FileNotFoundError:
            size_bytes = write()  # another process dropped the index, and the folder with it
    return DerivedFile(table, covered.name, size_bytes, covered.n_entries)


def writer_for(stream: Stream, *, least_events: int = TAIL_FILE_EVENTS) -> RunWriter:
    """Return what writes the runs of all indexes a stream has.

    Parameters
    ----------
    stream
        The stream.
    least_events
        Data files of fewer events get no run: they are tail.
    """
    return RunWriter(
        indexed_attributes(stream.path, stream.schema.names, stream.settings.derived),
        stream.settings.time,
        key=stream.settings.key,
        least_events=least_events,
    )
