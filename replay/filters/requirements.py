"""What every event contains that passes a filter: one position, named like the stream."""

from __future__ import annotations

from replay.expressions.atoms import count_predicates
from replay.expressions.ranges import implied_ranges
from replay.language.bound import Expression, attributes
from replay.planning.requirements import Position, Requirements


def requirements(
    stream: str, time: str | None, where: Expression | None, *, limit: int | None = None
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
        of_events=True,
    )
