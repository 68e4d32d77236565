"""Aggregates over every match: examples of A-Seq and COGRA, and small ones worked out by hand."""

from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import replay
from replay.errors import QueryError
from replay.language import bind, parse_query
from tests.golden.by_hand import letter, numbers, trace
from tests.oracles.matcher import match_rows

COGRA = trace("a1 b2 a3 a4 c5 b6 a7 b8")
"""The stream of COGRA Fig. 2."""


def ask(table: pa.Table, sql: str) -> list[tuple[Any, ...]]:
    """Return the answer of a query over s, of product and oracle, which agree."""
    bound = bind(parse_query(sql), table.schema, time="t", text=sql)
    by_oracle = [tuple(row.values()) for row in match_rows(table.to_pylist(), bound)]
    found = [tuple(row.values()) for row in replay.query({"s": table}, sql).table.to_pylist()]
    assert found == by_oracle
    return found


def aggregate(select: str, table: pa.Table, pattern: str, semantics: str, define: str = "") -> Any:
    """Return the one row of aggregates over all matches; letters of the pattern are types."""
    define = define or letter(*(symbol for symbol in "ABCDEX" if symbol in pattern))
    (row,) = ask(
        table,
        f"SELECT {select} FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n, "
        f"LAST(t) - FIRST(t) AS took PATTERN ({pattern}) SEMANTICS {semantics} {define})",
    )
    return row[0] if len(row) == 1 else row


def after_each(pattern: str, semantics: str) -> list[int]:
    """Return the number of trends of COGRA's stream after each of its events."""
    prefixes = (COGRA.slice(0, n) for n in range(1, COGRA.num_rows + 1))
    return [aggregate("COUNT(*)", prefix, pattern, semantics) for prefix in prefixes]


# ---------------------------------------------------------------------------------------------
# COGRA Fig. 2, Tables 6 to 9


@pytest.mark.parametrize(
    ("pattern", "semantics", "counts"),
    [
        # a1 1, b2 1, a3 3, a4 6, b6 10, a7 22, b8 32 under ANY: each A continues all A and B before
        # it or begins, each B all A before it. At b2, b6, b8: 1, 11, 43.
        ("(A+ B)+", "SKIP TILL ANY", [0, 1, 1, 1, 1, 11, 11, 43]),
        ("(A+ B)* A+", "SKIP TILL ANY", [1, 1, 4, 10, 10, 10, 32, 32]),
        ("(A+ B)+", "SKIP TILL NEXT", [0, 1, 1, 1, 1, 4, 4, 8]),
        ("(A+ B)+", "CONTIGUOUS", [0, 1, 1, 1, 1, 1, 1, 2]),
    ],
)
def test_trends_of_cogra_after_each_event(pattern: str, semantics: str, counts: list[int]) -> None:
    assert after_each(pattern, semantics) == counts


def test_an_event_that_may_not_follow_another_is_left_out_of_its_trends() -> None:
    # As above, but a7 does not continue b6: it ends 1 + 10 + 1 trends, b8 then 1 + 3 + 6 + 12.
    table = COGRA.append_column("x", pa.array([1, 2, 3, 4, 5, 9, 7, 8]))
    define = (
        "DEFINE A AS k = 'a' AND (COALESCE(LAST(CLASSIFIER(), 1), '') <> 'B' OR x >= LAST(x, 1)), "
        "B AS k = 'b'"
    )
    assert aggregate("COUNT(*)", table.slice(0, 6), "(A+ B)+", "SKIP TILL ANY", define) == 11
    assert aggregate("COUNT(*)", table, "(A+ B)+", "SKIP TILL ANY", define) == 33


