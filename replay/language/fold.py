"""Calls in their simplest form: constants computed, AND and OR flat, NOT pushed inwards.

Every rule keeps the three-valued result for every event (counted faults aside). Comparisons come
out as ``attribute op constant`` where they can, which is what planning reads ranges from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

from replay.expressions.atoms import DAY_US, FLIPPED, NEGATED
from replay.expressions.atoms import is_missing as is_missing_value
from replay.expressions.evaluate import constant
from replay.expressions.types import DECIMAL_DIGITS, SCALES
from replay.language.bound import Call, DataType, Expression, Literal

TRUE = Literal(True, DataType.BOOLEAN)
FALSE = Literal(False, DataType.BOOLEAN)
UNKNOWN = Literal(None, DataType.BOOLEAN)

_EXACT_DOUBLE = 2.0**53
"""Whole numbers below it are doubles, and no other whole number rounds to them."""


def call(op: str, args: Sequence[Expression], data_type: DataType) -> Expression:
    """Return ``Call(op, args, data_type)`` or something simpler with the same value."""
    arguments = tuple(args)
    rule = _RULES.get(op)
    if rule is not None:
        return rule(op, arguments, data_type)
    if any(isinstance(argument, Literal) and argument.value is None for argument in arguments):
        return Literal(None, data_type)
    return _computed(Call(op, arguments, data_type))


def folded(expression: Expression) -> Expression:
    """Return an expression of which parts became constants in its simplest form."""
    if not isinstance(expression, Call):
        return expression
    return call(expression.op, [folded(part) for part in expression.args], expression.type)


def _computed(call: Call) -> Expression:
    """Return the value of a call if all its arguments are constants."""
    is_constant = all(isinstance(argument, Literal) for argument in call.args)
    return constant(call) if is_constant else call


def all_of(terms: Sequence[Expression]) -> Expression:
    """Return the terms joined by AND."""
    return call("and", terms, DataType.BOOLEAN)


def joined(terms: Iterable[Expression | None]) -> Expression | None:
    """Return the terms that there are joined by AND; None, which asks nothing, if there is none."""
    asked = [term for term in terms if term is not None]
    return all_of(asked) if asked else None


def conjuncts(condition: Expression | None) -> Iterator[Expression]:
    """Yield the terms that AND joins in a condition; none of one that asks nothing."""
    if isinstance(condition, Call) and condition.op == "and":
        for argument in condition.args:
            yield from conjuncts(argument)
    elif condition is not None:
        yield condition


def any_of(terms: Sequence[Expression]) -> Expression:
    """Return the terms joined by OR."""
    return call("or", terms, DataType.BOOLEAN)


def negate(term: Expression) -> Expression:
    """Return NOT of a condition."""
    return call("not", (term,), DataType.BOOLEAN)


def comparison(op: str, left: Expression, right: Expression) -> Expression:
    """Return a comparison of two expressions of one type."""
    return call(op, (left, right), DataType.BOOLEAN)


def is_missing(expression: Expression) -> bool:
    """Tell whether the expression is the constant NULL or NaN, which equals nothing."""
    return isinstance(expression, Literal) and is_missing_value(expression.value)


# ---------------------------------------------------------------------------------------------
# Rules


def _junction(op: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    absorbing, neutral = (FALSE, TRUE) if op == "and" else (TRUE, FALSE)
    terms: dict[Expression, None] = {}
    for argument in args:
        if isinstance(argument, Call) and argument.op == op:
            terms.update(dict.fromkeys(argument.args))
        else:
            terms[argument] = None
    if absorbing in terms:
        return absorbing
    terms.pop(neutral, None)
    if not terms:
        return neutral
    return next(iter(terms)) if len(terms) == 1 else Call(op, tuple(terms), data_type)


def _negation(_: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    (argument,) = args
    if isinstance(argument, Literal):
        return UNKNOWN if argument.value is None else Literal(not argument.value, data_type)
    if isinstance(argument, Call):
        if argument.op == "not":
            return argument.args[0]
        if argument.op in NEGATED:
            return Call(NEGATED[argument.op], argument.args, data_type)
        if argument.op in ("and", "or"):
            dual = "or" if argument.op == "and" else "and"
            return _junction(dual, tuple(negate(term) for term in argument.args), data_type)
    return Call("not", args, data_type)


def _comparison(op: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    left, right = map(_ordered, args)
    if is_missing(left) or is_missing(right):
        return UNKNOWN
    if isinstance(left, Literal):
        if isinstance(right, Literal):
            return constant(Call(op, (left, right), data_type))
        left, right, op = right, left, FLIPPED[op]
    if isinstance(right, Literal) and isinstance(left, Call) and left.op == "cast":
        return _through_cast(op, left, right) or Call(op, (left, right), data_type)
    return Call(op, (left, right), data_type)


def _ordered(argument: Expression) -> Expression:
    """Return what is compared in place of a number cast to DECIMAL.

    One of more than 18 digits has no such value, which is a fault, but it is less or greater than
    all that have one.
    """
    if isinstance(argument, Call) and argument.op == "cast" and argument.type in SCALES:
        return Call("saturated", argument.args, argument.type)
    return argument


def _through_cast(op: str, left: Call, right: Literal) -> Expression | None:
    """Compare what is cast, not the cast, with a constant; exact, as both casts keep order."""
    inner = left.args[0]
    bounds = _below_and_above(right, inner.type)
    if bounds is None:
        return None
    below, above = bounds
    if below == above:
        return Call(op, (inner, Literal(below, inner.type)), DataType.BOOLEAN)
    if op in ("<", "<="):
        return Call("<=", (inner, Literal(below, inner.type)), DataType.BOOLEAN)
    if op in (">", ">="):
        return Call(">=", (inner, Literal(above, inner.type)), DataType.BOOLEAN)
    return None


def _below_and_above(literal: Literal, source: DataType) -> tuple[int, int] | None:
    """Return the nearest values of the source type at or below and at or above a constant."""
    value = literal.value
    if source is DataType.INTEGER and isinstance(value, float):
        if abs(value) < _EXACT_DOUBLE:
            return math.floor(value), math.ceil(value)
    elif source is DataType.DATE and isinstance(value, int):
        return value // DAY_US, -(-value // DAY_US)
    elif source in SCALES and literal.type is DataType.DOUBLE and isinstance(value, float):
        return _units_around(value, SCALES[source])
    return None


def _units_around(value: float, scale: int) -> tuple[int, int]:
    """Return the nearest units at or below and at or above a constant, taken as it is written."""
    limit = 10**DECIMAL_DIGITS
    if math.isinf(value):
        return (limit, limit) if value > 0 else (-limit, -limit)
    exact = Fraction(repr(value)) * 10**scale
    below, above = math.floor(exact), math.ceil(exact)
    return max(-limit, min(below, limit)), max(-limit, min(above, limit))


def _membership(op: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    value, *options = _ordered(args[0]), *args[1:]
    if is_missing(value):
        return UNKNOWN
    known = list(dict.fromkeys(option for option in options if not is_missing(option)))
    terms: list[Expression] = []
    if isinstance(value, Literal) or len(known) == 1:
        terms.extend(_comparison("=", (value, option), data_type) for option in known)
    elif known:
        terms.append(_options_through_cast(value, known) or Call(op, (value, *known), data_type))
    if any(is_missing(option) for option in options):
        terms.append(UNKNOWN)
    return any_of(terms)


def _options_through_cast(value: Expression, options: list[Expression]) -> Expression | None:
    if not (isinstance(value, Call) and value.op == "cast"):
        return None
    inner = value.args[0]
    whole = []
    for option in options:
        assert isinstance(option, Literal)
        bounds = _below_and_above(option, inner.type)
        if bounds is None:
            return None
        if bounds[0] == bounds[1]:
            whole.append(Literal(bounds[0], inner.type))
    if not whole:
        return None
    return _membership("in", (inner, *whole), DataType.BOOLEAN)


def _null_test(op: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    (argument,) = args
    if isinstance(argument, Literal):
        return TRUE if argument.value is None else FALSE
    return Call(op, args, data_type)


def _case(op: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    kept: list[Expression] = []
    otherwise = args[-1]
    for condition, value in zip(args[:-1:2], args[1::2], strict=True):
        if condition == TRUE:
            otherwise = value
            break
        if not isinstance(condition, Literal):
            kept += (condition, value)
    return Call(op, (*kept, otherwise), data_type) if kept else otherwise


def _coalesce(op: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    kept: list[Expression] = []
    for argument in args:
        if isinstance(argument, Literal):
            if argument.value is None:
                continue
            kept.append(argument)
            break
        kept.append(argument)
    if not kept:
        return Literal(None, data_type)
    return kept[0] if len(kept) == 1 else Call(op, tuple(kept), data_type)


def _nullif(op: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    left, right = args
    equal = _comparison("=", (left, right), DataType.BOOLEAN)
    if isinstance(equal, Literal):
        return Literal(None, data_type) if equal.value is True else left
    if equal != Call("=", (left, right), DataType.BOOLEAN):
        return _case("case", (equal, Literal(None, data_type), left), data_type)
    return Call(op, args, data_type)


def _is_distinct(op: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    left, right = args
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Literal) and one.value is None:
            return negate(call("is_null", (other,), data_type))
    if isinstance(left, Literal) and isinstance(right, Literal):
        return constant(Call(op, args, data_type))
    equal = _comparison("=", args, DataType.BOOLEAN)
    return Call(op, equal.args if isinstance(equal, Call) else args, data_type)


def _concat_ws(op: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    separator, *texts = args
    if isinstance(separator, Literal) and separator.value is None:
        return Literal(None, data_type)
    known = [text for text in texts if not (isinstance(text, Literal) and text.value is None)]
    return _computed(Call(op, (separator, *known), data_type))


def _cast(op: str, args: tuple[Expression, ...], data_type: DataType) -> Expression:
    (argument,) = args
    if argument.type is data_type:
        return argument
    if isinstance(argument, Literal) and argument.value is None:
        return Literal(None, data_type)
    return _computed(Call(op, args, data_type))


_RULES: dict[str, Callable[[str, tuple[Expression, ...], DataType], Expression]] = {
    "and": _junction,
    "or": _junction,
    "not": _negation,
    **dict.fromkeys(NEGATED, _comparison),
    "in": _membership,
    "is_null": _null_test,
    "case": _case,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "is_distinct": _is_distinct,
    "concat_ws": _concat_ws,
    "cast": _cast,
}
