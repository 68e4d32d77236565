"""Bound queries built by hand and at random, and the way through the matcher, for the tests."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from replay.expressions.scalars import Faults
from replay.language.bound import (
    CURRENT,
    Aggregate,
    Anchor,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Call,
    DataType,
    Expression,
    Literal,
    Measure,
    Pattern,
    RowsPerMatch,
    SkipMode,
    SymbolSet,
)
from replay.operators.packing import pack, unpack
from replay.patterns.matcher import PatternMatcher
from replay.patterns.matches import Matches
from replay.patterns.measures import Fetch, answer_parts
from replay.patterns.program import MatchProgram, compile_program

BOOL, INT, DOUBLE, STRING = DataType.BOOLEAN, DataType.INTEGER, DataType.DOUBLE, DataType.STRING

ARROW = pa.schema(
    [
        ("t", pa.int64()),
        ("i", pa.int64()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("p", pa.int8()),
    ]
)
TYPES = {"i": INT, "d": DOUBLE, "s": STRING}


def call(op: str, *args: Expression, to: DataType = BOOL) -> Call:
    return Call(op, args, to)


def lit(value: Any) -> Literal:
    return Literal(value, {bool: BOOL, int: INT, float: DOUBLE, str: STRING}[type(value)])


def attr(name: str, anchor: Anchor = CURRENT, offset: int = 0) -> Attribute:
    return Attribute(name, TYPES.get(name, INT), anchor, offset)


def first(symbol: int | None) -> Anchor:
    return Anchor(AnchorKind.FIRST, None if symbol is None else (symbol,))


def last(symbol: int | None) -> Anchor:
    return Anchor(AnchorKind.LAST, None if symbol is None else (symbol,))


def total(
    function: str, argument: Expression | None, symbols: SymbolSet, of: DataType = INT
) -> Aggregate:
    return Aggregate(function, argument, symbols, of)


def query(
    pattern: Pattern,
    defines: list[Expression | None],
    *,
    measures: list[Expression] | None = None,
    within: int | None = None,
    skip: SkipMode = SkipMode.PAST_LAST_ROW,
    partition_by: tuple[str, ...] = (),
    limit: int | None = None,
    skip_to: SymbolSet = None,
    rows_per_match: RowsPerMatch = RowsPerMatch.ONE,
) -> BoundPatternQuery:
    named = [Measure(f"m{k}", e) for k, e in enumerate(measures or [])]
    outputs = [*partition_by, *(m.name for m in named)]
    return BoundPatternQuery(
        stream="s",
        time="t",
        time_type=INT,
        partition_by=partition_by,
        symbols=tuple("ABCDEFGH"[: len(defines)]),
        pattern=pattern,
        defines=tuple(defines),
        within=within,
        skip=skip,
        measures=tuple(named),
        output=tuple((name, name) for name in outputs),
        limit=limit,
        skip_to=skip_to,
        rows_per_match=rows_per_match,
    )


def measured(
    bound: BoundPatternQuery,
    program: MatchProgram,
    matches: Matches,
    fetch: Fetch,
    *,
    n_events: int,
    faults: Faults | None = None,
) -> pa.Table:
    """Return the answer for matches."""
    counted = Faults() if faults is None else faults
    parts = answer_parts(bound, program, matches, fetch, n_events=n_events, faults=counted)
    return pa.concat_tables(parts)


def run(
    bound: BoundPatternQuery,
    table: pa.Table,
    cuts: list[int] | None = None,
    *,
    resume: bool = False,
) -> tuple[list[dict[str, Any]], PatternMatcher]:
    """Answer a query by pushing the table cut at ``cuts``; taking after every push.

    With ``resume`` another matcher goes on from a snapshot after every push, before it is taken.
    """
    program = compile_program(bound)
    matcher = PatternMatcher(program)
    edges = [0, *sorted(cuts or []), table.num_rows]
    taken = []
    for low, high in pairwise(edges):
        before = min(program.rows_before, low)
        after = min(program.rows_after, table.num_rows - high)
        part = table.slice(low - before, high - low + before + after)
        matcher.push(program.prepare(part, before=before, after=after), low)
        if resume:
            state = unpack(pack(matcher.state()))
            matcher = PatternMatcher(program)
            matcher.take_over(state)
        taken.append(matcher.take())
    matcher.finish()
    taken.append(matcher.take())

    def fetch(columns: list[str], seqs: np.ndarray) -> pa.Table:
        assert (np.diff(seqs) > 0).all()
        return table.select(columns).take(pa.array(seqs))

    rows = []
    for matches in taken:
        answer = measured(bound, program, matches, fetch, n_events=table.num_rows)
        rows += answer.to_pylist()
    return rows, matcher


def canonical(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make rows comparable: NaN equal to itself, 0.0 told from False and 0."""
    return [{name: repr(value) for name, value in row.items()} for row in rows]


