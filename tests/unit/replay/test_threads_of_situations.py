"""Threads that share the pushes of a query over situations, and how many by its load."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import replay
from costmodel.tuning import Tuning
from replay.engines.read_ahead import part_count, shared
from replay.errors import NotSupportedError
from replay.running import tuning
from replay.running.tuning import Tuner
from replay.situations import derive, matching

N_CARS = 300
PATTERN = (
    'PARTITION BY car DEFINE A AS "on" AT LEAST 3, B AS 100 / (car - 7) > 0 '
    'AND NOT "on" PATTERN A meets B WITHIN 40'
)


def some_cars(n_seconds: int) -> pa.Table:
    """Return a row of each car each second, on for four or five of each nine."""
    rows = [(t, car) for t in range(n_seconds) for car in range(N_CARS)]
    on = [(t * (1 + car % 2) + car) % 9 < 5 for t, car in rows]
    return pa.table({"t": [t for t, _ in rows], "car": [car for _, car in rows], "on": on})


def test_as_many_threads_as_may_share_give_the_same_answer_and_faults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(derive, "PART_MIN", 1_000)
    monkeypatch.setattr(matching, "PART_MIN", 64)
    cars = some_cars(60)
    cut: list[int] = []
    divide = matching.divide
    monkeypatch.setattr(
        matching, "divide", lambda units, work: (cut.append(len(units)), divide(units, work))[1]
    )
    answers = []
    for threads in (1, 3, 4):
        flow = replay.online(f"FROM s {PATTERN}", cars.schema, time="t", threads=threads)
        pieces = [cars.slice(first, 4_000) for first in range(0, cars.num_rows, 4_000)]
        found = [*map(flow.push, pieces), flow.finish()]
        answers.append((pa.concat_tables(found).to_pylist(), flow.n_faults))
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0][0]) > 500
    assert answers[0][1] == 60  # of car 7, whose other condition divides by zero
    assert set(cut) == {1, 3, 4}


def test_work_is_cut_where_threads_may_share_and_each_has_enough() -> None:
    assert part_count(1_000, 100) == 1
    with shared(4):
        assert part_count(1_000, 100) == 4
        assert part_count(299, 100) == 2
        assert part_count(99, 100) == part_count(0, 100) == 1
    assert part_count(1_000, 100) == 1


def ticking(*seconds: float) -> Iterator[float]:
    """Yield times, each given one second later than the last."""
    at = 100.0
    for passed in seconds:
        at += passed
        yield at


def test_an_online_query_is_tuned_once_a_second_by_its_pushes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning, "thread_count", lambda: 4)
    # Pushes of 0.3 s each, one every 0.5 s; then of 0.01 s, one a second.
    times = ticking(0, 0.3, 0.2, 0.3, 0.2, 0.3, 0.7, 0.01, 0.99, 0.01)
    tuner = Tuner(lambda: next(times))
    chosen = []
    for n_events in (40_000, 50_000, 60_000, 10, 10):
        with tuner.push(n_events):
            pass
        chosen.append(tuner.chosen)
    # 150,000 events in 1.3 s are 115,385 a second: of 1,024 they are 113 batches, of 2,048 56, and
    # 100 are wanted. A batch of 50,000 took 0.3 s, so that 0.69 threads are busy, and a fifth more
    # are 0.83. Then come 20 events in 1.72 s.
    assert chosen == [Tuning(32, 1)] * 2 + [Tuning(1_024, 1)] * 2 + [Tuning(32, 1)]


def test_threads_are_as_many_as_pushes_keep_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "thread_count", lambda: 4)
    times = ticking(0, 1.1)
    tuner = Tuner(lambda: next(times))
    with tuner.push(1_000_000):
        pass
    assert tuner.chosen.n_threads == 2  # one is busy all the time, 1.2 with a fifth more


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "many", None])
def test_what_is_no_number_of_threads_is_refused(threads: object) -> None:
    with pytest.raises(ValueError, match="threads is a whole number from 1 on"):
        replay.online(f"FROM s {PATTERN}", some_cars(1).schema, time="t", threads=threads)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t FROM s WHERE car = 1",
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN (A) DEFINE A AS car = 1)",
    ],
)
def test_threads_have_nothing_to_share_without_situations(sql: str) -> None:
    with pytest.raises(NotSupportedError, match="over situations"):
        replay.online(sql, some_cars(1).schema, time="t", threads=2)


def test_threads_share_situations_below_windows_too() -> None:
    cars = some_cars(60)
    sql = (
        "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE "
        f"(SELECT detection_time, car FROM (FROM s {PATTERN})), DESCRIPTOR(detection_time), 10)) "
        "GROUP BY window_start, window_end"
    )
    found = []
    for threads in (1, 2):
        flow = replay.online(sql, cars.schema, time="t", threads=threads)
        found.append(pa.concat_tables([flow.push(cars), flow.finish()]).to_pylist())
    assert found[0] == found[1]
    assert len(found[0]) > 3
