"""Laws of summaries and of the tree over them, and the arithmetic that they rest on.

A snapshot answers as a scan of the events does, with tree entries and without them. What is told
of a stream: sizes, aggregates of a range, and histograms over time.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chronicle import Snapshot, StreamSettings, create_store
from chronicle.describe import (
    LevelDescription,
    describe_stream,
    histogram,
    numeric_columns,
    range_stats,
    shown_value,
)
from chronicle.errors import SchemaError
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.finding import Severity
from chronicle.store import Stream, open_store
from chronicle.tree.double_double import (
    SNAPPED_BITS,
    Pair,
    add,
    divide,
    multiply,
    snapped,
    times,
    two_product,
    two_sum,
)
from chronicle.tree.summarise import summarise, summarise_times
from chronicle.tree.summary import (
    AttributeSummary,
    Kind,
    TimeSummary,
    integer_sums,
    kind_of,
    two_sum_rows,
)
from chronicle.tree.tab_tree import TabTree, to_aggregate
from chronicle.tree.tree_file import TREE_TABLE, build_levels
from tests.helpers import commit_table
from tests.oracles.aggregates import aggregate_events
from tests.unit.chronicle.stream_cases import SCHEMA, events, make_stream, to_internal
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


def test_overflowing_sum_is_infinite_and_not_nan():
    high, low = two_sum_rows(np.array([[1.7e308, 1.7e308]]))
    assert (high[0], low[0]) == (math.inf, 0.0)


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
@settings(max_examples=settings().max_examples // 2)
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


def _tree(blocks_per_file: list[int], fan_out: int) -> TabTree:
    files, now = [], 0
    for n in blocks_per_file:
        times = np.arange(now, now + 2 * n)
        files.append(build_levels(summarise_times(times, [2] * n), fan_out))
        now += 2 * n
    return TabTree(files, fan_out=fan_out, load=lambda name: [])


def test_files_stand_side_by_side_until_each_is_one_entry():
    # fan-out 2, files of 5 and 1 blocks:   level 0  b b b b b | b
    #                                       level 1  n   n   n | b
    #                                       level 2  n       n | b
    #                                       level 3  n         | b
    #                                       level 4  n
    tree = _tree([5, 1], 2)
    assert [tree.level(k).first_block.tolist() for k in range(tree.n_levels)] == [
        [0, 1, 2, 3, 4, 5, 6],
        [0, 2, 4, 5, 6],
        [0, 4, 5, 6],
        [0, 5, 6],
        [0, 6],
    ]
    tree._check()


@given(st.integers(-2, 44), st.integers(-2, 44))
def test_covering_blocks_hold_all_events_of_the_range(start: int, stop: int):
    tree = _tree([5, 16], 3)  # block i holds the times 2 i and 2 i + 1
    first, last = tree.covering(start, stop)
    expected = {t // 2 for t in range(max(0, start), min(42, stop))}
    assert expected <= set(range(first, last))
    assert last - first <= len(expected) + 1


def test_levels_beyond_the_top_are_refused():
    tree = _tree([3], 2)
    with pytest.raises(IndexError, match="levels 0 to 2"):
        tree.level(3)


def test_check_names_a_broken_entry():
    tree = _tree([4], 2)
    tree.level(1).times.gap_max[1] = 77
    with pytest.raises(AssertionError, match="level 1 of 3: gap_max of entry 1"):
        tree._check()


def test_check_notices_overlapping_blocks():
    tree = _tree([4], 2)
    tree.level(0).times.t_max[1] = 5
    with pytest.raises(AssertionError, match="overlap"):
        tree._check()


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(2, 4), st.data())
def test_nodes_tile_each_of_many_ranges_with_few_entries(
    sizes: list[int], fan_out: int, data: st.DataObject
):
    tree = _tree(sizes, fan_out)
    tree._check()
    ends = st.tuples(st.integers(0, tree.n_blocks), st.integers(0, tree.n_blocks))
    ranges = np.array(data.draw(st.lists(ends, max_size=8)), np.int64).reshape(-1, 2)

    found = tree.nodes_of_ranges(ranges[:, 0], ranges[:, 1])

    assert len(found.offsets) == len(ranges) + 1
    times, counts = tree.times_of_entries(found), tree.counts_of_entries(found)
    assert counts.tolist() == times.count.tolist()
    for place, (first, stop) in enumerate(ranges.tolist()):
        own = slice(*found.offsets[place : place + 2])
        borders = [tree.level(k).first_block for k in found.level[own]]
        places = zip(borders, found.entry[own], strict=True)
        covered = [block for at, entry in places for block in range(at[entry], at[entry + 1])]
        assert covered == list(range(first, stop))
        assert len(borders) <= 2 * (fan_out - 1) * tree.n_levels
        assert times.slice(own.start, own.stop).t_min.tolist() == [
            2 * at[e] for at, e in zip(borders, found.entry[own], strict=True)
        ]


def test_summaries_of_entries_come_in_the_order_of_the_ranges():
    # fan-out 2, four blocks of the values 0 1 | 2 3 | 4 5 | 6 7: sums 1 5 9 13, then 6 22, then 28.
    leaves = summarise(pa.array(np.arange(8.0)), [2] * 4)
    times = build_levels(summarise_times(np.arange(8), [2] * 4), 2)
    tree = TabTree([times], fan_out=2, load=lambda name: [build_levels(leaves, 2)])

    nodes = tree.nodes_of_ranges(np.array([2, 0, 1]), np.array([3, 4, 4]))

    assert tree.attribute_of_entries(nodes, "x").sum_high.tolist() == [9.0, 28.0, 5.0, 22.0]


numbers = st.integers(0, 2**64 - 1).map(
    lambda seed: Random(seed).uniform(-1, 1) * 2.0 ** Random(seed + 1).randint(-60, 60)
)
U = Fraction(1, 2**53)


def array(x: float) -> np.ndarray:
    return np.array([x])


def exact(pair: Pair) -> Fraction:
    return sum((Fraction(float(part[0])) for part in pair), Fraction())


def normal(high: float, way: float) -> Pair:
    return two_sum(array(high), array(high * way * 2.0**-54))


@given(numbers, numbers)
def test_sums_and_products_of_doubles_lose_nothing(a: float, b: float) -> None:
    assert exact(two_sum(array(a), array(b))) == Fraction(a) + Fraction(b)
    assert exact(two_product(array(a), array(b))) == Fraction(a) * Fraction(b)


@given(numbers, st.floats(-1, 1), numbers, st.floats(-1, 1))
def test_pairs_are_within_their_bounds(a: float, p: float, b: float, q: float) -> None:
    x, y = normal(a, p), normal(b, q)
    for found, expected, units in (
        (add(x, y), exact(x) + exact(y), 3),
        (multiply(x, y), exact(x) * exact(y), 7),
        (times(x, array(b)), exact(x) * Fraction(b), 3),
        (divide(x, array(b or 1.0)), exact(x) / Fraction(b or 1.0), 5),
    ):
        assert abs(exact(found) - expected) <= units * U * U * abs(expected)
        assert found[0][0] + found[1][0] == found[0][0]


@pytest.mark.parametrize("off", [0.0, 2.0**-104, -(2.0**-104)])
def test_a_number_between_two_doubles_is_snapped_whatever_it_is_off(off: float) -> None:
    # 1 + 2**-53 lies in the middle of two doubles, and is a number of 54 bits.
    high, low = snapped(array(1.0), array(2.0**-53 + off))
    assert (high[0], low[0]) == (1.0, 2.0**-53)


@given(numbers, st.floats(-1, 1))
def test_what_is_snapped_keeps_its_leading_bits(a: float, way: float) -> None:
    pair = normal(a, way)
    assert abs(exact(snapped(*pair)) - exact(pair)) <= abs(exact(pair)) / 2 ** (SNAPPED_BITS - 1)


ATTRIBUTES = ("x", "n", "small", "s", "flag", "day", "at")


def _split(table: pa.Table, data: st.DataObject) -> list[pa.Table]:
    """Cut events into one to three appends."""
    cuts = sorted(data.draw(st.lists(st.integers(0, table.num_rows), max_size=2)))
    borders = [0, *cuts, table.num_rows]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(borders)]


def _reopened(stream: Stream) -> Snapshot:
    return open_store(stream.path.parent).stream(stream.name).snapshot()


def _all_events(snapshot: Snapshot) -> pa.Table:
    blocks = np.arange(snapshot.n_blocks)
    return snapshot.read_blocks(blocks, snapshot.schema.names).cast(snapshot.schema)


def _drop_tree_files(stream: Stream, data: st.DataObject) -> None:
    for file in sorted((stream.path / TREE_TABLE).glob("*.parquet")):
        if data.draw(st.booleans()):
            file.unlink()


def _comparable(table: pa.Table) -> list[list[str]]:
    """NaN equals itself as text."""
    return [[repr(value) for value in column.to_pylist()] for column in table.columns]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events(), st.data())
def test_a_snapshot_says_of_its_events_what_a_scan_says(
    table: pa.Table, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        block_events = data.draw(st.integers(1, 9))
        stream = make_stream(Path(folder), _split(table, data), block_events=block_events)
        found = check_stream(stream, deep=True)
        assert {f.severity for f in found} == {Severity.OK}
        check_positions(stream.snapshot(), table)
        check_levels(stream.snapshot(), table)
        _drop_tree_files(stream, data)
        snapshot = _reopened(stream)
        check_events(snapshot, table)
        check_bounds(snapshot, table)
        times = table["t"].to_pylist()
        border = st.one_of(st.none(), st.integers(-60, 100), st.sampled_from([*times, 0]))
        for _ in range(3):
            check_aggregates(snapshot, table, data.draw(border), data.draw(border))


def check_events(snapshot: Snapshot, table: pa.Table) -> None:
    """Hold what all blocks hold, and what is told of the whole, to the events in order."""
    assert _comparable(_all_events(snapshot)) == _comparable(table)
    assert snapshot.n_events == table.num_rows
    assert snapshot.leaves.base[-1] == table.num_rows
    snapshot.tree._check()
    times = table["t"].to_pylist()
    assert snapshot.gap_min == min((b - a for a, b in itertools.pairwise(times)), default=0)
    extremes = min(times, default=None), max(times, default=None)
    assert (snapshot.t_min, snapshot.t_max) == extremes


def check_aggregates(
    snapshot: Snapshot, table: pa.Table, start: int | None, stop: int | None
) -> None:
    """Hold aggregates of a range of time to those of a scan."""
    times = table["t"].to_pylist()
    inside = [
        i
        for i, t in enumerate(times)
        if (start is None or t >= start) and (stop is None or t < stop)
    ]
    for name in ATTRIBUTES:
        found = snapshot.aggregate(start, stop, name)
        assert found.n_blocks_read <= 2
        values = to_internal(table[name])
        kind = kind_of(SCHEMA.field(name).type)
        assert_aggregate(found, [times[i] for i in inside], [values[i] for i in inside], kind)
    assert snapshot.aggregate(start, stop).n_events == len(inside)


def check_bounds(snapshot: Snapshot, table: pa.Table) -> None:
    """Hold the bounds of each block to its extremes, where its file has a tree."""
    stored = {file.name for file in snapshot.files if file.has_tree}
    for name in ATTRIBUTES:
        bounds = snapshot.bounds(name)
        values = to_internal(table[name])
        for block in range(snapshot.n_blocks):
            first, stop = snapshot.leaves.base[block : block + 2]
            inside = [v for v in values[first:stop] if v is not None and v == v]
            minimum, maximum = bounds.minimum[block].as_py(), bounds.maximum[block].as_py()
            known = snapshot.files[snapshot.leaves.file[block]].name in stored
            assert bounds.known[block] == known
            if known:
                assert bounds.n_values[block] == len(inside)
                assert minimum == min(inside, default=None)
                assert maximum == max(inside, default=None)
            else:
                assert (minimum, maximum) == (None, None)
            if known and inside and kind_of(SCHEMA.field(name).type).has_sum:
                assert_moments(bounds.mean[block], bounds.variance[block], inside)
            else:
                assert np.isnan([bounds.mean[block], bounds.variance[block]]).all()


def assert_moments(mean: float, variance: float, values: list[float]) -> None:
    """Compare with exact fractions, as far as doubles of the values' size can tell."""
    if not np.isfinite(values).all():
        return
    exact = [Fraction(v) for v in values]
    middle = sum(exact) / len(exact)
    second = sum((v - middle) ** 2 for v in exact) / len(exact)
    size = max(abs(float(v)) for v in exact)
    assert mean == pytest.approx(float(middle), rel=1e-9, abs=1e-9 * size)
    if size < 1e150:
        assert variance == pytest.approx(float(second), rel=1e-6, abs=1e-9 * size**2)


