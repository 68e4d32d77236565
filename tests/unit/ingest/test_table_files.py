"""CSV and JSON files as tables: the values that streams take of them, and errors with a line."""

from __future__ import annotations

import bz2
import gzip
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from chronicle.errors import ChronicleError, SourceError
from chronicle.ingest.local import read_files
from chronicle.ingest.read_options import ReadOptions
from chronicle.ingest.sources import SourceFormat
from chronicle.ingest.table_files import TextTable, open_text_table, text_format


def table_of(*paths: Path) -> TextTable:
    found = text_format(paths[0])
    assert found is not None
    return open_text_table(paths, found, names=[path.name for path in paths])


def rows_of(*paths: Path) -> list[dict[str, Any]]:
    return [row for batch in table_of(*paths).batches() for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "a.csv",
            (
                't,id,w,n,d,at,ns\n1,007,"a\r\nb",9007199254740993,2024-05-01,2024-05-01 12:00,'
                "2026-01-01 00:00:00.123456789\r\n2,7,,0.5,2024-05-02,2024-05-01,x\n"
            ),
        ),
        (
            "a.jsonl",
            '{"t":1,"id":"007","w":1.10,"n":9007199254740993}{"t":2,"id":7,"w":"a","n":0.5}\n',
        ),
    ],
)
def test_a_table_holds_what_a_stream_takes(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    taken = read_files([path], ReadOptions(), time="t", schema=None)
    assert rows_of(path) == taken.events.to_pylist()
    assert {row["id"] for row in rows_of(path)} == {"007", "7"}
    assert [row["n"] for row in rows_of(path)] == ["9007199254740993", "0.5"]
    assert len(table_of(path).notes) == len(taken.notes)


def test_types_are_those_of_all_cells_of_all_files(tmp_path: Path) -> None:
    one, other = tmp_path / "1.csv", tmp_path / "2.csv"
    one.write_text("d,n,at,nothing\n2024-05-01,1,2024-05-01,\n")
    other.write_text("at,d,nothing,n\n2024-05-01 12:00,2024-05-02,,2.5\n")
    assert rows_of(one, other) == [
        {"d": date(2024, 5, 1), "n": 1.0, "at": datetime(2024, 5, 1), "nothing": None},
        {"d": date(2024, 5, 2), "n": 2.5, "at": datetime(2024, 5, 1, 12), "nothing": None},
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"a,b\n1,2\n3,4,5\n6,7,8\n", r"line 3 .*\(and 1 further record\).*more cells"),
        ("a.csv", b"a,b\n1,2\n3\n", "line 3 of 'a.csv': .* fewer cells"),
        ("a.csv", b'a,b\n1,"2\n', "line 2 of 'a.csv': .* quote is never closed"),
        ("a.csv", b"a,b\n1,\xff\n", "line 2 of 'a.csv': the record is not UTF-8 text"),
        ("a.csv", "a,b\n1,2\n".encode("utf-16"), "not UTF-8 text"),
        ("a.csv", b"", "'a.csv' is empty"),
        ("a.csv", b"a,a\n1,2\n", "column 'a' stands twice"),
        ("a.csv", b"a,\n1,2\n", "has no name"),
        ("a.csv", b"a;b,c;d,e\n", "what separates the cells of .*'[,;]' or '[,;]'"),
        ("a.csv.gz", gzip.compress(b"a\n1\n")[:-3], "cannot be read"),
        ("a.jsonl", b'{"a":1}\n{"a":1,"a":2}\n', "line 2 of 'a.jsonl': .* key 'a' twice"),
        ("a.jsonl", b'{"a":1}\n{"a":\n', "line 2 of 'a.jsonl': the record does not parse"),
        ("a.jsonl", b'{"a":1}\n{"a":[1]}\n', "line 2 of 'a.jsonl': column 'a' holds an object or"),
        ("a.jsonl", b'{"a":1.5}\n{"a":1e400}\n', "line 2 of 'a.jsonl': .* not parse as DOUBLE"),
        ("a.json", b"[]", "holds no record"),
        ("a.json", b'{\n"a":1}\n', "spreads its records over lines"),
        ("a.json", b'{"a":{"b":1}}\n', "all fields of 'a.json' hold objects"),
    ],
)
def test_what_is_no_record_is_an_error_that_names_its_line(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ChronicleError, match=said):
        rows_of(path)


def test_files_are_read_however_they_are_packed_and_separated(tmp_path: Path) -> None:
    contents = {
        "a.csv": b"\xef\xbb\xbfa;b\r\n1;2,5\r\n",
        "b.tsv": b"a\tb\n1\t2,5\n",
        "c.txt": b'a,b\n1,"2,5"\n',
        "d.csv.gz": gzip.compress(b"a|b\n1|2,5\n") + bytes(512),
        "e.csv.bz2": bz2.compress(b'a,b\n1,"2,5"\n'),
        "f.json": b'[{"a": 1, "b": "2,5", "c": {"d": 1}}]',
        "g.ndjson": b'{"a": 1, "b": "2,5"}\r\n',
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert rows_of(tmp_path / name) == [{"a": 1, "b": "2,5"}], name
    left_out = table_of(tmp_path / "f.json").notes
    assert left_out == ("c left out, since it holds objects or arrays",)
    assert text_format("a.parquet") is None
    assert text_format("a.TXT.gz") is SourceFormat.CSV


def test_a_table_without_rows_has_columns_of_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n")
    found = table_of(tmp_path / "a.csv")
    assert list(found.batches()) == []
    assert [(one.name, str(one.type)) for one in found.schema] == [("a", "string"), ("b", "string")]


def test_work_can_be_ended_between_its_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n" + "1\n" * 600_000)

    def refuse() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        open_text_table([path], SourceFormat.CSV, look=refuse)
    with pytest.raises(SourceError, match="is empty"):
        open_text_table([Path("/dev/null")], SourceFormat.CSV)
