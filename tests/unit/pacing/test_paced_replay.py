"""Paced replay on a clock that goes only when somebody waits."""

from __future__ import annotations

import datetime as dt
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.tuning import Tuning
from replay import online
from replay.errors import QueryError
from replay.online import OnlineFlow
from replay.pacing.attached import answers
from replay.pacing.events import (
    AT_ONCE_MAX,
    SHORTEST_WAIT_S,
    EventRange,
    PacedReplay,
    SystemClock,
    Timeline,
)


@dataclass
class FakeClock:
    """A clock that jumps to the end of each wait; ``on_wait`` may do something there."""

    at: float = 100.0
    waits: list[float | None] = field(default_factory=list)
    on_wait: Callable[[int], None] = lambda _: None
    late: float = 0.0

    def now(self) -> float:
        return self.at

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        self.waits.append(seconds)
        condition.release()  # others may steer meanwhile
        try:
            self.on_wait(len(self.waits))
        finally:
            condition.acquire()
        if seconds is not None:
            self.at += seconds + self.late


class Rows:
    """Events in memory, in the place of a range of a stream; ``t`` counts units."""

    columns = ("t", "x")
    time = "t"
    schema = pa.schema({"t": pa.int64(), "x": pa.int64()})
    units_per_second = 1.0

    def __init__(self, times: list[int], batch: int = 3) -> None:
        self._table = pa.table({"t": pa.array(times, pa.int64()), "x": list(range(len(times)))})
        self._batch = batch
        self.opened: list[int | None] = []

    def open(self, start: int | None, stop: int | None) -> Iterator[pa.RecordBatch]:
        self.opened.append(start)
        low = -math.inf if start is None else start
        high = math.inf if stop is None else stop
        keep = [low <= t < high for t in self._table["t"].to_pylist()]
        yield from self._table.filter(pa.array(keep, pa.bool_())).to_batches(
            max_chunksize=self._batch
        )

    def times(self, events: pa.Table) -> np.ndarray:
        return events.column("t").to_numpy()

    def to_internal(self, moment: int) -> int:
        return moment

    def to_moment(self, time: int) -> int:
        return time


def paced(times: list[int], *, start=None, stop=None, speed=1.0, loop=1, batch=3, beat=None):
    clock = FakeClock()
    rows = Rows(times, batch)
    replay = PacedReplay(rows, start, stop, speed=speed, loop=loop, beat=beat, clock=clock)
    return replay, clock, rows


def handed_out(replay: PacedReplay, clock: FakeClock) -> list[tuple[float, int]]:
    """When each event came, since the beginning, and its time."""
    return [(clock.at - 100.0, t) for table in replay for t in table["t"].to_pylist()]


def test_gaps_are_kept_in_proportion() -> None:
    replay, clock, _ = paced([1000, 1010, 1010, 1040], speed=2)
    assert handed_out(replay, clock) == [(0, 1000), (5, 1010), (5, 1010), (20, 1040)]


def test_a_beat_tells_how_far_time_has_come_where_no_event_is_due() -> None:
    replay, clock, _ = paced([0, 10, 12, 12], beat=4)
    found = [(clock.at - 100.0, table.num_rows, replay.reached) for table in replay]
    # The third and last event of the first batch may have others of its time behind it.
    assert found == [(0, 1, 1), (4, 0, 5), (8, 0, 9), (10, 1, 11), (12, 1, 12), (12, 1, 12)]
    assert replay.n_events == 4


def test_events_that_go_together_are_waited_for_no_longer_than_a_beat() -> None:
    replay, clock, _ = paced([0, 1, 2, 10, 11], beat=4)
    replay.together = 3
    found = [(clock.at - 100.0, table["t"].to_pylist()) for table in replay]
    # The second batch has two. Nothing is due at 6, one at 10.
    assert found == [(2, [0, 1, 2]), (6, []), (10, [10]), (11, [11])]


