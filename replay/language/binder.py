"""Binding: a syntax tree and a schema to a query that can be planned and run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from replay.language.answers import times_of_stream
from replay.language.bound import BoundCreate, BoundPatternQuery, BoundSelect
from replay.language.pattern_binder import bind_pattern_query
from replay.language.pattern_names import Attributes
from replay.language.query_binder import bind_answer, bind_create
from replay.language.relation_binder import Catalog
from replay.language.source import Source
from replay.language.syntax import CreateStream, PatternQuery, Query, StreamName

_NO_PARAMETERS: Mapping[str, object] = MappingProxyType({})


def bind(
    query: Query,
    schema: pa.Schema,
    *,
    time: str | None = None,
    text: str | None = None,
    params: Mapping[str, object] = _NO_PARAMETERS,
) -> BoundPatternQuery:
    """Resolve every name and type of a query with MATCH_RECOGNIZE against one stream's schema.

    Parameters
    ----------
    query
        As ``parse_query`` gives it.
    schema
        Schema of the stream. Attributes of a type that queries cannot use do no harm as long as
        the query does not name them.
    time
        Name of the stream's time column, which ORDER BY must name. None for a table in memory:
        ORDER BY says which column it is, one of whole numbers or timestamps.
    text, params
        As for :func:`bind_query`.

    Raises
    ------
    BindError, NotSupportedError
        As :func:`bind_query` does.
    TypeError
        If it is another query.

    Examples
    --------
    >>> from replay.language import parse_query
    >>> sql = '''SELECT * FROM ticks MATCH_RECOGNIZE (
    ...     ORDER BY t MEASURES A.t AS start PATTERN (A B+) WITHIN 60 DEFINE B AS x > PREV(x))'''
    >>> bound = bind(parse_query(sql), pa.schema({"t": pa.int64(), "x": pa.float64()}), text=sql)
    >>> bound.symbols, bound.within
    (('A', 'B'), 60)
    """
    if not isinstance(query, PatternQuery) or not isinstance(query.source, StreamName):
        raise TypeError("one schema binds MATCH_RECOGNIZE over a stream; use bind_query")
    source = Source(text, params)
    attributes = Attributes.of_schema(schema, source)
    return bind_pattern_query(query, attributes, source, times=times_of_stream(time))


def bind_query(
    query: Query,
    catalog: Catalog,
    *,
    text: str | None = None,
    params: Mapping[str, object] = _NO_PARAMETERS,
) -> BoundPatternQuery | BoundSelect | BoundCreate:
    """Resolve every name and type of a query against the schemas of its streams.

    Parameters
    ----------
    query
        As ``parse_query`` gives it.
    catalog
        Gives schema and time column of a stream by its name, and raises what fits if there is none.
        None for the time of a table in memory: ORDER BY or DESCRIPTOR says which column it is, one
        of whole numbers or timestamps. Attributes of a type that queries cannot use do no harm as
        long as the query does not compute with them.
    text
        The text that was parsed, for the carets of errors; None for a tree that was not.
    params
        Values of the query's parameters: int, float, str, bool, None, datetime, date or timedelta.
        More than the query uses are allowed.

    Raises
    ------
    BindError
        If a name or type does not fit; ``UnknownNameError`` among them, with ``.candidates``.
    NotSupportedError
        If the query is legal and Chronicle cannot answer it yet.

    Examples
    --------
    >>> from replay.language import parse_query
    >>> schema = pa.schema({"t": pa.int64(), "x": pa.float64()})
    >>> bound = bind_query(parse_query("SELECT t FROM s WHERE x > 1"), lambda name: (schema, "t"))
    >>> bound.time
    't'
    """
    source = Source(text, params)
    if isinstance(query, CreateStream):
        return bind_create(query, catalog, source)
    return bind_answer(query, catalog, source).query
