"""Files that a power failure cut: nothing is answered from them, and repair puts logs right."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from chronicle import Store, create_store, open_store
from chronicle.errors import StorageError
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.finding import faults_of
from chronicle.maintenance.repair import repair_stream
from chronicle.settings import StreamSettings
from chronicle.write.append import append
from indexing import RunWriter, clear_caches
from indexing.check import check_runs
from tests.store_model import NUMBERED, PROBE, Row, check_answers, plain, rows_of

RUNS = RunWriter(("a", "s"), "t")
CUTS = {
    "empty": lambda whole: b"",
    "zeros": lambda whole: bytes(len(whole)),
    "cut": lambda whole: whole[: len(whole) // 2],
    "zeros at its end": lambda whole: whole[: len(whole) // 2] + bytes(len(whole) // 2),
}


def rows_from(first: int, stop: int) -> list[Row]:
    return [
        {"t": t, "a": t % 3, "x": t / 2, "s": "ab"[t % 2], "f": None, "k": None, "n": t}
        for t in range(first, stop)
    ]


def make_store(path: Path, n_appends: int = 3) -> Store:
    store = create_store(path)
    knobs = StreamSettings(time="t", block_events=3, file_events=9, fan_out=2)
    stream = store.create_stream("s", NUMBERED, knobs)
    for i in range(n_appends):
        rows = rows_from(5 * i, 5 * i + 5)
        stream.append(pa.Table.from_pylist(rows, schema=NUMBERED), derived=RUNS)
    return store


def newest_commit(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


@pytest.mark.parametrize("cut", CUTS)
def test_a_newest_commit_that_was_cut_is_put_aside_and_kept(tmp_path: Path, cut: str):
    store = make_store(tmp_path / "store")
    fresh = pa.Table.from_pylist(rows_from(15, 20), schema=NUMBERED)
    with (
        patch("chronicle.write.commit.commit_tree"),
        patch("chronicle.write.commit.commit_derived"),
    ):
        append(store.stream("s"), fresh)
    commit = newest_commit(store.path / "s/events")
    torn = CUTS[cut](commit.read_bytes())
    commit.write_bytes(torn)
    with pytest.raises(StorageError, match="'chronicle repair' puts it aside"):
        open_store(store.path).stream("s").snapshot()
    report = repair_stream(store.path / "s", derived=RUNS, derived_checks=(check_runs,))
    assert report.put_aside == (f"s/put-aside/events/{commit.name}",)
    assert (store.path / report.put_aside[0]).read_bytes() == torn
    assert report.left == ()
    assert plain(rows_of(open_store(store.path).stream("s"))) == plain(rows_from(0, 15))
    open_store(store.path).stream("s").append(fresh, derived=RUNS)
    check_answers(open_store(store.path), "s", rows_from(0, 20), PROBE)
    assert faults_of(check_stream(store.path / "s", deep=True)) == []


def test_a_commit_that_others_stand_on_stays_where_it_is(tmp_path: Path):
    store = make_store(tmp_path / "store")
    log = store.path / "s/events/_delta_log"
    (log / f"{2:020d}.json").write_bytes(b"")
    assert repair_stream(store.path / "s").put_aside == ()
    assert (log / f"{2:020d}.json").exists()


def test_a_commit_that_was_whole_once_stays_where_it_is(tmp_path: Path):
    store = make_store(tmp_path / "store")
    commit = newest_commit(store.path / "s/events")
    commit.write_bytes(b"")
    report = repair_stream(store.path / "s", derived=RUNS)
    assert report.put_aside == ()
    assert report.left
    assert commit.exists()


@pytest.mark.parametrize("table", ["tree", "index/a"])
def test_a_derived_table_whose_newest_commit_was_cut_costs_time(tmp_path: Path, table: str):
    store = make_store(tmp_path / "store")
    newest_commit(store.path / "s" / table).write_bytes(b"{")
    clear_caches()
    check_answers(open_store(store.path), "s", rows_from(0, 15), PROBE)
    report = repair_stream(store.path / "s", derived=RUNS, derived_checks=(check_runs,))
    assert [Path(place).parent.as_posix() for place in report.put_aside] == [f"s/put-aside/{table}"]
    assert report.replaced == ()
    check = check_stream(store.path / "s", deep=True, derived_checks=(check_runs,))
    assert faults_of(check) == []


def test_a_checkpoint_that_was_cut_is_put_aside(tmp_path: Path):
    store = make_store(tmp_path / "store", n_appends=0)
    for i in range(21):
        rows = rows_from(i, i + 1)
        store.stream("s").append(pa.Table.from_pylist(rows, schema=NUMBERED))
    log = store.path / "s/events/_delta_log"
    [checkpoint] = log.glob("*.checkpoint*.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:500])
    with pytest.raises(StorageError, match="'chronicle repair' puts it aside"):
        open_store(store.path).stream("s").snapshot()
    report = repair_stream(store.path / "s", derived=RUNS)
    assert report.put_aside == (f"s/put-aside/events/{checkpoint.name}",)
    assert plain(rows_of(open_store(store.path).stream("s"))) == plain(rows_from(0, 21))