def test_a_query_that_follows_its_load_is_given_as_many_events_as_it_asks_for() -> None:
    replay, clock, _ = paced(list(range(100)), batch=100, beat=1_000)
    query = online("FROM s DEFINE A AS x < 2", Rows.schema, time="t", threads="auto")
    with patch.object(OnlineFlow, "tuning", property(lambda _: Tuning(32, 1))):
        at = {clock.at - 100.0 for _ in answers(replay, query)}
    assert at == {0, 32, 64, 96, 99}  # the first event goes alone, the rest is less than 32


def test_a_query_attached_tells_what_is_certain_as_soon_as_it_is() -> None:
    replay, clock, _ = paced([0, 10, 30, 31], speed=2, beat=0.25)
    query = online("FROM s DEFINE A AS x < 2 AT LEAST 7", Rows.schema, time="t")
    told = [
        (clock.at - 100.0, row["A_start"], row["A_end"], row["detection_time"])
        for table in answers(replay, query)
        for row in table.to_pylist()
    ]
    assert told == [(3.5, 0, None, 7)]


def test_time_counts_from_start_where_there_is_one() -> None:
    replay, clock, _ = paced([5, 12, 14, 30], start=10, stop=20)
    assert handed_out(replay, clock) == [(2, 12), (4, 14)]


def test_without_pace_nobody_waits() -> None:
    replay, clock, _ = paced(list(range(10)), speed=math.inf, batch=4)
    assert [table.num_rows for table in replay] == [4, 4, 2]
    assert clock.waits == []


def test_late_wake_ups_do_not_add_up() -> None:
    replay, clock, _ = paced(list(range(0, 1000, 10)))
    clock.late = 0.5
    came = handed_out(replay, clock)
    assert all(0 <= at - t <= 0.5 for at, t in came)


def test_who_takes_slowly_gets_the_events_late_and_together() -> None:
    replay, clock, _ = paced(list(range(10)), batch=100)
    sizes = []
    for table in replay:
        sizes.append(table.num_rows)
        if len(sizes) == 1:
            clock.at += 7.5  # what the user did with the first event
    assert sizes == [1, 7, 1, 1]


def test_events_closer_than_the_shortest_wait_come_together() -> None:
    replay, clock, _ = paced(list(range(40)), speed=10_000, batch=100)
    came = handed_out(replay, clock)
    assert [t for _, t in came] == list(range(40))
    assert all(wait == pytest.approx(SHORTEST_WAIT_S) for wait in clock.waits)
    assert len(clock.waits) <= 5


def test_a_loop_begins_again_when_the_stretch_is_over() -> None:
    replay, clock, _ = paced([10, 13], start=10, stop=20, loop=3)
    assert handed_out(replay, clock) == [
        (0, 10), (3, 13), (10, 10), (13, 13), (20, 10), (23, 13)
    ]  # fmt: skip


def test_a_loop_without_an_end_goes_on_at_once() -> None:
    replay, clock, _ = paced([10, 13], loop=2)
    assert handed_out(replay, clock) == [(0, 10), (3, 13), (3, 10), (6, 13)]


def test_an_endless_loop_over_nothing_ends() -> None:
    replay, _, rows = paced([1, 2], start=50, loop=None)
    assert list(replay) == []
    assert rows.opened == [50]


def test_an_endless_loop_ends_when_it_is_closed() -> None:
    replay, _, _ = paced([1, 2], loop=None)
    taken = []
    for table in replay:
        taken += table["t"].to_pylist()
        if len(taken) == 7:
            replay.close()
    assert taken == [1, 2, 1, 2, 1, 2, 1]


