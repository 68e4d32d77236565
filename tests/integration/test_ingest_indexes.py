"""Indexes on several columns and on derived attributes through Spark: its tasks write them, late
events keep and correct them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from chronicle.errors import SchemaError
from chronicle.ingest.jobs import spark_runner
from chronicle.ingest.pipeline import ingest
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.finding import Severity
from chronicle.store import Store, create_store
from indexing import IndexingError, KeyRange, KeyRanges, RunWriter
from indexing.check import check_runs
from indexing.composite import composite_ranges
from indexing.index import clear_caches, open_indexes
from indexing.keys import KeyKind
from indexing.lifecycle import create_index, drop_index
from tests.ingest_files import options

pytestmark = [pytest.mark.spark]

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.int64())])
NAME, RISE = "k+x", "delta(x)"
FIRST = ((0, "a", 5), (1, "b", 5), (2, "a", 6), (3, "b", None), (4, None, 5), (9, "a", 5))


def put(path: Path, *rows: tuple[int, str | None, int | None]) -> Path:
    columns = dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns, schema=SCHEMA), path)
    return path


def found(store: Store) -> list[int]:
    """Sequence numbers of the events with k = 'a' and x = 5."""
    clear_caches()
    point = (KeyRanges((KeyRange("a", "a"),)), KeyRanges((KeyRange(5, 5),)))
    asked = composite_ranges([KeyKind.STRING, KeyKind.INTEGER], point)
    assert asked is not None
    index = open_indexes(store.stream("s").snapshot()).index(NAME)
    assert index.n_tail_events == 0
    seq: list[int] = index.lookup(asked[0]).seq.tolist()
    return seq


def assert_whole(store: Store) -> None:
    findings = check_stream(store.stream("s"), deep=True, derived_checks=(check_runs,))
    assert [one for one in findings if one.severity is not Severity.OK] == []


@pytest.mark.usefixtures("spark")
def test_ingest_writes_it_and_later_ones_keep_it(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    first = put(tmp_path / "a.parquet", *FIRST)
    ingest(store, "s", [first], options(index=(NAME, "x")), derived=RunWriter)
    assert found(store) == [0, 5]

    late = put(tmp_path / "b.parquet", (4, "a", 5), (5, "a", None), (10, "a", 5))
    ingest(store, "s", [late], options(), derived=RunWriter)
    # 0a5 1b5 2a6 3b- 4-5 4a5 5a- 9a5 10a5
    assert found(store) == [0, 5, 7, 8]
    assert_whole(store)


def test_index_is_filled_by_spark_as_by_threads(spark: SparkSession, tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    ingest(store, "s", [put(tmp_path / "a.parquet", *FIRST)], options(), derived=RunWriter)
    for runner in ({"runner": spark_runner(spark)}, {}):
        [report] = create_index(store.stream("s"), [NAME], least_events=0, **runner)
        assert (report.n_entries, report.existed) == (5, False)
        assert found(store) == [0, 5]
        assert_whole(store)
        drop_index(store.stream("s"), NAME)


def rising(store: Store) -> list[int]:
    index = open_indexes(store.stream("s").snapshot()).index(RISE)
    found: list[int] = index.lookup(KeyRanges((KeyRange(low=1),))).seq.tolist()
    return found


@pytest.mark.usefixtures("spark")
def test_derived_attribute_is_ingested_and_corrected_by_late_events(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    given = options(key="k", derive=("delta( x )",), index=(RISE, "x"))
    first = put(
        tmp_path / "a.parquet",
        (0, "a", 5), (1, "b", 50), (2, "a", 6), (3, "b", 40), (4, "a", 4), (9, "b", 60),
    )  # fmt: skip
    ingest(store, "s", [first], given, derived=RunWriter)
    stream = store.stream("s")
    assert stream.settings.derived == (RISE,)
    assert rising(store) == [0, 1, 2, 5]
    assert [file.has_tree for file in stream.snapshot().files] == [True]

    late = put(tmp_path / "b.parquet", (4, "b", 70), (5, "a", 5))
    ingest(store, "s", [late], options(), derived=RunWriter)
    # 0a 1b 2a 3b 4a 4b 5a 9b
    assert rising(store) == [0, 1, 2, 5, 6]
    snapshot = stream.snapshot()
    top = snapshot.level(snapshot.tree.n_levels - 1, RISE).attribute
    assert top is not None
    assert (top.minimum.tolist(), top.maximum.tolist()) == ([-10], [30])
    assert open_indexes(snapshot).index(RISE).n_tail_events == 0

    with pytest.raises(SchemaError, match=r"does not derive 'delta\(t\)'"):
        ingest(store, "s", [late], options(derive=("delta(t)",)), derived=RunWriter)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(
            {"index": ("k+xx",)}, "no column to index 'xx' .*did you mean 'x'", id="index"
        ),
        pytest.param({"index": ("k+x+k",)}, "names column 'k' twice", id="twice"),
        pytest.param({"derive": ("delta(k)",)}, "column 'k' is string", id="derived"),
    ],
)
def test_what_cannot_be_indexed_is_refused_before_anything_is_written(
    tmp_path: Path, given: dict[str, tuple[str, ...]], message: str
) -> None:
    store = create_store(tmp_path / "store")
    path = put(tmp_path / "a.parquet", *FIRST)
    with pytest.raises((SchemaError, IndexingError), match=message):
        ingest(store, "s", [path], options(**given), derived=RunWriter)
    assert store.stream_names() == ()
