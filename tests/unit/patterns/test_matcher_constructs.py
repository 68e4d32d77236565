"""Edges, exclusion, skips, unmatched rows, negation, aggregates in DEFINE: computed by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from replay.errors import NotSupportedError, SkipError
from replay.language.bound import (
    BoundPatternQuery,
    Concat,
    Edge,
    EdgeKind,
    Negation,
    Pattern,
    Repeat,
    RowsPerMatch,
    SkipMode,
    Symbol,
)
from replay.patterns import search
from replay.patterns.matcher import PatternMatcher
from replay.patterns.matches import Matches
from replay.patterns.program import compile_program
from tests.unit.patterns.bound_queries import (
    INT,
    attr,
    call,
    last,
    lit,
    query,
    total,
)

A, B, C = Symbol(0), Symbol(1), Symbol(2)
START, END = Edge(EdgeKind.START), Edge(EdgeKind.END)
ALL = RowsPerMatch.ALL_SHOW_EMPTY


def letters(text: str, **more: object) -> pa.Table:
    return pa.table({"t": range(len(text)), "s": list(text), "i": [0] * len(text), **more})


def numbers(values: list[int]) -> pa.Table:
    return pa.table({"t": range(len(values)), "i": pa.array(values, pa.int64())})


def is_letter(letter: str) -> object:
    return call("=", attr("s"), lit(letter))


def find(asked: BoundPatternQuery, table: pa.Table) -> Matches:
    program = compile_program(asked)
    matcher = PatternMatcher(program)
    matcher.push(program.prepare(table), 0)
    matcher.finish()
    return matcher.take()


def spans(pattern: Pattern, text: str, symbols: str, **more: object) -> list[tuple[int, int]]:
    defines = [None if s == "." else is_letter(s) for s in symbols]
    found = find(query(pattern, defines, **more), letters(text))
    return list(zip(found.first_seq.tolist(), found.last_seq.tolist(), strict=True))


def test_start_edge_holds_at_the_first_row_of_each_partition_only() -> None:
    #  p 0 0 1 1: first rows are 0 and 2
    asked = query(Concat((START, A)), [None], partition_by=("p",))
    assert find(asked, letters("aaaa", p=[0, 0, 1, 1])).first_seq.tolist() == [0, 2]
    assert spans(Concat((START, A)), "aaa", "a") == [(0, 0)]


def test_start_of_a_partition_is_remembered_over_stretches() -> None:
    program = compile_program(query(Concat((START, A)), [None], partition_by=("p",)))
    matcher = PatternMatcher(program)
    for first_seq, p in ((0, 0), (10, 0), (20, 1)):
        matcher.push(program.prepare(letters("aa", p=[p, p])), first_seq)
        matcher.finish()
    assert matcher.take().first_seq.tolist() == [0, 20]


def test_end_edge_is_decided_by_the_next_row_or_the_end() -> None:
    program = compile_program(query(Concat((A, END)), [is_letter("a")]))
    matcher = PatternMatcher(program)
    matcher.push(program.prepare(letters("xa")), 0)
    assert (len(matcher.take()), matcher.n_kept) == (0, 1)
    matcher.push(program.prepare(letters("aa")), 2)
    assert (len(matcher.take()), matcher.n_kept) == (0, 1)
    matcher.finish()
    assert matcher.take().first_seq.tolist() == [3]


def test_end_edge_waits_though_the_window_has_passed() -> None:
    #  A at t 0 in partition 0; partition 1 goes on long after the window of 1
    asked = query(Concat((A, END)), [is_letter("a")], within=1, partition_by=("p",))
    program = compile_program(asked)
    matcher = PatternMatcher(program)
    matcher.push(program.prepare(letters("axxxx", p=[0, 1, 1, 1, 1])), 0)
    assert matcher.n_kept == 1
    matcher.finish()
    assert matcher.take().first_seq.tolist() == [0]


@pytest.mark.parametrize(
    ("text", "target", "why"),
    [("aba", 1, r"with seq 2 maps no row to B"), ("xab", 0, r"with seq 1 has A as its first row")],
)
def test_skip_to_a_row_that_is_not_there_or_the_first_is_an_error(text, target, why) -> None:
    asked = query(
        Concat((A, Repeat(B, 0, 1))),
        [is_letter("a"), is_letter("b")],
        skip=SkipMode.TO_LAST,
        skip_to=(target,),
    )
    program = compile_program(asked)
    matcher = PatternMatcher(program)
    with pytest.raises(SkipError, match=rf"SKIP TO LAST .* PATTERN \(A B\?\) .*{why}") as raised:
        matcher.push(program.prepare(letters(text + "a")), 0)
    # The matches up to the one that cannot be skipped are known.
    assert matcher.take().first_seq.tolist()[-1] == raised.value.first_seq


def test_skip_error_of_a_partition_waits_for_earlier_matches_of_others() -> None:
    #  p  1 0 0 1      partition 0 fails at row 1; row 0 matches only with row 3
    pattern = Concat((A, Repeat(B, 0, 1), Repeat(C, 0, 1)))
    asked = query(
        pattern,
        [is_letter("a"), is_letter("b"), is_letter("c")],
        skip=SkipMode.TO_LAST,
        skip_to=(1,),
        partition_by=("p",),
    )
    program = compile_program(asked)
    matcher = PatternMatcher(program)
    matcher.push(program.prepare(letters("aax", p=[1, 0, 0])), 0)
    assert len(matcher.take()) == 0
    matcher.push(program.prepare(letters("bx", p=[1, 1])), 3)
    with pytest.raises(SkipError, match="with seq 1"):
        matcher.finish()
    assert matcher.take().first_seq.tolist() == [0, 1]


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_negation_keeps_its_rows_out_of_the_repetition_beside_it(after, greedy) -> None:
    #  a . . b  has no x between, a x b has
    gap = (Negation(3), Repeat(C, 0, None, greedy))
    pattern = Concat((A, *(gap if after else gap[::-1]), B))
    defines = [is_letter("a"), is_letter("b"), None, is_letter("x")]
    asked = query(pattern, defines, rows_per_match=ALL)
    rows = find(asked, letters("axba..b")).rows
    assert rows is not None
    assert rows.seq.tolist() == [3, 4, 5, 6]
    assert rows.symbol.tolist() == [0, 2, 2, 1]  # as the symbol that is repeated


def test_unknown_is_no_reason_to_keep_a_row_out_of_a_negation() -> None:
    pattern = Concat((A, Negation(2), Repeat(B, 0, None)))
    unknown = call("=", attr("i"), lit(1))
    table = pa.table({"t": range(3), "i": pa.array([0, None, 1]), "s": ["a", "x", "x"]})
    found = find(query(pattern, [is_letter("a"), None, unknown]), table)
    assert found.last_seq.tolist() == [1]


def test_negation_elsewhere_is_refused_by_name() -> None:
    with pytest.raises(NotSupportedError, match="!C stands beside no unbounded repetition"):
        compile_program(query(Concat((A, Negation(2), B)), [None, None, is_letter("x")]))


def test_negation_that_counts_rows_of_its_repetition_is_refused() -> None:
    counts = call(">", total("count", None, (1,)), lit(2))
    pattern = Concat((A, Negation(2), Repeat(B, 0, None)))
    with pytest.raises(NotSupportedError, match="the condition of !C counts rows that B"):
        compile_program(query(pattern, [None, None, counts]))


def test_sum_beyond_int64_is_null_until_it_comes_back() -> None:
    #  2**62 + 2**62 does not fit; less 1 it does
    big = 2**62
    fits = call("not", call("is_null", total("sum", attr("i"), None)))
    asked = query(Concat((A, B, C)), [None, None, fits])
    assert len(find(asked, numbers([big, big, -1]))) == 1
    assert len(find(asked, numbers([big, big, 0]))) == 0
    overflowing = query(Concat((A, B)), [None, call("is_null", total("sum", attr("i"), None))])
    program = compile_program(overflowing)
    matcher = PatternMatcher(program)
    matcher.push(program.prepare(numbers([big, big])), 0)
    assert (matcher.n_matches, matcher.n_faults) == (1, 1)


@pytest.mark.parametrize("patience", [0, 256])
def test_conditions_across_rows_do_not_blow_up_nested_quantifiers(monkeypatch, patience) -> None:
    #  ((C+)+)+ B where B needs what A's row never gives: exponentially many derivations
    n = 1500
    monkeypatch.setattr(search, "STATES_PATIENCE", patience)
    monkeypatch.setattr(search, "STEPS_MAX", 100 * n)
    never = call("=", attr("i"), call("+", attr("i", last(0)), lit(7), to=INT))
    nested = Repeat(Repeat(Repeat(C, 1, None), 1, None), 1, None)
    asked = query(Concat((A, nested, B)), [call("=", attr("i"), lit(9)), never, None])
    assert len(find(asked, numbers([9] + [1] * n))) == 0


def test_bound_rows_in_nested_quantifiers_are_remembered_by_what_is_read_of_them() -> None:
    #  ((A B?)+)+ C over any rows, C above its last A: A's row makes states of their own
    n = 400
    nested = Repeat(Repeat(Concat((A, Repeat(B, 0, 1))), 1, None), 1, None)
    above = call(">", attr("i"), call("+", attr("i", last(0)), lit(100), to=INT))
    asked = query(Concat((nested, C)), [None, None, above], skip=SkipMode.TO_NEXT_ROW)
    values = np.arange(n)
    assert len(find(asked, numbers(values.tolist()))) == 0
    values[-1] = 1000
    assert len(find(asked, numbers(values.tolist()))) == n - 1


def test_state_is_refused_by_another_query() -> None:
    one, other = (compile_program(query(A, [is_letter(s)])) for s in "ab")
    state = PatternMatcher(one).state()
    PatternMatcher(one).take_over(state)
    with pytest.raises(ValueError, match="another query"):
        PatternMatcher(other).take_over(state)
