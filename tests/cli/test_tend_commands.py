"""Commands that tend streams: what they do, say and ask, and their exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from chronicle import open_store
from chronicle.log.delta_log import live_files
from tests.cli.commands import Commands, Done, assert_refused
from tests.ingest_files import read_rows


def times(command: Commands, name: str = "s") -> list[int]:
    return [row["t"] for row in read_rows(open_store(command.store), name, ["t"])]


def test_compact_makes_one_file_of_small_ones(command: Commands) -> None:
    done = command("compact", "s", "--full")
    assert done.code == 0, done.err
    assert "4 files are 1 now" in done.err
    assert len(live_files(command.store / "s" / "events")) == 1
    assert times(command) == list(range(40))


def test_one_file_is_counted_as_one(command: Commands) -> None:
    command("compact", "s", "--full")
    assert "1 file, none to merge\n" in command("compact", "s").err
    checked = command("check", "s", "--verbose")
    assert "1 data file," in checked.out
    assert "4 runs of 1 index (s)" in checked.out


def test_vacuum_frees_replaced_files_only_when_asked_for(command: Commands) -> None:
    command("compact", "s", "--full")
    folder = command.store / "s" / "events"
    assert len(list(folder.glob("*.parquet"))) == 5
    assert command("vacuum", "s").code == 0
    assert len(list(folder.glob("*.parquet"))) == 5  # younger than seven days
    dry = command("vacuum", "s", "--retain", "0", "--dry-run")
    assert "would be removed" in dry.err
    assert len(list(folder.glob("*.parquet"))) == 5
    unasked = command("vacuum", "s", "--retain", "1 hour")
    assert_refused(unasked, "not a terminal: add --yes")
    done = command("vacuum", "s", "--retain", "0", "--yes")
    assert done.code == 0, done.err
    assert len(list(folder.glob("*.parquet"))) == 1
    assert times(command) == list(range(40))


def test_history_names_operations_and_their_events(command: Commands) -> None:
    command("compact", "s", "--full")
    entries = json.loads(command("history", "s", "--json").out)
    assert [entry["version"] for entry in entries] == [5, 4, 3, 2, 1, 0]
    assert entries[0]["operation"] == "compact"
    assert entries[0]["n_events_total"] == 40
    lines = command("history", "s").out.splitlines()
    assert lines[0].split() == ["version", "committed", "operation", "events", "late", "in", "all",
                                "files"]  # fmt: skip
    assert [line.split()[0] for line in lines[2:]] == ["5", "4", "3", "2", "1", "0"]


def test_rename_keeps_the_events_under_the_new_name(command: Commands) -> None:
    assert command("rename", "s", "r").code == 0
    assert times(command, "r") == list(range(40))
    assert_refused(command("rename", "s", "q"), "no stream 's'")
    assert_refused(command("rename", "r", "a/b"), "stream name 'a/b' cannot be used")


def test_drop_asks_where_it_can_and_needs_yes_where_not(command: Commands) -> None:
    refused = command("drop", "s")
    assert_refused(refused, "not a terminal: add --yes")
    assert "Drop stream 's' with its 40 events" in refused.err
    with (
        patch("sys.stdin.isatty", return_value=True, create=True),
        patch("typer.confirm", return_value=False) as asked,
    ):
        assert command("drop", "s").code == 1
    assert "40 events" in asked.call_args[0][0]
    assert open_store(command.store).stream_names() == ("s",)
    done = command("drop", "s", "--yes")
    assert done.code == 0, done.err
    assert open_store(command.store).stream_names() == ()
    assert_refused(command("drop", "s", "--yes"), "no stream 's'")


@pytest.mark.parametrize(
    ("given", "left"),
    [
        pytest.param(["--from", "10", "--to", "20"], [*range(10), *range(20, 40)], id="between"),
        pytest.param(["--to", "5"], range(5, 40), id="to"),
        pytest.param(["--from", "38"], range(38), id="from"),
    ],
)
def test_delete_takes_out_a_half_open_range(
    command: Commands, given: list[str], left: range | list[int]
) -> None:
    done = command("delete", "s", *given, "--yes")
    assert done.code == 0, done.err
    assert times(command) == list(left)


def test_delete_of_what_is_no_time_changes_nothing(command: Commands) -> None:
    assert_refused(command("delete", "s", "--from", "2020-01-01", "--yes"), "times are integers")
    assert command("delete", "s", "--yes").code == 2
    assert_refused(command("delete", "s", "--from", "3"), "not a terminal: add --yes")
    backwards = command("delete", "s", "--from", "5", "--to", "3", "--yes")
    assert backwards.code == 2
    assert "--from 5 is not before --to 3" in " ".join(backwards.err.split())
    assert times(command) == list(range(40))


def test_column_added_is_null_in_the_events_there_are(command: Commands) -> None:
    done = command("add-column", "s", "weapon", "string")
    assert done.code == 0, done.err
    rows = read_rows(open_store(command.store), "s", ["weapon"])
    assert rows == [{"weapon": None}] * 40
    assert_refused(command("add-column", "s", "weapon", "string"), "weapon")


def test_index_commands_create_list_compact_and_drop(command: Commands) -> None:
    done = command("index", "create", "s", "x", "s")
    assert done.code == 0, done.err
    assert "index 'x' created" in done.err
    listed = json.loads(command("index", "list", "s", "--json").out)
    assert [index["attribute"] for index in listed] == ["a", "s", "x"]
    assert command("index", "list", "s").out.splitlines()[2].split()[:3] == ["a", "40", "4"]
    compacted = command("index", "compact", "s", "--on", "a", "--full")
    assert "index 'a': 4 runs before, 1 now, 40 entries written" in compacted.err
    assert command("index", "drop", "s", "x").code == 0
    assert_refused(command("index", "drop", "s", "x"), "no index")
    assert_refused(command("index", "create", "s", "nix"), "nix")
    assert_refused(command("index", "compact", "s", "--on", "nix"), "nix")


def test_index_commands_take_columns_together(command: Commands) -> None:
    done = command("index", "create", "s", "s+a")
    assert done.code == 0, done.err
    assert "index 's+a' created" in done.err
    listed = json.loads(command("index", "list", "s", "--json").out)
    assert [index["attribute"] for index in listed] == ["a", "s+a"]
    assert "s+a: 0 entries" in command("describe", "s").out
    assert "index 's+a'" in command("index", "compact", "s", "--on", "s+a", "--full").err
    assert_refused(command("index", "drop", "s", "a+s"), "did you mean 's+a'?")
    assert_refused(command("index", "create", "s", "s+aa"), "did you mean 'a'?")
    assert command("check", "--deep").code == 0
    assert command("index", "drop", "s", "s+a").code == 0


def test_describe_says_bytes_per_event(command: Commands) -> None:
    text = command("describe", "s").out
    assert text.count("per event") == 3  # events, tree, one index
    shown = json.loads(command("describe", "s", "--json").out)
    assert shown["bytes_per_event"]["events"] > 0
    bytes_of_index = shown["indexes"]["a"]["bytes"]
    assert shown["indexes"]["a"]["bytes_per_event"] == round(bytes_of_index / 40, 3)


def test_check_of_a_whole_store_finds_no_fault(command: Commands) -> None:
    done = command("check", "--deep", "--verbose")
    assert done.code == 0, done.out
    *lines, summary = done.out.splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}
    assert summary == f"{len(lines)} checks found nothing wrong"
    assert command("check", "--deep").out.splitlines() == [summary]
    assert_refused(command("check", "nix"), "no stream 'nix'")


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def test_check_names_a_damaged_file_and_repair_makes_it_whole(command: Commands) -> None:
    damaged = next((command.store / "s" / "tree").glob("*.parquet"))
    flip_a_byte(damaged)
    done = command("check", "s")
    assert done.code == 1
    *wrong, summary = done.out.splitlines()
    assert {line.split()[0] for line in wrong} <= {"fault", "warning"}
    faults = [line for line in wrong if line.startswith("fault")]
    assert any(damaged.name in line for line in faults)
    assert summary.startswith(f"{len(faults)} fault")
    as_json = json.loads(command("check", "s", "--json").out)
    assert damaged.name in next(one["file"] for one in as_json if one["severity"] == "fault")
    repaired = command("repair", "s")
    assert repaired.code == 0, repaired.err
    assert "1 damaged file taken out" in repaired.err
    assert command("check").code == 0
    assert times(command) == list(range(40))


def test_index_create_tells_of_damaged_runs_and_that_an_index_is_whole(command: Commands) -> None:
    damaged = min((command.store / "s" / "index" / "a").glob("*.parquet"))
    content = bytearray(damaged.read_bytes())
    content[8] ^= 0xFF
    damaged.write_bytes(content)
    done = command("index", "create", "s", "a")
    assert done.code == 0, done.err
    assert f"run '{damaged}' was damaged" in done.err
    assert command("check").code == 0
    again = command("index", "create", "s", "a")
    assert "index 'a' has all the runs it should, and all are whole" in again.err


def test_repair_exits_1_where_only_a_copy_helps(command: Commands) -> None:
    flip_a_byte(next((command.store / "s" / "events").glob("*.parquet")))
    assert command("check").code == 1
    done = command("repair")
    assert done.code == 1
    assert "events" in done.err


COUNT = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A) WITHIN 1 "
    "DEFINE A AS A.a >= 0)"
)


def starts(done: Done) -> list[int]:
    assert done.code == 0, done.err
    return [row["t"] for row in json.loads(done.out)]


def test_query_answers_as_of_a_version_and_a_time(command: Commands) -> None:
    entries = json.loads(command("history", "s", "--json").out)
    ask = ["query", COUNT, "--format", "json", "--as-of"]
    assert starts(command(*ask, "1")) == list(range(10))
    newest = entries[0]["time"]
    assert starts(command(*ask, newest)) == list(range(40))
    assert_refused(command(*ask, "1999-01-01"), "1999")
    assert_refused(command(*ask, "soon"), "'soon' is neither a version nor a time")


def test_damaged_events_are_left_out_only_when_asked_for(command: Commands) -> None:
    third = sorted((command.store / "s" / "events").glob("*.parquet"))[2]
    flip_a_byte(third)
    assert_refused(command("query", COUNT, "--format", "json"), third.name)
    done = command("query", COUNT, "--format", "json", "--skip-damaged")
    assert starts(done) == [*range(20), *range(30, 40)]
    assert third.name in done.err


def test_advice_on_damaged_events_holds_where_a_query_is_explained(command: Commands) -> None:
    for events in (command.store / "s" / "events").glob("*.parquet"):
        flip_a_byte(events)
    for tree in (command.store / "s" / "tree").glob("*.parquet"):
        tree.unlink()
    done = command("query", COUNT, "--explain")
    assert_refused(done, "restore it from a copy")
    assert "queries that are run, not explained, leave it out under --skip-damaged" in done.err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("7 days", 604_800, id="days"),
        pytest.param("1 hour", 3600, id="hour"),
        pytest.param("90 minutes", 5400, id="minutes"),
        pytest.param("1.5 hours 30 seconds", 5430, id="two parts"),
        pytest.param("2 WEEKS", 1_209_600, id="weeks"),
        pytest.param("0", 0, id="nothing"),
    ],
)
def test_duration_is_read_in_words(text: str, seconds: int) -> None:
    from replay.console.options import duration

    assert duration(text, hint="--retain").total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "7", "days", "7 fortnights", "-1 day", "1 day x", "9e9 days"])
def test_what_is_no_duration_is_wrong_usage(command: Commands, text: str) -> None:
    done = command("vacuum", "s", "--retain", text)
    assert done.code == 2
    assert "is no duration" in done.err


def test_a_stream_too_damaged_to_open_hinders_no_other_and_can_be_dropped(
    command: Commands, tmp_path: Path
) -> None:
    more = tmp_path / "more.csv"
    more.write_text("t\n1\n2\n")
    done = command("append", more, "--stream", "other", "--time", "t")
    assert done.code == 0, done.err
    max((command.store / "other" / "events" / "_delta_log").glob("*.json")).write_text("")
    shown = command("streams")
    assert shown.code == 1
    rows = [line.split() for line in shown.out.splitlines()[2:]]
    assert rows == [["other", "damaged"], ["s", "40", "0", "39"]]
    assert "stream 'other' cannot be read: commit" in shown.err
    damaged = next((command.store / "s" / "tree").glob("*.parquet"))
    flip_a_byte(damaged)
    repaired = command("repair")
    assert repaired.code == 1
    assert "stream 'other' cannot be repaired: commit" in repaired.err
    assert command("check", "s").code == 0
    dropped = command("drop", "other", "--yes")
    assert dropped.code == 0, dropped.err
    assert command("streams").code == 0


def stream_without_log(command: Commands, tmp_path: Path) -> Path:
    """Make stream 'other' and let it lose the log of its events; return the file it is of."""
    file = tmp_path / "more.csv"
    file.write_text("t\n1\n2\n")
    assert command("append", file, "--stream", "other", "--time", "t").code == 0
    shutil.rmtree(command.store / "other" / "events" / "_delta_log")
    return file


def test_a_stream_that_lost_its_log_is_told_of_and_not_made_anew(
    command: Commands, tmp_path: Path
) -> None:
    more = stream_without_log(command, tmp_path)
    shown = command("streams")
    assert shown.code == 1
    rows = [line.split() for line in shown.out.splitlines()[2:]]
    assert rows == [["other", "damaged"], ["s", "40", "0", "39"]]
    assert "stream 'other' has lost the log of its events" in shown.err
    checked = command("check")
    assert checked.code == 1
    assert "(other/events/_delta_log)" in checked.out
    refused = command("append", more, "--stream", "other", "--time", "t")
    assert_refused(refused, "holds data files of a stream")
    (command.store / "other").rename(tmp_path / "other")
    assert command("append", more, "--stream", "other", "--time", "t").code == 0


def test_repair_names_a_stream_that_lost_its_log_and_repairs_the_others(
    command: Commands, tmp_path: Path
) -> None:
    stream_without_log(command, tmp_path)
    flip_a_byte(next((command.store / "s" / "tree").glob("*.parquet")))
    repaired = command("repair")
    assert repaired.code == 1
    assert "stream 'other' cannot be repaired: " in repaired.err
    log = command.store / "other" / "events" / "_delta_log"
    assert f"restore '{log}' from a copy" in repaired.err
    assert "stream 's': 1 damaged file taken out" in repaired.err
    named = command("repair", "other")
    assert named.code == 1
    assert f"restore '{log}' from a copy" in named.err


@pytest.mark.parametrize("version", ["99", "9" * 30])
def test_version_that_is_none_names_those_there_are(command: Commands, version: str) -> None:
    asked = command("query", COUNT, "--as-of", version)
    assert_refused(asked, f"stream 's' has no version {version}; name a version from 0 to 4")


def test_interrupted_command_says_what_became_of_it(command: Commands) -> None:
    with patch("chronicle.maintenance.compaction.compact_events", side_effect=KeyboardInterrupt):
        done = command("compact", "s")
    assert done.code == 130
    assert done.err == (
        "interrupted; every commit is whole or not there, 'chronicle history' lists them\n"
    )


def test_interrupted_command_that_only_reads_says_nothing_of_commits(command: Commands) -> None:
    with patch("chronicle.describe.describe_stream", side_effect=KeyboardInterrupt):
        done = command("describe", "s")
    assert (done.code, done.err) == (130, "interrupted\n")
