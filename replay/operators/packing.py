"""State as bytes: JSON for what is small, raw parts for arrays and tables; nothing is executed."""

from __future__ import annotations

import json
import struct
import zlib
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
    head = json.loads(body[:n_head])
    parts, at = [], n_head
    for length in head["lengths"]:
        parts.append(body[at : at + length])
        at += length
    state: State = _from_plain(head["state"], parts)
    return state


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
    return np.frombuffer(part, np.dtype(kind)).reshape(shape).copy()


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _from_ipc(part: bytes) -> pa.Table:
    return pa.ipc.open_stream(part).read_all()