def check_positions(snapshot: Snapshot, table: pa.Table) -> None:
    """Hold where times and sequence numbers lie to their places in order."""
    times = table["t"].to_pylist()
    for time in {*times, *(t + 1 for t in times), -1000, 10**6}:
        assert snapshot.seq_at(time) == sum(t < time for t in times)
    for seq in range(len(times)):
        block, offset = snapshot.block_at(seq)
        assert snapshot.leaves.base[block] + offset == seq
        assert 0 <= offset < snapshot.leaves.count[block]
    with pytest.raises(IndexError):
        snapshot.block_at(len(times))


def check_levels(snapshot: Snapshot, table: pa.Table) -> None:
    """Hold the entries of each level to the events below them."""
    values = to_internal(table["n"])
    base = snapshot.leaves.base
    for k in range(snapshot.tree.n_levels if table.num_rows else 0):
        level = snapshot.level(k, "n")
        borders = base[level.first_block]
        assert level.times.count.tolist() == np.diff(borders).tolist()
        for i, (a, b) in enumerate(itertools.pairwise(borders)):
            inside = [value for value in values[a:b] if value is not None]
            assert level.attribute.n_values[i] == len(inside)
            if inside:
                assert level.attribute.minimum[i] == min(inside)


def _ticks(n: int, start: int = 0) -> pa.Table:
    return pa.table({"t": range(start, start + n), "x": [float(i) for i in range(n)]})


