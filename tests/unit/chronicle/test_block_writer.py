"""Blocks and files are cut exactly, whatever the batches; nothing stays behind on failure."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle.derived import DerivedFile
from chronicle.errors import SchemaError
from chronicle.settings import StreamSettings
from chronicle.write.block_writer import WrittenFile, remove_written, write_ordered

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64())])


def _batch(times: list[int]) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(times, pa.int64()), pa.array([float(t) for t in times], pa.float64())],
        schema=SCHEMA,
    )


def _write(folder: Path, batches: object, **kwargs: object) -> list[WrittenFile]:
    fixed = {"block_events": 3, "file_events": 10, "fan_out": 2}
    return write_ordered(
        batches,
        stream_dir=folder,
        schema=SCHEMA,
        settings=StreamSettings("t", **fixed),
        ordinal_prefix="000002-000005",
        **kwargs,
    )


def _left_over(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


class _Failing:
    """A derived writer that fails on the given file, after it wrote its own."""

    def __init__(self, fail_at: int) -> None:
        self.calls = 0
        self.fail_at = fail_at

    def tables(self, schema: pa.Schema) -> tuple[str, ...]:
        return ("index/x",)

    def write(self, stream_dir, data_file, events, time, block_counts) -> list[DerivedFile]:
        path = stream_dir / "index/x" / data_file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("run")
        self.calls += 1
        if self.calls == self.fail_at:
            raise RuntimeError("disk full")
        assert time.to_pylist() == events["t"].to_pylist()
        assert sum(block_counts) == events.num_rows
        return [DerivedFile("index/x", data_file, 3, events.num_rows)]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 13), max_size=8))
def test_blocks_and_files_are_cut_across_batches(sizes: list[int]):
    n = sum(sizes)
    batches, at = [], 0
    for size in sizes:
        batches.append(_batch(list(range(at, at + size))))
        at += size
    with tempfile.TemporaryDirectory() as folder:
        written = _write(Path(folder), batches)
        assert [file.n_events for file in written] == [10] * (n // 10) + (
            [n % 10] if n % 10 else []
        )
        read = []
        for i, file in enumerate(written):
            assert file.ordinal == f"000002-000005-{i:06d}"
            assert file.name.startswith(file.ordinal + "-")
            data = pq.ParquetFile(Path(folder) / "events" / file.name)
            groups = [data.metadata.row_group(g).num_rows for g in range(data.num_row_groups)]
            assert all(count == 3 for count in groups[:-1])
            assert 1 <= groups[-1] <= 3
            assert sum(groups) == file.n_events
            times = data.read()["t"].to_pylist()
            assert (file.t_min, file.t_max) == (times[0], times[-1])
            assert file.size_bytes == (Path(folder) / "events" / file.name).stat().st_size
            read += times
        assert read == list(range(n))


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([[1, 3, 2]], id="within a batch"),
        pytest.param([[1, 3], [2]], id="between batches"),
        pytest.param([list(range(10)), [8]], id="between files"),
    ],
)
def test_time_going_backwards_is_refused_and_nothing_stays(tmp_path: Path, batches):
    with pytest.raises(SchemaError, match=r"time column 't' goes back from [39] to [28]"):
        _write(tmp_path, [_batch(times) for times in batches])
    assert _left_over(tmp_path) == []


def test_missing_time_is_refused(tmp_path: Path):
    batch = pa.record_batch({"t": pa.array([1, None], pa.int64()), "x": [1.0, 2.0]})
    with pytest.raises(SchemaError, match="'t' has 1 null"):
        _write(tmp_path, [batch])


@pytest.mark.parametrize("fail_at", [1, 2])
def test_failure_of_a_derived_writer_leaves_no_file(tmp_path: Path, fail_at: int):
    with pytest.raises(RuntimeError, match="disk full"):
        _write(tmp_path, [_batch(list(range(15)))], derived=_Failing(fail_at))
    assert _left_over(tmp_path) == []


def test_failure_of_the_source_leaves_no_file(tmp_path: Path):
    def batches():
        yield _batch(list(range(25)))
        raise OSError("network gone")

    with pytest.raises(OSError, match="network gone"):
        _write(tmp_path, batches())
    assert _left_over(tmp_path) == []


def test_written_file_survives_json_and_can_be_removed(tmp_path: Path):
    (file,) = _write(tmp_path, [_batch([1, 2])], derived=_Failing(0))
    assert WrittenFile.from_json(file.to_json()) == file
    assert file.derived[0].table == "index/x"
    remove_written(tmp_path, file)
    assert _left_over(tmp_path) == []


def test_at_most_one_data_file_is_held(tmp_path: Path):
    taken = []

    def batches():
        for i in range(50):
            # By the time a batch is asked for, all files before the current one are on disk.
            on_disk = len(list((tmp_path / "events").glob("*.parquet")))
            assert on_disk == i // 10
            taken.append(i)
            yield _batch([i])

    assert len(_write(tmp_path, batches())) == 5
    assert taken == list(range(50))
