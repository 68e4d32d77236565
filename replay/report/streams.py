"""The page of a stream: what it holds, when, in which files and indexes. Reads no event."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np
import pyarrow.compute as pc

from chronicle import Snapshot, Stream
from chronicle.describe import (
    describe_stream,
    history,
    numeric_columns,
    range_stats,
    spread_events,
)
from chronicle.time import show_time
from chronicle.type_names import sql_type
from chronicle.words import megabytes, number_of
from indexing import list_indexes
from replay.report.charts import Chart, band_chart, rate_chart
from replay.report.page import figures, page, section
from replay.report.plans import html_table
from replay.report.timeline import BARS_MAX, Axis, Rows

BANDS_MAX = 6
"""Columns of numbers that are drawn."""

LINES_MAX = 200
"""Data files and versions that are listed."""

Lines = list[tuple[str, ...]]


def stream_page(stream: Stream) -> str:
    """Return the page of a stream as it is now."""
    snapshot = stream.snapshot()
    described = describe_stream(snapshot)
    charts = list(_charts(snapshot))
    lines = [
        (name, value) for name, value in described.lines() if name not in ("stream", "columns")
    ]
    sections = []
    if charts:
        sections.append(figures(charts))
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in lines)
    sections.append(section("facts", "What it is", f"<dl>{facts}</dl>"))
    sections.append(section("columns", "Columns", _columns(snapshot)))
    sections.append(section("indexes", "Indexes", _indexes(snapshot, described.per_event)))
    sections.append(section("files", "Data files", _files(snapshot)))
    sections.append(section("versions", "Versions and late events", _versions(stream)))
    size = megabytes(described.event_bytes + described.tree_bytes)
    lead = (
        f"{number_of(snapshot.n_events, 'event')}{_span(snapshot)}, in "
        f"{number_of(snapshot.n_blocks, 'block')} and {size} with its tree; version "
        f"{snapshot.version}."
    )
    return page(f"Stream '{snapshot.name}'", lead, sections, charts)


def _span(snapshot: Snapshot) -> str:
    if snapshot.t_min is None or snapshot.t_max is None:
        return ""
    first, last = (show_time(t, snapshot.time_type) for t in (snapshot.t_min, snapshot.t_max))
    return f" from {first} to {last}"


def _charts(snapshot: Snapshot) -> Iterator[Chart]:
    """Yield the events over time, then least, mean and greatest value of columns of numbers."""
    if not snapshot.n_blocks:
        return
    leaves, axis = snapshot.leaves, Axis(snapshot.time_type != "integer")
    first, end = int(leaves.t_min[0]), int(leaves.t_max[-1]) + 1
    n_bars = min(BARS_MAX, end - first)
    edges = first + (end - first) * np.arange(n_bars + 1, dtype=object) // n_bars
    events = spread_events(leaves.t_min, leaves.t_max, leaves.count, edges).round(1).tolist()
    places = axis.place(edges.astype(np.float64)).tolist()
    bars: Rows = [
        {"from": places[i], "to": places[i + 1], "events": n} for i, n in enumerate(events)
    ]
    most = max(range(n_bars), key=events.__getitem__)
    begins = show_time(int(edges[most]), snapshot.time_type)
    said = (
        f"{number_of(snapshot.n_events, 'event')} in {n_bars} bars of equal time, about, as the "
        f"tree's summaries tell; most of them, {events[most]:,.0f}, from {begins} on."
    )
    yield rate_chart(bars, axis, said)
    starts = np.unique(np.arange(BARS_MAX) * snapshot.n_blocks // BARS_MAX)
    for name in [n for n in numeric_columns(snapshot) if n != snapshot.settings.time][:BANDS_MAX]:
        rows = _band(snapshot, name, starts, axis)
        if rows:
            low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
            said = (
                f"Least, mean and greatest value of {number_of(len(rows), 'group')} of blocks; "
                f"{name} lies between {low:,.6g} and {high:,.6g}."
            )
            yield band_chart(name, rows, axis, said)


def _band(snapshot: Snapshot, name: str, starts: Any, axis: Axis) -> Rows:
    """Return least, mean and greatest value of groups of blocks that follow each other."""
    bounds, leaves = snapshot.bounds(name), snapshot.leaves
    known = bounds.known & (bounds.n_values > 0)
    low, high = (
        np.asarray(pc.cast(values, "float64", safe=False).fill_null(np.nan))
        for values in (bounds.minimum, bounds.maximum)
    )
    counts = np.where(known, bounds.n_values, 0)
    total = np.add.reduceat(np.where(known, np.nan_to_num(bounds.mean), 0.0) * counts, starts)
    n_values = np.add.reduceat(counts, starts)
    least = np.minimum.reduceat(np.where(known, low, np.inf), starts)
    most = np.maximum.reduceat(np.where(known, high, -np.inf), starts)
    froms = axis.place(leaves.t_min[starts])
    tos = axis.place(leaves.t_max[np.append(starts[1:], snapshot.n_blocks) - 1])
    columns = zip(*(a.tolist() for a in (froms, tos, least, most, total, n_values)), strict=True)
    return [
        {"from": a, "to": b, "low": lo, "high": hi, "mean": s / n}
        for a, b, lo, hi, s, n in columns
        if n and np.isfinite([lo, hi, s]).all()
    ]


def _columns(snapshot: Snapshot) -> str:
    _, found = range_stats(snapshot, None, None, snapshot.schema.names)
    rows: Lines = []
    for one in found:
        numbers = one.to_dict()
        cells = [_cell(numbers[key]) for key in ("values", "nulls", "nans", "min", "max", "mean")]
        rows.append((one.name, sql_type(str(one.data_type)), *cells))
    head = ("column", "type", "values", "nulls", "NaNs", "least", "greatest", "mean")
    return html_table("Extremes of the columns", head, rows, (False, False, *(True,) * 6))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _indexes(snapshot: Snapshot, per_event: Any) -> str:
    rows = [
        (
            one.attribute,
            f"{one.n_entries:,}",
            f"{one.n_runs:,}",
            f"{one.n_tail_events:,}",
            megabytes(one.size_bytes),
            f"{per_event(one.size_bytes):,.2f}",
            "; ".join(one.faults),
        )
        for one in list_indexes(snapshot)
    ]
    if not rows:
        return "<p>No index. <code>chronicle index create</code> makes one.</p>"
    head = ("on", "entries", "runs", "events not covered", "size", "bytes per event", "faults")
    return html_table("Indexes", head, rows, (False, *(True,) * 5, False))


def _files(snapshot: Snapshot) -> str:
    kind = snapshot.time_type
    rows = [
        (
            file.name,
            f"{file.n_events:,}",
            f"{file.n_blocks:,}",
            megabytes(file.size_bytes),
            show_time(file.t_min, kind),
            show_time(file.t_max, kind),
            "" if file.has_tree else "no tree: read in full",
        )
        for file in snapshot.files[-LINES_MAX:]
    ]
    head = ("file", "events", "blocks", "size", "first", "last", "")
    caption = _last_of(len(snapshot.files), "data file")
    return html_table(caption, head, rows, (False, True, True, True, False, False, False))


def _versions(stream: Stream) -> str:
    entries = history(stream)
    n_late = sum(entry.n_late for entry in entries)
    rows = [
        (
            str(entry.version),
            entry.time.isoformat(timespec="seconds").replace("+00:00", "Z"),
            entry.operation,
            *("" if n is None else f"{n:,}" for n in (entry.n_events, entry.n_late)),
            "" if entry.n_events_total is None else f"{entry.n_events_total:,}",
        )
        for entry in entries[:LINES_MAX]
    ]
    late = f"{number_of(n_late, 'event')} came late: older than the stream's end was by then."
    head = ("version", "committed", "operation", "events", "late", "in all")
    kinds = (True, False, False, True, True, True)
    table = html_table(_last_of(len(entries), "version"), head, rows, kinds)
    return f"<p>{escape(late)}</p>{table}"


def _last_of(n: int, what: str) -> str:
    """Return a caption that says how many there are, and how many of them are listed."""
    all_of_them = number_of(n, what)
    return all_of_them if n <= LINES_MAX else f"The last {LINES_MAX} of {all_of_them}"
