"""Which runs are merged: laws over sequences of appends, and cases by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.compaction import RunChoice, RunMerge, RunState, choose_run_merges
from indexing.cover import choose_runs
from indexing.run_format import CoveredFile

SIZES = st.one_of(st.integers(0, 3), st.integers(0, 300))


def run(name: str, *files: tuple[str, int]) -> RunState:
    """A run whose files have as many entries as events."""
    return RunState(name, tuple(CoveredFile(file, n, n) for file, n in files))


def runs_of(*sizes: int) -> tuple[list[RunState], list[str]]:
    names = [f"f{i:03d}" for i in range(len(sizes))]
    return [run(name, (name, n)) for name, n in zip(names, sizes, strict=True)], names


def log(n: int, fan_in: int) -> int:
    """floor(log(n)) to base ``fan_in``; 0 below ``fan_in``."""
    return next(k for k in range(100) if n < fan_in ** (k + 1))


@dataclass
class Tree:
    """Runs that grow by appends, merged as the chooser says, and how often files were written."""

    fan_in: int
    width: int
    runs: list[RunState] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    times_written: dict[str, int] = field(default_factory=dict)

    def append(self, n_entries: int) -> None:
        name = f"f{len(self.times_written):04d}"
        self.live.append(name)
        self.times_written[name] = 0
        self.runs.append(run(name, (name, n_entries)))

    def choose(self, budget: int | None = None) -> RunChoice:
        return choose_run_merges(
            self.runs, self.live, budget=budget, fan_in=self.fan_in, width=self.width
        )

    def apply(self, choice: RunChoice) -> None:
        for merge in choice.merges:
            chosen = [r for r in self.runs if r.name in merge.names]
            cover = [c for r in chosen for c in r.cover if c.name in self.live]
            assert merge.n_entries == sum(c.n_entries for c in cover)
            for c in cover:
                self.times_written[c.name] += 1
            self.runs = [r for r in self.runs if r.name not in merge.names]
            self.runs.append(RunState("+".join(merge.names), tuple(cover)))

    def tidy(self, budget: int | None = None) -> None:
        while True:
            choice = self.choose(budget)
            if choice == RunChoice():
                return
            self.apply(choice)
            if budget is not None:
                budget -= choice.n_entries

    @property
    def n_entries(self) -> int:
        return sum(c.n_entries for r in self.runs for c in r.cover)


@given(st.lists(SIZES, max_size=60), st.integers(2, 5), st.integers(0, 4), st.data())
def test_runs_stay_few_and_entries_are_seldom_written_whatever_is_appended(
    sizes: list[int], fan_in: int, extra_width: int, data: st.DataObject
) -> None:
    tree = Tree(fan_in, fan_in + extra_width)
    for size in sizes:
        tree.append(size)
        if not data.draw(st.booleans(), label="tidy"):
            continue
        tree.tidy()
        n = tree.n_entries
        assert len(tree.runs) <= (fan_in - 1) * (2 + log(n, fan_in))
        assert sorted(c.name for r in tree.runs for c in r.cover) == tree.live
        for r in tree.runs:
            for c in r.cover:
                assert c.n_entries == 0 or tree.times_written[c.name] <= log(n, fan_in)


@given(st.lists(SIZES, max_size=80), st.integers(2, 4), st.integers(1, 2000))
def test_a_budget_for_each_append_bounds_the_runs_below_it_and_counts_those_above(
    sizes: list[int], fan_in: int, budget: int
) -> None:
    tree = Tree(fan_in, 100)
    for size in sizes:
        tree.append(size)
        tree.tidy(budget)
        small_tiers = max(0, log(budget, fan_in) - 1)  # fan_in**(k + 2) <= budget for k below it
        small = [r for r in tree.runs if sum(c.n_entries for c in r.cover) < fan_in**small_tiers]
        assert len(small) <= (fan_in - 1) * (1 + small_tiers)
        assert len(tree.runs) - len(small) <= tree.n_entries * fan_in**2 / budget


@st.composite
def any_runs(draw: st.DrawFn) -> tuple[list[RunState], list[str]]:
    """Runs that overlap, with files that live no more."""
    files = [f"f{i}" for i in range(draw(st.integers(1, 12)))]
    n = {file: draw(SIZES) for file in files}
    covers = draw(st.lists(st.lists(st.sampled_from(files), unique=True, max_size=6), max_size=12))
    runs = [run(f"r{i}", *((f, n[f]) for f in cover)) for i, cover in enumerate(covers)]
    return runs, [f for f in files if draw(st.booleans(), label=f"{f} lives")]


@given(any_runs(), st.integers(0, 800), st.booleans(), st.integers(2, 4))
def test_a_choice_keeps_its_budget_and_every_file_that_was_covered(
    case: tuple[list[RunState], list[str]], budget: int, full: bool, fan_in: int
) -> None:
    runs, live = case
    choice = choose_run_merges(runs, live, budget=budget, full=full, fan_in=fan_in, width=5)
    assert choice.n_entries <= budget
    gone = [name for merge in choice.merges for name in merge.names] + list(choice.redundant)
    assert len(gone) == len(set(gone))
    assert all(len(merge.names) <= 5 for merge in choice.merges)
    merged = {
        c.name
        for r in runs
        for c in r.cover
        if c.name in live and any(r.name in merge.names for merge in choice.merges)
    }
    kept = {c.name for r in runs if r.name not in gone for c in r.cover}
    before = {c.name for r in runs for c in r.cover}
    assert merged | kept >= before & set(live)
    # What no merge drops for being dead serves older versions still.
    dropped_by_merges = {
        c.name for r in runs for m in choice.merges if r.name in m.names for c in r.cover
    }
    assert kept | dropped_by_merges >= before


@given(any_runs(), st.integers(2, 4), st.booleans())
def test_choosing_ends_and_leaves_each_file_in_one_run(
    case: tuple[list[RunState], list[str]], fan_in: int, full: bool
) -> None:
    runs, live = case
    for _ in range(len(runs) + 1):
        choice = choose_run_merges(runs, live, full=full, fan_in=fan_in, width=5)
        if choice == RunChoice():
            break
        gone = {name for merge in choice.merges for name in merge.names} | set(choice.redundant)
        fresh = []
        for i, merge in enumerate(choice.merges):
            cover = {c.name: c for r in runs if r.name in merge.names for c in r.cover}
            taken = tuple(c for name, c in cover.items() if name in live)
            fresh.append(RunState(f"{merge.names[0]}+{i}", taken))
        runs = [r for r in runs if r.name not in gone] + fresh
    assert choose_run_merges(runs, live, full=full, fan_in=fan_in, width=5) == RunChoice()
    n_events = {c.name: c.n_events for r in runs for c in r.cover if c.name in live}
    serving = [taken for taken in choose_runs([r.cover for r in runs], n_events) if taken]
    assert not full or len(serving) <= 1


@pytest.mark.parametrize(
    ("sizes", "budget", "merged"),
    [
        pytest.param((10, 12, 5, 15), None, [(0, 1, 2, 3)], id="four-of-one-tier"),
        pytest.param((10, 12, 5, 100, 2, 0), None, [], id="three-of-a-tier-and-others-stay"),
        # Four of one entry make one of four; with three of four, one of 16.
        pytest.param(
            (4, 4, 4, 1, 1, 1, 1), None, [(0, 1, 2, 3, 4, 5, 6)],
            id="a-merge-that-fills-the-next-tier-takes-its-runs-too",
        ),
        pytest.param((4, 4, 4, 1, 1, 1, 1), 15, [(3, 4, 5, 6)], id="a-budget-ends-a-cascade"),
        pytest.param((4, 4, 4, 1, 1, 1, 1), 3, [], id="a-budget-for-nothing"),
        pytest.param(
            (15, 15, 4, 4, 4, 4), 16, [(2, 3, 4, 5)],
            id="the-cheapest-where-the-first-do-not-fit-the-budget",
        ),
    ],
)  # fmt: skip
def test_four_runs_of_a_tier_become_one_within_the_budget(
    sizes: tuple[int, ...], budget: int | None, merged: list[tuple[int, ...]]
) -> None:
    runs, live = runs_of(*sizes)
    expected = [
        RunMerge(tuple(live[i] for i in chosen), sum(sizes[i] for i in chosen)) for chosen in merged
    ]
    choice = choose_run_merges(runs, live, fan_in=4, budget=budget)
    assert choice == RunChoice(tuple(expected))


def test_many_runs_of_one_tier_are_merged_in_the_order_of_the_stream() -> None:
    runs, live = runs_of(*[5] * 10)
    merges = choose_run_merges(list(reversed(runs)), live, fan_in=2, width=5).merges
    assert [merge.names for merge in merges] == [tuple(live[:5]), tuple(live[5:])]


def test_a_run_mostly_dead_is_written_anew_and_one_half_dead_stays() -> None:
    half = run("half", ("a", 5), ("gone1", 5))
    mostly = run("mostly", ("b", 5), ("gone2", 6))
    choice = choose_run_merges([half, mostly], ["a", "b"])
    assert choice == RunChoice((RunMerge(("mostly",), 5),))
    assert choose_run_merges([half, mostly], ["a", "b"], budget=4) == RunChoice()


def test_a_run_is_redundant_if_another_holds_its_files_dead_ones_too() -> None:
    twins = [run("r1", ("a", 5), ("b", 5), ("gone", 1)), run("r2", ("a", 5), ("b", 5), ("gone", 1))]
    assert choose_run_merges(twins, ["a", "b"]) == RunChoice(redundant=("r2",))
    alone = [run("r1", ("a", 5), ("b", 5)), run("r2", ("a", 5), ("gone", 1))]
    assert choose_run_merges(alone, ["a", "b"]) == RunChoice()


def test_full_merges_all_and_leaves_a_single_clean_run() -> None:
    runs, live = runs_of(1000, 3)
    [merge] = choose_run_merges(runs, live, full=True).merges
    assert merge == RunMerge(("f000", "f001"), 1003)
    assert choose_run_merges(runs[:1], live[:1], full=True) == RunChoice()
    with_dead = run("r", ("a", 9), ("gone", 1))
    assert choose_run_merges([with_dead], ["a"], full=True).merges == (RunMerge(("r",), 9),)
