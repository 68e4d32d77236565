"""Row patterns as programs for the matching machine: instructions and prefilters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import numpy.typing as npt

from replay.errors import NotSupportedError
from replay.language.bound import (
    Alternate,
    Concat,
    Edge,
    EdgeKind,
    Exclusion,
    Negation,
    Pattern,
    Repeat,
    Symbol,
    is_nullable,
)
from replay.patterns import backtracking_kernels as kernels
from replay.patterns.run_end_kernels import FOLLOW, MEMO

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

INSTRUCTIONS_MAX = 4096
"""Instructions of a program: repetitions of groups are unrolled, and a memo row goes with each."""

PREFIX_MAX = 8
"""Rows looked at before the machine is entered; each costs a few operations per row."""

REQUIRED_MAX = 64
"""Rows of any match, the first so many, that are looked for before the machine is entered."""

FOLLOWERS_MAX = 7
"""Rows looked at before a run is ended: bytes of an instruction's field."""

WORD_BITS = 64

_PATH = 6
"""Field of an instruction that reads rows: its symbol, and whether the rows are excluded."""


@dataclass(frozen=True, slots=True)
class PatternCode:
    """A pattern, compiled.

    ``code`` has shape (n, 9), see ``backtracking_kernels.py``; ``prefix[k]`` is the set
    of symbols that the row ``k`` after the start must satisfy one of, shape (n_prefix,).
    """

    code: IntArray
    prefix: Words
    required: Words
    """Sets of symbols: any match has rows that satisfy one of each, in this order, with others
    between or not; shape (n_required,)."""
    fixed: tuple[int, ...] | None
    """The symbols row by row, where the pattern is one fixed sequence of at most 64 rows."""
    n_points: int
    """Memo points: instructions at which the machine may come to a state anew."""
    n_runs: int
    """RUN instructions."""
    by_state: bool
    """Whether rows are bound, so that what failed once may succeed with other rows bound."""
    n_registers: int


def compile_pattern(
    pattern: Pattern,
    *,
    bound: frozenset[int] = frozenset(),
    unconditional: frozenset[int] = frozenset(),
    plain: bool = True,
    bounded: bool = False,
) -> PatternCode:
    """Compile a pattern without negations. Pure.

    Parameters
    ----------
    bound
        Symbols whose rows must be bound one by one, since a condition across rows tests or reads
        them.
    unconditional
        Symbols that every row satisfies.
    plain
        Whether the search goes on past the last row of a match or at the next row.
    bounded
        Whether a window bounds matches, so that what fails for a start may not for another.
    """
    writer = _Writer(bound)
    writer.write(pattern)
    writer.emit(kernels.ACCEPT)
    writer.close_guards()
    code = writer.code
    # Where conditions look across rows, each CHAR that is tried counts as a step.
    _look_ahead(code, most=1 if bound else FOLLOWERS_MAX)
    if bounded and not bound:
        _forget_first(code)
    if bound:
        for instruction in code:
            if instruction[0] in (kernels.SPLIT, kernels.RUN):
                instruction[kernels.KEY] = instruction[MEMO]
                instruction[MEMO] = -1
    fixed = _fixed_sequence(code) if plain and not bound else None
    if fixed is None:
        prefix = _prefix(code, unconditional)
    else:
        prefix = np.left_shift(np.uint64(1), np.array(fixed, dtype=np.uint64))
    return PatternCode(
        code=np.array(code, dtype=np.int64).reshape(-1, kernels.CODE_WIDTH),
        prefix=prefix,
        required=np.array(_required(pattern, unconditional), dtype=np.uint64),
        fixed=fixed,
        n_points=writer.n_points,
        n_runs=writer.n_runs,
        by_state=bool(bound),
        n_registers=writer.n_registers,
    )


def rows_most(pattern: Pattern, symbol: int) -> float:
    """Return the most rows of a match that can be mapped to a symbol; infinite if unbounded."""
    match pattern:
        case Symbol(index):
            return float(index == symbol)
        case Concat(parts):
            return sum(rows_most(part, symbol) for part in parts)
        case Alternate(branches):
            return max(rows_most(branch, symbol) for branch in branches)
        case Repeat(body, _, high):
            inner = rows_most(body, symbol)
            return inner * (math.inf if high is None else high) if inner else 0.0
        case Exclusion(body):
            return rows_most(body, symbol)
    return 0.0


