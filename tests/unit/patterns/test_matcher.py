"""The matcher of SQL's semantics by hand, its errors, its limits, and what it keeps.

That it gives what the naive one gives, however rows are cut into batches and over snapshots,
`tests.campaigns.test_pattern_fuzz` shows.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import replay
from replay.errors import NotSupportedError, QueryError, SkipError, StepLimitError
from replay.language import bind, parse_query
from replay.language.bound import (
    Alternate,
    BoundPatternQuery,
    Classifier,
    Concat,
    Edge,
    EdgeKind,
    Negation,
    Pattern,
    Repeat,
    RowsPerMatch,
    Semantics,
    SkipMode,
    Symbol,
)
from replay.operators.packing import pack, unpack
from replay.patterns import search
from replay.patterns.matcher import PatternMatcher, new_matcher
from replay.patterns.matches import Matches
from replay.patterns.memo_kernels import KEY_TOTAL, find_state
from replay.patterns.program import compile_program
from tests.pattern_cases import PatternCase, pattern_case
from tests.strategies import SEEDS
from tests.unit.patterns.bound_queries import (
    INT,
    STRING,
    attr,
    call,
    first,
    is_letter,
    last,
    letters,
    lit,
    query,
    run,
    total,
)

A, B, C = Symbol(0), Symbol(1), Symbol(2)
START, END = Edge(EdgeKind.START), Edge(EdgeKind.END)
ALL = RowsPerMatch.ALL_SHOW_EMPTY
SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def spans(pattern: Pattern, text: str, symbols: str, **more: object) -> list[tuple]:
    """Return (first row, last row, classifier) of each match; symbols are letters, '.' any."""
    defines = [None if s == "." else is_letter(s) for s in symbols]
    measures = [attr("t", first(None)), attr("t", last(None)), Classifier()]
    table = letters(text, t=more.pop("times", range(len(text))))
    found = run(query(pattern, defines, measures=measures, **more), table)
    return [(row["m0"], row["m1"], row["m2"]) for row in found]


def find(asked: BoundPatternQuery, table: pa.Table) -> Matches:
    program = compile_program(asked)
    matcher = PatternMatcher(program)
    matcher.push(program.prepare(table), 0)
    matcher.finish()
    return matcher.take()


def numbers(values: list[int]) -> pa.Table:
    return pa.table({"t": range(len(values)), "i": pa.array(values, pa.int64())})


def test_regression_bounded_run_near_the_end_leaves_the_frame_below_alone() -> None:
    #  A{0,2} may reach past the last row: its end was noted in the frame of the run before it
    pattern = Concat((A, Repeat(A, 3, 5), C, C, Repeat(A, 0, 2), A))
    #  from row 1: A 1, A 2-4, greedy A 5-6, C 7, C 8, A{0,2} at the end, no row for the last A
    found = spans(pattern, "bbbbbbxbb", ".ab", skip=SkipMode.TO_NEXT_ROW)
    assert found == [(0, 8, "A")]  # A 0, A 1-3, C 4, C 5, A 6-7, A 8


def asked_of(case: PatternCase) -> BoundPatternQuery:
    """Return the pattern of a case, if no order beside time and no SKIP TO can end it early."""
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    assume(bound.semantics is Semantics.SQL and not bound.order_by and bound.skip_to is None)
    return bound


@SLOW
@given(case=SEEDS.map(pattern_case), data=st.data())
def test_stretches_pushed_at_once_match_as_pushed_one_by_one(case, data) -> None:
    table, events = case.stream.table, case.stream.rows
    program = compile_program(asked_of(case))
    if program.rows_before or program.rows_after or program.needs_all_rows:
        return
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4))), len(events)]
    starts, ends = np.array(edges[:-1]), np.array(edges[1:])
    prepared = program.prepare(table)
    at_once, one_by_one = PatternMatcher(program), PatternMatcher(program)
    at_once.push_stretches(prepared, starts, ends - starts, starts + 100)
    for low, high in pairwise(edges):
        one_by_one.push(program.prepare(table.slice(low, high - low)), low + 100)
        one_by_one.finish()
    left, right = at_once.take(), one_by_one.take()
    for name in ("first_seq", "last_seq", "number", "classifier", "anchors"):
        assert np.array_equal(getattr(left, name), getattr(right, name)), name


@pytest.mark.parametrize(
    ("pattern", "kernel"),
    [
        pytest.param(Concat((A, B)), "find_fixed", id="fixed"),
        pytest.param(Concat((A, Repeat(B, 1, None))), "find_matches", id="repeated"),
    ],
)
def test_times_that_arrow_lends_are_searched_where_they_lie(pattern, kernel, monkeypatch) -> None:
    program = compile_program(query(pattern, [is_letter("a"), is_letter("b")], within=5))
    lent = program.prepare(letters("abcab"))
    assert not lent.times.flags.writeable
    in_place = []

    def spy(*arguments):
        arrays = [given for given in arguments if isinstance(given, np.ndarray)]
        in_place.append(any(np.shares_memory(array, lent.times) for array in arrays))
        return original(*arguments)

    original = getattr(search.kernels, kernel)
    monkeypatch.setattr(search.kernels, kernel, spy)
    matcher = PatternMatcher(program)
    matcher.push_stretches(lent, np.array([0]), np.array([5]), np.array([0]))
    assert matcher.take().first_seq.tolist() == [0, 3]
    assert in_place == [True]


def test_a_partition_begins_anew_in_every_stretch_and_numbers_its_matches_on() -> None:
    #  three stretches: partition 0 has a b | . a | b, partition 1 has . | a b | a b
    table = pa.table(
        {"t": range(9), "s": list("ab.abaabb"), "i": [0] * 9, "p": [0, 0, 1, 1, 1, 0, 1, 1, 0]}
    )
    asked = query(Concat((A, B)), [is_letter("a"), is_letter("b")], partition_by=("p",))
    program = compile_program(asked)
    matcher = PatternMatcher(program)
    starts, n_rows = np.array([0, 3, 6]), np.array([3, 3, 3])
    matcher.push_stretches(program.prepare(table), starts, n_rows, starts + 10)
    found = matcher.take()
    assert found.first_seq.tolist() == [10, 13, 16]
    assert found.last_seq.tolist() == [11, 14, 17]
    assert found.number.tolist() == [1, 1, 2]


@pytest.mark.parametrize("semantics", list(Semantics))
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        #  rows 0 to 8 of the stream, in stretches of three; rows 3 to 5 are not replayed
        (Concat((START, A)), [0]),
        (Concat((A, END)), [8]),
        (Alternate((Concat((START, A)), Concat((A, END)))), [0, 8]),
        (A, [0, 1, 2, 6, 7, 8]),
    ],
)
def test_only_the_ends_of_the_stream_are_edges_and_not_those_of_stretches(
    semantics: Semantics, at_once: bool, pattern: Pattern, found: list[int]
) -> None:
    asked = replace(query(pattern, [is_letter("a")]), semantics=semantics)
    program = compile_program(asked)
    matcher = new_matcher(program, n_events=9)
    starts, n_rows = np.array([0, 3]), np.array([3, 3])
    prepared, first_seqs = program.prepare(letters("a" * 6)), np.array([0, 6])
    if at_once:
        matcher.push_stretches(prepared, starts, n_rows, first_seqs)
    else:
        for low, seq in ((0, 0), (3, 6)):
            for row in range(3):
                matcher.push(prepared.slice(low + row, 1), seq + row)
            matcher.finish()
    assert matcher.take().first_seq.tolist() == found


@pytest.mark.parametrize("semantics", list(Semantics))
@pytest.mark.parametrize("at_once", [True, False])
def test_rows_of_partitions_that_know_their_neighbours_know_the_edges(
    semantics: Semantics, at_once: bool
) -> None:
    #  rows of p = 0: 10 and 12; of p = 1: 11 and 13. Of 0 there is an earlier one, of 1 a later one
    pattern = Alternate((Concat((START, A)), Concat((A, END))))
    asked = query(pattern, [is_letter("a")], partition_by=("p",))
    program = compile_program(replace(asked, semantics=semantics))
    table = letters("aaaa").append_column("p", pa.array([0, 1, 0, 1]))
    moved = {-1: np.array([4, -1, 10, 11]), 1: np.array([12, 13, -1, 20])}
    seq = np.arange(10, 14)
    prepared = replace(program.prepare(table), seq=seq, moved=moved)
    matcher = new_matcher(program, n_events=100)
    if at_once:
        matcher.push_stretches(prepared, np.array([0]), np.array([4]), np.array([10]))
    else:
        matcher.push(prepared, 10)
        matcher.finish()
    assert matcher.take().first_seq.tolist() == [11, 12]


@SLOW
@given(case=SEEDS.map(pattern_case), data=st.data())
def test_rows_left_out_are_as_if_they_had_never_been(case, data) -> None:
    table, events = case.stream.table, case.stream.rows
    asked = asked_of(case)
    program = compile_program(replace(asked, partition_by=asked.partition_by or ("k",)))
    if not program.stands_alone:
        return
    kept = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=40, max_size=40)))
    kept = kept[kept < len(events)].astype(np.int64)
    n_first = data.draw(st.integers(0, len(kept)))
    left, right = PatternMatcher(program), PatternMatcher(program)
    for low, high in ((0, n_first), (n_first, len(kept))):
        part = kept[low:high]
        prepared = program.prepare(table.take(pa.array(part)))
        left.push(replace(prepared, seq=100 + part), -1)
        right.push(prepared, low)
    left.finish()
    right.finish()
    found, expected = left.take(), right.take()
    assert found.first_seq.tolist() == (100 + kept[expected.first_seq]).tolist()
    assert found.last_seq.tolist() == [
        seq - 1 if b < a else 100 + kept[b]
        for seq, a, b in zip(found.first_seq, expected.first_seq, expected.last_seq, strict=True)
    ]
    assert found.number.tolist() == expected.number.tolist()
    assert np.array_equal(found.anchors >= 0, expected.anchors >= 0)
    there = expected.anchors >= 0
    assert np.array_equal(found.anchors[there], 100 + kept[expected.anchors[there]])


def test_matches_of_one_partition_wait_for_an_open_start_of_another() -> None:
    #  partition 0 opens A at row 0; partition 1 matches rows 1, 2
    table = pa.table({"t": range(5), "s": list("aabxb"), "i": [0] * 5, "p": [0, 1, 1, 0, 0]})
    asked = query(
        Concat((A, Repeat(C, 0, None, greedy=False), B)),
        [is_letter("a"), is_letter("b"), None],
        partition_by=("p",),
    )
    program = compile_program(asked)
    matcher = PatternMatcher(program)
    matcher.push(program.prepare(table.slice(0, 4)), 0)
    assert len(matcher.take()) == 0
    matcher.push(program.prepare(table.slice(4)), 4)
    assert matcher.take().first_seq.tolist() == [0, 1]


def test_window_that_has_passed_decides_starts_of_other_partitions() -> None:
    n = 1000
    table = pa.table({"t": range(n), "s": ["a"] * n, "i": [0] * n, "p": list(range(n))})
    asked = query(Concat((A, B)), [is_letter("a"), is_letter("b")], within=10, partition_by=("p",))
    program = compile_program(asked)
    matcher = PatternMatcher(program)
    for low in range(0, n, 50):
        matcher.push(program.prepare(table.slice(low, 50)), low)
        assert matcher.n_kept <= 11


def test_rows_before_the_first_undecided_start_are_dropped() -> None:
    table = letters("x" * 500 + "ax" * 3)
    asked = query(Concat((A, A)), [is_letter("a")])
    program = compile_program(asked)
    matcher = PatternMatcher(program)
    matcher.push(program.prepare(table.slice(0, 501)), 0)
    assert matcher.n_kept == 1


def test_nested_quantifiers_over_the_same_rows_do_not_blow_up() -> None:
    #  ((A+)+)+ B on a^n without b: exponentially many derivations, linearly many states
    nested = Repeat(Repeat(Repeat(A, 1, None), 1, None), 1, None)
    assert spans(Concat((nested, B)), "a" * 3000, "ab") == []


def test_step_limit_names_pattern_and_row(monkeypatch) -> None:
    monkeypatch.setattr(search, "STEPS_MAX", 1000)
    table = pa.table({"t": range(40), "s": ["x"] * 40, "i": [9] + [1] * 39})
    never = call("=", attr("i"), call("+", attr("i", last(0)), lit(7), to=INT))
    asked = query(
        Concat((A, Repeat(Repeat(C, 1, None), 1, None), B)),
        [call("=", attr("i"), lit(9)), never, None],
    )
    with pytest.raises(
        StepLimitError, match=r"PATTERN \(A \(C\+\)\+ B\) from the event with seq 0"
    ):
        run(asked, table)


def test_rows_that_do_not_follow_are_refused() -> None:
    program = compile_program(query(A, [None]))
    matcher = PatternMatcher(program)
    matcher.push(program.prepare(letters("ab")), 0)
    with pytest.raises(ValueError, match="seq 5 pushed where 2 follows"):
        matcher.push(program.prepare(letters("ab")), 5)
    behind = replace(program.prepare(letters("ab")), seq=np.array([1, 7]))
    with pytest.raises(ValueError, match="seq 1 pushed where 2 follows"):
        matcher.push(behind, 2)


def test_more_symbols_than_bits_are_refused_by_name() -> None:
    many = query(Concat(tuple(Symbol(k) for k in range(65))), [])
    symbols = tuple(f"S{k}" for k in range(65))
    bound = replace(many, symbols=symbols, defines=(None,) * 65)
    with pytest.raises(NotSupportedError, match="65 symbols"):
        compile_program(bound)


def test_function_over_rows_of_two_symbols_is_refused_by_name() -> None:
    joined = call("||", attr("s"), attr("s", last(0)), to=STRING)
    with pytest.raises(NotSupportedError, match=r"'\|\|' over values of different rows.* of B"):
        compile_program(query(Concat((A, B)), [None, call("=", joined, lit("x"))]))


def test_absurd_repetition_of_a_group_is_refused() -> None:
    group = Repeat(Concat((A, B)), 100_000, None)
    with pytest.raises(NotSupportedError, match="4096 instructions"):
        compile_program(query(group, [None, None]))


def test_repetition_of_one_symbol_may_be_as_long_as_one_likes() -> None:
    assert spans(Repeat(A, 1_000_000, None), "aaa", "a") == []
    assert spans(Concat((Repeat(A, 2, 3), B)), "aaaab", "ab") == [(1, 4, "B")]


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


@pytest.mark.parametrize("part", range(5))
def test_totals_that_differ_in_any_part_are_two_states(part: int) -> None:
    """Count, sum, how often the sum left 64 bits; mean and squares of a spread."""
    none, items = np.zeros(0, np.int64), np.array([[KEY_TOTAL, 0, 0]])
    table, failed, scratch = np.zeros(8, np.int64), np.zeros(4, np.int64), np.zeros(7, np.int64)
    memory = table, np.zeros((4, 7), np.int64), failed, scratch, np.array([0, 1, 0])

    def state(total: list[int]) -> int:
        whole, fraction = np.array([[[0, 0, 0], total[:3]]]), np.array([[[0, 0], total[3:]]], float)
        mapped = np.array([1]), none, whole, fraction, none
        return int(find_state.plain(0, 5, 5, none, *mapped, np.array([[0, 1]]), items, *memory))

    total = [1, 2, 3, 4, 5]
    known = state(total)
    assert state(total) == known
    total[part] += 1
    assert state(total) != known


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


def ask(clauses: str, **columns: list[Any]) -> list[tuple[int, int]]:
    """Return the times of first and last row of the matches."""
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE ("
        f"ORDER BY t MEASURES FIRST(t) AS first, LAST(t) AS last {clauses})"
    )
    n_rows = len(next(iter(columns.values())))
    found = replay.query({"s": pa.table({"t": range(n_rows), **columns})}, sql).table.to_pylist()
    return [(row["first"], row["last"]) for row in found]


def test_nothing_is_remembered_of_states_that_no_key_tells_apart(monkeypatch: Any) -> None:
    # (A | B) is tried as A first, so that C, at row 5, fails from row 4 with few rows mapped to B
    # before it succeeds from there with rows 1 or 2, and 3 and 4 mapped to B: 2, 3 and 1.
    monkeypatch.setattr(search, "STATES_PATIENCE", 0)
    clauses = "PATTERN ((A | B)+ C) DEFINE C AS a = 5 AND COUNT(DISTINCT B.a) = 3"
    assert ask(clauses, a=[1, 2, 2, 3, 1, 5]) == [(0, 5)]


def test_search_that_cannot_remember_ends_at_the_step_limit(monkeypatch: Any) -> None:
    monkeypatch.setattr(search, "STEPS_MAX", 10_000)
    clauses = "PATTERN ((A+)+ B) DEFINE A AS a >= 0, B AS COUNT(DISTINCT A.a) > 100"
    with pytest.raises(StepLimitError, match=r"PATTERN \(\(A\+\)\+ B\) from the event with seq 0"):
        ask(clauses, a=list(range(40)))


def test_order_of_texts_holds_for_texts_seen_later(monkeypatch: Any) -> None:
    # In batches of one row each text is new; 'm' comes between 'b' and 'z', and after 'c'.
    monkeypatch.setattr("replay.engines.source.TABLE_BLOCK_EVENTS", 1)
    monkeypatch.setattr("replay.patterns.local.UNIT_EVENTS", 1)
    for earlier in ("A.s", "LAST(s, 1)"):
        assert ask(f"PATTERN (A B+) DEFINE B AS s > {earlier}", s=[*"zbcma"]) == [(1, 3)]


SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int32()), ("s", pa.string())])
SQL = """
SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY s ORDER BY t MEASURES A.t AS u, B.t AS v
PATTERN (A Z*? B) WITHIN 30 DEFINE A AS a = 1, B AS a = 2)
"""


def online() -> replay.OnlineQuery:
    return replay.online(SQL, SCHEMA, time="t")


@pytest.fixture
def state() -> dict[str, Any]:
    """State with rows of open starts in three partitions."""
    query = online()
    rows = [{"t": t, "a": 1, "s": f"k{t % 3}"} for t in range(9)]
    query.push(pa.Table.from_pylist(rows, schema=SCHEMA))
    return unpack(query.snapshot())


def with_value(value: int) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[-1] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("rows.group", with_value(99), id="partition-too-great"),
        pytest.param("rows.group", with_value(-1), id="partition-below-zero"),
        pytest.param("rows.group", lambda a: a[:-1], id="fewer-partitions"),
        pytest.param("rows.times", lambda a: a[:0], id="no-times"),
        pytest.param("rows.words", lambda a: a.astype(np.uint8), id="narrow-words"),
        pytest.param("rows.seq", lambda a: a[:-2], id="fewer-numbers"),
        pytest.param("partitions", lambda a: a[:, :-1], id="an-unknown-partition"),
        pytest.param("header", lambda h: h.update(n_inbox=10**9), id="rows-that-are-not-there"),
        pytest.param("header", lambda h: h.update(n_inbox=-1), id="fewer-rows-than-none"),
        pytest.param("header", lambda h: h.update(partition_keys=[]), id="no-keys"),
    ],
)
def test_rows_that_no_matcher_has_are_refused(
    state: dict[str, Any], name: str, change: Any
) -> None:
    matcher = state["operator"]["matcher"]
    if name == "header":
        change(matcher)
    else:
        matcher["arrays"][name] = change(matcher["arrays"][name])
    with pytest.raises(QueryError, match="does not hold the state"):
        online().restore(pack(state))


@pytest.mark.parametrize("within", ["", "WITHIN 5"])
@pytest.mark.parametrize("limit", ["MATCHES_AT_ONCE", "PATH_BYTES_AT_ONCE"])
@pytest.mark.parametrize("pattern", ["(C??)+? D", "(B{2} | C??)+? D", "(C?)+ D"])
def test_a_start_that_is_searched_again_for_want_of_room_finds_its_match(
    monkeypatch: pytest.MonkeyPatch, pattern: str, limit: str, within: str
) -> None:
    """An iteration that maps no row fails from rows from which others lead on."""
    monkeypatch.setattr(search, limit, 1)
    table = pa.table({"t": range(8), "k": [*"CCDCCCCD"]})
    define = ", ".join(f"{symbol} AS k = '{symbol}'" for symbol in "BCD" if symbol in pattern)
    sql = (
        "SELECT f, n FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(t) AS f, COUNT(*) AS n "
        f"ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN ({pattern}) {within} "
        f"DEFINE {define})"
    )
    rows = replay.query({"s": table}, sql).table.to_pylist()
    longest = [(first, 2 - first + 1) for first in range(3)]
    longest += [(first, 7 - first + 1) for first in range(3, 8)]
    assert [(row["f"], row["n"]) for row in rows] == [
        (first, n) for first, most in longest for n in range(1, most + 1)
    ]
