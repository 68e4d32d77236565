"""An index whose folder was deleted is missed: check and queries say so, repair makes it anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings, create_store, open_store
from chronicle.log.stream_metadata import ATTRIBUTES_FILE
from chronicle.maintenance.check import LOGS, check_stream
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.finding import Finding, Severity
from chronicle.maintenance.repair import repair_stream
from chronicle.maintenance.vacuum import vacuum
from chronicle.store import Stream
from indexing import (
    KeyRange,
    KeyRanges,
    RunWriter,
    UnknownIndexError,
    open_indexes,
    writer_for,
)
from indexing.check import check_runs
from indexing.lifecycle import compact_index, create_index, drop_index, list_indexes

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
SEVENS = "SELECT t FROM s WHERE a = 7"


def events(first: int, stop: int) -> pa.Table:
    """Events of which a is the time modulo 10 and b its half."""
    times = range(first, stop)
    columns = {"t": times, "a": [t % 10 for t in times], "b": [t // 2 for t in times]}
    return pa.table(columns, SCHEMA)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A stream of 40 events in one data file, indexed by a and by b."""
    store = create_store(tmp_path / "store")
    stream = store.create_stream("s", SCHEMA, StreamSettings(time="t", block_events=4))
    stream.append(events(0, 40))
    create_index(stream, ["a", "b"], least_events=1)
    return store


def lose(store: Store, *folder: str) -> Stream:
    shutil.rmtree(store.path.joinpath("s", "index", *folder))
    return open_store(store.path).stream("s")


def faults(stream: Stream) -> list[Finding]:
    found = check_stream(stream, derived_checks=[check_runs])
    return [finding for finding in found if finding.severity is not Severity.OK]


def repair(stream: Stream) -> None:
    writer = writer_for(stream, least_events=1)
    assert repair_stream(stream, derived=writer, derived_checks=[check_runs]).left == ()


def declared(store: Store) -> list[str]:
    tables: list[str] = json.loads((store.path / "s" / ATTRIBUTES_FILE).read_text())["tables"]
    return tables


def runs(stream: Stream) -> dict[str, int]:
    return {described.attribute: described.n_runs for described in list_indexes(stream.snapshot())}


def test_check_names_the_indexes_that_are_gone_and_the_remedy(store: Store) -> None:
    assert faults(store.stream("s")) == []
    gone = "the log of a table is gone"
    of_a, of_b = (
        Finding(Severity.FAULT, LOGS, f"s/index/{name}/_delta_log", gone, "chronicle repair")
        for name in "ab"
    )
    assert faults(lose(store, "b")) == [of_b]
    assert faults(lose(store)) == [of_a, of_b]


def test_repair_makes_lost_indexes_anew(store: Store) -> None:
    stream = lose(store)
    repair(stream)
    assert faults(stream) == []
    assert runs(stream) == {"a": 1, "b": 1}
    found = open_indexes(stream.snapshot()).index("a").lookup(KeyRanges.of([KeyRange(7, 7)]))
    assert found.seq.tolist() == [7, 17, 27, 37]


def test_creating_a_lost_index_makes_it_anew(store: Store) -> None:
    stream = lose(store, "a")
    assert len(faults(stream)) == 1
    [report] = create_index(stream, ["a"], least_events=1)
    assert (report.existed, report.n_files) == (False, 1)
    assert faults(stream) == []


def test_query_answers_the_same_and_says_that_an_index_is_missing(store: Store) -> None:
    lose(store, "a")
    result = replay.query(open_store(store.path), SEVENS)
    assert result.table.column("t").to_pylist() == [7, 17, 27, 37]
    [warning] = result.actual.warnings
    assert "the runs of index 'a' are not known" in warning
    assert "'chronicle repair' writes them anew" in warning


def test_an_index_written_with_the_first_events_is_missed_too(store: Store) -> None:
    stream = store.create_stream("r", SCHEMA, StreamSettings(time="t"))
    stream.append(events(0, 40), derived=RunWriter(("a",), "t"))
    assert faults(stream) == []
    shutil.rmtree(stream.path / "index")
    assert [finding.file for finding in faults(stream)] == ["r/index/a/_delta_log"]


def test_a_lost_index_is_listed_without_runs(store: Store) -> None:
    assert runs(lose(store, "a")) == {"a": 0, "b": 1}


def test_a_stream_that_lost_its_indexes_can_be_tended(store: Store) -> None:
    stream = lose(store)
    stream.append(events(40, 60), derived=writer_for(stream))
    compact_events(stream, derived=writer_for(stream), full=True)
    compact_index(stream, full=True)
    vacuum(stream, derived=writer_for(stream))
    assert replay.query(store, SEVENS).table.column("t").to_pylist() == [7, 17, 27, 37, 47, 57]
    repair(stream)
    assert faults(stream) == []
    assert runs(stream) == {"a": 1, "b": 1}


def test_a_dropped_index_is_not_missed(store: Store) -> None:
    stream = store.stream("s")
    drop_index(stream, "a")
    assert declared(store) == ["index/b"]
    assert faults(stream) == []
    repair(stream)
    assert runs(stream) == {"b": 1}


def test_a_lost_index_can_be_dropped(store: Store) -> None:
    stream = lose(store)
    assert drop_index(stream, "a") == 0
    assert runs(stream) == {"b": 0}
    with pytest.raises(UnknownIndexError):
        drop_index(stream, "a")


def test_indexes_of_before_they_were_declared_are_missed_once_repair_ran(store: Store) -> None:
    (store.path / "s" / ATTRIBUTES_FILE).write_text('{"derived": []}')
    stream = store.stream("s")
    assert faults(stream) == []
    assert runs(stream) == {"a": 1, "b": 1}
    repair(stream)
    assert declared(store) == ["index/a", "index/b"]
    assert [finding.file for finding in faults(lose(store, "b"))] == ["s/index/b/_delta_log"]
