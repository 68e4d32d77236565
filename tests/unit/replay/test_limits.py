"""LIMIT and OFFSET: what is yielded, and that nothing more is asked for than they need."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replay
from replay.errors import SkipError
from replay.expressions.scalars import Faults
from replay.language import bind, parse_query
from replay.language.bound import BoundPatternQuery
from replay.patterns import answer as answer_module
from replay.patterns.answer import cut, to_rows, wanted_parts
from replay.patterns.matches import Matches
from replay.patterns.program import MatchProgram, compile_program

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64())])


def prepared(head: str, tail: str = "") -> tuple[BoundPatternQuery, MatchProgram]:
    sql = f"SELECT {head} FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.a AS a PATTERN (A)) {tail}"
    bound = bind(parse_query(sql), SCHEMA, time="t", text=sql)
    return bound, compile_program(bound)


def matches_of(sizes: list[int], asked: list[int] | None = None) -> Iterator[Matches]:
    """Yield matches one row long, so many at a time; note what is asked for."""
    at = 0
    for size in sizes:
        if asked is not None:
            asked.append(size)
        seq = np.arange(at, at + size)
        yield Matches(seq, seq, seq + 1, np.zeros(size, np.int64), seq[:, None])
        at += size


def failing(sizes: list[int]) -> Iterator[Matches]:
    yield from matches_of(sizes)
    raise SkipError("no way on", first_seq=sum(sizes))


def table_of(sizes: list[int], asked: list[int]) -> Iterator[pa.Table]:
    at = 0
    for size in sizes:
        asked.append(size)
        yield pa.table({"a": pa.array(range(at, at + size), pa.int64())})
        at += size


SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=6)


@given(sizes=SIZES, offset=st.integers(0, 8), limit=st.none() | st.integers(0, 8))
def test_cut_tables_are_a_slice_of_all_of_them(
    sizes: list[int], offset: int, limit: int | None
) -> None:
    asked: list[int] = []
    found = pa.concat_tables(cut(table_of(sizes, asked), offset, limit)).column("a").to_pylist()
    everything = list(range(sum(sizes)))
    assert found == everything[offset:][:limit]
    if limit is not None and sum(asked[:-1]) and limit:
        assert sum(asked[:-1]) < offset + limit


@given(sizes=SIZES, limit=st.none() | st.integers(0, 8), at_once=st.integers(1, 5))
def test_parts_hold_the_first_matches_and_no_more_are_asked_for(
    sizes: list[int], limit: int | None, at_once: int
) -> None:
    bound, program = prepared("*", "" if limit is None else f"LIMIT {limit}")
    asked: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answer_module, "MEASURED_ROWS_AT_ONCE", at_once)
        parts = list(wanted_parts(bound, program, matches_of(sizes, asked)))
    assert parts
    found = [seq for part in parts for seq in part.first_seq.tolist()]
    assert found == list(range(sum(sizes)))[:limit]
    if limit == 0:
        assert asked == []
    if limit:
        assert sum(asked[:-1]) < limit


def test_matches_before_an_error_come_first() -> None:
    bound, program = prepared("*")
    parts = wanted_parts(bound, program, failing([2, 1]))
    assert next(parts).first_seq.tolist() == [0, 1, 2]
    with pytest.raises(SkipError, match="no way on"):
        next(parts)


def test_error_behind_the_last_match_wanted_is_not_met() -> None:
    bound, program = prepared("*", "LIMIT 3")
    (part,) = wanted_parts(bound, program, failing([2, 1]))
    assert part.first_seq.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("tail", "fails"), [("LIMIT 2", False), ("LIMIT 3", True), ("", True)])
def test_outer_condition_with_a_limit_may_have_enough_before_an_error(
    tail: str, fails: bool
) -> None:
    bound, program = prepared("a", f"WHERE a > 0 {tail}")

    def inner() -> Iterator[pa.Table]:
        for part in wanted_parts(bound, program, failing([2, 1])):
            yield pa.table({"a": part.first_seq})

    rows = to_rows(bound, inner(), Faults())
    if fails:
        with pytest.raises(SkipError):
            list(rows)
    else:
        assert pa.concat_tables(rows).column("a").to_pylist() == [1, 2]


def rows_of_values(sizes: list[int], asked: list[int]) -> Iterator[pa.Table]:
    """Yield rows 0 0 1 1 2 2 …, so many at a time; note what is asked for; fail at the end."""
    at = 0
    for size in sizes:
        asked.append(size)
        yield pa.table({"a": pa.array([row // 2 for row in range(at, at + size)], pa.int64())})
        at += size
    raise SkipError("no way on", first_seq=at)


@pytest.mark.parametrize(
    ("tail", "n_asked", "found"),
    [
        ("LIMIT 0", 1, []),
        ("LIMIT 1", 1, [0]),
        ("LIMIT 2", 2, [0, 1]),  # 0 0 | 1 1
        ("WHERE a > 0 LIMIT 1 OFFSET 1", 4, [2]),  # 0 0 | 1 1 | 2 2 not looked at alone | 3 3
        ("LIMIT 5", 5, [0, 1, 2, 3, 4]),  # whole only where the error is met
    ],
)
def test_limit_under_distinct_asks_for_no_more_once_it_is_reached(
    tail: str, n_asked: int, found: list[int]
) -> None:
    bound, _ = prepared("DISTINCT a", tail)
    asked: list[int] = []
    rows = pa.concat_tables(to_rows(bound, rows_of_values([2] * 5, asked), Faults()))
    assert rows.column("a").to_pylist() == found
    assert len(asked) == n_asked


@pytest.mark.parametrize("tail", ["LIMIT 6", "", "ORDER BY a LIMIT 1"])
def test_distinct_that_needs_more_rows_meets_the_error_behind_them(tail: str) -> None:
    bound, _ = prepared("DISTINCT a", tail)
    with pytest.raises(SkipError, match="no way on"):
        list(to_rows(bound, rows_of_values([2] * 5, []), Faults()))


ABOVE = "SEMANTICS SKIP TILL ANY"
COUNTED = "SELECT COUNT(*) AS n FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES MATCH_NUMBER() AS m {})"


def test_count_of_more_matches_than_can_be_enumerated_is_exact() -> None:
    # Any non-empty set of the 62 rows is a match.
    table = pa.table({"t": range(62), "a": range(62)})
    sql = COUNTED.format(f"PATTERN (A+) {ABOVE}")
    assert replay.query({"s": table}, sql).table.to_pylist() == [{"n": 2**62 - 1}]


def test_count_that_no_integer_holds_is_exact() -> None:
    table = pa.table({"t": range(80), "a": range(80)})
    result = replay.query({"s": table}, COUNTED.format(f"PATTERN (A+) {ABOVE}"))
    assert result.table.to_pylist() == [{"n": Decimal(2**80 - 1)}]  # all sets of rows but none
    assert result.actual.faults == 0


@pytest.mark.parametrize(
    ("clauses", "n"),
    [
        # Over 0 1 2 0 1 2: 0 before 1, and what lies between.
        pytest.param(f"PATTERN (A B) {ABOVE} DEFINE A AS a = 0, B AS a = 1", 3, id="counted"),
        pytest.param(
            f"ALL ROWS PER MATCH PATTERN (A B) {ABOVE} DEFINE A AS a = 0, B AS a = 1", 6, id="rows"
        ),
        pytest.param(
            f"PATTERN (A B) {ABOVE} DEFINE A AS a = 0, B AS a = A.a + 1", 3, id="across-rows"
        ),
        pytest.param("PATTERN (A B) DEFINE A AS a = 0, B AS a = 1", 2, id="sql"),
        pytest.param(
            f"PATTERN (A !X B) {ABOVE} DEFINE A AS a = 0, B AS a = 1, X AS a = 2", 2, id="negation"
        ),
    ],
)
def test_counts_are_those_of_the_rows(clauses: str, n: int) -> None:
    table = pa.table({"t": range(6), "a": [0, 1, 2, 0, 1, 2]})
    sql = COUNTED.format(clauses)
    assert replay.query({"s": table}, sql).table.to_pylist() == [{"n": n}]


def test_limit_ends_a_search_for_more_matches_than_there_is_time_for() -> None:
    table = pa.table({"t": range(400), "a": range(400)})
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n, LAST(t) AS u "
        f"PATTERN (A+) {ABOVE})"
    )
    limited = replay.query({"s": table}, f"{sql} LIMIT 3").table.to_pylist()
    # By first row, then last row, then the rows between: 0; 0 1; then 0 1 2 and 0 2.
    assert limited == [{"n": 1, "u": 0}, {"n": 2, "u": 1}, {"n": 3, "u": 2}]
    distinct = sql.replace("*", "DISTINCT n", 1)
    assert replay.query({"s": table}, f"{distinct} LIMIT 2").table.to_pylist() == [
        {"n": 1},
        {"n": 2},
    ]
    reader = replay.batches({"s": table}, sql)
    assert reader.read_next_batch().num_rows > 0
