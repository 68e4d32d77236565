"""The choice of data files to merge: its bounds are laws.

A size list such as ``[8, 1, 1]`` is a stream of three files of so many events, in stream order.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle.maintenance.compaction import Merge, choose_merges

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
    for arrived in arrivals:
        sizes.append(arrived)
        merges = choose_merges(sizes, file_events=file_events, fan_in=fan_in, budget=budget)
        n_rewritten += sum(sum(sizes[merge.first : merge.stop]) for merge in merges)
        sizes = _merged(sizes, merges)
        n_large = sum(2 * size > cap for size in sizes)
        excess = max(excess, len(sizes) - files_bound(n_large, cap=cap, fan_in=fan_in))
    return sizes, excess, n_rewritten


@settings(max_examples=20)
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


@settings(max_examples=15)
@given(st.integers(1, 60), FAN_INS, st.integers(100, 3000))
def test_appends_of_one_size_keep_few_files_of_each_tier(size, fan_in, cap):
    tiers = n_tiers(cap, fan_in) - (n_tiers(2 * size, fan_in) - 1)
    arrivals = [size] * 1500
    sizes, _, n_rewritten = _append_all(arrivals, file_events=cap, fan_in=fan_in, budget=cap)
    n_large = sum(2 * n > cap for n in sizes)
    assert n_large <= 2 * sum(arrivals) / cap
    assert len(sizes) <= n_large + (fan_in - 1) * max(tiers, 0)
    assert n_rewritten <= (max(tiers, 0) + 1) * sum(arrivals)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 40)), min_size=50, max_size=400),
       FAN_INS, st.integers(20, 200))  # fmt: skip
def test_late_events_that_split_files_keep_the_bound(lates, fan_in, file_events):
    # A late event falls anywhere; a file beyond file_events becomes two halves.
    sizes = [file_events] * 3
    for place, n in lates:
        at = min(int(place * len(sizes)), len(sizes) - 1)
        grown = sizes[at] + min(n, file_events)
        halves = [grown] if grown <= file_events else [grown // 2, grown - grown // 2]
        sizes[at : at + 1] = halves
        sizes = _merged(
            sizes,
            choose_merges(sizes, file_events=file_events, fan_in=fan_in, budget=2 * file_events),
        )
    after = _settled(sizes, file_events=file_events, fan_in=fan_in, budget=2 * file_events)
    n_large = sum(2 * size > file_events for size in after)
    assert len(after) <= files_bound(n_large, cap=file_events, fan_in=fan_in)


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
