"""Small streams for planning tests: rows, their summaries as planning sees them, and queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from costmodel.parameters import DEFAULT_PARAMETERS
from indexing.composite import Composite, to_composite_column
from indexing.key_range import KeyRanges
from indexing.keys import KeyKind, key_kind
from replay.language.bound import (
    Alternate,
    Anchor,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Call,
    Concat,
    DataType,
    Expression,
    Literal,
    Negation,
    Pattern,
    Repeat,
    Semantics,
    SkipMode,
    Symbol,
)
from replay.planning.key_join import tells_keys
from replay.planning.key_spans import KeySpans
from replay.planning.plan import Occurrences, Plan, Slot
from replay.planning.row_spans import RowSpans
from tests.oracles.index import admits

INT, BOOL = DataType.INTEGER, DataType.BOOLEAN


def attribute(name: str, type_: DataType = INT) -> Attribute:
    return Attribute(name, type_)


def last_of(symbol: int, name: str, type_: DataType = INT) -> Attribute:
    return Attribute(name, type_, Anchor(AnchorKind.LAST, (symbol,)))


def compare(op: str, left: Expression | str, right: Expression | int) -> Call:
    left = attribute(left) if isinstance(left, str) else left
    right = Literal(right, INT) if isinstance(right, int) else right
    return Call(op, (left, right), BOOL)


def both(*arguments: Expression) -> Call:
    return Call("and", arguments, BOOL)


def either(*arguments: Expression) -> Call:
    return Call("or", arguments, BOOL)


def negated(argument: Expression) -> Call:
    return Call("not", (argument,), BOOL)


def seq(*parts: Pattern) -> Concat:
    return Concat(parts)


def star(part: Pattern) -> Repeat:
    return Repeat(part, 0, None)


def query_of(
    pattern: Pattern,
    defines: Sequence[Expression | None],
    *,
    within: int | None = None,
    partition_by: tuple[str, ...] = (),
    names: str = "ABCDEFGH",
    semantics: Semantics = Semantics.SQL,
) -> BoundPatternQuery:
    return BoundPatternQuery(
        stream="s",
        time="t",
        time_type=INT,
        partition_by=partition_by,
        symbols=tuple(names[: len(defines)]),
        pattern=pattern,
        defines=tuple(defines),
        within=within,
        skip=SkipMode.PAST_LAST_ROW,
        measures=(),
        output=(),
        semantics=semantics,
    )


@dataclass(frozen=True)
class SmallLeaves:
    count: np.ndarray
    base: np.ndarray
    t_min: np.ndarray
    t_max: np.ndarray
    gap_min: np.ndarray


@dataclass(frozen=True, eq=False)
class SmallBounds:
    minimum: pa.Array
    maximum: pa.Array
    n_values: np.ndarray
    known: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


def moments_of(values: Sequence[Sequence[Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of each block's values; NaN without any, and of words."""
    numbers = [[] if any(isinstance(v, str) for v in block) else list(block) for block in values]
    with np.errstate(all="ignore"):  # of infinite values
        means = [np.mean(block) if block else np.nan for block in numbers]
        variances = [np.var(block) if block else np.nan for block in numbers]
    return np.array(means, dtype=np.float64), np.array(variances, dtype=np.float64)


