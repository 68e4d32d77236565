"""Data files: cut into blocks exactly, sealed, and read by many threads with few open files."""

import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle.derived import DerivedFile
from chronicle.errors import CorruptBlockError, CorruptTreeError, SchemaError
from chronicle.settings import StreamSettings
from chronicle.tree import blocks
from chronicle.tree.blocks import BlockReader, OpenFiles
from chronicle.tree.checksummed_file import read_footer
from chronicle.tree.column_file import open_columns
from chronicle.tree.summary import Kind
from chronicle.tree.tree_file import TreeFile
from chronicle.write.block_writer import WrittenFile, remove_written, write_events, write_ordered
from tests.unit.chronicle.stream_cases import SCHEMA, TICKS, make_stream, to_array

COLUMNS = pa.schema([("t", pa.int64()), ("s", pa.string()), ("s.t", pa.int64())])


def _reader_of_files(folder: Path, n_files: int) -> BlockReader:
    for i in range(n_files):
        times = list(range(i * 100, i * 100 + 40))
        table = pa.table({"t": times, "s": [f"v{t}" for t in times], "s.t": times}, schema=COLUMNS)
        write_events(folder / f"{i}.parquet", table, 8)
    return BlockReader(folder, COLUMNS)


def test_columns_are_encoded_as_the_format_says(tmp_path: Path):
    days = pa.array(range(20), pa.int32()).cast(pa.date32())
    columns = {"t": list(range(20)), "day": days, "s": [f"v{i % 3}" for i in range(20)]}
    write_events(tmp_path / "a.parquet", pa.table(columns), 8)
    group = pq.read_metadata(tmp_path / "a.parquet").row_group(0)
    found = [group.column(i) for i in range(3)]
    assert [column.compression for column in found] == ["LZ4"] * 3
    assert [column.has_dictionary_page for column in found] == [False, False, True]
    assert ["DELTA_BINARY_PACKED" in column.encodings for column in found] == [True, True, False]


def test_threads_read_files_at_once(tmp_path: Path):
    reader = _reader_of_files(tmp_path, 4)

    def read(job: int) -> bool:
        name, group = job % 4, job % 5
        table = reader.read(f"{name}.parquet", [group], ["t", "s"])
        first = name * 100 + group * 8
        return table["t"].to_pylist() == list(range(first, first + 8)) and table[
            "s"
        ].to_pylist() == [f"v{t}" for t in range(first, first + 8)]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(400)))


def test_open_files_and_footers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pool = OpenFiles(2)
    monkeypatch.setattr(blocks, "_open_files", pool)
    reader = _reader_of_files(tmp_path, 6)
    one = reader._footer("0.parquet").n_bytes
    monkeypatch.setattr(blocks, "_FOOTERS_BYTES", 3 * one)
    for turn in range(3):
        for i in range(6):
            assert reader.read(f"{i}.parquet", [turn], ["t"]).num_rows == 8
    assert sum(len(files) for files in pool._idle.values()) == 2
    assert len(reader._footers) == 3
    assert reader._footers_bytes == 3 * one
    assert {name for _, name, _ in pool._idle} <= set(reader._footers)


def test_blocks_verified_once_stay_so_when_their_footer_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    reader = _reader_of_files(tmp_path, 2)
    reader.read("0.parquet", [0, 1], ["t"])
    monkeypatch.setattr(blocks, "_FOOTERS_BYTES", 0)
    reader.read("1.parquet", [0], ["t"])
    assert list(reader._footers) == ["1.parquet"]
    verified = reader._footer("0.parquet").verified
    bit = 1 << reader.schema.names.index("t")
    assert [bool(columns & bit) for columns in verified[:3]] == [True, True, False]


def test_column_named_twice_leaves_the_next_one_to_be_verified(tmp_path: Path):
    reader = _reader_of_files(tmp_path, 1)
    path = tmp_path / "0.parquet"
    chunk = pq.read_metadata(path).row_group(0).column(COLUMNS.names.index("s"))
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[begin + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(content)
    assert reader.read("0.parquet", [0], ["t", "t"]).column_names == ["t", "t"]
    with pytest.raises(CorruptBlockError):
        reader.read("0.parquet", [0], ["s"])


def test_footer_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    reader = _reader_of_files(tmp_path, 1)
    parsed = []
    read_metadata = pq.read_metadata
    monkeypatch.setattr(
        blocks.pq, "read_metadata", lambda path: parsed.append(path) or read_metadata(path)
    )
    for _ in range(3):
        reader.read("0.parquet", [0, 1], ["t"])
        reader.block_counts("0.parquet")
        reader.column_bytes("0.parquet", "s")
    assert len(parsed) == 1


def test_name_with_a_dot_is_a_column_of_its_own(tmp_path: Path):
    reader = _reader_of_files(tmp_path, 1)
    assert reader.read("0.parquet", [0], ["s"]).column_names == ["s"]
    assert reader.read("0.parquet", [0], ["s.t", "t"]).column_names == ["s.t", "t"]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 1000], ids=len)
