"""A snapshot answers as a scan of the events does, with tree entries and without them."""

import itertools
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chronicle.errors import SchemaError
from chronicle.snapshot import Snapshot
from chronicle.store import Stream, open_store
from chronicle.tree.summary import kind_of
from chronicle.tree.tree_file import TREE_TABLE
from tests.helpers import commit_table
from tests.unit.chronicle.stream_cases import SCHEMA, events, make_stream, to_internal
from tests.unit.chronicle.test_summary import assert_aggregate

ATTRIBUTES = ("x", "n", "small", "s", "flag", "day", "at")
ON_DISK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


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


@ON_DISK
@given(events(), st.data())
def test_reading_all_blocks_gives_the_events_in_order(table: pa.Table, data: st.DataObject):
    with tempfile.TemporaryDirectory() as folder:
        stream = make_stream(Path(folder), _split(table, data))
        snapshot = _reopened(stream)
        assert _comparable(_all_events(snapshot)) == _comparable(table)
        assert snapshot.n_events == table.num_rows
        assert snapshot.leaves.base[-1] == table.num_rows
        snapshot.tree._check()
        times = table["t"].to_pylist()
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert snapshot.gap_min == min(gaps, default=0)
        assert (snapshot.t_min, snapshot.t_max) == (
            min(times, default=None),
            max(times, default=None),
        )


@ON_DISK
@given(events(), st.data())
def test_tree_aggregate_is_the_scan_aggregate(table: pa.Table, data: st.DataObject):
    with tempfile.TemporaryDirectory() as folder:
        stream = make_stream(Path(folder), _split(table, data))
        _drop_tree_files(stream, data)
        snapshot = _reopened(stream)
        times = table["t"].to_pylist()
        border = st.one_of(st.none(), st.integers(-60, 100), st.sampled_from([*times, 0]))
        for _ in range(3):
            start, stop = data.draw(border), data.draw(border)
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
                assert_aggregate(
                    found, [times[i] for i in inside], [values[i] for i in inside], kind
                )
            assert snapshot.aggregate(start, stop).n_events == len(inside)


@ON_DISK
@given(events(), st.data())
def test_bounds_are_the_extremes_of_each_block(table: pa.Table, data: st.DataObject):
    with tempfile.TemporaryDirectory() as folder:
        stream = make_stream(Path(folder), _split(table, data))
        _drop_tree_files(stream, data)
        snapshot = _reopened(stream)
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


@ON_DISK
@given(events(), st.data())
def test_positions_of_times_and_sequence_numbers(table: pa.Table, data: st.DataObject):
    with tempfile.TemporaryDirectory() as folder:
        snapshot = make_stream(Path(folder), _split(table, data)).snapshot()
        times = table["t"].to_pylist()
        for time in {*times, *(t + 1 for t in times), -1000, 10**6}:
            assert snapshot.seq_at(time) == sum(t < time for t in times)
        for seq in range(len(times)):
            block, offset = snapshot.block_at(seq)
            assert snapshot.leaves.base[block] + offset == seq
            assert 0 <= offset < snapshot.leaves.count[block]
        with pytest.raises(IndexError):
            snapshot.block_at(len(times))


@ON_DISK
@given(events(), st.data())
def test_levels_are_the_merged_blocks(table: pa.Table, data: st.DataObject):
    with tempfile.TemporaryDirectory() as folder:
        snapshot = make_stream(Path(folder), _split(table, data)).snapshot()
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
