"""Streams that statements beyond our language are asked of in these tests."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from chronicle import Store, StreamSettings, create_store
from tests.helpers import commit_table

TICKS = pa.table(
    {
        "t": range(1, 13),
        "symbol": list("AABAABABABAB"),
        "price": [10, 12, 50, 11, 9, 49, 13, 51, 14, 48, 12, 52],
        "volume": [100, 200, 10, 50, 300, 40, 150, 20, 100, 30, 90, 60],
    }
)
PLACES = pa.table({"symbol": ["A", "C"], "place": ["north", "south"]})

FALLS = """MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY t
  MEASURES FIRST(t) AS began, LAST(D.price) AS bottom, U.price AS top
  AFTER MATCH SKIP TO NEXT ROW PATTERN ( S D+ U )
  DEFINE D AS price < PREV(price), U AS price > PREV(price) )"""
"""Its matches over TICKS begin at 2 (bottom 9, top 13), 3 (49, 51), 4 (9, 13) and 8 (48, 52)."""


def ticks_store(path: Path) -> Store:
    """Return a store with TICKS as a stream, in blocks of three."""
    store = create_store(path)
    settings = StreamSettings("t", block_events=3)
    commit_table(store.create_stream("ticks", TICKS.schema, settings), TICKS)
    return store
