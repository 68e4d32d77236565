"""A stream that is dropped or renamed and made again under somebody who holds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import chronicle.write.commit as commit_module
from chronicle import Store, Stream, StreamSettings, create_store, open_store
from chronicle.errors import StorageError, StreamNotFoundError, StreamReplacedError
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.finding import faults_of
from chronicle.maintenance.repair import repair_stream
from chronicle.maintenance.vacuum import vacuum
from chronicle.write.append import append
from chronicle.write.commit import Change, commit_change
from chronicle.write.evolve import add_column
from chronicle.write.lifecycle import delete_range, drop_stream, rename_stream
from indexing.lifecycle import create_index, drop_index
from indexing.writer import writer_for
from replay import query
from replay.query import batches
from tests.helpers import write_table
from tests.unit.chronicle.stream_cases import TICKS, at, meet, seen_times

SETTINGS = StreamSettings(time="t", block_events=4, file_events=100)


def make(store: Store, *appends: tuple[int, ...]) -> Stream:
    stream = store.create_stream("s", TICKS, SETTINGS)
    for times in appends:
        append(stream, at(*times))
    return stream


def remade(store: Store, how: str, *appends: tuple[int, ...]) -> Stream:
    """Have another process take the stream away and make one of that name."""
    other = open_store(store.path)
    if how == "drop":
        drop_stream(other, "s")
    else:
        rename_stream(other, "s", "elsewhere")
    return make(other, *appends)


@pytest.mark.parametrize("how", ["drop", "rename"])
@pytest.mark.parametrize(
    "appends",
    [
        pytest.param(((7,),), id="fewer versions"),
        pytest.param(((7,), (8,)), id="as many versions"),
        pytest.param(((7,), (8,), (9,)), id="more versions"),
        pytest.param((), id="no event"),
    ],
)
def test_who_holds_a_stream_that_was_made_again_is_told_so_and_who_asks_by_name_gets_the_new(
    store: Store, how: str, appends: tuple[tuple[int, ...], ...]
) -> None:
    held = make(store, tuple(range(50)), tuple(range(50, 100)))
    sql = "SELECT COUNT(*) AS n FROM s"
    assert query(store, sql).table.to_pylist() == [{"n": 100}]
    new = remade(store, how, *appends)
    for ask in (held.snapshot, held.refresh, held.next_generation):
        with pytest.raises(StreamReplacedError, match="open it again"):
            ask()
    expected = [t for times in appends for t in times]
    assert seen_times(new) == expected
    assert query(store, sql).table.to_pylist() == [{"n": len(expected)}]
    assert seen_times(store.stream("s")) == expected


OPERATIONS: dict[str, Callable[[Stream], object]] = {
    "append": lambda stream: stream.append(at(1000)),
    "append late": lambda stream: stream.append(at(1), derived=writer_for(stream)),
    "compact": lambda stream: compact_events(stream, derived=None, full=True),
    "delete": lambda stream: delete_range(stream, 0, 3, derived=None),
    "add column": lambda stream: add_column(stream, "y", "double"),
    "vacuum": lambda stream: vacuum(stream, derived=None),
    "index": lambda stream: create_index(stream, ["x"], least_events=0),
    "drop index": lambda stream: drop_index(stream, "x"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_that_the_holder_does_reaches_the_stream_that_was_made_in_its_place(
    store: Store, name: str
) -> None:
    held = make(store, (0, 2), (4, 6))
    create_index(held, ["x"], least_events=0)
    new = remade(store, "drop", (7,), (8,))
    with pytest.raises(StreamReplacedError):
        OPERATIONS[name](held)
    assert seen_times(new) == [7, 8]
    assert faults_of(check_stream(new)) == []
    assert [path.name for path in store.path.glob("*/*") if path.name == "index"] == []


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "vacuum"])
def test_a_stream_that_goes_in_the_middle_of_an_operation_is_one_sentence_and_frees_its_name(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, again: bool
) -> None:
    held = make(store, (0, 2), (4, 6))
    if name == "drop index":
        create_index(held, ["x"], least_events=0)

    def go() -> None:
        drop_stream(open_store(store.path), "s")
        if again:
            make(open_store(store.path), (7,), (8,))

    by_refresh = name in ("add column", "drop index")
    meet(monkeypatch, Stream, "refresh" if by_refresh else "snapshot", go, after=True)
    if name == "drop index":
        held.refresh()
    with pytest.raises((StreamReplacedError, StreamNotFoundError)):
        OPERATIONS[name](held)
    monkeypatch.undo()
    if again:
        assert seen_times(open_store(store.path).stream("s")) == [7, 8]
    else:
        assert not (store.path / "s").exists()
        assert seen_times(make(open_store(store.path), (1,))) == [1]
    assert faults_of(check_stream(store.path / "s")) == []


def test_a_commit_prepared_on_the_version_the_new_stream_has_too_is_refused(store: Store) -> None:
    held = make(store, (0,), (4,))
    version = held.refresh()
    written = write_table(held, at(1000), generation=9)
    new = remade(store, "drop", (7,), (8,))
    assert new.refresh() == version
    with pytest.raises(StreamReplacedError):
        commit_change(held, Change(tuple(written)), read_version=version, metadata={})
    assert seen_times(new) == [7, 8]


def test_a_query_under_way_when_its_stream_goes_ends_in_a_sentence(store: Store) -> None:
    make(store, tuple(range(100)), tuple(range(100, 200)))
    reader = batches(store, "SELECT t FROM s")
    next(iter(reader))
    drop_stream(open_store(store.path), "s")
    held = store.stream
    with pytest.raises(StreamNotFoundError):
        held("s")
    make(store, (7,))
    try:
        rest = reader.read_all()
    except StreamReplacedError:
        return
    assert set(rest.column("t").to_pylist()) <= set(range(200))  # open files are still the old's


def test_damage_is_not_left_out_where_the_stream_is_gone(store: Store) -> None:
    stream = make(store, tuple(range(100)), tuple(range(100, 200)))
    stream.snapshot()
    other = open_store(store.path)
    reads = commit_module.BlockReader.read

    def going(*args: object, **options: object) -> object:
        if "s" in other.stream_names():
            drop_stream(other, "s")
        return reads(*args, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_module.BlockReader, "read", going)
        with pytest.raises(StreamNotFoundError):
            query(store, "SELECT t, x FROM s WHERE x > 5", skip_damaged=True)


def test_the_tree_table_made_again_by_a_repair_is_followed(store: Store) -> None:
    held = make(store, (0, 2), (4, 6))
    held.snapshot()
    log = held.path / "tree" / "_delta_log"
    for commit in log.iterdir():
        commit.write_text("no commit")
    repair_stream(open_store(store.path).stream("s"))
    assert seen_times(held) == [0, 2, 4, 6]
    assert [fault for fault in held.snapshot().faults if fault] == []


# ---------------------------------------------------------------------------------------------
# A commit whose text is that of another.


def commit_file(stream: Stream, version: int) -> Path:
    return stream.path / "events" / "_delta_log" / f"{version:020d}.json"


def overwrite(store: Store, how: str) -> Stream:
    stream = make(store, (0,), (2,), (4,))
    if how == "of its own stream, in the middle":
        commit_file(stream, 2).write_bytes(commit_file(stream, 1).read_bytes())
    elif how == "of its own stream, the newest":
        commit_file(stream, 3).write_bytes(commit_file(stream, 2).read_bytes())
    elif how == "of another stream, the same number":
        other = store.create_stream("other", TICKS, SETTINGS)
        for t in (1, 3, 5):
            append(other, at(t))
        commit_file(stream, 3).write_bytes(commit_file(other, 3).read_bytes())
    else:
        lines = [json.loads(line) for line in commit_file(stream, 3).read_text().splitlines()]
        kept = [line for line in lines if "add" not in line]
        commit_file(stream, 3).write_text("".join(json.dumps(line) + "\n" for line in kept))
    return stream


HOWS = (
    "of its own stream, in the middle",
    "of its own stream, the newest",
    "of another stream, the same number",
    "without the file it added",
)


@pytest.mark.parametrize("how", HOWS)
def test_a_commit_overwritten_by_another_text_is_a_fault_where_it_is_read_and_in_check(
    store: Store, how: str
) -> None:
    stream = overwrite(store, how)
    with pytest.raises(StorageError, match="overwritten"):
        open_store(store.path).stream("s").snapshot()
    found = [finding.what for finding in faults_of(check_stream(stream.path))]
    assert any("overwritten" in what or "text of" in what for what in found), found


@pytest.mark.parametrize("how", HOWS[1:])
def test_who_read_the_commit_before_it_was_overwritten_says_so_too(store: Store, how: str) -> None:
    stream = make(store)
    store.path.joinpath("spare").mkdir()
    whole = overwrite_of(stream, store, how)
    with pytest.raises(StorageError, match="overwritten"):
        stream.snapshot()
    commit_file(stream, 3).write_bytes(whole)
    assert seen_times(stream) == [0, 2, 4]


def overwrite_of(stream: Stream, store: Store, how: str) -> bytes:
    """Let a stream be read, then overwrite its newest commit; return what that held."""
    for t in (0, 2, 4):
        append(stream, at(t))
    whole = commit_file(stream, 3).read_bytes()
    spare = create_store(store.path / "spare")
    commit_file(stream, 3).write_bytes(commit_file(overwrite(spare, how), 3).read_bytes())
    return whole
