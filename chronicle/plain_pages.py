"""Decodes column chunks of one plain page each, as tree files have them, without parsing more."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.summary import Ints

CODEC = "lz4"
"""Compression of the pages. Zstandard takes a third less and ten times as long for a small page."""

_PAGE_CODEC = "lz4_raw"  # what Parquet calls LZ4 today is not framed
_NEXT_I32 = 0x15  # of Thrift's compact protocol: the field after the one before, an int32
_LEVELS_LENGTH = 4  # bytes that say how long the definition levels of a nullable column are


def page_body(chunk: memoryview) -> bytes:
    """Return what the page of a column chunk holds, decompressed.

    The page's header is Thrift and begins with type, size and compressed size.

    Raises
    ------
    ValueError
        If the chunk is no such page.
    """
    numbers, at = [], 0
    for _ in range(3):
        if chunk[at] != _NEXT_I32:
            raise ValueError("a page header does not start with three numbers")
        number, shift, at = 0, 0, at + 1
        while chunk[at] >= 0x80:
            number |= (chunk[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
        numbers.append((number | chunk[at] << shift) >> 1)
        at += 1
    _, size, compressed_size = numbers
    packed = chunk[len(chunk) - compressed_size :]
    body: bytes = pa.decompress(packed, decompressed_size=size, codec=_PAGE_CODEC, asbytes=True)
    return body


def numbers_of(body: bytes, n: int, data_type: type[np.int64 | np.float64]) -> npt.NDArray[Any]:
    """Return the ``n`` numbers a page ends with: all of a column that has no nulls."""
    return np.frombuffer(body, data_type, n, len(body) - 8 * n)


def filled_numbers(
    body: bytes, present: npt.NDArray[np.bool_], neutral: float, data_type: type[Any]
) -> npt.NDArray[Any]:
    """Return numbers of a nullable column, ``neutral`` where none is present."""
    n = int(present.sum())
    values = numbers_of(body, n, data_type)
    if n == len(present):
        return values
    filled = np.full(len(present), neutral, data_type)
    filled[present] = values
    return filled


def decimals_of(body: bytes, n: int) -> tuple[Ints, Ints]:
    """Return decimals of scale 0 as ``high * 2**32 + low``; 16 big-endian bytes each."""
    words = np.frombuffer(body, ">i8", 2 * n, len(body) - 16 * n).reshape(-1, 2).astype(np.int64)
    high = (words[:, 0] << 32) | ((words[:, 1] >> 32) & 0xFFFFFFFF)
    return high, words[:, 1] & 0xFFFFFFFF


def strings_of(body: bytes, present: npt.NDArray[np.bool_]) -> pa.StringArray:
    """Return strings of a nullable column: each a length of four bytes and its UTF-8."""
    at = _LEVELS_LENGTH + int.from_bytes(body[:_LEVELS_LENGTH], "little")
    words, lengths = [], []
    for is_present in present.tolist():
        length = int.from_bytes(body[at : at + 4], "little") if is_present else 0
        lengths.append(length)
        if is_present:
            words.append(body[at + 4 : at + 4 + length])
            at += 4 + length
    # Made of buffers: a list of Python objects would make Arrow look for pandas.
    offsets = np.zeros(len(present) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [pa.py_buffer(offsets), pa.py_buffer(b"".join(words)), validity]
    return pa.StringArray.from_buffers(len(present), *buffers)
