"""Row filters of lookups: what lies outside them is in no match, and little lies inside."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from replay.language.bound import BoundPatternQuery, Concat, Symbol
from replay.planning import ascending, row_filter
from replay.planning.block_ranges import mask_of
from replay.planning.intervals import Stretches, replay_stretches
from replay.planning.kernels import find_members as membership_by_bits
from replay.planning.kernels import rank_lower_bounds, sweep_lower_bounds
from replay.planning.key_join import tells_keys
from replay.planning.plan import Condition, IndexLookup, LookupOption, Occurrences, Plan, Slot
from replay.planning.row_filter import (
    RowFilter,
    expected_hits,
    may_ask_rows,
    may_narrow,
    meet,
    narrow,
    rows_of_neighbours,
    rows_of_places,
    united,
)
from replay.planning.steps import carry_out
from tests.oracles.intervals import deciding_rows, matches
from tests.unit.planning.streams import (
    SmallStatistics,
    both,
    compare,
    contains,
    query_of,
    seq,
    star,
    strategy_queries,
)
from tests.unit.planning.test_intervals import (
    cases,
    check_ranges,
    lies_in_a_run,
    lies_in_a_span,
    plan_with,
    queries,
)


class Within:
    """Answers lookups with the events inside the windows alone."""

    def __init__(self, statistics: SmallStatistics, plan: Plan) -> None:
        self.statistics = statistics
        self.with_keys = tells_keys(plan.required, statistics.key)
        self.windows: dict[IndexLookup, RowFilter] = {}
        self.found: dict[IndexLookup, Occurrences] = {}

    def read(self, lookup: IndexLookup, rows: RowFilter | None = None) -> int:
        found = self.statistics.occurrences(*lookup, with_keys=self.with_keys)
        if rows is not None:
            self.windows[lookup] = rows
            found = found.take(np.isin(found.seq, rows_of(rows)))
        self.found[lookup] = found
        return len(found.seq)

    def rows(self, lookup: IndexLookup) -> np.ndarray:
        return self.found[lookup].seq

    def occurrences(self, conditions: Collection[Condition]) -> dict[Slot, Occurrences]:
        lookups = {condition.lookup for condition in conditions}
        timeless = {lookup for lookup, windows in self.windows.items() if windows.has_times}
        assert self.with_keys or not lookups & timeless
        return {c.slot: self.found[c.lookup] for c in conditions}


def rows_of(windows: RowFilter) -> np.ndarray:
    spans = [] if windows.spans is None else list(zip(*windows.spans, strict=True))
    assert all(first < stop for first, stop in spans)
    parts = [*windows.rows, *(np.arange(first, stop) for first, stop in spans)]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def with_options(plan: Plan, shares: Sequence[float]) -> Plan:
    """Return a plan with what is expected of its lookups, in the order of its conditions."""
    lookups = list(dict.fromkeys(condition.lookup for condition in plan.conditions))
    options = (
        LookupOption(
            lookup, tuple(c for c in plan.conditions if c.lookup == lookup), 0, 0, share, None
        )
        for lookup, share in zip(lookups, shares, strict=False)
    )
    return replace(plan, options=tuple(options))


def asked_in_windows(
    query: BoundPatternQuery, statistics: SmallStatistics, plan: Plan, shares: list[float]
) -> Stretches:
    """Return what a plan replays whose lookups are asked in windows: no more than asked in full.

    Shares, right or wrong, decide which lookup is asked first; the last of them how many
    candidates are too many for a sweep.
    """
    source = Within(statistics, plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_filter, "ENTRIES_MIN", 0)
        patch.setattr(row_filter, "CANDIDATES_MAX", 1e9 if shares[-1] < 0.5 else shares[-1])
        patch.setattr(row_filter, "ROWS_MAX", 1e9)
        patch.setattr(row_filter, "GIVEN_MAX", 1e9)
        patch.setattr(row_filter, "SATURATED", 1e9)
        patch.setattr(row_filter, "COVER_MAX", 1.0)
        asked = with_options(plan, shares)
        found = carry_out(asked, statistics, source, lambda: 0.0).stretches
    event(f"{min(len(source.windows), 3)} lookups in windows, keys: {source.with_keys}")
    complete = replay_stretches(plan, statistics.look_up(plan), statistics)
    read = mask_of(found.blocks, statistics.n_blocks)
    assert not (read & ~mask_of(complete.blocks, statistics.n_blocks)).any()
    return found


SHARES = st.lists(st.floats(0.0, 1.0), min_size=12, max_size=12)


@given(cases(st.one_of(queries(), strategy_queries())), SHARES)
@settings(max_examples=100)
def test_what_decides_over_a_match_is_replayed_though_lookups_were_asked_in_windows(case, shares):
    query, statistics, plan = case
    if plan.required.rows_min == 0 or plan.finds_nothing:
        return
    found = asked_in_windows(query, statistics, plan, shares)
    check_ranges(found, statistics)
    for word, at in matches(query, statistics.rows, length_max=4):
        first, last = deciding_rows(query, statistics.rows, word, at)
        assert contains(found.blocks, statistics, first, last)
        assert lies_in_a_span(found.keys, query, statistics, at[0], (first, last))
        assert lies_in_a_run(found.rows, statistics, (first, last))


@given(cases(st.one_of(queries(), strategy_queries())), st.data())
def test_every_row_of_a_match_lies_in_the_windows_whatever_was_asked_before(case, data):
    """Some of the lookups, in full."""
    query, statistics, plan = case
    conditions = data.draw(st.permutations(plan.conditions))
    asked = tuple(conditions[: data.draw(st.integers(0, len(conditions)))])
    if plan.required.rows_min == 0 or all(condition.fills_gap for condition in asked):
        return
    so_far = replace(plan, conditions=asked)
    occurrences = statistics.look_up(so_far)
    spans = narrow(so_far, occurrences, statistics).spans
    inside = set(rows_of(RowFilter((), spans, has_times=False)).tolist())
    found = list(matches(query, statistics.rows, length_max=4))
    event(f"{min(len(found), 2)} matches, windows are narrow: {len(inside) < len(statistics.rows)}")
    for _, at in found:
        assert inside.issuperset(range(at[0], at[-1] + 1))


A, B, C = Symbol(0), Symbol(1), Symbol(2)


def narrowed(pattern, letters: str, found: str, times: list[int] | None = None, within=3):
    """Narrow by the occurrences of some letters; letter x is where ``a = x``, b is 0 everywhere."""
    numbers = {letter: n for n, letter in enumerate("ABC")}
    rows = [
        {"t": i if times is None else times[i], "a": numbers.get(letter, 9), "b": 0, "k": 0}
        for i, letter in enumerate(letters)
    ]
    defines = [compare("=", "a", n) for n in range(3)]
    query = query_of(pattern, [*defines, None], within=within)
    statistics = SmallStatistics(rows, 4, "ab")
    plan = plan_with(query, statistics)
    asked = replace(plan, conditions=tuple(c for c in plan.conditions if c.symbol in found))
    return narrow(asked, statistics.look_up(asked), statistics), plan


def windows_of(of, plan: Plan, symbol: str) -> list[int]:
    conditions = [c for c in plan.conditions if c.symbol == symbol]
    return sorted(set(rows_of(of.row_filter(conditions)).tolist()))


GAP = star(Symbol(3))


def test_windows_are_the_rows_that_the_window_in_time_leaves_behind_a_start() -> None:
    """A at 2 and 9, one row a unit of time, 3 units: up to 5 and 12, of which the blocks of four
    rows end with row 7 and row 15."""
    of, plan = narrowed(seq(A, GAP, B), "..A......A......", "A")
    assert windows_of(of, plan, "B") == [*range(2, 8), *range(9, 16)]
    assert windows_of(of, plan, "A") == [2, 9]


def test_windows_before_an_end_begin_with_the_block_that_may_be_in_time() -> None:
    """B at 9, 3 units: from 6 on, whose block begins with row 4."""
    of, plan = narrowed(seq(A, GAP, B), ".........B......", "B")
    assert windows_of(of, plan, "A") == [*range(4, 10)]


def test_a_lookup_of_two_places_is_asked_at_the_rows_of_both() -> None:
    """The times of one of them alone are known."""
    of, plan = narrowed(seq(A, B, GAP, C), "..AB....AB..C...", "A")
    windows = of.row_filter([c for c in plan.conditions if c.symbol in "AB"])
    assert sorted(set(rows_of(windows).tolist())) == [2, 3, 8, 9]
    assert not windows.has_times


def test_a_lookup_of_two_places_is_asked_everywhere_if_one_of_them_was_not_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A (a and b) at 2, B (b alone) at 5: b is not asked at row 2 alone, where a was found."""
    monkeypatch.setattr(row_filter, "ENTRIES_MIN", 0)
    monkeypatch.setattr(row_filter, "CANDIDATES_MAX", 0.0)
    rows = [{"t": i, "a": int(i == 2), "b": int(i in (2, 5)), "k": 0} for i in range(8)]
    defines = [both(compare("=", "a", 1), compare("=", "b", 1)), compare("=", "b", 1)]
    query = query_of(seq(A, GAP, B), [*defines, None, None], within=4)
    statistics = SmallStatistics(rows, 1, "ab")
    plan = plan_with(query, statistics)
    assert [c.attribute for c in plan.conditions] == ["a", "b", "b"]
    asked, source = with_options(plan, [0.001, 0.5]), Within(statistics, plan)  # a is asked first
    found = carry_out(asked, statistics, source, lambda: 0.0).stretches
    assert [lookup[0] for lookup in source.found] == ["a", "b"]
    assert not source.windows
    assert contains(found.blocks, statistics, 2, 5)