class _Writer:
    """Emits instructions."""

    def __init__(self, bound: frozenset[int]) -> None:
        self.code: list[list[int]] = []
        self.n_points = 0
        self.n_runs = 0
        self.n_registers = 0
        self._bound = bound
        self._excluded = 0

    def emit(self, *fields: int) -> int:
        """Append an instruction, its later fields -1; return where it stands."""
        if len(self.code) >= INSTRUCTIONS_MAX:
            raise NotSupportedError(
                f"the pattern unrolls to more than {INSTRUCTIONS_MAX} instructions, which is not "
                "supported; lower the counts of its repeated groups"
            )
        self.code.append([*fields, *[-1] * (kernels.CODE_WIDTH - len(fields))])
        return len(self.code) - 1

    def write(self, pattern: Pattern) -> None:
        """Append the instructions of a pattern."""
        match pattern:
            case Symbol(index):
                self._char(index)
            case Concat(parts):
                for part in parts:
                    self.write(part)
            case Alternate(branches):
                self._alternate(branches)
            case Repeat(Exclusion(body), low, high, greedy):
                self.write(Exclusion(Repeat(body, low, high, greedy)))
            case Repeat(Symbol(index), low, high, greedy) if index not in self._bound:
                self._run(index, low, high, greedy=greedy)
            case Repeat():
                self._repeat(pattern)
            case Exclusion(body):
                outside, self._excluded = self._excluded, kernels.EXCLUDED
                self.write(body)
                self._excluded = outside
            case Edge(kind):
                self.emit(kernels.AT_START if kind is EdgeKind.START else kernels.AT_END)
            case Negation():
                raise AssertionError("negations are rewritten before")

    def _char(self, symbol: int) -> None:
        path = symbol | self._excluded
        self.emit(kernels.CHAR, symbol, int(symbol in self._bound), -1, -1, -1, path)

    def _split(self, *, greedy: bool) -> int:
        """Emit a choice between the next instruction and one to be patched in."""
        at = self.emit(kernels.SPLIT, -1, -1, self.n_points)
        self.n_points += 1
        self.code[at][1 if greedy else 2] = at + 1
        return at

    def _patch(self, splits: Iterable[int]) -> None:
        for at in splits:
            field = 2 if self.code[at][1] == at + 1 else 1
            self.code[at][field] = len(self.code)

    def _alternate(self, branches: tuple[Pattern, ...]) -> None:
        jumps = []
        for branch in branches[:-1]:
            split = self._split(greedy=True)
            self.write(branch)
            jumps.append(self.emit(kernels.JUMP))
            self._patch([split])
        self.write(branches[-1])
        for jump in jumps:
            self.code[jump][1] = len(self.code)

    def _run(self, symbol: int, low: int, high: int | None, *, greedy: bool) -> None:
        path = symbol | self._excluded
        if low == 1:
            self._char(symbol)
        elif low:
            self.emit(kernels.EXACT, symbol, low, -1, -1, -1, path)
        if high is None or high > low:
            most = -1 if high is None else high - low
            self.emit(
                kernels.RUN, symbol, most, self.n_points, int(greedy), 0, path, -1, self.n_runs
            )
            self.n_points += 1
            self.n_runs += 1

    def _repeat(self, repeat: Repeat) -> None:
        for _ in range(repeat.low):
            self.write(repeat.body)
        if repeat.high is None:
            split = self._iterate(repeat)
            self.emit(kernels.JUMP, split)
            self._patch([split])
            return
        splits = [self._iterate(repeat) for _ in range(repeat.high - repeat.low)]
        self._patch(splits)

    def _iterate(self, repeat: Repeat) -> int:
        """Emit one optional iteration; an empty one leaves the repetition."""
        split = self._split(greedy=repeat.greedy)
        guarded = is_nullable(repeat.body)
        register = self.n_registers
        if guarded:
            self.n_registers += 1
            self.emit(kernels.MARK, register)
        self.write(repeat.body)
        if guarded:
            self.emit(kernels.CHECK, register, -2 - split)
        return split

    def close_guards(self) -> None:
        """Let each guard leave to where its repetition's choice leaves to."""
        for instruction in self.code:
            if instruction[0] == kernels.CHECK:
                split = -2 - instruction[2]
                preferred, other = self.code[split][1:3]
                instruction[2] = other if preferred == split + 1 else preferred


def _fixed_sequence(code: list[list[int]]) -> tuple[int, ...] | None:
    """Return the symbols row by row of code without a choice or an exclusion; None of others.

    At least one row and at most 64.
    """
    rows = code[:-1]
    straight = all(i[0] in (kernels.CHAR, kernels.EXACT) for i in rows)
    if not straight or any(i[_PATH] & kernels.EXCLUDED for i in rows):
        return None
    symbols = tuple(itertools.islice(_followers(code, 0), WORD_BITS + 1))
    return symbols if 0 < len(symbols) <= WORD_BITS else None


