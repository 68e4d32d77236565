"""What every match of a row pattern contains: mandatory positions and gaps between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from replay.engines.block_truth import is_said_by_ranges
from replay.expressions.atoms import count_predicates
from replay.expressions.ranges import Ranges, unite
from replay.language.bound import (
    Alternate,
    Attribute,
    BoundPatternQuery,
    Classifier,
    Concat,
    Edge,
    EdgeKind,
    Exclusion,
    MatchNumber,
    Negation,
    Pattern,
    Repeat,
    RowsPerMatch,
    Semantics,
    SkipMode,
    SlidingWindows,
    Symbol,
    attributes,
    edges,
    walk,
)
from replay.patterns.outer_where import times_asked, with_outer_where
from replay.patterns.symbol_ranges import symbol_ranges, usable_deltas
from replay.patterns.windows import reach
from replay.planning.requirements import Position, Requirements
from replay.planning.statistics import StreamStatistics

POSITIONS_MAX: Final = 64
"""Positions kept of a pattern. More would prune little more and make planning slow."""

_SKIPPING: Final = (Semantics.SKIP_TILL_NEXT, Semantics.SKIP_TILL_ANY)

_ORDERED: Final = (
    "ORDER BY has columns besides the time, so all events of a time must be put in order"
)

_PASSED_OVER: Final = (
    "a row that fits no symbol may end a match; SEMANTICS SKIP TILL NEXT and SKIP TILL ANY alone "
    "pass it over"
)

ROWS_MAX: Final = 2**62
"""Row counts above this are no bound: no stream is longer, and int64 arithmetic stays safe."""


def requirements(query: BoundPatternQuery, stream: StreamStatistics | None = None) -> Requirements:
    """Return what every match of a row pattern contains; ``stream`` is what is known of its stream.

    With PARTITION BY and with SKIP TILL every position is a basic block of its own, since
    neighbours in the match are not neighbours in the stream; that the match begins with its first
    position and ends with its last stays true. So it is in windows, whose rows are put together
    from all that is read: all rows between two that might be of one match have to be among them.

    Thesis Table 3.2, with four additions: what all branches of an alternation need stays needed,
    in order; a part repeated exactly n times has no gap behind it; long repetitions are cut to
    what `POSITIONS_MAX` leaves room for, with a gap behind; a gap knows what the rows of the part
    it stands for have in common, where no other rows can lie there. Negation is zero-width, so it
    is not turned into ``true``: between two positions the rows it looks at lie between them
    anyway; at an end of the pattern they fill the window, as those of ``true*`` do. With SQL's
    semantics it looks at rows of the match alone, and says nothing here.

    SLIDING has a window for each time of the stream. A match is in those of the times from its last
    row until as long behind its first as the window lasts, of which any row may be: as if a gap
    stood behind the pattern, and WITHIN were as long as the window. Of other windows the borders
    are known.

    ``^`` maps no row, and holds nowhere but before a partition's first row. So where every mapping
    has one, wherever it stands, the match begins with that row; with ``$`` it ends with the last.
    """
    deltas = {} if stream is None else usable_deltas(query, stream)
    of_symbols = symbol_ranges(with_outer_where(query), deltas=deltas)
    symbols = tuple(
        Position(name, {} if ranges is None else ranges, ranges is not None)
        for name, ranges in zip(query.symbols, of_symbols, strict=True)
    )
    negation = _EMPTY if query.semantics is Semantics.SQL else _gap(ANYTHING)
    part = _shorten(_rewrite(query.pattern, symbols, negation))
    skips = query.semantics in _SKIPPING
    is_partitioned = bool(query.partition_by)
    scattered = skips or is_partitioned or query.windows is not None
    inner = (ANYTHING,) * (len(part.positions) - 1) if scattered else part.gaps[1:-1]
    gaps = (part.gaps[0], *inner) if part.positions else ()
    relevant, why_not_relevant = _relevant(query, part.rows_min)
    slides = isinstance(query.windows, SlidingWindows)
    return Requirements(
        positions=part.positions,
        gap_before=tuple(gap is not None for gap in gaps),
        trailing_gap=part.gaps[-1] is not None or slides,
        rows_min=part.rows_min,
        rows_max=None if slides else part.rows_max,
        scattered=scattered,
        fill_before=(
            *(None for _ in gaps[:1]),
            *(gap if gap is not None and gap.ranges else None for gap in gaps[1:]),
        ),
        agreeing=query.partition_by,
        within=reach(replace(query, within=None) if slides else query),
        at_start=not is_partitioned and _needs_edge(query.pattern, EdgeKind.START),
        at_end=not is_partitioned and _needs_edge(query.pattern, EdgeKind.END),
        rows_beside=_rows_beside(query),
        time=query.time,
        times=times_asked(query),
        symbols=query.symbols,
        columns=_columns_matched(query),
        n_predicates=count_predicates(query.defines),
        closes_early=query.semantics is Semantics.SQL and query.skip is SkipMode.PAST_LAST_ROW,
        matches_wanted=_matches_wanted(query),
        only_full=_why_only_full(query, part.rows_min, None if stream is None else stream.key),
        relevant=relevant,
        why_not_relevant=why_not_relevant,
    )


def _why_only_full(query: BoundPatternQuery, rows_min: int, key: str | None) -> str | None:
    """Return why nothing but a full replay can answer the query, or None.

    ``key`` is the stream's key column, by which neighbours in partitions are found, and so whether
    a row is the first or last of its partition.

    An impossible pattern is no such reason: its answer is known to be empty. Nor is AFTER MATCH:
    where the search goes on depends on the match alone, and every match lies in a stretch.
    """
    why = _why_every_row(query, rows_min)
    if why is not None:
        return why
    if query.order_by:
        return _ORDERED
    if query.partition_by and query.partition_by != (key,) and _rows_beside(query) != (0, 0):
        asks = (
            "^ and $ ask where a partition begins and ends, which only the whole stream tells; its "
            "first and last rows"
            if edges(query.pattern)
            else "PREV and NEXT with PARTITION BY read neighbours in the partition, wherever they "
            "lie; they"
        )
        known = "it has none" if key is None else f"that is {key}"
        return f"{asks} are found for PARTITION BY the stream's key column alone, and {known}"
    return None


def _why_every_row(query: BoundPatternQuery, rows_min: int) -> str | None:
    """Return why rows matter that no match is near, wherever they lie, or None."""
    if query.rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED:
        return "WITH UNMATCHED ROWS gives every event, also those that no match is near"
    if query.with_timeouts:
        return "WITH TIMEOUTS gives partial matches too, which lack symbols that every match has"
    if query.semantics is Semantics.SQL and rows_min == 0:
        return "the pattern can match no row at all, and every event may begin such a match"
    if any(isinstance(p, MatchNumber) for d in query.defines if d for p in walk(d)):
        return "MATCH_NUMBER in DEFINE makes a match depend on how many there were before"
    if query.windows is not None and _rows_beside(query) != (0, 0):
        return "PREV, NEXT, ^ and $ look at the rows of a window, wherever they lie in it"
    return None


def _relevant(query: BoundPatternQuery, rows_min: int) -> tuple[tuple[Position, ...], str | None]:
    """Return what rows must have to be able to change the answer, or why any may.

    Why: with SKIP TILL a row that no symbol of the pattern can map, negated ones among them, leaves
    every partial match as it is, and so does leaving it out. It is such a row where it lies outside
    the ranges that each symbol's condition implies. What WHERE outside asks is left aside.
    """
    if query.semantics not in _SKIPPING:
        return (), _PASSED_OVER
    why = _why_every_row(query, rows_min) or (_ORDERED if query.order_by else None)
    if why is None and isinstance(query.windows, SlidingWindows):
        why = "SLIDING has a window for each time of the stream's events, whatever they are"
    if why is None and _rows_beside(query) != (0, 0):
        why = "PREV, NEXT, ^ and $ look at rows whatever symbol these fit"
    if why is not None:
        return (), why
    relevant, of_symbols = [], symbol_ranges(query)
    for index in sorted(_symbols_of(query.pattern)):
        ranges, define = of_symbols[index], query.defines[index]
        is_all = define is not None and is_said_by_ranges(define)
        symbol = Position(query.symbols[index], ranges or {}, ranges is not None, is_all)
        if symbol.is_impossible:
            continue
        if not symbol.ranges:
            bounds = f"the condition of {symbol.symbol} bounds no attribute"
            return (), f"{bounds}, so that any row may be of {symbol.symbol}"
        relevant.append(symbol)
    return tuple(relevant), None


def _symbols_of(pattern: Pattern) -> frozenset[int]:
    """Return the symbols that a pattern names, those it negates among them."""
    match pattern:
        case Symbol(index) | Negation(index):
            return frozenset((index,))
        case Concat(parts) | Alternate(parts):
            return frozenset().union(*map(_symbols_of, parts))
        case Repeat(body) | Exclusion(body):
            return _symbols_of(body)
    return frozenset()


def _rows_beside(query: BoundPatternQuery) -> tuple[int, int]:
    """Return how many rows before and behind others PREV, NEXT, ``^`` and ``$`` look at."""
    asked = edges(query.pattern)
    expressions = (*query.defines, *(measure.expression for measure in query.measures))
    parts = (part for expression in expressions if expression for part in walk(expression))
    offsets = [part.offset for part in parts if isinstance(part, Attribute | Classifier)]
    return (
        max(EdgeKind.START in asked, *[-offset for offset in offsets], 0),
        max(EdgeKind.END in asked, *offsets, 0),
    )


def _columns_matched(query: BoundPatternQuery) -> frozenset[str]:
    """Return the attributes the matcher must see; measures are fetched for matches only."""
    names = {a.name for define in query.defines for a in attributes(define)}
    names.update(query.partition_by)
    return frozenset(names if reach(query) is None else names | {query.time})


def _matches_wanted(query: BoundPatternQuery) -> int | None:
    """Return how many matches end a replay, as LIMIT says; None: all are looked for."""
    outer = query.outer
    if query.limit is not None or outer is None or outer.limit is None:
        return query.limit
    return outer.limit + outer.offset if outer.is_row_by_row else None


def _needs_edge(pattern: Pattern, kind: EdgeKind) -> bool:
    """Return whether every mapping of a pattern goes through ``^`` (or ``$``)."""
    match pattern:
        case Edge(found):
            return found is kind
        case Concat(parts):
            return any(_needs_edge(part, kind) for part in parts)
        case Alternate(branches):
            return all(_needs_edge(branch, kind) for branch in branches)
        case Repeat(body, low, _):
            return low > 0 and _needs_edge(body, kind)
        case Exclusion(body):
            return _needs_edge(body, kind)
        case _:
            return False


ANYTHING: Final = Position("…")
"""The fill of a gap in which any row may stand."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A rewritten part: positions with a gap or none before each, and one behind the last."""

    positions: tuple[Position, ...]
    gaps: tuple[Position | None, ...]
    """What is known of each row of the gap; None where there is no gap."""
    rows_min: int
    rows_max: int | None

    @property
    def has_no_gap(self) -> bool:
        return all(gap is None for gap in self.gaps)

    def rows_between(self, left: int, right: int) -> Position | None:
        """Return what is known of each row between two positions; None if none can stand there.

        The part's ends count as positions.
        """
        between: Position | None = None
        for at in range(left + 1, right + 1):
            between = _either_row(between, self.gaps[at])
            if at < right:
                between = _either_row(between, self.positions[at])
        return between


