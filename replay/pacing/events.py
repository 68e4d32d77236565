"""Replay a stretch of history at any pace."""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle import Snapshot, Store, Stream
from chronicle.errors import SchemaError, did_you_mean
from chronicle.time import TimeType, time_type, to_int64
from replay.errors import QueryError
from replay.language.tokens import quoted
from replay.query import batches
from replay.running.arguments import AsOf, Moment, to_internal
from replay.running.statement import Parameters, parse

AT_ONCE_MAX = 1 << 16
"""Most events handed out in one piece."""

SHORTEST_WAIT_S = 0.001
"""Events that fall due closer together are handed out together."""


def events(  # noqa: PLR0913 -- what is handed out, and how
    store: Store,
    stream: str,
    *,
    start: Moment | None = None,
    stop: Moment | None = None,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    params: Parameters | None = None,
    speed: float = math.inf,
    loop: int | None = 1,
    beat: float | None = None,
    as_of: AsOf | None = None,
) -> PacedReplay:
    """Replay a stretch of a stream in order, at the pace it had or any other.

    Parameters
    ----------
    store, stream
        Where the events are.
    start, stop
        The stretch, half-open; None is unbounded. Before ``start`` no block is read but the one
        it lies in.
    where
        A condition in SQL; only events that satisfy it are handed out. Indexes and the tree find
        them where that is cheaper than reading all.
    columns
        Columns handed out, in this order; all by default.
    params
        Values of ``:name`` in ``where``.
    speed
        Stream time in one second of the clock: 1 is the pace of the past, 3600 an hour in a
        second; where time is an integer, units of it in a second. Infinite, the default: as fast
        as events can be read.
    loop
        How many times; None: without end.
    beat
        Seconds after which an empty table is handed out where no event is due, so that whoever
        takes them can look at ``reached``; None: never.
    as_of
        Version of the stream, as in ``replay.query``.

    Returns
    -------
    PacedReplay
        To be iterated over, and steered meanwhile.

    Raises
    ------
    QueryError
        If the speed, the number of times or the beat makes no sense, or the condition cannot be
        read. One that cannot be bound is an error where the iteration begins.
    SchemaError
        If there is no such column, or a time is none of this stream.
    StorageError
        If there is no such stream or version.
    """
    if loop is not None and loop < 1:
        raise QueryError(f"loop={loop} replays nothing; give 1 or more, or None for no end")
    if beat is not None and not beat > 0:
        raise QueryError(f"beat={beat} is no number of seconds above 0; None for no beat")
    if where is not None:  # one that closes more parentheses than it opens would undo the stretch
        before = "SELECT * FROM events WHERE "
        with _errors_of(where, before):
            parse(f"{before}{where}")
    if not isinstance(store, Store):
        raise TypeError(
            "events are replayed from a store (chronicle.open_store(path)), not from "
            f"{type(store).__name__}"
        )
    opened = store.stream(stream)
    version = opened.version_of(as_of)
    snapshot = opened.snapshot(version)
    source = EventRange(
        store,
        opened,
        stream,
        snapshot.settings.time,
        snapshot.schema,
        columns=_checked_columns(snapshot, columns),
        where=where,
        params=dict(params or {}),
        version=version,
    )
    begin = None if start is None else source.to_internal(start)
    end = None if stop is None else source.to_internal(stop)
    if begin is not None and end is not None and begin >= end:
        raise QueryError(f"nothing lies from {start} to before {stop}")
    return PacedReplay(source, begin, end, speed=speed, loop=loop, beat=beat)


@contextmanager
def _errors_of(condition: str | None, before: str) -> Iterator[None]:
    """Tell errors at their place in a condition, not in the query that has it behind ``before``."""
    try:
        yield
    except QueryError as error:
        line = error.line - before.count("\n")
        if condition is not None and line > 0:
            first = error.column - len(before.rpartition("\n")[2])
            error.move_to(condition, line, first if line == 1 else error.column)
        raise


def _checked_columns(snapshot: Snapshot, columns: Sequence[str] | None) -> tuple[str, ...]:
    names = snapshot.schema.names
    for name in columns or ():
        if name not in names:
            raise SchemaError(
                f"stream '{snapshot.name}' has no column '{name}'{did_you_mean(name, names)}"
            )
    return tuple(columns or names)


class Clock(Protocol):
    """What tells the time, in seconds since any instant."""

    def now(self) -> float:
        """Return the time."""
        ...

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait on a condition that is held, so long at most; None: until it is notified."""
        ...


class SystemClock:
    """The clock of this machine that nobody sets back."""

    def now(self) -> float:
        """Return the time."""
        return time.monotonic()

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait on a condition that is held, so long at most."""
        condition.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))


