"""Pipes, devices and tables of other programs in the place of files: refused by every command."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.commands import Commands


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "x.csv"
    path.parent.mkdir()
    os.mkfifo(path)
    return path


def test_pipes_are_refused_at_every_door_before_anybody_waits(
    command: Commands, pipe: Path
) -> None:
    for given in (
        ("append", pipe, "--stream", "n", "--time", "t"),
        ("append", pipe.with_name("*.csv"), "--stream", "n", "--time", "t"),
        ("append", pipe.parent, "--stream", "n", "--time", "t"),
        ("append", "/dev/null", "--stream", "n", "--time", "t", "--format", "csv"),
        ("ingest", pipe, "--stream", "n", "--time", "t"),
        ("adopt", pipe, "--stream", "n", "--time", "t"),
        ("quarantine", "s", "--put-back", pipe),
        ("query", f"SELECT * FROM '{pipe}'"),
        ("query", f"SELECT * FROM '{pipe.parent}/*.csv'"),
        ("query", "SELECT * FROM s", "--table", f"x={pipe}"),
        ("query", "SELECT * FROM s", "--out", pipe),
        ("query", "--file", pipe),
        ("replay", "s", "--out", pipe),
    ):
        refused = command(*given)
        assert refused.code != 0, given
        assert "is a pipe" in refused.err or "is a device" in refused.err, given


def test_table_of_another_program_is_no_small_table(command: Commands, tmp_path: Path) -> None:
    folder = tmp_path / "h.parquet"
    (folder / ".hoodie").mkdir(parents=True)
    pq.write_table(pa.table({"t": [1]}), folder / "a.parquet")
    refused = command("query", "SELECT * FROM h", "--table", f"h={folder}")
    assert refused.code == 1
    assert "is a Hudi table" in refused.words
