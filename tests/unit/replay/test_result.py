"""A result as Python and other libraries see it."""

import pyarrow as pa
import pytest

import chronicle

ROWS = [{"t": number, "x": number / 2} for number in range(10_000)]


@pytest.fixture(scope="module")
def result():
    return chronicle.query({"s": pa.Table.from_pylist(ROWS)}, "SELECT t, x FROM s")


def test_iterating_gives_the_rows_in_order(result):
    assert list(result) == ROWS
    assert len(result) == len(ROWS)


@pytest.mark.parametrize("row", [0, 9_999, -1, -10_000])
def test_a_number_gives_a_row_as_of_a_list(result, row):
    assert result[row] == ROWS[row]


@pytest.mark.parametrize("row", [10_000, -10_001])
def test_a_row_that_is_not_there_is_an_index_error(result, row):
    with pytest.raises(IndexError, match="answer of 10,000 rows"):
        result[row]


@pytest.mark.parametrize(
    "rows", [slice(3, 9), slice(-5, None), slice(None, None, -1), slice(2, 20, 5), slice(9, 3)]
)
def test_a_slice_gives_a_table_as_of_a_list(result, rows):
    assert result[rows].to_pylist() == ROWS[rows]


def test_a_name_gives_a_column(result):
    assert result["x"].to_pylist() == [row["x"] for row in ROWS]
    with pytest.raises(KeyError, match="no column 'xx' in the answer"):
        result["xx"]


def test_whatever_takes_arrow_data_takes_a_result(result):
    assert pa.table(result).equals(result.table)
    assert pa.RecordBatchReader.from_stream(result).read_all().equals(result.table)
