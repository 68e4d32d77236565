"""Parquet and Arrow files of others: damage that is noticed, and times that cannot be kept."""

from __future__ import annotations

import datetime as dt
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import replay
from chronicle import ChronicleError, Store, adopt
from chronicle.errors import CorruptBlockError, SourceError
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.tree.page_checksums import check_pages, parse_page_header
from replay.console.options import tables_of
from tests.ingest_files import quarantine_of


def take(store: Store, *sources: Path, **options: Any) -> str:
    return str(append_files(store, "s", list(sources), AppendOptions(time="t", **options)))


def rows(store: Store, sql: str = "SELECT * FROM s") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = replay.query(store, sql).table.to_pylist()
    return found


def year_of(count: int, unit: str) -> int:
    """Return the year of a time since 1970, by the 400 years after which the calendar repeats."""
    days = count // {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}[unit]
    cycles, day = divmod(days + dt.date(1970, 1, 1).toordinal() - 1, 146_097)
    return dt.date.fromordinal(day + 1).year + 400 * cycles


# ---------------------------------------------------------------------------------------------
# Checksums of pages.


def flip(path: Path, column: int) -> None:
    """Turn a byte of a Parquet file in the values of a column."""
    chunk = pq.read_metadata(path).row_group(0).column(column)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 255
    path.write_bytes(content)


def write(path: Path, *, checksums: bool = True) -> Path:
    path.parent.mkdir(exist_ok=True)
    n = np.arange(5000)
    table = pa.table({"t": n, "v": n})
    pq.write_table(
        table, path, compression="none", use_dictionary=False, write_page_checksum=checksums
    )
    return path


def by_append(store: Store, path: Path) -> None:
    take(store, path)


def by_adopt(store: Store, path: Path) -> None:
    adopt(store, path.stem, path, time="t")


def by_table(store: Store, path: Path) -> None:
    tables_of([f"x={path}"])


def by_from(store: Store, path: Path) -> None:
    rows(store, f"SELECT SUM(v) AS v FROM '{path}'")


@pytest.mark.parametrize("door", [by_append, by_adopt, by_table, by_from])
def test_a_flipped_bit_under_a_checksum_of_a_page_is_noticed_at_every_door(
    door: Callable[[Store, Path], None], store: Store, tmp_path: Path
) -> None:
    path = write(tmp_path / "in" / "x.parquet")
    door(store, path)
    other = write(tmp_path / "in" / "y.parquet")
    flip(other, 1)
    with pytest.raises(Exception, match=r"(?i)checksum") as refused:
        door(store, other)
    assert isinstance(refused.value, ChronicleError) or "BadParameter" in repr(refused.value)
    assert "y.parquet" in str(refused.value)


def test_from_reads_a_file_whose_other_columns_are_damaged_or_that_has_no_checksums(
    store: Store, tmp_path: Path
) -> None:
    path = write(tmp_path / "x.parquet")
    flip(path, 1)
    assert rows(store, f"SELECT MAX(t) AS t FROM '{path}'") == [{"t": 4999}]
    path = write(tmp_path / "y.parquet", checksums=False)
    flip(path, 1)
    assert rows(store, f"SELECT COUNT(v) AS n FROM '{path}'") == [{"n": 5000}]


def test_an_adopted_file_that_rots_is_noticed_where_duckdb_reads_it(
    store: Store, tmp_path: Path
) -> None:
    path = write(tmp_path / "in" / "s.parquet")
    by_adopt(store, path)
    stamp = path.stat()
    flip(path, 1)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    for sql in ("SELECT ROW_NUMBER() OVER (ORDER BY v) AS n FROM s", "SELECT v FROM s"):
        with pytest.raises(CorruptBlockError, match="checksum"):
            rows(store, sql)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_every_byte_of_every_page_is_under_its_checksum(
    version: str, codec: str, dictionary: bool, tmp_path: Path
) -> None:
    path, n = tmp_path / "x.parquet", 3000
    texts = [f"é{i % 70}" * (i % 40) for i in range(n)]
    table = pa.table({"t": range(n), "s": texts, "l": [[i, None] for i in range(n)]})
    pq.write_table(
        table, path, compression=codec, use_dictionary=dictionary, data_page_version=version,
        row_group_size=1000, data_page_size=2000, write_page_checksum=True, write_page_index=True,
    )  # fmt: skip
    check_pages(path)
    whole, random = path.read_bytes(), np.random.default_rng(7)
    for _ in range(20):
        chunk = pq.read_metadata(path).row_group(int(random.integers(3))).column(1)
        first = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
        start = chunk.data_page_offset if first is None else first
        header = parse_page_header(whole[start:])
        at = start + header.n_bytes + int(random.integers(header.n_data_bytes))
        (tmp_path / "y.parquet").write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << int(random.integers(8))]) + whole[at + 1 :]
        )
        with pytest.raises(ValueError, match="page of column 's' in its row group"):
            check_pages(tmp_path / "y.parquet")


@pytest.mark.parametrize("data", [b"", b"\x15", b"\x15\x80", b"\xff" * 40, b"\x1c" * 5000, b"\x00"])
def test_what_is_no_header_of_a_page_is_refused(data: bytes) -> None:
    with pytest.raises((IndexError, ValueError, RecursionError)):
        parse_page_header(data)


# ---------------------------------------------------------------------------------------------
# Times that microseconds cannot hold.

FAR = 2**62


