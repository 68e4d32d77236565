"""A matcher's state as bytes: a versioned header and arrays, nothing that can run code."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.operators.matches import Matches, MatchRows
from replay.operators.prepared import Key, Prepared
from replay.operators.program import MatchProgram, deferred
from replay.operators.search import Rows

IntArray = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]

VERSION = 1

_ROWS = ("words", "times", "leaves", "known", "seq", "group")
_MATCHES = ("first_seq", "last_seq", "number", "classifier", "anchors")
_MATCH_ROWS = ("offsets", "seq", "symbol", "excluded", "moved")


@dataclass(frozen=True, slots=True)
class MatcherState:
    """What a matcher knows between two batches."""

    rows: Rows | None
    """Rows of starts not decided yet."""
    n_inbox: int
    """How many of them, the last ones, were not searched yet."""
    deferred: tuple[tuple[Prepared, int], ...]
    """Batches that cannot be evaluated before all rows are there, with their first ``seq``."""
    matches: Matches | None
    """Found and not taken."""
    strings: tuple[str, ...]
    partition_keys: tuple[Key, ...]
    partitions: IntArray
    numbers: dict[str, int | None]
    failure: tuple[str, int] | None
    """Message and first ``seq`` of a `SkipError`."""


def to_bytes(state: MatcherState, program: MatchProgram) -> bytes:
    """Return the state as bytes.

    They are a NumPy archive (.npz) without pickled objects; the entry ``header`` is JSON.
    """
    header = {
        "version": VERSION,
        "query": program.fingerprint,
        "n_inbox": state.n_inbox,
        "strings": state.strings,
        "partition_keys": state.partition_keys,
        "numbers": state.numbers,
        "failure": state.failure,
        "deferred": [first for _, first in state.deferred],
    }
    arrays: Arrays = {"header": _bytes(json.dumps(header).encode()), "partitions": state.partitions}
    if state.rows is not None:
        arrays |= _fields("rows", state.rows, _ROWS)
    if state.matches is not None:
        arrays |= _fields("matches", state.matches, _MATCHES)
        if state.matches.rows is not None:
            arrays |= _fields("match_rows", state.matches.rows, _MATCH_ROWS)
    for number, (batch, _) in enumerate(state.deferred):
        assert batch.table is not None
        arrays[f"deferred.{number}"] = _bytes(_to_ipc(batch.table))
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    return out.getvalue()


def from_bytes(snapshot: bytes, program: MatchProgram) -> MatcherState:
    """Return the state that `to_bytes` was given.

    Raises
    ------
    ValueError
        If the bytes are no snapshot, or one of another query or version.
    """
    try:
        with np.load(io.BytesIO(snapshot), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays["header"].tobytes())
        version, query = header["version"], header["query"]
    except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ValueError("these bytes are no snapshot of a matcher") from error
    if version != VERSION:
        raise ValueError(f"a snapshot of version {version}; this matcher reads version {VERSION}")
    if query != program.fingerprint:
        raise ValueError("a snapshot of another query; restore it into a matcher of its own query")
    rows = matches = None
    if "rows.words" in arrays:
        rows = Rows(**_take("rows", arrays, _ROWS))
    if "matches.number" in arrays:
        match_rows = None
        if "match_rows.seq" in arrays:
            match_rows = MatchRows(**_take("match_rows", arrays, _MATCH_ROWS))
        matches = Matches(**_take("matches", arrays, _MATCHES), rows=match_rows)
    tables = [_from_ipc(arrays[f"deferred.{k}"]) for k in range(len(header["deferred"]))]
    return MatcherState(
        rows=rows,
        n_inbox=header["n_inbox"],
        deferred=tuple(zip(map(deferred, tables), header["deferred"], strict=True)),
        matches=matches,
        strings=tuple(header["strings"]),
        partition_keys=tuple(_to_key(key) for key in header["partition_keys"]),
        partitions=arrays["partitions"],
        numbers=header["numbers"],
        failure=None if header["failure"] is None else tuple(header["failure"]),
    )


def _bytes(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _fields(name: str, of: object, fields: tuple[str, ...]) -> Arrays:
    present = ((field, getattr(of, field)) for field in fields)
    return {f"{name}.{field}": array for field, array in present if array is not None}


def _take(name: str, arrays: Arrays, fields: tuple[str, ...]) -> dict[str, Any]:
    return {f: arrays[f"{name}.{f}"] for f in fields if f"{name}.{f}" in arrays}


def _to_key(key: list[Any]) -> Key:
    """Return a key of PARTITION BY; JSON made lists of its tuples."""
    return tuple(tuple(part) if isinstance(part, list) else part for part in key)


def _to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _from_ipc(data: npt.NDArray[np.uint8]) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
