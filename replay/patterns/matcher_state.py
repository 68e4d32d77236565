"""The state of the matcher of SQL's semantics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.operators.packing import State
from replay.patterns.matches import Matches, MatchRows
from replay.patterns.prepared import Key
from replay.patterns.program import MatchProgram
from replay.patterns.row_state import (
    ROWS,
    Arrays,
    Waiting,
    fields_of,
    from_state,
    take_fields,
    take_partitions,
    take_rows,
    to_keys,
    to_state,
)
from replay.patterns.search import Rows

IntArray = npt.NDArray[np.int64]

KIND = "matcher"
VERSION = 1

_MATCHES = ("first_seq", "last_seq", "number", "classifier", "anchors")
_MATCH_ROWS = ("offsets", "seq", "symbol", "excluded", "moved")


@dataclass(frozen=True, slots=True)
class MatcherState:
    """What a matcher knows between two batches."""

    rows: Rows | None
    """Rows of starts not decided yet."""
    n_inbox: int
    """How many of them, the last ones, were not searched yet."""
    deferred: Waiting
    matches: Matches | None
    """Found and not taken."""
    strings: tuple[str, ...]
    partition_keys: tuple[Key, ...]
    partitions: IntArray
    numbers: dict[str, int | None]
    failure: tuple[str, int] | None
    """Message and first ``seq`` of a `SkipError`."""


def pack(state: MatcherState, program: MatchProgram) -> State:
    """Return it as a state to be packed."""
    small: State = {
        "n_inbox": state.n_inbox,
        "strings": state.strings,
        "partition_keys": state.partition_keys,
        "numbers": state.numbers,
        "failure": state.failure,
    }
    arrays: Arrays = {"partitions": state.partitions}
    if state.rows is not None:
        arrays |= fields_of("rows", state.rows, ROWS)
    if state.matches is not None:
        arrays |= fields_of("matches", state.matches, _MATCHES)
        if state.matches.rows is not None:
            arrays |= fields_of("match_rows", state.matches.rows, _MATCH_ROWS)
    return to_state(KIND, VERSION, program, small, arrays, state.deferred)


def unpack(packed: State, program: MatchProgram) -> MatcherState:
    """Return what `pack` was given.

    Raises
    ------
    ValueError
        If it is of another query or version, or not what such a matcher knows.
    """
    arrays, waiting = from_state(packed, KIND, VERSION, program)
    rows = matches = None
    partitions = take_partitions(arrays, packed["partition_keys"])
    if "rows.words" in arrays:
        rows = take_rows("rows", arrays, program, partitions.shape[1])
    n_inbox = packed["n_inbox"]
    if type(n_inbox) is not int or not 0 <= n_inbox <= (0 if rows is None else len(rows)):
        raise ValueError("the state has other rows than it says")
    if "matches.number" in arrays:
        match_rows = None
        if "match_rows.seq" in arrays:
            match_rows = MatchRows(**take_fields("match_rows", arrays, _MATCH_ROWS))
        matches = Matches(**take_fields("matches", arrays, _MATCHES), rows=match_rows)
        _check_matches(matches, program)
    return MatcherState(
        rows=rows,
        n_inbox=n_inbox,
        deferred=waiting,
        matches=matches,
        strings=tuple(packed["strings"]),
        partition_keys=to_keys(packed["partition_keys"]),
        partitions=partitions,
        numbers=packed["numbers"],
        failure=None if packed["failure"] is None else tuple(packed["failure"]),
    )


def _check_matches(matches: Matches, program: MatchProgram) -> None:
    """Check the lengths of matches, and where their rows begin.

    Raises
    ------
    ValueError
        If they are not such as a matcher of this program has.
    """
    n = len(matches)
    columns = (matches.last_seq, matches.number, matches.classifier)
    is_right = all(column.shape == (n,) for column in columns)
    is_right &= matches.anchors.shape == (n, len(program.anchors))
    if matches.rows is not None:
        offsets, n_rows = matches.rows.offsets, len(matches.rows)
        is_right &= offsets.shape == (n + 1,) and offsets.dtype == np.int64
        is_right = is_right and bool((np.diff(offsets) >= 0).all())
        is_right = is_right and (int(offsets[0]), int(offsets[-1])) == (0, n_rows)
        is_right &= matches.rows.symbol.shape == matches.rows.excluded.shape == (n_rows,)
        is_right &= len(matches.rows.moved) == n_rows
    if not is_right:
        raise ValueError("the matches of the state are of other lengths")
