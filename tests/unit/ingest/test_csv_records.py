"""Records of CSV are those of the csv module, each where it stands; nothing is passed over."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle.errors import SourceError
from chronicle.ingest import raw_text
from chronicle.ingest.csv_records import CsvRecords, Dialect, find_delimiter
from chronicle.ingest.raw_text import Place, Reject
from tests.csv_texts import csv_records, csv_text

NAMES = ("a", "b", "c")
Cells = list[str | None]


def read(
    path: Path, content: bytes, *, names: tuple[str, ...] = NAMES, dialect: Dialect | None = None
) -> tuple[list[Cells], Sequence[Reject], list[Place]]:
    path.write_bytes(content)
    records = CsvRecords(path, names, dialect or Dialect(",", '"'))
    rows: list[Cells] = []
    for batch in records:
        rows += map(list, zip(*(one.to_pylist() for one in batch.cells.values()), strict=True))
    return rows, list(records.rejects()), list(records.places(range(len(rows))))


CELL = st.text(st.sampled_from('ab,"\n \u00e4'), max_size=5).filter(lambda x: x == x.strip(" "))
LINE = st.one_of(
    st.tuples(CELL, CELL, CELL).map(list),
    st.sampled_from(["", "x", "1,2", "1,2,3,4", '1,"2"x,3', '1,"2\n3"x,4']),
)


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(LINE, max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_records_and_rejects_stand_where_they_were_written(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[list[str] | str],
    end: str,
    ended: bool,
    opened: bool,
) -> None:
    text, rows, places, rejects = f"a,b,c{end}", [], [], []
    if opened:
        lines = [*lines, '7,8,"9\n10,11,12']
    for line in lines:
        written = line
        if isinstance(line, list):
            buffer = io.StringIO()
            csv.writer(buffer, lineterminator="", quoting=csv.QUOTE_ALL).writerow(line)
            written = buffer.getvalue()
            rows.append([cell or None for cell in line])
        assert isinstance(written, str)
        at = text.count("\n") + 1
        if isinstance(line, list):
            places.append(Place(at, written))
        elif line:
            rejects.append((at, written))
        text += written + end
    text = text if ended else text.removesuffix(end)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    found_rows, found_rejects, found_places = read(path, text.encode())
    assert found_rows == rows
    assert [(one.line, one.text) for one in found_rejects] == rejects
    assert found_places == places


@pytest.mark.parametrize("end", [b'9,9,"9\n7,7,7\n', b'9,9,"9', b'9,"9,9\n\n\n7,7,7', b'"'])
def test_a_quote_open_at_the_end_puts_all_behind_it_aside(tmp_path: Path, end: bytes) -> None:
    rows, rejects, _ = read(tmp_path / "a.csv", b'a,b,c\n1,2,3\n4,5,"6\n7"\n\n' + end)
    assert rows == [["1", "2", "3"], ["4", "5", "6\n7"]]
    assert [(one.line, one.text) for one in rejects] == [(6, end.decode().rstrip("\n"))]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"1,2,3\n4,5,6\r\n7,8,9\n", id="CR LF among LF"),
        pytest.param(b"1,2,3\r\n4,5,6\n7,8,9\r\n", id="LF among CR LF"),
        pytest.param(b"1,2,3\r4,5,6\r7,8,9\r", id="CR"),
        pytest.param(b"1,2,3\n4,5,6\n" * 100_000 + b"7,8,9\r\n", id="late"),
    ],
)
def test_no_record_is_lost_however_lines_end(tmp_path: Path, content: bytes) -> None:
    end = b"\r" if b"\n" not in content else b"\r\n" if content[5:6] == b"\r" else b"\n"
    rows, rejects, _ = read(tmp_path / "a.csv", b"a,b,c" + end + content)
    n = content.count(b"7,8,9") + content.count(b"4,5,6") + content.count(b"1,2,3")
    assert (len(rows), rows[-1], list(rejects)) == (n, ["7", "8", "9"], [])


@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_records_of_random_texts_are_those_of_the_csv_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(raw_text, "_CHUNK_BYTES", chunk)
    random = Random(chunk)
    for _ in range(100):
        text, n_columns = csv_text(random)
        rows, rejects, places = read(tmp_path / "a.csv", text.encode(), names=NAMES[:n_columns])
        found = [*((place.line, row) for place, row in zip(places, rows, strict=True))]
        found += [(reject.line, None) for reject in rejects]
        assert sorted(found, key=itemgetter(0)) == csv_records(text, n_columns), text


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        pytest.param("1,2,3,", None, id="an empty cell too many"),
        pytest.param('1,2, "3"', ["1", "2", ' "3"'], id="blank before a quote"),
        pytest.param('1,2,3" pipe', ["1", "2", '3" pipe'], id="quote in a cell"),
        pytest.param('1,2,"3" ', None, id="blank behind a quote"),
        pytest.param('1,2,""""', ["1", "2", '"'], id="a quote alone"),
        pytest.param("1,,", ["1", None, None], id="empty cells"),
    ],
)
def test_cells_are_those_of_the_csv_module_in_strict_mode(
    tmp_path: Path, line: str, wanted: Cells | None
) -> None:
    rows, rejects, _ = read(tmp_path / "a.csv", f"a,b,c\n{line}\n4,5,6\n".encode())
    assert rows == [*([] if wanted is None else [wanted]), ["4", "5", "6"]]
    assert [(one.line, one.text) for one in rejects] == ([(2, line)] if wanted is None else [])


