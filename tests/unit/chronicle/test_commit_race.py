"""Commits prepared on an old version: what may follow others unchanged, and what may not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import chronicle.write.append as append_module
from chronicle import Store, StreamSettings, create_store, open_store
from chronicle.derived import DerivedFile
from chronicle.errors import CommitConflictError
from chronicle.log.delta_log import LoggedChange
from chronicle.snapshot import DataFile
from chronicle.store import Stream
from chronicle.write.append import append
from chronicle.write.block_writer import WrittenFile
from chronicle.write.commit import (
    APPEND,
    COMPACT,
    OPERATION,
    Change,
    commit_change,
    keeps_order,
    why_unsafe,
)
from chronicle.write.rewrite import Rewrite, rewrite_files
from tests.helpers import write_table

SCHEMA = pa.schema([("t", pa.int64()), ("n", pa.int64())])


def live(name: str, t_min: int, t_max: int, ordinal: str = "000000-000000-000000") -> DataFile:
    return DataFile(name, ordinal, 10, 1, 100, t_min, t_max, has_tree=True)


def written(
    name: str, t_min: int, t_max: int, n_events: int, ordinal: str = "000000-000000-000000"
) -> WrittenFile:
    tree = DerivedFile("tree", name, 1, 1)
    return WrittenFile(name, ordinal, n_events, 100, t_min, t_max, tree, ())


def logged(operation: str, *added: str) -> LoggedChange:
    return LoggedChange(1, {OPERATION: operation}, added, (), frozenset())


@pytest.mark.parametrize("operation", [APPEND, COMPACT])
def test_append_into_what_another_file_now_spans_is_unsafe(operation: str) -> None:
    change = Change((written("x", 20, 30, 10),))
    others = [logged(operation, "m")]
    assert why_unsafe(change, others, [live("m", 1, 50)], {}) is not None
    assert why_unsafe(change, others, [live("m", 30, 50)], {}) is not None
    assert why_unsafe(change, others, [live("m", 31, 50)], {}) is None


#   before    a [1..10]      b [20..30]      c [40..50]
#   change    a+c [1..50]: would jump over b
def test_files_that_do_not_stand_together_cannot_become_one() -> None:
    before = [live("a", 1, 10), live("b", 20, 30), live("c", 40, 50)]
    assert not keeps_order(Change((written("ac", 1, 50, 20),), ("a", "c"), rearranges=True), before)
    assert keeps_order(Change((written("ab", 1, 30, 20),), ("a", "b"), rearranges=True), before)


#   three files of one time; the last one's ordinal is less than that the merged ones would get
def test_ordinal_that_would_move_events_of_one_time_is_refused() -> None:
    before = [
        live("a", 1, 4, "000007-000000-000000"),
        live("b", 5, 5, "000002-000000-000000"),
        live("c", 5, 5, "000003-000000-000000"),
    ]
    pieces = (
        written("ab0", 1, 5, 10, "000007-000000-000000-000000"),
        written("ab1", 5, 5, 10, "000007-000000-000000-000001"),
    )
    assert not keeps_order(Change(pieces, ("a", "b"), rearranges=True), before)


def rows(stream: Stream) -> list[dict[str, int]]:
    snapshot = stream.snapshot()
    found: list[dict[str, int]] = snapshot.read_blocks(
        np.arange(snapshot.n_blocks), SCHEMA.names
    ).to_pylist()
    return found


def table(first: int, stop: int) -> pa.Table:
    return pa.table({"t": range(first, stop), "n": range(first, stop)}, SCHEMA)


def merge_all(stream: Stream) -> None:
    snapshot = stream.snapshot()
    names = tuple(file.name for file in snapshot.files)
    files = rewrite_files(
        Rewrite(names, snapshot.files[0].ordinal),
        events_dir=stream.path / "events",
        target_dir=stream.path,
        schema=stream.schema,
        settings=stream.settings,
    )
    change = Change(tuple(files), names, rearranges=True)
    metadata = {OPERATION: COMPACT}
    commit_change(stream, change, read_version=snapshot.version, metadata=metadata)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = create_store(tmp_path / "store")
    store.create_stream("s", SCHEMA, StreamSettings(time="t")).append(table(1, 10))
    return store


def test_regression_append_between_files_that_are_compacted_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_store(store.path).stream("s")

    def beaten(*arguments: object, **options: object) -> object:
        monkeypatch.undo()
        append(other, table(40, 50))
        merge_all(other)
        return commit_change(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(append_module, "commit_change", beaten)
    append(store.stream("s"), table(20, 30))
    found = [row["t"] for row in rows(open_store(store.path).stream("s"))]
    assert found == [*range(1, 10), *range(20, 30), *range(40, 50)]


def test_regression_compaction_over_an_append_that_lands_between(store: Store) -> None:
    stream = store.stream("s")
    append(stream, table(40, 50))
    snapshot = stream.snapshot()
    names = tuple(file.name for file in snapshot.files)
    files = rewrite_files(
        Rewrite(names, snapshot.files[0].ordinal),
        events_dir=stream.path / "events",
        target_dir=stream.path,
        schema=stream.schema,
        settings=stream.settings,
    )
    between = append_between(stream)
    change = Change(tuple(files), names, rearranges=True)
    for version in (snapshot.version, between):
        with pytest.raises(CommitConflictError):
            commit_change(stream, change, read_version=version, metadata={OPERATION: COMPACT})


def append_between(stream: Stream) -> int:
    """Commit a file between the two there are, as an append prepared before the second does."""
    files = write_table(stream, table(20, 30), generation=1)
    metadata = {OPERATION: APPEND}
    return commit_change(stream, Change(tuple(files)), read_version=1, metadata=metadata).version
