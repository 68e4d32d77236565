"""Filters, windows and aggregates: what names, windows and GROUP BY are bound to."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from chronicle.errors import StreamNotFoundError
from replay.errors import BindError
from replay.language import parse_query
from replay.language.bound import (
    Aggregate,
    Attribute,
    Calendar,
    Call,
    CumulateWindows,
    DataType,
    Literal,
    RowWindows,
    SessionWindows,
    SortKey,
    StreamRelation,
    TimeWindows,
    Windows,
)
from tests.unit.language.catalogs import END, START, TS, K, N, X, bound_query, bound_select

T = DataType
MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
MONDAY = 4 * DAY  # 1970-01-05


def test_filter_selects_columns_of_every_type():
    bound = bound_select("SELECT * FROM s WHERE x > 1")
    columns = (("ts", T.TIMESTAMP), ("k", T.STRING), ("n", T.INTEGER), ("x", T.DOUBLE))
    assert bound.columns == (*columns, ("tags", None))
    assert bound.source == StreamRelation("s", bound.columns, "ts")
    assert bound.outer.where == Call(">", (X, Literal(1.0, T.DOUBLE)), T.BOOLEAN)
    assert [name for name, _ in bound.outer.items] == ["ts", "k", "n", "x", "tags"]
    assert bound.outer.items[4][1] == Attribute("tags", T.NULL)
    assert bound.time == "ts"
    assert bound.windows is None


@pytest.mark.parametrize("qualifier", ["a", "A", '"a"'])
def test_alias_of_a_stream_stands_before_its_columns(qualifier):
    bound = bound_select(f"SELECT {qualifier}.x FROM s a WHERE a.n = 3")
    assert bound.outer.items == (("x", X),)


def test_name_of_a_stream_stands_before_its_columns():
    assert bound_select("SELECT s.x AS y, S.* FROM s").columns[0] == ("y", T.DOUBLE)


def test_stream_that_is_not_there_is_the_error_of_the_catalog():
    with pytest.raises(StreamNotFoundError, match="nowhere"):
        bound_query("SELECT * FROM nowhere")


@pytest.mark.parametrize(
    ("select", "after", "time"),
    [
        ("x, ts AS at", "", "at"),
        ("x, ts AS at", "LIMIT 3", "at"),
        ("x, ts AS at", "ORDER BY at", "at"),
        ("x, ts AS at", "ORDER BY ts", "at"),
        ("x, ts AS at", "ORDER BY at, x DESC", "at"),
        ("x, ts AS at", "ORDER BY at DESC", None),
        ("x, ts AS at", "ORDER BY x, at", None),
        ("x", "", None),
        ("ts + 1 HOUR AS later", "", None),  # nothing says that it ascends
    ],
)
def test_time_is_carried_on_where_the_answer_keeps_its_order(select, after, time):
    assert bound_select(f"SELECT {select} FROM s {after}").time == time


def test_aggregate_without_windows_is_one_group():
    bound = bound_select("SELECT COUNT(*) AS c, MAX(x) FROM s WHERE n = 1")
    assert bound.outer.group_by == ()
    assert bound.columns == (("c", T.INTEGER), ("MAX(x)", T.DOUBLE))
    assert bound.time is None


def test_column_of_no_type_of_ours_can_be_selected_beside_conditions():
    bound = bound_select("SELECT tags FROM s WHERE n = 1 ORDER BY x LIMIT 3")
    assert bound.columns == (("tags", None),)
    with pytest.raises(BindError, match="has the type list"):
        bound_select("SELECT tags FROM s ORDER BY tags")


@pytest.mark.parametrize(
    ("call", "windows"),
    [
        ("HOP(TABLE s, DESCRIPTOR(ts), 7 MINUTES, 1 HOUR)", TimeWindows(HOUR, 7 * MINUTE, 0)),
        ("TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' DAY)", TimeWindows(DAY, DAY, 0)),
        ("TUMBLE(TABLE s, DESCRIPTOR(ts), 14 DAYS)", TimeWindows(14 * DAY, 14 * DAY, MONDAY)),
        ("HOP(TABLE s, DESCRIPTOR(ts), 1 WEEK, 9 DAYS)", TimeWindows(9 * DAY, 7 * DAY, MONDAY)),
        ("HOP(TABLE s, DESCRIPTOR(ts), 1 DAY, 1 WEEK)", TimeWindows(7 * DAY, DAY, 0)),
        ("CUMULATE(TABLE s, DESCRIPTOR(ts), 1 DAY, 1 WEEK)", CumulateWindows(DAY, 7 * DAY, MONDAY)),
        (
            "TUMBLE(TABLE s, DESCRIPTOR(ts), 9 DAYS, ORIGIN FIRST EVENT)",
            TimeWindows(9 * DAY, 9 * DAY),
        ),
        (
            "TUMBLE(TABLE s, DESCRIPTOR(ts), 1 DAY, TIMESTAMP '1970-01-02')",
            TimeWindows(DAY, DAY, DAY),
        ),
        (
            (
                "HOP(DATA => TABLE s, TIMECOL => DESCRIPTOR(ts), SIZE => 1 DAY, SLIDE => 1 HOUR, "
                "ORIGIN => DATE '1970-01-02')"
            ),
            TimeWindows(DAY, HOUR, DAY),
        ),
        (
            "CUMULATE(TABLE s, DESCRIPTOR(ts), 1 HOUR, 1 DAY, '1970-01-02 00:00')",
            CumulateWindows(HOUR, DAY, DAY),
        ),
        ("SESSION(TABLE s, DESCRIPTOR(ts), 30 MINUTES)", SessionWindows(30 * MINUTE)),
        ("HOP_ROWS(TABLE s, 5, 10)", RowWindows(10, 5)),
        ("TUMBLE_ROWS(TABLE s, DESCRIPTOR(ts), 10)", RowWindows(10, 10)),
        ("HOP(TABLE s, DESCRIPTOR(ts), :slide, 1 HOUR)", TimeWindows(HOUR, MINUTE, 0)),
    ],
)
@pytest.mark.parametrize("form", ["TABLE({})", "{}", "TABLE({}) AS w"])
def test_windows_are_read_from_their_function(call, windows, form):
    text = f"SELECT COUNT(*) FROM {form.format(call)} GROUP BY window_start, window_end"
    bound = bound_select(text, slide=dt.timedelta(minutes=1))
    assert bound.windows == windows
    assert bound.source.time == "ts"


MONTHS = Calendar(of_months=True)
IN_ROME = Calendar(of_months=False, zone="Europe/Rome")


@pytest.mark.parametrize(
    ("arguments", "windows"),
    [
        ("ts), 1 MONTH", TimeWindows(1, 1, 0, MONTHS)),
        ("ts), INTERVAL '1 year 6 months'", TimeWindows(18, 18, 0, MONTHS)),
        ("ts), 999999 MONTHS", TimeWindows(999_999, 999_999, 0, MONTHS)),
        ("ts), 1 YEAR, '1971-04-01'", TimeWindows(12, 12, 15, MONTHS)),
        (
            "ts), 2 QUARTERS, ORIGIN DATE '1969-12-28'",
            TimeWindows(6, 6, -1, replace(MONTHS, phase=27 * DAY)),
        ),
        (
            "utc), 1 MONTH, TIMEZONE 'Europe/Rome'",
            TimeWindows(1, 1, 0, replace(IN_ROME, of_months=True)),
        ),
        ("utc), 3 DAYS, TIMEZONE 'Europe/Rome'", TimeWindows(3, 3, 0, IN_ROME)),
        ("utc), 1 WEEK, TIMEZONE 'Europe/Rome'", TimeWindows(7, 7, 4, IN_ROME)),
        (
            "utc), 1 DAY, ORIGIN '1970-01-03 06:00', TIMEZONE 'Europe/Rome'",
            TimeWindows(1, 1, 2, replace(IN_ROME, phase=6 * HOUR)),
        ),
        (  # an instant: clocks in Rome show one hour more in winter
            "utc), 1 DAY, ORIGIN '1970-01-03 06:00+00', TIMEZONE 'Europe/Rome'",
            TimeWindows(1, 1, 2, replace(IN_ROME, phase=7 * HOUR)),
        ),
        ("utc), 6 HOURS, TIMEZONE 'Europe/Rome'", TimeWindows(6 * HOUR, 6 * HOUR, -HOUR)),
        ("utc), 1 HOUR, DATE '1970-01-02', 'Europe/Rome'", TimeWindows(HOUR, HOUR, 23 * HOUR)),
    ],
)
def test_months_and_days_of_a_zone_are_windows_of_a_calendar(arguments, windows):
    source = "(SELECT ts, ts AT TIME ZONE 'UTC' AS utc FROM memory)"
    call = f"TUMBLE(TABLE {source}, DESCRIPTOR({arguments})"
    assert bound_select(f"SELECT COUNT(*) FROM {call} GROUP BY window_end").windows == windows


def test_windows_over_an_integer_time_take_its_unit():
    bound = bound_select(
        "SELECT window_start, COUNT(*) FROM TABLE(HOP(TABLE ticks, DESCRIPTOR(t), 60, 300, -7)) "
        "GROUP BY window_start"
    )
    assert bound.windows == TimeWindows(300, 60, -7)
    assert bound.columns[0] == ("window_start", T.INTEGER)


def test_slide_is_at_most_the_size():
    text = "SELECT COUNT(*) FROM TABLE(HOP(TABLE ticks, DESCRIPTOR(t), {}, 7)) GROUP BY window_end"
    assert bound_select(text.format(7)).windows == TimeWindows(7, 7, 0)
    with pytest.raises(BindError, match="the slide of HOP, 8, is longer than the size 7"):
        bound_select(text.format(8))


def test_descriptor_says_which_column_of_a_table_in_memory_is_the_time():
    bound = bound_select(
        "SELECT COUNT(*) FROM TUMBLE(TABLE whole_memory, DESCRIPTOR(t), 5) GROUP BY window_end"
    )
    assert bound.source.time == "t"


PARTITIONED: list[tuple[str, Windows]] = [
    ("SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), 1 HOUR)", SessionWindows(HOUR, ("k",))),
    ("HOP_ROWS(TABLE s PARTITION BY k, n, 5, 10)", RowWindows(10, 5, ("k", "n"))),
    ("TUMBLE_ROWS(TABLE s PARTITION BY (k, N), 10)", RowWindows(10, 10, ("k", "n"))),
]


@pytest.mark.parametrize(("call", "windows"), PARTITIONED)
def test_sessions_and_rows_are_counted_by_key(call, windows):
    bound = bound_select(f"SELECT k, MAX(x) FROM TABLE({call}) GROUP BY window_end, k, n")
    assert bound.windows == windows
    assert bound.outer.group_by == (START, END, K, N)


@pytest.mark.parametrize(
    ("keys", "bound_keys"),
    [
        ("window_start, window_end", (START, END)),
        ("window_end", (START, END)),
        ("window_start", (START, END)),
        ("k, window_end", (START, END, K)),
        ("window_end, window_start, n, k", (START, END, N, K)),
        ("w.window_end, w.k", (START, END, K)),
    ],
)
def test_keys_of_windows_begin_with_the_window(keys, bound_keys):
    bound = bound_select(
        "SELECT window_start, COUNT(*) "
        f"FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), 1 HOUR, 2 HOURS)) w GROUP BY {keys}"
    )
    assert bound.outer.group_by == bound_keys


def test_windows_are_named_by_their_columns_anywhere_after_grouping():
    bound = bound_select(
        "SELECT window_end - window_start AS length, COUNT(*) AS c "
        "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), 1 HOUR)) GROUP BY window_start, window_end "
        "HAVING window_start > TIMESTAMP '2020-01-01' ORDER BY window_end DESC, c"
    )
    assert bound.outer.order_by[0] == SortKey(END, descending=True)
    assert bound.columns == (("length", T.INTERVAL), ("c", T.INTEGER))
    assert bound.time is None


@pytest.mark.parametrize(
    ("call", "ascending"),
    [
        ("TUMBLE(TABLE s, DESCRIPTOR(ts), 1 HOUR)", "window_end"),
        ("SESSION(TABLE s, DESCRIPTOR(ts), 1 HOUR)", "window_end"),
        # Sessions of other keys overlap, and end in another order than they begin.
        ("SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), 1 HOUR)", "window_start"),
        ("TUMBLE_ROWS(TABLE s PARTITION BY k, 5)", "window_start"),
    ],
)
def test_time_of_windows_is_a_column_by_which_they_ascend(call, ascending):
    bound = bound_select(
        f"SELECT window_end, window_start, k FROM TABLE({call}) GROUP BY window_end, k"
    )
    assert bound.time == ascending


@pytest.mark.parametrize(
    ("text", "aggregate"),
    [
        ("FIRST_VALUE(k)", Aggregate("first", K, None, T.STRING)),
        ("LAST_VALUE(DISTINCT n)", Aggregate("last", N, None, T.INTEGER)),
        ("FIRST(x)", Aggregate("first", X, None, T.DOUBLE)),
        ("last(ts)", Aggregate("last", TS, None, T.TIMESTAMP)),
        ("MEDIAN(x)", Aggregate("percentile", X, None, T.DOUBLE, fraction=0.5)),
        (
            "PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY x ASC)",
            Aggregate("percentile", X, None, T.DOUBLE, fraction=0.95),
        ),
        ("APPROX_PERCENTILE(x, 0.95)", Aggregate("percentile", X, None, T.DOUBLE, fraction=0.95)),
        ("APPROX_QUANTILE(x, 1)", Aggregate("percentile", X, None, T.DOUBLE, fraction=1.0)),
        ("COUNT(DISTINCT k)", Aggregate("count", K, None, T.INTEGER, distinct=True)),
        ("APPROX_COUNT_DISTINCT(k)", Aggregate("count", K, None, T.INTEGER, distinct=True)),
    ],
)
def test_aggregates_over_rows_of_a_stream(text, aggregate):
    assert bound_select(f"SELECT {text} AS a FROM s").outer.items == (("a", aggregate),)


def test_first_is_an_aggregate_wherever_one_can_stand():
    bound = bound_select("SELECT k FROM s GROUP BY k HAVING FIRST(x) > 1 ORDER BY LAST(x)")
    assert bound.outer.order_by == (SortKey(Aggregate("last", X, None, T.DOUBLE)),)
    with pytest.raises(BindError, match="cannot hold another aggregate"):
        bound_select("SELECT MAX(FIRST(x)) FROM s")


@pytest.mark.parametrize(
    "clause",
    ["WHERE a.x > 1", "ON a.k = b.k", "ORDER BY a.ts", "LIMIT 3", "OFFSET 1", "SLIDE 1", "ROWS"],
)
def test_clause_behind_the_number_of_a_join_is_no_misspelt_unit(clause):
    parse_query(f"SELECT a.x FROM s AS a JOIN s AS b WITHIN 3 {clause}")
