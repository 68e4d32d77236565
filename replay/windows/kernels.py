"""Compiled leaves of windowed aggregation: where panes and windows begin, and their extremes."""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit

# ---------------------------------------------------------------------------------------------
# Windows of consecutive entries by two stacks: the front holds, for every entry up to `middle`,
# the merge from there to `middle`; the back is one entry that grows to the window's end. Every
# entry enters either once, so all windows together take time linear in entries and windows.
# Tangwongsan, Hirzel and Schneider, "Low-latency sliding-window aggregation in worst-case constant
# time" (2017), where it is called Two-Stacks; the front takes the place of the entries.


@njit(_nrt=False)
def slide_extremes(least, most, begins, ends, out_least, out_most):  # type: ignore[no-untyped-def]
    """Write least and greatest of windows that are not empty, at least one of any kind.

    Overwrites the entries.
    """
    middle = 0
    reached = 0
    back_least = out_least[0]
    back_most = out_most[0]
    back_is_empty = True
    for window in range(begins.size):
        begin = begins[window]
        end = ends[window]
        if begin >= end:
            continue
        if begin >= middle:
            for entry in range(end - 2, begin - 1, -1):
                least[entry] = min(least[entry], least[entry + 1])
                most[entry] = max(most[entry], most[entry + 1])
            middle = end
            reached = end
            back_is_empty = True
        for entry in range(reached, end):
            if back_is_empty:
                back_least = least[entry]
                back_most = most[entry]
                back_is_empty = False
            else:
                back_least = min(back_least, least[entry])
                back_most = max(back_most, most[entry])
        reached = max(reached, end)
        out_least[window] = least[begin]
        out_most[window] = most[begin]
        if not back_is_empty:
            out_least[window] = min(least[begin], back_least)
            out_most[window] = max(most[begin], back_most)


# ---------------------------------------------------------------------------------------------
# Entries: the events of one pane and key, which stand together.


@njit()
def cut_entries(codes, positions, origin, width, rest):  # type: ignore[no-untyped-def]
    """Return the first row of each entry, and the number of rows behind the last.

    An entry ends where the code changes (no code at all: one for all rows) and where positions
    pass ``origin + k * width`` or ``origin + k * width + rest``, or without a width change.
    """
    n = positions.size
    begins = np.empty(n + 1, np.int64)
    n_entries = 0
    border = np.int64(0)
    for row in range(n):
        position = positions[row]
        if row > 0 and position < border and (codes.size == 0 or codes[row] == codes[row - 1]):
            continue
        begins[n_entries] = row
        n_entries += 1
        if width == 0:
            border = position + 1
        else:
            start = origin + (position - origin) // width * width
            border = start + rest if position < start + rest else start + width
    begins[n_entries] = n
    return begins[: n_entries + 1].copy()


@njit(_nrt=False)
def locate(positions, entry_begins, row_begins, lows, highs, begins, ends):  # type: ignore[no-untyped-def]  # fmt: skip
    """Write which entries each window holds: those with ``lows <= position < highs``.

    Of group g are the entries ``entry_begins[g]`` to ``entry_begins[g + 1]``, whose positions
    ascend, and the windows ``row_begins[g]`` to ``row_begins[g + 1]``, whose bounds do.
    """
    for group in range(row_begins.size - 1):
        last = entry_begins[group + 1]
        begin = end = entry_begins[group]
        for row in range(row_begins[group], row_begins[group + 1]):
            while begin < last and positions[begin] < lows[row]:
                begin += 1
            end = max(begin, end)
            while end < last and positions[end] < highs[row]:
                end += 1
            begins[row] = begin
            ends[row] = end


# ---------------------------------------------------------------------------------------------
# Windows that the rows themselves make.


@njit()
def number_sessions(partitions, times, gap, current, starts, lasts, base, n_sessions):  # type: ignore[no-untyped-def]  # fmt: skip
    """Return the session of each row, and how many there are now.

    ``current`` has the newest session of each partition, -1 for none; ``starts`` and ``lasts`` the
    times of the first and last row of session ``base + i``, with room for one more a row.
    """
    sessions = np.empty(times.size, np.int64)
    for row in range(times.size):
        partition = partitions[row]
        session = current[partition]
        if session < base or times[row] - lasts[session - base] >= gap:
            session = n_sessions
            n_sessions += 1
            current[partition] = session
            starts[session - base] = times[row]
        lasts[session - base] = times[row]
        sessions[row] = session
    return sessions, n_sessions


@njit()
def number_rows(partitions, n_rows):  # type: ignore[no-untyped-def]
    """Return the number of each row within its partition, and count it there."""
    numbers = np.empty(partitions.size, np.int64)
    for row in range(partitions.size):
        numbers[row] = n_rows[partitions[row]]
        n_rows[partitions[row]] += 1
    return numbers
