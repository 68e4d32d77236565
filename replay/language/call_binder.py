"""Calls of functions: found in the table, arguments checked, some written with operators."""

from __future__ import annotations

from collections.abc import Sequence

from replay.language import fold, syntax
from replay.language.agreement import agree
from replay.language.bound import DataType, Expression, Literal
from replay.language.coercion import coerce
from replay.language.functions import FUNCTIONS, NOT_YET, Argument, Function
from replay.language.source import Source, shown
from replay.language.types import NUMERIC

T = DataType

ROUND_DIGITS_MAX = 18
"""Beyond it, no digit of an INTEGER or DOUBLE is left to round."""


def find_function(node: syntax.Function, source: Source) -> Function:
    """Return the function that a call names.

    Raises
    ------
    NotSupportedError
        If it is one of SQL that is not here yet.
    UnknownNameError
        If there is none of that name.
    BindError
        If it takes another number of arguments.
    """
    name = node.name.name
    function = FUNCTIONS.get(name.lower())
    if function is None:
        if name.upper() in NOT_YET:
            raise source.not_supported(f"the function {name.upper()}", node)
        raise source.unknown("function", name, sorted(FUNCTIONS), node)
    count = len(node.args)
    if count < function.least or (count > len(function.arguments) and not function.variadic):
        raise source.error(f"{name} takes {_arity(function)}, not {count}", node)
    return function


def bind_function(
    function: Function, node: syntax.Function, args: Sequence[Expression], source: Source
) -> Expression:
    """Return the call of a function on bound arguments.

    Raises
    ------
    BindError
        If an argument has a type the function does not take.
    """
    checked = [
        _argument(kind, argument, part, node, source)
        for kind, argument, part in zip(_kinds(function, len(args)), args, node.args, strict=True)
    ]
    if any(argument.type is T.NULL for argument in checked) and function.result is not None:
        return Literal(None, function.result)
    alike = [i for i, kind in enumerate(_kinds(function, len(args))) if kind in _ALIKE]
    if alike:
        parts = [node.args[i] for i in alike]
        unified = agree(
            source,
            parts,
            [checked[i] for i in alike],
            f"{node.name.name} needs values of one type, not",
            node,
        )
        checked[: len(alike)] = unified
    result = function.result if function.result is not None else checked[0].type
    if function.name in ("greatest", "least"):
        return _extreme(">=" if function.name == "greatest" else "<=", checked)
    return fold.call("%" if function.name == "mod" else function.name, checked, result)


_ALIKE = (Argument.ANY, Argument.NUMBER)


def _kinds(function: Function, count: int) -> tuple[Argument, ...]:
    kinds = function.arguments[:count]
    return kinds + (function.arguments[-1],) * (count - len(kinds))


def _argument(
    kind: Argument,
    argument: Expression,
    part: syntax.Expression,
    node: syntax.Function,
    source: Source,
) -> Expression:
    """Check one argument and bring it to the type it is taken in."""
    if kind is Argument.DIGITS:
        return _digits(argument, part, source)
    if argument.type is T.NULL or kind is Argument.ANY:
        return argument
    if kind is Argument.STRING and argument.type is T.STRING:
        return argument
    if kind is not Argument.STRING and argument.type in NUMERIC:
        converted = coerce(argument, T.DOUBLE if kind is Argument.DOUBLE else argument.type)
        assert converted is not None
        return converted
    wanted = "a text" if kind is Argument.STRING else "a number"
    raise source.error(
        f"{node.name.name} takes {wanted}, and {shown(part)} is {argument.type.value}", part
    )


def _digits(argument: Expression, part: syntax.Expression, source: Source) -> Expression:
    if not isinstance(argument, Literal) or argument.type is not T.INTEGER:
        raise source.error(
            "round takes its number of digits as a constant whole number, not " + shown(part), part
        )
    digits = argument.value
    assert isinstance(digits, int)
    if abs(digits) > ROUND_DIGITS_MAX:
        limit = f"-{ROUND_DIGITS_MAX} to {ROUND_DIGITS_MAX}"
        raise source.error(f"round takes {limit} digits, not {digits}", part)
    return argument


def _extreme(op: str, args: Sequence[Expression]) -> Expression:
    """Write greatest or least as CASE: the first value that holds against all others.

    NULL and NaN hold against nothing and nothing against them, so the result is NULL then.
    """
    if len(args) == 1:
        return args[0]
    parts: list[Expression] = []
    for i, value in enumerate(args):
        against = [fold.comparison(op, value, other) for j, other in enumerate(args) if j != i]
        parts += (fold.all_of(against), value)
    return fold.call("case", (*parts, Literal(None, args[0].type)), args[0].type)


def _arity(function: Function) -> str:
    least, most = function.least, len(function.arguments)
    if function.variadic:
        return f"at least {least} argument{'s' if least > 1 else ''}"
    if least == most:
        return f"{most} argument{'s' if most > 1 else ''}"
    return f"{least} to {most} arguments"
