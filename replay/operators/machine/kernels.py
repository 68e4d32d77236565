"""Compiled pattern machine: runs a pattern program from one start row by preferment.

Op codes stand here, not in a module of their own, for the reason ``CONDITIONS_DIGEST`` gives.
"""

# A kernel is one loop over state that would be copied at every call if it were cut in two,
# so a few functions here are longer than the 60 lines kept elsewhere.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from replay.operators.conditions.kernels import (
    Conditions,
    Mapped,
    bind_row,
    clear,
    holds,
    unbind_row,
)
from replay.operators.states.kernels import (
    KNOWN_TO_FAIL,
    PATIENCE,
    States,
    find_state,
    is_known_to_fail,
)

CONDITIONS_DIGEST = "e11c3298d58b85c3baedf6902ff15b7bf228c475404c0097e059874eb793400a"
STATES_DIGEST = "3dc58d94cb82cf465e34f2c21a2cb5257cc83c7453c9220f66e50f9ee90e4c77"
"""SHA-256 of the kernels compiled in here. Numba's disk cache watches this file only, so writing
their digests here is what makes a change there take effect; a test holds them up to date."""

CHAR = 0  # symbol, whether its rows are bound; path byte
SPLIT = 1  # preferred pc, other pc, memo; key
JUMP = 2  # pc
MARK = 3  # register: remembers the row an iteration began at
CHECK = 4  # register, exit pc: an iteration that mapped no row ends the repetition
RUN = 5  # symbol, most rows (-1: no limit), memo, greedy, symbol of the next CHAR (-1: unknown)
EXACT = 6  # symbol, rows
ACCEPT = 7
AT_START = 8  # only at the first row of the partition
AT_END = 9  # only after the last row of the partition

# Fields of an instruction beside the operation and its operands.
MEMO = 3  # place in `memo` of what follows from here, -1: none
PATH = 6  # byte of mapped rows: symbol, and `EXCLUDED`
KEY = 7  # memo point in `States` where conditions look across rows, -1: none
CODE_WIDTH = 8

EXCLUDED = 0x80

FRAME_FAIL = 0  # memo, first row, last row: all that follows has failed, from any of the rows
FRAME_OTHER = 1  # pc, row: the branch not preferred
FRAME_GREEDY = 2  # pc of RUN, least row, row tried, undo, whether it was tried
FRAME_RELUCTANT = 3  # pc of RUN, row tried, greatest row, undo, whether it was tried
FRAME_STATE = 4  # entry, first row, last row, undo, pc: as FRAME_FAIL, in the table of states

NO_MATCH = -1
UNDECIDED = -2
TOO_MANY_STEPS = -3

_ONE = np.uint64(1)


class Machine(NamedTuple):
    """What a search of the machine reads and writes."""

    code: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint64]
    memo: npt.NDArray[np.int32]
    """By memo point and row: a stamp where all failed, minus the number of the match that a start
    found by going through here; shape (n_memo, n_rows + 1)."""
    path: npt.NDArray[np.uint8]
    """Path byte of each row of the match."""
    registers: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int32]
    """By row: the match found last that maps it; shape (0,) where matches share nothing."""
    owner_ends: npt.NDArray[np.int64]
    """Where that match ends."""
    shared_path: npt.NDArray[np.uint8]
    """Path of that match: ``path`` also holds what was tried since."""


class Across(NamedTuple):
    """What conditions across rows need besides.

    A program without has None in its place, for which the kernels are compiled on their own:
    handing these arrays on costs more than most starts take.
    """

    conds: Conditions
    mapped: Mapped
    """Its path is the machine's."""
    states: States


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
def _longer(frame, ins, limit, hard, words, path, memo, stamp, registers, across):  # type: ignore[no-untyped-def]
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
            path[row] = ins[PATH]
            row += 1
            if has_memo and not bounded and memo[ins[3], row] == stamp:
                return NO_MATCH
            if across is not None:  # noqa: SIM102 - alone, so that Numba can prune it
                if not bounded and ins[KEY] >= 0 and is_known_to_fail(ins[KEY], row, registers, across.mapped, across.states):  # fmt: skip  # noqa: E501
                    return NO_MATCH
        fresh = False
        known = has_memo and bounded and memo[ins[3], row] == stamp
        if not known and _can_follow(row, ins[5], limit, hard, words):
            return row


