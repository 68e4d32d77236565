"""Which types go together, the casts that bring them there, and the error where they do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from replay.errors import BindError
from replay.expressions.literals import TimeTextError, parse_date, parse_timestamp
from replay.expressions.types import DECIMAL_DIGITS, DECIMAL_OF_SCALE, NUMERIC, SCALES
from replay.language import fold, syntax
from replay.language.bound import Aggregate, Call, DataType, Expression, Literal
from replay.language.source import Source, shown

T = DataType
_MOMENTS = frozenset({T.TIMESTAMP, T.TIMESTAMP_UTC})
_TIMES = _MOMENTS | {T.DATE}


def coerce(expression: Expression, target: DataType) -> Expression | None:
    """Return the expression in another type, as far as that goes without being asked for.

    INTEGER and DECIMAL go to DOUBLE and to a DECIMAL of more digits behind the point, NULL to
    anything, DATE to TIMESTAMP; of constants also a text to a time, a time without a zone to
    TIMESTAMP WITH TIME ZONE, taken as UTC, and a DOUBLE to a DECIMAL that it is written as.

    None where the types do not go together; TimeTextError if a text is not the time that it would
    have to be.
    """
    source = expression.type
    if source is target:
        return expression
    if source is T.NULL:
        return Literal(None, target)
    if target is T.DECIMAL_76:
        return _of_any_size(expression)
    if isinstance(expression, Literal) and (source, target) == (T.INTEGER, T.DOUBLE):
        value = expression.value  # at once, as lists of thousands are compared
        return Literal(None if value is None else float(value), target)
    if (source, target) in ((T.INTEGER, T.DOUBLE), (T.DATE, T.TIMESTAMP)):
        return fold.call("cast", (expression,), target)
    if target in SCALES:
        return _decimal(expression, target)
    if source in SCALES and target is T.DOUBLE:
        return fold.call("cast", (expression,), target)
    if not isinstance(expression, Literal):
        return None
    if source is T.STRING:
        return _time_of_text(expression, target)
    if target is T.TIMESTAMP_UTC and source in (T.TIMESTAMP, T.DATE):
        as_timestamp = coerce(expression, T.TIMESTAMP)
        assert isinstance(as_timestamp, Literal)
        return Literal(as_timestamp.value, target)
    return None


def _of_any_size(expression: Expression) -> Expression | None:
    """Return a count, a sum of integers or an integer constant as a DECIMAL of all its digits."""
    if expression.type is not T.INTEGER:
        return None
    if isinstance(expression, Literal):
        return Literal(expression.value, T.DECIMAL_76)
    is_number = isinstance(expression, Aggregate) and expression.function in ("count", "sum")
    return Call("cast", (expression,), T.DECIMAL_76) if is_number else None


def unify(expressions: Sequence[Expression]) -> tuple[Expression, ...] | None:
    """Return the expressions in the one type all of them go to; None if there is none.

    TimeTextError if a text is not the time that it would have to be.
    """
    targets = dict.fromkeys([expression.type for expression in expressions])
    if len(targets) == 1:
        return tuple(expressions)
    if targets.keys() & SCALES.keys():  # what no DECIMAL tells may be a DOUBLE
        targets[T.DOUBLE] = targets.pop(T.DOUBLE, None)
    # Texts come last: next to a time they become one, and '2020-99-99' is then the text's error.
    for target in sorted(targets, key=lambda candidate: candidate is T.STRING):
        coerced = [coerce(expression, target) for expression in expressions]
        if all(expression is not None for expression in coerced):
            return tuple(expression for expression in coerced if expression is not None)
    return None


def arithmetic(op: str, left: Expression, right: Expression) -> Expression | None:
    """Return ``left op right`` for ``+ - * / %``; None if the types have no such operation.

    TimeTextError if a text is not the time that it would have to be.
    """
    if T.NULL in (left.type, right.type):
        other = right.type if left.type is T.NULL else left.type
        return Literal(None, T.INTEGER if other is T.NULL else other)
    if {left.type, right.type} & SCALES.keys() and {left.type, right.type} <= NUMERIC:
        return _decimal_arithmetic(op, left, right)
    if left.type in NUMERIC and right.type in NUMERIC:
        unified = unify((left, right))
        assert unified is not None
        return fold.call(op, unified, unified[0].type)
    signature = _TIME_ARITHMETIC.get((op, left.type, right.type))
    if signature is not None:
        if signature.swapped:
            left, right = right, left
        converted = coerce(left, signature.left)
        assert converted is not None
        return fold.call(op, (converted, right), signature.result)
    if op == "-" and {left.type, right.type} & _TIMES:
        both = unify((left, right))
        if both is not None and both[0].type in _TIMES:
            result = T.INTEGER if both[0].type is T.DATE else T.INTERVAL
            return fold.call("-", both, result)
    return None


def _decimal_arithmetic(op: str, left: Expression, right: Expression) -> Expression | None:
    """Return ``left op right``, of which one is a DECIMAL: exact, but a quotient is a DOUBLE."""
    sides = [_as_decimal(side) for side in (left, right)]
    one, other = sides
    if op == "/" or one is None or other is None:
        doubles = [coerce(side, T.DOUBLE) for side in (left, right)]
        return fold.call(op, [side for side in doubles if side is not None], T.DOUBLE)
    if op == "*":
        scale = SCALES[one.type] + SCALES[other.type]
        fits = scale <= DECIMAL_DIGITS
        return fold.call(op, (one, other), DECIMAL_OF_SCALE[scale]) if fits else None
    unified = unify((one, other))
    assert unified is not None
    return fold.call(op, unified, unified[0].type)


def _as_decimal(expression: Expression) -> Expression | None:
    """Return a number as a DECIMAL; None for a DOUBLE but a constant of few digits."""
    if expression.type in SCALES:
        return expression
    if expression.type is T.INTEGER:
        return _decimal(expression, T.DECIMAL_0)
    if not isinstance(expression, Literal):
        return None
    decimals = (_decimal(expression, kind) for kind in SCALES)
    return next((decimal for decimal in decimals if decimal is not None), None)


def _decimal(expression: Expression, target: DataType) -> Expression | None:
    """Return a number in a DECIMAL type; None where that is not exact."""
    source, scale = expression.type, SCALES[target]
    if isinstance(expression, Literal) and source is T.DOUBLE:
        if not isinstance(expression.value, float) or not math.isfinite(expression.value):
            return None
        units = Fraction(repr(expression.value)) * 10**scale
        fits = units.denominator == 1 and abs(units) < 10**DECIMAL_DIGITS
        return Literal(int(units), target) if fits else None
    if source is not T.INTEGER and SCALES.get(source, scale) >= scale:
        return None
    converted = fold.call("cast", (expression,), target)
    is_lost = isinstance(converted, Literal) and converted.value is None
    return None if is_lost and expression != Literal(None, source) else converted


@dataclass(frozen=True, slots=True)
class _Signature:
    """How an operation on times is carried out: the type its left side is brought to."""

    left: DataType
    result: DataType
    swapped: bool = False


_TIME_ARITHMETIC: dict[tuple[str, DataType, DataType], _Signature] = {
    ("+", T.INTERVAL, T.INTERVAL): _Signature(T.INTERVAL, T.INTERVAL),
    ("-", T.INTERVAL, T.INTERVAL): _Signature(T.INTERVAL, T.INTERVAL),
    ("*", T.INTERVAL, T.INTEGER): _Signature(T.INTERVAL, T.INTERVAL),
    ("/", T.INTERVAL, T.INTEGER): _Signature(T.INTERVAL, T.INTERVAL),
    ("*", T.INTEGER, T.INTERVAL): _Signature(T.INTERVAL, T.INTERVAL, swapped=True),
    **{
        key: signature
        for time in (T.TIMESTAMP, T.TIMESTAMP_UTC, T.DATE)
        for as_type in [T.TIMESTAMP if time is T.DATE else time]
        for key, signature in {
            ("+", time, T.INTERVAL): _Signature(as_type, as_type),
            ("-", time, T.INTERVAL): _Signature(as_type, as_type),
            ("+", T.INTERVAL, time): _Signature(as_type, as_type, swapped=True),
        }.items()
    },
}


def _time_of_text(text: Literal, target: DataType) -> Expression | None:
    if text.value is None:
        return Literal(None, target) if target in _TIMES else None
    assert isinstance(text.value, str)
    if target is T.DATE:
        return parse_date(text.value)
    if target not in _MOMENTS:
        return None
    moment = parse_timestamp(text.value)
    if target is T.TIMESTAMP and moment.type is T.TIMESTAMP_UTC:
        reason = "names a time zone, and what it goes with is a TIMESTAMP without one"
        raise TimeTextError(text.value, reason)
    return coerce(moment, target)


Nodes = Sequence[syntax.Expression]
Bound = Sequence[Expression]


def agree(
    source: Source, nodes: Nodes, bound: Bound, what: str, at: syntax.Node
) -> tuple[Expression, ...]:
    """Return expressions in their common type.

    ``nodes`` are the expressions as written. Where there is no common type, the error begins with
    ``what``, such as ``cannot compare``, and points to ``at``.
    """
    try:
        unified = unify(bound)
    except TimeTextError as error:
        raise text_error(source, nodes, bound, error) from None
    if unified is None:
        raise source.error(f"{what} {sides(nodes, bound)}{_remedy(nodes, bound)}", at)
    return unified


def text_error(source: Source, nodes: Nodes, bound: Bound, error: TimeTextError) -> BindError:
    """Return the error of a text that is not the time it has to be, at that text."""
    written = [
        node
        for node, expression in zip(nodes, bound, strict=True)
        if isinstance(expression, Literal) and expression.value == error.text
    ]
    return source.error(str(error), written[0])


def sides(nodes: Nodes, bound: Bound) -> str:
    """Return ``a (TYPE) and b (TYPE)``, the first expression of each type."""
    first: dict[DataType, str] = {}
    for node, expression in zip(nodes, bound, strict=True):
        if expression.type is not T.NULL:
            first.setdefault(expression.type, f"{shown(node)} ({expression.type.value})")
    if len(first) == 1 and len(nodes) == 2:
        return " and ".join(
            f"{shown(node)} ({part.type.value})" for node, part in zip(nodes, bound, strict=True)
        )
    return " and ".join(first.values())


def _remedy(nodes: Nodes, bound: Bound) -> str:
    """Return what would make two expressions comparable, beginning with ``; ``, or nothing."""
    types = {expression.type for expression in bound} - {T.NULL}
    if T.STRING in types and types & {T.INTEGER, T.DOUBLE}:
        return _number_or_text(nodes, bound)
    if {T.TIMESTAMP, T.TIMESTAMP_UTC} <= types:
        return "; one is a local time and the other an instant with a zone"
    if types & _TIMES and types & {T.INTEGER, T.DOUBLE}:
        return "; write a time as TIMESTAMP 'YYYY-MM-DD HH:MM:SS'"
    if T.INTERVAL in types and types & {T.INTEGER, T.DOUBLE}:
        return "; write a duration with its unit, such as 30 MINUTES"
    if types & _TIMES and T.STRING in types:
        return "; only a text that is a constant is taken as a time"
    if T.BOOLEAN in types and len(types) == 2:
        return "; a BOOLEAN is TRUE or FALSE"
    return ""


def _number_or_text(nodes: Nodes, bound: Bound) -> str:
    for node, expression in zip(nodes, bound, strict=True):
        if isinstance(node, syntax.Number):
            return f"; a text is written in quotes: '{shown(node)}'"
        if isinstance(expression, Literal) and _is_number(expression.value):
            return f"; a number is written without quotes: {expression.value}"
    return ""


def _is_number(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True
