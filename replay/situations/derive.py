"""Rows to changes of situations: where conditions begin and end to hold in a partition.

A run is neighbouring rows of a partition whose condition is true. What is kept between batches is
the last row of each partition: its time, which conditions held, and as many values as PREV reads.
"""

from __future__ import annotations

from math import isnan
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.time import to_int64
from replay.expressions.columns import Columns, Values, to_arrays
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.language.bound import SituationRelation, attributes
from replay.operators.grouping import group_rows
from replay.operators.outer_pieces import Alike, Gap
from replay.operators.packing import State

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Change(NamedTuple):
    """A run that begins, or one that ends."""

    begins: bool
    partition: int
    situation: int
    time: int
    seq: int
    """Of the row that begins it, or of the row behind its last."""


class Rows(NamedTuple):
    """Rows of a batch: their partitions and times, and the changes they make, in their order."""

    partitions: Ints
    times: Ints
    changes: list[Change]


class Partitions:
    """Numbers of partitions, by the values of their columns.

    NULL equals NULL, NaN equals NaN and -0.0 equals 0.0.
    """

    def __init__(self, names: tuple[str, ...], schema: pa.Schema) -> None:
        self._names = names
        self.keys = schema.empty_table().select(names)
        """The values of each, by number."""
        self._numbers: dict[tuple[Any, ...], int] = {}

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self._numbers)

    def number(self, events: pa.Table) -> Ints:
        """Return the number of the partition of each row."""
        keys = events.select(self._names)
        columns = [_plain(keys.column(name)) for name in self._names]
        groups = group_rows(columns, events.num_rows)
        firsts = pa.array(groups.first_rows)
        values = [tuple(map(_comparable, row.values())) for row in keys.take(firsts).to_pylist()]
        if not self._names:
            values = [()] * len(groups.first_rows)
        before = len(self._numbers)
        numbers = [self._numbers.setdefault(value, len(self._numbers)) for value in values]
        if len(self._numbers) > before:
            is_new = np.array(numbers) >= before
            new = keys.take(firsts.filter(pa.array(is_new)))
            self.keys = pa.concat_tables([self.keys, new]).combine_chunks()
        return np.array(numbers, np.int64)[groups.of_row]

    def state(self) -> State:
        """Return the values of each, by number."""
        return {"keys": self.keys, "n": self.n}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self.keys = state["keys"]
        values = [tuple(map(_comparable, row.values())) for row in self.keys.to_pylist()]
        if not self._names:
            values = [()] * state["n"]
        self._numbers = {value: number for number, value in enumerate(values)}


def _plain(column: pa.ChunkedArray) -> Values:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Values(column.cast(kind).combine_chunks(), None)
    return to_arrays(column)


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if isnan(value) else (value + 0.0,)
    return (value,)


