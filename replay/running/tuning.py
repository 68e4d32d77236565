"""An online query that follows its load: threads that share a push, and how large pushes should be.

What to choose says `costmodel.tuning`; here is measured what it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from costmodel.tuning import BATCH_SIZES, Load, Tuning, tuned
from replay.engines.read_ahead import thread_count

PERIOD_S: Final = 1.0
"""Seconds after which it is tuned anew."""

BATCH_RATE: Final = 100.0
"""Pushes there should be in a second: each takes some 0.4 ms however few events it has, so that
these take a twentieth of a processor's time, and an event waits for a hundredth of a second."""


class Tuner:
    """Tunes by the pushes of the last second.

    Attributes
    ----------
    chosen
        What was chosen last.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.chosen = Tuning(BATCH_SIZES[0], 1)
        self._clock = clock
        self._began: float | None = None
        self._n_events = self._n_pushes = 0
        self._taken = 0.0

    @contextmanager
    def push(self, n_events: int) -> Iterator[None]:
        """Measure a push, and tune if it is time to."""
        began = self._clock()
        if self._began is None:
            self._began = began
        yield
        now = self._clock()
        self._n_events += n_events
        self._n_pushes += 1
        self._taken += now - began
        passed = now - self._began
        if passed >= PERIOD_S:
            self._tune(passed)
            self._began, self._n_events, self._n_pushes, self._taken = now, 0, 0, 0.0

    def _tune(self, passed: float) -> None:
        batch = max(1, round(self._n_events / self._n_pushes))
        load = Load(self._n_events / passed, batch, self._taken / self._n_pushes)
        self.chosen = tuned(load, BATCH_RATE, thread_count())