def _tick_stream(folder: Path, n: int, **kwargs: int) -> Stream:
    table = _ticks(n)
    return make_stream(folder, [table], schema=table.schema, **kwargs)


def test_aggregate_merges_logarithmically_many_entries(tmp_path: Path):
    stream = _tick_stream(tmp_path, 4096, block_events=4, file_events=4096, fan_out=4)
    snapshot = stream.snapshot()
    assert snapshot.n_blocks == 1024
    assert snapshot.tree.n_levels == 6  # 1024, 256, 64, 16, 4, 1
    found = snapshot.aggregate(2, 4094, "x")
    # At most fan_out - 1 entries on either side of each level, and two border blocks.
    assert found.n_entries <= 2 * 3 * 5 + 2
    assert found.n_blocks_read == 2
    assert found.sum == sum(range(2, 4094))
    assert snapshot.aggregate(0, 4096, "x").n_entries == 1


def test_file_inside_one_tie_comes_before_the_file_that_starts_with_it(tmp_path: Path):
    # In any other order time would go backwards:   gen 0  5.....9
    #                                               gen 1  5
    schema = pa.schema([("t", pa.int64()), ("x", pa.float64())])
    first = pa.table({"t": [5, 9], "x": [1.0, 2.0]}, schema=schema)
    stream = make_stream(tmp_path, [first], schema=schema)
    commit_table(stream, pa.table({"t": [5], "x": [0.0]}, schema=schema))
    snapshot = _reopened(stream)
    assert [file.ordinal[:6] for file in snapshot.files] == ["000001", "000000"]
    assert snapshot.read_blocks(np.arange(2), ["t"])["t"].to_pylist() == [5, 5, 9]


