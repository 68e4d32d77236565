"""Windows from the TAB+-tree are those of the oracle, whatever the blocks, the WHERE, the keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, event, given, settings

from chronicle import Snapshot, Store, StreamSettings
from replay.errors import QueryError
from replay.language.bound import (
    Attribute,
    Call,
    DataType,
    Expression,
    Literal,
    RowWindows,
    TimeWindows,
    WholeRange,
    WindowAggregation,
)
from replay.windows.tree import run as tree_run
from replay.windows.tree.planning import window_plan
from replay.windows.tree.run import TreeRun
from tests.memory_stream import some_store
from tests.oracles.windows import naive_windows
from tests.property.law import SLOW
from tests.window_cases import (
    AGGREGATES,
    CONDITIONS,
    COUNT,
    SPREADS,
    WIDE,
    N,
    S,
    X,
    agg,
    aggregation,
    assert_agree,
    events,
    on_calendar,
    run,
    seeds,
    some_calendar_windows,
    some_table,
    some_windows,
    to_rows,
)

BOOL, INT = DataType.BOOLEAN, DataType.INTEGER
T = Attribute("t", INT)
MERGEABLE = tuple(
    part
    for part in AGGREGATES
    if not part.distinct
    and part.function not in ("first", "last", "percentile")
    and not (isinstance(part.argument, Call) and part.argument.op == "*")
)
NANOSECONDS = 1_700_000_000 * 10**9 + 1
"""A time of our days, beyond what a double tells apart."""
DECLARED = ("by(x)", "by(i)", "by(k)", "by(b)", "by(d)", "by(s)")


def compared(op: str, value: int) -> Expression:
    return Call(op, (T, Literal(value, INT)), BOOL)


def some_where(random: Random, far: int, step: int) -> Expression | None:
    """A range of time now and then, a hole in it, conditions that some blocks wholly satisfy."""
    parts: list[Expression] = []
    if random.random() < 0.4:
        parts.append(compared(random.choice((">=", ">")), far + step * random.randint(-60, 120)))
    if random.random() < 0.4:
        parts.append(compared(random.choice(("<", "<=")), far + step * random.randint(-60, 200)))
    if random.random() < 0.1:
        parts.append(compared(random.choice(("<>", "=")), far + step * random.randint(-60, 60)))
    condition = random.choice(CONDITIONS)
    if condition is not None:
        parts.append(condition)
    return Call("and", tuple(parts), BOOL) if len(parts) > 1 else parts[0] if parts else None


def some_case(random: Random, far: int, step: int = 1) -> WindowAggregation:
    """Windows over events ``step`` apart; of a calendar where that is not 1."""
    aggregates = [COUNT, *random.sample(MERGEABLE[1:], random.randint(0, 3))]
    return aggregation(
        some_windows(random) if step == 1 else some_calendar_windows(random, step),
        *dict.fromkeys(aggregates),
        keys=random.choice(((), (), (S,))),
        where=some_where(random, far, step) if random.random() < 0.7 else None,
    )


def moved(table: pa.Table, far: int) -> pa.Table:
    """Return events whose times are so much later."""
    return table.set_column(0, "t", pc.add(table.column("t"), far))


def snapshot_of(
    store: Store, table: pa.Table, random: Random, derived: tuple[str, ...] = DECLARED
) -> Snapshot:
    """Write a stream in small blocks, files and commits."""
    chosen = StreamSettings(
        "t",
        block_events=random.randint(1, 5),
        file_events=random.choice((5, 12, 1000)),
        fan_out=random.randint(2, 3),
        key="s",
        derived=derived,
    )
    stream = store.create_stream("s", table.schema, chosen)
    cut = random.randint(0, table.num_rows)
    for part in (table.slice(0, cut), table.slice(cut)):
        if part.num_rows:
            stream.append(part)
    return stream.snapshot()


def answer(
    snapshot: Snapshot, what: WindowAggregation, way: str
) -> tuple[tuple[list[tuple[Any, ...]], str], TreeRun]:
    """Return the rows that come out, the message of the error that ended them, and the run."""
    run = TreeRun(snapshot, what, window_plan(what, snapshot, way))
    rows: list[tuple[Any, ...]] = []
    try:
        for part in run.tables():
            assert part.schema == run.schema
            rows += to_rows(part)
    except QueryError as error:
        return (rows, str(error)), run
    return (rows, ""), run


@given(seeds)
@settings(SLOW, suppress_health_check=list(HealthCheck))
def test_windows_of_the_tree_are_those_of_the_oracle(
    monkeypatch: pytest.MonkeyPatch, random: Random
) -> None:
    at_once = random.choice((1, 3, 1 << 15))
    monkeypatch.setattr(tree_run, "WINDOWS_AT_ONCE", at_once)
    monkeypatch.setattr(tree_run, "NAIVE_AT_ONCE", at_once)
    monkeypatch.setattr(tree_run, "BORDERS_AT_ONCE", random.choice((0, 2, 1 << 15)))
    far, step = random.choice((0, 0, NANOSECONDS)), 1
    table = moved(some_table(random), far)
    if not far and random.random() < 0.4:
        table, far, step = on_calendar(random, table)
    rows = events(table)
    with some_store(random.random()) as store:
        snapshot = snapshot_of(store, table, random)
        for _ in range(2):
            what = some_case(random, far, step)
            plan = window_plan(what, snapshot)
            if len(plan.rivals) == 0:
                event("by replay only")
                continue
            expected = naive_windows(what, rows)
            for way in ("tree", "tree-naive"):
                got, run = answer(snapshot, what, way)
                event(f"{way}: {'skips' if run.work.n_blocks < snapshot.n_blocks else 'reads all'}")
                assert_agree(got, expected)


@given(seeds)
@SLOW
def test_without_where_no_block_is_read_twice(random: Random) -> None:
    table = some_table(random)
    with some_store(random.random()) as store:
        snapshot = snapshot_of(store, table, random)
        what = replace(some_case(random, 0), where=None, keys=(), key_names=())
        if len(window_plan(what, snapshot).rivals):
            _, run = answer(snapshot, what, "tree")
            assert run.work.n_blocks <= snapshot.n_blocks


FAMILIES: tuple[Callable[[Random], float], ...] = (
    lambda random: random.randint(-(10**7), 10**7) / random.choice((1, 2, 4)),
    lambda random: random.randint(0, 10**4) / 100,
    lambda random: 1e9 + random.randint(0, 3) * 2.0**-23,
    lambda random: random.uniform(-1, 1) * 10.0 ** random.randint(-12, 12),
    lambda random: random.choice((1.5, -0.0, 1e150, math.nan, math.inf, -math.inf, 3e-310)),
    lambda random: random.choice((0.1, 0.1, 0.1, 0.3)),
)
"""Whole numbers and parts, whose sums of squares may lie between two doubles; cents; values that
are large and close; of all sizes; special; equal."""

SAME_BITS = (
    *(agg(f, column) for f in SPREADS for column in (X, WIDE)),
    *(agg(f, column) for f in ("sum", "avg") for column in (X, N)),
)


def number_table(random: Random) -> pa.Table:
    """Return a stream of numbers of one family, and of integers of any size."""
    n = random.choice((1, 7, 64, 200))
    family, size = random.choice(FAMILIES), random.choice((3, 10**7, 2**55))
    values = {
        "t": sorted(random.randint(0, 400) for _ in range(n)),
        "x": [family(random) if random.random() < 0.95 else None for _ in range(n)],
        "i": [random.randint(-size, size) if random.random() < 0.95 else None for _ in range(n)],
        "s": [random.choice("ab") for _ in range(n)],
    }
    types = {"t": pa.int64(), "x": pa.float64(), "i": pa.int64(), "s": pa.string()}
    return pa.table({name: pa.array(values[name], kind) for name, kind in types.items()})


@given(seeds)
@SLOW
def test_every_plan_gives_the_same_bits(random: Random) -> None:
    table = number_table(random)
    size = random.choice((40, 64, 300))
    slide = random.choice((size, size // 3, size))
    windows = random.choice((TimeWindows(size, slide), RowWindows(size, slide), WholeRange()))
    keys = () if isinstance(windows, RowWindows) else random.choice(((), (S,)))
    what = aggregation(windows, *random.sample(SAME_BITS, 4), keys=keys)
    cuts = tuple(sorted(random.randint(0, table.num_rows) for _ in range(random.randint(0, 3))))
    replayed = run(what, table, cuts=cuts)
    with some_store(random.random()) as store:
        snapshot = snapshot_of(store, table, random, ("by(x)", "by(i)"))
        for way in ("tree", "tree-naive"):
            got, _ = answer(snapshot, what, way)
            assert bits(got) == bits(replayed), way


def bits(answered: tuple[list[tuple[Any, ...]], str]) -> str:
    """Return an answer so that NaN equals itself and -0.0 does not equal 0.0."""
    return repr(answered)
