"""State as bytes: JSON for what is small, raw parts for arrays and tables; nothing is executed."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.errors import QueryError

State = dict[str, Any]
"""What an operator knows between two batches, to be packed: values as JSON has them, ``bytes``,
NumPy arrays of numbers, and Arrow arrays and tables, in dicts and lists."""

MAGIC = b"chronicle-online"
_HEAD = struct.Struct("<IQ")
"""Checksum of all that follows, and the length of the JSON."""

_MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,  # Arrow's errors among them
    pa.ArrowException,
)

_PART = "part"
"""Key of what stands in the JSON for a part; no state has it."""


def pack(state: State) -> bytes:
    """Return a state as bytes."""
    parts: list[bytes] = []
    plain = _to_plain(state, parts)
    head = json.dumps({"state": plain, "lengths": [len(part) for part in parts]}).encode()
    body = head + b"".join(parts)
    return MAGIC + _HEAD.pack(zlib.crc32(body), len(head)) + body


def unpack(data: bytes) -> State:
    """Return what `pack` was given, with lists for its tuples; its arrays may be written to.

    Raises
    ------
    QueryError
        If the bytes are something else, or damaged.
    """
    start = len(MAGIC) + _HEAD.size
    if not data.startswith(MAGIC) or len(data) < start:
        raise QueryError("these bytes are no snapshot of an online query")
    checksum, n_head = _HEAD.unpack_from(data, len(MAGIC))
    body = data[start:]
    if zlib.crc32(body) != checksum:
        raise QueryError("the snapshot is damaged: its checksum does not fit")
    with stated():
        head = json.loads(body[:n_head])
        parts, at = [], n_head
        for length in head["lengths"]:
            parts.append(body[at : at + length])
            at += length
        state = _from_plain(head["state"], parts)
        if type(state) is not dict:
            raise ValueError("a state has names")
    return state


@contextmanager
def stated() -> Iterator[None]:
    """Turn what goes wrong while a snapshot is taken over into one error.

    A snapshot of right checksum may still hold anything: what is missing, of another type or of
    another length is not foreseen piece by piece.
    """
    try:
        yield
    except _MALFORMED as error:
        raise QueryError(
            "the snapshot does not hold the state of this query; go on from another one, in an "
            f"operator made anew ({type(error).__name__}: {error})"
        ) from error


def _to_plain(value: Any, parts: list[bytes]) -> Any:
    """Return a value as JSON has it; what is large is appended to the parts."""
    if isinstance(value, dict):
        assert _PART not in value
        return {name: _to_plain(inner, parts) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(inner, parts) for inner in value]
    about: dict[str, Any]
    if isinstance(value, bytes):
        about, part = {"as": "bytes"}, value
    elif isinstance(value, np.ndarray):
        about = {"as": "numbers", "type": value.dtype.str, "shape": value.shape}
        part = value.tobytes()
    elif isinstance(value, pa.Array):
        about, part = {"as": "array"}, _to_ipc(pa.table({"": value}))
    elif isinstance(value, pa.Table):
        about, part = {"as": "table"}, _to_ipc(value)
    else:
        return value
    parts.append(part)
    return {_PART: len(parts) - 1, **about}


def _from_plain(value: Any, parts: list[bytes]) -> Any:
    if isinstance(value, list):
        return [_from_plain(inner, parts) for inner in value]
    if not isinstance(value, dict):
        return value
    if _PART not in value:
        return {name: _from_plain(inner, parts) for name, inner in value.items()}
    part = parts[value[_PART]]
    match value["as"]:
        case "bytes":
            return part
        case "numbers":
            return _to_numbers(part, value["type"], tuple(value["shape"]))
        case "table":
            return _from_ipc(part)
    column = _from_ipc(part).column(0)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _to_numbers(part: bytes, kind: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    dtype = np.dtype(kind)
    if dtype.kind not in "biuf":
        raise ValueError(f"numbers cannot be of type {dtype}")
    return np.frombuffer(part, dtype).reshape(shape).copy()


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _from_ipc(part: bytes) -> pa.Table:
    table = pa.ipc.open_stream(part).read_all()
    table.validate(full=True)  # lengths, offsets and codes are followed without a look
    return table
