"""How a time column is read is decided by what it holds and what is asked."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.time_patterns import has_offset_field
from chronicle.ingest.times import (
    ISO_OFFSET,
    ISO_TIME,
    ISO_TOO_FINE,
    Fault,
    Look,
    TimeReading,
    TimeSource,
    choose_time_reading,
    look_at_times,
    read_times,
)
from chronicle.time import cut_to_us


def choose(source: TimeSource, **given: Any) -> str:
    nothing = {"declared": None, "pattern": None, "zone": None, "text_has_offset": False}
    return choose_time_reading(source, column="t", **{**nothing, **given}).kind


@pytest.mark.parametrize(
    ("source", "given", "kind"),
    [
        (TimeSource.INTEGER, {}, "integer"),
        (TimeSource.LOCAL, {}, "timestamp"),
        (TimeSource.LOCAL, {"zone": "UTC"}, "timestamp_utc"),
        (TimeSource.INSTANT, {}, "timestamp_utc"),
        (TimeSource.INSTANT, {"zone": "UTC"}, "timestamp_utc"),
        (TimeSource.TEXT, {}, "timestamp"),
        (TimeSource.TEXT, {"text_has_offset": True}, "timestamp_utc"),
        (TimeSource.TEXT, {"zone": "UTC"}, "timestamp_utc"),
        (TimeSource.TEXT, {"declared": "timestamp_utc"}, "timestamp_utc"),
        (TimeSource.TEXT, {"declared": "timestamp", "text_has_offset": True}, "timestamp"),
        (TimeSource.TEXT, {"pattern": "yyyy"}, "timestamp"),
        (TimeSource.TEXT, {"pattern": "yyyy XXX"}, "timestamp_utc"),
        (TimeSource.INTEGER, {"unit": "ms"}, "timestamp_utc"),
        (TimeSource.NUMBER, {"unit": "s", "declared": "timestamp_utc"}, "timestamp_utc"),
    ],
)
def test_kind_of_time(source: TimeSource, given: dict[str, Any], kind: str) -> None:
    assert choose(source, **given) == kind


@pytest.mark.parametrize(
    ("source", "given", "message"),
    [
        (TimeSource.INTEGER, {"zone": "UTC"}, "leave --time-zone out"),
        (TimeSource.INTEGER, {"declared": "timestamp"}, "give the --time-unit"),
        (TimeSource.NUMBER, {}, "give the --time-unit"),
        (TimeSource.TEXT, {"unit": "s"}, "leave --time-unit out"),
        (TimeSource.LOCAL, {"pattern": "yyyy"}, "leave --time-format out"),
        (TimeSource.LOCAL, {"declared": "timestamp_utc"}, "give --time-zone"),
        (TimeSource.INSTANT, {"declared": "timestamp"}, "into a new stream"),
        (TimeSource.TEXT, {"declared": "timestamp", "zone": "UTC"}, "leave --time-zone out"),
        (TimeSource.LOCAL, {"declared": "integer"}, "holds dates or timestamps.*, not the integer"),
        (TimeSource.INSTANT, {"declared": "integer"}, "holds timestamps, not the integer"),
        (TimeSource.TEXT, {"declared": "integer"}, "holds text, not the integers it must; convert"),
    ],
)
def test_what_cannot_apply_is_refused(
    source: TimeSource, given: dict[str, Any], message: str
) -> None:
    with pytest.raises((SchemaError, SourceError), match=message):
        choose(source, **given)


@pytest.mark.parametrize(
    ("pattern", "absolute"),
    [
        ("yyyy-MM-dd HH:mm:ss", False),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", True),
        ("yyyy-MM-dd'Z'", False),
        ("dd/MM/yyyy z", True),
        ("yyyy 'o''x' O", True),
    ],
)
def test_pattern_with_an_offset_is_told(pattern: str, absolute: bool) -> None:
    assert has_offset_field(pattern) is absolute


@pytest.mark.parametrize(
    ("text", "is_time", "has_offset"),
    [
        ("2020-01-02", True, False),
        ("2020-01-02T03:04", True, False),
        ("2020-01-02 03:04:05.123456", True, False),
        ("2020-01-02T03:04:05Z", True, True),
        ("2020-01-02T03:04:05.5-06:00", True, True),
        ("2020-01-02 03:04:05 Europe/Berlin", True, True),
        ("-0044-03-15", True, False),
        ("12:30", False, False),
        ("2020", False, False),
        ("20200102", False, False),
        ("2020-01", False, False),
        ("2020-01-02Z", False, False),
        ("yesterday", False, False),
    ],
)
def test_iso_times_are_told_from_other_text(text: str, is_time: bool, has_offset: bool) -> None:
    assert bool(re.search(ISO_TIME, text)) is is_time
    assert bool(re.search(ISO_OFFSET, text)) is has_offset


@pytest.mark.parametrize(
    ("text", "too_fine"),
    [
        ("2020-01-02T03:04:05.123456", False),
        ("2020-01-02T03:04:05.123456000Z", False),
        ("2020-01-02T03:04:05.1234561", True),
        ("2020-01-02T03:04:05.123456001Z", True),
    ],
)
def test_digits_beyond_microseconds_are_seen(text: str, too_fine: bool) -> None:
    assert bool(re.search(ISO_TOO_FINE, text)) is too_fine


# ---------------------------------------------------------------------------------------------
# Times after a pattern, and numbers.


def after(pattern: str, texts: list[str | None], zone: str | None = None) -> list[Any]:
    absolute = zone is not None or has_offset_field(pattern)
    kind = "timestamp_utc" if absolute else "timestamp"
    reading = TimeReading(TimeSource.TEXT, kind, pattern, zone)  # type: ignore[arg-type]
    found = read_times(pa.array(texts, pa.string()), reading, pa.timestamp("us"))
    assert [time is None for time in found.times.to_pylist()] == (found.faults != 0).tolist()
    return list(found.times.to_pylist())


@pytest.mark.parametrize(
    ("pattern", "text", "time"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-02-29 23:59:58.5",
         datetime(2024, 2, 29, 23, 59, 58, 500_000)),
        ("yyyy-MM-dd HH:mm:ss", "2023-02-29 00:00:00", None),
        ("dd/MM/yyyy", "01/02/2024", datetime(2024, 2, 1)),
        ("MM/dd/yyyy", "01/02/2024", datetime(2024, 1, 2)),
        ("M/d/yy h:mm a", "1/2/24 12:05 am", datetime(2024, 1, 2, 0, 5)),
        ("M/d/yy h:mm a", "1/2/24 12:05 PM", datetime(2024, 1, 2, 12, 5)),
        ("M/d/yy h:mm a", "1/2/24 13:05 PM", None),
        ("EEE, d MMM yyyy HH:mm:ss", "Tue, 5 Mar 2024 06:07:08", datetime(2024, 3, 5, 6, 7, 8)),
        ("yyyyMMdd'T'HHmm", "20240305T0607", datetime(2024, 3, 5, 6, 7)),
        ("yyyy-MM-dd['T'HH:mm]", "2024-03-05", datetime(2024, 3, 5)),
        ("dd/MM/yyyy", "1/2/2024", None),
        ("%d/%m/%Y %H:%M:%S", "01/02/2024 03:04:05", datetime(2024, 2, 1, 3, 4, 5)),
        ("%b %d %Y %I:%M %p", "Feb 01 2024 03:04 pm", datetime(2024, 2, 1, 15, 4)),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-02-01 03:04:05.1234567", None),
        ("yyyy-MM-dd HH:mm XXX", "2024-02-01 03:04 +02:00", datetime(2024, 2, 1, 1, 4, tzinfo=UTC)),
        ("yyyy-MM-dd HH:mm VV", "2024-07-01 03:04 Europe/Berlin",
         datetime(2024, 7, 1, 1, 4, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_times_are_read_after_a_pattern(pattern: str, text: str, time: datetime | None) -> None:
    assert after(pattern, [text, None]) == [time, None]


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2199, 12, 31)))
def test_what_strftime_writes_is_read_back(time: datetime) -> None:
    assert after("%d.%m.%Y %H:%M:%S.%f", [time.strftime("%d.%m.%Y %H:%M:%S.%f")]) == [time]


@given(st.dates(min_value=date(1969, 1, 1), max_value=date(2068, 12, 31)))
def test_two_digits_of_a_year_are_those_of_strptime(day: date) -> None:
    for pattern in ("%d%m%y", "%D"):
        text = day.strftime(pattern)
        assert after(pattern, [text]) == [
            datetime.strptime(text, pattern.replace("%D", "%m/%d/%y"))
        ]
    assert after("dd/MM/yy", [f"{day:%d/%m/%y}"]) == [
        datetime(2000 + day.year % 100, *day.timetuple()[1:3])
    ]


@given(st.dates(min_value=date(1, 1, 1)), st.sampled_from(range(7)))
def test_a_weekday_that_is_not_that_of_its_date_is_put_aside(day: date, number: int) -> None:
    name = f"{date(2024, 1, 1 + number):%A}"
    time = datetime.combine(day, datetime.min.time()) if day.weekday() == number else None
    text = f"{day.year:04}-{day:%m-%d}"
    for pattern, written in (
        ("EEE yyyy-MM-dd", name[:3]),
        ("%A %F", name),
        ("[EEE ]yyyy-MM-dd", name),
    ):
        assert after(pattern, [f"{written} {text}"]) == [time]
    assert after("%a %Y %j", [f"{name[:3]} {day.year:04} {day:%j}"]) == [time]
    assert after("[EEE ]yyyy-MM-dd", [text]) == [datetime.combine(day, datetime.min.time())]


def test_the_reason_names_the_weekday() -> None:
    reading = TimeReading(TimeSource.TEXT, "timestamp", "EEE yyyy-MM-dd", None)
    found = read_times(pa.array(["Mon 2026-03-05", "Mon 2026-03-32"]), reading, pa.timestamp("us"))
    assert [Fault(one) for one in found.faults.tolist()] == [Fault.WEEKDAY, Fault.UNPARSABLE]


@pytest.mark.parametrize("day", ["Mar  5 2026", "Mar 05 2026", "Mar 5 2026"])
def test_a_day_may_be_padded_with_a_blank(day: str) -> None:
    assert after("%b %e %Y", [day]) == [datetime(2026, 3, 5)]
    assert after("%e. %b %Y", [" 5. Mar 2026", "15. Mar 2026"])[1] == datetime(2026, 3, 15)


@pytest.mark.parametrize("hour", range(24))
def test_each_way_to_count_hours_gives_the_hour(hour: int) -> None:
    half = "AM" if hour < 12 else "PM"
    time = datetime(2026, 3, 5, hour)
    assert after("yyyy-MM-dd HH", [f"2026-03-05 {hour:02}"]) == [time]
    assert after("yyyy-MM-dd kk", [f"2026-03-05 {hour or 24:02}"]) == [time]
    assert after("yyyy-MM-dd hh a", [f"2026-03-05 {(hour - 1) % 12 + 1:02} {half}"]) == [time]
    assert after("yyyy-MM-dd KK a", [f"2026-03-05 {hour % 12:02} {half}"]) == [time]


def test_a_text_without_the_partner_of_a_field_is_no_time() -> None:
    texts = ["2026-03-05 01:00", "2026-03-05 AM", "2026-03-05 01:00 PM", "2026-03-05"]
    assert after("yyyy-MM-dd[ hh:mm][ a]", texts) == [
        None, None, datetime(2026, 3, 5, 13), datetime(2026, 3, 5),
    ]  # fmt: skip
    assert after("[yyyy-]MM-dd", ["03-05"]) == [None]


@pytest.mark.parametrize(
    "text", ["2026-01-01t00:00:00z", "2026-01-01T00:00:00z", "2026-01-01t00:00:00.0000000z"]
)
@pytest.mark.parametrize("pattern", [None, "yyyy-MM-dd'T'HH:mm:ss[.SSSSSSS]XXX"])
def test_small_letters_of_rfc_3339_are_read(text: str, pattern: str | None) -> None:
    reading = TimeReading(TimeSource.TEXT, "timestamp_utc", pattern, None)
    found = read_times(pa.array([text]), reading, pa.timestamp("us", "UTC"))
    assert found.times.to_pylist() == [datetime(2026, 1, 1, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("yyyy-MM-DD", "day of the year"), ("%Y %j %b", "day of the year"), ("%j %D", "day of the"),
        ("yyyy-MM-dd hh:mm", "without AM or PM"), ("%Y-%m-%d %I:%M", "without AM or PM"),
        ("yyyy-MM-dd KK", "without AM or PM"), ("yyyy-MM-dd HH:mm a", "without the hour from 1"),
        ("yyyy-MM-dd HH hh a", "HH or %H"), ("%F %T %I %p", "contradict"), ("yyyy kk HH", "kk"),
        ("yyyy MM MMM", "contradict"), ("%Y %m %b", "contradict"), ("yyyy-mm-dd", "without the mo"),
        ("yyyy-MM-dd mm", "without the hour"), ("yyyy-MM-dd HH:ss", "without the minute"),
        ("yyyy-MM-dd HH:mm.SSS", "without the second"), ("EEE yyyy-MM", "without the day"),
    ],
)  # fmt: skip
def test_a_pattern_that_contradicts_itself_or_lacks_a_field_is_refused(
    pattern: str, why: str
) -> None:
    with pytest.raises(SourceError, match=f"no pattern of times: .*{why}"):
        has_offset_field(pattern)


@pytest.mark.parametrize("pattern", ["yyyy-bb", "HH:mm", "%Y %Q", "yyyy yyyy", "[yyyy", "yyyy a"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(SourceError, match="no pattern of times"):
        has_offset_field(pattern)


@pytest.mark.parametrize(
    ("unit", "raw", "us", "n_cut"),
    [
        ("s", [1, -1, None], [1_000_000, -1_000_000, None], 0),
        ("s", ["1.5", "-1.25", "x"], [1_500_000, -1_250_000, None], 0),
        ("s", [1.5, 1e9], [1_500_000, 10**15], 0),
        ("s", ["1.0000019", "1.0000010"], [1_000_001, 1_000_001], 1),
        ("ms", [1, 2**62], [1000, None], 0),
        ("us", ["7"], [7], 0),
        ("ns", [1999, -1, 3000], [1, -1, 3], 2),
    ],
)
def test_numbers_are_instants_of_their_unit(
    unit: str, raw: list[Any], us: list[int | None], n_cut: int
) -> None:
    reading = TimeReading(TimeSource.NUMBER, "timestamp_utc", None, None, unit)
    found = read_times(pa.array(raw), reading, pa.timestamp("us", "UTC"))
    assert found.times.cast(pa.int64()).to_pylist() == us
    assert found.n_cut == n_cut


@given(st.lists(st.integers(-(2**60), 2**60)))
def test_nanoseconds_are_cut_downwards_and_counted(values: list[int]) -> None:
    found, n_cut = cut_to_us(pa.array(values, pa.timestamp("ns")))
    assert found.cast(pa.int64()).to_pylist() == [value // 1000 for value in values]
    assert n_cut == sum(value % 1000 != 0 for value in values)


# ---------------------------------------------------------------------------------------------
# Times that are too far, and what most times of a column look like.


@pytest.mark.parametrize(
    ("raw", "unit"),
    [
        (pa.array([2**40, 0, -(2**40)], pa.int64()).cast(pa.timestamp("s")), None),
        (pa.array([2**60, 0, -(2**60)], pa.int64()).cast(pa.timestamp("ms")), None),
        (pa.array([2**62, 0, -(2**62)], pa.int64()).cast(pa.timestamp("us")), None),
        (pa.array([2**63 - 1, 0, -(2**63)], pa.int64()).cast(pa.timestamp("us")), None),
        (pa.array([2**31 - 1, 0, -(2**31)], pa.int32()).cast(pa.date32()), None),
        (pa.array(["200000-01-01", "1970-01-01", "-200000-01-01"]), None),
        (pa.array([2**43, 0, -(2**43)], pa.int64()), "s"),
        (pa.array(["1" * 30, "0", "-" + "1" * 30]), "ms"),
    ],
)
def test_only_a_time_that_is_too_far_is_put_aside(raw: pa.Array, unit: str | None) -> None:
    source = TimeSource.TEXT if raw.type == pa.string() else TimeSource.LOCAL
    for kind, zone in (("timestamp", None), ("timestamp_utc", "Europe/Berlin")):
        reading = TimeReading(source, kind, None, zone, unit)  # type: ignore[arg-type]
        found = read_times(raw, reading, pa.timestamp("us", "UTC"))
        far = Fault.OUT_OF_RANGE
        if raw.type == pa.timestamp("s"):  # within the range, far as they are
            far = Fault.NONE
        assert [Fault(one) for one in found.faults.tolist()] == [far, Fault.NONE, far]


def test_numbers_that_stay_as_they_are_lie_within_the_range_and_are_no_names() -> None:
    reading = TimeReading(TimeSource.INTEGER, "integer", None, None)
    texts = ["5", "x", str(2**62), str(-(2**62)), "9" * 30, "007", "+5", "1.5", None]
    found = read_times(pa.array(texts), reading, pa.int64())
    assert found.times.to_pylist() == [5] + [None] * 8
    far, not_read = Fault.OUT_OF_RANGE, Fault.UNPARSABLE
    assert [Fault(one) for one in found.faults.tolist()] == [
        Fault.NONE, not_read, far, far, far, not_read, not_read, not_read, Fault.NO_TIME,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "source", "has_offset"),
    [
        (["x", "1", "3"], TimeSource.INTEGER, False),
        (["?", "?", "1"], TimeSource.INTEGER, False),
        (["x", "2026-01-01", "5"], TimeSource.TEXT, False),
        (["x", "5", "2026-01-01"], TimeSource.INTEGER, False),
        (["1.5", "x", "2.5"], TimeSource.NUMBER, False),
        (["5", "2026-01-01", "2026-01-02T00:00:00"], TimeSource.TEXT, False),
        (["2026-01-01T00:00:00Z", "2026-01-01"], TimeSource.TEXT, True),
        (["2026-01-01T00:00:00", "2026-01-01T00:00:00Z"], TimeSource.TEXT, False),
        (["01/02/2026", "2026-01-01", "2026-01-02"], TimeSource.TEXT, False),
        (["x"], None, False),
        ([], None, False),
        (["007", "+5"], None, False),
    ],
)
def test_most_times_tell_what_a_column_holds(
    texts: list[str], source: TimeSource | None, has_offset: bool
) -> None:
    assert look_at_times(pa.array(texts, pa.string()), "t") == Look(source, has_offset)


def test_times_of_which_most_can_be_two_days_are_refused() -> None:
    with pytest.raises(SourceError, match=r"'01/02/2026'.*does not tell the day from the month"):
        look_at_times(pa.array(["x", "01/02/2026", "02/02/2026", "2026-01-01"]), "t")
