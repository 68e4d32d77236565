"""Compiled enumeration of the matches of a strategy, one after the other in canonical order.

For each first row and each last row, in order, a depth-first search goes over the rows between
them. A node is a sequence of rows with the set of states its mappings may be in, so that rows come
in order before symbols do; a leaf is the rows of a match, whose symbols are then enumerated.
Nothing recurses, and nothing is kept but the path.

Where no condition looks across rows, the set of states is exact. Otherwise it may be too large,
and a mapping that witnesses each node is kept bound. There the runs of a start are followed first,
unless they are too many: only rows that they map are then searched.
"""

# A kernel is one loop over state that would be copied at every call if it were cut in two,
# so a few functions here are longer than the 60 lines kept elsewhere.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chronicle.compiled import njit
from replay.patterns.conditions.kernels import N_FAULTS
from replay.patterns.run_end_kernels import is_after, set_all
from replay.patterns.strategies.cross_row_kernels import clear, follow_runs, release, witness
from replay.patterns.strategies.cross_row_kernels import emit as emit_across
from replay.patterns.strategies.run_kernels import (
    ANY,
    CONTIGUOUS,
    N_OUT,
    N_ROWS_OUT,
    NO,
    STEPS,
    Bools,
    Bytes,
    Data,
    Int32s,
    IntArray,
    Out,
    Span,
    Tables,
    advance,
    deeper,
    find_latest,
    is_match,
    lowest,
    new_path,
    passed,
    seen_after,
    seen_before,
    verdict,
    window_end,
    write,
)

# Fields of `settings`.
SEMANTICS = 0
HAS_WITHIN = 1
WITHIN = 2
FINAL = 3
NEWEST = 4
TIMEOUTS = 5
ACROSS = 6
STEP_LIMIT = 7
WAITS = 8  # nothing is certain before the window has closed
LOOKS_BEFORE = 9
LOOKS_AFTER = 10
SETTINGS = 11

# Fields of `progress`, with N_FAULTS, N_OUT, N_ROWS_OUT and STEPS.
AT_START = 0  # place in `order` of the start to go on with
DONE_ROW = 4  # all matches of that start that end up to this row are out
RESUMES = 6  # whether the last match written is one of the search that ran out of room
PROGRESS = 7

assert len({AT_START, DONE_ROW, N_FAULTS, N_OUT, N_ROWS_OUT, RESUMES, STEPS}) == PROGRESS

STATUS_DONE = 0
STATUS_FULL = 1
STATUS_OPEN = 2
STATUS_STEPS = 3

STEPS_AHEAD = 1 << 16
STEPS_AHEAD_A_ROW = 16
"""Steps by which the runs of a start are followed before its matches are searched, and more for
each row of its window. More runs than that are not: searching takes at least as long."""

_ONE = np.uint64(1)
_NONE = np.uint64(0)


class Memo(NamedTuple):
    """Rows and states from which the last row under search cannot be reached. May forget."""

    keys: IntArray
    stamps: IntArray


class Scratch(NamedTuple):
    """Working memory by state or negation; nothing in it outlives a start."""

    waiting: Int32s
    found: Int32s
    marks: Bools
    finals: Bytes
    """What mappings that end in the state at the last row are: `NO`, `MATCH` or `TIMED_OUT`."""
    reach: IntArray
    latest: IntArray
    nearest: IntArray
    stamp: IntArray
    """Number of the search under way, shape (1,)."""
    taken: IntArray
    """By row: the last start of which some run maps it. Empty where no condition looks across."""
    ends: IntArray
    """By row: the last start of which some run may be told there. Empty likewise."""


@njit(_nrt=False)
def _emit(depth, span, resumed, path, data, tables, out, progress):  # type: ignore[no-untyped-def]
    """Write every mapping of the rows of the path, symbols in order; after ``resumed``, if any.

    Returns whether there was room for all.
    """
    for k in range(path.counts[depth]):
        path.useful[depth, k] = 1
    for i in range(depth - 1, -1, -1):
        word = data.words[path.rows[i + 1]]
        for j in range(path.counts[i]):
            state = path.now[i, j]
            path.useful[i, j] = 0
            ways = word & tables.ways[state] if state >= 0 else _NONE
            while ways:
                symbol = lowest(ways)
                ways &= ways - _ONE
                k = path.places[i + 1, tables.step[state, symbol]]
                if k >= 0 and path.useful[i + 1, k]:
                    path.useful[i, j] = 1
                    break
    i = 0
    rest = data.words[path.rows[0]] & tables.ways[span.begin]
    if resumed.size:
        i = depth
        for at in range(depth + 1):
            state = span.begin if at == 0 else path.now[at - 1, path.exact[at - 1]]
            path.symbols[at] = resumed[at]
            path.exact[at] = path.places[at, tables.step[state, resumed[at]]]
        rest = _later(i, span, path, data, tables)
    while True:
        state = span.begin if i == 0 else path.now[i - 1, path.exact[i - 1]]
        found = False
        while rest and not found:
            symbol = lowest(rest)
            rest &= rest - _ONE
            k = path.places[i, tables.step[state, symbol]]
            found = k >= 0 and path.useful[i, k] != 0
            if found:
                path.symbols[i] = symbol
                path.exact[i] = k
        if found and i < depth:
            state = path.now[i, path.exact[i]]
            i += 1
            rest = data.words[path.rows[i]] & tables.ways[state]
        elif found:
            state = path.states[i, path.exact[i]]
            timed = not is_match(state, span.before, span.after, span.at_end, tables)
            if not write(depth, timed, path, out, progress):
                return False
        else:
            i -= 1
            if i < 0:
                return True
            rest = _later(i, span, path, data, tables)


