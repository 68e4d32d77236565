"""``chronicle ingest``: what becomes of late and known files, and following a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import HEADER, Commands, assert_refused, times, write


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_ingest_treats_late_events_and_known_files_as_told(
    command: Commands, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", HEADER + "5,1,,,,\n50,1,,,,\n")
    given = ["ingest", path, "--stream", "s", "--time", "t"]
    refused = command(*given, "--late", "reject")
    assert refused.code == 1
    assert "older than the end" in refused.err
    command.succeeds(*given)
    assert times(command) == [*range(6), *range(5, 40), 50]
    assert "taken before" in command(*given).err
    command.succeeds(*given, "--again", "--late", "quarantine")
    assert times(command) == [*range(6), *range(5, 40), 50, 50]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_followed_folder_is_taken_once(command: Commands, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    given = ["ingest", tmp_path / "in", "--stream", "s", "--time", "t", "--follow", "--once"]
    for name, t in (("a", 41), ("b", 42)):
        write(tmp_path / "in" / f"{name}.csv", HEADER + f"{t},1,,,,\n")
        command.succeeds(*given, "--lateness", "10")
    assert times(command) == [*range(40), 41, 42]


def test_what_is_no_arrow_file_is_refused_before_spark_starts(
    command: Commands, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.arrow", "ARROW1")
    assert_refused(command("ingest", path, "--stream", "s", "--time", "t"), "no Arrow file")
