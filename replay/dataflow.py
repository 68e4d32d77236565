"""Queries composed in Python, step by step; each step is SQL around the one before."""

from __future__ import annotations

import datetime as dt
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from chronicle import Store
from chronicle.errors import StreamNotFoundError
from replay.errors import PlanError, QueryError
from replay.language.bound import DETECTION_TIME
from replay.language.printer import to_sql
from replay.language.syntax import Identifier, Text, streams_of
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
    return flow if time is None else flow.order_by(_name(time))


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
    query: str | None = None
    """Its SQL; None before the first step."""
    first_time: str | None = None
    """Time column of the stream it begins with; None if that is not known."""

    def __repr__(self) -> str:
        return f"<Dataflow: {' '.join(self.sql.split())}>"

    @property
    def sql(self) -> str:
        """The query, as ``replay.query`` takes it."""
        return self.query or f"SELECT *\nFROM {_name(self.name)}"

    def filter(self, condition: str) -> Dataflow:
        """Keep the rows for which a condition is true."""
        return self._with(f"SELECT *\nFROM {self._from}\nWHERE {condition}", self.time)

    def select(self, *columns: str, **named: str) -> Dataflow:
        """Keep columns, and compute others: ``select("t", "x", twice="2 * x")``."""
        items = [_name(column) for column in columns]
        items += [f"{expression} AS {_name(name)}" for name, expression in named.items()]
        if not items:
            raise QueryError("select takes at least one column")
        kept = self.time if self.time in columns else None
        return self._with(f"SELECT {', '.join(items)}\nFROM {self._from}", kept)

    def order_by(self, *keys: str) -> Dataflow:
        """Order the rows, by ``"x DESC"``, say."""
        return self._with(f"SELECT *\nFROM {self._from}\nORDER BY {', '.join(keys)}", self.time)

    def limit(self, n: int) -> Dataflow:
        """Keep the first rows."""
        return self._with(f"SELECT *\nFROM {self._from}\nLIMIT {int(n)}", self.time)

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
        arguments = [f"TABLE {self._from}"]
        if partition_by:
            arguments[0] += f" PARTITION BY ({', '.join(map(_name, partition_by))})"
        arguments.append(f"DESCRIPTOR({_name(self.time)})")
        arguments += [_length(length) for length in lengths if length is not None]
        if origin is not None:
            arguments.append(f"ORIGIN => {origin}")
        if timezone is not None:
            arguments.append(f"TIMEZONE => {to_sql(Text(timezone))}")
        return Windowed(self, f"TABLE({function}({', '.join(arguments)}))", partition_by)

    def aggregate(self, *, by: tuple[str, ...] = (), **named: str) -> Dataflow:
        """Aggregate all rows, of each key by itself: ``aggregate(n="COUNT(*)", by=("k",))``."""
        keys = [_name(key) for key in by]
        grouped = f"\nGROUP BY {', '.join(keys)}" if keys else ""
        return self._with(
            f"SELECT {', '.join([*keys, *_named(named)])}\nFROM {self._from}{grouped}", None
        )

    def match(self, text: str, *, time: str | None = None) -> Dataflow:
        """Find a row pattern.

        Parameters
        ----------
        text
            What stands in ``MATCH_RECOGNIZE ( … )``; ORDER BY may be left out.
        time
            The measure that carries time on, such as the time of a match's first row.
        """
        if not re.search(r"\bORDER\s+BY\b", text, flags=re.IGNORECASE):
            if self.time is None:
                raise QueryError("the pattern needs ORDER BY with the time column")
            text = _after_partition_by(text, f"ORDER BY {_name(self.time)}")
        inside = textwrap.indent(textwrap.dedent(text).strip(), "  ")
        return self._with(f"SELECT *\nFROM {self._from} MATCH_RECOGNIZE (\n{inside}\n)", time)

    def situations(self, text: str) -> Dataflow:
        """Find situations: periods in which conditions hold, and how they lie to each other.

        Parameters
        ----------
        text
            What stands in ``MATCH_SITUATIONS ( … )``; ORDER BY may be left out.
        """
        begin = re.search(r"\b(VALID\s+FOR|DEFINE)\b", text, flags=re.IGNORECASE)
        has_order = re.search(r"\bORDER\s+BY\b", text, flags=re.IGNORECASE)
        if begin is not None and has_order is None and self.time is not None:
            at = begin.start()
            text = f"{text[:at]}ORDER BY {_name(self.time)}\n{text[at:]}"
        inside = textwrap.indent(textwrap.dedent(text).strip(), "  ")
        sql = f"SELECT *\nFROM {self._from} MATCH_SITUATIONS (\n{inside}\n)"
        return self._with(sql, DETECTION_TIME)

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
        word = "LEFT JOIN" if left else "JOIN"
        condition = "" if on is None else f"\n  ON {on}"
        text = f"{self._side(other, word, names)} WITHIN {_length(within)}{condition}"
        return self._with(text, "join_time")

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
        word = "ASOF LEFT JOIN" if left else "ASOF JOIN"
        bound = "" if within is None else f"\n  WITHIN {_length(within)}"
        # Of columns that both sides have, the join's names say which side they are from.
        time = f"{names[0]}.{self.time}" if self.time == other.time else self.time
        return self._with(f"{self._side(other, word, names)}\n  ON {on}{bound}", time)

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
            f"CREATE STREAM {_name(name)} AS {self.sql}",
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
    def _from(self) -> str:
        """What stands after FROM to read this one."""
        if self.query is None:
            return _name(self.name)
        return f"(\n{textwrap.indent(self.query, '  ')}\n)"

    def _with(self, text: str, time: str | None) -> Dataflow:
        return replace(self, query=text, time=time)

    def _side(self, other: Dataflow, word: str, names: tuple[str, str]) -> str:
        if other.source is not self.source:
            raise QueryError("both sides of a join are streams of one store")
        left, right = map(_name, names)
        return f"SELECT *\nFROM {self._from} AS {left}\n{word} {other._from} AS {right}"


