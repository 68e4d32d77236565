"""Windowed aggregation as an operator: what is told when, what is held, values and their errors."""

from __future__ import annotations

import math
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
    Literal,
    RowWindows,
    SessionWindows,
    TimeWindows,
    WholeRange,
)
from replay.operators.packing import pack, unpack
from replay.windows import entries, forming
from replay.windows.aggregator import WindowAggregator
from replay.windows.results import (
    answer_schema,
    summarised_attribute,
    to_tables,
)
from tests.window_cases import (
    COUNT,
    DOUBLE,
    INT,
    INTERVAL,
    SPREADS,
    K,
    N,
    S,
    X,
    agg,
    aggregation,
    run,
    seeds,
    summarise_panes,
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


def step_by_step(what: Any, *events: tuple[Any, ...]) -> list[list[tuple[Any, ...]]]:
    """Return what each event tells when it is pushed alone, and then the end."""
    aggregator = WindowAggregator(what, stream().schema, eager=True)
    found = [
        [row for table in aggregator.push(stream(event)) for row in to_rows(table)]
        for event in events
    ]
    found.append([row for table in aggregator.finish() for row in to_rows(table)])
    return found


def test_a_span_tells_windows_of_events_that_are_not_pushed() -> None:
    rows, _ = run(aggregation(TimeWindows(5, 5), COUNT), stream((7, 1.0)), span=(1, 13))

    assert rows == [(1, 6, 0), (6, 11, 1), (11, 16, 0)]


# ---------------------------------------------------------------------------------------------
# What is told when


@pytest.mark.parametrize(
    ("windows", "times", "told"),
    [
        pytest.param(
            TimeWindows(5, 5),
            (0, 4, 5, 17),
            [[], [], [(0, 5, 2)], [(5, 10, 1), (10, 15, 0)], [(15, 20, 1)]],
            id="of time, once an event comes at its end",
        ),
        pytest.param(
            SessionWindows(3),
            (0, 2, 6),
            [[], [], [(0, 5, 2)], [(6, 9, 1)]],
            id="a session, once its gap has passed",
        ),
        pytest.param(
            RowWindows(2, 1),
            (0, 5, 5),
            [[], [(0, 5, 2)], [(5, 5, 2)], []],
            id="of rows, with its last row",
        ),
    ],
)
def test_a_window_is_told_once_it_is_complete(windows: Any, times: Any, told: Any) -> None:
    assert step_by_step(aggregation(windows, COUNT), *((t, 1.0) for t in times)) == told


def test_a_key_that_may_come_back_holds_the_answer_back() -> None:
    what = aggregation(TimeWindows(5, 5), COUNT, keys=(S,))

    found = step_by_step(what, (0, 1.0, "a"), (6, 1.0, "b"), (12, 1.0, "b"), (13, 1.0, "a"))

    # Whether "a" has an empty window 5..10 is not known before 13.
    assert found[:3] == [[], [(0, 5, "a", 1)], []]
    assert found[3] == [(5, 10, "a", 0), (5, 10, "b", 1)]


def test_windows_that_may_be_too_many_wait_until_their_number_is_known() -> None:
    what = aggregation(TimeWindows(1, 1), COUNT, keys=(S,))
    events = [stream((t, 1.0, key)) for t, key in ((0, "a"), (0, "b"), (60, "b"), (60, "a"))]

    def pushed(told_max: int | None) -> tuple[WindowAggregator, int]:
        aggregator = WindowAggregator(what, stream().schema, span=(0, 99), told_max=told_max)
        return aggregator, sum(t.num_rows for one in events for t in aggregator.push(one))

    free, waiting = pushed(None), pushed(200 - 1)
    assert (free[1], waiting[1]) == (120, 0)
    last = stream((99, 1.0, "a"))
    n_told = [sum(t.num_rows for t in (*it.push(last), *it.finish())) for it, _ in (free, waiting)]
    assert n_told == [100 + 61 - 120, 100 + 61]
    with pytest.raises(QueryError, match="161 windows would be told, and the limit is 160"):
        list(pushed(160)[0].push(last))


def test_a_session_that_goes_on_holds_later_ones_back() -> None:
    what = aggregation(SessionWindows(3, ("s",)), COUNT, keys=(S,))
    events = [(0, 1.0, "a"), (1, 1.0, "b"), (2, 1.0, "a"), (4, 1.0, "a"), (9, 1.0, "c")]

    found = step_by_step(what, *events)

    assert found[:4] == [[], [], [], []]
    assert found[4] == [(0, 7, "a", 3), (1, 4, "b", 1)]


# ---------------------------------------------------------------------------------------------
# Errors, faults and memory


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


def test_of_different_values_each_is_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "COMPACTED_LEAST", 64)
    monkeypatch.setattr(entries, "PACKED_LEAST", 32)
    asked = agg("count", distinct=True), agg("sum", distinct=True), agg("percentile", fraction=0.5)
    aggregator = WindowAggregator(aggregation(WholeRange(), *asked, keys=(S,)), stream().schema)
    values = [0.0, 1.5, -0.0, None, 2.0]
    for begin in range(0, 1000, 20):
        times = range(begin, begin + 20)
        events = [(t, values[t % 5] if t % 2 else t % 3, "ab"[t % 2]) for t in times]
        list(aggregator.push(stream(*events)))

    assert aggregator.n_held <= 2 * 64
    rows = [row for table in aggregator.finish() for row in to_rows(table)]
    # 167 zeros, 166 ones, 167 twos; 200 zeros, 100 of 1.5, 100 twos.
    assert rows == [("a", 3, 3.0, 1.0), ("b", 3, 3.5, 0.75)]


