"""Which windowed aggregations the TAB+-tree can answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from chronicle.tree.summary import Kind, kind_of
from replay.language.bound import (
    Aggregate,
    Attribute,
    Expression,
    Literal,
    RowWindows,
    SessionWindows,
    WindowAggregation,
)
from replay.windows.results import SPREADS, is_mergeable, summarised_attribute


def plain_counts(what: WindowAggregation) -> WindowAggregation:
    """Return the aggregation with ``COUNT(1)`` and the like written as ``COUNT(*)``."""
    return replace(what, aggregates=tuple(_plain(part) for part in what.aggregates))


def _plain(part: Aggregate) -> Aggregate:
    is_any = isinstance(part.argument, Literal) and part.argument.value is not None
    return replace(part, argument=None) if is_any and part.function == "count" else part


@dataclass(frozen=True, slots=True)
class Needed:
    """What the aggregates ask of one column's summaries."""

    name: str
    kind: Kind
    """How it is summarised; OPAQUE where nothing but COUNT is asked."""
    squares: bool
    """Whether second moments are."""


def needed_of(what: WindowAggregation, schema: pa.Schema) -> tuple[Needed, ...]:
    """Return what is needed of each column, each once; ``what`` has `plain_counts`."""
    functions: dict[str, set[str]] = {}
    for part in what.aggregates:
        name = None if part.argument is None else summarised_attribute(part)
        if name is not None:
            functions.setdefault(name, set()).add(part.function)
    return tuple(
        Needed(
            name,
            Kind.OPAQUE if asked == {"count"} else kind_of(schema.field(name).type),
            squares=bool(asked & SPREADS),
        )
        for name, asked in functions.items()
    )


def why_not_tree(what: WindowAggregation, schema: pa.Schema) -> str | None:
    """Return why the tree cannot answer an aggregation, or None; of keys nothing is said here."""
    if isinstance(what.windows, SessionWindows):
        return "sessions begin and end where events do, which only the events tell"
    if isinstance(what.windows, RowWindows) and what.windows.partition_by:
        return "rows are counted per partition, and the tree's summaries are of all together"
    for part in plain_counts(what).aggregates:
        reason = _why_not(part, schema)
        if reason is not None:
            return f"{_shown(part)} {reason}"
    return None


def _why_not(part: Aggregate, schema: pa.Schema) -> str | None:
    if part.argument is None and part.function == "count":
        return None
    if not is_mergeable(part):
        return "is not among what summaries hold"
    name = summarised_attribute(part)
    if name is None:
        return "is of an expression, and summaries are of columns"
    kind = kind_of(schema.field(name).type)
    if part.function in ("min", "max"):
        return None if kind.has_extremes else f"needs an order of '{name}' that no summary keeps"
    if part.function != "count" and kind not in (Kind.INTEGER, Kind.FLOAT):
        return f"adds values of '{name}' that no summary adds"
    return None


def _shown(part: Aggregate) -> str:
    """Return an aggregate for a sentence."""
    distinct = "DISTINCT " if part.distinct else ""
    return f"{part.function.upper()}({distinct}{_argument(part.argument)})"


def _argument(argument: Expression | None) -> str:
    if argument is None:
        return "*"
    return argument.name if isinstance(argument, Attribute) else "…"
