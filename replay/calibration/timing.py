"""Timing operations so that two runs give nearly the same numbers on a machine that is not idle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

import numpy as np

from costmodel.arrays import FloatArray

QUANTILE: Final = 0.4
"""Of the times of one operation: interference only adds, so a little below the middle."""

TIMES_MIN: Final = 5
"""Times of each operation that are waited for, unless they take twice what was asked for."""

TIMES_MAX: Final = 60
"""More say nothing new."""

SEED: Final = 20_260_927


@dataclass(frozen=True, slots=True)
class Operation:
    """Something to be timed, and the work it does."""

    name: str
    kind: str
    """What is timed, in words; operations of one kind differ in size."""
    units: FloatArray
    """Units of work, see ``costmodel.calibration.units_of_work``."""
    run: Callable[[], object]
    before: Callable[[], object] | None = None
    """Done before each run, outside its time."""


def waits_of_threads() -> dict[str, float]:
    """Return how long each thread of this process was ready and had no core so far, in seconds.

    Known on Linux; elsewhere there is none.
    """
    waits = {}
    try:
        for thread in Path("/proc/self/task").iterdir():
            try:
                waited = (thread / "schedstat").read_text(encoding="ascii").split()[1]
            except OSError:  # it has ended
                continue
            waits[thread.name] = int(waited) / 1e9
    except (OSError, ValueError, IndexError):
        return {}
    return waits


@dataclass(frozen=True, slots=True)
class Meter:
    """What is read before and after an operation."""

    clock: Callable[[], float] = perf_counter
    """Seconds."""
    cpu: Callable[[], float] = process_time
    """Seconds of all cores that this process has used."""
    waits: Callable[[], dict[str, float]] = waits_of_threads
    """Seconds each thread has waited for a core."""
    n_cores: int = 1


def undisturbed(wall: float, cpu: float, waited: float, n_cores: int) -> float:
    """Return the seconds an operation had taken, had no other process wanted the cores.

    ``wall`` are the seconds it took, ``cpu`` those of all cores it used, ``waited`` those that the
    thread that waited longest was ready and had no core. Threads also wait for each other where
    there are more of them than cores: all cores are at work then, and no less time than their share
    of the work is possible.
    """
    return min(wall, max(wall - waited, cpu / n_cores))


def time_operations(
    operations: Sequence[Operation],
    *,
    seconds: float,
    meter: Meter,
    progress: Callable[[float], None] = lambda _: None,
) -> FloatArray:
    """Return the seconds of each operation, shape (n,); NaN where time ran out before its turn.

    Operations take turns, in another order each round, so that a disturbance meets all of them
    alike and none finds its data in the processor's caches. A first round is not counted, nor is
    the time it takes: it compiles, and fills the system's caches. Long ones leave the round when
    they have had their share of the time. Each is timed at least a few times, so all can take up to
    twice ``seconds``, after the first round.
    """
    random = np.random.default_rng(SEED)
    times: list[list[float]] = [[] for _ in operations]
    share = seconds / max(len(operations), 1)
    for index in random.permutation(len(operations)).tolist():
        _time(operations[index], meter)
    started = meter.clock()
    for _ in range(TIMES_MAX):
        waiting = [
            index
            for index, taken in enumerate(times)
            if len(taken) < TIMES_MIN or sum(taken) < share
        ]
        for index in random.permutation(waiting).tolist():
            elapsed = meter.clock() - started
            enough = min((len(taken) for taken in times), default=0) >= TIMES_MIN
            if elapsed > (seconds if enough else 2 * seconds):
                return _typical(times)
            progress(min(elapsed / seconds, 1.0))
            times[index].append(_time(operations[index], meter))
    return _typical(times)


def _time(operation: Operation, meter: Meter) -> float:
    if operation.before is not None:
        operation.before()
    return seconds_of(operation.run, meter)


def seconds_of(run: Callable[[], object], meter: Meter) -> float:
    """Run something and return the seconds it takes where no other process wants the cores."""
    waits, cpu, clock = meter.waits(), meter.cpu(), meter.clock()
    run()
    wall, used = meter.clock() - clock, meter.cpu() - cpu
    waited = (now - waits.get(thread, 0.0) for thread, now in meter.waits().items())
    return undisturbed(wall, used, max(waited, default=0.0), meter.n_cores)


def _typical(times: Sequence[Sequence[float]]) -> FloatArray:
    return np.array([np.quantile(taken, QUANTILE) if taken else np.nan for taken in times])
