"""Atoms of conditions: one attribute against constants, as ranges of the attribute's own keys."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from indexing.key_range import Key, KeyRange, KeyRanges, after_prefix
from replay.expressions import evaluate
from replay.expressions.literals import INT64_MAX, INT64_MIN, UNIT_US
from replay.expressions.nodes import AnchorKind, Attribute, Call, Expression, Literal
from replay.expressions.nodes import DataType as T
from replay.expressions.types import SCALES

FLIPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""``a op b`` is ``b FLIPPED[op] a``."""

NEGATED: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""``NOT a op b`` is ``a NEGATED[op] b``, UNKNOWN included."""

DAY_US: Final = UNIT_US["DAY"]
DOUBLE_MAX: Final = math.nextafter(math.inf, 0.0)

Cast = tuple[T, T]
"""A cast that keeps order, as (from, to)."""

TO_DOUBLE: Final[Cast] = (T.INTEGER, T.DOUBLE)
TO_TIMESTAMP: Final[Cast] = (T.DATE, T.TIMESTAMP)

INTEGRAL: Final = frozenset({T.INTEGER, T.TIMESTAMP, T.TIMESTAMP_UTC, T.DATE, T.INTERVAL})


def term(expression: Expression) -> tuple[str, Cast | None] | None:
    """Return the current event's attribute and the cast around it, or None if it is no such term.

    Casts that are not known to keep order make it no term.
    """
    if isinstance(expression, Attribute):
        # Neither trees nor indexes hold DECIMALs.
        current = expression.anchor.kind is AnchorKind.CURRENT and expression.offset == 0
        current = current and expression.type not in SCALES
        return (expression.name, None) if current else None
    if isinstance(expression, Call) and expression.op == "cast":
        inner = expression.args[0]
        below = term(inner) if isinstance(inner, Attribute) else None
        if below is None:
            return None
        if inner.type is expression.type:
            return below
        cast = (inner.type, expression.type)
        return (below[0], cast) if cast in (TO_DOUBLE, TO_TIMESTAMP) else None
    return None


def constant(expression: Expression) -> tuple[bool, Key | None]:
    """Return whether the expression is the same for all events and can be told, and its value.

    What gives NULL without being written so is not told: it may be a fault of each row.
    """
    if isinstance(expression, Literal):
        if expression.type is T.DOUBLE and expression.value is not None:
            return True, float(expression.value)
        return True, expression.value
    if not isinstance(expression, Call) or not _reads_nothing(expression):
        return False, None
    value = evaluate.constant(expression).value
    return value is not None, value


def _reads_nothing(expression: Expression) -> bool:
    if isinstance(expression, Call):
        return all(map(_reads_nothing, expression.args))
    return isinstance(expression, Literal)


def is_missing(value: Key | None) -> bool:
    """Return whether a comparison with the value is UNKNOWN: NULL or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def points(values: Iterable[Key]) -> KeyRanges:
    """Return the ranges that hold exactly the values; booleans as 0 and 1."""
    return KeyRanges.of(KeyRange(key, key) for key in map(_to_key, values))


def _to_key(value: Key) -> Key:
    return int(value) if isinstance(value, bool) else value


def ranges_of_comparison(op: str, cast: Cast | None, value: Key | None) -> KeyRanges:
    """Return the keys ``x`` for which ``cast(x) op value`` may be TRUE.

    ``value`` is a constant that is not missing, of the type the cast leads to.
    """
    if value is None:
        return KeyRanges(())
    if cast == TO_DOUBLE:
        return _integers_as_doubles(op, float(value))
    if cast == TO_TIMESTAMP:
        return _days_as_timestamps(op, int(value))
    key = _to_key(value)
    match op:
        case "=":
            return points([key])
        case "<>":
            return KeyRanges.of((KeyRange(None, key, True, False), KeyRange(key, None, False)))
        case "<" | "<=":
            return KeyRanges.of([KeyRange(None, key, True, op == "<=")])
        case _:
            return KeyRanges.of([KeyRange(key, None, op == ">=")])


