"""What WHERE of the outer query asks of the rows of a match: matches that fail need not be found.

Whatever looks for matches may leave one out that WHERE drops, as long as no other match is found
in its place. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from indexing.key_range import KeyRanges
from replay.expressions.ranges import implied_ranges
from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Call,
    Concat,
    Expression,
    Literal,
    MatchNumber,
    Pattern,
    RowsPerMatch,
    Semantics,
    SkipMode,
    Symbol,
    attributes,
    rewritten,
    walk,
)
from replay.language.fold import conjuncts, joined
from replay.patterns.pattern import rows_most

_OF_WINDOW = frozenset({WINDOW_START, WINDOW_END})


def with_outer_where(query: BoundPatternQuery) -> BoundPatternQuery:
    """Return a pattern whose conditions ask, too, what WHERE asks of the events that are mapped.

    Every match that WHERE keeps is one of it. A search that knows nothing of WHERE, in stretches
    that hold all of these, finds no other that WHERE keeps, since more is asked only

    - of columns of PARTITION BY: a partition is searched by itself;
    - of a match's first event, where each event has its matches whatever is found before. Not of
      later ones: a match that WHERE drops can be the one preferred from there.
    """
    defines = list(query.defines)
    for condition, read in _conjuncts(query):
        if read <= set(query.partition_by):
            defines = [joined((define, condition)) for define in defines]
        elif (first := _first_symbol(query)) is not None:
            asked = _of_first_event(query, condition, first)
            defines[first] = joined((defines[first], asked))
    return replace(query, defines=tuple(defines))


def times_asked(query: BoundPatternQuery) -> tuple[KeyRanges, ...]:
    """Return ranges of time: an event of every match that WHERE keeps lies in each."""
    found = []
    for condition, read in _conjuncts(query):
        name, *others = sorted(read)
        if not others and _is_time(query, name) and not _is_numbered(query):
            ranges = implied_ranges(condition)
            found.append(KeyRanges.of(()) if ranges is None else ranges.get(name))
    return tuple(one for one in found if one is not None)


def _conjuncts(query: BoundPatternQuery) -> Iterator[tuple[Expression, frozenset[str]]]:
    """Yield conditions that WHERE joins by AND, with the measures and columns that each reads.

    Those that read where a window begins or ends are left out: that is no value of an event.
    """
    where = None if query.outer is None else query.outer.where
    goes_on = (SkipMode.PAST_LAST_ROW, SkipMode.TO_NEXT_ROW)
    if where is None or query.skip not in goes_on:
        return  # a match behind which SKIP TO cannot go on is an error, whatever WHERE says
    sources = {name: source for source, name in query.output}

    def named(part: Expression) -> Expression | None:
        return replace(part, name=sources[part.name]) if isinstance(part, Attribute) else None

    for part in conjuncts(where):
        condition = rewritten(part, named)
        read = frozenset(attribute.name for attribute in attributes(condition))
        if read and not (query.windows is not None and read & _OF_WINDOW):
            yield condition, read


def _first_symbol(query: BoundPatternQuery) -> int | None:
    """Return the symbol of the first event of every match, if nothing else decides about others.

    None where matches depend on those before them, or on more than where they begin.
    """
    of_itself = query.semantics is not Semantics.SQL or query.skip is SkipMode.TO_NEXT_ROW
    if not of_itself or query.rows_per_match is not RowsPerMatch.ONE or _is_numbered(query):
        return None
    pattern: Pattern = query.pattern
    while isinstance(pattern, Concat):
        pattern = pattern.parts[0]
    if isinstance(pattern, Symbol) and rows_most(query.pattern, pattern.index) == 1:
        return pattern.index
    return None


def _is_numbered(query: BoundPatternQuery) -> bool:
    """Tell whether a match says how many there are before it."""
    parts = (part for measure in query.measures for part in walk(measure.expression))
    return any(isinstance(part, MatchNumber) for part in parts)


def _of_first_event(
    query: BoundPatternQuery, condition: Expression, first: int
) -> Expression | None:
    """Return a condition over measures as one over the first event; None if it reads more."""
    measures = {measure.name: measure.expression for measure in query.measures}
    in_full = rewritten(
        condition,
        lambda part: measures.get(part.name) if isinstance(part, Attribute) else None,
    )
    for part in walk(in_full):
        if isinstance(part, Attribute):
            anchor = part.anchor
            is_first = anchor.kind is AnchorKind.FIRST and anchor.symbols is None
            # All events of a match have the columns of PARTITION BY.
            is_here = is_first or anchor.symbols == (first,) or anchor.kind is AnchorKind.CURRENT
            if part.offset or anchor.offset or not is_here:
                return None
        elif not isinstance(part, Call | Literal):
            return None
    return rewritten(
        in_full, lambda p: Attribute(p.name, p.type) if isinstance(p, Attribute) else None
    )


def _is_time(query: BoundPatternQuery, name: str) -> bool:
    """Tell whether a measure or column is the time of an event of the match, or missing."""
    measures = {measure.name: measure.expression for measure in query.measures}
    if name not in measures:
        return name == query.time
    value = measures[name]
    return isinstance(value, Attribute) and value.name == query.time and not value.offset
