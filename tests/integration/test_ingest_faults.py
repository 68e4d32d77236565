"""Records and sources that cannot be taken: put aside or refused, always with the reason."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.pipeline import ingest
from chronicle.log import delta_log
from chronicle.store import Store
from tests.ingest_files import TIES, Row, options, read_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


# ---------------------------------------------------------------------------------------------
# Faults of records.


def quarantine(store: Store) -> list[Row]:
    table = store.path / "s" / "quarantine"
    files = [table / file.name for file in delta_log.live_files(table)]
    rows = pa.concat_tables([pq.read_table(file) for file in files]).to_pylist()
    return sorted(rows, key=lambda row: row["record"])


def test_faulty_records_are_put_aside_in_the_batch_of_their_commit(
    tmp_path: Path, store: Store
) -> None:
    path = tmp_path / "a.csv"
    day = "2020-01-01T00:00"
    lines = [f"{day}:00,1,a", f"{day}:01,one,b", f"{day}:02,2", ",3,d", "yesterday,4,e"]
    path.write_text("t,x,s\n" + "".join(line + "\n" for line in lines))
    ddl = "t TIMESTAMP_NTZ, x BIGINT, s STRING"
    report = ingest(store, "s", [path], options(schema=ddl))
    assert [row["x"] for row in read_rows(store)] == [1]
    assert report.n_quarantined == 4
    assert report.reasons == {
        "time 't' does not parse": 1,
        "the record does not parse: it has fewer cells than there are columns": 1,
        "column 'x' does not parse as int64": 1,
        "no time in column 't'": 1,
    }
    rows = quarantine(store)
    assert {row["source"] for row in rows} == {str(path)}
    placed = {row["line"]: row["record"] for row in rows}
    assert placed == {n: lines[n - 2] for n in (3, 4, 5, 6)}
    newest = delta_log.commits(store.path / "s" / "events")[0]
    assert {row["batch"] for row in rows} == {newest.metadata["quarantine_batch"]}


def test_fault_that_shows_only_while_sorting_is_a_sentence(tmp_path: Path, store: Store) -> None:
    rows = [{"t": -n, "n": n, "pad": "a" * 40 + str(n)} for n in range(1000)]
    path = write_rows(tmp_path / "a.parquet", rows, TIES)
    footer = pq.read_metadata(path).row_group(3).column(2)
    content = bytearray(path.read_bytes())
    # The survey reads the times only, and does not meet what is wrong with the texts.
    at = footer.dictionary_page_offset or footer.data_page_offset
    content[at : at + footer.total_compressed_size] = b"\xff" * footer.total_compressed_size
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"a.parquet' cannot be read .*check the file"):
        ingest(store, "s", [path], options())
    assert store.stream_names() == ()


def test_input_without_any_event_changes_nothing(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,x\nsoon,1\nlater,2\n")
    with pytest.raises(SourceError, match=r"none of the 2 records .* check --time"):
        ingest(store, "s", [path], options())
    path.write_text("t,x\n")
    with pytest.raises(SourceError, match="no event"):
        ingest(store, "s", [path], options(schema="t BIGINT, x BIGINT"))
    assert store.stream_names() == ()
    assert [entry.name for entry in store.path.iterdir()] == ["chronicle-store.json"]


def test_files_that_do_not_fit_the_stream_are_refused(tmp_path: Path, store: Store) -> None:
    schema = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    ingest(store, "s", [write_rows(tmp_path / "a.parquet", [{"t": 1, "x": 1}], schema)], options())
    path = write_rows(tmp_path / "b.parquet", [{"t": 2}], pa.schema([("t", pa.int64())]))
    with pytest.raises(SchemaError, match=r"lack column 'x' \(.*/b\.parquet\)"):
        ingest(store, "s", [path], options())
    assert read_rows(store) == [{"t": 1, "x": 1}]


def test_a_first_ingest_that_is_refused_leaves_no_stream(tmp_path: Path, store: Store) -> None:
    (tmp_path / "a.csv").write_text("t,x\n1,1\n")
    with pytest.raises(SchemaError, match="no key column 'z'"):
        ingest(store, "s", [tmp_path / "a.csv"], options(key="z"))
    assert store.stream_names() == ()
