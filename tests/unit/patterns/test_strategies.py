"""SEMANTICS worked out by hand, what their matchers keep, and counting without building matches.

That they find every match, once and in order, however rows are cut into batches and over snapshots,
`tests.campaigns.test_pattern_fuzz` shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product
from unittest.mock import patch

import pyarrow as pa
import pytest

from replay.errors import NotSupportedError, StepLimitError
from replay.language import bind, parse_query
from replay.language.bound import (
    Alternate,
    BoundPatternQuery,
    Concat,
    Edge,
    EdgeKind,
    Negation,
    Outer,
    Pattern,
    Repeat,
    RowsPerMatch,
    Semantics,
    Symbol,
)
from replay.patterns.matcher import new_matcher
from replay.patterns.matches import Matches
from replay.patterns.program import MatchProgram, compile_program
from replay.patterns.strategies import matcher as matcher_module
from replay.patterns.strategies import searches
from replay.patterns.summing import event_grain, within
from replay.patterns.summing.choice import new_summing
from replay.patterns.summing.operator import TrendOperator
from replay.patterns.summing.starts import StartTrendOperator
from replay.patterns.trends.algebra import MATCHES
from tests.helpers import only_compiled
from tests.oracles.matcher import match_rows
from tests.pattern_cases import pattern_case
from tests.unit.patterns.bound_queries import attr, call, first, last, lit, query, to_table
from tests.unit.patterns.bound_queries import total as aggregate

A, B, C, D = map(Symbol, range(4))
CONTIGUOUS, NEXT, ANY = (
    Semantics.CONTIGUOUS,
    Semantics.SKIP_TILL_NEXT,
    Semantics.SKIP_TILL_ANY,
)
START = Edge(EdgeKind.START)
NOT_C = Negation(2)


def plus(pattern: Pattern) -> Repeat:
    return Repeat(pattern, 1, None)


def star(pattern: Pattern) -> Repeat:
    return Repeat(pattern, 0, None)


@dataclass(frozen=True)
class Rule:
    """Condition of a symbol: letters it takes, and a comparison of i with an earlier row's."""

    letters: str
    compare: tuple[str, str, int] | None = None  # operator, "first" or "last", symbol


def condition(rule: Rule) -> object:
    own = call("or", *(call("=", attr("s"), lit(letter)) for letter in rule.letters or "-"))
    if rule.compare is None:
        return own
    op, which, symbol = rule.compare
    anchor = (first if which == "first" else last)(symbol)
    return call("and", own, call(op, attr("i"), attr("i", anchor)))


def asked(
    pattern: Pattern, rules: list[Rule], semantics: Semantics, **more: object
) -> BoundPatternQuery:
    timeouts = bool(more.pop("with_timeouts", False))
    bound = query(pattern, [condition(rule) for rule in rules], **more)
    return replace(bound, semantics=semantics, with_timeouts=timeouts)


def find(bound: BoundPatternQuery, table: pa.Table, cuts: tuple[int, ...] = ()) -> list[Matches]:
    """Return what was taken after each push, and after the end."""
    program = compile_program(bound)
    matcher = new_matcher(program)
    taken = []
    for low, high in pairwise([0, *sorted(cuts), table.num_rows]):
        matcher.push(program.prepare(table.slice(low, high - low)), low)
        taken.append(matcher.take())
    matcher.finish()
    return [*taken, matcher.take()]


def rows_of(taken: list[Matches]) -> list[tuple[int, ...]]:
    """Return the rows of each match."""
    found = [matches.rows for matches in taken]
    return [
        tuple(rows.seq[low:high].tolist())
        for rows in found
        if rows is not None
        for low, high in pairwise(rows.offsets.tolist())
    ]


def letters(text: str) -> list[dict]:
    return [{"t": t, "s": s, "i": t, "d": None, "p": 0} for t, s in enumerate(text)]


