"""Adaptive safety: wildly wrong estimates cost no match, and no more than a full replay."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.features import whole_stream
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from costmodel.plan_cost import Estimate, estimate_full, replay_cost
from replay.language.bound import BoundPatternQuery, Call, Symbol
from replay.planning import narrowing, safety
from replay.planning.block_ranges import all_blocks, count_blocks, count_events, mask_of
from replay.planning.intervals import Stretches, replay_stretches
from replay.planning.key_spans import KeySpans
from replay.planning.lookup_order import lookups_in_order
from replay.planning.narrowing import Windows
from replay.planning.plan import Condition, Lookup, Occurrences, Plan, PlanKind, Selectivity, Slot
from replay.planning.requests import index_conditions
from replay.planning.safety import (
    find_stretches,
    is_as_expected,
    settle,
    worth_asking,
)
from replay.planning.shape import to_shape
from replay.planning.statistics import Timeline
from tests.unit.planning.array_streams import ArrayStream, gapped
from tests.unit.planning.streams import (
    BOOL,
    SmallStatistics,
    compare,
    conditions,
    patterns,
    query_of,
    rows,
    seq,
    star,
)

SLOW_INDEX = CostParameters(
    block_s=1e-3, value_s=0.0, entry_s=1e-3, sort_s=0.0, seek_s=1e-3, match_s=0.0, predicate_s=0.0
)
"""A block, an entry and a jump take a millisecond each."""


class Indexes:
    """Answers lookups of a stream and keeps what was asked."""

    def __init__(self, stream: ArrayStream | SmallStatistics) -> None:
        self.stream = stream
        self.read_so_far: list[Lookup] = []

    def read(self, lookup: Lookup, windows: Windows | None = None) -> int:
        self.read_so_far.append(lookup)
        return len(self.stream.occurrences(*lookup).seq)

    def rows(self, lookup: Lookup) -> np.ndarray:
        return self.stream.occurrences(*lookup).seq

    def occurrences(self, conditions: Collection[Condition]) -> dict[Slot, Occurrences]:
        assert {c.lookup for c in conditions} <= set(self.read_so_far)
        return {c.slot: self.stream.occurrences(*c.lookup) for c in conditions}


def plan_on(
    stream: ArrayStream | SmallStatistics,
    query: BoundPatternQuery,
    usable: tuple[Condition, ...],
    expected: dict[str, float],
    *,
    replay_s: float,
    weights: CostParameters = SLOW_INDEX,
) -> Plan:
    """Return a plan that expects shares of events by attribute, and so long a replay."""
    n = stream.n_blocks
    features = whole_stream(stream.n_events, n, 1, 1)
    return Plan(
        PlanKind.INDEXES,
        usable,
        to_shape(query),
        all_blocks(n),
        Estimate(replay_s, 0.0, 0.0, 0.0, 0.0),
        (),
        "estimated",
        tuple(Selectivity(c, expected[c.attribute], "a lie", True) for c in usable),
        n,
        features=features,
        weights=weights,
    )


def planned(
    columns: dict[str, np.ndarray], expected: dict[str, float], replay_s: float, within: int = 4
) -> tuple[ArrayStream, BoundPatternQuery, Plan]:
    stream = ArrayStream(columns, block_events=10)
    query = gapped("".join(columns), within)
    usable = index_conditions(to_shape(query), frozenset(columns))
    return stream, query, plan_on(stream, query, usable, expected, replay_s=replay_s)


def ones_at(*places: int, n: int = 1000) -> np.ndarray:
    column = np.zeros(n, dtype=np.int64)
    column[list(places)] = 1
    return column


def attributes_read(indexes: Indexes) -> list[str]:
    return [attribute for attribute, _ in indexes.read_so_far]


def test_the_rarest_block_is_asked_first_and_its_rarest_condition() -> None:
    _, _, plan = planned(
        {name: ones_at() for name in "abc"}, {"a": 0.2, "b": 0.01, "c": 0.1}, replay_s=1.0
    )
    assert [attribute for attribute, _ in lookups_in_order(plan)] == ["b", "c", "a"]


def test_conditions_of_one_block_are_rated_together() -> None:
    """A, B next to each other hold 0.1 * 0.2 = 0.02 of the events, C alone 0.05: B is asked first,
    then what has fewer entries, in the windows that B leaves."""
    defines = [compare("=", name, 1) for name in "abc"]
    pattern = seq(Symbol(0), Symbol(1), star(Symbol(3)), Symbol(2))
    query = query_of(pattern, [*defines, None], within=4)
    usable = index_conditions(to_shape(query), frozenset("abc"))
    stream = ArrayStream({name: ones_at() for name in "abc"}, block_events=10)
    plan = plan_on(stream, query, usable, {"a": 0.2, "b": 0.1, "c": 0.05}, replay_s=1.0)
    assert plan.shape.blocks == ((0, 2), (2, 3))
    assert [attribute for attribute, _ in lookups_in_order(plan)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("share_of_b", "expected"),
    [
        pytest.param(0.19, ["b", "a"], id="less than four times as frequent: it goes first"),
        pytest.param(0.2, ["a", "b"], id="four times as frequent"),
    ],
)
def test_a_lookup_that_serves_more_places_goes_before_the_rarest(
    share_of_b: float, expected: list[str]
) -> None:
    """A needs a and b, C needs b: where b has to be read anyway, a is asked in its rows."""
    defines = [
        Call("and", (compare("=", "a", 1), compare("=", "b", 1)), BOOL),
        compare("=", "b", 1),
        None,
    ]
    query = query_of(seq(Symbol(0), star(Symbol(2)), Symbol(1)), defines, within=4)
    usable = index_conditions(to_shape(query), frozenset("ab"))
    stream = ArrayStream({name: ones_at() for name in "ab"}, block_events=10)
    plan = plan_on(stream, query, usable, {"a": 0.05, "b": share_of_b}, replay_s=1.0)
    assert [attribute for attribute, _ in lookups_in_order(plan)] == expected


def test_a_lookup_that_was_not_planned_is_asked_where_it_is_cheap_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """20 A in 20 blocks leave 20 blocks, 40 ms with their jumps; B is expected behind a tenth of
    them, and to ask for it takes a millisecond and 0.3 for each entry, at most 4,096 a window."""
    stream, query, plan = planned(
        {"a": ones_at(*range(5, 1000, 50)), "b": ones_at(7)}, {"a": 0.02, "b": 0.005}, replay_s=0.04
    )
    planned_only = replace(plan, conditions=plan.conditions[:1])
    monkeypatch.setattr(narrowing, "ENTRIES_MIN", 0)
    monkeypatch.setattr(narrowing, "CANDIDATES_MAX", 1e9)
    monkeypatch.setattr(narrowing, "GIVEN_MAX", 1e9)
    monkeypatch.setattr(narrowing, "SATURATED", 1e9)
    indexes = Indexes(stream)
    settled = find_stretches(planned_only, query, stream, indexes)
    assert attributes_read(indexes) == ["a", "b"]
    assert settled.stretches.blocks.tolist() == [[0, 1]]
    assert settled.switched is not None
    assert settled.switched.startswith("B.b asked as well: what is left takes 40 ms to replay")
    letter = Indexes(stream)
    find_stretches(planned_only, query, stream, letter, is_adaptive=False)
    assert attributes_read(letter) == ["a"]
    dear = replace(planned_only, weights=replace(plan.weights, entry_s=0.1))
    other = Indexes(stream)
    find_stretches(dear, query, stream, other)
    assert attributes_read(other) == ["a"]


@pytest.mark.parametrize(
    ("now_s", "after_s", "lookup_s", "worth"),
    [
        pytest.param(10.0, 1.0, 8.9, True, id="saves a little more than it costs"),
        pytest.param(10.0, 1.0, 9.0, False, id="saves just what it costs"),
        pytest.param(10.0, 12.0, 0.1, False, id="what is left is less than was expected"),
        pytest.param(0.0, 0.0, 0.0, False, id="nothing to save"),
    ],
)
def test_lookups_are_asked_if_they_save_more_than_they_cost(
    now_s: float, after_s: float, lookup_s: float, worth: bool
) -> None:
    assert worth_asking(now_s, after_s, lookup_s) is worth


def test_where_the_rarest_symbol_is_absent_nothing_else_is_asked() -> None:
    stream, query, plan = planned(
        {"a": ones_at(), "b": np.ones(1000, dtype=np.int64)}, {"a": 0.01, "b": 0.5}, replay_s=0.01
    )
    indexes = Indexes(stream)
    settled = find_stretches(plan, query, stream, indexes)
    assert attributes_read(indexes) == ["a"]
    assert len(settled.stretches.blocks) == 0
    assert settled.switched == "B.b not asked: no candidate is left"


def test_asking_stops_where_little_is_left_to_save() -> None:
    """One A leaves one or two blocks: 3 ms with the jump; asking for 500 B takes half a second."""
    stream, query, plan = planned(
        {"a": ones_at(505), "b": np.ones(1000, dtype=np.int64)},
        {"a": 0.01, "b": 0.5},
        replay_s=0.001,
    )
    indexes = Indexes(stream)
    settled = find_stretches(plan, query, stream, indexes)
    assert attributes_read(indexes) == ["a"]
    assert settled.stretches.blocks.tolist() == [[50, 51]]
    assert settled.switched is not None
    assert settled.switched.startswith("B.b not asked: what is left takes 2 ms to replay")


def test_asking_goes_on_where_it_saves_more_than_it_costs() -> None:
    """100 A in 100 blocks leave everything, 101 ms; asking for B takes 1 + 110 / 10 = 12 ms."""
    stream, query, plan = planned(
        {"a": ones_at(*range(5, 1000, 10)), "b": ones_at(507)},
        {"a": 0.1, "b": 0.11},
        replay_s=0.002,
    )
    plan = replace(plan, weights=replace(plan.weights, entry_s=1e-4))
    indexes = Indexes(stream)
    settled = find_stretches(plan, query, stream, indexes)
    assert attributes_read(indexes) == ["a", "b"]
    assert settled.stretches.blocks.tolist() == [[50, 51]]
    assert settled.switched is None


def test_far_more_entries_than_expected_end_the_lookups() -> None:
    """A thousand where one was expected: B, said to take 2 ms, is taken to take a thousand times
    as long, and replaying everything takes 101 ms."""
    ones = np.ones(1000, dtype=np.int64)
    stream, query, plan = planned({"a": ones, "b": ones}, {"a": 0.001, "b": 0.0011}, replay_s=0.001)
    indexes = Indexes(stream)
    settled = find_stretches(plan, query, stream, indexes)
    assert attributes_read(indexes) == ["a"]
    assert settled.switched is not None
    assert "1,000 events were found where 1 were expected" in settled.switched
    assert count_blocks(settled.stretches.blocks) == 100


def test_lookups_that_fences_bound_are_asked_after_one_that_found_far_more() -> None:
    """A hundred A where one was expected, one in each block: to replay everything takes 101 ms, to
    replay what B leaves 0.5, or 50 if that is wrong as well. B was said to take 2 ms, and 111 would
    be too long; but fences prove that it has at most 20 entries: 21 ms."""
    stream, query, plan = planned(
        {"a": ones_at(*range(5, 1000, 10)), "b": ones_at(507)},
        {"a": 0.001, "b": 0.0011},
        replay_s=0.0005,
    )
    asked_on, doubted = Indexes(stream), Indexes(stream)
    of_a, of_b = plan.selectivities
    bounded = replace(plan, selectivities=(of_a, replace(of_b, at_most=0.02)))
    settled = find_stretches(bounded, query, stream, asked_on)
    assert attributes_read(asked_on) == ["a", "b"]
    assert settled.stretches.blocks.tolist() == [[50, 51]]
    assert settled.switched is None
    find_stretches(plan, query, stream, doubted)
    assert attributes_read(doubted) == ["a"]


def test_counts_as_expected_are_not_looked_at_again() -> None:
    """90 A of 100 expected, in one block: intervals would show that B is not worth asking, but the
    plan was chosen knowing the count, and to look costs more than a twentieth of asking."""
    stream, query, plan = planned(
        {"a": ones_at(*range(500, 590)), "b": np.ones(1000, dtype=np.int64)},
        {"a": 0.1, "b": 0.5},
        replay_s=0.001,
    )
    indexes = Indexes(stream)
    settled = find_stretches(plan, query, stream, indexes)
    assert attributes_read(indexes) == ["a", "b"]
    assert settled.switched is None


@pytest.mark.parametrize(
    ("n_found", "n_expected", "expected"),
    [
        pytest.param(150, 100.0, True, id="half as many again"),
        pytest.param(151, 100.0, False, id="more"),
        pytest.param(67, 100.0, True, id="two thirds"),
        pytest.param(66, 100.0, False, id="fewer"),
        pytest.param(1, 0.01, True, id="the least that can be found"),
        pytest.param(2, 0.01, False, id="more than that"),
    ],
)
def test_counts_within_half_as_many_again_are_as_expected(
    n_found: int, n_expected: float, expected: bool
) -> None:
    assert is_as_expected(n_found, n_expected) is expected


@pytest.mark.parametrize(
    ("share", "looked_after", "asked"),
    [
        pytest.param(0.16, [2], ["a", "b"], id="161 ms ahead: no look for more than 8.05 ms"),
        pytest.param(0.17, [1], ["a"], id="171 ms ahead: a look for up to 8.55 ms"),
    ],
)
def test_a_look_at_the_intervals_takes_a_twentieth_of_what_is_still_asked(
    monkeypatch: pytest.MonkeyPatch, share: float, looked_after: list[int], asked: list[str]
) -> None:
    """One A where 10 were expected; to look takes 0.3 + 8 * 1 ms, asking for B 1 ms and one an
    event. A block takes 10 ms, so that one block is worth stopping for and all are not."""
    stream, query, plan = planned(
        {"a": ones_at(505), "b": ones_at(507)}, {"a": 0.01, "b": share}, replay_s=0.001
    )
    indexes = Indexes(stream)
    plan = replace(plan, weights=replace(plan.weights, block_s=1e-2))
    looked = looks_of(monkeypatch)
    find_stretches(plan, query, stream, indexes)
    assert attributes_read(indexes) == asked
    assert looked == looked_after


@pytest.mark.parametrize(
    ("share", "looked_after"),
    [
        pytest.param(0.4, [1, 3], id="401 ms ahead: 20.05 ms in all"),
        pytest.param(0.5, [1, 2, 3], id="501 ms ahead: 25.05 ms in all"),
    ],
)
def test_all_looks_together_take_a_twentieth_of_what_is_still_asked(
    monkeypatch: pytest.MonkeyPatch, share: float, looked_after: list[int]
) -> None:
    """One A and one B where 10 and 11 were expected: looks take 8.3 and 16.3 ms, 24.6 in all.
    A block takes a second, so that asking goes on whatever is seen."""
    columns = {"a": ones_at(505), "b": ones_at(506), "c": ones_at(507)}
    stream, query, plan = planned(columns, {"a": 0.01, "b": 0.011, "c": share}, replay_s=0.001)
    plan = replace(plan, weights=replace(plan.weights, block_s=1.0))
    indexes = Indexes(stream)
    looked = looks_of(monkeypatch)
    find_stretches(plan, query, stream, indexes)
    assert attributes_read(indexes) == ["a", "b", "c"]
    assert looked == looked_after


def looks_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets, each time intervals are computed, how many conditions they have."""
    looked: list[int] = []

    def counted(
        plan: Plan, given: dict[Slot, Occurrences], query: BoundPatternQuery, stream: Timeline
    ) -> Stretches:
        looked.append(len(plan.conditions))
        return replay_stretches(plan, given, query, stream)

    monkeypatch.setattr(safety, "replay_stretches", counted)
    return looked


