"""Compiled leaves of the matcher: the pattern machine over words of symbol bits.

Op codes stand here, not in a module of their own, for the reason ``CONDITIONS_DIGEST`` gives.
"""

# A kernel is one loop over state that would be copied at every call if it were cut in two,
# so a few functions here are longer than the 60 lines kept elsewhere.

from __future__ import annotations

import numpy as np
from numba import njit

from replay.operators.conditions.kernels import ANCHOR_FIRST, N_FAULTS, holds

CONDITIONS_DIGEST = "9520747d0cad9a1738b90e10c05daef976b4bd64c320c810cf7f38ccb9bdb004"
"""SHA-256 of conditions/kernels.py, which is compiled in here. Numba's disk cache watches this
file only, so writing the digest here is what makes a change there take effect."""

CHAR = 0  # symbol
SPLIT = 1  # preferred pc, other pc, memo
JUMP = 2  # pc
MARK = 3  # register: remembers the row an iteration began at
CHECK = 4  # register, exit pc: an iteration that mapped no row ends the repetition
RUN = 5  # symbol, most rows (-1: no limit), memo, greedy, symbol of the next CHAR (-1: unknown)
EXACT = 6  # symbol, rows
ACCEPT = 7

CODE_WIDTH = 6

FRAME_FAIL = 0  # memo, first row, last row: all that follows has failed, from any of the rows
FRAME_OTHER = 1  # pc, row: the branch not preferred
FRAME_GREEDY = 2  # pc of RUN, least row, row tried, -, undo, whether it was tried
FRAME_RELUCTANT = 3  # pc of RUN, row tried, greatest row, undo, whether it was tried

NO_MATCH = -1
UNDECIDED = -2
TOO_MANY_STEPS = -3

STATUS_DONE = 0
STATUS_FULL = 1
STATUS_STEPS = 2

# Fields of `settings`.
SKIP_PAST = 0
HAS_WITHIN = 1
WITHIN = 2
FINAL = 3
NEWEST = 4
STEP_LIMIT = 5
N_REGISTERS = 6
SETTINGS = 7

# Fields of `progress`, with N_FAULTS.
AT_SEGMENT = 0
N_OUT = 1
AT_ROW = 3
PROGRESS = 4

assert N_FAULTS not in (AT_SEGMENT, N_OUT, AT_ROW)

_ONE = np.uint64(1)
_INT64_MAX = np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def _accepts(word, prefix, identity):  # type: ignore[no-untyped-def]
    """Bit k: the row can stand at position k of a match."""
    if identity:
        return word
    bits = np.uint64(0)
    for k in range(prefix.size):
        bits |= np.uint64((word & prefix[k]) != 0) << np.uint64(k)
    return bits


@njit(cache=True, nogil=True)
def _is_identity(prefix):  # type: ignore[no-untyped-def]
    """Whether position k accepts just the symbol k, so that words need no translation."""
    for k in range(prefix.size):  # noqa: SIM110 - Numba compiles no generator
        if prefix[k] != _ONE << np.uint64(k):
            return False
    return True


@njit(cache=True, nogil=True)
def _is_after(later, earlier, within):  # type: ignore[no-untyped-def]
    """Whether ``later - earlier > within``, without overflow."""
    if within < 0:
        return True
    return earlier <= _INT64_MAX - within and later > earlier + within


@njit(cache=True, nogil=True)
def _window_closed(settings, t, start):  # type: ignore[no-untyped-def]
    """Whether no event still to come can lie in the window of ``start``."""
    if settings[FINAL]:
        return True
    return settings[HAS_WITHIN] and _is_after(settings[NEWEST], t[start], settings[WITHIN])


@njit(cache=True, nogil=True)
def _first_open(bits, n_prefix, begin, hi, settings, t):  # type: ignore[no-untyped-def]
    """First start whose rows so far fit the prefix and that waits for more; ``hi`` if none."""
    if settings[FINAL]:
        return hi
    for start in range(max(begin, hi - n_prefix + 1), hi):
        seen = np.uint64(hi - start - 1)
        if (bits >> seen) & _ONE and not _window_closed(settings, t, start):
            return start
    return hi


