"""Calls of functions: found in the table, arguments checked, some written with operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from chronicle.words import number_of
from replay.errors import NotSupportedError
from replay.expressions.functions.texts import check_regexp
from replay.expressions.functions.zones import is_zone
from replay.expressions.literals import UNIT_US
from replay.expressions.types import NUMERIC, SCALES
from replay.language import fold, syntax
from replay.language.bound import DataType, Expression, Literal
from replay.language.coercion import agree, coerce
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

T = DataType

_LISTED = "docs/sql.md lists all, under 'Expressions and functions'"
"""Said of a function that is not there: a hundred names are no message."""

ROUND_DIGITS_MAX = 18
"""Beyond it, no digit of an INTEGER or DOUBLE is left to round."""


def find_function(node: syntax.Function, source: Source) -> Function:
    """Return the function that a call names."""
    name = node.name.name
    function = FUNCTIONS.get(name.lower())
    if function is None:
        word = name.upper()
        refused = why_refused(word)
        if refused is not None:
            raise NotSupportedError(refused, **source.place(node))
        if word in NOT_YET:
            raise source.not_supported(f"the function {word}", node, INSTEAD.get(word, ""))
        if word in syntax.WINDOW_ARGUMENTS:
            raise source.error(
                f"windows stand in FROM; write FROM {syntax.window_form(word)} … GROUP BY "
                "window_start, window_end",
                node,
            )
        raise source.unknown("function", name, sorted(FUNCTIONS), node, listed=_LISTED)
    count = len(node.args)
    if count < function.least or (count > len(function.arguments) and not function.variadic):
        raise source.error(f"{name} takes {_arity(function)}, not {count}", node)
    return function


def bind_function(
    function: Function, node: syntax.Function, args: Sequence[Expression], source: Source
) -> Expression:
    """Return the call of a function on bound arguments."""
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
        return _part(function.name, checked[0], node.args[0], source, node)
    if function.name in _TIME_WRITERS:
        missing = [argument for argument in checked if argument.type is T.NULL]
        return missing[0] if missing else _TIME_WRITERS[function.name](node, checked, source)
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
        return f"at least {number_of(least, 'argument')}"
    if most == 0:
        return "no arguments"
    if least == most:
        return f"{number_of(most, 'argument')}"
    return f"{least} to {most} arguments"


# ---------------------------------------------------------------------------------------------
# Functions of times, written with operators on microseconds: parts, units, zones


_DAY_US = UNIT_US["DAY"]
_MONDAY_US = -3 * _DAY_US
"""A Monday to count weeks from; the epoch is a Thursday."""
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_FIXED = {name.lower(): width for name, width in UNIT_US.items()}
_UNITS = (*_FIXED, *_MONTHS)
_OF_TIME = {
    "hour": (_DAY_US, UNIT_US["HOUR"]),
    "minute": (UNIT_US["HOUR"], UNIT_US["MINUTE"]),
    "second": (UNIT_US["MINUTE"], UNIT_US["SECOND"]),
}
"""Parts of the time of day, as the cycle they come back in and their unit."""
_LISTED_ZONES = (
    "zones are named as in the IANA time zone database, such as 'Europe/Berlin', and "
    "zoneinfo.available_timezones() in Python lists them"
)
_OF_INTERVAL = {"day": (None, _DAY_US), **_OF_TIME}


def _part(
    name: str, value: Expression, written: syntax.Expression, source: Source, at: syntax.Node
) -> Expression:
    """Return a part of a time, by its name in ``functions.PARTS``."""
    if value.type is T.INTERVAL:
        return _part_of_interval(name, value, written, source, at)
    if name in _OF_TIME and value.type is T.DATE:
        raise source.error(f"{shown(written)} is a DATE, which has no {name.upper()}", at)
    moment = _moment(value)
    if name == "epoch":
        return fold.call("epoch", (moment,), T.DOUBLE)
    if name in _OF_TIME:
        cycle, unit = (Literal(width, T.INTERVAL) for width in _OF_TIME[name])
        return fold.call("time_part", (moment, cycle, unit), T.INTEGER)
    return fold.call(name, (moment,), T.INTEGER)


def _part_of_interval(
    name: str, value: Expression, written: syntax.Expression, source: Source, at: syntax.Node
) -> Expression:
    """Return a part of a duration, with its sign: that of -90 minutes are -1 hour, -30 minutes."""
    if name == "epoch":
        return fold.call("epoch", (value,), T.DOUBLE)
    if name not in _OF_INTERVAL:
        raise source.error(
            f"{shown(written)} is an INTERVAL, which has no {name.upper()}; it has "
            f"{', '.join(_OF_INTERVAL).upper()} and EPOCH",
            at,
        )
    cycle, unit = _OF_INTERVAL[name]
    if cycle is not None:
        value = fold.call("%", (value, Literal(cycle, T.INTERVAL)), T.INTERVAL)
    return fold.call("/", (value, Literal(unit, T.INTERVAL)), T.INTEGER)


def _date_part(node: syntax.Function, args: Sequence[Expression], source: Source) -> Expression:
    """Return ``date_part(name, time)``, which is EXTRACT with the name as a text."""
    written = _constant(args[0], node.args[0], source)
    name = PARTS.get(written.lower())
    if name is None:
        raise source.unknown("part of a time", written, sorted(PARTS), node.args[0])
    return _part(name, args[1], node.args[1], source, node)


def _date_trunc(node: syntax.Function, args: Sequence[Expression], source: Source) -> Expression:
    """Return ``date_trunc(unit, moment)``."""
    value = args[1]
    unit = _unit(args[0], node, [value], source)
    moment = _moment(value)
    if unit in _MONTHS:
        months = Literal(_MONTHS[unit], T.INTEGER)
        floor = fold.call("month_floor", (moment, months), moment.type)
    else:
        origin = _MONDAY_US if unit == "week" else 0
        span = Literal(_FIXED[unit], T.INTERVAL), Literal(origin, moment.type)
        floor = fold.call("time_floor", (moment, *span), moment.type)
    return fold.call("cast", (floor,), value.type)


def _date_diff(node: syntax.Function, args: Sequence[Expression], source: Source) -> Expression:
    """Return ``date_diff(unit, from, to)``."""
    pair = agree(source, node.args[1:], args[1:], "cannot count the time between", node)
    unit = _unit(args[0], node, pair, source)
    start, end = map(_moment, pair)
    if unit in _MONTHS:
        count = fold.call("months_between", (start, end), T.INTEGER)
        size = Literal(_MONTHS[unit], T.INTEGER)
        return count if size.value == 1 else fold.call("/", (count, size), T.INTEGER)
    between = fold.call("-", (end, start), T.INTERVAL)
    return fold.call("/", (between, Literal(_FIXED[unit], T.INTERVAL)), T.INTEGER)


def _date_add(node: syntax.Function, args: Sequence[Expression], source: Source) -> Expression:
    """Return ``date_add(unit, count, moment)``."""
    _, count, value = args
    unit = _unit(args[0], node, [value], source)
    moment = _moment(value)
    if unit in _MONTHS:
        months = count
        if _MONTHS[unit] > 1:
            months = fold.call("*", (count, Literal(_MONTHS[unit], T.INTEGER)), T.INTEGER)
        later = fold.call("add_months", (moment, months), moment.type)
    else:
        duration = fold.call("*", (Literal(_FIXED[unit], T.INTERVAL), count), T.INTERVAL)
        later = fold.call("+", (moment, duration), moment.type)
    return fold.call("cast", (later,), value.type)


def _from_unixtime(_: syntax.Function, args: Sequence[Expression], __: Source) -> Expression:
    """Return the instant so many seconds after the epoch, to the nearest microsecond."""
    seconds = args[0]
    unit = 1_000_000
    if seconds.type is T.DOUBLE:
        scaled = fold.call("*", (seconds, Literal(1e6, T.DOUBLE)), T.DOUBLE)
        seconds, unit = fold.call("cast", (scaled,), T.INTEGER), 1
    since = fold.call("*", (Literal(unit, T.INTERVAL), seconds), T.INTERVAL)
    return fold.call("+", (Literal(0, T.TIMESTAMP_UTC), since), T.TIMESTAMP_UTC)


def check_zone(name: str, node: syntax.Expression, source: Source) -> None:
    """Check that a text names a time zone."""
    if is_zone(name):
        return
    from zoneinfo import available_timezones

    if name[:1] in ("+", "-") or name[:3].upper() in ("GMT", "UTC"):
        raise source.error(
            f"'{name}' is an offset from UTC; name a zone such as 'Europe/Berlin', or "
            "'Etc/GMT-2' for two hours east of UTC",
            node,
        )
    zones = sorted(available_timezones())
    raise source.unknown("time zone", name, zones, node, listed=_LISTED_ZONES)


def _timezone(node: syntax.Function, args: Sequence[Expression], source: Source) -> Expression:
    """Return ``moment AT TIME ZONE zone``: what clocks there show, or when they showed it."""
    name = _constant(args[0], node.args[0], source)
    check_zone(name, node.args[0], source)
    moment, zone = _moment(args[1]), Literal(name, T.STRING)
    if moment.type is T.TIMESTAMP_UTC:
        return fold.call("local_time", (moment, zone), T.TIMESTAMP)
    return fold.call("instant", (moment, zone), T.TIMESTAMP_UTC)


_TIME_WRITERS: dict[str, Callable[[syntax.Function, Sequence[Expression], Source], Expression]] = {
    "date_part": _date_part,
    "date_trunc": _date_trunc,
    "date_diff": _date_diff,
    "date_add": _date_add,
    "from_unixtime": _from_unixtime,
    "timezone": _timezone,
}
"""Functions of times written with operators on microseconds, by name."""


def _moment(value: Expression) -> Expression:
    """Return a DATE as the TIMESTAMP it begins at, anything else as it is."""
    return fold.call("cast", (value,), T.TIMESTAMP) if value.type is T.DATE else value


def _constant(argument: Expression, written: syntax.Expression, source: Source) -> str:
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise source.error(
            f"a unit, part or time zone is a constant text, and not {shown(written)}", written
        )
    return argument.value


def _unit(
    argument: Expression, node: syntax.Function, values: Sequence[Expression], source: Source
) -> str:
    """Return a unit of time that values of these types have, in lower case and singular."""
    written = _constant(argument, node.args[0], source)
    unit = written.lower()
    if unit not in _UNITS:
        unit = unit.removesuffix("s")
    if unit not in _UNITS:
        raise source.unknown("unit of time", written, _UNITS, node.args[0])
    if values[0].type is T.DATE and unit in _FIXED and _FIXED[unit] < _DAY_US:
        raise source.error(
            f"a DATE has no {unit.upper()}; CAST it to TIMESTAMP first", node.args[0]
        )
    return unit
