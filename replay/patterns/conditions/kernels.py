"""Compiled machine for conditions that look across the rows of a match.

How to call it
--------------
All state is plain arrays, handed on one by one: a tuple of arrays costs a call several times the
work of a comparison. `to_conditions` and `new_mapped` in ``conditions/across.py``
return the arrays as plain tuples, in this order.

``_nrt=False`` keeps Numba from counting references: to every array of every call, each in a locked
instruction, which took most of the time. Such a kernel must neither make an array nor return one,
nor a tuple of any; a test holds that.

``conds``, read only: the conditions, compiled, and the leaves of the rows at hand.

- ``code``: stack programs, shape (n, `X_WIDTH`).
- ``symbols``: by symbol its part of ``code`` and of ``slots``, both half-open, and the `SHAPE_…` of
  its condition, shape (n_symbols, 5).
- ``slots``: by symbol its slots, each with its part of ``totals``, half-open, shape (n, 3).
- ``totals``: what it keeps up, leaf, whether the leaf is a double, whether equal values count once,
  and whether the leaf is the first of one for each symbol; shape (n_totals, 5).
- ``const_i``, ``const_f``: constants; the same memory.
- ``leaf_i``, ``leaf_f``: shape (n_leaves, n_rows), the same memory; ``leaf_ok``: not NULL.
- ``calls``: None where no condition calls a function; the kernels are then compiled without any.

``mapped``: the rows of a match mapped so far.

- ``counts``: rows of each slot, shape (n_slots,).
- ``rows``: by slot, in the order mapped, shape (n_slots, capacity).
- ``totals_i``: by total and rows of its slot: rows that counted, value, carry beyond 64 bits;
  shape (n_totals, capacity + 1, 3).
- ``totals_f``: likewise: value or mean, squared differences; shape (n_totals, capacity + 1, 2).
- ``path``: symbol of each mapped row, shape (n_rows,) at least.
- ``stack_i``, ``stack_f``, ``stack_ok``: working memory of `run_condition`.

Rows are numbers of columns of the leaves; those of a match ascend, but need not be adjacent.

- ``counts[:] = 0`` before a match begins.
- `bind_row` maps a row; needed for symbols whose ``tracked`` is True, harmless for others.
- `holds` asks whether the condition of the symbol is true at the row bound last; ``start`` is the
  first row of the match, ``number`` its MATCH_NUMBER. A symbol without a condition across rows
  always holds. Faults are counted in ``progress[N_FAULTS]``.
- `unbind_row` takes back the row bound last, which was of that symbol.

State is by *slot*: a set of symbols that some condition reads. Nothing but the counts is undone:
rows and running totals of a slot stand by how many rows it has.
"""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit
from replay.expressions.functions.kernels import apply_function
from replay.patterns.conditions.total_kernels import SYMBOL_MASK, add_row, push_total

N_FAULTS = 2
"""Field of the search's `progress` that counts faults."""

# Operations of conditions across rows.
X_LEAF_I = 0  # leaf, anchor, slot, offset, constant if the anchor has no row (-1: NULL)
X_LEAF_F = 1
X_CONST_I = 2  # constant
X_CONST_F = 3
X_NULL = 4
X_AND = 5
X_OR = 6
X_NOT = 7
X_IS_NULL = 8
X_SELECT = 9  # condition, value if true, value otherwise
X_COALESCE = 10
X_NEG_I = 11
X_NEG_F = 12
X_ABS_I = 13
X_ABS_F = 14
X_TO_F = 15
X_TO_I = 16
X_CLASSIFIER = 17  # constant with the name of symbol 0, anchor, slot, offset
X_MATCH_NUMBER = 18
X_COUNT = 19  # -, -, slot (-1: all rows of a match of adjacent rows)
X_TOTAL = 20  # total, function
X_CLASSIFIER_NEAR = 21  # as X_CLASSIFIER, then how many rows further on, and slot of all rows
X_ARITHMETIC_I = 30  # + - * / % in this order
X_ARITHMETIC_F = 40
X_COMPARE_I = 50  # = <> < <= > >= in this order
X_COMPARE_F = 60
X_FUNCTION_I = 70  # function of replay/expressions/functions/kernels.py, number of operands
X_FUNCTION_F = 71

X_WIDTH = 7

# Fields of `symbols`.
CODE_BEGIN = 0
CODE_END = 1
SLOTS_BEGIN = 2
SLOTS_END = 3
SHAPE = 4

