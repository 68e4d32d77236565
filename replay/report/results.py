"""The page of an answer or of a plan. It is given both, and runs no query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa

from chronicle.words import number_of
from costmodel.guard import in_words
from replay.engines.evidence import BlocksRead, FoundSpans
from replay.query_plan import headline
from replay.report.answers import (
    found_marks,
    pair_charts,
    row_marks,
    series_charts,
    table_view,
    time_columns,
)
from replay.report.charts import Chart, Marks, stream_chart
from replay.report.page import figures, page, section
from replay.report.plans import html_table, plan_section
from replay.report.timeline import Axis, timelines

Json = Mapping[str, Any]


def result_page(
    table: pa.Table,
    stats: Json,
    *,
    reads: Sequence[BlocksRead] = (),
    found: Sequence[FoundSpans] = (),
    sql: str | None = None,
) -> str:
    """Return the page of an answer, with ``stats`` as ``Result.stats`` has them.

    Reads the times of the matches that are drawn, and nothing else.
    """
    charts = [*_over_time(table, stats, reads, found), *_of_answer(table, stats)]
    actual = stats["actual"]
    lead = (
        f"{number_of(table.num_rows, 'row')} in {in_words(actual['seconds']['total'])}: "
        f"{headline(stats)}."
    )
    shown = table_view(table)
    sections = []
    if charts:
        sections.append(figures(charts))
    answer = html_table(shown.said, shown.head, shown.rows, shown.is_number)
    sections.append(section("answer", "The answer", answer))
    sections.append(section("plan", "The plan", plan_section(stats)))
    sections += [_query(sql)] if sql else []
    return page("Answer of a query", lead, sections, charts)


def plan_page(stats: Json, sql: str | None = None) -> str:
    """Return the page of a plan that was not run."""
    sections = [section("plan", "The plan", plan_section(stats))]
    sections += [_query(sql)] if sql else []
    return page("Plan of a query", f"{headline(stats)}.", sections, [])


def _query(sql: str) -> str:
    return section("query", "The query", f"<pre>{escape(sql.strip())}</pre>")


def _over_time(
    table: pa.Table, stats: Json, reads: Sequence[BlocksRead], found: Sequence[FoundSpans]
) -> list[Chart]:
    """Return a chart for each stream that was read, with what was found in it."""
    by_tree = "windows" in stats and stats["plan"].startswith("tree")
    rest = "told by summaries" if by_tree else "skipped"
    charts, streams = [], timelines(reads)
    for stream in streams:
        in_it = [one for one in found if getattr(one.source, "name", None) == stream.name]
        marks = _marks(table, stats, in_it, stream.axis)
        charts.append(stream_chart(stream, stream.axis, marks, rest))
    if not streams and found:  # in a table in memory, which has no blocks
        axis = Axis(found[0].time_type != "integer")
        marks = _marks(table, stats, found, axis)
        if marks is not None and marks.rows:
            charts.append(stream_chart(None, axis, marks))
    return charts


def _marks(table: pa.Table, stats: Json, found: Sequence[FoundSpans], axis: Axis) -> Marks | None:
    """Return what was found in a stream: matches, or rows of a filter with their time."""
    if found:
        if not found[0].sample.n_spans and table.num_rows:
            return None  # only how many there are was asked for, and counted
        return found_marks(found[0], table, axis)
    times = time_columns(table)
    is_filter = "positions" in stats and axis.is_clock
    return row_marks(table, times[0], axis) if is_filter and times else None


def _of_answer(table: pa.Table, stats: Json) -> list[Chart]:
    """Return charts of the answer itself: series of windows, pairs of a join."""
    if "windows" in stats or "windows" in str(stats.get("operator", "")):
        return series_charts(table)
    is_join = "drives" in stats or any("drives" in part for part in stats.get("inputs", ()))
    return pair_charts(table) if is_join else []
