"""What plans are told to read: by their lookups, or by a look at all blocks or at some."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chronicle.errors import CorruptBlockError
from costmodel.parameters import DEFAULT_PARAMETERS
from replay.language.bound import BoundPatternQuery, Symbol
from replay.planning.block_ranges import count_blocks
from replay.planning.intervals import Stretches, replay_stretches
from replay.planning.narrowing import Windows
from replay.planning.plan import Lookup, Plan
from replay.planning.planner import choose_plan
from replay.planning.requests import index_conditions
from replay.planning.shape import to_shape
from replay.planning.told import Told, look, tell
from tests.unit.planning.streams import SmallStatistics, compare, query_of, seq, star
from tests.unit.planning.test_safety import SLOW_INDEX, Indexes, plan_on

A, B, Z = (Symbol(i) for i in range(3))
BLOCK = 10


def pairs(within: int = 3) -> BoundPatternQuery:
    return query_of(
        seq(A, star(Z), B), [compare("=", "a", 1), compare("=", "b", 1), None], within=within
    )


def stream_of(a: set[int], b: set[int], n_blocks: int, **knobs: str) -> SmallStatistics:
    """Values 0 and 2 in every block, so that extremes prune nothing; 1 in the rows given."""
    rows = [
        {
            "t": i,
            "a": 1 if i in a else 2 * (i % 2),
            "b": 1 if i in b else 2 * (i % 2),
            "k": 0,
        }
        for i in range(n_blocks * BLOCK)
    ]
    return SmallStatistics(rows, BLOCK, ("a", "b"), **knobs)


def by_both(query: BoundPatternQuery, stream: SmallStatistics) -> Plan:
    return choose_plan(query, stream, requested="all")


def truth_of(plan: Plan, query: BoundPatternQuery, stream: SmallStatistics) -> Stretches:
    return replay_stretches(plan, stream.look_up(plan), query, stream)


def known() -> SmallStatistics:
    """Seven pairs, five of them alone, one on both sides of a rim, one two blocks behind it.

    Ten more A and ten more B are farther apart than the window.
    """
    starts = [53, 153, 253, 453, 553, 309, 334]
    alone = [10 * k + 2 for k in range(0, 60, 6)]
    return stream_of({*starts, *alone}, {*(s + 1 for s in starts), *(r + 5 for r in alone)}, 60)


def test_a_look_at_all_blocks_tells_what_is_read() -> None:
    """By hand: blocks 5, 15, 25, 45, 55, 30 and 31, 33 and, between these, 32: nine of 60.

    Both ends are looked up, so that an interval is a pair: fourteen rows of 600.
    """
    stream = known()
    plan = by_both(pairs(), stream)
    told = look(plan, pairs(), stream)
    assert told is not None
    assert told.is_certain
    assert told.n_looked == told.n_remaining == 60
    assert told.blocks_min == told.blocks_max == told.estimated.blocks == 9
    assert told.estimated.candidates == 7
    assert told.estimated.alpha == pytest.approx(14 / 600)
    assert told.estimated.stretches == 6
    assert told.estimated.entries == plan.estimated.entries
    assert abs(plan.estimated.blocks - 9) > 3


@pytest.mark.parametrize(
    ("requested", "a", "b", "n_blocks"),
    [
        # 23 to 28 and 57 to 60: blocks 2, 5 and 6 and, between them, 3 and 4.
        pytest.param("indexes=A", {23, 25, 57}, {3}, 5, id="to the end of a window"),
        # 24 to 29 and 54 to 57: blocks 2 and 5 and, between them, 3 and 4.
        pytest.param("indexes=B", {3}, {27, 29, 57}, 4, id="from the start of a window"),
    ],
)
def test_intervals_with_an_end_in_time_are_counted_by_events(
    requested: str, a: set[int], b: set[int], n_blocks: int
) -> None:
    """One symbol alone is looked up: four rows each, of which two overlap; ten in all."""
    stream = stream_of(a, b, 60)
    plan = choose_plan(pairs(), stream, requested=requested)
    told = look(plan, pairs(), stream)
    assert told is not None
    assert told.estimated.alpha == pytest.approx(10 / 600)
    assert told.estimated.blocks == n_blocks
    assert told.estimated.candidates == 3


def test_a_plan_that_reads_more_than_expected_costs_more_and_its_lookups_the_same() -> None:
    stream = known()
    plan = by_both(pairs(), stream)
    told = look(plan, pairs(), stream)
    assert told is not None
    assert told.estimated.blocks > plan.estimated.blocks
    assert told.estimated.cost > plan.estimated.cost
    assert told.estimated.index_cost == pytest.approx(plan.estimated.index_cost)


class Counting(Indexes):
    """Counts what is found for what is read."""

    @property
    def n_entries_read(self) -> int:
        return sum(len(self.rows(lookup)) for lookup in self.read_so_far)


def tell_of(
    plan: Plan, query: BoundPatternQuery, stream: SmallStatistics, **knobs: bool
) -> tuple[Told | None, Counting]:
    lookups = Counting(stream)
    return tell(plan, query, stream, lookups, **{"is_adaptive": False, **knobs}), lookups


def test_quick_lookups_are_asked_and_tell_what_is_read() -> None:
    """By hand, as with all blocks looked at; 17 A and 17 B are read."""
    stream = known()
    plan = by_both(pairs(), stream)
    told, lookups = tell_of(plan, pairs(), stream)
    assert told is not None
    assert told.is_asked
    assert told.is_certain
    assert len(lookups.read_so_far) == 2
    assert told.n_looked == 0
    assert told.blocks_min == told.blocks_max == told.estimated.blocks == 9
    assert told.estimated.candidates == 7
    assert told.estimated.stretches == 6
    assert told.estimated.entries == 34
    assert told.estimated.alpha == pytest.approx(9 / 60)
    assert told.estimated.cost > plan.estimated.cost
    assert told.estimated.index_cost == plan.estimated.index_cost
    assert told.switched is None


def test_what_the_query_does_otherwise_than_planned_is_told() -> None:
    """There is no A, though a tenth of all rows is expected: B is not asked for."""
    stream = stream_of(set(), {3, 57}, 60)
    conditions = index_conditions(to_shape(pairs()), frozenset("ab"))
    plan = plan_on(
        stream, pairs(), conditions, {"a": 0.1, "b": 0.2}, replay_s=1.0, weights=DEFAULT_PARAMETERS
    )
    told, lookups = tell_of(plan, pairs(), stream, is_adaptive=True)
    assert told is not None
    assert len(lookups.read_so_far) == 1
    assert told.switched == "B.b not asked: no candidate is left"
    assert told.estimated.blocks == told.estimated.candidates == told.estimated.entries == 0
    to_the_letter, lookups = tell_of(plan, pairs(), stream)
    assert to_the_letter is not None
    assert len(lookups.read_so_far) == 2
    assert to_the_letter.switched is None


def test_slow_lookups_are_not_asked_but_blocks_looked_at() -> None:
    stream = known()
    plan = choose_plan(pairs(), stream, requested="all", parameters=SLOW_INDEX)
    seconds = plan.estimated.index_cost / 2
    lookups = Counting(stream)
    told = tell(plan, pairs(), stream, lookups, is_adaptive=True, tell_s=seconds)
    assert not lookups.read_so_far
    assert told is not None
    assert not told.is_asked
    assert told == look(plan, pairs(), stream, look_s=seconds)


def test_lookups_that_fences_let_be_long_are_not_asked() -> None:
    """Few entries are expected, but the fences of one lookup prove next to nothing."""
    stream = known()
    plan = choose_plan(pairs(), stream, requested="all", parameters=SLOW_INDEX)
    of_a, of_b = plan.selectivities
    seconds = 2 * plan.estimated.index_cost
    unbounded = replace(plan, selectivities=(of_a, replace(of_b, at_most=1.0)))
    asked = tell(plan, pairs(), stream, Counting(stream), is_adaptive=False, tell_s=seconds)
    looked = tell(unbounded, pairs(), stream, Counting(stream), is_adaptive=False, tell_s=seconds)
    assert asked is not None
    assert asked.is_asked
    assert looked is not None
    assert not looked.is_asked


def test_of_what_cannot_be_read_nothing_is_told() -> None:
    stream = known()

    class Damaged(Counting):
        def read(self, lookup: Lookup, windows: Windows | None = None) -> int:
            raise CorruptBlockError("events-1.parquet", "its checksum is wrong")

    plan = by_both(pairs(), stream)
    assert tell(plan, pairs(), stream, Damaged(stream), is_adaptive=True) is None


def correlated(seed: int) -> SmallStatistics:
    """Of 1,200 blocks a tenth has a B directly behind an A; as many A and B stand alone."""
    rng = np.random.default_rng(seed)
    blocks = rng.permutation(1200)
    together, only_a, only_b = (blocks[k * 120 : (k + 1) * 120] * BLOCK for k in range(3))
    return stream_of(
        {*(together + 3).tolist(), *(only_a + 1).tolist()},
        {*(together + 4).tolist(), *(only_b + 8).tolist()},
        1200,
    )


def told_of(seed: int) -> tuple[Told, Plan, Stretches]:
    stream, query = correlated(seed), pairs(2)
    plan = by_both(query, stream)
    told = look(plan, query, stream, look_s=0.03)
    assert told is not None
    assert not told.is_certain
    assert told.n_looked < 0.4 * told.n_remaining
    return told, plan, truth_of(plan, query, stream)


def test_a_look_at_some_blocks_repairs_estimates_that_are_much_too_low() -> None:
    """By chance an A and a B would meet in about ten blocks; they do in 120."""
    found = [told_of(seed) for seed in range(12)]
    expected = [plan.estimated.blocks for _, plan, _ in found]
    read = [count_blocks(truth.blocks) for _, _, truth in found]
    assert max(expected) < min(read) / 3
    ratios = [told.estimated.blocks / n for (told, _, _), n in zip(found, read, strict=True)]
    assert 0.75 < np.median(ratios) < 1.35
    assert np.mean([0.5 < ratio < 2 for ratio in ratios]) >= 0.9
    inside = [t.blocks_min <= n <= t.blocks_max for (t, _, _), n in zip(found, read, strict=True)]
    assert np.mean(inside) >= 0.8
    candidates = [t.estimated.candidates / truth.n_candidates for t, _, truth in found]
    assert 0.75 < np.median(candidates) < 1.35


@pytest.mark.parametrize(
    ("requested", "query"),
    [
        pytest.param("full", pairs(), id="full"),
        pytest.param("tree", pairs(), id="tree"),
        pytest.param("all", replace(pairs(), limit=1), id="limit"),
    ],
)
def test_where_nothing_is_to_be_told_nothing_is_read(
    requested: str, query: BoundPatternQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = known()
    plan = choose_plan(query, stream, requested=requested)

    def sample_columns(*asked: object) -> None:
        raise AssertionError("blocks were read")

    monkeypatch.setattr(stream, "sample_columns", sample_columns)
    assert look(plan, query, stream) is None
    told, lookups = tell_of(plan, query, stream)
    assert told is None
    assert not lookups.read_so_far


def test_without_a_window_lookups_tell_what_a_look_cannot() -> None:
    """Any A and any later B are a pair: from the first A, row 2, to the last B, row 554."""
    stream, query = known(), replace(pairs(), within=None)
    plan = by_both(query, stream)
    assert look(plan, query, stream) is None
    told, _ = tell_of(plan, query, stream)
    assert told is not None
    assert told.estimated.blocks == 56


def test_a_look_never_takes_more_blocks_than_there_is_time_for() -> None:
    stream, query = correlated(0), pairs(2)
    plan = by_both(query, stream)
    looked = [look(plan, query, stream, look_s=seconds) for seconds in (0.0, 0.01, 0.03, 10.0)]
    assert looked[0] is None
    n_looked = [told.n_looked for told in looked[1:] if told is not None]
    assert sorted(n_looked) == n_looked
    assert n_looked[-1] == 1200
