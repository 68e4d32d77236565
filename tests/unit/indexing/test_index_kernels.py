"""Compiled pages against what Parquet's own writer was given."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexing.kernels import decode_page

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


def decoded(values: np.ndarray, *, shift: int = 0) -> np.ndarray:
    content, at = page_of(values)
    data = np.frombuffer(content + bytes(8), dtype=np.uint8).copy()
    words = np.ndarray((len(content) + 1,), np.int64, data.data, 0, (1,))
    out = np.empty(len(values), dtype=np.int64)
    with np.errstate(over="ignore"):  # sums wrap around, compiled or not
        decode_page(data, words, at, shift, out)
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