@njit(cache=True, nogil=True)
def find_fixed(prefix, settings, words, t, ends, nexts, out_first, out_segment, progress):  # type: ignore[no-untyped-def]
    """Match patterns that are one fixed sequence of symbols, by shift-and over the words.

    A match at ``start`` maps rows ``start .. start + prefix.size - 1``. ``nexts`` holds the first
    undecided start of each segment before and after; ``ends`` where each segment ends. Returns
    ``STATUS_FULL`` when the output is full (call again), else ``STATUS_DONE``.
    """
    n_prefix = prefix.size
    identity = _is_identity(prefix)
    complete = _ONE << np.uint64(n_prefix - 1)
    n_out = 0
    for g in range(progress[AT_SEGMENT], ends.size):
        bits = np.uint64(0)
        begin = nexts[g]
        hi = ends[g]
        for row in range(begin, hi):
            bits = ((bits << _ONE) | _ONE) & _accepts(words[row], prefix, identity)
            if not bits & complete:
                continue
            start = row - n_prefix + 1
            if start < begin:
                continue
            if settings[HAS_WITHIN] and _is_after(t[row], t[start], settings[WITHIN]):
                continue
            if n_out == out_first.size:
                nexts[g] = start
                progress[AT_SEGMENT] = g
                progress[N_OUT] = n_out
                return STATUS_FULL
            out_first[n_out] = start
            out_segment[n_out] = g
            n_out += 1
            begin = row + 1 if settings[SKIP_PAST] else start + 1
        nexts[g] = _first_open(bits, n_prefix, begin, hi, settings, t)
    progress[N_OUT] = n_out
    return STATUS_DONE


@njit(cache=True, nogil=True)
def _grown(array):  # type: ignore[no-untyped-def]
    bigger = np.empty((array.shape[0] * 2, array.shape[1]), array.dtype)
    bigger[: array.shape[0]] = array
    return bigger


@njit(cache=True, nogil=True)
def _can_follow(row, symbol, limit, hard, words):  # type: ignore[no-untyped-def]
    """Whether the CHAR after a RUN may accept at ``row``, or has to be asked."""
    if symbol < 0:
        return True
    if row >= limit:
        return not hard
    return (words[row] >> np.uint64(symbol)) & _ONE != 0


@njit(cache=True, nogil=True)
def _shorter(frame, ins, limit, hard, words, memo, stamp):  # type: ignore[no-untyped-def]
    """Next shorter end of a greedy run worth trying; below the least row if there is none."""
    bounded = ins[2] >= 0 and ins[3] >= 0
    if frame[5] and bounded:
        memo[ins[3], frame[3]] = stamp
    row = frame[3] - 1 if frame[5] else frame[3]
    while row >= frame[2]:
        known = bounded and memo[ins[3], row] == stamp
        if not known and _can_follow(row, ins[5], limit, hard, words):
            return row
        row -= 1
    return row


@njit(cache=True, nogil=True)
def _longer(frame, ins, limit, hard, words, path, memo, stamp):  # type: ignore[no-untyped-def]
    """Next longer end of a reluctant run worth trying, ``NO_MATCH`` or ``UNDECIDED``."""
    has_memo = ins[3] >= 0
    bounded = ins[2] >= 0
    row = frame[2]
    if frame[5] and has_memo and bounded:
        memo[ins[3], row] = stamp
    fresh = not frame[5]
    while True:
        if not fresh:
            frame[2] = row
            if row >= frame[3]:
                return NO_MATCH
            if row >= limit:
                return NO_MATCH if hard else UNDECIDED
            if (words[row] >> np.uint64(ins[1])) & _ONE == 0:
                return NO_MATCH
            path[row] = ins[1]
            row += 1
            if has_memo and not bounded and memo[ins[3], row] == stamp:
                return NO_MATCH
        fresh = False
        known = has_memo and bounded and memo[ins[3], row] == stamp
        if not known and _can_follow(row, ins[5], limit, hard, words):
            return row


@njit(cache=True, nogil=True)
def _run_up(row, most_row, ins, limit, words, path, memo, stamp):  # type: ignore[no-untyped-def]
    """Extend a greedy run: (end, whether a row already known to fail stopped it)."""
    hi = row
    top = min(limit, most_row)
    stops = ins[2] < 0 and ins[3] >= 0
    while hi < top and (words[hi] >> np.uint64(ins[1])) & _ONE:
        if stops and hi > row and memo[ins[3], hi] == stamp:
            return hi, True
        path[hi] = ins[1]
        hi += 1
    return hi, False


@njit(cache=True, nogil=True)
def _note(slot, value, registers, trail, undo):  # type: ignore[no-untyped-def]
    """Set a register so that backtracking can restore it; returns the trail, grown if need be."""
    if undo == trail.shape[0]:
        trail = _grown(trail)
    trail[undo, 0] = slot
    trail[undo, 1] = registers[slot]
    registers[slot] = value
    return trail


