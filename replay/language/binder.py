"""Binding: a syntax tree and a schema to a query that can be planned and run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from replay.language.bound import BoundPatternQuery
from replay.language.pattern_binder import bind_pattern_query
from replay.language.source import Source
from replay.language.syntax import Query

_NO_PARAMETERS: Mapping[str, object] = MappingProxyType({})


def bind(
    query: Query,
    schema: pa.Schema,
    *,
    time: str | None = None,
    text: str | None = None,
    params: Mapping[str, object] = _NO_PARAMETERS,
) -> BoundPatternQuery:
    """Resolve every name and type of a query against the schema of its stream.

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
    >>> sql = '''SELECT * FROM ticks MATCH_RECOGNIZE (
    ...     ORDER BY t MEASURES A.t AS start PATTERN (A B+) WITHIN 60 DEFINE B AS x > PREV(x))'''
    >>> bound = bind(parse_query(sql), pa.schema({"t": pa.int64(), "x": pa.float64()}), text=sql)
    >>> bound.symbols, bound.within
    (('A', 'B'), 60)
    """
    source = Source(text, params)
    return bind_pattern_query(query, schema, time=time, source=source)