def test_scattered_blocks_come_in_order_with_only_the_named_columns(tmp_path: Path):
    snapshot = _tick_stream(tmp_path, 40, block_events=4, file_events=16).snapshot()
    assert [file.n_blocks for file in snapshot.files] == [4, 4, 2]
    table = snapshot.read_blocks(np.array([0, 3, 4, 9]), ["x", "t"])
    assert table.column_names == ["x", "t"]
    assert table["t"].to_pylist() == [*range(4), *range(12, 20), *range(36, 40)]
    assert snapshot.read_blocks(np.array([1, 2]), []).num_rows == 8
    assert snapshot.read_blocks(np.array([], np.int64), ["x"]).schema.names == ["x"]
    assert snapshot.file_blocks(snapshot.files[1].name) == (4, 4)
    assert (
        0
        < snapshot.block_bytes(np.array([2]), ["x"])
        < snapshot.block_bytes(np.arange(10), ["x", "t"])
    )


@pytest.mark.parametrize("blocks", [[1, 1], [2, 1], [-1], [10]])
def test_blocks_out_of_order_or_range_are_refused(tmp_path: Path, blocks: list[int]):
    snapshot = _tick_stream(tmp_path, 40).snapshot()
    with pytest.raises(ValueError, match="ascend"):
        snapshot.read_blocks(np.array(blocks), ["x"])


def test_unknown_column_is_named_with_the_nearest(tmp_path: Path):
    table = pa.table({"t": [1], "price": [1.0]})
    snapshot = make_stream(tmp_path, [table], schema=table.schema).snapshot()
    for ask in (snapshot.bounds, lambda name: snapshot.aggregate(0, 1, name)):
        with pytest.raises(SchemaError, match=r"'prices'.*did you mean 'price'"):
            ask("prices")
    with pytest.raises(SchemaError, match="prices"):
        snapshot.read_blocks(np.array([0]), ["prices"])


