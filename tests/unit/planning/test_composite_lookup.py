"""Indexes over several attributes: what they are asked, and what is not asked besides."""

from __future__ import annotations

import pytest

from indexing.key_range import KeyRange, KeyRanges
from indexing.keys import KeyKind
from replay.errors import PlanError
from replay.language.bound import BoundPatternQuery, Symbol
from replay.patterns.plan import plan_pattern
from replay.patterns.requirements import requirements
from replay.planning.composite_lookup import is_said, said_once
from replay.planning.explain import to_json, to_text
from replay.planning.named_plans import askable_conditions, gap_conditions, index_conditions
from replay.planning.plan import Plan
from replay.planning.statistics import Composites
from tests.unit.planning.streams import SmallStatistics, both, compare, last_of, query_of, seq, star

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


def test_where_fences_leave_little_doubt_columns_are_not_multiplied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One in ten and one in ten of 20,000 events would be 200; the middle is taken."""
    statistics = correlated()
    monkeypatch.setattr(statistics, "estimate_count", lambda *_, **__: (100, 150))
    plan = plan_pattern(RARE, statistics, requested="all")
    (known,) = [k for k in plan.selectivities if k.condition.name == "A.a+b"]
    assert known.fraction == pytest.approx(125 / 20_000)


@pytest.mark.parametrize(
    ("fences", "expected"), [((0, 4096), 200), ((300, 4096), 300), ((0, 50), 50)]
)
def test_where_fences_leave_much_doubt_columns_say_where_in_between(
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
    return plan, to_text(plan), to_json(plan)["positions"][0]["ranges"]


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
