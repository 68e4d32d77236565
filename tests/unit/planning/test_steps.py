"""Lookups: each is judged by what is left behind those before it, and none costs a match.

Indexes over several attributes: what they are asked, and what is not asked besides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.features import whole_stream
from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimate, estimate_full, replay_cost
from indexing.key_range import KeyRange, KeyRanges
from indexing.keys import KeyKind
from replay.errors import PlanError
from replay.language.bound import BoundPatternQuery, Symbol
from replay.patterns.plan import plan_pattern
from replay.patterns.requirements import requirements
from replay.planning import steps
from replay.planning.block_ranges import all_blocks, count_blocks, count_events, mask_of
from replay.planning.composite_lookup import is_said, said_once
from replay.planning.explain import to_json
from replay.planning.intervals import replay_stretches
from replay.planning.named_plans import askable_conditions, gap_conditions, index_conditions
from replay.planning.plan import (
    Condition,
    IndexLookup,
    LookupOption,
    Occurrences,
    Plan,
    PlanKind,
    Slot,
)
from replay.planning.row_filter import RowFilter
from replay.planning.statistics import Composites
from replay.planning.steps import CarriedOut, carry_out, in_order
from replay.query_plan import to_text
from tests.unit.planning.streams import (
    ArrayStream,
    SmallStatistics,
    both,
    compare,
    conditions,
    gapped,
    last_of,
    patterns,
    query_of,
    rows,
    seq,
    star,
)

UNIT = CostParameters(
    block_s=1.0, value_s=0.0, entry_s=0.01, sort_s=0.0, seek_s=0.1, match_s=0.0, predicate_s=0.0
)
"""A block takes a second, an entry a hundredth, a jump a tenth: a lookup of five jumps a half."""


class Indexes:
    """Answers lookups of a stream and keeps what was asked."""

    def __init__(self, stream: ArrayStream | SmallStatistics) -> None:
        self.stream = stream
        self.read_so_far: list[IndexLookup] = []

    def read(self, lookup: IndexLookup, rows: RowFilter | None = None) -> int:
        self.read_so_far.append(lookup)
        return len(self.stream.occurrences(*lookup).seq)

    def rows(self, lookup: IndexLookup) -> np.ndarray:
        return self.stream.occurrences(*lookup).seq

    def occurrences(self, conditions: Collection[Condition]) -> dict[Slot, Occurrences]:
        assert {c.lookup for c in conditions} <= set(self.read_so_far)
        return {c.slot: self.stream.occurrences(*c.lookup) for c in conditions}

    @property
    def attributes(self) -> list[str]:
        return [attribute for attribute, _ in self.read_so_far]


def options_of(
    usable: tuple[Condition, ...], expected: dict[str, float], *, is_uneven: bool = True
) -> tuple[LookupOption, ...]:
    """Return what is known of lookups that are expected to find so many events, by attribute."""
    return tuple(
        LookupOption(
            lookup,
            tuple(c for c in usable if c.lookup == lookup),
            int(expected[lookup[0]]),
            int(expected[lookup[0]]),
            expected[lookup[0]],
            is_uneven,
        )
        for lookup in dict.fromkeys(c.lookup for c in usable)
    )


def plan_on(
    stream: ArrayStream | SmallStatistics,
    query: BoundPatternQuery,
    expected: dict[str, float],
    *,
    chosen: str = "",
    after_s: float = 0.0,
    weights: CostParameters = UNIT,
    is_uneven: bool = True,
) -> Plan:
    """Return a plan that takes steps, and expects some lookups to leave a replay of so long."""
    usable = index_conditions(requirements(query), frozenset(expected))
    features = replace(whole_stream(stream.n_events, stream.n_blocks, 1, 1), bridge_blocks=0)
    features = replace(features, window_events=np.array([float(query.within or 1)]))
    return Plan(
        PlanKind.FULL if not chosen else PlanKind.INDEXES,
        tuple(c for c in usable if c.attribute in chosen),
        requirements(query),
        all_blocks(stream.n_blocks),
        Estimate(after_s, 0.0, 0.0, 0.0, 0.0),
        "expected",
        n_blocks=stream.n_blocks,
        full_estimate=estimate_full(features, weights),
        weights=weights,
        features=features,
        options=options_of(usable, expected, is_uneven=is_uneven),
        takes_steps=True,
    )


def carried_out(
    plan: Plan, query: BoundPatternQuery, stream: ArrayStream | SmallStatistics
) -> tuple[CarriedOut, Indexes]:
    indexes = Indexes(stream)
    return carry_out(plan, stream, indexes, lambda: 0.0), indexes


def ones_at(*places: int, n: int = 1000) -> np.ndarray:
    column = np.zeros(n, dtype=np.int64)
    column[list(places)] = 1
    return column


def pair(a: np.ndarray, b: np.ndarray, within: int = 4) -> tuple[ArrayStream, BoundPatternQuery]:
    """Return a hundred blocks of ten events, and ``A Z* B``: a full replay takes 100.1 s."""
    return ArrayStream({"a": a, "b": b}, block_events=10), gapped("ab", within)


def test_the_rarest_block_is_asked_first_and_then_what_is_rarest() -> None:
    """A, B next to each other hold 0.1 * 0.2 = 0.02 of the events, C alone 0.05: B is asked first,
    then what has fewer entries."""
    defines = [compare("=", name, 1) for name in "abc"]
    pattern = seq(Symbol(0), Symbol(1), star(Symbol(3)), Symbol(2))
    query = query_of(pattern, [*defines, None], within=4)
    stream = ArrayStream({name: ones_at() for name in "abc"}, block_events=10)
    plan = plan_on(stream, query, {"a": 200.0, "b": 100.0, "c": 50.0})
    assert plan.required.blocks == ((0, 2), (2, 3))
    assert [option.lookup[0] for option in in_order(plan.options, plan)] == ["b", "c", "a"]


def test_what_is_expected_to_save_is_asked_and_nothing_once_little_is_left() -> None:
    """The one A leaves a block, 1.1 s with its jump; B would take 0.5 s and a hundredth for each of
    500 entries."""
    stream, query = pair(ones_at(505), np.ones(1000, dtype=np.int64))
    plan = plan_on(stream, query, {"a": 1.0, "b": 500.0}, chosen="a", after_s=2.0)
    done, indexes = carried_out(plan, query, stream)
    assert indexes.attributes == ["a"]
    assert done.stretches.blocks.tolist() == [[50, 51]]
    assert done.plan.name == "indexes=A.a"
    taken, refused = done.plan.steps
    assert (taken.lookup, taken.taken, taken.estimated_left) == ("A.a", True, 2.0)
    assert taken.left is not None
    assert (taken.left.blocks, taken.left.events, taken.left.intervals) == (1, 10, 1)
    assert (refused.lookup, refused.taken, refused.counted) == ("B.b", False, (500, 500))
    assert "takes 5.54 s, replaying 1.1 s" in refused.why


def test_where_no_candidate_is_left_nothing_else_is_asked() -> None:
    stream, query = pair(ones_at(), np.ones(1000, dtype=np.int64))
    plan = plan_on(stream, query, {"a": 1.0, "b": 1.0}, chosen="a")
    done, indexes = carried_out(plan, query, stream)
    assert indexes.attributes == ["a"]
    assert len(done.stretches.blocks) == 0
    assert done.plan.steps[1].why == "not asked: nothing is left"


def test_a_lookup_that_was_not_expected_is_asked_once_it_pays() -> None:
    """Twenty A in twenty blocks leave 22 s; one event in a hundred is a B: with 0.5 s for the
    lookup and a tenth for ten entries it pays. Of 20 intervals, spread by chance over as many
    blocks, those stay that have a B among the 8 events of two windows."""
    stream, query = pair(ones_at(*range(5, 1000, 50)), ones_at(7))
    plan = plan_on(stream, query, {"a": 20.0, "b": 10.0}, chosen="a", after_s=22.0)
    done, indexes = carried_out(plan, query, stream)
    stay = 1 - 0.99**8
    expected = 22 * (1 - math.exp(-stay)) / (1 - math.exp(-1))
    assert done.plan.steps[1].estimated_left == pytest.approx(expected)
    assert indexes.attributes == ["a", "b"]
    assert done.stretches.blocks.tolist() == [[0, 1]]
    dear = plan_on(stream, query, {"a": 20.0, "b": 10_000.0}, chosen="a", after_s=22.0)
    assert carried_out(dear, query, stream)[1].attributes == ["a"]


@pytest.mark.parametrize(
    ("n_entries", "is_uneven", "asked"),
    [
        # Of 100.1 s 40 % are 40 s, and half of what may be lost is 5.0 s; a lookup takes 0.5 s and
        # 0.05 s an entry.
        pytest.param(90.0, True, ["a"], id="5 s, and they lie in few blocks"),
        pytest.param(91.0, True, [], id="more than half of what may be lost"),
        pytest.param(1.0, False, [], id="they lie everywhere"),
    ],
)
def test_a_lookup_is_tried_where_it_is_cheap_and_may_surprise(
    n_entries: float, is_uneven: bool, asked: list[str]
) -> None:
    stream, query = pair(ones_at(505), ones_at(), within=2)
    plan = plan_on(stream, query, {"a": n_entries}, is_uneven=is_uneven)
    done, indexes = carried_out(plan, query, stream)
    assert indexes.attributes == asked
    assert done.plan.kind is (PlanKind.INDEXES if asked else PlanKind.FULL)
    assert count_blocks(done.stretches.blocks) == (1 if asked else 100)


def test_lookups_of_one_symbol_are_tried_together() -> None:
    """Of a hundred a and a hundred b one event is both. To ask for a takes 1.5 s and 4 to look, of
    5 that may be lost; for a and b, which ten events satisfy by chance, 3 and 0.4."""
    query = query_of(Symbol(0), [both(compare("=", "a", 1), compare("=", "b", 1))], within=2)
    a, b = ones_at(*range(5, 1000, 10)), ones_at(505, *range(7, 997, 10))
    stream = ArrayStream({"a": a, "b": b}, block_events=10)
    plan = plan_on(stream, query, {"a": 100.0, "b": 100.0})
    done, indexes = carried_out(plan, query, stream)
    assert indexes.attributes == ["a", "b"]
    assert done.stretches.blocks.tolist() == [[50, 51]]
    alone = replace(plan, options=plan.options[:1])
    assert carried_out(alone, query, stream)[1].attributes == []


def test_tries_that_saved_nothing_count_for_those_that_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fifty A, one in every other block, leave all but one block, of 1 s: the intervals took 2 s,
    the lookup 0.5 and a hundredth for each entry expected. With 40 and 41, 1.9 s are lost and B
    takes 2.55, with 5 and 6 it is 1.55 and 0.8: of 4 s that may be lost in all."""
    monkeypatch.setattr(steps, "EXPLORE_SHARE", 0.04)
    monkeypatch.setattr(steps, "TRIED_SHARE", 1.0)
    everywhere = ones_at(*range(5, 1000, 20))
    stream, query = pair(everywhere, everywhere, within=900)
    more = plan_on(stream, query, {"a": 40.0, "b": 41.0})
    assert carried_out(more, query, stream)[1].attributes == ["a"]
    less = plan_on(stream, query, {"a": 5.0, "b": 6.0})
    assert carried_out(less, query, stream)[1].attributes == ["a", "b"]


