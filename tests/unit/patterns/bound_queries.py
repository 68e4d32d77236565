"""Bound queries built by hand, and the way through the matcher, for the tests."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

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
    bound: BoundPatternQuery, table: pa.Table, cuts: tuple[int, ...] = ()
) -> list[dict[str, Any]]:
    """Answer a query by pushing the table cut at ``cuts``, taking after every push."""
    program = compile_program(bound)
    matcher = PatternMatcher(program)
    taken = []
    for low, high in pairwise([0, *cuts, table.num_rows]):
        matcher.push(program.prepare(table.slice(low, high - low)), low)
        taken.append(matcher.take())
    matcher.finish()
    taken.append(matcher.take())

    def fetch(columns: list[str], seqs: np.ndarray) -> pa.Table:
        return table.select(columns).take(pa.array(seqs))

    n_events = table.num_rows
    answers = [measured(bound, program, found, fetch, n_events=n_events) for found in taken]
    return pa.concat_tables(answers).to_pylist()


def letters(text: str, **more: object) -> pa.Table:
    """Return a row for each letter."""
    return pa.table({"t": range(len(text)), "s": list(text), "i": [0] * len(text), **more})


def is_letter(letter: str) -> Call:
    return call("=", attr("s"), lit(letter))


def to_table(of: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(of, schema=ARROW)
