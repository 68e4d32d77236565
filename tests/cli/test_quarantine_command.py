"""From a file with bad records to a stream that has them, by the commands a person types."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.cli.commands import HEADER, Commands, assert_refused, write


def test_bad_records_are_counted_written_mended_and_put_back(
    command: Commands, tmp_path: Path
) -> None:
    assert "nothing is in quarantine" in command("quarantine", "s").out
    source = write(tmp_path / "bad.csv", HEADER + "41,one,,,,\nsoon,1,0.5,q,,\n42,1,,,,\n")
    command.succeeds("append", source, "--stream", "s")
    shown = command("quarantine", "s").out
    assert shown.count("1  ") >= 2
    assert "column 'a' does not parse" in shown
    assert "quarantine_line" in command("quarantine", "s", "-x").out
    file = tmp_path / "mend.csv"
    command.succeeds("quarantine", "s", "--out", file)
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
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

    done = command.succeeds("quarantine", "s", "--put-back", file)
    assert "2 rows left the quarantine, 0 are in it" in done.err
    found = command.rows("SELECT t, a FROM s WHERE t > 40")
    assert found == [{"t": 42, "a": 1}, {"t": 43, "a": 4}, {"t": 43, "a": 4}]
    assert_refused(command("quarantine", "s", "--put-back", file), "was put back before")
    command.succeeds("check", "--deep")
    assert "nothing is in quarantine" in command("quarantine", "s").out
