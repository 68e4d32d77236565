"""Calls of functions: found in the table, arguments checked, some written with operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from replay.errors import NotSupportedError
from replay.language import fold, syntax, time_binder
from replay.language.agreement import agree
from replay.language.bound import DataType, Expression, Literal
from replay.language.coercion import coerce
from replay.language.functions import (
    FUNCTIONS,
    INSTEAD,
    NOT_YET,
    PARTS,
    Argument,
    Function,
    why_refused,
)
from replay.language.source import Source, shown
from replay.language.texts import check_regexp
from replay.language.types import NUMERIC, SCALES

T = DataType

_LISTED = "docs/sql.md lists all, under 'Expressions and functions'"
"""Said of a function that is not there: a hundred names are no message."""

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
        word = name.upper()
        refused = why_refused(word)
        if refused is not None:
            raise NotSupportedError(refused, **source.place(node))
        if word in NOT_YET:
            raise source.not_supported(f"the function {word}", node, INSTEAD.get(word, ""))
        raise source.unknown("function", name, sorted(FUNCTIONS), node, listed=_LISTED)
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
    if function.name == "concat_ws":
        return _concat_ws(checked)
    if any(argument.type is T.NULL for argument in checked) and function.result is not None:
        return Literal(None, function.result)
    checked = _of_one_type(function, node, checked, source)
    if function.name in PARTS:
        return time_binder.part(function.name, checked[0], node.args[0], source, node)
    if function.name in time_binder.WRITERS:
        missing = [argument for argument in checked if argument.type is T.NULL]
        return missing[0] if missing else time_binder.WRITERS[function.name](node, checked, source)
    if function.name in _WRITERS:
        return _WRITERS[function.name](checked)
    result = function.result if function.result is not None else checked[0].type
    return fold.call(function.name, checked, result)


def _of_one_type(
    function: Function, node: syntax.Function, args: list[Expression], source: Source
) -> list[Expression]:
    """Bring those arguments of a function to one type that need it."""
    alike = [i for i, kind in enumerate(_kinds(function, len(args))) if kind in _ALIKE]
    if alike:
        unified = agree(
            source,
            [node.args[i] for i in alike],
            [args[i] for i in alike],
            f"{node.name.name} needs values of one type, not",
            node,
        )
        for i, argument in zip(alike, unified, strict=True):
            args[i] = argument
    return args


_ALIKE = (Argument.ANY, Argument.NUMBER)


def _kinds(function: Function, count: int) -> tuple[Argument, ...]:
    kinds = function.arguments[:count]
    if not kinds:
        return kinds
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
    wanted, types = _TAKEN[kind]
    if argument.type not in types:
        raise source.error(
            f"{node.name.name} takes {wanted}, and {shown(part)} is {argument.type.value}"
            f"{_remedy(kind, argument)}",
            part,
        )
    if kind is Argument.PATTERN:
        _check_pattern(argument, part, source)
    # Functions of numbers know no DECIMAL but for its magnitude.
    is_double = kind is Argument.DOUBLE or (kind is Argument.NUMBER and argument.type in SCALES)
    converted = coerce(argument, T.DOUBLE if is_double else argument.type)
    assert converted is not None
    return converted


_MOMENTS = frozenset({T.TIMESTAMP, T.TIMESTAMP_UTC, T.DATE})
_TAKEN: dict[Argument, tuple[str, frozenset[DataType]]] = {
    Argument.NUMBER: ("a number", NUMERIC),
    Argument.MAGNITUDE: ("a number or a duration", NUMERIC | {T.INTERVAL}),
    Argument.DOUBLE: ("a number", NUMERIC),
    Argument.INTEGER: ("a whole number", frozenset({T.INTEGER})),
    Argument.STRING: ("a text", frozenset({T.STRING})),
    Argument.PATTERN: ("a text", frozenset({T.STRING})),
    Argument.UNIT: ("a text", frozenset({T.STRING})),
    Argument.MOMENT: ("a time", _MOMENTS),
    Argument.TIME: ("a time or a duration", _MOMENTS | {T.INTERVAL}),
    Argument.CONDITION: ("a condition", frozenset({T.BOOLEAN})),
}


def _remedy(kind: Argument, argument: Expression) -> str:
    """Return what would make an argument fit, beginning with ``; ``, or nothing."""
    if kind is Argument.STRING:
        return "; write CAST(… AS STRING)"
    if kind in (Argument.MOMENT, Argument.TIME):
        if argument.type in NUMERIC:
            return "; write from_unixtime(…) of a number of seconds"
        return "; write CAST(… AS TIMESTAMP)" if argument.type is T.STRING else ""
    if kind is Argument.INTEGER and argument.type is T.DOUBLE:
        return "; write CAST(… AS INTEGER)"
    if argument.type is T.STRING and kind is not Argument.CONDITION:
        return "; write CAST(… AS DOUBLE)"
    return ""


def _check_pattern(argument: Expression, part: syntax.Expression, source: Source) -> None:
    if not isinstance(argument, Literal):
        raise source.not_supported("a regular expression that is no constant", part)
    try:
        check_regexp(str(argument.value))
    except ValueError as error:
        raise source.error(f"{shown(part)} is no regular expression (RE2): {error}", part) from None


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


def _concat_ws(args: Sequence[Expression]) -> Expression:
    """Return the texts that are not NULL, the first one between them."""
    texts = [argument for argument in args[1:] if argument.type is not T.NULL]
    separator = args[0] if args[0].type is not T.NULL else Literal(None, T.STRING)
    return fold.call("concat_ws", (separator, *texts), T.STRING)


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


_WRITERS: dict[str, Callable[[Sequence[Expression]], Expression]] = {
    "greatest": lambda args: _extreme(">=", args),
    "least": lambda args: _extreme("<=", args),
    "mod": lambda args: fold.call("%", args, args[0].type),
    "ifnull": lambda args: fold.call("coalesce", args, args[0].type),
    "pi": lambda _: Literal(math.pi, T.DOUBLE),
    "if": lambda args: fold.call(
        "case", (*args, *[Literal(None, args[1].type)][len(args) - 2 :]), args[1].type
    ),
}
"""Functions that are written with other operators."""


def _arity(function: Function) -> str:
    least, most = function.least, len(function.arguments)
    if function.variadic:
        return f"at least {least} argument{'s' if least > 1 else ''}"
    if most == 0:
        return "no arguments"
    if least == most:
        return f"{most} argument{'s' if most > 1 else ''}"
    return f"{least} to {most} arguments"