_EMPTY: Final = _Part((), (None,), 0, 0)


def _gap(fill: Position) -> _Part:
    return _Part((), (fill,), 0, None)


def _rewrite(pattern: Pattern, symbols: tuple[Position, ...], negation: _Part) -> _Part:
    match pattern:
        case Symbol(index):
            return _Part((symbols[index],), (None, None), 1, 1)
        case Concat(parts):
            whole = _EMPTY
            for part in parts:
                whole = _join(whole, _rewrite(part, symbols, negation))
            return whole
        case Repeat(body, low, high):
            return _repeat(_rewrite(body, symbols, negation), low, high)
        case Alternate(branches):
            return _alternate([_rewrite(branch, symbols, negation) for branch in branches])
        case Exclusion(body):
            return _rewrite(body, symbols, negation)
        case Edge():
            return _EMPTY
        case Negation():
            return negation


def _join(left: _Part, right: _Part) -> _Part:
    return _Part(
        left.positions + right.positions,
        (*left.gaps[:-1], _either_row(left.gaps[-1], right.gaps[0]), *right.gaps[1:]),
        min(left.rows_min + right.rows_min, ROWS_MAX),
        _sum(left.rows_max, right.rows_max),
    )


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None or a + b > ROWS_MAX else a + b


def _shorten(part: _Part) -> _Part:
    if len(part.positions) <= POSITIONS_MAX:
        return part
    gaps = (*part.gaps[:POSITIONS_MAX], ANYTHING)
    return replace(part, positions=part.positions[:POSITIONS_MAX], gaps=gaps)


