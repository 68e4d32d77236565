"""Files of CSV and JSON lines are taken apart into records: no line is lost, none is two."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SchemaError, SourceError
from chronicle.local.json_records import infer_json, json_lines, split_json
from chronicle.local.text_records import lines_of, split_csv, split_record

CELL = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"))


@given(st.lists(CELL, min_size=1))
def test_cells_written_by_a_csv_writer_read_back(cells: list[str]) -> None:
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="").writerow(cells)
    assert split_record(written.getvalue()) == cells


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("a,b,", ["a", "b", ""]),
        ('a,"b"x,c', ["a", '"b"x', "c"]),  # not closed before the comma: taken as it stands
        ('a,"b" ,c', ["a", "b", "c"]),
        ('a,"b,x"y,c', ["a", '"b,x"y', "c"]),
        ('a,"b""x"y,c', ["a", '"b"x"y', "c"]),
        ('a,"b,c', ["a", "b,c"]),  # never closed: to the end of the line
        ('a,b"c,d', ["a", 'b"c', "d"]),
        ('a,""b"",c', ["a", '""b""', "c"]),
        ('a,"', ["a", '"']),
    ],
)
def test_quotes_out_of_place_are_read_as_spark_reads_them(line: str, cells: list[str]) -> None:
    assert split_record(line) == cells


PLAIN = st.text(st.sampled_from("ab 1\t\u00fc.;'"), max_size=4)


@given(st.lists(st.lists(PLAIN, min_size=1, max_size=4)), st.sampled_from(["\n", "\r\n", "\r"]))
def test_file_without_quotes_is_split_as_one_with_quotes(rows: list[list[str]], end: str) -> None:
    names = ("x", "y", "z")
    lines = [",".join(row) for row in rows]
    quick = split_csv((end.join(["x,y,z", *lines]) + end).encode(), names)
    # A last record with a quote sends all of them the other way.
    slow = split_csv((end.join(["x,y,z", *lines, '"q",,']) + end).encode(), names)
    n = len(slow.malformed) - 1
    assert quick.malformed.tolist() == slow.malformed.tolist()[:n]
    for name in names:
        assert quick.cells[name].to_pylist() == slow.cells[name].to_pylist()[:n]


def test_blank_lines_and_headers_are_no_records() -> None:
    records = split_csv(b"\xef\xbb\xbfx,y\r\n1,2\r\n \t\r\n\r\n3\n,\n", ("x", "y"))
    assert records.malformed.tolist() == [False, True, False]
    assert records.cells["x"].to_pylist() == ["1", None, None]
    assert records.texts == ["1,2", "3", ","]
    assert lines_of("a\rb\r\nc\x0bd\n") == ["a", "b", "c\x0bd"]


VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8")),
)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUE)))
def test_json_read_leniently_is_json_read_strictly(rows: list[dict[str, Any]]) -> None:
    strict = "".join(json.dumps(row) + "\n" for row in rows)
    # What follows the value of a line is passed over, but Python's reader refuses it.
    lenient = "".join(json.dumps(row) + " x\n" for row in rows)
    schema = pa.schema([(name, pa.string()) for name in "abc"])
    first, second = (split_json(text.encode(), schema) for text in (strict, lenient))
    assert not first.malformed.any()
    assert not second.malformed.any()
    assert first.cells == second.cells
    assert len(first.malformed) == len(rows)


@pytest.mark.parametrize(
    ("value", "data_type", "cell"),
    [
        ("1.50", pa.string(), "1.50"),
        ('{"b": [1,  2.0]}', pa.string(), '{"b": [1,  2.0]}'),
        ("true", pa.string(), "true"),
        ('""', pa.string(), ""),
        ("'it\"s'", pa.string(), 'it"s'),
        ('"\\ud83d\\ude00"', pa.string(), "\U0001f600"),
        ('"\\ud800"', pa.string(), "?"),
        ("1", pa.int64(), "1"),
        ("1.0", pa.int64(), "bad"),
        ('"1"', pa.int64(), "bad"),
        ('""', pa.int64(), "bad"),
        ("null", pa.int64(), None),
        ("NaN", pa.float64(), "NaN"),
        ('"-INF"', pa.float64(), "-Infinity"),
        ('"1.5"', pa.float64(), "bad"),
        ("true", pa.bool_(), "true"),
        ('"true"', pa.bool_(), "bad"),
        ('"1.5"', pa.decimal128(5, 2), "1.5"),
        ("5", pa.timestamp("us", "UTC"), "1970-01-01T00:00:05Z"),
        ("5", pa.timestamp("us"), "bad"),
        ('"aGk="', pa.binary(), b"hi"),
        ('"aGk"', pa.binary(), "bad"),
    ],
)
@pytest.mark.parametrize("behind", ["", " x"], ids=["strictly", "leniently"])
def test_json_value_becomes_the_cell_of_a_column(
    value: str, data_type: pa.DataType, cell: Any, behind: str
) -> None:
    line = f'{{"x": {value}}}{behind}\n'
    records = split_json(line.encode(), pa.schema([("x", data_type)]))
    assert records.malformed.tolist() == [cell == "bad"]
    assert records.cells["x"].to_pylist() == [None if cell == "bad" else cell]


@pytest.mark.parametrize(
    ("line", "n_records"),
    [
        ('{"a": 1', 0),
        ('{"a": 01}', 0),
        ("{a: 1}", 0),
        ("[1]", 0),
        ("5", 0),
        ('{"a": "\\x"}', 0),
        ('{"a": "tab\there"}', 0),
        ("{" * 5000, 0),
        ('{"a": ' + "[" * 5000, 0),
        ('{"a": 1} {"a": 2}', 1),
        ('[{"a": 1}, {"a": 2}]', 2),
        ("{}", 1),
    ],
)
def test_line_holds_as_many_records_as_spark_finds(line: str, n_records: int) -> None:
    assert [len(group) for _, group in json_lines(line.encode())] == [n_records]


def test_empty_array_and_blank_line_are_no_records() -> None:
    assert list(json_lines(b"[]\n \n\r\n")) == []


def test_columns_of_json_are_inferred_by_name() -> None:
    data = b'{"b": 1, "a": null, "c": 1}\n{"b": 2.5, "c": "x", "d": true}\n{"d": false}\n'
    assert infer_json(data, where="here") == pa.schema(
        [("a", pa.string()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.bool_())]
    )
    with pytest.raises(SchemaError, match="column 'a' of here holds objects"):
        infer_json(b'{"a": {"b": 1}}\n', where="here")
    with pytest.raises(SourceError, match="here holds no record"):
        infer_json(b"[]\n", where="here")
