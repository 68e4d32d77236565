"""Compiled enumeration of mappings of given rows, where conditions look across rows."""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit
from replay.patterns.conditions.kernels import bind_row, holds, unbind_row
from replay.patterns.run_end_kernels import set_all
from replay.patterns.strategies.run_kernels import (
    ANY,
    CONTIGUOUS,
    MATCH,
    NEXT,
    NO,
    STEPS,
    TIMED_OUT,
    deeper,
    is_match,
    lowest,
    write,
)

_ONE = np.uint64(1)
_NONE = np.uint64(0)


# Each is compiled once, not at every call: handing tuples on takes less than compiling them in.


@njit(_nrt=False)
def clear(across):  # type: ignore[no-untyped-def]
    """Forget all rows bound."""
    set_all(across[1][0], 0)


@njit(_nrt=False)
def bind(symbol, row, across):  # type: ignore[no-untyped-def]
    """Map a row to a symbol."""
    conds, mapped = across
    _, symbols, slots, totals, _, _, leaf_i, leaf_f, leaf_ok, _ = conds
    counts, rows, totals_i, totals_f, path, _, _, _ = mapped
    bind_row(symbol, row, symbols, slots, totals, leaf_i, leaf_f, leaf_ok, counts, rows, totals_i, totals_f, path)  # fmt: skip  # noqa: E501


@njit(_nrt=False)
def unbind(symbol, across):  # type: ignore[no-untyped-def]
    """Take back the row bound last, which was mapped to the symbol."""
    conds, mapped = across
    unbind_row(symbol, conds[1], conds[2], mapped[0])


@njit(_nrt=False)
def is_true(symbol, first, row, across, progress):  # type: ignore[no-untyped-def]
    """Whether the condition of a symbol holds at the row bound last."""
    conds, mapped = across
    code, symbols, _, totals, const_i, const_f, leaf_i, leaf_f, leaf_ok, calls = conds
    counts, rows, totals_i, totals_f, path, stack_i, stack_f, stack_ok = mapped
    return holds(symbol, first, row, 0, code, symbols, totals, const_i, const_f, leaf_i, leaf_f, leaf_ok, calls, counts, rows, totals_i, totals_f, path, stack_i, stack_f, stack_ok, progress)  # fmt: skip  # noqa: E501


@njit(_nrt=False)
def _would_hold(symbol, row, first, across, tables, progress):  # type: ignore[no-untyped-def]  # fmt: skip
    """Whether the row, whose bit is set, satisfies the symbol given the rows bound."""
    if (tables.asks >> np.uint64(symbol)) & _ONE == 0:
        return True
    bind(symbol, row, across)
    found = is_true(symbol, first, row, across, progress)
    unbind(symbol, across)
    return found


