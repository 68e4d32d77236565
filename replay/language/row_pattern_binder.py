"""Row patterns bound: symbols numbered, PERMUTE written out, groups flat, negations checked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from replay.language import syntax
from replay.language.bound import (
    Alternate,
    Concat,
    Edge,
    Exclusion,
    Negation,
    Pattern,
    Repeat,
    Symbol,
    pattern_parts,
)
from replay.language.pattern_names import Symbols
from replay.language.source import Source
from replay.language.syntax import RowPattern

PERMUTE_MAX = 6
"""Elements of PERMUTE: they have 720 orders."""

PERMUTED_SYMBOLS_MAX = 10_000
"""Symbols that PERMUTE is written out to, had its orders nothing in common."""


def name_symbols(pattern: RowPattern, source: Source) -> Symbols:
    """Return the symbols of a pattern, numbered in order of first appearance.

    Raises
    ------
    BindError
        If a symbol stands there both by itself and negated.
    """
    symbols = Symbols(source)
    mapped: set[int] = set()
    for leaf in _leaves(pattern):
        if isinstance(leaf, syntax.Negated):
            symbols.add_negated(leaf)
        else:
            mapped.add(symbols.add(leaf.symbol))
    for number in sorted(mapped & symbols.negated.keys()):
        name = symbols.names[number]
        raise source.error(
            f"'{name}' stands in PATTERN both by itself and as !{name}; a negated symbol maps no "
            "row, so give one of the two another name",
            symbols.negated[number],
        )
    return symbols


def bind_row_pattern(pattern: RowPattern, symbols: Symbols, source: Source) -> Pattern:
    """Return the pattern with the numbers of its symbols.

    Raises
    ------
    BindError, NotSupportedError
        At a PERMUTE that cannot be written out.
    """
    match pattern:
        case syntax.SymbolPattern(symbol):
            return Symbol(symbols.add(symbol))
        case syntax.Negated():
            return Negation(symbols.add_negated(pattern))
        case syntax.EdgePattern(kind):
            return Edge(kind)
        case syntax.Excluded(body):
            return Exclusion(bind_row_pattern(body, symbols, source))
        case syntax.Quantified(body, low, high, greedy):
            repeated = bind_row_pattern(body, symbols, source)
            return repeated if low == high == 1 else Repeat(repeated, low, high, greedy)
        case syntax.Alternation(branches):
            return _alternate([bind_row_pattern(part, symbols, source) for part in branches])
        case syntax.Sequence(parts):
            return _concat([bind_row_pattern(part, symbols, source) for part in parts])
    _check_permutation(pattern, source)
    elements = [bind_row_pattern(part, symbols, source) for part in pattern.elements]
    n_symbols = sum(isinstance(leaf, Symbol) for part in elements for leaf in pattern_parts(part))
    if n_symbols * math.factorial(len(elements)) > PERMUTED_SYMBOLS_MAX:
        raise source.not_supported(
            f"PERMUTE that is written out to more than {PERMUTED_SYMBOLS_MAX} symbols",
            pattern,
            "write the orders that matter with |",
        )
    return _alternate(_orders(elements))


def _leaves(pattern: RowPattern) -> Iterator[syntax.SymbolPattern | syntax.Negated]:
    match pattern:
        case syntax.SymbolPattern() | syntax.Negated():
            yield pattern
        case syntax.Sequence(parts) | syntax.Alternation(parts) | syntax.Permutation(parts):
            for part in parts:
                yield from _leaves(part)
        case syntax.Quantified(body) | syntax.Excluded(body):
            yield from _leaves(body)


def _concat(parts: Sequence[Pattern]) -> Pattern:
    flat: list[Pattern] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Concat) else (part,))
    return flat[0] if len(flat) == 1 else Concat(tuple(flat))


def _alternate(branches: Sequence[Pattern]) -> Pattern:
    flat: list[Pattern] = []
    for branch in branches:
        flat.extend(branch.branches if isinstance(branch, Alternate) else (branch,))
    return flat[0] if len(flat) == 1 else Alternate(tuple(flat))


# ---------------------------------------------------------------------------------------------
# PERMUTE


def _check_permutation(pattern: syntax.Permutation, source: Source) -> None:
    if len(pattern.elements) > PERMUTE_MAX:
        raise source.not_supported(
            f"PERMUTE of more than {PERMUTE_MAX} elements",
            pattern,
            "write the orders that matter with |",
        )
    for element in pattern.elements:
        if isinstance(element, syntax.Negated):
            name = element.symbol.name
            raise source.error(
                f"PERMUTE orders rows, and !{name} maps none; put it between two symbols, as in "
                f"(A !{name} B)",
                element,
            )


def _orders(elements: Sequence[Pattern]) -> list[Pattern]:
    """Return the elements in every order, lexicographically; equal beginnings are shared.

    A beginning that can be mapped in several ways is not: all ways of one order come before any of
    the next.
    """
    if len(elements) == 1:
        return [elements[0]]
    orders: list[Pattern] = []
    for i, head in enumerate(elements):
        rest = _orders([*elements[:i], *elements[i + 1 :]])
        tails = [_alternate(rest)] if _has_one_way(head) else rest
        orders += [_concat((head, tail)) for tail in tails]
    return orders


def _has_one_way(pattern: Pattern) -> bool:
    match pattern:
        case Concat(parts):
            return all(map(_has_one_way, parts))
        case Repeat(body, low, high):
            return low == high and _has_one_way(body)
        case Exclusion(body):
            return _has_one_way(body)
        case Alternate():
            return False
    return True
