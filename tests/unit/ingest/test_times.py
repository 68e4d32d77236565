"""How a time column is read is decided by what it holds and what is asked."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.times import (
    ISO_OFFSET,
    ISO_TIME,
    ISO_TOO_FINE,
    TimeSource,
    choose_time_reading,
    has_offset_field,
)


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
    ],
)
def test_kind_of_time(source: TimeSource, given: dict[str, Any], kind: str) -> None:
    assert choose(source, **given) == kind


@pytest.mark.parametrize(
    ("source", "given", "message"),
    [
        (TimeSource.INTEGER, {"zone": "UTC"}, "leave --time-zone out"),
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
