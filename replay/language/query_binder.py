"""Queries inside queries: each bound with what its answer is like."""

from __future__ import annotations

from replay.language.answers import (
    Answer,
    columns_of_pattern,
    columns_of_select,
    times_of_pattern,
    times_of_select,
    times_of_stream,
)
from replay.language.bound import BoundCreate, BoundSelect, SubqueryRelation
from replay.language.outer_binder import bind_clauses
from replay.language.pattern_binder import bind_pattern_query
from replay.language.pattern_names import Attributes
from replay.language.relation_binder import Catalog, bind_reference
from replay.language.source import Source
from replay.language.syntax import CreateStream, PatternQuery, SelectQuery, StreamName
from replay.language.window_keys import WindowKeys


def bind_answer(query: SelectQuery | PatternQuery, catalog: Catalog, source: Source) -> Answer:
    """Resolve names and check types of a query and of those inside.

    Raises
    ------
    BindError, UnknownNameError, NotSupportedError
        With the place; and what the catalog raises.
    """
    if isinstance(query, SelectQuery):
        return _select(query, catalog, source)
    return _pattern(query, catalog, source)


def bind_create(query: CreateStream, catalog: Catalog, source: Source) -> BoundCreate:
    """Resolve names and check types of ``CREATE STREAM``.

    Raises
    ------
    BindError, UnknownNameError, NotSupportedError
        With the place; also if no column of the answer can be the time of the stream.
    """
    answer = bind_answer(query.query, catalog, source)
    if not answer.times:
        raise source.error(
            f"the stream '{query.name.name}' needs a time: SELECT a column of time by which its "
            "rows ascend, or write ORDER BY with one",
            query.query,
        )
    return BoundCreate(query.name.name, answer.query, answer.times[0])


def _select(query: SelectQuery, catalog: Catalog, source: Source) -> Answer:
    read = bind_reference(query.source, catalog, source, bind_answer)
    keys = WindowKeys(query, read, source)
    outer = bind_clauses(query, read.columns, source, keys.complete)
    times = times_of_select(outer, read.windows, read.times)
    columns = columns_of_select(outer)
    bound = BoundSelect(
        source=read.relation,
        outer=outer,
        windows=read.windows,
        columns=columns,
        time=times[0] if times else None,
    )
    is_as_read = read.windows is None and outer.group_by is None and not outer.order_by
    return Answer(bound, columns, times, read.is_untimed and is_as_read)


def _pattern(query: PatternQuery, catalog: Catalog, source: Source) -> Answer:
    if isinstance(query.source, StreamName):
        schema, time = catalog(query.source.name.name)
        attributes = Attributes.of_schema(schema, source)
        bound = bind_pattern_query(query, attributes, source, times=times_of_stream(time))
    else:
        inner = bind_answer(query.source.query, catalog, source)
        if not inner.times and not inner.is_untimed:
            raise source.error(
                "MATCH_RECOGNIZE needs rows in the order of time, and no column of time by which "
                "those of this subquery ascend is selected",
                query.source,
            )
        attributes = Attributes(inner.columns, source, what="column")
        relation = SubqueryRelation(inner.query, inner.columns, None)
        bound = bind_pattern_query(query, attributes, source, times=inner.times, relation=relation)
    columns = columns_of_pattern(bound, dict(attributes.columns))
    return Answer(bound, columns, times_of_pattern(bound))
