"""From a file with bad records to a stream that has them, by the commands a person types."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from tests.cli.commands import Commands, assert_refused


def test_bad_records_are_counted_written_mended_and_put_back(
    command: Commands, tmp_path: Path
) -> None:
    assert "nothing is in quarantine" in command("quarantine", "s").out
    source = tmp_path / "bad.csv"
    source.write_text("t,a,x,s,f,k\n41,one,,,,\nsoon,1,0.5,q,,\n42,1,,,,\n")
    assert command("append", source, "--stream", "s").code == 0

    shown = command("quarantine", "s").out
    assert shown.count("1  ") >= 2
    assert "column 'a' does not parse" in shown
    assert "quarantine_line" in command("quarantine", "s", "-x").out
    file = tmp_path / "mend.csv"
    assert command("quarantine", "s", "--out", file).code == 0
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 2
    assert [(row["quarantine_line"], row["t"], row["a"]) for row in rows] == [
        ("2", "41", "one"),
        ("3", "soon", "1"),
    ]
    for row in rows:
        row.update({"t": "43", "a": "4", "x": "", "s": "", "f": "", "k": ""})
    with file.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, rows[0])
        writer.writeheader()
        writer.writerows(rows)

    done = command("quarantine", "s", "--put-back", file)
    assert done.code == 0, done.err
    assert "2 rows left the quarantine, 0 are in it" in done.err
    answer = command("query", "SELECT t, a FROM s WHERE t > 40", "--format", "json").out
    assert json.loads(answer) == [{"t": 42, "a": 1}, {"t": 43, "a": 4}, {"t": 43, "a": 4}]
    assert_refused(command("quarantine", "s", "--put-back", file), "was put back before")
    assert command("check", "--deep").code == 0
    assert "nothing is in quarantine" in command("quarantine", "s").out


def test_put_back_shows_no_rows(command: Commands, tmp_path: Path) -> None:
    assert command("quarantine", "s", "--put-back", "x.csv", "--format", "csv").code == 2