def test_a_row_at_the_last_time_of_a_window_is_in_it() -> None:
    """A and C at 0, 3 units: an A at 3 comes at the last time, and so does what follows it."""
    of, plan = narrowed(seq(A, C, GAP, B), "AC.ABA", "AC", times=[0, 1, 2, 3, 3, 7])
    assert windows_of(of, plan, "B") == [0, 1, 2, 3, 4, 5]  # up to the end of its block


def test_neighbours_of_what_is_known_are_looked_for_at_one_row() -> None:
    of, plan = narrowed(seq(A, B, GAP, C), "..AB....AB..C...", "A")
    assert windows_of(of, plan, "B") == [3, 9]


def test_the_row_right_behind_is_a_partner_across_a_gap() -> None:
    of, plan = narrowed(seq(A, GAP, B), "....AB..", "AB")
    assert windows_of(of, plan, "B") == [5]


def test_what_has_no_partner_in_the_window_leaves_no_row() -> None:
    """The first A has no B within 3; the second has one, at row 10."""
    of, plan = narrowed(seq(A, GAP, B), "A........AB.....", "AB")
    assert windows_of(of, plan, "A") == [9]
    assert windows_of(of, plan, "B") == [10]


def test_without_a_window_everything_behind_the_first_start_is_one() -> None:
    of, plan = narrowed(seq(A, GAP, B), "...A............", "A", within=None)
    assert windows_of(of, plan, "B") == [*range(3, 16)]


