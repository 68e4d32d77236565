"""Temporal patterns over stored streams, in compositions, and while their events come in."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings, create_store
from indexing import create_index
from replay.engines import scan
from replay.errors import NotSupportedError, PlanError, QueryError
from replay.query_plan import to_json, to_text
from tests.json_schema import violations

N = 600
SETTINGS = StreamSettings(time="t", block_events=32)
CLAUSES = (
    "PARTITION BY k {order} DEFINE A AS x > 6 AT LEAST 2, B AS y > 6 PATTERN A overlaps;contains;"
    "finished by B WITHIN 40 RETURN MAX(A.x) AS top"
)
QUERY = f"FROM s {CLAUSES.format(order='')}"
OPERATOR = f"s MATCH_SITUATIONS ({CLAUSES.format(order='')})"


def history() -> pa.Table:
    """Return two keys whose values go up and down, each at its own pace."""
    rows = [
        {"t": t, "k": f"k{t % 2}", "x": float(t // 2 % 11), "y": float((t // 2 + 5) % 13)}
        for t in range(N)
    ]
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = create_store(tmp_path_factory.mktemp("situations") / "store")
    made.create_stream("s", history().schema, SETTINGS).append(history())
    return made


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()


def test_both_forms_a_dataflow_and_a_table_in_memory_give_one_answer(store: Store) -> None:
    answer = rows(replay.query(store, QUERY).table)
    assert len(answer) > 10
    assert list(answer[0]) == [
        "k", "top", "A_start", "A_end", "B_start", "B_end", "detection_time",
    ]  # fmt: skip
    memory = {"s": history()}
    flows = (
        replay.stream(store, "s").situations(CLAUSES.format(order="")),
        replay.stream(memory, "s", time="t").situations(CLAUSES.format(order="")),
    )
    assert [rows(flow.run().table) for flow in flows] == [answer, answer]
    for source, order in ((store, ""), (memory, "ORDER BY t")):
        clauses = CLAUSES.format(order=order)
        for sql in (
            f"FROM s {clauses}",
            f"SELECT * FROM s MATCH_SITUATIONS ({clauses})",
            f"SELECT m.* FROM s AS e MATCH_SITUATIONS ({clauses}) AS m",
            f"WITH n AS (FROM s {clauses}) SELECT * FROM n",
            f"SELECT * FROM (FROM s {clauses})",
        ):
            assert rows(replay.query(source, sql).table) == answer
    assert rows(replay.batches(store, QUERY).read_all()) == answer
    times = [row["detection_time"] for row in answer]
    assert times == sorted(times)


def test_the_outer_query_stands_around_it(store: Store) -> None:
    answer = rows(replay.query(store, QUERY).table)
    sql = f"SELECT k, COUNT(*) AS n FROM {OPERATOR} WHERE B_start > 50 GROUP BY k ORDER BY k"
    assert rows(replay.query(store, sql).table) == [
        {"k": k, "n": sum(row["k"] == k and row["B_start"] > 50 for row in answer)}
        for k in ("k0", "k1")
    ]


def test_ordinary_sql_stands_around_both_forms(store: Store) -> None:
    answer = rows(replay.query(store, QUERY).table)
    first = "SELECT k, row_number() OVER (PARTITION BY k ORDER BY detection_time) AS no FROM "
    expected = sorted(
        (key, no + 1)
        for key in ("k0", "k1")
        for no in range(sum(row["k"] == key for row in answer))
    )
    for source in (OPERATOR, f"({QUERY}) AS m"):
        found = rows(replay.query(store, first + source).table)
        assert sorted((row["k"], row["no"]) for row in found) == expected
    with pytest.raises(QueryError, match="no temporal relation 'overlap'"):
        replay.query(store, first + OPERATOR.replace("overlaps", "overlap"))


def test_strings_are_strings_whatever_blocks_they_stand_in(tmp_path: Path) -> None:
    n = 200
    on = ["yes" if 2 <= t % 10 < 6 else "no" for t in range(n)]
    names, words = [f"n{t // 10}" for t in range(n)], [f"w{t}" for t in range(n)]
    events = pa.table({"t": range(n), "name": names, "on": on, "word": words})
    store = create_store(tmp_path / "store")
    store.create_stream("s", events.schema, SETTINGS).append(events)
    sql = """FROM s PARTITION BY name {} DEFINE A AS "on" = 'yes' EMIT FINAL
    RETURN name AS whose, LAST(A.word) AS last, COUNT(DISTINCT A.word) AS n"""
    expected = [
        {"name": f"n{k}", "whose": f"n{k}", "last": f"w{10 * k + 5}", "n": 4, "A_start": 10 * k + 2,
         "A_end": 10 * k + 6, "detection_time": 10 * k + 6} for k in range(n // 10)
    ]  # fmt: skip
    for source, order in ((store, ""), ({"s": events}, "ORDER BY t")):
        table = replay.query(source, sql.format(order)).table
        assert rows(table) == expected
        assert table.schema.types[:3] == [pa.string()] * 3


def test_faults_of_conditions_are_counted_once_whoever_looks_at_them(store: Store) -> None:
    n_zero = sum(row["x"] == 0 for row in rows(history()))
    sql = "FROM s {} DEFINE A AS CAST(12 / CAST(x AS BIGINT) AS DOUBLE) > 3 EMIT FINAL"
    whole = replay.query(store, sql.format(""), plan="full")
    memory = replay.query({"s": history()}, sql.format("ORDER BY t"))
    online = replay.online(sql.format(""), history().schema, time="t")
    pieces = [online.push(history()), online.finish()]
    assert whole.actual.faults == memory.actual.faults == online.n_faults == n_zero > 0
    assert rows(whole.table) == rows(memory.table) == rows(pa.concat_tables(pieces)) != []


def test_limit_reads_little(tmp_path: Path) -> None:
    store, n = create_store(tmp_path / "store"), 400_000
    events = pa.table({"t": range(n), "b": [t % 5 for t in range(n)]})
    settings = StreamSettings(time="t", block_events=4096)
    store.create_stream("s", events.schema, settings).append(events)
    sql = "SELECT B_start FROM s MATCH_SITUATIONS (DEFINE B AS b = 1) LIMIT 2"
    result = replay.query(store, sql)
    assert rows(result.table) == [{"B_start": 1}, {"B_start": 6}]
    assert result.actual.rows_replayed < n // 2


def test_a_subquery_is_planned_by_itself_and_its_rows_are_the_neighbours(store: Store) -> None:
    # Of the rows that pass, those before and after 100 are neighbours.
    sql = "FROM (SELECT * FROM s WHERE t < 100 OR t >= 500) DEFINE A AS x >= 0 EMIT FINAL"
    assert rows(replay.query(store, sql).table) == []
    sql = "FROM (SELECT * FROM s WHERE t >= 570) DEFINE A AS x > 6 EMIT FINAL"
    result = replay.query(store, sql, plan="tree")
    assert rows(result.table) == rows(replay.query(store, sql, plan="full").table)
    assert 0 < result.actual.rows_replayed < N


@pytest.mark.parametrize("plan", ["tree", "all", "indexes=A.x"])
@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (QUERY, "without VALID FOR, the event before one of the same partition may lie anywhere"),
        (
            QUERY.replace("DEFINE", "VALID FOR 5 DEFINE").replace("x > 6", "x > PREV(x)"),
            "with PARTITION BY and PREV, or without VALID FOR, the event before one of the same",
        ),
        ("FROM s DEFINE A AS x > 6 EMIT FINAL", "without WITHIN nothing bounds"),
        ("FROM s DEFINE A AS x > y WITHIN 5", "has a condition that bounds an attribute"),
    ],
)
def test_where_all_has_to_be_replayed_the_plan_says_why(
    store: Store, sql: str, why: str, plan: str
) -> None:
    explained = replay.explain(store, sql).plan
    assert (explained.name, why in to_text(explained, None)) == ("full", True)
    assert replay.query(store, sql).actual.rows_replayed == N
    with pytest.raises(PlanError, match=f"{why}.*use plan 'full' or 'auto'"):
        replay.query(store, sql, plan=plan)


# ---------------------------------------------------------------------------------------------
# Plans that read a part: B lasts long, A is rare, and a block has few events

RARE = "DEFINE A AS a = 1, B AS b = 1 PATTERN B contains;overlaps;finished by A WITHIN 10"
PLANS = ("auto", "tree", "all", "indexes=A", "indexes=A.a", "full")


def rare(tmp_path: Path, since: int, *, key: bool = False, index: tuple[str, ...] = ()) -> Store:
    """Return 2,000 seconds in which A is at 1000 alone, and B from ``since`` to 1100.

    With ``key`` all from ``since`` on is of another one.
    """
    events = pa.table(
        {
            "t": range(2000),
            "k": ["u" if key and since <= t else "v" for t in range(2000)],
            "a": [int(t == 1000) for t in range(2000)],
            "b": [int(since <= t < 1100) for t in range(2000)],
        }
    )
    store = create_store(tmp_path / "store")
    by_key = None if "k" in index else "k"
    settings = StreamSettings(time="t", block_events=5, key=by_key)  # one begins at 990
    stream = store.create_stream("s", events.schema, settings)
    stream.append(events)
    create_index(stream, ["a", *index])
    return store


@pytest.mark.parametrize(
    "clauses",
    [
        RARE,
        f"VALID FOR 3 {RARE}",
        RARE.replace("b = 1", "b = 1 AND PREV(t, 3) >= 0"),
        f"PARTITION BY k VALID FOR 3 {RARE}",
        f"PARTITION BY k {RARE}",
    ],
)
@pytest.mark.parametrize(
    ("since", "found"),
    [
        (10, []),  # began long before what is read
        (989, []),  # one second too early
        (990, [990]),  # at the very border: WITHIN is closed
        (997, [997]),
    ],
)
def test_a_situation_counts_only_if_it_began_where_a_match_can(
    tmp_path: Path, clauses: str, since: int, found: list[int]
) -> None:
    store = rare(tmp_path, since)
    for plan in PLANS:
        result = replay.query(store, f"FROM s {clauses}", plan=plan)
        assert result.table["B_start"].to_pylist() == found, plan
        assert result.table["detection_time"].to_pylist() == [1000] * len(found)
        if plan != "full":
            assert result.actual.blocks_read < 20
            assert result.actual.blocks_total == 400


@pytest.mark.parametrize("since", [991, 996])
def test_the_first_event_of_a_key_begins_a_situation(tmp_path: Path, since: int) -> None:
    store = rare(tmp_path, since, key=True)
    for plan, valid in product(PLANS, ("", "VALID FOR 2")):
        result = replay.query(store, f"FROM s PARTITION BY k {valid} {RARE}", plan=plan)
        assert rows(result.table.select(["k", "B_start"])) == [{"k": "u", "B_start": since}], plan


@pytest.mark.parametrize(
    ("index", "key"), [((), "k"), (("k",), "k"), (("k",), None), (("k",), "b")]
)
def test_suspects_are_refuted_by_the_row_before_of_their_key_alone(
    tmp_path: Path, index: tuple[str, ...], key: str | None
) -> None:
    """Before 995 x never spoke, and of the others y was on and z was off at 0."""
    told = [(0, "y", 0, 1), (0, "z", 0, 0), *((t, "w", 0, 0) for t in range(1, 500))]
    told += [(995, "x", 0, 1), (996, "y", 0, 1), (997, "z", 0, 1)]
    told += [(1000, "x", 1, 1), (1001, "y", 1, 1), (1002, "z", 1, 1)]
    told += [(t, "w", 0, 0) for t in range(1100, 1600)]
    events = pa.table(dict(zip("tkab", map(list, zip(*told, strict=True)), strict=True)))
    store = create_store(tmp_path / "store")
    settings = StreamSettings(time="t", block_events=5, key=key)
    stream = store.create_stream("s", events.schema, settings)
    stream.append(events)
    create_index(stream, ["a", *index])
    for plan in PLANS:
        result = replay.query(store, f"FROM s PARTITION BY k {RARE}", plan=plan)
        found = [(row["k"], row["B_start"]) for row in rows(result.table)]
        assert found == [("x", 995), ("z", 997)], plan
        if plan in ("auto", "all"):
            # Blocks before are read until x is known to be new, unless the index of k says so.
            assert (result.actual.blocks_read < 50) == bool(index)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_of_two_zeros_that_are_one_partition_one_is_shown(
    tmp_path: Path, kind: pa.DataType
) -> None:
    zeros = pa.array([-0.0 if 400 <= t < 600 else 0.0 for t in range(1000)], kind)
    events = pa.table(
        {"t": range(1000), "z": zeros, "a": [int(t in (500, 700)) for t in range(1000)]}
    )
    store = create_store(tmp_path / "store")
    settings = StreamSettings(time="t", block_events=5)
    stream = store.create_stream("s", events.schema, settings)
    stream.append(events)
    create_index(stream, ["a"])
    for plan in PLANS:
        sql = "FROM s PARTITION BY z VALID FOR 2 DEFINE A AS a = 1 WITHIN 10"
        found = replay.query(store, sql, plan=plan).table
        assert [str(value) for value in found["z"].to_pylist()] == ["0.0", "0.0"], plan
        assert found["A_start"].to_pylist() == [500, 700]


@pytest.mark.parametrize("key", [(), ("k",)])
@pytest.mark.parametrize(("since", "found"), [(10, []), (990, []), (997, [997])])
def test_prev_reads_the_rows_before_of_the_same_partition(
    tmp_path: Path, key: tuple[str, ...], since: int, found: list[int]
) -> None:
    """B is true from the third of its rows on, so at 990 it began too early for A at 1000."""
    store = rare(tmp_path, since, index=key)
    clauses = RARE.replace("b = 1", "b = 1 AND PREV(b, 2) >= 0").replace("WITHIN 10", "WITHIN 9")
    for plan in PLANS:
        result = replay.query(store, f"FROM s PARTITION BY k {clauses}", plan=plan)
        assert result.table["B_start"].to_pylist() == found, plan
        if plan != "full":
            assert result.actual.blocks_read < 20
            assert result.actual.blocks_total == 400


# ---------------------------------------------------------------------------------------------
# Filters below and above


FILTERED = "(SELECT * FROM s WHERE b = 0 OR a = 1 OR t % 2 = 0)"


@pytest.mark.parametrize("partition", ["", "PARTITION BY k "])
@pytest.mark.parametrize("prev", ["b = 1", "b = 1 AND PREV(b) >= 0"])
@pytest.mark.parametrize(("since", "found"), [(10, []), (990, [990]), (991, [992])])
def test_over_a_filter_the_rows_that_pass_are_neighbours(
    tmp_path: Path, partition: str, prev: str, since: int, found: list[int]
) -> None:
    store = rare(tmp_path, since)
    clauses = RARE.replace("b = 1", prev)
    for plan in PLANS:
        result = replay.query(store, f"FROM {FILTERED} {partition}{clauses}", plan=plan)
        assert result.table["B_start"].to_pylist() == found, plan
        if plan != "full":
            assert result.actual.blocks_read < 20
            assert result.actual.blocks_total == 400


@pytest.mark.parametrize("partition", ["", "PARTITION BY k "])
@pytest.mark.parametrize("prev", ["b = 1", "b = 1 AND PREV(b) >= 0"])
def test_a_row_that_does_not_pass_refutes_nothing(
    tmp_path: Path, partition: str, prev: str
) -> None:
    """B has been on since 400, but before 990 nothing passes up to 299, when it was off."""
    store = rare(tmp_path, 400)
    passes = "(SELECT * FROM s WHERE t < 300 OR t >= 990)"
    for plan in PLANS:
        sql = f"FROM {passes} {partition}{RARE.replace('b = 1', prev)}"
        assert replay.query(store, sql, plan=plan).table["B_start"].to_pylist() == [990], plan


@pytest.mark.parametrize(("last", "found"), [(1010, []), (1011, [1011]), (1999, [1011])])
def test_history_ends_with_the_last_event_that_passes(
    tmp_path: Path, last: int, found: list[int]
) -> None:
    """A is at 1000, and 11 later it is certain that it lasts, if an event says that it is then."""
    store = rare(tmp_path, 990)
    passes = f"(SELECT * FROM s WHERE t <= 1000 OR t = {last})"
    sql = f"FROM {passes} DEFINE A AS a = 1 AT LEAST 11 WITHIN 11"
    if last == 1010:
        sql = sql.replace(f" OR t = {last}", "")
    for plan in PLANS:
        result = replay.query(store, sql, plan=plan)
        assert result.table["detection_time"].to_pylist() == found, plan


@pytest.mark.parametrize(
    ("where", "wanted", "n_blocks"),
    [
        ("k = 'k0'", lambda row: row["k"] == "k0", 19),
        # Of 19 blocks of 32 seconds; WITHIN and VALID FOR are 60 together.
        ("A_start > 400", lambda row: row["A_start"] > 400, 9),
        ("detection_time < 100", lambda row: row["detection_time"] < 100, 5),
        (
            "A_start > 100 AND k = 'k1' AND B_start < 200",
            lambda row: row["A_start"] > 100 and row["k"] == "k1" and row["B_start"] < 200,
            7,
        ),
    ],
)
def test_what_where_asks_of_matches_narrows_what_is_read(
    store: Store, where: str, wanted: Callable[[dict[str, Any]], bool], n_blocks: int
) -> None:
    clauses = CLAUSES.format(order="").replace("DEFINE", "VALID FOR 20 DEFINE")
    answer = rows(replay.query(store, f"FROM s {clauses}", plan="full").table)
    sql = f"SELECT * FROM s MATCH_SITUATIONS ({clauses}) WHERE {where}"
    for plan in ("tree", "auto"):
        result = replay.query(store, sql, plan=plan)
        assert rows(result.table) == list(filter(wanted, answer)) != []
        assert result.actual.blocks_read <= n_blocks


def test_around_the_rarest_situation_the_others_must_occur(tmp_path: Path) -> None:
    """A is at 300, 1000 and 1700; B at 995 to 1099, at 1709 and at 1711. No block tells it."""
    b = {*range(995, 1100), 1709, 1711}
    events = pa.table(
        {
            "t": range(2000),
            "a": [1 if t in (300, 1000, 1700) else t % 2 * 2 for t in range(2000)],
            "b": [1 if t in b else t % 2 * 2 for t in range(2000)],
        }
    )
    store = create_store(tmp_path / "store")
    stream = store.create_stream("s", events.schema, StreamSettings(time="t", block_events=5))
    stream.append(events)
    create_index(stream, ["a", "b"])
    read = {}
    for plan in ("full", "tree", "indexes=A", "indexes=B", "indexes=A,B", "all"):
        # B starts from 10 before A to 9 behind it, and A must have lasted for 1 then.
        sql = (
            f"FROM s DEFINE A AS a = 1, B AS b = 1 PATTERN {'A before;overlaps;during B'} WITHIN 10"
        )
        result = replay.query(store, sql, plan=plan)
        assert result.table["B_start"].to_pylist() == [995, 1709], plan
        read[plan] = result.actual.blocks_read
    # From 10 before to 10 behind, in blocks of 5 with the one before: 6 blocks of two A.
    assert read["indexes=A,B"] == read["all"] == 12
    assert read["indexes=A"] == 18
    # Of B the first of each run: from 985 to 1005, and from 1699 to 1721.
    assert read["indexes=B"] == 6 + 7
    assert read["tree"] == read["full"] == 400


def test_the_analysis_counts_situations(tmp_path: Path) -> None:
    """A is at 1000, and B began long before what is read: a match with it is refuted."""
    store = rare(tmp_path, 10)
    result = replay.query(store, f"FROM s PARTITION BY k {RARE}", plan="indexes=A")
    # A is the seed of the one match, and B is looked for behind it.
    counts = {"derived": 2, "live": 2, "partial_results": 1, "suspects": 1, "refuted": 1}
    assert result.actual.to_dict()["situations"] == counts
    told = "situations  2 derived, 2 live, 1 partial results, 1 suspects, 1 refuted"
    assert told in result.analysis()
    full = replay.query(store, f"FROM s PARTITION BY k {RARE}", plan="full")
    # All of it at hand, B began too long before A.
    nothing = {"partial_results": 0, "suspects": 0, "refuted": 0}
    assert full.actual.counts == {"situations": counts | nothing}


def test_partial_results_are_combinations_for_which_the_rest_was_looked_for() -> None:
    """A at 0 and 2, B at 4 and 6, C at 8, which makes four matches certain.

    Behind C are looked for B, and behind each of C and B an A: before C starts nothing is certain.
    """
    on = {"a": (0, 2), "b": (4, 6), "c": (8,)}
    table = pa.Table.from_pylist(
        [{"t": t} | {name: t in times for name, times in on.items()} for t in range(10)]
    )
    sql = (
        "FROM s ORDER BY t DEFINE A AS a, B AS b, C AS c PATTERN A before B AND B before C WITHIN 9"
    )
    result = replay.query({"s": table}, sql)
    assert result.table.num_rows == 4
    assert result.actual.counts["situations"]["partial_results"] == 3


def test_explain_tells_how_far_situations_lie_from_each_other(tmp_path: Path) -> None:
    schema = json.loads((Path(__file__).parents[3] / "docs" / "explain.schema.json").read_text())
    plan = replay.explain(rare(tmp_path, 990), f"FROM s {RARE}").to_dict()
    assert violations(plan, schema) == []
    # B starts by A's start and at most 10 before; as A starts, both are known.
    assert plan["inputs"][0]["situations"] == [
        {"name": "A", "start_low": 0, "start_high": 0, "reach": 0, "runs": 1},
        {"name": "B", "start_low": -10, "start_high": 0, "reach": 10, "runs": 1},
    ]
    # A hundred of each: 100 searches of 4 log2(100) steps, and 449 pairs (3 + 1 + 0.49 %).
    assert plan["inputs"][0]["order"] == [
        {"names": ["A", "B"], "cost": 3106.5, "taken": True},
        {"names": ["B", "A"], "cost": 3106.5, "taken": True},
    ]


@pytest.mark.parametrize(
    ("source", "by", "condition", "runs"),
    [
        # All of u's readings and none of v's are over 5: the runs of one are those of both.
        ("s", "PARTITION BY k", "x > 5", [2]),
        ("s", "", "x > 5", [40]),
        ("s", "PARTITION BY k VALID FOR 1", "x > 5", [40]),
        ("(SELECT * FROM s WHERE k = 'u')", "", "x > 5", [2]),
        ("s", "PARTITION BY k", "x > 50", [0]),
        ("s", "PARTITION BY k", "x > PREV(x)", [None]),
    ],
)
def test_explain_tells_how_many_runs_a_condition_has(
    tmp_path: Path, source: str, by: str, condition: str, runs: list[int | None]
) -> None:
    """Keys take turns; u is high for 20 of its 40 readings of a block, twice. All is looked at."""
    events = pa.table(
        {
            "t": range(160),
            "k": ["uv"[t % 2] for t in range(160)],
            "x": [9 if t % 2 == 0 and t // 2 % 40 >= 20 else 1 for t in range(160)],
        }
    )
    store = create_store(tmp_path / "store")
    settings = StreamSettings(time="t", key="k", block_events=80)
    store.create_stream("s", events.schema, settings).append(events)
    plan = replay.explain(store, f"FROM {source} {by} DEFINE A AS {condition} WITHIN 50").plan
    told = to_json(plan, None)
    inputs = told.get("inputs", [told])
    assert [row["runs"] for row in inputs[0]["situations"]] == runs


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """200 blocks of 100 events, of which two see the signal go up: at 5,050, and at 12,050."""
    n = 20_000
    level = [0 if t < 5_050 else 20 if t < 12_050 else 40 for t in range(n)]
    events = pa.table(
        {
            # Silent for 31 inside the block from 10,000 on.
            "t": [t if t < 10_020 else t + 30 for t in range(n)],
            "x": [float(one + t % 7) for t, one in enumerate(level)],
            "v": [t % 5 for t in range(n)],
        }
    )
    store = create_store(tmp_path_factory.mktemp("slow") / "store")
    settings = StreamSettings(time="t", block_events=100)
    store.create_stream("s", events.schema, settings).append(events)
    return store


SLOW = (
    "DEFINE L AS x < 10, M AS x BETWEEN 15 AND 30 AT LEAST 250 PATTERN L meets M WITHIN 15000 "
    "RETURN SUM(L.v) AS l, AVG(M.x) AS x, COUNT(M.*) AS n"
)


@pytest.mark.parametrize("plan", ["tree", "auto"])
def test_blocks_in_which_nothing_changes_are_not_read(slow: Store, plan: str) -> None:
    result = replay.query(slow, f"FROM s {SLOW}", plan=plan)
    # M is certain at 5,300, 251 events after it began, and these begin at 20 + 5050 % 7.
    x = sum(20 + t % 7 for t in range(5_050, 5_301)) / 251
    assert rows(result.table) == [
        {"l": 5_050 * 2, "x": x, "n": 251, "L_start": 0, "L_end": 5_050}
        | {"M_start": 5_050, "M_end": None, "detection_time": 5_300}
    ]
    assert "alike, and not read" in to_text(result.plan, None)
    # Those in which M begins and ends, and that of 5,300, whose rows tell which count.
    assert result.actual.blocks_read == 3 <= 0.02 * result.actual.blocks_total
    ends = f"FROM s {SLOW.replace('AT LEAST 250', '').replace('RETURN', 'EMIT FINAL RETURN')}"
    result = replay.query(slow, ends, plan=plan)
    assert rows(result.table)[0]["n"] == 7_000
    assert result.actual.blocks_read == 2


def test_over_a_filter_blocks_are_not_read_of_which_all_events_pass(slow: Store) -> None:
    bare = SLOW.partition(" RETURN")[0]
    answer = [
        {"L_start": 0, "L_end": 5_050, "M_start": 5_050, "M_end": None, "detection_time": 5_300}
    ]
    for where, returned, n_read in (
        ("x >= 0", "", 2),  # those in which M begins and ends
        ("x <> 3", "", 52),  # and the 50 before, in each of which some event does not pass
        # M may begin up to 12,129, the last time of block 120, and is certain in block 123.
        ("x >= 0", " RETURN COUNT(M.*) AS n", 124),
    ):
        sql = f"FROM (SELECT t, x, v FROM s WHERE {where}) {bare + returned}"
        result = replay.query(slow, sql, plan="tree")
        assert result.actual.blocks_read == n_read, sql
        assert rows(result.table.drop_columns(["n"] if returned else [])) == answer


def test_limit_reads_few_of_the_blocks_in_which_something_changes(tmp_path: Path) -> None:
    events = pa.table({"t": range(20_000), "x": [(t + 50) // 500 % 2 for t in range(20_000)]})
    store = create_store(tmp_path / "store")
    settings = StreamSettings(time="t", block_events=100)
    store.create_stream("s", events.schema, settings).append(events)
    sql = "SELECT H_start FROM s MATCH_SITUATIONS (DEFINE H AS x > 0 WITHIN 9000 EMIT FINAL{})"
    for returned in ("", " RETURN SUM(H.t) AS total"):
        asked = sql.format(returned)
        with patch.object(scan, "FEW_EVENTS", 100):
            cut = replay.query(store, f"{asked} LIMIT 2", plan="tree")
        whole = replay.query(store, asked, plan="tree")
        assert rows(cut.table) == rows(whole.table)[:2] == [{"H_start": 450}, {"H_start": 1450}]
        # Blocks 4, 9, 14, … change; in units of 1, 2 and 4 the second H ends in the third.
        assert (cut.actual.blocks_read, whole.actual.blocks_read) == (7, 40)


def test_blocks_are_read_whose_rows_alone_tell(slow: Store) -> None:
    one = "DEFINE M AS x BETWEEN 15 AND 30 AT LEAST 250 {} WITHIN 9000 RETURN {}(M.v) AS v"
    assert rows(replay.query(slow, f"FROM s {one.format('', 'LAST')}", plan="tree").table) == [
        {"v": 0, "M_start": 5_050, "M_end": None, "detection_time": 5_300}
    ]
    for clauses, starts, n_read in (
        (one.format("", "MAX"), [5_050], 3),  # where M begins, is certain, and ends
        (one.format("", "LAST"), [5_050], 3),
        # MEDIAN no summary has: the 71 blocks with rows of M, one before and one that M may reach.
        (one.format("", "MEDIAN"), [5_050], 73),
        ("VALID FOR 30 " + one.format("", "MAX"), [5_050, 10_050], 5),  # the silence, too
        ("VALID FOR 31 " + one.format("", "MAX"), [5_050], 3),
    ):
        result = replay.query(slow, f"FROM s {clauses}", plan="tree")
        assert result.table["M_start"].to_pylist() == starts, clauses
        assert result.actual.blocks_read == n_read, clauses
        assert rows(result.table) == rows(replay.query(slow, f"FROM s {clauses}").table)


def test_a_pattern_that_cannot_hold_reads_nothing_and_says_why(store: Store) -> None:
    pattern = "A before B AND B before C AND C before A"
    sql = f"FROM s DEFINE A AS x > 1, B AS x > 2, C AS x > 3 PATTERN {pattern} WITHIN 9"
    result = replay.query(store, sql)
    assert rows(result.table) == []
    assert result.table.schema.names[-1] == "detection_time"
    assert result.actual.rows_replayed == 0
    assert "no situations can have all relations" in to_text(replay.explain(store, sql).plan, None)


def test_windows_count_detections_and_patterns_are_joined(store: Store) -> None:
    answer = rows(replay.query(store, QUERY).table)
    hop = f"TABLE(TUMBLE(TABLE ({QUERY}), DESCRIPTOR(detection_time), 100))"
    sql = f"SELECT window_start, COUNT(*) AS n FROM {hop} GROUP BY window_start"
    counts = rows(replay.query(store, sql).table)
    assert sum(row["n"] for row in counts) == len(answer)
    assert all(
        row["n"] == sum(row["window_start"] <= one["detection_time"] < row["window_start"] + 100
                        for one in answer)
        for row in counts
    )  # fmt: skip
    low = "s MATCH_SITUATIONS (PARTITION BY k DEFINE L AS x < 2)"
    joined = (
        f"SELECT a.k, a.detection_time AS one, b.detection_time AS other FROM {OPERATOR} AS a "
        f"JOIN {low} AS b WITHIN 5 ON a.k = b.k"
    )
    lows = rows(replay.query(store, f"SELECT * FROM {low}").table)
    expected = sorted(
        (a["detection_time"], b["detection_time"])
        for a in answer
        for b in lows
        if a["k"] == b["k"] and abs(a["detection_time"] - b["detection_time"]) < 5
    )
    found = rows(replay.query(store, joined).table)
    assert sorted((row["one"], row["other"]) for row in found) == expected != []


def test_situations_over_a_windowed_subquery(store: Store) -> None:
    sums = (
        "SELECT window_start AS t, SUM(x) AS total FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 10)) "
        "GROUP BY window_start"
    )
    totals = rows(replay.query(store, sums).table)
    sql = f"FROM ({sums}) DEFINE H AS total > 60 EMIT FINAL"
    runs, since = [], None
    for row in totals:
        if row["total"] > 60:
            since = row["t"] if since is None else since
        elif since is not None:
            runs.append((since, row["t"]))
            since = None
    found = rows(replay.query(store, sql).table)
    assert [(row["H_start"], row["H_end"]) for row in found] == runs != []


def test_a_stream_is_made_of_a_pattern_and_asked(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    store.create_stream("s", history().schema, SETTINGS).append(history())
    answer = replay.query(store, QUERY).table
    made = replay.query(store, f"CREATE STREAM alerts AS {QUERY}").table
    assert rows(made)[0]["events"] == answer.num_rows
    assert rows(replay.query(store, "SELECT * FROM alerts").table) == rows(answer)


# ---------------------------------------------------------------------------------------------
# Online


def braking() -> Any:
    schema = pa.schema({"t": pa.int64(), "b": pa.int64()})
    return replay.online("FROM s DEFINE B AS b = 1 AT LEAST 4", schema, time="t"), schema


def told(table: pa.Table) -> list[int]:
    return table["detection_time"].to_pylist()


def test_a_duration_is_told_as_time_reaches_it_without_an_event() -> None:
    online, schema = braking()
    assert told(online.push(pa.table({"t": [0], "b": [1]}, schema))) == []
    assert told(online.advance(4)) == []  # an event at 4 may still say that it was over
    assert told(online.advance(5)) == [4]
    assert told(online.push(pa.table({"t": [9], "b": [1]}, schema))) == []
    assert told(online.finish()) == []


def test_a_match_goes_out_with_the_event_that_makes_it_certain() -> None:
    sql = "FROM s DEFINE A AS a = 1, B AS a = 0 PATTERN A meets B WITHIN 9"
    schema = pa.schema({"t": pa.int64(), "a": pa.int64()})
    online = replay.online(sql, schema, time="t")
    online.push(pa.table({"t": [1, 2], "a": [1, 1]}, schema))
    assert told(online.push(pa.table({"t": [3], "a": [0]}, schema))) == []
    assert told(online.advance(4)) == [3]


def test_windows_over_situations_do_not_wait_for_the_next_match() -> None:
    windows = (
        "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE (FROM s DEFINE B AS b = 1), "
        "DESCRIPTOR(detection_time), 10)) GROUP BY window_end"
    )
    schema = pa.schema({"t": pa.int64(), "b": pa.int64()})
    online = replay.online(windows, schema, time="t")
    assert rows(online.push(pa.table({"t": [1, 2, 5], "b": [1, 0, 0]}, schema))) == []
    assert rows(online.push(pa.table({"t": [25], "b": [0]}, schema))) == [
        {"window_end": 10, "n": 1}
    ]


def test_joins_over_situations_do_not_wait_for_the_next_match() -> None:
    joined = (
        "SELECT p.detection_time AS one, q.t AS other FROM s MATCH_SITUATIONS (DEFINE B AS b = 1) "
        "AS p JOIN q WITHIN 3 "
    )
    schema = pa.schema({"t": pa.int64(), "b": pa.int64()})
    online = replay.online(joined, {"s": schema, "q": schema}, time="t")
    online.push(pa.table({"t": [1, 2], "b": [1, 0]}, schema), stream="s")
    assert rows(online.push(pa.table({"t": [2, 5], "b": [0, 0]}, schema), stream="q")) == []
    found = online.push(pa.table({"t": [9], "b": [0]}, schema), stream="s")
    assert rows(found) == [{"one": 1, "other": 2}]


def test_a_snapshot_of_another_pattern_is_refused() -> None:
    online, schema = braking()
    online.push(pa.table({"t": [0], "b": [1]}, schema))
    other = replay.online("FROM s DEFINE B AS b = 1 AT LEAST 5", schema, time="t")
    with pytest.raises(QueryError, match="one of another query"):
        other.restore(online.snapshot())


def test_more_situations_than_a_word_has_bits_are_refused() -> None:
    names = [f"S{i}" for i in range(65)]
    defines = ", ".join(f"{name} AS x > 1" for name in names)
    pattern = " AND ".join(f"S0 before {name}" for name in names[1:])
    with pytest.raises(NotSupportedError, match="more than 64 situations"):
        replay.query(
            {"s": history()}, f"FROM s ORDER BY t DEFINE {defines} PATTERN {pattern} WITHIN 9"
        )


def test_times_and_keys_keep_their_types() -> None:
    table = pa.table(
        {
            "at": pa.array([0, 1_500_000, 4_000_000], pa.timestamp("us", "UTC")),
            "k": pa.array(["a", "a", "a"]).dictionary_encode(),
            "on": [True, True, False],
        }
    )
    sql = (
        'FROM s PARTITION BY k ORDER BY at DEFINE P AS "on" AT LEAST 250 MILLISECONDS '
        "RETURN LAST(P.k) AS l"
    )
    found = replay.query({"s": table}, sql).table
    assert found.schema.field("P_start").type == pa.timestamp("us", "UTC")
    assert [value.microsecond for value in found["detection_time"].to_pylist()] == [250_000]
    assert rows(found)[0]["l"] == "a"
