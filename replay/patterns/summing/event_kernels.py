"""Compiled sums over matches whose future depends on a row: a cell for each state and live row.

The cells of a lane and state are a list: of those whose runs go on, one for each live row. A row
lets the runs of each map it where the condition of an edge holds. What it makes of them stands in
`slots`, one for each state, and in lists of cells under way, until every cell has seen the row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.compiled import njit
from replay.operators.place_kernels import right
from replay.patterns.conditions.kernels import N_FAULTS, holds
from replay.patterns.run_end_kernels import is_after
from replay.patterns.strategies.run_kernels import CONTIGUOUS, NEXT, lowest
from replay.patterns.summing.entry_kernels import row_of_piece
from replay.patterns.summing.kernels import (
    AT_SEGMENT,
    AT_START,
    FREE,
    HIGH,
    N_FOUND,
    SEEN_AT_ONCE,
    STATUS_DONE,
    STATUS_FOUND,
    STATUS_GOES_ON,
    STATUS_WIDE,
    Fields,
    Rows,
    adds_nothing,
    begin_run,
    is_none,
    map_row,
    merge,
    merge_at_once,
    set_none,
)
from replay.patterns.summing.tree_kernels import Trees, add_to_trees, ask, clear_place, first_taken

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

# As in `replay.patterns.trends.references`.
_NEVER = -2
_ROW, _KEPT_OR_ROW, _NO_ROW = 0, 2, 3

_NONE = np.uint64(0)
_ONE = np.uint64(1)

_NOTHING = -1
"""The place of a run of no row among cells, of what no cell comes behind, and of no live row."""

N_FREE = 1
"""Place in ``free`` of how many cells are free; the first of them is at `FREE`."""

STATUS_CELLS = 2
"""There need to be more cells."""


class Machine(NamedTuple):
    """The automaton; see `EventGrain`."""

    step: npt.NDArray[np.int32]
    skip: npt.NDArray[np.int32]
    ways: Words
    """By state: symbols that lead on."""
    watched: Words
    """By state: negations that lead to another."""
    negated: IntArray
    ends: Bools
    """By state: whether a run in it is a match."""
    goes_on: Bools
    conditions: IntArray
    negations: IntArray
    moves: IntArray
    keeps: Bools
    has_live: Bools
    keeps_rows: bool
    """Whether runs keep a live row where they come to another state, or map a row."""


class Cells(NamedTuple):
    """Which runs each cell is of; a free one has no live row."""

    numbers: Words
    live: IntArray
    """Column of the live row."""
    following: IntArray
    """The next of the same list."""
    free: IntArray
    heads: IntArray
    """By lane and state: the first cell."""


class Room(NamedTuple):
    """Working memory for a row, empty before and after it."""

    slots: Words
    """By state: runs that map the row and have it as their live row, or have none."""
    symbols: IntArray
    """By state: the symbol of the row in its slot, -1 where the slot is empty."""
    heads: IntArray
    """By state: cells under way to it."""
    places: IntArray
    """By live row: its cell in the list at hand, where ``marks`` has the list's number."""
    marks: IntArray
    n_marked: IntArray
    """Lists marked so far."""


@njit(_nrt=False)
def _new_cell(cells):  # type: ignore[no-untyped-def]
    """Return a free cell, which is empty."""
    cell = cells.free[FREE]
    cells.free[FREE] = cells.following[cell]
    cells.free[N_FREE] -= 1
    return cell


@njit(_nrt=False)
def _give_back(cell, cells):  # type: ignore[no-untyped-def]
    """Have a cell that is in no list be free."""
    set_none(cells.numbers, cell)
    cells.live[cell] = _NOTHING
    cells.following[cell] = cells.free[FREE]
    cells.free[FREE] = cell
    cells.free[N_FREE] += 1


@njit(_nrt=False)
def _put_under_way(cell, state, room, cells):  # type: ignore[no-untyped-def]
    """Have a cell come to a state once all have seen the row."""
    cells.following[cell] = room.heads[state]
    room.heads[state] = cell


@njit(_nrt=False)
def _add_runs(into, i, cell, cells, fields):  # type: ignore[no-untyped-def]
    """Add the runs of a cell; without one, that of no row."""
    if cell == _NOTHING:
        begin_run(into, i, fields)
    else:
        merge(into, i, cells.numbers, cell, fields)


