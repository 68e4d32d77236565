"""A range of a stream as a query that can be opened anywhere."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle import Store, Stream
from chronicle.time import TimeType, time_type, to_int64
from replay.language.printer import quoted
from replay.query import batches
from replay.running.arguments import Moment, to_internal
from replay.running.statement import Parameters

_FROM, _TO = "chronicle_from", "chronicle_to"
"""Parameters of the range; a name no user would choose for another."""


@dataclass(frozen=True, slots=True)
class EventRange:
    """The events of a stream that satisfy a condition, readable from any time on."""

    store: Store
    opened: Stream
    stream: str
    time: str
    """Name of the time column, which is always read."""
    stream_schema: pa.Schema
    columns: tuple[str, ...]
    """Columns that are wanted."""
    where: str | None
    params: Parameters
    version: int

    @property
    def schema(self) -> pa.Schema:
        """Schema of the columns that are wanted."""
        return pa.schema([self.stream_schema.field(name) for name in self.columns])

    @property
    def units_per_second(self) -> float:
        """Units of internal time in a second; 1 where time is an integer of unknown unit."""
        return 1.0 if self._kind == "integer" else 1e6

    @property
    def _kind(self) -> TimeType:
        return time_type(self.stream_schema.field(self.time).type, column=self.time)

    def sql(self, start: int | None, stop: int | None) -> str:
        """Return the query for the events of [start, stop); None is unbounded."""
        read = dict.fromkeys((*self.columns, self.time))
        conditions = [
            *([] if start is None else [f"{quoted(self.time)} >= :{_FROM}"]),
            *([] if stop is None else [f"{quoted(self.time)} < :{_TO}"]),
            # On a line of its own: a comment at its end must not take the parenthesis with it.
            *([] if self.where is None else [f"({self.where}\n)"]),
        ]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        columns = ", ".join(map(quoted, read))
        return f"SELECT {columns} FROM {quoted(self.stream)}{where}"

    def open(self, start: int | None, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Return the events of [start, stop) in stream order, read as they are asked for."""
        params = dict(self.params)
        if start is not None:
            params[_FROM] = self.to_moment(start)
        if stop is not None:
            params[_TO] = self.to_moment(stop)
        sql = self.sql(start, stop)
        self.opened.refresh()  # a version of the stream that was asked for, not of a newer one
        return iter(batches(self.store, sql, params=params, as_of=self.version))

    def times(self, events: pa.Table) -> npt.NDArray[np.int64]:
        """Return the internal times of events."""
        times = to_int64(events.column(self.time), name=self.time)
        return np.asarray(times.to_numpy(zero_copy_only=False), np.int64)

    def to_internal(self, moment: Moment) -> int:
        """Return a time of this stream in internal form.

        Raises
        ------
        SchemaError
            If it is no time of this stream.
        """
        return to_internal(moment, self._kind)

    def to_moment(self, time: int) -> int | dt.datetime:
        """Return an internal time as people have it."""
        if self._kind == "integer":
            return time
        zone = dt.UTC if self._kind == "timestamp_utc" else None
        return dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=time)
