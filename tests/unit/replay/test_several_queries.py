"""Several queries at once read one version of each stream."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from chronicle import Store, create_store, open_store
from replay.query import answers_in_pieces
from tests.helpers import fill_stream
from tests.strategies import SmallStream


def filled(path: Path) -> Store:
    """Make a store whose stream ``s`` has 40 events in ten blocks of one file."""
    rows = [{"t": t, "a": t % 5, "x": t / 4, "s": "quiet", "f": None, "k": None} for t in range(40)]
    store = create_store(path)
    fill_stream(store, "s", SmallStream(rows, block_events=4, file_events=64, fan_out=4, cuts=()))
    return store


def test_what_comes_between_two_answers_is_in_none_of_them(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    sqls = ("SELECT COUNT(*) AS n FROM s", "SELECT MAX(x) OVER () AS n FROM s LIMIT 1")
    found = []
    for answer in answers_in_pieces(store, sqls):
        found += pa.concat_tables(answer.tables)["n"].to_pylist()
        other = open_store(store.path).stream("s")
        late = {"t": [99], "a": [1], "x": [99.0], "s": ["loud"], "f": [None], "k": [None]}
        other.append(pa.table(late, schema=other.schema))
    assert found == [40, 39 / 4]
