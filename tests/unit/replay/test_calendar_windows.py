"""Windows of months and years, of a zone's days, and from where windows count: by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import replay
from chronicle import QueryError, StreamSettings, create_store
from chronicle.store import Store

EVENTS = {
    "s": (  # of a local clock
        "2019-12-31 23:59:59.999999",
        "2020-01-31 12:00",
        "2020-02-29 00:00",
        "2020-03-01 00:00",
        "2021-03-14 08:30",
    ),
    "utc": (  # in Chicago: 31 Oct 23:00, 6 Nov 23:30, 7 Nov 0:30, 1:30 twice, 23:30, 13 Mar 12:00
        "2021-11-01 04:00",
        "2021-11-07 04:30",
        "2021-11-07 05:30",
        "2021-11-07 06:30",
        "2021-11-07 07:30",
        "2021-11-08 05:30",
        "2022-03-13 18:00",
    ),
    "samoa": ("2011-12-30 09:30", "2011-12-30 10:30"),  # 23:30 of the 29th, 0:30 of the 31st
    "late": ("2037-12-31 23:00",),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return streams with one event a block, so that the tree tells windows."""
    folder: Path = tmp_path_factory.mktemp("calendar")
    store = create_store(folder / "store")
    for name, times in EVENTS.items():
        kind = pa.timestamp("us", None if name == "s" else "UTC")
        texts = pa.array([text.replace(" ", "T") for text in times])
        table = pa.table({"t": texts.cast(pa.timestamp("us")).cast(kind), "x": range(len(times))})
        store.create_stream(name, table.schema, StreamSettings("t", block_events=2)).append(table)
    return store


def counted(store: Store, stream: str, function: str, arguments: str) -> list[tuple[str, str, int]]:
    """Return start, end and number of events of each window, the same by every plan and online."""
    sql = f"""SELECT window_start, window_end, COUNT(*) AS n, SUM(x) AS total
    FROM {function}(TABLE {stream}, DESCRIPTOR(t), {arguments})
    GROUP BY window_start, window_end"""
    answers = [
        replay.query(store, sql, plan=plan).table for plan in ("replay", "tree", "tree-naive")
    ]
    events = replay.query(store, f"SELECT t, x FROM {stream}").table
    online = replay.online(sql, events.schema, time="t")
    pieces = [online.push(events.slice(at, 1)) for at in range(events.num_rows)]
    answers.append(pa.concat_tables([*pieces, online.finish()]))
    first, *others = answers
    assert all(other.equals(first) for other in others)
    names = ("window_start", "window_end", "n")
    columns = [first.column(name).cast(pa.string()).to_pylist() for name in names]
    columns[:2] = [[text[:16] for text in column] for column in columns[:2]]
    return [(start, end, int(n)) for start, end, n in zip(*columns, strict=True)]


def test_months_and_years_begin_when_they_do(store: Store) -> None:
    assert counted(store, "s", "TUMBLE", "1 MONTH")[:5] == [
        ("2019-12-01 00:00", "2020-01-01 00:00", 1),
        ("2020-01-01 00:00", "2020-02-01 00:00", 1),
        ("2020-02-01 00:00", "2020-03-01 00:00", 1),
        ("2020-03-01 00:00", "2020-04-01 00:00", 1),
        ("2020-04-01 00:00", "2020-05-01 00:00", 0),
    ]
    assert counted(store, "s", "TUMBLE", "1 YEAR") == [
        ("2019-01-01 00:00", "2020-01-01 00:00", 1),
        ("2020-01-01 00:00", "2021-01-01 00:00", 3),
        ("2021-01-01 00:00", "2022-01-01 00:00", 1),
    ]
    # Decades from 1970; a fiscal year; half years every quarter; growing by a quarter.
    assert counted(store, "s", "TUMBLE", "10 YEARS") == [
        ("2010-01-01 00:00", "2020-01-01 00:00", 1),
        ("2020-01-01 00:00", "2030-01-01 00:00", 4),
    ]
    assert counted(store, "s", "TUMBLE", "1 YEAR, ORIGIN DATE '2000-03-01'") == [
        ("2019-03-01 00:00", "2020-03-01 00:00", 3),
        ("2020-03-01 00:00", "2021-03-01 00:00", 1),
        ("2021-03-01 00:00", "2022-03-01 00:00", 1),
    ]
    assert counted(store, "s", "HOP", "1 QUARTER, 2 QUARTERS")[:3] == [
        ("2019-07-01 00:00", "2020-01-01 00:00", 1),
        ("2019-10-01 00:00", "2020-04-01 00:00", 4),
        ("2020-01-01 00:00", "2020-07-01 00:00", 3),
    ]
    assert counted(store, "s", "CUMULATE", "6 MONTHS, 1 YEAR") == [
        ("2019-01-01 00:00", "2020-01-01 00:00", 1),
        ("2020-01-01 00:00", "2020-07-01 00:00", 3),
        ("2020-01-01 00:00", "2021-01-01 00:00", 3),
        ("2021-01-01 00:00", "2021-07-01 00:00", 1),
        ("2021-01-01 00:00", "2022-01-01 00:00", 1),
    ]


