"""The last steps of windowed aggregation: from merged summaries to rows of the answer.

Every plan ends here, so that the same summaries give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from chronicle.time import type_of_moments
from chronicle.tree.double_double import divide, snapped
from chronicle.tree.summary import AttributeSummary, Ints, Kind, integer_sums
from replay.errors import NotSupportedError, QueryError
from replay.expressions.columns import ARROW_TYPES, Values, decimals_of_units, to_arrow
from replay.expressions.types import SCALES
from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Attribute,
    Call,
    DataType,
    Expression,
    WholeRange,
    WindowAggregation,
)

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

SUM_MAX = 2.0**1023
"""What a sum of doubles stays below whatever the order of its terms; half of the largest double,
for the roundings on the way."""

_DECIMAL_SUM_DIGITS = 38
"""More than 10**19 numbers of 18 digits add up to."""

SPREADS = frozenset({"var_pop", "var_samp", "stddev_pop", "stddev_samp"})
"""Aggregates that need second moments."""

MERGEABLE = SPREADS | {"count", "sum", "avg", "min", "max"}
"""Aggregates that merged summaries give, unless they are DISTINCT."""


class Finished(NamedTuple):
    """A column of the answer."""

    column: pa.Array
    bad: Bools | None
    """Windows whose value is an error; None where there is none."""
    why: Callable[[int], str]
    """What is wrong with the value of a window."""


def is_mergeable(part: Aggregate) -> bool:
    """Tell whether merged summaries give the aggregate."""
    return part.function in MERGEABLE and not part.distinct


def summarised(part: Aggregate) -> Expression | None:
    """Return the expression whose summary gives a mergeable aggregate; None for ``COUNT(*)``.

    The conversion to DOUBLE that variances put around integers and decimals is looked through, so
    that they are not rounded; that of other aggregates is not, since a sum of doubles is
    another one than that of the integers.
    """
    argument = part.argument
    if part.function in SPREADS and isinstance(argument, Call) and argument.op == "cast":
        inner = argument.args[0]
        return inner if inner.type is DataType.INTEGER or inner.type in SCALES else argument
    return argument


def summarised_attribute(part: Aggregate) -> str | None:
    """Return the attribute whose summary gives a mergeable aggregate.

    None for ``COUNT(*)`` and for what is `summarised` but no attribute.
    """
    argument = summarised(part)
    return argument.name if isinstance(argument, Attribute) and argument.offset == 0 else None


def answer_schema(what: WindowAggregation, schema: pa.Schema) -> pa.Schema:
    """Return the schema of the rows: window_start, window_end, keys, aggregates.

    `WholeRange` has no columns of windows. A key that is a plain column of ``schema``, that of the
    events, keeps its type.
    """
    fields = []
    if not isinstance(what.windows, WholeRange):
        time = type_of_moments(schema.field(what.time).type)
        fields = [pa.field(WINDOW_START, time), pa.field(WINDOW_END, time)]
    for name, key in zip(what.key_names, what.keys, strict=True):
        fields.append(pa.field(name, key_type(key, schema)))
    for name, part in zip(what.aggregate_names, what.aggregates, strict=True):
        fields.append(pa.field(name, _type_of(part)))
    return pa.schema(fields)


def _type_of(part: Aggregate) -> pa.DataType:
    """Return the Arrow type of an aggregate: sums of DECIMAL have all the digits there may be."""
    if part.function == "sum" and part.type in SCALES:
        return pa.decimal128(_DECIMAL_SUM_DIGITS, SCALES[part.type])
    return ARROW_TYPES[part.type]


def key_type(key: Any, schema: pa.Schema) -> pa.DataType:
    """Return the Arrow type of a key's column in the answer."""
    if not isinstance(key, Attribute):
        return ARROW_TYPES[key.type]
    data_type = schema.field(key.name).type
    return data_type.value_type if pat.is_dictionary(data_type) else data_type


