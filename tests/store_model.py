"""A stream as a plain sorted list, and how to hold a store to it."""

from __future__ import annotations

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


def faults_of(store: Store, *, deep: bool) -> list[Finding]:
    """What a check finds wrong."""
    findings = check_store(store, deep=deep, derived_checks=(check_runs,))
    return [finding for finding in findings if finding.severity is Severity.FAULT]
