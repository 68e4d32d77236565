"""What every event contains that passes a filter: one position, named like the stream."""

from __future__ import annotations

from dataclasses import replace

from replay.expressions.atoms import count_predicates
from replay.expressions.ranges import implied_ranges
from replay.language.bound import Expression, attributes
from replay.planning.named_plans import KINDS, PREFIX
from replay.planning.plan import Plan
from replay.planning.requirements import Position, Requirements

_WORDS = (
    ("no match can exist", "no event can pass"),
    ("in which a match could lie", "in which an event could pass"),
    (
        "no symbol that every match needs has a condition that bounds an attribute",
        "nothing in WHERE bounds an attribute",
    ),
)


def requirements(
    stream: str, time: str, where: Expression | None, *, limit: int | None = None
) -> Requirements:
    """Return what every event contains that passes a condition.

    Parameters
    ----------
    stream
        Name of the stream, and of the one position: plans are written ``indexes=stream.x``.
    time
        Its time column.
    where
        The condition, over columns of the stream; None passes every event.
    limit
        How many events are enough.
    """
    ranges = implied_ranges(where)
    return Requirements(
        positions=(Position(stream, ranges or {}, ranges is not None),),
        gap_before=(False,),
        trailing_gap=False,
        rows_min=1,
        rows_max=1,
        scattered=False,
        fill_before=(None,),
        time=time,
        symbols=(stream,),
        columns=frozenset() if where is None else frozenset(a.name for a in attributes(where)),
        n_predicates=count_predicates([where]),
        closes_early=True,
        matches_wanted=limit,
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