def test_what_lies_in_nearly_every_block_is_set_aside_without_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred A, one a block, where one was expected: their windows cover the stream four times,
    and what is left cannot be less than all of it."""
    monkeypatch.setattr("replay.planning.lookup_state.replay_stretches", None)
    stream, query = pair(ones_at(*range(5, 1000, 10)), ones_at(), within=40)
    done, indexes = carried_out(plan_on(stream, query, {"a": 1.0}), query, stream)
    assert indexes.attributes == ["a"]
    assert done.plan.kind is PlanKind.FULL
    assert done.plan.conditions == ()
    (step,) = done.plan.steps
    assert step.taken
    assert step.left is None
    assert step.why.endswith("; its events lie in nearly every block")


def test_what_lies_in_some_blocks_alone_is_looked_at_however_much_it_is() -> None:
    stream, query = pair(ones_at(*range(400, 600)), ones_at(), within=40)
    done, _ = carried_out(plan_on(stream, query, {"a": 1.0}), query, stream)
    assert done.stretches.blocks.tolist() == [[40, 64]]


@pytest.mark.parametrize(("within", "asked"), [(2, []), (40, ["a"])])
def test_a_try_of_what_is_dense_takes_no_more_than_the_lookup(
    within: int, asked: list[str]
) -> None:
    """A hundred A take 1.5 s to ask for and 4 to sweep, of 5 that may be lost. Windows of 40 events
    would cover the stream four times, so no sweep is to be paid for if they lie everywhere."""
    stream, query = pair(ones_at(*range(400, 500)), ones_at(), within=within)
    done, indexes = carried_out(plan_on(stream, query, {"a": 100.0}), query, stream)
    assert indexes.attributes == asked
    assert count_blocks(done.stretches.blocks) == (14 if asked else 100)


def test_behind_what_was_set_aside_another_lookup_is_tried() -> None:
    """B stands in row 505 alone, so matches begin from row 465 on; A is not asked once more."""
    stream, query = pair(ones_at(*range(5, 1000, 10)), ones_at(505), within=40)
    done, indexes = carried_out(plan_on(stream, query, {"a": 1.0, "b": 2.0}), query, stream)
    assert indexes.attributes == ["a", "b"]
    assert done.plan.name == "indexes=B.b"
    assert done.stretches.blocks.tolist() == [[46, 51]]


def test_what_found_too_much_is_followed_by_a_full_replay_in_one_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every fourth block has an A: 25 s, with their jumps 27.5; jumps of four seconds make it 125,
    and a full replay takes 104. To ask takes 20 seconds then, ten more than may be lost."""
    stream, query = pair(ones_at(*range(5, 1000, 40)), ones_at())
    plan = plan_on(stream, query, {"a": 1.0}, chosen="a", after_s=2.0)
    assert count_blocks(carried_out(plan, query, stream)[0].stretches.blocks) == 25
    far = plan_on(
        stream, query, {"a": 1.0}, chosen="a", after_s=2.0, weights=replace(UNIT, seek_s=4.0)
    )
    assert carried_out(far, query, stream)[1].attributes == []
    monkeypatch.setattr(steps, "is_bearable", lambda *seconds: True)
    done, indexes = carried_out(far, query, stream)
    assert indexes.attributes == ["a"]
    assert done.stretches.blocks.tolist() == [[0, 100]]
    assert done.plan.name == "full"
    assert done.plan.steps[0].left is not None
    assert done.plan.steps[0].left.blocks == 25