def _repeat(body: _Part, low: int, high: int | None) -> _Part:
    if body.rows_max == 0 or high == 0:
        return _EMPTY
    rows_min = min(body.rows_min * low, ROWS_MAX)
    rows_max = None if high is None or body.rows_max is None else body.rows_max * high
    if rows_max is not None and rows_max > ROWS_MAX:
        rows_max = None
    room = max(1, POSITIONS_MAX // max(1, len(body.positions)))
    whole = _EMPTY
    for _ in range(min(low, room)):
        whole = _join(whole, body)
    if low != high or low > room:
        whole = _join(whole, _gap(body.rows_between(-1, len(body.positions)) or ANYTHING))
    return _Part(whole.positions, whole.gaps, rows_min, rows_max)


def _alternate(branches: list[_Part]) -> _Part:
    """Keep what every branch needs; a branch that cannot match at all adds nothing."""
    possible = [b for b in branches if not any(p.is_impossible for p in b.positions)]
    branches = possible or branches[:1]
    united = branches[0]
    for branch in branches[1:]:
        united = _either(united, branch)
    return united


def _either(a: _Part, b: _Part) -> _Part:
    rows_min = min(a.rows_min, b.rows_min)
    rows_max = None if a.rows_max is None or b.rows_max is None else max(a.rows_max, b.rows_max)
    if a.has_no_gap and b.has_no_gap and len(a.positions) == len(b.positions):
        pairs = [(i, i) for i in range(len(a.positions))]
    else:
        pairs = _align(a.positions, b.positions)
    borders = [(-1, -1), *pairs, (len(a.positions), len(b.positions))]
    gaps = tuple(
        _either_row(a.rows_between(left[0], right[0]), b.rows_between(left[1], right[1]))
        for left, right in pairwise(borders)
    )
    return _Part(
        tuple(_either_position(a.positions[i], b.positions[j]) for i, j in pairs),
        gaps,
        rows_min,
        rows_max,
    )


def _align(a: tuple[Position, ...], b: tuple[Position, ...]) -> list[tuple[int, int]]:
    """Return the pairs of positions, in order in both, that keep the most ranges.

    Longest common subsequence, where a pair counts what both sides restrict (and a little for
    being a row at all).
    """
    best = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            together = best[i + 1][j + 1] + _worth(a[i], b[j])
            best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if best[i][j] == best[i + 1][j + 1] + _worth(a[i], b[j]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _worth(a: Position, b: Position) -> int:
    return 1 + 2 * POSITIONS_MAX * len(a.ranges.keys() & b.ranges.keys())


def _either_position(a: Position, b: Position) -> Position:
    names = dict.fromkeys((*a.symbol.split("|"), *b.symbol.split("|")))
    ranges: Ranges | None = unite(position.ranges for position in (a, b) if position.possible)
    return Position("|".join(names), ranges or {}, a.possible or b.possible)


def _either_row(a: Position | None, b: Position | None) -> Position | None:
    """Return what rows of either of two gaps have in common; None is the gap without rows."""
    if a is None or b is None:
        return a or b
    either = _either_position(a, b)
    return either if either.ranges or not either.possible else ANYTHING