@pytest.mark.parametrize(
    ("ending", "unit"), [("parquet", "ms"), ("arrow", "ms"), ("arrow", "s")]
)  # Parquet has no seconds
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_time_beyond_microseconds_puts_its_row_into_the_quarantine(
    ending: str, unit: str, zone: str | None, store: Store, tmp_path: Path
) -> None:
    kind = pa.timestamp(unit, zone)
    path = tmp_path / f"x.{ending}"
    put(path, pa.table({"t": [1, 2, 3], "v": pa.array([FAR, 5, -FAR], kind)}))
    report = take(store, path)
    assert rows(store, "SELECT t FROM s") == [{"t": 2}]
    assert "2 because column 'v' holds a time that microseconds cannot" in report
    records = [row["record"] for row in quarantine_of(store)]
    years = [f'"{year_of(count, unit)}-' for count in (FAR, -FAR)]
    assert [year in record for year, record in zip(years, records, strict=True)] == [True, True]


def test_a_file_with_a_time_beyond_microseconds_is_not_adopted(
    store: Store, tmp_path: Path
) -> None:
    far = pa.array([FAR, 5], pa.timestamp("ms"))
    put(tmp_path / "v.parquet", pa.table({"t": [1, 2], "v": far}))
    put(tmp_path / "w.parquet", pa.table({"t": far.take([1, 0]), "v": [1, 2]}))
    with pytest.raises(SourceError, match=rf"v.parquet' cannot be adopted .*{FAR}"):
        by_adopt(store, tmp_path / "v.parquet")
    with pytest.raises(ChronicleError, match=r"w.parquet.*does not fit microseconds"):
        by_adopt(store, tmp_path / "w.parquet")


@pytest.mark.parametrize(
    ("kind", "far"),
    [
        (pa.timestamp("s"), FAR), (pa.timestamp("ms", "UTC"), -FAR), (pa.timestamp("us"), FAR),
        (pa.date32(), 2**31 - 1), (pa.int64(), FAR),
    ],
    ids=str,
)  # fmt: skip
def test_a_row_whose_own_time_is_too_far_is_put_aside(
    kind: pa.DataType, far: int, store: Store, tmp_path: Path
) -> None:
    times = pa.array([5, far, 6], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    put(tmp_path / "x.arrow", pa.table({"t": times, "v": [1, 2, 3]}))
    report = take(store, tmp_path / "x.arrow")
    assert rows(store, "SELECT v FROM s") == [{"v": 1}, {"v": 3}]
    assert "1 because time 't' is beyond 2^62" in report


def test_times_beyond_microseconds_in_a_lake_cost_their_rows(store: Store, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    kind = pa.timestamp("us")
    write_deltalake(lake, pa.table({"t": [1, 2], "v": pa.array([0, 0], kind)}))
    (file,) = lake.glob("*.parquet")
    put(file, pa.table({"t": [1, 2], "v": pa.array([FAR, 0], pa.timestamp("ms"))}))
    take(store, lake)
    assert rows(store, "SELECT t FROM s") == [{"t": 2}]


def test_late_events_with_far_times_are_put_aside_as_they_are(store: Store, tmp_path: Path) -> None:
    kind = pa.timestamp("us")
    for i, v in ((1, 0), (0, 2**61)):
        put(tmp_path / f"{i}.arrow", pa.table({"t": [i], "v": pa.array([v], kind)}))
        take(store, tmp_path / f"{i}.arrow", late="quarantine")
    (row,) = quarantine_of(store)
    assert f'"{year_of(2**61, "us")}-' in row["record"]


def put(path: Path, table: pa.Table) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)


def test_old_times_of_parquet_keep_their_year_at_every_door(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    us = [253_402_214_400_000_000, -62_135_596_800_000_000]  # 9999-12-31, 0001-01-01
    table = pa.table({"t": [1, 2], "v": pa.array(us, pa.timestamp("us"))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    take(store, path)
    adopt(store, "a", path, time="t")
    small = tables_of([f"x={path}"])["x"]
    found = [row["v"].year for row in (*rows(store), *rows(store, "SELECT * FROM a"))]
    found += [v.year for v in small.column("v").to_pylist()]
    found += [row["y"] for row in rows(store, f"SELECT EXTRACT(YEAR FROM v) AS y FROM '{path}'")]
    assert found == [9999, 1] * 4


# ---------------------------------------------------------------------------------------------
# Arrow files.


def with_offsets(kind: pa.DataType, at: int) -> pa.Table:
    """Return texts of two bytes whose offsets go back after the tenth."""
    n = 30
    offsets = [2 * i for i in range(n + 1)]
    offsets[10] = at
    buffers = [None, pa.py_buffer(struct.pack(f"<{n + 1}i", *offsets)), pa.py_buffer(b"ab" * n)]
    return pa.table({"t": range(n), "k": pa.Array.from_buffers(kind, n, buffers)})


def beyond_its_dictionary() -> pa.Table:
    indices = pa.array([0, 7], pa.int32())
    return pa.table(
        {"t": [1, 2], "k": pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)}
    )


def no_text() -> pa.Table:
    raw = pa.array([b"\xff\xfe"])
    return pa.table({"t": [1], "k": pa.Array.from_buffers(pa.string(), 1, raw.buffers())})


@pytest.mark.parametrize("is_stream", [False, True], ids=["file", "stream"])
@pytest.mark.parametrize(
    "table",
    [
        with_offsets(pa.binary(), 50),
        with_offsets(pa.string(), 1_900_000_000),
        with_offsets(pa.binary(), -4),
        beyond_its_dictionary(),
        no_text(),
    ],
    ids=["back", "wild", "below", "dictionary", "text"],
)
def test_an_arrow_file_whose_buffers_do_not_fit_is_refused(
    table: pa.Table, is_stream: bool, store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "x.arrow"
    make = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, make(file, table.schema) as out:
        out.write_table(table)
    for door in (by_append, by_table):
        with pytest.raises(SourceError, match=r"x.arrow' is no Arrow file or stream, or"):
            door(store, path)
