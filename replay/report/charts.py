"""Charts in Vega-Lite, as plain values: a stream with what was replayed and found; series; pairs.

Colours are names of the page's style (``--replayed``), which it gives for light and dark. The
borders of what is seen, ``lo`` and ``hi``, are signals that the page moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replay.report.timeline import Axis, Rows, StreamTimeline

Json = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

BARS_HEIGHT, STRIP, GAP, MARKS = 150, 16, 8, 26
"""Pixels of the bars, of the strip of replayed stretches, between, and of the marks below."""

SERIES_HEIGHT = 200

ENDS = {"from": "from", "to": "to"}
"""Labels of rows that have a first and a last place."""

POINTS_SHOWN_MAX = 200
"""Points of a line that are drawn as such."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and the words around it.

    Attributes
    ----------
    title, summary
        What it shows; the summary stands below it and is what a screen reader says.
    spec, data
        Vega-Lite without data, and the rows of its named data.
    first, last
        The whole width, as places on the axis.
    is_clock
        Whether the axis is time of day and date.
    labels
        What the fields of a row are called where it is told, in that order. Fields ``from``, ``to``
        and ``x`` are places on the axis.
    stops
        Name of the data that one can go through with the keyboard; None: none.
    """

    title: str
    summary: str
    spec: Json
    data: dict[str, Rows]
    first: float
    last: float
    is_clock: bool
    labels: dict[str, str]
    stops: str | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """Things that were found, on a stream's axis: each ``from`` and ``to`` and cells ``c0``, ….

    Attributes
    ----------
    what
        What they are: ``matches``.
    columns
        Names of the cells.
    said
        Whether all are drawn.
    """

    what: str
    rows: Rows
    columns: tuple[str, ...]
    said: str


def stream_chart(
    stream: StreamTimeline | None, axis: Axis, marks: Marks | None, rest: str = "skipped"
) -> Chart:
    """Return a stream over time, its replayed stretches, and what was found in it.

    ``rest`` says what became of events that were not replayed.
    """
    data: dict[str, Rows] = {}
    layers: list[Json] = []
    summary, height = [], 0
    spans: list[tuple[float, float]] = []
    if stream is not None:
        layers += [
            *_bars(axis, rest),
            *_strip(axis),
            _row_name("blocks", BARS_HEIGHT + GAP + STRIP / 2),
        ]
        data |= {"bars": _stacked(stream.bars, rest), "stretches": stream.stretches}
        data["whole"] = [{"from": stream.first, "to": stream.last}]
        spans.append((stream.first, stream.last))
        summary.append(stream.sentence)
        height = BARS_HEIGHT + GAP + STRIP
    if marks is not None and marks.rows:
        top = height + GAP if height else 0
        layers += [_marks(axis, top), _row_name(marks.what, top + MARKS / 2)]
        data["marks"] = marks.rows
        height = top + MARKS
        froms, tos = ([row[end] for row in marks.rows] for end in ("from", "to"))
        spans.append((min(froms), max(tos)))
    if marks is not None:
        summary.append(marks.said)
    first, last = min(a for a, _ in spans), max(b for _, b in spans)
    title = f"Stream '{stream.name}' over time" if stream is not None else "Over time"
    cells = {f"c{i}": name for i, name in enumerate(marks.columns)} if marks else {}
    labels = {**ENDS, "events": "events, about", "blocks": "blocks replayed", "what": "they were"}
    return Chart(
        title,
        " ".join(summary),
        _framed(layers, height, first, last),
        data,
        first,
        last,
        axis.is_clock,
        {**labels, **cells},
        "marks" if "marks" in data else None,
    )


def _stacked(bars: Rows, rest: str) -> Rows:
    """Return two rows for each bar, one above the other."""
    stacked = []
    for bar in bars:
        read, others = bar["replayed"], bar["skipped"]
        ends = {"from": bar["from"], "to": bar["to"]}
        stacked.append({**ends, "what": "replayed", "events": read, "y0": 0, "y1": read})
        stacked.append({**ends, "what": rest, "events": others, "y0": read, "y1": read + others})
    return [row for row in stacked if row["events"] > 0]


def _bars(axis: Axis, rest: str) -> list[Json]:
    return [
        {
            "data": {"name": "bars"},
            "mark": _mark("rect"),
            "encoding": {
                **_from_to(axis),
                "y": {
                    "field": "y0",
                    "type": "quantitative",
                    "title": "events",
                    "scale": {"range": [BARS_HEIGHT, 0], "nice": True},
                    "axis": {"tickCount": 4},
                },
                "y2": {"field": "y1"},
                "color": {
                    "field": "what",
                    "type": "nominal",
                    "scale": {
                        "domain": ["replayed", rest],
                        "range": ["--replayed", "--skipped"],
                    },
                    "legend": {"title": None, "orient": "top"},
                },
            },
        }
    ]


def _strip(axis: Axis) -> list[Json]:
    """Return the stretches that were replayed, on the grey of the whole stream."""
    top = BARS_HEIGHT + GAP
    band = {"y": {"value": top}, "y2": {"value": top + STRIP}}
    return [
        {
            "data": {"name": "whole"},
            "mark": _mark("rect", color="--skipped"),
            "encoding": {**_from_to(axis), **band},
        },
        {
            "data": {"name": "stretches"},
            "mark": _mark("rect", color="--replayed", stroke="--replayed", strokeWidth=1),
            "encoding": {**_from_to(axis), **band},
        },
    ]


def _row_name(name: str, middle: float) -> Json:
    """Return the name of a row of the chart, left of it."""
    return {
        "data": {"values": [{}]},
        "mark": {
            "type": "text",
            "align": "right",
            "baseline": "middle",
            "color": "--quiet",
            "text": name,
            "fontSize": 11,
        },
        "encoding": {"x": {"value": -6}, "y": {"value": middle}},
    }


def _marks(axis: Axis, top: int) -> Json:
    return {
        "data": {"name": "marks"},
        "mark": _mark("rect", color="--found", stroke="--found", strokeWidth=2, opacity=0.75),
        "encoding": {
            **_from_to(axis),
            "y": {"value": top},
            "y2": {"value": top + MARKS},
        },
    }


@dataclass(frozen=True, slots=True)
class Series:
    """Names of a column of numbers, of the times it is drawn over, and of the key that parts it."""

    name: str
    time: str
    key: str | None = None


def series_chart(series: Series, rows: Rows, axis: Axis, summary: str) -> Chart:
    """Return one column over time; its rows have ``x``, ``y`` and, with a key, ``key``."""
    places = [row["x"] for row in rows]
    first, last = min(places), max(places)
    few = len(rows) <= POINTS_SHOWN_MAX
    point: Json | bool = {"size": 24} if few else False
    encoding: Json = {
        "x": _x(axis, "x"),
        "y": {
            "field": "y",
            "type": "quantitative",
            "title": series.name,
            "scale": {"zero": False},
            "axis": {"tickCount": 5},
        },
    }
    if series.key is None:
        encoding["color"] = {"value": "--replayed"}
    else:
        encoding["color"] = {"field": "key", "type": "nominal", "title": series.key}
    line = {
        "data": {"name": "series"},
        "mark": _mark("line", point=point),
        "encoding": encoding,
    }
    title = f"{series.name} over time"
    spec = _framed([line], SERIES_HEIGHT, first, last)
    labels = {"x": series.time, "key": series.key or "", "y": series.name}
    data = {"series": rows}
    return Chart(title, summary, spec, data, first, last, axis.is_clock, labels, "series")


def pairs_chart(names: Sequence[str], rows: Rows, axis: Axis, unit: str, summary: str) -> Chart:
    """Return the pairs of a join: when the left event was, and how much later the right one."""
    first, last = min(row["x"] for row in rows), max(row["x"] for row in rows)
    points = {
        "data": {"name": "pairs"},
        "mark": _mark("point", filled=True, color="--found", opacity=0.6),
        "encoding": {
            "x": _x(axis, "x"),
            "y": {"field": "y", "type": "quantitative", "title": f"apart, {unit}"},
        },
    }
    spec = _framed([points], SERIES_HEIGHT, first, last)
    labels = {"x": names[0], "to": names[1], "y": f"apart, {unit}"}
    data, title = {"pairs": rows}, "Pairs over time"
    return Chart(title, summary, spec, data, first, last, axis.is_clock, labels, "pairs")


def rate_chart(bars: Rows, axis: Axis, summary: str) -> Chart:
    """Return the events of bars of equal time; ``bars`` have ``from``, ``to`` and ``events``."""
    rows = [{**bar, "none": 0} for bar in bars]
    layer = {
        "data": {"name": "bars"},
        "mark": _mark("rect", color="--replayed"),
        "encoding": {
            **_from_to(axis),
            "y": {"field": "none", "type": "quantitative", "title": "events"},
            "y2": {"field": "events"},
        },
    }
    first, last = bars[0]["from"], bars[-1]["to"]
    spec = _framed([layer], BARS_HEIGHT, first, last)
    labels, data = {**ENDS, "events": "events, about"}, {"bars": rows}
    return Chart("Events over time", summary, spec, data, first, last, axis.is_clock, labels)


def band_chart(name: str, rows: Rows, axis: Axis, summary: str) -> Chart:
    """Return least, mean and greatest value of a column over time.

    ``rows`` have ``from``, ``to``, ``low``, ``mean`` and ``high``.
    """
    value = {"type": "quantitative", "title": name, "scale": {"zero": False}}
    shared = _from_to(axis)
    layers: list[Json] = [
        {
            "data": {"name": "band"},
            "mark": _mark("rect", color="--skipped"),
            "encoding": {**shared, "y": {"field": "low", **value}, "y2": {"field": "high"}},
        },
        {
            "data": {"name": "band"},
            "mark": _mark("rule", color="--replayed", strokeWidth=2),
            "encoding": {**shared, "y": {"field": "mean", **value}},
        },
    ]
    first, last = rows[0]["from"], rows[-1]["to"]
    spec = _framed(layers, BARS_HEIGHT, first, last)
    labels = {**ENDS, "low": "least", "mean": "mean", "high": "greatest"}
    title, data = f"{name} over time", {"band": rows}
    return Chart(title, summary, spec, data, first, last, axis.is_clock, labels)


def _mark(kind: str, **look: Any) -> Json:
    """Return a mark that hands its row to whoever points at it."""
    return {"type": kind, "clip": True, "tooltip": {"content": "data"}, **look}


def _framed(layers: list[Json], height: int, first: float, last: float) -> Json:
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": height,
        "params": [{"name": "lo", "value": first}, {"name": "hi", "value": last}],
        "layer": layers,
    }


def _x(axis: Axis, name: str) -> Json:
    """Return the encoding of places on the axis, from signal ``lo`` to ``hi``."""
    return {
        "field": name,
        "type": "temporal" if axis.is_clock else "quantitative",
        "title": None,
        "scale": {
            **({"type": "utc"} if axis.is_clock else {"zero": False}),
            "domainMin": {"expr": "lo"},
            "domainMax": {"expr": "hi"},
            "nice": False,
        },
        "axis": {"labelOverlap": True, "tickCount": {"expr": "ceil(width / 120)"}},
    }


def _from_to(axis: Axis) -> Json:
    return {"x": _x(axis, "from"), "x2": {"field": "to"}}