def to_tables(
    what: WindowAggregation,
    schema: pa.Schema,
    windows: tuple[Ints, Ints],
    keys: Sequence[pa.Array],
    counts: Ints,
    summaries: Mapping[str, AttributeSummary],
) -> Iterator[pa.Table]:
    """Yield the rows of the answer, all of them in one table.

    Each aggregate `is_mergeable` and has `summarised_attribute`, by which ``summaries`` have n_rows
    entries each. ``windows`` are starts and ends, int64, shape (n_rows,); ``keys`` a column for
    every key; ``counts`` the events of each row, for ``COUNT(*)``.

    If a sum does not fit, that is raised once the rows before it were yielded: they are the answer
    of a query that asks for no further one.

    Notes
    -----
    ``SUM`` of INTEGER and DECIMAL is exact, and ``AVG`` of them that, over n and rounded once. A
    sum of DOUBLE is the rounding of a number within
    ``n * sum(abs(x)) * 2**-100`` of the exact sum of n values, whatever the plan; ``AVG`` is that
    over n. Where n times the largest magnitude reaches 2**1023 the order of additions could make
    it overflow, and it is an error. ``VAR_*`` are the rounding of a number within
    ``n * 2**-95 * (v + mean(abs(x)) * sqrt(v))`` of the exact v of n values, whatever the plan,
    where values lie more than 2**-430 apart; ``STDDEV_*`` are their roots. So plans give
    different doubles of one variance only where the exact one is that near the border of two,
    and that border is put where no short sum of squares lies (``double_double.snapped``). Of
    infinite values, of NaN and where all values are equal they follow from counts and extremes,
    which are exact. -0.0 is 0.0.
    """
    finished = [
        finish(part, counts, None if part.argument is None else summaries[_name_of(part)])
        for part in what.aggregates
    ]
    yield from assemble(what, schema, windows, keys, finished)


def _name_of(part: Aggregate) -> str:
    name = summarised_attribute(part)
    assert name is not None, "the plan takes only aggregates of attributes"
    return name


def assemble(
    what: WindowAggregation,
    schema: pa.Schema,
    windows: tuple[Ints, Ints],
    keys: Sequence[pa.Array],
    finished: Sequence[Finished],
) -> Iterator[pa.Table]:
    """Yield the rows up to the first whose value is an error, then raise it; see `to_tables`."""
    target = answer_schema(what, schema)
    columns: list[pa.Array] = []
    if not isinstance(what.windows, WholeRange):
        columns = [pa.array(side, pa.int64()).cast(target.field(0).type) for side in windows]
    columns += [*keys, *(part.column for part in finished)]
    table = pa.table(columns, schema=target)
    faults = [
        (int(np.argmax(part.bad)), number)
        for number, part in enumerate(finished)
        if part.bad is not None and part.bad.any()
    ]
    if not faults:
        yield table
        return
    row, number = min(faults)
    if row:
        yield table.slice(0, row)
    place = ""
    if not isinstance(what.windows, WholeRange):
        place = f" of the window [{columns[0][row]}, {columns[1][row]})"
    raise QueryError(f"{what.aggregate_names[number]}{place} {finished[number].why(row)}")


# ---------------------------------------------------------------------------------------------
# One aggregate


def finish(part: Aggregate, counts: Ints, summary: AttributeSummary | None) -> Finished:
    """Return a mergeable aggregate for every window.

    `to_tables` says how exact it is. ``counts`` are the events of each window, int64[n];
    ``summary`` is that of its argument, None for ``COUNT(*)``.
    """
    if summary is None:
        return _finished(part, Values(counts, None))
    if part.function == "count":
        return _finished(part, Values(summary.n_values + summary.nan_count, None))
    if part.function in ("min", "max"):
        return _extreme(part, summary)
    if part.function in ("sum", "avg"):
        exact = summary.kind is Kind.INTEGER
        return _integer_sum(part, summary) if exact else _float_sum(part, summary)
    return _spread(part, summary)


def _finished(
    part: Aggregate, values: Values, bad: Bools | None = None, why: Callable[[int], str] = str
) -> Finished:
    data, valid = values
    valid = None if valid is None or valid.all() else valid
    return Finished(to_arrow(Values(data, valid), part.type), bad, why)


def _extreme(part: Aggregate, summary: AttributeSummary) -> Finished:
    data = summary.minimum if part.function == "min" else summary.maximum
    if isinstance(data, pa.Array):
        return _finished(part, Values(data, None))
    there = summary.n_values > 0
    data = np.where(there, data, data.dtype.type(0))
    if part.type is DataType.BOOLEAN:
        data = data.astype(np.bool_)
    return _finished(part, Values(data + 0.0 if data.dtype.kind == "f" else data, there))


def _integer_sum(part: Aggregate, summary: AttributeSummary) -> Finished:
    """Return the sum or mean of INTEGER, INTERVAL or DECIMAL."""
    high, low = np.asarray(summary.sum_high), np.asarray(summary.sum_low)
    there = summary.n_values > 0
    assert part.argument is not None
    if part.argument.type in SCALES:
        return _decimal_sum(part, summary, SCALES[part.argument.type])
    among = np.maximum(summary.n_values, 1)
    if part.type is DataType.DOUBLE:
        mean, _ = divide(summary.sum_pair(), among.astype(np.float64))
        return _finished(part, Values(mean, there))
    bad = high != high.astype(np.int32)
    whole = (high << 32) + low
    if part.function == "avg":  # drops fractions of a microsecond
        down = whole // among
        whole = down + ((down < 0) & (down * among != whole))

    def why(row: int) -> str:
        total = integer_sums(high[row : row + 1], low[row : row + 1])[0]
        return (
            f"would add up to {total}, which does not fit 64 bits; "
            "convert what is added with CAST(… AS DOUBLE)"
        )

    return _finished(part, Values(whole, there), bad, why)