def test_values_that_come_again_all_count_for_a_median() -> None:
    what = aggregation(WholeRange(), agg("count", distinct=True), agg("percentile", fraction=0.5))
    aggregator = WindowAggregator(what, stream().schema)
    list(aggregator.push(stream(*((t, x) for t, x in enumerate((1.0, 7.0, 7.0, 7.0, 3.0))))))

    (rows,) = map(to_rows, aggregator.finish())
    assert rows == [(3, 7.0)]


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


INF, NAN = math.inf, math.nan
TIMED = pa.schema([("t", pa.timestamp("us", "UTC")), ("x", pa.float64()), ("k", pa.int8())])


def values_of(function: str, *windows: list[Any], column: str = "x", to: Any = None) -> list[Any]:
    """Return an aggregate of the values of windows."""
    attribute = {"x": X, "i": N, "s": S}[column]
    what = aggregation(TimeWindows(1, 1), agg(function, attribute, to))
    kind = {"x": pa.float64(), "i": pa.int64(), "s": pa.string()}[column]
    flat = pa.chunked_array([pa.array([v for window in windows for v in window], kind)])
    lengths = np.array([len(window) for window in windows])
    summary = summarise_panes(flat, lengths)
    borders = np.arange(len(windows)), np.arange(len(windows)) + 1
    schema = pa.schema([("t", pa.int64()), (column, kind)])
    table = pa.concat_tables(to_tables(what, schema, borders, [], lengths, {column: summary}))
    return table.column("a0").to_pylist()


def test_equal_values_have_a_variance_of_zero() -> None:
    # 0.1 three times: their sum over three is not 0.1, and its square would be left over.
    assert values_of("var_samp", [0.1] * 3) == [0.0]


@pytest.mark.parametrize("function", ["min", "max", "sum", "avg"])
def test_negative_zero_is_zero(function: str) -> None:
    (value,) = values_of(function, [-0.0, -0.0])

    assert math.copysign(1.0, value) == 1.0


def test_sums_of_integers_are_exact_to_the_last_one() -> None:
    # Either overflows on the way, or loses digits as a DOUBLE.
    most = 2**63 - 1
    assert values_of("sum", [most, most, -most], [2**62, 1], column="i") == [most, 2**62 + 1]
    assert values_of("sum", [-(2**63)], column="i") == [-(2**63)]