def test_lookups_expected_from_the_start_are_asked_without_a_look_that_takes_longer() -> None:
    """A hundred A: to look takes 0.08 s for each, 8 s; to ask for B, 1.5. One B: 0.08 and 0.6."""
    stream, query = pair(ones_at(*range(5, 1000, 10)), ones_at(507))
    few = plan_on(stream, query, {"a": 100.0, "b": 10.0}, chosen="ab", after_s=2.0)
    done, indexes = carried_out(few, query, stream)
    assert indexes.attributes == ["b"]
    many = plan_on(stream, query, {"a": 10.0, "b": 100.0}, chosen="ab", after_s=2.0)
    done, indexes = carried_out(many, query, stream)
    assert indexes.attributes == ["a", "b"]
    assert [step.left is None for step in done.plan.steps] == [True, False]
    assert done.stretches.blocks.tolist() == [[50, 51]]


def test_no_step_is_taken_once_the_time_is_over() -> None:
    stream, query = pair(ones_at(505), ones_at(507))
    plan = plan_on(stream, query, {"a": 1.0, "b": 1.0}, chosen="a", after_s=2.0)
    clock = itertools.count().__next__
    indexes = Indexes(stream)
    done = carry_out(plan, stream, indexes, clock, seconds_max=0.5)
    assert indexes.attributes == []
    assert [step.why for step in done.plan.steps] == ["not asked: the time is over"] * 2
    assert count_blocks(done.stretches.blocks) == 100


