"""A table adopted where it is: what is taken, what is refused, and that it is never written."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import chronicle
import replay
from chronicle import Store
from chronicle import adopt as adopt_function
from chronicle.errors import (
    AdoptedStreamError,
    ChangedFileError,
    ChronicleError,
    CorruptTreeError,
    SchemaError,
    SourceError,
    StorageError,
)
from chronicle.ingest import IngestOptions, ingest
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.write.block_writer import write_tree
from indexing.check import check_runs
from indexing.lifecycle import compact_index, create_index, drop_index
from indexing.writer import writer_for

WRITER = partial(writer_for, least_events=0)
INDEX = partial(create_index, attributes=["a"], least_events=0)

COUNT = "SELECT COUNT(*) AS n FROM s WHERE a >= 0"
WINDOWS = (
    "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 1000)) "
    "GROUP BY window_start"
)


def adopt(store: Store, table: Path, **options: Any) -> chronicle.AdoptReport:
    return adopt_function(store, "s", table, derived=WRITER, **options)


def rows(start: int, stop: int) -> pa.Table:
    t = np.arange(start, stop)
    return pa.table({"t": t, "a": t % 7, "s": [f"x{i % 3}" for i in t.tolist()]})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Three Parquet files of a hundred events each."""
    path = tmp_path / "lake"
    path.mkdir()
    for i in range(3):
        pq.write_table(rows(i * 100, i * 100 + 100), path / f"{i}.parquet", row_group_size=30)
    return path


@pytest.fixture
def adopted(store: Store, lake: Path) -> Iterator[Store]:
    """The same, adopted as ``s`` and indexed; nothing may have changed the files afterwards."""
    adopt(store, lake, time="t", begin=INDEX)
    return store


def bytes_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def n_events(store: Store, sql: str = COUNT) -> int:
    return sum(row["n"] for row in replay.query(store, sql).table.to_pylist())


# ---------------------------------------------------------------------------------------------
# What cannot be adopted.


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))


def timeless(table: pa.Table) -> pa.Table:
    return table.set_column(0, "t", pa.array([None, *range(1, table.num_rows)], pa.int64()))


def with_column(data_type: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.append_column("x", pa.nulls(table.num_rows, data_type))


def unreadable_text(table: pa.Table) -> pa.Table:
    text = pa.array([b"\xff\xfe"] * table.num_rows, pa.binary())
    as_text = pa.Array.from_buffers(pa.string(), len(text), text.buffers())
    return table.append_column("x", as_text)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (shuffled, "time goes back from"),
        (
            lambda table: table.take([*range(10), 11, 10]),
            "time goes back from 311 to 310 in row group 0",
        ),
        (timeless, "have no time"),
        (lambda table: rows(150, 250), "overlap in time"),
        (lambda table: table.drop_columns(["a"]), "lacks column 'a'"),
        (with_column(pa.int32()), "has a column 'x' that the other files lack"),
        (lambda table: table.set_column(1, "a", table.column("a").cast(pa.int32())), "is INTEGER"),
    ],
)
def test_a_file_that_is_not_in_order_or_not_like_the_others_is_refused_and_leaves_no_stream(
    spoil: Callable[[pa.Table], pa.Table], said: str, store: Store, lake: Path
) -> None:
    pq.write_table(spoil(rows(300, 400)), lake / "3.parquet")
    before = bytes_of(lake)
    with pytest.raises((SourceError, SchemaError), match=said) as refused:
        adopt(store, lake, time="t")
    assert "chronicle ingest" in str(refused.value)
    assert store.stream_names() == ()
    assert not (store.path / "s").exists()
    assert bytes_of(lake) == before


def test_text_that_is_not_utf8_is_refused(store: Store, tmp_path: Path) -> None:
    pq.write_table(unreadable_text(rows(0, 9)), tmp_path / "x.parquet")
    with pytest.raises(SchemaError, match="not UTF-8"):
        adopt(store, tmp_path / "x.parquet", time="t")
    assert store.stream_names() == ()


def test_what_is_no_table_is_refused(store: Store, tmp_path: Path, lake: Path) -> None:
    for path, said in (
        (tmp_path / "nowhere", "no table at"),
        (store.path, "neither a Delta table nor Parquet"),
        (Path("s3://bucket/x"), "is a URL"),
    ):
        with pytest.raises(ChronicleError, match=said):
            adopt(store, path, time="t")
    write_deltalake(lake / "inner", rows(900, 950))
    with pytest.raises(SourceError, match=r"holds .* is a Delta table"):
        adopt(store, lake, time="t")