def test_line_ends_of_every_kind_stand_in_one_file_and_in_its_cells(tmp_path: Path) -> None:
    content = b'a,b,c\r\n1,2,"x\r\ny"\n"\r",5,6\r\n7,8,"\n"\r9,10,"11"\r\n'
    rows, rejects, places = read(tmp_path / "a.csv", content)
    wanted = [["1", "2", "x\r\ny"], ["\r", "5", "6"], ["7", "8", "\n"], ["9", "10", "11"]]
    assert (rows, rejects) == (wanted, [])
    assert [place.line for place in places] == [2, 4, 6, 8]


def test_zeros_behind_a_gzip_file_are_no_part_of_it(tmp_path: Path) -> None:
    packed = gzip.compress(b"a,b,c\n1,2,3\n") + gzip.compress(b"4,5,6\n")
    rows, _, _ = read(tmp_path / "a.csv.gz", packed + bytes(512))
    assert rows == [["1", "2", "3"], ["4", "5", "6"]]
    with pytest.raises(SourceError, match="cannot be read: Not a gzipped file"):
        read(tmp_path / "a.csv.gz", packed + b"more")
    with pytest.raises(SourceError, match="cannot be read: Compressed file ended before"):
        read(tmp_path / "a.csv.gz", packed[:-4])


def test_line_breaks_in_quotes_stay_as_they_are(tmp_path: Path) -> None:
    rows, _, _ = read(tmp_path / "a.csv", b'a,b,c\n1,2,"3\r\n4"\n')
    assert rows == [["1", "2", "3\r\n4"]]


def test_encodings_and_compressions_make_no_difference(tmp_path: Path) -> None:
    text = 'a,b,c\r\n1,ä,"x\r\ny"\r\n2\r\n3,ö,z\r\n'
    wanted = read(tmp_path / "a.csv", text.encode())
    assert wanted[0] == [["1", "ä", "x\r\ny"], ["3", "ö", "z"]]
    assert [one.line for one in wanted[1]] == [4]
    for name, encoding in (("utf-16", "utf-16"), ("latin-1", "iso8859-1"), ("cp1252", "cp1252")):
        dialect = Dialect(",", '"', encoding)
        assert read(tmp_path / "b.csv", text.encode(name), dialect=dialect) == wanted
    assert read(tmp_path / "a.csv.gz", gzip.compress(text.encode())) == wanted
    assert read(tmp_path / "a.csv.bz2", bz2.compress(text.encode())) == wanted
    assert read(tmp_path / "a.csv.zst", pa.compress(text.encode(), "zstd").to_pybytes()) == wanted
    assert read(tmp_path / "we[i]rd *?.csv", b"\xef\xbb\xbf" + text.encode()) == wanted


def test_bytes_that_are_no_text_are_put_aside(tmp_path: Path) -> None:
    rows, rejects, _ = read(tmp_path / "a.csv", b"a,b,c\n1,\xff\xe4,3\n4,5,6\n")
    assert rows == [["4", "5", "6"]]
    assert [one.line for one in rejects] == [2]
    assert "the record is not UTF-8 text" in rejects[0].reason
    with pytest.raises(SourceError, match="not ascii text"):
        read(tmp_path / "a.csv", "a,b,c\n1,2,ä\n".encode(), dialect=Dialect(",", '"', "ascii"))


def test_a_record_too_long_is_refused_by_its_line_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_text, "RECORD_BYTES_MAX", 3000)
    monkeypatch.setattr("chronicle.ingest.csv_records.RECORD_BYTES_MAX", 3000)
    monkeypatch.setattr(raw_text, "_CHUNK_BYTES", 1000)
    line = b"1,2," + b"x" * 4000 + b"\n"
    with pytest.raises(SourceError, match=r"line 3 of .*a.csv.gz' is longer"):
        read(tmp_path / "a.csv.gz", gzip.compress(b"a,b,c\n1,2,3\n" + line))
    opened = b'1,2,"\n' + b"4,5,6\n" * 1000
    with pytest.raises(SourceError, match=r"line 3 of .*b.csv' is longer"):
        read(tmp_path / "b.csv", b"a,b,c\n1,2,3\n" + opened)


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_delimiter_is_that_by_which_the_header_names_the_time(
    tmp_path: Path, sign: str
) -> None:
    (tmp_path / "a.csv").write_text(sign.join(["x,y" if sign != "," else "x", "t"]) + "\n1\n")
    assert find_delimiter(tmp_path / "a.csv", Dialect(",", '"'), time="t") == sign


def test_quotes_can_be_others_or_none(tmp_path: Path) -> None:
    text = b"a,b,c\n'1,1',\"2,3\n"
    assert read(tmp_path / "a.csv", text, dialect=Dialect(",", "'"))[0] == [["1,1", '"2', "3"]]
    assert read(tmp_path / "a.csv", b'a,b,c\n"1,2,3\n', dialect=Dialect(",", ""))[0] == [
        ['"1', "2", "3"]
    ]
