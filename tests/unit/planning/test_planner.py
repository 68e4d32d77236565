"""Choosing plans: names that apply or say why not, and `auto` by estimated cost.

Explaining them: stable keys for machines, lines for people.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace as changed
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel import CostParameters, Estimate
from costmodel.thesis.selection import Strategy
from indexing.key_range import KeyRange, KeyRanges
from replay.errors import PlanError
from replay.language.bound import (
    Aggregate,
    Alternate,
    Attribute,
    Call,
    DataType,
    Edge,
    EdgeKind,
    Exclusion,
    Literal,
    MatchNumber,
    Measure,
    Negation,
    Repeat,
    RowsPerMatch,
    Semantics,
    SkipMode,
    Symbol,
)
from replay.patterns.plan import plan_pattern
from replay.patterns.requirements import requirements
from replay.planning.block_ranges import all_blocks
from replay.planning.explain import to_json
from replay.planning.intervals import replay_stretches
from replay.planning.plan import Condition, Left, Plan, PlanKind, Selectivity, Step
from replay.query_plan import to_text
from tests.json_schema import violations
from tests.oracles.intervals import matches
from tests.unit.planning.streams import (
    SmallStatistics,
    both,
    compare,
    conditions,
    contains,
    either,
    patterns,
    query_of,
    rows,
    seq,
    star,
)

INTEGER, BOOLEAN = DataType.INTEGER, DataType.BOOLEAN
A, B, C = (Symbol(i) for i in range(3))
RARE_AND_COMMON = query_of(
    seq(A, star(C), B), [compare("=", "a", 1), compare("=", "b", 1), None], within=20
)


def mixed(n: int, rare_every: int) -> list[dict]:
    """Values 0 and 2 everywhere, so that minima and maxima prune nothing; 1 now and then."""
    return [
        {
            "t": i,
            "a": 1 if i % rare_every == 7 else 2 * (i % 2),
            "b": i % 3,
            "k": 0,
        }
        for i in range(n)
    ]


def statistics_of(n=40_000, rare_every=4_000, block=100, indexed=("a", "b")) -> SmallStatistics:
    return SmallStatistics(mixed(n, rare_every), block, indexed)


def test_full_plan_reads_all_blocks():
    statistics = statistics_of(1000)
    plan = plan_pattern(RARE_AND_COMMON, statistics, requested="full")
    assert plan.name == "full"
    assert plan.stretches.tolist() == [[0, 10]]
    assert plan.reason == "full replay: it was asked for"


def test_auto_looks_up_the_rare_symbol_only():
    plan = plan_pattern(RARE_AND_COMMON, statistics_of())
    assert plan.name == "indexes=A.a"
    assert "full replay" in plan.reason
    assert plan.estimated.entries == 10
    assert plan.takes_steps
    assert [option.name for option in plan.options] == ["A.a", "B.b"]


def test_auto_replays_in_full_where_every_symbol_is_common():
    query = query_of(seq(A, star(C), B), [compare(">=", "a", 0), compare("=", "b", 1), None])
    plan = plan_pattern(query, statistics_of())
    assert plan.kind is PlanKind.FULL
    assert plan.stretches.tolist() == [[0, 400]]
    assert plan.reason.startswith("full: expected to take")


def test_auto_uses_the_tree_where_it_leaves_little_and_no_index_is_there():
    made = [{"t": i, "a": i // 100, "b": 0, "k": 0} for i in range(10_000)]
    query = query_of(A, [compare("=", "a", 7)])
    plan = plan_pattern(query, SmallStatistics(made, 100))
    assert plan.name == "tree"
    assert plan.stretches.tolist() == [[7, 8]]


def test_nothing_is_read_where_the_tree_rules_every_match_out():
    query = query_of(seq(A, B), [compare("=", "a", 77), compare("=", "b", 1)])
    plan = plan_pattern(query, statistics_of(1000))
    assert plan.finds_nothing
    assert plan.kind is PlanKind.TREE
    assert plan.reason.startswith("no match can exist: the tree's minima and maxima")


@pytest.mark.parametrize("requested", ["auto", "tree", "all", "indexes=B.b"])
def test_nothing_is_read_where_a_condition_contradicts_itself(requested):
    never = both(compare(">", "a", 5), compare("<", "a", 3))
    query = query_of(seq(A, B), [never, compare("=", "b", 1)])
    plan = plan_pattern(query, statistics_of(1000), requested=requested)
    assert plan.finds_nothing
    assert plan.reason == "no match can exist: no event can satisfy the condition of A"
    found = replay_stretches(plan, {}, statistics_of(1000))
    assert len(found.blocks) == 0


@pytest.mark.parametrize("requested", ["all", "indexes=A.a"])
def test_plan_with_indexes_says_that_nothing_can_match_where_no_range_is_left(requested):
    query = query_of(A, [Literal(False, DataType.BOOLEAN)])
    with pytest.raises(PlanError, match=r"no event can satisfy the condition of A.*'auto'"):
        plan_pattern(query, statistics_of(1000), requested=requested)


def test_equal_ranges_are_read_and_charged_once():
    defines = [compare("=", "a", 1)] * 2 + [None]
    once = query_of(seq(A, star(C), A), [defines[0], None, None], within=20)
    twice = query_of(seq(A, star(C), B), defines, within=20)
    for query in (once, twice):
        plan = plan_pattern(query, statistics_of(), requested="all")
        assert len(plan.conditions) == 2
        assert plan.estimated.entries == 10
    assert plan_pattern(once, statistics_of(), requested="all").name == "indexes=A.a"


def test_bare_symbol_means_all_its_indexed_attributes():
    condition = both(compare("=", "a", 1), compare("=", "b", 1))
    query = query_of(seq(A, B), [condition, compare("=", "b", 2)], within=5)
    statistics = statistics_of(1000, 100)
    plan = plan_pattern(query, statistics, requested="indexes=A")
    assert plan.name == "indexes=A.a,A.b"
    assert plan_pattern(query, statistics, requested="all").name == "indexes=A.a,A.b,B.b"
    assert plan_pattern(query, statistics, requested="indexes=B,A.b").name == "indexes=A.b,B.b"


def test_every_set_of_many_conditions_can_be_named():
    defines = [both(compare("<=", "b", i % 3), compare("<>", "a", 10 + i)) for i in range(8)]
    query = query_of(seq(*(Symbol(i) for i in range(8))), defines)
    wanted = "indexes=A.b,C.a,E.b"
    assert plan_pattern(query, statistics_of(1000), requested=wanted).name == wanted


PARTITIONED_PREV = query_of(
    seq(A, B),
    [
        compare("=", "a", 1),
        Call(
            ">",
            (Attribute("b", DataType.INTEGER), Attribute("b", DataType.INTEGER, offset=-1)),
            DataType.BOOLEAN,
        ),
    ],
    partition_by=("k",),
)


@pytest.mark.parametrize(
    ("query", "requested", "message"),
    [
        pytest.param(RARE_AND_COMMON, "ful", "no plan 'ful'; did you mean 'full'?", id="plan"),
        pytest.param(
            RARE_AND_COMMON,
            "indexes=Q.a",
            "the pattern has no symbol 'Q' (it has: A, B)",
            id="symbol",
        ),
        pytest.param(
            RARE_AND_COMMON, "indexes=C", "a match need not have a row of C", id="optional-symbol"
        ),
        pytest.param(
            RARE_AND_COMMON,
            "indexes=A.q",
            "the condition of A bounds no attribute 'q' (it bounds: a)",
            id="attribute",
        ),
        pytest.param(
            query_of(seq(A, B), [compare("=", "k", 1), compare("=", "b", 1)]),
            "indexes=A.k",
            "there is no index on k; index it, or use one of: B.b",
            id="index",
        ),
        pytest.param(
            query_of(A, [compare("=", "k", 1)]),
            "all",
            "no attribute the pattern bounds has an index; index one of k, or use plan 'tree'",
            id="no-index-at-all",
        ),
        pytest.param(
            query_of(seq(A, B), [None, compare("=", "b", 1)]),
            "indexes=A",
            "the condition of A bounds no attribute",
            id="symbol-without-range",
        ),
    ],
)
def test_named_plan_that_cannot_apply_says_why(query, requested, message):
    with pytest.raises(PlanError, match=re.escape(message)):
        plan_pattern(query, statistics_of(1000), requested=requested)


AROUND = seq(A, star(C), B)
CONDITIONS = [compare("=", "a", 1), compare("=", "b", 1), None]
NUMBERED = compare("=", "b", 1), Call("=", (MatchNumber(), Literal(2, INTEGER)), BOOLEAN)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        pytest.param(
            query_of(seq(Edge(EdgeKind.START), AROUND), CONDITIONS, partition_by=("b",)),
            "^ and $ ask",
            id="edge",
        ),
        pytest.param(
            query_of(
                seq(A, Repeat(Alternate((A, seq(B, Exclusion(seq(Edge(EdgeKind.END)))))), 0, 2)),
                CONDITIONS,
                partition_by=("k", "b"),
            ),
            "^ and $ ask where a partition begins and ends, which only the whole stream tells; its "
            "first and last rows are found for PARTITION BY the stream's key column alone, and "
            "that is k",
            id="edge-deep-inside",
        ),
        pytest.param(
            changed(RARE_AND_COMMON, rows_per_match=RowsPerMatch.ALL_WITH_UNMATCHED),
            "WITH UNMATCHED ROWS gives every event",
            id="unmatched-rows",
        ),
        pytest.param(
            changed(RARE_AND_COMMON, semantics=Semantics.SKIP_TILL_ANY, with_timeouts=True),
            "WITH TIMEOUTS gives partial matches",
            id="timeouts",
        ),
        pytest.param(
            query_of(seq(A, B), [CONDITIONS[0], both(*NUMBERED)]),
            "MATCH_NUMBER in DEFINE",
            id="match-number",
        ),
        pytest.param(changed(RARE_AND_COMMON, order_by=("b",)), "columns besides", id="ties"),
        pytest.param(
            query_of(star(A), CONDITIONS, semantics=Semantics.SKIP_TILL_ANY, within=9),
            "no symbol that every match needs",
            id="nothing-needed",
        ),
        pytest.param(
            query_of(seq(A, B), [None, either(compare("=", "a", 1), compare("=", "b", 1))]),
            "no symbol that every match needs has a condition that bounds an attribute",
            id="no-range",
        ),
        pytest.param(query_of(star(A), CONDITIONS[:1]), "can match no row", id="empty-match"),
        pytest.param(
            changed(PARTITIONED_PREV, partition_by=("b",)),
            "PREV and NEXT with PARTITION BY",
            id="prev",
        ),
    ],
)
def test_what_needs_every_row_is_replayed_in_full_and_says_why(query, reason):
    statistics = SmallStatistics(mixed(1000, 4000), 100, ("a", "b"), key="k")
    plan = plan_pattern(query, statistics)
    assert plan.kind is PlanKind.FULL
    assert reason in plan.reason
    with pytest.raises(PlanError, match=re.escape(reason)):
        plan_pattern(query, statistics, requested="tree")


START, END = Edge(EdgeKind.START), Edge(EdgeKind.END)


@pytest.mark.parametrize(
    ("pattern", "stretches"),
    [
        # Blocks of 100 events, one at every time: a window of 20 lies in one.
        pytest.param(seq(START, AROUND), [[0, 1]], id="begin"),
        pytest.param(seq(AROUND, END), [[9, 10]], id="end"),
        pytest.param(seq(START, AROUND, END), [], id="both"),
        pytest.param(seq(Alternate((START, B)), AROUND), [[0, 10]], id="perhaps"),
    ],
)
def test_matches_at_the_ends_of_the_stream_are_looked_for_there_alone(pattern, stretches):
    query = query_of(pattern, CONDITIONS, within=20)
    for requested in ("tree", "all"):
        plan = plan_pattern(query, statistics_of(1000), requested=requested)
        assert plan.stretches.tolist() == stretches


def test_edges_of_partitions_by_the_key_are_no_ends_of_the_stream():
    statistics = SmallStatistics(mixed(1000, 4000), 100, ("a", "b"), key="k")
    query = query_of(seq(START, AROUND), CONDITIONS, within=20, partition_by=("k",))
    plan = plan_pattern(query, statistics, requested="tree")
    assert plan.stretches.tolist() == [[0, 10]]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(changed(RARE_AND_COMMON, skip=SkipMode.TO_LAST, skip_to=(1,)), id="skip-to"),
        pytest.param(
            changed(RARE_AND_COMMON, rows_per_match=RowsPerMatch.ALL_SHOW_EMPTY), id="all-rows"
        ),
        *(
            pytest.param(changed(RARE_AND_COMMON, semantics=semantics), id=semantics.value)
            for semantics in Semantics
        ),
        pytest.param(
            query_of(
                seq(A, Negation(1), Exclusion(C), Negation(1)),
                CONDITIONS,
                within=20,
                semantics=Semantics.SKIP_TILL_ANY,
            ),
            id="negation",
        ),
    ],
)
def test_what_matches_alone_decide_is_pruned(query):
    assert plan_pattern(query, statistics_of()).name == "indexes=A.a"


@pytest.mark.parametrize(
    ("kind", "partition_by", "name"),
    [("measure", ("k",), "full"), ("measure", (), "indexes=A.a"), ("define", ("k",), "full")],
)
def test_neighbours_inside_an_aggregate_count_as_navigation(kind, partition_by, name):
    inner = Aggregate("sum", Attribute("b", INTEGER, offset=-1), None, INTEGER)
    condition = Call(">", (inner, Literal(0, INTEGER)), BOOLEAN)
    defines = [CONDITIONS[0], condition if kind == "define" else None]
    query = query_of(seq(A, star(B)), defines, within=5, partition_by=partition_by)
    measures = (Measure("m", inner),) if kind == "measure" else ()
    assert plan_pattern(changed(query, measures=measures), statistics_of()).name == name


def test_neighbours_in_partitions_by_the_key_are_pruned_and_charged():
    measure = Measure("p", Attribute("b", DataType.INTEGER, offset=-2))
    plain = query_of(A, [compare("=", "a", 77)], partition_by=("k",))
    query = changed(plain, measures=(measure,))
    rows = mixed(1000, 10)
    rows[500]["a"] = 77
    keyed = SmallStatistics(rows, 10, ["a"], key="k")
    assert plan_pattern(query, keyed, requested="all").name == "indexes=A.a"
    assert plan_pattern(PARTITIONED_PREV, keyed, requested="all").name == "indexes=A.a"
    features = plan_pattern(query, keyed, requested="all").features
    # Two rows back among keys that take turns, in blocks of ten events, and the block beside.
    assert features.beside_blocks == 1 + 2 * keyed.n_keys / 10
    assert plan_pattern(plain, keyed, requested="all").features.beside_blocks == 0
    other = changed(query, partition_by=("k", "b"))
    assert plan_pattern(other, keyed).kind is PlanKind.FULL


def test_empty_stream_is_planned():
    for requested in ("auto", "full", "tree", "all"):
        plan = plan_pattern(RARE_AND_COMMON, SmallStatistics([], 4, ["a"]), requested=requested)
        assert plan.stretches.shape == (0, 2)


def test_nothing_is_read_where_the_index_knows_no_event():
    # 1 lies between the extremes of every block, but no event has it.
    query = query_of(seq(A, star(C), B), [compare("=", "a", 1), compare("=", "b", 1), None])
    made = [row for row in mixed(1000, 10) if row["a"] != 1]
    statistics = SmallStatistics(made, 100, ["a", "b"])
    plan = plan_pattern(query, statistics)
    assert plan.finds_nothing
    assert plan.reason == (
        "no match can exist: no event lies in the range of A.a, as the index tells"
    )
    assert len(replay_stretches(plan, {}, statistics).blocks) == 0
    unindexed = SmallStatistics(made, 100, ["b"])
    assert not plan_pattern(query, unindexed).finds_nothing


FILLED = query_of(
    seq(A, star(B), C),
    [compare("=", "a", 1), compare("<=", "b", 1), compare("=", "a", 2)],
    within=50,
)


@pytest.mark.parametrize("requested", ["indexes=B.b", "indexes=B", "indexes=A,B", "all"])
def test_what_fills_a_gap_can_be_looked_up(requested):
    statistics = statistics_of(1000, 100)
    plan = plan_pattern(FILLED, statistics, requested=requested)
    names = {
        "indexes=B.b": "indexes=B.b",
        "indexes=B": "indexes=B.b",
        "indexes=A,B": "indexes=A.a,B.b",
        "all": "indexes=A.a,B.b,C.a",
    }
    assert plan.name == names[requested]
    assert (
        plan.estimated.entries >= len(statistics.occurrences("b", plan.conditions[-1].ranges).seq)
        or requested == "all"
    )
    looked_up = {c.slot: statistics.occurrences(c.attribute, c.ranges) for c in plan.conditions}
    found = replay_stretches(plan, looked_up, statistics)
    for _, at in matches(FILLED, statistics.rows, length_max=8):
        assert contains(found.blocks, statistics, at[0], at[-1])


@pytest.mark.parametrize("requested", ["auto", "tree", "all", "indexes=A.a"])
def test_window_longer_than_the_stream_is_planned(requested):
    query = changed(RARE_AND_COMMON, within=2**62)
    statistics = statistics_of(4_000, 1_000)
    plan = plan_pattern(query, statistics, requested=requested)
    assert plan.estimated.blocks <= 40 + 1e-6
    assert plan.estimated.alpha <= 1
    looked_up = {c.slot: statistics.occurrences(c.attribute, c.ranges) for c in plan.conditions}
    found = replay_stretches(plan, looked_up, statistics)
    # The first A is at 7, and any B behind it can end a match.
    assert contains(found.blocks, statistics, 7, 3_997)


@pytest.mark.parametrize("strategy", Strategy)
def test_every_strategy_gives_a_plan_that_is_carried_out_to_the_letter(strategy):
    plan = plan_pattern(RARE_AND_COMMON, statistics_of(), strategy=strategy)
    assert not plan.takes_steps
    assert f"selected by {strategy.value}" in plan.reason
    # Everything is looked up by ALL, whatever it costs; the others keep to the rare symbol.
    wanted = {"full", "indexes=A.a,B.b"} if strategy is Strategy.ALL else {"indexes=A.a"}
    assert plan.name in wanted


def test_weights_are_those_of_the_stream_unless_others_are_given():
    statistics = statistics_of()
    dear = CostParameters(entry_s=1.0, source="measured")
    statistics.parameters = dear
    plan = plan_pattern(RARE_AND_COMMON, statistics)
    assert (plan.kind, plan.weights) == (PlanKind.FULL, dear)
    cheap = plan_pattern(RARE_AND_COMMON, statistics, parameters=CostParameters())
    assert (cheap.kind, cheap.weights.source) == (PlanKind.INDEXES, "defaults")


ENTRIES_COUNT = CostParameters(entry_s=1e-6)
"""A machine with slow indexes, though they still save more than they cost."""


def test_full_replay_that_is_asked_for_is_estimated_as_beside_auto():
    asked = plan_pattern(RARE_AND_COMMON, statistics_of(), requested="full")
    beside = plan_pattern(RARE_AND_COMMON, statistics_of()).full_estimate
    assert beside is not None
    assert asked.estimated.cost == pytest.approx(beside.cost, rel=0.5)
    assert asked.features is not None
    assert asked.features.block_density.shape == (1, 2)
    assert (asked.features.block_density < 1).all()


def test_first_match_of_many_is_worth_no_lookup():
    # 4,000 candidates: the first ten of them are found in the first few blocks.
    query = query_of(
        seq(A, star(C), B), [compare("=", "a", 1), compare("=", "b", 1), None], within=20
    )
    statistics = statistics_of(40_000, 10)
    every = plan_pattern(query, statistics, parameters=ENTRIES_COUNT)
    few = plan_pattern(changed(query, limit=10), statistics, parameters=ENTRIES_COUNT)
    enough = plan_pattern(changed(query, limit=10**6), statistics, parameters=ENTRIES_COUNT)
    assert every.full_estimate is not None
    assert few.estimated.cost < every.full_estimate.cost / 100
    assert (every.wanted_share, enough.wanted_share) == (1.0, 1.0)
    assert few.kind is not PlanKind.INDEXES


@given(
    patterns(3),
    st.lists(st.none() | conditions(3), min_size=3, max_size=3),
    rows(n_max=12),
    st.integers(1, 4),
    st.none() | st.integers(0, 12),
    st.booleans(),
    st.sampled_from(("auto", "full", "tree", "all")),
    st.sets(st.sampled_from(("a", "b", "a+b", "b+a", "b+k"))),
)
def test_whatever_plan_is_chosen_every_match_is_replayed(
    pattern, defines, stream, block, within, partitioned, requested, indexes
):
    query = query_of(pattern, defines, within=within, partition_by=("k",) if partitioned else ())
    singles = [name for name in indexes if "+" not in name]
    composites = [name.split("+") for name in indexes if "+" in name]
    statistics = SmallStatistics(stream, block, singles, composites=composites)
    # Weights at which nothing but the number of blocks counts make auto try every kind of plan.
    parameters = CostParameters(value_s=0, entry_s=0, sort_s=0, seek_s=0, full_margin=1)
    try:
        plan = plan_pattern(query, statistics, requested=requested, parameters=parameters)
    except PlanError:
        assert requested in ("tree", "all")
        return
    looked_up = {c.slot: statistics.occurrences(c.attribute, c.ranges) for c in plan.conditions}
    found = replay_stretches(plan, looked_up, statistics)
    if requirements(query).rows_min == 0:
        assert plan.kind is PlanKind.FULL
    for _, at in matches(query, stream, length_max=5):
        assert contains(found.blocks, statistics, at[0], at[-1])


GOLDEN = Path(__file__).parents[2] / "golden" / "plans"
ONE = KeyRanges((KeyRange(1, 1),))

ACTUAL = {
    "blocks_read": 12,
    "blocks_total": 400,
    "bytes_read": 34567,
    "entries_read": 10,
    "rows_replayed": 1200,
    "rows_total": 40000,
    "candidates": 10,
    "intervals": 9,
    "alpha": 0.03,
    "faults": 0,
    "warnings": ["index b: one run cannot be read"],
    "switched": "the intervals cover 93 % of blocks; reading on is cheaper",
    "seconds": {"plan": 0.0005, "index": 0.001, "read": 0.002, "match": 0.0001, "total": 0.004},
}


def plan() -> Plan:
    """Return a plan whose every number is written here."""
    query = query_of(
        seq(A, B, star(C), A),
        [compare("=", "a", 1), compare("=", "b", 1), compare("=", "b", 0)],
        within=20,
    )
    conditions = tuple(Condition(position, "A", "a", ONE) for position in (0, 2))
    between = Condition(2, "C", "b", KeyRanges((KeyRange(0, 0),)), fills_gap=True)
    on_b = Condition(1, "B", "b", ONE)
    return Plan(
        PlanKind.INDEXES,
        (*conditions, between),
        requirements(query),
        all_blocks(400),
        Estimate(0.002, 15.0, 10.0, 0.005, 10.0),
        "indexes=A.a,C.b: 2 of 3 lookups leave 2 ms to replay; 8 ms for a full replay",
        (
            Selectivity(conditions[0], 0.00025, "index fences", True),
            Selectivity(on_b, 0.3333, "even between the tree's minima and maxima", False),
            Selectivity(conditions[1], 0.00025, "index fences", True),
            Selectivity(between, 0.6, "index fences", True),
        ),
        400,
        full_estimate=Estimate(0.008, 400.0, 0.0, 1.0, 0.0),
        level=1,
        takes_steps=True,
        steps=(
            Step("A.a", (10, 10), 0.003, Left(40, 4000, 10), True, "takes 0.1 ms", 0.0002),
            Step("C.b", (20_000, 24_000), 0.002, None, True, "takes 0.8 ms", 0.0009),
            Step("B.b", (13_333, 13_333), None, None, False, "not asked: it takes 1 ms"),
        ),
    )


def test_text_of_a_plan():
    assert to_text(plan(), None) == (GOLDEN / "explain.txt").read_text().rstrip("\n")


def test_text_of_a_plan_that_was_run():
    assert to_text(plan(), ACTUAL) == (GOLDEN / "analyze.txt").read_text().rstrip("\n")


def test_json_of_a_plan_that_was_run():
    expected = json.loads((GOLDEN / "analyze.json").read_text())
    assert json.loads(json.dumps(to_json(plan(), ACTUAL))) == expected


SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "explain.schema.json").read_text())


def test_schema_tells_what_is_wrong():
    good = json.loads((GOLDEN / "analyze.json").read_text())
    assert violations(good, SCHEMA, closed=True) == []
    assert violations({**good, "plan": "fast"}, SCHEMA) == [
        "$.plan: 'fast' does not match ^(full|tree|relevant|index-only|indexes=.+)$"
    ]
    assert violations({**good, "more": 1}, SCHEMA) == []
    assert violations({**good, "more": 1}, SCHEMA, closed=True) == ["$.more: not in the schema"]
    few = {key: value for key, value in good.items() if key != "steps"}
    assert violations(few, SCHEMA) == ["$: lacks steps"]
    wrong = {**good, "estimated": {**good["estimated"], "alpha": 1.5, "blocks": "15"}}
    assert sorted(violations(wrong, SCHEMA)) == [
        "$.estimated.alpha: 1.5 is above 1",
        "$.estimated.blocks: '15' is no number",
    ]
    assert violations({**good, "actual": True}, SCHEMA) == ["$.actual: True is no object"]