def test_weeks_begin_on_monday_and_days_at_midnight_unless_an_origin_is_given(store: Store) -> None:
    # 2019-12-31 is a Tuesday.
    assert counted(store, "s", "TUMBLE", "1 WEEK")[0] == ("2019-12-30 00:00", "2020-01-06 00:00", 1)
    assert counted(store, "s", "TUMBLE", "1 DAY")[0] == ("2019-12-31 00:00", "2020-01-01 00:00", 1)
    late = counted(store, "s", "TUMBLE", "1 WEEK, ORIGIN TIMESTAMP '2020-01-01 06:00'")
    assert late[0] == ("2019-12-25 06:00", "2020-01-01 06:00", 1)
    first = counted(store, "s", "TUMBLE", "1 WEEK, ORIGIN FIRST EVENT")
    assert first[0] == ("2019-12-31 23:59", "2020-01-07 23:59", 1)


def test_days_of_a_zone_have_as_many_hours_as_its_clocks_show(store: Store) -> None:
    days = counted(store, "utc", "TUMBLE", "1 DAY, TIMEZONE 'America/Chicago'")
    assert days[0] == ("2021-10-31 05:00", "2021-11-01 05:00", 1)
    assert days[6:9] == [
        ("2021-11-06 05:00", "2021-11-07 05:00", 1),
        ("2021-11-07 05:00", "2021-11-08 06:00", 4),  # 25 hours
        ("2021-11-08 06:00", "2021-11-09 06:00", 0),
    ]
    assert days[-1] == ("2022-03-13 06:00", "2022-03-14 05:00", 1)  # 23 hours
    months = counted(store, "utc", "TUMBLE", "1 MONTH, TIMEZONE 'America/Chicago'")
    assert months[:2] == [
        ("2021-10-01 05:00", "2021-11-01 05:00", 1),
        ("2021-11-01 05:00", "2021-12-01 06:00", 5),
    ]
    # 6 in the evening; a week from Monday; 6 hours have 6 hours, from 1970-01-01 06:00 UTC.
    evenings = "1 DAY, ORIGIN TIMESTAMP '2000-01-01 18:00', TIMEZONE 'America/Chicago'"
    assert counted(store, "utc", "TUMBLE", evenings)[6:8] == [
        ("2021-11-06 23:00", "2021-11-08 00:00", 4),
        ("2021-11-08 00:00", "2021-11-09 00:00", 1),
    ]
    weeks = counted(store, "utc", "TUMBLE", "1 WEEK, TIMEZONE 'America/Chicago'")
    assert weeks[:2] == [
        ("2021-10-25 05:00", "2021-11-01 05:00", 1),
        ("2021-11-01 05:00", "2021-11-08 06:00", 5),
    ]
    hours = counted(store, "utc", "TUMBLE", "6 HOURS, TIMEZONE 'America/Chicago'")
    assert hours[0] == ("2021-11-01 00:00", "2021-11-01 06:00", 1)


def test_a_day_that_a_zone_skipped_is_a_window_of_no_time(store: Store) -> None:
    assert counted(store, "samoa", "TUMBLE", "1 DAY, TIMEZONE 'Pacific/Apia'") == [
        ("2011-12-29 10:00", "2011-12-30 10:00", 1),
        ("2011-12-30 10:00", "2011-12-30 10:00", 0),
        ("2011-12-30 10:00", "2011-12-31 10:00", 1),
    ]


def test_what_is_not_known_of_clocks_is_refused(store: Store) -> None:
    with pytest.raises(QueryError, match="known from the year 1 to 2037, and these windows reach"):
        counted(store, "late", "TUMBLE", "1 DAY, TIMEZONE 'Asia/Tokyo'")


@pytest.mark.parametrize(
    ("stream", "arguments", "origin"),
    [
        ("s", "1 WEEK", "1970-01-05 00:00:00"),
        ("s", "1 WEEK, ORIGIN FIRST EVENT", "the first event"),
        ("s", "1 YEAR, ORIGIN DATE '2020-04-15'", "2020-04-15 00:00:00"),
        ("utc", "1 WEEK, TIMEZONE 'Asia/Tokyo'", "1970-01-05 00:00:00 in Asia/Tokyo"),
        ("(SELECT t FROM s WHERE x > 2)", "1 DAY", "1970-01-01 00:00:00"),
    ],
)
def test_explain_names_the_origin(store: Store, stream: str, arguments: str, origin: str) -> None:
    sql = f"""SELECT window_start, COUNT(*) AS n FROM TUMBLE(TABLE {stream}, DESCRIPTOR(t),
    {arguments}) GROUP BY window_start"""
    assert f", counted from {origin}\n" in f"{replay.explain(store, sql)}\n"


def test_a_snapshot_goes_on_with_windows_of_the_same_origin_only(store: Store) -> None:
    sql = """SELECT window_start, COUNT(*) AS n
    FROM TUMBLE(TABLE s, DESCRIPTOR(t), 1 MONTH{}) GROUP BY window_start"""
    events = replay.query(store, "SELECT t FROM s").table
    first = replay.online(sql.format(""), events.schema, time="t")
    told = [first.push(events.slice(0, 2))]
    again = replay.online(sql.format(""), events.schema, time="t")
    again.restore(first.snapshot())
    told += [again.push(events.slice(2)), again.finish()]
    assert pa.concat_tables(told).equals(replay.query(store, sql.format("")).table)
    other = replay.online(sql.format(", DATE '2020-01-02'"), events.schema, time="t")
    with pytest.raises(QueryError, match="another query"):
        other.restore(first.snapshot())
