"""What a kill leaves of tables and commits in the making, and names that must stay free."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from chronicle import Store, Stream, StreamSettings, open_store
from chronicle.errors import StorageError, StreamExistsError
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.maintenance.check import check_store, check_stream
from chronicle.maintenance.finding import Finding, Severity
from chronicle.maintenance.repair import repair_stream
from chronicle.write.lifecycle import drop_if_empty, drop_stream
from indexing.check import check_runs
from indexing.lifecycle import create_index
from indexing.stream_writer import writer_for
from tests.crash_points import dying_at
from tests.store_model import rows_of

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int64())])
SETTINGS = StreamSettings(time="t", block_events=2, file_events=6, derived=("delta(x)",))


class _KilledError(BaseException):
    pass


def kill() -> None:
    raise _KilledError


def wrong(path: Path) -> list[Finding]:
    found = check_stream(path, derived_checks=[check_runs])
    return [finding for finding in found if finding.severity is not Severity.OK]


def repaired(stream: Stream) -> None:
    repair_stream(
        stream.path,
        derived=writer_for(open_store(stream.path.parent).stream(stream.name)),
        derived_checks=[check_runs],
        leftover_age=dt.timedelta(0),
    )


def make(store: Store) -> Stream:
    stream = store.create_stream("s", SCHEMA, SETTINGS)
    stream.append(pa.table({"t": [1, 2], "x": [3, 4]}, SCHEMA))
    return stream


@pytest.mark.parametrize("table", ["events", "tree", "index/x", "quarantine"])
@pytest.mark.parametrize("draft", ["00000000000000000007.json#1", ".a1b2.draft"])
def test_the_draft_of_a_commit_that_was_killed_is_named_and_removed(
    store: Store, table: str, draft: str
) -> None:
    stream = make(store)
    create_index(stream, ["x"], least_events=0)
    log = stream.path / table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / draft).write_text("{")
    [finding] = [f for f in wrong(stream.path) if f.file.endswith(draft)]
    assert finding.severity is Severity.WARNING
    repaired(stream)
    assert wrong(stream.path) == []
    assert not (log / draft).exists()
    assert len(rows_of(open_store(store.path).stream("s"))) == 2


@pytest.mark.parametrize("table", ["index/x", "quarantine"])
def test_a_table_that_was_never_made_is_no_fault_and_is_made_or_removed(
    store: Store, table: str
) -> None:
    stream = make(store)
    log = stream.path / table / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json#1").write_text("{")
    assert {f.severity for f in wrong(stream.path)} == {Severity.WARNING}
    if table == "index/x":
        create_index(stream, ["x"], least_events=0)
        stream.append(pa.table({"t": [9], "x": [9]}, SCHEMA), derived=writer_for(stream))
    repaired(stream)
    assert wrong(stream.path) == []


def test_a_kill_at_any_step_of_making_a_stream_leaves_its_name_free(store: Store) -> None:
    with dying_at(None, kill) as steps:
        store.create_stream("counting", SCHEMA, SETTINGS)
    for step in range(steps.n_taken):
        name = f"s{step}"
        try:
            with dying_at(step, kill):
                store.create_stream(name, SCHEMA, SETTINGS)
        except _KilledError:
            pass
        made = open_store(store.path)
        if name not in made.stream_names():
            made.create_stream(name, SCHEMA, SETTINGS)
        assert rows_of(made.stream(name)) == []
        assert wrong(store.path / name) == []
    assert not [f for f in check_store(store) if f.severity is Severity.FAULT]


def test_what_an_older_chronicle_left_of_a_stream_it_was_making_does_not_keep_the_name(
    store: Store,
) -> None:
    whole = make(store)
    half = store.path / "half"
    (half / "tree" / "_delta_log").mkdir(parents=True)
    commit = "_delta_log/00000000000000000000.json"
    (half / "tree" / commit).write_bytes((whole.path / "tree" / commit).read_bytes())
    assert rows_of(store.create_stream("half", SCHEMA, SETTINGS)) == []
    with pytest.raises(StreamExistsError):
        store.create_stream("half", SCHEMA, SETTINGS)


def test_a_stream_is_not_dropped_as_empty_once_somebody_appended_to_it(store: Store) -> None:
    stream = store.create_stream("s", SCHEMA, SETTINGS)
    open_store(store.path).stream("s").append(pa.table({"t": [1], "x": [2]}, SCHEMA))
    drop_if_empty(store, stream)
    assert len(rows_of(store.stream("s"))) == 1
    drop_stream(store, "s")
    store.create_stream("s", SCHEMA, SETTINGS)
    with pytest.raises(StorageError):
        drop_if_empty(store, stream)
    drop_if_empty(store, store.stream("s"))
    assert store.stream_names() == ()


@pytest.mark.parametrize("name", ["s" * 300, "s" * 201])
def test_a_stream_name_that_no_folder_can_have_is_refused_with_the_limit(
    store: Store, name: str
) -> None:
    with pytest.raises(StorageError, match="200"):
        store.create_stream(name, SCHEMA, SETTINGS)
    assert rows_of(store.create_stream("s" * 200, SCHEMA, SETTINGS)) == []


@pytest.mark.parametrize("source", ["", " ", "\0", "a\0b", "x" * 300, "/" + "x/" * 3000, "."])
def test_an_absurd_source_name_is_one_sentence_and_makes_nothing(
    store: Store, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chronicle.errors import SourceError

    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    with pytest.raises(SourceError):
        append_files(store, "s", [source], AppendOptions(time="t"))
    assert store.stream_names() == ()
