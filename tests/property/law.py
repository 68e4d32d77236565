"""What every plan is held to: the full replay, and that to the oracle."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, event, reject, settings

import replay
from chronicle import Store
from replay.errors import LimitExceededError, PlanError, SkipError, StepLimitError

ANY_SIZE = [HealthCheck.too_slow, HealthCheck.data_too_large]
SLOW = settings(max_examples=max(80, settings().max_examples), suppress_health_check=ANY_SIZE)
FEW = settings(max_examples=40, suppress_health_check=ANY_SIZE)

ROWS_MAX = 10_000
"""A case whose answer has more is none: SKIP TILL ANY has exponentially many matches."""

Rows = list[tuple[object, ...]]


def comparable(rows: Iterable[Any]) -> Rows:
    """Rows, each a dict or a list, with NaN made equal to itself, and -0.0 told from 0.0."""

    def plain(value: object) -> object:
        if isinstance(value, float):
            return "nan" if math.isnan(value) else repr(value)
        return tuple(map(plain, value)) if isinstance(value, list) else value

    values = (row.values() if isinstance(row, dict) else row for row in rows)
    return [tuple(map(plain, row)) for row in values]


def answer(table: pa.Table) -> Rows:
    """Rows of an answer as the oracle has them: times in microseconds, dates in days."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) or pa.types.is_duration(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.int64()))
        elif pa.types.is_date32(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.int32()))
    return comparable(table.to_pylist())


def outcome(store: Store, sql: str, plan: str) -> tuple[Rows | str, Any, pa.Schema | None]:
    """Return rows, what happened, and the rows' types; or why SKIP TO cannot go on."""
    try:
        result = replay.query(store, sql, plan=plan, max_rows=ROWS_MAX)
    except SkipError as error:
        return str(error), None, None
    return answer(result.table), result.actual, result.table.schema


def assert_plans_agree(
    store: Store, sql: str, plans: Iterable[str], *, expected: Rows | str | None = None
) -> tuple[Rows | str, dict[str, Any]]:
    """Hold the full replay to what is expected, and every plan that applies to the full replay.

    Return the answer of the full replay, and what happened by each of these plans.
    """
    try:
        full, _, schema = outcome(store, sql, "full")
    except (LimitExceededError, StepLimitError):  # subsets of tens of rows: other plans see fewer
        reject()
    event(f"full: {'error' if isinstance(full, str) else f'{min(len(full), 3)} rows'}")
    if isinstance(expected, str):  # which of several errors comes first is not the oracle's
        assert isinstance(full, str)
    else:
        assert expected is None or full == expected
    by_plan: dict[str, Any] = {}
    for plan in plans:
        try:
            found, actual, types = outcome(store, sql, plan)
        except PlanError:
            assert plan != "auto"
            continue
        assert (found, types) == (full, schema), plan
        by_plan[plan] = actual
        if actual is not None:
            skips = actual.blocks_read < actual.blocks_total
            # With the same blocks read, only rows left out by their key make a difference.
            leaves_out = not skips and actual.rows_replayed < actual.rows_total
            how = "skips" if skips else "leaves rows out" if leaves_out else "reads all"
            event(f"{plan.partition('=')[0]}: {how}")
    return full, by_plan
