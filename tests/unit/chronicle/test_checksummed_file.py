"""Seals: every byte of a sealed file that is read is under a checksum."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import CorruptBlockError, CorruptTreeError
from chronicle.tree.blocks import BlockReader
from chronicle.tree.checksummed_file import check_chunks, parse_seal, read_footer
from chronicle.tree.column_file import open_columns
from chronicle.tree.summary import Kind
from chronicle.tree.tree_file import TreeFile
from chronicle.write.block_writer import write_events
from tests.unit.chronicle.stream_cases import SCHEMA, make_stream, to_array

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
    for at in range(0, n_bytes, 3):
        damaged = _damaged(path, tmp_path, at, int(rng.integers(256)))
        try:
            assert _read(damaged).equals(expected), f"byte {at}"
        except CorruptBlockError as error:
            n_found += error.path == str(damaged) and path.name in str(error)
    # Unseen go the magic at the front, which nobody reads, and that of the seal, without which
    # the file is read as one of an older format; its bytes are right either way.
    unseen = 4 + len("chronicle.seal") + len("chronicle-seal-1:")
    assert n_found >= n_bytes // 3 - unseen


def test_any_flipped_byte_of_a_tree_file_gives_its_entries_or_one_clear_error(
    files: tuple[Path, Path], tmp_path: Path
):
    _, path = files
    expected = _entries(path)
    n_bytes = path.stat().st_size
    n_found = 0
    for at in range(0, n_bytes, 3):
        damaged = _damaged(path, tmp_path, at, 0x5A)
        try:
            assert _entries(damaged) == expected, f"byte {at}"
        except CorruptTreeError as error:
            n_found += error.path == str(damaged)
    # Reading three attributes leaves the others' bytes unread.
    assert n_found > n_bytes // 2 // 3


def test_checking_a_whole_file_finds_a_flipped_byte_of_any_column(
    files: tuple[Path, Path], tmp_path: Path
):
    path, tree = files
    _verify(path)
    with path.open("rb") as file:
        footer_at = path.stat().st_size - 8 - len(read_footer(file))
    for at in range(4, footer_at, 2):
        with pytest.raises(CorruptBlockError, match="checksum of column"):
            _verify(_damaged(path, tmp_path, at, 0xA5))
    TreeFile(tree).check()
    for column in open_columns(tree, kind="tree").columns.values():
        for at in range(column.start, column.start + column.n_bytes):
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


def test_chunks_lie_where_the_footer_says(files: tuple[Path, Path]):
    path, _ = files
    with path.open("rb") as file:
        seal = parse_seal(read_footer(file), subject=path.name)
    metadata = pq.read_metadata(path)
    assert seal.crc.shape == (metadata.num_row_groups, metadata.num_columns)
    for chunk, start in enumerate(seal.starts[:-1].tolist()):
        group, column = divmod(chunk, metadata.num_columns)
        found = metadata.row_group(group).column(column)
        first = found.dictionary_page_offset or found.data_page_offset
        assert (start, int(seal.starts[chunk + 1])) == (
            first,
            first + found.total_compressed_size,
        )


def test_only_the_columns_asked_for_are_compared(files: tuple[Path, Path], tmp_path: Path):
    path, _ = files
    with path.open("rb") as file:
        seal = parse_seal(read_footer(file), subject=path.name)
    damaged = _damaged(path, tmp_path, int(seal.starts[1]) + 3, 0x77)
    check_chunks(damaged, seal, [0, 1, 2], [0, 2, 3])
    check_chunks(damaged, seal, [1, 2], [0, 1])
    check_chunks(damaged, seal, [0], [])
    with pytest.raises(ValueError, match="column 1 in its row group 0"):
        check_chunks(damaged, seal, [0], [0, 1])


def test_a_data_file_without_a_seal_is_read_by_the_checksums_of_its_pages(tmp_path: Path):
    path = tmp_path / "old.parquet"
    table = _events()
    pq.write_table(table, path, row_group_size=16, write_page_checksum=True, store_schema=False)
    assert _read(path).equals(table.combine_chunks())
    column = pq.read_metadata(path).row_group(0).column(0)
    at = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size
    with pytest.raises(CorruptBlockError, match=r"old\.parquet"):
        _read(_damaged(path, tmp_path, at - 3, 0x33))


def test_a_tree_file_of_an_older_format_is_stale(files: tuple[Path, Path], tmp_path: Path):
    _, path = files
    copy = tmp_path / path.name
    pq.write_table(pa.table({"level": [0], "count": [40]}), copy)
    with pytest.raises(CorruptTreeError, match="older Chronicle") as told:
        TreeFile(copy).times()
    assert told.value.older


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
