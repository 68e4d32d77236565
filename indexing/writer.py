"""Writes level-0 runs while events are written: one per data file and indexed attribute."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.derived import DerivedChange, DerivedFile
from chronicle.disk import discard, writing
from chronicle.stream_folder import make_table_folder
from indexing.attributes import indexed_field, keys_of, with_derived
from indexing.compaction import merge_indexes
from indexing.config import FENCE_ENTRIES
from indexing.coverage import RunListing, list_runs
from indexing.entries import sort_entries
from indexing.errors import IndexingError
from indexing.expiry import expired_runs
from indexing.keys import KeyKind, key_kind
from indexing.objects import object_kind, to_objects
from indexing.run_file import write_entries
from indexing.run_format import CoveredFile, RunHead, TimeScale
from indexing.tables import FOLDER_BYTES_MAX, index_table, names_folder


class RunWriter:
    """Derives level-0 runs from data files (a :class:`chronicle.derived.DerivedWriter`).

    Parameters
    ----------
    attributes
        What to index: columns, derived attributes, and columns together (``a+b``).
    time
        Name of the time column.
    key
        Name of the key column, if the stream has one: entries then carry its value, the object.
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

        An attribute without any usable key has a run too: an empty one, which says so. A data
        file of fewer than ``least_events`` has none.

        Parameters
        ----------
        stream_dir
            Folder of the stream.
        data_file
            Name of the data file inside ``events/``; the runs are named like it.
        events
            All events of the file, in stream order; columns of derived attributes may be there.
        time
            int64 array, the events' times in the stream's unit.
        block_counts
            Events per block, which entries do not depend on.
        """
        written: list[DerivedFile] = []
        if events.num_rows < self._least_events:
            return written
        times = time.to_numpy(zero_copy_only=False)
        events = with_derived(events, self._attributes, self._key)
        shared = _Shared(data_file, times, TimeScale.of(times), self._objects(events))
        try:
            for attribute in self._attributes:
                run = self._write_run(stream_dir, events, shared, attribute)
                written.append(run)
        except BaseException:
            discard(stream_dir / file.table / file.name for file in written)
            raise
        return written

    def lacking(self, stream_dir: Path, files: Mapping[str, int]) -> dict[str, set[str]]:
        """Return the data files that should have a run and that no whole one covers, by table.

        Opens the runs; reads no entry.

        Parameters
        ----------
        stream_dir
            Folder of the stream.
        files
            Number of events of every live data file, by name.
        """
        return {
            table: runs.lacking(files, least_events=self._least_events)
            for table, runs in self.listed(stream_dir, files).items()
        }

    def damaged(self, stream_dir: Path, files: Mapping[str, int]) -> dict[str, set[str]]:
        """Return the runs that are listed and cannot be used, by table.

        Parameters
        ----------
        stream_dir
            Folder of the stream.
        files
            Number of events of every live data file, by name.
        """
        return {table: set(runs.damaged) for table, runs in self.listed(stream_dir, files).items()}

    def listed(
        self, stream_dir: Path, live: Collection[str], *, deep: bool = False
    ) -> dict[str, RunListing]:
        """Return the runs that are listed, as they are found on disk, by table.

        Parameters
        ----------
        stream_dir
            Folder of the stream.
        live
            Names of the data files.
        deep
            Whether to read all entries for their checksums, not footers alone.
        """
        return {
            index_table(attribute): list_runs(
                stream_dir, attribute, live, keyed=self._key is not None, deep=deep
            )
            for attribute in self._attributes
        }

    def expired(self, stream_dir: Path, kept: Collection[str]) -> list[DerivedChange]:
        """Return the runs that cover none of the data files in ``kept``, by table.

        Opens merged runs; reads no entry, commits nothing.

        Parameters
        ----------
        stream_dir
            Folder of the stream.
        kept
            Names of data files; test of membership must be fast.
        """
        found = {name: expired_runs(stream_dir, name, kept) for name in self._attributes}
        return [
            DerivedChange(index_table(attribute), (), runs)
            for attribute, runs in found.items()
            if runs
        ]

    def tidy(self, stream_dir: Path, live: Sequence[str], *, budget: int) -> list[DerivedChange]:
        """Merge runs of like size, writing at most ``budget`` entries; commit nothing.

        Parameters
        ----------
        stream_dir
            Folder of the stream.
        live
            Names of the live data files, in stream order.
        budget
            Entries of all indexes together; merges that cost more are left for
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

    def _write_run(
        self, stream_dir: Path, events: pa.Table, shared: _Shared, attribute: str
    ) -> DerivedFile:
        kind = key_kind(indexed_field(events.schema, attribute).type, attribute)
        entries = sort_entries(
            keys_of(events, attribute),
            shared.time,
            fence_entries=self._fence_entries,
            objects=shared.objects,
        )
        folder = stream_dir / index_table(attribute)
        path = folder / shared.data_file
        cover = CoveredFile(shared.data_file, events.num_rows, len(entries.t))

        of_key = None if self._key is None else self._object_kind(events.schema)
        head = RunHead(attribute, kind, of_key, shared.scale, (cover,))

        def write() -> int:
            make_table_folder(stream_dir, index_table(attribute))
            return write_entries(path, entries, head)

        with writing(path):
            try:
                size_bytes = write()
            except FileNotFoundError:
                size_bytes = write()  # another process dropped the index, and the folder with it
        return DerivedFile(
            table=index_table(attribute),
            name=shared.data_file,
            size_bytes=size_bytes,
            n_rows=len(entries.t),
        )

    def _object_kind(self, schema: pa.Schema) -> KeyKind:
        assert self._key is not None, "asked of streams with a key column only"
        return object_kind(indexed_field(schema, self._key).type, self._key)

    def _objects(self, events: pa.Table) -> pa.Array | None:
        if self._key is None:
            return None
        return to_objects(events.column(indexed_field(events.schema, self._key).name), self._key)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the runs of one data file have in common."""

    data_file: str
    time: np.ndarray
    scale: TimeScale
    objects: pa.Array | None