class PacedReplay:
    """Events handed out when they are due; `events` makes it.

    Iterating gives tables of at least one event each, in stream order: all that are due by then.
    With a ``beat``, empty ones besides.
    The time between two events is that between them in the stream, divided by the speed, and
    begins to count at ``start``, or else with the first event. Each is due at an instant that
    follows from that beginning, so delays do not add up; whoever takes tables too slowly gets
    them late, and larger ones, until the replay has caught up. A further time round begins when
    ``stop`` would be due, or where there is no such time, with the last event.

    `pause`, `resume`, `seek`, `close` and ``speed`` may be used from other threads. One iteration
    at a time; each begins the stretch, and its time, anew.

    Parameters
    ----------
    source
        The events.
    start, stop
        Internal times, half-open; None is unbounded.
    speed, loop, beat
        As in `events`.
    clock
        What tells the time.
    """

    def __init__(
        self,
        source: EventRange,
        start: int | None,
        stop: int | None,
        *,
        speed: float,
        loop: int | None,
        beat: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._source = source
        self._start, self._stop = start, stop
        self._rate = self._to_rate(speed)
        self._loop = loop
        self._beat = math.inf if beat is None else beat
        self._reached: int | None = None
        self.n_events = 0
        """Events handed out so far."""
        self.together = 1
        """Events that are handed out at once, if so many are due within a ``beat``."""
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()
        self._timeline: Timeline | None = None
        self._paused_at: float | None = None
        self._target: int | None = None
        self._next = start
        self._last: int | None = None
        self._was_sought = False
        self._is_closed = False

    @property
    def schema(self) -> pa.Schema:
        """Schema of the tables."""
        return self._source.schema

    @property
    def time(self) -> str:
        """Name of the stream's time column, which need not be among those handed out."""
        return self._source.time

    @property
    def position(self) -> int | dt.datetime | None:
        """Time of the next event, or of the last as long as that is not known; None before both."""
        time = self._next
        return None if time is None else self._source.to_moment(time)

    @property
    def reached(self) -> int | dt.datetime | None:
        """Time before which no further event is, as of the last table; None before the first."""
        return None if self._reached is None else self._source.to_moment(self._reached)

    @property
    def is_paused(self) -> bool:
        """Whether it waits for `resume`."""
        return self._paused_at is not None

    @property
    def speed(self) -> float:
        """Stream time in one second, as in `events`; can be set at any time."""
        return self._rate / self._source.units_per_second

    @speed.setter
    def speed(self, speed: float) -> None:
        rate = self._to_rate(speed)
        with self._changed:
            self._go_on(self._paused_at, rate)

    def pause(self) -> None:
        """Hand out nothing more until `resume`; the time in between does not count."""
        with self._changed:
            if self._paused_at is None:
                self._paused_at = self._clock.now()

    def resume(self) -> None:
        """Go on after `pause`."""
        with self._changed:
            paused_at, self._paused_at = self._paused_at, None
            if paused_at is not None:
                self._go_on(paused_at, self._rate)
                if self._timeline is not None:
                    self._timeline = replace(self._timeline, clock=self._clock.now())

    def seek(self, moment: Moment) -> None:
        """Go on with the first event at or after a time, back or forth; it is due at once.

        Raises
        ------
        SchemaError
            If it is no time of this stream.
        QueryError
            If it lies outside of the stretch.
        """
        target = self._source.to_internal(moment)
        is_early = self._start is not None and target < self._start
        if is_early or (self._stop is not None and target >= self._stop):
            raise QueryError(f"{moment} is outside of the stretch that is replayed")
        with self._changed:
            self._target = self._next = target
            self._timeline = self._last = None
            self._changed.notify_all()

    def close(self) -> None:
        """End the iteration, also one that waits in another thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __enter__(self) -> PacedReplay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[pa.Table]:
        with self._changed:
            self._timeline = None
            if self._paused_at is not None:
                self._paused_at = self._clock.now()
        for _ in count() if self._loop is None else range(self._loop):
            self._begin_lap()
            n_events = 0
            for table in self._lap():
                n_events += table.num_rows
                yield table
            if self._is_closed or (not n_events and not self._was_sought):
                return

    def _begin_lap(self) -> None:
        with self._changed:
            before, self._timeline = self._timeline, None
            self._last = None
            if self._start is None:
                return
            clock = self._clock.now()
            if before is not None and self._stop is not None and not math.isinf(before.rate):
                clock = before.clock_of(self._stop)
            self._timeline = Timeline(self._start, clock, self._rate)

    def _lap(self) -> Iterator[pa.Table]:
        """Go through the stretch once, and on from elsewhere whenever `seek` says so."""
        self._was_sought = self._target is not None
        begin = self._taken_target(self._start)
        while not self._is_closed:
            for batch in self._source.open(begin, self._stop):
                yield from self._pieces(pa.Table.from_batches([batch]))
                if self._is_interrupted:
                    break
            if self._target is None:
                return
            self._was_sought = True
            begin = self._taken_target(begin)

    def _taken_target(self, otherwise: int | None) -> int | None:
        """Return where `seek` says to go on, if it was called since; nobody else goes there."""
        with self._changed:
            if self._target is None:
                return otherwise
            target, self._target = self._target, None
            self._timeline = None
            return target

    @property
    def _is_interrupted(self) -> bool:
        return self._is_closed or self._target is not None

    def _pieces(self, table: pa.Table) -> Iterator[pa.Table]:
        """Hand out a batch as it falls due; the rest of it not at all after `seek` or `close`."""
        times = self._source.times(table)
        wanted = table.select(list(self._source.columns)).cast(self.schema)
        first, n = 0, len(times)
        while first < n:
            n_due = self._wait_for(times[first : first + AT_ONCE_MAX])
            if self._is_interrupted:
                return
            after = first + n_due
            with self._changed:
                if n_due and not self._is_interrupted:
                    self._last = int(times[after - 1])
                    self._next = int(times[after]) if after < n else self._last
            self.n_events += n_due
            yield wanted.slice(first, n_due)
            first = after

    def _wait_for(self, times: npt.NDArray[np.int64]) -> int:
        """Wait until as many events as go together are due, or for a beat; return how many are.

        0 where one has to go elsewhere, too.
        """
        with self._changed:
            self._next = int(times[0])
            began = self._clock.now()
            wanted = min(self.together, len(times))
            while not self._is_interrupted:
                if self._paused_at is not None:
                    self._clock.wait(self._changed, None)
                    continue
                now = self._clock.now()
                if self._timeline is None:
                    self._timeline = Timeline(int(times[0]), now, self._rate)
                elapsed = self._timeline.elapsed(now)
                n_due = int(np.searchsorted(times - self._timeline.at, elapsed, "right"))
                if n_due >= wanted or now - began >= self._beat:
                    # All that are due are handed out, unless more of them follow these.
                    is_all = n_due < len(times)
                    passed = self._timeline.at + math.floor(elapsed) + 1 if is_all else times[-1]
                    self._reached = int(passed)
                    return n_due
                missing = self._timeline.clock_of(int(times[wanted - 1])) - now
                until_beat = began + self._beat - now
                self._clock.wait(self._changed, max(min(missing, until_beat), SHORTEST_WAIT_S))
        return 0

    def _go_on(self, clock: float | None, rate: float) -> None:
        """Change the rate, from an instant on (None: now); the lock is held."""
        self._rate = rate
        if self._timeline is not None:
            at = self._clock.now() if clock is None else clock
            position = self._timeline.at if self._last is None else self._last
            self._timeline = self._timeline.at_rate(rate, at, position=position)
        self._changed.notify_all()

    def _to_rate(self, speed: float) -> float:
        if not hasattr(speed, "__float__"):
            raise TypeError(f"speed is a number, such as 60 or math.inf, not {speed!r}")
        if not speed > 0:
            raise QueryError(
                f"a replay at speed {speed} does not go forward; give a number above 0, such as "
                "1 for the pace of the past, or math.inf for as fast as possible"
            )
        return speed * self._source.units_per_second


# ---------------------------------------------------------------------------------------------
# How far a replay should have come at an instant of a clock.


@dataclass(frozen=True, slots=True)
class Timeline:
    """Stream time as a function of a clock, from an instant on at which both are known.

    What is due is computed from that one instant, not from the event before, so that late
    wake-ups never add up.
    """

    at: int
    """Stream time at ``clock``, in the units of the stream."""
    clock: float
    """Seconds."""
    rate: float
    """Units of stream time in a second, above 0; infinite: everything is due."""

    def elapsed(self, clock: float) -> float:
        """Return the units of stream time from ``at`` to an instant; events up to it are due."""
        return math.inf if math.isinf(self.rate) else (clock - self.clock) * self.rate

    def clock_of(self, time: int) -> float:
        """Return the instant at which an event of this stream time is due."""
        return self.clock + (time - self.at) / self.rate

    def at_rate(self, rate: float, clock: float, *, position: int) -> Timeline:
        """Return the timeline that goes on at another rate from where this one is at ``clock``.

        ``position`` is where it is if its own rate is infinite.
        """
        is_endless = math.isinf(self.rate)
        return Timeline(
            position if is_endless else self.at + round(self.elapsed(clock)), clock, rate
        )


# ---------------------------------------------------------------------------------------------
# The stretch as a query that can be opened from any time on.

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
        with _errors_of(self.where, sql.removesuffix(f"{self.where}\n)")):
            return iter(batches(self.store, sql, params=params, as_of=self.version))

    def times(self, events: pa.Table) -> npt.NDArray[np.int64]:
        """Return the internal times of events."""
        times = to_int64(events.column(self.time), name=self.time)
        return np.asarray(times.to_numpy(zero_copy_only=False), np.int64)

    def to_internal(self, moment: Moment) -> int:
        """Return a time of this stream in internal form; what is none is refused."""
        return to_internal(moment, self._kind)

    def to_moment(self, time: int) -> int | dt.datetime:
        """Return an internal time as people have it."""
        if self._kind == "integer":
            return time
        zone = dt.UTC if self._kind == "timestamp_utc" else None
        return dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=time)
