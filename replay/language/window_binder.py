"""Window functions: their constants checked against the type of time."""

from __future__ import annotations

from replay.expressions.literals import TimeTextError
from replay.language import syntax
from replay.language.bound import (
    CumulateWindows,
    DataType,
    Expression,
    RowWindows,
    SessionWindows,
    TimeWindows,
    Windows,
)
from replay.language.coercion import coerce, text_error
from replay.language.expression_binder import bind_constant
from replay.language.source import Source, shown
from replay.language.syntax import OF_ROWS, WINDOW_ARGUMENTS, WindowCall

T = DataType


def bind_windows(
    call: WindowCall, time: tuple[str, DataType], partition_by: tuple[str, ...], source: Source
) -> Windows:
    """Return the windows that a window function describes."""
    function = call.function
    names = WINDOW_ARGUMENTS[function]
    if function in OF_ROWS:
        values = [
            count_of_rows(node, _called(function, name), source)
            for name, node in zip(names, call.arguments, strict=True)
        ]
        _check_slide(call, values, source)
        return RowWindows(values[-1], values[0], partition_by)
    values = [
        span_of_time(node, _called(function, name), time, source)
        for name, node in zip(names, call.arguments, strict=True)
    ]
    if function == "SESSION":
        return SessionWindows(values[0], partition_by)
    if partition_by:
        raise source.error(
            f"{function} takes no PARTITION BY, its windows are the same for all rows; write the "
            "columns in GROUP BY",
            call.partition_by[0],
        )
    _check_slide(call, values, source)
    origin = None if call.origin is None else _origin(call.origin, function, time, source)
    if function == "CUMULATE":
        return CumulateWindows(values[0], values[1], origin)
    return TimeWindows(values[-1], values[0], origin)


def _called(function: str, name: str) -> str:
    return f"the {name.lower()} of {function}"


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
    name = WINDOW_ARGUMENTS[call.function][0].lower()
    if slide > size:
        raise source.error(
            f"the {name} of {call.function}, {shown(call.arguments[0])}, is longer than the size "
            f"{shown(call.arguments[1])}; the {name} comes first",
            call.arguments[0],
        )
    if call.function == "CUMULATE" and size % slide:
        raise source.error(
            f"the size of CUMULATE is a multiple of its step, and {shown(call.arguments[1])} is "
            f"none of {shown(call.arguments[0])}",
            call.arguments[1],
        )


def _origin(
    node: syntax.Expression, function: str, time: tuple[str, DataType], source: Source
) -> int:
    """Return the time that windows are counted from."""
    what = f"the origin of {function}"
    bound: Expression = bind_constant(node, what, source)
    name, time_type = time
    try:
        moment = coerce(bound, time_type)
    except TimeTextError as error:
        raise text_error(source, [node], [bound], error) from None
    value = getattr(moment, "value", None)
    if value is None:
        example = "0" if time_type is T.INTEGER else "TIMESTAMP '2020-01-01 00:00:00'"
        raise source.error(
            f"{what} is a time, as the column '{name}' has them, such as {example}, and "
            f"{shown(node)} is {bound.type.value}",
            node,
        )
    assert isinstance(value, int)
    return value
