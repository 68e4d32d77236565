"""The block reader: many threads, few open files, footers parsed once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import CorruptBlockError
from chronicle.tree import blocks
from chronicle.tree.blocks import BlockReader, OpenFiles
from chronicle.write.block_writer import write_events

SCHEMA = pa.schema([("t", pa.int64()), ("s", pa.string()), ("s.t", pa.int64())])


def _reader(folder: Path, n_files: int) -> BlockReader:
    for i in range(n_files):
        times = list(range(i * 100, i * 100 + 40))
        table = pa.table({"t": times, "s": [f"v{t}" for t in times], "s.t": times}, schema=SCHEMA)
        write_events(folder / f"{i}.parquet", table, 8)
    return BlockReader(folder, SCHEMA)


def test_threads_read_files_at_once(tmp_path: Path):
    reader = _reader(tmp_path, 4)

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
    reader = _reader(tmp_path, 6)
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
    reader = _reader(tmp_path, 2)
    reader.read("0.parquet", [0, 1], ["t"])
    monkeypatch.setattr(blocks, "_FOOTERS_BYTES", 0)
    reader.read("1.parquet", [0], ["t"])
    assert list(reader._footers) == ["1.parquet"]
    verified = reader._footer("0.parquet").verified
    bit = 1 << reader.schema.names.index("t")
    assert [bool(columns & bit) for columns in verified[:3]] == [True, True, False]


def test_column_named_twice_leaves_the_next_one_to_be_verified(tmp_path: Path):
    reader = _reader(tmp_path, 1)
    path = tmp_path / "0.parquet"
    chunk = pq.read_metadata(path).row_group(0).column(SCHEMA.names.index("s"))
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[begin + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(content)
    assert reader.read("0.parquet", [0], ["t", "t"]).column_names == ["t", "t"]
    with pytest.raises(CorruptBlockError):
        reader.read("0.parquet", [0], ["s"])


def test_footer_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    reader = _reader(tmp_path, 1)
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
    reader = _reader(tmp_path, 1)
    assert reader.read("0.parquet", [0], ["s"]).column_names == ["s"]
    assert reader.read("0.parquet", [0], ["s.t", "t"]).column_names == ["s.t", "t"]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 1000], ids=len)
def test_file_that_is_no_parquet_is_named(tmp_path: Path, content: bytes):
    reader = _reader(tmp_path, 1)
    (tmp_path / "0.parquet").write_bytes(content)
    with pytest.raises(CorruptBlockError, match=r"0\.parquet") as caught:
        reader.read("0.parquet", [0], ["t"])
    assert caught.value.path.endswith("0.parquet")


def test_file_cut_short_while_it_is_open_is_named(tmp_path: Path):
    reader = _reader(tmp_path, 1)
    reader.read("0.parquet", [0], ["t"])
    path = tmp_path / "0.parquet"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(CorruptBlockError, match=r"0\.parquet"):
        reader.read("0.parquet", [4], ["s"])


def test_file_with_other_columns_or_fewer_blocks_is_named(tmp_path: Path):
    reader = _reader(tmp_path, 2)
    pq.write_table(pa.table({"s": ["a"], "t": [1]}), tmp_path / "0.parquet")
    with pytest.raises(CorruptBlockError, match="its columns are"):
        reader.read("0.parquet", [0], ["s"])
    pq.write_table(pa.table({"t": np.arange(4)}), tmp_path / "1.parquet")
    with pytest.raises(CorruptBlockError):
        reader.read("1.parquet", [3], ["t"])


def test_column_the_file_is_too_old_to_have_is_null(tmp_path: Path):
    reader = _reader(tmp_path, 1)
    pq.write_table(pa.table({"t": np.arange(4)}), tmp_path / "0.parquet")
    table = reader.read("0.parquet", [0], ["s.t", "t", "s"])
    assert table.to_pylist() == [{"s.t": None, "t": t, "s": None} for t in range(4)]
    assert table.schema.equals(reader.empty(["s.t", "t", "s"]).schema)
    assert not reader.has_column("0.parquet", "s")
    assert reader.has_column("0.parquet", "t")
    assert reader.column_bytes("0.parquet", "s").tolist() == [0]
