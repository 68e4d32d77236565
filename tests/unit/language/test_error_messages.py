"""The full message of wrong and of unsupported queries, from hand-written golden files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from replay.errors import NotSupportedError, QueryError
from replay.language import bind_query, parse_query

GOLDEN = Path(__file__).parents[2] / "golden" / "queries"
OPENING = "SELECT * FROM crimes MATCH_RECOGNIZE (ORDER BY ts MEASURES A.id AS id "

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "id": pa.int64(),
        "district": pa.dictionary(pa.int32(), pa.string()),
        "beat": pa.int32(),
        "speed": pa.float32(),
        "arrest": pa.bool_(),
        "day": pa.date32(),
        "seen": pa.timestamp("us", "UTC"),
        "lasted": pa.duration("us"),
        "Beat2": pa.int64(),
        "beat2": pa.int64(),
        "tags": pa.list_(pa.string()),
        "uid": pa.uint64(),
    }
)


def cases(file: str):
    text = (GOLDEN / file).read_text(encoding="utf-8")
    for case in text.split("\n== ")[1:]:
        title, rest = case.split("\n", 1)
        query, expected = rest.split("\n--\n")
        yield pytest.param(expand(query), expected.rstrip("\n"), id=title)


def expand(query: str) -> str:
    """Write out the braces around a query, which are those that begin it and close it last."""
    if not query.startswith("{"):
        return query
    inside, _, after = query[1:].rpartition("}")
    return f"{OPENING.rstrip() if inside.startswith(chr(10)) else OPENING}{inside}){after}"


def catalog(name: str) -> tuple[pa.Schema, str | None]:
    """Give every stream the same schema; nothing names the time of a table in memory."""
    return SCHEMA, None if name == "memory" else "ts"


def message_of(query: str) -> QueryError:
    with pytest.raises(QueryError) as raised:
        bind_query(parse_query(query), catalog, text=query)
    return raised.value


@pytest.mark.parametrize(("query", "expected"), list(cases("errors.txt")))
def test_wrong_query_says_what_is_wrong_and_where(query, expected):
    error = message_of(query)
    assert str(error) == expected
    assert not isinstance(error, NotSupportedError)


@pytest.mark.parametrize(("query", "expected"), list(cases("not_supported.txt")))
def test_unsupported_query_names_what_is_missing(query, expected):
    error = message_of(query)
    assert str(error) == expected
    assert isinstance(error, NotSupportedError)
