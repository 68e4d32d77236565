"""Window functions: their constants checked against the type of time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from replay.expressions.functions.zones import to_instants, to_local
from replay.expressions.literals import UNIT_US, TimeTextError, parse_timestamp
from replay.language import syntax
from replay.language.bound import (
    Calendar,
    CumulateWindows,
    DataType,
    Literal,
    PatternWindows,
    RowWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    Windows,
)
from replay.language.call_binder import check_zone
from replay.language.coercion import coerce, text_error
from replay.language.expression_binder import bind_constant
from replay.language.source import Source, shown
from replay.language.syntax import (
    CALENDAR_UNITS,
    OF_ROWS,
    WINDOW_ARGUMENTS,
    FirstEvent,
    WindowCall,
)

SPAN_MAX = 2**61
"""Largest span, so that times and spans add up in 64 bits."""

T = DataType
_DAY, _WEEK = UNIT_US["DAY"], UNIT_US["WEEK"]
_MONDAY = 4 * _DAY
"""1970-01-05, from which windows of whole weeks count."""
_LAST_DAY = 28
"""The last day that every month has."""


def bind_windows(
    call: WindowCall, time: tuple[str, DataType], partition_by: tuple[str, ...], source: Source
) -> Windows:
    """Return the windows that a window function describes."""
    function = call.function
    names = WINDOW_ARGUMENTS[function]
    if function in OF_ROWS:
        values = [
            count_of_rows(node, _called(call, name), source)
            for name, node in zip(names, call.arguments, strict=True)
        ]
        _check_slide(call, values, source)
        return RowWindows(values[-1], values[0], partition_by)
    if function == "SESSION":
        gap = span_of_time(call.arguments[0], _called(call, names[0]), time, source)
        return SessionWindows(gap, partition_by)
    if partition_by:
        raise source.error(
            f"{function} takes no PARTITION BY, its windows are the same for all rows; write the "
            "columns in GROUP BY",
            call.partition_by[0],
        )
    zone = None if call.zone is None else _zone(call.zone, function, time, source)
    values, calendar = _lengths(call, zone, time, source)
    _check_slide(call, values, source)
    if function == "CUMULATE":
        origin, calendar = _origin(call, values[1], (zone, calendar), time, source)
        return CumulateWindows(values[0], values[1], origin, calendar)
    origin, calendar = _origin(call, values[0], (zone, calendar), time, source)
    return TimeWindows(values[-1], values[0], origin, calendar)


def bind_pattern_windows(
    call: WindowCall, time: tuple[str, DataType], source: Source
) -> PatternWindows:
    """Return the windows that MATCH_RECOGNIZE is matched in."""
    if call.partition_by:
        raise source.error(
            f"{call.function} takes no PARTITION BY before MATCH_RECOGNIZE; write the columns in "
            "its own",
            call.partition_by[0],
        )
    if call.function == "SLIDING":
        return SlidingWindows(span_of_time(call.arguments[0], _called(call, "SIZE"), time, source))
    windows = bind_windows(call, time, (), source)
    assert isinstance(windows, TimeWindows | CumulateWindows)
    return windows


def _lengths(
    call: WindowCall, zone: str | None, time: tuple[str, DataType], source: Source
) -> tuple[list[int], Calendar | None]:
    """Return the slide or step, if there is one, and the size; and what they are units of."""
    function, nodes = call.function, call.arguments
    months = [_months(node, source) for node in nodes]
    of_months = [n for n in months if n is not None]
    if time[1] is not T.INTEGER and len(of_months) == len(nodes):
        return of_months, Calendar(of_months=True, zone=zone)
    if time[1] is not T.INTEGER and of_months:
        slide, size = shown(nodes[0]), shown(nodes[1])
        raise source.not_supported(
            f"SLIDE {slide} of WITHIN {size}"
            if call.is_within
            else f"{function} of {slide} and {size}",
            nodes[0],
            "give both in months or years, or both in days or shorter units",
        )
    names = WINDOW_ARGUMENTS[function]
    values = [
        span_of_time(node, _called(call, name), time, source)
        for name, node in zip(names, nodes, strict=True)
    ]
    in_days = [value % _DAY == 0 for value in values]
    if zone is None or not any(in_days):
        return values, None
    if not all(in_days):
        raise source.not_supported(
            f"{function} of {shown(nodes[0])} and {shown(nodes[1])} with TIMEZONE",
            nodes[0],
            "days of a zone have 23 to 25 hours: give both in whole days, both shorter than a "
            "day, or leave TIMEZONE out",
        )
    return [value // _DAY for value in values], Calendar(of_months=False, zone=zone)


def _months(node: syntax.Expression, source: Source) -> int | None:
    """Return how many months a duration in months, quarters and years has; None for another."""
    match node:
        case syntax.Duration(amount, unit) if unit in CALENDAR_UNITS:
            if not amount.isdecimal() or not 0 < int(amount) < 10**6:
                raise source.error(f"windows of {unit}S take a whole number of them from 1", node)
            return int(amount) * CALENDAR_UNITS[unit]
        case syntax.Binary("+", left, right):
            parts = _months(left, source), _months(right, source)
            return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    return None


def _zone(
    node: syntax.Expression, function: str, time: tuple[str, DataType], source: Source
) -> str:
    """Return the zone whose clocks tell where windows begin."""
    bound = bind_constant(node, f"the timezone of {function}", source)
    if not isinstance(bound.value, str):
        raise source.error(
            f"the timezone of {function} is the name of a zone, such as 'Europe/Berlin', and "
            f"{shown(node)} is {bound.type.value}",
            node,
        )
    check_zone(bound.value, node, source)
    if time[1] is not T.TIMESTAMP_UTC:
        raise source.error(
            f"the timezone of {function} tells what clocks show at instants, and the time column "
            f"'{time[0]}' holds {'numbers' if time[1] is T.INTEGER else 'what a clock shows'}; "
            "leave TIMEZONE out",
            node,
        )
    return bound.value


def _called(call: WindowCall, name: str) -> str:
    """Return what errors call an argument."""
    if call.is_within:
        return "WITHIN" if name == "SIZE" else name
    return f"the {name.lower()} of {call.function}"


def span_of_time(
    node: syntax.Expression, what: str, time: tuple[str, DataType], source: Source
) -> int:
    """Return a span of time: microseconds, or the unit of an integer time column.

    ``what`` is how errors call it.
    """
    bound = bind_constant(node, what, source)
    name, time_type = time
    wanted = T.INTEGER if time_type is T.INTEGER else T.INTERVAL
    if bound.type is not wanted or bound.value is None:
        form = (
            f"a plain whole number, in the unit of the time column '{name}', such as 300"
            if wanted is T.INTEGER
            else f"a duration with its unit, as the time column '{name}' holds timestamps, such "
            "as 30 MINUTES"
        )
        raise source.error(f"{what} is {form}, and {shown(node)} is {bound.type.value}", node)
    assert isinstance(bound.value, int)
    if bound.value <= 0:
        raise source.error(f"{what} must be longer than nothing", node)
    if bound.value > SPAN_MAX:
        raise source.error(f"{what} is longer than all of time; write a shorter one", node)
    return bound.value


def count_of_rows(node: syntax.Expression, what: str, source: Source) -> int:
    """Return a number of rows from 1."""
    bound = bind_constant(node, what, source)
    is_count = bound.type is T.INTEGER and isinstance(bound.value, int) and bound.value >= 1
    if not is_count:
        raise source.error(f"{what} is a whole number of rows from 1, not {shown(node)}", node)
    assert isinstance(bound.value, int)
    return bound.value


def _check_slide(call: WindowCall, values: list[int], source: Source) -> None:
    """Check a slide, or a step, against the size after it."""
    if len(values) == 1:
        return
    slide, size = values
    name = WINDOW_ARGUMENTS[call.function][0]
    if slide > size:
        of = "WITHIN," if call.is_within else "the size"
        remedy = "" if call.is_within else f"; the {name.lower()} comes first"
        raise source.error(
            f"{_called(call, name)}, {shown(call.arguments[0])}, is longer than {of} "
            f"{shown(call.arguments[1])}{remedy}",
            call.arguments[0],
        )
    if call.function == "CUMULATE" and size % slide:
        raise source.error(
            f"the size of CUMULATE is a multiple of its step, and {shown(call.arguments[1])} is "
            f"none of {shown(call.arguments[0])}",
            call.arguments[1],
        )


def _origin(
    call: WindowCall,
    slide: int,
    by: tuple[str | None, Calendar | None],
    time: tuple[str, DataType],
    source: Source,
) -> tuple[int | None, Calendar | None]:
    """Return the time that windows are counted from.

    With a calendar it is one of its units, which get their phase. ``slide`` is how far apart
    windows begin, ``by`` the zone and the calendar.
    """
    zone, calendar = by
    if isinstance(call.origin, FirstEvent):
        if zone is None and calendar is None:
            return None, None
        raise source.not_supported(
            f"ORIGIN FIRST EVENT with {'months' if zone is None else 'TIMEZONE'}",
            call.origin,
            "give the origin as a TIMESTAMP",
        )
    if call.origin is None:
        moment = Literal(_default_origin(slide, calendar, time[1]), T.TIMESTAMP)
    else:
        moment = _given_origin(call.origin, call.function, zone, time, source)
    assert isinstance(moment.value, int)
    value = moment.value
    is_local = moment.type is T.TIMESTAMP
    if zone is not None and is_local != (calendar is not None):
        convert = to_instants if is_local else to_local
        (value,), (is_known,) = (found.tolist() for found in convert(np.array([value]), zone))
        if not is_known:
            assert call.origin is not None
            raise source.error(
                f"what clocks of {zone} show is known from the year 1 to 2037", call.origin
            )
    return (value, None) if calendar is None else _in_units(value, calendar, call, source)


def _in_units(
    shown_there: int, calendar: Calendar, call: WindowCall, source: Source
) -> tuple[int, Calendar]:
    """Return the unit that begins when clocks show a time, of a calendar with that phase."""
    if not calendar.of_months:
        return shown_there // _DAY, replace(calendar, phase=shown_there % _DAY)
    month = np.datetime64(shown_there, "us").astype("M8[M]")
    phase = shown_there - int(month.astype("M8[us]").astype(np.int64))
    if phase >= _LAST_DAY * _DAY:
        assert isinstance(call.origin, syntax.Node)
        raise source.error(
            f"windows of months begin on a day that every month has, from 1 to {_LAST_DAY}",
            call.origin,
        )
    return int(month.astype(np.int64)), replace(calendar, phase=phase)


def _default_origin(slide: int, calendar: Calendar | None, time_type: DataType) -> int:
    """Return what clocks show where windows are counted from: weeks begin on a Monday."""
    if time_type is T.INTEGER or (calendar is not None and calendar.of_months):
        return 0
    return 0 if slide % (_WEEK if calendar is None else _WEEK // _DAY) else _MONDAY


def _given_origin(
    node: syntax.Expression,
    function: str,
    zone: str | None,
    time: tuple[str, DataType],
    source: Source,
) -> Literal:
    """Return an origin as the time column has times, or as clocks of the zone show it."""
    what = f"the origin of {function}"
    bound = bind_constant(node, what, source)
    name, time_type = time
    try:
        if zone is not None and isinstance(bound.value, str):
            bound = parse_timestamp(bound.value)
        is_local = zone is not None and bound.type in (T.TIMESTAMP, T.DATE)
        moment = coerce(bound, T.TIMESTAMP if is_local else time_type)
    except TimeTextError as error:
        raise text_error(source, [node], [bound], error) from None
    if not isinstance(moment, Literal) or moment.value is None:
        example = "0" if time_type is T.INTEGER else "TIMESTAMP '2020-01-01 00:00:00'"
        raise source.error(
            f"{what} is a time, as the column '{name}' has them, such as {example}, or FIRST "
            f"EVENT, and {shown(node)} is {bound.type.value}",
            node,
        )
    return moment
