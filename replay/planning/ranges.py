"""Implied ranges: what a symbol's condition says about single attributes of the current event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from indexing.key_range import Key, KeyRange, KeyRanges
from replay.language.bound import AnchorKind, Attribute, BoundPatternQuery, Call, Expression
from replay.language.bound import DataType as T
from replay.planning.atoms import (
    FLIPPED,
    NEGATED,
    constant,
    is_missing,
    like_ranges,
    points,
    ranges_of_comparison,
    term,
)

Ranges = dict[str, KeyRanges]
"""Range of each attribute that is restricted at all."""

Pinned = Mapping[int, Mapping[str, KeyRanges]]
"""Ranges that the events mapped to a symbol are known to obey, by symbol index."""


def implied_ranges(condition: Expression | None, *, pinned: Pinned | None = None) -> Ranges | None:
    """Return the strongest ranges on single attributes that follow from a condition being TRUE.

    Inclusive: every event that satisfies the condition lies in every range; an attribute that is
    not named is not restricted (nor is anything said about nulls by leaving it out).

    Parameters
    ----------
    condition
        DEFINE of one symbol; None is always true.
    pinned
        Ranges of other symbols' events, for atoms such as ``X.a = Y.a``.

    Returns
    -------
    dict or None
        Ranges by attribute; an empty range says that no event satisfies the condition. None says
        the same of a condition that is false whatever the attributes.

    Notes
    -----
    Thesis 3.4.4 ("modify the symbol predicates"); negation is pushed down to the atoms first,
    since NOT of an atom replaced by ``true`` would lose matches.
    """
    if condition is None:
        return {}
    return _implied(condition, True, pinned or {})


def symbol_ranges(query: BoundPatternQuery) -> tuple[Ranges | None, ...]:
    """Return the implied ranges of every symbol, ranges of other symbols carried over.

    ``X.a = Y.a`` gives X the range of Y: an event is mapped to Y only if it satisfies Y's
    condition, and an unmapped Y is NULL, so the atom is UNKNOWN. Starting from no knowledge, each
    round is sound if the one before was, so stopping early would only be weaker.

    Returns
    -------
    tuple
        For each of ``query.symbols`` what `implied_ranges` says.
    """
    known: tuple[Ranges | None, ...] = tuple({} for _ in query.symbols)
    for _ in range(len(query.symbols) + 1):
        pinned = {index: ranges for index, ranges in enumerate(known) if ranges}
        refined = tuple(implied_ranges(define, pinned=pinned) for define in query.defines)
        if refined == known:
            break
        known = refined
    return known


def unite(branches: Iterable[Ranges | None]) -> Ranges | None:
    """Return what holds if one of the branches holds: OR over attributes that all restrict."""
    given = list(branches)
    possible = [ranges for ranges in given if ranges is not None and not _is_never(ranges)]
    if not possible:
        return next((ranges for ranges in given if ranges is not None), None)
    united: Ranges = {}
    for name in possible[0]:
        if all(name in ranges for ranges in possible):
            union = KeyRanges.of(r for ranges in possible for r in ranges[name].ranges)
            if not union.is_everything():
                united[name] = union
    return united


def _is_never(ranges: Ranges) -> bool:
    return any(r.is_empty() for r in ranges.values())


def _all_of(parts: Iterable[Ranges | None]) -> Ranges | None:
    """Return what holds if all parts hold: the intersection of each attribute's ranges."""
    joined: Ranges = {}
    for ranges in parts:
        if ranges is None:
            return None
        for name, r in ranges.items():
            joined[name] = joined[name].intersect(r) if name in joined else r
    return joined


