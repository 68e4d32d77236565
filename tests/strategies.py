"""Hypothesis strategies for whole streams and whole queries, small and nasty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

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


def nullable(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, strategy, strategy, st.none())


@st.composite
def schemas(draw: st.DrawFn) -> pa.Schema:
    """Columns of any width and in any order, and now and then one that no query names."""
    times = (pa.int64(), pa.int64(), pa.int16(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
    types = {
        "t": draw(st.sampled_from(times)),
        "a": draw(st.sampled_from((pa.int8(), pa.int32(), pa.int64()))),
        "x": draw(st.sampled_from((pa.float32(), pa.float64()))),
        "s": pa.string(),
        "f": pa.bool_(),
        "k": draw(st.sampled_from((pa.int16(), pa.int64()))),
    }
    if draw(st.booleans()):
        types["unused"] = draw(st.sampled_from((pa.binary(), pa.decimal128(9, 2), pa.date32())))
    return pa.schema([(name, types[name]) for name in draw(st.permutations(list(types)))])


@st.composite
def streams(draw: st.DrawFn, rows_max: int = 48) -> SmallStream:
    """Bursts and pauses: most steps in time are 0 or 1, a few are long."""
    schema = draw(schemas())
    unit = SECOND if pa.types.is_timestamp(schema.field("t").type) else 1
    n_rows = draw(st.integers(0, rows_max))
    # By a seed: to draw a row value by value takes longer than to answer a query on it.
    choose = Random(draw(st.integers(0, 2**32 - 1)))
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
    cuts = draw(st.lists(st.integers(0, n_rows), max_size=2))
    return SmallStream(
        rows,
        block_events=draw(st.integers(1, 5)),
        file_events=draw(st.sampled_from((5, 12, 1000))),
        fan_out=draw(st.integers(2, 3)),
        cuts=tuple(sorted(cuts)),
        schema=schema,
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[SmallStream, str]:
    """A stream and a query that fits its time column."""
    stream = draw(streams())
    return stream, draw(queries(timestamps=stream.has_timestamps))


# ---------------------------------------------------------------------------------------------
# Queries, as text. Only what the language of this version has.


def _constant_atoms(symbol: str) -> st.SearchStrategy[str]:
    """Conditions on the current event alone, most of which give a range."""
    column = st.sampled_from(("a", f"{symbol}.a"))
    comparison = st.sampled_from(("=", "<>", "<", "<=", ">", ">="))
    small = st.integers(-1, 6)
    half = st.sampled_from(("-1.5", "0.0", "0.5", "1", "2.5", "3"))
    text = st.sampled_from(STRINGS).map(lambda s: f"'{s}'")
    return st.one_of(
        st.builds(lambda c, o, v: f"{c} {o} {v}", column, comparison, small),
        st.builds(lambda c, o, v: f"{v} {o} {c}", column, comparison, small),
        st.builds(lambda o, v: f"{symbol}.x {o} {v}", comparison, half),
        st.builds(lambda o, v: f"a {o} {v}", comparison, half),
        st.builds(lambda o, v: f"{symbol}.s {o} {v}", comparison, text),
        st.builds(lambda lo, hi: f"a BETWEEN {lo} AND {hi}", small, small),
        st.builds(lambda lo, hi: f"x NOT BETWEEN {lo} AND {hi}", half, half),
        st.builds(lambda u, v: f"s IN ({u}, {v})", text, text),
        st.builds(lambda u, v: f"a NOT IN ({u}, {v})", small, small),
        st.sampled_from(
            (
                "f",
                "NOT f",
                "f = TRUE",
                "s LIKE 'a%'",
                "s LIKE '%b'",
                "x IS NULL",
                "a IS NOT NULL",
                "a + 1 > 2",
                "x * 2 <= 3",
                "10 / a > 3",
                "a % 2 = 0",
                "CASE WHEN a > 2 THEN f ELSE x > 0 END",
                "COALESCE(a, 9) > 4",
            )
        ),
    )


def _navigation_atoms(symbol: str) -> st.SearchStrategy[str]:
    return st.sampled_from(
        (
            "a > PREV(a)",
            f"{symbol}.x >= PREV({symbol}.x)",
            "NEXT(a) = a",
            "PREV(s, 2) IS NULL",
            "PREV(a) IS NULL",
            "NEXT(x) IS NULL",
        )
    )


def _cross_atoms(
    symbol: str, others: tuple[str, ...], *, timestamps: bool
) -> st.SearchStrategy[str]:
    two = _lasting(2, timestamps=timestamps)
    other = st.sampled_from(others)
    form = st.sampled_from(
        (
            "{s}.a = {o}.a",
            "{s}.x > {o}.x",
            "{s}.s = {o}.s",
            "{s}.s <> {o}.s",
            "{s}.a + {o}.a > 4",
            "{o}.a IS NULL",
            "{s}.a >= FIRST({s}.a)",
            "{s}.a >= FIRST({o}.a)",
            "a <> FIRST(a)",
            "({o}.x IS NULL OR {s}.x <> {o}.x)",
            "{s}.t - {o}.t <= " + two,
        )
    )
    return st.builds(lambda f, o: f.format(s=symbol, o=o), form, other)


def _lasting(steps: int, *, timestamps: bool) -> str:
    """Return a length of time as the time column's type has it."""
    return f"INTERVAL '{steps}' SECOND" if timestamps else str(steps)


