"""``chronicle append`` takes files as other programs write them, and tells what it made of them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle import open_store
from chronicle.log.delta_log import live_files
from tests.cli.commands import Commands, Done, assert_refused
from tests.ingest_files import read_rows


def take(command: Commands, path: Path, content: str | bytes, *given: str) -> Done:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return command("append", path, "--stream", "new", "--time", "ts", *given)


def take_well(command: Commands, path: Path, content: str | bytes, *given: str) -> Done:
    done = take(command, path, content, *given)
    assert done.code == 0, done.err
    return done


def rows(command: Commands) -> list[dict[str, Any]]:
    return read_rows(open_store(command.store), "new")


def types(command: Commands) -> dict[str, str]:
    return {one.name: str(one.type) for one in open_store(command.store).stream("new").schema}


def put_aside(command: Commands) -> list[tuple[int, str, str]]:
    table = command.store / "new" / "quarantine"
    found = pa.concat_tables([pq.read_table(table / one.name) for one in live_files(table)])
    return sorted((row["line"], row["reason"], row["record"]) for row in found.to_pylist())


def test_a_german_table_is_read_as_it_is_meant(command: Commands, tmp_path: Path) -> None:
    content = "ts;höhe;ort\n31.12.2023 23:59;1,5;Köln\n01.02.2024 08:30;NA;'a;b'\n".encode(
        "latin-1"
    )
    given = ("--decimal-comma", "--encoding", "latin-1", "--null", "NA", "--quote", "'")
    take_well(command, tmp_path / "a.csv", content, *given, "--time-format", "dd.MM.yyyy HH:mm")
    assert rows(command) == [
        {"ts": datetime(2023, 12, 31, 23, 59), "höhe": 1.5, "ort": "Köln"},
        {"ts": datetime(2024, 2, 1, 8, 30), "höhe": None, "ort": "a;b"},
    ]


@pytest.mark.parametrize(
    ("name", "content", "given"),
    [
        ("a.tsv", "ts\tx\n1\t2\n", ()),
        ("a.csv", "1~2\n", ("--delimiter", "~", "--columns", "ts,x")),
        ("a.csv", "ts,x\n1,2\n".encode("utf-16"), ("--encoding", "utf-16")),
        ("a.json", '[{"ts": 1, "x": 2}]', ()),
    ],
)
def test_one_event_in_many_writings(
    command: Commands, tmp_path: Path, name: str, content: str | bytes, given: tuple[str, ...]
) -> None:
    take_well(command, tmp_path / name, content, *given)
    assert rows(command) == [{"ts": 1, "x": 2}]


def test_types_are_found_out_over_the_whole_file_and_told(
    command: Commands, tmp_path: Path
) -> None:
    lines = [f"{n},{n},0{n % 7},{n},2024-01-02,true,a" for n in range(70_000)]
    lines[60_000] = '60000,high,01,1.5,2024-01-03,FALSE,"1\n2"'
    done = take(command, tmp_path / "a.csv", "ts,alt,zip,v,d,ok,s\n" + "\n".join(lines) + "\n")
    assert "alt read as STRING, since line 60,002 holds 'high'" in done.err
    assert done.err.count("read as") == 1
    assert types(command) == {
        "ts": "int64", "alt": "string", "zip": "string", "v": "double", "d": "date32[day]",
        "ok": "bool", "s": "string",
    }  # fmt: skip
    assert rows(command)[60_000] == {
        "ts": 60_000, "alt": "high", "zip": "01", "v": 1.5, "d": date(2024, 1, 3), "ok": False,
        "s": "1\n2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"ts;v\n1;1,5\n", "v read as STRING, since line 2 holds '1,5'; if its comma"),
        ("a.csv", b"ts;v\n1;1\n2;-2,25\n", "'-2,25'; if its comma is a decimal one, give --deci"),
        ("a.csv", b'ts,v\n1,"1,2,3"\n', "1 event added"),
        ("a.csv", b"ts,v\n1,9223372036854775807\n2,9223372036854775808\n", "since line 3 holds"),
        ("a.csv", b"ts,v\n1,9007199254740993\n2,0.5\n", "since line 2 holds"),
        ("a.json", b'{"ts": 1, "v": "1,5"}', "1 event added"),
        ("a.csv", b"ts,v\n1,K\xf6ln\n2,x\n", "1 because the record is not UTF-8 text; name its -"),
        ("a.json", b'{"ts": 1, "v": "K\xf6ln"}\n{"ts": 2}', "such as latin-1"),
        ("a.json", b'[{"ts": 1, "v": "K\xf6ln"}]', "UTF-8 text; name its --encoding, such as l"),
    ],
)
def test_an_option_that_would_read_the_file_is_told(
    command: Commands, tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    done = take(command, tmp_path / name, content)
    assert said in done.err
    assert ("--decimal-comma" in done.err) == ("comma" in said)


def test_a_fraction_in_a_stream_of_integers_is_refused_unless_the_type_is_stated(
    command: Commands, tmp_path: Path
) -> None:
    take(command, tmp_path / "a.csv", "ts,x\n1,2\n")
    refused = take(command, tmp_path / "b.csv", 'ts,x\n2,3.0\n3,"4\n"\n4,1.5\n')
    assert_refused(refused, "line 5 of")
    assert "--schema 'x BIGINT'" not in refused.err
    assert "state 'x BIGINT'" in refused.err
    assert len(rows(command)) == 1
    command.succeeds("append", tmp_path / "b.csv", "--stream", "new", "--schema", "x BIGINT")
    assert [row["x"] for row in rows(command)] == [2, 3, 4]
    assert put_aside(command) == [(5, "column 'x' does not parse as BIGINT", "4,1.5")]


def test_a_comma_in_numbers_of_a_known_column_is_told(command: Commands, tmp_path: Path) -> None:
    take_well(command, tmp_path / "a.csv", "ts,x\n1,0.5\n")
    take(command, tmp_path / "b.csv", "ts;x\n2;1,5\n3;many\n4;2.5\n")
    why = "column 'x' does not parse as DOUBLE"
    assert [row[:2] for row in put_aside(command)] == [
        (2, f"{why} (with --decimal-comma it does)"),
        (3, why),
    ]


def test_days_that_could_be_months_are_refused_until_the_format_is_told(
    command: Commands, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    assert_refused(take(command, path, "ts,x\n01/02/2024,1\n"), "--time-format")
    for pattern, month in (("dd/MM/yyyy", 2), ("%m/%d/%Y", 1)):
        stream = ("--stream", f"m{month}", "--time", "ts")
        command.succeeds("append", path, *stream, "--time-format", pattern)
        [row] = read_rows(open_store(command.store), f"m{month}")
        assert row["ts"].month == month


def test_numbers_are_instants_of_the_unit_that_is_told(command: Commands, tmp_path: Path) -> None:
    take_well(command, tmp_path / "a.csv", "ts,x\n1700000000.25,1\n", "--time-unit", "s")
    assert rows(command)[0]["ts"] == datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC)
    assert_refused(take(command, tmp_path / "b.csv", "ts,x\n1700000000,1\n"), "none of the 1")
    take_well(command, tmp_path / "b.csv", "ts,x\n1700000001,1\n", "--time-unit", "s")


def test_nested_fields_are_left_out_and_told_or_flattened(
    command: Commands, tmp_path: Path
) -> None:
    content = '{"ts": 1, "a": {"b": 1, "c": {"d": "x"}}, "tags": [1]}\n{"ts": 2}\n'
    done = take(command, tmp_path / "a.json", content)
    assert "a left out, since it holds objects or arrays (--flatten" in done.err
    assert list(types(command)) == ["ts"]
    flat = command("append", tmp_path / "a.json", "--stream", "flat", "--time", "ts", "--flatten")
    assert "tags left out" in flat.err
    assert read_rows(open_store(command.store), "flat")[0] == {"ts": 1, "a_b": 1, "a_c_d": "x"}


def test_broken_json_is_put_aside_by_line(command: Commands, tmp_path: Path) -> None:
    deep = '{"ts": 3, "x": ' + "[" * 1200 + "]" * 1200 + "}"
    lines = ['{"ts": 1, "x": 1}', "", ' {"ts": 2, "x": ', deep, "[5]", '{"ts": 6, "x": "many"}']
    lines += ['{"ts": 7, "x": }', '{"ts": 8} x', '{"ts": ' + "8" * 5000 + "}"]
    take(command, tmp_path / "a.json", '{"ts": 0, "x": 0}\n')
    done = take_well(command, tmp_path / "b.json", "\n".join(lines))
    assert [row["ts"] for row in rows(command)] == [0, 1]
    aside = put_aside(command)
    assert [(line, record) for line, _, record in aside] == [
        (n, lines[n - 1]) for n in range(3, 10)
    ]
    reasons = [reason.removeprefix("the record does not parse: ") for _, reason, _ in aside]
    assert [reasons[0], *reasons[4:]] == [
        "Expecting value (character 16)", "Expecting value (character 16)",
        "Extra data (character 10)", "a number has thousands of digits",
    ]  # fmt: skip
    assert "nested" in reasons[1]
    assert "2 because the record does not parse: Expecting value\n" in done.err
    assert f"at line 3, 4, 5, … of '{tmp_path / 'b.json'}'\n" in done.err


def test_integers_of_any_size_and_an_unknown_field_are_never_changed_in_silence(
    command: Commands, tmp_path: Path
) -> None:
    big = 2**63 + 1
    take(command, tmp_path / "a.json", f'{{"ts": 1, "x": {big}}}\n{{"ts": 2, "x": 5}}\n')
    assert [row["x"] for row in rows(command)] == [str(big), "5"]
    lines = [json.dumps({"ts": n, "x": "a"}) for n in range(3, 303)]
    lines[250] = '{"ts": 253, "x": "a", "y": 1}'
    assert_refused(take(command, tmp_path / "b.json", "\n".join(lines)), "line 251 of")
    assert len(rows(command)) == 2


def test_a_file_is_taken_once_by_whatever_path_it_is_called(
    command: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(command, tmp_path / "a.csv", "ts,x\n1,2\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "./a.csv", "b/../a.csv", "link.csv", str(tmp_path / "b/../a.csv")):
        done = command("append", name, "--stream", "new")
        assert "taken before and skipped" in done.err, name
    assert len(rows(command)) == 1


def test_nanoseconds_are_cut_and_counted(command: Commands, tmp_path: Path) -> None:
    for name, times, told in (("a", [1000], ""), ("b", [2001, 3000, -1], "2 times were finer")):
        table = pa.table({"ts": pa.array(times, pa.timestamp("ns")), "x": [1] * len(times)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
        path = tmp_path / f"{name}.parquet"
        done = command.succeeds("append", path, "--stream", "new", "--time", "ts")
        assert ("finer" in done.err) == bool(told)
        assert told in done.err
    micros = [row["ts"].replace(tzinfo=UTC) for row in rows(command)]
    assert [round(one.timestamp() * 1e6) for one in micros] == [-1, 1, 2, 3]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--delimiter", ";;"), "give one ASCII sign"),
        (("--encoding", "utf-99"), "no encoding 'utf-99'"),
        (("--flatten",), "for JSON files"),
        (("--schema", "x NUMBR"), "cannot be of type 'NUMBR'"),
        (("--schema", "y INT"), "has a column 'y'"),
        (("--time-format", "dd/MM"), "it reads no year"),
        (("--time-unit", "s", "--time-format", "yyyy"), "give one"),
    ],
)
def test_options_that_cannot_apply_are_refused(
    command: Commands, tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    assert_refused(take(command, tmp_path / "a.csv", "ts,x\n1,2\n", *given), said)
    assert not (command.store / "new").exists()