def test_a_named_plan_is_carried_out_to_the_letter() -> None:
    stream, query, plan = planned(
        {"a": ones_at(), "b": np.ones(1000, dtype=np.int64)}, {"a": 0.01, "b": 0.5}, replay_s=0.01
    )
    indexes = Indexes(stream)
    settled = find_stretches(plan, query, stream, indexes, is_adaptive=False)
    assert attributes_read(indexes) == ["a", "b"]
    assert settled.switched is None


def test_a_full_replay_asks_nothing_and_reads_everything() -> None:
    stream, query, plan = planned({"a": ones_at(), "b": ones_at()}, {"a": 0.1, "b": 0.1}, 0.01)
    indexes = Indexes(stream)
    settled = find_stretches(
        replace(plan, kind=PlanKind.FULL, conditions=()), query, stream, indexes
    )
    assert indexes.read_so_far == []
    assert settled.stretches == Stretches(plan.stretches, 0, 0, 1000)


def test_a_plan_that_finds_nothing_asks_nothing() -> None:
    stream, query, plan = planned({"a": ones_at(), "b": ones_at()}, {"a": 0.1, "b": 0.1}, 0.01)
    indexes = Indexes(stream)
    nowhere = replace(plan, stretches=np.empty((0, 2), dtype=np.int64))
    assert len(find_stretches(nowhere, query, stream, indexes).stretches.blocks) == 0
    assert indexes.read_so_far == []


