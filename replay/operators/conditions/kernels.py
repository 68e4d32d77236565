"""Compiled machine for conditions that compare values of different rows of a match.

``replay/operators/kernels.py`` compiles this in; see ``CONDITIONS_DIGEST`` there, which a test
holds up to date.
"""

from __future__ import annotations

import numpy as np
from numba import njit

N_FAULTS = 2
"""Field of the search's `progress` that counts faults."""

# Operations of conditions across rows.
X_LEAF_I = 0  # leaf, anchor, symbol, constant if the anchor has no row (-1: NULL)
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
X_ARITHMETIC_I = 30  # + - * / % in this order
X_ARITHMETIC_F = 40
X_COMPARE_I = 50  # = <> < <= > >= in this order
X_COMPARE_F = 60

ANCHOR_CURRENT = 0
ANCHOR_FIRST = 1
ANCHOR_LAST = 2

INT64_MIN = np.iinfo(np.int64).min
INT64_MAX = np.iinfo(np.int64).max
TWO_63 = 9223372036854775808.0


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _anchor_row(kind, symbol, start, row, registers):  # type: ignore[no-untyped-def]
    """Row of an anchor, -1 if it has none; registers hold first then last rows of the symbols."""
    if kind == ANCHOR_CURRENT or (kind == ANCHOR_LAST and symbol < 0):
        return row
    if symbol < 0:
        return start
    return registers[2 * symbol + (kind - ANCHOR_FIRST)]


@njit(cache=True, nogil=True)
def _merge_truths(op, i, valid, a, b):  # type: ignore[no-untyped-def]
    """Three-valued AND / OR of stack entries into a."""
    decisive = 0 if op == X_AND else 1
    if (valid[a] and i[a] == decisive) or (valid[b] and i[b] == decisive):
        i[a] = decisive
        valid[a] = True
    else:
        i[a] = 1 - decisive
        valid[a] = valid[a] and valid[b]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def holds(lo, hi, xcode, const_i, const_f, leaf_i, leaf_f, leaf_ok, start, row, registers, i, f, valid, progress):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """Run the stack program ``xcode[lo:hi]``: whether the condition is true at ``row``."""
    p = -1
    for x in range(lo, hi):
        op = xcode[x, 0]
        if op <= X_LEAF_F:
            at = _anchor_row(xcode[x, 2], xcode[x, 3], start, row, registers)
            p += 1
            valid[p] = leaf_ok[xcode[x, 1], at] if at >= 0 else xcode[x, 4] >= 0
            if valid[p]:
                i[p] = leaf_i[xcode[x, 1], at] if at >= 0 else const_i[xcode[x, 4]]
                f[p] = leaf_f[xcode[x, 1], at] if at >= 0 else const_f[xcode[x, 4]]
        elif op <= X_NULL:
            p += 1
            valid[p] = op != X_NULL
            i[p] = const_i[xcode[x, 1]] if valid[p] else 0
            f[p] = const_f[xcode[x, 1]] if valid[p] else 0.0
        elif op == X_SELECT:
            p -= 2  # condition, value if true, value otherwise
            chosen = p + 1 if valid[p] and i[p] == 1 else p + 2
            i[p] = i[chosen]
            f[p] = f[chosen]
            valid[p] = valid[chosen]
        elif op in (X_AND, X_OR, X_COALESCE) or op >= X_ARITHMETIC_I:
            p -= 1
            if _binary(op, i, f, valid, p):
                progress[N_FAULTS] += 1
        elif _unary(op, i, f, valid, p):
            progress[N_FAULTS] += 1
    return valid[p] and i[p] == 1
