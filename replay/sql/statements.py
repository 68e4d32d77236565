"""SHOW, DESCRIBE and EXPLAIN: what is there, and how a query would run, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from chronicle import Store
from chronicle.compile_time import clock
from chronicle.foreign_text import split_lines
from chronicle.type_names import sql_type
from replay.engines.execution_stats import ExecutionStats
from replay.errors import NotSupportedError, PatternSyntaxError
from replay.language.statements import in_place
from replay.language.tokens import END, NAME, QUOTED, Token, place, tokenize
from replay.query_plan import AnyPlan, to_text
from replay.running.arguments import AsOf, Tables
from replay.running.catalog import Catalog, StoreCatalog
from replay.running.run import EXPLAIN_SECONDS, QueryRequest, Question, Run, catalog_of
from replay.running.statement import STATEMENTS_CACHED

Either = Callable[[QueryRequest, Callable[[Question], Any]], Any]
"""Answers a query in the engine that its text says."""

_BEGINS = ("SELECT", "WITH", "(", "FROM")

_FORMS = "SHOW STREAMS, DESCRIBE stream, DESCRIBE SELECT …, EXPLAIN [ANALYZE] SELECT …"


def read_told(asked: QueryRequest, either: Either) -> Question | None:
    """Return a statement that tells of streams or of a query; None if it is none."""
    tokens = _tokens_told(asked.sql)
    if tokens is None:
        return None
    first, second = tokens[0], tokens[min(1, len(tokens) - 1)]
    if first.key == "SHOW":
        if second.key not in ("STREAMS", "TABLES") or not _ends(tokens, 2):
            raise _error(asked, second, f"expected STREAMS after SHOW; there are {_FORMS}")
        return Told(asked, None, _streams)
    if first.key in ("DESCRIBE", "DESC"):
        if second.kind in (NAME, QUOTED) and second.key not in _BEGINS and _ends(tokens, 2):
            name = second.text
            return Told(asked, (name,), lambda catalog: _columns(catalog.describe(name)[0]))
        query = _inner(asked, tokens, 1)
        return ToldOfQuery(query, either, lambda question, c: _columns(question.schema(c)))
    is_run = second.key == "ANALYZE"
    query = replace(_inner(asked, tokens, 2 if is_run else 1), is_analyzed=is_run)
    return ToldOfQuery(query, either, _analyzed if is_run else _explained)


@lru_cache(STATEMENTS_CACHED)
def _tokens_told(sql: str) -> list[Token] | None:
    """Return the tokens of a statement that tells; None if it is none."""
    tokens = tokenize(sql, is_foreign=True)
    return tokens if tokens[0].key in ("SHOW", "DESCRIBE", "DESC", "EXPLAIN") else None


def _ends(tokens: list[Token], i: int) -> bool:
    return tokens[i].kind == END or (tokens[i].key == ";" and tokens[i + 1].kind == END)


def _error(asked: QueryRequest, token: Token, message: str) -> PatternSyntaxError:
    return PatternSyntaxError(message, **place(asked.sql, token.at))


def _inner(asked: QueryRequest, tokens: list[Token], i: int) -> QueryRequest:
    """Return the query that is told of; it stands where it stood."""
    if tokens[i].key not in _BEGINS:
        raise _error(asked, tokens[i], f"expected SELECT here; there are {_FORMS}")
    return replace(asked, sql=in_place(asked.sql, tokens[i].at))


@dataclass(slots=True, eq=False)
class Rows:
    """Rows that are there."""

    table: pa.Table
    plan: AnyPlan | None = None

    def tables(self) -> Iterator[pa.Table]:
        """Yield them."""
        yield self.table

    def work(self) -> ExecutionStats:
        """Return that nothing was read."""
        return ExecutionStats()


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of streams, as rows."""

    asked: QueryRequest
    names: tuple[str, ...] | None
    """Of the streams; None: of all there are."""
    tell: Callable[[Catalog], pa.Table]

    def catalog(self, source: Store | Tables, as_of: AsOf | None, tables: Tables | None) -> Catalog:
        """Return the streams."""
        names = self.names
        if names is None:
            names = tuple(source.stream_names()) if isinstance(source, Store) else ()
        return catalog_of(source, names, as_of, tables)

    def run(self, catalog: Catalog) -> Run:
        """Return the rows."""
        return Run(Rows(self.tell(catalog)), catalog.warnings, self.asked.started, clock(), None)

    def explained(self, catalog: Catalog, seconds: float) -> AnyPlan:  # noqa: ARG002
        """Raise: there is no plan."""
        raise NotSupportedError("SHOW, DESCRIBE and EXPLAIN have no plan of their own; run them")

    def schema(self, catalog: Catalog) -> pa.Schema:
        """Return the columns of the rows."""
        return self.tell(catalog).schema


@dataclass(frozen=True, slots=True)
class ToldOfQuery:
    """What is told of a query, as rows."""

    query: QueryRequest
    either: Either
    tell: Callable[[Question, Catalog], pa.Table]

    def catalog(self, source: Store | Tables, as_of: AsOf | None, tables: Tables | None) -> Catalog:
        """Return the streams that the query reads."""
        found: Catalog = self.either(self.query, lambda inner: inner.catalog(source, as_of, tables))
        return found

    def run(self, catalog: Catalog) -> Run:
        """Return the rows."""
        table = self.either(self.query, lambda inner: self.tell(inner, catalog))
        return Run(Rows(table), catalog.warnings, self.query.started, clock(), None)

    def explained(self, catalog: Catalog, seconds: float) -> AnyPlan:
        """Return the plan of the query."""
        plan: AnyPlan = self.either(self.query, lambda inner: inner.explained(catalog, seconds))
        return plan

    def schema(self, catalog: Catalog) -> pa.Schema:  # noqa: ARG002
        """Raise: there are no columns to tell of."""
        raise NotSupportedError("SHOW, DESCRIBE and EXPLAIN are not described themselves")


def _streams(catalog: Catalog) -> pa.Table:
    tables = {name: (table.num_rows, None) for name, table in catalog.tables.items()}
    streams = {}
    if isinstance(catalog, StoreCatalog):
        for name in catalog.streams:
            snapshot = catalog.snapshot(name)
            assert snapshot is not None, "tables are told apart"
            streams[name] = (snapshot.n_events, snapshot.version)
    rows = sorted({**streams, **tables}.items())
    return pa.table(
        {
            "stream": pa.array([name for name, _ in rows], pa.string()),
            "events": pa.array([events for _, (events, _) in rows], pa.int64()),
            "version": pa.array([version for _, (_, version) in rows], pa.int64()),
        }
    )


def _columns(schema: pa.Schema) -> pa.Table:
    types = [sql_type(field.type) for field in schema]
    return pa.table({"column": schema.names, "type": types})


def _explained(question: Question, catalog: Catalog) -> pa.Table:
    return _lines(to_text(question.explained(catalog, EXPLAIN_SECONDS), None))


def _analyzed(question: Question, catalog: Catalog) -> pa.Table:
    return _lines(question.run(catalog).result().analysis())


def _lines(text: str) -> pa.Table:
    return pa.table({"explanation": pa.array(split_lines(text), pa.string())})
