"""Bound queries built by hand and at random, and the way through the matcher, for the tests."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from replay.language.bound import (
    CURRENT,
    Aggregate,
    Alternate,
    Anchor,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Call,
    Classifier,
    Concat,
    DataType,
    Edge,
    EdgeKind,
    Exclusion,
    Expression,
    Literal,
    MatchNumber,
    Measure,
    Negation,
    Pattern,
    Repeat,
    RowsPerMatch,
    SkipMode,
    Symbol,
    SymbolSet,
    pattern_parts,
)
from replay.operators.matcher import PatternMatcher
from replay.operators.measures import evaluate_measures
from replay.operators.program import compile_program

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
            snapshot = matcher.snapshot()
            matcher = PatternMatcher(program)
            matcher.restore(snapshot)
        taken.append(matcher.take())
    matcher.finish()
    taken.append(matcher.take())

    def fetch(columns: list[str], seqs: np.ndarray) -> pa.Table:
        assert (np.diff(seqs) > 0).all()
        return table.select(columns).take(pa.array(seqs))

    rows = []
    for matches in taken:
        answer = evaluate_measures(bound, program, matches, fetch, n_events=table.num_rows)
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


def patterns(n_symbols: int, depth: int = 3, *, rich: bool = False) -> st.SearchStrategy[Pattern]:
    """Draw a pattern; a rich one may have edges, exclusions and negations of a further symbol."""
    symbol: st.SearchStrategy[Pattern] = st.builds(Symbol, st.integers(0, n_symbols - 1))
    if depth == 0:
        return symbol
    inner = patterns(n_symbols, depth - 1, rich=rich)
    bounds = st.sampled_from(
        [(0, None), (1, None), (2, None), (0, 1), (0, 2), (1, 3), (2, 2), (0, 0), (3, 5)]
    )
    repeat = st.builds(lambda body, b, g: Repeat(body, b[0], b[1], g), inner, bounds, st.booleans())
    plain = [
        symbol,
        st.builds(lambda parts: Concat(tuple(parts)), st.lists(inner, max_size=3)),
        st.builds(lambda parts: Alternate(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
        repeat,
    ]
    if not rich:
        return st.one_of(*plain)
    gap = st.builds(
        lambda of, low, greedy, after: Concat(
            (Repeat(of, low, None, greedy), Negation(n_symbols))[:: 1 if after else -1]
        ),
        symbol,
        st.integers(0, 1),
        st.booleans(),
        st.booleans(),
    )
    edge = st.builds(Edge, st.sampled_from(EdgeKind))
    return st.one_of(*plain, *plain, edge, st.builds(Exclusion, inner), gap)


def n_repeats(pattern: Pattern) -> int:
    """Count repetitions; the naive matcher's time is exponential in them."""
    match pattern:
        case Symbol():
            return 0
        case Concat(parts) | Alternate(parts):
            return sum(map(n_repeats, parts))
        case Repeat(body):
            return 1 + n_repeats(body)
        case Exclusion(body):
            return n_repeats(body)
        case Edge() | Negation():
            return 0


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


@st.composite
def reading(draw: st.DrawFn, symbol: int, n_symbols: int) -> Expression:
    """Draw a condition on more of the match than a row each of two symbols."""
    sets: st.SearchStrategy[SymbolSet] = st.one_of(
        st.none(),
        st.integers(0, n_symbols - 1).map(lambda s: (s,)),
        st.sets(st.integers(0, n_symbols - 1), min_size=1).map(lambda s: tuple(sorted(s))),
    )
    anchor = draw(
        st.builds(
            Anchor,
            st.sampled_from([AnchorKind.FIRST, AnchorKind.LAST]),
            sets,
            st.sampled_from([0, 1, 1, 2]),
        )
    )
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    small = lit(draw(st.integers(-1, 3)))
    kind = draw(st.integers(0, 5))
    if kind <= 1:
        return call(op, attr("i"), attr("i", anchor))
    if kind == 2:
        name = draw(st.sampled_from("ABCD"))
        return call(draw(st.sampled_from(["=", "<>"])), Classifier(anchor=anchor), lit(name))
    if kind == 3:
        return call(op, MatchNumber(), small)
    name, of = draw(st.sampled_from([("i", INT), ("d", DOUBLE)]))
    symbols = draw(sets)
    function = draw(st.sampled_from(["count", "sum", "min", "max", "avg", "var_pop"]))
    if function == "count":
        argument = draw(st.sampled_from([None, attr(name), attr("s")]))
        return call(op, total("count", argument, symbols), small)
    if function in ("avg", "var_pop") or of is DOUBLE:
        one = total(function, attr(name), symbols, DOUBLE)
        return call(op, one, lit(draw(st.sampled_from([-0.5, 0.0, 0.5, 1.5]))))
    return call(op, total(function, attr(name), symbols), small)