def _implied(condition: Expression, truth: bool, pinned: Pinned) -> Ranges | None:
    """Return the ranges if ``condition`` is exactly ``truth``; UNKNOWN is neither."""
    known, value = constant(condition)
    if known:
        return {} if value is truth else None
    if isinstance(condition, Attribute):
        name = term(condition)
        return {} if name is None else {name[0]: points([int(truth)])}
    if not isinstance(condition, Call):
        return {}
    match condition.op:
        case "not":
            return _implied(condition.args[0], not truth, pinned)
        case "and" | "or":
            parts = [_implied(argument, truth, pinned) for argument in condition.args]
            return _all_of(parts) if (condition.op == "and") is truth else unite(parts)
        case "in":
            return _membership(condition.args, truth)
        case "like":
            return _likeness(condition.args, truth)
        case "=" | "<>" | "<" | "<=" | ">" | ">=":
            op = condition.op if truth else NEGATED[condition.op]
            return _comparison(op, condition.args, pinned)
    return {}


def _comparison(op: str, sides: Sequence[Expression], pinned: Pinned) -> Ranges | None:
    left, right = sides
    if constant(left)[0]:
        left, right, op = right, left, FLIPPED[op]
    known, value = constant(right)
    if known and left.type is T.BOOLEAN and isinstance(value, bool) and op in ("=", "<>"):
        return _implied(left, value is (op == "="), pinned)
    name = term(left)
    if known and is_missing(value):
        return None if name is None else {name[0]: KeyRanges(())}
    if known:
        return {} if name is None else _restrict(name[0], ranges_of_comparison(op, name[1], value))
    return _all_of(
        (
            _against_symbol(op, left, right, pinned),
            _against_symbol(FLIPPED[op], right, left, pinned),
        )
    )


def _against_symbol(op: str, left: Expression, right: Expression, pinned: Pinned) -> Ranges:
    """Return what ``left op Y.b`` says where the range of ``Y.b`` is known."""
    if not (isinstance(left, Attribute) and isinstance(right, Attribute)):
        return {}
    anchor, name = right.anchor, term(left)
    if name is None or anchor.kind is AnchorKind.CURRENT or anchor.symbols is None:
        return {}
    if right.offset != 0 or left.type is not right.type or len(anchor.symbols) != 1:
        return {}
    values = pinned.get(anchor.symbols[0], {}).get(right.name)
    return {} if values is None else _restrict(name[0], _compared_with_any(op, values))


def _compared_with_any(op: str, values: KeyRanges) -> KeyRanges:
    """Return the keys that are ``op`` at least one of ``values``."""
    if values.is_empty() or op == "=":
        return values
    lowest, highest = values.ranges[0], values.ranges[-1]
    if op in (">", ">="):
        closed = op == ">=" and lowest.low_closed
        return KeyRanges.of([KeyRange(lowest.low, None, closed or lowest.low is None, True)])
    if op in ("<", "<="):
        closed = op == "<=" and highest.high_closed
        return KeyRanges.of([KeyRange(None, highest.high, True, closed or highest.high is None)])
    only = lowest.low is not None and lowest.low == highest.high
    return ranges_of_comparison("<>", None, lowest.low) if only else KeyRanges.everything()


def _restrict(name: str, ranges: KeyRanges) -> Ranges:
    return {} if ranges.is_everything() else {name: ranges}


def _membership(arguments: Sequence[Expression], truth: bool) -> Ranges | None:
    """Return the ranges of IN, or of NOT IN; a missing literal never equals anything."""
    name = term(arguments[0])
    if name is None:
        return {}
    values: list[Key] = []
    for argument in arguments[1:]:
        known, value = constant(argument)
        if not known:
            return {}
        if value is not None and not is_missing(value):
            values.append(value)
    op = "=" if truth else "<>"
    each = (ranges_of_comparison(op, name[1], value) for value in values)
    if truth:
        return _restrict(name[0], KeyRanges.of(r for ranges in each for r in ranges.ranges))
    return _all_of(_restrict(name[0], ranges) for ranges in each)


def _likeness(arguments: Sequence[Expression], truth: bool) -> Ranges:
    """Return the ranges of LIKE with a literal prefix, or of NOT LIKE without wildcards."""
    name = term(arguments[0])
    texts = [constant(argument)[1] for argument in arguments[1:]]
    if name is None or name[1] is not None or not all(isinstance(text, str) for text in texts):
        return {}
    pattern, *escape = (str(text) for text in texts)
    return _restrict(name[0], like_ranges(pattern, escape[0] if escape else None, truth))
