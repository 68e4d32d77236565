"""A strategy matcher's state as bytes: a versioned header and arrays, nothing that can run code."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.operators.prepared import Key, Prepared
from replay.operators.program import MatchProgram, deferred
from replay.operators.search import Rows
from replay.operators.strategies.enumeration import Cursor
from replay.operators.strategies.searches import Search, to_search

IntArray = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]

KIND = "strategy matcher"
VERSION = 1

_ROWS = ("words", "times", "leaves", "known", "seq", "group")


@dataclass(frozen=True, slots=True)
class StrategyState:
    """What a strategy matcher knows between two calls."""

    searches: tuple[Search, ...]
    """Those of finished stretches, then that of the open one if there is one."""
    has_open: bool
    inbox: tuple[Rows, ...]
    deferred: tuple[tuple[Prepared, int], ...]
    """Batches that cannot be evaluated before all rows are there, with their first ``seq``."""
    strings: tuple[str, ...]
    partition_keys: tuple[Key, ...]
    partitions: IntArray
    firsts: IntArray
    """``seq`` of each partition's first row, as far as asked for."""
    numbers: dict[str, int | None]


def to_bytes(state: StrategyState, program: MatchProgram) -> bytes:
    """Return the state as bytes.

    They are a NumPy archive (.npz) without pickled objects; the entry ``header`` is JSON.
    """
    header = {
        "kind": KIND,
        "version": VERSION,
        "query": program.fingerprint,
        "searches": [[s.newest, s.cursor.at, s.cursor.done, s.final] for s in state.searches],
        "has_open": state.has_open,
        "n_inbox": len(state.inbox),
        "deferred": [first for _, first in state.deferred],
        "strings": state.strings,
        "partition_keys": state.partition_keys,
        "numbers": state.numbers,
    }
    arrays: Arrays = {
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
        "partitions": state.partitions,
        "firsts": state.firsts,
    }
    for k, search in enumerate(state.searches):
        arrays |= _of_rows(f"search.{k}", search.ordered)
        arrays[f"cursor.{k}.rows"] = search.cursor.rows
        arrays[f"cursor.{k}.symbols"] = search.cursor.symbols
    for k, rows in enumerate(state.inbox):
        arrays |= _of_rows(f"inbox.{k}", rows)
    for k, (batch, _) in enumerate(state.deferred):
        assert batch.table is not None
        arrays[f"deferred.{k}"] = np.frombuffer(_to_ipc(batch.table), np.uint8)
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    return out.getvalue()


def from_bytes(snapshot: bytes, program: MatchProgram) -> StrategyState:
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
        kind, version, query = header.get("kind"), header["version"], header["query"]
    except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ValueError("these bytes are no snapshot of a matcher") from error
    if kind != KIND or query != program.fingerprint:
        raise ValueError("a snapshot of another query; restore it into a matcher of its own query")
    if version != VERSION:
        raise ValueError(f"a snapshot of version {version}; this matcher reads version {VERSION}")
    firsts = arrays["firsts"]
    asked = firsts if program.strategy is not None and program.strategy.asks_for_start else None
    searches = []
    for k, (newest, at, done, final) in enumerate(header["searches"]):
        search = to_search(_to_rows(f"search.{k}", arrays), asked, newest=newest)
        symbols = arrays[f"cursor.{k}.symbols"]
        search.cursor = Cursor(at, done, arrays[f"cursor.{k}.rows"], symbols)
        search.final = final
        searches.append(search)
    tables = [_from_ipc(arrays[f"deferred.{k}"]) for k in range(len(header["deferred"]))]
    return StrategyState(
        searches=tuple(searches),
        has_open=header["has_open"],
        inbox=tuple(_to_rows(f"inbox.{k}", arrays) for k in range(header["n_inbox"])),
        deferred=tuple(zip(map(deferred, tables), header["deferred"], strict=True)),
        strings=tuple(header["strings"]),
        partition_keys=tuple(_to_key(key) for key in header["partition_keys"]),
        partitions=arrays["partitions"],
        firsts=firsts,
        numbers=header["numbers"],
    )


def _of_rows(name: str, rows: Rows) -> Arrays:
    return {f"{name}.{field}": getattr(rows, field) for field in _ROWS}


def _to_rows(name: str, arrays: Arrays) -> Rows:
    return Rows(**{field: arrays[f"{name}.{field}"] for field in _ROWS})


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
