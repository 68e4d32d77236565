"""The one law where neighbours in partitions by the stream's key are looked at.

PREV and NEXT look up to three rows back and on, ``^`` and ``$`` one, wherever those of a key lie,
or in the whole stream where it is not partitioned: keys are null, come
late with a single row, share times; files have runs, runs without keys, damaged runs or none; the
key column has an index or none. Every plan gives the full replay, and that the oracle.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from chronicle import Store, StreamSettings, create_store
from chronicle.append import append
from costmodel.parameters import CostParameters
from indexing import RunWriter
from indexing.lifecycle import create_index
from indexing.stream_writer import writer_for
from replay.engines import local
from replay.engines.statistics import SnapshotStatistics
from replay.errors import PlanError
from replay.language import bind, parse_query
from tests.oracles.matcher import match_rows
from tests.pattern_texts import Chooser, anchored
from tests.property.test_keyed_plans_agree import KEYS, outcome
from tests.property.test_plans_agree import comparable

INDEXES = (("a", "x"), ("a", "x", "k"), ("a", "k", "delta(x)"), ("a", "x", "k", "delta(x)"), ("k",))
PLANS = ("tree", "all", "indexes=A", "indexes=B", "indexes=A,B", "auto")
SKIPS = ("TO NEXT ROW", "TO NEXT ROW", "PAST LAST ROW", "TO LAST A", "TO FIRST A")


@dataclass(frozen=True)
class Case:
    """A stream to make, how its files are indexed, and what it is asked."""

    key: str
    appends: list[tuple[str, list[tuple[Any, ...]]]]
    """How each append is indexed, and its rows."""
    indexes: tuple[str, ...]
    damaged: int | None
    """Number of a run file that is overwritten, of as many as there are; None: none is."""
    block_events: int
    file_events: int
    sql: str
    unit_events: int
    """Events read and evaluated at once."""
    weights: CostParameters
    """Such as make blocks, entries or jumps dear, so that every way is taken."""


def neighbour(choose: Random) -> str:
    return f"{choose.choice(('PREV', 'NEXT'))}({{0}}.{{1}}, {choose.choice((1, 1, 1, 2, 3))})"


def condition(choose: Random, name: str) -> str:
    """Return a comparison with a neighbour, as a rule beside one that can be looked up."""
    column = choose.choice("xa")
    near = neighbour(choose).format(name, column)
    compares = choose.choice(
        (
            f"{name}.{column} {choose.choice(('>', '<', '>=', '='))} {near}",
            f"{near} IS NULL",
            f"{near} IS NOT NULL",
            f"{name}.x > PREV({name}.x)",
            f"{name}.x - PREV({name}.x) > 0.5",
            f"{near} + PREV({name}.{column}) > 1",
            "PREV(CLASSIFIER(), 1) = 'A'",
        )
    )
    rare = choose.choice(("a = 3", "a = 3", "a = 4", "x = 2.0", "a > 1", "x < 0.5"))
    both = f"{compares} AND {rare}"
    return choose.choice((both, both, both, both, both, rare, compares, f"{rare} OR {compares}"))


def plain_condition(choose: Random, _: str) -> str:
    """Return a condition on the row alone."""
    return choose.choice(("a = 3", "a > 2", "a = 1", "x = 2.0", "a = 2 OR x < 0.5"))


def query(choose: Random) -> str:
    gap = choose.choice(("Z*", "Z+?", "Z{0,3}", "", "(Z B)*"))
    pattern = choose.choice((f"A {gap} B", f"A {gap} B", f"A {gap} B", f"A {gap} B A", f"A {gap}"))
    semantics = choose.choice(("", "", "", "SKIP TILL NEXT", "SKIP TILL ANY", "CONTIGUOUS"))
    if "Z B" in pattern or "{" in pattern:
        semantics = ""
    names = [name for name in "ABZ" if name in pattern]
    is_anchored = choose.random() < 0.6
    # Anchors alone, and beside PREV and NEXT.
    navigates = not is_anchored or choose.random() < 0.4
    define = condition if navigates else plain_condition
    defines = [f"{n} AS {define(choose, n)}" for n in names if n != "Z" or choose.random() < 0.4]
    if is_anchored:
        pattern = anchored(Chooser(choose.randrange(2**32)), pattern)
    if semantics and "B" in pattern and choose.random() < 0.4:
        pattern = choose.choice((f"!N {pattern}", f"{pattern} !N"))
        defines.append("N AS PREV(N.a) = 2")
    skip = "" if semantics else f"AFTER MATCH SKIP {choose.choice(SKIPS)}"
    windows = ("WITHIN 1", "WITHIN 3", "WITHIN 9", "WITHIN 30", "")
    within = choose.choice(windows[:3] if semantics == "SKIP TILL ANY" else windows)
    if "!N" in pattern and not within:
        within = "WITHIN 5"
    measured = [
        f"{neighbour(choose).format(choose.choice([n for n in names if n != 'Z']), 't')} AS m1",
        f"{choose.choice(('FIRST', 'LAST'))}(x) AS m2",
        f"{choose.choice(('PREV(CLASSIFIER(), 1)', 'COUNT(*)'))} AS m3",
        f"{neighbour(choose).format('', 'x').replace('.', '', 1)} AS m4",
        "MATCH_NUMBER() AS m5",
    ]
    measures = ", ".join(measured if navigates and choose.random() < 0.7 else measured[4:])
    rows = choose.choice(("", "", "ALL ROWS PER MATCH"))
    by = choose.choice((*("k",) * 12, "a", "k, a", *("",) * (6 if is_anchored else 1)))
    partition = f"PARTITION BY {by}" if by else ""
    limit = choose.choice(("", "", "", " LIMIT 1"))
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY t "
        f"MEASURES {measures} {rows} {skip} PATTERN ({pattern}) "
        f"{f'SEMANTICS {semantics}' if semantics else ''} {within} "
        f"DEFINE {', '.join(defines)}){limit}"
    )


def case_of(seed: int) -> Case:
    """Return the case of a seed: streams drawn value by value are mostly too plain for a match."""
    choose = Random(seed)
    key = choose.choice(tuple(KEYS))
    appends = []
    latest = choose.choice((15, 60))
    for _ in range(choose.randint(1, 3)):
        rows = [
            (
                choose.randint(0, latest),
                choose.choice(KEYS[key][1]),
                choose.choice((0, 1, 2, 2, 1, 3, 4, None)),
                choose.choice((0.0, 1.0, 1.0, 2.0, None)),
            )
            for _ in range(choose.randint(3, 40))
        ]
        how = choose.choice(("runs", "runs", "runs", "runs", "without keys", "tail"))
        appends.append((how, rows))
    return Case(
        key,
        appends,
        choose.choice(INDEXES),
        choose.choice((None, None, None, choose.randint(0, 9))),
        choose.choice((1, 2, 3, 4, 20)),
        choose.choice((4, 12, 64)),
        query(choose),
        choose.choice((1, 8, 40, 1 << 17)),
        CostParameters(
            block_s=choose.choice((1e-5, 1e-3, 1e-2)),
            value_s=1e-9,
            predicate_s=0.0,
            match_s=0.0,
            entry_s=choose.choice((1e-9, 1e-9, 1e-5)),
            sort_s=0.0,
            seek_s=choose.choice((1e-9, 1e-5)),
            full_margin=1.0,
        ),
    )


def fill(path: Path, case: Case) -> tuple[Store, list[dict[str, Any]]]:
    """Return a store with the stream, and its rows in stream order."""
    schema = pa.schema(
        [("t", pa.int64()), ("k", KEYS[case.key][0]), ("a", pa.int32()), ("x", pa.float64())]
    )
    store = create_store(path / "store")
    made = StreamSettings(
        "t", case.block_events, case.file_events, fan_out=2, key="k", derived=("delta(x)",)
    )
    stream = store.create_stream("s", schema, made)
    create_index(stream, case.indexes)
    rows: list[dict[str, Any]] = []
    for how, appended in case.appends:
        arrived = [dict(zip("tkax", row, strict=True)) for row in appended]
        writers = {
            "runs": writer_for(stream, least_events=0),
            "without keys": RunWriter(case.indexes, "t"),
            "tail": None,
        }
        append(stream, pa.Table.from_pylist(arrived, schema=schema), derived=writers[how])
        rows += arrived
    runs = sorted((stream.path / "index").rglob("*.parquet"))
    if case.damaged is not None and runs:
        run = runs[case.damaged % len(runs)]
        content = bytearray(run.read_bytes())
        content[len(content) // 3 : len(content) // 2] = bytes(
            len(content) // 2 - len(content) // 3
        )
        run.write_bytes(content)
    return store, sorted(rows, key=lambda row: row["t"])


@given(st.integers(0, 2**32 - 1).map(case_of))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_finds_the_neighbours_of_a_full_replay(case: Case) -> None:
    check_plans(case)


def check_plans(case: Case) -> None:
    """Hold every plan that applies to the full replay, and that to the oracle."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "UNIT_EVENTS", case.unit_events)
        store, rows = fill(Path(folder), case)
        full = outcome(store, case.sql, "full")[0]
        if not isinstance(full, str) and "SEMANTICS" not in case.sql and "LIMIT" not in case.sql:
            schema = store.stream("s").snapshot().schema
            bound = bind(parse_query(case.sql), schema, time="t", text=case.sql)
            assert full == comparable(match_rows(rows, bound))
        patch.setattr(SnapshotStatistics, "parameters", case.weights)
        event("error" if isinstance(full, str) else f"{'some' if full else 'no'} rows")
        for plan in PLANS:
            try:
                rows_or_error, actual = outcome(store, case.sql, plan)
            except PlanError:
                event(f"{plan}: does not apply")
                continue
            assert rows_or_error == full, plan
            if actual is not None:
                leaves_out = actual.rows_replayed < actual.rows_total
                event(f"{plan}: {'leaves rows out' if leaves_out else 'replays all'}")
                if plan == "auto" and "look at beside" in (actual.switched or ""):
                    event("auto: gives the search up")
