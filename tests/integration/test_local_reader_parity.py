"""A file has the same outcome by ``append`` and by ingest on Spark: events, quarantine, reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle import StreamSettings, delta_log
from chronicle.errors import ChronicleError
from chronicle.ingest import IngestOptions, ingest
from chronicle.local.append_files import AppendOptions, append_files
from chronicle.store import Store, create_store
from tests.ingest_files import Row, read_rows
from tests.nasty_texts import (
    JSON_NUMBERS,
    JSON_VALUES,
    NUMBERS,
    OBJECTS,
    OPEN_QUOTES,
    QUOTES,
    TIMES,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def times_of(cells: list[str]) -> str:
    return "t,x\n" + "".join(f"{quoted(cell)},{n}\n" for n, cell in enumerate(cells))


def json_times_of(cells: list[str]) -> str:
    values = [*(json.dumps(cell) for cell in cells), "5", '""', "null"]
    return "".join(f'{{"t": {value}, "x": {n}}}\n' for n, value in enumerate(values))


def with_open_quotes(first: str, last: str) -> str:
    """Every quote that its line leaves open, each closed by the next line; the last by none."""
    records = [f'{first}{line}{last}\n1",2,3,4\n1,2,3,4\n' for line in OPEN_QUOTES]
    return "".join(records) + '5,6,7,"8\n9,10,11,12'


TYPES: dict[str, pa.DataType] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "bool": pa.bool_(),
    "decimal": pa.decimal128(5, 2),
    "date": pa.date32(),
    "local": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}


def of_all_types(*, with_int8: bool = True) -> pa.Schema:
    kinds = [kind for kind in TYPES if with_int8 or kind != "int8"]
    return pa.schema([("t", pa.int64()), *((kind, TYPES[kind]) for kind in kinds)])


def csv_of_all_types() -> str:
    """Every nasty cell in a column of every type, in a record of its own."""
    names = of_all_types().names
    lines = [",".join(names)]
    for place in range(1, len(names)):
        for cell in (*NUMBERS, *TIMES):
            row = [str(len(lines)), *[""] * (len(names) - 1)]
            row[place] = quoted(cell)
            lines.append(",".join(row))
    return "\n".join(lines) + "\n"


def json_of_all_types() -> str:
    texts = [json.dumps(text) for text in TIMES if not text.isdigit()]
    values = [*JSON_VALUES, *JSON_NUMBERS, *texts, '"aGk="', '"aGk"', '"!!"']
    names = of_all_types(with_int8=False).names[1:]
    records = [(name, value) for name in names for value in values]
    return "".join(f'{{"t": {n}, "{name}": {value}}}\n' for n, (name, value) in enumerate(records))


def stream_of(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


INTEGERS = stream_of(t=pa.int64(), x=pa.int64())
LOCAL_TIMES = stream_of(t=pa.timestamp("us"), x=pa.int64())
INSTANTS = stream_of(t=pa.timestamp("us", "UTC"), x=pa.int64())
STRINGS = stream_of(t=pa.int64(), x=pa.string(), y=pa.string(), s=pa.string())
ONE_STRING = stream_of(t=pa.int64(), s=pa.string())
CHICAGO = {"time_zone": "America/Chicago"}
ALL_TIMES = [*TIMES, "", " "]

CASES = {
    "types.csv": (csv_of_all_types(), of_all_types(), {}),
    "types.json": (json_of_all_types(), of_all_types(with_int8=False), {}),
    "quotes.csv": ("s,x,y,t\n" + "".join(f"{line},1\n" for line in QUOTES), STRINGS, {}),
    "quotes at the end.csv": ("t,x,y,s\n" + "".join(f"1,{q}\n" for q in QUOTES), STRINGS, {}),
    "open quotes.csv": ("s,x,y,t\n" + with_open_quotes("", ",1"), STRINGS, {}),
    "open quotes at the end.csv": ("t,x,y,s\n" + with_open_quotes("1,", ""), STRINGS, {}),
    "open header.csv": ('t,"s\nx"\n1,2\n', ONE_STRING, {}),
    "one column with open quotes.csv": ('t\n1\n"2\n3\n"\n4\n', stream_of(t=pa.int64()), {}),
    "line ends.csv": ('t,s\r\n1,a\r\n\r\n2,b\r3,c\n4,"d"\r\n,e\r\n5,"f\ng"\r\n', ONE_STRING, {}),
    "bytes.csv": (b"\xef\xbb\xbft,s\n1,a\xff\xfec\n2,\xe2\x82\nx,\xf0\x9f\x98\n", ONE_STRING, {}),
    "column.csv": ('t\n1\n \n"2"\n""\nx\n3"\n"4\n', stream_of(t=pa.int64()), {}),
    "local times.csv": (times_of(ALL_TIMES), LOCAL_TIMES, {}),
    "instants.csv": (times_of(ALL_TIMES), INSTANTS, {}),
    "of Chicago.csv": (times_of(ALL_TIMES), INSTANTS, CHICAGO),
    "of Chicago.json": (json_times_of(ALL_TIMES), INSTANTS, CHICAGO),
    "of an offset.csv": (times_of(ALL_TIMES), INSTANTS, {"time_zone": "+05:30"}),
    "zone that does not fit.csv": (times_of(TIMES), LOCAL_TIMES, CHICAGO),
    "no such zone.csv": (times_of(TIMES), INSTANTS, {"time_zone": "Mars/Olympus"}),
    "other columns.csv": ("t,y\n1,2\n", INTEGERS, {}),
    "no time.csv": ("x\n1\n", INTEGERS, {}),
    "nothing usable.csv": ("t,x\n,2\nx,3\n", INTEGERS, {}),
    "objects.json": ("\n".join(OBJECTS) + "\n", stream_of(t=pa.int64(), a=pa.int64()), {}),
    "objects as text.json": ("\n".join(OBJECTS), stream_of(t=pa.int64(), a=pa.string()), {}),
    "bytes.json": (b'{"t": 1, "s": "x\xff"}\n{"t": 2, "s": "y"}\r{"t": 3}\r\n', ONE_STRING, {}),
    "unknown column.json": ('{"t": 1, "y": 5}\n', INTEGERS, {}),
}
KNOWN_WORDS = {
    "nothing was ingested": "nothing was appended",
    "check --time, --time-format and --schema": "check --time and the columns' types",
}
"""What the two say differently, because their options differ."""


def quarantined(store: Store) -> list[tuple[str, str]]:
    table = store.path / "s" / "quarantine"
    if not table.exists():
        return []
    files = [table / file.name for file in delta_log.live_files(table)]
    rows: list[Row] = pa.concat_tables([pq.read_table(file) for file in files]).to_pylist()
    return sorted((row["reason"], row["record"]) for row in rows)


def outcome(store: Store, take: Any) -> Any:
    """What is in the stream and its quarantine afterwards, or the words of a refusal."""
    try:
        take(store)
    except ChronicleError as error:
        said = str(error)
        for spark, local in KNOWN_WORDS.items():
            said = said.replace(spark, local)
        return type(error).__name__, said
    return sorted(map(repr, to_rows(store))), quarantined(store)


def to_rows(store: Store) -> list[Row]:
    """Return rows, times and dates as numbers: some lie beyond Python's years."""
    snapshot = store.stream("s").snapshot()
    table = snapshot.read_blocks(range(snapshot.n_blocks), snapshot.schema.names)
    for at, one in enumerate(table.schema):
        if pa.types.is_timestamp(one.type):
            table = table.set_column(at, one.name, table.column(at).cast(pa.int64()))
        elif pa.types.is_date(one.type):
            table = table.set_column(at, one.name, table.column(at).cast(pa.int32()))
    rows: list[Row] = table.to_pylist()
    return rows


