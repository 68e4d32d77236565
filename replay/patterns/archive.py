"""A matcher's state as bytes: a versioned header and arrays, nothing that can run code."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.patterns.prepared import Key, Prepared
from replay.patterns.program import MatchProgram, deferred
from replay.patterns.search import Rows

ROWS = ("words", "times", "leaves", "known", "seq", "group")
"""Fields of the rows of a snapshot."""

Arrays = dict[str, npt.NDArray[Any]]
Header = dict[str, Any]

Waiting = tuple[tuple[Prepared, int], ...]
"""Batches that cannot be evaluated before all rows are there, with their first ``seq``."""


def pack(
    kind: str, version: int, program: MatchProgram, header: Header, arrays: Arrays, waiting: Waiting
) -> bytes:
    """Return a state as bytes: a NumPy archive (.npz) without pickled objects.

    Parameters
    ----------
    kind, version, program
        What reads it back: only a matcher of that kind and version, of the same query.
    header
        Small values, as JSON has them.
    arrays
        By names without a space.
    waiting
        Rows that are not evaluated yet.
    """
    whole = {
        "kind": kind,
        "version": version,
        "query": program.fingerprint,
        "waiting": [first for _, first in waiting],
        **header,
    }
    packed = {"header": np.frombuffer(json.dumps(whole).encode(), np.uint8), **arrays}
    for k, (batch, _) in enumerate(waiting):
        assert batch.table is not None
        packed[f"waiting {k}"] = _to_ipc(batch.table)
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **packed)
    return out.getvalue()


def unpack(
    snapshot: bytes, kind: str, version: int, program: MatchProgram
) -> tuple[Header, Arrays, Waiting]:
    """Return what `pack` was given.

    Raises
    ------
    ValueError
        If the bytes are no snapshot, or one of another query or version.
    """
    try:
        with np.load(io.BytesIO(snapshot), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays["header"].tobytes())
        found = header["kind"], header["query"]
    except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ValueError("these bytes are no snapshot of a matcher") from error
    if found != (kind, program.fingerprint):
        raise ValueError("a snapshot of another query; restore it into a matcher of its own query")
    if header["version"] != version:
        raise ValueError(
            f"a snapshot of version {header['version']}; this matcher reads version {version}"
        )
    tables = [_from_ipc(arrays[f"waiting {k}"]) for k in range(len(header["waiting"]))]
    waiting = tuple(zip(map(deferred, tables), header["waiting"], strict=True))
    return header, arrays, waiting


def fields_of(name: str, of: object, fields: tuple[str, ...]) -> Arrays:
    """Return the arrays among an object's fields, by names that begin with ``name``."""
    present = ((field, getattr(of, field)) for field in fields)
    return {f"{name}.{field}": array for field, array in present if array is not None}


def take_fields(name: str, arrays: Arrays, fields: tuple[str, ...]) -> dict[str, Any]:
    """Return what `fields_of` was given, by field."""
    return {f: arrays[f"{name}.{f}"] for f in fields if f"{name}.{f}" in arrays}


def take_rows(name: str, arrays: Arrays, program: MatchProgram, n_partitions: int) -> Rows:
    """Return rows to be searched, checked: compiled loops follow their partitions and lengths.

    Raises
    ------
    ValueError
        If they are not such as a matcher of this program has.
    """
    found = take_fields(name, arrays, ROWS)
    rows = Rows(**found)
    n, n_leaves = len(rows.words), len(program.across.leaves)
    expected = {
        "words": (np.uint64, (n,)),
        "times": (np.int64, (n if program.within is not None else 0,)),
        "leaves": (np.int64, (n_leaves, n)),
        "known": (np.bool_, (n_leaves, n)),
        "seq": (np.int64, (n,)),
        "group": (np.int64, (n,)),
    }
    if any((of.dtype, of.shape) != expected[field] for field, of in found.items()):
        raise ValueError("the rows of the snapshot are of other lengths or types")
    group = rows.group
    most = max(1, n_partitions) - 1  # a stream without PARTITION BY is of one partition
    if group is not None and len(group) and not 0 <= group.min() <= group.max() <= most:
        raise ValueError("the rows of the snapshot are of partitions it does not have")
    return rows


def take_partitions(arrays: Arrays, keys: list[Any]) -> npt.NDArray[np.int64]:
    """Return what is known of partitions.

    Raises
    ------
    ValueError
        If it is not what is known of so many.
    """
    known = arrays["partitions"]
    if known.dtype != np.int64 or known.shape != (3, len(keys)):
        raise ValueError("the snapshot knows of other partitions than it names")
    return known


def to_keys(listed: list[list[Any]]) -> tuple[Key, ...]:
    """Return keys of PARTITION BY; JSON made lists of their tuples."""
    return tuple(
        tuple(tuple(part) if isinstance(part, list) else part for part in key) for key in listed
    )


def _to_ipc(table: pa.Table) -> npt.NDArray[np.uint8]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _from_ipc(data: npt.NDArray[np.uint8]) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        table = reader.read_all()
    table.validate(full=True)  # lengths, offsets and codes are followed without a look
    return table
