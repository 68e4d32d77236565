"""The entry points: a query over a store or over tables in memory, and its explanation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar, cast

import pyarrow as pa

from chronicle import Store
from chronicle.compile_time import clock
from chronicle.errors import ChronicleError, CorruptBlockError
from indexing import clear_answers
from replay.engines.statistics import clear_statistics
from replay.errors import NotSupportedError, QueryError
from replay.language.query_parser import in_sql
from replay.language.tokens import place, tokenize
from replay.limits import TOLD_MAX, Limits, LimitWatch, Timeout, check_limits
from replay.query_plan import AnyPlan, to_json, to_text
from replay.result import Answer, Result
from replay.running.arguments import AsOf, Tables, by_name, check_engine, check_query
from replay.running.catalog import Catalog, Shared, StoreCatalog
from replay.running.run import (
    EXPLAIN_SECONDS,
    OurQuestion,
    QueryRequest,
    Question,
    Run,
    create_stream,
)
from replay.running.select import clear_planned
from replay.running.statement import (
    Parameters,
    clear_bound,
    clear_statements,
    missing_streams_placed,
)

T = TypeVar("T")

Opens = Callable[[Question], tuple[Catalog, Run | None]]
"""Opens the streams that a query reads, and has the query ready to run if it was opened before."""


def query(  # noqa: PLR0913 -- one keyword for each thing a caller may ask of the answer
    source: Store | Tables,
    sql: str,
    *,
    params: Parameters | Sequence[object] | None = None,
    tables: Tables | None = None,
    plan: str = "auto",
    engine: str = "local",
    as_of: AsOf | None = None,
    skip_damaged: bool = False,
    timeout: Timeout | None = None,
    max_rows: int | None = None,
    memory: int | str | None = None,
    threads: int = 1,
) -> Result:
    """Answer a query over history.

    Every plan gives the same answer; they differ in what they read.

    Parameters
    ----------
    source
        A store, or tables in memory by name (always replayed in full).
    sql
        The query, see ``docs/queries.md``.
    params
        Values of the query's parameters by name (``:name``, ``$name``), or a list of those of
        ``?``.
    tables
        Tables in memory by name, beside the streams of a store.
    plan
        ``auto``, ``full``, ``tree``, ``all``, ``relevant``, ``index-only``, or
        ``indexes=A.price,C``; of windows ``replay`` and ``tree-naive``, too.
    engine
        ``local``; no other yet.
    as_of
        Version of the stream to answer on, the newest by default: its number; or a time, as
        ``datetime`` or ISO 8601 text, for the latest version committed at or before it. A time
        without a zone is UTC.
    skip_damaged
        Whether to leave out data files that cannot be read and to answer as if their events had
        never been. What was left out is said in ``actual.warnings``.
    timeout
        How long it may take, as seconds, ``timedelta`` or a text (``"30s"``).
    max_rows
        How many rows the answer may have.
    memory
        Bytes by which the process may grow meanwhile, or a text (``"2GB"``).
    threads
        How many threads DuckDB may use where it runs the statement around Chronicle's answers.
        With more than one, sums of DOUBLE and the order of rows may differ from run to run.

    Returns
    -------
    Result
        The rows in canonical order, the plan, and what happened.

    Raises
    ------
    QueryError
        If the query cannot be read, bound or answered.
    PlanError
        If the named plan cannot apply to the query.
    StorageError
        If the store, the stream, the version or a data file is missing or damaged.
    LimitExceededError
        If the query is beyond a limit. There is no answer then, and no stream that it creates.
    """
    check_engine(engine)
    with LimitWatch(Limits.of(timeout, max_rows, memory)):
        asked = _asked(sql, params, plan, threads=threads)
        return _answered(asked, _opens(source, as_of, tables), skip_damaged=skip_damaged)


def query_many(  # noqa: PLR0913 -- as above
    source: Store | Tables,
    sqls: Sequence[str],
    *,
    params: Parameters | Sequence[object] | None = None,
    plan: str = "auto",
    engine: str = "local",
    as_of: AsOf | None = None,
    timeout: Timeout | None = None,
    max_rows: int | None = None,
    memory: int | str | None = None,
) -> tuple[Result, ...]:
    """Answer several queries over one version of each stream, one after the other.

    Each answer is that of :func:`query` on this version, and so are its plan and what is told to
    have been read. What several of them read of a stream is read and decoded once, as far as
    256 MB hold it, first come, first kept. Aggregates over matches that are read from the whole
    stream and need no match made, without WITHIN and alike in PARTITION BY, SEMANTICS and what they
    aggregate, are summed in one go: what their patterns begin with alike, once.

    Parameters
    ----------
    source
        A store, or tables in memory by name.
    sqls
        The queries; none is a CREATE STREAM.
    params
        As of :func:`query`, for all of them: each takes those it names.
    plan, engine, as_of
        As of :func:`query`, for each of them.
    timeout, max_rows, memory
        As of :func:`query`, for each of them; under a limit none does anything for others.

    Returns
    -------
    tuple of Result
        In the order of the queries.

    Raises
    ------
    QueryError
        If one of them cannot be read, bound or answered: none is answered then.
    """
    check_engine(engine)
    if isinstance(sqls, str):
        raise TypeError("query_many takes a list of queries, not one text; see replay.query")
    bounds = Limits.of(timeout, max_rows, memory)
    queries = [_asked(sql, params, plan) for sql in sqls]
    results = []
    for opens, asked in zip(
        _shared(_opens(source, as_of, None), queries, together=bounds == Limits()),
        queries,
        strict=True,
    ):
        with LimitWatch(bounds):
            answer = _answered(replace(asked, started=clock()), opens, skip_damaged=False)
        results.append(answer)
    return tuple(results)


def batches(  # noqa: PLR0913 -- as above
    source: Store | Tables,
    sql: str,
    *,
    params: Parameters | Sequence[object] | None = None,
    tables: Tables | None = None,
    plan: str = "auto",
    engine: str = "local",
    as_of: AsOf | None = None,
    timeout: Timeout | None = None,
    max_rows: int | None = None,
    memory: int | str | None = None,
    threads: int = 1,
) -> pa.RecordBatchReader:
    """Answer a query piece by piece, for answers larger than memory.

    Rows come as they are found, and only as far as they are asked for. Parameters and errors are
    those of :func:`query`; errors of matching, and limits the query goes beyond, are raised where
    the reader meets them. ``timeout`` counts from the call to the last row taken.

    Returns
    -------
    pyarrow.RecordBatchReader
        The rows in canonical order.
    """
    check_engine(engine)
    asked = _asked(sql, params, plan, threads=threads, told_max=None)
    opens = _opens(source, as_of, tables)
    run, rows = _begun(asked, opens, Limits.of(timeout, max_rows, memory))
    if run.create is not None:
        raise NotSupportedError("CREATE STREAM gives no rows to read; run it by replay.query")
    first = next(rows)
    pieces = (batch for table in chain([first], rows) for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(first.schema, pieces)


def answer_in_pieces(store: Store, sql: str, **asked: Any) -> Answer:
    """Answer a query piece by piece, and say afterwards what happened; see `answers_in_pieces`."""
    return next(answers_in_pieces(store, (sql,), **asked))


def answers_in_pieces(  # noqa: PLR0913 -- as above
    store: Store,
    sqls: Sequence[str],
    *,
    params: Parameters | Sequence[object] | None = None,
    tables: Tables | None = None,
    plan: str = "auto",
    as_of: AsOf | None = None,
    skip_damaged: bool = False,
    limits: Limits | None = None,
    threads: int = 1,
) -> Iterator[Answer]:
    """Answer queries piece by piece, over one version of each stream, and say what happened.

    Each begins when its answer is asked for, which is after that before it was taken. Parameters
    and errors are those of :func:`query`; errors of matching are raised where the tables are read.
    Limits are those of each query. With ``skip_damaged`` the whole answer is made first, as a
    damaged file may be found at its end; and so is a stream that is created, by one query alone.
    """
    bounds = limits or Limits()
    queries = [_asked(sql, params, plan, threads=threads) for sql in sqls]
    each = iter([_opens(store, as_of, tables)])
    if len(queries) > 1:
        # A limit is that of one query, which then is to do nothing for others.
        each = _shared(_opens(store, as_of, tables), queries, together=bounds == Limits())
    for opens, asked in zip(each, queries, strict=True):
        asked = replace(asked, started=clock())
        if skip_damaged:
            yield _at_once(asked, opens, bounds, skip_damaged=True)
            continue
        run, rows = _begun(asked, opens, bounds)
        if run.create is not None:
            yield _at_once(asked, opens, bounds)
        else:
            yield _in_pieces(run, rows)


def _at_once(
    asked: QueryRequest, opens: Opens, limits: Limits, *, skip_damaged: bool = False
) -> Answer:
    with LimitWatch(limits):
        result = _answered(asked, opens, skip_damaged=skip_damaged)
    return Answer(iter([result.table]), lambda: result)


def _in_pieces(run: Run, rows: Iterator[pa.Table]) -> Answer:
    done: list[Result] = []

    def pieces() -> Iterator[pa.Table]:
        for table in rows:
            yield table
        done.append(run.to_result(table.slice(0, 0)))

    return Answer(pieces(), lambda: done[0], run.share)


def _opens(source: Store | Tables, as_of: AsOf | None, tables: Tables | None) -> Opens:
    return lambda question: (question.catalog(source, as_of, tables), None)


def _shared(
    opens: Opens, queries: Sequence[QueryRequest], *, together: bool = True
) -> Iterator[Opens]:
    """Yield for each query what opens its streams, at the versions they have now.

    Blocks that are read are kept for the queries that come next. With ``together``, patterns that
    are summed over are so in one go, when the first of them is answered.
    """
    for asked in queries:
        check_query(asked.sql)
        _refuse_create(asked.sql)
    if len(queries) == 1:
        yield opens  # there is nobody to share with
        return
    shared = Shared()

    def opened(question: Question) -> tuple[Catalog, Run | None]:
        catalog, run = opens(question)
        return shared.among(catalog), run

    def enter(question: Question) -> tuple[Question, Catalog, Run | None]:
        catalog, run = opened(question)
        if together and isinstance(question, OurQuestion):
            with suppress(ChronicleError):  # what is wrong with it is told when its turn comes
                run = question.entered(catalog)
        return question, catalog, run

    def again(
        first: Question, catalog: Catalog, run: Run | None, question: Question
    ) -> tuple[Catalog, Run | None]:
        if type(question) is not type(first):
            return opened(question)
        return catalog, None if run is None else run.begun()

    entered = [_by_either(asked, enter) for asked in queries]
    try:
        entered.reverse()
        while entered:
            opens_again = partial(again, *entered.pop())
            if not entered:
                shared.keep_no_more()
            yield opens_again
    finally:
        shared.forget()


def _refuse_create(sql: str) -> None:
    if "CREATE" not in sql.upper():
        return  # as of nearly all, which need not be taken apart for this
    first = tokenize(sql, is_foreign=True)[0]
    if first.key == "CREATE":
        raise NotSupportedError(
            "CREATE STREAM among several queries, which read streams as they were before, is not "
            "supported; ask it alone",
            **place(sql, first.at),
        )


def _answered(asked: QueryRequest, opens: Opens, *, skip_damaged: bool) -> Result:
    """Return all rows of an answer, with what happened, or the row of a stream that is created."""

    def answer(question: Question) -> Result:
        catalog, run = opens(question)
        while True:
            try:
                with catalog.watched():
                    run = run or question.run(catalog)
                    check_limits()
                    if run.create is not None:
                        return create_stream(catalog, run, run.create, asked)
                    return run.result()
            except CorruptBlockError as error:
                assert isinstance(catalog, StoreCatalog), "a table in memory has no files"
                catalog.leave_out(error, may_skip=skip_damaged)
                run = None

    return _by_either(asked, answer)


def _asked(
    sql: str,
    params: Parameters | Sequence[object] | None,
    plan: str,
    *,
    threads: int = 1,
    told_max: int | None = TOLD_MAX,
) -> QueryRequest:
    """Return a query as it was asked, now."""
    given = cast("Parameters", by_name(params))
    if isinstance(params, list | tuple) and params and "?" not in str(sql):
        told = f"the query has no parameter written ?, and params has {len(params)} values for them"
        raise QueryError(f"{told}; leave params out")
    return QueryRequest(sql, given, plan, clock(), told_max=told_max, threads=threads)


def _by_either(asked: QueryRequest, answer: Callable[[Question], T]) -> T:
    """Answer a query in our language, or in SQL that goes beyond it where its text says so."""
    with missing_streams_placed(asked.sql):
        try:
            return answer(OurQuestion(asked))
        except QueryError as error:
            refused = error
        from replay.sql.engine import further

        question = further(asked, _by_either)
        if question is None:
            raise refused
        return answer(question)


def _begun(asked: QueryRequest, opens: Opens, limits: Limits) -> tuple[Run, Iterator[pa.Table]]:
    """Return a query that is open, and its rows as they are found, watched from now on."""
    watch = LimitWatch(limits)

    def begin(question: Question) -> tuple[Run, Catalog]:
        catalog, run = opens(question)
        with watch:
            return run or question.run(catalog), catalog

    run, catalog = _by_either(asked, begin)
    return run, watch.over(_told_of_vacuum(run.tables(), catalog))


def _told_of_vacuum(tables: Iterator[pa.Table], catalog: Catalog) -> Iterator[pa.Table]:
    """Yield tables; a file that was vacuumed while it was read is called that."""
    try:
        with catalog.watched():
            yield from tables
    except CorruptBlockError as error:
        if isinstance(catalog, StoreCatalog):
            catalog.leave_out(error, may_skip=False)
        raise


class Explanation:
    """A plan with the steps that led to it, without having run the query.

    Attributes
    ----------
    plan
        The plan; of a stream, as it is once its lookups were carried out.
    sql
        The query's text.
    """

    def __init__(self, plan: AnyPlan, *, sql: str | None = None) -> None:
        self.plan = plan
        self.sql = sql

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation with the stable keys of ``docs/queries.md``."""
        return to_json(self.plan, None)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as a page to look at: one HTML file that needs no network."""
        from replay.report.files import write
        from replay.report.results import plan_page

        write(path, plan_page(self.to_dict(), self.sql))

    def __str__(self) -> str:
        text = to_text(self.plan, None)
        translated = None if self.sql is None else in_sql(self.sql)
        return text if translated is None else f"{text}\n\nin SQL\n{translated}"

    __repr__ = __str__


def explain(
    store: Store,
    sql: str,
    *,
    params: Parameters | Sequence[object] | None = None,
    tables: Tables | None = None,
    plan: str = "auto",
    as_of: AsOf | None = None,
    seconds: float | None = None,
) -> Explanation:
    """Return the plan of a query with the steps that lead to it, without replaying anything.

    The lookups are carried out as the query would, until they have taken so many ``seconds``, one
    unless said otherwise; those left then are told as not asked. The other parameters, plans and
    errors are those of :func:`query`.
    """
    asked = _asked(sql, params, plan)

    def explained(question: Question) -> Explanation:
        catalog = question.catalog(store, as_of, tables)
        with catalog.watched():
            took = EXPLAIN_SECONDS if seconds is None else seconds
            return Explanation(question.explained(catalog, took), sql=sql)

    return _by_either(asked, explained)


def clear_caches() -> None:
    """Forget queries bound before, their plans, and the answers of lookups.

    What is kept of a snapshot whatever is asked stays, such as its trees and opened runs: a query
    asked again is planned and looked up anew, as another query on the same store would be.
    """
    clear_statements()
    clear_bound()
    clear_planned()
    clear_statistics()
    clear_answers()
