"""Damage is named: a query fails by it, or leaves it out and says what the answer lacks."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import replay
from chronicle import create_store, open_store
from chronicle.errors import CorruptBlockError, VacuumedVersionError
from chronicle.log import delta_log
from chronicle.store import Stream
from tests.helpers import copy_stream, damage_events, fill_stream
from tests.strategies import SCHEMA, SmallStream, repeating_rows

SQL = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, B.t AS b, A.s AS s "
    "PATTERN (A Z*? B) WITHIN 4 DEFINE A AS A.a = 1, B AS B.a = 2)"
)
PLANS = ("full", "tree", "all", "auto")
FILE_EVENTS = 16


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    small = SmallStream(repeating_rows(64), 4, FILE_EVENTS, 2, cuts=(32,))
    store = create_store(tmp_path_factory.mktemp("made") / "store")
    return fill_stream(store, "s", small, index=("a",))


@pytest.fixture
def stream(made: Stream, tmp_path: Path) -> Stream:
    """Make four files of 16 events."""
    return copy_stream(made, tmp_path)


def ask(stream: Stream, plan: str = "auto", **how: Any) -> replay.Result:
    """Ask a store that was opened after whatever happened to the stream."""
    return replay.query(open_store(stream.path.parent), SQL, plan=plan, **how)


def without(*places: int) -> pa.Table:
    """Answer over the events of the other files, in memory."""
    kept = [row for i, row in enumerate(repeating_rows(64)) if i // FILE_EVENTS not in places]
    return replay.query({"s": pa.Table.from_pylist(kept, schema=SCHEMA)}, SQL).table


def forget_trees(stream: Stream) -> None:
    """Leave the tree table as a crash before its commit does."""
    path = stream.path / "tree"
    names = [file.name for file in delta_log.live_files(path)]
    delta_log.commit_changes(path, remove=names, read_version=None, metadata={})
    for name in names:
        (path / name).unlink()


@pytest.mark.parametrize("places", [(0,), (1,), (3,), (1, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("with_trees", [True, False])
def test_every_plan_answers_as_if_the_damaged_files_had_never_been(
    stream: Stream, places: tuple[int, ...], with_trees: bool
) -> None:
    names = damage_events(stream, *places)
    if not with_trees:
        forget_trees(stream)
    expected = without(*places)
    for plan in PLANS:
        if plan == "all" and len(places) == 4:
            continue
        result = ask(stream, plan, skip_damaged=True)
        assert result.table.to_pylist() == expected.to_pylist(), plan
        # A plan that need not read a file need not find it damaged.
        said = [warning for warning in result.actual.warnings if "left out" in warning]
        assert len(said) == len(set(said)) <= len(names)
        if plan == "full" or not with_trees:
            assert sorted(name for name in names for w in said if name in w) == sorted(names)


@pytest.mark.parametrize("with_trees", [True, False])
def test_warning_states_file_number_and_time_range(stream: Stream, with_trees: bool) -> None:
    (name,) = damage_events(stream, 2)
    if not with_trees:  # the commit of the data file says it too
        forget_trees(stream)
    result = ask(stream, "full", skip_damaged=True)
    (warning,) = result.actual.warnings
    assert name in warning
    assert "16 events from 32 to 47" in warning
    assert result.actual.rows_total == 48


def test_warning_shows_timestamps_as_iso(tmp_path: Path) -> None:
    start = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    schema = SCHEMA.set(0, pa.field("t", pa.timestamp("us", "UTC")))
    timed = [row | {"t": start + dt.timedelta(hours=row["t"])} for row in repeating_rows(32)]
    store = create_store(tmp_path / "store")
    small = SmallStream(timed, 4, FILE_EVENTS, 2, cuts=(), schema=schema)
    stream = fill_stream(store, "s", small)
    damage_events(stream, 0)
    for with_trees in (True, False):
        if not with_trees:
            forget_trees(stream)
        sql = SQL.replace("WITHIN 4", "WITHIN INTERVAL '4' HOUR")
        again = open_store(tmp_path / "store")
        (warning,) = replay.query(again, sql, plan="full", skip_damaged=True).actual.warnings
        assert "16 events from 2024-05-01T00:00:00Z to 2024-05-01T15:00:00Z" in warning


def test_nothing_is_claimed_of_a_file_of_which_nothing_is_known(stream: Stream) -> None:
    (name,) = damage_events(stream, 1)
    forget_trees(stream)
    log = stream.path / "events" / "_delta_log"
    for commit in log.glob("*.json"):
        commit.write_text(commit.read_text().replace('"stats":', '"unknown":'))
    (warning,) = ask(stream, "full", skip_damaged=True).actual.warnings
    assert name in warning
    assert "without its events of a time that is not known" in warning


def test_missing_file_is_left_out_too(stream: Stream) -> None:
    (stream.path / "events" / stream.snapshot().files[1].name).unlink()
    found = ask(stream, "full", skip_damaged=True).table
    assert found.to_pylist() == without(1).to_pylist()


def test_without_being_asked_no_answer_is_given(stream: Stream) -> None:
    (name,) = damage_events(stream, 1)
    for plan in ("full", "auto"):
        with pytest.raises(CorruptBlockError, match=rf"{name}.*--skip-damaged.*chronicle check"):
            ask(stream, plan)


def test_sound_store_answers_the_same_and_warns_of_nothing(stream: Stream) -> None:
    for plan in PLANS:
        result = ask(stream, plan, skip_damaged=True)
        assert result.table.equals(ask(stream, plan).table)
        assert result.actual.warnings == ()


def test_damage_is_found_anew_by_each_query(stream: Stream) -> None:
    path = stream.path / "events" / stream.snapshot().files[1].name
    whole = path.read_bytes()
    damage_events(stream, 1)
    assert len(ask(stream, "full", skip_damaged=True).actual.warnings) == 1
    path.write_bytes(whole)
    healed = ask(stream, "full", skip_damaged=True)
    assert healed.actual.warnings == ()
    assert healed.actual.rows_total == 64


def test_old_versions_leave_out_damage_too(stream: Stream) -> None:
    version = stream.refresh() - 1  # the first 32 events
    damage_events(stream, 0)
    result = ask(stream, "full", as_of=version, skip_damaged=True)
    kept = pa.Table.from_pylist(repeating_rows(32)[16:], schema=SCHEMA)
    assert result.table.equals(replay.query({"s": kept}, SQL).table)
    assert stream.snapshot().n_events == 64


@pytest.mark.parametrize("skip_damaged", [True, False])
def test_file_vacuumed_under_a_query_is_not_called_damaged(
    stream: Stream, skip_damaged: bool
) -> None:
    old = stream.refresh()
    name = stream.snapshot().files[0].name
    path = stream.path / "events"
    delta_log.commit_changes(path, remove=[name], read_version=old, metadata={})
    store = open_store(stream.path.parent)
    store.stream("s").snapshot(old)  # taken before the vacuum, read after it
    (path / name).unlink()
    with pytest.raises(VacuumedVersionError, match=f"version {old} "):
        replay.query(store, SQL, plan="full", as_of=old, skip_damaged=skip_damaged)


def test_damaged_tree_file_is_named_once_per_query_and_costs_no_answer(stream: Stream) -> None:
    expected = ask(stream, "full").table
    path = stream.path / "tree" / stream.snapshot().files[1].name
    content = bytearray(path.read_bytes())
    content[4:64] = bytes(60)
    path.write_bytes(content)
    again = open_store(stream.path.parent)
    for plan in (*PLANS, *PLANS):
        result = replay.query(again, SQL, plan=plan)
        assert result.table.equals(expected)
        (warning,) = result.actual.warnings
        assert f"tree file '{path}'" in warning
        assert "repair" in warning


def test_missing_tree_file_is_named_and_one_never_committed_is_not(stream: Stream) -> None:
    name = stream.snapshot().files[0].name
    (stream.path / "tree" / name).unlink()
    (warning,) = ask(stream).actual.warnings
    assert name in warning
    assert "missing" in warning
    forget = stream.path / "tree"
    delta_log.commit_changes(forget, remove=[name], read_version=None, metadata={})
    assert ask(stream).actual.warnings == ()


def test_as_of_takes_times(stream: Stream) -> None:
    store = open_store(stream.path.parent)
    assert len(ask(stream, as_of="2999-01-01")) == len(ask(stream))
    assert str(replay.explain(store, SQL, as_of="2999-01-01")) == str(replay.explain(store, SQL))
    with pytest.raises(LookupError, match="no version as old as 1999-01-01"):
        ask(stream, as_of=dt.datetime(1999, 1, 1))
