"""Plans asked for by name: what the name means for a query, or why it cannot apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from chronicle.errors import did_you_mean
from indexing.composite import parse_composite
from replay.errors import PlanError
from replay.planning.composite_lookup import NO_COMPOSITES, composed_conditions, worth_weighing
from replay.planning.plan import Condition
from replay.planning.requirements import Position, Requirements
from replay.planning.statistics import Composites

RELEVANT, INDEX_ONLY = "relevant", "index-only"

KINDS = ("auto", "full", "tree", "all", RELEVANT, INDEX_ONLY)
"""Plans with a name of their own; the others are written ``indexes=A.x,C``."""

PREFIX = "indexes="


def check_request(requested: str) -> None:
    """Raise `PlanError` if there is no plan of that name."""
    if requested in KINDS or requested.startswith(PREFIX):
        return
    known = (*KINDS, "indexes=A.x,C")
    hint = did_you_mean(requested, known)
    raise PlanError(f"no plan '{requested}'{hint} (there are: {', '.join(known)})")


def index_conditions(
    required: Requirements, indexed: frozenset[str], composites: Composites = NO_COMPOSITES
) -> tuple[Condition, ...]:
    """Return the ranges of the pattern that are worth looking up in an index, by position."""
    return _worth(_by_position(required), indexed, composites)


def gap_conditions(
    required: Requirements, indexed: frozenset[str], composites: Composites = NO_COMPOSITES
) -> tuple[Condition, ...]:
    """Return those of the rows of a gap, by position behind it."""
    return _worth(_by_gap(required), indexed, composites)


def conditions_of(
    place: int, rows: Position, indexed: frozenset[str], composites: Composites
) -> tuple[Condition, ...]:
    """Return the ranges of the rows at one place that are worth looking up in an index."""
    return _worth([_conditions(place, rows)] if rows.ranges else [], indexed, composites)


def _worth(
    places: Iterable[Sequence[Condition]], indexed: frozenset[str], composites: Composites
) -> tuple[Condition, ...]:
    """Return what is worth looking up of the conditions of some places, none of them without."""
    return tuple(
        condition
        for conditions in places
        for condition in worth_weighing(*_with_index(conditions, indexed, composites))
    )


def askable_conditions(
    required: Requirements, indexed: frozenset[str], composites: Composites
) -> tuple[Condition, ...]:
    """Return every range that an index can look up, of positions and of gaps, in pattern order."""
    found = (
        condition
        for conditions in (*_by_position(required), *_by_gap(required))
        for kind in _with_index(conditions, indexed, composites)
        for condition in kind
    )
    return tuple(sorted(found, key=lambda c: c.order))


def all_conditions(required: Requirements) -> tuple[Condition, ...]:
    """Return every range of the pattern, by position, with or without an index."""
    return tuple(condition for conditions in _by_position(required) for condition in conditions)


def _by_position(required: Requirements) -> Iterator[tuple[Condition, ...]]:
    """Yield the conditions of each position that has any."""
    for index, position in enumerate(required.positions):
        if position.ranges:
            yield _conditions(index, position)


def _by_gap(required: Requirements) -> Iterator[tuple[Condition, ...]]:
    """Yield the conditions of the rows of each gap that has any."""
    for index, fill in enumerate(required.fill_before):
        if fill is not None and fill.ranges:
            yield _conditions(index, fill, fills_gap=True)


def _conditions(index: int, rows: Position, *, fills_gap: bool = False) -> tuple[Condition, ...]:
    return tuple(
        Condition(index, rows.symbol, attribute, ranges, fills_gap)
        for attribute, ranges in rows.ranges.items()
    )


def _with_index(
    conditions: Sequence[Condition], indexed: frozenset[str], composites: Composites
) -> tuple[Sequence[Condition], Sequence[Condition]]:
    """Return what indexes can look up of the conditions of one place: several at once, and each."""
    ranges = {condition.attribute: condition.ranges for condition in conditions}
    composed = composed_conditions(conditions[0], ranges, composites) if composites else ()
    return composed, [c for c in conditions if c.attribute in indexed]


def requested_conditions(
    requested: str,
    required: Requirements,
    indexed: frozenset[str],
    composites: Composites = NO_COMPOSITES,
) -> tuple[Condition, ...]:
    """Return the conditions of ``all`` or ``indexes=…``.

    Raises
    ------
    PlanError
        If a name is not there or cannot be looked up, with what would be possible.
    """
    usable = askable_conditions(required, indexed, composites)
    if not usable:
        wanted = sorted({condition.attribute for condition in all_conditions(required)})
        never = [position.symbol for position in required.positions if position.is_impossible]
        if never and not wanted:
            raise PlanError(
                f"plan '{requested}' cannot apply: no event can satisfy the condition of "
                f"{never[0]}, so no match can exist and there is nothing to look up; use plan "
                "'auto', which reads nothing"
            )
        raise PlanError(
            f"plan '{requested}' cannot apply: no attribute the pattern bounds has an index; "
            f"index one of {', '.join(wanted)}, or use plan 'tree' or 'full'"
        )
    worth = (
        *index_conditions(required, indexed, composites),
        *gap_conditions(required, indexed, composites),
    )
    if requested == "all":
        return tuple(sorted(worth, key=lambda c: c.order))
    items = [item.strip() for item in requested.removeprefix(PREFIX).split(",")]
    chosen: set[Condition] = set()
    for item in items:
        chosen.update(_named(item, requested, required, (usable, worth), composites))
    return tuple(condition for condition in usable if condition in chosen)


def _named(
    item: str,
    requested: str,
    required: Requirements,
    conditions: tuple[Sequence[Condition], Sequence[Condition]],
    composites: Composites,
) -> list[Condition]:
    """Return the conditions one item of ``indexes=`` names: ``A.x``, or ``A`` for all of A's.

    Any of the first of ``conditions`` can be named; those of the second are meant by ``A``.
    """
    usable, worth = conditions
    where = f"plan '{requested}' cannot apply"
    fills = [fill for fill in required.fill_before if fill is not None]
    symbols = list(dict.fromkeys(place.symbol for place in (*required.positions, *fills)))
    symbol, attribute = _symbol_and_attribute(item, symbols)
    if symbol not in symbols:
        raise PlanError(f"{where}: {_why_no_symbol(symbol, required, symbols)}")
    found = [
        condition
        for condition in (worth if attribute is None else usable)
        if condition.symbol == symbol and attribute in (None, condition.attribute)
    ]
    if found:
        return found
    ranged = [place.ranges for place in (*required.positions, *fills) if place.symbol == symbol]
    names = list(dict.fromkeys(attribute for ranges in ranged for attribute in ranges))
    instead = ", ".join(dict.fromkeys(condition.name for condition in usable))
    if not names:
        raise PlanError(
            f"{where}: the condition of {symbol} bounds no attribute, so there is nothing to look "
            f"up; could be used: {instead}"
        )
    if attribute is not None and attribute in composites:
        first = composites[attribute][0][0]
        raise PlanError(
            f"{where}: the condition of {symbol} does not bound '{first}', which comes first in "
            f"the index on {attribute}; could be used: {instead}"
        )
    composite = None if attribute is None else parse_composite(names, attribute)
    if attribute is not None and attribute not in names and composite is None:
        hint = did_you_mean(attribute, names) or f" (it bounds: {', '.join(names)})"
        raise PlanError(
            f"{where}: the condition of {symbol} bounds no attribute '{attribute}'{hint}"
        )
    missing = attribute or ", ".join(names)
    raise PlanError(f"{where}: there is no index on {missing}; index it, or use one of: {instead}")


def _symbol_and_attribute(item: str, symbols: Sequence[str]) -> tuple[str, str | None]:
    """Return the two names of an item; a symbol may be written as in PATTERN, in lower case.

    >>> _symbol_and_attribute("a.price", ["A"]), _symbol_and_attribute("a", ["A", "a"])
    (('A', 'price'), ('a', None))
    """
    for name in (item, item.upper()):
        if name in symbols:
            return name, None
    symbol, _, attribute = item.partition(".")
    is_folded = symbol not in symbols and symbol.upper() in symbols
    return symbol.upper() if is_folded else symbol, attribute


def _why_no_symbol(symbol: str, required: Requirements, symbols: Sequence[str]) -> str:
    if symbol in required.symbols:
        return (
            f"a match need not have a row of {symbol}, so an index on it finds no candidates; "
            f"every match has: {', '.join(symbols)}"
        )
    hint = did_you_mean(symbol, symbols) or f" (it has: {', '.join(symbols)})"
    return f"the pattern has no symbol '{symbol}'{hint}"
