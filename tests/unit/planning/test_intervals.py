"""Replay intervals: no match is lost, and no more is read than the definition says.

Method: hand-made cases (thesis Fig. 3.7 and the counterexamples of docs/planning.md), and two laws:
the blocks hold every match a brute force finds, and they equal the union of Interval(c, w) over
all candidates, tried one by one. Likewise for what intervals are made of: times of rows that were
not looked up, rows as runs, spans by key, and candidates of one key.
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
from replay.planning.hits import BlockHits
from replay.planning.intervals import earliest_times, latest_times, replay_stretches
from replay.planning.kernels import cut_to_intervals
from replay.planning.key_join import COUNTED_MIN, link_by_key, tells_keys
from replay.planning.key_spans import unite_by_key
from replay.planning.named_plans import gap_conditions, index_conditions
from replay.planning.plan import Plan, PlanKind
from replay.planning.row_spans import RowSpans
from tests.oracles.intervals import covered_blocks, deciding_rows, matches
from tests.unit.planning.streams import (
    SmallStatistics,
    chain_queries,
    compare,
    conditions,
    contains,
    inside,
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
    "nor does it leave what is before": (within(9, A, ANY, B, MORE_B, C), "A.B.C"),
    # The match may end with either of the first two.
    "a gap ends where the run does": (within(9, A, star(Alternate((B, C))), C), "[ACBC].C.."),
    "each end of a gap counts": (within(9, A, ANY, B, MORE_B, C), "[A.BC.BBC]."),
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
@settings(max_examples=100)
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


def leaves_of(times: list[int], block_events: int):
    made = [{"t": t, "a": 0, "b": 0, "k": 0} for t in times]
    return SmallStatistics(made, block_events).leaves


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


# Blocks 0..3 with gaps of 10, a burst in 4..7, and 8..11 with gaps of 5.
TIMES = [0, 10, 20, 30, 31, 31, 31, 31, 40, 45, 50, 55]


def test_neighbours_in_a_block_are_its_own_least_gap_apart():
    leaves = leaves_of(TIMES, 4)
    # Two rows before 3 (30) and before 10 (50): 20 and 10 earlier, in spite of the ties between.
    assert latest_times(ints(3, 10), ints(30, 50), 2, leaves).tolist() == [10, 40]
    assert earliest_times(ints(0, 9), ints(0, 45), 2, leaves).tolist() == [20, 55]


def test_rows_of_another_block_are_bounded_by_its_extremes():
    leaves = leaves_of(TIMES, 4)
    # Three rows before 9 is row 6 of the burst, at most 31; two rows before 5 is row 3, at 30.
    assert latest_times(ints(9), ints(45), 3, leaves).tolist() == [31]
    assert latest_times(ints(5), ints(31), 2, leaves).tolist() == [30]
    # Three rows behind 7 is row 10: two gaps of 5 after 40.
    assert earliest_times(ints(7), ints(31), 3, leaves).tolist() == [50]


def test_no_row_between_leaves_times_as_they_are():
    leaves = leaves_of(TIMES, 4)
    assert latest_times(ints(3), ints(30), 0, leaves).tolist() == [30]
    assert earliest_times(ints(3), ints(30), 0, leaves).tolist() == [30]
    assert earliest_times(ints(), ints(), 2, leaves).tolist() == []


def test_blocks_of_one_event_tell_times_exactly():
    leaves = leaves_of(TIMES, 1)
    assert latest_times(ints(8), ints(40), 4, leaves).tolist() == [31]
    assert earliest_times(ints(3), ints(30), 5, leaves).tolist() == [40]


def test_gaps_that_fill_the_whole_range_of_times_do_not_wrap():
    end = 2**63 - 1
    leaves = leaves_of([-end, 0, end], 3)
    assert earliest_times(ints(0), ints(-end), 2, leaves)[0] <= end
    assert latest_times(ints(2), ints(end), 2, leaves)[0] >= -end
    half = 2**62
    leaves = leaves_of([-half, 0, half - 1], 3)
    assert earliest_times(ints(0), ints(-half), 2, leaves).tolist() == [half - 2]
    assert latest_times(ints(2), ints(half - 1), 2, leaves).tolist() == [1 - half]


@given(
    st.lists(st.sampled_from((0, 0, 1, 2, 7)), min_size=1, max_size=20),
    st.integers(1, 6),
    st.integers(0, 5),
    st.data(),
)
def test_bounds_ascend_and_hold_for_the_true_times(gaps, block_events, n, data):
    times = np.cumsum(gaps).astype(np.int64)
    leaves = leaves_of(times.tolist(), block_events)
    known = data.draw(st.lists(st.integers(0, len(times) - 1), unique=True).map(sorted))
    before = ints(*(seq for seq in known if seq >= n))
    bound = latest_times(before, times[before], n, leaves)
    assert np.all(bound >= times[before - n])
    assert np.all(bound <= times[before])
    assert np.all(np.diff(bound) >= 0)
    behind = ints(*(seq for seq in known if seq + n < len(times)))
    bound = earliest_times(behind, times[behind], n, leaves)
    assert np.all(bound <= times[behind + n])
    assert np.all(bound >= times[behind])
    assert np.all(np.diff(bound) >= 0)


LEAST, MOST = -(2**63), 2**63 - 1


def spans(**bounds: list[int]) -> RowSpans:
    """Return spans with the bounds given and no others."""
    n = len(next(iter(bounds.values())))
    given = {name: np.array(bound, np.int64) for name, bound in bounds.items()}
    names = ("seq_low", "t_low", "seq_high", "t_high")
    return RowSpans(n, **{name: given.get(name) for name in names})


def cut(found: RowSpans, stretches: list[tuple[int, int]], times) -> list[tuple[int, int, int]]:
    """Return runs as (first row, number of rows, first seq), of stretches (first seq, rows)."""
    n_rows = np.array([n for _, n in stretches], np.int64)
    first_seqs = np.array([first for first, _ in stretches], np.int64)
    runs = found.cut(np.cumsum(n_rows) - n_rows, n_rows, first_seqs, np.asarray(times, np.int64))
    return list(zip(*(part.tolist() for part in runs), strict=True))


def test_rows_are_cut_by_one_kernel_wherever_arrays_come_from():
    # Each form of an array that Numba has not seen takes it half a second and more.
    found = spans(seq_low=[0, 4], t_high=[1, 5])
    lent = np.arange(12)
    lent.flags.writeable = False
    pieces = np.stack((np.arange(0, 12, 4), np.full(3, 4), np.arange(0, 12, 4)))
    for low in (found.seq_low, lent[::6]):
        for chosen in ([False, True, False], [True, False, True]):
            RowSpans(2, low, None, None, found.t_high).cut(*pieces[:, chosen], lent)
    assert len(cut_to_intervals.entry.signatures) == 1


def test_rows_of_spans_that_end_at_extreme_times_do_not_wrap():
    times = [LEAST, 0, MOST]
    assert cut(spans(t_low=[LEAST], t_high=[MOST]), [(0, 3)], times) == [(0, 3, 0)]
    assert cut(spans(t_low=[1], t_high=[MOST]), [(0, 3)], times) == [(2, 1, 2)]
    assert cut(spans(t_low=[LEAST], t_high=[LEAST]), [(0, 3)], times) == [(0, 1, 0)]


BOUNDS = st.lists(st.integers(0, 30), min_size=6, max_size=6).map(sorted)


@given(
    bounds=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("seq_low", "t_low", "seq_high", "t_high"), BOUNDS)
    ),
    sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6)), max_size=5),
    steps=st.lists(st.integers(0, 4), min_size=30, max_size=30),
)
def test_a_row_is_left_if_it_lies_in_some_interval(bounds, sizes, steps):
    """Held to a look at every row and interval."""
    assume(bounds)
    seqs, stretches, seq = [], [], 0
    for gap, n in sizes:
        seq += gap
        stretches.append((seq, n))
        seqs += range(seq, seq + n)
        seq += n
    times = np.cumsum(steps)[: len(seqs)].tolist()

    def is_in(at: int, k: int) -> bool:
        low = all(
            bounds[b][k] <= v
            for b, v in (("seq_low", seqs[at]), ("t_low", times[at]))
            if b in bounds
        )
        high = all(
            v <= bounds[b][k]
            for b, v in (("seq_high", seqs[at]), ("t_high", times[at]))
            if b in bounds
        )
        return low and high

    left = [at for at in range(len(seqs)) if any(is_in(at, k) for k in range(6))]
    found = cut(spans(**bounds), stretches, times)
    assert [row for first, n, _ in found for row in range(first, first + n)] == left
    assert [s for _, n, first in found for s in range(first, first + n)] == [
        seqs[at] for at in left
    ]
    within = [np.searchsorted([first for first, _ in stretches], s, "right") for s in seqs]
    assert all(len(set(within[first : first + n])) == 1 for first, n, _ in found)


@given(cases(queries()))
def test_rows_left_out_neither_take_nor_give_a_match(case):
    query, statistics, plan = case
    if plan.required.rows_min == 0:
        return
    found = replay_stretches(plan, statistics.look_up(plan), statistics)
    if found.rows is None:
        return
    times = [row["t"] for row in statistics.rows]
    runs = cut(found.rows, [(0, statistics.n_events)], times)
    left = [
        (word, *(first + i for i in at))
        for first, n, _ in runs
        for word, at in matches(query, statistics.rows[first : first + n], 4)
    ]
    assert sorted(left) == sorted((word, *at) for word, at in matches(query, statistics.rows, 4))
    n_left = sum(n for _, n, _ in runs)
    event(f"{'some' if n_left < statistics.n_events else 'none'} left out, {len(left) > 0}")


def united(given_spans: list[tuple[int, int, int]]):
    """Unite spans (key, low, high), each of which is told by an event of ten times its key."""
    key, low, high = (np.array(part, dtype=np.int64) for part in zip(*given_spans, strict=True))
    return unite_by_key(key, 10 * key, low, high, by_time=True)


def ascending(by_key: dict[int, list[tuple[int, int]]]) -> list[tuple[int, int, int]]:
    """Return spans whose ends ascend within each key, as those of intervals do."""
    spans = []
    for key, drawn in by_key.items():
        lows = sorted(low for low, _ in drawn)
        highs = sorted(low + length for low, length in drawn)
        spans += [(key, low, high) for low, high in zip(lows, highs, strict=True)]
    return spans


SPANS = st.dictionaries(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(-9, 20), st.integers(0, 6)), min_size=1, max_size=5),
    min_size=1,
).map(ascending)
EVENTS = st.lists(st.tuples(st.integers(-12, 30), st.integers(0, 6)), max_size=30).map(sorted)


@given(SPANS, EVENTS)
def test_an_event_is_kept_where_a_span_of_its_key_holds_it(spans, events):
    found = united(spans)
    number = {seq // 10: n for n, seq in enumerate(found.examples.tolist())}
    keys = np.array([number.get(key, -1) for _, key in events], dtype=np.int64)
    at = np.array([t for t, _ in events], dtype=np.int64)
    expected = [any(k == key and a <= t <= z for k, a, z in spans) for t, key in events]
    assert found.contain(keys, at).tolist() == expected


@given(SPANS)
def test_spans_of_a_key_ascend_apart_and_every_key_has_one(spans):
    found = united(spans)
    assert found.examples.tolist() == [10 * key for key in sorted({key for key, _, _ in spans})]
    assert found.offsets[0] == 0
    assert found.offsets[-1] == len(found.low) == len(found.high)
    for begin, end in zip(found.offsets[:-1], found.offsets[1:], strict=True):
        assert end > begin
        assert np.all(found.low[begin:end] <= found.high[begin:end])
        assert np.all(found.low[begin + 1 : end] > found.high[begin : end - 1])


def test_spans_by_key_that_end_at_extreme_times_do_not_wrap():
    least, most = -(2**63), 2**63 - 1
    found = united([(0, least, 0), (0, 5, most), (1, least, most)])
    assert found.offsets.tolist() == [0, 2, 3]
    at = np.array([least, 3, most])
    assert found.contain(np.array([0, 0, 0]), at).tolist() == [True, False, True]
    assert found.contain(np.array([1, 1, 1]), at).tolist() == [True, True, True]


@pytest.mark.parametrize("n_keys", [1, 40])
def test_many_spans_are_united_as_few_are(n_keys):
    random = np.random.default_rng(n_keys)
    low = np.sort(random.integers(0, 200_000, 2 * COUNTED_MIN))
    key = random.integers(0, n_keys, len(low))
    found = unite_by_key(key, low, low, low + 100, by_time=False)
    at = np.sort(random.integers(0, 200_200, 5_000))
    of = random.integers(0, n_keys, len(at))
    near = [low[key == k] for k in range(n_keys)]
    # The last span that begins at or before an event is, of equal ones, the one to hold it.
    last = [np.searchsorted(near[k], t, side="right") - 1 for t, k in zip(at, of, strict=True)]
    pairs = zip(at, of, last, strict=True)
    expected = [bool(i >= 0 and t <= near[k][i] + 100) for t, k, i in pairs]
    assert found.contain(of, at).tolist() == expected


@st.composite
def keyed_cases(draw: st.DrawFn):
    """Partitions of a stream in which matches are common, and a plan that looks some of it up."""
    drawn = draw(st.one_of(chain_queries(), strategy_queries()))
    simple = [compare("<=", draw(st.sampled_from("ab")), draw(st.integers(0, 2))) for _ in range(3)]
    between = [star(draw(st.sampled_from((C, D)))) for _ in range(2)]
    chain = seq(*between[: draw(st.integers(0, 1))], A, between[1], B)
    plain = query_of(chain, [*simple, None], within=drawn.within)
    query = replace(draw(st.sampled_from((drawn, plain, plain))), partition_by=("k",))
    statistics = SmallStatistics(draw(rows(16, n_min=10)), 2, ["a", "b"], key="k")
    plan = plan_with(query, statistics)
    assume(plan.conditions)
    chosen = draw(st.sets(st.sampled_from(plan.conditions), min_size=1))
    return (
        query,
        statistics,
        replace(plan, conditions=tuple(c for c in plan.conditions if c in chosen)),
    )


@given(keyed_cases())
def test_rows_left_out_by_key_neither_take_nor_give_a_match(case):
    query, statistics, plan = case
    assume(plan.required.rows_min > 0)
    found = replay_stretches(plan, statistics.look_up(plan), statistics)
    kept = range(statistics.n_events)
    if found.n_candidates == 0:
        kept = []
    elif found.keys is not None:
        kept = np.flatnonzero(inside(found.keys, statistics)).tolist()
    rows_kept = [statistics.rows[i] for i in kept]
    left = [(word, *(kept[i] for i in at)) for word, at in matches(query, rows_kept, 4)]
    assert sorted(left) == sorted((word, *at) for word, at in matches(query, statistics.rows, 4))
    some_left_out = "some" if len(kept) < statistics.n_events else "none"
    event(f"{some_left_out} left out, {'some' if left else 'no'} matches")


TWO_ATTRIBUTES = [compare("=", "a", 0), compare("=", "b", 0)]


def hits(position: int, seqs: np.ndarray, keys: np.ndarray) -> BlockHits:
    return BlockHits(position, position + 1, position, position, seqs, seqs, seqs, keys)


def by_hand(first: BlockHits, last: BlockHits, within: int) -> dict[int, tuple[int, int]]:
    """Return for each start its first and last end, tried one by one."""
    ends: dict[int, dict[int, int]] = {}
    for j, (end, key) in enumerate(zip(last.start.tolist(), last.keys.tolist(), strict=True)):
        ends.setdefault(key, {})[end] = j
    found = {}
    for i, (start, key) in enumerate(zip(first.start.tolist(), first.keys.tolist(), strict=True)):
        near = [j for end, j in ends.get(key, {}).items() if start < end <= start + within]
        if near:
            found[i] = min(near), max(near)
    return found


@pytest.mark.parametrize("n_keys", [1, 7, 2000])
def test_starts_have_the_first_and_last_end_of_their_key(n_keys):
    random = np.random.default_rng(n_keys)
    n_events, within = 40_000, 3_000
    seqs = [np.flatnonzero(random.random(n_events) < 0.1) for _ in range(2)]
    assert min(map(len, seqs)) > COUNTED_MIN
    first, last = (
        hits(position, chosen, random.integers(0, n_keys, len(chosen)))
        for position, chosen in enumerate(seqs)
    )
    in_time = np.searchsorted(last.start, first.start + within, side="right")
    starts, earliest, latest = link_by_key([first, last], n_events, in_time)
    found = zip(starts.tolist(), earliest.tolist(), latest.tolist(), strict=True)
    assert {i: (a, b) for i, a, b in found} == by_hand(first, last, within)


def test_keys_are_not_told_apart_where_one_integer_cannot_hold_key_and_seq():
    seqs, keys = np.array([1, 2]), np.array([0, 1])
    assert link_by_key([hits(0, seqs, keys), hits(1, seqs, keys)], 2**61, None) is None


@pytest.mark.parametrize(
    ("partition_by", "key", "expected"),
    [
        pytest.param(("k",), "k", True, id="the-key"),
        pytest.param(("b", "k"), "k", True, id="the-key-among-others"),
        pytest.param(("b",), "k", False, id="another-column"),
        pytest.param((), "k", False, id="no-partitions"),
        pytest.param(("k",), None, False, id="no-key-column"),
    ],
)
def test_keys_are_asked_for_where_partitions_are_at_least_as_fine(partition_by, key, expected):
    shape = requirements(query_of(seq(A, B), TWO_ATTRIBUTES, partition_by=partition_by))
    assert tells_keys(shape, key) is expected
