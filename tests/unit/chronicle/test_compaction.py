"""Merges of data files that no answer and no old version sees."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle import config
from chronicle.config import EVENTS_TABLE
from chronicle.errors import CommitConflictError, CorruptBlockError, StorageError
from chronicle.log import delta_log
from chronicle.log.delta_log import reading, writing
from chronicle.maintenance import compaction
from chronicle.maintenance.compaction import (
    compact_events,
    tidy_after,
)
from chronicle.store import Stream, open_store
from chronicle.write.commit import Change, commit_change
from chronicle.write.rewrite import Rewrite, rewrite_files
from tests.helpers import commit_table
from tests.unit.chronicle.stream_cases import (
    RUNS,
    TICKS,
    KilledError,
    arrived,
    live,
    make_stream,
    on_disk,
    seen_rows,
)


def _stream(tmp_path: Path, appends: list[list[int]], *, file_events: int = 16) -> Stream:
    """Append lists of times; x counts all events in order of arrival."""
    starts = itertools.accumulate((len(times) for times in appends), initial=0)
    tables = [arrived(times, x) for times, x in zip(appends, starts, strict=False)]
    return make_stream(tmp_path, tables, schema=TICKS, file_events=file_events)


@st.composite
def _appends(draw: st.DrawFn) -> list[list[int]]:
    """Appends in time order with many ties, within and across them."""
    now, result = 0, []
    for size in draw(st.lists(st.integers(1, 20), min_size=1, max_size=12)):
        times = []
        for _ in range(size):
            now += draw(st.sampled_from([0, 0, 1, 3]))
            times.append(now)
        result.append(times)
    return result


@settings(max_examples=12)
@given(_appends(), st.booleans())
def test_compaction_moves_no_event_and_no_old_version(tmp_path_factory, appends, full):
    stream = _stream(tmp_path_factory.mktemp("case"), appends)
    expected = sorted(((t, x) for x, t in enumerate(itertools.chain(*appends))))
    before = {
        version: seen_rows(stream, version) for version in range(stream.snapshot().version + 1)
    }
    open_before = stream.snapshot()
    report = compact_events(stream, derived=None, budget=40, full=full)
    assert seen_rows(stream) == expected
    assert {version: seen_rows(stream, version) for version in before} == before
    table = open_before.read_blocks(np.arange(open_before.n_blocks), ["t"])
    assert table["t"].to_pylist() == [t for t, _ in expected]
    sizes = [file.n_events for file in stream.snapshot().files]
    assert report.n_files_after == len(sizes)
    assert report.n_files_before == len(open_before.files)
    kept = {file.name for file in open_before.files}
    new = [file.n_events for file in stream.snapshot().files if file.name not in kept]
    assert report.n_events_rewritten == sum(new)
    if full:
        assert all(a + b > 16 for a, b in itertools.pairwise(sizes))


def test_full_files_are_not_rewritten(tmp_path: Path):
    stream = _stream(tmp_path, [list(range(32)), list(range(32, 40)), list(range(40, 45))])
    full = [file.name for file in stream.snapshot().files[:2]]
    report = compact_events(stream, derived=None, full=True)
    assert report.n_events_rewritten == 13
    assert [file.name for file in stream.snapshot().files[:2]] == full


def test_every_few_merges_are_a_commit_that_says_so(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(config, "COMPACT_MERGES_PER_COMMIT", 1)
    stream = _stream(tmp_path, [[i] * 8 for i in range(6)])
    version = stream.snapshot().version
    compact_events(stream, derived=None, full=True)
    commits = delta_log.commits(stream.path / EVENTS_TABLE)[:3]
    assert [commit.version for commit in commits] == [version + 3, version + 2, version + 1]
    assert {commit.metadata["chronicle.operation"] for commit in commits} == {"compact"}


def test_runs_are_written_with_the_new_files_and_tidied(tmp_path: Path):
    stream = _stream(tmp_path, [[i] * 8 for i in range(24)])
    report = compact_events(stream, derived=RUNS, full=True)
    assert report.n_runs_merged > report.n_runs_written > 0
    n_left = 12 - report.n_runs_merged + report.n_runs_written
    assert len(live(stream, "index/x")) == n_left
    runs = f"{report.n_runs_merged} runs are {report.n_runs_written} now"
    assert str(report) == f"24 files are 12 now, 192 events rewritten\n{runs}"


@pytest.mark.parametrize("step", ["write_file", "commit_events", "commit_tree", "commit_derived"])
@pytest.mark.parametrize("n_before", [0, 1])
def test_killed_at_any_step_of_any_merge_it_loses_nothing_and_goes_on(
    tmp_path: Path, monkeypatch, step, n_before
):
    monkeypatch.setattr(config, "COMPACT_MERGES_PER_COMMIT", 1)
    stream = _stream(tmp_path, [[i] * 8 for i in range(6)])
    expected = seen_rows(stream)
    calls = itertools.count()

    def fail(*args, **kwargs):
        if next(calls) == n_before:
            raise KilledError
        return original(*args, **kwargs)

    module = __import__("chronicle.write.rewrite", fromlist=["x"]) if step == "write_file" else (
        __import__("chronicle.write.commit", fromlist=["x"])
    )  # fmt: skip
    original = getattr(module, step)
    monkeypatch.setattr(module, step, fail)
    with pytest.raises(KilledError):
        compact_events(stream, derived=RUNS, full=True)
    monkeypatch.undo()
    assert seen_rows(stream) == expected
    landed = step in ("commit_tree", "commit_derived")
    assert len(stream.snapshot().files) == 6 - n_before - landed
    files = on_disk(stream)
    assert len(files) == 6 + n_before + landed
    compact_events(stream, derived=RUNS, full=True)
    assert seen_rows(stream) == expected
    assert len(stream.snapshot().files) == 3


def _rewrite_first_file(stream: Stream) -> None:
    """What another process does: merges the first two files."""
    files = stream.snapshot().files
    task = Rewrite((files[0].name, files[1].name), files[0].ordinal)
    written = rewrite_files(
        task, events_dir=stream.path / EVENTS_TABLE, target_dir=stream.path,
        schema=stream.schema, settings=stream.settings,
    )  # fmt: skip
    commit_change(
        stream, Change(tuple(written), task.files, rearranges=True),
        read_version=stream.snapshot().version, metadata={"chronicle.operation": "compact"},
    )  # fmt: skip


@pytest.mark.parametrize("full", [True, False])
def test_where_another_process_merged_first_nothing_is_doubled_or_left(
    tmp_path: Path, monkeypatch, full
):
    stream = _stream(tmp_path, [[i] * 4 for i in range(8)])
    expected = seen_rows(stream)
    original = compaction.rewrite_files
    rivals = iter([open_store(stream.path.parent).stream("ticks")])

    def lose(task, **kwargs):
        written = original(task, **kwargs)
        for rival in rivals:
            _rewrite_first_file(rival)
        return written

    monkeypatch.setattr(compaction, "rewrite_files", lose)
    compact_events(stream, derived=None, budget=64, full=full)
    assert seen_rows(stream) == expected
    assert len(stream.snapshot().files) == (2 if full else 7)
    live_or_old = {
        file.name
        for version in range(stream.snapshot().version + 1)
        for file in delta_log.live_files(stream.path / EVENTS_TABLE, version)
    }
    assert on_disk(stream) == live_or_old


def test_a_full_compaction_that_always_loses_says_so(tmp_path: Path, monkeypatch):
    stream = _stream(tmp_path, [[i] * 4 for i in range(4)])

    def lose(*args, **kwargs):
        raise CommitConflictError("lost")

    monkeypatch.setattr(compaction, "commit_change", lose)
    with pytest.raises(CommitConflictError, match="lost"):
        compact_events(stream, derived=None, full=True)
    assert len(list((stream.path / EVENTS_TABLE).glob("*.parquet"))) == 4


def test_an_append_in_between_is_kept(tmp_path: Path, monkeypatch):
    stream = _stream(tmp_path, [[i] * 4 for i in range(4)])
    original = compaction.rewrite_files
    rivals = iter([open_store(stream.path.parent).stream("ticks")])

    def meet(task, **kwargs):
        for rival in rivals:
            commit_table(rival, arrived([9, 9], 16))
        return original(task, **kwargs)

    monkeypatch.setattr(compaction, "rewrite_files", meet)
    compact_events(stream, derived=None, full=True)
    assert seen_rows(stream) == [(i // 4, float(i)) for i in range(16)] + [(9, 16.0), (9, 17.0)]
    assert len(stream.snapshot().files) == 2


def test_a_runner_gets_several_merges_and_they_are_one_commit(tmp_path: Path, monkeypatch):
    stream = _stream(tmp_path, [[i] * 8 for i in range(10)])
    monkeypatch.setattr(config, "COMPACT_MERGES_PER_COMMIT", 3)
    asked = []

    def runner(job, tasks):
        asked.append(len(tasks))
        elsewhere = pickle.loads(pickle.dumps(job))
        return [elsewhere(task) for task in tasks]

    expected, version = seen_rows(stream), stream.snapshot().version
    compact_events(stream, derived=None, full=True, runner=runner)
    assert asked == [3, 2]
    assert seen_rows(stream) == expected
    assert stream.snapshot().version == version + 2


def test_tidy_after_keeps_files_few_over_many_appends(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(config, "COMPACTION_FAN_IN", 3)
    stream = make_stream(tmp_path, [], schema=TICKS, file_events=16)
    for i in range(40):
        commit_table(stream, arrived([i], i))
        tidy_after(stream, None, budget=1000)
        # Tiers of 1, 3 and (from 8 on large) at most two of each: 1-2, 3-8.
        assert len(stream.snapshot().files) <= 2 * (i + 1) / 16 + 2 * 2
    assert seen_rows(stream) == [(i, float(i)) for i in range(40)]


def test_tidy_after_with_nothing_to_do_touches_no_disk(tmp_path: Path, monkeypatch):
    stream = _stream(tmp_path, [[1] * 16, [2]])
    stream.snapshot()
    for module in (reading, writing):
        monkeypatch.setattr(module, "open_table", None)
    assert tidy_after(stream, RUNS, new_runs=False) is None
    assert tidy_after(stream, None) is None


def test_tidy_after_reports_a_fault_instead_of_raising(tmp_path: Path):
    stream = _stream(tmp_path, [[i] for i in range(8)])
    stream.snapshot()
    broken = stream.path / EVENTS_TABLE / stream.snapshot().files[3].name
    broken.write_bytes(b"")
    report = tidy_after(stream, None)
    assert report is not None
    assert broken.name in str(report.fault)
    with pytest.raises(CorruptBlockError):
        compact_events(stream, derived=None)


def test_a_commit_that_fails_leaves_no_file(tmp_path: Path, monkeypatch):
    stream = _stream(tmp_path, [[i] for i in range(8)])

    def fail(*args, **kwargs):
        raise StorageError("disk full")

    monkeypatch.setattr(compaction, "commit_change", fail)
    with pytest.raises(StorageError, match="disk full"):
        compact_events(stream, derived=None)
    for table in (EVENTS_TABLE, "tree"):
        assert len(list((stream.path / table).glob("*.parquet"))) == 8
