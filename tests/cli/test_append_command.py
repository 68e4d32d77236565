"""``chronicle append``: files and standard input to a stream, without a JVM."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle import open_store, query
from chronicle.log.delta_log import live_files
from tests.cli.commands import HEADER, Commands, assert_refused, times, write


def test_what_fails_once_the_events_are_in_is_a_warning_and_no_failure(
    command: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("chronicle.write.commit.commit_tree", fail)
    path = write(tmp_path / "new.csv", HEADER + "41,1,,,,\n")
    done = command.succeeds("append", path, "--stream", "s")
    assert "warning: the events are in the stream, do not add them again" in done.err
    assert times(command)[-1] == 41


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("a.csv", HEADER, "a header only"), ("a.json", "[]", "no event")],
)
def test_a_known_stream_takes_a_file_of_a_header_as_nothing(
    command: Commands, tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = write(tmp_path / name, text)
    done = command("append", path, "--stream", "s")
    assert (done.code, done.err) == (0, f"nothing to append: '{path}' holds {said}\n")
    write(path, HEADER + "41,1,,,,\n" if name == "a.csv" else '[{"t": 41}]')
    assert command("append", path, "--stream", "s").code == 0  # it was not taken before
    assert times(command)[-2:] == [39, 41]


def test_append_adds_each_file_once_or_again_where_it_is_told_so(
    command: Commands, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", HEADER + "41,1,,,,\n40,1,,,,\n")
    done = command.succeeds("append", path, "--stream", "s")
    assert done.out == ""
    assert "stream 's': 2 events added" in done.err
    assert "\n  first time 40, last 41\n" in done.err
    write(tmp_path / "b.csv", HEADER + "42,1,,,,\n")
    more = command.succeeds("append", tmp_path / "*.csv", "--stream", "s")
    assert "1 event added" in more.err
    assert "\n  time 42\n" in more.err
    assert "1 file was taken before and skipped" in more.err
    assert times(command) == list(range(43))
    command.succeeds("append", path, "--stream", "s", "--again")
    assert times(command) == [*range(40), 40, 40, 41, 41, 42]


def test_late_events_are_merged_refused_or_put_aside(command: Commands, tmp_path: Path) -> None:
    path = write(tmp_path / "late.csv", HEADER + "5,7,,,,\n50,7,,,,\n")
    refused = command("append", path, "--stream", "s", "--late", "reject")
    assert_refused(refused, "1 of 2 events are older")
    aside = command.succeeds("append", path, "--stream", "s", "--late", "quarantine")
    assert "quarantined: 1 row" in aside.err
    assert times(command) == [*range(40), 50]
    command.succeeds("append", path, "--stream", "s", "--again")
    assert times(command) == [*range(6), *range(5, 40), 50, 50]


def test_records_that_are_no_events_are_put_aside_with_reasons(
    command: Commands, tmp_path: Path
) -> None:
    path = write(tmp_path / "bad.csv", HEADER + "41,one,,,,\n,1,,,,\n42,1,,,,\n43,1\n")
    done = command.succeeds("append", path, "--stream", "s")
    assert "quarantined: 3 rows" in done.err
    for reason in ("column 'a' does not parse", "no time in column 't'", "record does not parse"):
        assert f"1 because {reason}" in done.err or f"1 because the {reason}" in done.err
    assert done.err.endswith(f"at line 2, 3, 5 of '{path}'\n")
    table = command.store / "s" / "quarantine"
    rows = pa.concat_tables([pq.read_table(table / f.name) for f in live_files(table)]).to_pylist()
    assert {row["record"] for row in rows} >= {"41,one,,,,", "43,1"}
    newest = command.json("history", "s")[0]
    assert (newest["quarantine_batch"], newest["sources"]) == (rows[0]["batch"], [str(path)])


def test_standard_input_is_appended_each_time(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (1, 2):
        given = io.TextIOWrapper(io.BytesIO(b'{"t": 41, "a": 1}\n'))
        monkeypatch.setattr("sys.stdin", given)
        command.succeeds("append", "-", "--stream", "s", "--format", "json")
        assert times(command) == [*range(40), *[41] * n]
    assert_refused(command("append", "-", "--stream", "s"), "--format")


@pytest.mark.parametrize(
    ("name", "text", "given", "said"),
    [
        pytest.param("a.csv", HEADER.replace("k", "kk") + "1,1,1,1,1,1\n", [],
                     "did you mean 'k'", id="a column the stream lacks"),
        pytest.param("a.csv", HEADER + "1,1,,,,\n", ["--time", "a"], "ordered by 't'",
                     id="another time column"),
        pytest.param("a.csv", HEADER, ["--stream", "n", "--time", "t"],
                     "a header only; a new stream needs events", id="no event for a new stream"),
        pytest.param("a.csv", HEADER + ",1,,,,\n,2,,,,\n", [],
                     "every time in column 't' of '", id="no time"),
        pytest.param("a.json", '{"a": 1}', [], "every time in column 't' of '", id="no field"),
        pytest.param("a.csv", HEADER + ",1,,,,\n3,x,,,,\n", [],
                     "(1 because no time in column 't', 1 because column 'a'", id="reasons"),
        pytest.param("a.csv", HEADER + "soon,1,,,,\n", [], "none of the 1 records",
                     id="no event"),
        pytest.param("a.txt", HEADER, [], "--format", id="an ending of no format"),
        pytest.param("a.arrow", HEADER, [], "no Arrow file", id="no Arrow"),
        pytest.param("a.json", "[\n", [], "JSON array", id="an array that does not end"),
        pytest.param("a.csv", HEADER + "1,1,,,,\n", ["--time-zone", "UTC"], "no time zone",
                     id="a zone for whole numbers"),
    ],
)  # fmt: skip
def test_file_that_does_not_fit_is_refused_in_one_sentence(
    command: Commands, tmp_path: Path, name: str, text: str, given: list[str], said: str
) -> None:
    done = command("append", write(tmp_path / name, text), "--stream", "s", *given)
    assert done.code == 1
    assert done.err.startswith("error: ")
    assert said in done.err
    assert times(command) == list(range(40))


def test_an_answer_written_as_csv_is_appended_with_the_same_times(
    command: Commands, tmp_path: Path
) -> None:
    micros = [0, 500_000, 1_000_000, 1_772_443_800_000_001]
    local = pa.array(micros, pa.timestamp("us"))
    events = pa.table({"local": local, "at": local.cast(pa.timestamp("us", "UTC"))})
    pq.write_table(events, tmp_path / "events.parquet")
    command.succeeds("append", tmp_path / "events.parquet", "--stream", "one", "--time", "at")
    written = tmp_path / "written.csv"
    command.succeeds("query", "SELECT * FROM one", "--out", written)
    done = command.succeeds("append", written, "--stream", "two", "--time", "at")

    assert "4 events added" in done.err
    store = open_store(command.store)
    one, two = (query(store, f"SELECT * FROM {name}").table for name in ("one", "two"))
    assert one.column("at").cast(pa.int64()).to_pylist() == micros
    assert two.equals(one)
