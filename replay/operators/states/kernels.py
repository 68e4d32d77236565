"""Compiled table of the states a search failed from, keyed by all that its future depends on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

IntArray = npt.NDArray[np.int64]

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

KNOWN_TO_FAIL = -2
NOT_NOTED = -1

# Fields of `info`.
N_STATES = 0
STAMP = 1
PATIENCE = 2  # steps of a start after which its states are noted: most starts fail sooner
INFO = 3

_ENTRY_BITS = 24
_ENTRY_MASK = (1 << _ENTRY_BITS) - 1


class States(NamedTuple):
    """States met since the stamp changed, in an open-addressing hash table."""

    slices: IntArray
    """Items of each memo point's key, half-open, shape (n_points, 2)."""
    items: IntArray
    """Kind, which, number; shape (n_items, 3)."""
    table: IntArray
    """Stamp and entry; its length is a power of two, twice the number of entries at least."""
    entries: IntArray
    """Keys, shape (n_entries, width)."""
    failed: npt.NDArray[np.bool_]
    scratch: IntArray
    info: IntArray


@njit(cache=True, nogil=True)
def forget(states):  # type: ignore[no-untyped-def]
    """Start afresh."""
    states.info[N_STATES] = 0
    states.info[STAMP] += 1


@njit(cache=True, nogil=True)
def is_half_full(states):  # type: ignore[no-untyped-def]
    """Whether forgetting would help a new start more than remembering."""
    return 2 * states.info[N_STATES] > states.entries.shape[0]


@njit(cache=True, nogil=True)
def _write_rows(key, width, item, mapped):  # type: ignore[no-untyped-def]
    kind, slot, wanted = item[0], item[1], item[2]
    count = mapped.counts[slot]
    for k in range(wanted):
        key[width + k] = -1
        if k < count:
            first = kind in (KEY_FIRST, KEY_FIRST_SYMBOLS)
            row = mapped.rows[slot, k if first else count - 1 - k]
            symbol = np.int64(mapped.path[row]) & 0x7F
            key[width + k] = symbol if kind >= KEY_FIRST_SYMBOLS else row
    return width + wanted


@njit(cache=True, nogil=True)
def _write_key(point, row, registers, mapped, states):  # type: ignore[no-untyped-def]
    """Write the key of the present state; returns its width."""
    key = states.scratch
    key[0] = point
    key[1] = row
    width = 2
    for k in range(states.slices[point, 0], states.slices[point, 1]):
        item = states.items[k]
        which = item[1]
        if item[0] <= KEY_LAST_SYMBOLS:
            width = _write_rows(key, width, item, mapped)
        elif item[0] == KEY_COUNT:
            key[width] = mapped.counts[which]
            width += 1
        elif item[0] == KEY_GUARD:
            key[width] = 1 if registers[which] == row else 0
            width += 1
        elif item[0] == KEY_EXTREME:
            count = mapped.counts[item[2]]
            key[width] = min(mapped.totals_i[which, count, 0], 1)
            key[width + 1] = mapped.totals_i[which, count, 1]
            key[width + 2] = mapped.totals_f[which, count].view(np.int64)[0]
            width += EXTREME_WIDTH
        else:
            count = mapped.counts[item[2]]
            bits = mapped.totals_f[which, count].view(np.int64)
            for n in range(3):
                key[width + n] = mapped.totals_i[which, count, n]
            key[width + 3] = bits[0]
            key[width + 4] = bits[1]
            width += TOTAL_WIDTH
    return width


@njit(cache=True, nogil=True)
def _hash(key, width):  # type: ignore[no-untyped-def]
    h = np.uint64(0x9E3779B97F4A7C15)
    for k in range(width):  # xorshift: without products, which would warn when not compiled
        h ^= np.uint64(key[k])
        h ^= h << np.uint64(13)
        h ^= h >> np.uint64(7)
        h ^= h << np.uint64(17)
    return h ^ (h >> np.uint64(32))


@njit(cache=True, nogil=True)
def _look_up(width, states):  # type: ignore[no-untyped-def]
    """Place of the key at hand in the table, and its entry, -1 if it has none."""
    key = states.scratch
    mask = np.uint64(states.table.size - 1)
    at = _hash(key, width) & mask
    stamp = states.info[STAMP]
    while states.table[at] >> _ENTRY_BITS == stamp:
        entry = states.table[at] & _ENTRY_MASK
        same = True
        for k in range(width):
            if states.entries[entry, k] != key[k]:
                same = False
                break
        if same:
            return at, entry
        at = (at + np.uint64(1)) & mask
    return at, -1


@njit(cache=True, nogil=True)
def is_known_to_fail(point, row, registers, mapped, states):  # type: ignore[no-untyped-def]
    """Whether all that follows from the present state at ``row`` has failed."""
    if states.info[N_STATES] == 0:
        return False
    _, entry = _look_up(_write_key(point, row, registers, mapped, states), states)
    return entry >= 0 and states.failed[entry]


@njit(cache=True, nogil=True)
def find_state(point, row, registers, mapped, states):  # type: ignore[no-untyped-def]
    """Look the present state up, and enter it if it is new.

    Returns its entry, to be marked in ``failed`` once all that follows has failed;
    ``KNOWN_TO_FAIL``; or ``NOT_NOTED`` where it is being tried already or the table is full.
    """
    width = _write_key(point, row, registers, mapped, states)
    at, entry = _look_up(width, states)
    if entry >= 0:
        return KNOWN_TO_FAIL if states.failed[entry] else NOT_NOTED
    entry = states.info[N_STATES]
    if entry == states.entries.shape[0]:
        return NOT_NOTED
    states.info[N_STATES] = entry + 1
    states.table[at] = (states.info[STAMP] << _ENTRY_BITS) | entry
    states.failed[entry] = False
    states.entries[entry, :width] = states.scratch[:width]
    return entry
