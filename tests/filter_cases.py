"""Filters as text, over streams of ``tests.strategies``; what they stand in adds a query around."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.strategies import constant_conditions

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


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """A condition on one event, often one that bounds an attribute or the time."""
    time = st.builds(
        lambda op, v: f"a + 0 {op} {v}", st.sampled_from(("<", ">=")), st.integers(0, 5)
    )
    return draw(st.one_of(constant_conditions("A"), constant_conditions("A"), time))


@st.composite
def filters(draw: st.DrawFn, *, of: str = "s") -> str:
    """A query that filters, projects, orders and cuts the events of a stream, or of a subquery."""
    distinct = draw(st.sampled_from(("", "", "", "DISTINCT ")))
    # A column that queries can only select as it is cannot be compared.
    items = draw(st.sampled_from(ITEMS[1:] if distinct else ITEMS))
    where = f"WHERE {draw(conditions())}" if draw(st.booleans()) else ""
    order = draw(st.sampled_from(ORDERS))
    if distinct:  # its rows are those of no one event
        order = draw(st.sampled_from(("", "ORDER BY a"))) if "a," in items + "," else ""
    end = draw(st.sampled_from(ENDS))
    return f"SELECT {distinct}{items} FROM {of} AS A {where} {order} {end}"


@st.composite
def plain_filters(draw: st.DrawFn) -> str:
    """A filter whose rows keep all columns and their order: what subqueries often are."""
    order = draw(st.sampled_from(("", "", "ORDER BY t")))
    end = draw(st.sampled_from(("", "", "", "LIMIT 9")))
    return f"SELECT * FROM s AS A WHERE {draw(conditions())} {order} {end}"
