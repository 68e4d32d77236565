"""Buffer events as they come in, in the order they are matched, as long as they are needed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.time import to_int64
from replay.engines.source import in_order
from replay.expressions.columns import in_few_chunks
from replay.operators.packing import State

IntArray = npt.NDArray[np.int64]


class InputBuffer:
    """The kept part of a stream whose end is still open.

    Of events of one time, which columns of ``order_by`` order, those of the newest time wait for
    the next time, since one that comes before them may still arrive.

    ``n_placed`` counts the events whose place in the stream is certain, dropped ones included;
    ``last_time`` is the time of the newest event, None before the first.
    """

    def __init__(self, schema: pa.Schema, time: str, order_by: tuple[str, ...]) -> None:
        self._time = time
        self._order_by = order_by
        self._placed = schema.empty_table()
        self._waiting = schema.empty_table()
        self.n_placed = 0
        self.last_time: int | None = None

    @property
    def n_kept(self) -> int:
        """Number of events kept."""
        return int(self._placed.num_rows + self._waiting.num_rows)

    def append(self, table: pa.Table) -> None:
        """Take events that are in order of time, behind all before."""
        if not table.num_rows:
            return
        times = to_int64(table.column(self._time), name=self._time).to_numpy()
        if self._order_by:
            arrived = in_few_chunks(pa.concat_tables([self._waiting, table]))
            n_certain = 0  # all are of the one newest time, unless it is new
            if times[-1] != self.last_time:
                n_before = int(np.searchsorted(times, times[-1], side="left"))
                n_certain = self._waiting.num_rows + n_before
            self._waiting = _copied(arrived.slice(n_certain))
            table = in_order(arrived.slice(0, n_certain), self._time, self._order_by)
        self.last_time = int(times[-1])
        self._place(table)

    def close(self) -> None:
        """Place what waits: no more is to come."""
        waiting, self._waiting = self._waiting, self._waiting.slice(0, 0)
        self._place(in_order(waiting, self._time, self._order_by) if self._order_by else waiting)

    def _place(self, table: pa.Table) -> None:
        if table.num_rows:
            self._placed = in_few_chunks(pa.concat_tables([self._placed, table]))
            self.n_placed += table.num_rows

    def between(self, low: int, high: int) -> pa.Table:
        """Return the events with ``seq`` from ``low`` to below ``high``, which are kept."""
        return self._placed.slice(low - self._first, high - low)

    def at(self, columns: list[str], seqs: IntArray) -> pa.Table:
        """Return columns of the events at some ``seq``, which are kept."""
        return self._placed.select(columns).take(pa.array(seqs - self._first))

    @property
    def _first(self) -> int:
        """``seq`` of the first event kept."""
        return self.n_placed - int(self._placed.num_rows)

    def drop_before(self, seq: int) -> None:
        """Forget the events before ``seq``."""
        n_dropped = max(0, seq - self._first)
        if n_dropped:
            kept = self._placed.slice(n_dropped)
            # A slice holds on to what it was cut from; copying less than was dropped stays cheap.
            self._placed = _copied(kept) if kept.num_rows <= n_dropped else kept

    def state(self) -> State:
        """Return what is known and kept."""
        return {
            "n_placed": self.n_placed,
            "last_time": self.last_time,
            "placed": self._placed,
            "waiting": self._waiting,
        }

    def restore(self, state: State) -> None:
        """Take over what `state` gave."""
        self._placed, self._waiting = state["placed"], state["waiting"]
        self.n_placed, self.last_time = state["n_placed"], state["last_time"]


def _copied(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.arange(table.num_rows)))
