"""Aggregates over matches, over a store: what explain tells of them, and where they may stand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import chronicle
import replay
from chronicle import StreamSettings
from indexing import RunWriter
from replay.errors import NotSupportedError
from replay.patterns import row_intake
from replay.patterns.summing import choice, event_grain, operator, panes
from replay.patterns.summing.lanes import Lanes
from replay.running import windowed_patterns
from tests.memory_stream import index, memory_store

EVENTS = pa.table(
    {"t": [1, 2, 3, 4, 5], "k": list("acdcd"), "x": [0.0, 1.0, 0.0, 10.0, 0.0], "y": [1] * 5}
)
PATTERN = (
    "MATCH_RECOGNIZE (PARTITION BY {by} ORDER BY t MEASURES A.x AS m PATTERN (A C D) "
    "SEMANTICS SKIP TILL ANY DEFINE A AS k = 'a', C AS k = 'c', D AS k = 'd')"
)
OVER_S = f"FROM s {PATTERN.format(by='y')}"


@pytest.fixture(scope="module")
def store() -> Iterator[chronicle.Store]:
    with memory_store() as store:
        store.create_stream("s", EVENTS.schema, StreamSettings(time="t")).append(EVENTS)
        yield store


@pytest.mark.parametrize(
    ("sql", "way", "why"),
    [
        (f"SELECT COUNT(*) {OVER_S}", "summed", ""),
        (f"SELECT y, AVG(C.x), MAX(m) {OVER_S} GROUP BY y", "summed", ""),
        (
            "SELECT MIN(C.x) FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), 2, 4)) "
            + PATTERN.format(by="window_start"),
            "summed",
            "",
        ),
        (
            f"SELECT COUNT(*) {OVER_S} WHERE m > 1",
            "enumerated",
            "WHERE reads 'm', a measure of each",
        ),
        (
            f"SELECT VAR_POP(C.x) {OVER_S}",
            "enumerated",
            "VAR_POP needs all values one by one",
        ),
        (
            f"SELECT COUNT(*) {OVER_S.replace('D AS', 'D AS x < C.x AND')}",
            "summed",
            "",
        ),
        (
            f"SELECT COUNT(*) {OVER_S.replace('D AS', 'D AS x < C.x AND y > A.y AND')}",
            "enumerated",
            "conditions behind C read 2 rows mapped before, not one",
        ),
    ],
)
def test_explain_tells_why_matches_are_made(store: chronicle.Store, sql: str, way: str, why: str):
    explained = replay.explain(store, sql)
    told = explained.to_dict()["aggregation"]
    assert (told["way"], told["why"]) == (way, why)
    told = f"matches   are made: {why}; there can be exponentially many"
    assert (told in str(explained)) is (way == "enumerated")


@pytest.mark.parametrize(
    ("define", "semantics", "edges"),
    [
        ("D AS x < LAST(x, 1)", "SKIP TILL ANY", [("C", "D", "(x < LAST(x, 1))", "tree")]),
        ("D AS x < LAST(x, 1)", "SKIP TILL NEXT", [("C", "D", "(x < LAST(x, 1))", "tree")]),
        ("D AS x < LAST(x, 1)", "CONTIGUOUS", [("C", "D", "(x < LAST(x, 1))", "last row")]),
        ("D AS k = C.k", "SKIP TILL ANY", [("C", "D", "(k = C.k)", "value")]),
        ("D AS x - A.x > 1", "SKIP TILL ANY", [("C", "D", "((x - A.x) > 1.0)", "scan")]),
        ("D AS k = 'd'", "SKIP TILL ANY", []),
    ],
)
def test_explain_tells_how_conditions_are_looked_at(
    store: chronicle.Store, define: str, semantics: str, edges: list[tuple[str, ...]]
):
    sql = OVER_S.replace("D AS k = 'd'", define).replace("SKIP TILL ANY", semantics)
    told = replay.explain(store, f"SELECT COUNT(*) {sql}").to_dict()["aggregation"]
    assert [tuple(edge.values()) for edge in told["edges"]] == edges
    assert told["grain"] == ("event" if edges else "type")


@pytest.mark.parametrize(
    ("pattern", "n_states"),
    [("(A C D)", 3), ("(A+)", 1), ("(A C*)", 1), ("(A C* D)", 2), ("(A (C | D))", 2)],
)
def test_explain_tells_in_how_many_states_a_partial_match_can_be(
    store: chronicle.Store, pattern: str, n_states: int
) -> None:
    defined = ", ".join(f"{name} AS k = '{name.lower()}'" for name in "ACD" if name in pattern)
    sql = (
        f"SELECT COUNT(*) FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN {pattern} "
        f"SEMANTICS SKIP TILL ANY DEFINE {defined})"
    )
    assert replay.explain(store, sql).to_dict()["aggregation"]["states"] == n_states


def test_explain_tells_of_no_states_where_matches_are_made(store: chronicle.Store) -> None:
    told = replay.explain(store, f"SELECT COUNT(*) {OVER_S} WHERE m > 1").to_dict()["aggregation"]
    assert told["states"] is None


GAP = "D.t - A.t"
HOP = f"TABLE(HOP(TABLE s, DESCRIPTOR(t), 2, 4)) {PATTERN.format(by='window_start')}"
CUMULATE = HOP.replace("HOP", "CUMULATE").replace("2, 4", "2, 18")
CUMULATE = CUMULATE.replace("window_start", "window_start, window_end")


@pytest.mark.parametrize(
    ("sql", "lanes"),
    [
        (f"SELECT COUNT(*) {OVER_S}", "one"),
        (f"SELECT COUNT(*) {OVER_S.replace('ANY', 'ANY WITHIN 9')}", "entries"),
        (f"SELECT SUM(C.x), MAX(m) {OVER_S.replace('ANY', 'ANY WITHIN 9')}", "entries"),
        (f"SELECT MAX(m) {OVER_S.replace('ANY', 'ANY WITHIN 9').replace('A.x', GAP)}", "starts"),
        (f"SELECT SUM(C.x), MAX(m) FROM {HOP}", "panes"),
        (f"SELECT SUM(C.x), MAX(m) FROM {HOP.replace('2, 4', '2, 18')}", "entries"),
        (f"SELECT COUNT(*) FROM {CUMULATE}", "panes"),
        (f"SELECT SUM(C.x) FROM {HOP.replace('HOP', 'SLIDING').replace('2, 4', '4')}", "entries"),
        (f"SELECT MAX(m) FROM {HOP.replace('A.x', GAP)}", "panes"),
        (f"SELECT COUNT(*) FROM {HOP.replace('ANY', 'ANY WITHIN 2')}", "entries"),
        (f"SELECT MAX(m) FROM {HOP.replace('ANY', 'ANY WITHIN 2').replace('A.x', GAP)}", "windows"),
        (f"SELECT COUNT(*) FROM {HOP.replace('D AS', 'D AS x < C.x AND')}", "rows"),
        (f"SELECT VAR_POP(C.x) {OVER_S}", None),
    ],
)
def test_explain_tells_by_what_matches_are_told_apart(
    store: chronicle.Store, sql: str, lanes: str | None
):
    of_store, of_table = (replay.explain(s, sql).to_dict() for s in (store, {"s": EVENTS}))
    assert of_store["aggregation"] == of_table["aggregation"]
    told = of_store["aggregation"]["lanes"]
    assert (told, type(told)) == (lanes, type(lanes))


@pytest.mark.parametrize(
    ("define", "words"),
    [
        ("D AS k = 'd'", "matches   are summed, none of them is made"),
        ("D AS k = 'd' AND x < C.x AND y > A.y", "matches   are made: conditions behind C read"),
    ],
)
def test_explain_tells_of_matches_over_subqueries(store: chronicle.Store, define: str, words: str):
    sql = OVER_S.replace("FROM s", "FROM (SELECT t, k, x, y + 1 AS y FROM s)")
    sql = "SELECT COUNT(*) " + sql.replace("D AS k = 'd'", define)
    of_store, of_table = (replay.explain(source, sql) for source in (store, {"s": EVENTS}))
    assert words in str(of_store)
    assert words in str(of_table)
    assert of_store.to_dict()["aggregation"] == of_table.to_dict()["aggregation"]


def test_explain_says_nothing_of_matches_that_are_the_answer(store: chronicle.Store):
    assert "aggregation" not in replay.explain(store, f"SELECT * {OVER_S}").to_dict()


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT SUM(C.x) AS s, COUNT(*) AS n {OVER_S}",
        f"SELECT SUM(C.x) AS s, COUNT(*) AS n FROM (SELECT * FROM s WHERE x >= 0) {PATTERN}",
        f"SELECT SUM(C.x) AS s, COUNT(*) AS n FROM (SELECT t, k, x, y + 1 AS z FROM s) {PATTERN}",
        f"WITH q AS (SELECT SUM(C.x) AS s, COUNT(*) AS n {OVER_S}) SELECT * FROM q",
        f"SELECT SUM(C.x) AS s, COUNT(*) AS n FROM s {PATTERN} UNION SELECT 12.0, 3",
        f"SELECT SUM(C.x) AS s, COUNT(*) AS n FROM TUMBLE(TABLE q, DESCRIPTOR(t), 9) {PATTERN}",
    ],
)
def test_aggregates_over_symbols_stand_wherever_patterns_do(store: chronicle.Store, sql: str):
    by = "z" if "AS z" in sql else "window_start, y" if "TUMBLE" in sql else "y"
    sql = sql.replace("TABLE q", "TABLE (SELECT * FROM s WHERE x >= 0)")
    answer = replay.query(store, sql.format(by=by)).table
    assert answer.to_pylist() == [{"s": 12.0, "n": 3}]


def by_window(select: str, rest: str = "", windows: str = "TUMBLE(TABLE s, DESCRIPTOR(t), 3)"):
    pattern = (
        "PARTITION BY window_start, window_end ORDER BY t PATTERN (A B) SEMANTICS SKIP TILL ANY"
    )
    return f"SELECT {select} FROM TABLE({windows}) MATCH_RECOGNIZE ({pattern}) {rest}"


WITHIN_NOTHING = "WITHIN 10000"
ALWAYS = "COALESCE(LAST(t, 1) < t, TRUE)"
"""Holds of every row, and reads the one before: the grain is event."""


@pytest.mark.parametrize("semantics", ["SKIP TILL ANY", "SKIP TILL NEXT", "CONTIGUOUS"])
@pytest.mark.parametrize("pattern", ["A B C", "A B+ C", "(A | B)+ C?", "A !B C", "(A B | B A)+ C?"])
def test_every_grain_and_lanes_give_the_same(
    monkeypatch: pytest.MonkeyPatch, pattern: str, semantics: str
):
    pattern = pattern.replace("!B ", "") if semantics == "CONTIGUOUS" else pattern
    random = np.random.default_rng(1)
    n = 120
    table = pa.table({"t": range(n), "k": random.integers(0, 4, n), "x": random.random(n)})
    windows = "TABLE(HOP(TABLE s, DESCRIPTOR(t), 7, 30))"

    def asked(select: str, also: str = "", within: str = "", source: str = "s") -> list[object]:
        names = [(k, name) for k, name in enumerate("ABC") if name in pattern]
        define = ", ".join(f"{name} AS k IN ({k}, 3) {also}" for k, name in names)
        by, group = "", ""
        if source != "s":
            by, group = "PARTITION BY window_start", "GROUP BY window_start"
        sql = (
            f"SELECT CAST(COUNT(*) AS VARCHAR) AS n, {select} FROM {source} MATCH_RECOGNIZE ({by} "
            f"ORDER BY t PATTERN ({pattern}) SEMANTICS {semantics} {within} "
            f"SUBSET U = (A, C) DEFINE {define}) {group}"
        )
        return replay.query({"s": table}, sql).table.to_pylist()

    for select in ("1 AS one", "SUM(U.x) AS s, MAX(C.x) AS m"):
        in_one = asked(select)
        assert asked(select, f"AND {ALWAYS}") == in_one
        assert asked(select, within=WITHIN_NOTHING) == in_one
        assert asked(select, f"AND {ALWAYS}", WITHIN_NOTHING) == in_one
        in_windows = asked(select, source=windows)
        assert len(in_windows) > 3
        assert asked(select, f"AND {ALWAYS}", source=windows) == in_windows
        with monkeypatch.context() as patched:
            for lanes in (Lanes.WINDOWS, Lanes.ENTRIES):
                patched.setattr(windowed_patterns, "lanes_of", lambda *_, of=lanes, **__: of)
                assert asked(select, source=windows) == in_windows
            patched.setattr(choice, "lanes_of", lambda *_: Lanes.STARTS)
            assert asked(select, within=WITHIN_NOTHING) == in_one
            by_starts = asked(select, within="WITHIN 60")
        assert asked(select, within="WITHIN 60") == by_starts


@pytest.mark.parametrize(("n", "lanes"), [(200, "entries"), (300, "starts")])
def test_rows_of_few_states_alone_are_multiplied(n: int, lanes: str):
    """A{n} over n + 2 rows: each match leaves two of them out."""
    table = pa.table({"t": range(n + 2)})
    sql = (
        f"SELECT COUNT(*) AS n FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN (A{{{n}}}) "
        f"SEMANTICS SKIP TILL ANY WITHIN {n + 1} DEFINE A AS t >= 0)"
    )
    result = replay.query({"s": table}, sql)
    assert result.table.to_pylist() == [{"n": (n + 2) * (n + 1) // 2}]
    told = replay.explain({"s": table}, sql).to_dict()
    assert told["aggregation"]["lanes"] == lanes


@pytest.mark.parametrize("by", ["", ", x"])
@pytest.mark.parametrize("within", ["", "WITHIN 1000"])
def test_too_many_matches_to_be_told_are_an_error(
    monkeypatch: pytest.MonkeyPatch, within: str, by: str
):
    monkeypatch.setattr(operator, "WORDS_MAX", 4)
    table = pa.table({"t": range(300), "x": [1] * 300})
    recognize = (
        f"(PARTITION BY {by.removeprefix(', ')} " if by else "(",
        f"ORDER BY t PATTERN (A+) SEMANTICS SKIP TILL ANY {within})",
    )
    with pytest.raises(replay.QueryError, match=r"narrow the conditions, or add WITHIN"):
        replay.query({"s": table}, f"SELECT COUNT(*) FROM s MATCH_RECOGNIZE {''.join(recognize)}")
    windows = "TABLE(HOP(TABLE s, DESCRIPTOR(t), 10, 1000))"
    in_windows = f"(PARTITION BY window_start{by} {recognize[1]}"
    with pytest.raises(replay.QueryError, match=r"narrow the conditions, or add WITHIN"):
        replay.query({"s": table}, f"SELECT COUNT(*) FROM {windows} MATCH_RECOGNIZE {in_windows}")


@pytest.mark.parametrize("define", ["B AS t % 2 = 0", "B AS t > LAST(t, 1)"])
def test_windows_hold_their_panes_and_nothing_of_those_before(
    define: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(row_intake, "KNOWN_MIN", 256)
    monkeypatch.setattr(panes, "KNOWN_MIN", 256)
    # Ten rows in a window, four of each key, which does not come again.
    sql = (
        "SELECT window_end AS w, COUNT(*) AS n, SUM(A.t) AS s FROM "
        "TABLE(HOP(TABLE s, DESCRIPTOR(t), 2, 10)) MATCH_RECOGNIZE (PARTITION BY window_start, "
        "window_end, k ORDER BY t PATTERN (A B+) SEMANTICS SKIP TILL ANY "
        f"DEFINE {define}) GROUP BY window_end"
    )
    flow = replay.online(sql, pa.schema([("t", pa.int64()), ("k", pa.int64())]), time="t")
    sizes = []
    for first in range(0, 8_000, 2_000):
        times = np.arange(first, first + 2_000)
        assert flow.push(pa.table({"t": times, "k": times // 4})).num_rows > 900
        sizes.append(len(flow.snapshot()))
    assert max(sizes[2:]) <= 1.1 * sizes[1]


@pytest.mark.parametrize("by", ["", ", g"])
@pytest.mark.parametrize(
    "windows", ["HOP(TABLE s, DESCRIPTOR(t), 30, 200)", "SLIDING(TABLE s, DESCRIPTOR(t), 200)"]
)
@pytest.mark.parametrize("define", ["A AS y = 1", "A AS y = COALESCE(LAST(y, 1), 1)"])
def test_in_windows_longer_than_within_matches_are_those_within(define: str, windows: str, by: str):
    # Every row is mapped or not: behind the first of a match, those within its time in the window.
    n, size, within = 300, 200, 100
    values = np.random.default_rng(3).permutation(n)
    table = pa.table({"t": range(n), "g": ["g"] * n, "y": [1] * n, "v": values})
    found = replay.query(
        {"s": table},
        "SELECT window_start AS s, window_end AS e, CAST(COUNT(*) AS VARCHAR) AS n, "
        f"MIN(A.v) AS v FROM TABLE({windows}) MATCH_RECOGNIZE ("
        f"PARTITION BY window_start, window_end{by} ORDER BY t PATTERN (A+) "
        f"SEMANTICS SKIP TILL ANY WITHIN {within} DEFINE {define}) "
        "GROUP BY window_start, window_end",
    ).table
    assert len(found) > n / 30
    for window in found.to_pylist():
        low, high = max(window["s"], 0), min(window["e"], n)
        assert window["e"] - window["s"] == size
        expected = sum(2 ** min(within, high - 1 - first) for first in range(low, high))
        assert (int(window["n"]), window["v"]) == (expected, values[low:high].min())


def test_groups_of_a_window_go_out_when_it_is_over():
    rows = pa.table({"t": [0, 1, 2]})
    tumble = by_window("window_end AS e, COUNT(*) AS n", "GROUP BY window_end")
    flow = replay.online(tumble, rows.schema, time="t")
    assert flow.push(rows).num_rows == 0
    assert flow.advance(3).to_pylist() == [{"e": 3, "n": 3}]
    assert flow.push(pa.table({"t": [4, 5, 6]})).to_pylist() == [{"e": 6, "n": 1}]
    assert flow.finish().num_rows == 0
    # Windows of CUMULATE that start together are over with the last of them: [0, 2), [0, 4).
    cumulate = by_window(
        "window_start AS s, COUNT(*) AS n",
        "GROUP BY window_start",
        "CUMULATE(TABLE s, DESCRIPTOR(t), 2, 4)",
    )
    flow = replay.online(cumulate, rows.schema, time="t")
    flow.push(rows)
    assert flow.advance(3).num_rows == 0
    assert flow.advance(4).to_pylist() == [{"s": 0, "n": 1 + 3}]


@pytest.mark.parametrize(
    "windows",
    [
        "TUMBLE(TABLE s, DESCRIPTOR(t), 100000)",
        "HOP(TABLE s, DESCRIPTOR(t), 50000, 100000)",
        "CUMULATE(TABLE s, DESCRIPTOR(t), 50000, 100000)",
    ],
)
def test_what_is_known_of_a_window_does_not_grow_with_its_rows(windows: str) -> None:
    by = "window_start, window_end"
    sql = (
        f"SELECT {by}, COUNT(*) AS n FROM TABLE({windows}) MATCH_RECOGNIZE (PARTITION BY {by} "
        f"PATTERN (A B) SEMANTICS SKIP TILL ANY DEFINE A AS x = 0, B AS x = 1) GROUP BY {by}"
    )
    schema = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    flow, sizes = replay.online(sql, schema, time="t"), []
    for t in range(1, 2_001):
        flow.push(pa.table([[t], [t % 2]], schema=schema))
        if t in (50, 2_000):
            sizes.append(len(flow.snapshot()))
    assert sizes[1] <= sizes[0] + 64


@pytest.mark.parametrize(
    "sql",
    [
        by_window("COUNT(*) AS n"),
        by_window("window_start, COUNT(*) AS n", "GROUP BY window_start ORDER BY n"),
        by_window("window_start", "ORDER BY window_start DESC"),
        f"SELECT COUNT(*) AS n {OVER_S}",
        f"SELECT COUNT(*) AS n {OVER_S.replace('FROM s', 'FROM (SELECT * FROM s WHERE x > 1)')}",
    ],
)
def test_what_needs_the_end_of_the_stream_does_not_go_online(sql: str):
    with pytest.raises(NotSupportedError, match="need the whole answer"):
        replay.online(sql, EVENTS.schema, time="t")


LARGE = pa.table({"t": [1, 2, 3], "k": ["a", "a", "b"], "n": [2**62, 2**62, 7]})
SUMS = (
    "SELECT k, SUM(A.n) AS n, CAST(SUM(A.n) AS DECIMAL(76, 0)) AS w FROM s MATCH_RECOGNIZE ("
    "PARTITION BY k ORDER BY t PATTERN (A) SEMANTICS SKIP TILL ANY) GROUP BY k"
)

BY_WINDOW = (
    "SELECT window_start, SUM(A.n) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 3)) "
    "MATCH_RECOGNIZE (PARTITION BY window_start PATTERN (A) SEMANTICS SKIP TILL ANY) "
    "GROUP BY window_start"
)


PRICES = pa.table(
    {
        "t": [1, 2, 3],
        "k": ["a", "a", "b"],
        "p": pa.array([Decimal("6e15"), Decimal("5e15"), Decimal("0.07")], pa.decimal128(18, 2)),
    }
)


@pytest.mark.parametrize(("where", "way"), [("", "summed"), ("WHERE m IS NOT NULL", "enumerated")])
def test_sums_of_decimals_beyond_their_digits_are_exact(where: str, way: str):
    # Of A+ over two rows there are three matches, and each row is in two of them.
    sql = (
        "SELECT k, SUM(A.p) AS s, SUM(m) AS lasts FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY "
        f"t MEASURES LAST(A.p) AS m PATTERN (A+) SEMANTICS SKIP TILL ANY) {where} GROUP BY k"
    )
    assert replay.explain({"s": PRICES}, sql).to_dict()["aggregation"]["way"] == way
    result = replay.query({"s": PRICES}, sql)
    assert result.table.schema.field("s").type == pa.decimal256(76, 2)
    assert result.table.to_pylist() == [
        {"k": "a", "s": Decimal("2.2e16"), "lasts": Decimal("1.6e16")},
        {"k": "b", "s": Decimal("0.07"), "lasts": Decimal("0.07")},
    ]


def test_a_sum_of_decimals_beyond_its_digits_fails_online_as_its_type_is_told_before():
    sql = BY_WINDOW.replace("A.n", "A.p").replace("(t), 3", "(t), 9")
    flow = replay.online(sql, PRICES.schema, time="t")
    flow.push(PRICES)
    with pytest.raises(
        replay.QueryError, match=r"DECIMAL\(18, 2\) cannot hold, .*VARCHAR\) or LOG"
    ):
        flow.advance(9)


def test_a_sum_beyond_64_bits_fails_online_as_its_type_is_told_before():
    flow = replay.online(BY_WINDOW, LARGE.schema, time="t")
    with pytest.raises(replay.QueryError, match="column 'n' has a number that INTEGER cannot hold"):
        flow.push(LARGE)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"{SUMS} ORDER BY n", [("b", 7, 7), ("a", 2**63, 2**63)]),
        (f"SELECT k, w FROM ({SUMS}) WHERE k = 'a'", "a number that INTEGER cannot hold"),
        (f"SELECT k, w FROM ({SUMS} HAVING n < 8)", [("b", 7)]),
        (f"SELECT w + 1 FROM ({SUMS} HAVING n < 8)", "select as it is"),
        (f"SELECT SUM(n) AS s FROM ({SUMS})", "column 'n' of a subquery has a number that"),
        (f"SELECT SUM(n) OVER () AS s FROM ({SUMS})", [(2**63 + 7,), (2**63 + 7,)]),
        (f"CREATE STREAM made AS {BY_WINDOW}", "a number that INTEGER cannot hold"),
        (f"CREATE STREAM made AS {BY_WINDOW} HAVING n < 8", [("made", 1, 1)]),
    ],
)
def test_numbers_beyond_64_bits_are_exact_or_an_error_further_out(
    tmp_path: Path, sql: str, expected: object
):
    store = chronicle.create_store(tmp_path / "store")
    store.create_stream("s", LARGE.schema, StreamSettings(time="t")).append(LARGE)
    if isinstance(expected, str):
        with pytest.raises(replay.QueryError, match=expected):
            replay.query(store, sql)
    else:
        answer = replay.query(store, sql).table
        assert [tuple(row.values()) for row in answer.to_pylist()] == expected


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("x {} LAST(x, 1)", [3, 1, 2, None, 3, 1, 0, 2, 2, 4, 1, 3] * 4),
        ("x {} LAST(y, 1)", [0.5, math.nan, -0.0, 0.0, 2.5, None, math.inf, -1.5, 0.5, 7.0] * 5),
        ("x {} LAST(y, 1)", [*"bcabca", None, *"dzbb", ""] * 4),
    ],
)
def test_cells_by_tree_are_those_that_are_looked_at_one_by_one(
    monkeypatch: pytest.MonkeyPatch, condition: str, values: list[object]
):
    n = len(values)
    table = pa.table(
        {"t": range(n), "x": values, "y": values[::-1], "g": [k % 3 for k in range(n)]}
    )
    ways = (("SKIP TILL ANY", "S T* E?"), ("SKIP TILL NEXT", "S T*"))
    ops = ("<", "<=", ">", ">=", "=", "<>")
    for op, (semantics, pattern), within in itertools.product(ops, ways, ("", "WITHIN 40")):
        define = condition.format(op)
        least = "" if isinstance(values[0], str) else ", MIN(T.y) AS least, MAX(S.x) AS most"
        sql = (
            f"SELECT g, CAST(COUNT(*) AS VARCHAR) AS n, MAX(k) AS longest{least} FROM s "
            "MATCH_RECOGNIZE (PARTITION BY g ORDER BY t MEASURES COUNT(*) AS k "
            f"PATTERN ({pattern}) SEMANTICS {semantics} {within} DEFINE T AS {define}) GROUP BY g"
        )
        answers = []
        for rows_min in (1, 10**9):
            monkeypatch.setattr(event_grain, "ROWS_MIN", rows_min)
            answers.append(replay.query({"s": table}, sql).table.to_pylist())
        assert answers[0] == answers[1], (op, semantics, within)


@pytest.mark.parametrize("within", ["", "WITHIN 2"])
def test_sliding_windows_are_read_where_a_match_is_in_one(within: str) -> None:
    """B at 51 follows A at 50: both are in (T - 6, T] for T from 51 to 55, of blocks 17 and 18."""
    rows = pa.table(
        {"t": range(120), "a": [{50: 1, 51: 2}.get(t, 9 * (t % 2)) for t in range(120)]}
    )
    sql = (
        "SELECT window_end, COUNT(*) AS n FROM TABLE(SLIDING(TABLE s, DESCRIPTOR(t), 6)) "
        "MATCH_RECOGNIZE (PARTITION BY window_end ORDER BY t PATTERN (A B) SEMANTICS SKIP TILL ANY "
        f"{within} DEFINE A AS a = 1, B AS a = 2) GROUP BY window_end"
    )
    with memory_store() as store:
        stream = store.create_stream("s", rows.schema, StreamSettings("t", 3))
        index(stream, ("a",))
        stream.append(rows, derived=RunWriter(("a",), "t"))
        found = {
            plan: replay.query(store, sql, plan=plan) for plan in ("full", "indexes=A.a", "all")
        }
    for plan, result in found.items():
        assert result.table.to_pylist() == [{"window_end": t + 1, "n": 1} for t in range(51, 56)]
        assert result.actual.blocks_read == (40 if plan == "full" else 3), plan


@pytest.mark.parametrize("plan", ["full", "tree", "all", "auto"])
@pytest.mark.parametrize(
    ("pattern", "define", "n"),
    [
        ("A B? A", "A AS a = 5, B AS a = 9", 1),  # of three rows at most: 0 and 1, not 1 and 42
        ("A C", "A AS a IN (3, 5), C AS a IN (5, 7)", 2),  # 0 and 1, 42 and 43, not 1 and 42
    ],
)
def test_rows_around_others_that_were_not_read_are_no_neighbours_in_a_window(
    pattern: str, define: str, n: int, plan: str
):
    rows = pa.table({"t": range(60), "a": [5, 5, *[0] * 40, 5, 7, *[0] * 16]})
    sql = (
        "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 60)) MATCH_RECOGNIZE ("
        f"PARTITION BY window_start ORDER BY t PATTERN ({pattern}) SEMANTICS CONTIGUOUS "
        f"DEFINE {define})"
    )
    with memory_store() as store:
        stream = store.create_stream("s", rows.schema, StreamSettings("t", 1))
        index(stream, ("a",))
        stream.append(rows, derived=RunWriter(("a",), "t"))
        assert replay.query(store, sql, plan=plan).table.to_pylist() == [{"n": n}]
