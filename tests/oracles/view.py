"""What an expression of MATCH_RECOGNIZE sees: the rows mapped, from where it looks.

Follows the docstrings of ``replay.language.bound`` word by word (Anchor, Attribute, Classifier,
Aggregate), over plain lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from replay.language.bound import (
    Aggregate,
    Anchor,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Classifier,
    Expression,
    MatchNumber,
    SymbolSet,
    TimedOut,
)
from tests.oracles.row_aggregates import aggregate, distinct
from tests.oracles.scalar import evaluate

Row = dict[str, Any]


class OutOfStepsError(Exception):
    """The oracle gave up: it is exponential and the case was too large for it."""


class Budget:
    """How many conditions may still be tried."""

    def __init__(self, steps: int | None) -> None:
        self._left = steps

    def spend(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise OutOfStepsError


@dataclass(frozen=True)
class Mapped:
    """A row of a match: its place in the partition, its symbol."""

    at: int
    symbol: int
    excluded: bool = False


Mapping = tuple[Mapped, ...]
"""The rows of a match in the order they are mapped, which is ascending."""


@dataclass(frozen=True)
class View:
    """From where an expression is evaluated."""

    rows: Sequence[Row]
    """The partition, in the order it is matched in."""
    query: BoundPatternQuery
    so_far: Mapping
    whole: Mapping
    number: int | None = None
    timed_out: bool | None = None
    current: int | None = None
    """Place of the row under test, or of the row an aggregate looks at."""

    def value(self, expression: Expression) -> Any:
        return evaluate(expression, self.lookup)

    def lookup(self, part: Any) -> Any:
        match part:
            case Attribute():
                at = self._row(part.anchor, part.offset)
                return None if at is None else self.rows[at][part.name]
            case Classifier():
                at = self._row(part.anchor, part.offset)
                symbols = [m.symbol for m in self.whole if m.at == at]
                return self.query.symbols[symbols[0]] if symbols else None
            case MatchNumber():
                assert self.number is not None
                return self.number
            case TimedOut():
                assert self.timed_out is not None
                return self.timed_out
            case Aggregate():
                return self._aggregate(part)
        raise AssertionError(part)

    def _seen(self, final: bool) -> Mapping:
        return self.whole if final else self.so_far

    def _mapped_to(self, symbols: SymbolSet, final: bool) -> list[Mapped]:
        return [m for m in self._seen(final) if symbols is None or m.symbol in symbols]

    def _row(self, anchor: Anchor, offset: int) -> int | None:
        """Return the place of the row navigated to, None if there is none."""
        if anchor.kind is AnchorKind.CURRENT:
            assert self.current is not None
            found = self.current
        else:
            mapped = self._mapped_to(anchor.symbols, anchor.final)
            if anchor.offset >= len(mapped):
                return None
            first = anchor.kind is AnchorKind.FIRST
            found = mapped[anchor.offset if first else -1 - anchor.offset].at
        moved = found + offset
        return moved if 0 <= moved < len(self.rows) else None

    def _aggregate(self, part: Aggregate) -> Any:
        mapped = self._mapped_to(part.symbols, part.final)
        if part.argument is None:
            return len(mapped)
        seen = self._seen(part.final)
        views = [replace(self, current=m.at, so_far=seen) for m in mapped]
        if part.function == "array":
            kept = [v for v in views if part.where is None or v.value(part.where) is True]
            values = [view.value(part.argument) for view in kept]
            return (distinct(values) if part.distinct else values) or None
        return aggregate(part, [view.value(part.argument) for view in views])


def holds(
    rows: Sequence[Row],
    query: BoundPatternQuery,
    mapping: Mapping,
    *,
    number: int | None = None,
) -> bool:
    """Return whether the last row of the mapping satisfies its symbol's condition."""
    condition = query.defines[mapping[-1].symbol]
    if condition is None:
        return True
    view = View(rows, query, mapping, mapping, number=number, current=mapping[-1].at)
    return view.value(condition) is True


def fits_window(rows: Sequence[Row], query: BoundPatternQuery, first: int, last: int) -> bool:
    """Return whether a match may span these two rows."""
    return query.within is None or rows[last][query.time] - rows[first][query.time] <= query.within