def test_tree_file_of_other_events_is_not_used(tmp_path: Path):
    stream = _tick_stream(tmp_path, 40)
    first, _, last = stream.snapshot().files
    tree = stream.path / "tree"
    (tree / last.name).write_bytes((tree / first.name).read_bytes())
    snapshot = _reopened(stream)
    assert [file.has_tree for file in snapshot.files] == [True, True, False]
    assert snapshot.n_events == 40


def test_snapshot_is_kept_until_another_process_commits(tmp_path: Path):
    stream = _tick_stream(tmp_path, 10)
    snapshot = stream.snapshot()
    assert stream.snapshot() is snapshot
    commit_table(open_store(tmp_path / "store").stream("ticks"), _ticks(5, start=10))
    assert stream.snapshot().n_events == 15
    assert snapshot.n_events == 10


def test_timestamps_count_microseconds(tmp_path: Path):
    table = pa.table(
        {
            "t": pa.array([1, 2], pa.timestamp("s")),
            "at": pa.array([3, 4], pa.timestamp("ms", "UTC")),
        }
    )
    snapshot = make_stream(tmp_path, [table], schema=table.schema).snapshot()
    assert (snapshot.t_min, snapshot.t_max, snapshot.time_type) == (
        1_000_000, 2_000_000, "timestamp",
    )  # fmt: skip
    assert snapshot.bounds("at").minimum.to_pylist() == [3_000]
    assert snapshot.read_blocks(np.array([0]), ["t"])["t"].type == pa.timestamp("us")
    assert snapshot.schema.field("at").type == pa.timestamp("us", "UTC")


def test_strings_come_dictionary_encoded(tmp_path: Path):
    table = pa.table({"t": [1, 2], "s": ["a", None]})
    snapshot = make_stream(tmp_path, [table], schema=table.schema).snapshot()
    column = snapshot.read_blocks(np.array([0]), ["s"])["s"]
    assert pa.types.is_dictionary(column.type)
    assert column.to_pylist() == ["a", None]
    assert snapshot.read_blocks(np.zeros(0, np.int64), ["s"])["s"].type == column.type


def test_description_counts_files_blocks_levels_and_bytes(tmp_path: Path):
    table = pa.table({"t": [*range(30), 40], "s": ["a"] * 31})
    stream = make_stream(
        tmp_path, [table], schema=table.schema, block_events=4, file_events=16, fan_out=2
    )
    found = describe_stream(stream.snapshot())
    assert (found.name, found.n_events, found.n_files, found.n_blocks) == ("ticks", 31, 2, 8)
    assert (found.t_min, found.t_max, found.gap_min, found.time_type) == (0, 40, 1, "integer")
    assert found.columns == (("t", "int64"), ("s", "string"))
    # Two files of four blocks each: 8, 4, 2 and one entry above the files.
    assert found.levels == (
        LevelDescription(0, 8, 1.0),
        LevelDescription(1, 4, 2.0),
        LevelDescription(2, 2, 4.0),
        LevelDescription(3, 1, 8.0),
    )
    sizes = {
        folder: sum(path.stat().st_size for path in (stream.path / folder).glob("*.parquet"))
        for folder in ("events", "tree")
    }
    assert (found.event_bytes, found.tree_bytes) == (sizes["events"], sizes["tree"])
    assert found.n_files_without_tree == 0


def test_files_without_tree_entries_are_counted(tmp_path: Path):
    table = pa.table({"t": range(32)})
    stream = make_stream(tmp_path, [table], schema=table.schema, file_events=16)
    for file in (stream.path / "tree").glob("*.parquet"):
        file.unlink()
    assert describe_stream(stream.snapshot()).n_files_without_tree == 2


def test_empty_stream_is_described(tmp_path: Path):
    found = describe_stream(make_stream(tmp_path, []).snapshot())
    assert (found.n_events, found.t_min, found.levels) == (0, None, (LevelDescription(0, 0, 0.0),))


def test_bytes_are_told_per_event(tmp_path: Path):
    table = pa.table({"t": range(32)})
    found = describe_stream(make_stream(tmp_path, [table], schema=table.schema).snapshot())
    assert found.to_dict()["bytes_per_event"] == {
        "events": round(found.event_bytes / 32, 3),
        "tree": round(found.tree_bytes / 32, 3),
    }
    assert found.sizes(1000) == "0.001 MB, 31.25 bytes per event"
    lines = dict(found.lines())
    assert lines["data files"] == f"2, {found.sizes(found.event_bytes)}"
    assert lines["columns"] == "t BIGINT"
    assert lines["tree"].startswith(found.sizes(found.tree_bytes))
    empty = describe_stream(make_stream(tmp_path / "empty", []).snapshot())
    assert empty.to_dict()["bytes_per_event"] == {"events": 0.0, "tree": 0.0}


