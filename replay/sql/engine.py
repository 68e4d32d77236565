"""Which engine runs what our language refused, and the query opened in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from chronicle import Store
from chronicle.compile_time import clock
from chronicle.words import number_of
from replay.errors import QueryError
from replay.query_plan import AnyPlan, FlowPlan
from replay.running.arguments import AsOf, Tables
from replay.running.catalog import Catalog
from replay.running.run import OurQuestion, QueryRequest, Question, Run, catalog_of
from replay.sql.apart import Apart, Ours, take_apart
from replay.sql.statements import Either, read_told

T = TypeVar("T")


def further(asked: QueryRequest, either: Either) -> Question | None:
    """Return a query that our language refused as one for another engine; None if it is none.

    Decided by its text alone. ``either`` answers a query in whichever engine it is for.
    """
    told = read_told(asked, either)
    if told is not None:
        return told
    apart = take_apart(asked.sql)
    if apart is None:
        return None
    queries = (apart.query,) if isinstance(apart, Ours) else apart.queries
    _check_positional(asked.params, frozenset().union(*(one.parameters for one in queries)))
    return OtherwiseWritten(asked, apart) if isinstance(apart, Ours) else SqlQuestion(asked, apart)


def _check_positional(given: Mapping[str, object], wanted: frozenset[str]) -> None:
    """Refuse more or fewer values than there are ``?``."""
    n_given, n_wanted = (
        sum(name[:1] == "_" and name[1:].isdecimal() for name in names) for names in (given, wanted)
    )
    if n_given != n_wanted:
        raise QueryError(
            f"the query has {number_of(n_wanted, 'parameter')} written ?, and params has "
            f"{number_of(n_given, 'value')} for them; give a list of as many"
        )


@dataclass(frozen=True, slots=True)
class OtherwiseWritten:
    """A query in our language, but for how its parameters are written."""

    asked: QueryRequest
    ours: Ours

    def catalog(self, source: Store | Tables, as_of: AsOf | None, tables: Tables | None) -> Catalog:
        """Return the streams it reads."""
        return self._told(lambda inner: inner.catalog(source, as_of, tables))

    def run(self, catalog: Catalog) -> Run:
        """Return it opened, ready to run."""
        return self._told(lambda inner: inner.run(catalog))

    def explained(self, catalog: Catalog, seconds: float) -> AnyPlan:
        """Return how it would run."""
        return self._told(lambda inner: inner.explained(catalog, seconds))

    def schema(self, catalog: Catalog) -> pa.Schema:
        """Return the columns of its answer."""
        return self._told(lambda inner: inner.schema(catalog))

    def _told(self, ask: Callable[[OurQuestion], T]) -> T:
        """Ask the query as our language writes it; errors are at the places of its own text."""
        try:
            return ask(OurQuestion(replace(self.asked, sql=self.ours.query.text)))
        except QueryError as error:
            self.ours.query.retell(error, self.asked.sql)
            raise


@dataclass(frozen=True, slots=True)
class SqlQuestion:
    """A statement that DuckDB runs around Chronicle's answers."""

    asked: QueryRequest
    apart: Apart

    def catalog(self, source: Store | Tables, as_of: AsOf | None, tables: Tables | None) -> Catalog:
        """Return the streams it reads."""
        return catalog_of(source, self.apart.names, as_of, tables)

    def run(self, catalog: Catalog) -> Run:
        """Return it with Chronicle's parts opened."""
        from replay.sql.flow import SqlFlow  # imports DuckDB

        flow = SqlFlow(self.apart, catalog, self.asked)
        flow.open()
        return Run(flow, catalog.warnings, self.asked.started, clock(), None)

    def explained(self, catalog: Catalog, seconds: float) -> FlowPlan:
        """Return how Chronicle's parts would be found, and DuckDB's plan around them."""
        from replay.sql.flow import SqlFlow

        flow = SqlFlow(self.apart, catalog, self.asked)
        flow.open()
        return flow.explained(seconds)

    def schema(self, catalog: Catalog) -> pa.Schema:
        """Return the columns of its answer."""
        from replay.sql.flow import SqlFlow

        return SqlFlow(self.apart, catalog, self.asked, is_dry=True).schema()
