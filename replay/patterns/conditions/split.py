"""Conditions of the symbols, parted into those on the row under test and those across rows."""

from __future__ import annotations

from dataclasses import dataclass

from replay.language.bound import CURRENT, Call, Classifier, DataType, Expression, Literal
from replay.patterns.conditions.across import AcrossCode, AcrossCompiler
from replay.patterns.conditions.anchors import anchors_read, at_current_row, is_own_row


@dataclass(frozen=True, slots=True)
class SymbolConditions:
    """The conditions of a pattern's symbols.

    ``symbols`` are names, and ``defines`` conditions (None: always true), by symbol. ``shown`` is
    the symbol that one is in every output: itself, but for one made of another.
    """

    symbols: tuple[str, ...]
    defines: tuple[Expression | None, ...]
    shown: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Conditions, parted and compiled."""

    local: tuple[tuple[int, Expression], ...]
    """Symbol and condition that reads nothing but the row under test and its neighbours."""
    across: AcrossCode
    conditioned: frozenset[int]
    """Symbols with a condition across rows."""
    unconditional: frozenset[int]
    """Symbols that every row satisfies."""


def split_conditions(of: SymbolConditions, *, adjacent: bool) -> Split:
    """Part the conditions of all symbols. Pure.

    Parameters
    ----------
    adjacent
        Whether the rows of a match are consecutive rows of the partition.

    Raises
    ------
    NotSupportedError
        If a condition across rows cannot be compiled.
    """
    local: list[tuple[int, Expression]] = []
    compiler = AcrossCompiler(of.symbols, shown=of.shown, adjacent=adjacent)
    conditioned = set()
    for symbol, define in enumerate(of.defines):
        across = []
        shown = of.shown[symbol]
        for conjunct in _conjuncts(define):
            part, anchors = conjunct, anchors_read(conjunct)
            if anchors is None:
                part = _with_own_name(conjunct, shown, of.symbols[shown])
                anchors = anchors_read(part)
            if anchors is None or not all(is_own_row(anchor, shown) for anchor in anchors):
                across.append(part)
            else:
                local.append((symbol, part if anchors <= {CURRENT} else at_current_row(part)))
        if across:
            conditioned.add(symbol)
            compiler.add(symbol, across)
    named = {symbol for symbol, _ in local} | conditioned
    everyone = frozenset(range(len(of.symbols)))
    return Split(tuple(local), compiler.finish(), frozenset(conditioned), everyone - named)


def _conjuncts(define: Expression | None) -> list[Expression]:
    """Return the parts that all must hold."""
    if define is None or (isinstance(define, Literal) and define.value is True):
        return []
    if isinstance(define, Call) and define.op == "and":
        return [part for argument in define.args for part in _conjuncts(argument)]
    return [define]


def _with_own_name(expression: Expression, symbol: int, name: str) -> Expression:
    """Replace CLASSIFIER of the row under test by what it must be."""
    if isinstance(expression, Call):
        args = tuple(_with_own_name(argument, symbol, name) for argument in expression.args)
        return Call(expression.op, args, expression.type)
    if (
        isinstance(expression, Classifier)
        and not expression.offset
        and is_own_row(expression.anchor, symbol)
    ):
        return Literal(name, DataType.STRING)
    return expression
