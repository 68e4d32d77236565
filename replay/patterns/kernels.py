"""Compiled leaves of the matcher: which row starts a match, where it ends, where to go on."""

# A kernel is one loop over state that would be copied at every call if it were cut in two,
# so a few functions here are longer than the 60 lines kept elsewhere.

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit
from replay.patterns.backtracking_kernels import (
    AT_PC,
    NO_ROOM,
    PLACE,
    TOO_MANY_STEPS,
    run_program,
    share_match,
)
from replay.patterns.conditions.kernels import ANCHOR_FIRST, N_FAULTS
from replay.patterns.conditions.total_kernels import SYMBOL_MASK
from replay.patterns.memo_kernels import forget, is_half_full
from replay.patterns.run_end_kernels import NO_MATCH, UNDECIDED, is_after

STATUS_DONE = 0
STATUS_FULL = 1
STATUS_STEPS = 2

SKIP_PAST_LAST = 0
SKIP_TO_NEXT = 1
SKIP_TO_FIRST = 2
SKIP_TO_LAST = 3

# Fields of `settings`.
SKIP = 0
HAS_WITHIN = 1
WITHIN = 2
FINAL = 3
NEWEST = 4
STEP_LIMIT = 5
SKIP_SYMBOLS = 6  # bits of the symbols of SKIP TO FIRST and LAST
NUMBERS_RUN_ON = 7  # MATCH_NUMBER goes on in the next segment
KEEPS_STATES = 8  # what failed from a state fails for every start of the segment
GIVES_PATH = 9
SETTINGS = 10

# Fields of `progress`, with N_FAULTS.
AT_SEGMENT = 0
N_OUT = 1
AT_ROW = 3
N_PATH = 4
N_WINS = 5
STAMP = 6  # what failed before it was raised is not known to fail
PROGRESS = 7

assert N_FAULTS not in (AT_SEGMENT, N_OUT, AT_ROW, N_PATH, N_WINS, STAMP)

_ONE = np.uint64(1)
_INT64_MAX = np.iinfo(np.int64).max


@njit(_nrt=False)
def _accepts(word, prefix, identity):  # type: ignore[no-untyped-def]
    """Bit k: the row can stand at position k of a match."""
    if identity:
        return word
    bits = np.uint64(0)
    for k in range(prefix.size):
        bits |= np.uint64((word & prefix[k]) != 0) << np.uint64(k)
    return bits


@njit(_nrt=False)
def _next_complete(words, prefix, identity, bits, row, hi):  # type: ignore[no-untyped-def]
    """Next row from ``row`` on that ends a prefix, ``hi`` if none, and the bits there.

    Most rows of most streams only pass through here: a loop of its own, with nothing else in it.
    """
    n_prefix = prefix.size
    if n_prefix == 0:
        return row, bits
    if n_prefix == 1:
        accepted = prefix[0]
        while row < hi and not words[row] & accepted:
            row += 1
        return row, _ONE if row < hi else np.uint64(0)
    complete = _ONE << np.uint64(n_prefix - 1)
    while row < hi:
        bits = ((bits << _ONE) | _ONE) & _accepts(words[row], prefix, identity)
        if bits & complete:
            return row, bits
        row += 1
    return row, bits


@njit(_nrt=False)
def _is_identity(prefix):  # type: ignore[no-untyped-def]
    """Whether position k accepts just the symbol k, so that words need no translation."""
    for k in range(prefix.size):  # noqa: SIM110 - Numba compiles no generator
        if prefix[k] != _ONE << np.uint64(k):
            return False
    return True


@njit(_nrt=False)
def _window_end(t, row, hi, earlier, within):  # type: ignore[no-untyped-def]
    """First row from ``row`` on that is outside the window, ``hi`` if none."""
    if within < 0:
        return row
    last = earlier + within if earlier <= _INT64_MAX - within else _INT64_MAX
    while row < hi and t[row] <= last:
        row += 1
    return row


@njit(_nrt=False)
def _window_closed(settings, t, start):  # type: ignore[no-untyped-def]
    """Whether no event still to come can lie in the window of ``start``."""
    if settings[FINAL]:
        return True
    return settings[HAS_WITHIN] and is_after(settings[NEWEST], t[start], settings[WITHIN])


@njit(_nrt=False)
def _first_open(bits, n_prefix, begin, hi, settings, t):  # type: ignore[no-untyped-def]
    """First start whose rows so far fit the prefix and that waits for more; ``hi`` if none."""
    if settings[FINAL]:
        return hi
    for start in range(max(begin, hi - n_prefix + 1), hi):
        seen = np.uint64(hi - start - 1)
        if (bits >> seen) & _ONE and not _window_closed(settings, t, start):
            return start
    return hi