def is_in(ranges: KeyRanges, value: Any) -> bool:
    """Return whether a value lies in the ranges; what is missing lies in none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return False
    return any(admits(r, value) for r in ranges.ranges)


class SmallStatistics:
    """Summaries of rows in blocks of given sizes; every count is exact."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        block_events: int | Sequence[int],
        indexed: Sequence[str] = (),
        *,
        unknown_blocks: Sequence[int] = (),
        key: str | None = None,
        derived: Sequence[str] = (),
        composites: Sequence[Sequence[str]] = (),
    ) -> None:
        self.rows = rows
        times = [row["t"] for row in rows]
        if isinstance(block_events, int):
            borders = [*range(0, len(rows), block_events), len(rows)]
        else:
            borders = [0, *np.cumsum(block_events).tolist()]
        self.blocks = [(a, b) for a, b in pairwise(borders) if a < b]
        self.n_events = len(rows)
        self.n_blocks = len(self.blocks)
        self.leaves = SmallLeaves(
            np.array([b - a for a, b in self.blocks], dtype=np.int64),
            np.array([*(a for a, _ in self.blocks), len(rows)], dtype=np.int64),
            np.array([times[a] for a, _ in self.blocks], dtype=np.int64),
            np.array([times[b - 1] for _, b in self.blocks], dtype=np.int64),
            np.array([min(np.diff(times[a:b]), default=-1) for a, b in self.blocks], np.int64),
        )
        self.composites = {"+".join(parts): self._kinds(parts) for parts in composites}
        self.indexed = frozenset((*indexed, *self.composites))
        self.texts = frozenset(
            name for name in (rows[0] if rows else ()) if isinstance(rows[0][name], str)
        )
        self.key = key
        self.n_keys = 1.0 if key is None else float(max(1, len({row[key] for row in rows})))
        self.derived = frozenset(derived)
        self.parameters = DEFAULT_PARAMETERS
        self._unknown = np.array([i in unknown_blocks for i in range(self.n_blocks)], dtype=bool)

    def _kinds(self, parts: Sequence[str]) -> tuple[tuple[str, KeyKind], ...]:
        columns = [self._column(part) for part in parts]
        return tuple(
            (part, key_kind(column.type, part)) for part, column in zip(parts, columns, strict=True)
        )

    def _column(self, name: str) -> pa.Array:
        column = pa.array([row[name] for row in self.rows])
        return column.cast(pa.int64()) if pa.types.is_null(column.type) else column

    def _keys(self, name: str) -> list[Any]:
        """Return what an index of that name holds of each row; None: nothing."""
        if name not in self.composites:
            return [row[name] for row in self.rows]
        parts = tuple(part for part, _ in self.composites[name])
        table = pa.table({part: self._column(part) for part in parts})
        return to_composite_column(table, Composite(parts)).to_pylist()

    def bounds(self, name: str) -> SmallBounds:
        everything = KeyRanges.everything()
        values = [
            [int(v) if isinstance(v, bool) else v for v in column if is_in(everything, v)]
            for column in ([row[name] for row in self.rows[a:b]] for a, b in self.blocks)
        ]
        known = any(values)
        type_ = pa.array([v for block in values for v in block]).type if known else pa.int64()
        return SmallBounds(
            pa.array([min(block, default=None) for block in values], type_),
            pa.array([max(block, default=None) for block in values], type_),
            np.array([len(block) for block in values], dtype=np.int64),
            ~self._unknown,
            *moments_of(values),
        )

    def estimate_count(
        self, name: str, ranges: KeyRanges, *, within: np.ndarray | None = None
    ) -> tuple[int, int]:
        n = len(self.occurrences(name, ranges).seq)
        return n, n

    def holds_key(self, name: str) -> bool:
        return self.key is not None

    def occurrences(self, name: str, ranges: KeyRanges, *, with_keys: bool = False) -> Occurrences:
        found = [i for i, key in enumerate(self._keys(name)) if is_in(ranges, key)]
        seqs = np.array(found, dtype=np.int64)
        times = np.array([self.rows[i]["t"] for i in found], dtype=np.int64)
        if not with_keys:
            return Occurrences(seqs, times)
        numbers = {value: n for n, value in enumerate({row[self.key]: 0 for row in self.rows})}
        keys = [numbers[self.rows[i][self.key]] for i in found]
        return Occurrences(seqs, times, np.array(keys, dtype=np.int64))

    def look_up(self, plan: Plan) -> dict[Slot, Occurrences]:
        """Return what an engine would find for a plan, with keys where all of a match agree."""
        with_keys = tells_keys(plan.required, self.key)
        return {
            c.slot: self.occurrences(c.attribute, c.ranges, with_keys=with_keys)
            for c in plan.conditions
        }