def found_in(*ranges: tuple[int, int]) -> Stretches:
    blocks = np.array(ranges, dtype=np.int64)
    return Stretches(blocks, 7, 5, 10 * count_blocks(blocks))


@pytest.mark.parametrize(
    ("seek_s", "read", "said"),
    [
        # Every fourth block of 80: 20 blocks; 20 jumps of 1, 4 or 8 units, a block takes 1.
        pytest.param(1e-3, 20, None, id="as planned: 40"),
        pytest.param(4e-3, 80, "the 80 blocks that the tree leaves", id="tree 84, intervals 100"),
    ],
)
def test_the_cheapest_way_to_read_what_was_found_is_taken(
    seek_s: float, read: int, said: str | None
) -> None:
    stream, _, plan = planned({"a": ones_at(), "b": ones_at()}, {"a": 0.1, "b": 0.1}, 0.01)
    plan = replace(
        plan, stretches=np.array([[0, 80]]), weights=replace(plan.weights, seek_s=seek_s)
    )
    found = found_in(*((i, i + 1) for i in range(0, 80, 4)))
    settled = settle(plan, found, stream, plan.features)
    assert count_blocks(settled.stretches.blocks) == read
    assert settled.stretches.n_events_covered == 10 * read
    assert (settled.stretches.n_candidates, settled.stretches.n_intervals) == (7, 5)
    assert (settled.switched is None) == (said is None)
    assert said is None or said in (settled.switched or "")


