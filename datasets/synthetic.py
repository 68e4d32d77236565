"""The thesis' synthetic stream: five attributes that follow time more and more loosely.

Run as ``python -m datasets.synthetic --events 10000000 --out synthetic.parquet``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

TIME = "t"

SIGMAS = {"A1": 0.0, "A2": 0.001, "A3": 0.01, "A4": 0.1, "A5": 1.0}
"""Standard deviation of each attribute around the mean i/N, [1]_ section 3.5.3."""

SCHEMA = pa.schema([(TIME, pa.int64()), *((name, pa.float64()) for name in SIGMAS)])

SEED = 2021

CHUNK_EVENTS = 1 << 16
"""Events drawn from one random stream. Part of what a seed means: changing it changes the data."""

ROW_GROUP_EVENTS = 1 << 20
"""Events per row group of the file, 48 MiB in memory: the bound on what a writer holds."""

LARGEST_BELOW_ONE = np.nextafter(1.0, 0.0)


def draw_attribute(
    mean: NDArray[np.float64], sigma: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Draw normal values, those outside [0, 1) again until none is left.

    Parameters
    ----------
    mean
        Mean of each value, within [0, 1].
    sigma
        Standard deviation of all values; 0 gives the means themselves.
    random
        Source of randomness; how much is taken from it depends on the draws.

    Returns
    -------
    ndarray of float64, shape of ``mean``
        A normal distribution truncated to [0, 1), exactly.

    Notes
    -----
    Every mean lies inside the interval or on its rim, so a draw is kept with a probability of at
    least 0.34 (``sigma = 1``, mean 0 or 1) and the rounds shrink quickly.

    With ``sigma = 0`` drawing again changes nothing, and the last event's mean i/N is 1.0. That one
    value becomes the largest double below 1. The alternatives, means (i - 1)/N or i/(N + 1), would
    move every value of every attribute away from the printed formula.
    """
    if sigma == 0:
        return np.minimum(mean, LARGEST_BELOW_ONE)
    values = random.normal(mean, sigma)
    pending = np.flatnonzero((values < 0) | (values >= 1))
    while pending.size:
        again = random.normal(mean[pending], sigma)
        values[pending] = again
        pending = pending[(again < 0) | (again >= 1)]
    return values


def generate(n_events: int, *, seed: int = SEED) -> Iterator[pa.RecordBatch]:
    """Yield the stream in batches, in time order: event i at time i, i = 1 .. N.

    Parameters
    ----------
    n_events
        Length N of the whole stream; the mean of event i is i/N.
    seed
        Each chunk and attribute draws from a stream of its own derived from it, so equal seeds
        give equal events however they are read or written.

    Yields
    ------
    RecordBatch of ``SCHEMA`` with ``CHUNK_EVENTS`` events (the last one with fewer).

    References
    ----------
    .. [1] M. Körber, doctoral thesis, 2021, section 3.5.3.
    """
    for chunk, first in enumerate(range(1, n_events + 1, CHUNK_EVENTS)):
        last = min(first + CHUNK_EVENTS - 1, n_events)
        time = np.arange(first, last + 1, dtype=np.int64)
        mean = time / n_events
        columns = [
            draw_attribute(mean, sigma, np.random.default_rng([seed, chunk, number]))
            for number, sigma in enumerate(SIGMAS.values())
        ]
        yield pa.record_batch([time, *columns], schema=SCHEMA)


def write_parquet(destination: Path, n_events: int, *, seed: int = SEED) -> None:
    """Write the stream to one Parquet file, holding one row group in memory.

    Parameters
    ----------
    destination
        File to write; missing folders are made, an existing file is replaced once all is written.
    n_events, seed
        As for ``generate``.

    Raises
    ------
    ValueError
        If ``n_events`` is not positive.
    """
    if n_events < 1:
        raise ValueError(f"a stream needs at least one event, not {n_events}")
    destination.parent.mkdir(parents=True, exist_ok=True)
    unfinished = destination.with_name(f"{destination.name}.unfinished")
    # Doubles that hardly repeat: a dictionary would only be built and thrown away.
    with pq.ParquetWriter(unfinished, SCHEMA, compression="zstd", use_dictionary=False) as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in generate(n_events, seed=seed):
            waiting.append(batch)
            if len(waiting) * CHUNK_EVENTS >= ROW_GROUP_EVENTS:
                writer.write_table(pa.Table.from_batches(waiting, SCHEMA))
                waiting.clear()
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting, SCHEMA))
    unfinished.replace(destination)


def main(arguments: list[str] | None = None) -> int:
    """Write a synthetic stream as the command line asks."""
    parser = argparse.ArgumentParser(prog="python -m datasets.synthetic", description=__doc__)
    parser.add_argument("--events", type=int, required=True, help="length of the stream")
    parser.add_argument("--out", type=Path, required=True, help="Parquet file to write")
    parser.add_argument("--seed", type=int, default=SEED, help="default: %(default)s")
    options = parser.parse_args(arguments)
    if options.events < 1:
        parser.error(f"--events must be at least 1, not {options.events}")
    if options.seed < 0:
        parser.error(f"--seed must not be negative, but it is {options.seed}")
    write_parquet(options.out, options.events, seed=options.seed)
    size_mb = options.out.stat().st_size / 1e6
    sys.stdout.write(f"wrote {options.events:,} events to {options.out} ({size_mb:.0f} MB)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
