"""The command that tells what the tree knows of a range of time."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chronicle.words import number_of
from replay.console.options import (
    JsonOption,
    StoreOption,
    StreamArgument,
    names,
    stream_of,
    time_range,
)
from replay.console.show import print_table
from replay.console.table_layout import with_equal_fractions

if TYPE_CHECKING:
    from chronicle import Snapshot
    from chronicle.describe import Histogram

BARS = 24
BAR_WIDTH = 50


def stats(
    stream: StreamArgument,
    store: StoreOption,
    start: Annotated[
        str | None, typer.Option("--from", help="First time; from the beginning on.")
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", help="Time before which to end; to the end.")
    ] = None,
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", help="Only these columns, as a,b.")
    ] = None,
    histogram: Annotated[
        bool, typer.Option("--histogram", help="Draw events (or a column's mean) over time.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print count, extremes, sum, mean and deviation of columns, from the tree.

    Example: chronicle stats crimes --store data --from 2011-01-01 --attribute lat --histogram
    """
    from chronicle.describe import histogram as spread
    from chronicle.describe import numeric_columns, range_stats
    from chronicle.time import show_time

    opened = stream_of(store, stream)
    snapshot = opened.snapshot()
    first, end = time_range(opened, start, stop)
    asked = names(attribute) if attribute is not None else tuple(numeric_columns(snapshot))
    whole, found = range_stats(snapshot, first, end, asked)
    drawn = None
    if histogram:
        drawn = spread(snapshot, first, end, n_bars=BARS, attribute=_of_mean(snapshot, attribute))
    ends = [
        None if time is None else show_time(time, snapshot.time_type)
        for time in (whole.t_min, whole.t_max)
    ]
    rows = {one.name: one.to_dict() for one in found}
    if as_json:
        shown = {
            "stream": stream,
            "n_events": whole.n_events,
            "t_min": ends[0],
            "t_max": ends[1],
            "attributes": rows,
            **({} if drawn is None else {"histogram": _to_dict(drawn, snapshot)}),
        }
        print(json.dumps(shown, indent=2))
        return
    span = "" if ends[0] is None else f", {ends[0]} to {ends[1]}"
    print(f"{number_of(whole.n_events, 'event')}{span}")
    heads = ("column", "values", "nulls", "nans", "min", "max", "sum", "mean", "stddev_pop")
    print_table(heads, [(name, *map(_cell, row.values())) for name, row in rows.items()])
    if drawn is not None:
        _draw(drawn, snapshot)


def _of_mean(snapshot: Snapshot, attribute: list[str] | None) -> str | None:
    """Return the column whose means are drawn: the one of numbers that was named."""
    from chronicle.describe import has_mean

    asked = names(attribute)
    return asked[0] if len(asked) == 1 and has_mean(snapshot, asked[0]) else None


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def _to_dict(drawn: Histogram, snapshot: Snapshot) -> dict[str, Any]:
    from chronicle.time import show_time

    edges = [show_time(int(edge), snapshot.time_type) for edge in drawn.edges.tolist()]
    means: list[float | None] = [None] * len(drawn.n_events)
    if drawn.mean is not None:
        means = [None if math.isnan(mean) else float(mean) for mean in drawn.mean]
    return {
        "level": drawn.level,
        "bars": [
            {"from": edges[i], "to": edges[i + 1], "n_events": float(n), "mean": means[i]}
            for i, n in enumerate(drawn.n_events)
        ],
    }


def _draw(drawn: Histogram, snapshot: Snapshot) -> None:
    """Print a bar for each stretch of time."""
    from chronicle.time import show_time

    values = drawn.n_events.round() if drawn.mean is None else drawn.mean
    known = [value for value in values.tolist() if not math.isnan(value)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    # Of events, a bar is their number; of means, what is above the least, so that changes are seen.
    low = min(low, 0.0) if drawn.mean is None else low - (high - low) / BAR_WIDTH
    width = high - low
    what = "events" if drawn.mean is None else "mean"
    entries = number_of(drawn.n_entries, "entry", "entries")
    print(f"\nabout, as level {drawn.level} of the tree tells ({entries}): {what}")
    times = with_equal_fractions(
        [show_time(edge, snapshot.time_type) for edge in drawn.edges.tolist()]
    )
    for time, value in zip(times, values.tolist(), strict=False):
        if math.isnan(value):
            print(f"{time:<26}")
            continue
        length = round(BAR_WIDTH * (value - low) / width) if width else 0
        number = f"{value:,.0f}" if drawn.mean is None else f"{value:,.6g}"
        print(f"{time:<26} {'█' * length} {number}")