def test_file_that_is_no_parquet_is_named(tmp_path: Path, content: bytes):
    reader = _reader_of_files(tmp_path, 1)
    (tmp_path / "0.parquet").write_bytes(content)
    with pytest.raises(CorruptBlockError, match=r"0\.parquet") as caught:
        reader.read("0.parquet", [0], ["t"])
    assert caught.value.path.endswith("0.parquet")


def test_file_cut_short_while_it_is_open_is_named(tmp_path: Path):
    reader = _reader_of_files(tmp_path, 1)
    reader.read("0.parquet", [0], ["t"])
    path = tmp_path / "0.parquet"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(CorruptBlockError, match=r"0\.parquet"):
        reader.read("0.parquet", [4], ["s"])


def test_file_with_other_columns_or_fewer_blocks_is_named(tmp_path: Path):
    reader = _reader_of_files(tmp_path, 2)
    pq.write_table(pa.table({"s": ["a"], "t": [1]}), tmp_path / "0.parquet")
    with pytest.raises(CorruptBlockError, match="its columns are"):
        reader.read("0.parquet", [0], ["s"])
    pq.write_table(pa.table({"t": np.arange(4)}), tmp_path / "1.parquet")
    with pytest.raises(CorruptBlockError):
        reader.read("1.parquet", [3], ["t"])


def test_column_the_file_is_too_old_to_have_is_null(tmp_path: Path):
    reader = _reader_of_files(tmp_path, 1)
    pq.write_table(pa.table({"t": np.arange(4)}), tmp_path / "0.parquet")
    table = reader.read("0.parquet", [0], ["s.t", "t", "s"])
    assert table.to_pylist() == [{"s.t": None, "t": t, "s": None} for t in range(4)]
    assert table.schema.equals(reader.empty(["s.t", "t", "s"]).schema)
    assert not reader.has_column("0.parquet", "s")
    assert reader.has_column("0.parquet", "t")
    assert reader.column_bytes("0.parquet", "s").tolist() == [0]


def _batch(times: list[int]) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(times, pa.int64()), pa.array([float(t) for t in times], pa.float64())],
        schema=TICKS,
    )


