"""Queries summed over in one go: one machine for all, in which what begins alike is one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

import replay
from replay.language import bind, parse_query
from replay.language.bound import BoundPatternQuery
from replay.patterns import together
from replay.patterns.program import MatchProgram, compile_program
from replay.patterns.summing.lanes import Lanes
from replay.patterns.together import joined, kind_of

TABLE = pa.table({"t": list(range(9)), "k": list("VBVBCCDBV"), "x": [0, 1, 2, 0, 3, 1, 2, 5, 1]})

A_SEQ = ("VK BK VC BC", "VK BK VF", "VK BK VC BC VE BE", "VK BK VC BC VL BL", "VI VF VK BK")
"""Q1 to Q5 of A-Seq's example 6, by first letters."""


def text_of(pattern: str, select: str = "COUNT(*)", more: str = "", **defines: str) -> str:
    named = ", ".join(f"{name} AS {condition}" for name, condition in defines.items())
    return (
        f"SELECT {select} AS n FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN ({pattern}) "
        f"SEMANTICS SKIP TILL ANY {more} DEFINE {named})"
    )


def program_of(text: str) -> MatchProgram:
    query = bind(parse_query(text), TABLE.schema, time="t", text=text)
    assert isinstance(query, BoundPatternQuery)
    return compile_program(query)


def of_kinds(pattern: str) -> MatchProgram:
    return program_of(text_of(pattern, **{one: f"k = '{one}'" for one in pattern.split()}))


def test_sequences_that_begin_alike_are_a_tree_as_in_a_seq() -> None:
    """Fig. 9 has nine nodes for Q1 to Q4; Q5 begins otherwise, and is one more branch."""
    n_begins = 2
    for n_queries, n_nodes in ((4, 9), (5, 9 + 4)):
        program = joined([of_kinds(pattern) for pattern in A_SEQ[:n_queries]], Lanes.ONE)
        assert program is not None
        assert program.strategy is not None
        assert program.strategy.n_states == n_begins + n_nodes
        ends = [query for queries in program.strategy.answers for query in queries]
        assert sorted(ends) == list(range(n_queries))


def test_a_symbol_is_told_by_its_condition_not_by_its_name() -> None:
    one = program_of(text_of("A B", A="k = 'V'", B="k = 'B'"))
    other = program_of(text_of("B A C", B="k = 'V'", A="k = 'B'", C="x > 2"))
    program = joined([one, other], Lanes.ONE)
    assert program is not None
    assert program.strategy is not None
    assert program.strategy.n_states == 2 + 3


def test_only_queries_that_sum_the_same_over_the_same_runs_are_of_one_kind() -> None:
    plain = text_of("A B", A="k = 'V'", B="k = 'B'")
    same = text_of("A C", A="k = 'V'", C="k = 'C'")
    assert kind_of(program_of(plain)) == kind_of(program_of(same))
    others = (
        text_of("A B", "SUM(B.x)", A="k = 'V'", B="k = 'B'"),
        text_of("A B", "SUM(A.x)", A="k = 'V'", B="k = 'B'"),
        plain.replace("ORDER BY", "PARTITION BY k ORDER BY"),
        plain.replace("SKIP TILL ANY", "CONTIGUOUS"),
        text_of("A B", "COUNT(*)", "WITHIN 3", A="k = 'V'", B="k = 'B'"),
        text_of("A B", "COUNT(*)", "WITHIN 4", A="k = 'V'", B="k = 'B'"),
    )
    kinds = [kind_of(program_of(text)) for text in (plain, *others)]
    assert None not in kinds
    assert len(set(kinds)) == len(kinds)
    for text in (
        plain.replace("SKIP TILL ANY", "SKIP TILL NEXT"),  # a row moves runs of one query alone
        text_of("A B", A="k = 'V'", B="x > LAST(x, 1)"),  # cells of rows
    ):
        assert kind_of(program_of(text)) is None


def test_a_row_that_one_query_takes_next_is_passed_over_by_another() -> None:
    """V0 B1 and V2 B3 are matches of the first, V0 C4 and V2 C4, behind these Bs, of the other."""
    sqls = [
        text_of("A B", A="k = 'V'", B="k = 'B'").replace("ANY", "NEXT"),
        text_of("A C", A="k = 'V'", C="k = 'C'").replace("ANY", "NEXT"),
    ]
    assert asked(sqls) == [2, 2]