def edit_log(table: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change the first commit of a Delta table, as another program might have written it."""
    commit = table / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        edit(action)
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))


def deletes_by_vector(action: dict[str, Any]) -> None:
    if "protocol" in action:
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    if "add" in action:
        vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
        action["add"]["deletionVector"] = {**vector, "sizeInBytes": 40, "cardinality": 6}


def maps_columns(action: dict[str, Any]) -> None:
    if "protocol" in action:
        action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    if "metaData" in action:
        action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
        schema = json.loads(action["metaData"]["schemaString"])
        for i, field in enumerate(schema["fields"]):
            physical = {"delta.columnMapping.physicalName": f"col-{i}"}
            field["metadata"] = {"delta.columnMapping.id": i, **physical}
        action["metaData"]["schemaString"] = json.dumps(schema)


def has_unknown_feature(action: dict[str, Any]) -> None:
    if "protocol" in action:
        features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
        action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}


def lies_elsewhere(action: dict[str, Any]) -> None:
    if "add" in action:
        action["add"]["path"] = "file:///elsewhere/x.parquet"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (deletes_by_vector, "deletion vectors"),
        (maps_columns, "columnMapping"),
        (has_unknown_feature, "typeWidening"),
        (lies_elsewhere, "other places"),
    ],
)
def test_a_delta_table_whose_files_are_not_its_rows_is_refused(
    edit: Callable[[dict[str, Any]], None], said: str, store: Store, tmp_path: Path
) -> None:
    write_deltalake(tmp_path / "table", rows(0, 9))
    edit_log(tmp_path / "table", edit)
    with pytest.raises(ChronicleError, match=said):
        adopt(store, tmp_path / "table", time="t")
    assert store.stream_names() == ()


# ---------------------------------------------------------------------------------------------
# A file that changed is never answered from.


def shuffle_in_place(path: Path) -> None:
    pq.write_table(shuffled(pq.read_table(path)), path, row_group_size=30)


@pytest.mark.parametrize("spoil", [shuffle_in_place, Path.unlink, lambda path: path.write_text("")])
@pytest.mark.parametrize("sql", [COUNT, WINDOWS])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_file_that_was_changed_or_is_gone_is_never_answered_from(
    spoil: Callable[[Path], object], sql: str, is_open: bool, adopted: Store, lake: Path
) -> None:
    if is_open:
        assert n_events(adopted, sql) == 300
    spoil(lake / "1.parquet")
    for plan in ("full", "auto"):
        store = adopted if is_open else chronicle.open_store(adopted.path)
        with pytest.raises(ChangedFileError, match=r"1\.parquet") as refused:
            replay.query(store, sql, plan=plan)
        assert "chronicle adopt" in str(refused.value)
    found = replay.query(adopted, sql, skip_damaged=True)
    assert sum(row["n"] for row in found.table.to_pylist()) == 200
    assert "100 events" in found.actual.warnings[0]


def test_a_footer_of_another_content_is_noticed_though_size_and_time_are_the_same(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "x.parquet"
    write = partial(pq.write_table, where=path, compression="none", use_dictionary=False)
    write(rows(0, 100))
    adopt(store, path, time="t")
    before = path.stat()
    write(rows(0, 100).set_column(1, "a", pa.array(range(100))))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    with pytest.raises(ChangedFileError, match="footer"):
        replay.query(store, COUNT, plan="full")


def test_a_file_that_is_changed_while_it_is_read_is_noticed(adopted: Store, lake: Path) -> None:
    snapshot = adopted.stream("s").snapshot()
    blocks = np.arange(snapshot.n_blocks)
    assert snapshot.read_blocks(blocks, ["a"]).num_rows == 300
    shuffle_in_place(lake / "1.parquet")
    with pytest.raises(ChangedFileError):
        snapshot.read_blocks(blocks, ["a"])


def test_adopting_again_takes_a_changed_file_that_is_in_order_and_refuses_another(
    adopted: Store, lake: Path
) -> None:
    pq.write_table(rows(100, 190), lake / "1.parquet", row_group_size=40)
    report = adopt(adopted, lake)
    assert (report.n_new, report.n_gone, report.n_events) == (1, 1, 290)
    assert n_events(adopted) == 290
    shuffle_in_place(lake / "1.parquet")
    with pytest.raises(SourceError, match="goes back"):
        adopt(adopted, lake)
    with pytest.raises(ChangedFileError):
        n_events(adopted)
    assert "every byte of a data file matches its checksum" in faults(adopted)


def faults(store: Store) -> list[str]:
    found = chronicle.check_stream(store.stream("s"), deep=True, derived_checks=[check_runs])
    return [finding.invariant for finding in found if finding.severity == "fault"]


# ---------------------------------------------------------------------------------------------
# What comes and goes.


def test_new_files_are_taken_and_old_versions_stay(adopted: Store, lake: Path) -> None:
    assert adopt(adopted, lake).n_new == 0
    pq.write_table(rows(299, 350), lake / "3.parquet")  # a tie at the border
    report = adopt(adopted, lake)
    assert (report.n_new, report.n_files, report.n_events) == (1, 4, 351)
    assert n_events(adopted) == 351
    assert replay.query(adopted, COUNT, as_of=1).table.to_pylist() == [{"n": 300}]
    (lake / "3.parquet").unlink()
    assert adopt(adopted, lake).n_events == 300
    assert [entry.n_events for entry in chronicle.history(adopted.stream("s"))][:2] == [None, 51]
    assert faults(adopted) == []


def test_a_delta_table_is_followed_through_optimize_and_delete(
    store: Store, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    for i in range(3):
        write_deltalake(table, rows(i * 100, i * 100 + 100), mode="append")
    write_deltalake(table, rows(500, 600), mode="append")
    DeltaTable(table).delete("t >= 500")
    (table / "loose.parquet").write_bytes(b"no part of the table")
    assert adopt(store, table, time="t", begin=INDEX).n_events == 300
    DeltaTable(table).delete("t < 50")
    assert adopt(store, table).n_events == n_events(store) == 250
    DeltaTable(table).optimize.compact()
    with suppress(SourceError):  # OPTIMIZE may write in no order; the files it replaced are there
        adopt(store, table)
    assert n_events(store) == 250
    assert faults(store) == []


def test_partition_columns_are_columns(store: Store, tmp_path: Path) -> None:
    events = rows(0, 90).append_column("day", pa.array([f"d {t // 30}/é" for t in range(90)]))
    write_deltalake(tmp_path / "table", events, partition_by=["day"])
    adopt(store, tmp_path / "table", time="t", begin=partial(INDEX, attributes=["day"]))
    sql = "SELECT t, day, a FROM s WHERE day = 'd 1/é'"
    expected = events.slice(30, 30).select(["t", "day", "a"]).to_pylist()
    for plan in ("full", "all", "auto"):
        found = replay.query(store, sql, plan=plan)
        assert found.table.to_pylist() == expected
    assert faults(store) == []


def test_partitions_of_parquet_folders_are_typed(store: Store, tmp_path: Path) -> None:
    for folder in ("5/zone=10", "6/zone=11", "7/zone=01"):
        month = int(folder[0])
        path = tmp_path / "lake" / f"month={folder}"
        path.mkdir(parents=True)
        pq.write_table(rows(month * 10, month * 10 + 10), path / "x.parquet")
        if month == 6:
            adopt(store, tmp_path / "lake", time="t", key="month")
    with pytest.raises(SchemaError, match="'zone=01', and column 'zone' is BIGINT in the stream"):
        adopt(store, tmp_path / "lake", time="t", key="month")
    adopt_function(store, "new", tmp_path / "lake", time="t")
    sql = "SELECT month, zone, COUNT(*) AS n FROM s GROUP BY month, zone"
    assert [tuple(row.values()) for row in replay.query(store, sql)] == [
        (5, 10, 10), (6, 11, 10),
    ]  # fmt: skip
    assert store.stream("new").schema.field("zone").type == pa.string()


def test_one_file_of_instants_written_as_int96_is_read_as_utc(store: Store, tmp_path: Path) -> None:
    times = pa.array([10**15, 10**15 + 1], pa.timestamp("us", "UTC"))
    pq.write_table(
        pa.table({"t": times}), tmp_path / "x.parquet", use_deprecated_int96_timestamps=True
    )
    adopt(store, tmp_path / "x.parquet", time="t")
    assert replay.query(store, "SELECT t FROM s").table.column("t").combine_chunks() == times


def test_a_stream_of_its_own_or_of_another_table_is_not_adopted_over(
    adopted: Store, lake: Path, tmp_path: Path
) -> None:
    pq.write_table(rows(0, 9), tmp_path / "x.parquet")
    with pytest.raises(StorageError, match="was adopted from"):
        adopt(adopted, tmp_path / "x.parquet", time="t")
    append_files(adopted, "own", [tmp_path / "x.parquet"], AppendOptions(time="t"))
    with pytest.raises(StorageError, match="events of its own"):
        adopt_function(adopted, "own", lake, time="t")
    with pytest.raises(SchemaError, match="time column"):
        adopt(adopted, lake, time="a")


# ---------------------------------------------------------------------------------------------
# The table is never written.


def test_whatever_writes_events_is_refused(adopted: Store, lake: Path) -> None:
    stream = adopted.stream("s")
    options = IngestOptions(time="t")
    for write in (
        lambda: stream.append(rows(900, 910)),
        lambda: append_files(adopted, "s", [lake], AppendOptions()),
        lambda: ingest(adopted, "s", [lake], options),
        lambda: chronicle.delete_range(stream, 0, 50, derived=None),
        lambda: chronicle.compact_events(stream, derived=None, full=True),
        lambda: chronicle.add_column(stream, "y", "double"),
    ):
        with pytest.raises(AdoptedStreamError, match="never writes"):
            write()
    assert stream.snapshot().version == 1


def test_whatever_tends_a_stream_leaves_the_table_as_it_is(
    adopted: Store, lake: Path, tmp_path: Path
) -> None:
    pq.write_table(rows(300, 310), lake / "3.parquet")
    adopt(adopted, lake)
    (lake / "3.parquet").unlink()
    adopt(adopted, lake)
    before = bytes_of(lake)
    stream = adopted.stream("s")
    create_index(stream, ["s"], least_events=0)
    drop_index(stream, "a")
    compact_index(stream, full=True)
    for tree in (stream.path / "tree").glob("*.parquet"):
        tree.write_bytes(b"damaged")
    chronicle.repair_stream(stream, derived=WRITER(stream), derived_checks=[check_runs])
    report = chronicle.vacuum(stream, derived=WRITER(stream), retention=dt.timedelta(0))
    assert report.n_files > 0
    assert n_events(adopted) == 300
    assert faults(adopted) == []
    renamed = chronicle.rename_stream(adopted, "s", "r")
    assert renamed.snapshot().n_events == 300
    (tmp_path / "moved").mkdir()
    adopted.path.rename(tmp_path / "moved" / "store")
    moved = chronicle.open_store(tmp_path / "moved" / "store")
    assert moved.stream("r").snapshot().n_events == 300
    chronicle.drop_stream(moved, "r")
    assert bytes_of(lake) == before


def test_a_failure_before_the_commit_leaves_nothing_and_adopting_again_does_it(
    store: Store, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["chronicle.write.adopt"], "commit_change", fail)
        with pytest.raises(StorageError, match="no space"):
            adopt(store, lake, time="t", begin=INDEX)
    assert store.stream_names() == ()
    adopt(store, lake, time="t", begin=INDEX)
    pq.write_table(rows(300, 310), lake / "3.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["chronicle.write.adopt"], "commit_change", fail)
        with pytest.raises(StorageError, match="no space"):
            adopt(store, lake)
    assert n_events(store) == 300
    assert len(list((store.path / "s" / "events").glob("*.parquet"))) == 3
    assert adopt(store, lake).n_events == 310


def test_a_tree_file_of_other_blocks_than_its_file_has_misplaces_no_event(
    adopted: Store, lake: Path
) -> None:
    stream = adopted.stream("s")
    name = next(file.name for file in stream.snapshot().files if file.t_min == 0)
    events = pq.read_table(lake / "0.parquet").combine_chunks()
    times = events.column("t").to_numpy()
    write_tree(stream.path, name, events, times, [10, 30, 30, 30], stream.settings)
    with pytest.raises(CorruptTreeError, match="blocks of other sizes"):
        replay.query(chronicle.open_store(adopted.path), COUNT, plan="full")
    chronicle.repair_store(adopted.path)
    found = replay.query(chronicle.open_store(adopted.path), COUNT, plan="full")
    assert found.table.to_pylist() == [{"n": 300}]


def test_derived_attributes_and_summaries_by_key_are_kept_beside(store: Store, lake: Path) -> None:
    adopt(store, lake, time="t", key="s", derive=["delta(a)", "by(a)"])
    pq.write_table(rows(300, 400), lake / "3.parquet")
    adopt(store, lake)
    create_index(store.stream("s"), ["delta(a)"], least_events=0)
    sql = (
        "SELECT n FROM s MATCH_RECOGNIZE (PARTITION BY s ORDER BY t MEASURES B.t AS n "
        "PATTERN (A B) DEFINE B AS B.a > PREV(B.a) + 2)"
    )
    expected = replay.query({"s": rows(0, 400)}, sql).table.to_pylist()
    assert len(expected) > 10
    for plan in ("full", "all", "auto"):
        assert replay.query(store, sql, plan=plan).table.to_pylist() == expected
    assert faults(store) == []
