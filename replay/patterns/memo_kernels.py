"""Compiled table of the states a search failed from, keyed by all that its future depends on.

All state is plain arrays, as in ``conditions/kernels.py``, handed on one by one:

- ``slices``: items of each memo point's key, half-open, shape (n_points, 2).
- ``items``: kind, which, number; shape (n_items, 3).
- ``table``: an open-addressing hash table of stamp and entry; its length is a power of two, twice
  the number of entries at least.
- ``entries``: keys, shape (n_entries, width); ``scratch``: the key at hand, shape (width,).
- ``failed``: by entry, the least row that all is known to have failed from; shape (n_entries,).
- ``info``: see its fields.

A state at a choice is entered with its row. One at a run without end is entered with the row that
ends the run, whatever row of it the state is at: what fails from a row of a run has tried every
later row, so one number tells which rows of it are known.
"""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit

# Items of a key: kind, slot or total or register, how many rows.
KEY_FIRST = 0  # first rows of a slot, -1 where there are fewer
KEY_LAST = 1
KEY_FIRST_SYMBOLS = 2  # what those rows are mapped to
KEY_LAST_SYMBOLS = 3
KEY_COUNT = 4
KEY_TOTAL = 5
KEY_GUARD = 6  # whether the iteration has mapped no row yet
KEY_EXTREME = 7  # a total that does not depend on how many rows it is of

TOTAL_WIDTH = 5
EXTREME_WIDTH = 3

NOT_NOTED = -1
NO_ROW = -2
"""In place of a row: no iteration began there."""
NEVER = np.iinfo(np.int64).max

# Fields of `info`.
N_STATES = 0
STAMP = 1
PATIENCE = 2  # steps of a start after which its states are noted: most starts fail sooner
INFO = 3

_ENTRY_BITS = 24
_ENTRY_MASK = (1 << _ENTRY_BITS) - 1


@njit(_nrt=False)
def forget(info):  # type: ignore[no-untyped-def]
    """Start afresh."""
    info[N_STATES] = 0
    info[STAMP] += 1


@njit(_nrt=False)
def is_half_full(info, entries):  # type: ignore[no-untyped-def]
    """Whether forgetting would help a new start more than remembering."""
    return 2 * info[N_STATES] > entries.shape[0]


@njit(_nrt=False)
def is_guarded(point, row, registers, slices, items):  # type: ignore[no-untyped-def]
    """Whether an iteration that the future depends on began at the row."""
    for k in range(slices[point, 0], slices[point, 1]):
        if items[k, 0] == KEY_GUARD and registers[items[k, 1]] == row:
            return True
    return False


@njit(_nrt=False)
def _write_key(point, place, row, registers, counts, rows, totals_i, totals_f, path, slices, items, key):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Write the key of the present state at ``row``, entered at ``place``; returns its width."""
    key[0] = point
    key[1] = place
    width = 2
    for k in range(slices[point, 0], slices[point, 1]):
        kind, which, number = items[k, 0], items[k, 1], items[k, 2]
        if kind <= KEY_LAST_SYMBOLS:
            count = counts[which]
            for n in range(number):
                key[width] = -1
                if n < count:
                    first = kind in (KEY_FIRST, KEY_FIRST_SYMBOLS)
                    at = rows[which, n if first else count - 1 - n]
                    key[width] = np.int64(path[at]) & 0x7F if kind >= KEY_FIRST_SYMBOLS else at
                width += 1
        elif kind == KEY_COUNT:
            key[width] = counts[which]
            width += 1
        elif kind == KEY_GUARD:
            key[width] = 1 if registers[which] == row else 0
            width += 1
        else:
            whole = totals_i[which, counts[number]]
            bits = totals_f[which, counts[number]].view(np.int64)
            extreme = kind == KEY_EXTREME
            key[width] = min(whole[0], 1) if extreme else whole[0]
            key[width + 1] = whole[1]
            key[width + 2] = bits[0]
            if not extreme:
                key[width + 3] = bits[1]
                key[width + 4] = whole[2]
            width += EXTREME_WIDTH if extreme else TOTAL_WIDTH
    return width


@njit(_nrt=False)
def _hash(key, width):  # type: ignore[no-untyped-def]
    h = np.uint64(0x9E3779B97F4A7C15)
    for k in range(width):  # xorshift: without products, which would warn when not compiled
        h ^= np.uint64(key[k])
        h ^= h << np.uint64(13)
        h ^= h >> np.uint64(7)
        h ^= h << np.uint64(17)
    return h ^ (h >> np.uint64(32))


@njit(_nrt=False)
def find_state(point, place, row, registers, counts, rows, totals_i, totals_f, path, slices, items, table, entries, failed, scratch, info):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Look the present state up, and enter it if it is new.

    ``place`` is the row it is entered with. Returns its entry, whose ``failed`` is to be lowered
    once all that follows has failed; ``NOT_NOTED`` if the table is full.
    """
    width = _write_key(point, place, row, registers, counts, rows, totals_i, totals_f, path, slices, items, scratch)  # fmt: skip  # noqa: E501
    mask = np.uint64(table.size - 1)
    at = _hash(scratch, width) & mask
    stamp = info[STAMP]
    while table[at] >> _ENTRY_BITS == stamp:
        entry = table[at] & _ENTRY_MASK
        same = True
        for k in range(width):
            if entries[entry, k] != scratch[k]:
                same = False
                break
        if same:
            return entry
        at = (at + np.uint64(1)) & mask
    entry = info[N_STATES]
    if entry == entries.shape[0]:
        return NOT_NOTED
    info[N_STATES] = entry + 1
    table[at] = (stamp << _ENTRY_BITS) | entry
    failed[entry] = NEVER
    for k in range(width):
        entries[entry, k] = scratch[k]
    return entry