def test_a_mean_of_integers_is_rounded_once_from_their_exact_sum() -> None:
    # The sum is 2**64 - 2, beyond INTEGER; half of it is 2**63 - 1, as a DOUBLE 2**63.
    most = 2**63 - 1
    assert values_of("avg", [most, most], [1, 2], column="i") == [2.0**63, 1.5]
    # Sums that are no doubles: 3 * 2**53 + 3, whose third lies between two, and 5 times a double.
    odd = 2**53 + 1
    windows = [odd] * 3, [-odd] * 3, [2_026_619_832_316_723 * 5, 0, 0, 0, 0]
    means = [2.0**53, -(2.0**53), 2_026_619_832_316_723.0]
    assert values_of("avg", *windows, column="i") == means


def test_means_of_intervals_drop_fractions_towards_zero() -> None:
    means = values_of("avg", [3, 4], [-3, -4], [-4, -4], column="i", to=INTERVAL)

    assert [mean.microseconds + mean.days * 86_400_000_000 + mean.seconds * 10**6
            for mean in means] == [3, -3, -4]  # fmt: skip


def test_a_sum_of_integers_that_does_not_fit_is_told_with_its_window() -> None:
    with pytest.raises(
        QueryError, match=r"^a0 of the window \[1, 2\) would add up to 9223372036854775808, which"
    ):
        values_of("sum", [1], [2**63 - 1, 1], column="i")


@pytest.mark.parametrize("function", ["sum", "avg"])
def test_a_sum_of_doubles_that_may_overflow_is_an_error(function: str) -> None:
    with pytest.raises(QueryError, match=r"may not fit a double: it has 2 values of up to 1e\+308"):
        values_of(function, [1e308, -1e308])
    # Half of the largest double is where it begins, so that no order of additions reaches it.
    with pytest.raises(QueryError, match="may not fit a double"):
        values_of(function, [8e307, -8e307])
    assert values_of(function, [4e307, -4e307]) == [0.0]


@pytest.mark.parametrize("function", SPREADS)
def test_a_variance_that_may_overflow_is_an_error(function: str) -> None:
    with pytest.raises(QueryError, match=r"its 2 values lie up to 2e\+160 apart"):
        values_of(function, [1e160, -1e160])
    assert values_of(function, [1e160, 1e160]) == [0.0]


def test_rows_before_an_error_are_told_first() -> None:
    what = aggregation(TimeWindows(1, 1), agg("sum", N))
    summary = summarise_panes(pa.chunked_array([[1, 2, 2**63 - 1, 1]]), np.array([1, 1, 2]))
    schema = pa.schema([("t", pa.int64()), ("i", pa.int64())])
    borders = np.arange(3), np.arange(3) + 1

    tables = to_tables(what, schema, borders, [], np.array([1, 1, 2]), {"i": summary})

    assert next(tables).column("a0").to_pylist() == [1, 2]
    with pytest.raises(QueryError, match=r"\[2, 3\)"):
        next(tables)


def test_times_and_keys_keep_the_types_of_the_stream() -> None:
    keys = (K, Call("+", (K, K), INT))
    what = aggregation(TimeWindows(10, 10), COUNT, agg("max", X), keys=keys)

    assert answer_schema(what, TIMED) == pa.schema(
        [
            ("window_start", pa.timestamp("us", "UTC")),
            ("window_end", pa.timestamp("us", "UTC")),
            ("key0", pa.int8()),
            ("key1", pa.int64()),
            ("a0", pa.int64()),
            ("a1", pa.float64()),
        ]
    )
    assert answer_schema(aggregation(WholeRange(), COUNT), TIMED).names == ["a0"]


def test_the_attribute_behind_an_aggregate() -> None:
    wide = Call("cast", (N,), DOUBLE)
    narrow = Call("cast", (X,), INT)

    parts = [agg("sum"), agg("var_pop", wide), agg("sum", narrow), COUNT]

    assert [summarised_attribute(part) for part in parts] == ["x", "i", None, None]