@pytest.mark.parametrize("semantics", [NEXT, ANY])
def test_a_long_window_is_gone_through_once_for_the_run_of_a_start(semantics: Semantics) -> None:
    # By their letters any two rows are a B and a C, by their numbers the last two alone. To try
    # each pair takes more steps than are allowed.
    n = 5000
    rows = letters("a" + "b" * (n - 1))
    for row in rows:
        row["i"] = 4 if row["t"] >= n - 2 else 0
    rows[0]["i"] = 3
    more_than_a = Rule("b", (">", "last", 0))
    bound = asked(Concat((A, B, C)), [Rule("a"), more_than_a, more_than_a], semantics, within=n)
    assert rows_of(find(bound, to_table(rows))) == [(0, n - 2, n - 1)]


@only_compiled("it takes a million steps to see that they fork too often")
@pytest.mark.parametrize("semantics", [CONTIGUOUS, NEXT, ANY])
def test_runs_that_fork_too_often_to_be_followed_are_searched_all_the_same(
    semantics: Semantics,
) -> None:
    # The row after the first is a D, and as a B or a C the first of 2^20 runs without a D.
    rows = letters("ad" + "b" * 20)
    pattern = Concat((A, star(Alternate((B, C))), D))
    later_than_a = Rule("bd", (">", "last", 0))
    bound = asked(pattern, [Rule("a"), later_than_a, later_than_a, Rule("d")], semantics, within=30)
    for cuts in ((), (2,), (12,)):
        assert rows_of(find(bound, to_table(rows), cuts)) == [(0, 1)]


@pytest.mark.parametrize("semantics", [CONTIGUOUS, NEXT, ANY])
def test_first_row_of_a_partition_that_a_dictionary_names_before_it_comes(
    semantics: Semantics,
) -> None:
    table = to_table(letters("bbaa"))
    named = pa.DictionaryArray.from_arrays(pa.array([1, 1, 0, 0], pa.int32()), ["a", "b"])
    table = table.set_column(table.column_names.index("s"), "s", named)
    pattern = Concat((START, A, B))
    bound = asked(pattern, [Rule("ab"), Rule("ab")], semantics, partition_by=("s",))
    for cuts in ((), (2,), (1, 2, 3)):
        assert rows_of(find(bound, table, cuts)) == [(0, 1), (2, 3)]


def test_exponentially_many_matches_come_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile_program(asked(plus(A), [Rule("a")], ANY))
    matcher = new_matcher(program)
    matcher.push(program.prepare(to_table(letters("a" * 60))), 0)
    monkeypatch.setattr(matcher_module, "MATCHES_AT_ONCE", 5)
    assert rows_of([next(matcher.batches())]) == [(0,), (0, 1), (0, 1, 2), (0, 2), (0, 1, 2, 3)]
    monkeypatch.setattr(matcher_module, "MATCHES_AT_ONCE", 1)
    assert rows_of([next(matcher.batches())]) == [(0, 1, 3)]
    assert matcher.n_kept == 60


