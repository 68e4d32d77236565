"""Events appended in the order they became known are those of a load in order of time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import replay
from chronicle import Store, StreamSettings, create_store
from chronicle.store import Stream
from datasets import crimes, synthetic
from datasets.tour import QUESTIONS, STREAM
from indexing import RunWriter
from replay.errors import PlanError

PLANS = ("full", "tree", "all", "auto")

SYNTHETIC_QUERY = (
    "SELECT * FROM synthetic MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, B.t AS b, C.t AS c "
    "ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A Z* B Z* C) WITHIN 300 "
    "DEFINE A AS A1 BETWEEN 0.5 AND 0.502, B AS A2 BETWEEN 0.5 AND 0.502, C AS A3 > 0.5)"
)


def all_events(stream: Stream) -> pa.Table:
    snapshot = stream.snapshot()
    blocks = np.arange(snapshot.n_blocks)
    return snapshot.read_blocks(blocks, snapshot.schema.names).cast(stream.schema)


def check_queries(store: Store, name: str, events: pa.Table, queries: Sequence[str]) -> None:
    n_matches = 0
    for sql in queries:
        expected = replay.query({name: events}, sql).table
        n_matches += len(expected)
        for plan in PLANS:
            try:
                found = replay.query(store, sql, plan=plan).table
            except PlanError:
                assert plan in ("tree", "all")
                continue
            assert found.equals(expected), (plan, sql)
    assert n_matches > 0


def months_of(reports: pa.Table) -> list[pa.Table]:
    """Reports by the month they were reported in, each in order of arrival."""
    in_arrival = reports.sort_by("arrival_no")
    months = in_arrival.column("report_month").cast(pa.string())
    return [
        in_arrival.filter(pc.equal(months, month)) for month in sorted(months.unique().to_pylist())
    ]


@pytest.mark.parametrize(
    "n_months",
    [pytest.param(6, id="half a year"), pytest.param(None, id="all", marks=pytest.mark.slow)],
)
def test_crimes_appended_as_reported_are_those_loaded_in_order(
    tmp_path: Path, n_months: int | None
) -> None:
    months = months_of(crimes.to_usable(crimes.load()))[:n_months]
    store = create_store(tmp_path / "store")
    settings = StreamSettings(time=crimes.TIME, block_events=512, file_events=1 << 14)
    stream = store.create_stream(STREAM, months[0].schema, settings)
    derived = RunWriter(("primary_type", "district"), crimes.TIME)
    n_late = 0
    for month in months:
        n_late += stream.append(month.cast(stream.schema), derived=derived).n_late
    assert n_late > 0
    everything = pa.concat_tables(months).cast(stream.schema)
    # The number of arrival grows from month to month, so that it breaks ties like arrival.
    expected = everything.sort_by([(crimes.TIME, "ascending"), ("arrival_no", "ascending")])
    assert all_events(stream).equals(expected.combine_chunks())
    check_queries(store, STREAM, expected, [question.sql for question in QUESTIONS[1:]])


@pytest.mark.slow
def test_late_synthetic_events_are_those_of_a_bulk_load(tmp_path: Path) -> None:
    n_events, n_appends = 1_000_000, 50
    events = pa.Table.from_batches(synthetic.generate(n_events))
    rng = np.random.default_rng(7)
    # One in ten comes up to five appends late.
    is_late = rng.random(n_events) < 0.1
    delay = np.where(is_late, rng.integers(1, 5 * n_events // n_appends, n_events), 0)
    arriving = events.take(pa.array(np.argsort(np.arange(n_events) + delay, kind="stable")))
    store = create_store(tmp_path / "store")
    settings = StreamSettings(time="t", block_events=256, file_events=n_events // 20)
    stream = store.create_stream("synthetic", events.schema, settings)
    derived = RunWriter(("A1", "A2"), "t")
    size = n_events // n_appends
    n_late = 0
    for start in range(0, n_events, size):
        n_late += stream.append(arriving.slice(start, size), derived=derived).n_late
    assert n_late > n_events // 20
    assert all_events(stream).equals(events.combine_chunks())
    check_queries(store, "synthetic", events, [SYNTHETIC_QUERY])
