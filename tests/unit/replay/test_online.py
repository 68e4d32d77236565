"""Queries over events that come in: when rows come out, what is kept, what is refused."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pyarrow as pa
import pytest

import replay
from chronicle.errors import SchemaError
from replay.engines.input_buffer import InputBuffer
from replay.errors import QueryError, SkipError
from replay.expressions.columns import CHUNKS_MAX
from replay.operators.packing import pack, unpack

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int32()), ("s", pa.string())])


def recognize(pattern: str, define: str, measures: str = "FIRST(t) AS u", more: str = "") -> str:
    return (
        f"FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES {measures} {more} PATTERN ({pattern}) "
        f"DEFINE {define})"
    )


PAIR = recognize("A B", "A AS a = 1, B AS a = 2", "A.t AS u, B.t AS v")


def events(*rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(("t", "a", "s"), (*row, None), strict=False)) for row in rows], schema=SCHEMA
    )


def query(inner: str = PAIR, head: str = "*", tail: str = "") -> replay.OnlineQuery:
    return replay.online(f"SELECT {head} {inner} {tail}", SCHEMA, time="t")


def test_match_comes_with_its_last_row() -> None:
    pair = query()
    assert pair.push(events((1, 1))).to_pylist() == []
    assert pair.push(events((2, 2), (3, 1))).to_pylist() == [{"u": 1, "v": 2}]
    assert pair.finish().to_pylist() == []


def test_greedy_repetition_is_certain_once_it_ends_or_the_stream_does() -> None:
    runs = query(recognize("A+", "A AS a = 1", "FIRST(t) AS u, LAST(t) AS v"))
    assert runs.push(events((1, 1), (2, 1))).to_pylist() == []
    assert runs.push(events((3, 1), (4, 0), (5, 1))).to_pylist() == [{"u": 1, "v": 3}]
    assert runs.finish().to_pylist() == [{"u": 5, "v": 5}]


def test_neighbour_that_a_measure_reads_is_waited_for() -> None:
    after = query(recognize("A", "A AS a = 1", "t AS u, NEXT(t) AS n, PREV(t, 2) AS p"))
    assert after.push(events((1, 1), (2, 0), (3, 1))).to_pylist() == [{"u": 1, "n": 2, "p": None}]
    assert after.push(events((4, 1))).to_pylist() == [{"u": 3, "n": 4, "p": 1}]
    assert after.finish().to_pylist() == [{"u": 4, "n": None, "p": 2}]


def test_events_of_one_time_wait_for_the_next_where_further_columns_order_them() -> None:
    ordered = PAIR.replace("ORDER BY t", "ORDER BY t, a")
    tied = query(ordered)
    for row, found, n_kept in (
        ((1, 2), [], 1),
        ((1, 1), [], 2),
        ((2, 2), [{"u": 1, "v": 1}], 1),
        ((2, 1), [], 2),
    ):
        assert tied.push(events(row)).to_pylist() == found
        assert tied.n_kept == n_kept
        state, tied = tied.snapshot(), query(ordered)
        tied.restore(state)
    assert tied.finish().to_pylist() == [{"u": 2, "v": 2}]


def test_rows_are_kept_no_longer_than_the_window() -> None:
    gapped = query(recognize("A Z* B", "A AS a = 1, B AS a = 2", "A.t AS u", "").replace(
        "PATTERN (A Z* B)", "PATTERN (A Z* B) WITHIN 10"
    ))  # fmt: skip
    for t in range(0, 3000, 3):
        gapped.push(events((t, 1), (t + 1, 0)))
        assert gapped.n_kept <= 40
    assert gapped.n_kept > 2


@pytest.mark.parametrize("order_by", [(), ("a",)])
def test_rows_that_come_one_by_one_are_kept_in_few_pieces(order_by: tuple[str, ...]) -> None:
    buffer = InputBuffer(SCHEMA, "t", order_by)
    for t in range(10 * CHUNKS_MAX):
        buffer.append(events((t, t % 7)))
    buffer.close()
    kept = buffer.between(0, 10 * CHUNKS_MAX)
    assert kept.column("t").to_pylist() == list(range(10 * CHUNKS_MAX))
    assert kept.column("t").num_chunks <= CHUNKS_MAX


def test_limit_and_offset_count_over_all_pushes() -> None:
    rows = [(t, 1 + t % 2) for t in range(1, 20)]  # 2 1 2 1 …: a match each two rows
    for tail, expected in (("LIMIT 3", [2, 4, 6]), ("LIMIT 2 OFFSET 3", [8, 10])):
        cut = query(tail=tail)
        found = [row["u"] for row in rows for row in cut.push(events(row)).to_pylist()]
        assert found + [row["u"] for row in cut.finish().to_pylist()] == expected
        assert cut.n_kept <= 1


def test_outer_condition_and_projection_are_applied_as_rows_come() -> None:
    doubled = query(head="u * 2 AS w", tail="WHERE v > 3")
    assert doubled.push(events((1, 1), (2, 2), (3, 1), (4, 2))).to_pylist() == [{"w": 6}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t FROM s WHERE a > 1",
        "SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.a AS a PATTERN (A) DEFINE A AS a > 1)",
    ],
)
def test_a_time_column_that_is_none_is_refused_before_events_come(sql: str) -> None:
    schema = pa.schema([("t", pa.int64()), ("a", pa.int64()), ("s", pa.string())])
    with pytest.raises(SchemaError, match=r"no time column 'ts' \(columns: t, a, s\)"):
        replay.online(sql, schema, time="ts")
    with pytest.raises(SchemaError, match="time column 's' is string"):
        replay.online(sql, schema, time="s")
    with pytest.raises(TypeError, match=r"schema of 's'.*not str"):
        replay.online(sql, {"s": "t, a"}, time="t")


def test_events_that_do_not_fit_are_refused() -> None:
    pair = query()
    pair.push(events((5, 1)))
    with pytest.raises(SchemaError, match="go back in time"):
        pair.push(events((4, 1)))
    with pytest.raises(SchemaError, match="go back in time"):
        pair.push(events((7, 1), (6, 1)))
    with pytest.raises(SchemaError, match="no column 'a'"):
        pair.push(pa.table({"t": [6]}))
    with pytest.raises(SchemaError, match="a STRING"):
        pair.push(pa.table({"t": [6], "a": ["x"]}))
    with pytest.raises(SchemaError, match="1 events have no time"):
        pair.push(events((None, 1)))
    assert pair.push(events((5, 2))).to_pylist() == [{"u": 5, "v": 5}]
    pair.finish()
    with pytest.raises(QueryError, match="finished"):
        pair.push(events((9, 1)))
    with pytest.raises(QueryError, match="finished"):
        pair.finish()


def test_skip_that_cannot_go_on_ends_the_query_where_it_is_certain() -> None:
    again = query(recognize("A B?", "A AS a = 1, B AS a = 2", more="AFTER MATCH SKIP TO B"))
    assert again.push(events((1, 1), (2, 2), (3, 0))).num_rows == 1
    with pytest.raises(SkipError, match="seq 3"):
        again.push(events((4, 1), (5, 1)))


def test_limit_that_is_reached_with_the_match_a_skip_fails_for_is_no_error() -> None:
    inner = recognize("A B?", "A AS a = 1, B AS a = 2", more="AFTER MATCH SKIP TO B")
    again = query(inner, tail="LIMIT 1")
    assert again.push(events((4, 1), (5, 1))).to_pylist() == [{"u": 4}]
    assert again.push(events((6, 1), (7, 1))).num_rows == 0
    assert again.finish().num_rows == 0


def places_in(node: Any) -> list[tuple[Any, Any]]:
    """Return all (container, key) of a state."""
    found: list[tuple[Any, Any]] = []
    keys = list(node) if isinstance(node, dict) else range(len(node))
    for key in keys:
        found.append((node, key))
        if isinstance(node[key], dict | list):
            found += places_in(node[key])
    return found


@pytest.mark.parametrize("wrong", [None, -1, 10**30, "x", [], {}, b"x", [[[]]], {"part": 7}])
def test_a_snapshot_that_holds_no_state_is_one_stated_error_or_taken(wrong: Any) -> None:
    pair = query(tail="LIMIT 3")
    pair.push(events((1, 1), (2, 2), (3, 1)))
    n_places = len(places_in(unpack(pair.snapshot())))
    n_refused = 0
    for place in range(n_places):
        state = unpack(pair.snapshot())
        container, key = places_in(state)[place]
        container[key] = wrong
        # Packed with a right checksum.
        crafted = pack(state) if wrong != {"part": 7} else _repacked(state)
        try:
            query(tail="LIMIT 3").restore(crafted)
        except QueryError:
            n_refused += 1
    assert n_refused > n_places // 4


def _repacked(state: Any) -> bytes:
    """Pack a state that names a part which is not there."""
    schema = pa.ipc.open_stream(pack({})).schema
    head = json.dumps(
        {"query": str(state["query"]), "operator": {"part": 9, "as": "bytes"}}
    ).encode()
    metadata = {
        **schema.metadata,
        b"chronicle.state": head,
        b"chronicle.crc32": str(zlib.crc32(head)).encode(),
    }
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema.with_metadata(metadata)) as writer:
        writer.write_table(schema.with_metadata(metadata).empty_table())
    return bytes(sink.getvalue())
