"""Events older than the end of their stream, through Spark: merged, refused or put aside."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import LateEventError
from chronicle.ingest.pipeline import ingest
from chronicle.log import delta_log
from chronicle.store import Store
from chronicle.write.quarantine import LATE_REASON
from indexing import RunWriter, open_indexes
from tests.ingest_files import TIES, Row, options, read_rows, write_rows
from tests.power_loss import watched_disk

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def rows_of(times: list[int], first: int = 0) -> list[Row]:
    return [{"t": t, "n": first + i, "pad": "x" * (t % 7)} for i, t in enumerate(times)]


def by_time(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["t"])


def test_reports_in_random_order_give_the_load_sorted_by_time_and_arrival(
    tmp_path: Path, store: Store
) -> None:
    # Like crimes: events of 300 hours reported in eight months, some long after they happened.
    generator = random.Random(11)
    rows: list[Row] = []
    given = options(index=("n",), file_events=100, block_events=16, split_bytes=16_000)
    for month in range(8):
        times = [max(0, 37 * (month + 1) - int(generator.expovariate(1 / 40))) for _ in range(150)]
        new = rows_of(times, first=len(rows))
        path = write_rows(tmp_path / f"{month}.parquet", new, TIES)
        end = max((row["t"] for row in rows), default=0)
        report = ingest(store, "s", [path], given, derived=RunWriter)
        assert report.n_late == sum(row["t"] < end for row in new)
        assert report.n_events == 150
        rows += new
    assert read_rows(store) == by_time(rows)
    snapshot = store.stream("s").snapshot()
    assert all(file.n_events <= 100 for file in snapshot.files)
    assert all(file.has_tree for file in snapshot.files)
    assert open_indexes(snapshot).index("n").n_entries == len(rows)
    newest = delta_log.commits(store.path / "s" / "events")
    ingests = [
        one.metadata for one in newest if one.metadata.get("chronicle.operation") == "ingest"
    ]
    assert sum(int(one["n_events"]) for one in ingests) == len(rows)


@pytest.mark.parametrize(
    ("late", "n_rewritten"),
    [
        pytest.param([2], 1, id="before the first event"),
        pytest.param([13], 1, id="at the first time of a file"),
        pytest.param([14, 13], 1, id="inside a file"),
        pytest.param([12, 15], 2, id="at the last times of two files"),
        pytest.param([10, 13, 16], 3, id="in every file"),
        pytest.param([1, 2], 0, id="half a file before the first event"),
    ],
)
def test_late_events_come_after_all_of_their_time_and_rewrite_their_file_alone(
    tmp_path: Path, store: Store, late: list[int], n_rewritten: int
) -> None:
    # Files [10..12], [13..15], [16..18] of four events each.
    first = rows_of([10, 11, 12, 12, 13, 13, 14, 15, 16, 17, 17, 18])
    second = rows_of([*late, 18, 20], first=100)
    given = options(file_events=4, block_events=2)
    ingest(store, "s", [write_rows(tmp_path / "a.parquet", first, TIES)], given)
    before = {file.name for file in store.stream("s").snapshot().files}
    report = ingest(store, "s", [write_rows(tmp_path / "b.parquet", second, TIES)], given)
    assert (report.n_late, report.n_rewritten) == (len(late), n_rewritten)
    assert read_rows(store) == by_time(first + second)
    events = store.path / "s" / "events"
    removed = [change for change in delta_log.changes_since(events, 1) if change.removed]
    assert sum(len(change.removed) for change in removed[:1]) == n_rewritten
    assert n_rewritten == 0 or set(removed[0].removed) <= before
    assert f"late: {len(late)} of them" in str(report)


def test_late_part_of_input_in_order_is_merged_without_a_sort(tmp_path: Path, store: Store) -> None:
    first, second = rows_of(list(range(0, 100, 2))), rows_of(list(range(1, 200, 2)), first=100)
    ingest(store, "s", [write_rows(tmp_path / "a.parquet", first, TIES)], options())
    report = ingest(store, "s", [write_rows(tmp_path / "b.parquet", second, TIES)], options())
    assert (report.in_order, report.n_late) == (True, 49)
    assert read_rows(store) == by_time(first + second)


def quarantine(store: Store) -> list[Row]:
    table = store.path / "s" / "quarantine"
    files = [table / file.name for file in delta_log.live_files(table)]
    rows = pa.concat_tables([pq.read_table(file) for file in files]).to_pylist()
    return sorted(rows, key=lambda row: row["record"])


def test_late_events_are_put_aside_with_their_source(tmp_path: Path, store: Store) -> None:
    ingest(store, "s", [write_rows(tmp_path / "a.parquet", rows_of([10, 20]), TIES)], options())
    second = [*rows_of([15, 25, 5], first=10), {"t": None, "n": 99, "pad": None}]
    path = write_rows(tmp_path / "b.parquet", second, TIES)
    report = ingest(store, "s", [path], options(late="quarantine"))
    assert report.reasons == {LATE_REASON: 2, "no time in column 't'": 1}
    assert (report.n_events, report.n_late, report.n_quarantined) == (1, 0, 3)
    assert [row["t"] for row in read_rows(store)] == [10, 20, 25]
    late = [row for row in quarantine(store) if row["reason"] == LATE_REASON]
    assert [json.loads(row["record"])["t"] for row in late] == [15, 5]
    assert {row["source"] for row in late} == {str(path)}


def test_ingest_of_nothing_but_late_events_that_are_put_aside_is_remembered(
    tmp_path: Path, store: Store
) -> None:
    ingest(store, "s", [write_rows(tmp_path / "a.parquet", rows_of([10, 20]), TIES)], options())
    path = write_rows(tmp_path / "b.parquet", rows_of([1, 2]), TIES)
    first = ingest(store, "s", [path], options(late="quarantine"))
    again = ingest(store, "s", [path], options(late="quarantine"))
    assert (first.n_events, first.n_quarantined, again.n_skipped) == (0, 2, 1)
    assert len(quarantine(store)) == 2


def test_late_events_are_refused_where_they_are_to_be(tmp_path: Path, store: Store) -> None:
    ingest(store, "s", [write_rows(tmp_path / "a.parquet", rows_of([10, 20]), TIES)], options())
    path = write_rows(tmp_path / "b.parquet", rows_of([30, 19, 20, 5]), TIES)
    told = r"2 of 4 events .*\(20\).*oldest of 5.*19 in 'b.*--late merge"
    with pytest.raises(LateEventError, match=told) as refused:
        ingest(store, "s", [path], options(late="reject"))
    assert refused.value.n_late == 2
    assert [row["t"] for row in read_rows(store)] == [10, 20]
    assert not list(store.path.glob(".ingest-*"))
    assert ingest(store, "s", [path], options()).n_late == 2
    assert [row["t"] for row in read_rows(store)] == [5, 10, 19, 20, 20, 30]


@pytest.mark.parametrize("said", ["on", "off"])
def test_what_workers_wrote_is_flushed_before_it_is_acknowledged(
    tmp_path: Path, store: Store, said: str
) -> None:
    given = options(file_events=100, block_events=16)
    with watched_disk() as disk, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHRONICLE_SYNC", said)
        for i, times in enumerate((range(300), range(250, 400))):
            path = write_rows(tmp_path / f"{i}.csv", rows_of([*times, *times]), TIES)
            ingest(store, "s", [path], given)
    table = store.path / "s" / "events"
    files = [table / file.name for file in delta_log.live_files(table)]
    commits = sorted((table / "_delta_log").glob("*.json"))
    for path in (*files, *commits):
        assert (disk.contents.get(path.stat().st_ino) == path.read_bytes()) == (said == "on")
    if said == "on":
        assert {path.name for path in files} <= disk.names[table.stat().st_ino].keys()
        assert "s" in disk.names[store.path.stat().st_ino]