def _conditions(
    symbol: str, others: tuple[str, ...], *, navigation: bool, timestamps: bool
) -> st.SearchStrategy[str]:
    constant = _constant_atoms(symbol)
    across = _cross_atoms(symbol, others, timestamps=timestamps)
    choices = [constant, constant, constant, across]
    if navigation:
        choices.append(_navigation_atoms(symbol))
    return st.recursive(
        st.one_of(*choices),
        lambda inner: st.one_of(
            st.builds(lambda u, v: f"({u}) AND ({v})", inner, inner),
            st.builds(lambda u, v: f"({u}) OR ({v})", inner, inner),
            st.builds(lambda u: f"NOT ({u})", inner),
        ),
        max_leaves=3,
    )


QUANTIFIERS = ("*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "*?", "+?", "??", "{1,3}?")


def _patterns(symbols: tuple[str, ...]) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(symbols)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda ps: "(" + " ".join(ps) + ")"),
            st.lists(inner, min_size=2, max_size=2).map(lambda ps: "(" + " | ".join(ps) + ")"),
            st.builds(lambda p, q: f"({p}){q}", inner, st.sampled_from(QUANTIFIERS)),
        ),
        max_leaves=5,
    )


def _gapped(symbols: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Sequences with gaps, the thesis' shape: what replay intervals are made for."""
    gap = st.sampled_from(("", "", "Z*", "Z*?", "Z?", "Z{,3}"))
    part = st.builds(lambda s, g: f"{s} {g}", st.sampled_from(symbols), gap)
    return st.lists(part, min_size=2, max_size=4).map(" ".join)


@st.composite
def queries(draw: st.DrawFn, *, timestamps: bool = False) -> str:
    """A query over columns as ``schemas`` has them; Z is true for every event."""
    symbols = ("A", "B", "C")
    pattern = draw(st.one_of(_patterns((*symbols, "Z")), _gapped(symbols), _gapped(symbols)))
    used = tuple(name for name in symbols if name in pattern)
    partition = draw(st.sampled_from(("", "", "PARTITION BY k", "PARTITION BY s, k")))
    defines = []
    for symbol in used:
        others = tuple(name for name in used if name != symbol) or used
        navigation = not partition or draw(st.booleans())
        condition = draw(_conditions(symbol, others, navigation=navigation, timestamps=timestamps))
        defines.append(f"{symbol} AS {condition}")
    steps = draw(st.sampled_from((None, 0, 3, 3, 10)))
    within = "" if steps is None else f"WITHIN {_lasting(steps, timestamps=timestamps)}"
    skip = draw(st.sampled_from(("", "AFTER MATCH SKIP TO NEXT ROW")))
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
    text = (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES {', '.join(measures)} "
        f"ONE ROW PER MATCH {skip} PATTERN ({pattern}) {within}"
    )
    return text + (f" DEFINE {', '.join(defines)})" if defines else ")")


def constant_conditions(symbol: str) -> st.SearchStrategy[str]:
    """Conditions on one event alone, joined by AND, OR and NOT."""
    return st.recursive(
        _constant_atoms(symbol),
        lambda inner: st.one_of(
            st.builds(lambda u, v: f"({u}) AND ({v})", inner, inner),
            st.builds(lambda u, v: f"({u}) OR ({v})", inner, inner),
            st.builds(lambda u: f"NOT ({u})", inner),
        ),
        max_leaves=3,
    )