def _write(folder: Path, batches: object, **kwargs: object) -> list[WrittenFile]:
    fixed = {"block_events": 3, "file_events": 10, "fan_out": 2}
    return write_ordered(
        batches,
        stream_dir=folder,
        schema=TICKS,
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


@settings(deadline=None, max_examples=15)
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


def test_written_file_travels_and_can_be_removed(tmp_path: Path):
    (file,) = _write(tmp_path, [_batch([1, 2])], derived=_Failing(0))
    assert pickle.loads(pickle.dumps(file)) == file
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


N_EVENTS = 40


def _events() -> pa.Table:
    """Forty events with nulls, ties and short strings, the same on every machine."""
    n = N_EVENTS
    columns = {
        "t": [i // 2 for i in range(n)],
        "x": [None if i % 7 == 0 else i / 4 for i in range(n)],
        "n": list(range(n)),
        "small": [i % 5 for i in range(n)],
        "s": [None if i % 6 == 0 else "ab"[i % 2] * (i % 3) for i in range(n)],
        "flag": [i % 3 == 0 for i in range(n)],
        "day": list(range(n)),
        "at": [i * 1000 for i in range(n)],
        "raw": [b"q" * (i % 4) for i in range(n)],
    }
    return pa.table([to_array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One data file and its tree file."""
    stream = make_stream(
        tmp_path_factory.mktemp("sealed"), [_events()], block_events=16, file_events=64
    )
    [file] = stream.snapshot().files
    return stream.path / "events" / file.name, stream.path / "tree" / file.name


def _damaged(path: Path, folder: Path, at: int, value: int) -> Path:
    """Return a copy of a file whose byte ``at`` is another."""
    content = bytearray(path.read_bytes())
    content[at] = value if content[at] != value else value ^ 0xFF
    copy = folder / path.name
    copy.write_bytes(content)
    return copy


def _read(path: Path) -> pa.Table:
    reader = BlockReader(path.parent, SCHEMA)
    blocks = range(len(reader.block_counts(path.name)))
    return reader.read(path.name, blocks, SCHEMA.names).cast(SCHEMA).combine_chunks()


def _verify(path: Path) -> None:
    reader = BlockReader(path.parent, SCHEMA)
    reader.verify(path.name, range(len(reader.block_counts(path.name))))


def _entries(path: Path) -> str:
    tree = TreeFile(path)
    found = [column.tolist() for level in tree.times() for column in level.columns()]
    for name, kind in (("x", Kind.FLOAT), ("n", Kind.INTEGER), ("s", Kind.STRING)):
        for level in tree.attribute(name, kind):
            found += [column.tolist() for column in map(np.asarray, level.columns())]
    return repr(found)


def test_any_flipped_byte_of_a_data_file_gives_the_right_events_or_one_clear_error(
    files: tuple[Path, Path], tmp_path: Path
):
    path, _ = files
    n_bytes = path.stat().st_size
    expected = _read(path)
    assert expected.num_rows == N_EVENTS
    rng = np.random.default_rng(3)
    n_found = 0
    for at in range(0, n_bytes, 5):
        damaged = _damaged(path, tmp_path, at, int(rng.integers(256)))
        try:
            assert _read(damaged).equals(expected), f"byte {at}"
        except CorruptBlockError as error:
            n_found += error.path == str(damaged) and path.name in str(error)
    # Unseen go the magic at the front, which nobody reads, and that of the seal, without which
    # the file is read as one of an older format; its bytes are right either way.
    unseen = 4 + len("chronicle.seal") + len("chronicle-seal-1:")
    assert n_found >= n_bytes // 5 - unseen


def test_any_flipped_byte_of_a_tree_file_gives_its_entries_or_one_clear_error(
    files: tuple[Path, Path], tmp_path: Path
):
    _, path = files
    expected = _entries(path)
    n_bytes = path.stat().st_size
    n_found = 0
    for at in range(0, n_bytes, 7):
        damaged = _damaged(path, tmp_path, at, 0x5A)
        try:
            assert _entries(damaged) == expected, f"byte {at}"
        except CorruptTreeError as error:
            n_found += error.path == str(damaged)
    # Reading three attributes leaves the others' bytes unread.
    assert n_found > n_bytes // 2 // 7


def test_checking_a_whole_file_finds_a_flipped_byte_of_any_column(
    files: tuple[Path, Path], tmp_path: Path
):
    path, tree = files
    _verify(path)
    with path.open("rb") as file:
        footer_at = path.stat().st_size - 8 - len(read_footer(file))
    for at in range(4, footer_at, 7):
        with pytest.raises(CorruptBlockError, match="checksum of column"):
            _verify(_damaged(path, tmp_path, at, 0xA5))
    TreeFile(tree).check()
    for column in open_columns(tree, kind="tree").columns.values():
        for at in range(column.start, column.start + column.n_bytes, 5):
            with pytest.raises(CorruptTreeError, match="checksum"):
                TreeFile(_damaged(tree, tmp_path, at, 0xA5)).check()


@pytest.mark.parametrize("kept", [0, 3, 11, 12, 400, -1])
def test_a_file_cut_short_is_one_clear_error(files: tuple[Path, Path], tmp_path: Path, kept: int):
    for path, error in zip(files, (CorruptBlockError, CorruptTreeError), strict=True):
        copy = tmp_path / path.name
        copy.write_bytes(path.read_bytes()[:kept])
        with pytest.raises(error, match=path.name):
            _read(copy) if error is CorruptBlockError else TreeFile(copy).times()


def test_a_file_under_the_name_of_another_is_found(files: tuple[Path, Path], tmp_path: Path):
    path, tree = files
    for source in files:
        (tmp_path / f"other-{source.name}").write_bytes(source.read_bytes())
    with pytest.raises(CorruptTreeError, match=f"it is the tree of '{tree.name}'"):
        TreeFile(tmp_path / f"other-{tree.name}").times()
    (tmp_path / f"other-{path.name}").write_bytes(path.read_bytes())
    with pytest.raises(CorruptBlockError, match=f"it is the file of '{path.name}'"):
        _read(tmp_path / f"other-{path.name}")


def test_a_data_file_without_a_seal_is_read_by_the_checksums_of_its_pages(tmp_path: Path):
    path = tmp_path / "old.parquet"
    table = _events()
    pq.write_table(table, path, row_group_size=16, write_page_checksum=True, store_schema=False)
    assert _read(path).equals(table.combine_chunks())
    column = pq.read_metadata(path).row_group(0).column(0)
    at = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size
    with pytest.raises(CorruptBlockError, match=r"old\.parquet"):
        _read(_damaged(path, tmp_path, at - 3, 0x33))


def test_events_read_from_a_sealed_file_are_sealed_anew(files: tuple[Path, Path], tmp_path: Path):
    path, _ = files
    table = pq.read_table(path)
    assert b"chronicle.seal" in table.schema.metadata
    copy = tmp_path / "copy.parquet"
    write_events(copy, table, 16)
    _verify(copy)
    with copy.open("rb") as file:
        assert read_footer(file).count(b"chronicle-seal-1:") == 1
    assert _read(copy).equals(_read(path))
