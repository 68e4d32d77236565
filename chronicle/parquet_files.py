"""Open Parquet files that other programs wrote."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.config import TIME_UNIT


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file that another program wrote, to be read and closed.

    The checksums of its pages are compared, where it has them. INT96, which Arrow would read as
    nanoseconds of the years 1677 to 2262, is read as microseconds.
    """
    return pq.ParquetFile(
        path, coerce_int96_timestamp_unit=TIME_UNIT, page_checksum_verification=True
    )


def parquet_table(path: str | Path) -> pa.Table:
    """Return the rows of a Parquet file, see ``open_parquet``."""
    with open_parquet(Path(path)) as file:
        return file.read()