def test_a_plan_asked_for_by_name_is_carried_out_to_the_letter() -> None:
    stream, query = pair(ones_at(505), np.ones(1000, dtype=np.int64))
    plan = plan_on(stream, query, {"a": 1.0, "b": 1000.0}, chosen="ab")
    done, indexes = carried_out(replace(plan, takes_steps=False), query, stream)
    assert sorted(indexes.attributes) == ["a", "b"]
    assert done.stretches.blocks.tolist() == [[50, 51]]
    assert [step.why for step in done.plan.steps] == ["asked for"] * 2


def test_rows_of_a_gap_are_asked_only_between_two_blocks_that_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of ten A one has a C behind nothing but Bs."""
    monkeypatch.setattr(steps, "EXPLORE_SHARE", 1.0)
    b = np.ones(1000, dtype=np.int64)
    b[np.arange(106, 1000, 100)] = 0
    columns = {"a": ones_at(*range(5, 1000, 100)), "b": b, "c": ones_at(*range(8, 1000, 100))}
    stream = ArrayStream(columns, block_events=10)
    defines = [compare("=", name, 1) for name in "abc"]
    query = query_of(seq(Symbol(0), star(Symbol(1)), Symbol(2)), defines, within=4)
    plan = plan_on(stream, query, {"a": 10.0, "c": 10.0}, chosen="ac", after_s=2.0)
    gap = Condition(1, "B", "b", plan.options[0].lookup[1], fills_gap=True)
    plan = replace(plan, options=(*plan.options, LookupOption(gap.lookup, (gap,), 1, 1, 1.0, True)))
    done, indexes = carried_out(plan, query, stream)
    assert indexes.attributes[-1] == "b"
    assert done.stretches.blocks.tolist() == [[0, 1]]
    alone = replace(plan, options=(plan.options[0], plan.options[-1]))
    done, indexes = carried_out(alone, query, stream)
    assert indexes.attributes == ["a"]
    assert "bounds a gap" in done.plan.steps[-1].why


@st.composite
def weights(draw: st.DrawFn) -> CostParameters:
    unit = st.sampled_from([0.0, 1e-9, 1e-3, 1.0])
    return CostParameters(
        block_s=draw(unit),
        value_s=draw(unit),
        entry_s=draw(unit),
        sort_s=0.0,
        seek_s=draw(unit),
        match_s=0.0,
        predicate_s=0.0,
    )


@given(
    patterns(2),
    st.lists(conditions(2), min_size=2, max_size=2),
    rows(n_max=24),
    st.integers(1, 4),
    st.integers(0, 12),
    st.data(),
)
def test_steps_replay_what_all_lookups_leave_and_take_no_longer_than_a_full_replay(
    pattern, defines, stream, block, within, data
) -> None:
    """Whatever counts were expected: what is left out is what all lookups together leave out."""
    query = query_of(pattern, defines, within=within)
    statistics = SmallStatistics(stream, block, ["a", "b"])
    shape = requirements(query)
    usable = index_conditions(shape, frozenset("ab"))
    if not usable or shape.rows_min == 0 or statistics.n_events == 0:
        return
    plan = plan_on(
        statistics,
        query,
        {name: data.draw(st.sampled_from([0.0, 1.0, 5.0, 1e6])) for name in "ab"},
        chosen=data.draw(st.sampled_from(["", "a", "b", "ab"])),
        after_s=data.draw(st.floats(0.0, 10.0)),
        weights=data.draw(weights()),
        is_uneven=data.draw(st.booleans()),
    )
    every = replace(plan, conditions=usable)
    complete = replay_stretches(every, statistics.look_up(every), statistics)
    done, _ = carried_out(plan, query, statistics)
    n = statistics.n_blocks
    read = mask_of(done.stretches.blocks, n)
    assert (read | ~mask_of(complete.blocks, n)).all()
    assert plan.features is not None
    base = statistics.leaves.base
    blocks = done.stretches.blocks
    cost = replay_cost(
        count_blocks(blocks), count_events(blocks, base), len(blocks), plan.features, plan.weights
    )
    full = estimate_full(plan.features, plan.weights).cost
    assert cost <= full or cost == pytest.approx(full)
    assert done.stretches.n_events_covered == count_events(blocks, base)


A, B, C = (Symbol(i) for i in range(3))
INTEGER = KeyKind.INTEGER


def composites(*names: str) -> Composites:
    return {name: tuple((part, INTEGER) for part in name.split("+")) for name in names}


def equal(**values: int) -> BoundPatternQuery:
    """Return the query of one symbol, whose attributes have these values."""
    return query_of(A, [both(*(compare("=", name, value) for name, value in values.items()))])


def usable(query: BoundPatternQuery, *indexes: str) -> list[str]:
    """Return the attributes of the conditions that are weighed."""
    singles = frozenset(name for name in indexes if "+" not in name)
    several = composites(*(name for name in indexes if "+" in name))
    return [c.attribute for c in index_conditions(requirements(query), singles, several)]


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        pytest.param(["a", "b", "a+b"], ["a+b"], id="parts-are-not-asked-besides"),
        pytest.param(["a", "b", "c", "a+b"], ["a+b", "c"], id="another-attribute-is"),
        pytest.param(["a+b", "a+b+c", "b+a"], ["a+b+c"], id="the-one-that-says-most"),
        pytest.param(["b+a", "a+b"], ["a+b"], id="by-name"),
        pytest.param(["a+b+d", "b+a"], ["b+a"], id="fewer-columns"),
        pytest.param(["a+b", "b+c"], ["a+b", "b+c"], id="each-says-what-the-other-does-not"),
        pytest.param(["a", "a+d"], ["a"], id="one-column-of-it-says-no-more-than-its-index"),
        pytest.param(["b", "a+d"], ["a+d", "b"], id="one-column-of-it-without-an-index"),
        pytest.param(["d+a", "b"], ["b"], id="the-first-column-is-not-bounded"),
    ],
)
def test_which_conditions_are_weighed(indexes: list[str], expected: list[str]) -> None:
    assert usable(equal(a=1, b=2, c=3), *indexes) == expected


def test_a_range_ends_what_a_composite_is_asked() -> None:
    query = query_of(A, [both(compare("=", "a", 1), compare(">", "b", 2), compare("=", "c", 3))])
    (asked, other) = index_conditions(requirements(query), frozenset("bc"), composites("a+b+c"))
    assert dict(asked.parts) == {
        "a": KeyRanges((KeyRange(1, 1),)),
        "b": KeyRanges((KeyRange(2, None, low_closed=False),)),
    }
    assert other.attribute == "c"


def test_whatever_has_an_index_can_be_asked_by_name() -> None:
    names = [
        c.name
        for c in askable_conditions(
            requirements(equal(a=1, b=2)), frozenset("ab"), composites("a+b", "a+d")
        )
    ]
    assert sorted(names) == ["A.a", "A.a+b", "A.a+d", "A.b"]


def test_ranges_of_another_symbol_are_carried_into_a_composite() -> None:
    """``B.a = A.a`` pins a of B, so that its b alone decides over B."""
    defines = [
        both(compare("=", "a", 1), compare("=", "b", 2)),
        both(compare("=", "a", last_of(0, "a")), compare("=", "b", 3)),
    ]
    first, second = index_conditions(
        requirements(query_of(seq(A, B), defines)), frozenset(), composites("a+b")
    )
    assert dict(second.parts) == {
        "a": KeyRanges((KeyRange(1, 1),)),
        "b": KeyRanges((KeyRange(3, 3),)),
    }
    assert first.ranges != second.ranges


def test_rows_of_a_gap_are_looked_up_in_a_composite() -> None:
    one_two = both(compare("=", "a", 1), compare("=", "b", 2))
    query = query_of(seq(A, star(B), C), [compare("=", "a", 0), one_two, compare("=", "a", 5)])
    (fill,) = gap_conditions(requirements(query), frozenset("ab"), composites("a+b"))
    assert (fill.name, fill.fills_gap, fill.place) == ("B.a+b", True, ~1)


def test_one_attribute_is_counted_once_where_composites_share_it() -> None:
    shape = requirements(equal(a=1, b=2, c=3))
    composed = index_conditions(shape, frozenset(), composites("a+b", "b+c"))
    singles = index_conditions(shape, frozenset("abc"))
    assert [c.attribute for c in said_once(singles, composed)] == ["a+b", "c"]
    assert [c.attribute for c in singles if is_said(c, composed)] == ["a", "b", "c"]
    assert not is_said(composed[0], composed)


def correlated(n: int = 20_000) -> SmallStatistics:
    """Return a stream where a = 1 and b = 1 hold at a tenth of the events each, hardly together."""
    made = [
        {
            "t": i,
            "a": 1 if i % 10 == 0 else 2 * (i % 2),
            "b": 1 if i % 10 == 5 or i % 5_000 == 0 else 2 * (i % 2),
            "k": 0,
        }
        for i in range(n)
    ]
    return SmallStatistics(made, 100, ["a", "b"], composites=[("a", "b")])


RARE = query_of(
    seq(A, star(C), B),
    [both(compare("=", "a", 1), compare("=", "b", 1)), compare("=", "a", 1), None],
    within=20,
)


def test_auto_asks_the_composite_alone_and_knows_how_many_it_finds() -> None:
    plan = plan_pattern(RARE, correlated())
    assert plan.name == "indexes=A.a+b"
    assert plan.estimated.entries == 4
    assert plan.estimated.candidates == pytest.approx(4, rel=0.1)


def test_the_cost_model_is_told_how_often_parts_hold_together() -> None:
    features = plan_pattern(RARE, correlated()).features
    assert features is not None
    # One event in ten has a = 1, and one has b = 1; four in twenty thousand have both.
    assert features.block_density[:, 0] @ features.segment_events == pytest.approx(4)
    assert features.density[:, 0] @ features.segment_events == pytest.approx(4)
    assert features.lookup_entries.tolist() == [4.0, 2_000.0]


@pytest.mark.parametrize(
    ("fences", "expected"), [((0, 4096), 200), ((300, 4096), 300), ((100, 150), 150)]
)
def test_columns_say_where_between_the_fences_of_their_composite_it_is(
    fences: tuple[int, int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in ten and one in ten of 20,000 events are 200, were the columns independent."""
    statistics = correlated()
    counts = {"a": (2_000, 2_000), "b": (2_000, 2_000), "a+b": fences}
    monkeypatch.setattr(statistics, "estimate_count", lambda name, *_, **__: counts[name])
    statistics.indexed = frozenset(counts)
    plan = plan_pattern(RARE, statistics, requested="all")
    known = {k.condition.name: k.fraction for k in plan.selectivities}
    assert known["A.a+b"] == pytest.approx(expected / 20_000)


