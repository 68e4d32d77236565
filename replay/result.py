"""The answer of a query, with the plan that gave it and what happened on the way."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Any, overload

import pyarrow as pa

from chronicle.errors import did_you_mean
from chronicle.words import number_of
from replay.engines.evidence import BlocksRead, FoundSpans
from replay.errors import QueryError
from replay.query_plan import AnyPlan, to_json, to_text

_ROWS_AT_ONCE = 4_096
"""Rows made into Python objects at a time while a result is iterated."""


def _rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as Python objects; a time that Python has no object for is told by its column."""
    columns: list[list[Any]] = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        try:
            columns.append(column.to_pylist())
        except (OverflowError, ValueError):
            raise QueryError(
                f"column '{name}' has a time outside of the years 1 to 9999, which no datetime "
                "of Python's holds; read result.table, a table of Arrow's, or leave it out"
            ) from None
    return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True)
class Seconds:
    """Wall time of each phase of a query."""

    plan: float
    index: float
    read: float
    match: float
    total: float


@dataclass(frozen=True, slots=True)
class Actual:
    """What happened while a query ran."""

    blocks_read: int
    blocks_total: int
    entries_read: int
    rows_replayed: int
    rows_total: int
    candidates: int
    intervals: int
    faults: int
    """Rows whose expression met a fault (division by zero, overflow, …) and gave NULL."""
    warnings: tuple[str, ...]
    seconds: Seconds
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Numbers of what a class of query did, by its name: of situations, how many were derived."""
    switched: str | None = None
    """Why something else was read than the plan says, once lookups were done; None if not."""
    count_bytes: Callable[[], int] = field(repr=False, compare=False, default=lambda: 0)
    """Counts the compressed bytes of what was read; asked only when someone looks."""
    reads: tuple[BlocksRead, ...] = field(repr=False, compare=False, default=())
    """Which blocks of which streams were read."""
    found: tuple[FoundSpans, ...] = field(repr=False, compare=False, default=())
    """Where in their streams the matches lie."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave behind what hangs on an open store, when it is pickled: what reports draw of it."""
        kept = {each.name: getattr(self, each.name) for each in fields(self)}
        kept |= {"count_bytes": partial(int, self.count_bytes()), "reads": (), "found": ()}
        return partial(Actual, **kept), ()

    @property
    def alpha(self) -> float:
        """Fraction of the stream that was replayed; 1 where events were read again and again."""
        return min(self.rows_replayed / self.rows_total, 1.0) if self.rows_total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the ``actual`` part of the analysis, with its stable keys."""
        seconds = self.seconds
        return {
            "blocks_read": self.blocks_read,
            "blocks_total": self.blocks_total,
            "bytes_read": self.count_bytes(),
            "entries_read": self.entries_read,
            "rows_replayed": self.rows_replayed,
            "rows_total": self.rows_total,
            "candidates": self.candidates,
            "intervals": self.intervals,
            "alpha": self.alpha,
            "switched": self.switched,
            "faults": self.faults,
            **{kind: dict(counts) for kind, counts in self.counts.items()},
            "warnings": list(self.warnings),
            "seconds": {
                "plan": seconds.plan,
                "index": seconds.index,
                "read": seconds.read,
                "match": seconds.match,
                "total": seconds.total,
            },
        }


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer of a query, handed on as it is found.

    Attributes
    ----------
    tables
        The rows in canonical order, at least one table; may be taken once.
    told
        Says what happened, once all rows were taken: a result that may hold no row.
    share
        Says how many blocks were read so far, and of how many; of 0 while nobody knows.
    """

    tables: Iterator[pa.Table]
    told: Callable[[], Result]
    share: Callable[[], tuple[int, int]] = lambda: (0, 0)


class Result:
    """The answer of a query.

    Iterating gives the rows as dictionaries. ``result["column"]`` is a column, ``result[0]`` a row
    and ``result[10:20]`` a table of rows. Whatever takes Arrow data takes a result as it is:
    ``polars.DataFrame(result)``, ``pyarrow.table(result)``, DuckDB's FROM. Pickled, it goes to
    another process, with all but where its matches lie: reports made there draw no stream.

    Attributes
    ----------
    table
        The rows, a ``pyarrow.Table``, in canonical order.
    plan
        The plan that was carried out, with its estimates and its rivals; None for a table in
        memory, which is always replayed in full.
    actual
        What happened.
    sql
        The query's text.
    """

    def __init__(
        self, table: pa.Table, plan: AnyPlan | None, actual: Actual, *, sql: str | None = None
    ) -> None:
        self.table = table
        self.plan = plan
        self.actual = actual
        self.sql = sql

    @cached_property
    def stats(self) -> dict[str, Any]:
        """Plan, estimates and what happened, with the stable keys of ``docs/queries.md``."""
        actual = self.actual.to_dict()
        if self.plan is None:
            return {"plan": "full", "indexes": [], "actual": actual}
        return to_json(self.plan, actual)

    def analysis(self) -> str:
        """Return plan, estimates and what happened as text for a person."""
        if self.plan is None:
            rows = self.actual.rows_total
            return f"plan full: a table in memory of {rows:,} rows is always replayed in full"
        return to_text(self.plan, self.actual.to_dict())

    def with_rows(self, tables: Sequence[pa.Table]) -> Result:
        """Return the result with the rows that were handed on before it, at least one table."""
        return Result(pa.concat_tables(tables), self.plan, self.actual, sql=self.sql)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page to look at: what was replayed when, the plan, and the answer.

        One HTML file that needs no network. Times of matches are read for it from the stream.
        """
        from replay.report.files import write
        from replay.report.results import result_page

        actual = self.actual
        text = result_page(
            self.table, self.stats, reads=actual.reads, found=actual.found, sql=self.sql
        )
        write(path, text)

    def to_pandas(self) -> Any:
        """Return the answer as a pandas data frame (needs pandas)."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """Return the answer as a polars data frame (needs polars)."""
        import polars as pl

        return pl.from_arrow(self.table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows to another library, by the Arrow PyCapsule protocol; copies nothing."""
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.table.to_batches(max_chunksize=_ROWS_AT_ONCE):
            yield from _rows(batch)

    @overload
    def __getitem__(self, key: str) -> pa.ChunkedArray: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> pa.Table: ...
    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            if key not in self.table.column_names:
                columns = self.table.column_names
                hint = did_you_mean(key, columns) or f" (columns: {', '.join(columns)})"
                raise KeyError(f"no column '{key}' in the answer{hint}")
            return self.table.column(key)
        if isinstance(key, slice):
            if key.step not in {None, 1}:
                rows = range(*key.indices(len(self)))
                return self.table.take(pa.array(rows, pa.int64()))
            start, stop, _ = key.indices(len(self))
            return self.table.slice(start, max(stop - start, 0))
        row = operator.index(key)
        if not -len(self) <= row < len(self):
            raise IndexError(f"no row {key} in an answer of {number_of(len(self), 'row')}")
        return _rows(self.table.slice(row % len(self), 1))[0]

    def __repr__(self) -> str:
        name = "full" if self.plan is None else self.plan.name
        seen = f"{self.actual.blocks_read} of {self.actual.blocks_total} blocks"
        return f"<Result: {number_of(len(self), 'row')}, plan {name}, {seen}>"

    def _repr_html_(self) -> str:
        from replay.report.notebook import notebook_html

        return notebook_html(self.table, self.stats, self.actual.reads)