def test_aggregates_over_the_rows_of_all_trends_of_cogra() -> None:
    # COGRA Table 9, with x = 10 t. Under ANY a1 is in 30 trends, a3 and a4 in 24, a7 in 22:
    # SUM(A.x) = 10 (30 + 3 * 24 + 4 * 24 + 7 * 22) = 3520.
    table = COGRA.append_column("x", pa.array([10 * t for t in COGRA.column("t").to_pylist()]))
    select = "COUNT(A.*), SUM(A.x), AVG(A.x), MIN(B.x), SUM(B.x)"
    by_any = aggregate(select, table, "(A+ B)+", "SKIP TILL ANY")
    assert by_any == (100, 3520, 35.2, 20, 4040)
    by_next = aggregate(select, table, "(A+ B)+", "SKIP TILL NEXT")
    assert by_next == (17, 670, 670 / 17, 20, 740)


# ---------------------------------------------------------------------------------------------
# A-Seq Examples 4 and 8


def test_counts_of_negated_sequences() -> None:
    # c3 stands behind (a1 b2) before any D; (a1 b5) and (a4 b5) go on to d6, and again to d7.
    stream = trace("a1 b2 c3 a4 b5 d6 d7")
    count = [aggregate("COUNT(*)", stream.slice(0, n), "A B !C D", "SKIP TILL ANY") for n in (6, 7)]
    assert count == [2, 4]


def test_counts_of_a_sequence_of_five() -> None:
    stream = trace("a1 b2 c3 a4 b5 d6 c7 a8 d9 e10")
    # At c7 there are 4 of (A, B, C): a1 b2 c3, a1 b2 c7, a1 b5 c7, a4 b5 c7; with d6 1, with d9 4.
    assert aggregate("COUNT(*)", stream, "A B C D E", "SKIP TILL ANY") == 5
    assert aggregate("COUNT(*)", stream.slice(3), "A B C D E", "SKIP TILL ANY") == 1


# ---------------------------------------------------------------------------------------------
# Small ones


@pytest.mark.parametrize(
    ("letters", "pattern", "semantics", "count"),
    [
        # Definition 2.6 per run: COGRA's Algorithm 3, which keeps one last event, would give 1.
        ("a1 a2 b3", "A B", "SKIP TILL NEXT", 2),
        ("a1 a2 b3", "A B", "CONTIGUOUS", 1),
        ("a1 a2 a3", "(A+)+", "SKIP TILL ANY", 7),  # one for each set of rows, not derivation
    ],
)
def test_what_counts_as_a_match(letters: str, pattern: str, semantics: str, count: int) -> None:
    assert aggregate("COUNT(*)", trace(letters), pattern, semantics) == count


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("A+", 2**300 - 1),  # every set of rows but the empty one
        ("A{2}", 300 * 299 // 2),
    ],
)
def test_counts_of_any_size(pattern: str, count: int) -> None:
    sql = (
        "SELECT CAST(COUNT(*) AS VARCHAR) AS n, LOG2(COUNT(*)) AS digits FROM s MATCH_RECOGNIZE "
        f"(ORDER BY t PATTERN ({pattern}) SEMANTICS SKIP TILL ANY DEFINE A AS v = 1)"
    )
    (row,) = replay.query({"s": numbers([1] * 300)}, sql).table.to_pylist()
    assert row == {"n": str(count), "digits": math.log2(count)}


WORDS_END = [2**bits + more for bits in (63, 64, 128) for more in (-1, 0, 1)]


@pytest.mark.parametrize("within", ["", "WITHIN 10000"])
@pytest.mark.parametrize("count", [*WORDS_END, 10**76 - 1, 10**76, 10**76 + 1])
def test_counts_where_words_end(count: int, within: str) -> None:
    # Horner's rule over the bits: a C doubles the runs, which take it or not, an A adds one.
    rows = [v for bit in f"{count:b}" for v in [2] + [1] * int(bit)]
    define = "DEFINE A AS v = 1, C AS v = 2, B AS v = 3"
    ask = partial(replay.query, {"s": numbers([*rows, 3])})
    recognize = f"(ORDER BY t PATTERN (A C* B) SEMANTICS SKIP TILL ANY {within} {define})"
    digits = f"SELECT CAST(COUNT(*) AS VARCHAR) AS n FROM s MATCH_RECOGNIZE {recognize}"
    assert ask(digits).table.to_pylist() == [{"n": str(count)}]
    sql = f"SELECT COUNT(*) AS n FROM s MATCH_RECOGNIZE {recognize}"
    if count < 10**76:
        assert ask(sql).table.to_pylist() == [{"n": count}]
    else:
        with pytest.raises(QueryError, match="77 digits"):
            ask(sql)