def test_a_pause_does_not_count() -> None:
    replay, clock, _ = paced([0, 10, 20], batch=1)

    def steer(n_waits: int) -> None:
        if n_waits == 1:
            clock.at += 4  # woken in the middle of the wait, at 4 of 10
            replay.pause()
        elif n_waits == 2:
            assert replay.is_paused
            clock.at += 1000
            replay.resume()

    clock.on_wait = steer
    first, second, third = list(handed_out(replay, clock))
    # The first wait goes on to its end in this clock: 4 + 10; the pause began at 4.
    assert first == (0, 0)
    assert second[0] == pytest.approx(14 + 1000 + 6)
    assert third[0] == pytest.approx(second[0] + 10)


def test_the_speed_can_change_on_the_way() -> None:
    replay, clock, _ = paced([0, 10, 20, 30], batch=1)
    came = []
    for table in replay:
        came.append((clock.at - 100, table["t"][0].as_py()))
        if len(came) == 2:
            replay.speed = 5
    assert came == [(0, 0), (10, 10), (12, 20), (14, 30)]
    assert replay.speed == 5


@pytest.mark.parametrize("batch", [1, 2])
def test_from_no_pace_to_a_pace_time_goes_on_from_the_last_event(batch: int) -> None:
    replay, clock, _ = paced([0, 10, 20, 30], speed=math.inf, batch=batch)
    came = []
    for table in replay:
        came += [(clock.at - 100, t) for t in table["t"].to_pylist()]
        if len(came) == 2:
            replay.speed = 1
    assert came == [(0, 0), (0, 10), (10, 20), (20, 30)]


def test_the_position_is_the_next_event_or_the_last_until_that_is_known() -> None:
    replay, _, _ = paced([0, 10, 20, 30], batch=3)
    assert replay.position is None
    assert [replay.position for _ in replay] == [10, 20, 20, 30]


@pytest.mark.parametrize("target", [0, 15, 29])
def test_seek_goes_on_at_once_with_the_first_event_at_or_after(target: int) -> None:
    replay, clock, rows = paced([0, 10, 20, 30], batch=2)
    came = []
    for table in replay:
        came += [(clock.at - 100, t) for t in table["t"].to_pylist()]
        if len(came) == 2:
            replay.seek(target)
            assert replay.position == target
    rest = [t for t in (0, 10, 20, 30) if t >= target]
    assert came[2:] == [(10 + t - rest[0], t) for t in rest]
    assert rows.opened == [None, target]


def test_seek_wakes_one_who_waits() -> None:
    replay, clock, _ = paced([0, 1000, 2000])

    def steer(n_waits: int) -> None:
        if n_waits == 1:
            replay.seek(2000)

    clock.on_wait = steer
    assert [t for _, t in handed_out(replay, clock)] == [0, 2000]


def test_seek_while_paused_goes_on_there_after_resume() -> None:
    replay, clock, _ = paced([0, 10, 20], batch=1)

    def steer(n_waits: int) -> None:
        if n_waits == 1:
            replay.pause()
            replay.seek(20)
        elif n_waits == 2:
            assert replay.position == 20
            replay.resume()

    clock.on_wait = steer
    assert [t for _, t in handed_out(replay, clock)] == [0, 20]


def test_seek_outside_of_the_stretch_is_refused() -> None:
    replay, _, _ = paced([0, 10], start=0, stop=10)
    for outside in (-1, 10):
        with pytest.raises(QueryError, match="outside of the stretch"):
            replay.seek(outside)


def test_each_iteration_keeps_the_pace_from_its_own_beginning() -> None:
    replay, clock, _ = paced([10, 13], start=10, stop=20)
    assert next(iter(replay))["t"].to_pylist() == [10]  # and left there
    begun = []
    for waited in (50, 0):
        clock.at += waited
        began = clock.at
        begun.append([(clock.at - began, t) for table in replay for t in table["t"].to_pylist()])
    assert begun == [[(0, 10), (3, 13)]] * 2


def test_what_is_paused_before_it_begins_begins_when_it_goes_on() -> None:
    replay, clock, _ = paced([10, 13], start=10)
    replay.pause()
    clock.at += 50

    def steer(n_waits: int) -> None:
        if n_waits == 1:
            clock.at += 7
            replay.resume()

    clock.on_wait = steer
    assert handed_out(replay, clock) == [(57, 10), (60, 13)]


