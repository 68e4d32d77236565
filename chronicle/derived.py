"""What the event store asks of whoever derives data from events, such as secondary indexes.

The event store knows no index. Where runs must be written beside blocks it calls the protocol
below and is handed the implementation from above (``indexing.RunWriter``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

DERIVED_SCHEMA = pa.schema([pa.field("columns", pa.binary())])
"""Schema of the Delta tables whose logs list derived files. A log needs one; the files are column
files, which name their columns themselves."""


@dataclass(frozen=True, slots=True)
class DerivedFile:
    """A column file derived from one data file, written but not yet committed."""

    table: str
    """Delta table it belongs to, relative to the stream's folder, such as ``index/price``."""

    name: str
    """File name inside that table."""

    size_bytes: int
    n_rows: int


@dataclass(frozen=True, slots=True)
class DerivedChange:
    """Derived files that take the place of others, written but not yet committed."""

    table: str
    """Delta table they belong to, relative to the stream's folder."""

    added: tuple[DerivedFile, ...]
    removed: tuple[str, ...]
    """Names of the files they replace."""


class DerivedWriter(Protocol):
    """Derives files from the events of data files, and keeps their number small."""

    def tables(self, schema: pa.Schema) -> tuple[str, ...]:
        """Return the Delta tables it writes to, for events of ``schema``."""
        ...

    def write(
        self,
        stream_dir: Path,
        data_file: str,
        events: pa.Table,
        time: pa.Array,
        block_counts: list[int],
    ) -> list[DerivedFile]:
        """Write what is derived from one data file; commit nothing.

        ``events`` are all of the file, in stream order; ``time`` is the int64 array of their times,
        in the stream's unit; ``block_counts`` are the events per block, in order.
        """
        ...

    def lacking(self, stream_dir: Path, files: Mapping[str, int]) -> dict[str, set[str]]:
        """Return the data files that should have derived files and lack whole ones, by table.

        ``files`` has the number of events of every live data file, by name.
        """
        ...

    def damaged(self, stream_dir: Path, files: Mapping[str, int]) -> dict[str, set[str]]:
        """Return the derived files that are listed and cannot be used, by table.

        The data files they were derived from are lacking. Once these have new ones the damaged ones
        leave their table, but for those that were written anew under their own name. ``files`` is
        as for ``lacking``.
        """
        ...

    def tidy(
        self, stream_dir: Path, live: Sequence[str], *, budget: int
    ) -> Iterator[DerivedChange]:
        """Merge derived files where there are many, writing at most ``budget`` rows.

        ``live`` are the data files in stream order. A table is merged after the other, and none of
        what is yielded is committed.
        """
        ...

    def expired(self, stream_dir: Path, kept: Collection[str]) -> list[DerivedChange]:
        """Return the derived files that hold nothing of the data files in ``kept``, by table.

        Test of membership in ``kept`` must be fast. Nothing is added, committed or deleted.
        """
        ...
