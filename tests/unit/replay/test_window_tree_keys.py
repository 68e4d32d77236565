"""WHERE told by the values of each key: which blocks are read; the answer is that of a replay."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings, create_store
from tests.json_schema import violations

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "explain.schema.json").read_text())
N_BLOCKS = 40
ROWS = 10
"""Events of a block: six of ``a``, three of ``b`` and one without a key."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """x is about 10 for a, about 100 for b and 55 without a key, in every block; it rises by 0.1.

    ``n`` has six values in a block, as many as ``a`` has events, but only four of them are a's.
    """
    i = np.arange(N_BLOCKS * ROWS)
    place = i % ROWS
    keys = [["a", "a", "b", "a", "a", None, "b", "a", "b", "a"][p] for p in place]
    base = {"a": 10.0, "b": 100.0, None: 55.0}
    has_n = np.isin(place, [0, 1, 2, 3, 4, 6])
    table = pa.table(
        {
            "t": pa.array(i),
            "k": pa.array(keys),
            "x": pa.array([base[key] + at // ROWS / 10 for at, key in enumerate(keys)]),
            "n": pa.array(i % 7, mask=~has_n),
        }
    )
    settings = StreamSettings("t", block_events=ROWS, fan_out=4, key="k", derived=("by(x)",))
    store = create_store(tmp_path_factory.mktemp("keys") / "store")
    store.create_stream("s", table.schema, settings).append(table)
    return store


def by_key(where: str, windows: str = "TUMBLE(TABLE s, DESCRIPTOR(t), 100)") -> str:
    return (
        f"SELECT window_start, k, COUNT(*) AS c, SUM(x) AS total FROM TABLE({windows}) "
        f"WHERE {where} GROUP BY window_start, window_end, k"
    )


def told(store: Store, sql: str) -> tuple[int, dict[str, int]]:
    """Return blocks read by the tree and what WHERE says of them, once the answer is a replay's."""
    result = replay.query(store, sql, plan="tree")
    assert result.table.equals(replay.query(store, sql, plan="replay").table)
    assert violations(result.stats, SCHEMA) == []
    where: dict[str, int] = result.stats["where"]
    return result.actual.blocks_read, where


# The first and the last event of each key are looked for in the blocks they lie in: two here.
ENDS = 2


@pytest.mark.parametrize(
    ("where", "mixed"),
    [
        pytest.param("x > 50", N_BLOCKS, id="a fails, the others pass"),
        pytest.param("x < 50 OR x > 90", N_BLOCKS, id="two ranges"),
        pytest.param("x > 20 AND x < 90", N_BLOCKS, id="only events without a key"),
        pytest.param("k = 'b'", N_BLOCKS, id="the key itself"),
        pytest.param("k <> 'b' AND x > 0", N_BLOCKS, id="the key and a range"),
        pytest.param("x > 0", 0, id="all pass"),
    ],
)
def test_blocks_whose_keys_pass_or_fail_as_a_whole_are_not_read(
    store: Store, where: str, mixed: int
) -> None:
    blocks, classes = told(store, by_key(where))
    assert blocks == ENDS
    assert classes == {
        "all_pass": N_BLOCKS - mixed, "none_pass": 0, "must_read": 0, "by_key": mixed,
    }  # fmt: skip
    assert (
        f"those of some keys in {mixed}" in str(replay.explain(store, by_key(where))) or not mixed
    )


def test_blocks_are_read_where_the_range_ends_within_one_keys_values(store: Store) -> None:
    # x of a passes 12 in block 20: 10 + 2.0 is not above it, 10 + 2.1 is.
    assert told(store, by_key("x > 12"))[1]["must_read"] == 0
    narrow = "SELECT k, COUNT(*) AS c FROM s WHERE x + 0 > 12 GROUP BY k"
    assert told(store, narrow)[1]["must_read"] == N_BLOCKS


def test_a_block_that_is_cut_is_read_and_its_events_filtered(store: Store) -> None:
    # Slides of 55 cut every other border's block: 55, 165, 275, 385.
    sql = by_key("x > 50", "TUMBLE(TABLE s, DESCRIPTOR(t), 55)")
    assert told(store, sql)[0] == 4 + ENDS


def test_values_missing_of_other_keys_are_not_taken_for_ones_own(store: Store) -> None:
    # There are six values of n in a block and six events of a; yet two of a's lack one. No other
    # key's events pass.
    blocks, classes = told(store, by_key("n >= 0 AND x < 50"))
    assert classes["must_read"] == N_BLOCKS
    assert blocks >= N_BLOCKS


def test_aggregates_by_key_without_windows_read_nothing(store: Store) -> None:
    sql = "SELECT k, COUNT(*) AS c, MAX(x) AS most FROM s WHERE x > 50 GROUP BY k"
    assert told(store, sql)[0] == 0
    rows = replay.query(store, sql, plan="tree").table.to_pylist()
    assert rows == [
        {"k": "b", "c": 3 * N_BLOCKS, "most": 103.9}, {"k": None, "c": N_BLOCKS, "most": 58.9},
    ]  # fmt: skip
