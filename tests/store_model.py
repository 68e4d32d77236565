"""A stream as a plain sorted list, and how to hold a store to it."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import replay
from chronicle import Store
from chronicle.maintenance.check import check_store
from chronicle.maintenance.finding import Finding, Severity
from chronicle.store import Stream
from indexing import RunWriter
from indexing.check import check_runs
from indexing.tables import indexed_attributes
from replay.errors import PlanError
from replay.language import bind, parse_query
from tests.oracles.matcher import match_rows
from tests.strategies import SCHEMA

Row = dict[str, Any]

PLANS = ("full", "tree", "all", "auto")

INDEXABLE = ("a", "x", "s", "f", "n", "s+a", "x+f+n")

NUMBERED = SCHEMA.append(pa.field("n", pa.int64()))
"""``n`` counts arrivals, so that the order of ties shows."""

PROBE = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(n) AS f, LAST(n) AS l "
    "ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A Z* B) WITHIN 3 "
    "DEFINE A AS a = 1, B AS B.a = 2)"
)


def plain(rows: list[Row]) -> list[tuple[str, ...]]:
    """Rows that can be compared, whatever the order of their columns."""
    return [tuple(f"{name}={row[name]!r}" for name in sorted(row)) for row in rows]


def in_order(rows: list[Row]) -> list[Row]:
    """Rows given in order of arrival, as a stream has them."""
    return sorted(rows, key=lambda row: row["t"])


def rows_of(stream: Stream, version: int | None = None) -> list[Row]:
    """All rows of a stream, read block by block."""
    snapshot = stream.snapshot(version)
    table = snapshot.read_blocks(np.arange(snapshot.n_blocks), snapshot.schema.names)
    rows: list[Row] = table.to_pylist()
    return rows


def writer_of(stream: Stream, least_events: int = 0) -> RunWriter:
    """Writes runs of every index the stream has."""
    found = indexed_attributes(stream.path, stream.schema.names)
    return RunWriter(found, "t", least_events=least_events)


def check_answers(
    store: Store, name: str, rows: list[Row], sql: str, *, as_of: int | None = None
) -> None:
    """Hold every plan of a query on stream ``s`` to the oracle."""
    text = sql.replace("FROM s ", f"FROM {name} ")
    schema = store.stream(name).snapshot(as_of).schema
    bound = bind(parse_query(text), schema, time="t", text=text)
    expected = plain(match_rows(rows, bound))
    for plan in PLANS:
        try:
            found = replay.query(store, text, plan=plan, as_of=as_of)
        except PlanError:
            assert plan in ("tree", "all")
            continue
        assert plain(found.table.to_pylist()) == expected, (plan, text)


_CONDITIONS = (
    *("a > 1", "a = 3", "x < 1.0", "x > 0.5 AND k = 1", "s = 'a'", "f", "NOT f", "x IS NULL"),
    *("k = 1", "a = 1 AND s = 'ab'", "a = 3 OR x > 2", "n % 3 = 0", "a = 2 AND k = 0"),
)
_WINDOWS = (
    *("HOP(TABLE {{s}}, DESCRIPTOR(t), 2, 5)", "TUMBLE(TABLE {{s}}, DESCRIPTOR(t), 4)"),
    *("CUMULATE(TABLE {{s}}, DESCRIPTOR(t), 2, 6)", "SESSION(TABLE {{s}}, DESCRIPTOR(t), 3)"),
    "TUMBLE(TABLE {{s}}, DESCRIPTOR(t), 10, ORIGIN FIRST EVENT)",
)
_CLASSES = (
    (
        "SELECT window_start, window_end, COUNT(*) AS c, SUM(a) AS v, MAX(x) AS h "
        "FROM TABLE({window}) {where} GROUP BY window_start, window_end"
    ),
    (
        "SELECT window_start, window_end, {key}, AVG(x) AS v, MIN(s) AS l FROM TABLE({window}) "
        "{where} GROUP BY window_start, window_end, {key}"
    ),
    "SELECT {key}, COUNT(*) AS c, AVG(x) AS v FROM {{s}} {where} GROUP BY {key}",
    "SELECT l.n AS l, r.n AS r FROM {side} l {left} JOIN {other} r WITHIN {within} ON l.k = r.k",
    "SELECT l.n AS l, r.n AS q FROM {side} l ASOF {left} JOIN {other} r ON l.k = r.k AND l.t > r.t",
    (
        "FROM {{s}} {partition} ORDER BY t DEFINE A AS {a} AT LEAST {least}, B AS {b} "
        "PATTERN A before;meets;overlaps;contains B WITHIN {within} RETURN MAX(A.n) AS v"
    ),
    (
        "SELECT COUNT(*) AS c, SUM(A.a) AS v, MAX(B.n) AS m FROM {{s}} MATCH_RECOGNIZE ("
        "{partition} ORDER BY t PATTERN (A B+) SEMANTICS {kind} WITHIN {within} "
        "DEFINE A AS {a}, B AS {b})"
    ),
)


def any_question(choose: Random) -> str:
    """Return a query of another class than row patterns, over ``{s}``."""
    one, pick = partial(choose.choice, _CONDITIONS), choose.choice
    return pick(_CLASSES).format(
        window=pick(_WINDOWS).format(),
        where=pick(("", f"WHERE {one()}")),
        key=pick(("k", "s", "f")),
        side=f"(SELECT * FROM {{s}} WHERE {one()} ORDER BY t)",
        other=f"(SELECT * FROM {{s}} WHERE {one()} ORDER BY t)",
        left=pick(("", "LEFT")),
        within=choose.randint(1, 9),
        partition=pick(("", "PARTITION BY k")),
        a=one(),
        b=one(),
        least=choose.randint(1, 3),
        kind=pick(("SKIP TILL ANY", "SKIP TILL NEXT", "CONTIGUOUS")),
    )


def check_any_answer(
    store: Store, name: str, rows: list[Row], text: str, *, as_of: int | None = None
) -> None:
    """Hold every plan of a question to the answer over the same rows in memory."""
    table = pa.Table.from_pylist(rows, schema=store.stream(name).snapshot(as_of).schema)
    expected = replay.query({"s": table}, text.format(s="s")).table
    for plan in (*PLANS, "relevant", "index-only"):
        try:
            found = replay.query(store, text.format(s=name), plan=plan, as_of=as_of).table
        except PlanError:
            assert plan not in ("full", "auto")
            continue
        assert found.schema == expected.schema
        assert plain(found.to_pylist()) == plain(expected.to_pylist()), (plan, text)


def faults_of(store: Store, *, deep: bool) -> list[Finding]:
    """What a check finds wrong."""
    findings = check_store(store, deep=deep, derived_checks=(check_runs,))
    return [finding for finding in findings if finding.severity is Severity.FAULT]
