"""How a time column is read is decided by what it holds and what is asked."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

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
    TimeReading,
    TimeSource,
    choose_time_reading,
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
        (TimeSource.INSTANT, {"declared": "timestamp"}, "leave --time-zone out"),
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


@given(st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2037, 1, 1)))
def test_local_times_are_instants_of_their_zone(time: datetime) -> None:
    zone = ZoneInfo("Europe/Berlin")
    # The first of an hour that occurs twice; what never occurs moves on by the gap.
    expected = time.replace(tzinfo=zone, fold=0).astimezone(UTC)
    written = time.strftime("%Y-%m-%d %H:%M:%S.%f")
    assert after("yyyy-MM-dd HH:mm:ss.SSSSSS", [written], "Europe/Berlin") == [expected]


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