# ---------------------------------------------------------------------------------------------
# At random.

SMALL_INTS = st.sampled_from([None, -2, -1, 0, 0, 1, 1, 2, 2, 3])
DOUBLES = st.one_of(st.none(), st.sampled_from([float("nan"), -1.0, 0.0, 0.5, 1.0, 2.0]))
STRINGS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab"]))


@st.composite
def rows(draw: st.DrawFn, max_size: int = 14) -> list[dict[str, Any]]:
    """Rows in time order, with ties, bursts, nulls and NaN."""
    n = draw(st.sampled_from([0, 1, max_size // 2, max_size - 1, max_size]))
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2, 7]), min_size=n, max_size=n))
    times = np.cumsum(gaps).tolist()
    return [
        {
            "t": t,
            "i": draw(SMALL_INTS),
            "d": draw(DOUBLES),
            "s": draw(STRINGS),
            "p": draw(st.sampled_from([None, 0, 1])),
        }
        for t in times
    ]


def to_table(of: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(of, schema=ARROW)


@st.composite
def numbers(draw: st.DrawFn, anchors: list[Anchor], of: DataType, depth: int = 2) -> Expression:
    """Draw an INTEGER or DOUBLE expression."""
    kind = draw(st.integers(0, 7 if depth else 1))
    if kind == 0:
        value = draw(st.integers(-2, 3))
        return Literal(value if of is INT else value / 2, of)
    if kind <= 2 or depth == 0:
        name = "i" if of is INT else "d"
        offset = draw(st.sampled_from([0, 0, 0, -1, 1, -2]))
        return Attribute(name, of, draw(st.sampled_from(anchors)), offset)
    inner = numbers(anchors, of, depth - 1)
    if kind == 3:
        return Call(draw(st.sampled_from("+-*/%")), (draw(inner), draw(inner)), of)
    if kind == 4:
        return Call(draw(st.sampled_from(["neg", "abs"])), (draw(inner),), of)
    if kind == 5:
        return Call("coalesce", (draw(inner), draw(inner)), of)
    if kind == 6:
        test = draw(conditions(anchors, depth - 1))
        return Call("case", (test, draw(inner), draw(inner)), of)
    other = DOUBLE if of is INT else INT
    return Call("cast", (draw(numbers(anchors, other, depth - 1)),), of)


@st.composite
def conditions(draw: st.DrawFn, anchors: list[Anchor], depth: int = 2) -> Expression:
    """Draw a BOOLEAN expression."""
    kind = draw(st.integers(0, 6 if depth else 2))
    if kind <= 1:
        of = draw(st.sampled_from([INT, DOUBLE]))
        op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
        return call(op, draw(numbers(anchors, of, depth)), draw(numbers(anchors, of, depth)))
    if kind == 2:
        op = draw(st.sampled_from(["=", "<>"]))
        left = attr("s", draw(st.sampled_from(anchors)))
        literal = draw(st.booleans())
        other = draw(st.sampled_from(["a", "b", "zz"]))
        return call(op, left, lit(other) if literal else attr("s", draw(st.sampled_from(anchors))))
    inner = conditions(anchors, depth - 1)
    if kind == 3:
        return call("not", draw(inner))
    if kind == 4:
        return call(
            "is_null", draw(numbers(anchors, draw(st.sampled_from([INT, DOUBLE])), depth - 1))
        )
    parts = draw(st.lists(inner, min_size=2, max_size=3))
    return call("and" if kind == 5 else "or", *parts)
