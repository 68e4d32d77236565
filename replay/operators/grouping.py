"""Rows in groups of equal keys, and aggregates over each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replay.expressions.columns import Values
from replay.expressions.scalars import Faults
from replay.language.bound import Aggregate
from replay.limits import check_limits
from replay.operators.row_aggregates import Spans, aggregate

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
    for key in keys:
        check_limits()
        codes = _codes(key)
        n_codes = int(codes.max(initial=0)) + 1
        of_row = _dense(pa.array(of_row * n_codes + codes))
    first_rows = np.flatnonzero(np.diff(np.maximum.accumulate(of_row), prepend=-1))
    return Groups(of_row, first_rows, len(first_rows))


def _codes(values: Values) -> IntArray:
    """Return numbers from 0 that are equal where the values are."""
    data, valid = values
    if not isinstance(data, np.ndarray):
        return encode_strings(data)[0].astype(np.int64)
    if data.dtype.kind == "f":
        # One NaN of the many, and 0.0 for -0.0.
        data = np.where(np.isnan(data), np.nan, data + 0.0).view(np.int64)
    return _dense(pa.array(data.astype(np.int64), mask=None if valid is None else ~valid))


def _dense(array: Any) -> IntArray:
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
    """Return an aggregate for every group."""
    order = np.argsort(groups.of_row, kind="stable")
    counts = np.bincount(groups.of_row, minlength=groups.n_groups)
    ends = np.cumsum(counts)
    spans = Spans(groups.of_row[order], ends - counts, ends)
    return aggregate(part, None if argument is None else _take(argument, order), spans, faults)


def _take(values: Values, rows: IntArray) -> Values:
    data, valid = values
    if isinstance(data, np.ndarray):
        return Values(data[rows], None if valid is None else valid[rows])
    return Values(data.take(pa.array(rows)), None)
