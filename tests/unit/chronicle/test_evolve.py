"""Columns: which a stream can have and gain, and the remedy for those it cannot.

Where a stream gains one, old blocks read as null, and old versions stay as they were.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chronicle.errors import (
    CorruptBlockError,
    SchemaError,
    StorageError,
)
from chronicle.log import delta_log
from chronicle.schema import check_extends, check_same_schema, conform, normalise_schema
from chronicle.settings import StreamSettings
from chronicle.snapshot import Snapshot
from chronicle.store import open_store
from chronicle.tree.summarise import summarise
from chronicle.tree.summary import all_null, kind_of
from chronicle.type_names import type_named
from chronicle.write.commit import complete_derived
from chronicle.write.evolve import add_column, new_field
from tests.helpers import commit_table
from tests.unit.chronicle.stream_cases import SCHEMA, TICKS, events, make_stream, meet, ticks


def column(snapshot: Snapshot, name: str) -> list[object]:
    return snapshot.read_blocks(np.arange(snapshot.n_blocks), [name])[name].to_pylist()


def test_added_column_is_null_in_old_events_and_kept_in_new_ones(tmp_path: Path) -> None:
    stream = make_stream(tmp_path, [ticks(0, 10)], schema=TICKS, file_events=8)
    version = add_column(stream, "note", pa.string())
    assert stream.schema == pa.schema([*TICKS, ("note", pa.string())])
    commit_table(stream, ticks(10, 12).append_column("note", pa.array(["a", None])))
    snapshot = stream.snapshot()
    assert column(snapshot, "note") == [None] * 10 + ["a", None]
    assert column(snapshot, "x") == list(range(12))
    table = snapshot.read_blocks(np.arange(4), ["note", "t"])
    assert table.column_names == ["note", "t"]
    assert pa.types.is_dictionary(table.schema.field("note").type)
    assert snapshot.block_bytes(np.array([0]), ["note"]) == 0
    assert stream.snapshot(version).n_events == 10


def test_older_versions_lack_the_column(tmp_path: Path) -> None:
    stream = make_stream(tmp_path, [ticks(0, 10)], schema=TICKS, file_events=8)
    before = stream.snapshot()
    version = add_column(stream, "n", pa.int64())
    assert before.schema == stream.snapshot(version - 1).schema == TICKS
    with pytest.raises(SchemaError, match="no column 'n'"):
        stream.snapshot(version - 1).bounds("n")
    assert column(before, "x") == list(range(10))
    assert column(stream.snapshot(version), "n") == [None] * 10


def test_stream_opened_elsewhere_notices_with_the_next_snapshot(tmp_path: Path) -> None:
    stream = make_stream(tmp_path, [ticks(0, 10)], schema=TICKS, file_events=8)
    other = open_store(tmp_path / "store").stream(stream.name)
    held = other.snapshot()
    add_column(stream, "note", pa.string())
    commit_table(stream, ticks(10, 11).append_column("note", pa.array(["new"])))
    assert column(other.snapshot(), "note") == [None] * 10 + ["new"]
    assert other.schema.names == ["t", "x", "note"]
    assert column(held, "x") == list(range(10))


@pytest.mark.parametrize("name", SCHEMA.names[1:])
def test_summary_of_nothing_is_that_of_nulls(name: str) -> None:
    data_type = SCHEMA.field(name).type
    counts = np.array([3, 1, 2])
    made = all_null(kind_of(data_type), counts)
    found = summarise(pa.nulls(6, data_type), counts.tolist())
    assert made.kind is found.kind
    for mine, other in zip(made.columns(), found.columns(), strict=True):
        assert mine.tolist() == other.tolist()
        if isinstance(mine, np.ndarray) and len(mine):
            assert mine.dtype == other.dtype


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(events(), st.data())
def test_tree_over_an_added_column_is_that_of_a_stream_that_had_it(
    table: pa.Table, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(SCHEMA.names[1:]))
    cut = data.draw(st.integers(0, table.num_rows))
    others = [field for field in SCHEMA if field.name != name]
    schema = pa.schema([*others, SCHEMA.field(name)])
    old = table.slice(0, cut).drop_columns([name])
    nulls = old.append_column(name, pa.nulls(cut, SCHEMA.field(name).type))
    whole = pa.concat_tables([nulls.cast(schema), table.slice(cut).select(schema.names)])
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        stream = make_stream(Path(one), [old], schema=pa.schema(others))
        add_column(stream, name, SCHEMA.field(name).type)
        commit_table(stream, table.slice(cut))
        twin = make_stream(Path(two), [whole.slice(0, cut), whole.slice(cut)], schema=schema)
        found, expected = stream.snapshot(), twin.snapshot()
        assert found.n_blocks == expected.n_blocks
        for attribute in (name, "x"):
            ours, theirs = found.bounds(attribute), expected.bounds(attribute)
            assert ours.minimum.equals(theirs.minimum)
            assert ours.maximum.equals(theirs.maximum)
            assert ours.known.tolist() == theirs.known.tolist()
            assert ours.n_values.tolist() == theirs.n_values.tolist()
            if table.num_rows:
                start, stop = data.draw(st.tuples(*[st.integers(-60, 100)] * 2))
                assert repr(found.aggregate(start, stop, attribute)) == repr(
                    expected.aggregate(start, stop, attribute)
                )


def test_tree_file_that_lacks_a_column_its_data_file_has_is_not_believed(tmp_path: Path) -> None:
    # A process that opened the stream before the column came repaired the tree of a new file.
    stream = make_stream(tmp_path, [ticks(0, 10)], schema=TICKS, file_events=8)
    stale = open_store(tmp_path / "store").stream(stream.name)
    add_column(stream, "n", pa.int64())
    commit_table(stream, ticks(10, 12).append_column("n", pa.array([7, 8])))
    newest = stream.snapshot().files[-1].name
    (stream.path / "tree" / newest).unlink()
    complete_derived(stale, None)
    snapshot = open_store(tmp_path / "store").stream(stream.name).snapshot()
    assert snapshot.files[-1].has_tree
    assert snapshot.bounds("n").known.tolist() == [True, True, True, False]
    assert snapshot.aggregate(None, None, "n").sum == 15


def test_column_missing_by_damage_is_not_taken_for_an_added_one(tmp_path: Path) -> None:
    table = pa.table({"t": [1, 2], "price": [1.0, 2.0]})
    stream = make_stream(tmp_path, [table], schema=table.schema)
    path = stream.path / "events" / stream.snapshot().files[0].name
    # As files of format version 1 are, without checksums of the footer.
    for names in (["t", "qrice"], ["price", "t"], ["qrice"]):
        columns = [table.column(min(i, 1)) for i in range(len(names))]
        pq.write_table(pa.table(columns, names=names), path)
        snapshot = open_store(tmp_path / "store").stream(stream.name).snapshot()
        with pytest.raises(CorruptBlockError, match="its columns are"):
            snapshot.read_blocks(np.array([0]), ["price"])


@pytest.mark.parametrize(
    ("name", "data_type", "message"),
    [
        ("x", pa.float32(), r"column 'x' of type DOUBLE; columns can neither.*another name"),
        ("X", pa.float64(), "differ at most by case"),
        ("", pa.float64(), "cannot name a column"),
        (" y", pa.float64(), "cannot name a column"),
        ("y", pa.list_(pa.int8()), "flatten"),
    ],
)
def test_other_changes_are_refused_with_the_remedy(
    name: str, data_type: pa.DataType, message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        new_field(TICKS, name, data_type)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("double", pa.float64()),
        ("BIGINT", pa.int64()),
        (" string ", pa.string()),
        ("date", pa.date32()),
        ("int64", pa.int64()),
        ("smallint", pa.int16()),
        ("timestamp", pa.timestamp("us")),
        ("timestamp_utc", pa.timestamp("us", "UTC")),
    ],
)
def test_types_are_named_as_in_sql_or_arrow(text: str, expected: pa.DataType) -> None:
    assert type_named(text) == expected


def test_unknown_type_lists_what_there_is() -> None:
    with pytest.raises(SchemaError, match="no type 'money'; take TINYINT, "):
        type_named("money")


def test_column_is_added_though_others_commit_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make_stream(tmp_path, [ticks(0, 10)], schema=TICKS, file_events=8)
    other = open_store(tmp_path / "store").stream(stream.name)
    meet(monkeypatch, delta_log, "add_columns", lambda: commit_table(other, ticks(10, 20)))
    version = add_column(stream, "n", pa.int64())
    assert stream.snapshot().version == version
    assert column(stream.snapshot(), "n") == [None] * 20


def test_columns_that_another_program_changed_are_refused_until_restored(tmp_path: Path) -> None:
    for new in (
        TICKS.remove(0),
        TICKS.set(1, pa.field("x", pa.float32())),
        pa.schema([*TICKS][::-1]),
    ):
        with pytest.raises(SchemaError, match="restore the table"):
            check_extends(TICKS, new, where="ticks")
    check_extends(TICKS, TICKS.append(pa.field("n", pa.int64())), where="ticks")
    stream = make_stream(tmp_path, [ticks(0, 10)], schema=TICKS, file_events=8)
    log = stream.path / "events" / "_delta_log"
    version = stream.refresh()
    metadata = next(
        line for line in (log / f"{0:020d}.json").read_text().splitlines() if "metaData" in line
    )
    (log / f"{version + 1:020d}.json").write_text(metadata.replace("double", "string") + "\n")
    for _ in range(2):
        with pytest.raises((SchemaError, StorageError), match="another program"):
            stream.snapshot()


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.decimal128(10, 2), pa.decimal128(10, 2)),
        (pa.int8(), pa.int8()),
        (pa.float32(), pa.float32()),
        (pa.bool_(), pa.bool_()),
    ],
)
def test_types_are_stored_in_their_plain_form(given, stored):
    assert normalise_schema(pa.schema([("a", given)])).field("a").type == stored


@pytest.mark.parametrize(
    ("data_type", "remedy"),
    [
        (pa.uint32(), "cast it to int64"),
        (pa.timestamp("ns"), r"cast it to timestamp\[us\]"),
        (pa.float16(), "cast it to float"),
        (pa.list_(pa.int64()), "flatten"),
        (pa.struct([("x", pa.int64())]), "flatten"),
        (pa.null(), "drop the column"),
        (pa.time64("us"), "cast it to int64"),
        (pa.duration("s"), "cast it to int64"),
        (pa.decimal256(50, 2), "cast it or drop"),
    ],
)
def test_types_that_cannot_be_stored_say_the_remedy(data_type, remedy):
    with pytest.raises(SchemaError, match=f"column 'a' is .*{remedy}"):
        normalise_schema(pa.schema([("a", data_type)]))


def test_names_that_differ_only_by_case_are_refused():
    schema = pa.schema([("Price", pa.int64()), ("price", pa.int64())])
    with pytest.raises(SchemaError, match="'Price' and 'price'"):
        normalise_schema(schema)
    with pytest.raises(SchemaError, match="no column"):
        normalise_schema(pa.schema([]))


def test_column_order_and_plain_forms_do_not_matter():
    stored = pa.schema([("t", pa.timestamp("us")), ("s", pa.string())])
    given = pa.table(
        {"s": pa.array(["a"]).dictionary_encode(), "t": pa.array([1], pa.timestamp("s"))}
    )
    check_same_schema(given.schema, stored, where="here")
    table = conform(given, stored, where="here")
    assert table.schema.equals(stored)
    assert table["t"].cast(pa.int64()).to_pylist() == [1_000_000]


def test_events_of_another_schema_say_which_column():
    stored = pa.schema([("t", pa.int64()), ("s", pa.string())])
    for columns, message in (
        ({"t": [1]}, "lack column 's'.*nulls where there is no value"),
        (
            {"t": [1], "s": ["a"], "u": [1], "v": [1]},
            "have columns 'u', 'v' .*chronicle add-column",
        ),
        ({"t": [1], "s": [1]}, "'s' is BIGINT, the stream has STRING"),
    ):
        with pytest.raises(SchemaError, match=message):
            check_same_schema(pa.table(columns).schema, stored, where="file.csv")


def test_value_that_does_not_fit_is_refused():
    stored = pa.schema([("t", pa.timestamp("us"))])
    given = pa.table({"t": pa.array([2**62], pa.timestamp("s"))})
    with pytest.raises(SchemaError, match="does not fit"):
        conform(given, stored, where="file.csv")


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string()])
def test_text_that_is_not_utf8_is_refused(data_type: pa.DataType):
    stored = pa.schema([("s", pa.string())])
    texts = pa.array([b"fine", b"\xff\xfe"], pa.binary())
    given = pa.table({"s": texts.view(pa.string()).cast(data_type)})
    with pytest.raises(SchemaError, match=r"column 's' holds text that is not UTF-8 \(file\.csv\)"):
        conform(given, stored, where="file.csv")


def test_name_with_a_nul_is_refused():
    with pytest.raises(SchemaError, match="NUL"):
        normalise_schema(pa.schema([("a\0b", pa.int64())]))


@given(
    st.builds(
        StreamSettings,
        time=st.text(min_size=1, max_size=5),
        block_events=st.integers(1, 10**6),
        file_events=st.integers(1, 10**9),
        fan_out=st.integers(2, 100),
        key=st.none() | st.text(min_size=1, max_size=5),
    )
)
def test_settings_survive_as_properties(settings: StreamSettings):
    properties = {"delta.other": "1", **settings.to_properties()}
    assert StreamSettings.from_properties(properties) == settings


@pytest.mark.parametrize(
    "wrong", [{"block_events": 0}, {"file_events": 0}, {"fan_out": 1}], ids=str
)
def test_settings_out_of_range_are_refused(wrong: dict[str, int]):
    with pytest.raises(SchemaError, match=f"setting '{next(iter(wrong))}'"):
        StreamSettings("t", **wrong)


@pytest.mark.parametrize("change", [{"chronicle.time": None}, {"chronicle.fan_out": "many"}])
def test_missing_or_damaged_property_is_refused(change: dict[str, str | None]):
    properties = {**StreamSettings("t").to_properties(), **change}
    kept = {name: value for name, value in properties.items() if value is not None}
    with pytest.raises(StorageError, match="restore the table's properties"):
        StreamSettings.from_properties(kept)
