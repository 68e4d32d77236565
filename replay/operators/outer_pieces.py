"""The outer query over rows that come piece by piece, kept only as far as they may still count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import Columns
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Aggregate,
    Attribute,
    Call,
    DataType,
    Expression,
    Literal,
    Outer,
    SortKey,
)
from replay.limits import check_limits
from replay.operators.outer import apply_outer
from replay.operators.packing import State

IntArray = npt.NDArray[np.int64]

_LITERALS = frozenset(DataType) - {DataType.NULL, DataType.BOOLEAN}

KEPT_ROWS_MIN = 1 << 16
"""Rows that pile up at least before those that cannot count any more are dropped."""


class Operator(Protocol):
    """Rows in, in order; rows of the answer out as soon as they are certain."""

    @property
    def n_faults(self) -> int:
        """Faults of rows so far."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether no row to come can change the answer any more."""
        ...

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows."""
        ...

    def advance(self, time: int) -> Iterator[pa.Table]:
        """Take it that no row to come is before a time, by the column that carries time."""
        ...

    def finish(self) -> Iterator[pa.Table]:
        """End the input."""
        ...

    def state(self) -> State:
        """Return all that is known of the rows pushed, for `take_over` of an operator like it.

        It is to be packed before the next push, since arrays may be those at work.
        """
        ...

    def take_over(self, state: State) -> None:
        """Go on from a state; what was pushed to this operator is forgotten."""
        ...


RowsBefore = Callable[[pa.Table], tuple[IntArray, pa.Table]]
"""Gives of each partition, a row of its columns' values, the last event before a gap's end: the
places of those that have one, and the events in the same order."""


class Gap(NamedTuple):
    """Rows of a stream that are left unread, since no answer has one of them."""

    first: int
    """``seq`` of the first."""
    stop: int
    """``seq`` behind the last."""
    begins: int
    """The time of the first: all rows before it were pushed, or lie in a gap before."""
    time: int
    """The time of the last: no row to come is before it."""
    rows_before: RowsBefore | None = None
    """Finds rows left out that are asked for; None: none is."""
    rows_beside: pa.Table | None = None
    """The last rows left out of each partition, as many as are looked at, in the order of the
    stream; None: it is not known which they are."""
    last_time: Callable[[], int | None] | None = None
    """Gives the time of the last row from here on that is no row of the stream alone: of one that
    passes a filter; None: all pass."""


AggregateRanges = Callable[[tuple[Aggregate, ...], IntArray, IntArray, IntArray], pa.Table]
"""Gives aggregates, a column each, over ranges of rows of the stream, a row each: ``seq`` of the
first row, of the one behind the last, and a time behind which rows do not count. Ranges ascend by
both ends, and none is empty."""


class Alike(NamedTuple):
    """Parts of a stream that are left unread, as it is known what all rows of each say; by column.

    They lie between the rows that are read, or behind them.
    """

    aggregate: AggregateRanges
    """Aggregates rows of the stream, read or not."""
    first: IntArray
    """``seq`` of the first row of each."""
    stop: IntArray
    """``seq`` behind the last."""
    begins: IntArray
    """The time of the first."""
    until: IntArray
    """The time of the last."""
    says: npt.NDArray[np.bool_]
    """What the class of the query says of such rows (`AlikeBlocks`), a row each."""


@runtime_checkable
class ToldOperator(Protocol):
    """An operator that may be told what rows say instead of being given them."""

    def tell(self, events: pa.Table, alike: Alike) -> Iterator[pa.Table]:
        """Take the next rows: some, with their `SEQ`, and parts between them."""
        ...


Counts = Mapping[str, Mapping[str, int]]
"""Numbers of what a class of query did, by its name."""


@runtime_checkable
class CountingOperator(Protocol):
    """An operator that tells what it did in numbers of its own."""

    @property
    def counts(self) -> Counts:
        """What was done so far."""
        ...


@runtime_checkable
class SkippingOperator(Operator, Protocol):
    """An operator that is told of the rows left unread between those pushed."""

    def skip(self, gap: Gap) -> Iterator[pa.Table]:
        """Take it that some rows were left out here."""
        ...


def run_through(operator: Operator, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield what an operator makes of tables, asking for no more of them than it needs."""
    for table in tables:
        for made in operator.push(table):
            check_limits()
            yield made
        if operator.is_done:
            break
    yield from operator.finish()