def test_everything_is_read_where_that_takes_one_jump_instead_of_many() -> None:
    """49 pieces of the tree with a block between each: 49 * (1 + 4); everything: 100 + 4."""
    stream, _, plan = planned({"a": ones_at(), "b": ones_at()}, {"a": 0.1, "b": 0.1}, 0.01)
    pieces = [(i, i + 1) for i in range(0, 98, 2)]
    plan = replace(plan, stretches=np.array(pieces), weights=replace(plan.weights, seek_s=4e-3))
    one = np.array([0])
    spans = KeySpans(one, np.array([0, 1]), one, one, by_time=False)
    settled = settle(plan, replace(found_in(*pieces), keys=spans), stream, plan.features)
    assert settled.stretches.blocks.tolist() == [[0, 100]]
    assert settled.stretches.keys is spans  # what need not be matched need not be there either
    assert settled.switched == (
        "the intervals cover 49 of 100 blocks in 49 stretches, 245 ms to read; "
        "reading all in one go takes 104 ms"
    )


@st.composite
def weights(draw: st.DrawFn) -> CostParameters:
    unit = st.sampled_from([0.0, 1e-6, 1e-3, 1.0])
    return CostParameters(
        block_s=draw(unit),
        value_s=draw(unit),
        entry_s=draw(unit),
        sort_s=draw(unit),
        seek_s=draw(unit),
        match_s=draw(unit),
        predicate_s=draw(unit),
    )


