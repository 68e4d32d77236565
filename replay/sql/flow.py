"""A statement taken apart, carried out: Chronicle answers the cuts, DuckDB runs the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.ingest.sources import SourceFormat
from chronicle.ingest.table_files import text_format
from chronicle.words import number_of
from replay.engines.execution_stats import ExecutionStats
from replay.errors import BindError, NotSupportedError, QueryError, UnknownNameError
from replay.expressions.literals import values_of
from replay.language.tokens import place
from replay.limits import current_limits
from replay.query_plan import AnyPlan, FlowPlan
from replay.running.catalog import Catalog, StoreCatalog, WithoutEvents
from replay.running.run import OurQuestion, QueryRequest, Run, open_run
from replay.sql.answers import AnswerTypes, check_columns, in_38_digits, taken
from replay.sql.apart import Apart, Cut, Input, Read
from replay.sql.composed import Composed
from replay.sql.connection import Allowed, DuckDBError, Session
from replay.sql.failures import damaged, told
from replay.sql.ordered import NUMBERED, ROW
from replay.sql.parameters import place_of, to_duckdb
from replay.sql.relations import check_files, columns_read, paths_of, select_of, select_of_parquet
from replay.sql.text_files import read_text_files

ROWS_AT_ONCE = 1 << 16
"""Rows of an answer that DuckDB hands over at a time."""

_EXPLAIN = "EXPLAIN "


@dataclass(slots=True, eq=False)
class SqlFlow:
    """The rows of a statement that DuckDB runs around Chronicle's answers.

    Attributes
    ----------
    is_dry
        Whether cuts are answered over streams without events, to explain the statement.
    """

    apart: Apart
    catalog: Catalog
    asked: QueryRequest
    is_dry: bool = False
    _runs: dict[str, Run] = field(default_factory=dict, init=False)
    """By relation, the cuts that are open."""
    _schemas: list[pa.Schema] = field(default_factory=list, init=False)
    _n_files: dict[str, int] = field(default_factory=dict, init=False)
    _data_files: list[str] = field(default_factory=list, init=False)
    _selects: dict[str, str] = field(default_factory=dict, init=False)
    """By relation, how DuckDB reads files."""
    _tables: dict[str, pa.Table] = field(default_factory=dict, init=False)
    """By relation, what was read of files of text."""
    _notes: list[str] = field(default_factory=list, init=False)
    tree: str = field(default="", init=False)
    """DuckDB's plan, once it was asked for."""

    def open(self) -> None:
        """Open the cuts that are answered from streams, and see that there is what is read."""
        for read in self.apart.reads:
            if not read.is_file:
                self.catalog.describe(read.name)
        for cut in self.apart.cuts:
            if not cut.inputs:
                self._runs[cut.relation] = self._opened(cut, {})

    # --- what a flow is ------------------------------------------------------------------------

    @property
    def plan(self) -> FlowPlan:
        """Which part runs where, and how Chronicle finds the rows of its parts."""
        return self._told_plan({name: run.flow.plan for name, run in self._runs.items()})

    def _told_plan(self, plans: Mapping[str, AnyPlan | None]) -> FlowPlan:
        parts = []
        for cut in self.apart.cuts:
            plan = plans.get(cut.relation)
            words = f"by Chronicle: the part at line {cut.line}"
            parts.append(FlowPlan(words, () if plan is None else (plan,)))
        over = [number_of(len(parts), "part") + " of Chronicle's"] if parts else []
        over += [self._in_words(read) for read in self.apart.reads]
        words = f"ordinary SQL by DuckDB over {', '.join(over) or 'no source'}"
        return FlowPlan(words, tuple(parts), tree=self.tree)

    def tables(self) -> Iterator[pa.Table]:
        """Answer the cuts, and yield the rows of the statement."""
        with closing(self._prepared()) as session:
            yield from self._rows(session, self.apart.main)
            if self.asked.is_analyzed:
                self._explain(session, "EXPLAIN ANALYZE ")

    def explained(self, seconds: float) -> FlowPlan:
        """Return the plan with Chronicle's steps, taken for some seconds, and DuckDB's plan."""
        plans = {name: run.explained(seconds) for name, run in self._runs.items() if run.flow.plan}
        dry = SqlFlow(self.apart, self.catalog, self.asked, is_dry=True)
        with closing(dry._prepared()) as session:
            dry._explain(session, _EXPLAIN)
        return dry._told_plan({**dict.fromkeys(dry._runs), **plans})

    def _explain(self, session: Session, words: str) -> None:
        """Keep DuckDB's plan of the statement."""
        query = self.apart.main.with_selects(self._selects)
        self._bound(session, query)
        try:
            rows = session.execute(words + query.text, self._params(query))
        except DuckDBError as error:
            raise self._told(_ShiftedError(str(error), len(words)), query) from None
        self.tree = rows[0][1].rstrip()

    def schema(self) -> pa.Schema:
        """Return the columns of the answer."""
        with closing(self._prepared()) as session:
            query = self.apart.main.with_selects(self._selects)
            types = self._bound(session, query)
            try:
                schema, *_ = session.fetch(types.projection, 1, is_dry=True)
            except DuckDBError as error:
                raise self._told(error, query) from None
            return types.empty(schema).schema

    def work(self) -> ExecutionStats:
        """Return what Chronicle's parts did so far; DuckDB's scans are not counted."""
        done = ExecutionStats(warnings=tuple(self._notes))
        for run in self._runs.values():
            done += run.flow.work().below()
        if self.asked.threads > 1:
            said = (
                f"DuckDB ran with {self.asked.threads} threads: sums of DOUBLE, and the order of "
                "rows without ORDER BY, may differ from run to run"
            )
            done += ExecutionStats(warnings=(said,))
        return done

    # --- the cuts -----------------------------------------------------------------------------

    def _opened(self, cut: Cut, inputs: dict[str, pa.Table]) -> Run:
        """Bind and plan a cut; its errors are those of the statement it was cut out of."""
        catalog = self.catalog
        if self.is_dry:
            catalog = WithoutEvents.of(catalog, cut.streams)
        if inputs:
            catalog = replace(catalog, tables={**catalog.tables, **inputs})
        is_planned = isinstance(catalog, StoreCatalog) and set(cut.streams) - set(catalog.tables)
        asked = self.asked
        asked = replace(asked, sql=cut.query.text, plan=asked.plan if is_planned else "auto")
        try:
            if cut.bounds is not None and cut.bounds.hold_of(OurQuestion(asked).schema(catalog)):
                asked = replace(asked, sql=cut.bounds.query.text)
            return open_run(catalog, asked)
        except QueryError as error:
            cut.query.retell(error, self.apart.text)
            raise self._of_outer_row(error, cut) or error from None

    def _of_outer_row(self, error: QueryError, cut: Cut) -> QueryError | None:
        """Return what to say where a name that a cut lacks is one of the query around it."""
        if not isinstance(error, UnknownNameError) or error.name.lower() not in cut.outer:
            return None
        return NotSupportedError(
            f"'{error.name.lower()}' is a source of the query around it: a part that Chronicle "
            "answers cannot refer to a row outside of it; join its answer to that query instead",
            text=self.apart.text,
            line=error.line,
            column=error.column,
        )

    def _answer_cut(self, session: Session, cut: Cut) -> None:
        """Answer a cut, and give DuckDB its rows."""
        inputs = {one.name: self._input(session, one) for one in cut.inputs}
        if cut.relation not in self._runs or self.is_dry:
            run = self._opened(cut, inputs)
            self._runs.setdefault(cut.relation, run)
        else:
            run = self._runs[cut.relation]
        what = f"the part at line {cut.line}"
        table = in_38_digits(pa.concat_tables(run.flow.tables()), what)
        self._register(session, cut.relation, table, what)

    def _input(self, session: Session, given: Input) -> pa.Table:
        """Return all rows of what DuckDB answers before a cut, as they stand in the streams.

        An aggregate has no place there: its query does not bind with one.
        """
        query = given.query
        if given.ordered is not None:
            try:
                self._bound(session, given.ordered.with_selects(self._selects))
                query = given.ordered
            except QueryError:
                pass
        tables = self._rows(session, query)
        return pa.concat_tables([next(tables)] if self.is_dry else tables)

    # --- DuckDB -------------------------------------------------------------------------------

    def _prepared(self) -> Session:
        """Return a session in which all that the statement reads is there."""
        found = [self._select(read) for read in self.apart.reads]
        paths = tuple(sorted({path for some in found for path in some}))
        memory = current_limits().memory
        session = Session(Allowed(paths, self.asked.threads, memory))
        try:
            for read in self.apart.reads:
                if read.relation not in self._selects:
                    table = self._tables.get(read.relation)
                    table = self.catalog.table(read.name) if table is None else table
                    self._register(session, read.relation, table, f"table '{read.name}'")
            for cut in self.apart.cuts:
                self._answer_cut(session, cut)
        except BaseException:
            session.close()
            raise
        return session

    def _select(self, read: Read) -> list[str]:
        """Note by which SELECT DuckDB reads a source, and return the files of it.

        No SELECT: a table, in memory or of text. The bytes that may be read of a stream are
        verified.
        """
        relation = read.relation
        numbered = {relation: None, f"{relation}{NUMBERED}": f"{relation}{ROW}"}
        if read.is_file:
            paths = paths_of(read, self.apart)
            self._n_files[relation] = len(paths)
            format_ = text_format(read.name)
            if format_ is not None:
                self._tables[relation] = self._read_text(read, format_, paths)
                return []
            if not self.is_dry:
                check_files(read, self.apart, paths)
            for name, row in numbered.items():
                self._selects[name] = select_of_parquet(paths, row)
            return paths
        snapshot = self.catalog.snapshot(read.name)
        if snapshot is None:
            return []
        check_columns(snapshot.schema, f"stream '{read.name}'")
        self._schemas.append(snapshot.schema)
        columns = [] if self.is_dry else columns_read(snapshot, self.apart.words)
        files = snapshot.stored_files(columns)
        self._n_files[relation] = len(files)
        paths = [str(file.path) for file in files]
        self._data_files += paths
        for name, row in numbered.items():
            self._selects[name] = select_of(snapshot, files, columns, row)
        return paths

    def _read_text(self, read: Read, format_: SourceFormat, paths: list[str]) -> pa.Table:
        """Return the rows of files of text; what is wrong with them is told at their name."""
        names = [read.name] if len(paths) == 1 else paths
        try:
            table, notes = read_text_files(
                list(map(Path, paths)), format_, names, is_dry=self.is_dry
            )
        except QueryError as error:
            raise QueryError(str(error), **place(self.apart.text, read.at)) from error
        self._notes += notes
        return table

    def _in_words(self, read: Read) -> str:
        n_files = self._n_files.get(read.relation)
        return read.name if n_files is None else f"{read.name} ({number_of(n_files, 'file')})"

    def _register(self, session: Session, name: str, table: pa.Table, what: str) -> None:
        check_columns(table.schema, what)
        self._schemas.append(table.schema)
        given = taken(table)
        session.register(name, given)
        if any(f"{name}{NUMBERED}" in query.text for query in self.apart.queries):
            rows = pa.array(np.arange(table.num_rows))
            session.register(f"{name}{NUMBERED}", given.append_column(f"{name}{ROW}", rows))

    def _params(self, query: Composed) -> dict[str, object]:
        """Return the values of a query's parameters."""
        given, values = self.asked.params, dict[str, object]()
        for name in sorted(query.parameters):
            if name not in given:
                what = "value for the '?'" if name.startswith("_") else "parameter"
                where = place_of(name, self.apart.text)
                raise UnknownNameError(what, name, candidates=given, **where)
            try:
                value = values_of(given[name]) if name in query.lists else given[name]
                values[name] = to_duckdb(value)
            except (TypeError, ValueError) as error:
                shown = "?" if name.startswith("_") else f":{name}"
                where = place_of(name, self.apart.text)
                raise BindError(f"the parameter '{shown}' {error}", **where) from None
        return values

    def _bound(self, session: Session, query: Composed) -> AnswerTypes:
        """Bind a query in DuckDB, and return the types of its columns."""
        params = self._params(query)
        try:
            found = session.bind(query.text, params)
        except DuckDBError as error:
            raise self._told(self._with_place(session, query, params, error), query) from None
        if found is None:
            raise NotSupportedError("anything but one SELECT is not supported here")
        names, kinds = found
        types = AnswerTypes(tuple(names), tuple(kinds))
        types.check()
        return types

    def _with_place(
        self, session: Session, query: Composed, params: dict[str, object], error: DuckDBError
    ) -> Exception:
        """Return an error of binding with its place, which DuckDB tells only where it executes."""
        if '"position"' in str(error):
            return error
        try:
            session.execute(_EXPLAIN + query.text, params)
        except DuckDBError as found:
            return _ShiftedError(str(found), len(_EXPLAIN))
        return error

    def _rows(self, session: Session, query: Composed) -> Iterator[pa.Table]:
        """Yield the rows of a query, at least one table."""
        query = query.with_selects(self._selects)
        types = self._bound(session, query)
        has_rows, has_ended = False, False
        try:
            while not has_ended:
                schema, batches, has_ended = session.fetch(
                    types.projection, ROWS_AT_ONCE, is_dry=self.is_dry
                )
                has_rows |= bool(batches)
                yield from map(types.convert, batches)
            if not has_rows:
                yield types.empty(schema)
        except DuckDBError as error:
            raise self._told(error, query) from None

    def _told(self, error: Exception, query: Composed) -> Exception:
        columns = dict.fromkeys(name for schema in self._schemas for name in schema.names)
        shift = error.shift if isinstance(error, _ShiftedError) else 0
        return damaged(error, self._data_files) or told(error, self.apart, query, columns, shift)


class _ShiftedError(Exception):
    """An error whose place counts so many signs before the query."""

    def __init__(self, message: str, shift: int) -> None:
        super().__init__(message)
        self.shift = shift
