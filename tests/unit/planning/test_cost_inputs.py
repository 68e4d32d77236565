"""What the cost model is told: how often conditions hold, where, and what looking them up reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.key_range import KeyRange, KeyRanges
from replay.language.bound import Call, DataType, Literal, Semantics, SkipMode, Symbol
from replay.patterns.requirements import requirements
from replay.planning.block_selectivity import RANGES_MEASURED_MAX, block_shares, is_measured
from replay.planning.coarse_map import draw_coarse_map
from replay.planning.cost_inputs import CostInputs, gather
from replay.planning.extremes import TimeBounds, may_contain
from replay.planning.rate_strata import STRATA_MAX, to_strata, window_rates
from replay.planning.statistics import IntArray
from tests.unit.planning.streams import (
    SmallBounds,
    SmallLeaves,
    SmallStatistics,
    attribute,
    both,
    compare,
    either,
    moments_of,
    negated,
    query_of,
    seq,
    star,
)

TEXT = DataType.STRING
A, B, C = (Symbol(i) for i in range(3))


def gathered(query, statistics) -> CostInputs:
    shape = requirements(query)
    return gather(shape, statistics, draw_coarse_map(shape, statistics))


def even(n: int) -> list[dict]:
    """Values of a go round 0 to 9, of b 0 to 4; a block of ten holds each."""
    return [{"t": 2 * i, "a": i % 10, "b": i % 5, "k": i % 3} for i in range(n)]


def test_features_of_even_data_are_one_stratum_with_the_true_rates():
    defines = [compare("=", "a", 3), compare("<=", "b", 1), None]
    query = query_of(seq(A, star(C), B), defines, within=40)
    found = gathered(query, SmallStatistics(even(1000), 10, ["a", "b"]))
    features = found.features
    assert (features.n_events, features.n_blocks) == (1000, 100)
    assert features.segment_events.tolist() == [1000.0]
    assert features.segment_blocks.tolist() == [100.0]
    assert features.segment_stretches.tolist() == [1.0]
    assert features.lookup_entries.tolist() == [100.0, 400.0]
    assert features.density == pytest.approx(np.array([[0.1, 0.4]]))
    assert features.block_density == pytest.approx(np.array([[0.1, 0.4]]))
    # An event every two ticks: 20 in a window of 40, and the one that begins it.
    assert features.window_events == pytest.approx([21.0], rel=0.01)
    assert features.n_columns == 3
    assert features.n_predicates == 2
    assert found.never is None
    assert [s.fraction for s in found.selectivities] == pytest.approx([0.1, 0.4])


def test_a_text_counts_as_three_columns_of_numbers():
    statistics = SmallStatistics(even(100), 10, ["a"])
    statistics.texts = frozenset({"b", "k"})
    query = query_of(seq(A, B), [compare("=", "a", 3), compare("=", "b", 1)], within=40)
    assert gathered(query, statistics).features.n_columns == 1 + 3 + 1  # a, b and the time


def test_keys_count_where_rows_of_a_match_agree_on_them():
    defines = [compare("=", "a", 3), compare("=", "a", 7)]
    statistics = SmallStatistics(even(1000), 10, ["a"])
    statistics.key, statistics.n_keys = "k", 3.0
    by_key = query_of(seq(A, B), defines, within=99, partition_by=("k",))
    by_other = query_of(seq(A, B), defines, within=99, partition_by=("b",))
    assert gathered(by_key, statistics).features.n_keys == 3.0
    assert gathered(by_other, statistics).features.n_keys == 1.0


def test_rows_outside_intervals_are_dropped_but_in_partitions_and_where_rows_look_around():
    statistics = SmallStatistics(even(1000), 10, ["a"])
    defines = [compare("=", "a", 3), compare("=", "a", 7)]
    query = query_of(seq(A, B), defines, within=99)
    assert gathered(query, statistics).features.cuts_rows
    by_key = query_of(seq(A, B), defines, within=99, partition_by=("k",))
    assert not gathered(by_key, statistics).features.cuts_rows
    rising = compare("<", replace(attribute("a"), offset=-1), attribute("a"))
    looking = query_of(seq(A, B), [defines[0], rising], within=99)
    assert not gathered(looking, statistics).features.cuts_rows


def test_match_ends_searches_only_where_the_next_begins_behind_it():
    statistics = SmallStatistics(even(100), 10, ["a"])
    query = query_of(seq(A, star(C), B), [compare("=", "a", 3), None, None], within=9)
    assert gathered(query, statistics).features.closes_early
    for changed in ({"skip": SkipMode.TO_NEXT_ROW}, {"semantics": Semantics.SKIP_TILL_NEXT}):
        assert not gathered(replace(query, **changed), statistics).features.closes_early


def test_rates_that_differ_by_place_are_strata():
    # 1 is in every second event of the last fifth of the stream, and now and then before.
    made = [
        {"t": i, "a": 1 if (i % 2 if i >= 800 else i % 100 == 50) else 3 * (i % 2), "b": 0, "k": 0}
        for i in range(1000)
    ]
    statistics = SmallStatistics(made, 10, ["a"])
    features = gathered(query_of(A, [compare("=", "a", 1)]), statistics).features
    # Extremes say that either part may hold a 1 anywhere; the entries are all there are.
    entries = sum(row["a"] == 1 for row in made)
    told = features.segment_events @ features.density[:, 0]
    # A hundred blocks of ten events are sixteen strata of six or seven.
    assert set(features.segment_blocks.tolist()) == {6.0, 7.0}
    assert features.segment_events.sum() == 1000
    assert told == pytest.approx(entries)
    assert features.density[-1, 0] > features.density[0, 0]


def test_blocks_that_the_tree_rules_out_are_no_part_of_any_stratum():
    made = [{"t": i, "a": i // 100, "b": i % 2, "k": 0} for i in range(1000)]
    query = query_of(seq(A, B), [compare("=", "a", 7), compare("=", "b", 1)])
    found = gathered(query, SmallStatistics(made, 50, ["a", "b"]))
    # The sevens are blocks 14 and 15; the B of a last seven may stand in block 16.
    assert found.features.segment_events.sum() == 150
    told = found.features.segment_events @ found.features.density[:, 0]
    assert told == pytest.approx(100, rel=0.1)


def test_range_without_an_index_is_told_by_the_tree():
    query = query_of(seq(A, B), [compare("<=", "a", 4), compare("<=", "b", 1)])
    found = gathered(query, SmallStatistics(even(1000), 10, ["b"]))
    assert [c.name for c in found.conditions] == ["B.b"]
    # Both stand in one basic block: half of a's values, two of five of b's.
    assert found.features.block_density == pytest.approx(np.array([[0.5 * 0.4]]))
    known = {s.condition.name: (s.fraction, s.indexed) for s in found.selectivities}
    assert known == {"A.a": (pytest.approx(0.5), False), "B.b": (pytest.approx(0.4), True)}


class Fenced(SmallStatistics):
    """Counts that are exact to five entries, as those of fences are, and told apart by place."""

    def estimate_count(self, name, ranges, *, within: IntArray | None = None):
        seq = self.occurrences(name, ranges).seq
        if within is not None:
            seq = seq[((seq[:, None] >= within[:, 0]) & (seq[:, None] < within[:, 1])).any(axis=1)]
        return max(len(seq) - 5, 0), len(seq) + 5 if len(seq) else 0


def test_lookup_reads_the_most_there_can_be_and_finds_what_the_tree_tells_within_that():
    # Two of ten values, evenly: the tree is right, and fences alone would leave it open.
    query = query_of(A, [compare("<=", "a", 1)])
    found = gathered(query, Fenced(even(1000), 10, ["a"]))
    assert found.features.lookup_entries.tolist() == [205.0]
    assert found.features.density == pytest.approx(np.array([[0.2]]))
    assert found.selectivities[0].source == "index fences (195 to 205 events)"


def test_what_the_tree_tells_counts_only_between_what_the_fences_allow():
    # Nine of ten values lie between, but only every fifth event has one of them.
    made = [{"t": i, "a": 3 if i % 5 == 2 else 10 * (i % 2), "b": 0, "k": 0} for i in range(1000)]
    query = query_of(A, [both(compare(">=", "a", 1), compare("<=", "a", 9))])
    found = gathered(query, Fenced(made, 10, ["a"])).features
    assert found.density == pytest.approx(np.array([[205 / 1000]]))


def test_names_are_expected_halfway_between_what_the_fences_allow():
    made = [{"t": i, "s": "abc"[i % 3]} for i in range(999)]
    text = Call("=", (attribute("s", TEXT), Literal("b", TEXT)), DataType.BOOLEAN)
    found = gathered(query_of(A, [text]), Fenced(made, 9, ["s"])).features
    assert found.density == pytest.approx(np.array([[1 / 3]]))


def test_lookup_reads_only_what_lies_in_the_stretches():
    made = [{"t": i, "a": i // 100, "b": i % 2, "k": 0} for i in range(1000)]
    query = query_of(seq(A, B), [compare("=", "a", 7), compare("=", "b", 1)])
    found = gathered(query, Fenced(made, 50, ["a", "b"])).features
    assert found.lookup_entries.tolist() == [105.0, 75 + 5.0]


def test_what_no_event_satisfies_is_known_from_the_fences():
    made = [{"t": i, "a": 2 * (i % 2), "b": i % 2, "k": 0} for i in range(100)]
    query = query_of(seq(A, B), [compare("=", "b", 1), compare("=", "a", 1)])
    assert gathered(query, SmallStatistics(made, 10, ["b"])).never is None
    never = gathered(query, SmallStatistics(made, 10, ["a", "b"])).never
    assert never is not None
    assert never.name == "B.a"


def test_predicates_are_counted_once_however_often_they_stand_in_define():
    one, other = compare("=", "a", 1), compare(">", "b", 2)
    query = query_of(
        seq(A, B, C),
        [both(one, other), either(negated(one), both(other, compare("<", "b", 9))), None],
    )
    assert requirements(query).n_predicates == 3


FILLED = query_of(
    seq(A, star(B), C),
    [compare("=", "a", 3), compare("<=", "b", 3), compare("=", "a", 7)],
    within=99,
)


def test_what_fills_a_gap_is_no_condition_of_the_cost_model_but_can_be_asked():
    found = gathered(FILLED, SmallStatistics(even(1000), 10, ["a", "b"]))
    assert [c.name for c in found.conditions] == ["A.a", "C.a"]
    assert [s.condition.name for s in found.selectivities] == ["A.a", "C.a", "B.b"]
    assert [(o.name, o.fills_gap) for o in found.options] == [
        ("A.a", False),
        ("C.a", False),
        ("B.b", True),
    ]
    assert [o.most for o in found.options] == [100, 100, 800]


def test_options_tell_whether_events_lie_everywhere():
    query = query_of(seq(A, B), [compare("<=", "a", 4), compare("=", "b", 1)])
    everywhere = gathered(query, SmallStatistics(even(1000), 10, ["a", "b"]))
    assert [o.is_uneven for o in everywhere.options] == [False, False]
    made = [{"t": i, "a": (i // 100) % 10, "b": i % 2, "k": 0} for i in range(1000)]
    drifting = gathered(query, SmallStatistics(made, 30, ["a", "b"]))
    assert [o.is_uneven for o in drifting.options] == [True, False]
    texts = [{"t": i, "s": "abc"[i % 3]} for i in range(999)]
    text = Call("=", (attribute("s", TEXT), Literal("b", TEXT)), DataType.BOOLEAN)
    unknown = gathered(query_of(A, [text]), SmallStatistics(texts, 9, ["s"]))
    assert [o.is_uneven for o in unknown.options] == [False]


def test_query_without_a_bound_has_windows_without_end():
    query = query_of(seq(A, star(C), B), [compare("=", "a", 3), compare("=", "b", 1), None])
    features = gathered(query, SmallStatistics(even(100), 10, ["a"])).features
    assert features.window_events.tolist() == [np.inf]


def bounds_of(minimum, maximum, *, n_values=None, known=None) -> SmallBounds:
    """Return bounds of blocks of whose moments nothing is known."""
    n = len(minimum)
    return SmallBounds(
        pa.array(minimum),
        pa.array(maximum),
        np.array(n_values or [100] * n),
        np.array([True] * n if known is None else known),
        np.full(n, np.nan),
        np.full(n, np.nan),
    )


def summary_of(blocks) -> SmallBounds:
    """Return what a tree knows of blocks of values."""
    return SmallBounds(
        pa.array([min(block) for block in blocks]),
        pa.array([max(block) for block in blocks]),
        np.array([len(block) for block in blocks]),
        np.ones(len(blocks), dtype=bool),
        *moments_of([list(block) for block in blocks]),
    )


def shares(r: KeyRange | KeyRanges, bounds, count=100) -> list[float]:
    ranges = r if isinstance(r, KeyRanges) else KeyRanges((r,))
    admitted = may_contain(ranges, bounds)
    return block_shares(ranges, bounds, admitted, np.full(len(admitted), count)).tolist()


def test_range_of_doubles_holds_its_part_of_each_span():
    bounds = bounds_of([0.0, 0.0, 2.0, 10.0], [1.0, 4.0, 6.0, 20.0])
    # [0, 2]: all of [0, 1], half of [0, 4], no length where only the rim is met.
    found = shares(KeyRange(0.0, 2.0), bounds)
    assert found == pytest.approx([1.0, 0.5, 0.0, 0.0])


def test_range_of_integers_counts_values():
    bounds = bounds_of([0, 0, 7], [9, 99, 7])
    assert shares(KeyRange(5, 9), bounds) == pytest.approx([0.5, 0.05, 1.0])
    assert shares(KeyRange(5, 9, low_closed=False), bounds) == pytest.approx([0.4, 0.04, 1.0])
    assert shares(KeyRange(None, 4), bounds) == pytest.approx([0.5, 0.05, 0.0])


def test_several_ranges_add_up():
    ranges = KeyRanges((KeyRange(0, 1), KeyRange(8, 9)))
    assert shares(ranges, bounds_of([0], [9])) == pytest.approx([0.4])


def test_missing_values_lie_in_no_range():
    bounds = bounds_of([0, None], [9, None], n_values=[50, 0])
    assert shares(KeyRange(5, 9), bounds) == pytest.approx([0.25, 0.0])


def test_block_nothing_is_known_of_has_the_mean_of_the_others():
    bounds = bounds_of([0, 0, None], [9, 9, None], known=[True, True, False])
    assert shares(KeyRange(5, 9), bounds) == pytest.approx([0.5, 0.5, 0.5])
    nothing = bounds_of([None], [None], known=[False])
    assert shares(KeyRange(5, 9), nothing) == [1.0]


def test_infinite_values_give_shares():
    bounds = bounds_of([-np.inf, 0.0], [np.inf, np.inf])
    for r in (KeyRange(1.0, 2.0), KeyRange(1.0, None), KeyRange(None, 1.0)):
        assert all(0.0 <= share <= 1.0 for share in shares(r, bounds))


def test_strings_lie_anywhere_in_a_block_that_may_hold_them():
    bounds = bounds_of(["a", "m"], ["c", "z"])
    assert shares(KeyRange("b", "b"), bounds) == [1.0, 0.0]


def test_times_lie_evenly_between_first_and_last():
    times = TimeBounds(np.array([0, 10]), np.array([9, 19]))
    assert shares(KeyRange(5, 9), times, count=10) == pytest.approx([0.5, 0.0])


def test_every_whole_number_as_often_as_any_other_lies_evenly():
    # Each of the ten has a tenth, though they are points.
    numbers = summary_of([np.arange(10), np.repeat(np.arange(10), 10)])
    assert shares(KeyRange(5, 9), numbers, 10) == pytest.approx([0.5, 0.5])
    assert shares(KeyRange(3, 3), numbers, 10) == pytest.approx([0.1, 0.1])


def test_blocks_of_one_value_hold_it_whole():
    bounds = summary_of([np.full(10, 3), np.full(10, 4)])
    assert shares(KeyRange(3, 3), bounds, 10) == [1.0, 0.0]
    assert shares(KeyRange(3.0, 3.5), summary_of([np.full(10, 3.0)]), 10) == [1.0]


def test_long_lists_of_ranges_are_not_measured():
    numbers, texts = bounds_of([0], [99]), bounds_of(["a"], ["b"])
    ranges = [KeyRange(3 * i, 3 * i) for i in range(RANGES_MEASURED_MAX + 1)]
    assert is_measured(KeyRanges(tuple(ranges[:-1])), numbers)
    assert not is_measured(KeyRanges(tuple(ranges)), numbers)
    assert not is_measured(KeyRanges(tuple(ranges[:1])), texts)


numbers = st.floats(-1e300, 1e300) | st.floats(-10, 10) | st.sampled_from([-np.inf, np.inf])


@given(
    st.lists(st.lists(numbers, min_size=1, max_size=6), min_size=1, max_size=5),
    st.tuples(numbers, numbers),
)
def test_shares_are_shares_whatever_the_values(blocks, border):
    with np.errstate(all="ignore"):
        bounds = summary_of([np.array(block) for block in blocks])
    r = KeyRange(min(border), max(border))
    admitted = may_contain(KeyRanges((r,)), bounds)
    found = shares(r, bounds, 6)
    assert all(0.0 <= share <= 1.0 for share in found)
    assert all(share == 0.0 for share, ok in zip(found, admitted, strict=True) if not ok)


def strata(rates) -> list[list[int]]:
    """Return the blocks of each stratum, ascending."""
    order, starts = to_strata(np.atleast_2d(np.array(rates, dtype=np.float64)))
    return [sorted(part.tolist()) for part in np.split(order, starts[1:])]


def test_even_data_is_one_stratum():
    noise = 1 + 0.03 * np.random.default_rng(1).standard_normal((3, 500))
    rates = np.vstack((np.array([[0.1], [0.01], [0.5]]) * noise, np.full(500, np.inf)))
    assert strata(rates) == [list(range(500))]
    assert strata(np.zeros((2, 3))) == [[0, 1, 2]]


def test_blocks_are_parted_by_how_often_all_that_is_wanted_comes_together():
    rare, frequent = [0.01, 0.02] * STRATA_MAX, [0.8] * 2 * STRATA_MAX
    found = strata([rare, frequent])
    assert found[0] == [0, 2]
    assert found[-1] == [2 * STRATA_MAX - 3, 2 * STRATA_MAX - 1]
    # Products are 0.02, 0.08 and 0.06; windows count as well.
    assert strata([[0.1, 0.2, 0.6], [0.2, 0.4, 0.1]]) == [[0], [2], [1]]
    assert strata([[0.1, 0.1], [300.0, 5.0]]) == [[1], [0]]


@given(
    st.integers(1, 40).flatmap(
        lambda n: st.lists(
            st.lists(st.floats(0, 1) | st.just(np.inf), min_size=n, max_size=n),
            min_size=1,
            max_size=4,
        )
    )
)
def test_every_block_has_a_stratum_and_none_is_empty(rates):
    found = strata(rates)
    assert sorted(block for part in found for block in part) == list(range(len(rates[0])))
    assert len(found) <= STRATA_MAX
    assert all(found)


def leaves_of(t_min, t_max, count) -> SmallLeaves:
    return SmallLeaves(
        np.array(count),
        np.array([0, *np.cumsum(count)]),
        np.array(t_min),
        np.array(t_max),
        gap_min=np.zeros(len(count), dtype=np.int64),
    )


def test_window_holds_the_events_of_its_time_around_the_block():
    # One event a tick, then one in ten: a window of 100 ticks holds 100 and 10, and its end.
    leaves = leaves_of([0, 1000, 2000, 12000], [999, 1999, 11990, 21990], [1000, 1000, 1000, 1000])
    found = window_rates(leaves, 100, None)
    assert found == pytest.approx([101, 101, 11, 11], rel=0.01)


def test_window_in_rows_bounds_the_one_in_time():
    leaves = leaves_of([0, 1000], [999, 1999], [1000, 1000])
    assert window_rates(leaves, 100, 7).tolist() == [7.0, 7.0]
    assert window_rates(leaves, None, 7).tolist() == [7.0, 7.0]
    assert window_rates(leaves, None, None).tolist() == [np.inf, np.inf]


def test_window_longer_than_the_stream_keeps_the_rate():
    leaves = leaves_of([0, 1000], [999, 1999], [1000, 1000])
    assert window_rates(leaves, 10**18, None) == pytest.approx([1e18, 1e18], rel=0.01)


def test_events_of_one_time_and_no_events_at_all_have_rates():
    assert np.isfinite(window_rates(leaves_of([5, 5], [5, 5], [10, 10]), 0, None)).all()
    assert len(window_rates(leaves_of([], [], []), 5, None)) == 0