@st.composite
def patterns(
    draw: st.DrawFn, n_symbols: int, depth: int = 2, *, negated: int | None = None
) -> Pattern:
    """Patterns of any shape, with negations of the symbol ``negated`` anywhere if one is given."""
    kinds = ["symbol"] if depth == 0 else ["symbol", "symbol", "concat", "repeat", "alternate"]
    kind = draw(st.sampled_from(kinds if negated is None else [*kinds, "negation"]))
    below = patterns(n_symbols, depth - 1, negated=negated)
    if kind == "negation":
        return Negation(negated)
    if kind == "symbol":
        return Symbol(draw(st.integers(0, n_symbols - 1)))
    if kind == "concat":
        return Concat(tuple(draw(st.lists(below, min_size=0, max_size=3))))
    if kind == "alternate":
        return Alternate(tuple(draw(st.lists(below, min_size=1, max_size=3))))
    low = draw(st.integers(0, 2))
    high = draw(st.one_of(st.none(), st.integers(low, 3)))
    return Repeat(draw(below), low, high, draw(st.booleans()))


@st.composite
def chain_queries(draw: st.DrawFn) -> BoundPatternQuery:
    """Queries with two to four symbols in a row that all bound an attribute, and gaps between.

    Gaps are of one symbol, of several, of a group, or of anything; at the ends there may be some.
    """
    fills = (Symbol(3), Symbol(3), Symbol(2), Alternate((Symbol(3), Symbol(0))), Symbol(4))
    parts: list[Pattern] = []
    n_symbols = draw(st.integers(2, 4))
    for n in range(n_symbols + 1):
        is_inner = 0 < n < n_symbols
        if draw(st.integers(0, 3)) < (3 if is_inner else 1):
            fill = draw(st.sampled_from((*fills, seq(Symbol(3), Symbol(2)))))
            low = draw(st.sampled_from((0, 0, 1, 2)))
            parts.append(Repeat(fill, low, draw(st.sampled_from((None, None, low + 1)))))
        if n < n_symbols:
            parts.append(Symbol(draw(st.integers(0, 2))))
    simple = [
        compare(draw(st.sampled_from(("=", "<>", "<=", ">="))), draw(st.sampled_from("ab")), n)
        for n in draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
    ]
    return query_of(
        seq(*parts),
        [*simple, None],
        within=draw(st.none() | st.integers(0, 15)),
        partition_by=draw(st.sampled_from([(), (), ("k",), ("b", "k")])),
        semantics=draw(st.sampled_from([Semantics.SQL, *Semantics])),
    )


@st.composite
def strategy_queries(draw: st.DrawFn) -> BoundPatternQuery:
    """Queries of any semantics with common symbols, and often a negation at an end."""
    inner = patterns(3, 1, negated=3)
    parts = [Symbol(draw(st.integers(0, 2))), *draw(st.lists(inner, max_size=2))]
    if draw(st.booleans()):
        parts.insert(0, Negation(3))
    if draw(st.booleans()):
        parts.append(Negation(3))
    simple = [compare("=", "a", 0), compare("<=", "b", 2), compare(">=", "a", 1)]
    defines = [draw(st.sampled_from([condition, None])) for condition in simple]
    return query_of(
        seq(*parts),
        [*defines, compare("=", "a", 3)],
        within=draw(st.integers(0, 12)),
        partition_by=draw(st.sampled_from([(), ("k",)])),
        semantics=draw(st.sampled_from(Semantics)),
    )


@st.composite
def conditions(draw: st.DrawFn, n_symbols: int = 0, depth: int = 2) -> Expression:
    """Conditions over the integer attributes a and b, also against other symbols' events."""
    kinds = ["atom", "atom"] if depth == 0 else ["atom", "atom", "and", "or", "not"]
    kind = draw(st.sampled_from(kinds))
    if kind in ("and", "or"):
        below = conditions(n_symbols, depth - 1)
        return Call(kind, tuple(draw(st.lists(below, min_size=2, max_size=3))), BOOL)
    if kind == "not":
        return negated(draw(conditions(n_symbols, depth - 1)))
    op = draw(st.sampled_from(("=", "=", "<>", "<", "<=", ">", ">=")))
    left: Expression = attribute(draw(st.sampled_from("ab")))
    right: Expression = Literal(draw(st.one_of(st.integers(-1, 4), st.none())), INT)
    if n_symbols and draw(st.booleans()):
        right = last_of(draw(st.integers(0, n_symbols - 1)), draw(st.sampled_from("ab")))
    return Call(op, (left, right) if draw(st.booleans()) else (right, left), BOOL)


