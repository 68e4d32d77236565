"""Sums over every match of a strategy, of rows that are pushed; no match is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.aggregates.exact import (
    WholeNumbers,
    from_ints,
    listed,
    taken,
    to_ints,
    to_numbers,
)
from replay.errors import QueryError
from replay.limits import check_limits
from replay.operators.exact_sums import UNIT_EXPONENT, DoubleSum, as_whole
from replay.operators.packing import State
from replay.operators.partition_keys import Key
from replay.patterns.partitions import NEVER, PartitionTable, evaluate_grouped
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import Arrays, RowIntake, seqs_of
from replay.patterns.search import Rows
from replay.patterns.summing import kernels
from replay.patterns.trends.algebra import Number, Part
from replay.patterns.trends.machine import (
    SEQ,
    Kind,
    Op,
    Place,
    Rule,
    Steps,
    Sums,
    at_once,
    in_ranges,
    relevant,
    steps_of,
)

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

WORDS_MAX = 4096
"""Words of a number of runs, some 78,000 digits."""

_WORD = 64
_WORDS_DENSE = 1 << 12
"""Words of symbols up to which they are found by a table, not by their hashes."""

_ROWS_BITS = 40
"""A match has fewer rows than 2 to the power of this."""

_VALUE_BITS = 64

_NAN, _INF, _MINUS_INF = 1, 2, 4
"""Flags of sums of DOUBLE."""

_INT64_MIN = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each field stands in a cell: first word and number of words."""

    offset: IntArray
    words: IntArray

    @property
    def width(self) -> int:
        """Words of a cell."""
        return int(self.words.sum())

    @classmethod
    def of(cls, sums: Sums, n_words: int, shift: int) -> Layout:
        """Return it for numbers of runs of so many words, and values shifted by so many bits."""
        words = [_words_of(sums, place, n_words, shift) for place in range(len(sums.fields))]
        counts = np.array(words, np.int64)
        return cls(np.cumsum(counts) - counts, counts)


def _words_of(sums: Sums, place: int, n_words: int, shift: int) -> int:
    """Return how many words a field needs.

    A sum is at most the number of runs by the rows of one by the greatest value.
    """
    field = sums.fields[place]
    if field.kind is not Kind.SUM:
        return 1 if field.kind is Kind.FLAGS else 2
    if place == 0 or field.rule is Rule.CLEAR:
        return n_words
    more = _ROWS_BITS + 1
    operand = sums.operands[field.operand]
    if operand.part is Part.SUM:
        more += _VALUE_BITS + shift
    return n_words + math.ceil(more / _WORD)


Numbers = Sequence[int | DoubleSum | None] | IntArray
"""Numbers of some partitions, exact; the least and greatest value as 64 bits, None for none."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over all matches of each of some partitions."""

    keys: list[Key]
    first_seqs: list[int]
    """``seq`` of the first row of all matches of each, where that is asked for."""
    numbers: Mapping[Number, Numbers]

    def __len__(self) -> int:
        return len(self.keys)

    def in_order(self) -> Totals:
        """Return them in the order of their first rows."""
        order = np.argsort(np.array(self.first_seqs, np.int64), kind="stable")
        return Totals(
            [self.keys[place] for place in order.tolist()],
            [self.first_seqs[place] for place in order.tolist()],
            {name: taken(of, order) for name, of in self.numbers.items()},
        )

    @classmethod
    def joined(cls, parts: Sequence[Totals]) -> Totals:
        """Return those of several, one after the other."""
        names = parts[0].numbers if parts else ()
        return cls(
            list(chain.from_iterable(part.keys for part in parts)),
            list(chain.from_iterable(part.first_seqs for part in parts)),
            {name: _joined([part.numbers[name] for part in parts]) for name in names},
        )


def _joined(parts: Sequence[Numbers]) -> Numbers:
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return np.concatenate(arrays)
    return [number for part in parts for number in listed(part)]


class TooManyCodesError(Exception):
    """Rows satisfy more sets of conditions than are worth steps of their own."""