@njit(cache=True, nogil=True)
def _run_up(row, most_row, ins, limit, words, path, memo, stamp, registers, across):  # type: ignore[no-untyped-def]  # fmt: skip
    """Extend a greedy run: (end, whether a row already known to fail stopped it)."""
    hi = row
    top = min(limit, most_row)
    stops = ins[2] < 0 and ins[3] >= 0
    asked = row + 1
    while hi < top and (words[hi] >> np.uint64(ins[1])) & _ONE:
        if stops and hi > row and memo[ins[3], hi] == stamp:
            return hi, True
        if across is not None:  # noqa: SIM102 - alone, so that Numba can prune it
            if hi == asked and ins[2] < 0 and ins[KEY] >= 0:
                if is_known_to_fail(ins[KEY], hi, registers, across.mapped, across.states):
                    return hi, True
                # Rows known to fail reach to the end of the run, so it is enough to ask at
                # distances that double.
                asked = row + 2 * (hi - row)
        path[hi] = ins[PATH]
        hi += 1
    return hi, False


@njit(cache=True, nogil=True)
def _noted(trail, undo, what, value):  # type: ignore[no-untyped-def]
    """Write down what backtracking must take back; returns the trail, grown if need be.

    ``what`` is a register, ``value`` what it held; or -1 - symbol of a row that was bound.
    """
    if undo == trail.shape[0]:
        trail = _grown(trail)
    trail[undo, 0] = what
    trail[undo, 1] = value
    return trail


@njit(cache=True, nogil=True)
def _taken_back(undo, level, trail, registers, across):  # type: ignore[no-untyped-def]
    """Take back what was done since ``level``; returns the level."""
    while undo > level:
        undo -= 1
        what = trail[undo, 0]
        if what >= 0:
            registers[what] = trail[undo, 1]
        elif across is not None:
            unbind_row(-1 - what, across.conds, across.mapped)
    return undo


@njit(cache=True, nogil=True)
def _note_failure(frame, code, registers, across):  # type: ignore[no-untyped-def]
    """Enter a state as failed; after a run also the same state at every row of the run."""
    states = across.states
    states.failed[frame[1]] = True
    for row in range(frame[2] + 1, frame[3] + 1):
        entry = find_state(code[frame[5], KEY], row, registers, across.mapped, states)
        if entry >= 0:
            states.failed[entry] = True


