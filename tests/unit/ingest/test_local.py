"""Files become events without Spark: order, formats, what is put aside, what is refused."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest import local
from chronicle.ingest.local import FileEvents, read_files
from chronicle.ingest.read_options import ReadOptions
from chronicle.type_names import sql_type

LOCAL = pa.schema([("t", pa.timestamp("us")), ("x", pa.int64()), ("s", pa.string())])
INTEGER = pa.schema([("t", pa.int64()), ("x", pa.float64())])


def read(
    paths: list[Path | str], schema: pa.Schema | None, stdin: Any = None, **given: Any
) -> FileEvents:
    return read_files(paths, ReadOptions(**given), time="t", schema=schema, stdin=stdin)


def reasons(found: FileEvents) -> dict[str, int]:
    return dict(Counter(found.put_aside.column("reason").to_pylist()))


def placed(found: FileEvents) -> dict[int, str]:
    """Return the records put aside by the lines they stand in."""
    return {row["line"]: row["record"] for row in found.put_aside.to_pylist()}


def test_faulty_csv_records_are_put_aside_with_their_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [
        "2020-01-01T00:00:00,1,a",
        "2020-01-01T00:00:01,one,b",
        "2020-01-01T00:00:02,2",
        ",3,d",
        "yesterday,4,e",
        "2020-01-01T00:00:05Z,5,f",
        "2020-01-01T00:00:06.0000001,6,g",
        "12:30:00,7,h",
        "2020-01-01T00:00:08,,",
        "2020-01-01T00:00:09,1,a,1",
    ]
    path.write_text("t,x,s\n" + "".join(line + "\n" for line in lines))
    found = read([path], LOCAL)
    assert found.events.to_pylist() == [
        {"t": datetime(2020, 1, 1), "x": 1, "s": "a"},
        {"t": datetime(2020, 1, 1, 0, 0, 8), "x": None, "s": None},
    ]
    assert reasons(found) == {
        "time 't' does not parse": 2,
        "the record does not parse: it has fewer cells than there are columns": 1,
        "the record does not parse: it has more cells than there are columns": 1,
        "column 'x' does not parse as BIGINT": 1,
        "no time in column 't'": 1,
        "time 't' has an offset from UTC, the stream's times have none": 1,
        "time 't' is finer than a microsecond": 1,
    }
    assert placed(found) == {n: lines[n - 2] for n in (3, 4, 5, 6, 7, 8, 9, 11)}
    assert set(found.put_aside.column("source").to_pylist()) == {str(path)}


def test_a_quoted_cell_keeps_its_line_breaks_and_an_open_quote_takes_no_event_of_its_lines(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.csv"
    lines = ['35,2,"a', '36,3,b"', "37,1,c", '38,1,"x"y', "39,1,d", '40,1,"e', "41,1,f"]
    path.write_text("t,x,s\n" + "".join(line + "\n" for line in lines), newline="")
    found = read([path], LOCAL.set(0, pa.field("t", pa.int64())))
    assert found.events.to_pylist() == [
        {"t": 35, "x": 2, "s": "a\n36,3,b"},
        {"t": 37, "x": 1, "s": "c"},
        {"t": 39, "x": 1, "s": "d"},
    ]
    assert placed(found) == {5: '38,1,"x"y', 7: '40,1,"e\n41,1,f'}


def test_faulty_json_records_are_put_aside_with_their_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        '{"t": 1, "x": 1.5}\n{"t": 2, "x": "many"}\n{"t": 3, "x": \n{"t": "four", "x": 4}\n'
        '{"x": 5}\n{"t": 6}\n{"t": 4611686018427387904, "x": 1}\n'
    )
    found = read([path], INTEGER)
    assert found.events.to_pylist() == [{"t": 1, "x": 1.5}, {"t": 6, "x": None}]
    assert reasons(found) == {
        "column 'x' does not parse as DOUBLE": 1,
        "the record does not parse: Expecting value (character 14)": 1,
        "time 't' does not parse": 1,
        "no time in column 't'": 1,
        "time 't' is beyond 2^62": 1,
    }


def test_an_arrow_file_of_polars_is_taken_with_its_categories(tmp_path: Path) -> None:
    names = pa.array(["a", "b"]).cast(pa.string_view())
    codes = pa.array([1, None, 0], pa.uint32())
    table = pa.table({"t": [1, 2, 3], "s": pa.DictionaryArray.from_arrays(codes, names)})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    found = read([tmp_path / "a.arrow"], None)
    assert found.events.schema.field("s").type == pa.string()
    assert found.events.column("s").to_pylist() == ["b", None, "a"]


@pytest.mark.parametrize("form", ["{}\n{}\n{}\n", "[{},\n{},\n{}]"])
def test_half_a_surrogate_pair_is_put_aside_and_a_whole_one_is_text(
    tmp_path: Path, form: str
) -> None:
    path = tmp_path / "a.json"
    records = [
        r'{"t": 1, "s": "a\ud83d\ude00"}', r'{"t": 2, "s": "a\uD83D"}', r'{"t": 3, "\udc00": 1}'
    ]  # fmt: skip
    path.write_text(form.format(*records))
    schema = pa.schema([("t", pa.int64()), ("s", pa.string())])
    found = read([path], schema)
    assert found.events.to_pylist() == [{"t": 1, "s": "a\U0001f600"}]
    assert reasons(found) == {"the record does not parse: half a surrogate pair is no text": 2}
    assert found.put_aside.column("record").to_pylist() == records[1:]


@pytest.mark.parametrize("data_type", [pa.float64(), pa.float32()])
def test_a_number_beyond_the_type_is_put_aside_and_infinity_is_taken(
    tmp_path: Path, data_type: pa.DataType
) -> None:
    schema = pa.schema([("t", pa.int64()), ("x", data_type)])
    (tmp_path / "a.csv").write_text("t,x\n1,1e400\n2,inf\n3,-1e999\n4, -Infinity\n5,1.5\n6,\n")
    found = read([tmp_path / "a.csv"], schema)
    values = [None if x is None else float(x) for x in found.events.column("x").to_pylist()]
    assert values == [float("inf"), float("-inf"), 1.5, None]
    assert reasons(found) == {f"column 'x' does not parse as {sql_type(data_type)}": 2}
    (tmp_path / "a.json").write_text('{"t": 1, "x": 1e400}\n{"t": 2, "x": 0.5}\n')
    found = read([tmp_path / "a.json"], schema)
    assert found.events.column("t").to_pylist() == [2]
    assert found.put_aside.column("record").to_pylist() == ['{"t": 1, "x": 1e400}']


def test_what_does_not_fit_the_stream_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x,y\n1,2,3\n")
    with pytest.raises(SchemaError, match=r"column 'y' .* with 'chronicle add-column'"):
        read([path], INTEGER)
    path.write_text("t,x\n1,2\n")
    with pytest.raises(SchemaError, match="column keeps its type: take the file into a new stream"):
        read_files([path], ReadOptions(schema="x BIGINT"), time="t", schema=INTEGER)


def test_files_keep_their_order_and_columns_theirs(tmp_path: Path) -> None:
    for name, text in (("b", "x,t\n1,9\n2,9\n"), ("a", "x,t\n3,9\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    found = read([tmp_path / "b.csv", tmp_path / "a.csv"], INTEGER)
    assert found.events.schema == INTEGER
    assert found.events.column("x").to_pylist() == [1, 2, 3]


def test_compressed_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"t,x\n1,2\n"))
    assert read([path], INTEGER).events.to_pylist() == [{"t": 1, "x": 2.0}]


def write_typed(path: Path, table: pa.Table, *, new: Any = pa.ipc.new_stream) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with new(path, table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_typed_rows_without_a_time_are_put_aside(tmp_path: Path, ending: str) -> None:
    table = pa.table({"x": [1.0, 2.0, 3.0], "t": [7, None, 2**62]})
    path = write_typed(tmp_path / f"a.{ending}", table, new=pa.ipc.new_file)
    found = read([path], INTEGER)
    assert found.events.to_pylist() == [{"t": 7, "x": 1.0}]
    records = [json.loads(record) for record in found.put_aside.column("record").to_pylist()]
    assert records == [{"t": None, "x": 2.0}, {"t": 2**62, "x": 3.0}]
    assert found.put_aside.column("reason").to_pylist() == [
        "no time in column 't'",
        "time 't' is beyond 2^62",
    ]


def test_types_are_widened_as_a_stream_stores_them(tmp_path: Path) -> None:
    columns = {"t": pa.array([1], pa.timestamp("ms")), "s": pa.array(["a"]).dictionary_encode()}
    found = read([write_typed(tmp_path / "a.parquet", pa.table(columns))], None)
    assert found.events.schema == pa.schema([("t", pa.timestamp("us")), ("s", pa.string())])
    assert found.events.to_pylist() == [{"t": datetime(1970, 1, 1, 0, 0, 0, 1000), "s": "a"}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        pytest.param({"t": [1]}, "lack column 'x'", id="lacks a column"),
        pytest.param({"t": [1], "x": [1.0], "y": [1]}, "have column 'y'", id="has one more"),
        pytest.param({"t": [1], "x": ["a"]}, "column 'x' is STRING", id="type"),
        pytest.param({"t": [1.5], "x": [1.0]}, "numbers with a fraction", id="time"),
        pytest.param({"u": [1], "x": [1.0]}, "no time column 't'", id="no time"),
        pytest.param({"t": [1], "x": [[1.0]]}, "events are flat", id="nested"),
    ],
)
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_columns_that_do_not_fit_are_refused(
    tmp_path: Path, columns: dict[str, list[Any]], message: str, ending: str
) -> None:
    path = write_typed(tmp_path / f"a.{ending}", pa.table(columns))
    with pytest.raises(SchemaError, match=message):
        read([path], INTEGER)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        pytest.param("t BIGNT, x INT", "did you mean 'bigint'", id="type"),
        pytest.param("t BIGINT, x ARRAY<INT>", "cannot be read from", id="nested"),
        pytest.param("t BIGINT, t INT", "names a column twice", id="twice"),
        pytest.param("t BIGINT, y INT", "'--schema' has a column 'y'", id="header"),
    ],
)
def test_a_schema_that_cannot_apply_is_refused(tmp_path: Path, stated: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n1,1\n")
    with pytest.raises(SchemaError, match=message):
        read_files([path], ReadOptions(schema=stated), time="t", schema=None)


def test_local_times_become_instants_of_their_zone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t\n2021-07-01 12:00:00\n2021-01-01 12:00:00\n2021-01-01T12:00:00Z\n")
    schema = pa.schema([("t", pa.timestamp("us", "UTC"))])
    found = read([path], schema, time_zone="America/Chicago")
    # Five hours behind UTC in July, six in January; the last one says its own.
    assert found.events.column("t").cast(pa.string()).to_pylist() == [
        "2021-07-01 17:00:00.000000Z",
        "2021-01-01 18:00:00.000000Z",
        "2021-01-01 12:00:00.000000Z",
    ]
    without = read([path], schema)
    assert without.events.num_rows == 1
    assert reasons(without) == {"time 't' has no offset from UTC (give --time-zone)": 2}


def test_standard_input_stands_alone(tmp_path: Path) -> None:
    given = io.BytesIO(b"t,x\n1,2\n,3\n")
    found = read(["-"], INTEGER, format="csv", stdin=given)
    assert found.events.to_pylist() == [{"t": 1, "x": 2.0}]
    assert found.put_aside.column("source").to_pylist() == ["standard input"]
    with pytest.raises(SourceError, match="name it alone"):
        read(["-", tmp_path / "a.csv"], INTEGER, format="csv", stdin=given)


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (b"x\n1\n", "no time column 't'")]
)
def test_faults_of_standard_input_name_it_and_no_path(content: bytes, said: str) -> None:
    with pytest.raises((SourceError, SchemaError), match=said) as caught:
        read(["-"], INTEGER, format="csv", stdin=io.BytesIO(content))
    assert "standard input" in str(caught.value)
    assert "/" not in str(caught.value)


def test_files_too_large_for_memory_are_sent_to_ingest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\n1,2\n")
    monkeypatch.setattr(local, "BYTES_MAX", 7)
    with pytest.raises(SourceError, match="chronicle ingest"):
        read([path], INTEGER)
