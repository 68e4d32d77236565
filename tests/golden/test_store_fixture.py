"""The store of this format version: every later Chronicle has to read it, and to go on with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import replay
from chronicle import Snapshot, Store, open_store
from chronicle.config import FORMAT_VERSION
from chronicle.describe import history
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.finding import Severity
from chronicle.maintenance.repair import repair_stream
from chronicle.write.quarantine import QUARANTINE_TABLE
from indexing import KeyRanges, check_runs, open_indexes, writer_for
from replay.errors import PlanError
from scripts.make_store_fixture import SCHEMA, START, STREAM, to_plain

FIXTURE = Path(__file__).parent.parent / "fixtures" / "store-v2"

QUERIES = (
    "PATTERN (A B) DEFINE A AS A.price < 100, B AS B.price > 100",
    "PATTERN (A Z*? B) WITHIN INTERVAL '20' MINUTE DEFINE A AS A.symbol = 'AAA', B AS price > 105",
    "PATTERN (A) DEFINE A AS A.note IS NOT NULL AND A.price >= 95",
    "PATTERN (A B) DEFINE A AS A.price = 0, B AS B.odd",
    "PATTERN (A) DEFINE A AS A.symbol IN ('Cé', '') AND A.note IS NULL",
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A copy, since whoever opens a store may repair it."""
    folder = tmp_path_factory.mktemp("fixture") / "store"
    shutil.copytree(FIXTURE / "store", folder)
    return open_store(folder)


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))


def plain_rows(snapshot: Snapshot) -> list[list[object]]:
    table = snapshot.read_blocks(np.arange(snapshot.n_blocks), snapshot.schema.names)
    return [[to_plain(value) for value in row.values()] for row in table.to_pylist()]


def in_memory(store: Store) -> pa.Table:
    snapshot = store.stream(STREAM).snapshot()
    table = snapshot.read_blocks(np.arange(snapshot.n_blocks), snapshot.schema.names)
    return table.cast(snapshot.schema)


def test_fixture_is_of_version_2_and_small(store: Store) -> None:
    assert json.loads((store.path / "chronicle-store.json").read_text()) == {"format_version": 2}
    assert FORMAT_VERSION >= 2
    size = sum(file.stat().st_size for file in FIXTURE.rglob("*") if file.is_file())
    assert size < 300_000


def test_events_are_those_that_were_written(store: Store, expected: dict[str, Any]) -> None:
    snapshot = store.stream(STREAM).snapshot()
    assert snapshot.schema.names == expected["columns"]
    assert snapshot.schema == SCHEMA.append(pa.field("note", pa.string()))
    assert plain_rows(snapshot) == expected["rows"]
    assert not any(file.has_tree for file in snapshot.files)
    [fault] = snapshot.faults
    assert "an older Chronicle wrote" in fault
    assert "'chronicle repair' writes them anew" in fault
    snapshot.tree._check()


def test_every_version_has_the_events_it_had(store: Store, expected: dict[str, Any]) -> None:
    stream = store.stream(STREAM)
    arrival = expected["columns"].index("arrival")
    for version, n_events in expected["versions"].items():
        snapshot = stream.snapshot(int(version))
        columns = list(snapshot.schema.names)
        kept = [row[: len(columns)] for row in expected["rows"] if row[arrival] < n_events]
        assert plain_rows(snapshot) == kept, version
    totals = {entry.version: entry.n_events_total for entry in history(stream)}
    assert totals.items() >= {int(v): n for v, n in expected["versions"].items()}.items()


def test_all_plans_agree(store: Store) -> None:
    table = in_memory(store)
    for query in QUERIES:
        sql = (
            f"SELECT * FROM {STREAM} MATCH_RECOGNIZE (ORDER BY at "
            f"MEASURES FIRST(arrival) AS a, LAST(arrival) AS b, LAST(note) AS n {query})"
        )
        rows = replay.query({STREAM: table}, sql).table
        assert rows.num_rows > 0
        for plan in ("full", "tree", "all", "auto"):
            try:
                result = replay.query(store, sql, plan=plan)
            except PlanError:
                assert plan in ("tree", "all")
                continue
            assert result.table.equals(rows), (query, plan)
            assert all("an older Chronicle wrote" in said for said in result.actual.warnings)


def test_indexes_answer_from_the_events(store: Store) -> None:
    snapshot = store.stream(STREAM).snapshot()
    opened = open_indexes(snapshot)
    assert opened.attributes == ("delta(price)", "price", "symbol")
    for attribute in opened.attributes:
        assert opened.index(attribute).n_tail_events == snapshot.n_events
    assert len(opened.faults) == 3
    assert all("an older Chronicle wrote" in fault for fault in opened.faults)


def test_repair_writes_trees_and_runs_anew(tmp_path: Path, expected: dict[str, Any]) -> None:
    shutil.copytree(FIXTURE / "store", tmp_path / "store")
    stream = open_store(tmp_path / "store").stream(STREAM)
    writer = writer_for(stream)
    assert repair_stream(stream, derived=writer, derived_checks=[check_runs]).n_written > 0
    found = check_stream(stream.path, deep=True, derived_checks=[check_runs])
    assert {f.severity for f in found} == {Severity.OK}
    for version, n_events in expected["versions"].items():
        snapshot = open_store(tmp_path / "store").stream(STREAM).snapshot(int(version))
        assert len(plain_rows(snapshot)) == n_events
        opened = open_indexes(snapshot)
        lookups = [opened.index(a).lookup(KeyRanges.everything()) for a in opened.attributes]
        assert all(len(found.seq) <= n_events for found in lookups)
    snapshot = open_store(tmp_path / "store").stream(STREAM).snapshot()
    assert snapshot.faults == ()
    assert all(file.has_tree for file in snapshot.files)
    opened = open_indexes(snapshot)
    for attribute in opened.attributes:
        opened.index(attribute).lookup(KeyRanges.everything())
    assert opened.faults == []


def test_quarantine_holds_what_could_not_be_taken(store: Store, expected: dict[str, Any]) -> None:
    from chronicle.log.delta_log import live_files

    files = live_files(store.path / STREAM / QUARANTINE_TABLE)
    assert sum(file.n_rows or 0 for file in files) == expected["n_quarantined"]


def test_the_stream_goes_on(tmp_path: Path, store: Store) -> None:
    folder = tmp_path / "store"
    shutil.copytree(store.path, folder)
    stream = open_store(folder).stream(STREAM)
    before = stream.snapshot()
    row = dict.fromkeys(stream.schema.names) | {"at": START, "arrival": -1}
    stream.append(pa.Table.from_pylist([row], schema=stream.schema))
    after = open_store(folder).stream(STREAM).snapshot()
    assert after.n_events == before.n_events + 1
    block = after.read_blocks(np.array([0]), ["arrival"])["arrival"].to_pylist()
    assert block[:2] == [0, -1]  # late, at the time of the first event and after it
