"""Files are found in the order given and refused before any JVM starts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.csv_records import Dialect, read_header
from chronicle.ingest.read_options import ReadOptions
from chronicle.ingest.read_plan import Inspected, inspect_sources
from chronicle.ingest.sources import SourceFormat, check_column_names, find_sources
from chronicle.ingest.typed_files import common_schema, read_schemas


def inspect(
    *paths: Path, time: str = "t", stream: pa.Schema | None = None, **given: object
) -> Inspected:
    found = find_sources(paths, format_name=None)
    return inspect_sources(found, ReadOptions(**given), time=time, stream_schema=stream)  # type: ignore[arg-type]


def inspect_parquet(paths: list[Path]) -> pa.Schema:
    sources = find_sources(paths, format_name=None)
    return common_schema(sources, read_schemas(sources))


def touch(path: Path, text: str = "t,x\n1,2\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(found: list[Path] | tuple[Path, ...]) -> list[str]:
    return [path.name for path in found]


def test_order_of_arguments_is_kept_and_patterns_expand_by_name(tmp_path: Path) -> None:
    for name in ("z.csv", "b2.csv", "b1.csv", "dir/y.csv", "dir/sub/x.csv", "dir/.h.csv"):
        touch(tmp_path / name)
    touch(tmp_path / "dir" / "_SUCCESS")
    given = [tmp_path / "z.csv", f"{tmp_path}/b*.csv", tmp_path / "dir"]
    found = find_sources(given, format_name=None)
    assert names(found.files) == ["z.csv", "b1.csv", "b2.csv", "x.csv", "y.csv"]
    assert found.format is SourceFormat.CSV
    assert found.size_bytes == 5 * 8


def test_file_whose_name_looks_like_a_pattern_is_taken_as_it_is(tmp_path: Path) -> None:
    path = touch(tmp_path / "a[1]*.csv")
    assert find_sources([path], format_name=None).files == (path,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no source"),
        (["a.cvs"], r"no file .*did you mean 'a.csv'"),
        (["none*.csv"], "no file matches"),
        (["empty.csv"], "is empty"),
        (["empty"], "holds no file"),
        (["a.csv", "a.csv"], "named twice"),
        (["a.csv", "b.json"], "is csv and .* is json"),
        (["data"], "ending of .* tells no format"),
        (["_a.csv"], "hidden from Spark"),
        (["s3://bucket/a.csv"], "is no path"),
    ],
)
def test_sources_that_cannot_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.json", "data", "_a.csv"):
        touch(tmp_path / name)
    touch(tmp_path / "empty.csv", "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=message):
        find_sources(given, format_name=None)


def test_format_is_taken_at_its_word(tmp_path: Path) -> None:
    path = touch(tmp_path / "a.txt")
    assert find_sources([path], format_name="csv").format is SourceFormat.CSV
    with pytest.raises(SourceError, match=r"no format 'cvs'.*did you mean 'csv'"):
        find_sources([path], format_name="cvs")


def test_compressed_text_is_looked_into(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'"t","a ""b"""\n1,2\n'))
    assert find_sources([path], format_name=None).format is SourceFormat.CSV
    assert read_header(path, Dialect(",", '"')) == ("t", 'a "b"')


def test_csv_files_share_the_names_of_one_header(tmp_path: Path) -> None:
    first, other = touch(tmp_path / "a.csv"), touch(tmp_path / "b.csv", "x,t\n1,2\n")
    assert inspect(first, other).columns == ("t", "x")
    third = touch(tmp_path / "c.csv", "y,t\n1,2\n")
    with pytest.raises(SourceError, match=r"c.csv' has the header y, t, and .*a.csv' has t, x"):
        inspect(first, third)


def test_one_file_by_several_spellings_is_named_twice(tmp_path: Path) -> None:
    path = touch(tmp_path / "a.csv")
    (tmp_path / "b").mkdir()
    (tmp_path / "link.csv").symlink_to(path)
    for other in (tmp_path / "b" / ".." / "a.csv", tmp_path / "link.csv"):
        with pytest.raises(SourceError, match="named twice"):
            find_sources([path, other], format_name=None)


def test_json_spread_over_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="one per line"):
        inspect(touch(tmp_path / "b.json", '{\n  "t": 1\n}\n'))


def test_json_column_the_stream_lacks_is_named(tmp_path: Path) -> None:
    path = touch(tmp_path / "a.json", '{"t": 1}\n{"t": 2, "prise": 3}\n')
    stream = pa.schema([("t", pa.int64()), ("price", pa.int64())])
    with pytest.raises(SourceError, match=r"line 2 .*'prise'.*did you mean 'price'"):
        inspect(path, stream=stream)


def write(path: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_schemas_are_compared_as_they_are_stored(tmp_path: Path) -> None:
    texts = pa.array(["a"])
    first = write(tmp_path / "a.parquet", t=pa.array([1]), s=texts)
    other = write(tmp_path / "b.parquet", s=texts.dictionary_encode(), t=pa.array([2]))
    expected = pa.schema([("t", pa.int64()), ("s", pa.string())])
    assert inspect_parquet([first, other]) == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"t": pa.array([1.5]), "s": pa.array(["a"])}, "column 't' is DOUBLE, not BIGINT"),
        ({"t": pa.array([1])}, "it lacks column 's'"),
        ({"t": pa.array([1]), "s": pa.array(["a"]), "u": pa.array([1])}, "has a column 'u' more"),
    ],
)
def test_parquet_file_of_another_schema_is_named(
    tmp_path: Path, columns: dict[str, pa.Array], message: str
) -> None:
    first = write(tmp_path / "a.parquet", t=pa.array([1]), s=pa.array(["a"]))
    other = write(tmp_path / "b.parquet", **columns)
    with pytest.raises(SourceError, match=rf"b.parquet' has another schema .*{message}"):
        inspect_parquet([first, other])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1], pa.uint32()), "cast it to int64 first"),
        (pa.array([[1]]), "flatten it"),
    ],
)
def test_parquet_types_that_cannot_be_stored_name_the_remedy(
    tmp_path: Path, column: pa.Array, message: str
) -> None:
    path = write(tmp_path / "a.parquet", t=pa.array([1]), x=column)
    with pytest.raises(SchemaError, match=rf"a.parquet'.*column 'x'.*{message}"):
        inspect_parquet([path])


def test_int96_times_are_instants(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    times = pa.array([0], pa.timestamp("us"))
    pq.write_table(pa.table({"t": times}), path, use_deprecated_int96_timestamps=True)
    assert inspect_parquet([path]).field("t").type == pa.timestamp("us", "UTC")


def test_what_is_not_parquet_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a Parquet file"):
        inspect_parquet([touch(tmp_path / "a.parquet")])


def test_schema_for_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="state their own schema"):
        inspect(write(tmp_path / "a.parquet", t=pa.array([1])), schema="t BIGINT")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["t", "x", "x"], "'x' stands twice"),
        (["t", "a", "A"], "columns 'a' and 'A' of 'a.csv' differ in case only"),
        (["t", ""], "has no name"),
        (["t", "__chronicle_path"], "keeps for itself"),
        (["time", "x"], r"no time column 't' .*columns: time, x"),
    ],
)
def test_column_names_are_checked(given: list[str], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        check_column_names(given, time="t", where="'a.csv'")