@njit(_nrt=False)
def gap(state, low, high, first, semantics, data, tables, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip
    """State of the run bound after rows ``low:high`` are left unmapped; -1 as in `passed`."""
    if semantics == CONTIGUOUS:
        return state if low >= high else -1
    if semantics == ANY and tables.watched == 0:
        return state
    for row in range(low, high):
        progress[STEPS] += 1
        word = data.words[row]
        relevant = word & tables.ways[state] if semantics == NEXT else _NONE
        while relevant:
            symbol = lowest(relevant)
            relevant &= relevant - _ONE
            if _would_hold(symbol, row, first, across, tables, progress):
                return -1
        if word & tables.watched == 0:
            continue
        for x in range(tables.negated.size):
            symbol = tables.negated[x]
            asked = (word >> np.uint64(symbol)) & _ONE and tables.skip[state, x] != state
            if asked and _would_hold(symbol, row, first, across, tables, progress):
                state = tables.skip[state, x]
                if state < 0:
                    return -1
    return state


@njit(_nrt=False)
def verdict(state, span, semantics, data, tables, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip
    """As `run_kernels.verdict`, of the mapping bound."""
    after = _NONE
    for x in range(tables.negated.size):
        symbol = tables.negated[x]
        for row in range(span.last + 1, span.limit):
            if (data.words[row] >> np.uint64(symbol)) & _ONE and _would_hold(
                symbol, row, span.first, across, tables, progress
            ):
                after |= _ONE << np.uint64(x)
                break
    if is_match(state, span.before, after, span.at_end, tables):
        return MATCH
    if not span.expired or tables.ways[state] == 0:
        return NO
    state = gap(state, span.last + 1, span.limit, span.first, semantics, data, tables, across, progress)  # fmt: skip  # noqa: E501
    return NO if state < 0 else TIMED_OUT


@njit(_nrt=False)
def later(i, path, data, tables):  # type: ignore[no-untyped-def]
    """Symbols not yet tried at depth ``i``, where some were."""
    last = _ONE << np.uint64(path.symbols[i])
    return data.words[path.rows[i]] & tables.ways[path.bases[i]] & ~(last | (last - _ONE))


@njit(_nrt=False)
def next_mapping(depth, onward, floor, i, rest, first, semantics, limit, path, data, tables, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Bind the next mapping of the rows of the path, symbols in order.

    The rows above depth ``i`` are bound, ``rest`` are the symbols to try at ``i``. With ``onward``
    another row must be able to follow. If there is no mapping more, all rows but those above
    ``floor`` are free again, and False is returned; also after more than ``limit`` steps.
    """
    while True:
        base = path.bases[i]
        row = path.rows[i]
        found = False
        while rest and not found:
            symbol = lowest(rest)
            rest &= rest - _ONE
            target = tables.step[base, symbol]
            if (i < depth or onward) and tables.ways[target] == 0:
                continue
            bind(symbol, row, across)
            progress[STEPS] += 1
            found = is_true(symbol, first, row, across, progress)
            if found:
                path.symbols[i] = symbol
                path.exact[i] = target
            else:
                unbind(symbol, across)
        if found and i == depth:
            return True
        if found:
            base = gap(path.exact[i], row + 1, path.rows[i + 1], first, semantics, data, tables, across, progress)  # fmt: skip  # noqa: E501
            i += 1
            path.bases[i] = base
            rest = data.words[path.rows[i]] & tables.ways[base] if base >= 0 else _NONE
            continue
        i -= 1
        if i < floor or progress[STEPS] > limit:
            return False
        rest = later(i, path, data, tables)
        unbind(path.symbols[i], across)


@njit(_nrt=False)
def release(low, high, path, across):  # type: ignore[no-untyped-def]
    """Free the rows at depths ``low:high``, the last first."""
    for i in range(high - 1, low - 1, -1):
        unbind(path.symbols[i], across)


@njit(_nrt=False)
def _restore(symbols, exact, bases, path, across):  # type: ignore[no-untyped-def]
    """Bind a mapping again that was bound before."""
    for i in range(symbols.size):
        path.symbols[i] = symbols[i]
        path.exact[i] = exact[i]
        path.bases[i] = bases[i]
        bind(symbols[i], path.rows[i], across)


@njit(_nrt=False)
def _count_choices(depth, has_choice, path):  # type: ignore[no-untyped-def]
    """Keep up how many rows could be mapped to several symbols and be followed by others."""
    above = path.choices[depth - 1] if depth > 0 else 0
    path.choices[depth] = above + (1 if has_choice else 0)


@njit(_nrt=False)
def _may_choose(i, path, data, tables):  # type: ignore[no-untyped-def]
    """Whether the row at depth ``i`` has several symbols if all that look across rows hold."""
    inner = data.words[path.rows[i]] & tables.inner[path.bases[i]]
    return inner & (inner - _ONE) != 0


@njit(_nrt=False)
def _chooses(i, first, path, data, tables, across, progress):  # type: ignore[no-untyped-def]
    """Whether a symbol after that of the row bound last, at depth ``i``, holds there as well."""
    row, symbol = path.rows[i], path.symbols[i]
    others = later(i, path, data, tables) & tables.inner[path.bases[i]]
    if others == 0:
        return False
    unbind(symbol, across)
    found = False
    while others and not found:
        found = _would_hold(lowest(others), row, first, across, tables, progress)
        others &= others - _ONE
    bind(symbol, row, across)
    return found


@njit()
def witness(depth, span, semantics, limit, path, data, tables, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip
    """Bind a mapping of the rows down to ``depth``, of which those above are bound.

    Returns whether there is one; if not, the rows above stay bound as they are.
    """
    first = span.first
    if depth == 0:
        path.bases[0] = span.begin
    else:
        path.bases[depth] = gap(path.exact[depth - 1], path.rows[depth - 1] + 1, path.rows[depth], first, semantics, data, tables, across, progress)  # fmt: skip  # noqa: E501
    base = path.bases[depth]
    if base >= 0:
        rest = data.words[path.rows[depth]] & tables.ways[base]
        if next_mapping(depth, True, depth, depth, rest, first, semantics, limit, path, data, tables, across, progress):  # fmt: skip  # noqa: E501
            # Symbols before the one bound do not hold, as they were tried first.
            chooses = _chooses(depth, first, path, data, tables, across, progress)
            _count_choices(depth, chooses, path)
            return True
    if depth == 0:
        return False
    if path.choices[depth - 1] == 0:
        if base < 0:
            path.ahead[depth - 1] = span.last  # what ends the only mapping here does so further on
        return False
    symbols, exact, bases = path.symbols[:depth].copy(), path.exact[:depth].copy(), path.bases[:depth].copy()  # fmt: skip  # noqa: E501
    release(0, depth, path, across)
    rest = data.words[first] & tables.ways[span.begin]
    if next_mapping(depth, True, 0, 0, rest, first, semantics, limit, path, data, tables, across, progress):  # fmt: skip  # noqa: E501
        for i in range(depth + 1):
            _count_choices(i, _may_choose(i, path, data, tables), path)
        return True
    _restore(symbols, exact, bases, path, across)
    return False


@njit()
def emit(depth, span, semantics, limit, resumed, path, data, tables, across, out, progress):  # type: ignore[no-untyped-def]  # fmt: skip
    """Write every mapping of the rows of the path that is one to be had, symbols in order.

    The rows above ``depth`` are bound, and are so again after. Goes on after the mapping
    ``resumed``, if any. Returns whether there was room for all.
    """
    first = span.first
    symbols, exact, bases = path.symbols[:depth].copy(), path.exact[:depth].copy(), path.bases[:depth].copy()  # fmt: skip  # noqa: E501
    release(0, depth, path, across)
    path.bases[0] = span.begin
    i = 0
    rest = data.words[first] & tables.ways[span.begin]
    if resumed.size:
        for at in range(depth + 1):
            if at > 0:
                path.bases[at] = gap(path.exact[at - 1], path.rows[at - 1] + 1, path.rows[at], first, semantics, data, tables, across, progress)  # fmt: skip  # noqa: E501
            path.symbols[at] = resumed[at]
            path.exact[at] = tables.step[path.bases[at], resumed[at]]
            if at < depth:
                bind(resumed[at], path.rows[at], across)
        i = depth
        rest = later(i, path, data, tables)
    while next_mapping(depth, False, 0, i, rest, first, semantics, limit, path, data, tables, across, progress):  # fmt: skip  # noqa: E501
        i = depth
        found = verdict(path.exact[i], span, semantics, data, tables, across, progress)
        if found != NO and not write(depth, found == TIMED_OUT, path, out, progress):
            return False
        rest = later(i, path, data, tables)
        unbind(path.symbols[i], across)
    _restore(symbols, exact, bases, path, across)
    return True


@njit(_nrt=False)
def _next_row(state, row, end, first, semantics, data, tables, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip
    """Next row that the run bound may map, ``end`` if none has come, and its state before it.

    Under SKIP TILL ANY conditions need not hold there. The state is -1 if the run can map no row
    any more.
    """
    if semantics == CONTIGUOUS:
        return row, state
    while row < end:
        relevant = data.words[row] & tables.ways[state]
        if semantics == ANY and relevant:
            return row, state
        after = gap(state, row, row + 1, first, semantics, data, tables, across, progress)
        if after < 0:
            while relevant:
                symbol = lowest(relevant)
                relevant &= relevant - _ONE
                if _would_hold(symbol, row, first, across, tables, progress):
                    return row, state
            return row, -1
        state = after
        row += 1
    return row, state


@njit()
def follow_runs(first, begin, end, semantics, limit, taken, ends, path, data, tables, across, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Follow the runs of a start over the rows before ``end``.

    Rows that runs map get the number of the start in ``taken``, and in ``ends`` those at which a
    run may be told. After more than ``limit`` steps every row gets both. Returns whether a run may
    still wait for a row at the end, the row after the last of ``ends``, and the path, which may
    have grown.
    """
    clear(across)
    waits = False
    stop = first
    depth = 0
    path.rows[0] = first
    path.bases[0] = begin
    rest = data.words[first] & tables.ways[begin]
    while progress[STEPS] <= limit:
        row = path.rows[depth]
        state = path.bases[depth]
        if next_mapping(depth, False, depth, depth, rest, first, semantics, limit, path, data, tables, across, progress):  # fmt: skip  # noqa: E501
            state = path.exact[depth]
            taken[row] = first
            if tables.accepts[state] < tables.accepts[state + 1]:
                ends[row] = first
                stop = max(stop, row + 1)
            if depth + 2 > path.rows.size:
                path = deeper(path)
            depth += 1
            if tables.ways[state] == 0:
                state = -1
        elif depth > 0 and semantics == ANY and state >= 0 and row < end:
            progress[STEPS] += 1
            state = gap(state, row, row + 1, first, semantics, data, tables, across, progress)
        else:
            depth -= 1
            if depth < 0:
                return waits, stop, path
            rest = later(depth, path, data, tables)
            unbind(path.symbols[depth], across)
            continue
        row += 1
        if state >= 0:
            row, state = _next_row(state, row, end, first, semantics, data, tables, across, progress)  # fmt: skip  # noqa: E501
        rest = _NONE
        if state >= 0 and row < end:
            rest = data.words[row] & tables.ways[state]
        elif state >= 0:
            waits = True
            ends[path.rows[depth - 1]] = first  # it is told if it has timed out
            stop = max(stop, path.rows[depth - 1] + 1)
        path.rows[depth] = row
        path.bases[depth] = state
    for row in range(first, end):
        taken[row] = first
        ends[row] = first
    return True, end, path
