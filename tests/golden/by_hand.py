"""Answers worked out by hand, held against the product and against the oracle alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import replay
from replay.language import bind, parse_query
from tests.oracles.matcher import match_rows


def trace(letters: str) -> pa.Table:
    """Return a stream of one event per word, ``a1 b2``: its letter ``k`` and its time ``t``.

    A word without a number is one step of time later than the one before.
    """
    rows: list[dict[str, Any]] = []
    for word in letters.split():
        t = int(word[1:]) if word[1:] else (rows[-1]["t"] + 1 if rows else 1)
        rows.append({"t": t, "k": word[0], "name": word})
    return pa.Table.from_pylist(
        rows, pa.schema([("t", pa.int64()), ("k", pa.string()), ("name", pa.string())])
    )


def numbers(values: Sequence[float | None], **columns: Sequence[Any]) -> pa.Table:
    """Return a stream with a value ``v`` at t = 1, 2, …"""
    return pa.table({"t": range(1, len(values) + 1), "v": values, **columns})


def letter(*symbols: str) -> str:
    """Return DEFINE of symbols that stand for events of their own letter, in lower case."""
    return "DEFINE " + ", ".join(f"{symbol} AS k = '{symbol.lower()}'" for symbol in symbols)


def check(
    table: pa.Table, recognize: str, expected: list[tuple[Any, ...]], outer: str = ""
) -> None:
    """Hold the answers of product and oracle against the expected rows, in their order."""
    sql = f"SELECT * FROM s MATCH_RECOGNIZE ({recognize}){outer}"
    bound = bind(parse_query(sql), table.schema, time="t", text=sql)
    assert [tuple(row.values()) for row in match_rows(table.to_pylist(), bound)] == expected
    answer = replay.query({"s": table}, sql).table
    assert [tuple(row.values()) for row in answer.to_pylist()] == expected
