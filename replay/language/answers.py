"""What the answer of a query is like: its columns, and which of them can carry time on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replay.expressions.types import TIME_TYPES, type_of_moments
from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    Alternate,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    BoundQuery,
    Columns,
    Concat,
    DataType,
    Exclusion,
    Expression,
    Outer,
    Pattern,
    Repeat,
    RowsPerMatch,
    RowWindows,
    Semantics,
    SessionWindows,
    SkipMode,
    SortKey,
    Symbol,
    Windows,
    is_nullable,
    pattern_parts,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A bound query, and what its answer is like."""

    query: BoundQuery
    columns: Columns
    times: tuple[str, ...]
    """Columns of time that ascend and are never missing unless the source's are."""
    is_untimed: bool = False
    """Whether any column may be the time: the rows of a table in memory, which nothing orders."""


def columns_of_select(outer: Outer) -> Columns:
    """Return the columns of the answer of a select."""
    return tuple((name, _type(expression)) for name, expression in outer.items)


def columns_of_pattern(
    bound: BoundPatternQuery, attributes: Mapping[str, DataType | None]
) -> Columns:
    """Return the columns of the answer of a pattern query.

    The types of the attributes of its rows are None where they are none of the language's.
    """
    if bound.outer is not None:
        return columns_of_select(bound.outer)
    measures = {measure.name: measure.type for measure in bound.measures}
    if bound.windows is not None:
        borders = dict.fromkeys((WINDOW_START, WINDOW_END), type_of_moments(bound.time_type))
        attributes = {**attributes, **borders}
    return tuple((name, {**attributes, **measures}[source]) for source, name in bound.output)


def _type(expression: Expression) -> DataType | None:
    is_only_selected = isinstance(expression, Attribute) and expression.type is DataType.NULL
    return None if is_only_selected or expression.type is DataType.DECIMAL_76 else expression.type


def in_full(columns: Columns, order_by: tuple[SortKey, ...]) -> Outer:
    """Return the outer query that gives all columns of rows, sorted."""
    items = tuple((name, Attribute(name, kind or DataType.NULL)) for name, kind in columns)
    return Outer(items, order_by=order_by)


# ---------------------------------------------------------------------------------------------
# Time


def times_of_stream(time: str | None) -> tuple[str, ...]:
    """Return the column of a stream that ascends; none where nothing says which it is."""
    return () if time is None else (time,)


def times_of_select(
    outer: Outer, windows: Windows | None, times: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the columns of a select's answer that ascend, in their order.

    ``times`` are the columns of its source that ascend.
    """
    if windows is not None:
        times = _of_windows(windows)
    elif outer.group_by is not None:
        times = ()
    return _times_after(outer, times)


def _of_windows(windows: Windows) -> tuple[str, ...]:
    """Return which of the columns of windows ascend in canonical order."""
    if isinstance(windows, SessionWindows | RowWindows) and windows.partition_by:
        return (WINDOW_START,)
    return (WINDOW_START, WINDOW_END)


def _times_after(outer: Outer, times: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of the answer that ascend where ``times`` do before its ORDER BY."""
    if outer.order_by:
        key = outer.order_by[0]
        is_time = isinstance(key.expression, Attribute) and key.expression.type in TIME_TYPES
        if key.descending or key.nulls_first or not is_time:
            return ()
        assert isinstance(key.expression, Attribute)
        times = (key.expression.name,)
    return tuple(
        name
        for name, expression in outer.items
        if isinstance(expression, Attribute) and expression.name in times
    )


def times_of_pattern(bound: BoundPatternQuery) -> tuple[str, ...]:
    """Return the columns of a pattern query's answer that ascend, in their order.

    Matches come in the order of their first rows. Where none overlaps another, whatever is read of
    their rows ascends, too.
    """
    names = _ascending(bound) if bound.windows is None else (WINDOW_START, WINDOW_END)
    if bound.outer is None:
        return tuple(name for source, name in bound.output if source in names)
    if bound.outer.group_by is not None:
        keys = bound.outer.group_by if bound.windows is not None else ()
        named = [key.name for key in keys if isinstance(key, Attribute)]
        return _times_after(bound.outer, tuple(name for name in names if name in named))
    return _times_after(bound.outer, names)


def _ascending(bound: BoundPatternQuery) -> tuple[str, ...]:
    """Return the measures and attributes that ascend before the outer query."""
    if bound.with_timeouts:
        return ()
    is_apart = (
        bound.semantics is Semantics.SQL
        and bound.skip is SkipMode.PAST_LAST_ROW
        and not bound.partition_by
    )
    if bound.rows_per_match is not RowsPerMatch.ONE:
        all_of_match = (RowsPerMatch.ALL_SHOW_EMPTY, RowsPerMatch.ALL_OMIT_EMPTY)
        return (bound.time,) if is_apart and bound.rows_per_match in all_of_match else ()
    if is_nullable(bound.pattern):
        return ()
    return tuple(
        measure.name
        for measure in bound.measures
        if _is_of_first_row(measure.expression, bound)
        or (is_apart and _is_of_some_row(measure.expression, bound))
    )


def _is_of_first_row(expression: Expression, bound: BoundPatternQuery) -> bool:
    """Tell whether it is the time of a match's first row."""
    if not _is_time(expression, bound):
        return False
    assert isinstance(expression, Attribute)
    anchor = expression.anchor
    if anchor.symbols is None:
        return anchor.kind is AnchorKind.FIRST
    leading = bound.pattern
    while isinstance(leading, Concat) and leading.parts:
        leading = leading.parts[0]
    if not isinstance(leading, Symbol) or anchor.symbols != (leading.index,):
        return False
    # The first row is the only one of a symbol that stands in PATTERN once, unrepeated.
    parts = [part for part in pattern_parts(bound.pattern) if isinstance(part, Symbol)]
    return parts.count(leading) == 1


def _is_of_some_row(expression: Expression, bound: BoundPatternQuery) -> bool:
    """Tell whether it is the time of a row that every match has."""
    if not _is_time(expression, bound):
        return False
    assert isinstance(expression, Attribute)
    symbols = expression.anchor.symbols
    return symbols is None or always_maps(bound.pattern, symbols)


def _is_time(expression: Expression, bound: BoundPatternQuery) -> bool:
    return (
        isinstance(expression, Attribute)
        and expression.name == bound.time
        and expression.offset == 0
        and expression.anchor.offset == 0
    )


def always_maps(pattern: Pattern, symbols: tuple[int, ...]) -> bool:
    """Tell whether every way through a pattern maps a row to one of the symbols."""
    match pattern:
        case Symbol(index):
            return index in symbols
        case Concat(parts):
            return any(always_maps(part, symbols) for part in parts)
        case Alternate(branches):
            return all(always_maps(branch, symbols) for branch in branches)
        case Repeat(body, low):
            return low > 0 and always_maps(body, symbols)
        case Exclusion(body):
            return always_maps(body, symbols)
    return False
