"""Hypothesis strategies for whole streams and whole queries, small and nasty."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from random import Random
from typing import Any, TypeVar

import pyarrow as pa
from hypothesis import strategies as st

T = TypeVar("T")

STRINGS = ("", "a", "ab", "b", "ß", "z")
DOUBLES = (-math.inf, -1.5, -0.0, 0.0, 0.5, 1.0, 2.5, math.inf, math.nan)

SECOND = 1_000_000
"""Microseconds: what one step of an integer time is for a timestamp."""

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("a", pa.int32()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("f", pa.bool_()),
        ("k", pa.int16()),
    ]
)


@dataclass(frozen=True)
class SmallStream:
    """Rows in stream order and the knobs that make borders frequent."""

    rows: list[dict[str, Any]]
    block_events: int
    file_events: int
    fan_out: int
    cuts: tuple[int, ...]
    """Where one commit ends and the next begins."""
    schema: pa.Schema = SCHEMA

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, schema=self.schema)

    @property
    def has_timestamps(self) -> bool:
        return pa.types.is_timestamp(self.schema.field("t").type)


def repeating_rows(n: int, keys: int = 1) -> list[dict[str, Any]]:
    """Return rows at the times from 0, whose values repeat every few rows."""
    return [
        {"t": t, "a": t % 7, "x": t / 2, "s": f"s{t % 3}", "f": None, "k": t % keys}
        for t in range(n)
    ]


SEEDS = st.integers(0, 2**32 - 1)


def seeded(make: Callable[..., T]) -> Callable[..., st.SearchStrategy[T]]:
    """Return a strategy of what a seeded generator makes.

    To draw a stream or a query value by value takes longer than to answer the query.
    """

    @wraps(make)
    def strategy(*given: Any, **named: Any) -> st.SearchStrategy[T]:
        return SEEDS.map(lambda seed: make(Random(seed), *given, **named))

    return strategy


def nullable(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, strategy, strategy, st.none())


def a_schema(choose: Random) -> pa.Schema:
    """Columns of any width and in any order, and now and then one that no query names."""
    times = (pa.int64(), pa.int64(), pa.int16(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
    types = {
        "t": choose.choice(times),
        "a": choose.choice((pa.int8(), pa.int32(), pa.int64())),
        "x": choose.choice((pa.float32(), pa.float64())),
        "s": pa.string(),
        "f": pa.bool_(),
        "k": choose.choice((pa.int16(), pa.int64())),
    }
    if choose.random() < 0.5:
        types["unused"] = choose.choice((pa.binary(), pa.decimal128(9, 2), pa.date32()))
    return pa.schema(choose.sample(tuple(types.items()), len(types)))


def a_stream(choose: Random, rows_max: int = 48) -> SmallStream:
    """Bursts and pauses: most steps in time are 0 or 1, a few are long."""
    schema = a_schema(choose)
    unit = SECOND if pa.types.is_timestamp(schema.field("t").type) else 1
    n_rows = choose.choice((0, 1, *[choose.randint(0, rows_max)] * 8))
    t = choose.randint(-5, 5)
    rows = []
    for _ in range(n_rows):
        t += choose.choice((0, 0, 1, 1, 2, 3, 20))
        row: dict[str, Any] = {
            "a": choose.randint(0, 5),
            "x": choose.choice(DOUBLES),
            "s": choose.choice(STRINGS),
            "f": choose.random() < 0.5,
            "k": choose.randint(0, 2),
        }
        missing = {name: None for name in row if choose.random() < 0.2}
        rows.append({"t": t * unit, **row, **missing})
    return SmallStream(
        rows,
        block_events=choose.randint(1, 5),
        file_events=choose.choice((5, 12, 1000)),
        fan_out=choose.randint(2, 3),
        cuts=tuple(sorted(choose.randint(0, n_rows) for _ in range(choose.randint(0, 2)))),
        schema=schema,
    )


streams = seeded(a_stream)


@seeded
def cases(choose: Random) -> tuple[SmallStream, str]:
    """A stream and a query that fits its time column."""
    stream = a_stream(choose)
    return stream, a_query(choose, timestamps=stream.has_timestamps)


# ---------------------------------------------------------------------------------------------
# Queries, as text. Only what the language of this version has.


def _constant_atom(choose: Random, symbol: str) -> str:
    """Return a condition on the current event alone, most of which give a range."""
    column, op = (
        choose.choice(("a", f"{symbol}.a")),
        choose.choice(("=", "<>", "<", "<=", ">", ">=")),
    )
    small, other = choose.randint(-1, 6), choose.randint(-1, 6)
    half, half_too = (choose.choice(("-1.5", "0.0", "0.5", "1", "2.5", "3")) for _ in range(2))
    text, text_too = choose.choice(STRINGS), choose.choice(STRINGS)
    special = (
        *("f", "NOT f", "f = TRUE", "s LIKE 'a%'", "s LIKE '%b'", "x IS NULL", "a IS NOT NULL"),
        *("a + 1 > 2", "x * 2 <= 3", "10 / a > 3", "a % 2 = 0", "COALESCE(a, 9) > 4"),
        "CASE WHEN a > 2 THEN f ELSE x > 0 END",
    )
    return choose.choice(
        (
            f"{column} {op} {small}",
            f"{small} {op} {column}",
            f"{symbol}.x {op} {half}",
            f"a {op} {half}",
            f"{symbol}.s {op} '{text}'",
            f"a BETWEEN {small} AND {other}",
            f"x NOT BETWEEN {half} AND {half_too}",
            f"s IN ('{text}', '{text_too}')",
            f"a NOT IN ({small}, {other})",
            choose.choice(special),
        )
    )


NAVIGATION = (
    *("a > PREV(a)", "{s}.x >= PREV({s}.x)", "NEXT(a) = a", "PREV(s, 2) IS NULL"),
    *("PREV(a) IS NULL", "NEXT(x) IS NULL"),
)
ACROSS = (
    *("{s}.a = {o}.a", "{s}.x > {o}.x", "{s}.s = {o}.s", "{s}.s <> {o}.s", "{s}.a + {o}.a > 4"),
    *("{o}.a IS NULL", "{s}.a >= FIRST({s}.a)", "{s}.a >= FIRST({o}.a)", "a <> FIRST(a)"),
    *("({o}.x IS NULL OR {s}.x <> {o}.x)", "{s}.t - {o}.t <= {two}"),
)


def _lasting(steps: int, *, timestamps: bool) -> str:
    """Return a length of time as the time column's type has it."""
    return f"INTERVAL '{steps}' SECOND" if timestamps else str(steps)


