"""Which data files are merged, and merges that no answer and no old version sees."""

from __future__ import annotations

import itertools
import pickle
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
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
    Merge,
    choose_merges,
    compact_events,
    tidy_after,
)
from chronicle.settings import StreamSettings
from chronicle.store import Stream, ensure_store, open_store
from chronicle.write.commit import Change, commit_change
from chronicle.write.rewrite import Rewrite, rewrite_files
from tests.helpers import commit_table
from tests.unit.chronicle.stream_cases import (
    RUNS,
    TICKS,
    arrived,
    ever_live,
    live,
    make_stream,
    meet,
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


@settings(max_examples=8)
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


def test_runs_are_written_with_the_new_files_and_tidied(tmp_path: Path):
    stream = _stream(tmp_path, [[i] * 8 for i in range(24)])
    report = compact_events(stream, derived=RUNS, full=True)
    assert report.n_runs_merged > report.n_runs_written > 0
    n_left = 12 - report.n_runs_merged + report.n_runs_written
    assert len(live(stream, "index/x")) == n_left
    runs = f"{report.n_runs_merged} runs are {report.n_runs_written} now"
    assert str(report) == f"24 files are 12 now, 192 events rewritten\n{runs}"


def test_a_compaction_that_is_asked_for_merges_runs_however_large(tmp_path: Path):
    settings = StreamSettings("t", block_events=1024, file_events=70_000)
    stream = ensure_store(tmp_path / "store").create_stream("ticks", TICKS, settings)
    for first in range(0, 350_000, 70_000):
        events = pa.table({"t": range(first, first + 70_000), "x": range(70_000)}, TICKS)
        commit_table(stream, events, derived=RUNS)
    assert tidy_after(stream, RUNS) is None  # four of them have more entries than it may write
    report = compact_events(stream, derived=RUNS)
    assert (report.n_runs_merged, report.n_runs_written) == (5, 1)
    assert len(live(stream, "index/x")) == 1


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
    rival = open_store(stream.path.parent).stream("ticks")
    lose = partial(_rewrite_first_file, rival)
    meet(monkeypatch, compaction, "rewrite_files", lose, after=True)
    compact_events(stream, derived=None, budget=64, full=full)
    assert seen_rows(stream) == expected
    assert len(stream.snapshot().files) == (2 if full else 7)
    assert on_disk(stream) == ever_live(stream)


@pytest.mark.parametrize(
    ("error", "full"),
    [(CommitConflictError("always lost"), True), (StorageError("disk full"), False)],
)
def test_a_commit_that_fails_says_so_and_leaves_no_file(
    tmp_path: Path, monkeypatch, error: Exception, full: bool
):
    stream = _stream(tmp_path, [[i] for i in range(8)])
    monkeypatch.setattr(compaction, "commit_change", Mock(side_effect=error))
    with pytest.raises(type(error), match=str(error)):
        compact_events(stream, derived=None, full=full)
    assert len(on_disk(stream)) == len(on_disk(stream, "tree")) == 8


def test_an_append_in_between_is_kept(tmp_path: Path, monkeypatch):
    stream = _stream(tmp_path, [[i] * 4 for i in range(4)])
    rival = open_store(stream.path.parent).stream("ticks")
    late = partial(commit_table, rival, arrived([9, 9], 16))
    meet(monkeypatch, compaction, "rewrite_files", late)
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
    commits = delta_log.commits(stream.path / EVENTS_TABLE)[:2]
    assert [commit.version for commit in commits] == [version + 2, version + 1]
    assert {commit.metadata["chronicle.operation"] for commit in commits} == {"compact"}


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


SIZES = st.lists(st.one_of(st.integers(1, 3), st.integers(1, 130)), max_size=60)
FAN_INS = st.integers(2, 9)
CAPS = st.integers(1, 200)


def files_bound(n_large: int, *, cap: int, fan_in: int) -> int:
    """Return the most files that automatic merging leaves, as `choose_merges` states it."""
    return 2 * n_large + 2 * (fan_in - 1) * n_tiers(cap, fan_in)


def n_tiers(cap: int, fan_in: int) -> int:
    """Return the number of tiers of files that are not large: tier k begins at fan_in ** k."""
    return 1 + sum(fan_in**k <= cap // 2 for k in range(1, 64))


def _merged(sizes: list[int], merges: list[Merge]) -> list[int]:
    """Carry the choice out on sizes alone; checks that it is one."""
    result, position = [], 0
    for merge in merges:
        assert position <= merge.first
        assert merge.first + 2 <= merge.stop <= len(sizes)
        result += sizes[position : merge.first]
        result.append(sum(sizes[merge.first : merge.stop]))
        position = merge.stop
    return result + sizes[position:]


def _settled(sizes: list[int], *, file_events: int, fan_in: int, budget: int) -> list[int]:
    """Choose and carry out until nothing is chosen."""
    for _ in range(len(sizes) + 1):
        merges = choose_merges(sizes, file_events=file_events, fan_in=fan_in, budget=budget)
        if not merges:
            return sizes
        sizes = _merged(sizes, merges)
    raise AssertionError(f"never settles: {sizes}")


# The full mode.


@given(SIZES, st.integers(1, 150))
def test_after_a_full_compaction_no_two_neighbours_fit_into_one_file(sizes, file_events):
    merges = choose_merges(sizes, file_events=file_events, fan_in=4, budget=None)
    after = _merged(sizes, merges)
    assert all(a + b > file_events for a, b in itertools.pairwise(after))
    for merge in merges:
        assert sum(sizes[merge.first : merge.stop]) <= file_events
        assert max(sizes[merge.first : merge.stop]) < file_events
    small = [min(size, file_events) for size in after]
    assert len(after) <= 2 * sum(small) / file_events + 1
    assert choose_merges(after, file_events=file_events, fan_in=4, budget=None) == []


# The automatic mode.


@given(SIZES, st.integers(1, 150), FAN_INS, CAPS)
def test_a_choice_keeps_to_budget_and_file_size(sizes, file_events, fan_in, budget):
    merges = choose_merges(sizes, file_events=file_events, fan_in=fan_in, budget=budget)
    _merged(sizes, merges)
    costs = [sum(sizes[merge.first : merge.stop]) for merge in merges]
    assert sum(costs) <= budget
    assert all(cost <= file_events for cost in costs)


@given(SIZES, st.integers(1, 150), FAN_INS, CAPS)
def test_whatever_the_files_were_their_number_is_bounded_in_the_end(
    sizes, file_events, fan_in, budget
):
    after = _settled(sizes, file_events=file_events, fan_in=fan_in, budget=budget)
    assert sum(after) == sum(sizes)
    cap = min(file_events, budget)
    n_large = sum(2 * size > cap for size in after)
    assert len(after) <= files_bound(n_large, cap=cap, fan_in=fan_in)


@given(SIZES, FAN_INS, CAPS)
def test_one_call_settles_all_that_its_budget_allows(sizes, fan_in, cap):
    # A budget of everything: the cap is then that of the file.
    first = choose_merges(sizes, file_events=cap, fan_in=fan_in, budget=10**9)
    assert choose_merges(_merged(sizes, first), file_events=cap, fan_in=fan_in, budget=10**9) == []


def _append_all(arrivals, *, file_events, fan_in, budget):
    """Append files one by one with a choice after each; return sizes, most files, rewritten."""
    sizes: list[int] = []
    n_rewritten, excess = 0, 0
    cap = min(file_events, budget)
    for size in arrivals:
        sizes.append(size)
        merges = choose_merges(sizes, file_events=file_events, fan_in=fan_in, budget=budget)
        n_rewritten += sum(sum(sizes[merge.first : merge.stop]) for merge in merges)
        sizes = _merged(sizes, merges)
        n_large = sum(2 * size > cap for size in sizes)
        excess = max(excess, len(sizes) - files_bound(n_large, cap=cap, fan_in=fan_in))
    return sizes, excess, n_rewritten


@settings(max_examples=8)
@given(
    st.lists(st.one_of(st.just(1), st.integers(1, 30), st.integers(1, 2000)), min_size=1,
             max_size=30),
    FAN_INS, st.integers(50, 3000), st.integers(50, 3000),
)  # fmt: skip
def test_a_thousand_small_appends_never_exceed_the_bound_nor_the_rewriting(
    pattern, fan_in, file_events, budget
):
    arrivals = list(itertools.islice(itertools.cycle(pattern), 1000))
    _, excess, n_rewritten = _append_all(
        arrivals, file_events=file_events, fan_in=fan_in, budget=budget
    )
    assert excess <= 0
    cap = min(file_events, budget)
    assert n_rewritten <= (2 * n_tiers(cap, fan_in) + 1) * sum(arrivals)


@settings(max_examples=8)
@given(st.integers(1, 60), FAN_INS, st.integers(100, 3000))
def test_appends_of_one_size_keep_few_files_of_each_tier(size, fan_in, cap):
    tiers = n_tiers(cap, fan_in) - (n_tiers(2 * size, fan_in) - 1)
    arrivals = [size] * 1500
    sizes, _, n_rewritten = _append_all(arrivals, file_events=cap, fan_in=fan_in, budget=cap)
    n_large = sum(2 * n > cap for n in sizes)
    assert n_large <= 2 * sum(arrivals) / cap
    assert len(sizes) <= n_large + (fan_in - 1) * max(tiers, 0)
    assert n_rewritten <= (max(tiers, 0) + 1) * sum(arrivals)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([1, 1, 1], [], id="three of a tier stay"),
        pytest.param([1, 1, 1, 1], [(0, 4)], id="four of a tier become one"),
        # 16-63 is tier 2, 4-15 tier 1: the new file makes the fourth of each tier in turn.
        pytest.param([16, 4, 4, 4, 1, 1, 1, 1], [(1, 8)], id="a cascade is one merge"),
        pytest.param([4, 1, 4, 1, 4, 4], [(0, 6)], id="smaller ones go along"),
        pytest.param([4, 1, 1, 16], [(0, 3)], id="what is caught before a higher tier"),
        pytest.param([90, 1, 90], [], id="one small file between large ones stays"),
        pytest.param([90, 1, 2, 90, 3], [(1, 3)], id="small files between large ones become one"),
        pytest.param([40, 40, 40], [(0, 2)], id="a segment closes before it exceeds the file"),
        pytest.param([100, 100], [], id="full files"),
        pytest.param([], [], id="no file"),
    ],
)
def test_automatic_choice_by_hand(sizes, expected):
    found = choose_merges(sizes, file_events=100, fan_in=4, budget=100)
    assert [(merge.first, merge.stop) for merge in found] == expected


def test_of_merges_beyond_the_budget_those_that_save_most_are_taken():
    # Both pairs before a large file would become one: 6 events for one file less, 3 for two.
    sizes = [3, 3, 5, 1, 1, 1, 5]
    assert choose_merges(sizes, file_events=6, fan_in=9, budget=7) == [Merge(3, 6)]
    assert choose_merges(sizes, file_events=6, fan_in=9, budget=9) == [Merge(0, 2), Merge(3, 6)]


def test_a_fan_in_of_one_is_refused():
    with pytest.raises(ValueError, match="at least 2"):
        choose_merges([1, 1], file_events=10, fan_in=1, budget=10)
