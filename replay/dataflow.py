"""Queries composed in Python, step by step; each step is a query around the one before."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from chronicle import Store
from chronicle.errors import StreamNotFoundError
from replay.errors import PlanError, QueryError
from replay.language import pieces, syntax
from replay.language.bound import DETECTION_TIME, JoinKind
from replay.language.query_printer import to_sql
from replay.language.syntax import (
    CreateStream,
    FirstEvent,
    Identifier,
    Join,
    OrderItem,
    SelectItem,
    SelectQuery,
    Star,
    StreamName,
    Subquery,
    WindowCall,
    WrittenMatch,
    streams_of,
)
from replay.limits import Timeout
from replay.online import OnlineFlow, online
from replay.query import Explanation, batches, explain, query
from replay.result import Result
from replay.running.arguments import AsOf, Tables, check_source
from replay.running.online_query import OnlineQuery
from replay.running.statement import Parameters, parse

Length = str | int | dt.timedelta
"""A length of time: SQL (``1 HOUR``), a ``timedelta``, or a number in the time column's unit."""


def stream(source: Store | Tables, name: str, *, time: str | None = None) -> Dataflow:
    """Begin a dataflow with the events of a stream.

    Parameters
    ----------
    source
        A store, or tables in memory by name.
    name
        The stream.
    time
        Its time column; a store knows it.

    Raises
    ------
    StreamNotFoundError
        If there is none of that name.

    Examples
    --------
    >>> ticks = pa.table({"t": [0, 1, 5, 6], "x": [1.0, 2.0, 4.0, 8.0]})
    >>> hot = stream({"ticks": ticks}, "ticks", time="t").filter("x > 1")
    >>> hot.window(size=4).aggregate(n="COUNT(*)", top="MAX(x)").run().table.to_pylist()
    [{'window_start': 1, 'window_end': 5, 'n': 1, 'top': 2.0}, \
{'window_start': 5, 'window_end': 9, 'n': 2, 'top': 8.0}]
    """
    check_source(source)
    if isinstance(source, Store):
        time = source.stream(name).settings.time
        return Dataflow(source, name, time, first_time=time)
    if name not in source:
        raise StreamNotFoundError(name, candidates=source)
    flow = Dataflow(source, name, time, first_time=time)
    if time is None:
        return flow
    return flow._with(_ALL, time, order_by=(OrderItem(_column(time)),))


