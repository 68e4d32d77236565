"""Which rows mapped earlier the future of a search depends on, by memo point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from replay.patterns import backtracking_kernels as machine
from replay.patterns import memo_kernels as kernels
from replay.patterns.conditions import kernels as conditions
from replay.patterns.conditions import total_kernels as totals
from replay.patterns.conditions.across import AcrossCode
from replay.patterns.pattern import PatternCode

IntArray = npt.NDArray[np.int64]

Need = tuple[int, int]
"""Kind of key item, and which slot, total or register."""

Needs = dict[Need, int]
"""How many rows of each; any positive number where rows are not counted."""

_WITHOUT_KEY = -1
"""Kind of a need that no key of fixed width holds: nothing is remembered where it is live."""

_COUNTED = (
    kernels.KEY_FIRST,
    kernels.KEY_LAST,
    kernels.KEY_FIRST_SYMBOLS,
    kernels.KEY_LAST_SYMBOLS,
)
_WIDTHS = {kernels.KEY_TOTAL: kernels.TOTAL_WIDTH, kernels.KEY_EXTREME: kernels.EXTREME_WIDTH}
_LAST = (kernels.KEY_LAST, kernels.KEY_LAST_SYMBOLS)


@dataclass(frozen=True, slots=True)
class StateKeys:
    """What tells states of the machine apart; see ``memo_kernels.py``."""

    slices: IntArray
    items: IntArray
    width: int
    start_matters: bool
    """Whether conditions also read where the match begins, or its number."""


def with_state_keys(pattern: PatternCode, across: AcrossCode) -> tuple[PatternCode, StateKeys]:
    """Return the pattern less the memo points that have no key, and the keys of the others. Pure.

    At an instruction where what the future reads has no key nothing is remembered of states.

    A backward analysis of live values: a condition needs what it reads; binding a row to a slot
    needs one fewer of the slot's last rows before it than after.
    """
    if not pattern.by_state:
        nothing = np.zeros(0, np.int64)
        return pattern, StateKeys(nothing.reshape(0, 2), nothing.reshape(0, 3), 2, False)
    reads = [_reads(across, code) for code in across.code_of_symbols]
    live = _live(pattern.code, across, reads)
    items: list[tuple[int, int, int]] = []
    slices = np.zeros((pattern.n_points, 2), np.int64)
    width = 2
    code = pattern.code.copy()
    for at, point in enumerate(pattern.code[:, machine.KEY].tolist()):
        if point < 0:
            continue
        if any(kind == _WITHOUT_KEY for kind, _ in live[at]):
            code[at, machine.KEY] = -1
            continue
        own = sorted((*need, number) for need, number in live[at].items())
        slices[point] = len(items), len(items) + len(own)
        items += own
        width = max(width, 2 + sum(map(_width, own)))
    of_items = np.array(items, dtype=np.int64).reshape(-1, 3)
    return replace(pattern, code=code), StateKeys(slices, of_items, width, _start_matters(across))


def _width(item: tuple[int, int, int]) -> int:
    if item[0] in _COUNTED:
        return item[2]
    return _WIDTHS.get(item[0], 1)


def _start_matters(across: AcrossCode) -> bool:
    for op, _, kind, slot, *_ in across.code.tolist():
        if op == conditions.X_MATCH_NUMBER:
            return True
        if slot >= 0:
            continue
        is_leaf = op in (conditions.X_LEAF_I, conditions.X_LEAF_F)
        if (is_leaf and kind != conditions.ANCHOR_CURRENT) or op == conditions.X_COUNT:
            return True
    return False


def _reads(across: AcrossCode, code: list[list[int]]) -> Needs:
    """Return what a condition reads, once the row under test is bound."""
    needs: Needs = {}
    for instruction in code:
        for need, number in _read_by(across, *instruction[:5]):
            needs[need] = max(needs.get(need, 0), number)
    return needs


def _read_by(
    across: AcrossCode, op: int, operand: int, kind: int, slot: int, offset: int
) -> Iterator[tuple[Need, int]]:
    first = kind == conditions.ANCHOR_FIRST
    if op in (conditions.X_LEAF_I, conditions.X_LEAF_F) and slot >= 0:
        yield (kernels.KEY_FIRST if first else kernels.KEY_LAST, slot), offset + 1
    elif op == conditions.X_CLASSIFIER and slot >= 0:
        symbols = kernels.KEY_FIRST_SYMBOLS if first else kernels.KEY_LAST_SYMBOLS
        yield (symbols, slot), offset + 1
    elif op == conditions.X_COUNT and slot >= 0:
        yield (kernels.KEY_COUNT, slot), 1
    elif op == conditions.X_CLASSIFIER_NEAR or (
        op == conditions.X_TOTAL and across.totals[operand, 3]
    ):
        yield (_WITHOUT_KEY, -1), 1
    elif op == conditions.X_TOTAL:
        extreme = across.totals[operand, 0] in (totals.TOTAL_MIN, totals.TOTAL_MAX)
        yield (kernels.KEY_EXTREME if extreme else kernels.KEY_TOTAL, operand), slot


def _live(code: IntArray, across: AcrossCode, reads: list[Needs]) -> list[Needs]:
    """Return what is needed before each instruction; a least fixed point."""
    slots = [frozenset(slots) for slots in across.slots_of_symbols]
    live: list[Needs] = [{} for _ in code]
    instructions = code.tolist()
    changed = True
    while changed:
        changed = False
        for at in range(len(instructions) - 1, -1, -1):
            needs = _before(at, instructions[at], live, slots, reads)
            if needs != live[at]:
                live[at] = needs
                changed = True
    return live


def _before(
    at: int,
    instruction: list[int],
    live: list[Needs],
    slots: list[frozenset[int]],
    reads: list[Needs],
) -> Needs:
    op, a, b = instruction[:3]
    if op == machine.ACCEPT:
        return {}
    if op == machine.JUMP:
        return live[a]
    if op == machine.SPLIT:
        return _both(live[a], live[b])
    if op == machine.MARK:
        return {need: n for need, n in live[at + 1].items() if need != (kernels.KEY_GUARD, a)}
    if op == machine.CHECK:
        return _both(_both(live[at + 1], live[b]), {(kernels.KEY_GUARD, a): 1})
    if op == machine.CHAR and b:
        after = _both(live[at + 1], reads[a])
        bound = {
            (kind, which): number - (kind in _LAST and which in slots[a])
            for (kind, which), number in after.items()
        }
        return {need: number for need, number in bound.items() if number > 0 or _is_total(need)}
    return live[at + 1]


def _is_total(need: Need) -> bool:
    return need[0] in _WIDTHS  # its number is a slot


def _both(one: Needs, two: Needs) -> Needs:
    joined = dict(one)
    for need, number in two.items():
        joined[need] = max(joined.get(need, number), number)
    return joined
