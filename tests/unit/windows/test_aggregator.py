"""Windowed aggregation as an operator: what is told when, and what is held meanwhile."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from chronicle.errors import SchemaError
from replay.errors import QueryError
from replay.language.bound import (
    Call,
    CumulateWindows,
    Literal,
    RowWindows,
    SessionWindows,
    TimeWindows,
    WholeRange,
    Windows,
)
from replay.operators.packing import pack, unpack
from replay.windows import entries, forming
from replay.windows.aggregator import WindowAggregator
from tests.window_cases import (
    BOOL,
    COUNT,
    DOUBLE,
    N,
    S,
    X,
    agg,
    aggregation,
    run,
    seeds,
    to_rows,
)


def stream(*events: tuple[Any, ...]) -> pa.Table:
    """Return a stream of (t, x, s); what is left out is NULL."""
    rows = [(*event, None, None)[:3] for event in events]
    types = {"t": pa.int64(), "x": pa.float64(), "s": pa.string()}
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table(
        {
            name: pa.array(list(values), types[name])
            for name, values in zip(types, columns, strict=True)
        }
    )


def told(windows: Windows, *events: tuple[Any, ...], **more: Any) -> list[tuple[Any, ...]]:
    """Return start, end, keys, count and sum."""
    rows, error = run(aggregation(windows, COUNT, agg("sum"), **more), stream(*events))
    assert not error
    return rows


def step_by_step(what: Any, *events: tuple[Any, ...]) -> list[list[tuple[Any, ...]]]:
    """Return what each event tells when it is pushed alone, and then the end."""
    aggregator = WindowAggregator(what, stream().schema, eager=True)
    found = [
        [row for table in aggregator.push(stream(event)) for row in to_rows(table)]
        for event in events
    ]
    found.append([row for table in aggregator.finish() for row in to_rows(table)])
    return found


POSITIVE = Call(">", (X, Literal(0.0, DOUBLE)), BOOL)


# ---------------------------------------------------------------------------------------------
# What is in a window


def test_an_event_on_a_border_is_in_the_later_window() -> None:
    #  |0 . . . . |5 . . . . |10      events at 0, 5 (twice), 9
    rows = told(TimeWindows(5, 5), (0, 1.0), (5, 2.0), (5, 4.0), (9, 8.0))

    assert rows == [(0, 5, 1, 1.0), (5, 10, 3, 14.0)]


def test_empty_windows_between_events_are_rows() -> None:
    rows = told(TimeWindows(5, 5), (0, 1.0), (17, 2.0))

    assert rows == [(0, 5, 1, 1.0), (5, 10, 0, None), (10, 15, 0, None), (15, 20, 1, 2.0)]


def test_where_moves_neither_origin_nor_span() -> None:
    rows = told(TimeWindows(5, 5), (1, -1.0), (7, 2.0), (12, -1.0), where=POSITIVE)

    assert rows == [(1, 6, 0, None), (6, 11, 1, 2.0), (11, 16, 0, None)]


def test_a_key_has_the_windows_from_its_first_to_its_last_event() -> None:
    rows = told(
        TimeWindows(5, 5), (0, 1.0, "b"), (6, 1.0, "a"), (11, 1.0, "b"), (16, 1.0, "a"), keys=(S,)
    )

    assert rows == [
        (0, 5, "b", 1, 1.0),
        (5, 10, "a", 1, 1.0),
        (5, 10, "b", 0, None),
        (10, 15, "a", 0, None),
        (10, 15, "b", 1, 1.0),
        (15, 20, "a", 1, 1.0),
    ]


def test_cumulated_windows_grow_step_by_step() -> None:
    rows = told(CumulateWindows(5, 10, 0), (1, 1.0), (7, 2.0), (13, 4.0))

    assert rows == [(0, 5, 1, 1.0), (0, 10, 2, 3.0), (10, 15, 1, 4.0), (10, 20, 1, 4.0)]


def test_a_gap_as_long_as_stated_begins_a_session() -> None:
    #  0 2 .. 5       gap 3: 2 to 5 is a gap of exactly 3
    rows = told(SessionWindows(3), (0, 1.0), (2, 1.0), (5, 1.0))

    assert rows == [(0, 5, 2, 2.0), (5, 8, 1, 1.0)]


def test_sessions_are_formed_before_where() -> None:
    rows = told(SessionWindows(3), (0, 1.0), (2, -1.0), (4, 1.0), (9, -1.0), where=POSITIVE)

    assert rows == [(0, 7, 2, 2.0)]


def test_rows_are_counted_before_where() -> None:
    events = [(t, x) for t, x in enumerate([1.0, -1.0, -1.0, -1.0, 1.0])]
    rows = told(RowWindows(2, 1), *events, where=POSITIVE)

    assert rows == [(0, 1, 1, 1.0), (1, 2, 0, None), (2, 3, 0, None), (3, 4, 1, 1.0)]


def test_windows_of_rows_that_are_not_full_are_no_rows() -> None:
    events = [(t, 1.0) for t in range(5)]

    assert told(RowWindows(2, 2), *events) == [(0, 1, 2, 2.0), (2, 3, 2, 2.0)]


def test_without_windows_there_is_one_row_also_of_no_event() -> None:
    assert told(WholeRange()) == [(0, None)]
    assert told(WholeRange(), keys=(S,)) == []
    assert told(WholeRange(), (1, 1.0), (2, 2.0)) == [(2, 3.0)]


def test_no_event_has_no_window() -> None:
    assert told(TimeWindows(5, 5)) == []
    assert told(RowWindows(1, 1)) == []
    assert told(SessionWindows(1)) == []


def test_a_span_tells_windows_of_events_that_are_not_pushed() -> None:
    rows, _ = run(aggregation(TimeWindows(5, 5), COUNT), stream((7, 1.0)), span=(1, 13))

    assert rows == [(1, 6, 0), (6, 11, 1), (11, 16, 0)]


def test_keys_come_in_order_then_nan_then_null() -> None:
    events = [(1, None), (1, 2.0), (1, float("nan")), (1, -1.0), (1, -0.0), (1, 0.0)]
    rows, _ = run(aggregation(TimeWindows(5, 5), COUNT, keys=(X,)), stream(*events))

    keys = [row[2] for row in rows]
    assert keys[:3] == [-1.0, 0.0, 2.0]
    assert np.isnan(keys[3])
    assert keys[4] is None
    assert [row[3] for row in rows] == [1, 2, 1, 1, 1]


def test_first_and_last_respect_nulls() -> None:
    what = aggregation(TimeWindows(5, 5), agg("first"), agg("last"))
    rows, _ = run(what, stream((0, None), (1, 1.0), (4, 2.0), (12, None)))

    assert rows == [(0, 5, None, 2.0), (5, 10, None, None), (10, 15, None, None)]


def test_percentiles_lie_between_values_in_proportion() -> None:
    what = aggregation(
        TimeWindows(9, 9), *(agg("percentile", X, fraction=p) for p in (0.0, 0.5, 0.9, 1.0))
    )
    rows, _ = run(what, stream((0, 4.0), (1, 1.0), (2, None), (3, 2.0), (4, float("nan"))))

    # 1, 2, 4: place 0.9 * 2 = 1.8 is 0.8 of the way from 2 to 4.
    assert rows == [(0, 9, 1.0, 2.0, pytest.approx(3.6), 4.0)]


def test_distinct_values_of_overlapping_windows() -> None:
    what = aggregation(TimeWindows(4, 2, 0), agg("count", S, distinct=True))
    rows, _ = run(what, stream((0, 1, "a"), (1, 1, "b"), (3, 1, "a"), (4, 1), (5, 1, "c")))

    #  -2..2: a b    0..4: a b a    2..6: a NULL c    4..8: NULL c
    assert rows == [(-2, 2, 2), (0, 4, 2), (2, 6, 2), (4, 8, 1)]


# ---------------------------------------------------------------------------------------------
# What is told when


def test_a_window_is_told_once_an_event_comes_at_its_end() -> None:
    what = aggregation(TimeWindows(5, 5), COUNT)

    found = step_by_step(what, (0, 1.0), (4, 1.0), (5, 1.0), (17, 1.0))

    assert found == [[], [], [(0, 5, 2)], [(5, 10, 1), (10, 15, 0)], [(15, 20, 1)]]


def test_a_key_that_may_come_back_holds_the_answer_back() -> None:
    what = aggregation(TimeWindows(5, 5), COUNT, keys=(S,))

    found = step_by_step(what, (0, 1.0, "a"), (6, 1.0, "b"), (12, 1.0, "b"), (13, 1.0, "a"))

    # Whether "a" has an empty window 5..10 is not known before 13.
    assert found[:3] == [[], [(0, 5, "a", 1)], []]
    assert found[3] == [(5, 10, "a", 0), (5, 10, "b", 1)]


def test_a_session_is_told_once_its_gap_has_passed() -> None:
    what = aggregation(SessionWindows(3), COUNT)

    assert step_by_step(what, (0,), (2,), (6,)) == [[], [], [(0, 5, 2)], [(6, 9, 1)]]


def test_a_session_that_goes_on_holds_later_ones_back() -> None:
    what = aggregation(SessionWindows(3, ("s",)), COUNT, keys=(S,))
    events = [(0, 1.0, "a"), (1, 1.0, "b"), (2, 1.0, "a"), (4, 1.0, "a"), (9, 1.0, "c")]

    found = step_by_step(what, *events)

    assert found[:4] == [[], [], [], []]
    assert found[4] == [(0, 7, "a", 3), (1, 4, "b", 1)]


def test_a_window_of_rows_is_told_with_its_last_row() -> None:
    what = aggregation(RowWindows(2, 1), COUNT)

    assert step_by_step(what, (0,), (5,), (5,)) == [[], [(0, 5, 2)], [(5, 5, 2)], []]


# ---------------------------------------------------------------------------------------------
# Errors, faults and memory


def test_rows_before_a_sum_that_does_not_fit_are_told() -> None:
    table = pa.table({"t": [0, 5, 6], "i": [7, 2**63 - 1, 1]})

    rows, error = run(aggregation(TimeWindows(5, 5), agg("sum", N)), table)

    assert rows == [(0, 5, 7)]
    assert "a0 of the window [5, 10)" in error


def test_faults_of_rows_are_counted() -> None:
    ratio = Call("/", (Literal(1.0, DOUBLE), X), DOUBLE)
    aggregator = WindowAggregator(aggregation(WholeRange(), agg("sum", ratio)), stream().schema)

    list(aggregator.push(stream((0, 0.0), (1, 2.0))))

    assert [to_rows(table) for table in aggregator.finish()] == [[(0.5,)]]
    assert aggregator.n_faults == 1


def test_a_missing_time_is_an_error() -> None:
    aggregator = WindowAggregator(aggregation(TimeWindows(5, 5), COUNT), stream().schema)

    with pytest.raises(SchemaError, match="null"):
        list(aggregator.push(stream((None, 1.0))))


def test_different_values_are_added_once_a_window() -> None:
    # t:  0    1    2  |  5    6    7  |  10: windows of 5; 2.0 is in two of the first.
    rows = [(0, 2.0), (1, 1.0), (2, 2.0), (5, None), (6, -0.0), (7, 0.0), (10, 5.0)]
    parts = [agg(f, X, distinct=True) for f in ("sum", "avg", "var_pop", "count")]

    got, error = run(aggregation(TimeWindows(5, 5), *parts), stream(*rows))

    assert error == ""
    assert [row[2:] for row in got] == [(3.0, 1.5, 0.25, 2), (0.0, 0.0, 0.0, 1), (5.0, 5.0, 0.0, 1)]


@given(seeds)
def test_sums_of_different_values_depend_on_no_order(random: Random) -> None:
    values = [random.uniform(-1, 1) * 10.0 ** random.randint(-30, 30) for _ in range(40)]
    what = aggregation(WholeRange(), *(agg(f, X, distinct=True) for f in ("sum", "stddev_samp")))
    first = run(what, stream(*enumerate(values * 2)))
    random.shuffle(values)

    assert run(what, stream(*enumerate(values)), cuts=(7, 21)) == first


def test_a_sum_of_different_integers_that_does_not_fit_is_an_error() -> None:
    table = pa.table({"t": [0, 1, 2], "i": [2**63 - 1, 2**63 - 1, 1]})

    got, error = run(aggregation(TimeWindows(1, 1), agg("sum", N, distinct=True)), table)
    assert (len(got), error) == (3, "")
    _, error = run(aggregation(TimeWindows(3, 3), agg("sum", N, distinct=True)), table)
    assert error.startswith("a0 of the window [0, 3) would add up to 9223372036854775808")


def test_a_window_too_long_is_refused_at_once_where_the_span_is_known() -> None:
    with pytest.raises(QueryError, match="longer than half of all time"):
        WindowAggregator(aggregation(TimeWindows(2**62, 1), COUNT), stream().schema, span=(0, 1))


@pytest.mark.parametrize("keys", [(), (S,)], ids=["no key", "keys"])
def test_no_more_is_held_than_the_panes_of_a_window(
    keys: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forming, "ROWS_AT_ONCE", 64)
    what = aggregation(TimeWindows(100, 1), COUNT, agg("sum"), keys=keys)
    aggregator = WindowAggregator(what, stream().schema)
    held, n_rows = [], 0
    for begin in range(0, 5_000, 50):
        events = stream(*((t, 1.0, "ab"[t % 2]) for t in range(begin, begin + 50)))
        n_rows += sum(table.num_rows for table in aggregator.push(events))
        held.append(aggregator.n_held)
    n_rows += sum(table.num_rows for table in aggregator.finish())

    # A window has 100 panes; half as many more may wait to be told together, beside one push.
    assert max(held) <= 1.5 * 100 + 2 * 50
    assert n_rows == (5_000 + 99) * max(1, 2 * len(keys)) - 2 * len(keys)


def test_a_long_gap_is_told_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forming, "ROWS_AT_ONCE", 1000)
    what = aggregation(TimeWindows(1, 1), COUNT)
    aggregator = WindowAggregator(what, stream().schema)

    tables = aggregator.push(stream((0, 1.0), (10**15, 1.0)))

    # There are 10**15 windows, of which nobody asks for more than these.
    assert to_rows(next(tables))[:2] == [(0, 1, 1), (1, 2, 0)]
    assert next(tables).num_rows == 1000


def test_entries_of_one_group_are_merged_while_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "COMPACTED_LEAST", 64)
    what = aggregation(WholeRange(), COUNT, agg("sum"), agg("first"), agg("last"), keys=(S,))
    aggregator = WindowAggregator(what, stream().schema)
    for number in range(1000):
        list(aggregator.push(stream((number, 1.0, "ab"[number % 2]))))

    assert aggregator.n_held <= 2 * 64
    rows = [row for table in aggregator.finish() for row in to_rows(table)]
    assert rows == [("a", 500, 500.0, 1.0, 1.0), ("b", 500, 500.0, 1.0, 1.0)]


def test_a_state_keeps_how_much_was_added_since_entries_were_merged() -> None:
    what = aggregation(SessionWindows(5), agg("sum"))
    events = pa.table({"t": [0, 1, 2], "x": [1.0, 2.0, 4.0]})
    before, after = (WindowAggregator(what, events.schema) for _ in range(2))
    for row in range(3):
        list(before.push(events.slice(row, 1)))
    after.take_over(unpack(pack(before.state())))
    # When entries are merged decides in which order their sums are added.
    assert after._store.added == before._store.added == 3
    assert after.n_held == before.n_held == 3
