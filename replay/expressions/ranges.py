"""Implied ranges: what a symbol's condition says about single attributes of the current event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from indexing.key_range import Key, KeyRange, KeyRanges
from replay.expressions.atoms import (
    FLIPPED,
    NEGATED,
    constant,
    is_missing,
    like_ranges,
    points,
    ranges_of_comparison,
    term,
)
from replay.expressions.deltas import Magnitudes, delta_ranges
from replay.expressions.literals import INT64_MIN
from replay.expressions.nodes import (
    AnchorKind,
    Attribute,
    Call,
    Expression,
    Literal,
)
from replay.expressions.nodes import DataType as T

Ranges = dict[str, KeyRanges]
"""Range of each attribute that is restricted at all."""

Pinned = Mapping[int, Mapping[str, KeyRanges]]
"""Ranges that the events mapped to a symbol are known to obey, by symbol index."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known besides the condition itself."""

    pinned: Pinned = field(default_factory=dict)
    deltas: Magnitudes = field(default_factory=dict)


def implied_ranges(
    condition: Expression | None,
    *,
    pinned: Pinned | None = None,
    deltas: Magnitudes | None = None,
) -> Ranges | None:
    """Return the strongest ranges on single attributes that follow from a condition being TRUE.

    Inclusive: every event that satisfies the condition lies in every range; an attribute that is
    not named is not restricted (nor is anything said about nulls by leaving it out).

    ``pinned`` has the ranges of other symbols' events, for atoms such as ``X.a = Y.a``; ``deltas``
    the columns with an attribute ``delta(x)``, for atoms such as ``x > PREV(x)``. An empty range
    says that no event satisfies the condition; None says the same of a condition that is false
    whatever the attributes.

    Thesis 3.4.4 ("modify the symbol predicates"); negation is pushed down to the atoms first, since
    NOT of an atom replaced by ``true`` would lose matches.
    """
    if condition is None:
        return {}
    return _implied(condition, True, _Known(pinned or {}, deltas or {}))


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


def all_of(parts: Iterable[Ranges | None]) -> Ranges | None:
    """Return what holds if all parts hold: the intersection of each attribute's ranges."""
    joined: Ranges = {}
    for ranges in parts:
        if ranges is None:
            return None
        for name, r in ranges.items():
            joined[name] = joined[name].intersect(r) if name in joined else r
    return joined


def _implied(condition: Expression, truth: bool, known: _Known) -> Ranges | None:
    """Return the ranges if ``condition`` is exactly ``truth``; UNKNOWN is neither."""
    is_constant, value = constant(condition)
    if is_constant:
        return {} if value is truth else None
    if isinstance(condition, Attribute):
        name = term(condition)
        return {} if name is None else {name[0]: points([int(truth)])}
    if not isinstance(condition, Call):
        return {}
    match condition.op:
        case "not":
            return _implied(condition.args[0], not truth, known)
        case "and" | "or":
            parts = [_implied(argument, truth, known) for argument in condition.args]
            return all_of(parts) if (condition.op == "and") is truth else unite(parts)
        case "in":
            return _membership(condition.args, truth, known)
        case "like":
            return _likeness(condition.args, truth)
        case "=" | "<>" | "<" | "<=" | ">" | ">=":
            op = condition.op if truth else NEGATED[condition.op]
            return _comparison(op, condition.args, known)
    return {}


def _comparison(op: str, sides: Sequence[Expression], known: _Known) -> Ranges | None:
    left, right = sides
    if constant(left)[0]:
        left, right, op = right, left, FLIPPED[op]
    is_constant, value = constant(right)
    if is_constant:
        return _against_constant(op, left, value, known)
    return all_of(
        (
            _against_symbol(op, left, right, known.pinned),
            _against_symbol(FLIPPED[op], right, left, known.pinned),
            _against_row_before(op, left, right, known.deltas),
        )
    )


def _against_constant(op: str, left: Expression, value: Key | None, known: _Known) -> Ranges | None:
    if left.type is T.BOOLEAN and isinstance(value, bool) and op in ("=", "<>"):
        return _implied(left, value is (op == "="), known)
    name = term(left)
    if is_missing(value):
        return None if name is None else {name[0]: KeyRanges(())}
    if name is not None:
        return _restrict(name[0], ranges_of_comparison(op, name[1], value))
    if isinstance(left, Call) and left.op == "abs":
        return _against_magnitude(op, left.args[0], value, known)
    return _against_row_before(op, left, Literal(value, left.type), known.deltas)


def _against_magnitude(
    op: str, inner: Expression, value: Key | None, known: _Known
) -> Ranges | None:
    """Return what ``abs(inner) op value`` says: ``inner`` lies beyond, or between, two bounds."""
    if not isinstance(value, int | float) or value == INT64_MIN:
        return {}
    both = (
        _against_constant(op, inner, value, known),
        _against_constant(FLIPPED[op], inner, -value, known),
    )
    return unite(both) if op in ("=", ">", ">=") else all_of(both)


def _against_row_before(op: str, left: Expression, right: Expression, deltas: Magnitudes) -> Ranges:
    found = delta_ranges(op, left, right, deltas)
    return {} if found is None else dict([found])


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


def _membership(arguments: Sequence[Expression], truth: bool, known: _Known) -> Ranges | None:
    """Return the ranges of IN, or of NOT IN; a missing literal never equals anything."""
    name = term(arguments[0])
    values: list[Key] = []
    for argument in arguments[1:]:
        is_constant, value = constant(argument)
        if not is_constant:
            return {}
        if value is not None and not is_missing(value):
            values.append(value)
    op = "=" if truth else "<>"
    if name is None:
        atoms = (_against_constant(op, arguments[0], value, known) for value in values)
        return unite(atoms) if truth else all_of(atoms)
    each = (ranges_of_comparison(op, name[1], value) for value in values)
    if truth:
        return _restrict(name[0], KeyRanges.of(r for ranges in each for r in ranges.ranges))
    return all_of(_restrict(name[0], ranges) for ranges in each)


def _likeness(arguments: Sequence[Expression], truth: bool) -> Ranges:
    """Return the ranges of LIKE with a literal prefix, or of NOT LIKE without wildcards."""
    name = term(arguments[0])
    texts = [constant(argument)[1] for argument in arguments[1:]]
    if name is None or name[1] is not None or not all(isinstance(text, str) for text in texts):
        return {}
    pattern, *escape = (str(text) for text in texts)
    return _restrict(name[0], like_ranges(pattern, escape[0] if escape else None, truth))
