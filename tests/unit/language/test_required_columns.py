"""Which columns a query reads of what stands after its FROM."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replay.language import bind_query, parse_query
from replay.language.required_columns import columns_of_query

SCHEMA = pa.schema([(name, pa.int64()) for name in ("t", "a", "b", "k")])


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        pytest.param("SELECT a FROM s WHERE b > 0 ORDER BY k", "abk", id="a filter"),
        pytest.param("SELECT SUM(a) FROM s WHERE b > 0", "ab", id="an aggregate, but no time"),
        pytest.param("SELECT k, COUNT(*) FROM s GROUP BY k", "k", id="a key"),
        pytest.param(
            "SELECT window_start, SUM(a) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 5)) "
            "GROUP BY window_start, window_end",
            "at",
            id="windows of time",
        ),
        pytest.param(
            "SELECT window_start FROM TABLE(HOP_ROWS(TABLE s PARTITION BY (k), DESCRIPTOR(t), 1, 2)"
            ") GROUP BY window_start, window_end, k",
            "kt",
            id="windows of rows of a key",
        ),
        pytest.param(
            "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES A.a AS m "
            "PATTERN (A B) DEFINE B AS B.b > 0)",
            "abkt",
            id="a pattern",
        ),
    ],
)
def test_a_query_reads_the_columns_it_needs(sql: str, read: str) -> None:
    bound = bind_query(parse_query(sql), lambda _: (SCHEMA, "t"), text=sql, params={})
    assert columns_of_query(bound) == tuple(read)
