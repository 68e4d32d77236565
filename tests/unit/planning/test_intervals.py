"""Replay intervals: no match is lost, and no more is read than the definition says.

Method: hand-made cases (thesis Fig. 3.7 and the counterexamples of docs/planning.md), and two laws:
the blocks hold every match a brute force finds, and they equal the union of Interval(c, w) over
all candidates, tried one by one.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.language.bound import Repeat, Symbol
from replay.planning import PlanKind, choose_plan, replay_stretches, to_shape
from replay.planning.block_ranges import all_blocks, bridge, mask_of, ranges_of
from replay.planning.plan import Condition, Plan
from replay.planning.requests import index_conditions
from tests.oracles.intervals import covered_blocks, deciding_rows, matches
from tests.unit.planning.streams import (
    SmallStatistics,
    compare,
    conditions,
    contains,
    patterns,
    query_of,
    rows,
    seq,
    star,
    strategy_queries,
)

A, B, C, D = (Symbol(i) for i in range(4))
EQUALS = [compare("=", "a", i) for i in range(4)]


def stream(letters: str, times: list[int] | None = None) -> list[dict]:
    values = {"A": 0, "B": 1, "C": 2, "D": 3, ".": 9}
    times = list(range(len(letters))) if times is None else times
    return [{"t": t, "a": values[x], "b": 0, "k": 0} for t, x in zip(times, letters, strict=True)]


def plan_with(query, statistics, chosen=None, stretches=None) -> Plan:
    """Return a plan that looks up the chosen positions (all, if None), over the whole stream."""
    shape = to_shape(query)
    found = index_conditions(shape, statistics.indexed)
    chosen = tuple(c for c in found if chosen is None or c.position in chosen)
    everywhere = all_blocks(statistics.n_blocks) if stretches is None else stretches
    any_estimate = choose_plan(query, statistics, requested="full").estimated
    return Plan(PlanKind.INDEXES, chosen, shape, everywhere, any_estimate, (), "")


def look_up(plan: Plan, statistics: SmallStatistics):
    return {
        (c.position, c.attribute): statistics.occurrences(c.attribute, c.ranges)
        for c in plan.conditions
    }


def replayed(query, statistics, chosen=None, bridge_blocks=0):
    plan = plan_with(query, statistics, chosen)
    return replay_stretches(
        plan, look_up(plan, statistics), query, statistics, bridge_blocks=bridge_blocks
    )


def events(query, letters: str, chosen=None, times: list[int] | None = None) -> str:
    """Return the stream with what is not replayed as blanks, in blocks of one event."""
    statistics = SmallStatistics(stream(letters, times), 1, ["a"])
    mask = mask_of(replayed(query, statistics, chosen).blocks, len(letters))
    return "".join(x if keep else " " for x, keep in zip(letters, mask, strict=True))


# Thesis Fig. 3.7: pattern A B C* D. a1 and b1 are near but not adjacent, a2 b2 are adjacent and a
# D follows within the window, a3 has no B. Window 6.
FIGURE_3_7 = query_of(seq(A, B, star(C), D), [EQUALS[0], EQUALS[1], None, EQUALS[3]], within=6)
STREAM_3_7 = "..A.B.......AB..D......A......"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        # (a) index on A alone: [a.t, a.t + w] for each a
        pytest.param([0], "  A.B....   AB..D..    A......", id="a-first-symbol"),
        # (b) A and B: only the adjacent pair is left, still to the end of the window
        pytest.param([0, 1], "            AB..D..           ", id="b-first-block"),
        # (c) A, B and D: the interval ends with D
        pytest.param([0, 1, 2], "            AB..D             ", id="c-all"),
        # D alone: (S3) [d.t - w, d.t]
        pytest.param([2], "          ..AB..D             ", id="last-symbol"),
        # B alone: the start is the row before b, (S1) holds by seq; one time unit before b
        pytest.param([1], "   .B.....  AB..D..           ", id="second-of-first-block"),
    ],
)
def test_intervals_of_thesis_figure_3_7(chosen, expected):
    assert events(FIGURE_3_7, STREAM_3_7, chosen) == expected


def test_nearest_end_alone_would_lose_rows():
    # A Z* B on A B Z B: the match may end with either B.
    query = query_of(seq(A, star(C), B), [EQUALS[0], EQUALS[1], None], within=10)
    assert events(query, "..AB.B..") == "  AB.B  "


def test_earliest_end_says_how_far_back_an_open_start_reaches():
    # Z* A Z* B: [first b - w, last b] for each a.
    query = query_of(seq(star(C), A, star(C), B), [EQUALS[0], EQUALS[1], None], within=4)
    assert events(query, ".....A.B.B....") == "   ..A.B.B    "


def test_window_is_inclusive():
    query = query_of(seq(A, star(C), B), [EQUALS[0], EQUALS[1], None], within=3)
    assert events(query, ".A..B.") == " A..B "
    assert events(query, ".A...B.") == "       "


def test_ties_have_no_distance_in_time():
    # All at one time: shortening by rows before B would cut the end of the window.
    query = query_of(seq(A, B, star(C)), [EQUALS[0], EQUALS[1], None], within=1)
    times = [0, 5, 5, 5, 6, 6, 7]
    assert events(query, ".AB....", [1], times) == " AB... "


def test_optional_part_at_the_start_keeps_the_start_open():
    # A? B: B's row is not the first of the match, (S1) does not hold.
    query = query_of(seq(Repeat(A, 0, 1), B, star(C)), [None, EQUALS[1], None], within=2)
    assert events(query, "......B.....") == "    ..B..   "


def test_kleene_at_the_start_keeps_the_start_open():
    query = query_of(seq(star(C), A), [EQUALS[0], None, None], within=2)
    assert events(query, "......A.....") == "    ..A     "


def test_base_case_is_two_windows_less_the_candidate():
    # Z* A B Z*: [b.t - w, a.t + w]
    query = query_of(seq(star(C), A, B, star(C)), [EQUALS[0], EQUALS[1], None], within=3)
    assert events(query, ".....AB.....") == "   ..AB..   "


def test_minimal_gap_shortens_by_symbols_that_were_not_looked_up():
    # Z* A B C Z* with every gap 10: B's interval is [t - 3 + ..]: w = 30, one row each side.
    pattern = seq(star(D), A, B, C, star(D))
    query = query_of(pattern, [None, EQUALS[1], None, None], within=30)
    times = [10 * i for i in range(11)]
    assert events(query, ".....B.....", [1], times) == "   ..B..   "


def test_fixed_pattern_is_replayed_to_the_row():
    query = query_of(seq(A, B, C), [None, EQUALS[1], None])
    assert events(query, "....B....B") == "   .B.    "


def test_bounded_pattern_without_window_in_time_has_one_in_rows():
    query = query_of(seq(A, Repeat(C, 0, 2), B), [EQUALS[0], EQUALS[1], None])
    assert events(query, ".A..B..A...B.", [0]) == " A..B  A...  "
    assert events(query, ".A..B..A...B.") == " A..B        "


def test_unbounded_pattern_without_window_reads_from_the_first_start_to_the_last_end():
    query = query_of(seq(A, star(C), B), [EQUALS[0], EQUALS[1], None])
    assert events(query, ".B.A..B.A.B.A.") == "   A..B.A.B   "
    assert events(query, "..B..A..") == "        "


def test_partitions_leave_order_and_window_only():
    query = query_of(seq(A, B), EQUALS[:2], within=4, partition_by=("k",))
    assert events(query, ".A..B.....A....B") == " A..B           "


def test_several_attributes_of_a_position_are_intersected():
    both_ = compare("=", "a", 1), compare("=", "b", 1)
    query = query_of(A, [type(both_[0])("and", both_, both_[0].type)])
    made = [{"t": i, "a": i % 2, "b": i // 3 % 2, "k": 0} for i in range(9)]
    statistics = SmallStatistics(made, 1, ["a", "b"])
    assert replayed(query, statistics).blocks.tolist() == [[3, 4], [5, 6]]


def test_counters_say_what_was_skipped():
    statistics = SmallStatistics(stream(STREAM_3_7), 5, ["a"])
    found = replayed(FIGURE_3_7, statistics)
    # One candidate, one interval [12, 16], in blocks 2 and 3 of six.
    assert (found.n_candidates, found.n_intervals) == (1, 1)
    assert found.blocks.tolist() == [[2, 4]]
    assert found.n_events_covered == 10


def test_intervals_overlapping_count_once():
    query = query_of(seq(A, star(C)), [EQUALS[0], None, None], within=3)
    found = replayed(query, SmallStatistics(stream("A.A....A...."), 1, ["a"]))
    assert (found.n_candidates, found.n_intervals) == (3, 2)


def test_stretches_that_are_near_are_read_through():
    query = query_of(A, EQUALS[:1])
    statistics = SmallStatistics(stream("A..A...A"), 1, ["a"])
    assert replayed(query, statistics, bridge_blocks=1).blocks.tolist() == [[0, 1], [3, 4], [7, 8]]
    assert replayed(query, statistics, bridge_blocks=2).blocks.tolist() == [[0, 4], [7, 8]]


def test_without_conditions_the_plans_own_stretches_are_replayed():
    query = query_of(A, EQUALS[:1])
    statistics = SmallStatistics(stream("..A.." * 4), 5, ["a"])
    plan = choose_plan(query, statistics, requested="tree")
    found = replay_stretches(plan, {}, query, statistics)
    assert found.blocks.tolist() == plan.stretches.tolist()


def test_extreme_times_do_not_wrap():
    query = query_of(seq(star(C), A, star(C)), [EQUALS[0], None, None], within=2**63 - 1)
    times = [-(2**63), 0, 2**63 - 1]
    assert events(query, "..A", None, times) == " .A"


SETTINGS = (
    patterns(3),
    st.lists(st.none() | conditions(3), min_size=3, max_size=3),
    rows(n_max=12),
    st.lists(st.integers(1, 4), min_size=12, max_size=12),
    st.none() | st.integers(0, 12),
    st.booleans(),
    st.randoms(use_true_random=False),
)


def draw_case(pattern, defines, made, sizes, within, partitioned, random):
    query = query_of(pattern, defines, within=within, partition_by=("k",) if partitioned else ())
    statistics = SmallStatistics(made, _cut(sizes, len(made)), ["a", "b"])
    plan = plan_with(query, statistics)
    kept = tuple(c for c in plan.conditions if random.random() < 0.7) or plan.conditions
    return query, statistics, kept


def _cut(sizes: list[int], n: int) -> list[int]:
    borders = np.minimum(np.cumsum(sizes), n)
    return [int(size) for size in np.diff(np.concatenate(([0], borders))) if size]


@given(*SETTINGS)
def test_every_match_lies_within_one_range_of_blocks(
    pattern, defines, made, sizes, within, partitioned, random
):
    query, statistics, kept = draw_case(pattern, defines, made, sizes, within, partitioned, random)
    shape = to_shape(query)
    if not kept or shape.rows_min == 0:
        return
    for coarse in (False, True):
        stretches = None
        if coarse:
            stretches = choose_plan(query, statistics, requested="tree").stretches
            if random.random() < 0.5:
                stretches = all_blocks(statistics.n_blocks)
        plan = _with(plan_with(query, statistics, stretches=stretches), kept)
        found = replay_stretches(plan, look_up(plan, statistics), query, statistics)
        check_ranges(found, statistics)
        for _, at in matches(query, made, length_max=5):
            assert contains(found.blocks, statistics, at[0], at[-1])


@given(strategy_queries(), rows(), SETTINGS[3], st.randoms(use_true_random=False))
def test_every_row_that_decides_over_a_match_is_replayed_with_it(query, made, sizes, random):
    statistics = SmallStatistics(made, _cut(sizes, len(made)), ["a", "b"])
    conditions_ = plan_with(query, statistics).conditions
    kept = tuple(c for c in conditions_ if random.random() < 0.6) or conditions_
    if not kept:
        return
    stretches = choose_plan(query, statistics, requested="tree").stretches
    plan = _with(plan_with(query, statistics, stretches=stretches), kept)
    found = replay_stretches(plan, look_up(plan, statistics), query, statistics, bridge_blocks=0)
    check_ranges(found, statistics)
    for word, at in matches(query, made, length_max=4):
        assert contains(found.blocks, statistics, *deciding_rows(query, made, word, at))


def _with(plan: Plan, conditions_: tuple[Condition, ...]) -> Plan:
    return Plan(plan.kind, conditions_, plan.shape, plan.stretches, plan.estimated, (), plan.reason)


def check_ranges(found, statistics) -> None:
    """Ranges are ascending, disjoint, not adjacent, and counted right."""
    flat = found.blocks.ravel()
    assert np.all(np.diff(flat) > 0)
    assert not len(flat) or (flat[0] >= 0 and flat[-1] <= statistics.n_blocks)
    base = statistics.leaves.base
    assert found.n_events_covered == sum(base[b] - base[a] for a, b in found.blocks)


@given(*SETTINGS)
def test_blocks_equal_the_union_of_all_candidates_intervals(
    pattern, defines, made, sizes, within, partitioned, random
):
    query, statistics, kept = draw_case(pattern, defines, made, sizes, within, partitioned, random)
    shape = to_shape(query)
    if not kept or shape.is_impossible:
        return
    plan = _with(plan_with(query, statistics), kept)
    looked_up = look_up(plan, statistics)
    found: dict[int, set[int]] = {}
    for (position, _), occurrences in looked_up.items():
        seqs = set(occurrences.seq.tolist())
        found[position] = found.get(position, seqs) & seqs
    if np.prod([float(len(seqs)) for seqs in found.values()]) > 3000:
        return
    expected = covered_blocks(
        gap_before=shape.gap_before,
        trailing_gap=shape.trailing_gap,
        found=found,
        times=[row["t"] for row in made],
        blocks=statistics.blocks,
        within=within,
        rows_max=shape.row_window,
        gap_min=statistics.gap_min,
    )
    actual = replay_stretches(plan, looked_up, query, statistics, bridge_blocks=0)
    assert actual.blocks.tolist() == ranges_of(np.array(expected, dtype=bool)).tolist()


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 4))
def test_bridging_unites_what_is_near_and_keeps_the_rest(mask, near):
    ranges = ranges_of(np.array(mask, dtype=bool))
    assert mask_of(ranges, len(mask)).tolist() == mask
    joined = bridge(ranges, near)
    assert np.all(joined[1:, 0] - joined[:-1, 1] > near)
    wide = mask_of(joined, len(mask))
    assert np.all(wide[np.array(mask, dtype=bool)])
    for first, last in ranges_of(wide & ~np.array(mask, dtype=bool)).tolist():
        assert last - first <= near
