"""Answers for machines: what text formats make of types they do not have."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from replay.formats import write_answer

TABLE = pa.table(
    {
        "raw": pa.array([b"a\xff", None], pa.binary()),
        "price": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)),
        "took": pa.array([dt.timedelta(seconds=2), None], pa.duration("us")),
        "day": pa.array([dt.date(2024, 2, 29), None], pa.date32()),
        "is_late": [True, False],
    }
)


def written(output_format: str) -> str:
    stream = io.BytesIO()
    write_answer(TABLE, output_format, stream)
    return stream.getvalue().decode()


def test_json_has_bytes_as_digits_and_what_it_cannot_carry_as_text() -> None:
    first, second = json.loads(written("json"))
    assert first == {
        "raw": "61ff", "price": "1.25", "took": 2.0, "day": "2024-02-29", "is_late": True,
    }  # fmt: skip
    assert second == dict.fromkeys(TABLE.column_names[:4]) | {"is_late": False}


def test_csv_has_bytes_as_digits_and_intervals_as_seconds() -> None:
    head, first, second = written("csv").splitlines()
    assert head == '"raw","price","took","day","is_late"'
    assert first == '"61ff",1.25,2,2024-02-29,true'
    assert second == ",,,,false"


def test_format_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown format 'xml'"):
        written("xml")