def test_greatest_time_is_beyond_no_window() -> None:
    """All rows have the greatest time there is, so none is known to be too late."""
    latest = 2**63 - 1
    of, plan = narrowed(seq(A, GAP, B), "A......B", "A", times=[latest] * 8)
    assert windows_of(of, plan, "B") == [*range(8)]


@pytest.mark.parametrize(
    ("n_candidates", "n_given", "n_entries", "worth"),
    [
        pytest.param(50_000, 50_000, 200_000, True, id="a quarter"),
        pytest.param(50_001, 50_001, 200_000, False, id="more candidates"),
        pytest.param(0, 0, 99_999, False, id="a short lookup"),
        pytest.param(25_000, 150_000, 100_000, True, id="the shortest one, and as much as may be"),
        pytest.param(25_000, 150_001, 100_000, False, id="too much to sweep"),
    ],
)
def test_windows_are_found_for_long_lookups_where_few_candidates_are_left(
    n_candidates: int, n_given: int, n_entries: float, worth: bool
) -> None:
    assert may_narrow(n_candidates, n_given, n_entries) is worth


def test_windows_that_would_cover_the_stream_once_over_are_not_computed() -> None:
    assert may_narrow(50_000, 50_000, 200_000, times_covered=1.0)
    assert not may_narrow(50_000, 50_000, 200_000, times_covered=1.1)


def test_windows_of_more_than_half_the_stream_leave_too_little_out() -> None:
    spans = np.array([10, 60]), np.array([40, 80])
    assert RowFilter((), spans, has_times=False).is_narrow(100)
    assert not RowFilter((), spans, has_times=False).is_narrow(99)
    assert RowFilter((np.arange(99),), None, has_times=True).is_narrow(99)


