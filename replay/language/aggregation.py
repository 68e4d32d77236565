"""The aggregation inside a bound select, taken apart from what is done with its rows."""

from __future__ import annotations

from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Attribute,
    BoundSelect,
    Expression,
    Outer,
    WholeRange,
    WindowAggregation,
    attributes,
    walk,
)

_WINDOW_NAMES = frozenset({WINDOW_START, WINDOW_END})


def to_aggregation(bound: BoundSelect) -> WindowAggregation | None:
    """Return what is computed for every window and key, and what is done with these rows.

    None where rows are not grouped: the query is a filter. Keys computed from the window alone are
    no keys of it; ``rest`` computes them. A subquery's columns may have the names of a window's.
    """
    outer = bound.outer
    if outer.group_by is None:
        return None
    has_windows = bound.windows is not None
    keys = tuple(key for key in outer.group_by if not (has_windows and _is_of_window(key)))
    aggregates = tuple(
        dict.fromkeys(
            part
            for expression in outer.expressions
            for part in walk(expression)
            if isinstance(part, Aggregate)
        )
    )
    names = _Names(outer)
    key_names = tuple(names.of(key) for key in keys)
    aggregate_names = tuple(names.of(aggregate) for aggregate in aggregates)
    parts: dict[Expression, Attribute] = {
        part: Attribute(name, part.type)
        for part, name in zip((*keys, *aggregates), (*key_names, *aggregate_names), strict=True)
    }
    return WindowAggregation(
        windows=bound.windows if bound.windows is not None else WholeRange(),
        time=bound.source.time or "",
        where=outer.where,
        keys=keys,
        key_names=key_names,
        aggregates=aggregates,
        aggregate_names=aggregate_names,
        rest=outer.over_groups(parts.get),
    )


def _is_of_window(key: Expression) -> bool:
    read = {attribute.name for attribute in attributes(key)}
    return bool(read) and read <= _WINDOW_NAMES


class _Names:
    """Gives keys and aggregates names that say what they are, each another."""

    def __init__(self, outer: Outer) -> None:
        self._titles = {expression: name for name, expression in reversed(outer.items)}
        self._taken = set(_WINDOW_NAMES)

    def of(self, part: Expression) -> str:
        """Return the name SELECT gives it, or one like how it is written."""
        wanted = self._titles.get(part, "")
        if not wanted:
            wanted = part.name if isinstance(part, Attribute) else _written(part)
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name


def _written(part: Expression) -> str:
    if not isinstance(part, Aggregate):
        return "key"
    inside = part.argument.name if isinstance(part.argument, Attribute) else "…"
    return f"{part.function}({'*' if part.argument is None else inside})"