@njit(cache=True, nogil=True)
def _from_start(start, limit, hard, stamp, code, words, memo, path, registers, trail, stack, tracked, conds, xcode, const_i, const_f, leaf_i, leaf_f, leaf_ok, xi, xf, xv, step_limit, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Run the pattern program from one start row.

    Returns the row after the match, ``NO_MATCH``, ``UNDECIDED`` or ``TOO_MANY_STEPS``; and stack
    and trail, which may have grown. ``path[row]`` is the symbol of each row of the match. Rows from
    ``limit`` on are none (``hard``) or not there yet.
    """
    registers[:] = -1
    pc = 0
    row = start
    depth = 0
    undo = 0
    steps = 0
    while True:
        steps += 1
        if steps > step_limit:
            return TOO_MANY_STEPS, stack, trail
        op = code[pc, 0]
        a = code[pc, 1]
        failed = False
        if depth + 2 > stack.shape[0]:
            stack = _grown(stack)
        if op == CHAR:
            if row >= limit:
                if not hard:
                    return UNDECIDED, stack, trail
                failed = True
            elif (words[row] >> np.uint64(a)) & _ONE == 0:
                failed = True
            else:
                if tracked[a]:
                    if registers[2 * a] < 0:
                        trail = _note(2 * a, row, registers, trail, undo)
                        undo += 1
                    trail = _note(2 * a + 1, row, registers, trail, undo)
                    undo += 1
                if conds[a, 1] > conds[a, 0]:
                    failed = not holds(conds[a, 0], conds[a, 1], xcode, const_i, const_f, leaf_i, leaf_f, leaf_ok, start, row, registers, xi, xf, xv, progress)  # fmt: skip  # noqa: E501
                path[row] = a
                row += 1
                pc += 1
        elif op in (SPLIT, RUN):
            m = code[pc, 3]
            if m >= 0 and (op == SPLIT or code[pc, 2] < 0):
                failed = memo[m, row] == stamp
                if not failed:
                    stack[depth, 0] = FRAME_FAIL
                    stack[depth, 1] = m
                    stack[depth, 2] = row
                    stack[depth, 3] = row
                    depth += 1
            if not failed:
                stack[depth, 1] = pc
                stack[depth, 4] = undo
                stack[depth, 5] = 0
                stack[depth, 2] = row
                if op == SPLIT:
                    stack[depth, 0] = FRAME_OTHER
                    stack[depth, 1] = code[pc, 2]
                    pc = a
                else:
                    most = row + code[pc, 2] if code[pc, 2] >= 0 else words.size + 1
                    stack[depth, 0] = FRAME_RELUCTANT
                    stack[depth, 3] = most
                    if code[pc, 4]:
                        hi, stopped = _run_up(row, most, code[pc], limit, words, path, memo, stamp)
                        if hi == limit and not hard and hi < most and not stopped:
                            return UNDECIDED, stack, trail
                        steps += hi - row
                        stack[depth, 0] = FRAME_GREEDY
                        stack[depth, 3] = hi - 1 if stopped else hi
                        if m >= 0 and code[pc, 2] < 0:
                            stack[depth - 1, 3] = stack[depth, 3]
                    failed = True  # the frame just pushed yields the first end to try
                depth += 1
        elif op == JUMP:
            pc = a
        elif op == MARK:
            trail = _note(a, row, registers, trail, undo)
            undo += 1
            pc += 1
        elif op == CHECK:
            pc = code[pc, 2] if registers[a] == row else pc + 1
        elif op == EXACT:
            end = row + code[pc, 2]
            while row < end and not failed:
                if row >= limit:
                    if not hard:
                        return UNDECIDED, stack, trail
                    failed = True
                elif (words[row] >> np.uint64(a)) & _ONE == 0:
                    failed = True
                else:
                    path[row] = a
                    row += 1
            pc += 1
        else:
            return row, stack, trail
        while failed:
            if depth == 0:
                return NO_MATCH, stack, trail
            depth -= 1
            frame = stack[depth]
            if frame[0] == FRAME_FAIL:
                memo[frame[1], frame[2] : frame[3] + 1] = stamp
                continue
            while undo > frame[4]:
                undo -= 1
                registers[trail[undo, 0]] = trail[undo, 1]
            if frame[0] == FRAME_OTHER:
                pc = frame[1]
                row = frame[2]
                break
            at = frame[1]
            if frame[0] == FRAME_GREEDY:
                end = _shorter(frame, code[at], limit, hard, words, memo, stamp)
                steps += frame[3] - end
                if end < frame[2]:
                    continue
                frame[3] = end
            else:
                end = _longer(frame, code[at], limit, hard, words, path, memo, stamp)
                if end == UNDECIDED:
                    return UNDECIDED, stack, trail
                if end == NO_MATCH:
                    if code[at, 3] >= 0 and code[at, 2] < 0:
                        stack[depth - 1, 3] = frame[2]
                    continue
                steps += end - frame[2] + 1
                frame[2] = end
            frame[5] = 1
            depth += 1
            pc = at + 1
            row = end
            failed = False


@njit(cache=True, nogil=True)
def _anchor_rows(start, end, path, anchors, registers, out):  # type: ignore[no-untyped-def]
    """Write the row of each anchor (kind, symbol) of the match, -1 for one that has no row."""
    registers[:] = -1
    for row in range(start, end):
        slot = 2 * np.int64(path[row])
        if registers[slot] < 0:
            registers[slot] = row
        registers[slot + 1] = row
    for k in range(anchors.shape[0]):
        if end == start:
            out[k] = -1
        elif anchors[k, 1] < 0:
            out[k] = start if anchors[k, 0] == ANCHOR_FIRST else end - 1
        else:
            out[k] = registers[2 * anchors[k, 1] + (anchors[k, 0] - ANCHOR_FIRST)]


@njit(cache=True, nogil=True)
def find_matches(code, prefix, settings, words, t, ends, nexts, memo, tracked, conds, xcode, const_i, const_f, leaf_i, leaf_f, leaf_ok, anchors, out_first, out_last, out_class, out_segment, out_anchors, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Match any pattern: one match per start row by SQL's preferment.

    The rows of a segment (partition) stand together. ``nexts[g]`` is its first undecided start,
    before and after, ``ends[g]`` its end; ``memo`` starts as zeros. A start whose rows do not fit
    the prefix never enters the machine. Returns ``STATUS_DONE``, ``STATUS_FULL`` (call again), or
    ``STATUS_STEPS`` with the start row in ``progress[AT_ROW]``.
    """
    n = words.size
    n_prefix = prefix.size
    identity = _is_identity(prefix)
    complete = _ONE << np.uint64(max(n_prefix - 1, 0))
    path = np.empty(n + 1, np.uint8)
    registers = np.empty(settings[N_REGISTERS], np.int64)
    trail = np.empty((64, 2), np.int64)
    stack = np.empty((64, 6), np.int64)
    xi = np.empty(xcode.shape[0] + 3, np.int64)
    xf = np.empty(xcode.shape[0] + 3, np.float64)
    xv = np.zeros(xcode.shape[0] + 3, np.bool_)
    n_out = 0
    for g in range(progress[AT_SEGMENT], ends.size):
        bits = np.uint64(0)
        begin = nexts[g]
        hi = ends[g]
        limit = begin if settings[HAS_WITHIN] else hi
        undecided = -1
        for row in range(begin, hi):
            start = row
            if n_prefix > 0:
                bits = ((bits << _ONE) | _ONE) & _accepts(words[row], prefix, identity)
                if not bits & complete:
                    continue
                start = row - n_prefix + 1
            if start < begin:
                continue
            if settings[HAS_WITHIN]:
                limit = max(limit, start)
                while limit < hi and not _is_after(t[limit], t[start], settings[WITHIN]):
                    limit += 1
            hard = limit < hi or _window_closed(settings, t, start)
            # Without a window what failed once fails for every start of the segment.
            stamp = np.int32(start + 1 if settings[HAS_WITHIN] else g + 1)
            end, stack, trail = _from_start(start, limit, hard, stamp, code, words, memo, path, registers, trail, stack, tracked, conds, xcode, const_i, const_f, leaf_i, leaf_f, leaf_ok, xi, xf, xv, settings[STEP_LIMIT], progress)  # fmt: skip  # noqa: E501
            if end == NO_MATCH:
                continue
            if end == UNDECIDED:
                undecided = start
                break
            if end == TOO_MANY_STEPS:
                progress[AT_ROW] = start
                progress[AT_SEGMENT] = g
                return STATUS_STEPS
            if n_out == out_first.size:
                nexts[g] = start
                progress[AT_SEGMENT] = g
                progress[N_OUT] = n_out
                return STATUS_FULL
            out_first[n_out] = start
            out_last[n_out] = end - 1
            out_class[n_out] = np.int64(path[end - 1]) if end > start else -1
            out_segment[n_out] = g
            if anchors.shape[0] > 0:
                _anchor_rows(start, end, path, anchors, registers, out_anchors[n_out])
            n_out += 1
            begin = end if settings[SKIP_PAST] and end > start else start + 1
        if undecided >= 0:
            nexts[g] = undecided
        elif n_prefix > 0:
            nexts[g] = _first_open(bits, n_prefix, begin, hi, settings, t)
        else:
            nexts[g] = hi
    progress[N_OUT] = n_out
    return STATUS_DONE