class Deriver:
    """Finds where conditions begin and end to hold, batch by batch."""

    def __init__(self, query: SituationRelation, schema: pa.Schema, faults: Faults) -> None:
        self._query = query
        self._faults = faults
        conditions = [situation.condition for situation in query.situations]
        self._distinct = list(dict.fromkeys(conditions))
        self._places = [self._distinct.index(condition) for condition in conditions]
        read = {part for condition in self._distinct for part in attributes(condition)}
        self._offsets = sorted({0} | {part.offset for part in read})
        names = {part.name for part in read}
        self._names = [name for name in schema.names if name in names] or schema.names[:1]
        self.partitions = Partitions(query.partition_by, schema)
        self.n_rows = 0
        self.last_times: Ints = np.zeros(0, np.int64)
        """Of the last row of each partition."""
        self.holds: Bools = np.zeros((0, len(conditions)), np.bool_)
        """Which conditions held there."""
        self._is_at_hand: Bools = np.zeros(0, np.bool_)
        """Whether a partition has a row, but for those before rows that were left out."""
        self.first_rows: Ints = np.zeros(0, np.int64)
        """``seq`` of the first row of each partition behind rows that were left out; else -1."""
        self._gap: Gap | None = None
        """The last rows left out; None if there are none."""
        self._tail = schema.empty_table().select(self._names)
        self._tail_partitions: Ints = np.zeros(0, np.int64)
        """The rows of each partition that PREV may still read, and whose they are."""

    def push(self, events: pa.Table) -> Rows:
        """Take in the next rows."""
        time = self._query.source_time.name
        times = np.asarray(to_int64(events.column(time), name=time).to_numpy())
        partitions = self._number(events)
        holds = self._truths(events.select(self._names), partitions)
        changes = self._changes(partitions, times, holds)
        self.n_rows += events.num_rows
        return Rows(partitions, times, changes)

    def tell(self, rows: Alike) -> Rows:
        """Take in the next rows, all alike, without a silence: only the first changes anything."""
        partitions, times = self._number(pa.table({"": [0]})), np.array([rows.begins])
        self.n_rows = rows.first
        changes = self._changes(partitions, times, rows.says[None, :])
        self.last_times[partitions] = rows.time
        self.n_rows = rows.stop
        return Rows(partitions, times, changes)

    def _number(self, events: pa.Table) -> Ints:
        """Return the partition of each row, and make room for new ones."""
        partitions = self.partitions.number(events)
        grown = self.partitions.n - len(self.last_times)
        if grown:
            nothing = np.zeros((grown, self.holds.shape[1]), np.bool_)
            self.last_times = np.concatenate([self.last_times, np.zeros(grown, np.int64)])
            self.holds = np.concatenate([self.holds, nothing])
            self._is_at_hand = np.concatenate([self._is_at_hand, np.zeros(grown, np.bool_)])
            self.first_rows = np.concatenate([self.first_rows, np.full(grown, -1)])
        return partitions

    def skip(self, gap: Gap) -> None:
        """Take it that rows were left out.

        A run that may have begun among them is none, but where rows before can be asked for.
        """
        self.n_rows, self._gap = gap.stop, gap
        self._is_at_hand[:], self.first_rows[:] = False, -1
        self._tail = self._tail.slice(0, 0)
        self._tail_partitions = self._tail_partitions[:0]

    # -----------------------------------------------------------------------------------------
    # Conditions

    def _truths(self, events: pa.Table, partitions: Ints) -> Bools:
        """Return which conditions are true, shape (rows, situations)."""
        if self._offsets == [0]:
            return self.truths_of(Columns(events))
        return self.truths_of(self._with_rows_before(events, partitions))

    def truths_of(self, source: Columns) -> Bools:
        """Return which conditions are true of some rows, shape (rows, situations)."""
        distinct = [truths(condition, source, self._faults) for condition in self._distinct]
        return np.stack([distinct[place] for place in self._places], axis=1)

    def _with_rows_before(self, events: pa.Table, partitions: Ints) -> Columns:
        """Return the columns with what PREV reads, and keep what it may read of the next rows."""
        is_near = np.isin(self._tail_partitions, partitions)
        near = self._tail.filter(pa.array(is_near))
        table = pa.concat_tables([near, events]).combine_chunks()
        whose = np.concatenate([self._tail_partitions[is_near], partitions])
        order = np.argsort(whose, kind="stable")
        sorted_whose, rank = whose[order], np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        own = rank[near.num_rows :]
        places = {}
        for offset in self._offsets:
            before = own + offset
            there = before >= 0
            there &= sorted_whose[np.maximum(before, 0)] == partitions
            places[offset] = np.where(there, order[np.maximum(before, 0)], -1)
        behind = np.searchsorted(sorted_whose, sorted_whose, side="right") - np.arange(len(order))
        kept = np.sort(order[behind <= -self._offsets[0]])
        others = self._tail.filter(pa.array(~is_near))
        self._tail = pa.concat_tables([others, table.take(pa.array(kept))]).combine_chunks()
        self._tail_partitions = np.concatenate([self._tail_partitions[~is_near], whose[kept]])
        return Columns(table, places=places)

    # -----------------------------------------------------------------------------------------
    # Changes

    def _changes(self, partitions: Ints, times: Ints, holds: Bools) -> list[Change]:
        """Compare each row with the one before of its partition, and keep the last of each."""
        order = np.argsort(partitions, kind="stable")
        whose, at, now = partitions[order], times[order], holds[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = whose[1:] != whose[:-1]
        has_before = ~is_first | self._is_at_hand[whose]
        before_at, before = np.roll(at, 1), np.roll(now, 1, axis=0)
        before_at[is_first], before[is_first] = (
            self.last_times[whose[is_first]],
            self.holds[whose[is_first]],
        )
        before &= has_before[:, None]
        valid_for, ends_at = self._query.valid_for, at
        silent = np.zeros(len(order), np.bool_)
        if valid_for is not None:
            silent = has_before & (at - before_at > valid_for)
            ends_at = np.where(silent, before_at + valid_for, at)
        ends = before & (~now | silent[:, None])
        begins = now & (~before | silent[:, None])
        seqs = self.n_rows + order
        if self._gap is not None and self._gap.rows_before is not None:
            self.first_rows[whose[~has_before]] = seqs[~has_before]
        elif self._gap is not None:
            # The row before may be among those left out, unless it is no neighbour any more. Of
            # rows with PREV more may begin too late: they are read beside those of matches.
            is_near = True if valid_for is None else at - valid_for <= self._gap.time
            begins[~has_before & is_near] = False
        self._is_at_hand[whose] = True
        is_last = np.append(is_first[1:], True)
        self.last_times[whose[is_last]], self.holds[whose[is_last]] = at[is_last], now[is_last]
        end_rows, ended = np.nonzero(ends)
        begin_rows, begun = np.nonzero(begins)
        rows = np.concatenate([end_rows, begin_rows])
        is_begin = np.arange(len(rows)) >= len(end_rows)
        at_changes = np.where(is_begin, at[rows], ends_at[rows])
        situations = np.concatenate([ended, begun])
        columns = is_begin, whose[rows], situations, at_changes, seqs[rows]
        in_order = np.lexsort((is_begin, rows))
        listed = (column[in_order].tolist() for column in columns)
        return [Change(*each) for each in zip(*listed, strict=True)]

    def state(self) -> State:
        """Return what is known of the rows pushed."""
        return {
            "n_rows": self.n_rows,
            "partitions": self.partitions.state(),
            "last_times": self.last_times,
            "holds": self.holds,
            "is_at_hand": self._is_at_hand,
            "tail": self._tail,
            "tail_partitions": self._tail_partitions,
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self.n_rows = state["n_rows"]
        self.partitions.take_over(state["partitions"])
        self.last_times, self.holds = state["last_times"], state["holds"]
        self._is_at_hand = state["is_at_hand"]
        self.first_rows = np.full(len(self._is_at_hand), -1)
        self._tail, self._tail_partitions = state["tail"], state["tail_partitions"]
        n = self.partitions.n
        if self.last_times.shape != (n,) or self.holds.shape != (n, len(self._places)):
            raise ValueError("partitions are others than those of the state")