@st.composite
def rows(draw: st.DrawFn, n_max: int = 14, n_min: int = 0) -> list[dict[str, Any]]:
    """Rows in time order with ties and pauses; a, b and key k have few values, some missing."""
    value = st.one_of(st.integers(0, 3), st.integers(0, 3), st.none())
    key = st.sampled_from((0, 1, 1, None))
    t, made = draw(st.integers(-3, 3)), []
    for _ in range(draw(st.integers(n_min, n_max))):
        t += draw(st.sampled_from((0, 0, 1, 1, 2, 9)))
        made.append({"t": t, "a": draw(value), "b": draw(value), "k": draw(key)})
    return made


def contains(blocks: np.ndarray, statistics: SmallStatistics, first: int, last: int) -> bool:
    """Return whether the events from ``first`` to ``last`` lie within one range of blocks."""
    base = statistics.leaves.base
    return any(base[a] <= first and last < base[b] for a, b in blocks.tolist())


def inside(spans: KeySpans, statistics: SmallStatistics) -> np.ndarray:
    """Return which rows lie in a span of their key."""
    key_of = [row[statistics.key] for row in statistics.rows]
    numbers = {key_of[seq]: number for number, seq in enumerate(spans.examples.tolist())}
    assert len(numbers) == len(spans.examples)
    seqs = np.arange(statistics.n_events)
    at = np.array([row["t"] for row in statistics.rows]) if spans.by_time else seqs
    return spans.contain(np.array([numbers.get(key, -1) for key in key_of]), at)


def lies_in_a_span(
    spans: KeySpans | None,
    query: BoundPatternQuery,
    statistics: SmallStatistics,
    row: int,
    rows_at: tuple[int, int],
) -> bool:
    """Return whether the rows of a row's partition from one row to another lie in a span."""
    if spans is None:
        return True
    of = [tuple(row[name] for name in query.partition_by) for row in statistics.rows]
    same = [i for i in range(rows_at[0], rows_at[1] + 1) if of[i] == of[row]]
    return bool(inside(spans, statistics)[same].all())


def lies_in_a_run(
    spans: RowSpans | None, statistics: SmallStatistics, rows_at: tuple[int, int]
) -> bool:
    """Return whether all rows from one to another are left by replay intervals, as one run."""
    if spans is None:
        return True
    whole = np.array([0]), np.array([statistics.n_events]), np.array([0])
    starts, n_rows, _ = spans.cut(*whole, np.array([row["t"] for row in statistics.rows]))
    first, last = rows_at
    return bool(np.any((starts <= first) & (last < starts + n_rows)))


BLOCK = 64
"""Events of a block."""


class ArrayStream:
    """Events one time unit apart in blocks of equal size; attributes are 0 or 1."""

    def __init__(self, columns: Mapping[str, np.ndarray], block_events: int = BLOCK) -> None:
        n = len(next(iter(columns.values())))
        self.columns = {"t": np.arange(n, dtype=np.int64), **columns}
        self.base = np.append(np.arange(0, n, block_events), n).astype(np.int64)
        self.n_events, self.n_blocks = n, len(self.base) - 1
        self.leaves = SmallLeaves(
            np.diff(self.base),
            self.base,
            self.base[:-1],
            self.base[1:] - 1,
            np.ones(self.n_blocks, dtype=np.int64),
        )

    def occurrences(self, attribute: str, ranges: KeyRanges) -> Occurrences:
        value = ranges.ranges[0].low
        seqs = np.flatnonzero(self.columns[attribute] == value).astype(np.int64)
        return Occurrences(seqs, seqs)


def gapped(names: str, within: int) -> BoundPatternQuery:
    """Return the query ``A Z* B Z* …`` with ``A.a = 1``, ``B.b = 1``, … and Z free."""
    free = Symbol(len(names))
    parts = [part for i in range(len(names)) for part in (star(free), Symbol(i))][1:]
    defines = [compare("=", name, 1) for name in names]
    return query_of(seq(*parts), [*defines, None], within=within)