@njit(_nrt=False)
def _go(cell, live, state, symbol, row, total, machine, cells, room, totals, fields, rows):  # type: ignore[no-untyped-def]  # fmt: skip
    """Let runs map a row; what comes of them is put where it waits."""
    target = machine.step[state, symbol]
    move = machine.moves[state, symbol]
    takes_row = move == _ROW or (move == _KEPT_OR_ROW and live == _NOTHING)
    if takes_row or not machine.has_live[target]:
        room.symbols[target] = symbol
        _add_runs(room.slots, target, cell, cells, fields)
        return
    new = _new_cell(cells)
    _add_runs(cells.numbers, new, cell, cells, fields)
    map_row(cells.numbers, new, symbol, row, False, fields, rows)
    if machine.ends[target]:
        merge(totals, total, cells.numbers, new, fields)
    cells.live[new] = _NOTHING if move == _NO_ROW else live
    _put_under_way(new, target, room, cells)


@njit(_nrt=False, forceinline=True)
def _holds(condition, row, live, across, progress):  # type: ignore[no-untyped-def]
    """Whether a condition holds at a row, by column, behind a live row."""
    if condition < 0:
        return condition != _NEVER
    conds, mapped = across
    code, symbols, _, totals, const_i, const_f, leaf_i, leaf_f, leaf_ok, calls = conds
    counts, listed, totals_i, totals_f, path, stack_i, stack_f, stack_ok = mapped
    if counts.size:
        counts[0] = 0 if live == _NOTHING else 1
        listed[0, 0] = live
    return holds(condition, 0, row, 0, code, symbols, totals, const_i, const_f, leaf_i, leaf_f, leaf_ok, calls, counts, listed, totals_i, totals_f, path, stack_i, stack_f, stack_ok, progress)  # fmt: skip  # noqa: E501


@njit(_nrt=False)
def _pass(state, live, word, column, machine, across, progress):  # type: ignore[no-untyped-def]
    """State and live row of runs that leave a row unmapped; -1 is no state."""
    for x in range(machine.negated.size):
        symbol = machine.negated[x]
        after = machine.skip[state, x]
        if word >> np.uint64(symbol) & _ONE == _NONE or after == state:
            continue
        there = 0 if live == _NOTHING else 1
        if not _holds(machine.negations[there, state, x], column, live, across, progress):
            continue
        if after < 0 or not machine.goes_on[after]:
            return -1, live
        live = live if machine.keeps[state, x] else _NOTHING
        state = after
    return state, live