SQLS = (
    text_of("A B", A="k = 'V'", B="k = 'B'"),
    text_of("A B C", A="k = 'V'", B="k = 'B'", C="k = 'C'"),
    text_of("A B+", A="k = 'V'", B="k = 'B'"),
)
ANSWERS = [3 + 2, 2 * (2 + 1), 7 + 3]
"""V is at 0, 2, 8, B at 1, 3, 7, C at 4, 5: B's behind each V; those with two C's behind them; sets
of the B's behind each V that are not empty."""


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes by how many symbols the rows of a table are told apart, each time they are."""
    counts: list[int] = []
    plain = MatchProgram.prepare

    def noted(program: MatchProgram, table: pa.Table, **margins: int) -> object:
        counts.append(len(program.conditions))
        return plain(program, table, **margins)

    monkeypatch.setattr(MatchProgram, "prepare", noted)
    return counts


def asked(sqls: Sequence[str]) -> list[int]:
    return [result.table["n"][0].as_py() for result in replay.query_many({"s": TABLE}, sqls)]


def test_rows_are_looked_at_once_for_all(prepared: list[int]) -> None:
    assert asked(SQLS) == ANSWERS
    assert prepared == [3]


def test_queries_whose_rows_tell_too_many_symbols_apart_are_asked_alone(
    prepared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "WORDS_MAX", 2)
    assert asked(SQLS) == ANSWERS
    assert prepared == [3, 2, 3, 2]


IN_WINDOWS = tuple(
    sql.replace("FROM s", "FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), 2, 4))")
    .replace("(ORDER BY", "(PARTITION BY window_start ORDER BY")
    .replace("SELECT", "SELECT window_start AS w,")
    + " GROUP BY window_start"
    for sql in SQLS
)
"""Windows have VB from -2 on, VBVB from 0, VBCC from 2, CCDB from 4, DBV from 6, V from 8."""


def test_windows_are_summed_once_for_all(prepared: list[int]) -> None:
    results = replay.query_many({"s": TABLE}, IN_WINDOWS)
    assert [result.table.to_pylist() for result in results] == [
        [{"w": -2, "n": 1}, {"w": 0, "n": 3}, {"w": 2, "n": 1}],
        [{"w": 2, "n": 2}],
        [{"w": -2, "n": 1}, {"w": 0, "n": 4}, {"w": 2, "n": 1}],
    ]
    assert set(prepared) == {3}


SLIDING = tuple(
    sql.replace("HOP(TABLE s, DESCRIPTOR(t), 2, 4)", "SLIDING(TABLE s, DESCRIPTOR(t), 4)")
    for sql in IN_WINDOWS
)
"""Windows of four rows that end with each of V, VB, VBV, VBVB, BVBC, VBCC, BCCD, CCDB, CDBV."""


def test_windows_of_products_of_rows_are_summed_once_for_all(prepared: list[int]) -> None:
    results = replay.query_many({"s": TABLE}, SLIDING)
    counts = [dict(zip(*result.table.to_pydict().values(), strict=True)) for result in results]
    assert counts == [
        {-2: 1, -1: 1, 0: 3, 1: 1, 2: 1},
        {1: 1, 2: 2},
        {-2: 1, -1: 1, 0: 4, 1: 1, 2: 1},
    ]
    assert set(prepared) == {3}


@pytest.mark.parametrize("words_max", [512, 2])
def test_queries_within_a_time_are_summed_once_for_all(
    prepared: list[int], monkeypatch: pytest.MonkeyPatch, words_max: int
) -> None:
    """A row is followed by those within three of it: V0 by B1 and B3, V2 by B3, C4 and C5."""
    monkeypatch.setattr(together, "WORDS_MAX", words_max)
    within = [sql.replace("SKIP TILL ANY", "SKIP TILL ANY WITHIN 3") for sql in SQLS]
    assert asked(within) == [3, 2, 4]
    assert prepared == ([3] if words_max == 512 else [3, 2, 3, 2])


def test_windows_with_many_sets_of_conditions_are_summed_alone(
    prepared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [replay.query({"s": TABLE}, sql).table for sql in IN_WINDOWS]
    prepared.clear()
    monkeypatch.setattr(together, "WORDS_MAX", 5)
    found = replay.query_many({"s": TABLE}, IN_WINDOWS)
    assert [result.table for result in found] == expected
    assert 3 in prepared  # the query of three symbols itself
    assert 2 in prepared


def test_a_fault_is_told_of_the_query_that_has_it(prepared: list[int]) -> None:
    faulty = text_of("A B", A="k = 'V'", B="10 / x > 4")
    results = replay.query_many({"s": TABLE}, [SQLS[0], faulty])
    assert [result.actual.faults for result in results] == [0, 2]
    assert prepared == [3, 2, 2]