@dataclass(frozen=True, slots=True)
class Dataflow:
    """A stream of rows, and the steps that make it; `stream` begins one.

    Each step gives a new dataflow and leaves this one as it is. Conditions and expressions are
    SQL, and may hold parameters (``:name``).
    """

    source: Store | Tables
    name: str
    """The stream it begins with."""
    time: str | None
    """The column that carries time on; None if that is not known."""
    tree: SelectQuery | None = None
    """Its query; None before the first step."""
    first_time: str | None = None
    """Time column of the stream it begins with; None if that is not known."""

    def __repr__(self) -> str:
        return f"<Dataflow: {' '.join(self.sql.split())}>"

    @property
    def sql(self) -> str:
        """The query, as ``replay.query`` takes it."""
        return to_sql(self._query)

    def filter(self, condition: str) -> Dataflow:
        """Keep the rows for which a condition is true."""
        return self._with(_ALL, self.time, where=pieces.expression(condition))

    def select(self, *columns: str, **named: str) -> Dataflow:
        """Keep columns, and compute others: ``select("t", "x", twice="2 * x")``."""
        items = (*_columns(columns), *_named(named))
        if not items:
            raise QueryError("select takes at least one column")
        return self._with(items, self.time if self.time in columns else None)

    def order_by(self, *keys: str) -> Dataflow:
        """Order the rows, by ``"x DESC"``, say."""
        return self._with(_ALL, self.time, order_by=tuple(map(pieces.order_item, keys)))

    def limit(self, n: int) -> Dataflow:
        """Keep the first rows."""
        return self._with(_ALL, self.time, limit=syntax.Number(int(n)))

    def window(  # noqa: PLR0913 -- what each kind of window takes
        self,
        size: Length | None = None,
        *,
        slide: Length | None = None,
        step: Length | None = None,
        gap: Length | None = None,
        rows: int | None = None,
        slide_rows: int | None = None,
        origin: str | int | None = None,
        timezone: str | None = None,
        partition_by: tuple[str, ...] = (),
    ) -> Windowed:
        """Put every row into its windows, to be aggregated.

        Parameters
        ----------
        size
            Of windows of time. With ``slide`` one begins every so often (HOP), else they stand
            side by side (TUMBLE); with ``step`` they grow until they have this size (CUMULATE).
        gap
            Of sessions: the least time without rows between two of them.
        rows, slide_rows
            Of windows of rows: how many, and every how manieth row one begins.
        origin
            Where windows of time are counted from, as SQL, such as ``"FIRST EVENT"``; by default
            from 1970-01-01 00:00, whole weeks from a Monday, numbers from 0.
        timezone
            Whose clocks tell when days, months and years begin, such as ``"Europe/Berlin"``.
        partition_by
            Columns of which each value has its own sessions, or windows of rows.
        """
        given = {"size": size, "gap": gap, "rows": rows}
        kinds = [name for name, value in given.items() if value is not None]
        if len(kinds) != 1:
            raise QueryError("a window has a size, a gap, or rows; give one of them")
        _check_goes_with("slide", slide, "size", size if step is None else None)
        _check_goes_with("step", step, "size", size)
        _check_goes_with("slide_rows", slide_rows, "rows", rows)
        lengths: list[Length | None] = [size if gap is None else gap]
        function = "SESSION" if gap is not None else "TUMBLE"
        if rows is not None:
            function = "TUMBLE_ROWS" if slide_rows is None else "HOP_ROWS"
            lengths = [slide_rows, rows]
        elif step is not None:
            function, lengths = "CUMULATE", [step, size]
        elif slide is not None:
            function, lengths = "HOP", [slide, size]
        if self.time is None:
            raise QueryError(
                "a window has to know which column is the time, and the step before does not "
                "keep it; select it there too"
            )
        table = WindowCall(
            function,
            self._source(),
            tuple(map(Identifier, partition_by)),
            Identifier(self.time),
            tuple(_length(length) for length in lengths if length is not None),
            origin=_origin(origin),
            zone=None if timezone is None else syntax.Text(timezone),
        )
        return Windowed(self, table, partition_by)

    def aggregate(self, *, by: tuple[str, ...] = (), **named: str) -> Dataflow:
        """Aggregate all rows, of each key by itself: ``aggregate(n="COUNT(*)", by=("k",))``."""
        keys = tuple(map(_column, by))
        items = (*_columns(by), *_aggregates(named))
        return self._with(items, None, group_by=keys)

    def match(self, text: str, *, time: str | None = None) -> Dataflow:
        """Find a row pattern.

        Parameters
        ----------
        text
            What stands in ``MATCH_RECOGNIZE ( … )``; ORDER BY may be left out.
        time
            The measure that carries time on, such as the time of a match's first row.
        """
        clauses = pieces.clauses_of_match(text, self.time)
        return self._of(WrittenMatch(self._source(), "MATCH_RECOGNIZE", clauses), time)

    def situations(self, text: str) -> Dataflow:
        """Find situations: periods in which conditions hold, and how they lie to each other.

        Parameters
        ----------
        text
            What stands in ``MATCH_SITUATIONS ( … )``; ORDER BY may be left out.
        """
        clauses = pieces.clauses_of_situations(text, self.time)
        return self._of(WrittenMatch(self._source(), "MATCH_SITUATIONS", clauses), DETECTION_TIME)

    def join(
        self,
        other: Dataflow,
        *,
        within: Length,
        on: str | None = None,
        names: tuple[str, str] = ("l", "r"),
        left: bool = False,
    ) -> Dataflow:
        """Pair the rows with those of another dataflow that are near in time.

        Parameters
        ----------
        other
            Over the same source.
        within
            How far back a row sees those of the other side.
        on
            A condition; columns are written ``l.x`` and ``r.x``.
        names
            What the two sides are called in it.
        left
            Whether rows without a partner stay, with NULL on the other side.
        """
        kind = JoinKind.LEFT if left else JoinKind.INNER
        return self._of(self._joined(other, kind, within, on, names), "join_time")

    def asof_join(
        self,
        other: Dataflow,
        *,
        on: str,
        within: Length | None = None,
        names: tuple[str, str] = ("l", "r"),
        left: bool = False,
    ) -> Dataflow:
        """Pair each row with the nearest one of another dataflow before it, or behind.

        ``on`` holds ``l.t >= r.t`` or ``>`` for the latest before, ``<=`` or ``<`` for the next,
        equalities, and conditions on one side; the others are as in `join`.
        """
        kind = JoinKind.ASOF_LEFT if left else JoinKind.ASOF
        # Of columns that both sides have, the join's names say which side they are from.
        time = f"{names[0]}.{self.time}" if self.time == other.time else self.time
        return self._of(self._joined(other, kind, within, on, names), time)

    def run(
        self,
        *,
        params: Parameters | None = None,
        plan: str = "auto",
        as_of: AsOf | None = None,
        timeout: Timeout | None = None,
        max_rows: int | None = None,
        memory: int | str | None = None,
    ) -> Result:
        """Answer it; see ``replay.query``."""
        return query(
            self.source,
            self.sql,
            params=params,
            plan=plan,
            as_of=as_of,
            timeout=timeout,
            max_rows=max_rows,
            memory=memory,
        )

    def batches(
        self,
        *,
        params: Parameters | None = None,
        plan: str = "auto",
        as_of: AsOf | None = None,
        timeout: Timeout | None = None,
        max_rows: int | None = None,
        memory: int | str | None = None,
    ) -> pa.RecordBatchReader:
        """Answer it piece by piece; see ``replay.batches``."""
        return batches(
            self.source,
            self.sql,
            params=params,
            plan=plan,
            as_of=as_of,
            timeout=timeout,
            max_rows=max_rows,
            memory=memory,
        )

    def explain(
        self,
        *,
        params: Parameters | None = None,
        plan: str = "auto",
        as_of: AsOf | None = None,
    ) -> Explanation:
        """Return the plan it would take, without running it; see ``replay.explain``."""
        return explain(self._store("explain"), self.sql, params=params, plan=plan, as_of=as_of)

    def create(
        self,
        name: str,
        *,
        params: Parameters | None = None,
        timeout: Timeout | None = None,
        max_rows: int | None = None,
        memory: int | str | None = None,
    ) -> Result:
        """Keep the answer as a new stream of the store, with its lineage.

        Nothing is created where it goes beyond a limit; see ``replay.query``.
        """
        self._store("create")
        return query(
            self.source,
            to_sql(CreateStream(Identifier(name), self._query)),
            params=params,
            timeout=timeout,
            max_rows=max_rows,
            memory=memory,
        )

    def online(self, *, params: Parameters | None = None) -> OnlineQuery | OnlineFlow:
        """Return the operator that answers it while events come in; see ``replay.online``.

        Streams that are joined have the names they have in the source.
        """
        names = streams_of(parse(self.sql))
        if isinstance(self.source, Store):
            streams = {name: self.source.stream(name) for name in names}
            schemas = {name: stream.schema for name, stream in streams.items()}
            times = {name: stream.settings.time for name, stream in streams.items()}
        else:
            schemas = {name: self.source[name].schema for name in names}
            times = {} if self.first_time is None else {self.name: self.first_time}
        return online(self.sql, schemas, time=times, params=params)

    def _store(self, what: str) -> Store:
        if not isinstance(self.source, Store):
            raise PlanError(f"{what} needs a store; tables in memory are always replayed in full")
        return self.source

    @property
    def _query(self) -> SelectQuery:
        return self.tree or SelectQuery(_ALL, StreamName(Identifier(self.name)))

    def _source(self, alias: str | None = None) -> StreamName | Subquery:
        """Return what stands behind FROM to read this one."""
        called = None if alias is None else Identifier(alias)
        if self.tree is None:
            return StreamName(Identifier(self.name), called)
        return Subquery(self.tree, called)

    def _with(self, items: tuple[SelectItem, ...], time: str | None, **clauses: Any) -> Dataflow:
        """Return a query over this one."""
        return replace(self, tree=SelectQuery(items, self._source(), **clauses), time=time)

    def _of(self, source: Join | WrittenMatch, time: str | None) -> Dataflow:
        """Return all columns of what this one has become part of."""
        return replace(self, tree=SelectQuery(_ALL, source), time=time)

    def _joined(
        self,
        other: Dataflow,
        kind: JoinKind,
        within: Length | None,
        on: str | None,
        names: tuple[str, str],
    ) -> Join:
        if other.source is not self.source:
            raise QueryError("both sides of a join are streams of one store")
        left, right = self._source(names[0]), other._source(names[1])
        bound = () if within is None else _spans(within)
        return Join(kind, left, right, bound, None if on is None else pieces.expression(on))


