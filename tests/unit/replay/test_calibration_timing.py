"""Timing: turns, quantiles and time limits, with a clock that only operations move."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from replay.calibration.timing import (
    TIMES_MAX,
    TIMES_MIN,
    Meter,
    Operation,
    time_operations,
    undisturbed,
    waits_of_threads,
)


class Clock:
    """Stands still but for what operations say they take."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now

    def time(self, *operations: Operation, seconds: float, **how: Any) -> np.ndarray:
        """Time operations by this clock where nobody else wants a core."""
        meter = Meter(self, lambda: 0.0, dict)
        return time_operations(list(operations), seconds=seconds, meter=meter, **how)

    def operation(self, name: str, *seconds: float) -> Operation:
        """Return an operation that takes ``seconds`` in turn, the last of them ever after."""
        left = list(seconds)

        def run() -> None:
            self.order.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return Operation(name, "sleep", np.zeros(1), run)


def test_first_run_is_not_counted_and_disturbances_hardly() -> None:
    clock = Clock()
    # The first compiles; of the others, one in four is disturbed.
    times = [5.0, *([0.1, 0.1, 0.1, 0.9] * TIMES_MAX)]
    taken = clock.time(clock.operation("a", *times), seconds=20)
    assert taken.tolist() == pytest.approx([0.1])


def test_operations_take_turns() -> None:
    clock = Clock()
    clock.time(*(clock.operation(name, 0.01) for name in "abc"), seconds=1)
    rounds = [clock.order[at : at + 3] for at in range(0, 3 * TIMES_MIN, 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1  # not always in the same order


def test_long_operation_leaves_the_time_to_the_short_ones() -> None:
    clock = Clock()
    clock.time(clock.operation("long", 1.0), clock.operation("short", 0.01), seconds=20)
    assert clock.order.count("long") <= 12  # its half of the time, the first run and the last
    assert clock.order.count("short") == TIMES_MAX + 1
    assert clock.now <= 20


def test_what_takes_too_long_ends_after_the_first_runs_and_twice_the_time() -> None:
    clock = Clock()
    taken = clock.time(*(clock.operation(name, 1.0) for name in "abcdefgh"), seconds=2)
    # Eight first runs; the limit of four seconds is passed by the fifth run that counts.
    assert clock.now == pytest.approx(13)
    assert np.isnan(taken).sum() == 3


def test_progress_goes_from_none_to_all() -> None:
    clock = Clock()
    shares: list[float] = []
    clock.time(clock.operation("a", 0.1), seconds=0.3, progress=shares.append)
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_preparation_is_not_timed() -> None:
    clock = Clock()

    def clear() -> None:
        clock.now += 10

    timed = replace(clock.operation("a", 0.1), before=clear)
    assert clock.time(timed, seconds=100).tolist() == pytest.approx([0.1])


def test_nothing_to_time_takes_no_time() -> None:
    assert len(Clock().time(seconds=1)) == 0


@pytest.mark.parametrize(
    ("wall", "cpu", "waited", "n_cores", "expected"),
    [
        pytest.param(5, 5, 0, 2, 5, id="nothing waits"),
        pytest.param(8, 5, 3, 2, 5, id="others held the core"),
        pytest.param(5, 10, 3, 2, 5, id="own threads wait for each other"),
        pytest.param(5, 1, 9, 2, 0.5, id="never less than the work"),
        pytest.param(5, 1, 0, 2, 5, id="the disk is waited for"),
        pytest.param(1, 4, 0, 2, 1, id="never more than it took"),
    ],
)
def test_time_without_other_processes(
    wall: float, cpu: float, waited: float, n_cores: int, expected: float
) -> None:
    assert undisturbed(wall, cpu, waited, n_cores) == expected


def test_waits_of_the_thread_that_waited_longest_are_taken_off() -> None:
    clock = Clock()
    waited = {"main": 0.0, "reader": 0.0}

    def run() -> None:
        clock.now += 1.0
        waited["main"] += 0.2
        waited["reader"] += 0.6
        waited["new"] = 0.5

    meter = Meter(clock, lambda: 0.0, lambda: dict(waited))
    timed = [Operation("a", "sleep", np.zeros(1), run)]
    assert time_operations(timed, seconds=10, meter=meter).tolist() == pytest.approx([0.4])


def test_threads_of_this_process_are_seen_where_the_system_tells() -> None:
    waits = waits_of_threads()
    assert all(seconds >= 0 for seconds in waits.values())
    assert waits == {} or len(waits) >= threading.active_count()