@st.composite
def rich_queries(draw: st.DrawFn) -> BoundPatternQuery:
    """Draw a query of all that the machine knows."""
    n_symbols = draw(st.integers(1, 3))
    pattern = draw(
        st.lists(patterns(n_symbols, 2, rich=True), min_size=1, max_size=3)
        .map(tuple)
        .map(Concat)
        .filter(lambda p: n_repeats(p) <= 4)
    )
    simple = st.builds(
        lambda op, v: call(op, attr("i"), lit(v)),
        st.sampled_from(["=", "<=", ">="]),
        st.integers(-1, 2),
    )
    defines: list[Expression | None] = []
    for symbol in range(n_symbols):
        across = reading(symbol, n_symbols)
        pair = st.builds(lambda one, two: call("and", one, two), simple, across)
        defines.append(draw(st.one_of(st.none(), simple, across, pair, pair)))
    others = [first(None), *map(first, range(n_symbols)), *map(last, range(n_symbols))]
    related = st.builds(lambda a: call("<=", attr("i"), attr("i", a)), st.sampled_from(others))
    negated = draw(st.one_of(simple, related))
    every = [RowsPerMatch.ONE, RowsPerMatch.ALL_SHOW_EMPTY, RowsPerMatch.ALL_WITH_UNMATCHED]
    excludes = any(isinstance(part, Exclusion) for part in pattern_parts(pattern))
    all_rows = every[:2] if excludes else every
    skip = draw(st.sampled_from(SkipMode))
    target = draw(st.sets(st.integers(0, n_symbols - 1), min_size=1))
    measures: list[Expression] = [
        attr("t", first(None)),
        attr("t", last(None)),
        Classifier(),
        MatchNumber(),
        attr("i", last(0), -1),
        *draw(st.sampled_from([[], [total("count", None, (0,))]])),
    ]
    to = tuple(sorted(target)) if skip in (SkipMode.TO_FIRST, SkipMode.TO_LAST) else None
    return query(
        pattern,
        [*defines, negated],
        measures=measures,
        within=draw(st.sampled_from([None, None, 2, 4, 9])),
        skip=skip,
        skip_to=to,
        partition_by=draw(st.sampled_from([(), (), ("p",)])),
        rows_per_match=draw(st.sampled_from(all_rows)),
    )


@st.composite
def queries(draw: st.DrawFn, *, across: bool = True) -> BoundPatternQuery:
    """Draw a query over the columns of ``rows``."""
    n_symbols = draw(st.integers(1, 4))
    everyone = [first(None)] + [a(s) for s in range(n_symbols) for a in (first, last)]
    defines: list[Expression | None] = []
    for symbol in range(n_symbols):
        own = [CURRENT, CURRENT, CURRENT]
        others = [a for a in everyone if a != last(symbol)]
        anchors = own + (draw(st.lists(st.sampled_from(others), max_size=2)) if across else [])
        simple = st.builds(
            lambda op, v: call(op, attr("i"), lit(v)),
            st.sampled_from(["=", "<=", ">="]),
            st.integers(-1, 2),
        )
        related = st.builds(
            lambda op, a: call(op, attr("i"), attr("i", a)),
            st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
            st.sampled_from(others),
        )
        pair = st.builds(lambda one, two: call("and", one, two), simple, related)
        choices = [st.none(), simple, simple, conditions(anchors)]
        defines.append(draw(st.one_of(*choices, *([related, pair] if across else []))))
    anchors = [*everyone, last(None)]
    measures: list[Expression] = [
        attr("t", first(None)),
        attr("t", last(None)),
        Classifier(),
        MatchNumber(),
        Attribute("i", INT, draw(st.sampled_from(anchors)), draw(st.sampled_from([0, 0, -1, 1]))),
        draw(numbers(anchors, DOUBLE, 1)),
        attr("s", draw(st.sampled_from(anchors))),
    ]
    parts = st.lists(patterns(n_symbols, 2), min_size=1, max_size=4)
    pattern = draw(parts.map(tuple).map(Concat).filter(lambda p: n_repeats(p) <= 4))
    return query(
        pattern,
        defines,
        measures=measures,
        within=draw(st.sampled_from([None, None, 0, 2, 4, 9])),
        skip=draw(st.sampled_from([SkipMode.PAST_LAST_ROW, SkipMode.TO_NEXT_ROW])),
        partition_by=draw(st.sampled_from([(), (), ("p",), ("p", "s")])),
    )
