"""Events come from whatever holds Arrow data, and an answer is one more that does."""

import numpy as np
import pandas as pd  # noqa: TID251 -- users have frames
import pyarrow as pa
import pytest

import chronicle
from chronicle.frames import to_table

ROWS = [{"t": 1, "x": 0.5}, {"t": 2, "x": 1.5}, {"t": 4, "x": 9.0}]
TABLE = pa.Table.from_pylist(ROWS)


class Foreign:
    """A frame of another library: it has no more in common with Arrow than the protocol."""

    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.__arrow_c_stream__(requested_schema)


FRAMES = {
    "table": TABLE,
    "batch": TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "pandas": pd.DataFrame(ROWS),
    "pandas, rows taken out": pd.DataFrame([{"t": 0, "x": 0.0}, *ROWS]).query("t > 0"),
    "pandas, time in the index": pd.DataFrame(ROWS).set_index("t"),
    "foreign": Foreign(),
}


@pytest.fixture(params=FRAMES)
def frame(request):
    given = FRAMES[request.param]
    return given() if request.param == "reader" else given


def test_a_frame_is_asked_like_a_table(frame):
    result = chronicle.query({"s": frame}, "SELECT t, x FROM s WHERE x > 1")
    assert list(result) == ROWS[1:]


def test_a_frame_is_appended_like_a_table(frame, tmp_path):
    store = chronicle.create_store(tmp_path / "store")
    schema = pa.schema([("t", pa.int64()), ("x", pa.float64())])
    stream = store.create_stream("s", schema, chronicle.StreamSettings(time="t"))
    assert stream.append(frame).n_events == 3
    assert list(chronicle.query(store, "SELECT t, x FROM s")) == ROWS


def test_a_frame_is_pushed_like_a_table(frame):
    online = chronicle.online("SELECT t, x FROM s WHERE x > 1", TABLE.schema, time="t")
    found = [online.push(frame), online.finish()]
    assert pa.concat_tables(found).to_pylist() == ROWS[1:]


NAMES = pa.array(["a", None, "b"])
CODES = pa.array([0, None, 1], pa.uint32())
WORDS = pa.array(["a", "b"]).cast(pa.string_view())


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (NAMES.cast(pa.string_view()), "v = 'b'"),
        (pa.DictionaryArray.from_arrays(CODES, WORDS), "v > 'a'"),
        (pa.array([5, None, 7]).dictionary_encode(), "v > 6"),
        (pa.array([0, None, 2**32 - 1], pa.uint32()), "v = 4294967295"),
        (pa.array([0, None, 2**63 - 1], pa.uint64()), "v > 9223372036854775806"),
        (pa.array(np.array([0, 1, 0.5], np.float16)), "v = 0.5"),
    ],
)  # fmt: skip
def test_columns_in_types_of_polars_are_asked_and_appended(column, condition, tmp_path):
    frame = TABLE.append_column("v", column)
    sql = f"SELECT t, v FROM s WHERE {condition}"
    expected = [{"t": 4, "v": column[2].as_py()}]
    assert list(chronicle.query({"s": frame}, sql)) == expected

    store = chronicle.create_store(tmp_path / "store")
    taken = to_table(frame, what="the frame").schema
    stream = store.create_stream("s", taken, chronicle.StreamSettings(time="t"))
    assert stream.append(frame).n_events == 3
    assert list(chronicle.query(store, sql)) == expected


def test_an_unsigned_number_that_does_not_fit_is_refused():
    frame = TABLE.append_column("v", pa.array([0, 1, 2**63], pa.uint64()))
    with pytest.raises(chronicle.BindError, match="attribute 'v' has the type uint64"):
        chronicle.query({"s": frame}, "SELECT t FROM s WHERE v = 1")


def test_an_answer_is_asked_again():
    first = chronicle.query({"s": TABLE}, "SELECT t, x FROM s WHERE x > 1")
    assert list(chronicle.query({"s": first}, "SELECT x FROM s WHERE t = 4")) == [{"x": 9.0}]


@pytest.mark.parametrize("data", [ROWS, {"t": [1]}, None, np.arange(3)])
def test_what_holds_no_arrow_data_is_refused_with_the_way_out(data):
    with pytest.raises(TypeError, match=r"give a pyarrow.Table, a frame of pandas or Polars"):
        chronicle.query({"s": data}, "SELECT t FROM s")


def test_an_index_that_holds_times_without_a_name_is_not_left_out_in_silence():
    times = pd.DatetimeIndex(["2026-01-01", "2026-01-02"])
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=times)
    with pytest.raises(chronicle.SchemaError, match=r"frame.index.name = 'time'"):
        to_table(frame, what="the frame")


def test_a_column_that_is_no_column_of_arrow_is_told():
    frame = pd.DataFrame({"t": [1, 2], "x": [1, "two"]})
    with pytest.raises(chronicle.SchemaError, match="the frame cannot be taken as a table"):
        to_table(frame, what="the frame")