def test_rows_of_two_places_are_those_of_their_lists_each_once() -> None:
    one, two = (Occurrences(np.array(rows), np.array(rows)) for rows in ([1, 4, 9], [4, 5]))
    windows = rows_of_places({0: one, 2: two, 3: one})
    assert windows.has_times
    assert sorted(rows_of(windows).tolist()) == [1, 4, 4, 5, 9]


def test_what_two_attributes_of_a_place_found_meets() -> None:
    one, two = (Occurrences(np.array(rows), np.array(rows) * 10) for rows in ([1, 4, 9], [4, 5]))
    left = meet({0: one, 2: two, 3: one}, np.array([4, 9]))
    assert {place: given.t.tolist() for place, given in left.items()} == {
        0: [40, 90],
        2: [40],
        3: [40, 90],
    }
    assert len(meet({0: one}, np.empty(0, dtype=np.int64))[0].seq) == 0


@pytest.mark.parametrize(
    ("n_rows", "n_entries", "worth"),
    [
        pytest.param(300_000, 100_000, True, id="three rows an entry"),
        pytest.param(300_001, 100_000, False, id="more"),
        pytest.param(1, 99_999, False, id="a short lookup"),
    ],
)
def test_long_lookups_are_asked_in_rows_known_by_another_attribute(
    n_rows: int, n_entries: float, worth: bool
) -> None:
    assert may_ask_rows(n_rows, n_entries) is worth


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=6))
def test_united_stretches_are_the_same_rows_in_ascending_stretches_apart(stretches):
    """In any order, as intervals of several keys come; some are empty."""
    first, stop = np.array(stretches, dtype=np.int64).reshape(-1, 2).T
    begins, ends = united(first, stop)
    rows = [row for a, z in zip(begins.tolist(), ends.tolist(), strict=True) for row in range(a, z)]
    assert rows == sorted({row for a, z in stretches for row in range(a, z)})
    assert (begins < ends).all()
    assert (begins[1:] > ends[:-1]).all()


# ---------------------------------------------------------------------------------------------
# Lookups beside what was found of the same basic block.

DEFINES_ABC = [*(compare("=", name, 1) for name in "abc"), None]


def plan_of(pattern: Concat) -> Plan:
    rows = [{"t": i, "a": 1, "b": 1, "c": 1, "k": 0} for i in range(4)]
    return plan_with(query_of(pattern, DEFINES_ABC, within=4), SmallStatistics(rows, 1, "abc"))


def beside(
    pattern: Concat, places: set[int], given: dict[Slot, list[int]], n_entries: float = 1e5
) -> list[int] | None:
    """Return the rows a lookup of some places is asked in, in a stream of a million events."""
    found = {slot: Occurrences(np.array(seq), np.array(seq)) for slot, seq in given.items()}
    windows = rows_of_neighbours(plan_of(pattern), found, places, n_entries, 1_000_000)
    if windows is None:
        return None
    assert windows.spans is None
    assert not windows.has_times
    return rows_of(windows).tolist()


def test_rows_beside_are_those_of_the_shortest_list_of_the_block() -> None:
    """B is two rows before C, and one behind A, of which there are more."""
    given = {(0, "a"): [10, 20, 30], (2, "c"): [12, 40]}
    assert beside(seq(A, B, C), {1}, given) == [11, 39]


def test_rows_beside_the_ends_of_the_stream_are_none() -> None:
    assert beside(seq(A, B, C), {0}, {(2, "c"): [0, 1, 2, 3]}) == [0, 1]
    assert beside(seq(A, B, C), {2}, {(0, "a"): [5, 999_997, 999_998]}) == [7, 999_999]


def test_rows_beside_of_two_places_are_those_of_both() -> None:
    assert beside(seq(A, B, C), {0, 2}, {(1, "b"): [5, 10]}) == [4, 9, 6, 11]


def test_no_row_is_beside_where_a_gap_lies_between() -> None:
    assert beside(seq(A, GAP, B), {1}, {(0, "a"): [5]}) is None
    assert beside(seq(A, B, GAP, C), {1, 2}, {(0, "a"): [5]}) is None


def test_events_of_the_place_itself_are_not_beside_it() -> None:
    """Their times are known, so they are asked for as they are, if none are fewer."""
    assert beside(seq(A, B), {0}, {(0, "b"): [5], (1, "b"): [6]}) is None
    assert beside(seq(A, B), {0}, {(0, "b"): [5, 7], (1, "b"): [6]}) == [5]