@njit(cache=True, nogil=True)
def run_program(start, limit, hard, first, end, final, number, stamp, step_limit, machine, across, trail, stack, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Run the pattern program from one start row.

    Parameters: rows from ``limit`` on are none (``hard``) or not there yet; ``first`` is the row
    the partition begins with, -1 if it is not at hand, ``end`` where the partition's rows end,
    and ``final`` whether no more come; ``number`` is the MATCH_NUMBER of the match sought.

    Returns the row after the match, ``NO_MATCH``, ``UNDECIDED`` or ``TOO_MANY_STEPS``; the row
    from which on the match is that of another start (-1: none of it is); stack and trail, which
    may have grown; and the depth of the stack. ``machine.path[row]`` is the symbol of each row.
    """
    code, words, memo = machine.code, machine.words, machine.memo
    registers, path, owners = machine.registers, machine.path, machine.owners
    registers[:] = -1
    if across is not None:
        clear(across.mapped)
    shares = owners.size > 0
    pc = 0
    row = start
    depth = 0
    undo = 0
    steps = 0
    while True:
        steps += 1
        if steps > step_limit:
            return TOO_MANY_STEPS, -1, stack, trail, depth
        op = code[pc, 0]
        a = code[pc, 1]
        failed = False
        if depth + 2 > stack.shape[0]:
            stack = _grown(stack)
        if op == CHAR:
            if row >= limit:
                if not hard:
                    return UNDECIDED, -1, stack, trail, depth
                failed = True
            elif (words[row] >> np.uint64(a)) & _ONE == 0:
                failed = True
            else:
                if across is not None:  # noqa: SIM102 - alone, so that Numba can prune it
                    if code[pc, 2] != 0:
                        trail = _noted(trail, undo, -1 - a, 0)
                        undo += 1
                        bind_row(a, row, across.conds, across.mapped)
                        failed = not holds(
                            a, start, row, number, across.conds, across.mapped, progress
                        )
                path[row] = code[pc, PATH]
                row += 1
                pc += 1
        elif op in (SPLIT, RUN):
            m = code[pc, MEMO]
            noted = False
            if m >= 0 and (op == SPLIT or code[pc, 2] < 0):
                value = memo[m, row]
                if shares and value < 0 and owners[row] == -value:
                    return machine.owner_ends[row], row, stack, trail, depth
                failed = value == stamp
                if not failed:
                    stack[depth, 0] = FRAME_FAIL
                    stack[depth, 1] = m
                    stack[depth, 2] = row
                    stack[depth, 3] = row
                    depth += 1
                    noted = True
            if across is not None:  # noqa: SIM102
                if code[pc, KEY] >= 0 and steps > across.states.info[PATIENCE]:
                    entry = find_state(code[pc, KEY], row, registers, across.mapped, across.states)
                    failed = entry == KNOWN_TO_FAIL
                    if entry >= 0:
                        stack[depth, 0] = FRAME_STATE
                        stack[depth, 1] = entry
                        stack[depth, 2] = row
                        stack[depth, 3] = row
                        stack[depth, 4] = undo
                        stack[depth, 5] = pc
                        depth += 1
                        noted = code[pc, 2] < 0
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
                        hi, stopped = _run_up(row, most, code[pc], limit, words, path, memo, stamp, registers, across)  # fmt: skip  # noqa: E501
                        if hi == limit and not hard and hi < most and not stopped:
                            return UNDECIDED, -1, stack, trail, depth
                        steps += hi - row
                        stack[depth, 0] = FRAME_GREEDY
                        stack[depth, 3] = hi - 1 if stopped else hi
                        if noted:
                            stack[depth - 1, 3] = stack[depth, 3]
                    failed = True  # the frame just pushed yields the first end to try
                depth += 1
        elif op == JUMP:
            pc = a
        elif op == MARK:
            trail = _noted(trail, undo, a, registers[a])
            registers[a] = row
            undo += 1
            pc += 1
        elif op == CHECK:
            pc = code[pc, 2] if registers[a] == row else pc + 1
        elif op == EXACT:
            stop = row + code[pc, 2]
            while row < stop and not failed:
                if row >= limit:
                    if not hard:
                        return UNDECIDED, -1, stack, trail, depth
                    failed = True
                elif (words[row] >> np.uint64(a)) & _ONE == 0:
                    failed = True
                else:
                    path[row] = code[pc, PATH]
                    row += 1
            pc += 1
        elif op == AT_START:
            failed = row != first
            pc += 1
        elif op == AT_END:
            failed = row < end
            if not failed and not final:
                return UNDECIDED, -1, stack, trail, depth
            pc += 1
        else:
            return row, -1, stack, trail, depth
        while failed:
            if depth == 0:
                return NO_MATCH, -1, stack, trail, depth
            depth -= 1
            frame = stack[depth]
            if frame[0] == FRAME_FAIL:
                memo[frame[1], frame[2] : frame[3] + 1] = stamp
                continue
            undo = _taken_back(undo, frame[4], trail, registers, across)
            if across is not None:  # noqa: SIM102
                if frame[0] == FRAME_STATE:
                    _note_failure(frame, code, registers, across)
                    continue
            if frame[0] == FRAME_OTHER:
                pc = frame[1]
                row = frame[2]
                break
            at = frame[1]
            if frame[0] == FRAME_GREEDY:
                stop = _shorter(frame, code[at], limit, hard, words, memo, stamp)
                steps += frame[3] - stop
                if stop < frame[2]:
                    continue
                frame[3] = stop
            else:
                stop = _longer(frame, code[at], limit, hard, words, path, memo, stamp, registers, across)  # fmt: skip  # noqa: E501
                if stop == UNDECIDED:
                    return UNDECIDED, -1, stack, trail, depth
                if stop == NO_MATCH:
                    if code[at, 2] < 0 and depth > 0 and _is_memo_of(stack[depth - 1], at, code):
                        stack[depth - 1, 3] = frame[2]
                    continue
                steps += stop - frame[2] + 1
                frame[2] = stop
            frame[5] = 1
            depth += 1
            pc = at + 1
            row = stop
            failed = False


@njit(cache=True, nogil=True)
def _is_memo_of(frame, at, code):  # type: ignore[no-untyped-def]
    """Whether the frame below that of a RUN notes its failure."""
    if frame[0] == FRAME_FAIL:
        return code[at, MEMO] >= 0
    return frame[0] == FRAME_STATE and frame[5] == at


@njit(cache=True, nogil=True)
def share_match(start, end, joined, win, depth, stack, machine):  # type: ignore[no-untyped-def]
    """Let later starts that come to a memo point of this match end as it ends.

    Without a window and conditions across rows, what follows from a memo point depends on it and
    the row alone, so that a start that reaches one of another's match has found its own.
    """
    until = joined if joined >= 0 else end
    for row in range(start, until):
        machine.shared_path[row] = machine.path[row]
        machine.owners[row] = win
        machine.owner_ends[row] = end
    for k in range(depth):
        frame = stack[k]
        if frame[0] != FRAME_FAIL:
            continue
        last = frame[2]
        if k + 1 < depth:
            above = stack[k + 1]
            run = above[0] in (FRAME_GREEDY, FRAME_RELUCTANT)
            if run and machine.code[above[1], MEMO] == frame[1]:
                last = above[3] if above[0] == FRAME_GREEDY else above[2]
        for row in range(frame[2], min(last + 1, until)):
            machine.memo[frame[1], row] = -win
