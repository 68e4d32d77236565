"""Filters as text, over streams of ``tests.strategies``; what they stand in adds a query around."""

from __future__ import annotations

from random import Random

from tests.strategies import constant_condition, seeded

ITEMS = ("*", "t, a, x", "s, t", "a + 1 AS b, t", "t, x / a AS q", "k, f", "t AS time, a AS x")
ORDERS = (
    "",
    "",
    "ORDER BY t",
    "ORDER BY t DESC",
    "ORDER BY t DESC",
    "ORDER BY a DESC, t",
    "ORDER BY x NULLS FIRST",
    "ORDER BY t DESC, a",
)
ENDS = ("", "", "LIMIT 0", "LIMIT 1", "LIMIT 4", "LIMIT 3 OFFSET 2", "LIMIT 30 OFFSET 1")


def a_condition(choose: Random) -> str:
    """Return a condition on one event, often one that bounds an attribute."""
    if choose.random() < 0.33:
        return f"a + 0 {choose.choice(('<', '>='))} {choose.randint(0, 5)}"
    return constant_condition(choose, "A")


conditions = seeded(a_condition)


@seeded
def filters(choose: Random) -> str:
    """A query that filters, projects, orders and cuts the events of a stream."""
    distinct = choose.choice(("", "", "", "DISTINCT "))
    # A column that queries can only select as it is cannot be compared.
    items = choose.choice(ITEMS[1:] if distinct else ITEMS)
    where = f"WHERE {a_condition(choose)}" if choose.random() < 0.5 else ""
    order = choose.choice(ORDERS)
    if distinct:  # its rows are those of no one event
        order = choose.choice(("", "ORDER BY a")) if "a," in items + "," else ""
    return f"SELECT {distinct}{items} FROM s AS A {where} {order} {choose.choice(ENDS)}"


@seeded
def plain_filters(choose: Random) -> str:
    """A filter whose rows keep all columns and their order: what subqueries often are."""
    order, end = choose.choice(("", "", "ORDER BY t")), choose.choice(("", "", "", "LIMIT 9"))
    return f"SELECT * FROM s AS A WHERE {a_condition(choose)} {order} {end}"