def _look_ahead(code: list[list[int]], most: int) -> None:
    """Note in each RUN which symbols must come next, at most so many, where each is one."""
    for at, instruction in enumerate(code):
        if instruction[0] == kernels.RUN:
            symbols = itertools.islice(_followers(code, at + 1), most)
            instruction[FOLLOW] = sum((s + 1) << (8 * k) for k, s in enumerate(symbols))


def _forget_first(code: list[list[int]]) -> None:
    """Let a RUN that a start comes to but once remember nothing, where that serves no other."""
    straight = (kernels.CHAR, kernels.EXACT, kernels.AT_START)
    first = next(instruction for instruction in code if instruction[0] not in straight)
    if first[0] == kernels.RUN:
        first[MEMO] = -1


def _followers(code: list[list[int]], at: int) -> Iterator[int]:
    """Yield the symbols of the rows that every way through the code from here takes first."""
    while True:
        op, a, b = code[at][:3]
        if op == kernels.CHAR:
            yield a
        elif op == kernels.EXACT:
            yield from itertools.repeat(a, b)
        elif op != kernels.JUMP:
            return
        at = a if op == kernels.JUMP else at + 1


def _prefix(code: list[list[int]], unconditional: frozenset[int]) -> Words:
    """Return the sets of symbols that the first rows of any match must be among."""
    states, accepts = _closure(code, [0])
    sets: list[int] = []
    while not accepts and len(sets) < PREFIX_MAX:
        symbols = {code[at][1] for at in states}
        sets.append(0 if symbols & unconditional else sum(1 << s for s in symbols))
        after: list[int] = []
        for at in states:
            after.append(at + 1)
            if code[at][0] != kernels.CHAR:  # a run goes on, at most longer than it may
                after.append(at)
        states, accepts = _closure(code, after)
    while sets and sets[-1] == 0:
        sets.pop()
    every = (1 << WORD_BITS) - 1
    return np.array([bits or every for bits in sets], dtype=np.uint64)


def _required(pattern: Pattern, unconditional: frozenset[int]) -> tuple[int, ...]:
    """Return sets of symbols, as bits, that rows of any match are among, in this order.

    Between them there may be others. What every row satisfies says nothing.
    """
    match pattern:
        case Symbol(index):
            return () if index in unconditional else (1 << index,)
        case Concat(parts):
            sets = tuple(s for part in parts for s in _required(part, unconditional))
        case Alternate(branches):
            each = [_required(branch, unconditional) for branch in branches]
            sets = tuple(reduce(or_, places) for places in zip(*each, strict=False))
        case Repeat(body, low, _, _):
            sets = _required(body, unconditional) * min(low, REQUIRED_MAX)
        case Exclusion(body):
            sets = _required(body, unconditional)
        case Edge() | Negation():
            return ()
    return sets[:REQUIRED_MAX]


def _closure(code: list[list[int]], begin: list[int]) -> tuple[list[int], bool]:
    """Return the instructions that read a row next, and whether the match may be complete."""
    seen: set[int] = set()
    todo = list(begin)
    accepts = False
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        op, a, b = code[at][:3]
        if op == kernels.ACCEPT:
            accepts = True
        elif op == kernels.JUMP:
            todo.append(a)
        elif op == kernels.SPLIT:
            todo += [a, b]
        elif op in (kernels.MARK, kernels.RUN, kernels.AT_START, kernels.AT_END):
            todo.append(at + 1)
        elif op == kernels.CHECK:
            todo += [at + 1, b]
    reading = (kernels.CHAR, kernels.RUN, kernels.EXACT)
    return [at for at in sorted(seen) if code[at][0] in reading], accepts


def describe(pattern: Pattern, symbols: tuple[str, ...]) -> str:
    """Return the pattern as text, for messages."""
    match pattern:
        case Symbol(index):
            return symbols[index]
        case Concat(parts):
            return " ".join(describe(part, symbols) for part in parts) or "()"
        case Alternate(branches):
            return f"({' | '.join(describe(branch, symbols) for branch in branches)})"
        case Repeat(body, low, high, greedy):
            inner = describe(body, symbols)
            if not isinstance(body, Symbol):
                inner = f"({inner})"
            short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
            count = short or (f"{{{low}}}" if low == high else f"{{{low},{high or ''}}}")
            return f"{inner}{count}{'' if greedy else '?'}"
        case Exclusion(body):
            return f"{{- {describe(body, symbols)} -}}"
        case Edge(kind):
            return kind.value
        case Negation(index):
            return f"!{symbols[index]}"
