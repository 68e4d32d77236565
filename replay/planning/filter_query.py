"""A filter as a row pattern of one symbol, so that one planner finds the events of both."""

from __future__ import annotations

from dataclasses import replace

from replay.language.bound import (
    BoundPatternQuery,
    DataType,
    Expression,
    RowsPerMatch,
    SkipMode,
    Symbol,
)
from replay.planning.named_plans import KINDS, PREFIX
from replay.planning.plan import Plan

_WORDS = (
    ("no match can exist", "no event can pass"),
    ("in which a match could lie", "in which an event could pass"),
    (
        "no symbol that every match needs has a condition that bounds an attribute",
        "nothing in WHERE bounds an attribute",
    ),
)


def to_pattern_query(
    stream: str, time: str, where: Expression | None, *, limit: int | None = None
) -> BoundPatternQuery:
    """Return the pattern query whose matches are the events that pass a condition.

    Parameters
    ----------
    stream
        Name of the stream, and of the one symbol: plans are written ``indexes=stream.x``.
    time
        Its time column.
    where
        The condition, over columns of the stream; None passes every event.
    limit
        How many events are enough.
    """
    return BoundPatternQuery(
        stream=stream,
        time=time,
        time_type=DataType.INTEGER,
        partition_by=(),
        symbols=(stream,),
        pattern=Symbol(0),
        defines=(where,),
        within=None,
        skip=SkipMode.PAST_LAST_ROW,
        measures=(),
        output=(),
        limit=limit,
        rows_per_match=RowsPerMatch.ONE,
    )


def to_request(requested: str, stream: str) -> str:
    """Return a plan asked of a filter in the words of patterns: ``indexes=x`` is ``stream.x``.

    Examples
    --------
    >>> to_request("indexes=price,ticks.volume", "ticks"), to_request("auto", "ticks")
    ('indexes=ticks.price,ticks.volume', 'auto')
    """
    if requested in KINDS or not requested.startswith(PREFIX):
        return requested
    items = [item.strip() for item in requested.removeprefix(PREFIX).split(",")]
    named = [i if i == stream or i.startswith(f"{stream}.") else f"{stream}.{i}" for i in items]
    return PREFIX + ",".join(named)


def in_words_of_filters(plan: Plan) -> Plan:
    """Return the plan of such a pattern with a reason that speaks of events, not of matches."""
    return replace(plan, reason=of_events(plan.reason))


def of_events(text: str) -> str:
    """Return what planning says of matches as it is said of events."""
    for matches, events in _WORDS:
        text = text.replace(matches, events)
    return text
