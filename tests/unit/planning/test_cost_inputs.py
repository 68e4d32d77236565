"""What the cost model is told: how often conditions hold, where, and what looking them up reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from replay.language.bound import Call, DataType, Literal, Semantics, SkipMode, Symbol
from replay.patterns.requirements import requirements
from replay.planning.coarse_map import draw_coarse_map
from replay.planning.cost_inputs import CostInputs, gather
from replay.planning.statistics import IntArray
from tests.unit.planning.streams import (
    SmallStatistics,
    attribute,
    both,
    compare,
    either,
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
    assert features.segment_events.tolist() == [800.0, 200.0]
    assert told == pytest.approx(entries)
    assert features.density[1, 0] > features.density[0, 0]


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


def test_fences_are_looked_at_closely_where_most_of_the_range_is_rim():
    # One event; the fences say none to six, the tree nearly all.
    made = [{"t": i, "a": 10 * (i % 2) + (i == 50), "b": 0, "k": 0} for i in range(1000)]
    query = query_of(A, [both(compare(">=", "a", 1), compare("<=", "a", 9))])
    found = gathered(query, Fenced(made, 10, ["a"])).features
    assert found.density == pytest.approx(np.array([[1 / 1000]]))
    assert found.lookup_entries.tolist() == [6.0]


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
    assert [o.is_even for o in everywhere.options] == [True, True]
    made = [{"t": i, "a": (i // 100) % 10, "b": i % 2, "k": 0} for i in range(1000)]
    drifting = gathered(query, SmallStatistics(made, 30, ["a", "b"]))
    assert [o.is_even for o in drifting.options] == [False, True]
    texts = [{"t": i, "s": "abc"[i % 3]} for i in range(999)]
    text = Call("=", (attribute("s", TEXT), Literal("b", TEXT)), DataType.BOOLEAN)
    unknown = gathered(query_of(A, [text]), SmallStatistics(texts, 9, ["s"]))
    assert [o.is_even for o in unknown.options] == [None]


def test_query_without_a_bound_has_windows_without_end():
    query = query_of(seq(A, star(C), B), [compare("=", "a", 3), compare("=", "b", 1), None])
    features = gathered(query, SmallStatistics(even(100), 10, ["a"])).features
    assert features.window_events.tolist() == [np.inf]
