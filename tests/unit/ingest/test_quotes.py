"""Lines of CSV with a part of a cell with a line break are found, and are no records."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SourceError
from chronicle.ingest import quotes as subject
from chronicle.ingest.quotes import close_quotes, is_open_after, open_lines
from chronicle.ingest.sources import inspect_csv

ROWS = st.lists(st.lists(st.text('a",\n ', max_size=6), min_size=1, max_size=3), max_size=8)


@given(ROWS)
def test_lines_of_records_with_line_breaks_are_found(rows: list[list[str]]) -> None:
    lines: list[str] = []
    wanted: list[int] = []
    for row in rows:
        written = io.StringIO()
        csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="").writerow(row)
        of_record = written.getvalue().split("\n")
        if len(of_record) > 1:
            wanted += range(len(lines), len(lines) + len(of_record))
        lines += of_record
    assert open_lines(lines) == (wanted, False)


@pytest.mark.parametrize(
    ("line", "is_open"),
    [
        ('1,2,"a', True),
        ('"', True),
        ('1,"', True),
        ('1,"a""', True),
        ('1,"a,""', True),
        ('1,"""a', True),
        ('1,"a"x,"b', True),
        ('1,"a"x"b', False),  # what is behind a closing quote belongs to its cell
        ('1,a"b', False),  # a quote inside a cell without quotes is a letter
        ('1, "a', False),
        ('1,""', False),
        ('1,"a,""b"', False),
        ('1,"a" ', False),
        ("1,a", False),
        ("", False),
    ],
)
def test_quote_is_open_where_no_other_closes_it(line: str, is_open: bool) -> None:
    assert is_open_after(line) == is_open
    assert bool(subject._CAN_OPEN.search(line)) >= is_open


@given(st.text('a",\n\r ', max_size=40), st.integers(1, 9))
def test_copy_has_no_record_in_open_lines(
    tmp_path_factory: pytest.TempPathFactory, body: str, chunk: int
) -> None:
    folder = tmp_path_factory.mktemp("files")
    path = folder / "a.csv"
    path.write_bytes(f"x,y\n{body}".encode())
    lines = body.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found, _ = open_lines(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subject, "CHUNK_BYTES", chunk)
        (read,) = close_quotes([path], folder / "copies", width=2)
    assert (read == path) == (not found)
    if found:
        text = read.read_bytes().decode()
        assert text.replace(",,a quote is open here: ", "") == f"x,y\n{body}"
        copied = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[1:]
        with_mark = [n for n, line in enumerate(copied) if line.startswith(",,a quote is")]
        assert with_mark == [n for n in found if lines[n].strip()]


def test_only_files_with_open_quotes_are_copied(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    for path, text in zip(files, ('x\n"a"\n', 'x\n"a\n\xff"\n', "x\na\n"), strict=True):
        path.write_bytes(text.encode("latin-1"))
    read = close_quotes(files, tmp_path / "copies", width=1)
    assert read == (files[0], tmp_path / "copies" / "1.csv", files[2])
    mark = b",a quote is open here: "
    assert read[1].read_bytes() == b"x\n" + mark + b'"a\n' + mark + b'\xff"\n'


def test_header_with_a_line_break_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('t,"x\ny"\n1,2\n')
    with pytest.raises(SourceError, match=r"the header of '.*a\.csv' opens a quote"):
        inspect_csv([path])
