"""The command that makes a stream of a table where it is."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.commands import Commands, assert_refused


def test_a_table_is_adopted_asked_refreshed_and_dropped(command: Commands, tmp_path: Path) -> None:
    lake = tmp_path / "trades"
    lake.mkdir()
    pq.write_table(pa.table({"t": range(9), "a": range(9)}), lake / "0.parquet")
    assert_refused(command("adopt", lake), "name the table's time column with --time")
    assert command("adopt", lake, "--time", "t", "--index", "a", "--key", "a").code == 0
    pq.write_table(pa.table({"t": range(9, 12), "a": range(3)}), lake / "1.parquet")
    again = command("adopt", lake)
    assert again.code == 0
    assert "1 file verified; 12 events in 2 files" in again.err
    query = "SELECT COUNT(*) AS n FROM trades WHERE a = 2"
    assert json.loads(command("query", query, "--format", "json").out) == [{"n": 2}]
    assert f"adopted from  {lake}, read where it is" in command("describe", "trades").out
    assert_refused(command("append", lake, "--stream", "trades"), "was adopted from")
    (lake / "1.parquet").unlink()
    assert_refused(command("query", query, "--format", "json"), "run 'chronicle adopt' again")
    skipped = command("query", query, "--format", "json", "--skip-damaged")
    assert json.loads(skipped.out) == [{"n": 1}]
    assert "without its 3 events" in skipped.err
    assert command("check", "trades").code == 1
    dropped = command("drop", "trades", "--yes")
    assert dropped.code == 0
    assert "which stays as it is" in dropped.err
    assert [path.name for path in lake.iterdir()] == ["0.parquet"]


def test_what_cannot_be_adopted_leaves_no_store_behind(command: Commands, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": [2, 1]}), tmp_path / "x.parquet")
    store = tmp_path / "new" / "store"
    words = ("adopt", tmp_path / "x.parquet", "--time", "t", "--store", store)
    refused = command(*words, store=False)
    assert refused.code == 1
    assert "take it in with 'chronicle ingest'" in refused.err
    assert not (tmp_path / "new").exists()
