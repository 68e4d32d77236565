"""The one law where candidates agree on the key: PARTITION BY on streams with a key column.

Keys are strings or integers, some null; events come late, files have runs, runs without keys, or
no run at all. Gaps of one symbol are there too, with and without PARTITION BY. Rows of keys that
no candidate has are left out, which is held to answers of every kind: rows, counts, the first few.
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

import replay
from chronicle import Store, StreamSettings, create_store
from chronicle.append import append
from indexing import RunWriter
from indexing.lifecycle import create_index
from indexing.stream_writer import writer_for
from replay.engines import local
from replay.errors import PlanError, SkipError
from replay.language import bind, parse_query
from tests.oracles.matcher import match_rows
from tests.property.test_plans_agree import answer, comparable

KEYS = {
    "string": (pa.string(), ("a", "b", "b", "", None)),
    "integer": (pa.int64(), (-(2**63), 2**63 - 1, 7, 7, None)),
    "narrow": (pa.int16(), (0, 1, 1, 2, None)),
    "time": (pa.timestamp("us"), (0, 1, 1, None)),
}


SKIPS = ("TO NEXT ROW", "TO NEXT ROW", "PAST LAST ROW", "TO LAST A", "TO FIRST B")


@dataclass(frozen=True)
class Case:
    """A stream to make, how its files are indexed, and what it is asked."""

    key: str
    appends: list[tuple[str, list[tuple[Any, ...]]]]
    """How each append is indexed, and its rows."""
    block_events: int
    file_events: int
    sql: str
    unit_events: int
    """Events read and evaluated at once."""
    with_composite: bool = False
    """Whether both attributes have an index together, too."""


@st.composite
def queries(draw: st.DrawFn) -> str:
    gap = draw(st.sampled_from(("Z*", "Z*", "Z+?", "Z{0,3}", "(Z | B)*", "(Z B)*", "")))
    pattern = draw(st.sampled_from((f"A {gap} B", f"A {gap} B", f"A {gap} B {gap} A", f"A {gap}")))
    partition = draw(st.sampled_from(("PARTITION BY k", "PARTITION BY k, a", "PARTITION BY a", "")))
    semantics = draw(st.sampled_from(("", "", "SKIP TILL NEXT", "SKIP TILL ANY", "CONTIGUOUS")))
    if "|" in pattern or "Z B" in pattern or "{" in pattern:
        semantics = ""
    skips = SKIPS if "B" in pattern else SKIPS[:-1]
    skip = "" if semantics else f"AFTER MATCH SKIP {draw(st.sampled_from(skips))}"
    likely = st.sampled_from(("a > 1", "x < 0.5", "a <> 2", "x > 1.0 OR a = 0"))
    rare = st.sampled_from(("a = 3", "a = 3 AND x > 0.0", "x = 2.0", "a = 4"))
    defines = [f"A AS {draw(rare)}"]
    if "B" in pattern:
        defines.append(f"B AS {draw(st.one_of(rare, likely))}")
    if "Z" in pattern and draw(st.booleans()):
        defines.append(f"Z AS {draw(likely)}")
    if "B" in pattern and semantics and draw(st.booleans()):
        pattern = draw(st.sampled_from((f"!N {pattern}", f"{pattern} !N")))
        defines.append(f"N AS {draw(likely)}")
    rows = draw(st.sampled_from(("", "ALL ROWS PER MATCH")))
    # Without a small window there may be exponentially many matches of SKIP TILL ANY.
    windows = ("WITHIN 1", "WITHIN 3", "WITHIN 9", "WITHIN 30", "")
    within = draw(st.sampled_from(windows[:3] if semantics == "SKIP TILL ANY" else windows))
    if "!N" in pattern and not within:
        within = "WITHIN 5"
    shown = draw(st.sampled_from(("*", "*", "*", "COUNT(*) AS n", "COUNT(*) AS n, MAX(m2) AS m")))
    return (
        f"SELECT {shown} FROM s MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES FIRST(t) AS m1, "
        f"LAST(x) AS m2, COUNT(*) AS m3, MATCH_NUMBER() AS m4 {rows} {skip} PATTERN ({pattern}) "
        f"{f'SEMANTICS {semantics}' if semantics else ''} {within}"
        f" DEFINE {', '.join(defines)}){draw(st.sampled_from(('', '', '', ' LIMIT 1')))}"
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    key = draw(st.sampled_from(tuple(KEYS)))
    # Streams by a seed: those drawn value by value are mostly too plain to hold a match.
    choose = Random(draw(st.integers(0, 2**32 - 1)))
    appends = []
    for _ in range(choose.randint(1, 3)):
        rows = [
            (
                choose.randint(0, 60),
                choose.choice(KEYS[key][1]),
                choose.choice((0, 1, 2, 2, 1, 3, 4, None)),
                choose.choice((0.0, 1.0, 1.0, 2.0, None)),
            )
            for _ in range(choose.randint(3, 40))
        ]
        appends.append((choose.choice(("runs", "runs", "runs", "without keys", "tail")), rows))
    block_events, file_events = choose.choice((1, 2, 3, 4, 20)), choose.choice((4, 12, 64))
    unit_events = choose.choice((1, 8, 40, 1 << 17))
    composite = choose.choice((False, True))
    sql = draw(queries())
    return Case(key, appends, block_events, file_events, sql, unit_events, composite)


def fill(path: Path, case: Case) -> tuple[Store, list[dict[str, Any]]]:
    """Return a store with the stream, and its rows in stream order."""
    schema = pa.schema(
        [("t", pa.int64()), ("k", KEYS[case.key][0]), ("a", pa.int32()), ("x", pa.float64())]
    )
    store = create_store(path / "store")
    made = StreamSettings("t", case.block_events, case.file_events, fan_out=2, key="k")
    stream = store.create_stream("s", schema, made)
    indexed = ("a", "x", "a+x") if case.with_composite else ("a", "x")
    create_index(stream, indexed)
    rows: list[dict[str, Any]] = []
    for how, appended in case.appends:
        arrived = [dict(zip("tkax", row, strict=True)) for row in appended]
        writers = {
            "runs": writer_for(stream),
            "without keys": RunWriter(indexed, "t"),
            "tail": None,
        }
        append(stream, pa.Table.from_pylist(arrived, schema=schema), derived=writers[how])
        rows += arrived
    return store, sorted(rows, key=lambda row: row["t"])


@given(cases())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_gives_the_answer_of_the_oracle_over_keys(case: Case) -> None:
    check_plans_over_keys(case)


def check_plans_over_keys(case: Case) -> None:
    """Hold every plan that applies to the full replay, and that to the oracle."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "UNIT_EVENTS", case.unit_events)
        store, rows = fill(Path(folder), case)
        full = outcome(store, case.sql, "full")[0]
        if not isinstance(full, str) and not any(word in case.sql for word in BEYOND_ORACLE):
            schema = store.stream("s").snapshot().schema
            bound = bind(parse_query(case.sql), schema, time="t", text=case.sql)
            assert full == comparable(match_rows(rows, bound))
        event("error" if isinstance(full, str) else f"{'some' if full else 'no'} rows")
        for plan in ("all", "indexes=A", "indexes=B", "indexes=A,B", "indexes=A,B,Z", "auto"):
            try:
                rows_or_error, actual = outcome(store, case.sql, plan)
            except PlanError:
                continue
            assert rows_or_error == full, plan
            if actual is None:
                continue
            skips = actual.blocks_read < actual.blocks_total
            # With the same blocks read, only rows left out by their key make a difference.
            leaves_out = not skips and actual.rows_replayed < actual.rows_total
            how = "skips" if skips else "leaves rows out" if leaves_out else "reads all"
            event(f"{plan}: {how}")


BEYOND_ORACLE = ("SEMANTICS", "COUNT(*) AS n", "LIMIT")


def outcome(store: Store, sql: str, plan: str) -> tuple[list[tuple[Any, ...]] | str, Any]:
    """Return the rows and what happened, or the error's words where SKIP TO cannot go on."""
    try:
        result = replay.query(store, sql, plan=plan)
    except SkipError as error:
        return str(error), None
    return answer(result.table), result.actual
