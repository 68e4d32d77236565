"""State as an Arrow stream: JSON for what is small, parts for arrays and tables; nothing is run."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.errors import QueryError

INT64: Final = np.iinfo(np.int64)

State = dict[str, Any]
"""What an operator knows between two batches, to be packed: values as JSON has them, ``bytes``,
NumPy arrays of numbers, and Arrow arrays and tables, in dicts and lists."""

FORMAT: Final = b"4"
"""Changes whenever a snapshot of an older version could be read wrongly."""

_OLD: Final = b"chronicle-online"
"""How snapshots of the formats before began, which were no Arrow stream."""

_FORMAT, _STATE, _CHECKSUM = b"chronicle.snapshot", b"chronicle.state", b"chronicle.crc32"
"""Keys of the metadata: the format, the JSON, and a checksum of the JSON and all parts."""

_OTHER_VERSION: Final = (
    "the snapshot was written by another version of Chronicle; push the events to an operator made "
    "anew, and take a snapshot of that"
)
_NO_SNAPSHOT: Final = "these bytes are no snapshot of an online query"

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
    """Return a state as an Arrow IPC stream of one column: JSON in its metadata, parts as rows."""
    parts: list[bytes] = []
    head = json.dumps(_to_plain(state, parts)).encode()
    metadata = {_FORMAT: FORMAT, _STATE: head, _CHECKSUM: _checksum(head, parts)}
    table = pa.table({"part": pa.array(parts, pa.large_binary())})
    return _to_ipc(table.replace_schema_metadata(metadata))


def unpack(data: bytes) -> State:
    """Return what `pack` was given, with lists for its tuples; its arrays may be written to."""
    if data.startswith(_OLD):
        raise QueryError(_OTHER_VERSION)
    try:
        table = _from_ipc(data)
    except (pa.ArrowException, OSError) as error:
        raise QueryError(_NO_SNAPSHOT) from error
    metadata = table.schema.metadata or {}
    if _FORMAT not in metadata:
        raise QueryError(_NO_SNAPSHOT)
    if metadata[_FORMAT] != FORMAT:
        raise QueryError(_OTHER_VERSION)
    with stated():
        head, parts = metadata[_STATE], table.column("part").to_pylist()
        if metadata[_CHECKSUM] != _checksum(head, parts):
            raise QueryError("the snapshot is damaged: its checksum does not fit")
        state = _from_plain(json.loads(head), parts)
        if type(state) is not dict:
            raise ValueError("a state has names")
    return state


def _checksum(head: bytes, parts: list[bytes]) -> bytes:
    crc = zlib.crc32(head)
    for part in parts:
        crc = zlib.crc32(part, zlib.crc32(len(part).to_bytes(8, "little"), crc))
    return str(crc).encode()


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


def integers(values: Any, shape: tuple[int, ...], low: int, high: int) -> npt.NDArray[np.int64]:
    """Return numbers of a state that compiled loops follow."""
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.shape != shape:
        raise ValueError("numbers are of another type or length than the rest of the state")
    if values.size and not low <= int(values.min()) <= int(values.max()) <= high:
        raise ValueError("numbers are beyond what the rest of the state has")
    return values


def integer(value: Any, low: int, high: int) -> int:
    """Return a number of a state."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError("a number is beyond what the rest of the state has")
    return value


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