class OuterOperator:
    """SELECT, WHERE, GROUP BY, HAVING, DISTINCT, ORDER BY and LIMIT over rows that come in pieces.

    Row by row, and for DISTINCT, rows go out as they come. ORDER BY gives none before the end; with
    LIMIT it keeps about twice the rows asked for, without it all. GROUP BY keeps all.
    """

    def __init__(self, outer: Outer) -> None:
        self._faults = Faults()
        self._rows: _RowByRow | _Distinct | _Ordered | _Whole
        if outer.is_row_by_row:
            self._rows = _RowByRow(outer, self._faults)
        elif outer.group_by is not None or outer.having is not None:
            self._rows = _Whole(outer, self._faults)
        elif not outer.order_by:
            self._rows = _Distinct(outer, self._faults)
        elif outer.limit is not None and not outer.distinct:
            self._rows = _Ordered(outer, self._faults, outer.offset + outer.limit)
        else:
            self._rows = _Whole(outer, self._faults)

    @property
    def n_faults(self) -> int:
        """Faults of rows so far: divisions by zero, overflows and the like that gave NULL."""
        return self._faults.count

    @property
    def is_done(self) -> bool:
        """Whether LIMIT has enough."""
        return self._rows.is_done

    @property
    def needs_end(self) -> bool:
        """Whether no row goes out before the input ends."""
        return isinstance(self._rows, _Ordered | _Whole)

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows; yield those of the answer that are certain now."""
        return self._rows.push(table)

    def advance(self, time: int) -> Iterator[pa.Table]:  # noqa: ARG002
        """Yield nothing: no row waits for a time."""
        return iter(())

    def finish(self) -> Iterator[pa.Table]:
        """End the input and yield the rest of the answer."""
        return self._rows.finish()

    def state(self) -> State:
        """Return what is known and kept; only where rows go out before the end."""
        assert isinstance(self._rows, _RowByRow | _Distinct), "nobody goes on without the end"
        return {"n_faults": self._faults.count, "rows": self._rows.state()}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        assert isinstance(self._rows, _RowByRow | _Distinct), "nobody goes on without the end"
        self._faults.count = state["n_faults"]
        self._rows.take_over(state["rows"])


class _Cut:
    """OFFSET and LIMIT, counted off as rows go out."""

    def __init__(self, outer: Outer) -> None:
        self._offset = outer.offset
        self._left = outer.limit

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def cut(self, table: pa.Table) -> pa.Table:
        kept = table.slice(self._offset, self._left)
        self._offset = max(0, self._offset - table.num_rows)
        if self._left is not None:
            self._left -= kept.num_rows
        return kept

    def state(self) -> State:
        return {"offset": self._offset, "left": self._left}

    def take_over(self, state: State) -> None:
        self._offset, self._left = state["offset"], state["left"]


class _RowByRow:
    """Rows of which each tells by itself what becomes of it."""

    def __init__(self, outer: Outer, faults: Faults) -> None:
        self._plain = replace(outer, limit=None, offset=0)
        self._cut = _Cut(outer)
        self._faults = faults
        self._is_new = True

    @property
    def is_done(self) -> bool:
        return self._cut.is_done

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        if self._is_new or not self.is_done:  # LIMIT 0 gives a table too, without rows
            self._is_new = False
            yield self._cut.cut(apply_outer(table, self._plain, self._faults))

    def finish(self) -> Iterator[pa.Table]:
        return iter(())

    def state(self) -> State:
        return {"is_new": self._is_new, "cut": self._cut.state()}

    def take_over(self, state: State) -> None:
        self._is_new = state["is_new"]
        self._cut.take_over(state["cut"])


class _Distinct:
    """Rows of which the first of those that are alike goes out.

    What has gone out is kept; new rows are compared with it each time they are as many.
    """

    def __init__(self, outer: Outer, faults: Faults) -> None:
        self._plain = replace(outer, distinct=False, limit=None, offset=0)
        items = tuple((name, Attribute(name, expression.type)) for name, expression in outer.items)
        self._alike = Outer(items, distinct=True)
        self._cut = _Cut(outer)
        self._faults = faults
        self._kept: list[pa.Table] = []
        self._n_kept = 0
        self._waiting: list[pa.Table] = []
        self._n_waiting = 0

    @property
    def is_done(self) -> bool:
        return self._cut.is_done

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        if self._kept and self.is_done:  # LIMIT 0 gives a table too, without rows
            return
        rows = apply_outer(table, self._plain, self._faults)
        self._waiting.append(rows)
        self._n_waiting += rows.num_rows
        if self._n_waiting >= self._n_kept:
            yield self._compared()

    def finish(self) -> Iterator[pa.Table]:
        if self._waiting:
            yield self._compared()

    def _compared(self) -> pa.Table:
        rows = pa.concat_tables([*self._kept, *self._waiting])
        rows = apply_outer(rows, self._alike, Faults())
        new = rows.slice(self._n_kept)
        self._kept, self._n_kept = [rows], rows.num_rows
        self._waiting, self._n_waiting = [], 0
        return self._cut.cut(new)

    def state(self) -> State:
        return {"kept": self._kept, "waiting": self._waiting, "cut": self._cut.state()}

    def take_over(self, state: State) -> None:
        self._kept, self._waiting = state["kept"], state["waiting"]
        self._n_kept = sum(table.num_rows for table in self._kept)
        self._n_waiting = sum(table.num_rows for table in self._waiting)
        self._cut.take_over(state["cut"])


class _Ordered:
    """The first rows of an order: what has enough before it is dropped now and then.

    Once that has been done, rows behind the last one kept by the first key alone do not come in.
    """

    def __init__(self, outer: Outer, faults: Faults, n_wanted: int) -> None:
        self._filter = outer.where
        self._outer = replace(outer, where=None)
        self._faults = faults
        self._n_wanted = n_wanted
        self._rows: list[pa.Table] = []
        self._n_rows = 0
        self._before_last: Expression | None = None

    @property
    def is_done(self) -> bool:
        return self._n_wanted == 0

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        if self._filter is not None:
            table = apply_outer(table, _all_of(table, self._filter), self._faults)
        if self._before_last is not None:
            table = apply_outer(table, _all_of(table, self._before_last), Faults())
        self._rows.append(table)
        self._n_rows += table.num_rows
        if self._n_rows >= max(2 * self._n_wanted, KEPT_ROWS_MIN):
            # Rows that come later lose against those alike that came before.
            first = replace(
                _all_of(table, None), order_by=self._outer.order_by, limit=self._n_wanted
            )
            rows = apply_outer(pa.concat_tables(self._rows), first, Faults())
            self._rows, self._n_rows = [rows], rows.num_rows
            self._before_last = _not_behind(self._outer.order_by[0], rows.slice(rows.num_rows - 1))
        yield from ()

    def finish(self) -> Iterator[pa.Table]:
        if self._rows:
            yield apply_outer(pa.concat_tables(self._rows), self._outer, self._faults)


def _not_behind(key: SortKey, row: pa.Table) -> Expression | None:
    """Return what must hold of a row that is not behind this one; None if any may be before it."""
    if key.nulls_first or key.expression.type not in _LITERALS:
        return None
    data, valid = evaluate(key.expression, Columns(row), Faults())
    value = data[0].as_py() if isinstance(data, pa.Array | pa.ChunkedArray) else data[0].item()
    is_null = value is None or (valid is not None and not valid[0])
    if is_null or (isinstance(value, float) and math.isnan(value)):
        return None
    last = Literal(value, key.expression.type)
    return Call(">=" if key.descending else "<=", (key.expression, last), DataType.BOOLEAN)


def _all_of(table: pa.Table, where: Expression | None) -> Outer:
    """Return the outer query that filters and gives all columns as they are."""
    items = tuple((name, Attribute(name, DataType.NULL)) for name in table.column_names)
    return Outer(items, where=where)


class _Whole:
    """Rows that are wanted all together."""

    def __init__(self, outer: Outer, faults: Faults) -> None:
        self._outer = outer
        self._faults = faults
        self._rows: list[pa.Table] = []

    @property
    def is_done(self) -> bool:
        return False

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        self._rows.append(table)
        yield from ()

    def finish(self) -> Iterator[pa.Table]:
        if self._rows:
            yield apply_outer(pa.concat_tables(self._rows), self._outer, self._faults)
