"""Compiled pages against what Parquet's own writer was given."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexing.kernels import decode_optional, decode_page, order_groups, stable_order

_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
_SCHEMA = pa.schema([pa.field("x", pa.int64(), nullable=False)])


def page_of(values: np.ndarray) -> tuple[bytes, int]:
    """Write a column of one page; return the file and where the page's values start."""
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"x": values}, schema=_SCHEMA), sink, compression="none", use_dictionary=False,
        column_encoding={"x": "DELTA_BINARY_PACKED"}, write_statistics=False,
        max_rows_per_page=1 << 30, store_schema=False,
    )  # fmt: skip
    content = sink.getvalue()
    # The page starts with varints: values per block (256), blocks (4), number of values, ...
    head = b"\x80\x02\x04" + _varint(len(values))
    return content, content.index(head)


def _varint(number: int) -> bytes:
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def decoded(values: np.ndarray, *, shift: int = 0, scale: int = 1) -> np.ndarray:
    content, at = page_of(values)
    data = np.frombuffer(content + bytes(8), dtype=np.uint8).copy()
    words = np.ndarray((len(content) + 1,), np.int64, data.data, 0, (1,))
    out = np.empty(len(values), dtype=np.int64)
    with np.errstate(over="ignore"):  # sums wrap around, compiled or not
        decode_page(data, words, at, shift, scale, out)
    return out


@settings(deadline=None)
@given(st.lists(st.one_of(_INT64, st.integers(-3, 3)), min_size=1, max_size=600))
@example([0])
@example([-(1 << 63), (1 << 63) - 1] * 150)
@example([0, 1 << 57, 0, (1 << 58) - 1, 5, 1 << 62])
def test_page_of_any_integers_is_read_back(numbers: list[int]) -> None:
    values = np.array(numbers, dtype=np.int64)
    assert decoded(values).tolist() == numbers


@pytest.mark.parametrize("width", range(65))
def test_differences_of_every_width_are_read_back(width: int) -> None:
    rng = np.random.default_rng(width)
    steps = rng.integers(0, 1 << width, 700, dtype=np.uint64, endpoint=width < 64) if width else 0
    with np.errstate(over="ignore"):
        values = np.cumsum(np.zeros(700, dtype=np.uint64) + steps).astype(np.int64)
    assert np.array_equal(decoded(values), values)


@settings(deadline=None)
@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=300), st.integers(0, 1 << 40))
def test_shift_is_added_to_every_value(numbers: list[int], shift: int) -> None:
    assert decoded(np.array(numbers), shift=shift).tolist() == [n + shift for n in numbers]


@settings(deadline=None)
@given(
    st.lists(st.one_of(_INT64, st.integers(-3, 3)), min_size=1, max_size=300), st.integers(1, 99)
)
def test_every_value_is_scaled(numbers: list[int], scale: int) -> None:
    wrapped = [((n * scale + 7 + (1 << 63)) % (1 << 64)) - (1 << 63) for n in numbers]
    assert decoded(np.array(numbers), shift=7, scale=scale).tolist() == wrapped


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(0, 5), _INT64), min_size=1, max_size=400),
    st.booleans(),
)
@example([None] * 20, True)
@example([None] * 20, False)
@example([7] * 300, True)
def test_page_with_nulls_is_read_back(values: list[int | None], is_coded: bool) -> None:
    sink = io.BytesIO()
    encoding = {} if is_coded else {"x": "DELTA_BINARY_PACKED"}
    pq.write_table(
        pa.table({"x": pa.array(values, pa.int64())}), sink, compression="none",
        use_dictionary=is_coded, column_encoding=encoding or None, write_statistics=False,
        max_rows_per_page=1 << 30, store_schema=False,
    )  # fmt: skip
    content = sink.getvalue()
    chunk = pq.read_metadata(sink).row_group(0).column(0)
    # The page ends where the column does, and its values start with the length of the levels.
    page = content[chunk.data_page_offset : 4 + chunk.total_compressed_size]
    at = chunk.data_page_offset + _header_length(page)
    data = np.frombuffer(content + bytes(8), dtype=np.uint8).copy()
    words = np.ndarray((len(content) + 1,), np.int64, data.data, 0, (1,))
    out, valid = np.empty(len(values), dtype=np.int64), np.empty(len(values), dtype=bool)
    with np.errstate(over="ignore"):
        n_valid = decode_optional(data, words, at, is_coded, out, valid)
    assert n_valid == sum(value is not None for value in values)
    assert valid.tolist() == [value is not None for value in values]
    if is_coded:  # codes count the different values in the order they come first
        seen = list(dict.fromkeys(value for value in values if value is not None))
        expected = [0 if value is None else seen.index(value) for value in values]
    else:
        expected = [0 if value is None else value for value in values]
    assert out.tolist() == expected


def _header_length(page: bytes) -> int:
    """Return the length of a page's header: what precedes the uncompressed size it tells."""
    numbers, at = [], 0
    for _ in range(2):
        at, number, shift = at + 1, 0, 0
        while page[at] >= 128:
            number, shift, at = number | (page[at] & 127) << shift, shift + 7, at + 1
        numbers.append((number | page[at] << shift) >> 1)
        at += 1
    return len(page) - numbers[1]


@settings(deadline=None)
@given(st.one_of(st.lists(st.integers(-3, 3), max_size=300), st.lists(_INT64, max_size=50)))
@example([-(1 << 63), (1 << 63) - 1, 0, -1])
@example([1 << 40, 5, 1 << 40, 5 + (1 << 22)])
def test_places_are_in_stable_order(numbers: list[int]) -> None:
    array = np.array(numbers, dtype=np.int64)
    with np.errstate(over="ignore"):
        found = stable_order(array)
    assert found.tolist() == sorted(range(len(numbers)), key=lambda i: numbers[i])


@settings(deadline=None)
@given(st.permutations(range(12)), st.lists(st.integers(0, 12), max_size=4))
def test_groups_are_ordered_by_position(position: list[int], cuts: list[int]) -> None:
    order = np.arange(12)
    borders = [0, *sorted(cuts), 12]
    order_groups(order, np.array(position), np.array(borders))
    for first, end in pairwise(borders):
        group = order[first:end].tolist()
        assert group == sorted(range(first, end), key=lambda place: position[place])
