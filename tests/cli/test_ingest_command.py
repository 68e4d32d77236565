"""``chronicle ingest``: what becomes of late and known files, and following a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronicle import open_store
from tests.cli.commands import Commands
from tests.ingest_files import read_rows

HEADER = "t,a,x,s,f,k\n"


def times(command: Commands) -> list[int]:
    return [row["t"] for row in read_rows(open_store(command.store), "s", ["t"])]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_ingest_treats_late_events_and_known_files_as_told(
    command: Commands, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEADER + "5,1,,,,\n50,1,,,,\n")
    given = ["ingest", path, "--stream", "s", "--time", "t"]
    refused = command(*given, "--late", "reject")
    assert refused.code == 1
    assert "older than the end" in refused.err
    assert command(*given).code == 0
    assert times(command) == [*range(6), *range(5, 40), 50]
    assert "taken before" in command(*given).err
    command(*given, "--again", "--late", "quarantine")
    assert times(command) == [*range(6), *range(5, 40), 50, 50]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_followed_folder_is_taken_once(command: Commands, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text(HEADER + "41,1,,,,\n")
    given = ["ingest", folder, "--stream", "s", "--time", "t", "--follow", "--once"]
    done = command(*given, "--lateness", "10")
    assert done.code == 0, done.err
    (folder / "b.csv").write_text(HEADER + "42,1,,,,\n")
    done = command(*given, "--lateness", "10")
    assert done.code == 0, done.err
    assert times(command) == [*range(40), 41, 42]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(["a.csv", "--once"], id="once"),
        pytest.param(["a.csv", "--lateness", "1 hour"], id="lateness"),
        pytest.param(["a.csv", "--idle-seconds", "1"], id="idle"),
        pytest.param(["a", "b", "--follow"], id="two folders"),
        pytest.param(["a", "--follow", "--lateness", "soon"], id="no duration"),
    ],
)
def test_options_of_following_that_cannot_apply_are_wrong_usage(
    command: Commands, given: list[str]
) -> None:
    assert command("ingest", *given, "--stream", "s", "--time", "t").code == 2


def test_what_is_no_arrow_file_is_refused_before_spark_starts(
    command: Commands, tmp_path: Path
) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(b"ARROW1")
    done = command("ingest", path, "--stream", "s", "--time", "t")
    assert done.code == 1
    assert "no Arrow file" in done.err