@pytest.mark.parametrize("at_once", [1, 2, 3])
@pytest.mark.parametrize("compare", [None, (">", "last", 0)])
@pytest.mark.parametrize("semantics", [CONTIGUOUS, NEXT, ANY])
@pytest.mark.parametrize(
    ("between", "form"),
    [
        (plus(Alternate((Concat((B, C)), B))), "(12|1)+"),
        (Concat((Alternate((B, C)),) * 3), "(1|2){3}"),
    ],
)
def test_mappings_of_the_same_rows_that_come_a_few_at_a_time_go_on_where_they_were(
    between: Pattern,
    form: str,
    semantics: Semantics,
    compare: tuple[str, str, int] | None,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each b may be a B or a C.
    rules = [Rule("a"), Rule("b", compare), Rule("b", compare), Rule("d")]
    program = compile_program(asked(Concat((A, between, D)), rules, semantics))
    matcher = new_matcher(program)
    matcher.push(program.prepare(to_table(letters("abbbd"))), 0)
    matcher.finish()
    monkeypatch.setattr(matcher_module, "MATCHES_AT_ONCE", at_once)
    found = [
        tuple(zip(rows.seq[low:high].tolist(), rows.symbol[low:high].tolist(), strict=True))
        for rows in (matches.rows for matches in matcher.batches())
        if rows is not None
        for low, high in pairwise(rows.offsets.tolist())
    ]
    wanted = [
        tuple(zip((0, *rows, 4), (0, *symbols, 3), strict=True))
        for n in (range(1, 4) if semantics is ANY else [3])
        for rows in combinations(range(1, 4), n)
        for symbols in product((1, 2), repeat=n)
        if re.fullmatch(form, "".join(map(str, symbols)))
    ]
    assert sorted(found) == sorted(wanted)


def test_a_match_is_out_before_the_stream_ends() -> None:
    program = compile_program(asked(Concat((A, B)), [Rule("a"), Rule("b")], NEXT))
    matcher = new_matcher(program)
    matcher.push(program.prepare(to_table(letters("ab"))), 0)
    assert rows_of([matcher.take()]) == [(0, 1)]
    assert matcher.n_kept == 0


def test_rows_beyond_the_window_are_let_go() -> None:
    program = compile_program(asked(Concat((A, B)), [Rule("a"), Rule("b")], ANY, within=5))
    matcher = new_matcher(program)
    table = to_table(letters("a" * 300))
    kept = []
    for low in range(0, 300, 10):
        matcher.push(program.prepare(table.slice(low, 10)), low)
        matcher.take()
        kept.append(matcher.n_kept)
    assert max(kept) <= 12  # the window has 6 rows; half of what is kept may be beyond it


def test_a_run_that_conditions_across_rows_have_ended_is_let_go() -> None:
    rules = [Rule("a"), Rule("a", ("<", "last", 0))]  # B below A: never, i rises
    program = compile_program(asked(Concat((A, plus(B), C)), [*rules, Rule("c")], CONTIGUOUS))
    matcher = new_matcher(program)
    table = to_table(letters("a" * 40))
    for low in range(0, 40, 10):
        matcher.push(program.prepare(table.slice(low, 10)), low)
        matcher.take()
    assert matcher.n_kept <= 1


def test_a_search_that_leads_nowhere_stops_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # B+ may be any of the rows; C is below the first row, which no row is
    monkeypatch.setattr(searches, "STEPS_MAX", 1000)
    rules = [Rule("a"), Rule("a"), Rule("a", ("<", "first", 0))]
    program = compile_program(asked(Concat((A, star(B), C)), rules, ANY))
    matcher = new_matcher(program)
    matcher.push(program.prepare(to_table(letters("a" * 40))), 0)
    with pytest.raises(StepLimitError, match=r"from the event with seq 0 takes more than"):
        matcher.take()


def compiled(pattern: Pattern, semantics: Semantics) -> object:
    return compile_program(asked(pattern, [Rule(s) for s in "abc"], semantics))


def test_negation_between_adjacent_rows_is_refused() -> None:
    with pytest.raises(NotSupportedError, match=r"!C between symbols says nothing; use SEMANTICS"):
        compiled(Concat((A, NOT_C, B)), CONTIGUOUS)


def test_patterns_too_large_are_refused() -> None:
    with pytest.raises(NotSupportedError, match="more than 2048 symbols"):
        compiled(Repeat(A, 3000, 3000), ANY)
    either = Alternate((A, B))
    with pytest.raises(NotSupportedError, match="more than 4096 states"):
        compiled(Concat((star(either), A, Repeat(either, 12, 12))), ANY)


WRAPS = only_compiled("NumPy warns where compiled integers wrap")


@pytest.fixture(autouse=True)
def sums_at_each_push() -> Iterator[None]:
    with patch.object(within, "ROWS_AT_ONCE", 1):
        yield


LANES = (StartTrendOperator, new_summing)
"""By start, and by entry."""

COUNT = Outer((("n", aggregate("count", None, None)),), group_by=())


def counting(bound: BoundPatternQuery) -> MatchProgram:
    """Return the program of a query that asks how many matches there are."""
    return compile_program(replace(bound, outer=COUNT))


def total(operator: TrendOperator) -> int:
    """Return how many matches there are by now, in all partitions."""
    return sum(operator.totals().numbers[MATCHES])  # type: ignore[misc]


def count(bound: BoundPatternQuery, rows: list[dict]) -> int:
    return counted(counting(bound), to_table(rows), [0, len(rows)], whole=True)


@pytest.mark.parametrize(("semantics", "expected"), [(ANY, 43), (NEXT, 8), (CONTIGUOUS, 2)])
def test_cogra_figure_2_is_counted(semantics: Semantics, expected: int) -> None:
    rules, pattern = [Rule("a"), Rule("b")], plus(Concat((plus(A), B)))
    assert count(asked(pattern, rules, semantics), letters("abaacbab")) == expected
    assert count(asked(pattern, rules, semantics, within=100), letters("abaacbab")) == expected


@WRAPS
def test_counts_beyond_64_bits_are_exact() -> None:
    # A+ of 200 rows: every set of rows but the empty one
    assert count(asked(plus(A), [Rule("a")], ANY), letters("a" * 200)) == 2**200 - 1


@WRAPS
def test_counts_beyond_64_bits_are_exact_in_windows() -> None:
    # Of 150 rows 100 lie within a row's window: all sets of rows but those that span more, so
    # every first row with any of the up to 100 after it.
    rows = letters("a" * 150)
    expected = sum(2 ** min(100, 149 - first) for first in range(150))
    assert count(asked(plus(A), [Rule("a")], ANY, within=100), rows) == expected


def counted(
    program: MatchProgram,
    table: pa.Table,
    cuts: list[int],
    *,
    whole: bool,
    make: Callable[[MatchProgram], TrendOperator] = new_summing,
) -> int:
    """Return the count of a table pushed in parts, each a stretch of its own or all of them one."""
    counter = make(program)
    for low, high in pairwise(cuts):
        counter.push(program.prepare(table.slice(low, high - low)), low)
        if not whole:
            counter.finish()
    counter.finish()
    return total(counter)


def test_counts_as_many_as_the_naive_matcher_finds_in_each_stretch() -> None:
    n_cases = 0
    for case in map(pattern_case, range(900)):
        bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
        if bound.semantics is Semantics.SQL or bound.order_by:
            continue
        one = RowsPerMatch.ONE
        bound = replace(bound, with_timeouts=False, rows_per_match=one, outer=None, limit=None)
        program, rows = counting(bound), case.stream.rows
        if program.sums is None:
            continue
        n_cases += 1
        cuts = [0, *case.stream.cuts, len(rows)]
        expected = len(match_rows(rows, bound))
        is_type_grain = program.sums.grain is None
        for make in LANES if bound.within is not None and is_type_grain else (new_summing,):
            found = counted(program, case.stream.table, cuts, whole=True, make=make)
            assert found == expected, (make, case.shown())
        if not program.partition_edges:
            found = counted(program, case.stream.table, cuts, whole=False)
            parts = [rows[low:high] for low, high in pairwise(cuts)]
            assert found == sum(len(match_rows(part, bound)) for part in parts), case.shown()
    assert n_cases > 50


@WRAPS
@pytest.mark.parametrize("make", LANES)
def test_lanes_agree_where_numbers_grow_and_windows_move(
    make: Callable[[MatchProgram], TrendOperator],
) -> None:
    # A+ within 80 over 70 + 70 rows, 100 apart: the queue runs empty between, and in each part
    # every set of rows is a match. Then 81 rows that a match of 80 spans all, in three pushes.
    times = [*range(70), *range(170, 240), *range(500, 581)]
    rows = [{"t": t, "s": "a", "i": t, "d": None, "p": 0} for t in times]
    program = counting(asked(plus(A), [Rule("a")], ANY, within=80))
    expected = 2 * (2**70 - 1) + (2**81 - 1)
    found = counted(program, to_table(rows), [0, 90, 150, len(rows)], whole=True, make=make)
    assert found == expected


def rising(within: int, pattern: str = "S T*", skip: str = "ANY") -> MatchProgram:
    """Return what counts rows one after the other whose ``i`` rises."""
    sql = (
        f"SELECT COUNT(*) AS n FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN ({pattern}) SEMANTICS "
        f"SKIP TILL {skip} WITHIN {within} DEFINE T AS i > LAST(i, 1))"
    )
    schema = to_table(letters("a")).schema
    return compile_program(bind(parse_query(sql), schema, time="t", text=sql))


@WRAPS
@pytest.mark.parametrize("rows_min", [1, 10**9])
def test_runs_of_rows_are_counted_where_numbers_grow_and_windows_move(rows_min: int) -> None:
    # As above, every set of rows is a match: the values rise with time.
    times = [*range(70), *range(170, 240), *range(500, 581)]
    rows = [{"t": t, "s": "a", "i": t, "d": None, "p": 0} for t in times]
    expected = 2 * (2**70 - 1) + (2**81 - 1)
    with patch.object(event_grain, "ROWS_MIN", rows_min):
        found = counted(rising(80), to_table(rows), [0, 90, 150, len(rows)], whole=True)
    assert found == expected


def test_a_run_that_was_over_before_the_rows_to_come_is_counted_once() -> None:
    # 1 is followed by 5, and goes on no more; neither 5 nor 0 is followed by more.
    rows = [{"t": t, "s": "a", "i": i, "d": None, "p": 0} for t, i in enumerate([1, 5, 0])]
    program = rising(9, "S T", "NEXT")
    assert counted(program, to_table(rows), [0, 2, 3], whole=True) == 1


def test_a_row_waits_as_long_as_others_may_come_at_the_last_time_it_reaches() -> None:
    # 2 at time 5 follows 1, five before, and 0 of its own time.
    rows = [{"t": t, "s": "a", "i": i, "d": None, "p": 0} for t, i in ((0, 1), (5, 0), (5, 2))]
    assert counted(rising(5, "S T"), to_table(rows), [0, 2, 3], whole=True) == 2


@WRAPS
def test_sums_of_rows_go_on_from_a_state() -> None:
    program = rising(1000)
    one, other = new_summing(program), new_summing(program)
    rows = [{"t": t, "s": "a", "i": t, "d": None, "p": 0} for t in range(100)]
    one.push(program.prepare(to_table(rows[:50])), 0)
    other.take_over(one.state())
    other.push(program.prepare(to_table(rows[50:])), 50)
    assert total(one) == 2**50 - 1
    assert total(other) == 2**100 - 1


@WRAPS
@pytest.mark.parametrize("n_rows", [61, 62, 63, 64, 65, 127, 128, 129])
def test_counts_are_exact_where_words_end(n_rows: int) -> None:
    assert count(asked(plus(A), [Rule("a")], ANY), letters("a" * n_rows)) == 2**n_rows - 1


@WRAPS
@pytest.mark.parametrize("make", LANES)
def test_sums_go_on_from_a_state(make: Callable[[MatchProgram], TrendOperator]) -> None:
    program = counting(asked(plus(A), [Rule("a")], ANY, within=1000))
    one, other = make(program), make(program)
    one.push(program.prepare(to_table(letters("a" * 50))), 0)
    other.take_over(one.state())
    other.push(program.prepare(to_table(letters("a" * 50))), 50)
    assert total(one) == 2**50 - 1
    assert total(other) == 2**100 - 1


def test_what_cannot_be_counted_is_said() -> None:
    across = asked(A, [Rule("a", ("<", "first", 0))], ANY)
    late = asked(A, [Rule("a")], ANY, within=3, with_timeouts=True)
    fine = asked(Concat((START, A)), [Rule("a")], ANY)
    countable = [counting(bound).sums is not None for bound in (across, late, fine)]
    assert countable == [True, False, True]
