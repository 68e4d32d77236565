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


def events(query, shown: str, chosen=None, times: list[int] | None = None, keys="") -> str:
    """Return the stream with what is replayed in brackets, in blocks of one event."""
    letters = shown.replace("[", "").replace("]", "")
    made = stream(letters, times, keys)
    statistics = SmallStatistics(made, 1, ["a"], key="k" if keys else None)
    blocks = replayed(query, statistics, chosen).blocks.tolist()
    begins, ends = ({pair[i] for pair in blocks} for i in (0, 1))
    marked = [("]" if i in ends else "") + "[" * (i in begins) + x for i, x in enumerate(letters)]
    return "".join(marked) + "]" * (len(letters) in ends)


def within(window: int | None, *parts, by: tuple[str, ...] = ()) -> BoundPatternQuery:
    """Return a query whose A, B and C are their letters; D is any row."""
    return query_of(seq(*parts), [*EQUALS[:3], None], within=window, partition_by=by)


ANY, TENS = star(D), [10 * i for i in range(11)]
MORE_B, FEW = star(B), Repeat(D, 0, 2)

# Thesis Fig. 3.7: pattern A B C* D. a1 and b1 are near but not adjacent, a2 b2 are adjacent and a
# D follows within the window, a3 has no B. Window 6.
FIGURE_3_7 = query_of(seq(A, B, star(C), D), [EQUALS[0], EQUALS[1], None, EQUALS[3]], within=6)
STREAM_3_7 = "..A.B.......AB..D......A......"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        # (a) index on A alone: [a.t, a.t + w] for each a
        pytest.param([0], "..[A.B....]...[AB..D..]....[A......]", id="a-first-symbol"),
        # (b) A and B: only the adjacent pair is left, still to the end of the window
        pytest.param([0, 1], "..A.B.......[AB..D..]....A......", id="b-first-block"),
        # (c) A, B and D: the interval ends with D
        pytest.param([0, 1, 2], "..A.B.......[AB..D]......A......", id="c-all"),
        # D alone: (S3) [d.t - w, d.t]
        pytest.param([2], "..A.B.....[..AB..D]......A......", id="last-symbol"),
        # B alone: the start is the row before b, (S1) holds by seq; one time unit before b
        pytest.param([1], "..A[.B.....]..[AB..D..]....A......", id="second-of-first-block"),
    ],
)
def test_intervals_of_thesis_figure_3_7(chosen, expected):
    assert events(FIGURE_3_7, expected, chosen) == expected


EXAMPLES = {
    # The match may end with either B; [first b - w, last b] for each a.
    "the nearest end is not all": (within(10, A, ANY, B), "..[AB.B].."),
    "the earliest end bounds an open start": (within(4, ANY, A, ANY, B), "...[..A.B.B]...."),
    "the window is inclusive": (within(3, A, ANY, B), ".[A..B]."),
    "and no longer": (within(3, A, ANY, B), ".A...B."),
    # [b.t - w, a.t + w]
    "two open ends are two windows": (within(3, ANY, A, B, ANY), "...[..AB..]..."),
    "without a window there is one in rows": (within(None, A, FEW, B), ".[A..B]..A...B."),
    "without any from first to last": (within(None, A, ANY, B), ".B.[A..B.A.B].A."),
    "partitions leave order and window": (within(4, A, B, by=("k",)), ".[A..B].....A....B"),
    "a gap of one symbol holds its rows": (within(9, A, MORE_B, C), "[AC].[ABC].ABB.C"),
    "a gap whose rows are nowhere is empty": (within(9, A, MORE_B, C), "[AC].A.C."),
    # The match may end with either of the first two.
    "a gap ends where the run does": (within(9, A, star(Alternate((B, C))), C), "[ACBC].C.."),
    "a gap not looked up may hold anything": (within(9, A, ANY, C), "[A.C]."),
}


@pytest.mark.parametrize(("query", "shown"), EXAMPLES.values(), ids=EXAMPLES)
def test_interval_is_what_a_match_of_a_candidate_may_hold(query, shown):
    assert events(query, shown) == shown


def test_only_least_gaps_of_the_blocks_that_have_them_shorten_intervals():
    # All at one time: shortening by rows before B would cut the end of the window.
    ties = [0, 5, 5, 5, 6, 6, 7]
    assert events(within(1, A, B, ANY), ".[AB...].", [1], ties) == ".[AB...]."
    # w = 30, every gap 10: one row each side, also where two rows elsewhere have one time.
    query = within(30, ANY, A, B, C, ANY)
    assert events(query, "...[..B..]...", [1], TENS) == "...[..B..]..."
    assert events(query, "...[..B..]....", [1], [*TENS, 100]) == "...[..B..]...."


def by_key(window: int, *parts) -> BoundPatternQuery:
    return within(window, *parts, by=("k",))


KEYED = {
    # Of key 1 there is no B within 4 behind the A, of key 2 there is one.
    "candidates agree on it": (by_key(4, A, B), "..A.[A.B].B.", "1112222333"),
    "events without one agree with each other": (by_key(4, A, B), ".[A.B]...A.B.", "..2.111.111"),
    # Key 1 from 1 to 9, key 2 from 3 to 5: ends do not ascend with starts.
    "a later start may end earlier": (by_key(9, A, B), ".[A.A.B...B]..", "111222111111"),
    "an open end reaches to the window's": (by_key(4, A, B, ANY), "[A.B..]...", "11111111"),
}


@pytest.mark.parametrize(("query", "shown", "keys"), KEYED.values(), ids=KEYED)
def test_the_key_of_the_stream_parts_candidates(query, shown, keys):
    assert events(query, shown, keys=keys) == shown


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
    assert events(query, ".[.A]", None, times) == ".[.A]"


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
