"""Replay intervals: no match is lost, and no more is read than the definition says.

Method: hand-made cases (thesis Fig. 3.7 and the counterexamples of docs/planning.md), and two laws:
the blocks hold every match a brute force finds, and they equal the union of Interval(c, w) over
all candidates, tried one by one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from costmodel.plan_cost import Estimate
from replay.language.bound import Alternate, BoundPatternQuery, Repeat, Symbol
from replay.patterns.plan import plan_pattern
from replay.patterns.requirements import requirements
from replay.planning.block_ranges import all_blocks, bridge, mask_of, ranges_of
from replay.planning.coarse_map import draw_coarse_map
from replay.planning.intervals import replay_stretches
from replay.planning.named_plans import gap_conditions, index_conditions
from replay.planning.plan import Plan, PlanKind
from tests.oracles.intervals import covered_blocks, deciding_rows, matches
from tests.unit.planning.streams import (
    SmallStatistics,
    chain_queries,
    compare,
    conditions,
    contains,
    lies_in_a_run,
    lies_in_a_span,
    patterns,
    query_of,
    rows,
    seq,
    star,
    strategy_queries,
)

A, B, C, D = (Symbol(i) for i in range(4))
NOT_WEIGHED = Estimate(0.0, 0.0, 0.0, 0.0, 0.0)
EQUALS = [compare("=", "a", i) for i in range(4)]


def stream(letters: str, times: list[int] | None = None, keys: str = "") -> list[dict]:
    """Return rows of these letters; a key of ``.`` is missing."""
    values = {"A": 0, "B": 1, "C": 2, "D": 3, ".": 9}
    times = list(range(len(letters))) if times is None else times
    key = {".": None} | {x: x for x in "123"}
    made = zip(times, letters, keys or "1" * len(letters), strict=True)
    return [{"t": t, "a": values[x], "b": 0, "k": key[k]} for t, x, k in made]


def plan_with(query, statistics, chosen=None, stretches=None) -> Plan:
    """Return a plan that looks up the chosen places (all, if None), over the whole stream."""
    shape = requirements(query)
    found = (
        *index_conditions(shape, statistics.indexed),
        *gap_conditions(shape, statistics.indexed),
    )
    chosen = tuple(c for c in found if chosen is None or c.place in chosen)
    everywhere = all_blocks(statistics.n_blocks) if stretches is None else stretches
    return Plan(PlanKind.INDEXES, chosen, shape, everywhere, NOT_WEIGHED, "")


def replayed(query, statistics, chosen=None, bridge_blocks=0):
    plan = plan_with(query, statistics, chosen)
    return replay_stretches(plan, statistics.look_up(plan), statistics, bridge_blocks=bridge_blocks)


def events(query, letters: str, chosen=None, times: list[int] | None = None, keys="") -> str:
    """Return the stream with what is not replayed as blanks, in blocks of one event."""
    made = stream(letters, times, keys)
    statistics = SmallStatistics(made, 1, ["a"], key="k" if keys else None)
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


def test_bounded_pattern_without_window_in_time_has_one_in_rows():
    query = query_of(seq(A, Repeat(C, 0, 2), B), [EQUALS[0], EQUALS[1], None])
    assert events(query, ".A..B..A...B.", [0]) == " A..B  A...  "
    assert events(query, ".A..B..A...B.") == " A..B        "
    assert events(query, ".A..B..A...B.", [1]) == " A..B   ...B "


def test_unbounded_pattern_without_window_reads_from_the_first_start_to_the_last_end():
    query = query_of(seq(A, star(C), B), [EQUALS[0], EQUALS[1], None])
    assert events(query, ".B.A..B.A.B.A.") == "   A..B.A.B   "
    assert events(query, "..B..A..") == "        "


def test_partitions_leave_order_and_window_only():
    query = query_of(seq(A, B), EQUALS[:2], within=4, partition_by=("k",))
    assert events(query, ".A..B.....A....B") == " A..B           "


def keyed(pattern, within=None, partition_by=("k",)):
    return query_of(pattern, EQUALS, within=within, partition_by=partition_by)


def test_candidates_agree_on_the_key_of_the_stream():
    # Of key 1 there is no B within 4 behind the A, of key 2 there is one.
    query = keyed(seq(A, B), within=4)
    assert events(query, "..A.A.B.B.", keys="1112222333") == "    A.B   "
    assert events(query, "..A.A.B.B.") == "  A.A.B.B "


def test_events_without_a_key_agree_with_each_other():
    query = keyed(seq(A, B), within=4)
    assert events(query, ".A.B...A.B.", keys="..2.111.111") == " A.B       "


def test_partitions_by_another_column_say_nothing_of_the_key():
    query = keyed(seq(A, B), within=4, partition_by=("b",))
    assert events(query, "A.B.", keys="1122") == "A.B "


def test_a_later_start_of_another_key_may_end_earlier():
    # Key 1 from 1 to 9, key 2 from 3 to 5: ends do not ascend with starts.
    query = keyed(seq(A, B), within=9)
    assert events(query, ".A.A.B...B..", keys="111222111111") == " A.A.B...B  "
    # Key 2 from 1 to 3, key 1 from 8 to 9: nothing lies between.
    assert events(query, ".A.B....AB..", keys="122211111111") == " A.B    AB  "


def test_the_earliest_end_of_the_key_says_how_far_back_an_open_start_reaches():
    # Z* A B: the B of key 2 is nearer, that of key 1 is at 8: [8 - 4, 8].
    query = keyed(seq(star(C), A, B), within=4)
    assert events(query, "......AB.B..", keys="111111122111") == "     .AB.B  "


def filled(pattern, within=9):
    return query_of(pattern, EQUALS, within=within)


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        pytest.param("AC.ABC.ABBBC.", "AC ABC ABBBC ", id="all-rows-between-are-b"),
        pytest.param("AB.C.A.C.ABBDC", "              ", id="another-row-between"),
        pytest.param("A.ABBC..ABB.C", "  ABBC       ", id="the-nearest-start-only"),
    ],
)
def test_gap_of_one_symbol_holds_its_rows_only(letters, expected):
    assert events(filled(seq(A, star(B), C)), letters) == expected


def test_gap_of_a_repeated_symbol_begins_with_the_symbol_itself():
    query = filled(seq(A, Repeat(B, 1, None), C))
    assert events(query, "AC.ABC.ABBC") == "   ABC ABBC"
    # Without the first B, only the gap's rows are known, and these may be none at all.
    assert events(query, "AC.ABC.AB.C", [0, 2, ~2]) == "   ABC     "


def test_gap_ends_where_the_run_does_and_the_latest_end_counts():
    # A (B | C)* C on A C B C . C: the match may end with either of the first two.
    query = filled(seq(A, star(Alternate((B, C))), C))
    assert events(query, "ACBC.C..") == "ACBC    "


def test_gap_that_was_not_looked_up_may_hold_anything():
    assert events(filled(seq(A, star(B), C)), "A.C.", [0, 1]) == "A.C "


def test_gap_between_blocks_that_were_not_looked_up_prunes_nothing():
    query = filled(seq(A, star(B), D, star(B), C), within=4)
    assert events(query, "A.D.C.", [0, 2, ~1, ~2]) == "A.D.C "
    assert events(query, "A.D.C.") == "      "


def test_gap_alone_prunes_nothing():
    query = filled(seq(A, star(B), C))
    assert events(query, "A.C.", [~1]) == "A.C."


def test_partitions_leave_anything_in_a_gap():
    assert events(keyed(seq(A, star(B), C), within=4), "A.C.") == "A.C "


def test_rows_of_one_time_elsewhere_do_not_lengthen_intervals_here():
    # Z* A B C Z* with gaps of 10 about the B, and two rows of one time at the end of the stream.
    query = query_of(seq(star(D), A, B, C, star(D)), [None, EQUALS[1], None, None], within=30)
    times = [*(10 * i for i in range(11)), 100]
    assert events(query, ".....B......", [1], times) == "   ..B..    "


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
    plan = plan_pattern(query, statistics, requested="tree")
    found = replay_stretches(plan, {}, statistics)
    assert found.blocks.tolist() == plan.stretches.tolist()


def test_extreme_times_do_not_wrap():
    query = query_of(seq(star(C), A, star(C)), [EQUALS[0], None, None], within=2**63 - 1)
    times = [-(2**63), 0, 2**63 - 1]
    assert events(query, "..A", None, times) == " .A"


@st.composite
def queries(draw: st.DrawFn) -> BoundPatternQuery:
    """Chains of restricted symbols, and patterns of any shape."""
    if draw(st.booleans()):
        return draw(chain_queries())
    defines = draw(st.lists(st.none() | conditions(3), min_size=3, max_size=3))
    within = draw(st.none() | st.integers(0, 12))
    partition_by = draw(st.sampled_from([(), (), ("k",), ("b", "k")]))
    return query_of(draw(patterns(3)), defines, within=within, partition_by=partition_by)


@st.composite
def cases(draw: st.DrawFn, of: st.SearchStrategy[BoundPatternQuery]):
    """A query, statistics of a stream, and a plan that looks something up over all blocks."""
    query, made = draw(of), draw(st.one_of(rows(), rows(16, n_min=10), rows(16, n_min=10)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=16, max_size=16))
    key = draw(st.sampled_from(("k", "k", "b", None)))
    statistics = SmallStatistics(made, _cut(sizes, len(made)), ["a", "b"], key=key)
    plan = plan_with(query, statistics)
    assume(plan.conditions)
    left_out = draw(st.sets(st.sampled_from(plan.conditions), max_size=2))
    kept = tuple(c for c in plan.conditions if c not in left_out)
    if any(c.place >= 0 for c in kept):
        plan = replace(plan, conditions=kept)
    if draw(st.booleans()):
        left = draw_coarse_map(plan.required, statistics).stretches
        plan = replace(plan, stretches=left)
    return query, statistics, plan


def _cut(sizes: list[int], n: int) -> list[int]:
    borders = np.minimum(np.cumsum(sizes), n)
    return [int(size) for size in np.diff(np.concatenate(([0], borders))) if size]


@given(cases(st.one_of(queries(), strategy_queries())))
@settings(max_examples=150)
def test_every_row_that_decides_over_a_match_is_replayed_with_it(case):
    query, statistics, plan = case
    if plan.required.rows_min == 0:
        return
    found = replay_stretches(plan, statistics.look_up(plan), statistics, bridge_blocks=0)
    check_ranges(found, statistics)
    for word, at in matches(query, statistics.rows, length_max=4):
        first, last = deciding_rows(query, statistics.rows, word, at)
        assert contains(found.blocks, statistics, first, last)
        assert lies_in_a_span(found.keys, query, statistics, at[0], (first, last))
        assert lies_in_a_run(found.rows, statistics, (first, last))


def check_ranges(found, statistics) -> None:
    """Ranges are ascending, disjoint, not adjacent, and counted right."""
    flat = found.blocks.ravel()
    assert np.all(np.diff(flat) > 0)
    assert not len(flat) or (flat[0] >= 0 and flat[-1] <= statistics.n_blocks)
    base = statistics.leaves.base
    assert found.n_events_covered == sum(base[b] - base[a] for a, b in found.blocks)


@given(cases(queries()))
def test_blocks_equal_the_union_of_all_candidates_intervals(case):
    query, statistics, plan = case
    shape, made = plan.required, statistics.rows
    plan = replace(plan, stretches=all_blocks(statistics.n_blocks))
    looked_up = statistics.look_up(plan)
    found: dict[int, set[int]] = {}
    for (place, _), occurrences in looked_up.items():
        seqs = set(occurrences.seq.tolist())
        found[place] = found.get(place, seqs) & seqs
    fills = {~place: seqs for place, seqs in found.items() if place < 0}
    found = {place: seqs for place, seqs in found.items() if place >= 0}
    assume(np.prod([float(len(seqs)) for seqs in found.values()]) <= 3000)
    agrees = statistics.key in query.partition_by
    n_chosen = sum(any(p in found for p in range(*block)) for block in shape.blocks)
    expected = covered_blocks(
        gap_before=shape.gap_before,
        trailing_gap=shape.trailing_gap,
        found=found,
        times=[row["t"] for row in made],
        blocks=statistics.blocks,
        within=query.within,
        rows_max=shape.row_window,
        keys=[row[statistics.key] for row in made] if agrees else None,
        fills=fills,
    )
    event(f"agrees: {agrees}, fills: {bool(fills)}, blocks: {min(n_chosen, 2)}, {any(expected)}")
    actual = replay_stretches(plan, looked_up, statistics, bridge_blocks=0)
    wide = mask_of(actual.blocks, statistics.n_blocks)
    assert np.all(wide[np.array(expected, dtype=bool)])
    if not fills or n_chosen <= 2:
        # With gaps filled between three blocks and more, the latest end may be one too late.
        assert wide.tolist() == expected
    else:
        assert wide.any() == any(expected)


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