def test_groups_by_counts_beyond_64_bits() -> None:
    # Of n rows each key has 2**n - 1 sets, the empty one is none.
    sizes = {"a": 64, "b": 63, "c": 130, "d": 2}
    keys = [key for key, n in sizes.items() for _ in range(n)]
    table = pa.table({"t": range(len(keys)), "k": keys})
    sql = (
        "SELECT k FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t PATTERN (A+) "
        "SEMANTICS SKIP TILL ANY) GROUP BY k "
    )
    for clauses, expected in (
        ("ORDER BY COUNT(*) DESC", ["c", "a", "b", "d"]),
        (f"HAVING COUNT(*) > {2**63 - 1}", ["a", "c"]),
        (f"HAVING COUNT(*) = {2**64 - 1}", ["a"]),
        (f"HAVING COUNT(*) < {2**64 - 1} ORDER BY COUNT(*)", ["d", "b"]),
    ):
        found = replay.query({"s": table}, sql + clauses).table.column("k").to_pylist()
        assert found == expected


def test_counts_in_windows_that_no_one_could_enumerate() -> None:
    # 40 rows in each of two windows of 40, 80 in that of both: every set of rows but the empty one.
    table = numbers([1] * 80).set_column(0, "t", pa.array(range(80)))
    sql = (
        "SELECT window_start AS at, COUNT(*) AS n, SUM(A.v) AS rows "
        "FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(t), 40, 80)) MATCH_RECOGNIZE (PARTITION BY "
        "window_start, window_end ORDER BY t PATTERN (A+) SEMANTICS SKIP TILL ANY "
        "DEFINE A AS v = 1) GROUP BY window_start, window_end"
    )
    found = [tuple(row.values()) for row in replay.query({"s": table}, sql).table.to_pylist()]
    # A row is in half of all sets.
    assert found == [(0, 2**40 - 1, 40 * 2**39), (0, 2**80 - 1, 80 * 2**79)]


