"""Batch sizes and threads by the load, as the thesis has TPStream tuned (section 5.6.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

BATCH_SIZES: Final = tuple(32 << k for k in range(11))
"""B, the powers of two from 32 to 32768."""

SURPLUS: Final = 1.2
"""Beta of (5.9): threads there are for each that is needed."""


class Load(NamedTuple):
    """What was seen since the last tuning: means, the times in seconds for each batch."""

    rate: float
    """Events a second."""
    batch: int
    """Events of a batch."""
    processing: float
    """From taking a batch to its matches, what is waited among it."""
    waiting: float = 0.0
    """Until it is a batch's turn; without PARTITION BY only, as are those below."""
    syncing: float = 0.0
    """In its turn: merging situations over borders of batches, updating and cleaning buffers."""
    buffering: float = 0.0
    """Of it, updating buffers, which grows with the batch."""


class Tuning(NamedTuple):
    """What is chosen."""

    batch: int
    n_threads: int


def tuned(load: Load, batch_rate: float, n_threads_max: int) -> Tuning:
    """Return batch size and number of threads for a load.

    ``batch_rate`` is how many batches there should be in a second. Batches are made larger than
    that asks for until threads hardly wait for each other (5.13), or are as large as may be: their
    number does not change by it.
    """
    batch = batch_size(load.rate, batch_rate)
    n_threads = threads_needed(load, batch, n_threads_max)
    while batch < BATCH_SIZES[-1] and threads_wait(load, batch, n_threads):
        batch *= 2
    return Tuning(batch, n_threads)


def batch_size(rate: float, batch_rate: float) -> int:
    """Return the size that makes about so many batches a second: (5.7), of two the smaller."""
    return min(BATCH_SIZES, key=lambda size: abs(batch_rate - rate / size))


def threads_needed(load: Load, batch: int, n_threads_max: int) -> int:
    """Return how many threads a load needs in batches of another size: (5.9), at least one."""
    busy = load.rate / batch * processing_time(load, batch)
    return max(1, min(math.ceil(busy * SURPLUS), n_threads_max))


def processing_time(load: Load, batch: int) -> float:
    """Return what a batch of another size takes: (5.11); without a turn to wait for it is (5.8)."""
    growing = load.buffering + load.processing - (load.waiting + load.syncing)
    return growing * batch / load.batch + (load.syncing - load.buffering)


def syncing_time(load: Load, batch: int) -> float:
    """Return what the turn of a batch of another size takes: (5.12).

    Printed is ``t_buf * r_in / bs*``, which is no time.
    """
    return (load.syncing - load.buffering) + load.buffering * batch / load.batch


def threads_wait(load: Load, batch: int, n_threads: int) -> bool:
    """Return whether the turns of the other threads take more than half of a batch: not (5.13)."""
    turns = 2 * (n_threads - 1) * syncing_time(load, batch)
    return processing_time(load, batch) < turns


def is_skewed(batches: Sequence[int]) -> bool:
    """Return whether some thread got a tenth more or fewer batches than its share: (5.10).

    Then partitions move to other threads. Here none has to: they are dealt out anew at each push.
    """
    share = sum(batches) / len(batches)
    return any(abs(n - share) >= share / 10 for n in batches)