# Shapes of conditions: most compare two values, which needs no stack.
SHAPE_NONE = 0
SHAPE_COMPARE_I = 1
SHAPE_COMPARE_F = 2
SHAPE_ANY = 3

ANCHOR_CURRENT = 0
ANCHOR_FIRST = 1
ANCHOR_LAST = 2

INT64_MIN = np.iinfo(np.int64).min
INT64_MAX = np.iinfo(np.int64).max
TWO_63 = 9223372036854775808.0


@njit(_nrt=False)
def _product_fits(a, b):  # type: ignore[no-untyped-def]
    """Whether int64 holds the product."""
    if a == 0 or b == 0:
        return True
    if a == -1 or b == -1:  # INT64_MIN / -1 traps
        return (b if a == -1 else a) != INT64_MIN
    bound = INT64_MAX if (a > 0) == (b > 0) else INT64_MIN
    quotient = bound // b
    if bound % b != 0 and quotient < 0:
        quotient += 1  # towards zero
    return a <= quotient if a > 0 else a >= quotient


@njit(_nrt=False)
def integer_arithmetic(op, a, b):  # type: ignore[no-untyped-def]
    """Integer arithmetic: (value, whether it exists)."""
    if op == 0:
        fits = a <= INT64_MAX - b if b >= 0 else a >= INT64_MIN - b
        return (a + b, True) if fits else (0, False)
    if op == 1:
        fits = a >= INT64_MIN + b if b >= 0 else a <= INT64_MAX + b
        return (a - b, True) if fits else (0, False)
    if op == 2:
        return (a * b, True) if _product_fits(a, b) else (0, False)
    if b == 0:
        return 0, False
    if b == -1:  # INT64_MIN / -1 traps
        if op == 3:
            return (-a, True) if a != INT64_MIN else (0, False)
        return 0, True
    quotient = a // b
    remainder = a % b
    if op == 3:  # towards zero
        return (quotient + 1 if quotient < 0 and remainder != 0 else quotient), True
    return (remainder - b if remainder != 0 and (remainder < 0) != (a < 0) else remainder), True


@njit(_nrt=False)
def double_arithmetic(op, a, b):  # type: ignore[no-untyped-def]
    """Double arithmetic: (value, whether it exists)."""
    if op == 0:
        return a + b, True
    if op == 1:
        return a - b, True
    if op == 2:
        return a * b, True
    if b == 0.0:
        return 0.0, False
    return (a / b, True) if op == 3 else (np.fmod(a, b), True)


@njit(_nrt=False)
def _compare(op, a, b):  # type: ignore[no-untyped-def]
    if op == 0:
        return a == b
    if op == 1:
        return a != b
    if op == 2:
        return a < b
    if op == 3:
        return a <= b
    if op == 4:
        return a > b
    return a >= b