@pytest.mark.parametrize("value", [0.5, None])
def test_numbers_become_longer_while_rows_come_and_go(value: float | None) -> None:
    # Few rows are A at first, then all: the product of rows that leave is kept when words are
    # added. Sets of rows within 99 of their first, and those of the last 100 times.
    hits = [t % 10 == 0 or t >= 150 for t in range(400)]
    table = numbers([int(hit) for hit in hits])
    table = table.append_column("x", pa.array([value] * 400, pa.float64()))
    table = table.set_column(0, "t", pa.array(range(400)))
    aggregates = "CAST(COUNT(*) AS VARCHAR) AS n, SUM(A.x) AS s"
    recognize = "ORDER BY t PATTERN (A+) SEMANTICS SKIP TILL ANY {} DEFINE A AS v = 1)"
    within = f"SELECT {aggregates} FROM s MATCH_RECOGNIZE ({recognize.format('WITHIN 99')}"
    (row,) = replay.query({"s": table}, within).table.to_pylist()
    sizes = [sum(hits[t + 1 : t + 100]) for t in range(400) if hits[t]]
    assert int(row["n"]) == sum(2**n for n in sizes)
    # The first row is in all of its sets, another of n in half.
    total = sum(2**n + (n * 2**n) // 2 for n in sizes)
    assert row["s"] == (None if value is None else float(total * Fraction(value)))
    sliding = (
        f"SELECT window_end AS e, {aggregates} FROM TABLE(SLIDING(TABLE s, DESCRIPTOR(t), 100)) "
        f"MATCH_RECOGNIZE (PARTITION BY window_end {recognize.format('')} GROUP BY window_end"
    )
    for row in replay.query({"s": table}, sliding).table.to_pylist():
        n = sum(hits[max(0, row["e"] - 100) : row["e"]])
        assert int(row["n"]) == 2**n - 1
        assert row["s"] == (None if value is None else float(n * 2 ** (n - 1) * Fraction(value)))


def test_an_event_that_two_symbols_accept_is_mapped_by_each() -> None:
    # 1 is A, 2 is A and B: (A), (A), (B), (A A), (A B).
    define = "DEFINE A AS v <= 2, B AS v = 2"
    assert aggregate("COUNT(*)", numbers([1, 2]), "(A | B)+", "SKIP TILL ANY", define) == 5


@pytest.mark.parametrize(
    ("values", "semantics", "count", "longest"),
    [
        ([4, 3, 2, 1], "SKIP TILL ANY", 15, 4),
        ([2, 2, 1], "SKIP TILL ANY", 5, 2),  # each alone, and the 1 behind either 2
        ([5, 1, 4, 2, 3], "SKIP TILL ANY", 13, 3),
        ([6, 7, 5, 4], "SKIP TILL ANY", 11, 3),
        ([6, 7, 5, 4], "SKIP TILL NEXT", 9, 3),  # not 6 4 and 7 4: 5 must be taken
        ([6, 7, 5, 4], "CONTIGUOUS", 7, 3),  # 6, 7, 5, 4, 7 5, 5 4, 7 5 4
    ],
)
def test_down_trends(values: list[int], semantics: str, count: int, longest: int) -> None:
    define = "DEFINE T AS v < LAST(v, 1)"
    found = aggregate("COUNT(*), MAX(n)", numbers(values), "S T*", semantics, define)
    assert found == (count, longest)


@pytest.mark.parametrize(
    ("semantics", "within", "count", "rows"),
    [
        # All sets of rows but the empty one, a row in half of all sets.
        ("SKIP TILL ANY", "", 2**130 - 1, 130 * 2**129),
        # Behind each first row any of the up to 9 that come in time.
        ("SKIP TILL ANY", "WITHIN 9", 121 * 2**9 + 2**9 - 1, 121 * (2**9 + 9 * 2**8) + 9 * 2**8),
        # From each row to each later one; n times the trends of n rows, which are 131 - n.
        ("CONTIGUOUS", "", 130 * 131 // 2, sum(n * (131 - n) for n in range(131))),
        ("SKIP TILL NEXT", "", 130 * 131 // 2, sum(n * (131 - n) for n in range(131))),
    ],
)
def test_trends_that_no_one_could_enumerate(
    semantics: str, within: str, count: int, rows: int
) -> None:
    sql = (
        "SELECT CAST(COUNT(*) AS VARCHAR) AS n, CAST(COUNT(U.*) AS VARCHAR) AS rows FROM s "
        f"MATCH_RECOGNIZE (ORDER BY t PATTERN (S T*) SEMANTICS {semantics} {within} "
        "SUBSET U = (S, T) DEFINE T AS v < LAST(v, 1))"
    )
    table = numbers([-v for v in range(130)])
    (row,) = replay.query({"s": table}, sql).table.to_pylist()
    assert row == {"n": str(count), "rows": str(rows)}


@pytest.mark.parametrize(
    ("semantics", "negated", "count"),
    [
        # a1 has 2, a3 5: b2 4 6 may stand between. Behind a1: c5 by b2, b4; c7 by b2, b4, b6.
        # Behind a3: c7 alone, by b4 and b6; c8 is 1, below both.
        ("SKIP TILL ANY", "", 7),
        # a1 takes b2, then c5, and a3 b4 c7, over c5 and c8, which it may not take.
        ("SKIP TILL NEXT", "", 2),
        # To a1, b4 and b6 are X, which leaves b4 c5 and b6 c7; to a3, b6 is not above.
        ("SKIP TILL ANY", "!X", 4),
    ],
)
def test_a_row_that_a_later_one_is_measured_by(semantics: str, negated: str, count: int) -> None:
    stream = trace("a1 b2 a3 b4 c5 b6 c7 c8")
    table = stream.append_column("x", pa.array([2, 1, 5, 4, 3, 5, 9, 1]))
    define = f"{letter('A', 'B')}, C AS k = 'c' AND x > A.x, X AS k = 'b' AND x > A.x"
    pattern = f"A B {negated} C"
    define = define if negated else define.rsplit(",", 1)[0]
    assert aggregate("COUNT(*)", table, pattern, semantics, define) == count


@pytest.mark.parametrize(("pattern", "count"), [("A? C B", 0), ("A? C (B | D)", 40 * 39 // 2)])
def test_a_row_that_is_never_there_is_less_than_none(pattern: str, count: int) -> None:
    define = "DEFINE A AS v < LAST(v, 1), B AS v >= FIRST(A.v)"
    assert aggregate("COUNT(*)", numbers([1] * 40), pattern, "SKIP TILL ANY", define) == count


def test_how_long_a_down_trend_took() -> None:
    # 5 at 1 and 3 at 5 are the ends of the one that takes longest, 5 4 3.
    define = "DEFINE T AS v < LAST(v, 1)"
    stream = numbers([5, 1, 4, 2, 3])
    assert aggregate("MAX(took)", stream, "S T*", "SKIP TILL ANY", define) == 4


def test_how_long_trends_take_that_nobody_could_enumerate() -> None:
    # Of n falling numbers a second apart any subset is a trend; 2^(d-1) of them take d seconds
    # from each of n - d first rows, and n take none.
    n = 70
    define = "DEFINE T AS v < LAST(v, 1)"
    (row,) = replay.query(
        {"s": numbers(list(range(n, 0, -1)))},
        "SELECT COUNT(took) AS n, SUM(took) AS s, MIN(took) AS least, MAX(took) AS most FROM s "
        "MATCH_RECOGNIZE (ORDER BY t MEASURES LAST(t) - FIRST(t) AS took PATTERN (S T*) "
        f"SEMANTICS SKIP TILL ANY {define})",
    ).table.to_pylist()
    taken = sum(d * (n - d) * 2 ** (d - 1) for d in range(1, n))
    assert tuple(row.values()) == (2**n - 1, taken, 0, n - 1)


def test_mean_intervals_that_nobody_could_enumerate() -> None:
    # As above, of timestamps a second apart: the mean in microseconds, fractions of one dropped.
    n = 70
    table = numbers(list(range(n, 0, -1)))
    table = table.set_column(0, "t", pa.array([10**6 * t for t in range(n)], pa.timestamp("us")))
    sql = (
        "SELECT {} AS took, AVG(S.u - S.t) AS back FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES "
        "LAST(t) - FIRST(t) AS took PATTERN (S T*) SEMANTICS SKIP TILL ANY "
        "DEFINE T AS v < LAST(v, 1))"
    )
    # One match begins with the last row, two with the one before, and so on: -1, -2, -4, ….
    began = [2 ** (n - 1 - t) for t in range(n)]
    table = table.append_column("u", pa.array([-t for t in range(n)], pa.timestamp("us")))
    (row,) = replay.query({"s": table}, sql.format("AVG(took)")).table.to_pylist()
    taken = 10**6 * sum(d * (n - d) * 2 ** (d - 1) for d in range(1, n))
    back = sum(m * (10**6 * t + t) for t, m in enumerate(began))
    assert row["took"] == timedelta(microseconds=taken // (2**n - 1))
    assert row["back"] == -timedelta(microseconds=back // (2**n - 1))
    with pytest.raises(QueryError, match="longer than any INTERVAL, of 292,000 years; write AVG"):
        replay.query({"s": table}, sql.format("SUM(took)"))


def test_times_between_two_rows_of_each_match() -> None:
    # a1 b2 c5, a1 b2 c7, a1 b4 c5, a1 b4 c7, a3 b4 c5, a3 b4 c7: 4, 6, 4, 6, 2 and 4.
    define = letter("A", "B", "C")
    sql = (
        "SELECT COUNT(g), SUM(g), AVG(g), MIN(g), MAX(g) FROM s MATCH_RECOGNIZE (ORDER BY t "
        f"MEASURES C.t - A.t AS g PATTERN (A B C) SEMANTICS SKIP TILL ANY {define})"
    )
    assert ask(trace("a1 b2 a3 b4 c5 c7"), sql) == [(6, 26, 26 / 6, 2, 6)]


def test_sums_are_those_of_matches_not_of_parts_of_them() -> None:
    # (a1 c2 d3), (a1 c2 d5), (a1 c4 d5): C is 1, 1 and 10. A-Seq's printed formula gives 16.5, and
    # before d5 the largest C of a match is 1, whatever c4 has.
    stream = trace("a1 c2 d3 c4 d5").append_column("x", pa.array([0, 1, 0, 10, 0]))
    select = "SUM(C.x), AVG(C.x), MIN(C.x), MAX(C.x)"
    assert aggregate(select, stream, "A C D", "SKIP TILL ANY") == (12, 4.0, 1, 10)
    assert aggregate("MAX(C.x)", stream.slice(0, 4), "A C D", "SKIP TILL ANY") == 1


def test_sums_of_doubles_are_rounded_once() -> None:
    stream = numbers([0.1, 0.2, 0.3])
    assert aggregate("SUM(S.v), AVG(S.v)", stream, "S", "SKIP TILL ANY", " ") == (0.6, 0.2)


SMALL_AND_LARGE = (1e-300, 1e300, -1e300, 0.1, -0.0, 3.5, 1e-300, 2.0**-1074)


@pytest.mark.parametrize(
    ("values", "total", "mean", "least", "most"),
    [
        # A row is in half of all sets: 2^(n-1) times the sum of the numbers, over n 2^(n-1).
        (
            SMALL_AND_LARGE,
            float(128 * sum(map(Fraction, SMALL_AND_LARGE))),
            float(sum(map(Fraction, SMALL_AND_LARGE)) / 8),
            -1e300,
            1e300,
        ),
        ((-0.0, -0.0), 0.0, 0.0, 0.0, 0.0),
        ((1e300, math.nan, -1e300), math.nan, math.nan, -1e300, 1e300),
        ((1.0, math.inf), math.inf, math.inf, 1.0, math.inf),
        ((1.0, math.inf, -math.inf), math.nan, math.nan, -math.inf, math.inf),
        ((math.nan,), math.nan, math.nan, None, None),
    ],
)
@pytest.mark.parametrize("source", ["s", "TABLE(HOP(TABLE s, DESCRIPTOR(t), 100, 200, ORIGIN 0))"])
def test_doubles_of_all_sizes(
    source: str,
    values: tuple[float, ...],
    total: float,
    mean: float,
    least: float | None,
    most: float | None,
) -> None:
    by, group = (
        ("", "") if source == "s" else ("PARTITION BY window_start", "GROUP BY window_start")
    )
    sql = (
        f"SELECT SUM(A.v) AS s, AVG(A.v) AS a, MIN(A.v) AS l, MAX(A.v) AS m FROM {source} "
        f"MATCH_RECOGNIZE ({by} ORDER BY t PATTERN (A+) SEMANTICS SKIP TILL ANY) {group}"
    )
    found = replay.query({"s": numbers(list(values))}, sql).table.to_pylist()
    assert len(found) == (1 if source == "s" else 2)
    for row in found:
        assert str(tuple(row.values())) == str((total, mean, least, most))  # NaN as itself


# ---------------------------------------------------------------------------------------------
# Windows


def in_windows(table: pa.Table, windows: str, pattern: str) -> list[tuple[Any, ...]]:
    """Return start, end and number of matches of each window that has one."""
    define = letter(*(symbol for symbol in "ABCDX" if symbol in pattern))
    return ask(
        table,
        "SELECT window_start, window_end, COUNT(*) AS n "
        f"FROM TABLE({windows.replace('(', '(TABLE s, DESCRIPTOR(t), ')}) MATCH_RECOGNIZE ("
        f"PARTITION BY window_start, window_end ORDER BY t PATTERN ({pattern}) "
        f"SEMANTICS SKIP TILL ANY {define}) GROUP BY window_start, window_end",
    )


@pytest.mark.parametrize(
    ("letters", "size", "pattern", "expected"),
    [
        # A-Seq Example 1: at 3 (a1 b2 c3), at 4 with c4, at 6 a1 has left the window (1, 6].
        ("a1 b2 c3 c4 b6", 5, "A B C", {3: 1, 4: 2}),
        # Fig. 2, without a bound: at 6 the pairs a1 b2, a1 b5, a4 b5 and at 3 a1 b2.
        ("a1 b2 c3 a4 b5 c6", 10, "A B C", {3: 1, 4: 1, 5: 1, 6: 4}),
        # Example 3: at 7 (a1 b2 c3 d7), (a1 b2 c5 d7); then a1 has gone until a4 b6 c8 d10.
        ("a1 b2 c3 a4 c5 b6 d7 c8 a9 d10", 7, "A B C D", {7: 2, 10: 1}),
    ],
)
def test_windows_that_slide_with_every_event(
    letters: str, size: int, pattern: str, expected: dict[int, int]
) -> None:
    found = in_windows(trace(letters), f"SLIDING({size})", pattern)
    assert found == [(at - size + 1, at + 1, n) for at, n in expected.items()]


AB = trace("a0 b3 a4 b9 a10 b12")


@pytest.mark.parametrize(
    ("table", "windows", "pattern", "expected"),
    [
        # (0 3), (0 9), (4 9), (10 12), (0 12) and (4 12), of which the last two fit no window.
        (
            AB,
            "HOP(5, 10, ORIGIN 0)",
            "A B",
            [(-5, 5, 1), (0, 10, 3), (5, 15, 1), (10, 20, 1)],
        ),
        (
            AB,
            "CUMULATE(3, 9, ORIGIN 0)",
            "A B",
            [(0, 6, 1), (0, 9, 1), (9, 15, 1), (9, 18, 1)],
        ),
        # !X at the start looks back to the begin of the window: x1 is in [1, 9) and before.
        (
            trace("x1 a2 b6 a7 b8"),
            "HOP(1, 8, ORIGIN 0)",
            "!X A B",
            [(2, 10, 3), (3, 11, 1), (4, 12, 1), (5, 13, 1), (6, 14, 1), (7, 15, 1)],
        ),
        # At the end it looks on to the end of the window: x3 forbids (a1 b2), not (a1 b4).
        (trace("a1 b2 x3 b4"), "TUMBLE(5, ORIGIN 0)", "A B !X", [(0, 5, 1)]),
    ],
)
def test_matches_are_those_of_each_window(
    table: pa.Table, windows: str, pattern: str, expected: list[tuple[int, int, int]]
) -> None:
    assert in_windows(table, windows, pattern) == expected


def test_groups_of_windows_come_by_window_and_keys_and_without_groups_there_is_one_row() -> None:
    # Matches of k = c begin first, and a missing key comes last.
    table = pa.table({"t": [1, 2, 3, 4, 5], "k": ["c", None, "a", "c", None]})
    recognize = (
        "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 4)) MATCH_RECOGNIZE ("
        "PARTITION BY window_start, k PATTERN (A) SEMANTICS SKIP TILL ANY DEFINE A AS t > {})"
    )
    by_key = f"SELECT k, window_start, COUNT(*) AS n {recognize} GROUP BY k, window_start"
    expected = [("a", 0, 1), ("c", 0, 1), (None, 0, 1), ("c", 4, 1), (None, 4, 1)]
    assert ask(table, by_key.format(0)) == expected
    assert ask(table, f"SELECT COUNT(*), MAX(A.t) {recognize}".format(9)) == [(0, None)]
    assert ask(table, by_key.format(9)) == []
