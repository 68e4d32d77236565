"""Commands that tend streams: what they do, say and ask, and their exit codes."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from chronicle import open_store
from chronicle.log.delta_log import live_files
from tests.cli.commands import Commands, assert_refused, times, write
from tests.ingest_files import read_rows


def test_compact_makes_one_file_of_small_ones(command: Commands) -> None:
    said = command.succeeds("compact", "s", "--full").err
    assert "4 files are 1 now" in said
    assert "warning" not in said
    assert len(live_files(command.store / "s" / "events")) == 1
    assert times(command) == list(range(40))


def test_one_file_is_counted_as_one(command: Commands) -> None:
    command("compact", "s", "--full")
    assert "1 file, none to merge\n" in command("compact", "s").err
    checked = command("check", "s", "--verbose")
    assert "1 data file," in checked.out
    assert "4 runs of 1 index (s)" in checked.out


def test_vacuum_frees_replaced_files_only_when_asked_for(command: Commands) -> None:
    def n_files() -> int:
        return len(list((command.store / "s" / "events").glob("*.parquet")))

    command("compact", "s", "--full")
    command.succeeds("vacuum", "s")
    assert n_files() == 5  # younger than seven days
    dry = command("vacuum", "s", "--retain", "0", "--dry-run")
    assert "would be removed" in dry.err
    assert_refused(command("vacuum", "s", "--retain", "1 hour"), "not a terminal: add --yes")
    assert n_files() == 5
    command.succeeds("vacuum", "s", "--retain", "0", "--yes")
    assert n_files() == 1
    assert times(command) == list(range(40))


def test_history_names_operations_and_their_events(command: Commands) -> None:
    command("compact", "s", "--full")
    entries = command.json("history", "s")
    assert [entry["version"] for entry in entries] == [5, 4, 3, 2, 1, 0]
    assert entries[0]["operation"] == "compact"
    assert entries[0]["n_events_total"] == 40
    lines = command("history", "s").out.splitlines()
    assert lines[0].split() == ["version", "committed", "operation", "events", "late", "in", "all",
                                "files"]  # fmt: skip
    assert [line.split()[0] for line in lines[2:]] == ["5", "4", "3", "2", "1", "0"]


def test_rename_keeps_the_events_under_the_new_name(command: Commands) -> None:
    assert "stream 's' is 'r' now" in command.succeeds("rename", "s", "r").err
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
    command.succeeds("drop", "s", "--yes")
    assert open_store(command.store).stream_names() == ()
    assert_refused(command("drop", "s", "--yes"), "no stream 's'")


def test_delete_takes_out_a_half_open_range(command: Commands) -> None:
    for words, left in (
        (("--from", "10", "--to", "20"), [*range(10), *range(20, 40)]),
        (("--to", "5"), [*range(5, 10), *range(20, 40)]),
        (("--from", "38"), [*range(5, 10), *range(20, 38)]),
    ):
        said = command.succeeds("delete", "s", *words, "--yes").err
        assert "events deleted" in said
        assert "warning" not in said
        assert times(command) == left


def test_delete_of_what_is_no_time_changes_nothing(command: Commands) -> None:
    assert_refused(command("delete", "s", "--from", "2020-01-01", "--yes"), "times are integers")
    assert_refused(command("delete", "s", "--from", "3"), "not a terminal: add --yes")
    backwards = command("delete", "s", "--from", "5", "--to", "3", "--yes")
    assert backwards.code == 2
    assert "--from 5 is not before --to 3" in backwards.words
    assert times(command) == list(range(40))


def test_column_added_is_null_in_the_events_there_are(command: Commands) -> None:
    command.succeeds("add-column", "s", "weapon", "string")
    rows = read_rows(open_store(command.store), "s", ["weapon"])
    assert rows == [{"weapon": None}] * 40
    assert_refused(command("add-column", "s", "weapon", "string"), "weapon")


@pytest.mark.parametrize("attribute", ["x", "s+a", "delta(x)"])
def test_index_commands_create_list_compact_and_drop(command: Commands, attribute: str) -> None:
    done = command.succeeds("index", "create", "s", attribute)
    assert f"index '{attribute}' created" in done.err
    listed = [index["attribute"] for index in command.json("index", "list", "s")]
    assert listed == sorted(["a", attribute])
    assert command("index", "list", "s").out.splitlines()[2].split()[:3] == ["a", "40", "4"]
    assert f"{attribute}: " in command("describe", "s").out
    compacted = command.succeeds("index", "compact", "s", "--on", "a", "--full")
    assert "index 'a': 4 runs before, 1 now, 40 entries written" in compacted.err
    compacted = command.succeeds("index", "compact", "s", "--on", attribute, "--full")
    assert f"index '{attribute}'" in compacted.err
    command.succeeds("check", "--deep")
    command.succeeds("index", "drop", "s", attribute)
    assert_refused(command("index", "drop", "s", attribute), "no index")


def test_index_commands_on_what_is_not_there_are_refused(command: Commands) -> None:
    assert_refused(command("index", "create", "s", "nix"), "nix")
    assert_refused(command("index", "create", "s", "s+aa"), "did you mean 'a'?")
    assert_refused(command("index", "compact", "s", "--on", "nix"), "nix")
    command.succeeds("index", "create", "s", "s+a")
    assert_refused(command("index", "drop", "s", "a+s"), "did you mean 's+a'?")


def test_describe_says_times_blocks_and_bytes_per_event(command: Commands) -> None:
    text = command.succeeds("describe", "s").out
    assert "0 to 39" in text
    assert "index         a: 40 entries" in text
    assert text.count("per event") == 3  # events, tree, one index
    shown = command.json("describe", "s")
    assert (shown["n_events"], shown["indexes"]["a"]["entries"]) == (40, 40)
    assert shown["bytes_per_event"]["events"] > 0
    bytes_of_index = shown["indexes"]["a"]["bytes"]
    assert shown["indexes"]["a"]["bytes_per_event"] == round(bytes_of_index / 40, 3)


def test_check_of_a_whole_store_finds_no_fault(command: Commands) -> None:
    *lines, summary = command.succeeds("check", "--deep", "--verbose").out.splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}
    assert summary == f"{len(lines)} checks found nothing wrong"
    assert command("check", "--deep").out.splitlines() == [summary]


def flip_a_byte(file: Path, at: int | None = None) -> Path:
    content = bytearray(file.read_bytes())
    content[len(content) // 2 if at is None else at] ^= 0xFF
    file.write_bytes(content)
    return file


def damage_a_tree(command: Commands) -> Path:
    return flip_a_byte(next((command.store / "s" / "tree").glob("*.parquet")))


def test_check_names_a_damaged_file_and_repair_makes_it_whole(command: Commands) -> None:
    damaged = damage_a_tree(command)
    done = command("check", "s")
    assert done.code == 1
    *wrong, summary = done.out.splitlines()
    assert {line.split()[0] for line in wrong} <= {"fault", "warning"}
    faults = [line for line in wrong if line.startswith("fault")]
    assert any(damaged.name in line for line in faults)
    assert summary.startswith(f"{len(faults)} fault")
    assert f'{damaged.name}"' in command("check", "s", "--json").out
    assert "1 damaged file taken out" in command.succeeds("repair", "s").err
    command.succeeds("check")
    assert times(command) == list(range(40))


def test_index_create_tells_of_damaged_runs_and_that_an_index_is_whole(command: Commands) -> None:
    damaged = flip_a_byte(min((command.store / "s" / "index" / "a").glob("*.parquet")), at=8)
    done = command.succeeds("index", "create", "s", "a")
    assert f"run '{damaged}' was damaged" in done.err
    command.succeeds("check")
    again = command("index", "create", "s", "a")
    assert "index 'a' has all the runs it should, and all are whole" in again.err


def test_repair_exits_1_where_only_a_copy_helps(command: Commands) -> None:
    flip_a_byte(next((command.store / "s" / "events").glob("*.parquet")))
    assert command("check").code == 1
    done = command("repair")
    assert (done.code, "events" in done.err) == (1, True)


COUNT = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A) WITHIN 1 "
    "DEFINE A AS A.a >= 0)"
)


def starts(command: Commands, *options: str) -> list[int]:
    return [row["t"] for row in command.rows(COUNT, *options)]


def test_query_answers_as_of_a_version_and_a_time(command: Commands) -> None:
    assert starts(command, "--as-of", "1") == list(range(10))
    newest = command.json("history", "s")[0]["time"]
    assert starts(command, "--as-of", newest) == list(range(40))
    for asked, said in (
        ("1999-01-01", "1999"),
        ("soon", "'soon' is neither a version nor a time"),
        ("99", "stream 's' has no version 99; name a version from 0 to 4"),
        ("9" * 30, f"stream 's' has no version {'9' * 30}; name a version from 0 to 4"),
    ):
        assert_refused(command("query", COUNT, "--as-of", asked), said)


def test_damaged_events_are_left_out_only_when_asked_for(command: Commands) -> None:
    third = flip_a_byte(sorted((command.store / "s" / "events").glob("*.parquet"))[2])
    assert_refused(command("query", COUNT, "--format", "json"), third.name)
    assert starts(command, "--skip-damaged") == [*range(20), *range(30, 40)]
    assert third.name in command("query", COUNT, "--skip-damaged").err


def test_advice_on_damaged_events_holds_where_a_query_is_explained(command: Commands) -> None:
    for events in (command.store / "s" / "events").glob("*.parquet"):
        flip_a_byte(events)
    for tree in (command.store / "s" / "tree").glob("*.parquet"):
        tree.unlink()
    done = command("query", COUNT, "--explain")
    assert_refused(done, "restore it from a copy")
    assert "queries that are run, not explained, leave it out under --skip-damaged" in done.err


@pytest.fixture
def other(command: Commands, tmp_path: Path) -> Path:
    """Make a second stream ``other``; return the file it is of."""
    file = write(tmp_path / "more.csv", "t\n1\n2\n")
    command.succeeds("append", file, "--stream", "other", "--time", "t")
    return file


def assert_told(command: Commands, said: str) -> None:
    """Hold ``streams`` to a list of both streams, of which ``other`` is damaged."""
    shown = command("streams")
    assert shown.code == 1
    rows = [line.split() for line in shown.out.splitlines()[2:]]
    assert rows == [["other", "damaged"], ["s", "40", "0", "39"]]
    assert f"stream 'other' {said}" in shown.err


def test_a_stream_too_damaged_to_open_hinders_no_other_and_can_be_dropped(
    command: Commands, other: Path
) -> None:
    max((command.store / "other" / "events" / "_delta_log").glob("*.json")).write_text("")
    assert_told(command, "cannot be read: commit")
    damage_a_tree(command)
    repaired = command("repair")
    assert repaired.code == 1
    assert "stream 'other' cannot be repaired: commit" in repaired.err
    command.succeeds("check", "s")
    command.succeeds("drop", "other", "--yes")
    command.succeeds("streams")


def test_a_stream_that_lost_its_log_is_told_of_and_not_made_anew(
    command: Commands, other: Path, tmp_path: Path
) -> None:
    log = command.store / "other" / "events" / "_delta_log"
    shutil.rmtree(log)
    assert_told(command, "has lost the log of its events")
    checked = command("check")
    assert checked.code == 1
    assert "(other/events/_delta_log)" in checked.out
    again = ("append", other, "--stream", "other", "--time", "t")
    assert_refused(command(*again), "holds data files of a stream")
    damage_a_tree(command)
    repaired = command("repair")
    assert repaired.code == 1
    assert "stream 'other' cannot be repaired: " in repaired.err
    assert f"restore '{log}' from a copy" in repaired.err
    assert "stream 's': 1 damaged file taken out" in repaired.err
    named = command("repair", "other")
    assert (named.code, f"restore '{log}' from a copy" in named.err) == (1, True)
    (command.store / "other").rename(tmp_path / "other")
    command.succeeds(*again)


def test_interrupted_command_says_what_became_of_it(command: Commands) -> None:
    with patch("chronicle.maintenance.compaction.compact_events", side_effect=KeyboardInterrupt):
        done = command("compact", "s")
    assert done.code == 130
    assert done.err == (
        "interrupted; every commit is whole or not there, 'chronicle history' lists them\n"
    )
    with patch("chronicle.describe.describe_stream", side_effect=KeyboardInterrupt):
        done = command("describe", "s")  # only reads
    assert (done.code, done.err) == (130, "interrupted\n")
