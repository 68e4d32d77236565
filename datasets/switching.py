"""Booleans that switch on and off: the stream of thesis section 5.7.

Each is on for 10 to 100 s and off for 10 to 50 s, uniform and independent, with an event a second.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datasets.synthetic import SEED

ON_S, OFF_S = (10, 100), (10, 50)


def generate(
    seconds: int,
    n_columns: int,
    *,
    on: tuple[int, int] = ON_S,
    off: tuple[int, int] = OFF_S,
    seed: int = SEED,
) -> pa.Table:
    """Return a table of ``t`` and ``c0``, ``c1``, …: a row a second, in order of time.

    Parameters
    ----------
    on, off
        How many seconds a column stays on and off, the least and the most.
    """
    random = np.random.default_rng(seed)
    columns = {f"c{n}": _column(seconds, on, off, random) for n in range(n_columns)}
    return pa.table({"t": np.arange(seconds), **columns})


def _column(
    seconds: int, on: tuple[int, int], off: tuple[int, int], random: np.random.Generator
) -> NDArray[np.bool_]:
    pairs = seconds // (on[0] + off[0]) + 2
    lasting = random.integers((on[0], off[0]), (on[1], off[1]), size=(pairs, 2), endpoint=True)
    states = np.repeat(np.tile([True, False], pairs), lasting.ravel())
    begin = int(random.integers(lasting[0].sum()))  # anywhere in the first round
    return np.asarray(states[begin : begin + seconds])
