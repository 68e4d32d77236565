"""Functions of times, written with operators on microseconds: parts, units, zones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replay.language import fold, syntax
from replay.language.agreement import agree
from replay.language.bound import DataType, Expression, Literal
from replay.language.functions import PARTS
from replay.language.literals import UNIT_US
from replay.language.source import Source, shown
from replay.language.zones import is_zone

T = DataType

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


def part(
    name: str, value: Expression, written: syntax.Expression, source: Source, at: syntax.Node
) -> Expression:
    """Return a part of a time, by its name in ``functions.PARTS``.

    Raises
    ------
    BindError
        If a value of that type has no such part.
    """
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


def date_part(node: syntax.Function, args: Sequence[Expression], source: Source) -> Expression:
    """Return ``date_part(name, time)``, which is EXTRACT with the name as a text."""
    written = _constant(args[0], node.args[0], source)
    name = PARTS.get(written.lower())
    if name is None:
        raise source.unknown("part of a time", written, sorted(PARTS), node.args[0])
    return part(name, args[1], node.args[1], source, node)


def date_trunc(node: syntax.Function, args: Sequence[Expression], source: Source) -> Expression:
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


def date_diff(node: syntax.Function, args: Sequence[Expression], source: Source) -> Expression:
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


def date_add(node: syntax.Function, args: Sequence[Expression], source: Source) -> Expression:
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


def from_unixtime(_: syntax.Function, args: Sequence[Expression], __: Source) -> Expression:
    """Return the instant so many seconds after the epoch, to the nearest microsecond."""
    seconds = args[0]
    unit = 1_000_000
    if seconds.type is T.DOUBLE:
        scaled = fold.call("*", (seconds, Literal(1e6, T.DOUBLE)), T.DOUBLE)
        seconds, unit = fold.call("cast", (scaled,), T.INTEGER), 1
    since = fold.call("*", (Literal(unit, T.INTERVAL), seconds), T.INTERVAL)
    return fold.call("+", (Literal(0, T.TIMESTAMP_UTC), since), T.TIMESTAMP_UTC)


def timezone(node: syntax.Function, args: Sequence[Expression], source: Source) -> Expression:
    """Return ``moment AT TIME ZONE zone``: what clocks there show, or when they showed it."""
    name = _constant(args[0], node.args[0], source)
    if not is_zone(name):
        from zoneinfo import available_timezones

        if name[:1] in ("+", "-") or name[:3].upper() in ("GMT", "UTC"):
            raise source.error(
                f"'{name}' is an offset from UTC; name a zone such as 'Europe/Berlin', or "
                "'Etc/GMT-2' for two hours east of UTC",
                node.args[0],
            )
        zones = sorted(available_timezones())
        raise source.unknown("time zone", name, zones, node.args[0], listed=_LISTED_ZONES)
    moment, zone = _moment(args[1]), Literal(name, T.STRING)
    if moment.type is T.TIMESTAMP_UTC:
        return fold.call("local_time", (moment, zone), T.TIMESTAMP)
    return fold.call("instant", (moment, zone), T.TIMESTAMP_UTC)


WRITERS: dict[str, Callable[[syntax.Function, Sequence[Expression], Source], Expression]] = {
    "date_part": date_part,
    "date_trunc": date_trunc,
    "date_diff": date_diff,
    "date_add": date_add,
    "from_unixtime": from_unixtime,
    "timezone": timezone,
}
"""Functions written here, by name."""


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
