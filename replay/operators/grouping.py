"""Rows in groups of equal keys, and aggregates over each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replay.errors import QueryError
from replay.expressions.columns import Values
from replay.expressions.scalars import Faults
from replay.expressions.types import NUMERIC, SCALES
from replay.language.bound import Aggregate, DataType
from replay.limits import check_limits
from replay.operators.exact_sums import ratios, sums_of_doubles, sums_of_integers
from replay.operators.row_aggregates import Spans, aggregate, counted

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Groups:
    """Which rows go together.

    ``of_row`` is the number of each row's group, int64[n_rows], numbered in the order of their
    first rows. ``first_rows`` are those, int64[n_groups].
    """

    of_row: IntArray
    first_rows: IntArray
    n_groups: int


def group_rows(keys: list[Values], n_rows: int) -> Groups:
    """Return the groups of rows that are equal in every key.

    NULL equals NULL, NaN equals NaN and -0.0 equals 0.0. Without a key there is one group, be
    there rows or not.
    """
    of_row = np.zeros(n_rows, np.int64)
    if not keys:
        return Groups(of_row, np.arange(min(n_rows, 1)), 1)
    for place, key in enumerate(keys):
        check_limits()
        codes = _codes(key)
        n_codes = int(codes.max(initial=0)) + 1
        of_row = _dense(of_row * n_codes + codes, None) if place else codes
    first_rows = np.flatnonzero(np.diff(np.maximum.accumulate(of_row), prepend=-1))
    return Groups(of_row, first_rows, len(first_rows))


def _codes(values: Values) -> IntArray:
    """Return numbers from 0 that are equal where the values are, in the order they come."""
    data, valid = values
    if not isinstance(data, np.ndarray):
        return _encoded(data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data)
    if data.dtype.kind == "f":
        # One NaN of the many, and 0.0 for -0.0.
        data = np.where(np.isnan(data), np.nan, data + 0.0).view(np.int64)
    return _dense(data.astype(np.int64), valid)


def _dense(numbers: IntArray, valid: npt.NDArray[np.bool_] | None) -> IntArray:
    """Return numbers from 0, equal where those given are, in the order in which they come."""
    if valid is None and bool((numbers[1:] >= numbers[:-1]).all()):  # as windows do
        return np.cumsum(np.diff(numbers, prepend=numbers[:1]) != 0)
    return _encoded(pa.array(numbers, mask=None if valid is None else ~valid))


def _encoded(array: Any) -> IntArray:
    indices = array.dictionary_encode(null_encoding="encode").indices
    return np.asarray(indices.to_numpy(zero_copy_only=False)).astype(np.int64)


def encode_strings(data: Any) -> tuple[IntArray, Any]:
    """Return codes of texts and their dictionary; NULL has the code past its end."""
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    encoded = data.dictionary_encode()
    dictionary = encoded.dictionary
    codes = encoded.indices.fill_null(len(dictionary)).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), dictionary


def string_ranks(dictionary: Any) -> IntArray:
    """Return the place of each text in their order, which is that of their UTF-8 bytes."""
    ranks = np.empty(len(dictionary), np.int64)
    ranks[pc.sort_indices(dictionary).to_numpy()] = np.arange(len(dictionary))
    return ranks


def aggregate_groups(
    part: Aggregate, argument: Values | None, groups: Groups, faults: Faults
) -> Values:
    """Return an aggregate for every group; of integers that `whole_numbers` does not give."""
    is_number = part.argument is not None and part.argument.type in NUMERIC
    is_sum = part.function == "sum" and part.type in (DataType.DOUBLE, DataType.INTERVAL)
    is_mean = part.function == "avg" and (is_number or part.type is DataType.INTERVAL)
    if argument is not None and (is_sum or is_mean):
        return _exact(part, argument, groups)
    found = aggregate(part, *_together(argument, groups), faults)
    if part.function in ("min", "max") and part.type is DataType.DOUBLE:
        return Values(found.data + 0.0, found.valid)  # 0.0 for -0.0: neither is the less
    return found


def whole_numbers(part: Aggregate, argument: Values | None, groups: Groups) -> Sequence[int | None]:
    """Return a count or an exact sum of integers for every group; None for a sum of nothing.

    Decimals are integers here, in units of their last digit.
    """
    values, spans = _together(argument, groups)
    data, spans = (None, spans) if values is None else counted(part, values, spans)
    counts: list[int] = (spans.ends - spans.begins).tolist()
    if part.function == "count":
        return counts
    assert data is not None
    sums = sums_of_integers(data, spans.begins, spans.ends)
    return [total if count else None for total, count in zip(sums, counts, strict=True)]


def _exact(part: Aggregate, argument: Values, groups: Groups) -> Values:
    """Return SUM or AVG for every group: that of the exact numbers, rounded once."""
    values, spans = _together(argument, groups)
    assert values is not None
    assert part.argument is not None
    data, spans = counted(part, values, spans)
    counts = spans.ends - spans.begins
    there = counts > 0
    if data.dtype != np.float64:
        whole = sums_of_integers(data, spans.begins, spans.ends)
        if part.type is DataType.INTERVAL:
            return intervals(part, whole, counts.tolist())
        scale = SCALES.get(part.argument.type, 0)
        return Values(np.array(ratios(whole, counts.tolist(), scale), np.float64), there)
    among = counts.tolist() if part.function == "avg" else [1] * len(counts)
    try:
        sums = [
            total.rounded(max(count, 1))
            for total, count in zip(
                sums_of_doubles(data, spans.begins, spans.ends), among, strict=True
            )
        ]
    except OverflowError:
        raise out_of_range() from None
    return Values(np.array(sums, np.float64), there)


def intervals(part: Aggregate, sums: Sequence[int], counts: Sequence[int]) -> Values:
    """Return SUM or AVG of intervals from exact sums; fractions of a microsecond are dropped.

    Raises a QueryError for a SUM that no INTERVAL holds; a mean always fits.
    """
    if part.function == "avg":
        among = (max(count, 1) for count in counts)
        sums = [abs(n) // m * (1 if n >= 0 else -1) for n, m in zip(sums, among, strict=True)]
    there = np.array([count > 0 for count in counts], np.bool_)
    try:
        return Values(np.array(sums, np.int64), there)
    except OverflowError:
        raise QueryError(
            "a SUM of the outer query is longer than any INTERVAL, of 292,000 years; write AVG"
        ) from None


def out_of_range() -> QueryError:
    """Return the error on a sum that no DOUBLE is near to."""
    return QueryError(
        "a SUM of the outer query is beyond the range of a DOUBLE, 1.8e308; divide its "
        "argument, as in SUM(x / 1e10), or write AVG"
    )


def _together(argument: Values | None, groups: Groups) -> tuple[Values | None, Spans]:
    """Return values with those of a group together, and where each group has them."""
    order = np.argsort(groups.of_row, kind="stable")
    counts = np.bincount(groups.of_row, minlength=groups.n_groups)
    ends = np.cumsum(counts)
    spans = Spans(groups.of_row[order], ends - counts, ends)
    return None if argument is None else argument.take(order), spans
