"""From sums over matches to the answer of the outer query: what its aggregates read of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.config import TIME_UNIT
from replay.aggregates.exact import listed, taken
from replay.expressions.columns import Values, to_arrow
from replay.expressions.scalars import Faults
from replay.expressions.types import SCALES, type_of_moments
from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    BoundPatternQuery,
    DataType,
    attributes,
)
from replay.operators.exact_sums import DoubleSum, ratios
from replay.operators.grouping import Groups, intervals, out_of_range
from replay.operators.outer import apply_outer
from replay.operators.whole_numbers import WHOLE
from replay.operators.whole_numbers import Numbers as Whole
from replay.patterns.summing.operator import Numbers, Totals, from_order
from replay.patterns.trends.algebra import Number, Part, Reading, Summing

_PLACE = "\0place"
"""The column that tells which partition a row is of; no column of a query has a NUL in it."""

_BORDERS = (WINDOW_START, WINDOW_END)

IntArray = npt.NDArray[np.int64]
Listed = Sequence[int | DoubleSum | None]


def answer_sums(
    query: BoundPatternQuery,
    summing: Summing,
    totals: Totals,
    schema: pa.Schema,
    faults: Faults,
    windows: IntArray | None = None,
) -> pa.Table:
    """Return the answer of the outer query from the sums over all matches of each partition.

    ``schema`` has the columns of PARTITION BY; ``windows`` are start and end of that of each of
    ``totals``, where there are windows.
    """
    outer = query.outer
    assert outer is not None
    readings = dict(summing.readings)

    def told(part: Aggregate, rows: pa.Table, groups: Groups) -> list[int | None] | pa.Array:
        of_groups = partial(_of_groups, totals, rows.column(_PLACE).to_numpy(), groups)
        return _aggregated(part, readings[part], of_groups)

    rows = _partitions(query, totals, schema, windows)
    return apply_outer(rows, outer, faults, told)


def _partitions(
    query: BoundPatternQuery,
    totals: Totals,
    schema: pa.Schema,
    windows: IntArray | None,
) -> pa.Table:
    """Return the columns of PARTITION BY that the outer query reads, with a row for each."""
    outer = query.outer
    assert outer is not None
    columns: dict[str, Any] = {_PLACE: pa.array(np.arange(len(totals)), pa.int64())}
    read = [*(outer.group_by or ()), *([outer.where] if outer.where is not None else [])]
    names = {found.name for expression in read for found in attributes(expression)}
    for source, name in query.output:
        if name in names and query.windows is not None and source in _BORDERS:
            assert windows is not None
            times = np.ascontiguousarray(windows[:, _BORDERS.index(source)])
            columns[name] = to_arrow(Values(times, None), type_of_moments(query.time_type))
        elif name in names:
            place = query.partition_by.index(source)
            of_keys = [key[place] for key in totals.keys]
            columns[name] = _column(of_keys, schema.field(source).type)
    return pa.table(columns)


def _column(values: list[Any], of: pa.DataType) -> pa.Array:
    """Return a column of values as keys of partitions have them; see `to_plain`."""
    if pa.types.is_dictionary(of):
        of = of.value_type
    if pa.types.is_decimal(of):
        return pa.array([v if v is None else Decimal(v).scaleb(-of.scale) for v in values], of)
    plain = None
    if pa.types.is_timestamp(of):
        plain = pa.timestamp(TIME_UNIT, of.tz)
    elif pa.types.is_duration(of):
        plain = pa.duration(TIME_UNIT)
    elif pa.types.is_date(of):
        return pa.array(values, pa.int32()).cast(pa.date32()).cast(of)
    return pa.array(values, of) if plain is None else pa.array(values, plain).cast(of)


def _of_groups(totals: Totals, places: IntArray, groups: Groups, number: Number) -> Numbers:
    """Return a number of all matches of each group, of partitions that stand in some places."""
    of_each = totals.numbers.get(number, [])
    places = places[np.argsort(groups.of_row, kind="stable")]
    is_each = np.array_equal(places, np.arange(len(of_each)))
    values = of_each if is_each else taken(of_each, places)
    sizes = np.bincount(groups.of_row, minlength=groups.n_groups)
    if len(sizes) == len(values):  # each group is one partition
        return values
    every, ends = listed(values), np.cumsum(sizes).tolist()
    return [_joined(number, every[begin:end]) for begin, end in pairwise([0, *ends])]


def _aggregated(
    part: Aggregate, reading: Reading, of_groups: Callable[[Number], Numbers]
) -> Whole | pa.Array:
    """Return an aggregate of every group, of which ``of_groups`` gives numbers."""
    numbers = of_groups(reading.number)
    if reading.number.part in (Part.LEAST, Part.GREATEST):
        return _best(part, listed(numbers))
    if part.function == "count":
        return numbers
    assert reading.over is not None
    over = of_groups(reading.over)
    are_arrays = isinstance(numbers, np.ndarray) and isinstance(over, np.ndarray) and over.all()
    if are_arrays and part.type in WHOLE:
        return numbers
    values, counts = listed(numbers), [int(count or 0) for count in listed(over)]
    if any(isinstance(number, DoubleSum) for number in values) or part.type is DataType.DOUBLE:
        return _rounded(part, values, counts, is_ratio=reading.is_ratio)
    if part.type is DataType.INTERVAL:
        whole = [n if isinstance(n, int) else 0 for n in values]
        return to_arrow(intervals(part, whole, counts), part.type)
    return [n if count else None for n, count in zip(values, counts, strict=True)]


def _joined(number: Number, found: Listed) -> int | DoubleSum | None:
    """Return a number of all matches of some partitions, of which it is known of each."""
    if number.part in (Part.LEAST, Part.GREATEST):
        there = [value for value in found if isinstance(value, int)]
        if not there:
            return None
        return min(there) if number.part is Part.LEAST else max(there)
    doubles = [value for value in found if isinstance(value, DoubleSum)]
    if doubles:
        return sum(doubles, DoubleSum(0))
    return sum(value for value in found if isinstance(value, int))


def _best(part: Aggregate, numbers: Listed) -> pa.Array:
    there = np.array([number is not None for number in numbers], np.bool_)
    data: Any = np.array([number or 0 for number in numbers], np.int64)
    if part.type is DataType.DOUBLE:
        data = from_order(data)
    elif part.type is DataType.BOOLEAN:
        data = data.astype(np.bool_)
    return to_arrow(Values(data, there), part.type)


def _rounded(part: Aggregate, numbers: Listed, counts: list[int], *, is_ratio: bool) -> pa.Array:
    """Return sums, or means, each rounded once."""
    there = np.array([count > 0 for count in counts], np.bool_)
    over = [max(count, 1) if is_ratio else 1 for count in counts]
    assert part.argument is not None
    scale = SCALES.get(part.argument.type, 0)
    try:
        values = [
            number.rounded(count)
            if isinstance(number, DoubleSum)
            else ratios([number or 0], [count], scale)[0]
            for number, count in zip(numbers, over, strict=True)
        ]
    except OverflowError:
        raise out_of_range() from None
    return to_arrow(Values(np.array(values, np.float64), there), DataType.DOUBLE)