@given(st.data())
def test_whatever_was_estimated_no_match_is_lost_and_full_replay_never_exceeded(
    data: st.DataObject,
) -> None:
    """Shares, costs and weights at random: of what is replayed, nothing the complete plan replays
    is missing, and it costs no more than everything."""
    events = data.draw(rows(14))
    statistics = SmallStatistics(events, data.draw(st.integers(1, 4)), "ab", key="k")
    query = query_of(
        data.draw(patterns(3)),
        [data.draw(conditions()) for _ in range(3)],
        within=data.draw(st.one_of(st.none(), st.integers(0, 12))),
    )
    shape = to_shape(query)
    usable = index_conditions(shape, frozenset("ab"))
    if not usable or shape.is_impossible or not events:
        return
    plan = plan_on(
        statistics,
        query,
        usable,
        {name: data.draw(st.floats(0.0, 1.0)) for name in "ab"},
        replay_s=data.draw(st.floats(0.0, 10.0)),
        weights=data.draw(weights()),
    )
    n = statistics.n_blocks
    complete = replay_stretches(plan, statistics.look_up(plan), query, statistics)
    settled = find_stretches(plan, query, statistics, Indexes(statistics))
    read = mask_of(settled.stretches.blocks, n)
    assert (read | ~mask_of(complete.blocks, n)).all()
    assert plan.features is not None
    base = statistics.leaves.base
    blocks = settled.stretches.blocks
    cost = replay_cost(
        count_blocks(blocks), count_events(blocks, base), len(blocks), plan.features, plan.weights
    )
    full = estimate_full(plan.features, plan.weights).cost
    assert cost <= full or cost == pytest.approx(full)
    assert settled.stretches.n_events_covered == count_events(blocks, base)


def test_default_weights_need_no_switch_where_intervals_are_few() -> None:
    """With blocks dearer than jumps the intervals are always the cheapest."""
    stream, _, plan = planned({"a": ones_at(), "b": ones_at()}, {"a": 0.1, "b": 0.1}, 0.01)
    plan = replace(plan, weights=replace(DEFAULT_PARAMETERS, block_s=1e-4))
    found = found_in((3, 4), (60, 70))
    assert settle(plan, found, stream, plan.features).stretches == found
