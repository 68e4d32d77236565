"""Work divided among threads gives what it gives one by one, errors included."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from replay.engines import read_ahead, source
from replay.engines.read_ahead import divide
from replay.errors import LimitExceededError
from replay.limits import Limits, LimitWatch, check_limits

WAIT_S = 30
"""No test waits so long, unless it fails."""


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadPoolExecutor]:
    """Two threads besides the one that asks, whatever the machine has."""
    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(read_ahead, "_pool", lambda: pool)
        monkeypatch.setattr(read_ahead, "thread_count", lambda: 3)
        yield pool


@pytest.mark.parametrize("n_units", [0, 1, 2, 50])
def test_every_unit_is_worked_on_once_and_results_come_in_order(pool, n_units: int) -> None:
    begun: list[int] = []

    def square(unit: int) -> int:
        begun.append(unit)
        return unit * unit

    assert divide(range(n_units), square) == [unit * unit for unit in range(n_units)]
    assert sorted(begun) == list(range(n_units))


def test_results_stand_in_order_of_the_units_whichever_is_done_first(pool) -> None:
    is_done = threading.Event()

    def work(unit: int) -> int:
        if unit == 0:
            assert is_done.wait(WAIT_S)
        is_done.set()
        return unit

    assert divide(range(3), work) == [0, 1, 2]


def test_threads_take_part(pool) -> None:
    #  each of three units waits for the two others: no thread could do them one by one
    together = threading.Barrier(3, timeout=WAIT_S)
    assert sorted(divide(range(3), lambda _: together.wait())) == [0, 1, 2]


def test_the_error_is_that_of_the_first_unit_that_fails(pool) -> None:
    #  all three are begun; 2 fails first, then 1
    begun, has_failed = threading.Barrier(3, timeout=WAIT_S), threading.Event()

    def work(unit: int) -> None:
        begun.wait()
        if unit == 2:
            has_failed.set()
            raise ValueError(unit)
        assert has_failed.wait(WAIT_S)
        if unit == 1:
            raise ValueError(unit)

    with pytest.raises(ValueError, match=r"^1$"):
        divide(range(3), work)


def test_nothing_is_worked_on_any_more_once_the_error_is_out(pool) -> None:
    begun, is_out = threading.Barrier(2, timeout=WAIT_S), threading.Event()
    ended: list[int] = []

    def work(unit: int) -> None:
        begun.wait()
        if unit == 0:
            raise ValueError(unit)
        is_out.wait(0.05)
        ended.append(unit)

    with pytest.raises(ValueError, match=r"^0$"):
        divide(range(2), work)
    assert ended == [1]
    is_out.set()


def test_no_unit_is_begun_once_one_has_failed(pool) -> None:
    begun: list[int] = []

    def work(unit: int) -> None:
        begun.append(unit)
        if unit == 1:
            raise ValueError(unit)

    release = threading.Event()
    for _ in range(2):  # so that nobody takes part
        pool.submit(release.wait, WAIT_S)
    with pytest.raises(ValueError, match=r"^1$"):
        divide(range(9), work)
    release.set()
    assert begun == [0, 1]


def test_work_of_other_threads_keeps_the_limits_of_whoever_asks(pool) -> None:
    both = threading.Barrier(2)
    ended: list[int] = []

    def work(unit: int) -> None:
        both.wait(WAIT_S)
        while unit < 2:  # until a limit ends it
            check_limits()
        ended.append(unit)

    with LimitWatch(Limits(timeout=0.05)), pytest.raises(LimitExceededError):
        divide(range(2), work)
    assert ended == []


def test_work_that_nobody_waits_for_ends_where_it_checks_limits(pool) -> None:
    both, is_called_off = threading.Barrier(2), threading.Event()

    def work(unit: int) -> None:
        both.wait(WAIT_S)
        if threading.get_ident() == asking:
            raise KeyboardInterrupt
        try:
            while True:
                check_limits()
        finally:
            is_called_off.set()

    asking = threading.get_ident()
    with pytest.raises(KeyboardInterrupt):
        divide(range(2), work)
    assert is_called_off.wait(WAIT_S)


def test_work_ends_where_all_threads_are_busy(pool) -> None:
    release = threading.Event()
    busy = [pool.submit(release.wait, WAIT_S) for _ in range(2)]
    asking = threading.get_ident()
    try:
        assert divide(range(4), lambda _: threading.get_ident()) == [asking] * 4
    finally:
        release.set()
    assert all(future.result() for future in busy)


def test_work_that_is_divided_may_be_divided_within(pool) -> None:
    def table(row: int) -> list[int]:
        return divide(range(6), lambda column: row * column)

    expected = [[row * column for column in range(6)] for row in range(6)]
    for _ in range(20):
        assert divide(range(6), table) == expected


def test_no_thread_is_started_where_there_is_one_processor(monkeypatch) -> None:
    monkeypatch.setattr(read_ahead, "thread_count", lambda: 1)
    monkeypatch.setattr(read_ahead, "_pool", lambda: pytest.fail("asked for threads"))
    asking = threading.get_ident()
    assert divide(range(4), lambda _: threading.get_ident()) == [asking] * 4


class _Damaged:
    """A source of twenty blocks of one event, some of which cannot be read."""

    n_events = n_blocks = 20
    bases = np.arange(21)

    def read_blocks(self, blocks, columns):
        damaged = [block for block in blocks.tolist() if block in (7, 8, 15)]
        raise ValueError(damaged[0]) if damaged else AssertionError("blocks before were read")


def test_of_damaged_blocks_the_first_is_told_when_events_are_fetched(pool, monkeypatch) -> None:
    monkeypatch.setattr(source, "FETCH_BLOCKS", 2)
    with pytest.raises(ValueError, match=r"^7$"):
        source.fetch_events(_Damaged(), ["t"], np.arange(6, 20))
