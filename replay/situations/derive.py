"""Rows to situations: where conditions begin and end to hold in a partition.

A run is neighbouring rows of a partition whose condition is true. What is kept between batches is
of the last row of each partition: its time, which conditions held and since when, and as many
values as PREV reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.time import to_int64
from replay.engines.read_ahead import divide, part_count
from replay.engines.scan import SEQ, Computed, decoded
from replay.expressions.columns import Columns, to_arrays
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.language.bound import Expression, SituationRelation, attributes
from replay.operators.outer_pieces import Alike, Gap
from replay.operators.packing import State
from replay.operators.partition_keys import UNKNOWN, KnownValues, group_keys
from replay.situations import derive_kernels as kernels
from replay.situations.detection import OPEN
from replay.situations.held_rows import HeldRows
from replay.situations.previous_rows import PreviousRows

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

FOUND_MIN = 1 << 10
"""Situations for which there is room at first."""


WORDS: Final = "\0words"
"""Name of a column, one that no stream has: which conditions are true of each row, a bit each."""

PART_MIN: Final = 1 << 16
"""Rows a thread looks at the conditions of, at least; some 0.1 ms."""


class Situations(NamedTuple):
    """Situations that begin or end in a batch, by column; those of one name in their order.

    Of those that begin in it only the ones are there that a match may contain.
    """

    partition: Ints
    name: Ints
    """Place in DEFINE."""
    start: Ints
    first: Ints
    """``seq`` of the first row: before the batch for one that ends in it only."""
    end: Ints
    """`OPEN` while it goes on."""
    stop: Ints
    """``seq`` of the row behind the last; `OPEN` while it goes on."""


class Derived(NamedTuple):
    """Rows of a batch, and the situations that begin or end at them."""

    partitions: Ints
    """Numbers of their partitions; empty without PARTITION BY."""
    times: Ints
    """Of the last row that each stands for."""
    words: Words
    """Which conditions hold, a bit each in the order of DEFINE."""
    situations: Situations


def _whole_numbers(keys: pa.Table) -> Ints | None:
    """Return the values of a single column of whole numbers without NULL; None of others."""
    column = keys.column(0)
    if keys.num_columns > 1 or column.null_count or not pa.types.is_signed_integer(column.type):
        return None
    return np.asarray(to_arrays(column).data)


class Partitions:
    """Numbers of partitions, by the values of their columns.

    NULL equals NULL, NaN equals NaN and -0.0 equals 0.0, which is shown of both.
    """

    def __init__(self, names: tuple[str, ...], schema: pa.Schema) -> None:
        self._names = names
        self._keys = HeldRows(schema.empty_table().select(names), 0)
        self._numbers: dict[tuple[Any, ...], int] = {} if names else {(): 0}
        self._known = KnownValues()

    @property
    def keys(self) -> pa.Table:
        """The values of each, by number."""
        return self._keys.values

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self._numbers)

    def number(self, events: pa.Table) -> Ints:
        """Return the number of the partition of each row; without columns nothing."""
        if not self._names:
            return np.zeros(0, np.int64)
        keys = events.select(self._names)
        values = _whole_numbers(keys)
        found = None if values is None else self._known.numbers(values)
        if found is None or (found == UNKNOWN).any():
            found = self._looked_up(keys)
        return found

    def _looked_up(self, keys: pa.Table) -> Ints:
        """Return the number of the partition of each row, new ones among them."""
        groups = group_keys(Columns(keys), keys, self._names)
        known, listed = self._numbers, groups.listed
        if isinstance(listed, list):
            numbers = np.array([known.get(key, UNKNOWN) for key in listed], np.int64)
        else:
            numbers = self._known.numbers(listed)
        found: Ints = numbers[groups.codes]
        if not (found == UNKNOWN).any():
            return found
        # The last of equal places is written: the first row, -1 of an entry that no row has.
        firsts = np.full(len(numbers), -1)
        firsts[groups.codes[::-1]] = np.arange(len(groups.codes))[::-1]
        before, new = self.n, list[int]()
        for code in np.flatnonzero((numbers == UNKNOWN) & (firsts >= 0)).tolist():
            # A dictionary may have an entry twice.
            numbers[code] = known.setdefault(groups.keys[code], len(known))
            if len(known) > before + len(new):
                new.append(int(firsts[code]))
        if new:
            self._keys.append(_with_one_zero(decoded(keys).take(new)))
        if not isinstance(listed, list):
            self._known.enter(listed, numbers)
        return np.asarray(numbers[groups.codes])

    def state(self) -> State:
        """Return the values of each, by number."""
        return {"keys": self._keys.state()}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._keys.take_over(state["keys"])
        keys, self._known = self.keys, KnownValues()
        if self._names:
            groups = group_keys(Columns(keys), keys, self._names)
            self._numbers = {groups.keys[code]: i for i, code in enumerate(groups.codes.tolist())}


def _with_one_zero(table: pa.Table) -> pa.Table:
    """Return 0.0 for -0.0: which one a partition has first depends on what is read."""
    for place, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            column = pc.add(table.column(place), pa.scalar(0.0, field.type))
            table = table.set_column(place, field, column)
    return table


def adding_words(query: SituationRelation) -> Computed | None:
    """Return what adds `WORDS` to rows; None where PREV asks for rows before them."""
    conditions = [situation.condition for situation in query.situations]
    if any(part.offset for condition in conditions for part in attributes(condition)):
        return None

    def add(events: pa.Table, faults: Faults) -> pa.Table:
        words = words_of(conditions, Columns(events), faults)
        return events.append_column(WORDS, pa.array(words))

    return add


def words_of(conditions: Sequence[Expression], source: Columns, faults: Faults) -> Words:
    """Return which conditions are true of each row, a bit each; equal ones are looked at once."""
    words = np.zeros(source.n_rows, np.uint64)
    for condition in dict.fromkeys(conditions):
        bits = sum(1 << name for name, of in enumerate(conditions) if of == condition)
        kernels.set_bits(truths(condition, source, faults), np.uint64(bits), words)
    return words


class Deriver:
    """Finds the situations of each condition, batch by batch."""

    def __init__(self, query: SituationRelation, schema: pa.Schema, faults: Faults) -> None:
        self._query = query
        self._faults = faults
        self._conditions = conditions = [situation.condition for situation in query.situations]
        read = {part for condition in conditions for part in attributes(condition)}
        names = {part.name for part in read}
        self._names = [name for name in schema.names if name in names] or schema.names[:1]
        offsets = sorted({part.offset for part in read} - {0})
        columns = pa.schema([schema.field(name) for name in self._names])
        self._before = PreviousRows(offsets, columns) if offsets else None
        self._least = np.array([max(one.at_least or 0, 1) for one in query.situations], np.int64)
        self._most = np.array(
            [OPEN if one.at_most is None else one.at_most for one in query.situations], np.int64
        )
        self.partitions = Partitions(query.partition_by, schema)
        self.n_rows = 0
        self._known = _nothing_known(self.partitions.n, len(conditions))
        self._gap: Gap | None = None
        """The last rows left out; None if there are none."""
        if self._before is not None:
            self._before.grow(self.partitions.n)

    @property
    def last_times(self) -> Ints:
        """Time of the last row of each partition, with VALID FOR."""
        return self._known.times

    @property
    def holds(self) -> Words:
        """Which conditions held there, a bit each in the order of DEFINE."""
        return self._known.words

    @property
    def first_rows(self) -> Ints:
        """``seq`` of the first row of each partition behind rows that may be asked for; else -1."""
        return self._known.first_rows

    def push(self, events: pa.Table) -> Derived:
        """Take in the next rows."""
        time = self._query.source_time.name
        times = np.asarray(to_int64(events.column(time), name=time).to_numpy())
        partitions = self._number(events)
        words = self._words(events, partitions)
        rows = kernels.Rows(partitions, times, words, np.zeros(0, np.int64), times)
        situations = self._derive(rows)
        self.n_rows += events.num_rows
        return Derived(partitions, times, words, situations)

    def tell(self, events: pa.Table, alike: Alike) -> Derived:
        """Take in the next rows; parts of rows alike are without a silence.

        So only the first one of a part may change anything, and stands for all.
        """
        time, nothing = self._query.source_time.name, np.zeros(0, np.int64)
        times = np.asarray(to_int64(events.column(time), name=time).to_numpy())
        seqs = np.concatenate((events.column(SEQ).to_numpy(), alike.first))
        order = np.argsort(seqs, kind="stable")  # quick, as both ascend
        bits = np.uint64(1) << np.arange(alike.says.shape[1], dtype=np.uint64)
        words = np.concatenate((self._words(events, nothing), alike.says @ bits))[order]
        begins, until = (np.append(times, of)[order] for of in (alike.begins, alike.until))
        situations = self._derive(kernels.Rows(nothing, begins, words, seqs[order], until))
        self.n_rows = int(max(seqs[order[-1]] + 1, alike.stop.max(initial=0)))
        return Derived(nothing, until, words, situations)

    def _number(self, events: pa.Table) -> Ints:
        """Return the partition of each row, and make room for new ones."""
        partitions = self.partitions.number(events)
        if self.partitions.n > len(self._known.words):
            grown = _nothing_known(2 * self.partitions.n, len(self._least))
            for of, before in zip(grown, self._known, strict=True):
                of[: len(before)] = before
            self._known = grown
            if self._before is not None:
                self._before.grow(2 * self.partitions.n)
        return partitions

    def skip(self, gap: Gap) -> None:
        """Take it that rows were left out.

        A run that may have begun among them is none, but where rows before can be asked for.
        """
        self.n_rows, self._gap = gap.stop, gap
        self._known.words[:], self._known.has_spoken[:] = 0, False
        self._known.first_rows[:] = -1
        if self._before is not None:
            self._before.forget()

    def remember(self, events: pa.Table) -> None:
        """Take in the last rows left out of each partition, which no match contains.

        They are as many as PREV reads and one more, so of the last it is known what is true.
        """
        n, stop = events.num_rows, self.n_rows
        if not n:
            return
        self.n_rows = stop - n  # rows to come keep their numbers
        time = self._query.source_time.name
        times = np.asarray(to_int64(events.column(time), name=time).to_numpy())
        partitions = self._number(events)
        words = self._words(events, partitions)
        whose = partitions if len(partitions) else np.zeros(n, np.int64)
        own, places = np.unique(whose[::-1], return_index=True)
        last = n - 1 - places
        self._known.words[own], self._known.times[own] = words[last], times[last]
        self._known.runs[own, :, 1] = kernels.NOT_BEGUN
        self.n_rows = stop

    # -----------------------------------------------------------------------------------------
    # Conditions

    def _words(self, events: pa.Table, partitions: Ints) -> Words:
        """Return which conditions are true of each row, of stretches in threads if they may share.

        Not with PREV, which looks at rows of other stretches.
        """
        if WORDS in events.column_names:
            return np.array(events.column(WORDS))  # kernels are compiled for arrays of their own
        events = events.select(self._names)
        if self._before is not None:
            whose = partitions if len(partitions) else np.zeros(events.num_rows, np.int64)
            source = self._before.columns(decoded(events), whose, self.n_rows)
            return words_of(self._conditions, source, self._faults)
        n_parts = part_count(events.num_rows, PART_MIN)
        bounds = np.linspace(0, events.num_rows, n_parts + 1).astype(np.int64)

        def looked_at(stretch: tuple[int, int]) -> tuple[Words, int]:
            faults, rows = Faults(), events.slice(stretch[0], stretch[1] - stretch[0])
            return words_of(self._conditions, Columns(rows), faults), faults.count

        words, counts = zip(*divide(list(pairwise(bounds.tolist())), looked_at), strict=True)
        self._faults.count += sum(counts)
        return np.concatenate(words)

    def truths_of(self, source: Columns) -> Bools:
        """Return which conditions are true of some rows, shape (rows, situations)."""
        words = words_of(self._conditions, source, self._faults)
        bits = np.arange(len(self._conditions), dtype=np.uint64)
        return (words[:, None] >> bits & np.uint64(1)).astype(np.bool_)

    # -----------------------------------------------------------------------------------------
    # Situations

    def _derive(self, rows: kernels.Rows) -> Situations:
        """Return the situations that begin or end at rows, and keep what is known of the last."""
        valid_for, gap, kind = self._query.valid_for, self._gap, kernels.NO_GAP
        if gap is not None and gap.rows_beside is None:
            # Of rows with PREV more may begin too late: they are read beside those of matches.
            kind = kernels.HIDING_GAP if gap.rows_before is None else kernels.ASKING_GAP
        rules = kernels.Rules(
            self._least,
            self._most,
            -1 if valid_for is None else valid_for,
            self.n_rows,
            kind,
            0 if gap is None else gap.time,
        )
        found = np.empty((FOUND_MIN, 6), np.int64)
        row, n_found = kernels.derive(rows, self._known, rules, 0, 0, found)
        while row < len(rows.words):
            found = np.concatenate([found, np.empty_like(found)])
            row, n_found = kernels.derive(rows, self._known, rules, row, n_found, found)
        columns = found[:n_found].T
        return Situations(*columns[:, columns[kernels.FIRST] != kernels.NOT_BEGUN].copy())

    def state(self) -> State:
        """Return what is known of the rows pushed."""
        n = self.partitions.n
        return {
            "n_rows": self.n_rows,
            "partitions": self.partitions.state(),
            "known": {name: of[:n] for name, of in self._known._asdict().items()},
            "before": None if self._before is None else self._before.state(),
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self.n_rows = state["n_rows"]
        self.partitions.take_over(state["partitions"])
        expected = _nothing_known(self.partitions.n, len(self._least))
        known = kernels.PartitionState(**state["known"])
        pairs = zip(known, expected, strict=True)
        if any(of.shape != like.shape or of.dtype != like.dtype for of, like in pairs):
            raise ValueError("partitions are others than those of the state")
        self._known = known
        if self._before is not None:
            self._before.take_over(state["before"])


def _nothing_known(n: int, n_names: int) -> kernels.PartitionState:
    """Return the state of so many partitions without a row."""
    return kernels.PartitionState(
        np.zeros(n, np.uint64),
        np.zeros(n, np.int64),
        np.zeros(n, np.bool_),
        np.full(n, -1),
        np.full((n, n_names, 3), kernels.NOT_BEGUN),
    )