@njit(_nrt=False, forceinline=True)
def _ask(state, lane, ways, column, machine, cells, room, trees, fields, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip
    """Let the cells of a state map a row, found by the value of their live row."""
    while ways:
        symbol = lowest(ways)
        ways &= ways - _ONE
        by, asked = trees.by[state, symbol], trees.asked[state, symbol]
        condition = machine.conditions[1, state, symbol]
        if asked < 0 and not _holds(condition, column, _NOTHING, across, progress):
            continue
        target = machine.step[state, symbol]
        tree = trees.number[state]
        if ask(tree, lane, column, by, asked, trees, room.slots, target, cells.numbers, fields):
            room.symbols[target] = symbol


@njit(_nrt=False, forceinline=True)
def _take(state, lane, ways, column, machine, cells, room, trees, fields):  # type: ignore[no-untyped-def]  # fmt: skip
    """Let the cells of a state whose edge is satisfied map a row, which they leave for."""
    symbol, tree = lowest(ways), trees.number[state]
    asked, target = trees.asked[state, symbol], machine.step[state, symbol]
    if not trees.is_wanted[asked, column]:
        return
    while True:
        place = first_taken(tree, lane, trees.by[state, symbol], trees.wanted[asked, column], trees)
        if place < 0:
            return
        cell = trees.cells[place]
        trees.cells[place] = _NOTHING
        room.symbols[target] = symbol
        merge_at_once(room.slots, target, cells.numbers, cell, fields)
        _give_back(cell, cells)


@njit(_nrt=False, forceinline=True)
def _keep(state, lane, column, other, j, trees, cells, fields):  # type: ignore[no-untyped-def]
    """Add runs to the cell that has the value of a row, and to trees. Returns the cell."""
    place = add_to_trees(trees.number[state], lane, column, trees, other, j, fields)
    cell = trees.cells[place]
    if cell == _NOTHING:
        cell = _new_cell(cells)
        cells.live[cell] = column
        trees.cells[place] = cell
    merge_at_once(cells.numbers, cell, other, j, fields)
    return cell


@njit(_nrt=False)
def _plant(trees, cells, fields):  # type: ignore[no-untyped-def]
    """Move all cells of states with trees from lists to these, one for each value."""
    n_states = trees.number.size
    for at in range(cells.heads.size):
        tree = trees.number[at % n_states]
        if tree < 0:
            continue
        cell = cells.heads[at]
        cells.heads[at] = _NOTHING
        while cell != _NOTHING:
            behind, live = cells.following[cell], cells.live[cell]
            place = add_to_trees(tree, at // n_states, live, trees, cells.numbers, cell, fields)
            if trees.cells[place] == _NOTHING:
                trees.cells[place] = cell
            else:
                merge(cells.numbers, trees.cells[place], cells.numbers, cell, fields)
                _give_back(cell, cells)
            cell = behind


@njit(_nrt=False)
def _reap(trees, cells):  # type: ignore[no-untyped-def]
    """Move the cells back to lists."""
    n_states = trees.number.size
    for at in range(cells.heads.size):
        tree, lane = trees.number[at % n_states], at // n_states
        if tree < 0:
            continue
        begin = trees.begins[tree, lane]
        for place in range(begin, begin + trees.sizes[tree, lane] + 1):
            cell = trees.cells[place]
            if cell != _NOTHING:
                cells.following[cell] = cells.heads[at]
                cells.heads[at] = cell


@njit(_nrt=False, forceinline=True)
def _scan(lane, word, column, row, total, semantics, machine, cells, room, trees, totals, fields, rows, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Let the cells of a lane see a row."""
    n_states = machine.ways.size
    for state in range(2, n_states):
        ways = word & machine.ways[state]
        watched = word & machine.watched[state]
        if semantics != CONTIGUOUS and ways == _NONE and watched == _NONE:
            continue
        if trees.number[state] >= 0:
            if semantics == NEXT:
                _take(state, lane, ways, column, machine, cells, room, trees, fields)
            else:
                _ask(state, lane, ways, column, machine, cells, room, trees, fields, across, progress)  # fmt: skip  # noqa: E501
            continue
        before = _NOTHING
        cell = cells.heads[lane * n_states + state]
        while cell != _NOTHING:
            behind, live = cells.following[cell], cells.live[cell]
            there = 0 if live == _NOTHING else 1
            leads = False
            rest = ways
            while rest:
                symbol = lowest(rest)
                rest &= rest - _ONE
                condition = machine.conditions[there, state, symbol]
                if _holds(condition, column, live, across, progress):
                    leads = True
                    _go(cell, live, state, symbol, row, total, machine, cells, room, totals, fields, rows)  # fmt: skip  # noqa: E501
            after = state
            if semantics == CONTIGUOUS or (semantics == NEXT and leads):
                after = -1
            elif watched:
                after, live = _pass(state, live, word, column, machine, across, progress)
            if after == state:
                before = cell
            else:
                if before == _NOTHING:
                    cells.heads[lane * n_states + state] = behind
                else:
                    cells.following[before] = behind
                if after < 0:
                    _give_back(cell, cells)
                else:
                    cells.live[cell] = live
                    _put_under_way(cell, after, room, cells)
            cell = behind


@njit(_nrt=False, forceinline=True)
def _begin(state, word, column, row, total, machine, cells, room, totals, fields, rows, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Let runs begin with a row."""
    rest = word & machine.ways[state]
    while rest:
        symbol = lowest(rest)
        rest &= rest - _ONE
        if _holds(machine.conditions[0, state, symbol], column, _NOTHING, across, progress):
            _go(_NOTHING, _NOTHING, state, symbol, row, total, machine, cells, room, totals, fields, rows)  # fmt: skip  # noqa: E501


@njit(_nrt=False)
def _arrive(lane, state, room, trees, cells, fields, high):  # type: ignore[no-untyped-def]
    """Let cells under way come to a state. Returns whether one may be full."""
    top = fields.words[0] - 1
    if trees.number[state] >= 0:
        is_full = False
        cell = room.heads[state]
        room.heads[state] = _NOTHING
        while cell != _NOTHING:
            behind, live = cells.following[cell], cells.live[cell]
            kept = _keep(state, lane, live, cells.numbers, cell, trees, cells, fields)
            _give_back(cell, cells)
            is_full = is_full or cells.numbers[kept, top] >= high
            cell = behind
        return is_full
    at = lane * room.symbols.size + state
    room.n_marked[0] += 1
    mark = room.n_marked[0]
    cell = cells.heads[at]
    while cell != _NOTHING:
        room.places[cells.live[cell] + 1] = cell
        room.marks[cells.live[cell] + 1] = mark
        cell = cells.following[cell]
    is_full = False
    cell = room.heads[state]
    room.heads[state] = _NOTHING
    while cell != _NOTHING:
        behind, live = cells.following[cell], cells.live[cell] + 1
        if room.marks[live] == mark:
            merge(cells.numbers, room.places[live], cells.numbers, cell, fields)
            _give_back(cell, cells)
        else:
            room.places[live] = cell
            room.marks[live] = mark
            cells.following[cell] = cells.heads[at]
            cells.heads[at] = cell
        is_full = is_full or cells.numbers[room.places[live], top] >= high
        cell = behind
    return is_full


@njit(_nrt=False, forceinline=True)
def _settle(lane, column, row, total, machine, cells, room, trees, totals, fields, rows, high):  # type: ignore[no-untyped-def]  # fmt: skip
    """Let what a row made of runs come to its states. Returns whether a cell may be full."""
    n_states, top = room.symbols.size, fields.words[0] - 1
    is_full = False
    for state in range(2, n_states):
        if room.heads[state] != _NOTHING:
            full = _arrive(lane, state, room, trees, cells, fields, high)
            is_full = is_full or full
        symbol = room.symbols[state]
        if symbol < 0:
            continue
        room.symbols[state] = -1
        map_row(room.slots, state, symbol, row, False, fields, rows)
        if machine.ends[state]:
            merge(totals, total, room.slots, state, fields)
        if trees.number[state] >= 0:
            cell = _keep(state, lane, column, room.slots, state, trees, cells, fields)
            is_full = is_full or cells.numbers[cell, top] >= high
        elif machine.goes_on[state]:
            at = lane * n_states + state
            cell = _NOTHING if machine.has_live[state] else cells.heads[at]
            if cell == _NOTHING:
                cell = _new_cell(cells)
                cells.live[cell] = column if machine.has_live[state] else _NOTHING
                cells.following[cell] = cells.heads[at]
                cells.heads[at] = cell
            merge(cells.numbers, cell, room.slots, state, fields)
            is_full = is_full or cells.numbers[cell, top] >= high
        set_none(room.slots, state)
    return is_full or totals[total, top] >= high


@njit(_nrt=False)
def _empty(lane, n_states, cells):  # type: ignore[no-untyped-def]
    """Let go of all runs of a lane."""
    for at in range(lane * n_states, (lane + 1) * n_states):
        cell = cells.heads[at]
        cells.heads[at] = _NOTHING
        while cell != _NOTHING:
            behind = cells.following[cell]
            _give_back(cell, cells)
            cell = behind


@njit(_nrt=False, forceinline=True)
def _cells_needed(word, n_symbols, machine, cells):  # type: ignore[no-untyped-def]
    """At most how many cells a row may take from those that are free."""
    n_mapped = 0
    for symbol in range(n_symbols):
        if word >> np.uint64(symbol) & _ONE:
            n_mapped += 1
    n_used = cells.live.size - cells.free[N_FREE] if machine.keeps_rows else 0
    return machine.ways.size * (1 + n_mapped) + n_mapped * n_used


@njit(_nrt=False)
def sum_rows(at, before, semantics, high, opens, machine, cells, room, trees, totals, fields, rows, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Sum without a window, from row ``at`` on, whose column is ``before + at``.

    Partition p has the lane p. Returns the row before which numbers need another word or there need
    to be more cells, or the end.
    """
    machine, cells, room = Machine(*machine), Cells(*cells), Room(*room)
    fields, rows, trees = Fields(*fields), Rows(*rows), Trees(*trees)
    _plant(trees, cells, fields)
    n_symbols = machine.step.shape[1]
    end = rows.code.size
    for row in range(at, rows.code.size):
        word, lane, column = np.uint64(rows.code[row]), rows.lane[row], before + row
        if _cells_needed(word, n_symbols, machine, cells) > cells.free[N_FREE]:
            end = row
            break
        _scan(lane, word, column, row, lane, semantics, machine, cells, room, trees, totals, fields, rows, across, progress)  # fmt: skip  # noqa: E501
        begin = 0 if opens[row] else 1
        _begin(begin, word, column, row, lane, machine, cells, room, totals, fields, rows, across, progress)  # fmt: skip  # noqa: E501
        if _settle(
            lane, column, row, lane, machine, cells, room, trees, totals, fields, rows, high
        ):
            end = row + 1
            break
    _reap(trees, cells)
    return end


@njit(_nrt=False, forceinline=True)
def _see_row(lane, row, begins, goes_on, total, semantics, high, opens, machine, cells, room, trees, totals, fields, rows, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Let runs begin with a row, whose column is its place, or map it; returns a status."""
    word, n_free = np.uint64(rows.code[row]), cells.free[N_FREE]
    n_states, n_symbols = machine.step.shape
    n_used = cells.live.size - n_free if machine.keeps_rows else 0
    if n_states * (1 + n_symbols) + n_symbols * n_used > n_free:
        return STATUS_CELLS
    if goes_on:
        _scan(lane, word, row, row, total, semantics, machine, cells, room, trees, totals, fields, rows, across, progress)  # fmt: skip  # noqa: E501
    if begins:
        begin = 0 if opens[row] else 1
        _begin(begin, word, row, row, total, machine, cells, room, totals, fields, rows, across, progress)  # fmt: skip  # noqa: E501
    if _settle(lane, row, row, total, machine, cells, room, trees, totals, fields, rows, high):
        return STATUS_WIDE
    return STATUS_DONE


@njit(_nrt=False)
def _fell(lane, first, end, trees, cells):  # type: ignore[no-untyped-def]
    """Let go of all runs in trees of a lane, whose live rows have these columns."""
    for tree in range(trees.sizes.shape[0]):
        trees.heaped[tree, lane] = 0
        for column in range(first, end):
            cell = clear_place(tree, lane, column, trees)
            if cell != _NOTHING:
                _give_back(cell, cells)


@njit(_nrt=False, forceinline=True)
def _sum_starts(at, segments, within, one, is_by_piece, bounds, sums, of_sums, semantics, high, opens, machine, cells, room, trees, fields, rows, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Do what `sum_starts` and `sum_start_pieces` do."""
    machine, cells, room = Machine(*machine), Cells(*cells), Room(*room)
    fields, rows, trees = Fields(*fields), Rows(*rows), Trees(*trees)
    top, n_seen = fields.words[0] - 1, 0
    for number in range(at[AT_SEGMENT], len(segments)):
        place, first, counted, end = segments[number]
        at[AT_SEGMENT] = number
        for start in range(max(first, at[AT_START]), end):
            at[AT_START] = start
            if n_seen > SEEN_AT_ONCE:
                return STATUS_GOES_ON
            ways = machine.ways[0 if opens[start] else 1]
            born, is_known = rows.times[start], start < counted
            if is_by_piece and (born < bounds[0] or born >= bounds[-1]):
                continue
            if np.uint64(rows.code[start]) & ways == _NONE:
                continue
            if adds_nothing(start, counted, end, within, rows):
                continue
            into = place
            if is_by_piece:
                into = row_of_piece(at, place, born, bounds, sums, of_sums)
                if into < 0:
                    return STATUS_FOUND
            status, row, n_faults = STATUS_DONE, start, progress[N_FAULTS]
            while status == STATUS_DONE and row < end:
                if is_after(rows.times[row], born, within):
                    break
                if is_known and row == counted:  # what was found before is in the sums
                    set_none(one, 0)
                    progress[N_FAULTS] = n_faults
                status = _see_row(number, row, row == start, row != start, 0, semantics, high, opens, machine, cells, room, trees, one, fields, rows, across, progress)  # fmt: skip  # noqa: E501
                row += 1
                if cells.free[N_FREE] == cells.live.size:  # no run goes on
                    break
            n_seen += row - start
            _empty(number, machine.ways.size, cells)
            _fell(number, start, row, trees, cells)
            if status != STATUS_DONE or row <= counted:
                progress[N_FAULTS] = n_faults
            else:
                merge(sums, into, one, 0, fields)
            set_none(one, 0)
            if status != STATUS_DONE:
                return status
            if sums[into, top] >= HIGH:
                at[AT_START] += 1
                return STATUS_WIDE
    at[AT_SEGMENT] = len(segments)
    return STATUS_DONE


@njit(_nrt=False)
def sum_starts(at, segments, within, one, totals, semantics, high, opens, machine, cells, room, trees, fields, rows, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Sum within a window from each start, as `kernels.sum_starts`.

    Cells and trees of a segment have the lane of its number; the column of a row is its place.
    ``one`` is the cell of a start.
    """
    nothing = rows[0]  # of the type of bounds, and looked at nowhere
    return _sum_starts(
        at, segments, within, one, False, nothing, totals, segments, semantics, high, opens,
        machine, cells, room, trees, fields, rows, across, progress,
    )  # fmt: skip


@njit(_nrt=False)
def sum_start_pieces(at, segments, within, one, bounds, sums, of_sums, semantics, high, opens, machine, cells, room, trees, fields, rows, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Sum as `sum_starts`, by piece of the stream in which starts are; see `row_of_piece`.

    ``bounds`` are around the starts that are gone through.
    """
    return _sum_starts(
        at, segments, within, one, True, bounds, sums, of_sums, semantics, high, opens, machine,
        cells, room, trees, fields, rows, across, progress,
    )  # fmt: skip


@njit(_nrt=False)
def sum_row_windows(at, segments, starts, ends, sums, of_sums, semantics, high, opens, machine, cells, room, trees, fields, rows, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Sum in each of some windows, one after the other; neither ``starts`` nor ``ends`` descend.

    As `sum_starts`; ``of_sums`` has partition and window of each. Windows that follow each other
    may have the same rows, and then the same sums.
    """
    machine, cells, room = Machine(*machine), Cells(*cells), Room(*room)
    fields, rows, trees = Fields(*fields), Rows(*rows), Trees(*trees)
    n_seen = 0
    for number in range(at[AT_SEGMENT], len(segments)):
        place, low, _, end = segments[number]
        if number != at[AT_SEGMENT]:
            at[AT_SEGMENT], at[AT_START] = number, 0
        window, low_before, high_before, is_found = at[AT_START], -1, -1, False
        while window < ends.size:
            at[AT_START] = window
            if n_seen > SEEN_AT_ONCE:
                return STATUS_GOES_ON
            while low < end and rows.times[low] < starts[window]:
                low += 1
            if low == end:
                break
            if rows.times[low] >= ends[window]:
                window = right(ends, window, ends.size, rows.times[low])
                continue
            n = at[N_FOUND]
            if n == len(sums):
                return STATUS_FOUND
            high_row = max(low, high_before)
            while high_row < end and rows.times[high_row] < ends[window]:
                high_row += 1
            is_same = low == low_before and high_row == high_before
            for w in range(sums.shape[1]):
                sums[n, w] = sums[n - 1, w] if is_same and is_found else _NONE
            if not is_same:
                status, row, n_faults = STATUS_DONE, low, progress[N_FAULTS]
                while status == STATUS_DONE and row < high_row:
                    status = _see_row(number, row, True, True, n, semantics, high, opens, machine, cells, room, trees, sums, fields, rows, across, progress)  # fmt: skip  # noqa: E501
                    row += 1
                n_seen += row - low
                _empty(number, machine.ways.size, cells)
                _fell(number, low, row, trees, cells)
                if status != STATUS_DONE:
                    progress[N_FAULTS] = n_faults
                    return status
            low_before, high_before = low, high_row
            is_found = not is_none(sums, n, 0, fields.words[0])
            if is_found:
                of_sums[0, n], of_sums[1, n] = place, window
                at[N_FOUND] += 1
            window += 1
    at[AT_SEGMENT] = len(segments)
    return STATUS_DONE
