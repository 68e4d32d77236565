"""The state of a strategy's matcher."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.operators.packing import State, integer, integers
from replay.patterns.partition_edges import PartitionEdges
from replay.patterns.prepared import Key
from replay.patterns.program import MatchProgram
from replay.patterns.row_state import (
    ROWS,
    Arrays,
    Waiting,
    fields_of,
    from_state,
    take_partitions,
    take_rows,
    to_keys,
    to_state,
)
from replay.patterns.search import Rows
from replay.patterns.strategies.enumeration import Cursor
from replay.patterns.strategies.searches import Search, to_search

IntArray = npt.NDArray[np.int64]

KIND = "strategy matcher"
VERSION = 1


@dataclass(frozen=True, slots=True)
class StrategyState:
    """What a strategy matcher knows between two calls."""

    searches: tuple[Search, ...]
    """Those of finished stretches, then that of the open one if there is one."""
    has_open: bool
    inbox: tuple[Rows, ...]
    deferred: Waiting
    strings: tuple[str, ...]
    partition_keys: tuple[Key, ...]
    partitions: IntArray
    firsts: IntArray
    """``seq`` of each partition's first row, as far as asked for."""
    numbers: dict[str, int | None]


def pack(state: StrategyState, program: MatchProgram) -> State:
    """Return it as a state to be packed."""
    small: State = {
        "searches": [[s.newest, s.cursor.at, s.cursor.done, s.final] for s in state.searches],
        "has_open": state.has_open,
        "n_inbox": len(state.inbox),
        "strings": state.strings,
        "partition_keys": state.partition_keys,
        "numbers": state.numbers,
    }
    arrays: Arrays = {"partitions": state.partitions, "firsts": state.firsts}
    for k, search in enumerate(state.searches):
        arrays |= fields_of(f"search.{k}", search.ordered, ROWS)
        arrays[f"cursor.{k}.rows"] = search.cursor.rows
        arrays[f"cursor.{k}.symbols"] = search.cursor.symbols
    for k, rows in enumerate(state.inbox):
        arrays |= fields_of(f"inbox.{k}", rows, ROWS)
    return to_state(KIND, VERSION, program, small, arrays, state.deferred)


def unpack(packed: State, program: MatchProgram) -> StrategyState:
    """Return what `pack` was given.

    Raises
    ------
    ValueError
        If it is of another query or version, or not what such a matcher knows.
    """
    arrays, waiting = from_state(packed, KIND, VERSION, program)
    firsts = arrays["firsts"]
    partitions = take_partitions(arrays, packed["partition_keys"])
    asked = firsts if program.strategy is not None and program.strategy.asks_for_start else None
    searches = []
    for k, (newest, at, done, final) in enumerate(packed["searches"]):
        rows = take_rows(f"search.{k}", arrays, program, partitions.shape[1])
        search = to_search(rows, PartitionEdges.of(program, None), asked, newest=newest)
        n, found = len(rows), arrays[f"cursor.{k}.rows"]
        symbols = arrays[f"cursor.{k}.symbols"]
        if symbols.dtype != np.uint8 or symbols.shape != found.shape:
            raise ValueError("the state has a match of other symbols than rows")
        search.cursor = Cursor(
            integer(at, 0, n),
            integer(done, -1, n),
            integers(found, np.shape(found), 0, n - 1),
            symbols,
        )
        search.final = final
        searches.append(search)
    inbox = [
        take_rows(f"inbox.{k}", arrays, program, partitions.shape[1])
        for k in range(packed["n_inbox"])
    ]
    return StrategyState(
        searches=tuple(searches),
        has_open=packed["has_open"],
        inbox=tuple(inbox),
        deferred=waiting,
        strings=tuple(packed["strings"]),
        partition_keys=to_keys(packed["partition_keys"]),
        partitions=partitions,
        firsts=firsts,
        numbers=packed["numbers"],
    )
