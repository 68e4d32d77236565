"""Explain: stable keys for machines, lines for people."""

from __future__ import annotations

import json
from pathlib import Path

from costmodel import Estimate
from indexing.key_range import KeyRange, KeyRanges
from replay.language.bound import Symbol
from replay.patterns.requirements import requirements
from replay.planning.block_ranges import all_blocks
from replay.planning.explain import to_json, to_text
from replay.planning.plan import Condition, Left, Plan, PlanKind, Selectivity, Step
from tests.json_schema import violations
from tests.unit.planning.streams import compare, query_of, seq, star

GOLDEN = Path(__file__).parents[2] / "golden" / "plans"
A, B, C = (Symbol(i) for i in range(3))
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
    assert to_text(plan()) == (GOLDEN / "explain.txt").read_text().rstrip("\n")


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
        "$.plan: 'fast' does not match ^(full|tree|indexes=.+)$"
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
