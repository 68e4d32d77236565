"""Compiled pattern machine: runs a pattern program from one start row by preferment.

``machine`` is what a search of it reads and writes, a plain tuple:

- ``code``: the program, shape (n, `CODE_WIDTH`).
- ``words``: symbol bits of the rows.
- ``memo``: by memo point and row; shape (n_points, n_rows + 1). Without conditions across rows a
  stamp where all failed, minus the number of the match that a start found by going through here.
  With them the row at which a run that begins there ends, or 0 if that is not known.
- ``path``: path byte of each row of the match.
- ``registers``: by register, the row an iteration began at, -1 for none.
- ``owners``: by row, the match found last that maps it; shape (0,) where matches share nothing.
- ``owner_ends``: where that match ends.
- ``shared_path``: path of that match: ``path`` also holds what was tried since.
- ``lowest``: by memo point, stamp and least row with that stamp, shape (n_points, 2).
- ``spans``: by RUN, rows that it is known to run through, half-open; shape (n_runs, 2).
- ``links``: by RUN and row, how many rows from there, down where it is greedy, else up, are known
  not to be followed by what must follow; shape (n_runs, n_rows + 1).

``across`` is None for a program without conditions across rows, for which the kernels are compiled
on their own; else the tuples ``conds`` and ``mapped`` of ``conditions/kernels.py``, whose path is
the machine's, and the arrays of ``states/kernels.py``.

Op codes stand here: the folder of machine code is named by the sources of kernels alone.
"""

# A kernel is one loop over state that would be copied at every call if it were cut in two,
# so a few functions here are longer than the 60 lines kept elsewhere.

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit
from replay.patterns.conditions.kernels import bind_row, holds, unbind_row
from replay.patterns.memo_kernels import (
    NEVER,
    NO_ROW,
    NOT_NOTED,
    PATIENCE,
    find_state,
    is_guarded,
)
from replay.patterns.run_end_kernels import (
    MEMO,
    NO_MATCH,
    PATH,
    UNDECIDED,
    fill,
    longer,
    run_up,
    set_all,
    shorter,
)

CHAR = 0  # symbol, whether its rows are bound; path byte
SPLIT = 1  # preferred pc, other pc, memo; key
JUMP = 2  # pc
MARK = 3  # register: remembers the row an iteration began at
CHECK = 4  # register, exit pc: an iteration that mapped no row ends the repetition
RUN = 5  # symbol, most rows (-1: no limit), memo, greedy, symbols that follow
EXACT = 6  # symbol, rows
ACCEPT = 7
AT_START = 8  # only at the first row of the partition
AT_END = 9  # only after the last row of the partition

# Fields of an instruction beside the operation and its operands, with those of ``ends/kernels.py``.
KEY = 7  # memo point in `States` where conditions look across rows, -1: none
CODE_WIDTH = 9

EXCLUDED = 0x80

FRAME_FAIL = 0  # memo, first row, last row: all that follows has failed, from any of the rows
FRAME_OTHER = 1  # pc, row: the branch not preferred
FRAME_GREEDY = 2  # pc of RUN, least row, row tried, undo, whether it was tried
FRAME_RELUCTANT = 3  # pc of RUN, row tried, greatest row, undo, whether it was tried
FRAME_STATE = 4  # entry, row, -, undo, pc: as FRAME_FAIL, in the table of states

TOO_MANY_STEPS = -3
NO_ROOM = -4

# Fields of `place`.
AT_PC = 0  # -1: at the beginning
AT_ROW = 1
AT_DEPTH = 2
AT_UNDO = 3
AT_STEPS = 4
PLACE = 5

_ONE = np.uint64(1)


@njit(_nrt=False)
def _run_end(row, symbol, limit, words, ends, key):  # type: ignore[no-untyped-def]
    """End of a run without end: the first row from ``row`` on that is no symbol's.

    ``ends`` keeps what was found before. Where a run ended at the limit, which only grows, it is
    taken up again. Rows it leads over are made to lead to the end, so that each is looked at about
    once. Returns the end and how many rows were looked at.
    """
    end = row
    seen = 1
    while end < limit:
        if ends[key, end] > end:
            end = np.int64(ends[key, end])
        elif (words[end] >> np.uint64(symbol)) & _ONE:
            end += 1
        else:
            break
        seen += 1
    at = row
    while at < end:
        onward = max(np.int64(ends[key, at]), at + 1)
        ends[key, at] = end
        at = onward
    return end, seen