@njit(_nrt=False)
def find_fixed(prefix, settings, words, t, ends, nexts, out_first, out_segment, progress):  # type: ignore[no-untyped-def]
    """Match patterns that are one fixed sequence of symbols, by shift-and over the words.

    A match at ``start`` maps rows ``start .. start + prefix.size - 1``. ``nexts`` holds the first
    undecided start of each segment before and after; ``ends`` where each segment ends. Returns
    ``STATUS_FULL`` when the output is full (call again), else ``STATUS_DONE``.
    """
    n_prefix = prefix.size
    identity = _is_identity(prefix)
    n_out = 0
    for g in range(progress[AT_SEGMENT], ends.size):
        bits = np.uint64(0)
        begin = nexts[g]
        hi = ends[g]
        row = begin - 1
        while True:
            row, bits = _next_complete(words, prefix, identity, bits, row + 1, hi)
            if row >= hi:
                break
            start = row - n_prefix + 1
            if start < begin:
                continue
            if settings[HAS_WITHIN] and is_after(t[row], t[start], settings[WITHIN]):
                continue
            if n_out == out_first.size:
                nexts[g] = start
                progress[AT_SEGMENT] = g
                progress[N_OUT] = n_out
                return STATUS_FULL
            out_first[n_out] = start
            out_segment[n_out] = g
            n_out += 1
            begin = row + 1 if settings[SKIP] == SKIP_PAST_LAST else start + 1
        nexts[g] = _first_open(bits, n_prefix, begin, hi, settings, t)
    progress[N_OUT] = n_out
    return STATUS_DONE


@njit(_nrt=False)
def _anchor_rows(start, end, path, shown, anchors, out):  # type: ignore[no-untyped-def]
    """Write the row of each anchor of the match, -1 for one that has no row.

    An anchor is a kind, a symbol, and whether no match has two rows of it: then either end of the
    match may be the nearer one, and matches that overlap for long are not walked through each.
    """
    for k in range(anchors.shape[0]):
        first = anchors[k, 0] == ANCHOR_FIRST
        out[k] = -1
        for i in range(end - start):
            row = start + i if first else end - 1 - i
            if anchors[k, 1] < 0 or shown[path[row] & SYMBOL_MASK] == anchors[k, 1]:
                out[k] = row
                break
            row = start + end - 1 - row
            if anchors[k, 2] != 0 and shown[path[row] & SYMBOL_MASK] == anchors[k, 1]:
                out[k] = row
                break


@njit(_nrt=False)
def _skip_row(start, end, path, shown, settings):  # type: ignore[no-untyped-def]
    """Row of the match that SKIP TO goes to, -1 if it has none."""
    symbols = np.uint64(settings[SKIP_SYMBOLS])
    for i in range(end - start):
        row = start + i if settings[SKIP] == SKIP_TO_FIRST else end - 1 - i
        if (symbols >> np.uint64(shown[path[row] & SYMBOL_MASK])) & _ONE:
            return row
    return -1


@njit()
def _grown(array):  # type: ignore[no-untyped-def]
    bigger = np.empty((array.shape[0] * 2, array.shape[1]), array.dtype)
    for i in range(array.shape[0]):  # assigning a slice takes seconds to compile
        for k in range(array.shape[1]):
            bigger[i, k] = array[i, k]
    return bigger


@njit(_nrt=False)
def _may_match(required, seen, start, limit, words):  # type: ignore[no-untyped-def]
    """Whether there are rows from ``start`` on, before ``limit``, that any match must have.

    ``seen`` keeps how far each was looked for. Starts and limits only go up, so that all starts
    together look at each row about once for each of them.
    """
    row = start
    for k in range(required.size):
        row = max(row, seen[k])
        while row < limit and not words[row] & required[k]:
            row += 1
        seen[k] = row
        if row >= limit:
            return False
        row += 1
    return True


