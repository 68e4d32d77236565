"""The row pattern rewritten to what planning can use: mandatory positions and gaps between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final

from indexing.key_range import KeyRanges
from replay.language.bound import (
    Alternate,
    BoundPatternQuery,
    Concat,
    Edge,
    Exclusion,
    Negation,
    Pattern,
    Repeat,
    Semantics,
    Symbol,
)
from replay.planning.deltas import Magnitudes
from replay.planning.ranges import Ranges, symbol_ranges, unite

POSITIONS_MAX: Final = 64
"""Positions kept of a pattern. More would prune little more and make planning slow."""

ROWS_MAX: Final = 2**62
"""Row counts above this are no bound: no stream is longer, and int64 arithmetic stays safe."""


@dataclass(frozen=True, slots=True)
class Position:
    """One event that every match must have, and what is known of it."""

    symbol: str
    """Name of the symbol; names of alternatives joined by ``|``."""
    ranges: dict[str, KeyRanges] = field(default_factory=dict)
    """Ranges the event's attributes lie in; attributes not named are not restricted."""
    possible: bool = True
    """False if no event can satisfy the symbol's condition, whatever its attributes."""

    @property
    def is_impossible(self) -> bool:
        """Whether no event can stand here."""
        return not self.possible or any(r.is_empty() for r in self.ranges.values())


@dataclass(frozen=True)  # without slots, to keep what follows from the fields
class PatternShape:
    """Mandatory positions in order, with ``true*`` (a gap) between some of them.

    Every mapping of the query's pattern is a mapping of this one.
    """

    positions: tuple[Position, ...]
    gap_before: tuple[bool, ...]
    """For each position whether other rows may stand between it and the one before it; for the
    first position, whether rows that decide over the match may stand before it: its own, or those
    a negation at its start forbids."""
    trailing_gap: bool
    """Whether rows that decide over the match may stand after the last position."""
    rows_min: int
    rows_max: int | None
    """Rows that decide over a match; None: no limit."""
    scattered: bool
    """Whether rows that are not of the match lie between its rows: with PARTITION BY those of
    other partitions, with SKIP TILL any."""
    fill_before: tuple[Position | None, ...]
    """For each position what all rows of the gap before it have in common; None where there is no
    gap or where anything may stand, and for the first position."""
    agreeing: tuple[str, ...]
    """Attributes of which all rows of a match have the same value, or all none."""

    @property
    def leading_gap(self) -> bool:
        """Whether rows that decide over the match may stand before the first position."""
        return self.gap_before[0] if self.positions else self.trailing_gap

    @cached_property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Basic blocks as half-open ranges of positions: maximal runs without a gap inside."""
        borders = [i for i in range(1, len(self.positions)) if self.gap_before[i]]
        return tuple(pairwise((0, *borders, len(self.positions)))) if self.positions else ()

    @cached_property
    def block_at(self) -> dict[int, int]:
        """Basic block of each position."""
        return {p: b for b, (a, z) in enumerate(self.blocks) for p in range(a, z)}

    @property
    def row_window(self) -> int | None:
        """Largest span of a match in rows of the stream, or None if there is no such bound."""
        return None if self.scattered else self.rows_max

    @cached_property
    def is_impossible(self) -> bool:
        """Whether no match can exist, whatever the data."""
        return any(position.is_impossible for position in self.positions)

    @property
    def is_restricted(self) -> bool:
        """Whether any position can be looked for, so that something can be pruned."""
        return self.is_impossible or any(position.ranges for position in self.positions)

    def __str__(self) -> str:
        parts: list[str] = []
        for position, gap in zip(self.positions, self.gap_before, strict=True):
            parts += ["…", position.symbol] if gap else [position.symbol]
        return " ".join([*parts, "…"] if self.trailing_gap else parts)


def to_shape(query: BoundPatternQuery, *, deltas: Magnitudes | None = None) -> PatternShape:
    """Rewrite the row pattern to positions and gaps.

    Parameters
    ----------
    query
        A bound query.
    deltas
        Columns with an attribute ``delta(x)``; see `deltas.usable_deltas`.

    Returns
    -------
    PatternShape
        With PARTITION BY and with SKIP TILL every position is a basic block of its own, since
        neighbours in the match are not neighbours in the stream; that the match begins with its
        first position and ends with its last stays true.

    Notes
    -----
    Thesis Table 3.2, with four additions: what all branches of an alternation need stays needed,
    in order; a part repeated exactly n times has no gap behind it; long repetitions are cut to
    what `POSITIONS_MAX` leaves room for, with a gap behind; a gap knows what the rows of the part
    it stands for have in common, where no other rows can lie there. Negation is zero-width, so it
    is not turned into ``true``: between two positions the rows it looks at lie between them
    anyway; at an end of the pattern they fill the window, as those of ``true*`` do. With SQL's
    semantics it looks at rows of the match alone, and says nothing here.
    """
    symbols = tuple(
        Position(name, {} if ranges is None else ranges, ranges is not None)
        for name, ranges in zip(query.symbols, symbol_ranges(query, deltas=deltas), strict=True)
    )
    negation = _EMPTY if query.semantics is Semantics.SQL else _gap(ANYTHING)
    part = _shorten(_rewrite(query.pattern, symbols, negation))
    skips = query.semantics in (Semantics.SKIP_TILL_NEXT, Semantics.SKIP_TILL_ANY)
    scattered = skips or bool(query.partition_by)
    inner = (ANYTHING,) * (len(part.positions) - 1) if scattered else part.gaps[1:-1]
    gaps = (part.gaps[0], *inner) if part.positions else ()
    return PatternShape(
        positions=part.positions,
        gap_before=tuple(gap is not None for gap in gaps),
        trailing_gap=part.gaps[-1] is not None,
        rows_min=part.rows_min,
        rows_max=part.rows_max,
        scattered=scattered,
        fill_before=(
            *(None for _ in gaps[:1]),
            *(gap if gap is not None and gap.ranges else None for gap in gaps[1:]),
        ),
        agreeing=query.partition_by,
    )


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
    return _Part(
        part.positions[:POSITIONS_MAX],
        (*part.gaps[:POSITIONS_MAX], ANYTHING),
        part.rows_min,
        part.rows_max,
    )


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
