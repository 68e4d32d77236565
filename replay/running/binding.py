"""Any query bound to the streams it reads; kept per process, as databases keep them prepared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from replay.language import bind_query
from replay.language.bound import BoundCreate, BoundQuery
from replay.language.simplify import simplified
from replay.language.syntax import streams_of
from replay.running.catalog import Described
from replay.running.statement import STATEMENTS_CACHED, Given, Parameters, given_of, parse


def bind_over(
    sql: str, describe: Callable[[str], Described], params: Parameters
) -> BoundQuery | BoundCreate:
    """Bind a query, or take what was bound before to streams of these columns.

    Parameters
    ----------
    sql
        The query.
    describe
        Gives columns and time column of a stream; raises where there is none of a name.
    params
        Values of the query's parameters.
    """
    streams = tuple((name, *describe(name)) for name in streams_of(parse(sql)))
    given = given_of(params)
    try:
        hash(given)
    except TypeError:  # a list or the like, which binding refuses by name
        return _bind_cached.__wrapped__(sql, streams, given)
    return _bind_cached(sql, streams, given)


@lru_cache(STATEMENTS_CACHED)
def _bind_cached(
    sql: str, streams: tuple[tuple[str, *Described], ...], params: Given
) -> BoundQuery | BoundCreate:
    known: dict[str, Described] = {name: (schema, time) for name, schema, time in streams}
    values = {name: value for name, _, _, value in params}
    bound = bind_query(parse(sql), known.__getitem__, text=sql, params=values)
    if isinstance(bound, BoundCreate):
        return replace(bound, query=simplified(bound.query))
    return simplified(bound)


def clear_bound() -> None:
    """Forget what was bound."""
    _bind_cached.cache_clear()
