"""``chronicle append``: files and standard input to a stream, without a JVM."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from chronicle import open_store
from chronicle.log.delta_log import live_files
from indexing.tables import indexed_attributes
from tests.cli.commands import Commands, assert_refused
from tests.ingest_files import read_rows

HEADER = "t,a,x,s,f,k\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def times(command: Commands, name: str = "s") -> list[int]:
    return [row["t"] for row in read_rows(open_store(command.store), name, ["t"])]


def test_what_fails_once_the_events_are_in_is_a_warning_and_no_failure(
    command: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("chronicle.write.commit.commit_tree", fail)
    done = command("append", write(tmp_path / "new.csv", HEADER + "41,1,,,,\n"), "--stream", "s")
    assert done.code == 0
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


def test_append_adds_a_file_once(command: Commands, tmp_path: Path) -> None:
    path = write(tmp_path / "new.csv", HEADER + "41,1,,,,\n40,1,,,,\n")
    done = command("append", path, "--stream", "s")
    assert (done.code, done.out) == (0, "")
    assert "stream 's': 2 events added" in done.err
    assert times(command) == list(range(42))
    again = command("append", path, "--stream", "s")
    assert again.code == 0
    assert "1 file was taken before and skipped" in again.err
    assert times(command) == list(range(42))
    command("append", path, "--stream", "s", "--again")
    assert times(command) == [*range(40), 40, 40, 41, 41]


def test_file_that_changed_since_it_was_taken_is_refused(command: Commands, tmp_path: Path) -> None:
    path = write(tmp_path / "new.csv", HEADER + "41,1,,,,\n")
    command("append", path, "--stream", "s")
    write(path, HEADER + "41,1,,,,\n42,1,,,,\n")
    done = command("append", path, "--stream", "s")
    assert done.code == 1
    assert "has other content now" in done.err
    assert times(command) == [*range(40), 41]


def test_append_takes_only_the_new_ones_of_several_files(command: Commands, tmp_path: Path) -> None:
    command("append", write(tmp_path / "a.csv", HEADER + "41,1,,,,\n"), "--stream", "s")
    write(tmp_path / "b.csv", HEADER + "42,1,,,,\n")
    done = command("append", tmp_path / "*.csv", "--stream", "s")
    assert "1 event added" in done.err
    assert "1 file was taken before and skipped" in done.err
    assert times(command) == [*range(40), 41, 42]


def test_late_events_are_merged_refused_or_put_aside(command: Commands, tmp_path: Path) -> None:
    path = write(tmp_path / "late.csv", HEADER + "5,7,,,,\n50,7,,,,\n")
    refused = command("append", path, "--stream", "s", "--late", "reject")
    assert refused.code == 1
    assert "1 of 2 events are older" in refused.err
    aside = command("append", path, "--stream", "s", "--late", "quarantine")
    assert "quarantined: 1 row" in aside.err
    assert times(command) == [*range(40), 50]
    merged = command("append", path, "--stream", "s", "--again")
    assert merged.code == 0, merged.err
    assert times(command) == [*range(6), *range(5, 40), 50, 50]
    assert command("append", path, "--stream", "s", "--late", "maybe").code == 2


def test_records_that_are_no_events_are_put_aside_with_reasons(
    command: Commands, tmp_path: Path
) -> None:
    path = write(tmp_path / "bad.csv", HEADER + "41,one,,,,\n,1,,,,\n42,1,,,,\n43,1\n")
    done = command("append", path, "--stream", "s")
    assert done.code == 0
    assert "quarantined: 3 rows" in done.err
    for reason in ("column 'a' does not parse", "no time in column 't'", "record does not parse"):
        assert f"1 because {reason}" in done.err or f"1 because the {reason}" in done.err
    assert done.err.endswith(f"at line 2, 3, 5 of '{path}'\n")
    table = command.store / "s" / "quarantine"
    rows = pa.concat_tables([pq.read_table(table / f.name) for f in live_files(table)]).to_pylist()
    assert {row["record"] for row in rows} >= {"41,one,,,,", "43,1"}
    assert {row["source"] for row in rows} == {str(path)}
    history = json.loads(command("history", "s", "--json").out)
    assert history[0]["quarantine_batch"] == rows[0]["batch"]
    assert history[0]["sources"] == [str(path)]


def test_standard_input_is_appended_each_time(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (1, 2):
        given = io.TextIOWrapper(io.BytesIO(b'{"t": 41, "a": 1}\n'))
        monkeypatch.setattr("sys.stdin", given)
        done = command("append", "-", "--stream", "s", "--format", "json")
        assert done.code == 0, done.err
        assert times(command) == [*range(40), *[41] * n]
    unsaid = command("append", "-", "--stream", "s")
    assert unsaid.code == 1
    assert "--format" in unsaid.err


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather", "csv", "jsonl"])
def test_new_stream_takes_its_columns_from_the_file(
    command: Commands, tmp_path: Path, ending: str
) -> None:
    table = pa.table({"n": [1, 2], "at": pa.array([7, 5], pa.timestamp("us")), "x": [0.5, None]})
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending == "feather":
        pa.feather.write_feather(table, path)
    elif ending == "arrow":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    elif ending == "csv":
        write(path, "n,at,x\n1,1970-01-01T00:00:00.000007,0.5\n2,1970-01-01T00:00:00.000005,\n")
    else:
        write(path, '{"n": 1, "at": "1970-01-01T00:00:00.000007", "x": 0.5}\n'
                    '{"n": 2, "at": "1970-01-01T00:00:00.000005"}\n')  # fmt: skip
    done = command("append", path, "--stream", "new", "--time", "at")
    assert done.code == 0, done.err
    stream = open_store(command.store).stream("new")
    assert stream.settings.time == "at"
    assert {one.name: one.type for one in stream.schema} == {
        "n": pa.int64(), "at": pa.timestamp("us"), "x": pa.float64(),
    }  # fmt: skip
    assert [row["n"] for row in read_rows(open_store(command.store), "new")] == [2, 1]


@pytest.mark.parametrize(
    ("name", "text", "given", "said"),
    [
        pytest.param("a.csv", "t,a\n1,1\n", [], "lacks column 'x'", id="lacks a column"),
        pytest.param("a.csv", HEADER.replace("k", "kk") + "1,1,1,1,1,1\n", [],
                     "did you mean 'k'", id="unknown column"),
        pytest.param("a.csv", HEADER + "1,1,,,,\n", ["--time", "a"], "ordered by 't'", id="time"),
        pytest.param("a.csv", HEADER, ["--stream", "n", "--time", "t"],
                     "a header only; a new stream needs events", id="no event"),
        pytest.param("a.csv", HEADER + ",1,,,,\n,2,,,,\n", [],
                     "every time in column 't' of '", id="no time"),
        pytest.param("a.json", '{"a": 1}', [], "every time in column 't' of '", id="no field"),
        pytest.param("a.csv", HEADER + ",1,,,,\n3,x,,,,\n", [],
                     "(1 because no time in column 't', 1 because column 'a'", id="reasons"),
        pytest.param("a.csv", HEADER + "soon,1,,,,\n", [], "none of the 1 records", id="all bad"),
        pytest.param("a.csv", "", [], "is empty", id="empty"),
        pytest.param("a.txt", HEADER, [], "--format", id="ending"),
        pytest.param("a.csv", HEADER + "1,1,,,,\n", ["--format", "xml"], "no format", id="format"),
        pytest.param("a.parquet", HEADER, [], "not a Parquet file", id="no Parquet"),
        pytest.param("a.arrow", HEADER, [], "no Arrow file", id="no Arrow"),
        pytest.param("a.json", "[\n", [], "JSON array", id="array"),
        pytest.param("a.csv", HEADER + "1,1,,,,\n", ["--time-zone", "UTC"], "no time zone",
                     id="zone"),
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
    events = pa.table(
        {"local": local, "at": local.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))}
    )
    pq.write_table(events, tmp_path / "events.parquet")
    command("append", tmp_path / "events.parquet", "--stream", "one", "--time", "at")
    written = tmp_path / "written.csv"
    command("query", "SELECT * FROM one", "--out", written)
    done = command("append", written, "--stream", "two", "--time", "at")

    assert (done.code, "4 events added" in done.err) == (0, True)
    one, two = (open_store(command.store).stream(name).snapshot() for name in ("one", "two"))
    assert two.schema == one.schema
    assert read_rows(open_store(command.store), "two") == read_rows(
        open_store(command.store), "one"
    )


def test_new_stream_needs_its_time_column(command: Commands, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "at,x\n1,2\n")
    done = command("append", path, "--stream", "new")
    assert done.code == 1
    assert "--time" in done.err
    assert "new" not in open_store(command.store).stream_names()


@pytest.mark.parametrize("listed", [("a,k+a",), ("a", "k+a"), ("a, a", "k+a,a")])
def test_new_stream_has_the_indexes_and_the_key_it_was_made_with(
    command: Commands, tmp_path: Path, listed: tuple[str, ...]
) -> None:
    path = write(tmp_path / "new.csv", "t,a,k\n1,7,x\n2,8,y\n")
    indexes = [word for names in listed for word in ("--index", names)]
    made = ("--stream", "fresh", "--time", "t", *indexes, "--key", "k")
    done = command("append", path, *made)
    assert done.code == 0
    stream = open_store(command.store).stream("fresh")
    assert stream.settings.key == "k"
    assert indexed_attributes(stream.path, stream.schema.names) == ("a", "k+a")
    more = write(tmp_path / "more.csv", "t,a,k\n3,9,x\n")
    assert_refused(
        command("append", more, "--stream", "fresh", "--index", "a"), "chronicle index create"
    )
    assert_refused(command("append", more, "--stream", "fresh", "--key", "a"), "has key 'k'")
    assert times(command, "fresh") == [1, 2]


def test_new_stream_goes_again_if_it_cannot_be_made_as_asked(
    command: Commands, tmp_path: Path
) -> None:
    path = write(tmp_path / "new.csv", "t,a\n1,7\n")
    asked = ("append", path, "--stream", "fresh", "--time", "t", "--index", "b")
    assert_refused(command(*asked), "no column 'b' to index")
    assert "fresh" not in open_store(command.store).stream_names()


def test_append_imports_no_spark(command: Commands, tmp_path: Path) -> None:
    import subprocess
    import sys

    path = write(tmp_path / "a.csv", HEADER + "41,1,,,,\n")
    code = (
        "import sys, cli\n"
        f"sys.argv = ['chronicle', 'append', {str(path)!r}, '--store', {str(command.store)!r}, "
        "'--stream', 's']\n"
        "try: cli.main()\n"
        "except SystemExit: print(sorted({'pyspark', 'pandas', 'py4j'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "[]", done.stderr
    assert times(command) == [*range(40), 41]
