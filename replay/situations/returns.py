"""What matches return: aggregates over the rows of situations up to the instant of detection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.engines.scan import decoded
from replay.expressions.columns import ARROW_TYPES, Columns, to_arrow
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Aggregate,
    Attribute,
    Expression,
    SituationRelation,
    attributes,
    rewritten,
    walk,
)
from replay.limits import check_limits
from replay.operators.outer_pieces import AggregateRanges
from replay.operators.packing import State, integer, integers
from replay.planning.ascending import count_on
from replay.situations import return_kernels as kernels
from replay.situations.derive import Derived
from replay.situations.detection import OPEN
from replay.situations.held_rows import HeldRows
from replay.situations.matching import Matches

Ints = npt.NDArray[np.int64]

_BEFORE = 2
"""Place of it among the numbers of a row: its ``seq``, its time, and the row before."""

HELD_MIN: Final = 1 << 14
"""Rows that are held at least before they are added to the entries of their situations."""

PIECE_ROWS: Final = 1 << 20
"""Rows that are aggregated at once, one of several situations counted for each."""


class Groups(Protocol):
    """Aggregates groups of rows that come in pieces; see `replay.windows.group_aggregator`."""

    schema: pa.Schema

    @property
    def n_held(self) -> int:
        """Entries and values that are held."""
        ...

    def add(self, rows: pa.Table, groups: Ints) -> None:
        """Take in the next rows of groups."""
        ...

    def keep(self, groups: Ints) -> None:
        """Drop what is held of all groups but some."""
        ...

    def aggregates(self, rows: pa.Table, groups: Ints, held: Ints) -> pa.Table:
        """Return the aggregates of groups, whose rows were added or are given."""
        ...

    def state(self) -> State:
        """Return what is held."""
        ...

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        ...


GroupsOf = Callable[[tuple[Aggregate, ...], pa.Schema], Groups]
"""Makes what aggregates groups of rows with these columns."""


class Returns:
    """Holds what may still be told of the rows of situations, and aggregates them.

    Rows are held until they are many. Then each is added to the entry of the situation it belongs
    to, by which these are known from there on: by the ``seq`` of their first rows.

    Why: no match to come is detected before the time of a row that was pushed, so of a situation
    all rows that were pushed count, however long it lasts.
    """

    def __init__(
        self, query: SituationRelation, schema: pa.Schema, groups_of: GroupsOf, faults: Faults
    ) -> None:
        self._returns = query.returns
        self._faults = faults
        parts = [part for one in query.returns for part in walk(one.expression)]
        aggregates = dict.fromkeys(part for part in parts if isinstance(part, Aggregate))
        self._by_situation: dict[int, tuple[Aggregate, ...]] = {}
        for part in aggregates:
            assert part.symbols is not None
            (situation,) = part.symbols
            self._by_situation[situation] = (*self._by_situation.get(situation, ()), part)
        named = {a.name for part in aggregates for a in attributes(part)}
        # A table without columns forgets how many rows it has.
        self._names = [name for name in schema.names if name in named] or schema.names[:1]
        plain = decoded(schema.empty_table()).schema
        values = pa.schema([plain.field(name) for name in self._names])
        self._groups = {
            situation: groups_of(parts, values) for situation, parts in self._by_situation.items()
        }
        self._bits = np.uint64(sum(1 << situation for situation in self._by_situation))
        self._rows = HeldRows(values.empty_table(), 3)
        self._first_held = 0
        """How many rows have been held before."""
        self._last: Ints = np.full(1, -1)
        """The last row of each partition that was held."""
        self._ranges: AggregateRanges | None = None
        """Aggregates rows that are not held; None: they are."""
        self._columns = {part: f"aggregate {i}" for i, part in enumerate(aggregates)}
        types = {
            part: of
            for situation, parts in self._by_situation.items()
            for part, of in zip(parts, self._groups[situation].schema.types, strict=True)
        }

        def type_of(expression: Expression) -> pa.DataType:
            if isinstance(expression, Aggregate):
                return types[expression]
            if isinstance(expression, Attribute):
                return plain.field(expression.name).type
            return ARROW_TYPES[expression.type]

        self.schema = pa.schema(
            [pa.field(one.name, type_of(one.expression)) for one in query.returns]
        )

    @property
    def n_held(self) -> int:
        """Rows, entries and values that are held."""
        return self._rows.n_rows + sum(groups.n_held for groups in self._groups.values())

    @property
    def is_full(self) -> bool:
        """Whether rows are so many that they should be added to their situations.

        That takes time in all entries, so there are as many rows as entries at least.
        """
        n_rows = self._rows.n_rows
        return n_rows >= HELD_MIN and 2 * n_rows >= self.n_held

    def push(self, events: pa.Table, rows: Derived, first_seq: int) -> None:
        """Take in rows, numbered from ``first_seq`` on."""
        if not self._by_situation or self._ranges is not None:
            return
        held = np.flatnonzero(rows.words & self._bits)
        if not len(held):
            return
        partitions, before = rows.partitions, np.empty(len(held), np.int64)
        if len(partitions):
            partitions = partitions[held]
            n = int(partitions.max()) + 1
            if n > len(self._last):
                self._last = np.concatenate([self._last, np.full(2 * n - len(self._last), -1)])
        kernels.link_rows(partitions, self._first_held + self._rows.n_rows, self._last, before)
        values = decoded(events.select(self._names))  # dictionaries are taken from more slowly
        if len(held) < events.num_rows:
            values = values.take(pa.array(held))
        self._rows.append(values, first_seq + held, rows.times[held], before)

    def aggregate_by(self, ranges: AggregateRanges) -> None:
        """Have rows aggregated by where they stand in the stream; none is held."""
        self._ranges = ranges

    def forget(self) -> None:
        """Drop all that is held."""
        self._drop_rows()
        for groups in self._groups.values():
            groups.keep(np.zeros(0, np.int64))

    def add_to_entries(self, lives: Ints) -> None:
        """Add all rows to the entries of the situations that matches may still contain.

        ``lives`` are those as `Matcher.lives` gives them; entries of others are dropped. No match
        may be detected before the time of the last row.
        """
        for situation, groups in self._groups.items():
            of_name = lives[lives[:, 1] == situation]
            of_name = of_name[np.argsort(of_name[:, 3])]
            partition, _, _, first, _, stop = np.ascontiguousarray(of_name.T)
            groups.keep(first)
            until = np.full(len(first), OPEN)
            for piece, places, counts in self._rows_of(partition, first, stop, until):
                groups.add(self._rows.take(places), np.repeat(first[piece], counts))
        self._drop_rows()

    def _drop_rows(self) -> None:
        self._first_held += self._rows.n_rows
        self._rows.keep(np.zeros(0, np.int64))

    def _rows_of(
        self, partition: Ints, first: Ints, stop: Ints, until: Ints
    ) -> Iterator[tuple[slice, Ints, Ints]]:
        """Yield situations, the places of their rows that are held, and how many each has.

        Rows of a situation are those of its partition from ``seq`` ``first`` on before ``stop``, up
        to a time. A row may be one of many situations, so they come in pieces of `PIECE_ROWS` rows,
        or a single situation.
        """
        seqs, times, before = self._rows.numbers
        own, of = np.unique(partition, return_inverse=True)
        since = np.full(len(own), OPEN)
        np.minimum.at(since, of, first)
        chain = self._last, before
        counts = kernels.count_rows(own, since, *chain, seqs, self._first_held)
        ends = np.cumsum(counts)
        places = np.empty(int(counts.sum()), np.int64)
        kernels.list_rows(own, *chain, ends, counts, self._first_held, places)
        low, high = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
        kernels.cut_ranges(
            (ends - counts)[of],
            ends[of],
            seqs[places],
            times[places],
            first,
            stop,
            until,
            low,
            high,
        )
        n_before = np.concatenate([[0], np.cumsum(high - low)])
        begin = 0
        while begin < len(first):
            behind = int(np.searchsorted(n_before, n_before[begin] + PIECE_ROWS, "right")) - 1
            piece = slice(begin, max(behind, begin + 1))
            yield piece, places[count_on(low[piece], lengths := (high - low)[piece])], lengths
            begin = piece.stop
            check_limits()

    # -----------------------------------------------------------------------------------------
    # Columns of the answer

    def of(self, matches: Matches, keys: pa.Table) -> list[pa.Array]:
        """Return the columns of RETURN; ``keys`` has those of PARTITION BY, match by match."""
        if not self._returns:
            return []
        # A table without columns forgets how many rows it has.
        table = pa.table({"": np.arange(len(matches.detections))})
        for name in keys.column_names:
            table = table.append_column(name, keys.column(name))
        for situation, aggregates in self._by_situation.items():
            first, stop = matches.firsts[:, situation], matches.stops[:, situation]
            partition, until = matches.partitions, matches.detections
            found = self._aggregated(situation, first, stop, partition, until)
            for part, column in zip(aggregates, found.columns, strict=True):
                table = table.append_column(self._columns[part], column)
        source = Columns(table)
        columns = []
        for field, one in zip(self.schema, self._returns, strict=True):
            expression = rewritten(one.expression, self._named)
            if isinstance(expression, Attribute):
                column = table.column(expression.name).combine_chunks()
            else:
                column = to_arrow(evaluate(expression, source, self._faults), expression.type)
            columns.append(column.cast(field.type))
        return columns

    def _named(self, part: Expression) -> Expression | None:
        if not isinstance(part, Aggregate):
            return None
        return Attribute(self._columns[part], part.type)

    def _aggregated(
        self, situation: int, first: Ints, stop: Ints, partition: Ints, until: Ints
    ) -> pa.Table:
        """Return aggregates of a situation of each match, computed once for each instant."""
        order = np.lexsort((until, first))
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (np.diff(first[order]) != 0) | (np.diff(until[order]) != 0)
        number = np.empty(len(order), np.int64)
        number[order] = np.cumsum(is_new) - 1
        chosen = order[is_new]
        first, stop, partition, until = (x[chosen] for x in (first, stop, partition, until))
        if self._ranges is not None:
            found = self._ranges(self._by_situation[situation], first, stop, until)
        else:
            groups, pieces = self._groups[situation], []
            for piece, places, counts in self._rows_of(partition, first, stop, until):
                numbers = np.repeat(np.arange(len(counts)), counts)
                rows = self._rows.take(places)
                pieces.append(groups.aggregates(rows, numbers, first[piece]))
            found = pa.concat_tables(pieces)
        return found.take(pa.array(number))

    def state(self) -> State:
        """Return what is held."""
        return {
            "rows": self._rows.state(),
            "first_held": self._first_held,
            "last": self._last,
            "groups": [groups.state() for groups in self._groups.values()],
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._rows.take_over(state["rows"])
        self._first_held = integer(state["first_held"], 0, OPEN)
        stop = self._first_held + self._rows.n_rows
        self._last = integers(state["last"], state["last"].shape, -1, stop - 1)
        before = self._rows.numbers[_BEFORE]
        if (before >= self._first_held + np.arange(len(before))).any() or before.min(
            initial=0
        ) < -1:
            raise ValueError("rows of the state stand before themselves")
        for groups, of in zip(self._groups.values(), state["groups"], strict=True):
            groups.take_over(of)
