"""Compiled leaves of the strategies: states of runs, windows, and the path under search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.compiled import njit
from replay.patterns.run_end_kernels import is_after, set_all

IntArray = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

CONTIGUOUS = 0
NEXT = 1
ANY = 2

NO = 0
MATCH = 1
TIMED_OUT = 2

N_OUT = 1  # fields of `progress`, see the search's kernels
N_ROWS_OUT = 3
STEPS = 5

_ONE = np.uint64(1)
_NONE = np.uint64(0)


class Tables(NamedTuple):
    """The automaton; see `StrategyCode`. Read only."""

    step: Int32s
    skip: Int32s
    ways: Words
    """By state: symbols that lead on."""
    inner: Words
    """By state: symbols that lead to a state with ways on."""
    accepts: IntArray
    conditions: Words
    negated: IntArray
    """Symbol of each negation."""
    watched: np.uint64
    """Symbols that are negated."""
    asks: np.uint64
    """Symbols whose condition looks across rows."""


class Data(NamedTuple):
    """The rows; those of a partition stand together. Read only."""

    words: Words
    times: IntArray
    ends: IntArray
    """End of each row's partition."""
    begins: IntArray
    opens: Bools
    """Whether the row is the first of its partition in the stream."""
    closes: Bools
    """Whether it is the last, as far as rows have come."""


class Span(NamedTuple):
    """First and last row of the matches under search, and what their surroundings tell."""

    first: int
    last: int
    begin: int
    """State of the empty mapping."""
    limit: int
    """First row beyond the window, or the end of what there is."""
    before: np.uint64
    """Negations that rows of the window before the first row satisfy."""
    after: np.uint64
    """Negations that rows of the window after the last row satisfy."""
    at_end: bool
    """Whether the last row is the partition's."""
    expired: bool
    """Whether mappings that could go on have timed out."""


class Path(NamedTuple):
    """The rows under way, by depth, and what is known of each. Grows with `deeper`."""

    rows: IntArray
    ahead: IntArray
    """Row that is tried next."""
    counts: IntArray
    """Number of states the mappings of these rows may be in."""
    states: Int32s
    """Those states, when the row was mapped; shape (depth, n_states)."""
    now: Int32s
    """The same after the rows skipped since; -1 where no row can be mapped any more."""
    places: Int32s
    """By depth and state: its place in ``states``, or -1."""
    useful: Bytes
    """By depth and place: whether the end can be reached over the rows of the path."""
    fruitful: Bytes
    """By depth: whether a match was found below."""
    symbols: Bytes
    """By depth: symbol of a mapping of these rows, the witness or the one under way."""
    exact: Int32s
    """By depth: state of that mapping, or its place in ``states``."""
    bases: Int32s
    """By depth: state of that mapping just before the row."""
    choices: IntArray
    """By depth: how many of the rows could be mapped to several symbols."""


class Out(NamedTuple):
    """Matches written so far; the arrays are as long as there is room."""

    last: IntArray
    timed: Bools
    offsets: IntArray
    rows: IntArray
    """Rows of the matches, one match after the other; match k has ``offsets[k : k + 2]``."""
    symbols: Bytes


@njit()
def new_path(depth, n_states):  # type: ignore[no-untyped-def]
    """Return an empty path."""
    return Path(
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros((depth, n_states), np.int32),
        np.zeros((depth, n_states), np.int32),
        np.full((depth, n_states), -1, np.int32),
        np.zeros((depth, n_states), np.uint8),
        np.zeros(depth, np.uint8),
        np.zeros(depth, np.uint8),
        np.zeros(depth, np.int32),
        np.zeros(depth, np.int32),
        np.zeros(depth, np.int64),
    )


@njit()
def deeper(path):  # type: ignore[no-untyped-def]
    """Return the path with room for twice the depth."""
    n = path.rows.size
    bigger = new_path(2 * n, path.states.shape[1])
    for i in range(n):  # assigning slices takes seconds to compile
        bigger.rows[i] = path.rows[i]
        bigger.ahead[i] = path.ahead[i]
        bigger.counts[i] = path.counts[i]
        bigger.fruitful[i] = path.fruitful[i]
        bigger.symbols[i] = path.symbols[i]
        bigger.exact[i] = path.exact[i]
        bigger.bases[i] = path.bases[i]
        bigger.choices[i] = path.choices[i]
        for k in range(path.states.shape[1]):
            bigger.states[i, k] = path.states[i, k]
            bigger.now[i, k] = path.now[i, k]
            bigger.places[i, k] = path.places[i, k]
            bigger.useful[i, k] = path.useful[i, k]
    return bigger


@njit(_nrt=False)
def window_end(times, first, end, within):  # type: ignore[no-untyped-def]
    """First row of the partition that lies beyond the window of ``first``."""
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if is_after(times[middle], times[first], within):
            high = middle
        else:
            low = middle + 1
    return low


@njit(_nrt=False)
def lowest(bits):  # type: ignore[no-untyped-def]
    """Return the number of the lowest bit set; there is one."""
    symbol = 0
    while bits & np.uint64(0xFF) == 0:
        bits >>= np.uint64(8)
        symbol += 8
    while bits & _ONE == 0:
        bits >>= _ONE
        symbol += 1
    return symbol