@pytest.mark.parametrize("name", CASES)
def test_file_has_the_same_outcome_with_and_without_spark(tmp_path: Path, name: str) -> None:
    text, schema, given = CASES[name]
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    stores = []
    for folder in ("spark", "local"):
        store = create_store(tmp_path / folder)
        store.create_stream("s", schema, StreamSettings(time="t"))
        stores.append(store)
    options = IngestOptions(time="t", **given)
    by_spark = outcome(stores[0], lambda store: ingest(store, "s", [path], options))
    by_append = outcome(
        stores[1], lambda store: append_files(store, "s", [path], AppendOptions(**given))
    )
    assert by_append == by_spark


FIRST = {
    "a.csv": "t,i,f,b,d,l,z,s,n\n2020-01-01,1,1.5,true,2020-01-02,2020-01-02 00:00:01,"
    "2020-01-02T00:00:01Z,x,\n2020-01-02,2,2,FALSE,2020-01-03,2020-01-02,2020-01-02T00:00:01+02:00,"
    "5,\n",
    "b.csv": "t,x,y\n5,1,1\n6,a,1.5\n",
    "c.csv": "t,x\n2020-01-01T00:00:00Z,1\n",
    "d.json": '{"t": 1, "i": 1, "f": 1, "s": "x", "b": true, "m": 1, "n": null}\n'
    '{"t": 2, "i": -5, "f": 1.5, "s": "y", "b": false, "m": "x"}\n',
    "e.json": '{"t": "2020-01-01T00:00:00", "x": 1}\n',
    "h.csv": "t,y,m\n1,2020-01,2020-1-2\n2,2021-02,2020-01-02\n",
    "i.csv": "t,x,y,z\n1,99999999999999999999,1,2020\n2,1,true,2020-01-01\n",
    "f.csv": "t,x\n1.5,1\n",
    "k.csv": 't,x,s\n35,2,"a\n36,3,b"\n37,1,c\n38,1,"d\nx,y,z\n',
    "l.csv": 's,t\n"a\n",2020-01-01T00:00:00Z\nb,2020-01-01T00:00:00Z\n',
    "g.json": '{"t": 1, "x": [1]}\n',
}


