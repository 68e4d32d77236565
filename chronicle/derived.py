"""What the event store asks of whoever derives data from events, such as secondary indexes.

The event store knows no index. Where runs must be written beside blocks it calls the protocol
below and is handed the implementation from above (``indexing.RunWriter``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class DerivedFile:
    """A Parquet file derived from one data file, written but not yet committed."""

    table: str
    """Delta table it belongs to, relative to the stream's folder, such as ``index/price``."""

    name: str
    """File name inside that table."""

    size_bytes: int
    n_rows: int


class DerivedWriter(Protocol):
    """Derives files from the events of one data file."""

    def tables(self, schema: pa.Schema) -> dict[str, pa.Schema]:
        """Return the Delta tables it writes to and their schemas, for events of ``schema``."""
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

        Parameters
        ----------
        stream_dir
            Folder of the stream.
        data_file
            Name of the data file inside ``events/``.
        events
            All events of the file, in stream order.
        time
            int64 array, the events' times in the stream's unit.
        block_counts
            Events per block, in order; sums to ``events.num_rows``.
        """
        ...
