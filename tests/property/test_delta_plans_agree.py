"""The one law where conditions compare an event with the one before, over derived attributes.

Whatever was appended, late or not, and whatever is declared and indexed: every plan gives the
answer of a full replay, and that the answer of the oracle. Values are at the ends of their types.
"""

from __future__ import annotations

import math
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import replay
from chronicle import Store, StreamSettings, create_store
from chronicle.append import append
from indexing.lifecycle import create_index
from indexing.stream_writer import writer_for
from replay.errors import PlanError
from replay.language import bind, parse_query
from tests.oracles.matcher import match_rows
from tests.property.test_plans_agree import answer, comparable

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("n", pa.int64())])
DELTAS = ("delta(x)", "delta(n)", "delta(t)")

FLOATS = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from((0.8, 3.2, 4.0, 0.1, -0.0, 5e-324)),
    st.sampled_from((None, math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 2.0**53, 2.0**53 + 2)),
)
INTEGERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-3, 3),
    st.sampled_from((None, 2**63 - 1, -(2**63), 2**53, 2**53 + 1)),
)
ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(("a", "b", None)), FLOATS, INTEGERS), max_size=24
)


@dataclass(frozen=True)
class Case:
    """A stream to make, what is derived and indexed of it, and what it is asked."""

    appends: list[list[tuple[Any, ...]]]
    block_events: int
    file_events: int
    keyed: bool
    declared: set[str]
    indexed: set[str]
    sql: str


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Comparisons with the event before, in all the forms one may write them."""
    column = draw(st.sampled_from("xxnnt"))
    now, before = draw(
        st.sampled_from(((column, f"PREV({column})"), (f"LAST({column})", f"PREV({column}, 1)")))
    )
    step = draw(st.sampled_from(("0", "1", "2", "3", "-1", "9007199254740992")))
    if column == "x":
        step = draw(st.sampled_from((step, "0.8", "0.1", "-0.5", "1e308", "5e-324")))
    op = draw(st.sampled_from((">", ">", ">=", "<", "<=", "=", "<>")))
    half = f"CAST({now} AS DOUBLE) {op} {before} + 0.5"
    forms = [
        f"{now} {op} {before}",
        f"{now} - {before} {op} {step}",
        f"{step} {op} {before} - {now}",
        f"{now} {op} {before} + {step}",
        f"{now} - {step} {op} {before}",
        f"{now} BETWEEN {before} - 1 AND {before} + {step}",
        f"{now} NOT BETWEEN {before} AND {before} + {step}",
        f"ABS({now} - {before}) {op} {step}",
        f"{now} - {before} IN ({step}, 1)",
        f"{before} {op} {now} + {step} + {step}",
        half if column == "n" else f"-{now} {op} -{before}",
    ]
    found = draw(st.sampled_from(forms))
    return draw(st.sampled_from((found, found, f"NOT ({found})")))


@st.composite
def queries(draw: st.DrawFn, *, keyed: bool) -> str:
    pattern = draw(st.sampled_from(("A", "A B", "A Z* B", "A B C", "A+ B", "A Z{0,2} (B | C)")))
    defines = []
    for name in (name for name in "ABC" if name in pattern):
        atoms = [draw(conditions()) for _ in range(draw(st.integers(1, 2)))]
        if name != "A" and draw(st.booleans()):
            other = draw(st.sampled_from(["A", chr(ord(name) - 1)]))
            atoms = [re.sub(r"PREV\((.)\)", rf"{other}.\1", atom) for atom in atoms]
        if draw(st.integers(0, 3)) == 0:
            atoms.append(draw(st.sampled_from(("n > 0", "x <= 2", "n IS NOT NULL"))))
        defines.append(f"{name} AS {draw(st.sampled_from((' AND ', ' AND ', ' OR '))).join(atoms)}")
    partitions = ("", "PARTITION BY k", "PARTITION BY k", "PARTITION BY k, n")
    partition = draw(st.sampled_from(partitions)) if keyed else ""
    semantics = draw(st.sampled_from(("", "", "SEMANTICS SKIP TILL NEXT", "SEMANTICS CONTIGUOUS")))
    if "Z" in pattern or "|" in pattern:
        semantics = ""
    within = f"WITHIN {draw(st.sampled_from((0, 1, 3, 9)))}"
    order = draw(st.sampled_from(("t", "t", "t", "t, n"))) if not semantics else "t"
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY {order} MEASURES FIRST(t) AS a, "
        f"LAST(t) AS b, COUNT(*) AS c, MATCH_NUMBER() AS m AFTER MATCH SKIP TO NEXT ROW "
        f"PATTERN ({pattern}) {semantics} {within} DEFINE {', '.join(defines)})"
    ).replace("AFTER MATCH SKIP TO NEXT ROW " if semantics else "\0", "")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    keyed = draw(st.integers(0, 2)) == 0
    return Case(
        draw(st.lists(ROWS, min_size=1, max_size=3)),
        draw(st.integers(1, 4)),
        draw(st.sampled_from((4, 12, 64))),
        keyed,
        draw(st.sampled_from((set(DELTAS), set(DELTAS), {"delta(x)"}, set()))),
        draw(st.sampled_from(({*DELTAS, "x", "n"}, set(DELTAS), {"delta(n)"}, set()))),
        draw(queries(keyed=keyed)),
    )


def fill(path: Path, case: Case) -> tuple[Store, list[dict[str, Any]]]:
    """Return a store with the stream, and its rows in stream order."""
    store = create_store(path / "store")
    derived = tuple(name for name in DELTAS if name in case.declared)
    stream = store.create_stream(
        "s",
        SCHEMA,
        StreamSettings(
            time="t",
            block_events=case.block_events,
            file_events=case.file_events,
            fan_out=2,
            key="k" if case.keyed else None,
            derived=derived,
        ),
    )
    rows: list[dict[str, Any]] = []
    for index, given_rows in enumerate(case.appends):
        new = [dict(zip(SCHEMA.names, row, strict=True)) for row in given_rows]
        writer = writer_for(stream, least_events=0)
        append(stream, pa.Table.from_pylist(new, schema=SCHEMA), derived=writer)
        rows = sorted([*rows, *new], key=lambda row: row["t"])
        if index == 0:
            create_index(stream, sorted(case.indexed & {"x", "n", *derived}))
    return store, rows


@given(case=cases())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_finds_what_compares_with_the_event_before(case: Case) -> None:
    check_plans(case)


def check_plans(case: Case) -> None:
    """Hold every plan that applies to the oracle."""
    bound = bind(parse_query(case.sql), SCHEMA, time="t", text=case.sql)
    with tempfile.TemporaryDirectory() as folder:
        store, rows = fill(Path(folder), case)
        expected = comparable(match_rows(rows, bound))
        event(f"matches: {min(len(expected), 3)}")
        for plan in ("full", "tree", "all", "auto", "indexes=A.delta(x)", "indexes=A.delta(n)"):
            try:
                result = replay.query(store, case.sql, plan=plan)
            except PlanError:
                assert plan not in ("full", "auto")
                continue
            skips = result.actual.blocks_read < result.actual.blocks_total
            event(f"{plan}: {'skips' if skips else 'reads all'}")
            assert answer(result.table) == expected, plan


CHAIN = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, F.x AS x "
    "PATTERN (A B C D E F) DEFINE {})"
)


def rare_rises() -> pa.Table:
    """4,000 events that fall, but for a lone rise every hundred and two chains of six."""
    x, at = [], 0.0
    for i in range(4000):
        chained = 1210 <= i < 1216 or 3301 <= i < 3307
        at += 5.0 if chained or i % 100 == 50 else -1.0
        x.append(at)
    nothing = pa.nulls(4000, pa.int64())
    return pa.table(
        [pa.array(range(4000)), pa.nulls(4000, pa.string()), pa.array(x), nothing], schema=SCHEMA
    )


@pytest.mark.parametrize(
    "rise", ["{0}.x > PREV({0}.x)", "{0}.x - PREV({0}.x) > 4", "PREV({0}.x) + 4.5 <= {0}.x"]
)
def test_a_chain_of_rises_reads_only_blocks_with_rises(tmp_path: Path, rise: str) -> None:
    store = create_store(tmp_path / "store")
    settings = StreamSettings(
        time="t", block_events=20, file_events=2000, fan_out=4, derived=("delta(x)",)
    )
    stream = store.create_stream("s", SCHEMA, settings)
    append(stream, rare_rises(), derived=writer_for(stream, least_events=0))
    sql = CHAIN.format(", ".join(f"{name} AS {rise.format(name)}" for name in "ABCDEF"))
    # Chains begin at 1210 and 3301; neither begins in the events before a lone rise.
    expected = [1210, 3301]
    full = replay.query(store, sql, plan="full")
    assert full.table.column("a").to_pylist() == expected
    tree = replay.query(store, sql, plan="tree")
    assert tree.table.equals(full.table)
    # By the tree alone a block with one rise may hold six; those with none are left out.
    assert tree.actual.blocks_read < 100 < tree.actual.blocks_total == 200
    create_index(stream, ["delta(x)"])
    indexed = replay.query(store, sql, plan="all")
    assert indexed.table.equals(full.table)
    assert indexed.actual.blocks_read <= 4
    assert "A.delta(x)" in indexed.plan.name
    assert replay.query(store, sql).table.equals(full.table)


@pytest.mark.parametrize(
    ("key", "partition", "declared", "is_used"),
    [
        (None, "", ("delta(x)",), True),
        (None, "", (), False),
        (None, "", ("delta(n)",), False),
        ("k", "", ("delta(x)",), False),
        ("k", "PARTITION BY k", ("delta(x)",), True),
        ("k", "PARTITION BY k, n", ("delta(x)",), False),
        (None, "PARTITION BY k", ("delta(x)",), False),
    ],
)
def test_a_derived_attribute_is_used_where_it_is_what_prev_reads(
    tmp_path: Path, key: str | None, partition: str, declared: tuple[str, ...], is_used: bool
) -> None:
    store = create_store(tmp_path / "store")
    settings = StreamSettings(time="t", block_events=20, key=key, derived=declared)
    stream = store.create_stream("s", SCHEMA, settings)
    append(stream, rare_rises(), derived=writer_for(stream, least_events=0))
    sql = CHAIN.format(", ".join(f"{name} AS {name}.x > PREV({name}.x)" for name in "ABCDEF"))
    sql = sql.replace("(ORDER", f"({partition} ORDER")
    plan = replay.explain(store, sql).plan
    used = {name for position in plan.shape.positions for name in position.ranges}
    assert used == ({"delta(x)"} if is_used else set())
    assert len(replay.query(store, sql)) == 2
    if is_used:
        assert len(replay.query(store, sql, plan="tree")) == 2
    else:
        assert plan.name == "full"
        with pytest.raises(PlanError, match="cannot apply"):
            replay.query(store, sql, plan="tree")


def two_objects() -> pa.Table:
    """The rises of `rare_rises`, each event followed by one of an object that always falls."""
    rises = rare_rises()
    rows = [
        {"t": 2 * row["t"] + i, "k": "ab"[i], "x": x, "n": None}
        for row in rises.to_pylist()
        for i, x in enumerate((row["x"], -float(row["t"])))
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def test_a_chain_within_an_object_reads_only_blocks_where_that_object_rises(
    tmp_path: Path,
) -> None:
    store = create_store(tmp_path / "store")
    settings = StreamSettings(
        time="t", block_events=20, file_events=2000, fan_out=4, key="k", derived=("delta(x)",)
    )
    stream = store.create_stream("s", SCHEMA, settings)
    append(stream, two_objects(), derived=writer_for(stream, least_events=0))
    create_index(stream, ["delta(x)"])
    rise = [f"{b} AS {b}.x > {a}.x" for a, b in zip("ABCDE", "BCDEF", strict=True)]
    sql = CHAIN.format(", ".join(rise)).replace("(ORDER", "(PARTITION BY k ORDER")
    sql = sql.replace("DEFINE", "WITHIN 20 DEFINE")
    full = replay.query(store, sql, plan="full")
    # Six rises, of the object of the even times, begin at 1210 and 3301; A need be no rise.
    assert full.table.column("a").to_pylist() == [2 * 1209, 2 * 3300]
    indexed = replay.query(store, sql, plan="all")
    assert indexed.table.equals(full.table)
    assert "B.delta(x)" in indexed.plan.name
    assert indexed.actual.rows_replayed < 200 < indexed.actual.rows_total == 8000
    # PREV of the stream is not the difference that is told.
    of_stream = sql.replace("PARTITION BY k ", "")
    assert "delta" not in str(replay.explain(store, of_stream))


def test_differences_of_objects_that_planning_cannot_tell_are_not_used(tmp_path: Path) -> None:
    # Of a key column of doubles planning knows nothing, while delta(x) is by object all the same:
    # in the stream each odd event is above the one before, in its object none is.
    schema = pa.schema([("t", pa.int64()), ("k", pa.float64()), ("x", pa.float64())])
    store = create_store(tmp_path / "store")
    settings = StreamSettings(time="t", block_events=10, key="k", derived=("delta(x)",))
    stream = store.create_stream("s", schema, settings)
    odd = [float(i % 2) for i in range(200)]
    append(stream, pa.table([list(range(200)), odd, odd], schema=schema))
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a PATTERN (A) "
        "DEFINE A AS A.x > PREV(A.x))"
    )
    assert len(replay.query(store, sql, plan="full")) == 100
    assert len(replay.query(store, sql)) == 100
    with pytest.raises(PlanError, match="no symbol"):
        replay.query(store, sql, plan="tree")
