"""Compiled running totals of the rows of a slot: what aggregates in conditions ask for.

The arrays are those of ``conditions/kernels.py``:
``totals`` says what each total keeps up, ``totals_i`` and ``totals_f`` hold it by how many rows
the slot has.
"""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit

# What a total keeps up as rows are bound.
TOTAL_COUNT = 0
TOTAL_SUM = 1
TOTAL_MIN = 2
TOTAL_MAX = 3
TOTAL_SPREAD = 4  # mean and sum of squared differences from it, as Welford updates them

# Functions of a total.
F_COUNT = 0
F_VALUE = 1  # sum, min or max
F_AVG = 2
F_VAR_POP = 3
F_VAR_SAMP = 4
F_STDDEV_POP = 5
F_STDDEV_SAMP = 6

SYMBOL_MASK = 0x7F
"""Part of a path's byte that is the symbol; the other bit marks excluded rows."""

INT64_MIN = np.iinfo(np.int64).min
INT64_MAX = np.iinfo(np.int64).max


@njit(_nrt=False)
def _leaf_of(total, row, totals, path):  # type: ignore[no-untyped-def]
    """Leaf that a total reads of a mapped row."""
    leaf = totals[total, 1]
    return leaf + (np.int64(path[row]) & SYMBOL_MASK) if totals[total, 4] != 0 else leaf


@njit(_nrt=False)
def _is_repeated(total, count, row, totals, leaf_i, leaf_f, leaf_ok, rows, path):  # type: ignore[no-untyped-def]  # fmt: skip
    """Whether one of the first ``count`` rows has the value of ``row``; the last is asked first."""
    real = totals[total, 2] != 0
    leaf = _leaf_of(total, row, totals, path)
    for k in range(count - 1, -1, -1):
        other = _leaf_of(total, rows[k], totals, path)
        if not leaf_ok[other, rows[k]]:
            continue
        if real:
            a, b = leaf_f[leaf, row], leaf_f[other, rows[k]]
            if a == b or (np.isnan(a) and np.isnan(b)):
                return True
        elif leaf_i[leaf, row] == leaf_i[other, rows[k]]:
            return True
    return False


@njit(_nrt=False)
def add_row(total, count, row, totals, leaf_i, leaf_f, leaf_ok, rows, totals_i, totals_f, path):  # type: ignore[no-untyped-def]  # fmt: skip
    """Carry a total on from ``count`` rows of its slot, which are ``rows``, to one more."""
    keeps = totals[total, 0]
    leaf = _leaf_of(total, row, totals, path)
    real = totals[total, 2] != 0
    whole = totals_i[total]
    fraction = totals_f[total]
    for k in range(3):
        whole[count + 1, k] = whole[count, k]
    for k in range(2):
        fraction[count + 1, k] = fraction[count, k]
    extreme = keeps in (TOTAL_MIN, TOTAL_MAX)
    value_i = leaf_i[leaf, row]
    value_f = leaf_f[leaf, row] if real else float(value_i)
    if not leaf_ok[leaf, row] or (extreme and real and np.isnan(value_f)):
        return
    if totals[total, 3] != 0:  # noqa: SIM102 - alone, as it is rare
        if _is_repeated(total, count, row, totals, leaf_i, leaf_f, leaf_ok, rows, path):
            return
    n = whole[count, 0] + 1
    whole[count + 1, 0] = n
    if keeps == TOTAL_SPREAD:
        apart = value_f - fraction[count, 0]
        mean = fraction[count, 0] + apart / n
        fraction[count + 1, 0] = mean
        fraction[count + 1, 1] = fraction[count, 1] + apart * (value_f - mean)
    elif extreme and real:
        less = value_f < fraction[count, 0]
        if n == 1 or less == (keeps == TOTAL_MIN):
            fraction[count + 1, 0] = value_f
    elif extreme:
        less = value_i < whole[count, 1]
        if n == 1 or less == (keeps == TOTAL_MIN):
            whole[count + 1, 1] = value_i
    elif keeps == TOTAL_SUM and real:
        fraction[count + 1, 0] = fraction[count, 0] + value_f
    elif keeps == TOTAL_SUM:
        # Modulo 2**64; the carry counts how often it left the range of int64.
        sum_ = whole[count, 1]
        if value_i > 0 and sum_ > INT64_MAX - value_i:
            whole[count + 1, 1] = (sum_ + INT64_MIN) + (value_i + INT64_MIN)
            whole[count + 1, 2] = whole[count, 2] + 1
        elif value_i < 0 and sum_ < INT64_MIN - value_i:
            whole[count + 1, 1] = (sum_ - INT64_MIN) + (value_i - INT64_MIN)
            whole[count + 1, 2] = whole[count, 2] - 1
        else:
            whole[count + 1, 1] = sum_ + value_i


@njit(_nrt=False)
def push_total(total, function, count, real, totals_i, totals_f, i, f, valid, p):  # type: ignore[no-untyped-def]  # fmt: skip
    """Push the function of a total after ``count`` rows; returns whether a fault occurred."""
    n = totals_i[total, count, 0]
    whole = totals_i[total, count, 1]
    fraction = totals_f[total, count, 0]
    if function == F_COUNT:
        i[p] = n
        valid[p] = True
        return False
    valid[p] = n > 0
    if function >= F_VAR_POP:
        sample = function in (F_VAR_SAMP, F_STDDEV_SAMP)
        valid[p] = n > 1 or (n == 1 and not sample)
        if valid[p]:
            f[p] = totals_f[total, count, 1] / (n - 1 if sample else n)
            if function >= F_STDDEV_POP:
                f[p] = np.sqrt(f[p])
        return False
    if n > 0 and not real and totals_i[total, count, 2] != 0:
        valid[p] = False
        return True
    i[p] = whole
    f[p] = fraction
    if function == F_AVG and n > 0:
        f[p] = (fraction if real else float(whole)) / n
    return False
