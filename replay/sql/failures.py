"""Errors of DuckDB as errors of queries: in our words, at their place in the original text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import chain

from chronicle.errors import ChronicleError, CorruptBlockError
from chronicle.foreign_text import first_line
from replay.errors import (
    BindError,
    LimitExceededError,
    PatternSyntaxError,
    QueryError,
    UnknownNameError,
)
from replay.language import parse_query
from replay.language.syntax import SymbolPattern, nodes_of
from replay.language.tokens import PlaceArguments, place
from replay.sql.apart import MADE_UP, Apart
from replay.sql.composed import Composed
from replay.sql.constructs import CALLABLE
from replay.sql.ordered import NUMBERED
from replay.sql.overrides import NO_VALUES

_NEAR = re.compile(r'syntax error at (?:or near "(.*)"|end of input)', re.DOTALL)
_NO_COLUMN = re.compile(
    r'(?:Referenced column "|not have a column named "|Cannot extract field \')(.+?)["\']'
)
_NO_FUNCTION = re.compile(r"Function with name (\S+) does not exist")
_NO_VALUE = re.compile(r'Macro "?(\w+)"?\(\) does not support the supplied arguments')
_NO_TYPE = re.compile(r"Type with name (\S+) does not exist")
_NO_TABLE = re.compile(r'Referenced table "(.+?)" not found')
_NO_OVERLOAD = re.compile(r"No function matches the given name and argument types '(.+?)'")
_NOT_GROUPED = re.compile(r'column "?(.+?)"? must appear in the GROUP BY clause')

_TYPES = ("BIGINT", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "INTEGER", "TIMESTAMP", "VARCHAR")
"""Those that are meant most often."""

_MEMORY = re.compile(
    r"out of memory|failed to allocate|could not allocate|maximum allowed vector size|"
    r"maximum total string size",
    re.IGNORECASE,
)


def told(
    error: Exception, apart: Apart, composed: Composed, columns: Iterable[str], shift: int = 0
) -> Exception:
    """Return an error of DuckDB as one of ours.

    ``composed`` is the statement it came from, ``columns`` those that DuckDB could have meant;
    places count ``shift`` signs before the statement.
    """
    if isinstance(error, ChronicleError):
        return error
    found = _parsed(str(error))
    message = str(found.get("exception_message", error)).strip()
    where: PlaceArguments = {"text": apart.text, "line": 0, "column": 0}
    if found.get("position") is not None:
        n_bytes = int(str(found["position"])) - shift
        at = len(composed.text.encode()[:n_bytes].decode(errors="ignore"))
        where = place(apart.text, composed.origin(at))
    if _MEMORY.search(message):
        return LimitExceededError(
            "memory", "DuckDB's part of the query needs more memory than it may have (--memory)"
        )
    hidden = _NO_VALUE.search(message)
    if hidden is not None and hidden[1] in NO_VALUES:
        # A word that is no column, for which DuckDB would call a function without arguments.
        words = (word for word in apart.words if word in hidden[1] and word not in columns)
        return UnknownNameError(
            "column", max(words, key=len, default=hidden[1]), candidates=columns, **where
        )
    named = _NO_TABLE.search(message)
    if named is not None and named[1].upper() in map(str.upper, _symbols(apart)):
        mistake: QueryError = BindError(
            f"'{named[1]}' is a symbol of PATTERN, and DuckDB, which runs what stands around "
            "MATCH_RECOGNIZE here, has columns alone; aggregate it in a subquery: FROM (SELECT "
            f"SUM({named[1]}.x) AS x FROM … MATCH_RECOGNIZE (…))",
            **where,
        )
    else:
        mistake = _in_our_words(_without_made_up(message, apart), where, columns)
    # Of some mistakes DuckDB does not say where they are; the others tell their place.
    return mistake if where["line"] else QueryError(str(mistake))


def _symbols(apart: Apart) -> set[str]:
    """Return the symbols of all patterns that Chronicle answers."""
    patterns = chain.from_iterable(nodes_of(parse_query(cut.query.text)) for cut in apart.cuts)
    return {node.symbol.name for node in patterns if isinstance(node, SymbolPattern)}


def _parsed(text: str) -> dict[str, object]:
    """Return what DuckDB tells as JSON; nothing where it tells a text."""
    begin = text.find("{")
    try:
        found = json.loads(text[begin:]) if begin >= 0 else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _in_our_words(message: str, where: PlaceArguments, columns: Iterable[str]) -> QueryError:
    found = _NEAR.search(message)
    if found is not None:
        what = f"'{found[1]}' does not fit here" if found[1] else "the query ends too early"
        return PatternSyntaxError(f"{what}: neither Chronicle nor DuckDB can read this", **where)
    found = _NO_COLUMN.search(message)
    if found is not None:
        return UnknownNameError("column", found[1], candidates=columns, **where)
    found = _NO_FUNCTION.search(message)
    if found is not None:
        listed = "docs/sql.md says which there are"
        return UnknownNameError(
            "function", found[1], candidates=sorted(CALLABLE), listed=listed, **where
        )
    found = _NO_TYPE.search(message)
    if found is not None:
        return UnknownNameError("type", found[1], candidates=_TYPES, **where)
    found = _NO_TABLE.search(message)
    if found is not None:
        names = re.findall(r'"(.+?)"', message[found.end() :])  # Candidate tables: "a", "b"
        return UnknownNameError("source or alias", found[1], candidates=names, **where)
    found = _NO_OVERLOAD.search(message)
    if found is not None:
        return BindError(f"no function takes these arguments: {found[1]}", **where)
    found = _NOT_GROUPED.search(message)
    if found is not None:
        return BindError(
            f"column '{found[1]}' is neither aggregated nor in GROUP BY; add it there, or use "
            f"ANY_VALUE({found[1]})",
            **where,
        )
    if "Could not convert string" in message or "invalid" in message:
        return BindError(f"a value cannot be converted: {_first_line(message)}", **where)
    return QueryError(f"DuckDB, which runs this part, says: {_first_line(message)}", **where)


def _first_line(message: str) -> str:
    line = first_line(message).strip()
    return re.sub(r"^[A-Z][A-Za-z ]*Error: ", "", line)


def _without_made_up(message: str, apart: Apart) -> str:
    """Return a message with the names that the user knows."""
    for read in apart.reads:
        name = read.name.replace("\\", r"\\")
        message = re.sub(rf"\b{read.relation}(?:{NUMBERED})?\b", name, message)
    return re.sub(rf"{MADE_UP}\d+\w*", "a part that Chronicle answers", message)


def damaged(error: Exception, names: Iterable[str]) -> CorruptBlockError | None:
    """Return an error that names one of these data files as damage to it."""
    text = str(error)
    path = next((name for name in names if name in text), None)
    return None if path is None else CorruptBlockError(path, _first_line(text))
