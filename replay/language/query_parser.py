"""Queries: which language a text is in, SELECT and its clauses, and what stands after FROM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

from chronicle.errors import did_you_mean
from replay.errors import NotSupportedError
from replay.language import syntax
from replay.language.cursor import DEPTH_MAX, READS_MAX, RESERVED, Cursor, describe
from replay.language.duration_parser import refuse_unknown_unit
from replay.language.expression_parser import (
    accept_distinct,
    accept_star,
    parse_expression,
    parse_order_item,
)
from replay.language.functions import AGGREGATES
from replay.language.join_parser import JOIN_WORDS, parse_joins, parse_names
from replay.language.match_recognize_parser import parse_match_recognize
from replay.language.source import resolve
from replay.language.syntax import (
    OF_PATTERNS,
    OF_ROWS,
    WINDOW_ARGUMENTS,
    WITH_ORIGIN,
    CreateStream,
    Expression,
    FirstEvent,
    Identifier,
    OneRow,
    PatternQuery,
    Query,
    Reference,
    SelectQuery,
    Situations,
    StreamName,
    Subquery,
    WindowCall,
    window_form,
)
from replay.language.tokens import END, NAME, QUOTED, Token, tokenize


def parse_query(text: str) -> Query:
    """Return the syntax tree of a query.

    Parameters
    ----------
    text
        One query; a semicolon at its end is allowed.

    Raises
    ------
    PatternSyntaxError
        If it is not a query.
    NotSupportedError
        If it is one that Chronicle cannot answer yet.

    Examples
    --------
    >>> from replay.language.syntax import streams_of
    >>> streams_of(parse_query("SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN (A B+))"))
    ('s',)
    """
    cursor = Cursor(text)
    _refuse_other_languages(cursor)
    query: Query
    if cursor.token.key == "RETURN":
        from replay.language.return_form import parse_return_form  # no other query needs it

        query = parse_return_form(cursor, _source_of_form)
    else:
        query = _create(cursor) if cursor.token.key == "CREATE" else _parse_select(cursor)
    cursor.accept(";")
    if cursor.token.kind != END:
        if cursor.token.key in (*_NOT_YET, "JOIN"):
            after = " after MATCH_RECOGNIZE (…)" if isinstance(query, PatternQuery) else ""
            raise cursor.not_supported(f"{cursor.token.key}{after}")
        raise cursor.error(f"expected the end of the query, found {describe(cursor.token)}")
    return query


def _refuse_other_languages(cursor: Cursor) -> None:
    first = cursor.token
    keys = {token.key for token in cursor.tokens}
    if first.kind == END:
        raise cursor.error("the query is empty; it begins with SELECT")
    if first.key == "RETURN":
        return
    if first.key == "PATTERN":
        raise cursor.not_supported("a pattern over imprecise timestamps (PATTERN SEQ … RETURN …)")
    if first.key not in (*_QUERY_WORDS, "CREATE"):
        raise cursor.error(f"a query begins with SELECT, found {describe(first)}")
    if not keys & {"MATCH_RECOGNIZE", "MATCH_SITUATIONS"}:
        _refuse_misspelt(cursor)


def in_sql(text: str) -> str | None:
    """Return the SQL that a query of the form ``RETURN …`` stands for; None for any other text."""
    written: list[str] = []

    def source(cursor: Cursor) -> StreamName | Subquery:
        at = cursor.token.at
        parsed = _source_of_form(cursor)
        written.append(text[at : cursor.token.at].strip())
        return parsed

    if tokenize(text, is_foreign=True)[0].key != "RETURN":
        return None
    from replay.language.return_form import parse_return_form, printed

    query = parse_return_form(Cursor(text), source)
    return printed(query, written[0])


def _source_of_form(cursor: Cursor) -> StreamName | Subquery:
    """Parse what stands behind FROM in a query that begins with RETURN; it has no alias."""
    return _subquery(cursor) if cursor.token.key == "(" else _stream(cursor)


def _create(cursor: Cursor) -> CreateStream:
    at = cursor.advance().at
    for word in ("TABLE", "VIEW", "OR"):
        if cursor.token.key == word:
            raise cursor.not_supported(f"CREATE {word}", remedy="write CREATE STREAM … AS SELECT …")
    cursor.expect("STREAM", "after CREATE")
    name = cursor.identifier("a name for the stream")
    cursor.expect("AS", f"and a query after CREATE STREAM {name.name}")
    if cursor.token.key not in _QUERY_WORDS:
        raise cursor.error(f"expected SELECT, found {describe(cursor.token)}")
    return CreateStream(name, _parse_select(cursor), at=at)


def _refuse_misspelt(cursor: Cursor) -> None:
    """Refuse a misspelt MATCH_RECOGNIZE or MATCH_SITUATIONS: a word like it before a "("."""
    for word, after in pairwise(cursor.tokens):
        if word.kind == NAME and after.key == "(":
            hint = did_you_mean(word.text, ["MATCH_RECOGNIZE", "MATCH_SITUATIONS"])
            if hint:
                raise cursor.error(f"there is no {word.key}{hint}", word.at)


# ---------------------------------------------------------------------------------------------
# SELECT


def _parse_select(cursor: Cursor) -> SelectQuery | PatternQuery:
    """Parse a query from SELECT on, as far as it goes."""
    with cursor.queries.scope():
        if cursor.accept("WITH"):
            _named_queries(cursor)
        return _select(cursor)


def _named_queries(cursor: Cursor) -> None:
    """Parse ``name AS (query), …``; each can name those before it."""
    if cursor.token.key == "RECURSIVE":
        raise cursor.not_supported("WITH RECURSIVE")
    names: list[str] = []
    while True:
        name = cursor.identifier("a name for a query")
        if resolve(name, names) is not None:
            raise cursor.error(f"two queries of WITH are named '{name.name}'", name.at)
        names.append(name.name)
        if cursor.token.key == "(":
            raise cursor.not_supported("a list of columns in WITH", remedy="name them in SELECT")
        cursor.expect("AS", f"and a query in parentheses after {name.name}")
        opening = cursor.expect("(", f"and a query after {name.name} AS")
        cursor.queries.define(name.name, lambda: _parse_select(cursor))
        _close(cursor, opening, "the query")
        if not cursor.accept(","):
            return


_QUERY_WORDS = ("SELECT", "WITH", "FROM")
"""What a query that gives rows begins with."""


def _situation_query(cursor: Cursor) -> SelectQuery:
    """Parse ``FROM source clauses``, all columns of a temporal pattern."""
    at = cursor.advance().at
    source = _one_source(cursor)
    if cursor.token.key in ("MATCH_SITUATIONS", "MATCH_RECOGNIZE"):
        raise cursor.error(f"{cursor.token.key} (…) stands behind a SELECT; write SELECT * FROM …")
    from replay.language.situation_parser import parse_situation_clauses  # no other needs it

    clauses = parse_situation_clauses(cursor, at)
    if cursor.token.key in _CLAUSES:
        raise cursor.error(
            f"{_CLAUSES[cursor.token.key][0]} stands around a temporal pattern: write SELECT … "
            "FROM source MATCH_SITUATIONS (…) and it behind"
        )
    reference = Situations(_situation_source(cursor, source), clauses, at=at)
    return SelectQuery(_every(at), reference, at=at)


def _situation_source(
    cursor: Cursor, source: StreamName | Subquery | WindowCall
) -> StreamName | Subquery:
    if isinstance(source, WindowCall):
        raise cursor.not_supported(
            f"a temporal pattern over {source.function}(…)",
            source.at,
            "match a subquery that aggregates its windows",
        )
    return source


def parse_clauses_of_match(
    cursor: Cursor,
) -> tuple[syntax.MatchRecognize, tuple[syntax.SelectItem, ...]]:
    """Parse ``( … )`` behind MATCH_RECOGNIZE as `parse_match_recognize` does, subqueries, too."""
    outside, cursor.scalar_query = cursor.scalar_query, _scalar_query
    clauses = parse_match_recognize(cursor)
    cursor.scalar_query = outside
    return clauses


def _select(cursor: Cursor) -> SelectQuery | PatternQuery:
    if cursor.token.key == "FROM":
        return _situation_query(cursor)
    at = cursor.expect("SELECT").at
    distinct, select = _select_list(cursor)
    source = _references(cursor) if cursor.accept("FROM") else OneRow(at=at)
    if cursor.token.key != "MATCH_RECOGNIZE":
        _check_windows_alone(cursor, source)
        clauses = _parse_clauses(cursor, "SELECT" if isinstance(source, OneRow) else "FROM")
        return SelectQuery(select, source, distinct=distinct, **clauses, at=at)
    matches = _matches(cursor, source, at)
    named = _aliased(cursor, Subquery(matches, at=at))
    joined = parse_joins(cursor, named, _joined_table)
    clauses = _parse_clauses(cursor, "MATCH_RECOGNIZE (…)")
    if joined is named and not named.columns:
        return replace(matches, select=select, alias=named.alias, distinct=distinct, **clauses)
    return SelectQuery(select, joined, distinct=distinct, **clauses, at=at)


def _matches(cursor: Cursor, source: Reference, at: int) -> PatternQuery:
    """Parse MATCH_RECOGNIZE behind its source, as the query of all columns of its answer."""
    pattern_source, windows = _pattern_source(cursor, source)
    cursor.advance()
    recognize, computed = parse_clauses_of_match(cursor)
    if computed:
        pattern_source = _with_columns(pattern_source, computed)
    return PatternQuery(_every(at), pattern_source, recognize, None, windows, at=at)


def _every(at: int) -> tuple[syntax.SelectItem, ...]:
    """Return the columns of ``SELECT *``."""
    return (syntax.SelectItem(syntax.Star(at=at), at=at),)


def _with_columns(
    source: StreamName | Subquery, computed: tuple[syntax.SelectItem, ...]
) -> Subquery:
    """Return a source with further columns, called as it is."""
    alias = source.name if source.alias is None and isinstance(source, StreamName) else source.alias
    below = SelectQuery((*_every(source.at), *computed), source, at=source.at)
    return Subquery(below, alias, at=source.at)


def _pattern_source(
    cursor: Cursor, source: Reference
) -> tuple[StreamName | Subquery, WindowCall | None]:
    """Return what MATCH_RECOGNIZE reads, and in which windows; refuse what it cannot."""
    match source:
        case StreamName() | Subquery():
            return source, None
        case WindowCall(function, inner) if function in OF_PATTERNS:
            alias = inner.alias if source.alias is None else source.alias
            return replace(inner, alias=alias), source
        case WindowCall():
            known = ", ".join(sorted(OF_PATTERNS))
            raise cursor.not_supported(
                f"MATCH_RECOGNIZE over {source.function}(…)",
                source.at,
                f"there are {known}; or match a subquery that aggregates its windows",
            )
        case Situations():
            raise cursor.not_supported(
                "MATCH_RECOGNIZE over MATCH_SITUATIONS (…)",
                source.at,
                "match a subquery: FROM (SELECT * FROM … MATCH_SITUATIONS (…)) MATCH_RECOGNIZE (…)",
            )
    raise cursor.not_supported(
        "MATCH_RECOGNIZE over a join", source.at, "match a subquery that joins"
    )


# ---------------------------------------------------------------------------------------------
# Clauses


def _select_list(cursor: Cursor) -> tuple[bool, tuple[syntax.SelectItem, ...]]:
    """Parse what stands between SELECT and FROM; the first value tells whether it is DISTINCT."""
    if cursor.at("DISTINCT", "ON", "("):
        raise cursor.not_supported("SELECT DISTINCT ON (…)")
    distinct = accept_distinct(cursor, (",", "FROM", ".", "AS"))
    return distinct, cursor.separated(_select_item)


def _parse_clauses(cursor: Cursor, after: str) -> dict[str, Any]:
    """Return the clauses that are there, by their fields in both kinds of query.

    What they stand ``after`` is for errors.
    """
    values: dict[str, Any] = {}
    given: list[str] = []
    while cursor.token.key in _CLAUSES:
        name, field, parse = _CLAUSES[cursor.token.key]
        if {name, *given} >= {"LIMIT", "FETCH"}:
            raise cursor.error("LIMIT and FETCH say the same; write one of them")
        cursor.begin_clause(name, given, _RANKS, f"after {after}")
        values[field] = parse(cursor)
    return values


def _select_item(cursor: Cursor) -> syntax.SelectItem:
    token = cursor.token
    if token.key in ("FROM", ",", ")", ";") or token.kind == END:
        raise cursor.error(f"expected a column of the answer or *, found {describe(token)}")
    expression = accept_star(cursor) or parse_expression(cursor)
    alias = None
    if cursor.accept("AS") or _is_alias(cursor):
        if isinstance(expression, syntax.Star):
            raise cursor.error("* stands for several columns and cannot take a name", token.at)
        alias = cursor.identifier("a name after AS")
    if cursor.token.key not in _BEHIND_ITEMS and cursor.token.kind != END:
        raise cursor.error(f"expected ',' and a column, or FROM, found {describe(cursor.token)}")
    return syntax.SelectItem(expression, alias, at=token.at)


def _is_alias(cursor: Cursor) -> bool:
    """Tell whether a name without AS comes next; a word of a clause is one before ',' or FROM."""
    token, following = cursor.token, cursor.peek()
    if token.kind != NAME or token.key == "FROM":
        return token.kind == QUOTED
    hint = did_you_mean(token.key, ["FROM"]) if following.kind in (NAME, QUOTED) else ""
    if hint and following.key not in _BEHIND_ITEMS:
        raise cursor.error(f"expected ',' and a column, or FROM, found '{token.text}'{hint}")
    return token.key not in _CLAUSES or following.key in (",", "FROM")


def _group_by(cursor: Cursor) -> tuple[Expression, ...]:
    cursor.expect("BY", "after GROUP")
    keys: list[Expression] = []
    for key in cursor.separated(_grouping):
        keys += key.parts if isinstance(key, syntax.RowValue) else (key,)
    return tuple(keys)


def _grouping(cursor: Cursor) -> Expression:
    following = cursor.peek().key
    if cursor.token.key in ("ROLLUP", "CUBE") and following == "(":
        raise cursor.not_supported(f"GROUP BY {cursor.token.key} (…)")
    if cursor.token.key == "GROUPING" and following == "SETS":
        raise cursor.not_supported("GROUP BY GROUPING SETS (…)")
    if cursor.token.key == "ALL" and following not in (".", ","):
        raise cursor.not_supported("GROUP BY ALL", remedy="write the columns, or 1, 2, …")
    return parse_expression(cursor)


def _order_by(cursor: Cursor) -> tuple[syntax.OrderItem, ...]:
    cursor.expect("BY", "after ORDER")
    return cursor.separated(parse_order_item)


def _limit(cursor: Cursor) -> Expression | None:
    return None if cursor.accept("ALL") else parse_expression(cursor)


def _offset(cursor: Cursor) -> Expression:
    offset = parse_expression(cursor)
    if not cursor.accept("ROWS"):
        cursor.accept("ROW")
    return offset


def _fetch(cursor: Cursor) -> Expression:
    if not cursor.accept("NEXT"):
        cursor.expect("FIRST", "after FETCH, as in FETCH FIRST 10 ROWS ONLY")
    token = cursor.token
    is_one = token.key in ("ROW", "ROWS")
    limit = syntax.Number(1, at=token.at) if is_one else parse_expression(cursor)
    if not cursor.accept("ROW"):
        cursor.expect("ROWS", "as in FETCH FIRST 10 ROWS ONLY")
    if cursor.token.key == "WITH":
        raise cursor.not_supported("FETCH … WITH TIES")
    cursor.expect("ONLY", "as in FETCH FIRST 10 ROWS ONLY")
    return limit


_CLAUSES: dict[str, tuple[str, str, Callable[[Cursor], object]]] = {
    "WHERE": ("WHERE", "where", parse_expression),
    "GROUP": ("GROUP BY", "group_by", _group_by),
    "HAVING": ("HAVING", "having", parse_expression),
    "ORDER": ("ORDER BY", "order_by", _order_by),
    "LIMIT": ("LIMIT", "limit", _limit),
    "OFFSET": ("OFFSET", "offset", _offset),
    "FETCH": ("FETCH", "limit", _fetch),
}
"""By its first word: how a clause is called, its field, and how the rest of it is parsed."""

_BEHIND_ITEMS = frozenset({",", "FROM", ")", ";", *_CLAUSES})
"""What comes behind a column of the answer; it may also be the end."""

_RANKS = {
    "WHERE": 0,
    "GROUP BY": 1,
    "HAVING": 2,
    "ORDER BY": 3,
    "LIMIT": 4,
    "OFFSET": 4,
    "FETCH": 4,
}
"""The order of the clauses; those of one rank stand in any."""


# ---------------------------------------------------------------------------------------------
# What stands after FROM


_NOT_YET = ("WINDOW", "QUALIFY", "UNION", "INTERSECT", "EXCEPT")
"""Clauses of SQL after FROM that are not in the language yet."""

_NO_ALIAS = frozenset(
    {*_CLAUSES, *_NOT_YET, *JOIN_WORDS}
    | {"ON", "USING", "WITHIN", "MATCH_RECOGNIZE", "MATCH_SITUATIONS", "PARTITION"}
    | {"DEFINE", "VALID", "EMIT", "RETURN"}
)
"""Words after a source that are no alias of it."""

Source = TypeVar("Source", bound=StreamName | Subquery | Situations)


def _references(cursor: Cursor) -> Reference:
    """Parse what a query reads, joins included."""
    return parse_joins(cursor, _table(cursor), _joined_table)


def _joined_table(cursor: Cursor) -> StreamName | Subquery | WindowCall | Situations:
    """Parse what is joined, with its alias: a source, or what matches a row pattern in it."""
    source, at = _table(cursor), cursor.token.at
    if cursor.token.key != "MATCH_RECOGNIZE":
        return source
    return _aliased(cursor, Subquery(_matches(cursor, source, at), at=at))


def _parse_alias(cursor: Cursor) -> Identifier | None:
    """Parse ``AS name`` or ``name``, if it is there."""
    if cursor.accept("AS"):
        return cursor.identifier("a name after AS")
    token = cursor.token
    if token.kind == QUOTED or (token.kind == NAME and token.key not in _NO_ALIAS | RESERVED):
        return cursor.identifier("an alias")
    return None


def _table(cursor: Cursor) -> StreamName | Subquery | WindowCall | Situations:
    """Parse a source with its alias, and MATCH_SITUATIONS over it if it is there."""
    source = _one_source(cursor)
    if cursor.token.key != "MATCH_SITUATIONS":
        return source
    at = cursor.advance().at
    over = _situation_source(cursor, source)
    from replay.language.situation_parser import parse_match_situations

    clauses = parse_match_situations(cursor)
    return _aliased(cursor, Situations(over, clauses, at=at))


def _one_source(cursor: Cursor) -> StreamName | Subquery | WindowCall:
    token = cursor.token
    if token.key == "TABLE" and cursor.peek().key == "(":
        return _aliased_windows(cursor, _window_table(cursor))
    if token.key in WINDOW_ARGUMENTS and cursor.peek().key == "(":
        return _aliased_windows(cursor, _window_call(cursor))
    if token.key == "(":
        return _aliased(cursor, _subquery(cursor))
    return _aliased(cursor, _stream(cursor))


def _aliased(cursor: Cursor, source: Source) -> Source | Subquery:
    """Parse ``[AS] alias [(column, …)]``, if it is there; with columns it is a subquery."""
    alias = _parse_alias(cursor)
    if alias is None:
        return source
    if cursor.token.key != "(":
        return replace(source, alias=alias)
    names = _names(cursor)
    if isinstance(source, Subquery):
        return replace(source, alias=alias, columns=names)
    return Subquery(SelectQuery(_every(source.at), source, at=source.at), alias, names, at=alias.at)


def _aliased_windows(cursor: Cursor, windows: WindowCall) -> WindowCall:
    alias = _parse_alias(cursor)
    if cursor.token.key == "(" and alias is not None:
        raise cursor.not_supported(
            f"a list of columns for {windows.function}(…)", remedy="name them in SELECT"
        )
    return windows if alias is None else replace(windows, alias=alias)


def _stream(cursor: Cursor) -> StreamName | Subquery:
    """Parse the name of a stream, or of a query that WITH names."""
    at = cursor.token.at
    name = cursor.identifier("the name of a stream")
    if cursor.token.key == ".":
        raise cursor.not_supported(
            "a stream name with a dot", remedy=f'quote it as "{name.name}.…"'
        )
    if cursor.token.key == "(":
        if hint := did_you_mean(name.name.upper(), WINDOW_ARGUMENTS):
            raise cursor.error(f"there is no window function {name.name}{hint}", at)
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


def _subquery(cursor: Cursor) -> Subquery:
    opening = cursor.expect("(")
    if cursor.token.key not in _QUERY_WORDS:
        what = "a subquery in FROM begins with SELECT"
        if cursor.token.key == "(" or cursor.peek().key in ("JOIN", "LEFT", "ASOF"):
            raise cursor.not_supported("a join in parentheses")
        raise cursor.error(f"{what}, found {describe(cursor.token)}")
    with cursor.queries.subquery():
        _check_size(cursor, opening.at)
        query = _parse_select(cursor)
    _close(cursor, opening, "the subquery")
    return Subquery(query, at=opening.at)


def _scalar_query(cursor: Cursor) -> syntax.ScalarQuery | Expression:
    """Parse a subquery that is a value; there is none inside of it but in its own patterns.

    Without FROM it has one row: ``(SELECT x)`` is x.
    """
    outside, cursor.scalar_query = cursor.scalar_query, None
    if not _has_sources(cursor):
        value = _value_of_select(cursor)
        cursor.scalar_query = outside
        return value
    try:
        subquery = _subquery(cursor)
    except NotSupportedError as error:
        if "WITH" not in error.message:  # a subquery inside says it already
            error.message += "; in MATCH_RECOGNIZE, write such a query in WITH and read that"
            error.move_to(cursor.text, error.line, error.column)
        raise
    cursor.scalar_query = outside
    return syntax.ScalarQuery(subquery.query, at=subquery.at)


def _has_sources(cursor: Cursor) -> bool:
    """Tell whether the query in parentheses that begins here has a FROM of its own."""
    depth, before = 0, cursor.token
    for token in cursor.tokens[cursor.index :]:
        depth += (token.key == "(") - (token.key == ")")
        if token.key in ("WITH", "FROM") and depth == 1 and before.key != "DISTINCT":
            return True
        if depth == 0:
            break
        before = token
    return False


def _value_of_select(cursor: Cursor) -> Expression:
    """Parse ``(SELECT x)``."""
    opening = cursor.expect("(")
    cursor.expect("SELECT")
    value = parse_expression(cursor)
    for node in syntax.nodes_of(value):
        if isinstance(node, syntax.Function) and node.name.name.upper() in AGGREGATES:
            raise cursor.error("an aggregate needs rows: write SELECT … FROM stream", node.at)
    if cursor.accept("AS"):
        cursor.identifier("a name after AS")
    _close(cursor, opening, "the value of this SELECT")
    return value


def _names(cursor: Cursor) -> tuple[Identifier, ...]:
    """Parse ``(a, b)``, names for columns."""
    return parse_names(cursor, "a name for a column")


def _close(cursor: Cursor, opening: Token, what: str) -> None:
    """Step over the ``)`` after ``what``."""
    if cursor.closes(opening):
        return
    if cursor.token.key in _NOT_YET:
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
    origin: Expression | FirstEvent | None = None
    n_positional: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """What the function can take, in order."""
        origin = ("ORIGIN", "TIMEZONE") if self.function in WITH_ORIGIN else ()
        return (*WINDOW_ARGUMENTS[self.function], *origin)


def _window_table(cursor: Cursor) -> WindowCall:
    opening = cursor.tokens[cursor.index + 1]
    cursor.accept("TABLE", "(")
    if cursor.token.key not in WINDOW_ARGUMENTS or cursor.peek().key != "(":
        known = ", ".join(WINDOW_ARGUMENTS)
        raise cursor.error(
            f"expected a window function ({known}) after TABLE (, found {describe(cursor.token)}"
            f"{did_you_mean(cursor.token.key, WINDOW_ARGUMENTS)}"
        )
    call = _window_call(cursor)
    _close(cursor, opening, f"{call.function}(…)")
    return call


def _check_windows_alone(cursor: Cursor, source: Reference) -> None:
    """Check windows in which no pattern is matched: they have DESCRIPTOR, and do not slide."""
    if not isinstance(source, WindowCall):
        return
    if source.function == "SLIDING":
        raise cursor.not_supported(
            "SLIDING without MATCH_RECOGNIZE", source.at, "write HOP, with a slide"
        )
    if source.time is None and source.function not in OF_ROWS:
        raise cursor.error(
            f"{_form(source.function)}; DESCRIPTOR with the time column is missing", source.at
        )


def _window_call(cursor: Cursor) -> WindowCall:
    function = cursor.advance()
    opening = cursor.expect("(")
    if cursor.token.key == "DATA":
        cursor.accept("DATA", "=>")
    source = _window_source(cursor, function.key)
    partition_by = _partition_by(cursor)
    arguments = _Arguments(function.key)
    while cursor.accept(","):
        _argument(cursor, arguments)
    _close(cursor, opening, f"the arguments of {function.key}")
    for name in WINDOW_ARGUMENTS[function.key]:
        if name not in arguments.named:
            raise cursor.error(f"{_form(function.key)}; the {name.lower()} is missing", function.at)
    return WindowCall(
        function.key,
        replace(source, alias=None),
        partition_by,
        arguments.time,
        tuple(arguments.named[name] for name in WINDOW_ARGUMENTS[function.key]),
        arguments.origin,
        arguments.named.get("TIMEZONE"),
        source.alias,
        at=function.at,
    )


def _form(function: str) -> str:
    return f"{function} is written {window_form(function)}"


def _window_source(cursor: Cursor, function: str) -> StreamName | Subquery:
    if not cursor.accept("TABLE"):
        raise cursor.error(f"{_form(function)}; expected TABLE, found {describe(cursor.token)}")
    if cursor.token.key == "(":
        return _subquery(cursor)
    return _stream(cursor)


def _partition_by(cursor: Cursor) -> tuple[Identifier, ...]:
    """Parse ``PARTITION BY k`` or ``PARTITION BY (k, l)``, if it is there."""
    if not cursor.accept("PARTITION"):
        return ()
    cursor.expect("BY", "after PARTITION")
    what = "a column to partition by"
    if cursor.token.key == "(":
        opening = cursor.advance()
        names = cursor.separated(lambda inside: inside.identifier(what))
        _close(cursor, opening, "the columns of PARTITION BY")
        return names
    columns = [cursor.identifier(what)]
    # Arguments are constants, so a plain name is one more column.
    while cursor.peek().kind in (NAME, QUOTED) and cursor.peek(2).key in (",", ")"):
        cursor.expect(",")
        columns.append(cursor.identifier(what))
    return tuple(columns)


def _argument(cursor: Cursor, arguments: _Arguments) -> None:
    token = cursor.token
    is_named = cursor.peek().key == "=>" or token.key in ("ORIGIN", "TIMEZONE")
    named = token.key if is_named else None
    if named is not None:
        cursor.advance()
        cursor.accept("=>")
    if cursor.at("DESCRIPTOR", "(") and named in (None, "TIMECOL"):
        _descriptor(cursor, arguments)
        return
    name = named
    if name is None:
        if arguments.n_positional == len(arguments.names):
            if arguments.function == "SLIDING":
                raise cursor.error(
                    "SLIDING has one argument, its size: its windows slide with every event; "
                    "write HOP for a slide of your own",
                )
            raise cursor.error(f"{_form(arguments.function)}; this is one argument too many")
        name = arguments.names[arguments.n_positional]
        arguments.n_positional += 1
    if name not in arguments.names:
        known = ", ".join(arguments.names)
        raise cursor.error(
            f"{arguments.function} has no argument {token.text}; it has {known}", token.at
        )
    if name in arguments.named or (name == "ORIGIN" and arguments.origin is not None):
        raise cursor.error(f"the {name.lower()} of {arguments.function} is given twice", token.at)
    if name == "ORIGIN":
        at = cursor.token.at
        is_first = cursor.accept("FIRST", "EVENT")
        arguments.origin = FirstEvent(at=at) if is_first else parse_expression(cursor)
    else:
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
    _close(cursor, opening, "the time column, the only one of DESCRIPTOR")
