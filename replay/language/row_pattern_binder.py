"""Row patterns bound: symbols numbered, PERMUTE written out, groups flat, negations checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from replay.errors import BindError, NotSupportedError
from replay.language import syntax
from replay.language.bound import (
    CURRENT,
    Aggregate,
    Alternate,
    Attribute,
    Classifier,
    Concat,
    Edge,
    Exclusion,
    Expression,
    Negation,
    Pattern,
    Repeat,
    Symbol,
    is_nullable,
    pattern_parts,
    walk,
)
from replay.language.pattern_names import Symbols
from replay.language.source import Source
from replay.language.syntax import RowPattern

PERMUTE_MAX = 6
"""Elements of PERMUTE: they have 720 orders."""

PERMUTED_SYMBOLS_MAX = 10_000
"""Symbols that PERMUTE is written out to, had its orders nothing in common."""


def name_symbols(pattern: RowPattern, source: Source) -> Symbols:
    """Return the symbols of a pattern, numbered in order of first appearance."""
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
    """Return the pattern with the numbers of its symbols."""
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


# ---------------------------------------------------------------------------------------------
# Where !X may stand


def check_negations(
    pattern: Pattern, symbols: Symbols, source: Source, *, has_window: bool
) -> None:
    """Check negations under SEMANTICS CONTIGUOUS, SKIP TILL NEXT and SKIP TILL ANY.

    Without WITHIN nothing bounds the rows before and after a match, so ``!X`` cannot stand before
    the first or after the last symbol; nor, ever, at the beginning or end of a repeated group.
    """
    for number, between in _negations(pattern, (False, False), repeated=False):
        node = symbols.negated[number]
        name = node.symbol.name
        if between is None:
            raise source.error(
                f"!{name} stands at the beginning or end of a repeated group; put it between two "
                f"symbols of the group, as in (A !{name} B)+",
                node,
            )
        if not between and not has_window:
            raise source.error(
                f"!{name} before the first or after the last row of a match needs WITHIN, which "
                "says how far to look",
                node,
            )


def _negations(
    pattern: Pattern, sides: tuple[bool, bool], *, repeated: bool
) -> list[tuple[int, bool | None]]:
    """Return each negation: whether a row is surely mapped before and after it.

    None instead of False inside a repeated group, where the row could be one of the next iteration.
    """
    before, after = sides
    match pattern:
        case Negation(index):
            between = before and after
            return [(index, True if between else None if repeated else False)]
        case Alternate(branches):
            return [n for branch in branches for n in _negations(branch, sides, repeated=repeated)]
        case Exclusion(body):
            return _negations(body, sides, repeated=repeated)
        case Repeat(body, _, high):
            if high == 1:
                return _negations(body, sides, repeated=repeated)
            return _negations(body, (False, False), repeated=True)
        case Concat(parts):
            maps = [not is_nullable(part) for part in parts]
            found = []
            for i, part in enumerate(parts):
                inner = (before or any(maps[:i]), after or any(maps[i + 1 :]))
                found += _negations(part, inner, repeated=repeated)
            return found
    return []


def check_gap_negations(
    pattern: Pattern, conditions: tuple[Expression | None, ...], symbols: Symbols, source: Source
) -> None:
    """Check negations where the rows of a match follow one another, as in SQL.

    No row lies between two symbols there, so ``!X`` is about the rows of a repetition beside it:
    ``A Z* !X B`` and ``A !X Z* B`` say that no row of ``Z*`` satisfies X.

    The condition of X may neither read that symbol nor count rows.
    """
    for parts, begun in _sequences(pattern, begun=False):
        for i, part in enumerate(parts):
            if not isinstance(part, Negation):
                continue
            node = symbols.negated[part.index]
            beside = [*_repetition(parts, range(i - 1, -1, -1))]
            beside += _repetition(parts, range(i + 1, len(parts)))
            if not beside:
                raise _not_beside(node, source)
            condition = conditions[part.index]
            for place, repeated in beside:
                if condition is not None and _looks_at(condition, repeated, begun=begun[place]):
                    raise _reads_gap(node, symbols.names[repeated], source)


def _sequences(
    pattern: Pattern, *, begun: bool
) -> Iterator[tuple[tuple[Pattern, ...], tuple[bool, ...]]]:
    """Yield the parts of every sequence, and whether a row was surely mapped before each.

    A part that stands alone is a sequence too.
    """
    match pattern:
        case Concat(parts):
            before = tuple(begun or not all(map(is_nullable, parts[:i])) for i in range(len(parts)))
            yield parts, before
            for part, is_begun in zip(parts, before, strict=True):
                if not isinstance(part, Negation):
                    yield from _sequences(part, begun=is_begun)
        case Alternate(branches):
            for branch in branches:
                yield from _sequences(branch, begun=begun)
        case Repeat(body) | Exclusion(body):
            yield from _sequences(body, begun=begun)
        case Negation():
            yield (pattern,), (begun,)


def _repetition(parts: tuple[Pattern, ...], places: Iterable[int]) -> list[tuple[int, int]]:
    """Return place and symbol of the unbounded repetition that comes next, if one does."""
    for place in places:
        part = parts[place]
        while isinstance(part, Exclusion):
            part = part.body
        match part:
            case Negation():
                continue
            case Repeat(Symbol(index), _, None):
                return [(place, index)]
        break
    return []


def _looks_at(condition: Expression, symbol: int, *, begun: bool) -> bool:
    """Tell whether it makes a difference to a condition which rows the symbol is mapped to."""
    for part in walk(condition):
        if isinstance(part, Aggregate):
            if part.symbols is None or symbol in part.symbols:
                return True
        elif isinstance(part, Attribute | Classifier) and part.anchor.kind is not CURRENT.kind:
            anchor = part.anchor
            if anchor.symbols is not None:
                if symbol in anchor.symbols:
                    return True
            elif anchor.offset > 0 or not begun:
                return True
    return False


def _reads_gap(node: syntax.Negated, repeated: str, source: Source) -> NotSupportedError:
    name = node.symbol.name
    return source.not_supported(
        f"!{name} whose condition reads rows that '{repeated}' may be mapped to",
        node,
        f"let '{name}' read the row itself and symbols before",
    )


def _not_beside(node: syntax.Negated, source: Source) -> BindError:
    name = node.symbol.name
    return source.error(
        f"no row lies between two symbols in a row, so !{name} stands beside a repetition of one "
        f"symbol, as in A Z* !{name} B; or add SEMANTICS SKIP TILL NEXT or SKIP TILL ANY",
        node,
    )