N_EVENTS = 800


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Event i at time 10 i has x = i but for every fourth, which is null; the last is NaN."""
    x = [None if i % 4 == 3 else float(i) for i in range(N_EVENTS)]
    x[-2] = math.nan
    table = pa.table(
        {
            "t": pa.array(np.arange(N_EVENTS) * 10),
            "x": pa.array(x, pa.float64()),
            "s": pa.array([f"{i:03d}" for i in range(N_EVENTS)]),
        }
    )
    settings = StreamSettings("t", block_events=4, file_events=200, fan_out=4)
    stream = create_store(tmp_path / "store").create_stream("s", table.schema, settings)
    stream.append(table)
    return stream.snapshot()


def test_stats_of_a_range_are_those_of_its_events(snapshot: Snapshot) -> None:
    whole, (x, s) = range_stats(snapshot, 15, 95, ["x", "s"])
    # Events 2 to 9, of which 3 and 7 lack x: 2 + 4 + 5 + 6 + 8 + 9 = 34.
    assert (whole.n_events, whole.t_min, whole.t_max) == (8, 20, 90)
    assert whole.n_blocks_read <= 2
    told = x.to_dict()
    variance = 226 / 6 - (34 / 6) ** 2
    assert told.pop("stddev_pop") == pytest.approx(math.sqrt(variance))
    assert told == {
        "values": 6, "nulls": 2, "nans": 0, "min": 2.0, "max": 9.0, "sum": 34.0,
        "mean": pytest.approx(34 / 6),
    }  # fmt: skip
    assert (s.to_dict()["min"], s.to_dict()["max"], s.to_dict()["sum"]) == ("002", "009", None)


def test_stats_of_all_events_read_no_block(snapshot: Snapshot) -> None:
    whole, (x,) = range_stats(snapshot, None, None, ["x"])
    assert (whole.n_events, whole.n_blocks_read) == (N_EVENTS, 0)
    assert (x.to_dict()["nulls"], x.to_dict()["nans"]) == (200, 1)


def test_bars_are_of_equal_time_and_hold_all_events(snapshot: Snapshot) -> None:
    found = histogram(snapshot, None, None, n_bars=5)
    assert found is not None
    assert np.diff(found.edges).tolist() == pytest.approx([1598] * 5, abs=1)
    assert found.n_events.sum() == pytest.approx(N_EVENTS)
    assert found.n_events.tolist() == pytest.approx([160] * 5, abs=2)
    # Four files of 50 blocks: level 1 has 13 entries of each, which is enough for five bars.
    assert (found.level, found.n_entries) == (1, 52)


def test_means_follow_the_attribute(snapshot: Snapshot) -> None:
    found = histogram(snapshot, 0, 4000, n_bars=4, attribute="x")
    assert found is not None
    assert found.mean is not None
    # A hundred events each, from 0, 100, 200 and 300 on.
    assert found.mean.tolist() == pytest.approx([49, 149, 249, 349], abs=3)


def test_a_range_without_time_has_no_bars(snapshot: Snapshot) -> None:
    assert histogram(snapshot, 9000, 9100, n_bars=4) is None
    assert histogram(snapshot, None, -5, n_bars=4) is None


def test_there_are_no_more_bars_than_times(snapshot: Snapshot) -> None:
    found = histogram(snapshot, 0, 3, n_bars=10)
    assert found is not None
    assert found.edges.tolist() == [0, 1, 2, 3]


def test_numbers_are_told_from_texts(snapshot: Snapshot) -> None:
    assert numeric_columns(snapshot) == ["t", "x"]


@pytest.mark.parametrize(
    ("value", "data_type", "shown"),
    [
        (1, pa.bool_(), True),
        (1, pa.date32(), "1970-01-02"),
        (2_932_897, pa.date32(), "10000-01-01"),
        (1_500_000, pa.timestamp("us"), "1970-01-01T00:00:01.500000"),
        (math.inf, pa.float64(), "inf"),
        (2.5, pa.float64(), 2.5),
        (None, pa.float64(), None),
    ],
)
def test_extremes_are_shown_as_the_values_they_stand_for(
    value: object, data_type: pa.DataType, shown: object
) -> None:
    assert shown_value(value, data_type) == shown