def test_a_loop_goes_on_after_a_seek_to_where_nothing_is() -> None:
    replay, _, _ = paced([10, 13], start=10, stop=20, speed=math.inf, loop=3)
    replay.seek(15)
    assert [table["t"].to_pylist() for table in replay] == [[10, 13], [10, 13]]


def test_an_event_due_in_longer_than_a_thread_can_wait_is_waited_for() -> None:
    clock, condition = SystemClock(), threading.Condition()
    with condition:
        threading.Thread(target=_notify, args=(condition,)).start()
        clock.wait(condition, 1e18)


def _notify(condition: threading.Condition) -> None:
    with condition:
        condition.notify_all()


def test_close_ends_one_who_waits_in_another_thread() -> None:
    replay = PacedReplay(Rows([0, 10**9]), None, None, speed=1, loop=1)
    got: list[int] = []
    first = threading.Event()

    def take() -> None:
        for table in replay:
            got.extend(table["t"].to_pylist())
            first.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert first.wait(10)
    replay.close()
    thread.join(10)
    assert not thread.is_alive()
    assert got == [0]


def test_large_batches_come_in_bounded_pieces() -> None:
    n = 2 * AT_ONCE_MAX + 5
    replay, _, _ = paced([7] * n, speed=math.inf, batch=n)
    sizes = [table.num_rows for table in replay]
    assert sum(sizes) == n
    assert max(sizes) <= AT_ONCE_MAX


@pytest.mark.parametrize("speed", ["max", None])
def test_a_speed_that_is_no_number_is_refused_with_what_it_takes(speed: Any) -> None:
    with pytest.raises(TypeError, match=r"speed is a number, such as 60 or math\.inf"):
        paced([7], speed=speed)


@pytest.mark.parametrize("speed", [0, -1, math.nan])
def test_a_speed_that_does_not_go_forward_is_refused(speed: float) -> None:
    with pytest.raises(QueryError, match="does not go forward"):
        paced([1], speed=speed)


@given(
    times=st.lists(st.integers(-1000, 1000), max_size=30).map(sorted),
    speed=st.sampled_from([0.5, 1.0, 16.0, math.inf]),
    batch=st.integers(1, 7),
    start=st.none() | st.integers(-1000, 1000),
)
def test_every_event_of_the_stretch_comes_once_in_order_and_never_early(
    times: list[int], speed: float, batch: int, start: int | None
) -> None:
    replay, clock, _ = paced(times, speed=speed, batch=batch, start=start)
    expected = [t for t in times if start is None or t >= start]
    origin = start if start is not None else (expected[0] if expected else 0)
    came = handed_out(replay, clock)
    assert [t for _, t in came] == expected
    for at, t in came:
        assert at >= (t - origin) / speed - 1e-9


def test_a_timeline_far_from_zero_is_exact_to_the_unit() -> None:
    line = Timeline(at=1 << 61, clock=5.0, rate=1e6)
    assert line.elapsed(5.000002) == pytest.approx(2.0)
    assert line.clock_of((1 << 61) + 3_000_000) == pytest.approx(8.0)


def test_the_range_is_written_as_a_query_whatever_its_names() -> None:
    schema = pa.schema({"t": pa.timestamp("us", "UTC"), "x": pa.int64()})
    source = EventRange(
        None, None, 'a"b', "t", schema, columns=("x",),
        where="x > 1 -- not too small", params={}, version=0,
    )  # fmt: skip
    assert source.sql(1, None) == (
        'SELECT "x", "t" FROM "a""b" WHERE "t" >= :chronicle_from AND (x > 1 -- not too small\n)'
    )
    assert source.to_moment(1_000_000) == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert source.to_internal("1970-01-01T00:00:01Z") == 1_000_000
