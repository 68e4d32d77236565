"""Laws of summaries: what is merged equals what is summarised at once, and both the oracle."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.tree.summarise import summarise, summarise_times
from chronicle.tree.summary import (
    AttributeSummary,
    Kind,
    TimeSummary,
    equal_runs,
    integer_sums,
    kind_of,
    two_sum_rows,
)
from chronicle.tree.tab_tree import to_aggregate
from tests.oracles.aggregates import aggregate_events
from tests.unit.chronicle.stream_cases import SCHEMA, events, to_internal
from tests.window_cases import seeds


def _cut(n: int, data: st.DataObject) -> list[int]:
    counts = []
    while n:
        counts.append(data.draw(st.integers(1, min(n, 7))))
        n -= counts[-1]
    return counts


def _close(found: object, expected: object, scale: float) -> bool:
    if found is None or expected is None:
        return found is expected
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(found)
    if isinstance(expected, int) or math.isinf(expected):
        return found == expected
    return abs(found - expected) <= 1e-9 * max(scale, 1e-300)


def assert_aggregate(found: object, times: list[int], values: list[object], kind: Kind) -> None:
    """Hold an aggregate against the oracle: exactly, but for floating point sums."""
    expected = aggregate_events(times, values, is_number=kind.has_sum)
    for name in ("n_events", "t_min", "t_max", "gap_min", "gap_max", "n_values", "null_count",
                 "nan_count", "minimum", "maximum"):  # fmt: skip
        assert getattr(found, name) == getattr(expected, name), name
    numbers = [v for v in values if isinstance(v, int | float) and math.isfinite(v)]
    largest = max((abs(v) for v in numbers), default=0.0)
    # Sum2 is as good as twice the working precision, so 1e-9 of one value is far too lenient.
    assert _close(found.sum, expected.sum, largest * 1e-4), (found.sum, expected.sum)
    assert _close(found.m2, expected.m2, float(largest) ** 2 * max(1, len(numbers)))


@given(events(), st.data())
def test_merged_summaries_are_those_of_the_events_together(table: pa.Table, data: st.DataObject):
    if table.num_rows == 0:
        return
    times = table["t"].to_pylist()
    counts = _cut(table.num_rows, data)
    time_entries = summarise_times(np.array(times), counts)
    groups = _cut(len(counts), data)
    starts = np.concatenate(([0], np.cumsum(groups)[:-1])).astype(np.int64)
    for name in ("x", "n", "small", "s", "flag", "day", "at"):
        kind = kind_of(SCHEMA.field(name).type)
        entries = summarise(table[name], counts)
        merged = entries.merge(starts)
        merged_times = time_entries.merge(starts)
        values = to_internal(table[name])
        borders = np.concatenate(([0], np.cumsum(counts)))
        ends = np.append(starts[1:], len(counts))
        for i, (a, b) in enumerate(zip(borders[starts], borders[ends], strict=True)):
            found = to_aggregate(
                [(merged_times.slice(i, i + 1), merged.slice(i, i + 1))],
                kind=kind,
                n_blocks_read=0,
            )
            assert_aggregate(found, times[a:b], values[a:b], kind)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40), st.data())
def test_integer_sums_are_exact_beyond_64_bits(values: list[int], data: st.DataObject):
    summary = summarise(pa.array(values, pa.int64()), _cut(len(values), data))
    merged = summary.merge(np.zeros(1, np.int64))
    assert integer_sums(merged.sum_high, merged.sum_low) == [sum(values)]
    assert 0 <= merged.sum_low[0] < 2**32


def test_sum_keeps_what_cancels_across_blocks():
    # A running sum gives 0, since 1e16 + 1 rounds to 1e16.
    summary = summarise(pa.array([1e16, 1.0, -1e16, 1.0]), [2, 2]).merge(np.zeros(1, np.int64))
    assert summary.sum_high[0] + summary.sum_low[0] == 2.0


def test_second_moment_of_large_close_values_does_not_cancel():
    # Mean 1e9 + 2, deviations -1, 0, 1: a difference of sums of squares gives 0 or less.
    values = pa.array([1e9 + 1, 1e9 + 2, 1e9 + 3])
    assert summarise(values, [3]).m2[0] == 2.0
    assert summarise(values, [1, 2]).merge(np.zeros(1, np.int64)).m2[0] == pytest.approx(2.0)


def test_overflowing_sum_is_infinite_and_not_nan():
    high, low = two_sum_rows(np.array([[1.7e308, 1.7e308]]))
    assert (high[0], low[0]) == (math.inf, 0.0)


def test_block_without_values_takes_no_part():
    summary = summarise(pa.array([None, math.nan, 3.0, 5.0]), [2, 2])
    assert summary.n_values.tolist() == [0, 2]
    assert summary.null_count.tolist() == [1, 0]
    assert summary.nan_count.tolist() == [1, 0]
    merged = summary.merge(np.zeros(1, np.int64))
    assert (merged.minimum[0], merged.maximum[0], merged.m2[0]) == (3.0, 5.0, 2.0)


def test_gaps_across_block_borders_belong_to_the_merged_entry():
    # times 0 . . . 4 4 | 5 . . 8 : inside gaps 4, 0 and 3; across the border 1
    entries = summarise_times(np.array([0, 4, 4, 5, 8]), [3, 2])
    assert entries.gap_min.tolist() == [0, 3]
    assert entries.gap_max.tolist() == [4, 3]
    single = summarise_times(np.array([0, 1, 9]), [1, 1, 1])
    assert single.gap_min.tolist() == [-1, -1, -1]
    merged = single.merge(np.zeros(1, np.int64))
    assert (merged.gap_min[0], merged.gap_max[0]) == (1, 8)


def test_strings_are_ordered_by_code_point():
    summary = summarise(pa.array(["ä", "z", "", None, "Z", "😀"]), [3, 3])
    assert summary.minimum.to_pylist() == ["", "Z"]
    assert summary.maximum.to_pylist() == ["ä", "😀"]


def test_chunks_of_a_column_do_not_matter():
    # Blocks b | d a | null c over chunks b d | (none) | a null c.
    chunks = pa.chunked_array([["b", "d"], [], ["a", None, "c"]], pa.string())
    summary = summarise(chunks, [1, 2, 2])
    assert summary.minimum.to_pylist() == ["b", "a", "c"]
    assert summary.maximum.to_pylist() == ["b", "d", "c"]
    assert summary.null_count.tolist() == [0, 0, 1]
    numbers = summarise(pa.chunked_array([[1, 2], [3, None]], pa.int64()), [1, 2, 1])
    assert integer_sums(numbers.sum_high, numbers.sum_low) == [1, 5, 0]


def test_opaque_columns_count_nulls_only():
    summary = summarise(pa.array([b"a", None, b"b"]), [3]).merge(np.zeros(1, np.int64))
    assert summary.kind is Kind.OPAQUE
    assert (summary.n_values[0], summary.null_count[0], len(summary.minimum)) == (2, 1, 0)


def test_nothing_concatenates_and_merges_to_nothing():
    nothing = TimeSummary.concat([])
    assert len(nothing) == 0
    assert len(nothing.merge(np.zeros(0, np.int64))) == 0
    none = summarise(pa.array([1.0]), [1]).slice(0, 0)
    assert len(AttributeSummary.concat([none, none]).merge(np.zeros(0, np.int64))) == 0


@given(st.lists(st.integers(1, 3), max_size=12))
def test_equal_runs_cover_all_groups_in_order(lengths: list[int]):
    flat = [
        length
        for _, n, _, length in equal_runs(np.array(lengths, np.int64))
        for length in [length] * n
    ]
    assert flat == lengths
    for group, _, first, _ in equal_runs(np.array(lengths, np.int64)):
        assert first == sum(lengths[:group])


FAMILIES: dict[str, Callable[[Random], float]] = {
    "normal": lambda random: random.gauss(0, 1),
    "cents": lambda random: random.randint(0, 9999) / 100,
    "far": lambda random: 1e9 + random.gauss(0, 1e-3),
    "next to each other": lambda random: 1e9 + random.randint(0, 2) * 2.0**-23,
    "of all sizes": lambda random: random.gauss(0, 1) * 10.0 ** random.randint(-12, 12),
    "one outlier": lambda random: random.choice((*[random.random()] * 50, 1e15)),
    "large": lambda random: random.gauss(0, 1e150),
    "small": lambda random: random.gauss(0, 1e-100),
    "whole": lambda random: random.randint(-(10**6), 10**6),
    "wide": lambda random: random.randint(-(2**40), 2**40),
    "whole of all sizes": lambda random: (
        random.randint(-(2**63), 2**63 - 1) >> random.randint(0, 62)
    ),
}


def root(x: Fraction) -> Fraction:
    """Return a square root from above."""
    scale = 2**2000 if x < 1 else 1
    return Fraction(math.isqrt(math.ceil(x * scale * 2**200)) + 1) / math.isqrt(scale) / 2**100


def assert_close(found: AttributeSummary, values: list[float | None]) -> None:
    """Hold one entry against the bounds stated of `moment_rows`."""
    exact = [Fraction(value) for value in values if value is not None]
    n, total = len(exact), sum(exact, Fraction())
    magnitude = sum(map(abs, exact), Fraction())
    mean = total / max(n, 1)
    squares = sum(((value - mean) ** 2 for value in exact), Fraction())
    high, low = found.sum_pair()
    got = Fraction(float(high[0])) + Fraction(float(low[0]))
    assert abs(got - total) <= n * magnitude / 2**100
    got = Fraction(float(found.m2[0])) + Fraction(float(found.m2_low[0]))
    bound = n * (squares + magnitude / max(n, 1) * root(n * squares))
    assert abs(got - squares) <= bound / 2**100


@pytest.mark.parametrize("family", FAMILIES)
@given(random=seeds)
def test_moments_of_blocks_and_of_nodes_are_within_the_stated_bound(
    family: str, random: Random
) -> None:
    n = random.choice((1, 2, 3, 50, 300))
    missing = random.choice((0.0, 0.0, 0.3))
    values = [None if random.random() < missing else FAMILIES[family](random) for _ in range(n)]
    counts = []
    while sum(counts) < n:
        counts.append(random.randint(1, n - sum(counts)))
    column = pa.array(values, pa.int64() if "wh" in family or family == "wide" else pa.float64())

    found = summarise(column, counts)

    ends = np.cumsum(counts)
    for entry, (begin, end) in enumerate(zip(ends - counts, ends, strict=True)):
        assert_close(found.slice(entry, entry + 1), values[begin:end])
    assert_close(found.merge(np.zeros(1, np.int64)), values)


@pytest.mark.parametrize("value", [0.1, -1e290, 3e-310, 1e9, 2**63 - 1, -7])
def test_equal_values_have_no_second_moment(value: float) -> None:
    found = summarise(pa.array([value] * 7), [3, 4])
    whole = found.merge(np.zeros(1, np.int64))
    assert [*found.m2, *found.m2_low, *whole.m2, *whole.m2_low] == [0.0] * 6


def test_integers_at_both_ends_of_64_bits_are_exact() -> None:
    # The mean is -1/2, each value 2**63 - 1/2 from it: m2 = 2 (2**63 - 1/2)**2.
    found = summarise(pa.array([-(2**63), 2**63 - 1]), [2])
    exact = 2 * (Fraction(2**63) - Fraction(1, 2)) ** 2
    assert found.m2[0] == float(exact)
    assert found.m2_low[0] == float(exact - Fraction(float(exact)))


def test_infinite_and_overflowing_values_leave_no_garbage_behind() -> None:
    found = summarise(pa.array([math.inf, 1.0, 1e300, -1e300, 3.0, 5.0]), [2, 2, 2])
    assert math.isnan(found.m2[0])
    assert found.m2[1:].tolist() == [math.inf, 2.0]
    assert found.sum_high.tolist() == [math.inf, 0.0, 8.0]
    assert found.m2_low.tolist() == [0.0, 0.0, 0.0]