@njit(_nrt=False)
def skipped(state, word, tables):  # type: ignore[no-untyped-def]
    """State after a row is skipped; -1 if no row can be mapped any more."""
    if word & tables.watched == 0:
        return state
    for x in range(tables.negated.size):
        if (word >> np.uint64(tables.negated[x])) & _ONE:
            state = tables.skip[state, x]
            if state < 0:
                return -1
    return state


@njit(_nrt=False)
def passed(state, word, semantics, tables, sure):  # type: ignore[no-untyped-def]
    """State of a run that leaves a row unmapped, -1 if it may not or can do no more.

    ``sure`` are the symbols whose bits in the word are the whole truth; what else may be true or
    not is taken for what leaves more matches.
    """
    if semantics == CONTIGUOUS:
        return -1
    if semantics == NEXT and word & sure & tables.ways[state] != 0:
        return -1
    return skipped(state, word & sure, tables)


@njit(_nrt=False)
def advance(row, span, semantics, sure, waiting, n_waiting, found, marks, data, tables):  # type: ignore[no-untyped-def]  # fmt: skip
    """Let all runs of a start see a row: states of those that map it, then of those that wait.

    Returns how many states ``found`` and ``waiting`` hold.
    """
    word = data.words[row]
    n_found = 0
    for k in range(1 if row == span.first else n_waiting):
        state = span.begin if row == span.first else waiting[k]
        ways = word & tables.ways[state]
        while ways:
            target = tables.step[state, lowest(ways)]
            ways &= ways - _ONE
            if not marks[target]:
                marks[target] = True
                found[n_found] = target
                n_found += 1
    for k in range(n_found):
        marks[found[k]] = False
    n_kept = 0
    for k in range(n_waiting):
        state = passed(waiting[k], word, semantics, tables, sure)
        if state >= 0 and not marks[state]:
            marks[state] = True
            waiting[n_kept] = state
            n_kept += 1
    for k in range(n_found):
        if tables.ways[found[k]] and not marks[found[k]]:
            marks[found[k]] = True
            waiting[n_kept] = found[k]
            n_kept += 1
    for k in range(n_kept):
        marks[waiting[k]] = False
    return n_found, n_kept


@njit(_nrt=False)
def is_match(state, before, after, at_end, tables):  # type: ignore[no-untyped-def]
    """Whether a mapping that ends in the state is a match, given what surrounds it."""
    for c in range(tables.accepts[state], tables.accepts[state + 1]):
        asked = tables.conditions[c]
        if asked[0] & before == 0 and asked[1] & after == 0 and (at_end or asked[2] == 0):
            return True
    return False


@njit(_nrt=False)
def verdict(state, span, semantics, sure, data, tables):  # type: ignore[no-untyped-def]
    """Tell what a mapping that ends in the state is: ``MATCH``, ``TIMED_OUT`` or ``NO``.

    If not all symbols are sure, a mapping that turns out otherwise may be called either.
    """
    if is_match(state, span.before, span.after, span.at_end, tables):
        return MATCH
    if not span.expired or tables.ways[state] == 0:
        return NO
    for row in range(span.last + 1, span.limit):
        state = passed(state, data.words[row], semantics, tables, sure)
        if state < 0:
            return NO
    return TIMED_OUT


@njit(_nrt=False)
def write(depth, timed, path, out, progress):  # type: ignore[no-untyped-def]
    """Write the mapping under way; returns whether there was room."""
    k = progress[N_OUT]
    begin = progress[N_ROWS_OUT]
    end = begin + depth + 1
    if k == out.last.size or end > out.rows.size:
        return False
    for i in range(depth + 1):
        out.rows[begin + i] = path.rows[i]
        out.symbols[begin + i] = path.symbols[i]
    out.last[k] = path.rows[depth]
    out.timed[k] = timed
    out.offsets[k + 1] = end
    progress[N_OUT] += 1
    progress[STEPS] = 0
    progress[N_ROWS_OUT] = end
    return True


@njit(_nrt=False)
def seen_before(last, within, latest, data):  # type: ignore[no-untyped-def]
    """Negations that rows before the first satisfy, in the window that ends at the last row.

    ``latest`` holds the latest such row of each negation, -1 if there is none.
    """
    bits = _NONE
    for x in range(latest.size):
        row = latest[x]
        if row >= 0 and not is_after(data.times[last], data.times[row], within):
            bits |= _ONE << np.uint64(x)
    return bits


@njit(_nrt=False)
def find_latest(first, within, latest, data, tables):  # type: ignore[no-untyped-def]
    """Find the latest row before the first that satisfies each negation, within the window."""
    set_all(latest, -1)
    missing = latest.size
    row = first - 1
    while missing and row >= data.begins[first]:
        if is_after(data.times[first], data.times[row], within):
            return
        if data.words[row] & tables.watched:
            for x in range(latest.size):
                if latest[x] < 0 and (data.words[row] >> np.uint64(tables.negated[x])) & _ONE:
                    latest[x] = row
                    missing -= 1
        row -= 1


@njit(_nrt=False)
def seen_after(last, limit, sure, nearest, data, tables):  # type: ignore[no-untyped-def]
    """Negations that rows after the last satisfy; ``nearest`` keeps the next such row of each."""
    bits = _NONE
    for x in range(nearest.size):
        symbol = np.uint64(tables.negated[x])
        row = max(nearest[x], last + 1)
        while row < limit and not (data.words[row] & sure) >> symbol & _ONE:
            row += 1
        nearest[x] = row
        if row < limit:
            bits |= _ONE << np.uint64(x)
    return bits
