"""What of an answer is shown: its first rows as a table, its series, its pairs, its marks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from chronicle.time import to_int64
from chronicle.words import number_of
from replay.engines.evidence import FoundSpans
from replay.formats import values_as_texts
from replay.language.bound import WINDOW_END, WINDOW_START
from replay.report.charts import Chart, Marks, Series, pairs_chart, series_chart
from replay.report.timeline import Axis, Rows

ROWS_MAX = 500
"""Rows of the table."""

POINTS_MAX = 5_000
"""Points of a series, and pairs."""

SERIES_MAX = 6
"""Columns that are drawn."""

KEYS_MAX = 10
"""Values of a key, each of which is a line of its own."""

CELLS_MAX = 12
"""Columns that a mark tells when it is pointed at."""

TEXT_MAX = 200
"""Characters of a cell."""


@dataclass(frozen=True, slots=True)
class TableView:
    """The first rows of an answer as text.

    Attributes
    ----------
    is_number
        Which columns hold numbers.
    said
        How many rows there are, and what is not shown.
    """

    head: tuple[str, ...]
    rows: list[tuple[str | None, ...]]
    is_number: tuple[bool, ...]
    said: str


def table_view(table: pa.Table, rows_max: int = ROWS_MAX) -> TableView:
    """Return the first rows of an answer."""
    shown = table.slice(0, rows_max)
    columns = [_cells(column) for column in shown.columns]
    said = number_of(table.num_rows, "row")
    if table.num_rows > rows_max:
        said = f"The first {rows_max:,} of {table.num_rows:,} rows; --out writes them all."
    is_number = tuple(
        pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind)
        for kind in table.schema.types
    )
    rows = list(zip(*columns, strict=True))
    return TableView(tuple(table.column_names), rows, is_number, said)


def _cells(column: pa.ChunkedArray) -> list[str | None]:
    return [None if text is None else _cut(text) for text in values_as_texts(column)]


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


def time_columns(table: pa.Table) -> list[str]:
    """Return the columns of an answer that hold times of day and date."""
    return [field.name for field in table.schema if pat.is_timestamp(field.type)]


def found_marks(found: FoundSpans, table: pa.Table, axis: Axis) -> Marks:
    """Return the matches of a query as marks, each with its first row of the answer."""
    sample = found.sample
    if not sample.n_spans:
        return Marks("matches", [], (), "There is no match.")
    first, last = (axis.place(times).tolist() for times in found.times())
    _, _, begins, ends = sample.kept()
    columns: tuple[str, ...] = ()
    rows: Rows = [{"from": a, "to": b} for a, b in zip(first, last, strict=True)]
    said = [f"{number_of(sample.n_spans, 'match', 'matches')} in all."]
    if sample.step > 1:
        said.append(f"One of {sample.step:,} is drawn: {len(rows):,}.")
    if found.row_offset is not None:
        columns = tuple(table.column_names[:CELLS_MAX])
        places = begins - found.row_offset
        there = (ends > begins) & (places >= 0) & (places < table.num_rows)
        chosen = table.select(list(columns)).take(pa.array(places[there]))
        _tell(rows, np.flatnonzero(there), chosen)
    else:
        said.append("Rows of the answer are not those of matches, so marks tell times alone.")
    return Marks("matches", rows, columns, " ".join(said))


def row_marks(table: pa.Table, time: str, axis: Axis) -> Marks:
    """Return the rows of an answer as marks, by a column of times."""
    step = max(1, -(-table.num_rows // POINTS_MAX))
    chosen = _thinned(table, step)
    is_there = chosen.column(time).is_valid()
    chosen = chosen.filter(is_there)
    times = axis.place(to_int64(chosen.column(time), name=time).to_numpy()).tolist()
    columns = tuple(chosen.column_names[:CELLS_MAX])
    rows: Rows = [{"from": place, "to": place} for place in times]
    _tell(rows, np.arange(len(rows)), chosen.select(list(columns)))
    said = f"{number_of(table.num_rows, 'row')} of the answer."
    if step > 1:
        said += f" One of {step:,} is drawn: {len(rows):,}."
    return Marks("rows", rows, columns, said)


def _tell(rows: Rows, places: Any, cells: pa.Table) -> None:
    """Put the cells of a table into some of the rows."""
    for at, column in enumerate(cells.columns):
        for place, text in zip(places.tolist(), _cells(column), strict=True):
            rows[place][f"c{at}"] = "NULL" if text is None else text


def series_charts(table: pa.Table) -> list[Chart]:
    """Return a chart for each column of numbers of windows, by the time their windows begin."""
    x = next(
        iter(time_columns(table)), WINDOW_START if WINDOW_START in table.column_names else None
    )
    if x is None or not table.num_rows:
        return []
    step = max(1, -(-table.num_rows // POINTS_MAX))
    chosen = _thinned(table, step)
    chosen = chosen.filter(chosen.column(x).is_valid())
    times = to_int64(chosen.column(x), name=x).to_numpy()
    axis = Axis(pat.is_timestamp(chosen.column(x).type))
    key = None if (np.diff(times) > 0).all() else _key(chosen)
    keys = None if key is None else _cells(chosen.column(key))
    said = f"{number_of(table.num_rows, 'window')}." + (
        f" One of {step:,} is drawn." if step > 1 else ""
    )
    charts = []
    for field in table.schema:
        is_number = pat.is_integer(field.type) or pat.is_floating(field.type)
        if not is_number or field.name in (x, key, WINDOW_START, WINDOW_END):
            continue
        values = chosen.column(field.name).cast(pa.float64(), safe=False).to_pylist()
        rows: Rows = [
            {"x": place, "y": value}
            for place, value in zip(axis.place(times).tolist(), values, strict=True)
            if value is not None and np.isfinite(value)
        ]
        if keys is not None:
            for row, name in zip(rows, _of_finite(keys, values), strict=True):
                row["key"] = "NULL" if name is None else name
        if rows:
            charts.append(_series(field.name, x, key, rows, axis, said))
    return charts[:SERIES_MAX]


def _series(name: str, x: str, key: str | None, rows: Rows, axis: Axis, said: str) -> Chart:
    low, high = min(row["y"] for row in rows), max(row["y"] for row in rows)
    said = f"{said} {name} lies between {low:,.6g} and {high:,.6g}."
    return series_chart(Series(name, x, key), rows, axis, said)


def _of_finite(names: list[str | None], values: list[float | None]) -> list[str | None]:
    return [n for n, v in zip(names, values, strict=True) if v is not None and np.isfinite(v)]


def _key(table: pa.Table) -> str | None:
    """Return the column of few values that tells windows of one time apart; None if none does."""
    for field in table.schema:
        if not (pat.is_timestamp(field.type) or pat.is_floating(field.type)):
            n_values = len(table.column(field.name).unique())
            if 1 < n_values <= KEYS_MAX and field.name not in (WINDOW_START, WINDOW_END):
                return str(field.name)
    return None


def pair_charts(table: pa.Table) -> list[Chart]:
    """Return a chart of the pairs of a join, where the answer has a time of both sides."""
    times = time_columns(table)
    if len(times) < 2 or not table.num_rows:
        return []
    step = max(1, -(-table.num_rows // POINTS_MAX))
    chosen = _thinned(table, step)
    for time in times[:2]:
        chosen = chosen.filter(chosen.column(time).is_valid())
    if not chosen.num_rows:
        return []
    axis = Axis(is_clock=True)
    left, right = (to_int64(chosen.column(t), name=t).to_numpy() for t in times[:2])
    apart, (unit, per) = right - left, _unit(right - left)
    rows: Rows = [
        {"x": a, "to": b, "y": y}
        for a, b, y in zip(
            axis.place(left).tolist(),
            axis.place(right).tolist(),
            (apart / per).tolist(),
            strict=True,
        )
    ]
    said = f"{number_of(table.num_rows, 'pair')}."
    if step > 1:
        said += f" One of {step:,} is drawn: {len(rows):,}."
    return [pairs_chart(times[:2], rows, axis, unit, said)]


_UNITS = (("µs", 1), ("ms", 1e3), ("seconds", 1e6), ("minutes", 6e7), ("hours", 3.6e9))


def _unit(apart: Any) -> tuple[str, float]:
    """Return the unit in which most differences of times are small numbers."""
    typical = float(np.median(np.abs(apart)))
    for (unit, per), (_, above) in pairwise(_UNITS):
        if typical < 2 * above:
            return unit, per
    return ("days", 8.64e10) if typical > 48 * 3.6e9 else _UNITS[-1]


def _thinned(table: pa.Table, step: int) -> pa.Table:
    return table if step == 1 else table.take(pa.array(np.arange(0, table.num_rows, step)))
