"""Merged windows are the summaries of their events, whatever the overlap."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings

from chronicle.tree.summarise import summarise
from chronicle.tree.summary import AttributeSummary, Kind, integer_sums
from replay.windows.merging import merge_windows
from tests.window_cases import DOUBLES, INTEGERS, STRINGS, seeds, summarise_panes

VALUES: dict[pa.DataType, tuple[Any, ...]] = {
    pa.float64(): (*DOUBLES[:8], math.nan, math.inf),
    pa.float32(): (0.5, -2.0, math.nan),
    pa.int64(): INTEGERS,
    pa.int16(): (0, 1, -1, 7),
    pa.string(): STRINGS,
    pa.bool_(): (True, False),
    pa.timestamp("us"): (0, -5, 10**15),
    pa.date32(): (0, -5, 10**4),
    pa.binary(): (b"", b"x"),
}


def some_column(random: Random, data_type: pa.DataType, n: int) -> pa.ChunkedArray:
    values = VALUES[data_type]
    drawn = [random.choice(values) if random.random() < 0.8 else None for _ in range(n)]
    return pa.chunked_array([pa.array(drawn, data_type)])


def some_lengths(random: Random) -> list[int]:
    return [random.choice((1, 1, 2, 3, 600)) for _ in range(random.randint(1, 12))]


def some_bounds(random: Random, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of windows that ascend, of empty windows too."""
    lo = sorted(random.randint(0, n) for _ in range(random.randint(0, 9)))
    hi: list[int] = []
    for low in lo:
        hi.append(max([random.randint(low, n), *hi[-1:]]))
    return np.array(lo, np.int64), np.array(hi, np.int64)


def assert_same(mine: AttributeSummary, other: AttributeSummary, column: pa.ChunkedArray) -> None:
    """Compare summaries of the same events: exactly but for sums of doubles and squares."""
    for name in ("n_values", "null_count", "nan_count"):
        assert getattr(mine, name).tolist() == getattr(other, name).tolist()
    there = np.flatnonzero(other.n_values > 0)
    if mine.kind.has_extremes:
        for side in ("minimum", "maximum"):
            one, two = (getattr(summary, side) for summary in (mine, other))
            assert [one[i] for i in there] == [two[i] for i in there]
    if mine.kind is Kind.INTEGER:
        sums = [integer_sums(summary.sum_high, summary.sum_low) for summary in (mine, other)]
        assert sums[0] == sums[1]
    if mine.kind.has_sum:
        finite = [i for i in there if np.isfinite(other.m2[i])]
        assert np.allclose(mine.m2[finite], other.m2[finite], rtol=1e-9, atol=0.0)


@settings(max_examples=4 * settings().max_examples)
@given(seeds)
def test_panes_are_summarised_as_blocks_and_a_merged_window_is_the_summary_of_its_events(
    random: Random,
) -> None:
    lengths = some_lengths(random)
    column = some_column(random, random.choice(tuple(VALUES)), sum(lengths))
    lo, hi = some_bounds(random, len(lengths))
    begins = np.concatenate([[0], np.cumsum(lengths)])
    blocks = summarise(column, lengths)
    panes = summarise_panes(column, np.array(lengths))
    assert panes.kind is blocks.kind
    assert_same(panes, blocks, column)

    merged = merge_windows(blocks, lo, hi)

    assert len(merged) == len(lo)
    for window, (low, high) in enumerate(zip(lo, hi, strict=True)):
        n = int(begins[high] - begins[low])
        if not n:
            assert merged.n_values[window] == merged.null_count[window] == 0
            continue
        alone = summarise(column.slice(int(begins[low]), n), [n])
        assert_same(merged.slice(window, window + 1), alone, column)


@given(seeds)
def test_sums_of_doubles_are_within_the_stated_bound(random: Random) -> None:
    # Numbers of all sizes and signs, nearly all of which cancel.
    half = [random.uniform(-1, 1) * 10.0 ** random.randint(-12, 12) for _ in range(400)]
    values = half + [-value for value in half] + [random.random() for _ in range(5)]
    random.shuffle(values)
    lengths = [1, 300, 4, 500]

    summary = summarise_panes(pa.chunked_array([values]), np.array(lengths))
    merged = merge_windows(summary, np.zeros(1, np.int64), np.full(1, 4))

    exact = sum(map(Fraction, values), Fraction())
    magnitude = sum((abs(Fraction(value)) for value in values), Fraction())
    got = Fraction(merged.sum_high[0]) + Fraction(merged.sum_low[0])
    assert abs(got - exact) <= len(values) * magnitude / 2**100


@given(seeds)
def test_second_moments_of_windows_are_within_the_stated_bound(random: Random) -> None:
    size, least = random.choice((1e-3, 1.0, 1e9)), random.choice((0.0, 1e9, -1e12))
    values = [least + random.gauss(0, size) for _ in range(800)]
    lengths = [1, 300, 4, 495]

    summary = summarise_panes(pa.chunked_array([values]), np.array(lengths))
    merged = merge_windows(summary, np.zeros(1, np.int64), np.full(1, 4))

    exact = list(map(Fraction, values))
    mean = sum(exact, Fraction()) / 800
    variance = sum(((value - mean) ** 2 for value in exact), Fraction()) / 800
    got = (Fraction(merged.m2[0]) + Fraction(merged.m2_low[0])) / 800
    size_of = sum(map(abs, exact), Fraction()) / 800
    root = Fraction(math.isqrt(math.ceil(variance * 2**200))) / 2**100
    assert abs(got - variance) <= 800 * (variance + size_of * root) / 2**100


def test_entries_are_not_changed() -> None:
    summary = summarise_panes(pa.chunked_array([[3.0, 1.0, 2.0]]), np.array([1, 1, 1]))
    before = [column.copy() for column in summary.columns()]

    merge_windows(summary, np.array([0, 1]), np.array([3, 3]))

    assert all(map(np.array_equal, summary.columns(), before))