@njit(gives_up=True)
def find_matches(machine, across, prefix, required, settings, t, ends, nexts, firsts, lasts, numbers, failures, shown, anchors, out_first, out_last, out_class, out_segment, out_anchors, out_path, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Match any pattern: one match per start row by SQL's preferment.

    The rows of a segment (partition) stand together. ``nexts[g]`` is its first undecided start,
    before and after, ``ends[g]`` its end, ``firsts[g]`` the row its partition begins with (-1: not
    at hand), ``lasts[g]`` the one its partition ends before (past ``ends[g]``: not at hand),
    ``numbers[g]`` the number of its last match, before and after. ``failures[g]`` (-1)
    becomes twice the first row of the match after which SKIP TO has nowhere to go, plus 1 if the
    row it names is that row. ``machine`` and ``across`` are those of ``machine/kernels.py``, the
    memo zeros. A start whose rows do not fit the prefix, or whose window lacks what is
    ``required``, never enters the machine. Returns ``STATUS_DONE``, ``STATUS_FULL`` (call again),
    or ``STATUS_STEPS`` with the start row in ``progress[AT_ROW]``.
    """
    _, words, _, path, _, owners, _, shared_path, _, _, _ = machine
    if across is not None:
        _, _, (_, _, _, entries, _, _, info) = across
    n_prefix = prefix.size
    identity = _is_identity(prefix)
    shares = owners.size > 0
    path = shared_path if shares else path
    trail = np.empty((64, 2), np.int64)
    stack = np.empty((64, 6), np.int64)
    place = np.empty(PLACE, np.int64)
    seen = np.empty(required.size, np.int64)
    n_out = 0
    n_path = 0
    for g in range(progress[AT_SEGMENT], ends.size):
        bits = np.uint64(0)
        begin = nexts[g]
        hi = ends[g]
        limit = begin if settings[HAS_WITHIN] else hi
        undecided = -1
        for k in range(seen.size):
            seen[k] = begin
        # Without a window what failed once fails for every start of the segment. But a start that
        # is searched again, as there was no room for its match, is not to know what failed on the
        # way: within an iteration that maps no row the end of a run fails that leads on in others.
        progress[STAMP] += 1
        if across is not None:
            forget(info)
        row = begin - 1
        while True:
            row, bits = _next_complete(words, prefix, identity, bits, row + 1, hi)
            if row >= hi:
                break
            start = row - max(n_prefix - 1, 0)
            if start < begin:
                continue
            if settings[HAS_WITHIN]:
                limit = _window_end(t, max(limit, start), hi, t[start], settings[WITHIN])
            hard = limit < hi or _window_closed(settings, t, start)
            if hard and not _may_match(required, seen, start, limit, words):
                continue
            if settings[HAS_WITHIN]:
                progress[STAMP] += 1
            stamp = np.int32(progress[STAMP])
            if across is not None:  # noqa: SIM102 - alone, so that Numba can prune it
                if not settings[KEEPS_STATES] or is_half_full(info, entries):
                    forget(info)
            place[AT_PC] = -1
            while True:
                end, joined, depth = run_program(start, limit, hard, firsts[g], lasts[g], settings[FINAL] != 0, numbers[g] + 1, stamp, settings[STEP_LIMIT], machine, across, trail, stack, place, progress)  # fmt: skip  # noqa: E501
                if end != NO_ROOM:
                    break
                trail = _grown(trail)
                stack = _grown(stack)
            if end == NO_MATCH:
                continue
            if end == UNDECIDED:
                undecided = start
                break
            if end == TOO_MANY_STEPS:
                progress[AT_ROW] = start
                progress[AT_SEGMENT] = g
                progress[N_OUT] = n_out
                progress[N_PATH] = n_path
                return STATUS_STEPS
            n_rows = end - start if settings[GIVES_PATH] else 0
            if n_out == out_first.size or n_path + n_rows > out_path.size:
                nexts[g] = start
                progress[AT_SEGMENT] = g
                progress[N_OUT] = n_out
                progress[N_PATH] = n_path
                return STATUS_FULL
            if shares:
                progress[N_WINS] += 1
                share_match(start, end, joined, progress[N_WINS], depth, stack, machine)
            out_first[n_out] = start
            out_last[n_out] = end - 1
            out_class[n_out] = shown[path[end - 1] & SYMBOL_MASK] if end > start else -1
            out_segment[n_out] = g
            if anchors.shape[0] > 0:
                _anchor_rows(start, end, path, shown, anchors, out_anchors[n_out])
            for k in range(n_rows):
                out_path[n_path + k] = path[start + k]
            n_path += n_rows
            n_out += 1
            numbers[g] += 1
            begin = start + 1
            if settings[SKIP] != SKIP_TO_NEXT and end > start:
                begin = end
                if settings[SKIP] != SKIP_PAST_LAST:
                    begin = _skip_row(start, end, path, shown, settings)
                    if begin <= start:
                        failures[g] = 2 * start + (1 if begin == start else 0)
                        begin = hi
                        break
        if undecided >= 0:
            nexts[g] = undecided
        elif n_prefix > 0:
            nexts[g] = _first_open(bits, n_prefix, begin, hi, settings, t)
        else:
            nexts[g] = hi
        if settings[NUMBERS_RUN_ON] and g + 1 < ends.size:
            numbers[g + 1] = numbers[g]
    progress[N_OUT] = n_out
    progress[N_PATH] = n_path
    return STATUS_DONE