@njit(_nrt=False, forceinline=True)
def bind_row(symbol, row, symbols, slots, totals, leaf_i, leaf_f, leaf_ok, counts, rows, totals_i, totals_f, path):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Map a row, after all rows mapped so far, to a symbol."""
    path[row] = symbol
    for k in range(symbols[symbol, SLOTS_BEGIN], symbols[symbol, SLOTS_END]):
        slot = slots[k, 0]
        count = counts[slot]
        rows[slot, count] = row
        counts[slot] = count + 1
        for total in range(slots[k, 1], slots[k, 2]):
            add_row(total, count, row, totals, leaf_i, leaf_f, leaf_ok, rows[slot], totals_i, totals_f, path)  # fmt: skip  # noqa: E501


@njit(_nrt=False, forceinline=True)
def unbind_row(symbol, symbols, slots, counts):  # type: ignore[no-untyped-def]
    """Take back the row bound last, which was mapped to the symbol."""
    for k in range(symbols[symbol, SLOTS_BEGIN], symbols[symbol, SLOTS_END]):
        counts[slots[k, 0]] -= 1


@njit(_nrt=False, forceinline=True)
def anchor_row(kind, slot, offset, start, row, counts, rows):  # type: ignore[no-untyped-def]
    """Row of an anchor, -1 if it has none. Slot -1 are all rows of a match of adjacent rows."""
    if kind == ANCHOR_CURRENT:
        return row
    if slot < 0:
        at = start + offset if kind == ANCHOR_FIRST else row - offset
        return at if start <= at <= row else -1
    count = counts[slot]
    if offset >= count:
        return -1
    return rows[slot, offset if kind == ANCHOR_FIRST else count - 1 - offset]


@njit(_nrt=False)
def _merge_truths(op, i, valid, a, b):  # type: ignore[no-untyped-def]
    """Three-valued AND / OR of stack entries into a."""
    decisive = 0 if op == X_AND else 1
    if (valid[a] and i[a] == decisive) or (valid[b] and i[b] == decisive):
        i[a] = decisive
        valid[a] = True
    else:
        i[a] = 1 - decisive
        valid[a] = valid[a] and valid[b]


@njit(_nrt=False)
def _unary(op, i, f, valid, p):  # type: ignore[no-untyped-def]
    """One operand in place; returns whether a fault occurred."""
    if op == X_NOT:
        i[p] = 1 - i[p]
    elif op == X_IS_NULL:
        i[p] = 0 if valid[p] else 1
        valid[p] = True
    elif op in (X_NEG_I, X_ABS_I):
        if i[p] == INT64_MIN:
            fault = valid[p]
            valid[p] = False
            return fault
        if op == X_NEG_I or i[p] < 0:
            i[p] = -i[p]
    elif op == X_NEG_F:
        f[p] = -f[p]
    elif op == X_ABS_F:
        f[p] = abs(f[p])
    elif op == X_TO_F:
        f[p] = float(i[p])
    elif valid[p]:  # X_TO_I
        whole = np.trunc(f[p])
        if abs(f[p] - whole) >= 0.5:  # half away from zero
            whole += np.copysign(1.0, f[p])
        if not -TWO_63 <= whole < TWO_63:
            valid[p] = False
            return True
        i[p] = int(whole)
    return False


@njit(_nrt=False)
def _binary(op, i, f, valid, p):  # type: ignore[no-untyped-def]
    """Two operands, the result in place of the first; returns whether a fault occurred."""
    q = p + 1
    if op in (X_AND, X_OR):
        _merge_truths(op, i, valid, p, q)
        return False
    if op == X_COALESCE:
        if not valid[p]:
            i[p] = i[q]
            f[p] = f[q]
            valid[p] = valid[q]
        return False
    valid[p] = valid[p] and valid[q]
    if not valid[p]:
        return False
    exists = True
    if op >= X_COMPARE_F:
        i[p] = 1 if _compare(op - X_COMPARE_F, f[p], f[q]) else 0
        valid[p] = not (np.isnan(f[p]) or np.isnan(f[q]))
    elif op >= X_COMPARE_I:
        i[p] = 1 if _compare(op - X_COMPARE_I, i[p], i[q]) else 0
    elif op >= X_ARITHMETIC_F:
        f[p], exists = double_arithmetic(op - X_ARITHMETIC_F, f[p], f[q])
        valid[p] = exists
    else:
        i[p], exists = integer_arithmetic(op - X_ARITHMETIC_I, i[p], i[q])
        valid[p] = exists
    return not exists


@njit(_nrt=False)
def _is_among(row, rows, count):  # type: ignore[no-untyped-def]
    """Whether a row is one of the first ``count`` of ascending rows."""
    lo = 0
    hi = count
    while lo < hi:
        middle = (lo + hi) // 2
        if rows[middle] < row:
            lo = middle + 1
        else:
            hi = middle
    return lo < count and rows[lo] == row


@njit(_nrt=False)
def _read(x, start, row, number, code, totals, const_i, counts, rows, totals_i, totals_f, path, i, f, valid, p):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Push what an instruction reads of the match; returns whether a fault occurred."""
    op = code[x, 0]
    slot = code[x, 3]
    valid[p] = True
    if op in (X_CLASSIFIER, X_CLASSIFIER_NEAR):
        at = anchor_row(code[x, 2], slot, code[x, 4], start, row, counts, rows)
        valid[p] = at >= 0
        if op == X_CLASSIFIER_NEAR and at >= 0:
            at += code[x, 5]
            mapped = code[x, 6]
            valid[p] = _is_among(at, rows[mapped], counts[mapped])
        if valid[p]:
            i[p] = const_i[code[x, 1] + (np.int64(path[at]) & SYMBOL_MASK)]
    elif op == X_MATCH_NUMBER:
        i[p] = number
    elif op == X_COUNT:
        i[p] = counts[slot] if slot >= 0 else row - start + 1
    else:
        total = code[x, 1]
        real = totals[total, 2] != 0
        return push_total(total, code[x, 2], counts[slot], real, totals_i, totals_f, i, f, valid, p)
    return False


