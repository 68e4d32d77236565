"""Orders in which situations are looked for: the cheapest one, and another as things change."""

from __future__ import annotations

from itertools import permutations, product
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import replay
from costmodel.situations import Joins, order_cost
from replay.language import allen
from replay.language.bound import (
    Attribute,
    DataType,
    Literal,
    Situation,
    SituationRelation,
    StreamRelation,
)
from replay.situations import kernels, matching
from replay.situations.matching import Matcher
from replay.situations.order import Ordering, best_order, next_names


def pattern(n: int, pairs: list[tuple[int, int, str]], within: int) -> SituationRelation:
    """Return a temporal pattern; its conditions do not matter here."""
    names = [Situation("ABCD"[i], Literal(True, DataType.BOOLEAN)) for i in range(n)]
    bits = [(a, b, sum(allen.BITS[name] for name in r.split(";"))) for a, b, r in pairs]
    source, time = StreamRelation("s", (), "t"), Attribute("t", DataType.INTEGER)
    return SituationRelation(
        source, time, (), None, tuple(names), tuple(bits), within, False, (), ()
    )


def some_joins(random: Random, n: int) -> Joins:
    pairs = {pair: random.random() ** 3 for pair in permutations(range(n), 2) if pair[0] < pair[1]}
    kept = {pair: share for pair, share in pairs.items() if random.random() < 0.7}
    related = [
        {a + b - i: share for (a, b), share in kept.items() if i in (a, b)} for i in range(n)
    ]
    sizes = tuple(float(random.choice((1, 20, 300))) for _ in range(n))
    return Joins(sizes, tuple(related))


def test_no_order_without_cross_products_is_cheaper() -> None:
    random = Random(1)
    for _ in range(60):
        n = random.randint(1, 5)
        joins = some_joins(random, n)
        allowed = [
            order
            for order in permutations(range(n))
            if order[0] == 0 and all(order[i] in next_names(order[:i], joins) for i in range(1, n))
        ]
        cheapest = min(order_cost(order, joins) for order in allowed)
        assert order_cost(best_order((0,), joins), joins) == pytest.approx(cheapest)


def test_of_many_names_an_order_is_found_step_by_step() -> None:
    joins = some_joins(Random(2), 24)
    assert sorted(best_order((5,), joins)) == list(range(24))


def test_what_has_become_frequent_is_looked_for_later() -> None:
    """Q3 of thesis section 5.7.4: from A on, the rarer one of B and C comes first."""
    before = "before"
    ordering = Ordering(pattern(3, [(0, 1, before), (0, 2, before), (1, 2, before)], 10_000))
    none = np.zeros(3, np.int64)

    def see(sizes: tuple[int, int, int], n_changes: int) -> bool:
        return ordering.see(np.array(sizes, np.float64), none, none, n_changes)

    see((50, 1, 50), 1)  # the first time all that is seen counts
    assert ordering.names.tolist()[0] == [0, 1, 2]
    see((50, 50, 1), 1)  # a hundredth of it: 1.49 of B, 49.51 of C
    assert ordering.names.tolist()[0] == [0, 1, 2]
    assert see((50, 50, 1), 500)
    assert ordering.names.tolist()[0] == [0, 2, 1]


def some_periods(random: Random) -> list[tuple[int, int]]:
    cuts = sorted(random.sample(range(40), 2 * random.randint(0, 6)))
    return list(zip(cuts[::2], cuts[1::2], strict=True))


def test_as_many_are_counted_as_have_the_relations() -> None:
    random = Random(3)
    for _ in range(40):
        relations = ";".join(random.sample(allen.NAMES, random.randint(1, 12)))
        query, within = pattern(2, [(0, 1, relations)], 15), 15
        matcher = Matcher(query)
        both = [some_periods(random) for _ in range(2)]
        rows = [
            (0, name, start, start, end, end)
            for name, periods in enumerate(both)
            for start, end in periods
        ]
        matcher.note(np.array(rows, np.int64).reshape(-1, 6), 0, 1)
        seen = kernels.Seen(*np.zeros((2, 2), np.int64), *np.zeros((2, 1), np.int64))
        kernels.measure(matcher._pattern, matcher._lives, np.array([0]), 99, seen)
        near = [(a, b) for a, b in product(*both) if abs(a[0] - b[0]) <= within]
        related = [allen.relation(*a, *b) & query.pairs[0][2] for a, b in near]
        # Each pair is seen from both sides.
        assert seen.tried.tolist() == [2 * len(near)]
        assert seen.related.tolist() == [2 * sum(bit > 0 for bit in related)]
        assert seen.asked.tolist() == [len(both[1]), len(both[0])]


def test_orders_that_stay_are_looked_at_more_seldom() -> None:
    """A push is a little more than the changes after which something is measured at first."""
    seen: list[int] = []

    class Staying(Ordering):
        def see(self, *_: object) -> bool:
            seen.append(number)
            return number == 31

    schema = pa.schema({"t": pa.int64(), "f": pa.bool_()})
    sql = "FROM s DEFINE A AS f, B AS NOT f PATTERN A meets B WITHIN 5"
    with patch.object(matching, "Ordering", Staying):
        online = replay.online(sql, schema, time="t")
        for number in range(1, 36):
            t = np.arange(1025) + 1025 * number
            online.push(pa.table([t, t % 2 == 0], schema=schema))
    assert seen == [1, 3, 7, 15, 23, 31, 32, 34]
