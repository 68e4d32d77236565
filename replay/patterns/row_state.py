"""What matchers know as arrays and small values; what compiled loops follow is checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from replay.operators.packing import State
from replay.patterns.prepared import Key, Prepared
from replay.patterns.program import MatchProgram, deferred
from replay.patterns.search import Rows

ROWS = ("words", "times", "leaves", "known", "seq", "group")
"""Fields of the rows of a state."""

Arrays = dict[str, npt.NDArray[Any]]

Waiting = tuple[tuple[Prepared, int], ...]
"""Batches that cannot be evaluated before all rows are there, with their first ``seq``."""


def to_state(
    kind: str, version: int, program: MatchProgram, small: State, arrays: Arrays, waiting: Waiting
) -> State:
    """Return a state that tells which matcher it is of: its kind, version and query."""
    return {
        **small,
        "kind": kind,
        "version": version,
        "query": program.fingerprint,
        "arrays": arrays,
        "waiting": [{"first": first, "table": batch.table} for batch, first in waiting],
    }


def from_state(
    state: State, kind: str, version: int, program: MatchProgram
) -> tuple[Arrays, Waiting]:
    """Return the arrays and the waiting batches of a state.

    Raises
    ------
    ValueError
        If it is of another query, version or kind of matcher.
    """
    if (state["kind"], state["query"]) != (kind, program.fingerprint):
        raise ValueError("a state of another query; take it over in a matcher of its own query")
    if state["version"] != version:
        raise ValueError(
            f"a state of version {state['version']}; this matcher reads version {version}"
        )
    waiting = tuple((deferred(batch["table"]), batch["first"]) for batch in state["waiting"])
    return state["arrays"], waiting


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
        raise ValueError("the rows of the state are of other lengths or types")
    group = rows.group
    most = max(1, n_partitions) - 1  # a stream without PARTITION BY is of one partition
    if group is not None and len(group) and not 0 <= group.min() <= group.max() <= most:
        raise ValueError("the rows of the state are of partitions it does not have")
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
        raise ValueError("the state knows of other partitions than it names")
    return known


def to_keys(listed: list[list[Any]]) -> tuple[Key, ...]:
    """Return keys of PARTITION BY; JSON made lists of their tuples."""
    return tuple(
        tuple(tuple(part) if isinstance(part, list) else part for part in key) for key in listed
    )