def test_times_of_pandas_are_taken_where_microseconds_hold_them(tmp_path):
    times = pd.date_range("2026-01-01", periods=3, freq="s")
    frame = pd.DataFrame({"t": times, "x": [1.0, 2.0, 3.0]})
    schema = pa.schema([("t", pa.timestamp("us")), ("x", pa.float64())])
    store = chronicle.create_store(tmp_path / "store")
    stream = store.create_stream("s", schema, chronicle.StreamSettings(time="t"))
    assert stream.append(frame).n_events == 3
    for source in (store, {"s": frame}):
        found = chronicle.query(source, "SELECT t FROM s WHERE x > 1")
        assert found["t"].to_pylist() == times[1:].to_pydatetime().tolist()


def test_times_finer_than_microseconds_are_cut_and_counted():
    frame = pd.DataFrame({"t": pd.to_datetime([-1, 1001, 3000], unit="ns"), "x": [1.0, 2.0, 3.0]})
    with pytest.warns(UserWarning, match="2 times in column 't' of table 's' were finer .* cut"):
        found = chronicle.query({"s": frame}, "SELECT t FROM s")
    assert found.table["t"].cast(pa.int64()).to_pylist() == [-1, 1, 3]


def test_times_beyond_all_microseconds_are_told():
    table = pa.table({"t": [1], "at": pa.array([2**62], pa.timestamp("s"))})
    with pytest.raises(
        chronicle.SchemaError, match=r"a row of table 's' cannot be read: .* out of"
    ):
        chronicle.query({"s": table}, "SELECT at FROM s")
    flow = chronicle.online("SELECT at FROM s", table.schema, time="t")
    with pytest.raises(chronicle.SchemaError, match=r"an event does not fit the query: .* out of"):
        flow.push(table)


# ---------------------------------------------------------------------------------------------
# An answer as Python and other libraries see it

ANSWER = [{"t": number, "x": number / 2} for number in range(10_000)]


@pytest.fixture(scope="module")
def result():
    return chronicle.query({"s": pa.Table.from_pylist(ANSWER)}, "SELECT t, x FROM s")


def test_iterating_gives_the_rows_in_order(result):
    assert list(result) == ANSWER
    assert len(result) == len(ANSWER)


@pytest.mark.parametrize("row", [0, 9_999, -1, -10_000])
def test_a_number_gives_a_row_as_of_a_list(result, row):
    assert result[row] == ANSWER[row]


@pytest.mark.parametrize("row", [10_000, -10_001])
def test_a_row_that_is_not_there_is_an_index_error(result, row):
    with pytest.raises(IndexError, match="answer of 10,000 rows"):
        result[row]


@pytest.mark.parametrize(
    "rows", [slice(3, 9), slice(-5, None), slice(None, None, -1), slice(2, 20, 5), slice(9, 3)]
)
def test_a_slice_gives_a_table_as_of_a_list(result, rows):
    assert result[rows].to_pylist() == ANSWER[rows]


def test_a_name_gives_a_column(result):
    assert result["x"].to_pylist() == [row["x"] for row in ANSWER]
    with pytest.raises(KeyError, match="no column 'xx' in the answer"):
        result["xx"]


def test_whatever_takes_arrow_data_takes_a_result(result):
    assert pa.table(result).equals(result.table)
    assert pa.RecordBatchReader.from_stream(result).read_all().equals(result.table)


TWICE = {
    "table": pa.Table.from_arrays([pa.array([1])] * 3, names=["t", "x", "x"]),
    "pandas": pd.DataFrame([[1, 2, 3]], columns=["t", "x", "x"]),
}


@pytest.mark.parametrize("data", TWICE.values(), ids=TWICE)
def test_two_columns_of_one_name_are_refused_at_every_door(data, tmp_path):
    store = chronicle.create_store(tmp_path / "store")
    schema = pa.schema({"t": pa.int64(), "x": pa.int64()})
    stream = store.create_stream("s", schema, chronicle.StreamSettings(time="t"))
    doors = [
        lambda: chronicle.query({"s": data}, "SELECT t FROM s"),
        lambda: chronicle.query(store, "SELECT t FROM d JOIN s USING (t)", tables={"d": data}),
        lambda: stream.append(data),
        lambda: chronicle.online("SELECT t FROM s WHERE x > 0", schema, time="t").push(data),
    ]
    for door in doors:
        with pytest.raises(chronicle.ChronicleError, match="'x'"):
            door()
    assert len(chronicle.query(store, "SELECT t FROM s")) == 0


FAR = 300_000_000_000_000_000  # of microseconds: the year 11476
FAR_TIMES = {
    "time": pa.array([FAR], pa.timestamp("us")),
    "instant": pa.array([FAR], pa.timestamp("us", "UTC")),
    "day before the year 1": pa.array([-4_000_000], pa.date32()),
}


@pytest.mark.parametrize("column", FAR_TIMES.values(), ids=FAR_TIMES)
def test_rows_with_a_time_that_python_has_none_of_name_its_column(column):
    result = chronicle.query({"s": pa.table({"t": [1], "far": column})}, "SELECT t, far FROM s")
    for rows in (lambda: list(result), lambda: result[0]):
        with pytest.raises(chronicle.QueryError, match=r"column 'far' .* years 1 to 9999"):
            rows()
    assert result.table["far"].combine_chunks().equals(column)
    assert len(result._repr_html_()) > 10