def _integers_as_doubles(op: str, value: float) -> KeyRanges:
    """Return the integers whose double, rounded to nearest, may compare so with ``value``.

    Rounding keeps order, so ``double(x) >= v`` implies that x lies above the double before v.
    That is exact up to 2**53 and admits at most one spacing of doubles too much beyond.
    """
    if math.isinf(value):
        # No integer becomes an infinite double.
        admitting = ("<", "<=", "<>") if value > 0 else (">", ">=", "<>")
        return KeyRanges.everything() if op in admitting else KeyRanges(())
    below = math.nextafter(value, -math.inf)
    at_least = None if math.isinf(below) else math.floor(below) + 1
    at_most = math.ceil(math.nextafter(value, math.inf)) - 1 if value < DOUBLE_MAX else None
    match op:
        case "=":
            return integers(at_least, at_most)
        case ">=":
            return integers(at_least, None)
        case "<=":
            return integers(None, at_most)
        case ">":
            return integers(math.floor(value) + 1, None)
        case "<":
            return integers(None, math.ceil(value) - 1)
    return all_integers_but(int(value)) if value.is_integer() else KeyRanges.everything()


def _days_as_timestamps(op: str, micros: int) -> KeyRanges:
    """Return the days whose midnight compares so with a time in microseconds."""
    floor, ceiling = micros // DAY_US, -(-micros // DAY_US)
    match op:
        case "=":
            return integers(ceiling, floor)
        case ">=":
            return integers(ceiling, None)
        case "<=":
            return integers(None, floor)
        case ">":
            return integers(floor + 1, None)
        case "<":
            return integers(None, ceiling - 1)
    return all_integers_but(floor) if floor == ceiling else KeyRanges.everything()


def integers(low: int | None, high: int | None) -> KeyRanges:
    """Return the 64-bit integers from ``low`` to ``high``, both included."""
    if (low is not None and low > INT64_MAX) or (high is not None and high < INT64_MIN):
        return KeyRanges(())
    low = None if low is None or low <= INT64_MIN else low
    high = None if high is None or high >= INT64_MAX else high
    return KeyRanges.of([KeyRange(low, high)])


def all_integers_but(value: int) -> KeyRanges:
    """Return all 64-bit integers but one."""
    return integers(None, value - 1).union(integers(value + 1, None))


def like_ranges(pattern: str, escape: str | None, truth: bool) -> KeyRanges:
    """Return the strings that may be LIKE the pattern (or NOT LIKE, if ``truth`` is False)."""
    prefix, is_exact = _literal_prefix(pattern, escape)
    if is_exact:
        return ranges_of_comparison("=" if truth else "<>", None, prefix)
    if not truth or not prefix:
        return KeyRanges.everything()
    end = after_prefix(prefix)
    return KeyRanges.of([KeyRange(prefix, end, True, end is None)])


def _literal_prefix(pattern: str, escape: str | None) -> tuple[str, bool]:
    """Return the text before the first wildcard, and whether there is no wildcard at all."""
    prefix: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            character = next(characters, "")
            if character not in ("%", "_", escape):
                return "".join(prefix), False
        elif character in "%_" or (character == "\\" and escape is None):
            # Evaluators differ on a backslash nobody declared; what comes before it is common.
            return "".join(prefix), False
        prefix.append(character)
    return "".join(prefix), True


def count_predicates(conditions: Iterable[Expression | None]) -> int:
    """Return the number of different predicates that conditions put together by AND, OR, NOT."""
    atoms: set[Expression] = set()
    waiting = [condition for condition in conditions if condition is not None]
    while waiting:
        expression = waiting.pop()
        if isinstance(expression, Call) and expression.op in ("and", "or", "not"):
            waiting += expression.args
        else:
            atoms.add(expression)
    return len(atoms)