def _float_sum(part: Aggregate, summary: AttributeSummary) -> Finished:
    n = summary.n_values + summary.nan_count
    total = np.asarray(summary.sum_high + summary.sum_low, np.float64)
    if part.function == "avg":
        total = total / np.maximum(n, 1)
    total = _of_special(total, summary) + 0.0
    magnitude = _magnitude(summary)
    with np.errstate(over="ignore", invalid="ignore"):
        bad = np.isfinite(magnitude) & ~(magnitude * n < SUM_MAX) & (summary.nan_count == 0)

    def why(row: int) -> str:
        return (
            f"may not fit a double: it has {n[row]:,} values of up to {magnitude[row]:g}; "
            "divide what is added by a power of ten"
        )

    return _finished(part, Values(total, n > 0), bad, why)


def _decimal_sum(part: Aggregate, summary: AttributeSummary, scale: int) -> Finished:
    there = summary.n_values > 0
    if part.function == "sum":
        high, low = np.asarray(summary.sum_high), np.asarray(summary.sum_low)
        words = ((high << 32) | low, high >> 32)
        valid = None if there.all() else there
        return Finished(decimals_of_units(*words, valid, _type_of(part)), None, str)
    mean = divide(summary.sum_pair(), np.maximum(summary.n_values, 1).astype(np.float64))
    return _finished(part, Values(divide(mean, np.float64(10**scale))[0], there))


def _magnitude(summary: AttributeSummary) -> Floats:
    """Return the largest magnitude of each window, 0 where it has no value."""
    least, most = (np.asarray(side, np.float64) for side in (summary.minimum, summary.maximum))
    largest = np.maximum(np.abs(least), np.abs(most))
    return np.where(summary.n_values > 0, largest, 0.0)


def _of_special(total: Floats, summary: AttributeSummary) -> Floats:
    """Return sums as NaN and infinite values make them."""
    n = summary.n_values > 0
    up = n & (np.asarray(summary.maximum) == np.inf)
    down = n & (np.asarray(summary.minimum) == -np.inf)
    total = np.where(up, np.inf, np.where(down, -np.inf, total))
    return np.where((up & down) | (summary.nan_count > 0), np.nan, total)


def _is_constant(summary: AttributeSummary) -> Bools:
    """Tell where all values are equal."""
    least, most = np.asarray(summary.minimum), np.asarray(summary.maximum)
    return np.asarray((summary.n_values > 0) & (least == most))


def _variance(summary: AttributeSummary, over: Ints, unit: float) -> Floats:
    """Return second moments divided by numbers and twice by a unit, rounded once."""
    size = np.frexp(summary.m2)[1]  # out of the way: the halves of large doubles overflow
    with np.errstate(invalid="ignore"):
        m2 = snapped(np.ldexp(summary.m2, -size), np.ldexp(summary.m2_low, -size))
        for by in (over.astype(np.float64), unit, unit):
            m2 = divide(m2, by)
        return np.ldexp(m2[0], size)


def _spread(part: Aggregate, summary: AttributeSummary) -> Finished:
    """Return variances or standard deviations."""
    family, _, kind = part.function.partition("_")
    if part.function not in MERGEABLE:
        raise NotSupportedError(f"the aggregate '{part.function}' is not supported yet")
    less = 1 if kind == "samp" else 0
    n = summary.n_values + summary.nan_count
    is_nan = (summary.nan_count > 0) | np.isinf(_magnitude(summary))
    argument = summarised(part)
    scale = 0 if argument is None else SCALES.get(argument.type, 0)
    variance = _variance(summary, np.maximum(n - less, 1), 10.0**scale)
    variance = np.where(is_nan, np.nan, np.where(_is_constant(summary), 0.0, variance))
    data = np.sqrt(variance) if family == "stddev" else variance
    least, most = (np.asarray(side, np.float64) for side in (summary.minimum, summary.maximum))
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.where((n > less) & ~is_nan, most - least, 0.0)
        bad = ~(width * width * n < SUM_MAX)

    def why(row: int) -> str:
        return (
            f"may not fit a double: its {n[row]:,} values lie up to {width[row]:g} apart; "
            "divide them by a power of ten"
        )

    return _finished(part, Values(data, n > less), bad, why)
