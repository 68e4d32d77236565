"""Writes level-0 runs while events are written: one per data file and indexed attribute."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from chronicle.derived import DerivedFile
from indexing.config import FENCE_ENTRIES
from indexing.entries import sort_entries
from indexing.errors import IndexingError
from indexing.keys import key_kind, to_keys
from indexing.run_file import run_schema, write_entries
from indexing.run_format import CoveredFile

INDEX_FOLDER = "index"
"""Folder inside a stream that holds one Delta table per indexed attribute."""


class RunWriter:
    """Derives level-0 runs from data files (a :class:`chronicle.derived.DerivedWriter`).

    Parameters
    ----------
    attributes
        Which columns to index.
    time
        Name of the time column.

    Raises
    ------
    IndexingError
        If an attribute is named twice or cannot name a folder.
    """

    def __init__(
        self, attributes: tuple[str, ...], time: str, *, fence_entries: int = FENCE_ENTRIES
    ) -> None:
        for i, attribute in enumerate(attributes):
            if attribute in attributes[:i]:
                raise IndexingError(f"attribute '{attribute}' is named twice; index it once")
            if attribute.startswith((".", "_")) or any(c in attribute for c in "/\\%:"):
                raise IndexingError(
                    f"attribute '{attribute}' cannot name an index folder (it starts with '.' or "
                    "'_', or holds one of / \\ % :); rename the column to index it"
                )
        self._attributes = attributes
        self._time = time
        self._fence_entries = fence_entries

    def tables(self, schema: pa.Schema) -> dict[str, pa.Schema]:
        """Return the Delta tables of the runs and their schemas, for events of ``schema``.

        Raises
        ------
        IndexingError
            If an attribute is missing or of a type without an order.
        """
        return {
            index_table(attribute): run_schema(key_kind(_field(schema, attribute).type, attribute))
            for attribute in self._attributes
        }

    def write(
        self,
        stream_dir: Path,
        data_file: str,
        events: pa.Table,
        time: pa.Array,
        block_counts: list[int],  # noqa: ARG002
    ) -> list[DerivedFile]:
        """Write the runs of one data file; commit nothing, leave nothing behind on failure.

        An attribute without any usable key has a run too: an empty one, which says so.

        Parameters
        ----------
        stream_dir
            Folder of the stream.
        data_file
            Name of the data file inside ``events/``; the runs are named like it.
        events
            All events of the file, in stream order.
        time
            int64 array, the events' times in the stream's unit.
        block_counts
            Events per block, which entries do not depend on.
        """
        written: list[DerivedFile] = []
        try:
            for attribute in self._attributes:
                run = self._write_run(stream_dir, data_file, events, time, attribute)
                written.append(run)
        except BaseException:
            for file in written:
                (stream_dir / file.table / file.name).unlink(missing_ok=True)
            raise
        return written

    def _write_run(
        self,
        stream_dir: Path,
        data_file: str,
        events: pa.Table,
        time: pa.Array,
        attribute: str,
    ) -> DerivedFile:
        column = events.column(_field(events.schema, attribute).name)
        kind = key_kind(column.type, attribute)
        entries = sort_entries(
            to_keys(column, attribute),
            time.to_numpy(zero_copy_only=False),
            fence_entries=self._fence_entries,
        )
        folder = stream_dir / index_table(attribute)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / data_file
        cover = CoveredFile(data_file, events.num_rows, len(entries.t))
        write_entries(path, entries, cover, attribute=attribute, kind=kind)
        return DerivedFile(
            table=index_table(attribute),
            name=data_file,
            size_bytes=path.stat().st_size,
            n_rows=len(entries.t),
        )


def index_table(attribute: str) -> str:
    """Return the Delta table of an attribute's runs, relative to the stream's folder."""
    return f"{INDEX_FOLDER}/{attribute}"


def _field(schema: pa.Schema, attribute: str) -> pa.Field:
    at = schema.get_field_index(attribute)
    if at < 0:
        raise IndexingError(
            f"no column '{attribute}' to index (columns: {', '.join(schema.names)})"
        )
    return schema.field(at)
