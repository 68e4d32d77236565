"""Types of CSV and JSON columns: what is told of them, and what no number may lose."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pyarrow as pa
import pytest

from chronicle.errors import SchemaError
from chronicle.ingest.local import FileEvents, read_files
from chronicle.ingest.read_options import ReadOptions


def written(path: Path, cells: Sequence[str]) -> list[Path]:
    """Write a column ``v`` as CSV, or as JSON where each cell is its spelling there."""
    lines = [f"{n},{cell}" for n, cell in enumerate(cells)]
    if path.suffix == ".jsonl":
        lines = [f'{{"t": {n}, "v": {cell}}}' for n, cell in enumerate(cells)]
    else:
        lines = ["t,v", *lines]
    path.write_text("\n".join(lines) + "\n")
    return [path]


def read(paths: list[Path], stream: pa.Schema | None = None, **given: object) -> FileEvents:
    return read_files(paths, ReadOptions(**given), time="t", schema=stream)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "cells", "odd"),
    [
        ("a.csv", ("7", "8.5", "n/a"), "n/a"),
        ("a.csv", ("10115", "01067", "80331"), "01067"),
        ("a.csv", ("2024-05-01", "2024-05-02 12:00", "soon"), "soon"),
        ("a.csv", ("2024-05-01T12:00Z", "2024-05-01T13:00Z", "x"), "x"),
        ("a.csv", ("true", "no", "FALSE"), "no"),
        ("a.csv", ("1", "2", "12345678901234567890"), "12345678901234567890"),
        ("a.csv", ("9007199254740993", "0.5"), "9007199254740993"),
        ("a.jsonl", ("1", '"n/a"'), "n/a"),
        ("a.jsonl", ("1", "2.5", '"n/a"'), "n/a"),
        ("a.jsonl", ("1.5", "2.5", "true"), "true"),
        ("a.jsonl", ("1", "2", "12345678901234567890"), "12345678901234567890"),
        ("a.jsonl", ("9007199254740993", "0.5"), "9007199254740993"),
    ],
)
def test_a_column_made_text_by_one_cell_is_told_wherever_the_cell_stands(
    tmp_path: Path, name: str, cells: tuple[str, ...], odd: str
) -> None:
    first_line = 1 if name.endswith("jsonl") else 2
    for order in permutations(cells):
        found = read(written(tmp_path / name, order))
        line = first_line + [cell.strip('"') for cell in order].index(odd)
        assert found.notes == (f"v read as STRING, since line {line} holds '{odd}'",), order
        spelled = [cell.strip('"') for cell in order]
        assert found.events.column("v").to_pylist() == spelled


def test_the_odd_cell_of_several_files_is_told(tmp_path: Path) -> None:
    odd, more = tmp_path / "1.csv", tmp_path / "2.csv"
    paths = [*written(odd, ["n/a", "2"]), *written(more, ["3", "4"])]
    for order in (paths, paths[::-1]):
        assert read(order).notes == (f"v read as STRING, since line 2 of '{odd}' holds 'n/a'",)


@pytest.mark.parametrize("cells", [("a", "b", "7"), ("x 1", "2024", "y 2"), ("007", "+49")])
def test_a_column_of_texts_is_not_told(tmp_path: Path, cells: tuple[str, ...]) -> None:
    assert read(written(tmp_path / "a.csv", cells)).notes == ()


def test_numbers_put_into_text_keep_their_spelling(tmp_path: Path) -> None:
    cells = ("1.10", "-0", "1E5", "12345678901234567890.00", "true", '"a"', "null", "[1]")
    schema = pa.schema([("t", pa.int64()), ("v", pa.string())])
    for stream in (None, schema):
        found = read(written(tmp_path / "a.jsonl", cells), stream)
        texts = ["1.10", "-0", "1E5", "12345678901234567890.00", "true", "a", None]
        assert found.events.column("v").to_pylist() == texts
        assert found.put_aside.column("line").to_pylist() == [8]
    flat = tmp_path / "b.jsonl"
    flat.write_text('{"t": 1, "a": {"v": 2.50}}\n{"t": 2, "a": {"v": "x"}}\n')
    assert read([flat], flatten=True).events.column("a_v").to_pylist() == ["2.50", "x"]


NUMBERS = [pa.int64(), pa.int16(), pa.float64(), pa.decimal128(9, 2)]


@pytest.mark.parametrize("data_type", NUMBERS, ids=str)
@pytest.mark.parametrize("cell", ["01067", "+5", "-01"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_digits_behind_a_0_or_a_plus_are_no_number_of_a_stream(
    tmp_path: Path, data_type: pa.DataType, cell: str, name: str
) -> None:
    schema = pa.schema([("t", pa.int64()), ("v", data_type)])
    paths = written(tmp_path / name, ["0", f'"{cell}"', "-5"])
    line = 2 if name.endswith("jsonl") else 3
    with pytest.raises(SchemaError, match=rf"line {line} of .* holds '{re.escape(cell)}'"):
        read(paths, schema)


def test_digits_behind_a_0_are_a_number_where_its_type_is_stated(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.int64()), ("v", pa.int64())])
    paths = written(tmp_path / "a.csv", ["007", "0", "+5"])
    for stream in (schema, None):
        found = read(paths, stream, schema="v BIGINT")
        assert found.events.column("v").to_pylist() == [7, 0, 5]


def test_a_folder_of_such_digits_is_refused_for_a_column_of_numbers(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.int64()), ("v", pa.int64()), ("zip", pa.int64())])
    for text, is_taken in (("10115", True), ("01067", False), ("%2B5", False), ("0", True)):
        folder = tmp_path / text / f"zip={text}"
        folder.mkdir(parents=True)
        written(folder / "a.csv", ["1"])
        if is_taken:
            found = read([folder.parent], schema)
            assert found.events.column("zip").to_pylist() == [int(text)]
            assert found.folder_columns == ("zip BIGINT",)
        else:
            with pytest.raises(SchemaError, match="in the stream: digits behind a 0 or"):
                read([folder.parent], schema)


@pytest.mark.parametrize(
    ("record", "key"),
    [
        ('{"t":1,"v":1,"v":2}', "v"),
        ('{"t" : 1, "v" : 1, "v" : 2}', "v"),
        ('{"t":1,"v" :1,"v":2,"w":"x\\":"}', "v"),
        ('{"t":1,"\\u0076":1,"v":2}', "v"),
        ('{"t":1,"t":1}', "t"),
        ('{"t":1,"o":{"a":1,"a":2}}', "a"),
        ('{"t":1,"o":[{"a":1},{"b":1,"b":1}]}', "b"),
    ],
)
@pytest.mark.parametrize("shape", ["{}\n{}\n", "[{},\n{}]", "{}{}"])
def test_a_record_that_has_a_key_twice_is_put_aside(
    tmp_path: Path, record: str, key: str, shape: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(shape.format(record, '{"t":2,"v":3,"s":"a\\":\\"a\\":"}'))
    found = read([path], flatten=True)
    assert [row["t"] for row in found.events.to_pylist()] == [2]
    aside = found.put_aside.to_pylist()
    assert [row["reason"] for row in aside] == [f"the record has the key '{key}' twice"]
    assert json.loads(aside[0]["record"]) == json.loads(record)


def test_keys_that_stand_once_are_taken_however_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"t":1,"o":{"t":1},"v":"\\"v\\":1"}\n{"t" : 2, "v":"\\"v\\":1", "o":{}}\n')
    assert read([path]).events.num_rows == 2


def test_records_side_by_side_on_a_line_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"t":1}{"t":2}\n {"t":3} {"t":4}{"t":\n{"t":5}')
    found = read([path])
    assert found.events.column("t").to_pylist() == [1, 2, 3, 4, 5]
    aside = found.put_aside.to_pylist()
    assert [(row["line"], row["record"]) for row in aside] == [(2, '{"t":')]


def test_lines_before_the_header_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("# made by a logger\n# unit: s\nt;v\n1;2\n")
    with pytest.raises(Exception, match=r"is its line 3; cut off .* \(tail -n \+3\)"):
        read([path])


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("beside", ["", "0.5"])
def test_digits_that_a_column_of_doubles_cannot_hold_are_refused_unless_it_is_stated(
    tmp_path: Path, name: str, beside: str
) -> None:
    stream = pa.schema([("t", pa.int64()), ("v", pa.float64())])
    cells = ["9007199254740992", "10000000000000000", *([beside] if beside else [])]
    found = read(written(tmp_path / name, cells), stream)
    assert found.events.column("v").to_pylist() == [float(cell) for cell in cells]
    odd = written(tmp_path / name, [*cells, "9007199254740993"])
    with pytest.raises(SchemaError, match=r"'9007199254740993'.*it would be 9007199254740992;"):
        read(odd, stream)
    assert read(odd, stream, schema="v DOUBLE").events.num_rows == len(cells) + 1