@dataclass(frozen=True, slots=True)
class Windowed:
    """Rows put into windows, which `aggregate` makes rows of again."""

    flow: Dataflow
    table: str
    """What stands after FROM."""
    partition_by: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Windowed: {' '.join(self.table.split())}, to be aggregated>"

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
        keys = [_name(key) for key in dict.fromkeys((*self.partition_by, *by))]
        columns = ["window_start", "window_end", *keys]
        text = f"SELECT {', '.join([*columns, *_named(named)])}\nFROM {self.table}"
        text += f"\nGROUP BY {', '.join(columns)}"
        if having is not None:
            text += f"\nHAVING {having}"
        return replace(self.flow, query=text, time="window_start")


def _check_goes_with(name: str, value: object, other: str, needed: object) -> None:
    if value is not None and needed is None:
        raise QueryError(f"{name} goes with {other}, and slide and step not with each other")


def _named(named: Mapping[str, str]) -> list[str]:
    if not named:
        raise QueryError('aggregate takes at least one aggregate: n="COUNT(*)"')
    return [f"{expression} AS {_name(name)}" for name, expression in named.items()]


def _name(name: str) -> str:
    """Return a name as SQL has it, quoted where it must be."""
    return to_sql(Identifier(name))


def _length(length: Length) -> str:
    """Return a length of time as SQL has it."""
    if isinstance(length, dt.timedelta):
        micros = length // dt.timedelta(microseconds=1)
        return f"INTERVAL '{micros}' MICROSECOND"
    return str(length)


def _after_partition_by(text: str, order_by: str) -> str:
    """Return the clauses of a pattern with ORDER BY where it belongs."""
    found = re.match(r"\s*PARTITION\s+BY\s+", text, flags=re.IGNORECASE)
    if found is None:
        return f"{order_by}\n{text}"
    rest = re.search(
        r"\s(?=(MEASURES|ONE|ALL|AFTER|PATTERN|SEMANTICS)\b)", text, flags=re.IGNORECASE
    )
    cut = len(text) if rest is None else rest.start()
    return f"{text[:cut]}\n{order_by}\n{text[cut:].lstrip()}"