@pytest.mark.parametrize("name", FIRST)
def test_new_stream_has_the_same_columns_with_and_without_spark(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FIRST[name], encoding="utf-8")
    by_spark, by_append = create_store(tmp_path / "spark"), create_store(tmp_path / "local")
    refused = []
    for store, take in (
        (by_spark, lambda store: ingest(store, "s", [path], IngestOptions(time="t"))),
        (by_append, lambda store: append_files(store, "s", [path], AppendOptions(time="t"))),
    ):
        try:
            take(store)
        except ChronicleError as error:
            refused.append(type(error))
    if refused:
        assert len(refused) == 2
        assert refused[0] is refused[1]
        return
    assert by_append.stream("s").schema == by_spark.stream("s").schema
    assert read_rows(by_append) == read_rows(by_spark)


def test_parquet_has_the_same_outcome_with_and_without_spark(tmp_path: Path) -> None:
    times = pa.array([3, None, 1, 2**62, -(2**62), 2**62 - 1], pa.int64())
    table = pa.table(
        {"x": pa.array(["a", "b", None, "d", "e", "f"]).dictionary_encode(), "t": times}
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    outcomes = []
    for folder in ("spark", "local"):
        store = create_store(tmp_path / folder)
        store.create_stream("s", stream_of(t=pa.int64(), x=pa.string()), StreamSettings(time="t"))
        if folder == "spark":
            take = lambda store: ingest(store, "s", [path], IngestOptions(time="t"))  # noqa: E731
        else:
            take = lambda store: append_files(store, "s", [path], AppendOptions())  # noqa: E731
        outcomes.append(outcome(store, take))
    assert outcomes[1] == outcomes[0]
    assert len(outcomes[0][1]) == 3


@pytest.mark.parametrize(
    ("column", "zone"),
    [
        pytest.param(pa.array([0, None, 18262], pa.date32()), None, id="dates"),
        pytest.param(pa.array([0, None, 1], pa.timestamp("ms")), "America/Chicago", id="local"),
        pytest.param(pa.array(["2020-01-01", "x", None]), None, id="text"),
        pytest.param(pa.array([0, None, 1], pa.timestamp("us", "America/Chicago")), None, id="UTC"),
    ],
)
def test_times_of_parquet_are_read_alike_with_and_without_spark(
    tmp_path: Path, column: pa.Array, zone: str | None
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": column, "x": [1, 2, 3]}), path)
    by_spark, by_append = create_store(tmp_path / "spark"), create_store(tmp_path / "local")
    ingest(by_spark, "s", [path], IngestOptions(time="t", time_zone=zone))
    append_files(by_append, "s", [path], AppendOptions(time="t", time_zone=zone))
    assert by_append.stream("s").schema == by_spark.stream("s").schema
    assert read_rows(by_append) == read_rows(by_spark)
    assert quarantined(by_append) == quarantined(by_spark)