@njit(_nrt=False)
def _later(i, span, path, data, tables):  # type: ignore[no-untyped-def]
    """Symbols not yet tried at depth ``i``, where some were."""
    state = span.begin if i == 0 else path.now[i - 1, path.exact[i - 1]]
    tried = (_ONE << np.uint64(path.symbols[i])) | ((_ONE << np.uint64(path.symbols[i])) - _ONE)
    return data.words[path.rows[i]] & tables.ways[state] & ~tried


@njit(_nrt=False)
def _is_known_dead(memo, key, stamp):  # type: ignore[no-untyped-def]
    place = key & (memo.keys.size - 1)
    return memo.stamps[place] == stamp and memo.keys[place] == key


@njit(_nrt=False)
def _reach(span, semantics, finals, reach, data, tables):  # type: ignore[no-untyped-def]
    """By state, the last row that a run in it can map on its way to the last row; -1: none.

    Rows that only may be mapped count, and none is taken for one that must.
    """
    if semantics == CONTIGUOUS:
        set_all(reach, span.last)
        return
    set_all(reach, -1)
    waiting = 0
    for state in range(2, reach.size):
        waiting += 1 if tables.ways[state] else 0
    row = span.last
    while row > span.first and waiting > 0:
        word = data.words[row]
        for state in range(2, reach.size):
            ways = word & tables.ways[state] if reach[state] < 0 else _NONE
            while ways:
                target = tables.step[state, lowest(ways)]
                ways &= ways - _ONE
                leads_on = finals[target] != NO if row == span.last else reach[target] > row
                if leads_on:
                    reach[state] = row
                    waiting -= 1
                    break
        row -= 1


@njit(_nrt=False)
def _enter(depth, row, span, finals, reach, memo, stamp, path, data, tables):  # type: ignore[no-untyped-def]  # fmt: skip
    """Put a row on the path: the states of its mappings from which the end may be reached.

    Returns whether there are any.
    """
    count = 0
    word = data.words[row]
    n_states = reach.size
    for j in range(1 if depth == 0 else path.counts[depth - 1]):
        state = span.begin if depth == 0 else path.now[depth - 1, j]
        ways = word & tables.ways[state] if state >= 0 else _NONE
        while ways:
            target = tables.step[state, lowest(ways)]
            ways &= ways - _ONE
            if path.places[depth, target] >= 0:
                continue
            if row == span.last:
                useful = finals[target] != NO
            else:
                useful = reach[target] > row and not _is_known_dead(memo, row * n_states + target, stamp)  # fmt: skip  # noqa: E501
            if useful:
                path.places[depth, target] = count
                path.states[depth, count] = target
                path.now[depth, count] = target
                count += 1
    path.rows[depth] = row
    path.ahead[depth] = row + 1
    path.counts[depth] = count
    path.fruitful[depth] = 0
    return count > 0


@njit(_nrt=False)
def _leave(depth, keep_dead, memo, stamp, path):  # type: ignore[no-untyped-def]
    """Take the last row off the path; nothing was found from a state that is kept as dead."""
    n_states = path.places.shape[1]
    for k in range(path.counts[depth]):
        state = path.states[depth, k]
        path.places[depth, state] = -1
        if keep_dead:
            key = path.rows[depth] * n_states + state
            memo.keys[key & (memo.keys.size - 1)] = key
            memo.stamps[key & (memo.keys.size - 1)] = stamp