def test_rows_beside_are_asked_of_long_lookups_if_they_are_less_than_half_the_stream() -> None:
    half, many = list(range(500_000)), list(range(500_001))
    assert beside(seq(A, B), {1}, {(0, "a"): [5]}, 99_999) is None
    assert beside(seq(A, B), {1}, {(0, "a"): half}, 1e6) == list(range(1, 500_001))
    assert beside(seq(A, B), {1}, {(0, "a"): many}, 1e6) is None


def test_as_many_hits_are_expected_as_chance_leaves_the_rarest_block() -> None:
    """Of 1,000 events 100 As and 50 Bs behind them, by chance 5; 20 Cs elsewhere."""
    plan = plan_of(seq(A, B, GAP, C))
    lists = {(0, "a"): np.arange(100), (1, "b"): np.arange(50), (2, "c"): np.arange(20)}
    given = {slot: Occurrences(seq, seq) for slot, seq in lists.items()}
    assert expected_hits(given, plan, 1000) == pytest.approx(5)
    del given[1, "b"]
    assert expected_hits(given, plan, 1000) == pytest.approx(20)


ASCENDING = st.lists(st.integers(-20, 20), max_size=40).map(
    lambda values: np.array(sorted(values), dtype=np.int64)
)


@given(wanted=ASCENDING, present=ASCENDING)
def test_are_in_is_membership(wanted: np.ndarray, present: np.ndarray) -> None:
    found = ascending.are_in(wanted, present)
    assert found.tolist() == [w in set(present.tolist()) for w in wanted.tolist()]


@given(wanted=ASCENDING, present=ASCENDING)
def test_bit_map_gives_what_bisection_gives(wanted: np.ndarray, present: np.ndarray) -> None:
    found = membership_by_bits(wanted, present, -20, 2)
    assert found.tolist() == [w in set(present.tolist()) for w in wanted.tolist()]


def test_long_arrays_take_the_sweep_and_agree() -> None:
    values = np.arange(0, 30_000, 3, dtype=np.int64)
    wanted = np.arange(0, 30_000, 2, dtype=np.int64)
    assert len(values) >= ascending.SWEEP_VALUES_MIN
    places = ascending.lower_bounds(values, wanted)
    assert places.tolist() == np.searchsorted(values, wanted).tolist()
    assert np.flatnonzero(ascending.are_in(wanted, values)).tolist() == list(range(0, 15_000, 3))


@given(seed=st.integers(0, 2**32 - 1), n_values=st.integers(0, 2000), n_wanted=st.integers(0, 9))
def test_lower_bounds_are_those_of_bisection(seed: int, n_values: int, n_wanted: int) -> None:
    random = np.random.default_rng(seed)
    values = np.sort(random.integers(0, 5000, n_values))
    wanted = np.sort(random.integers(-10, 5010, n_wanted))
    expected = [int((values < w).sum()) for w in wanted]
    assert sweep_lower_bounds(values, wanted).tolist() == expected
    assert ascending.lower_bounds(values, wanted).tolist() == expected


@given(values=st.sets(st.integers(-300, 300), min_size=1), wanted=st.lists(st.integers(-500, 500)))
def test_ranks_by_bit_map_are_what_bisection_gives(values: set[int], wanted: list[int]) -> None:
    rows = np.array(sorted(values), dtype=np.int64)
    n_words = ((int(rows[-1]) - int(rows[0])) >> 6) + 2
    places = rank_lower_bounds(rows, np.array(sorted(wanted), dtype=np.int64), rows[0], n_words)
    assert places.tolist() == [sum(row < w for row in values) for w in sorted(wanted)]


def test_dense_rows_take_the_bit_map_thin_ones_the_sweep_and_agree() -> None:
    wanted = np.arange(-50, 40_000, 7, dtype=np.int64)
    assert len(wanted) >= ascending.SWEEP_VALUES_MIN
    for step in (1, 5, 1000):
        rows = np.arange(0, 10_000 * step, step, dtype=np.int64)
        places = ascending.row_lower_bounds(rows, wanted)
        assert places.tolist() == np.searchsorted(rows, wanted).tolist()
    assert ascending.row_lower_bounds(rows[:0], wanted).tolist() == [0] * len(wanted)