class TrendOperator(RowIntake):
    """Sums over every match of one query over stretches of a stream.

    Rows are pushed as into a matcher, of a program that has ``sums`` and no WITHIN. The state is a
    few numbers for each partition and state of the automaton.
    Where the automaton is that of several queries, each partition has a total for each of them.
    """

    kind = "sums over matches"
    numbers: tuple[str, ...] = (
        *("_next_seq", "_n_rows", "_n_faults"),
        *("_n_words", "_shift", "_scale"),
    )

    codes_max: int | None = None
    """Sets of conditions of rows, of more of which a `TooManyCodesError` is raised."""

    _numbered: tuple[str, ...] = ("_cells", "_totals")
    """The attributes that hold cells."""

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        super().__init__(program, PartitionTable(), n_events)
        assert program.strategy is not None
        assert program.sums is not None
        self._code, self._sums = program.strategy, self._held(program.sums)
        self._relevant = np.uint64(relevant(self._code))
        self._codes: dict[int, int] = {}
        self._program_of_codes: tuple[IntArray, ...] = ()
        self._n_slots = 0
        self._firsts = np.empty(0, np.int64)
        self._n_words, self._shift = 1, 0
        # Sums of DOUBLE are multiples of 2**-_scale.
        self._scale = 0
        self._layout = Layout.of(self._sums, 1, 0)
        # The query is over one partition, or none has come.
        n_partitions = 0 if program.partition_by else 1
        self._totals = self._new_cells(n_partitions * self._code.n_queries)
        self._cells = self._new_cells(0)
        self._have_lanes(n_partitions)

    def _held(self, sums: Sums) -> Sums:
        """Return what cells hold."""
        return sums

    @property
    def _n_partitions(self) -> int:
        """How many partitions there is room for."""
        return len(self._totals) // self._code.n_queries

    def _new_cells(self, n: int) -> Words:
        return np.zeros((n, self._layout.width), np.uint64)

    @property
    def open_seq(self) -> int | None:
        """First row that is needed still: of those whose partitions are not sorted out yet."""
        return min((first for _, first in self._deferred), default=None)

    # -----------------------------------------------------------------------------------------
    # Rows

    def _admit(self, prepared: Prepared, first_seq: int) -> Rows:
        seq, groups = seqs_of(prepared, first_seq), prepared.partitions
        numbers = np.zeros(len(seq), np.int64)
        if groups is not None:
            numbers = self._partitions.numbers(groups)
        return self._to_rows(prepared, seq, numbers)

    def _advance(self) -> None:
        for rows in self._inbox:
            self._take(rows)
        self._inbox = []

    def finish(self) -> None:
        """End the stretch: no run goes on in another."""
        if self._deferred:
            evaluated = evaluate_grouped(self._program, self._deferred, self._partitions)
            rows = self._to_rows(*evaluated)
            assert rows.seq is not None
            self._take(rows.take(np.argsort(rows.seq)))
            self._deferred = []
        self._forget_runs()
        self._next_seq = None

    def _forget_runs(self) -> None:
        self._cells[:] = 0

    def _take_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        self._take_one_by_one(prepared, starts, n_rows, first_seqs)

    def _take(self, rows: Rows) -> None:
        """Sum over the next rows, in order of ``seq``."""
        assert rows.group is not None
        assert rows.seq is not None
        if not len(rows):
            return
        self._make_room(int(rows.group.max()) + 1)
        times = rows.times if len(rows.times) else np.zeros(0, np.int64)
        seen = kernels.Rows(self._codes_of(rows), rows.group, times, *self._operands_of(rows))
        at = 0
        while True:
            check_limits()
            at = self._see(at, seen)
            if at == len(rows) and not self._is_full():
                return
            if self._is_full():
                self._more_words()

    def _see(self, at: int, rows: kernels.Rows) -> int:
        code = self._code
        reached: int = kernels.sum_rows(
            at, code.n_states, code.n_queries, self._cells, self._new_cells(self._n_slots),
            self._totals, tuple(self._fields()), tuple(rows), self._program_of_codes,
        )  # fmt: skip
        return reached

    def _fields(self) -> kernels.Fields:
        fields, layout = self._sums.fields, self._layout
        every = (1 << self._code.step.shape[1]) - 1
        symbols = [
            every if f.symbols is None else sum(1 << symbol for symbol in f.symbols) for f in fields
        ]
        return kernels.Fields(
            kind=np.array([f.kind for f in fields], np.int64),
            rule=np.array([f.rule for f in fields], np.int64),
            offset=layout.offset,
            words=layout.words,
            operand=np.array([f.operand for f in fields], np.int64),
            symbols=np.array(symbols, np.uint64),
            waits=np.array([f.waits for f in fields], np.int64),
        )

    def _codes_of(self, rows: Rows) -> IntArray:
        """Return which steps each row takes; steps not met before are made."""
        code = self._code
        found, places = _distinct(rows.words & self._relevant)
        keys = 2 * np.arange(len(found))
        if code.asks_for_start:
            opening, places = _distinct((2 * places + self._are_first(rows)).astype(np.uint64))
            keys = opening.astype(np.int64)
        is_new = False
        numbers = []
        for key in keys.tolist():
            known = 2 * int(found[key // 2]) + key % 2
            is_new = is_new or known not in self._codes
            numbers.append(self._codes.setdefault(known, len(self._codes)))
        if is_new:
            if self.codes_max is not None and len(self._codes) > self.codes_max:
                raise TooManyCodesError
            self._program_of_codes = tuple(self._to_program())
        return np.array(numbers, np.int64)[places]

    def _to_program(self) -> kernels.Program:
        every: list[list[tuple[int, int, int, int]]] = []
        for key in self._codes:
            of_ways = self._steps_of(key // 2, 0 if key % 2 else 1)
            every += [in_ranges(at_once(steps, self._sums.fields)) for steps in of_ways]
        ends = np.cumsum([len(steps) for steps in every], dtype=np.int64)
        flat = [step for steps in every for step in steps]
        self._n_slots = 1 + max((a for op, a, _, _ in flat if op is Op.NONE), default=0)
        begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        return kernels.Program(begins, ends, np.array(flat, np.int64).reshape(-1, 4))

    def _steps_of(self, word: int, begin: int) -> list[Steps]:
        """Return what a row does, in as many ways as there are."""
        return [steps_of(self._code, word, begin)]

    def _to_begins(self, program: kernels.Program) -> Bools:
        """Return by code whether runs begin, of operators whose second way that is."""
        n_ways = len(program.begins) // max(1, len(self._codes))
        own = zip(program.begins[1::n_ways].tolist(), program.ends[1::n_ways].tolist(), strict=True)
        is_begin = np.isin(program.steps[:, 0], (Op.BEGIN, Op.MOVE_NEW, Op.MATCH_NEW))
        return np.array([is_begin[begin:end].any() for begin, end in own], np.bool_)

    def _are_first(self, rows: Rows) -> Bools:
        """Return whether rows are the first of their partitions."""
        assert rows.group is not None
        assert rows.seq is not None
        missing = int(rows.group.max()) + 1 - len(self._firsts)
        if missing > 0:
            self._firsts = np.concatenate([self._firsts, np.full(missing, NEVER)])
        found, places = np.unique(rows.group, return_index=True)
        new = self._firsts[found] == NEVER
        self._firsts[found[new]] = rows.seq[places[new]]
        noted = self._firsts[rows.group] if self._edges.n_events is None else None
        return self._edges.are_first(rows, np.arange(len(rows)), rows.seq, noted)

    def _make_room(self, n_partitions: int) -> None:
        """Have cells for every partition."""
        missing = n_partitions - self._n_partitions
        if missing <= 0:
            return
        missing += self._n_partitions
        more = self._new_cells(missing * self._code.n_queries)
        self._totals = np.concatenate([self._totals, more])
        self._have_lanes(missing)

    def _have_lanes(self, n_more: int) -> None:
        """Have cells for so many more partitions."""
        more = self._new_cells(n_more * self._code.n_states)
        self._cells = np.concatenate([self._cells, more])

    # -----------------------------------------------------------------------------------------
    # What is read of rows

    def _operands_of(self, rows: Rows) -> tuple[IntArray, IntArray, Bools]:
        """Return values, shifts and validity of each operand at each row."""
        n, operands = len(rows), self._sums.operands
        values, shifts = np.zeros((len(operands), n), np.int64), np.zeros((len(operands), n), int)
        known = np.ones((len(operands), n), np.bool_)
        first = len(self._program.across.leaves)
        lowest: dict[int, IntArray] = {}
        for place, operand in enumerate(operands):
            if operand == SEQ:
                assert rows.seq is not None
                values[place] = rows.seq
                continue
            if operand.value is None:
                values[place] = 1
                continue
            data = rows.leaves[first + operand.value]
            known[place] = rows.known[first + operand.value]
            if operand.part is Part.COUNT:
                values[place] = 1
            elif not self._program.is_double[operand.value]:
                values[place] = data
            elif operand.part is not Part.SUM:
                doubles = data.view(np.float64)
                known[place] &= ~np.isnan(doubles)
                values[place] = in_order(doubles)
            elif operand.kind is Kind.FLAGS:
                values[place] = _flags(data.view(np.float64))
            else:
                doubles = np.where(known[place], data.view(np.float64), 0.0)
                values[place], lowest[place] = whole_and_lowest(doubles)
        for place, bits in lowest.items():
            self._rescale(-int(bits[values[place] != 0].min(initial=-self._scale)))
        for place, bits in lowest.items():
            shifts[place] = np.where(values[place] != 0, bits + self._scale, 0)
        if shifts.size and shifts.max() > self._shift:
            self._change(self._n_words, int(shifts.max()))
        return values, shifts, known

    def _rescale(self, scale: int) -> None:
        """Have sums of DOUBLE be multiples of 2**-scale, or of less."""
        if scale > self._scale:
            more, self._scale = scale - self._scale, scale
            self._change(self._n_words, self._shift + more, times=more)

    # -----------------------------------------------------------------------------------------
    # Numbers

    def _is_full(self) -> bool:
        top, high = int(self._layout.words[0]) - 1, self._high
        return bool((self._cells[:, top] >= high).any() or (self._totals[:, top] >= high).any())

    @property
    def _high(self) -> np.uint64:
        """What the highest word of a number of runs must be below."""
        return kernels.HIGH

    def _more_words(self) -> None:
        """Give numbers of runs twice the words."""
        if 2 * self._n_words > WORDS_MAX:
            raise too_long()
        self._change(2 * self._n_words, self._shift)

    def _change(self, n_words: int, shift: int, times: int = 0) -> None:
        """Give numbers of runs so many words, and sums as many as they then need.

        Sums of DOUBLE are multiplied by 2**``times``.
        """
        layout = Layout.of(self._sums, n_words, shift)
        change = self._changed_by(layout, times)
        for name in self._numbered:
            setattr(self, name, change(getattr(self, name)))
        self._n_words, self._shift, self._layout = n_words, shift, layout

    def _changed_by(self, layout: Layout, times: int) -> Callable[[Words], Words]:
        old = self._layout

        def changed(cells: Words) -> Words:
            new = np.zeros((len(cells), layout.width), np.uint64)
            for place, field in enumerate(self._sums.fields):
                begin, n_old = int(old.offset[place]), int(old.words[place])
                to, n_new = int(layout.offset[place]), int(layout.words[place])
                part = cells[:, begin : begin + n_old]
                if times and self._is_scaled(place):
                    for row in np.flatnonzero(part.any(axis=1)).tolist():
                        number = to_ints(part[row : row + 1])[0] << times
                        new[row, to : to + n_new] = from_ints([number], n_new)[0]
                    continue
                new[:, to : to + n_old] = part
                if field.kind is Kind.SUM:
                    minus = part[:, -1].view(np.int64) < 0
                    fill = np.where(minus, np.uint64(2**64 - 1), np.uint64(0))
                    new[:, to + n_old : to + n_new] = fill[:, None]
            return new

        return changed

    def _is_scaled(self, place: int) -> bool:
        """Tell whether a field is a sum of DOUBLE."""
        field = self._sums.fields[place]
        if field.kind is not Kind.SUM or place == 0 or field.rule is Rule.CLEAR:
            return False
        operand = self._sums.operands[field.operand]
        is_value = operand.part is Part.SUM and operand.value is not None
        return is_value and bool(self._program.is_double[operand.value or 0])

    def totals(self, query: int = 0, sums: Sums | None = None) -> Totals:
        """Return what is known of each partition that has a match; without partitions of all.

        Of several queries those of one, whose ``sums`` hold the same in the same places.
        """
        keys = list(self._partitions.to_snapshot()[0]) if self._program.partition_by else [()]
        cells = self._totals[query :: self._code.n_queries][: len(keys)]
        found = np.flatnonzero(cells[:, : int(self._layout.words[0])].any(axis=1))
        totals = self._to_totals([keys[place] for place in found.tolist()], cells[found], sums)
        return totals if self._sums.first_seq is None else totals.in_order()

    def _to_totals(self, keys: list[Key], cells: Words, sums: Sums | None = None) -> Totals:
        """Return what cells hold, each of all matches of a partition."""
        sums = sums or self._sums
        first = sums.first_seq
        seqs = [0] * len(keys)
        if first is not None:
            seqs = cells[:, self._layout.offset[first] + 1].view(np.int64).tolist()
        return Totals(keys, seqs, {name: self._read(cells, at) for name, at in sums.places})

    def _read(self, cells: Words, at: Place) -> Numbers:
        if self._sums.fields[at.field].kind is not Kind.SUM:
            return self._best(cells, at.field)
        numbers = self._whole(cells, at.field)
        if at.less is not None:
            less = listed(self._whole(cells, at.less))
            return [a - b for a, b in zip(listed(numbers), less, strict=True)]
        if at.flags is None:
            return numbers
        bits = UNIT_EXPONENT - self._scale
        flags = cells[:, self._layout.offset[at.flags]].tolist()
        return [
            DoubleSum(n << bits if n else 0, bool(f & _NAN), bool(f & _INF), bool(f & _MINUS_INF))
            for n, f in zip(listed(numbers), flags, strict=True)
        ]

    def _whole(self, cells: Words, place: int) -> WholeNumbers:
        begin, n = int(self._layout.offset[place]), int(self._layout.words[place])
        return to_numbers(cells[:, begin : begin + n])

    def _best(self, cells: Words, place: int) -> list[int | None]:
        """Return the least or greatest value of each cell, None where there is none."""
        begin = int(self._layout.offset[place])
        known, best = cells[:, begin].tolist(), cells[:, begin + 1].view(np.int64).tolist()
        return [value if is_known else None for is_known, value in zip(known, best, strict=True)]

    # -----------------------------------------------------------------------------------------
    # State

    def state(self) -> State:
        """Return all that is known, for `take_over`; see ``Operator.state``."""
        arrays: Arrays = {
            "firsts": self._firsts,
            "cells": self._cells.copy(),
            "totals": self._totals.copy(),
        }
        return self._to_state({}, arrays)

    def take_over(self, packed: State) -> None:
        """Go on from what an operator of the same query knew when it gave its state.

        ValueError if it is not what such an operator knows.
        """
        arrays = self._from_state(packed)
        self._firsts = arrays["firsts"]
        self._layout = Layout.of(self._sums, self._n_words, self._shift)
        self._cells, self._totals = arrays["cells"], arrays["totals"]
        for name in ("cells", "totals"):
            cells = arrays[name]
            if cells.dtype != np.uint64 or cells.shape != (len(cells), self._layout.width):
                raise ValueError("the sums of the state are of other lengths or types")
        self._take_cells(arrays)

    def _take_cells(self, arrays: Arrays) -> None:
        """Take over what tells which runs a cell is of, checked."""
        if len(arrays["cells"]) != self._n_partitions * self._code.n_states:
            raise ValueError("the sums of the state are of other lengths or types")


def _distinct(words: Words) -> tuple[Words, IntArray]:
    """Return the words there are, and the place among them of each."""
    most = int(words.max(initial=0)) + 1
    if most > _WORDS_DENSE:
        encoded = pa.array(words).dictionary_encode()
        return encoded.dictionary.to_numpy(), encoded.indices.to_numpy().astype(np.int64)
    small = words.astype(np.int64)
    found = np.flatnonzero(np.bincount(small, minlength=most))
    place_of = np.zeros(most, np.int64)
    place_of[found] = np.arange(len(found))
    return found.astype(np.uint64), place_of[small]


def order_of_parts(parts: IntArray, n_parts: int) -> IntArray:
    """Return the order in which parts are together, each as it was."""
    # Numbers of 16 bits are sorted by their digits, many times as fast.
    return np.argsort(parts.astype(np.uint16) if n_parts <= 1 << 16 else parts, kind="stable")


def in_order(doubles: npt.NDArray[np.float64]) -> IntArray:
    """Return numbers of 64 bits in the order of doubles, which `from_order` takes back."""
    bits = (doubles + 0.0).view(np.int64)  # 0.0 for -0.0
    return np.where(bits < 0, _INT64_MIN - bits - 1, bits)


def from_order(places: IntArray) -> npt.NDArray[np.float64]:
    """Return the doubles that `in_order` was given."""
    return np.where(places < 0, _INT64_MIN - places - 1, places).view(np.float64)


def whole_and_lowest(doubles: npt.NDArray[np.float64]) -> tuple[IntArray, IntArray]:
    """Return doubles as odd whole numbers, and which power of 2 each is to be multiplied by.

    0 stands for 0.0 and for what is no number.
    """
    whole, exponents = as_whole(doubles)
    lowest_bit = (whole & -whole).astype(np.float64)
    zeros = np.where(whole == 0, 0, np.frexp(lowest_bit)[1] - 1).astype(np.int64)
    return whole >> zeros, exponents + zeros


def _flags(doubles: npt.NDArray[np.float64]) -> IntArray:
    tests = ((_NAN, np.isnan), (_INF, np.isposinf), (_MINUS_INF, np.isneginf))
    return sum(flag * test(doubles).astype(np.int64) for flag, test in tests)  # type: ignore[return-value]


def too_long() -> QueryError:
    """Return the error on a number of matches beyond `WORDS_MAX`."""
    return QueryError(
        f"there are so many matches that their number has more than {WORDS_MAX} words of 64 bits, "
        "over 78,000 digits; narrow the conditions, or add WITHIN"
    )