@dataclass(frozen=True, slots=True)
class Windowed:
    """Rows put into windows, which `aggregate` makes rows of again."""

    flow: Dataflow
    table: WindowCall
    partition_by: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Windowed: {' '.join(to_sql(self.table).split())}, to be aggregated>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Dataflow, name):
            raise AttributeError(f"'Windowed' has no attribute '{name}'", name=name, obj=self)
        raise AttributeError(
            f"windows have no '{name}' before they are aggregated; write "
            f'.aggregate(n="COUNT(*)").{name}'
        )

    def aggregate(
        self, *, by: tuple[str, ...] = (), having: str | None = None, **named: str
    ) -> Dataflow:
        """Aggregate each window, of each key by itself.

        Parameters
        ----------
        by
            Key columns, besides those the windows are partitioned by.
        having
            Which rows of the answer are kept.
        named
            The aggregates by name: ``avg_x="AVG(x)"``.
        """
        keys = dict.fromkeys(("window_start", "window_end", *self.partition_by, *by))
        query = SelectQuery(
            (*_columns(keys), *_aggregates(named)),
            self.table,
            group_by=tuple(map(_column, keys)),
            having=None if having is None else pieces.expression(having),
        )
        return replace(self.flow, tree=query, time="window_start")


def _check_goes_with(name: str, value: object, other: str, needed: object) -> None:
    if value is not None and needed is None:
        raise QueryError(f"{name} goes with {other}, and slide and step not with each other")