@njit(_nrt=False)
def run_program(start, limit, hard, first, end, final, number, stamp, step_limit, machine, across, trail, stack, place, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Run the pattern program from one start row.

    Parameters: rows from ``limit`` on are none (``hard``) or not there yet; ``first`` is the row
    the partition begins with, -1 if it is not at hand, ``end`` where the partition's rows end,
    and ``final`` whether no more come; ``number`` is the MATCH_NUMBER of the match sought.

    ``stack`` are the frames, shape (n, 6). ``trail`` is what backtracking must take back, shape
    (n, 2): a register and what it held, or -1 - symbol of a row that was bound.

    Returns the row after the match, ``NO_MATCH``, ``UNDECIDED``, ``TOO_MANY_STEPS`` or ``NO_ROOM``;
    the row from which on the match is that of another start (-1: none of it is); and the depth of
    the stack. After ``NO_ROOM`` it goes on from ``place`` if it is called again with a larger stack
    and trail, which hold what they held.
    """
    code, words, memo, path, registers, owners, owner_ends, _, lowest, spans, links = machine
    if across is not None:
        conds, mapped, states = across
        xcode, symbols, slots, totals, const_i, const_f, leaf_i, leaf_f, leaf_ok, calls = conds
        counts, bound, totals_i, totals_f, _, stack_i, stack_f, stack_ok = mapped
        slices, items, table, entries, failures, scratch, info = states
        patience = info[PATIENCE]
    shares = owners.size > 0
    if place[AT_PC] < 0:
        pc, row, depth, undo, steps = 0, start, 0, 0, 0
        set_all(registers, -1)
        if across is not None:
            set_all(counts, 0)
    else:
        pc, row, depth = place[AT_PC], place[AT_ROW], place[AT_DEPTH]
        undo, steps = place[AT_UNDO], place[AT_STEPS]
    while True:
        if depth + 2 > stack.shape[0] or undo == trail.shape[0]:
            place[AT_PC], place[AT_ROW], place[AT_DEPTH] = pc, row, depth
            place[AT_UNDO], place[AT_STEPS] = undo, steps
            return NO_ROOM, -1, depth
        steps += 1
        if steps > step_limit:
            return TOO_MANY_STEPS, -1, depth
        op = code[pc, 0]
        a = code[pc, 1]
        failed = False
        if op == CHAR:
            if row >= limit:
                if not hard:
                    return UNDECIDED, -1, depth
                failed = True
            elif (words[row] >> np.uint64(a)) & _ONE == 0:
                failed = True
            else:
                if across is not None:  # noqa: SIM102 - alone, so that Numba can prune it
                    if code[pc, 2] != 0:
                        trail[undo, 0] = -1 - a
                        undo += 1
                        bind_row(a, row, symbols, slots, totals, leaf_i, leaf_f, leaf_ok, counts, bound, totals_i, totals_f, path)  # fmt: skip  # noqa: E501
                        failed = not holds(a, start, row, number, xcode, symbols, totals, const_i, const_f, leaf_i, leaf_f, leaf_ok, calls, counts, bound, totals_i, totals_f, path, stack_i, stack_f, stack_ok, progress)  # fmt: skip  # noqa: E501
                path[row] = code[pc, PATH]
                row += 1
                pc += 1
        elif op in (SPLIT, RUN):
            m = code[pc, MEMO]
            noted = False
            least = NEVER  # ends of the run from here on are known to fail
            run_end = NOT_NOTED
            if m >= 0 and (op == SPLIT or code[pc, 2] < 0):
                value = memo[m, row]
                if shares and value < 0 and owners[row] == -value:
                    return owner_ends[row], row, depth
                failed = value == stamp
                if not failed:
                    stack[depth, 0] = FRAME_FAIL
                    stack[depth, 1] = m
                    stack[depth, 2] = row
                    stack[depth, 3] = row
                    depth += 1
                    noted = True
            if across is not None:
                key = code[pc, KEY]
                remembers = key >= 0 and steps > patience
                if key >= 0 and op == RUN and code[pc, 2] < 0 and (remembers or code[pc, 4] != 0):
                    run_end, seen = _run_end(row, a, limit, words, memo, key)
                    steps += seen
                    if run_end == limit and not hard and code[pc, 4] != 0:
                        return UNDECIDED, -1, depth
                if remembers:
                    # Entered for a run are ends at which no iteration began; that at the row the
                    # run begins at may be such a one, and is then tried on its own.
                    past = 0
                    entered, at_row = row, row
                    if run_end != NOT_NOTED:
                        past = 1 if is_guarded(key, row, registers, slices, items) else 0
                        entered, at_row = run_end, NO_ROW
                    entry = find_state(key, entered, at_row, registers, counts, bound, totals_i, totals_f, path, slices, items, table, entries, failures, scratch, info)  # fmt: skip  # noqa: E501
                    if entry != NOT_NOTED:
                        least = max(failures[entry], row + past)
                        failed = least == row
                        if not failed:
                            stack[depth, 0] = FRAME_STATE
                            stack[depth, 1] = entry
                            stack[depth, 2] = row + past
                            stack[depth, 4] = undo
                            stack[depth, 5] = pc
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
                    stack[depth, 3] = min(most, least - 1)
                    if run_end != NOT_NOTED and code[pc, 4] != 0:
                        hi = min(run_end, least - 1)
                        fill(path, row, hi, code[pc, PATH])
                        stack[depth, 0] = FRAME_GREEDY
                        stack[depth, 3] = hi
                    elif code[pc, 4]:
                        hi, stopped = run_up(row, most, pc, limit, stamp, code, words, memo, path, lowest, spans)  # fmt: skip  # noqa: E501
                        if hi == limit and not hard and hi < most and not stopped:
                            return UNDECIDED, -1, depth
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
            trail[undo, 0] = a
            trail[undo, 1] = registers[a]
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
                        return UNDECIDED, -1, depth
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
                return UNDECIDED, -1, depth
            pc += 1
        else:
            return row, -1, depth
        while failed:
            if depth == 0:
                return NO_MATCH, -1, depth
            depth -= 1
            kind = stack[depth, 0]
            at = stack[depth, 1]
            if kind == FRAME_FAIL:
                least = stack[depth, 2]
                if lowest[at, 0] == stamp:
                    least = min(least, lowest[at, 1])
                lowest[at, 0] = stamp
                lowest[at, 1] = least
                for k in range(np.uint64(stack[depth, 2]), np.uint64(stack[depth, 3] + 1)):
                    memo[at, k] = stamp
                continue
            while undo > stack[depth, 4]:
                undo -= 1
                if trail[undo, 0] >= 0:
                    registers[trail[undo, 0]] = trail[undo, 1]
                elif across is not None:
                    unbind_row(-1 - trail[undo, 0], symbols, slots, counts)
            if across is not None:  # noqa: SIM102
                if kind == FRAME_STATE:
                    failures[at] = min(failures[at], stack[depth, 2])
                    continue
            if kind == FRAME_OTHER:
                pc = at
                row = stack[depth, 2]
                break
            tried = stack[depth, 5]
            if kind == FRAME_GREEDY:
                least = stack[depth, 2]
                row = stack[depth, 3]
                if tried and code[at, 2] >= 0 and code[at, MEMO] >= 0:
                    memo[code[at, MEMO], row] = stamp
                stop = shorter(row - tried, least, at, limit, hard, stamp, code, words, memo, links)  # fmt: skip  # noqa: E501
                steps += row - stop
                if stop < least:
                    continue
                stack[depth, 3] = stop
            else:
                least = NEVER
                if across is not None:  # noqa: SIM102
                    if depth > 0 and code[at, 2] < 0:
                        below = depth - 1
                        if stack[below, 0] == FRAME_STATE and stack[below, 5] == at:
                            least = max(failures[stack[below, 1]], stack[below, 2])
                row = stack[depth, 2]
                if tried and code[at, 2] >= 0 and code[at, MEMO] >= 0:
                    memo[code[at, MEMO], row] = stamp
                stop, reached = longer(row, tried, stack[depth, 3], least, at, limit, hard, stamp, code, words, memo, path, lowest, spans, links)  # fmt: skip  # noqa: E501
                if stop == UNDECIDED:
                    return UNDECIDED, -1, depth
                if stop == NO_MATCH:
                    if code[at, 2] < 0 and code[at, MEMO] >= 0:
                        stack[depth - 1, 3] = reached
                    continue
                steps += 2 if stop > row else 1
                stack[depth, 2] = stop
            stack[depth, 5] = 1
            depth += 1
            pc = at + 1
            row = stop
            failed = False


@njit(_nrt=False)
def share_match(start, end, joined, win, depth, stack, machine):  # type: ignore[no-untyped-def]
    """Let later starts that come to a memo point of this match end as it ends.

    Without a window and conditions across rows, what follows from a memo point depends on it and
    the row alone, so that a start that reaches one of another's match has found its own.
    """
    code, _, memo, path, _, owners, owner_ends, shared_path, _, _, _ = machine
    until = joined if joined >= 0 else end
    for row in range(start, until):
        shared_path[row] = path[row]
        owners[row] = win
        owner_ends[row] = end
    for k in range(depth):
        frame = stack[k]
        if frame[0] != FRAME_FAIL:
            continue
        last = frame[2]
        if k + 1 < depth:
            above = stack[k + 1]
            run = above[0] in (FRAME_GREEDY, FRAME_RELUCTANT)
            if run and code[above[1], MEMO] == frame[1]:
                last = above[3] if above[0] == FRAME_GREEDY else above[2]
        for row in range(frame[2], min(last + 1, until)):
            memo[frame[1], row] = -win
