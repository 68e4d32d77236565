"""The command that makes a stream of a table where it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.commands import Commands, assert_refused


def test_a_table_is_adopted_asked_refreshed_and_dropped(command: Commands, tmp_path: Path) -> None:
    lake = tmp_path / "trades"
    lake.mkdir()
    pq.write_table(pa.table({"t": range(9), "a": range(9)}), lake / "0.parquet")
    assert_refused(command("adopt", lake), "name the table's time column with --time")
    command.succeeds("adopt", lake, "--time", "t", "--index", "a", "--key", "a")
    pq.write_table(pa.table({"t": range(9, 12), "a": range(3)}), lake / "1.parquet")
    assert "1 file verified; 12 events in 2 files" in command.succeeds("adopt", lake).err
    query = "SELECT COUNT(*) AS n FROM trades WHERE a = 2"
    assert command.rows(query) == [{"n": 2}]
    assert f"adopted from  {lake}, read where it is" in command("describe", "trades").out
    assert_refused(command("append", lake, "--stream", "trades"), "was adopted from")
    (lake / "1.parquet").unlink()
    assert_refused(command("query", query, "--format", "json"), "run 'chronicle adopt' again")
    assert command.rows(query, "--skip-damaged") == [{"n": 1}]
    assert command("check", "trades").code == 1
    assert "which stays as it is" in command.succeeds("drop", "trades", "--yes").err
    assert [path.name for path in lake.iterdir()] == ["0.parquet"]


def test_what_cannot_be_adopted_leaves_no_store_behind(command: Commands, tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": [2, 1]}), tmp_path / "x.parquet")
    store = tmp_path / "new" / "store"
    refused = command("adopt", tmp_path / "x.parquet", "--time", "t", "--store", store, store=False)
    assert refused.code == 1
    assert "take it in with 'chronicle ingest'" in refused.err
    assert not (tmp_path / "new").exists()
