"""Ranges of ``delta(x)`` that follow from comparing ``x`` with that of the event before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from chronicle.tree.derived_attributes import Delta
from indexing.key_range import Key, KeyRange, KeyRanges
from replay.expressions.atoms import (
    DAY_US,
    DOUBLE_MAX,
    FLIPPED,
    INTEGRAL,
    TO_DOUBLE,
    TO_TIMESTAMP,
    all_integers_but,
    constant,
    integers,
    is_missing,
    points,
    ranges_of_comparison,
)
from replay.expressions.literals import INT64_MAX
from replay.expressions.nodes import AnchorKind, Attribute, Call, Expression, walk
from replay.expressions.nodes import DataType as T

Magnitudes = Mapping[str, int | float]
"""Columns x whose attribute ``delta(x)`` may be used, and what no value of x exceeds in magnitude;
infinity where that is not known, or where x has infinite values."""

_EXACT_INTEGERS: Final = 2**53
"""Up to this magnitude every integer is a double."""

INT64_MAGNITUDE: Final = 2**63


def _reads(attribute: Attribute, offset: int) -> bool:
    return attribute.anchor.kind is AnchorKind.CURRENT and attribute.offset == offset


def delta_ranges(
    op: str, left: Expression, right: Expression, magnitudes: Magnitudes
) -> tuple[str, KeyRanges] | None:
    """Return the keys of ``delta(x)`` for which ``left op right`` may be TRUE, and its name.

    Both sides may be sums and differences of ``x``, ``PREV(x)`` and constants. Let p be PREV(x).
    Where the difference of the sides is k times x - p and a constant, the comparison bounds
    x - p: exactly for integers, whose overflow is no number; for doubles up to the rounding of
    each sum. A sum of u and v is off by at most half the spacing of doubles at the greatest
    magnitude it can have; and, being the double *nearest* to the exact sum, by at most |u| and
    |v|, since u and v are doubles too. That holds of a sum that overflows if infinity stands for
    the greatest double. So ``x >= p + c`` with c > 0 gives ``x >= p`` even where nothing is
    known of p: 4.0 >= 3.2 + 0.8 is TRUE while 4.0 - 3.2 < 0.8.

    Inclusive, and with the key of open events, whose difference is no finite number of its type or
    not told by their file. None: nothing follows. ``magnitudes`` are those of `usable_deltas`.

    The key of an event is its difference as its data file has it: x - p rounded to nearest, which
    keeps order, so a bound of x - p, rounded likewise, is a bound of the key.
    """
    parts = [part for side in (left, right) for part in walk(side) if isinstance(part, Attribute)]
    if not parts or any(part.name != parts[0].name for part in parts):
        return None
    name, is_whole = parts[0].name, parts[0].type in INTEGRAL
    if name not in magnitudes or not all(_reads(part, 0) or _reads(part, -1) for part in parts):
        return None
    found = _of_the_difference(op, left, right)
    if found is None:
        sides = [_linear(side, magnitudes[name]) for side in (left, right)]
        found = _bounded(op, sides[0], sides[1], is_whole=is_whole)
    if found is None or found.is_everything():
        return None
    return Delta(name).name, found.union(points([INT64_MAX if is_whole else math.inf]))


def _of_the_difference(op: str, left: Expression, right: Expression) -> KeyRanges | None:
    """Return the keys where one side is just ``x - p`` or ``p - x`` of doubles: exact."""
    sign = _sign_of_difference(left)
    if not sign and _sign_of_difference(right):
        left, right, op = right, left, FLIPPED[op]
        sign = _sign_of_difference(left)
    known, value = constant(right)
    if not (sign and known and left.type is T.DOUBLE) or is_missing(value):
        return None
    # p - x is rounded to exactly -(x - p).
    of_the_key = float(value) if sign > 0 else -float(value)  # type: ignore[arg-type]
    return ranges_of_comparison(op if sign > 0 else FLIPPED[op], None, of_the_key)


def _sign_of_difference(expression: Expression) -> int:
    """Return 1 for ``x - p``, -1 for ``p - x``, 0 for what is neither."""
    if not (isinstance(expression, Call) and expression.op == "-"):
        return 0
    offsets = [part.offset for part in expression.args if isinstance(part, Attribute)]
    return (offsets == [0, -1]) - (offsets == [-1, 0])


@dataclass(frozen=True, slots=True)
class _Linear:
    """``current * x + before * p + constant``, and how far its computed value can be from it."""

    current: int
    before: int
    constant: Fraction
    magnitude: Fraction | None
    """What the computed value does not exceed; None: it may be any double."""
    error: Fraction = Fraction(0)

    def times(self, factor: int) -> _Linear:
        magnitude = None if self.magnitude is None else abs(factor) * self.magnitude
        return replace(
            self,
            current=factor * self.current,
            before=factor * self.before,
            constant=factor * self.constant,
            magnitude=magnitude,
        )


def _linear(expression: Expression, magnitude: int | float) -> _Linear | None:
    """Return the expression as a linear form; None if it is none, or nothing bounds its error."""
    known, value = constant(expression)
    if known:
        return _number(value)
    if isinstance(expression, Attribute):
        at_most = None if math.isinf(magnitude) else Fraction(magnitude)
        is_current = expression.offset == 0
        return _Linear(int(is_current), int(not is_current), Fraction(0), at_most)
    if not isinstance(expression, Call):
        return None
    parts = [_linear(argument, magnitude) for argument in expression.args]
    match expression.op, parts:
        case "neg", [_Linear() as inner]:
            return inner.times(-1)
        case "cast", [_Linear() as inner]:
            return _cast(expression.args[0].type, expression.type, inner)
        case "+", [_Linear() as a, _Linear() as b]:
            return _sum(a, b, is_whole=expression.type in INTEGRAL)
        case "-", [_Linear() as a, _Linear() as b]:
            return _sum(a, b.times(-1), is_whole=expression.type in INTEGRAL)
    return None


def _number(value: Key | None) -> _Linear | None:
    if isinstance(value, str | bool) or value is None or not math.isfinite(value):
        return None
    return _Linear(0, 0, Fraction(value), abs(Fraction(value)))


def _cast(source: T, target: T, inner: _Linear) -> _Linear | None:
    if source is target:
        return inner
    if (source, target) == TO_TIMESTAMP:
        return inner.times(DAY_US)
    if (source, target) != TO_DOUBLE or inner.magnitude is None:
        return None
    # What overflows is NULL, so whatever the form, its value is a 64-bit integer.
    at_most = min(inner.magnitude, Fraction(INT64_MAGNITUDE))
    if at_most <= _EXACT_INTEGERS:
        return replace(inner, magnitude=at_most)
    error = _half_spacing(at_most)
    assert error is not None, "64 bits are far below the greatest double"
    return replace(inner, magnitude=at_most + error, error=error)


def _sum(a: _Linear, b: _Linear, *, is_whole: bool) -> _Linear | None:
    """Return the sum as it is computed: exact for integers, else with one more rounding."""
    known = a.magnitude is not None and b.magnitude is not None
    exact = a.magnitude + b.magnitude if known else None  # type: ignore[operator]
    form = _Linear(a.current + b.current, a.before + b.before, a.constant + b.constant, exact)
    if is_whole:
        return form
    spacing = None if exact is None else _half_spacing(exact)
    roundings = [r for r in (spacing, a.magnitude, b.magnitude) if r is not None]
    if not roundings:
        return None
    rounding = min(roundings)
    at_most = None if spacing is None or exact is None else exact + rounding
    return replace(form, magnitude=at_most, error=a.error + b.error + rounding)


def _half_spacing(magnitude: Fraction) -> Fraction | None:
    """Return half the spacing of doubles at a magnitude; None if it is beyond the greatest."""
    if magnitude >= Fraction(DOUBLE_MAX):
        return None
    return Fraction(math.ulp(float(magnitude))) / 2


def _bounded(
    op: str, left: _Linear | None, right: _Linear | None, *, is_whole: bool
) -> KeyRanges | None:
    """Return the keys that ``left op right`` leaves, the roundings of both sides allowed for."""
    if left is None or right is None:
        return None
    factor = left.current - right.current
    if factor == 0 or factor != right.before - left.before:
        return None
    # factor * (x - p) op bound, where both sides together are off by at most the error.
    bound = (right.constant - left.constant) / factor
    error = (left.error + right.error) / abs(factor)
    op = op if factor > 0 else FLIPPED[op]
    if op == "<>":
        return _all_but(bound, is_whole=is_whole) if error == 0 else None
    low = bound - error if op in ("=", ">", ">=") else None
    high = bound + error if op in ("=", "<", "<=") else None
    is_open = op in ("<", ">") and error == 0
    to_ranges = _whole_ranges if is_whole else _double_ranges
    return to_ranges(low, high, is_open=is_open)


def _all_but(bound: Fraction, *, is_whole: bool) -> KeyRanges | None:
    if is_whole and bound.denominator == 1:
        return all_integers_but(int(bound))
    # x <> p is x - p <> 0: doubles have no difference too small to be one.
    return ranges_of_comparison("<>", None, 0.0) if bound == 0 and not is_whole else None


def _whole_ranges(low: Fraction | None, high: Fraction | None, *, is_open: bool) -> KeyRanges:
    first = last = None
    if low is not None:
        first = math.floor(low) + 1 if is_open else math.ceil(low)
    if high is not None:
        last = math.ceil(high) - 1 if is_open else math.floor(high)
    return integers(first, last)


def _double_ranges(low: Fraction | None, high: Fraction | None, *, is_open: bool) -> KeyRanges:
    # Strict where nothing was rounded, so that the bound is 0: unlike values differ by more.
    first = None if low is None else _rounded(low)
    last = None if high is None else _rounded(high)
    return KeyRanges.of([KeyRange(first, last, not is_open, not is_open)])


def _rounded(bound: Fraction) -> float | None:
    """Return the double nearest to a bound, or None beyond the greatest."""
    try:
        return float(bound)
    except OverflowError:
        return None
