"""Derived attributes through Spark: written by its tasks, corrected by late events."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import SchemaError
from chronicle.ingest.pipeline import ingest
from chronicle.store import Store, create_store
from indexing import KeyRange, KeyRanges, RunWriter
from indexing.index import open_indexes
from tests.ingest_files import options

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.int64())])
NAME = "delta(x)"


def put(path: Path, *rows: tuple[int, str, int]) -> Path:
    columns = dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns, schema=SCHEMA), path)
    return path


def rising(store: Store) -> list[int]:
    index = open_indexes(store.stream("s").snapshot()).index(NAME)
    found: list[int] = index.lookup(KeyRanges((KeyRange(low=1),))).seq.tolist()
    return found


def test_derived_attribute_is_ingested_and_corrected_by_late_events(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    given = options(key="k", derive=("delta( x )",), index=(NAME, "x"))
    first = put(
        tmp_path / "a.parquet",
        (0, "a", 5), (1, "b", 50), (2, "a", 6), (3, "b", 40), (4, "a", 4), (9, "b", 60),
    )  # fmt: skip
    ingest(store, "s", [first], given, derived=RunWriter)
    stream = store.stream("s")
    assert stream.settings.derived == (NAME,)
    assert rising(store) == [0, 1, 2, 5]
    assert [file.has_tree for file in stream.snapshot().files] == [True]

    late = put(tmp_path / "b.parquet", (4, "b", 70), (5, "a", 5))
    ingest(store, "s", [late], options(), derived=RunWriter)
    # 0a 1b 2a 3b 4a 4b 5a 9b
    assert rising(store) == [0, 1, 2, 5, 6]
    snapshot = stream.snapshot()
    top = snapshot.level(snapshot.tree.n_levels - 1, NAME).attribute
    assert top is not None
    assert (top.minimum.tolist(), top.maximum.tolist()) == ([-10], [30])
    assert open_indexes(snapshot).index(NAME).n_tail_events == 0

    with pytest.raises(SchemaError, match=r"does not derive 'delta\(t\)'"):
        ingest(store, "s", [late], options(derive=("delta(t)",)), derived=RunWriter)


def test_column_without_a_difference_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    path = put(tmp_path / "a.parquet", (0, "a", 5))
    with pytest.raises(SchemaError, match="column 'k' is string"):
        ingest(store, "s", [path], options(derive=("delta(k)",)))
    assert store.stream_names() == ()
