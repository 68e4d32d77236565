"""Queries parsed, bound and compiled; kept per process, as databases keep them prepared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import pyarrow as pa

from chronicle.errors import StreamNotFoundError, did_you_mean
from replay.errors import QueryError
from replay.expressions.literals import is_list
from replay.language import bind, bind_query, is_bound_alone, parse_query
from replay.language.bound import BoundCreate, BoundPatternQuery, BoundQuery
from replay.language.simplify import simplified
from replay.language.symbol_aggregates import with_arrays
from replay.language.syntax import CreateStream, PatternQuery, Query, StreamName, streams_of
from replay.language.tokens import NAME, PARAMETER, QUOTED, place, tokenize
from replay.patterns.program import MatchProgram, compile_program
from replay.running.catalog import Described

Parameters = Mapping[str, object]

Given = tuple[tuple[str, type, str, object], ...]
"""Parameters as a key: name, type, text and value of each."""

STATEMENTS_CACHED = 256
"""Bound and compiled queries kept per process."""


@lru_cache(STATEMENTS_CACHED)
def parse(sql: str) -> Query:
    """Parse, or take what was parsed before."""
    return parse_query(sql)


def unused_parameters(sql: str, given: Iterable[str]) -> list[str]:
    """Return as errors the names given that the query does not ask for, each with the nearest."""
    tokens = tokenize(sql, is_foreign=True)
    asked = {token.text for token in tokens if token.kind == PARAMETER}
    asked |= {after.text for sign, after in pairwise(tokens) if sign.key == "$"}
    return [f"'{name}'{did_you_mean(name, asked)}" for name in given if name not in asked]


@contextmanager
def missing_streams_placed(sql: str) -> Iterator[None]:
    """Have the error of a stream that is not there say where the query names it.

    What may be meant is a query of WITH, too.
    """
    try:
        yield
    except StreamNotFoundError as error:
        tokens = tokenize(sql, is_foreign=True)
        first_from = next((at for at, token in enumerate(tokens) if token.key == "FROM"), 0)
        places = [
            (before.key == ",", token.at)  # a comma stands before columns, too
            for before, token in pairwise(tokens[first_from:])
            if before.key in ("FROM", "JOIN", "TABLE", "DESCRIBE", ",")
            and token.kind in (NAME, QUOTED)
            and token.text == error.name
        ]
        if places:
            pairs = zip(pairwise(tokens), tokens[2:], strict=False)
            named = {name.text for (name, word), sign in pairs if word.key + sign.key == "AS("}
            said = str(StreamNotFoundError(error.name, candidates=error.candidates))
            if not did_you_mean(error.name, error.candidates):
                said += did_you_mean(error.name, sorted(named - {error.name}))
            error.args = QueryError(said, **place(sql, min(places)[1])).args
        raise


def needs_clearing_up(sql: str) -> bool:
    """Return whether a query that is ended leaves something behind: a stream, DuckDB's files."""
    try:
        return isinstance(parse(sql), CreateStream)
    except QueryError:  # not our language, or not alone
        return True


@dataclass(frozen=True, eq=False)
class Statement:
    """A query bound to a schema and compiled; equal only to itself, which makes it a cheap key."""

    bound: BoundPatternQuery
    """Aggregates over symbols are read from arrays: its matches are made."""
    program: MatchProgram
    plain: BoundPatternQuery
    """As it was bound."""


def to_statement(plain: BoundPatternQuery) -> Statement:
    """Return a bound query compiled."""
    program = compile_program(plain)
    bound = plain if program.sums is not None else with_arrays(plain)
    if bound is plain:
        return Statement(plain, program, plain)
    return Statement(bound, compile_program(bound), plain)


def alone(query: Query, describe: Callable[[str], Described]) -> Described | None:
    """Return columns and time of the stream that a row pattern is over; None for other queries."""
    if not isinstance(query, PatternQuery) or not isinstance(query.source, StreamName):
        return None
    described = describe(query.source.name.name)
    return described if is_bound_alone(query, *described) else None


def prepare(sql: str, schema: pa.Schema, time: str | None, params: Parameters) -> Statement:
    """Bind and compile, or take both from the statement cache.

    ``time`` is the stream's time column; None: whatever ORDER BY names.
    """
    given = given_of(params)
    prepared = _prepare_cached if _is_hashable(given) else _prepare_cached.__wrapped__
    return prepared(sql, schema, time, given)


def _is_hashable(given: Given) -> bool:
    """Return whether no value is a list or the like, which binding refuses by name."""
    try:
        hash(given)
    except TypeError:
        return False
    return True


def given_of(params: Parameters) -> Given:
    """Return parameters as a key, in the order of their names.

    The type is part of it, and how a number is written: 1, 1.0 and True are equal but bind
    differently, and so do 0.0 and -0.0. Lists become tuples, which can be a key.
    """
    values = {name: tuple(one) if is_list(one) else one for name, one in params.items()}
    return tuple(
        (name, type(values[name]), repr(values[name]), values[name]) for name in sorted(values)
    )


@lru_cache(STATEMENTS_CACHED)
def _prepare_cached(sql: str, schema: pa.Schema, time: str | None, params: Given) -> Statement:
    values = {name: value for name, _, _, value in params}
    return to_statement(bind(parse(sql), schema, time=time, text=sql, params=values))


def clear_statements() -> None:
    """Forget what was parsed, bound and compiled."""
    parse.cache_clear()
    _prepare_cached.cache_clear()


def bind_over(
    sql: str, describe: Callable[[str], Described], params: Parameters
) -> BoundQuery | BoundCreate:
    """Bind a query, or take what was bound before to streams of these columns.

    ``describe`` gives columns and time column of a stream, and raises where there is none of a
    name.
    """
    streams = tuple((name, *describe(name)) for name in streams_of(parse(sql)))
    given = given_of(params)
    bound = _bind_cached if _is_hashable(given) else _bind_cached.__wrapped__
    return bound(sql, streams, given)


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
