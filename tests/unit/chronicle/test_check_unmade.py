"""A table whose making was killed before its first commit is no fault."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from chronicle import Store, StreamSettings, create_store
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.finding import Severity
from chronicle.write.quarantine import QUARANTINE_TABLE
from indexing.check import check_runs

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64())])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = create_store(tmp_path / "store")
    stream = store.create_stream("s", SCHEMA, StreamSettings(time="t"))
    stream.append(pa.table({"t": [5, 6], "a": [1, 2]}, SCHEMA))
    return store


def severities(store: Store, table: str) -> set[Severity]:
    findings = check_stream(store.stream("s"), derived_checks=(check_runs,))
    return {f.severity for f in findings if f.file.startswith(f"s/{table}")}


@pytest.mark.parametrize("table", ["index/a", QUARANTINE_TABLE])
def test_folder_without_a_commit_is_a_leftover(store: Store, table: str) -> None:
    (store.path / "s" / table / "_delta_log").mkdir(parents=True)
    assert severities(store, table) == {Severity.WARNING}


def test_quarantine_that_lost_its_log_is_a_fault(store: Store) -> None:
    late = pa.table({"t": [1], "a": [1]}, SCHEMA)
    store.stream("s").append(late, late="quarantine")
    for commit in (store.path / "s" / QUARANTINE_TABLE / "_delta_log").iterdir():
        commit.unlink()
    assert Severity.FAULT in severities(store, QUARANTINE_TABLE)