def _combined(choose: Random, atom: Callable[[], str], depth: int = 2) -> str:
    """Return conditions joined by AND, OR and NOT."""
    if depth == 0 or choose.random() < 0.55:
        return atom()
    inner = _combined(choose, atom, depth - 1)
    if choose.random() < 0.3:
        return f"NOT ({inner})"
    return f"({inner}) {choose.choice(('AND', 'OR'))} ({_combined(choose, atom, depth - 1)})"


def constant_condition(choose: Random, symbol: str) -> str:
    """Return conditions on one event alone, joined by AND, OR and NOT."""
    return _combined(choose, lambda: _constant_atom(choose, symbol))


def _condition(
    choose: Random, symbol: str, others: tuple[str, ...], *, navigation: bool, timestamps: bool
) -> str:
    def atom() -> str:
        kind = choose.choice(("constant", "constant", "constant", "across", "navigation"))
        if kind == "constant" or (kind == "navigation" and not navigation):
            return _constant_atom(choose, symbol)
        form = choose.choice(ACROSS if kind == "across" else NAVIGATION)
        two = _lasting(2, timestamps=timestamps)
        return form.format(s=symbol, o=choose.choice(others), two=two)

    return _combined(choose, atom)


QUANTIFIERS = ("*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "*?", "+?", "??", "{1,3}?")


def _pattern(choose: Random, symbols: tuple[str, ...], leaves: int) -> str:
    if leaves == 1:
        return choose.choice(symbols)
    if choose.random() < 0.35:
        return f"({_pattern(choose, symbols, leaves - 1)}){choose.choice(QUANTIFIERS)}"
    first = choose.randint(1, leaves - 1)
    parts = (_pattern(choose, symbols, n) for n in (first, leaves - first))
    return f"({choose.choice((' ', ' ', ' | ')).join(parts)})"


def a_query(choose: Random, *, timestamps: bool = False) -> str:
    """Return a query over columns as `a_schema` has them; Z is true for every event.

    Most have gaps, the thesis' shape: what replay intervals are made for.
    """
    symbols = ("A", "B", "C")
    pattern = _pattern(choose, (*symbols, "Z"), choose.randint(1, 5))
    if choose.random() < 0.67:
        gaps = ("", "", "Z*", "Z*?", "Z?", "Z{,3}")
        parts = range(choose.randint(2, 4))
        pattern = " ".join(f"{choose.choice(symbols)} {choose.choice(gaps)}" for _ in parts)
    used = tuple(name for name in symbols if name in pattern)
    partition = choose.choice(("", "", "PARTITION BY k", "PARTITION BY s, k"))
    defines = []
    for symbol in used:
        others = tuple(name for name in used if name != symbol) or used
        navigation = not partition or choose.random() < 0.5
        how = {"navigation": navigation, "timestamps": timestamps}
        defines.append(f"{symbol} AS {_condition(choose, symbol, others, **how)}")
    steps = choose.choice((None, 0, 3, 3, 10))
    within = "" if steps is None else f"WITHIN {_lasting(steps, timestamps=timestamps)}"
    skip = choose.choice(("", "AFTER MATCH SKIP TO NEXT ROW"))
    first = used[0] if used else "Z"
    measures = [
        f"FIRST({first}.a) AS m1",
        "LAST(t) AS m2",
        "CLASSIFIER() AS m3",
        "MATCH_NUMBER() AS m4",
        f"{first}.x AS m5",
        "FIRST(t) AS m6",
        f"LAST(t) - FIRST(t){'' if timestamps else f' + {first}.a'} AS m7",
        f"{first}.s AS m8",
    ]
    if choose.random() < 0.3:
        measures += [f"ARRAY_AGG({first}.x) FILTER (WHERE {first}.a > 1) AS m9", "m7 AS m10"]
    text = (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES {', '.join(measures)} "
        f"ONE ROW PER MATCH {skip} PATTERN ({pattern}) {within}"
    )
    return text + (f" DEFINE {', '.join(defines)})" if defines else ")")


queries = seeded(a_query)


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