_ALL = (SelectItem(Star()),)


def _column(name: str) -> syntax.Column:
    return syntax.Column(Identifier(name))


def _columns(names: Iterable[str]) -> tuple[SelectItem, ...]:
    return tuple(SelectItem(_column(name)) for name in names)


def _named(named: Mapping[str, str]) -> tuple[SelectItem, ...]:
    """Return what is computed, and the names it gets."""
    parts = ((pieces.expression(text), Identifier(name)) for name, text in named.items())
    return tuple(SelectItem(expression, name) for expression, name in parts)


def _aggregates(named: Mapping[str, str]) -> tuple[SelectItem, ...]:
    if not named:
        raise QueryError('aggregate takes at least one aggregate: n="COUNT(*)"')
    return _named(named)


def _length(length: Length) -> syntax.Expression:
    """Return a length of time."""
    if isinstance(length, dt.timedelta):
        micros = length // dt.timedelta(microseconds=1)
        return syntax.Duration(str(micros), "MICROSECOND")
    return pieces.expression(str(length))


def _spans(length: Length) -> tuple[syntax.Span, ...]:
    """Return the span of both sides of a join, or one for each."""
    return pieces.spans(length) if isinstance(length, str) else (syntax.Span(_length(length)),)


def _origin(origin: str | int | None) -> syntax.Expression | FirstEvent | None:
    """Return where windows are counted from."""
    if origin is None:
        return None
    words = str(origin)
    return FirstEvent() if words.upper().split() == ["FIRST", "EVENT"] else pieces.expression(words)
