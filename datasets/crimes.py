"""The bundled stream: twelve years of crime reports of the city of St. Louis.

Origin, licences and quirks are told in ``datasets/data/README.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DATA_FILE = Path(__file__).parent / "data" / "crimes_stlouis_2008_2019.parquet"

TIME = "ts"
"""Time column: St. Louis local time, no zone, whole minutes."""

FIRST_USABLE = datetime(2008, 1, 1)  # noqa: DTZ001 - the stream's clock has no zone
"""Reports dated earlier carry placeholder dates (the earliest 1900-01-01) or came years late."""


@dataclass(frozen=True, slots=True)
class CrimesReport:
    """What became of the rows of the bundled file."""

    destination: Path
    n_rows: int
    """Rows of the bundled file."""
    n_dropped: int
    """Rows dated before ``FIRST_USABLE``, left out."""
    n_written: int

    def __str__(self) -> str:
        return (
            f"{self.n_written:,} of {self.n_rows:,} crime reports taken; {self.n_dropped:,} left "
            f"out because they are dated before {FIRST_USABLE:%Y-%m-%d} (placeholder dates)"
        )


def load() -> pa.Table:
    """Return the bundled file as it is, placeholder dates included.

    Returns
    -------
    Table of 644,056 rows, ordered by ``ts`` and then ``arrival_no``; strings are
    dictionary-encoded.
    """
    return pq.read_table(DATA_FILE)


def to_usable(crimes: pa.Table) -> pa.Table:
    """Return the rows dated ``FIRST_USABLE`` or later, in unchanged order."""
    first = pa.scalar(FIRST_USABLE, crimes.schema.field(TIME).type)
    return crimes.filter(pc.greater_equal(crimes[TIME], first))


def write_usable(destination: Path) -> CrimesReport:
    """Write the reports with usable dates to a Parquet file, ready to be ingested.

    Parameters
    ----------
    destination
        File to write; missing folders are made, an existing file is replaced.

    Returns
    -------
    CrimesReport
        How many rows were taken and left out; print it, so that nobody misses the loss.
    """
    crimes = load()
    usable = to_usable(crimes)
    destination.parent.mkdir(parents=True, exist_ok=True)
    unfinished = destination.with_name(f"{destination.name}.unfinished")
    pq.write_table(usable, unfinished, compression="zstd")
    unfinished.replace(destination)
    return CrimesReport(
        destination=destination,
        n_rows=crimes.num_rows,
        n_dropped=crimes.num_rows - usable.num_rows,
        n_written=usable.num_rows,
    )