def test_all_asks_no_part_of_a_composite() -> None:
    assert plan_pattern(RARE, correlated(), requested="all").name == "indexes=A.a+b,B.a"
    assert plan_pattern(RARE, correlated(), requested="indexes=A").name == "indexes=A.a+b"


def test_a_part_can_be_named_and_is_estimated_as_what_it_is() -> None:
    plan = plan_pattern(RARE, correlated(), requested="indexes=A.a")
    assert plan.name == "indexes=A.a"
    assert plan.estimated.entries == 2_000
    assert plan.estimated.candidates == pytest.approx(2_000, rel=0.05)


def test_a_part_named_beside_its_composite_is_read_as_well() -> None:
    both_named = plan_pattern(RARE, correlated(), requested="indexes=A.a,A.a+b")
    assert both_named.estimated.entries == 2_004


@pytest.mark.parametrize(
    ("requested", "says"),
    [
        ("indexes=B.b+a", r"the condition of B does not bound 'b', which comes first in the index"),
        ("indexes=A.a+k", r"the condition of A bounds no attribute 'a\+k'"),
        ("indexes=A.a+b", r"there is no index on a\+b; index it, or use one of: A.b\+a, A.a"),
    ],
)
def test_composites_that_cannot_apply_say_why(requested: str, says: str) -> None:
    made = [{"t": i, "a": i % 7, "b": i % 5, "k": 0} for i in range(1000)]
    statistics = SmallStatistics(made, 100, ["a"], composites=[("b", "a")])
    with pytest.raises(PlanError, match=says):
        plan_pattern(RARE, statistics, requested=requested)


def explained(requested: str) -> tuple[Plan, str, list[dict]]:
    plan = plan_pattern(RARE, correlated(), requested=requested)
    return plan, to_text(plan, None), to_json(plan)["positions"][0]["ranges"]


def test_explain_says_what_a_composite_is_asked_in_the_words_of_the_query() -> None:
    _, text, ranges = explained("auto")
    assert "A  a+b: a = 1; b = 1  0.020% of events, index fences (4 events)  <- looked up" in text
    assert [(r["attribute"], r["range"], r["used"]) for r in ranges] == [
        ("a", "= 1", False),
        ("b", "= 1", False),
        ("a+b", "a = 1; b = 1", True),
    ]
    assert all(r["indexed"] for r in ranges)
    assert "\x00" not in text + str(ranges)
