"""Snapshots of online queries: bytes that say which query they are of."""

from __future__ import annotations

import hashlib

from replay.errors import QueryError
from replay.operators.packing import State, pack, stated, unpack


def digest_of(query: object, events: object) -> str:
    """Return what tells a bound query over events of some columns from others."""
    return hashlib.sha256(repr((query, events)).encode()).hexdigest()


def to_snapshot(digest: str, state: State) -> bytes:
    """Return the state of the query of a digest as bytes."""
    return pack({"query": digest, "operator": state})


def from_snapshot(digest: str, data: bytes) -> State:
    """Return the state that `to_snapshot` was given.

    Raises
    ------
    QueryError
        If these bytes are no snapshot, or one of another query or another version.
    """
    found = unpack(data)
    if found.get("query") != digest:
        raise QueryError("the snapshot is one of another query or of other columns")
    with stated():
        state: State = found["operator"]
    return state
