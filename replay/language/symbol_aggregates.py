"""Aggregates over symbols, read from matches that are made: each brings an array of its values."""

from __future__ import annotations

from dataclasses import replace

from replay.language.bound import (
    Aggregate,
    Attribute,
    BoundPatternQuery,
    Call,
    DataType,
    Expression,
    Literal,
    Measure,
    Outer,
    attributes,
    rewritten,
    walk,
)

ELEMENTS = "elements"
"""The call that stands for each value of a column of arrays, in the argument of an aggregate."""

_PREFIX = "\0rows "
"""What names of such columns begin with; no column of a query has a NUL in it."""

_ONE = Literal(1, DataType.INTEGER)


def symbol_aggregates(outer: Outer) -> tuple[Aggregate, ...]:
    """Return the aggregates over symbols of an outer query, each once."""
    parts = (part for expression in outer.expressions for part in walk(expression))
    found = (part for part in parts if isinstance(part, Aggregate) and part.symbols is not None)
    return tuple(dict.fromkeys(found))


def names_of_answer(expression: Expression) -> set[str]:
    """Return the columns of MATCH_RECOGNIZE's answer that an expression around it reads."""
    rest = rewritten(expression, lambda part: _ONE if _is_over_symbols(part) else None)
    return {attribute.name for attribute in attributes(rest)}


def with_arrays(query: BoundPatternQuery) -> BoundPatternQuery:
    """Return a query whose aggregates over symbols read arrays, which are measures of its matches.

    The answer is the same. `ELEMENTS` of an array stands where the argument of an aggregate did;
    ``COUNT(S.*)`` counts an array that has 1 for every row.
    """
    outer = query.outer
    found = () if outer is None else symbol_aggregates(outer)
    if outer is None or not found:
        return query
    arrays: dict[tuple[Expression, tuple[int, ...]], Measure] = {}
    changed: dict[Expression, Aggregate] = {}
    for part in found:
        value = _ONE if part.argument is None else part.argument
        assert part.symbols is not None
        name = f"{_PREFIX}{len(arrays)}"
        array = Aggregate("array", value, part.symbols, value.type)
        measure = arrays.setdefault((value, part.symbols), Measure(name, array))
        element = Call(ELEMENTS, (Attribute(measure.name, value.type),), value.type)
        changed[part] = replace(part, argument=element, symbols=None)
    return replace(
        query,
        measures=(*query.measures, *arrays.values()),
        output=(*query.output, *((m.name, m.name) for m in arrays.values())),
        outer=outer.rewritten(changed.get),
    )


def _is_over_symbols(part: Expression) -> bool:
    return isinstance(part, Aggregate) and part.symbols is not None
