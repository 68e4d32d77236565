"""Conditions of a row pattern, bound as those of queries are."""

from __future__ import annotations

import pyarrow as pa

from replay.language import bind, parse_query
from replay.language.bound import Expression


def condition_in(schema: pa.Schema, text: str) -> Expression | None:
    """Return the condition of B, the second of two symbols, over a stream ordered by ``t``."""
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A B) "
        f"DEFINE B AS {text})"
    )
    return bind(parse_query(sql), schema, time="t", text=sql).defines[1]
