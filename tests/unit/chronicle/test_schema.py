"""Columns a stream can have, the remedy for those it cannot, and its settings."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SchemaError, StorageError
from chronicle.schema import check_same_schema, conform, normalise_schema
from chronicle.settings import StreamSettings


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
