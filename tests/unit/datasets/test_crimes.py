"""The bundled crimes stream: what the file holds, and what the loader leaves out."""

import hashlib
import re
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from datasets import crimes

# Counts and digest are stated by datasets/data/README.md, which comes from those who made the file.
README = crimes.DATA_FILE.with_name("README.md")
N_ROWS = 644_056
N_PLACEHOLDER = 2_190


@pytest.fixture(scope="module")
def stream() -> pa.Table:
    return crimes.load()


def test_file_is_the_one_the_readme_describes():
    digest = hashlib.sha256(crimes.DATA_FILE.read_bytes()).hexdigest()
    assert re.search(r"\b[0-9a-f]{64}\b", README.read_text())[0] == digest


def test_readme_carries_both_licences():
    words = README.read_text()
    assert "Copyright (c) 2018 Kyle Sykes" in words
    assert "Permission is hereby granted, free of charge" in words
    assert "https://opendatacommons.org/licenses/by/1-0/" in words


def test_rows_are_ordered_by_time_then_arrival(stream):
    keys = [(crimes.TIME, "ascending"), ("arrival_no", "ascending")]
    assert stream.num_rows == N_ROWS
    assert pc.sort_indices(stream, sort_keys=keys).equals(pa.array(range(N_ROWS), type=pa.uint64()))


def test_rows_that_take_a_report_back_are_there(stream):
    assert pc.sum(pc.equal(stream["count"], -1)).as_py() == 9_912


def test_placeholder_dates_are_dropped_and_counted(tmp_path, stream):
    destination = tmp_path / "folder" / "crimes.parquet"
    report = crimes.write_usable(destination)

    assert (report.n_rows, report.n_dropped) == (N_ROWS, N_PLACEHOLDER)
    assert report.n_written == N_ROWS - N_PLACEHOLDER
    assert "641,866 of 644,056" in str(report)
    assert "2,190 left out" in str(report)
    # The stream is in time order, so what is dropped is its beginning and the rest is unchanged.
    assert pq.read_table(destination).equals(stream.slice(N_PLACEHOLDER))


def test_nothing_but_the_file_asked_for_is_left_behind(tmp_path):
    crimes.write_usable(tmp_path / "crimes.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["crimes.parquet"]


def test_first_usable_moment_itself_is_kept():
    first = crimes.FIRST_USABLE
    times = [datetime(2007, 12, 31, 23, 59), first, datetime(1900, 1, 1), first]
    table = pa.table({crimes.TIME: pa.array(times, pa.timestamp("ms")), "arrival_no": range(4)})
    assert crimes.to_usable(table)["arrival_no"].to_pylist() == [1, 3]