@njit(_nrt=False)
def run_condition(begin, end, start, row, number, code, totals, const_i, const_f, leaf_i, leaf_f, leaf_ok, calls, counts, rows, totals_i, totals_f, path, i, f, valid, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Run a stack program on the stack ``i, f, valid``: whether it leaves TRUE."""
    p = -1
    for x in range(begin, end):
        op = code[x, 0]
        if op <= X_LEAF_F:
            leaf = code[x, 1]
            at = anchor_row(code[x, 2], code[x, 3], code[x, 4], start, row, counts, rows)
            p += 1
            valid[p] = leaf_ok[leaf, at] if at >= 0 else code[x, 5] >= 0
            if valid[p]:
                i[p] = leaf_i[leaf, at] if at >= 0 else const_i[code[x, 5]]
                f[p] = leaf_f[leaf, at] if at >= 0 else const_f[code[x, 5]]
        elif op <= X_NULL:
            p += 1
            valid[p] = op != X_NULL
            i[p] = const_i[code[x, 1]] if valid[p] else 0
            f[p] = const_f[code[x, 1]] if valid[p] else 0.0
        elif X_CLASSIFIER <= op <= X_CLASSIFIER_NEAR:
            p += 1
            if _read(x, start, row, number, code, totals, const_i, counts, rows, totals_i, totals_f, path, i, f, valid, p):  # fmt: skip  # noqa: E501
                progress[N_FAULTS] += 1
        elif op == X_SELECT:
            p -= 2  # condition, value if true, value otherwise
            chosen = p + 1 if valid[p] and i[p] == 1 else p + 2
            i[p] = i[chosen]
            f[p] = f[chosen]
            valid[p] = valid[chosen]
        elif op >= X_FUNCTION_I:
            if calls is not None:
                p -= code[x, 2] - 1
                real = op == X_FUNCTION_F
                if apply_function(real, code[x, 1], code[x, 2], i, f, valid, p):
                    progress[N_FAULTS] += 1
        elif op in (X_AND, X_OR, X_COALESCE) or op >= X_ARITHMETIC_I:
            p -= 1
            if _binary(op, i, f, valid, p):
                progress[N_FAULTS] += 1
        elif _unary(op, i, f, valid, p):
            progress[N_FAULTS] += 1
    return valid[p] and i[p] == 1


@njit(_nrt=False)
def _leaf_exists(x, at, code, leaf_ok):  # type: ignore[no-untyped-def]
    return leaf_ok[code[x, 1], at] if at >= 0 else code[x, 5] >= 0


@njit(_nrt=False, forceinline=True)
def holds(symbol, start, row, number, code, symbols, totals, const_i, const_f, leaf_i, leaf_f, leaf_ok, calls, counts, rows, totals_i, totals_f, path, stack_i, stack_f, stack_ok, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Whether the symbol's condition is true at ``row``, which was bound last."""
    shape = symbols[symbol, SHAPE]
    if shape == SHAPE_NONE:
        return True
    x = symbols[symbol, CODE_BEGIN]
    if shape == SHAPE_ANY:
        return run_condition(x, symbols[symbol, CODE_END], start, row, number, code, totals, const_i, const_f, leaf_i, leaf_f, leaf_ok, calls, counts, rows, totals_i, totals_f, path, stack_i, stack_f, stack_ok, progress)  # fmt: skip  # noqa: E501
    y = x + 1
    a = anchor_row(code[x, 2], code[x, 3], code[x, 4], start, row, counts, rows)
    b = anchor_row(code[y, 2], code[y, 3], code[y, 4], start, row, counts, rows)
    if not (_leaf_exists(x, a, code, leaf_ok) and _leaf_exists(y, b, code, leaf_ok)):
        return False
    op = code[x + 2, 0]
    if shape == SHAPE_COMPARE_I:
        value_a = leaf_i[code[x, 1], a] if a >= 0 else const_i[code[x, 5]]
        value_b = leaf_i[code[y, 1], b] if b >= 0 else const_i[code[y, 5]]
        return _compare(op - X_COMPARE_I, value_a, value_b)
    real_a = leaf_f[code[x, 1], a] if a >= 0 else const_f[code[x, 5]]
    real_b = leaf_f[code[y, 1], b] if b >= 0 else const_f[code[y, 5]]
    if np.isnan(real_a) or np.isnan(real_b):
        return False
    return _compare(op - X_COMPARE_F, real_a, real_b)