@njit(_nrt=False)
def _next_row(depth, last, semantics, taken, path, data, tables):  # type: ignore[no-untyped-def]
    """Next row that may be mapped after those of the path, or that changes a state; -1: none."""
    row = path.ahead[depth]
    need = _NONE
    alive = False
    for k in range(path.counts[depth]):
        state = path.now[depth, k]
        if state >= 0:
            alive = True
            need |= tables.inner[state] if semantics == ANY else tables.ways[state]
    if not alive or row > last:
        return -1
    if semantics != CONTIGUOUS:
        need |= tables.watched
        while row < last and data.words[row] & need == 0:
            row += 1
    if semantics != CONTIGUOUS and taken.size:
        # No run goes on at another row, and conditions tell what rows between do to it.
        while row < last and taken[row] != path.rows[0]:
            row += 1
    return row


@njit()
def _search(span, settings, resumed_rows, resumed_symbols, finals, reach, taken, memo, stamp, path, data, tables, across, out, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Write the matches from the first to the last row of the span, in order.

    Returns a status and the path, which may have grown.
    """
    semantics = settings[SEMANTICS]
    sure = ~tables.asks
    step_limit = settings[STEP_LIMIT]
    none = resumed_symbols[:0]
    last = span.last
    resuming = resumed_rows.size > 0
    _reach(span, semantics, finals, reach, data, tables)
    if across is not None:
        clear(across)
    if not _enter(0, span.first, span, finals, reach, memo, stamp, path, data, tables):
        return STATUS_DONE, path
    depth = 0
    row = span.first
    fresh = True  # whether the row at `depth` was just put there
    while True:
        stays = True  # whether rows may be put after those of the path
        if fresh and row == last:
            goal = resumed_symbols if resuming else none
            before = progress[N_OUT]
            if across is not None:
                room = emit_across(depth, span, semantics, step_limit, goal, path, data, tables, across, out, progress)  # fmt: skip  # noqa: E501
            else:
                room = _emit(depth, span, goal, path, data, tables, out, progress)
            if not room:
                return STATUS_FULL, path
            path.fruitful[depth] = resuming or progress[N_OUT] > before
            resuming = False
            stays = False
        elif fresh:
            if across is not None:
                stays = witness(depth, span, semantics, step_limit, path, data, tables, across, progress)  # fmt: skip  # noqa: E501
            if not stays:
                row = last  # no mapping of these rows is a run
        if stays:
            row = _next_row(depth, last, semantics, taken, path, data, tables)
            progress[STEPS] += 1
            if row >= 0:
                path.ahead[depth] = row
                if depth + 2 > path.rows.size:
                    path = deeper(path)
                fresh = not resuming or row == resumed_rows[depth + 1]
                fresh = fresh and _enter(depth + 1, row, span, finals, reach, memo, stamp, path, data, tables)  # fmt: skip  # noqa: E501
                if fresh:
                    depth += 1
                else:
                    _pass_row(depth, row, semantics, sure, path, data, tables)
                continue
            if across is not None:
                release(depth, depth + 1, path, across)
        if progress[STEPS] > step_limit:
            return STATUS_STEPS, path
        _leave(
            depth, settings[ACROSS] == 0 and row < 0 and not path.fruitful[depth], memo, stamp, path
        )
        if depth == 0:
            return STATUS_DONE, path
        path.fruitful[depth - 1] |= path.fruitful[depth]
        depth -= 1
        _pass_row(depth, path.ahead[depth], semantics, sure, path, data, tables)
        fresh = False


@njit(_nrt=False)
def _pass_row(depth, row, semantics, sure, path, data, tables):  # type: ignore[no-untyped-def]
    """Leave a row unmapped after those of the path."""
    for k in range(path.counts[depth]):
        if path.now[depth, k] >= 0:
            path.now[depth, k] = passed(path.now[depth, k], data.words[row], semantics, tables, sure)  # fmt: skip  # noqa: E501
    path.ahead[depth] = row + 1


@njit()
def _from_start(first, settings, resumed_rows, resumed_symbols, scratch, memo, path, data, tables, across, out, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Write the matches that begin with a row and end after ``progress[DONE_ROW]``, in order.

    Returns a status, ``STATUS_OPEN`` if rows still to come may give more, and the path.
    """
    semantics = settings[SEMANTICS]
    sure = ~tables.asks if settings[ACROSS] else ~_NONE
    end = data.ends[first]
    limit = end
    expired = False
    if settings[HAS_WITHIN]:
        limit = window_end(data.times, first, end, settings[WITHIN])
        expired = is_after(settings[NEWEST], data.times[first], settings[WITHIN])
    closed = settings[FINAL] != 0 or expired
    if not closed and settings[WAITS]:
        return STATUS_OPEN, path
    begin = 0 if data.opens[first] else 1
    span = Span(first, first, begin, limit, _NONE, _NONE, False, False)
    set_all(scratch.nearest, 0)
    if settings[LOOKS_BEFORE]:
        find_latest(first, settings[WITHIN], scratch.latest, data, tables)
    stop = limit
    if across is not None:
        # The states allow many more runs than the conditions do.
        patience = STEPS_AHEAD + STEPS_AHEAD_A_ROW * (limit - first)
        waits, stop, path = follow_runs(first, begin, limit, semantics, patience, scratch.taken, scratch.ends, path, data, tables, across, progress)  # fmt: skip  # noqa: E501
        progress[STEPS] = 0
        closed |= not waits
    n_waiting = 0
    row = first
    while row < stop:
        n_found, n_waiting = advance(row, span, semantics, sure, scratch.waiting, n_waiting, scratch.found, scratch.marks, data, tables)  # fmt: skip  # noqa: E501
        is_told = scratch.ends.size == 0 or scratch.ends[row] == first
        if row > progress[DONE_ROW] and n_found and is_told:
            before, after = _NONE, _NONE
            if settings[LOOKS_BEFORE]:
                before = seen_before(row, settings[WITHIN], scratch.latest, data)
            if settings[LOOKS_AFTER]:
                after = seen_after(row, limit, sure, scratch.nearest, data, tables)
            at_end = data.closes[row]
            timed = expired and settings[TIMEOUTS] != 0
            span = Span(first, row, begin, limit, before, after, at_end, timed)
            set_all(scratch.finals, NO)
            fruitful = False
            for k in range(n_found):
                state = scratch.found[k]
                scratch.finals[state] = verdict(state, span, semantics, sure, data, tables)
                fruitful |= scratch.finals[state] != NO
                sooner = is_match(state, before, after, False, tables)
                if at_end and settings[FINAL] == 0 and not sooner and is_match(state, before, after, True, tables):  # fmt: skip  # noqa: E501
                    progress[DONE_ROW] = row - 1
                    return STATUS_OPEN, path  # $ may hold or not
            if fruitful:
                # A row skipped may have left fewer ways on than `_reach` takes a state to have; it
                # finds the end all the same where more ways on would have led to it.
                for state in range(2, scratch.finals.size if tables.negated.size else 0):
                    if scratch.finals[state] == NO:
                        scratch.finals[state] = verdict(state, span, semantics, sure, data, tables)
                goes_on = resumed_rows.size > 0 and resumed_rows[-1] == row
                rows = resumed_rows if goes_on else resumed_rows[:0]
                scratch.stamp[0] += 1
                before_search = progress[N_OUT]
                status, path = _search(span, settings, rows, resumed_symbols, scratch.finals, scratch.reach, scratch.taken, memo, scratch.stamp[0], path, data, tables, across, out, progress)  # fmt: skip  # noqa: E501
                if status != STATUS_DONE:
                    progress[DONE_ROW] = row - 1
                    progress[RESUMES] = progress[N_OUT] > before_search
                    return status, path
        if n_waiting == 0:
            return STATUS_DONE, path
        row += 1
        if semantics != CONTIGUOUS:
            need = tables.watched
            for k in range(n_waiting):
                need |= tables.ways[scratch.waiting[k]]
            while row < stop and data.words[row] & need == 0:
                row += 1
    progress[DONE_ROW] = end - 1
    return STATUS_DONE if closed else STATUS_OPEN, path


@njit(gives_up=True)
def find_all(order, settings, resumed_rows, resumed_symbols, scratch, memo, data, tables, across, out, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Write matches in canonical order until there is no room or no more is certain.

    Starts are tried in ``order`` from place ``progress[AT_START]`` on, the first of them after the
    mapping ``resumed``, if any. Returns ``STATUS_DONE`` after the last start, ``STATUS_OPEN`` at
    one that rows to come may decide, ``STATUS_FULL``, or ``STATUS_STEPS`` at one with too many.
    Takes plain tuples: ``across`` is ``conds`` and ``mapped`` of ``conditions/kernels.py``, or None
    where no condition looks across rows; the others have the fields of the classes named so.
    """
    scratch, memo, out = Scratch(*scratch), Memo(*memo), Out(*out)
    data, tables = Data(*data), Tables(*tables)
    path = new_path(16, tables.step.shape[0])
    for at in range(progress[AT_START], order.size):
        first = order[at]
        begin = 0 if data.opens[first] else 1
        if data.words[first] & tables.ways[begin] != 0:
            progress[STEPS] = 0
            status, path = _from_start(first, settings, resumed_rows, resumed_symbols, scratch, memo, path, data, tables, across, out, progress)  # fmt: skip  # noqa: E501
            if status != STATUS_DONE:
                progress[AT_START] = at
                return status
        progress[DONE_ROW] = -1
        resumed_rows = resumed_rows[:0]
    progress[AT_START] = order.size
    return STATUS_DONE
