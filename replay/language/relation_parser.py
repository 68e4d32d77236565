"""What stands after FROM: streams, subqueries, windows over them, and joins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from chronicle.errors import did_you_mean
from replay.language.bound import JoinKind
from replay.language.clause_parser import CLAUSES, separated
from replay.language.cursor import RESERVED, Cursor, describe
from replay.language.duration_parser import refuse_unknown_unit
from replay.language.expression_parser import parse_expression
from replay.language.named_queries import DEPTH_MAX, READS_MAX
from replay.language.source import resolve
from replay.language.syntax import (
    OF_ROWS,
    WINDOW_ARGUMENTS,
    WITH_ORIGIN,
    Expression,
    Identifier,
    Join,
    PatternQuery,
    Reference,
    SelectQuery,
    Span,
    StreamName,
    Subquery,
    WindowCall,
)
from replay.language.tokens import END, NAME, QUOTED

ParseQuery = Callable[[Cursor], SelectQuery | PatternQuery]
"""How a subquery is parsed, SELECT included."""

NOT_YET = ("WINDOW", "QUALIFY", "UNION", "INTERSECT", "EXCEPT")
"""Clauses of SQL after FROM that are not in the language yet."""

_JOINS: dict[tuple[str, ...], JoinKind] = {
    ("JOIN",): JoinKind.INNER,
    ("INNER", "JOIN"): JoinKind.INNER,
    ("LEFT", "JOIN"): JoinKind.LEFT,
    ("LEFT", "OUTER", "JOIN"): JoinKind.LEFT,
    ("ASOF", "JOIN"): JoinKind.ASOF,
    ("ASOF", "INNER", "JOIN"): JoinKind.ASOF,
    ("ASOF", "LEFT", "JOIN"): JoinKind.ASOF_LEFT,
    ("ASOF", "LEFT", "OUTER", "JOIN"): JoinKind.ASOF_LEFT,
}
_OTHER_JOINS = ("RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "POSITIONAL")
_NO_ALIAS = frozenset(
    {*CLAUSES, *NOT_YET, *(words[0] for words in _JOINS), *_OTHER_JOINS}
    | {"ON", "USING", "WITHIN", "MATCH_RECOGNIZE", "PARTITION"}
)
"""Words after a source that are no alias of it."""

Source = TypeVar("Source", bound=StreamName | Subquery | WindowCall)


def parse_reference(cursor: Cursor, parse_query: ParseQuery) -> Reference:
    """Parse what a query reads, joins included.

    Raises
    ------
    PatternSyntaxError, NotSupportedError
        With the place.
    """
    left: Reference = _table(cursor, parse_query)
    while True:
        words = next((words for words in _JOINS if cursor.at(*words)), None)
        if words is None:
            _refuse_other_joins(cursor)
            return left
        left = _join(cursor, left, words, parse_query)


def parse_alias(cursor: Cursor) -> Identifier | None:
    """Parse ``AS name`` or ``name``, if it is there."""
    if cursor.accept("AS"):
        return cursor.identifier("a name after AS")
    token = cursor.token
    if token.kind == QUOTED or (token.kind == NAME and token.key not in _NO_ALIAS | RESERVED):
        return cursor.identifier("an alias")
    return None


def _table(cursor: Cursor, parse_query: ParseQuery) -> StreamName | Subquery | WindowCall:
    token = cursor.token
    if token.key == "TABLE" and cursor.peek().key == "(":
        return _aliased(cursor, _window_table(cursor, parse_query))
    if token.key in WINDOW_ARGUMENTS and cursor.peek().key == "(":
        return _aliased(cursor, _window_call(cursor, parse_query))
    if token.key == "(":
        return _aliased(cursor, _subquery(cursor, parse_query))
    return _aliased(cursor, _stream(cursor))


def _aliased(cursor: Cursor, source: Source) -> Source:
    alias = parse_alias(cursor)
    return source if alias is None else replace(source, alias=alias)


def _stream(cursor: Cursor) -> StreamName | Subquery:
    """Parse the name of a stream, or of a query that WITH names."""
    at = cursor.token.at
    name = cursor.identifier("the name of a stream")
    if cursor.token.key == ".":
        raise cursor.not_supported(
            "a stream name with a dot", remedy=f'quote it as "{name.name}.…"'
        )
    if cursor.token.key == "(":
        raise cursor.not_supported(f"the table function {name.name}", at)
    known = resolve(name, cursor.queries.known)
    named = cursor.queries.known[known] if known is not None else None
    cursor.queries.read(named)
    _check_size(cursor, at)
    if named is not None:
        return Subquery(named.query, name, at=at)
    return StreamName(name, at=at)


def _check_size(cursor: Cursor, at: int) -> None:
    if cursor.queries.is_too_large:
        raise cursor.not_supported(
            f"a query that reads over {READS_MAX} streams or nests over {DEPTH_MAX} subqueries", at
        )


def _subquery(cursor: Cursor, parse_query: ParseQuery) -> Subquery:
    opening = cursor.expect("(")
    if cursor.token.key not in ("SELECT", "WITH"):
        what = "a subquery in FROM begins with SELECT"
        if cursor.token.key == "(" or cursor.peek().key in ("JOIN", "LEFT", "ASOF"):
            raise cursor.not_supported("a join in parentheses")
        raise cursor.error(f"{what}, found {describe(cursor.token)}")
    with cursor.queries.subquery():
        _check_size(cursor, opening.at)
        query = parse_query(cursor)
    close(cursor, opening.at, "the subquery")
    return Subquery(query, at=opening.at)


def close(cursor: Cursor, opening: int, what: str) -> None:
    """Step over the ``)`` after ``what``."""
    if cursor.accept(")"):
        return
    if cursor.token.kind == END:
        raise cursor.error("this '(' is not closed", opening)
    if cursor.token.key in NOT_YET:
        raise cursor.not_supported(cursor.token.key)
    raise cursor.error(f"expected ')' after {what}, found {describe(cursor.token)}")


# ---------------------------------------------------------------------------------------------
# Windows


@dataclass(slots=True)
class _Arguments:
    """Arguments of a window function read so far, by name."""

    function: str
    time: Identifier | None = None
    named: dict[str, Expression] = field(default_factory=dict)
    n_positional: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """What the function can take, in order."""
        origin = ("ORIGIN",) if self.function in WITH_ORIGIN else ()
        return (*WINDOW_ARGUMENTS[self.function], *origin)


def _window_table(cursor: Cursor, parse_query: ParseQuery) -> WindowCall:
    opening = cursor.tokens[cursor.index + 1]
    cursor.accept("TABLE", "(")
    if cursor.token.key not in WINDOW_ARGUMENTS or cursor.peek().key != "(":
        known = ", ".join(WINDOW_ARGUMENTS)
        raise cursor.error(
            f"expected a window function ({known}) after TABLE (, found {describe(cursor.token)}"
            f"{did_you_mean(cursor.token.key, WINDOW_ARGUMENTS)}"
        )
    call = _window_call(cursor, parse_query)
    close(cursor, opening.at, f"{call.function}(…)")
    return call


def _window_call(cursor: Cursor, parse_query: ParseQuery) -> WindowCall:
    function = cursor.advance()
    opening = cursor.expect("(")
    if cursor.token.key == "DATA":
        cursor.accept("DATA", "=>")
    source = _window_source(cursor, parse_query, function.key)
    partition_by = _partition_by(cursor)
    arguments = _Arguments(function.key)
    while cursor.accept(","):
        _argument(cursor, arguments)
    close(cursor, opening.at, f"the arguments of {function.key}")
    for name in WINDOW_ARGUMENTS[function.key]:
        if name not in arguments.named:
            raise cursor.error(f"{_form(function.key)}; the {name.lower()} is missing", function.at)
    if arguments.time is None and function.key not in OF_ROWS:
        raise cursor.error(
            f"{_form(function.key)}; DESCRIPTOR with the time column is missing", function.at
        )
    return WindowCall(
        function.key,
        replace(source, alias=None),
        partition_by,
        arguments.time,
        tuple(arguments.named[name] for name in WINDOW_ARGUMENTS[function.key]),
        arguments.named.get("ORIGIN"),
        source.alias,
        at=function.at,
    )


def _form(function: str) -> str:
    """Return how a window function is written, for errors."""
    time = "" if function in OF_ROWS else ", DESCRIPTOR(time)"
    names = "".join(f", {name.lower()}" for name in WINDOW_ARGUMENTS[function])
    origin = "[, origin]" if function in WITH_ORIGIN else ""
    return f"{function} is written {function}(TABLE stream{time}{names}{origin})"


def _window_source(cursor: Cursor, parse_query: ParseQuery, function: str) -> StreamName | Subquery:
    if not cursor.accept("TABLE"):
        raise cursor.error(f"{_form(function)}; expected TABLE, found {describe(cursor.token)}")
    if cursor.token.key == "(":
        return _subquery(cursor, parse_query)
    return _stream(cursor)


def _partition_by(cursor: Cursor) -> tuple[Identifier, ...]:
    """Parse ``PARTITION BY k`` or ``PARTITION BY (k, l)``, if it is there."""
    if not cursor.accept("PARTITION"):
        return ()
    cursor.expect("BY", "after PARTITION")
    what = "a column to partition by"
    if cursor.token.key == "(":
        opening = cursor.advance()
        names = separated(cursor, lambda inside: inside.identifier(what))
        close(cursor, opening.at, "the columns of PARTITION BY")
        return names
    columns = [cursor.identifier(what)]
    # Arguments are constants, so a plain name is one more column.
    while cursor.peek().kind in (NAME, QUOTED) and cursor.peek(2).key in (",", ")"):
        cursor.expect(",")
        columns.append(cursor.identifier(what))
    return tuple(columns)


def _argument(cursor: Cursor, arguments: _Arguments) -> None:
    token = cursor.token
    named = token.key if cursor.peek().key == "=>" else None
    if named is not None:
        cursor.advance()
        cursor.advance()
    if cursor.at("DESCRIPTOR", "(") and named in (None, "TIMECOL"):
        _descriptor(cursor, arguments)
        return
    name = named
    if name is None:
        if arguments.n_positional == len(arguments.names):
            raise cursor.error(f"{_form(arguments.function)}; this is one argument too many")
        name = arguments.names[arguments.n_positional]
        arguments.n_positional += 1
    if name not in arguments.names:
        known = ", ".join(arguments.names)
        raise cursor.error(
            f"{arguments.function} has no argument {token.text}; it has {known}", token.at
        )
    if name in arguments.named:
        raise cursor.error(f"the {name.lower()} of {arguments.function} is given twice", token.at)
    arguments.named[name] = parse_expression(cursor)
    if arguments.function not in OF_ROWS:
        refuse_unknown_unit(cursor)


def _descriptor(cursor: Cursor, arguments: _Arguments) -> None:
    at = cursor.token.at
    cursor.advance()
    opening = cursor.advance()
    if arguments.time is not None:
        raise cursor.error("DESCRIPTOR is given twice", at)
    arguments.time = cursor.identifier("the time column")
    close(cursor, opening.at, "the time column, the only one of DESCRIPTOR")


# ---------------------------------------------------------------------------------------------
# Joins


def _join(cursor: Cursor, left: Reference, words: tuple[str, ...], parse_query: ParseQuery) -> Join:
    kind = _JOINS[words]
    at = cursor.token.at
    cursor.accept(*words)
    right = _table(cursor, parse_query)
    for side in (left, right):
        if isinstance(side, WindowCall):
            raise cursor.not_supported(
                f"{side.function} as a side of a join",
                side.at,
                "join a subquery that aggregates its windows",
            )
    assert not isinstance(right, WindowCall)
    within: tuple[Span, ...] = ()
    on: Expression | None = None
    while cursor.token.key in ("WITHIN", "ON"):
        word = cursor.advance()
        if word.key == "WITHIN" and not within:
            within = _spans(cursor)
        elif word.key == "ON" and on is None:
            on = parse_expression(cursor)
        else:
            raise cursor.error(f"{word.key} is given twice", word.at)
    if cursor.token.key == "USING":
        raise cursor.not_supported("USING (…)", remedy="write ON a.k = b.k")
    return Join(kind, left, right, within, on, at=at)


def _spans(cursor: Cursor) -> tuple[Span, ...]:
    """Parse the span of both sides, or ``(left, right)``."""
    if cursor.token.key != "(":
        return (_span(cursor),)
    opening = cursor.advance()
    spans = separated(cursor, _span)
    if len(spans) > 2:
        raise cursor.error("WITHIN takes a span for both sides, or one for each", opening.at)
    close(cursor, opening.at, "the spans of WITHIN")
    return spans


def _span(cursor: Cursor) -> Span:
    at = cursor.token.at
    size = parse_expression(cursor)
    refuse_unknown_unit(cursor, if_near=True)
    in_rows = _rows(cursor)
    slide = None
    if cursor.accept("SLIDE"):
        slide_at = cursor.token.at
        slide = parse_expression(cursor)
        if _rows(cursor) and not in_rows:
            raise cursor.error("a span of time slides by a time, not by rows", slide_at)
    return Span(size, slide, in_rows, at=at)


def _rows(cursor: Cursor) -> bool:
    return cursor.accept("ROWS") or cursor.accept("ROW")


def _refuse_other_joins(cursor: Cursor) -> None:
    key = cursor.token.key
    if key == ",":
        raise cursor.not_supported(
            "a list of streams in FROM", remedy="write a JOIN b WITHIN … ON …"
        )
    if key in _OTHER_JOINS:
        remedy = "there are JOIN, LEFT JOIN, ASOF JOIN and ASOF LEFT JOIN"
        raise cursor.not_supported(f"{key} JOIN", remedy=remedy)
