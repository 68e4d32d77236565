"""Every match of a strategy is found, once, in order, however the rows are cut into batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from replay.language.bound import (
    Alternate,
    BoundPatternQuery,
    Concat,
    Edge,
    EdgeKind,
    Negation,
    Pattern,
    Repeat,
    Semantics,
    Symbol,
)
from replay.operators.packing import pack, unpack
from replay.patterns.matcher import new_matcher
from replay.patterns.matches import Matches
from replay.patterns.program import compile_program
from tests.oracles.matcher import partitions
from tests.oracles.strategies import strategy_matches
from tests.oracles.view import Budget
from tests.unit.patterns.bound_queries import attr, call, first, last, lit, query, to_table

A, B, C, D = map(Symbol, range(4))
CONTIGUOUS, NEXT, ANY = (
    Semantics.CONTIGUOUS,
    Semantics.SKIP_TILL_NEXT,
    Semantics.SKIP_TILL_ANY,
)
START, END = Edge(EdgeKind.START), Edge(EdgeKind.END)


def examples(n: int) -> settings:
    return settings(max_examples=n, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def plus(pattern: Pattern) -> Repeat:
    return Repeat(pattern, 1, None)


def star(pattern: Pattern) -> Repeat:
    return Repeat(pattern, 0, None)


@dataclass(frozen=True)
class Rule:
    """Condition of a symbol: letters it takes, and a comparison of i with an earlier row's."""

    letters: str
    compare: tuple[str, str, int] | None = None  # operator, "first" or "last", symbol


@dataclass(frozen=True)
class Answer:
    rows: tuple[int, ...]
    symbols: tuple[int, ...]
    timed_out: bool = False


def every_match(bound: BoundPatternQuery, rows: list[dict]) -> list[Answer]:
    """Return matches and timeouts as the naive oracle finds them, in canonical order."""
    newest, found = rows[-1]["t"] if rows else 0, []
    for seqs in partitions(rows, bound).values():
        members = [rows[seq] for seq in seqs]
        found += strategy_matches(members, seqs, bound, newest, Budget(None))
    return [
        Answer(
            tuple(match.seqs[mapped.at] for mapped in match.mapping),
            tuple(mapped.symbol for mapped in match.mapping),
            match.timed_out,
        )
        for match in sorted(found, key=lambda match: match.order)
    ]


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
    matcher = new_matcher(compile_program(bound))
    program = compile_program(bound)
    taken = []
    for low, high in pairwise([0, *sorted(cuts), table.num_rows]):
        matcher.push(program.prepare(table.slice(low, high - low)), low)
        taken.append(matcher.take())
    matcher.finish()
    return [*taken, matcher.take()]


def to_answers(taken: list[Matches]) -> list[Answer]:
    answers = []
    for matches in taken:
        rows, timed_out = matches.rows, matches.timed_out
        for k, (low, high) in enumerate(pairwise(rows.offsets.tolist())):
            late = timed_out is not None and bool(timed_out[k])
            answers.append(
                Answer(
                    tuple(rows.seq[low:high].tolist()), tuple(rows.symbol[low:high].tolist()), late
                )
            )
    return answers


def letters(text: str) -> list[dict]:
    return [{"t": t, "s": s, "i": t, "d": None, "p": 0} for t, s in enumerate(text)]


COGRA = plus(Concat((plus(A), B)))


# ---------------------------------------------------------------------------------------------
# Against the naive enumeration.


@st.composite
def row_patterns(draw: st.DrawFn, depth: int = 2) -> Pattern:
    """Draw a pattern over three symbols, all of them positive."""
    kind = draw(st.integers(0, 6 if depth else 0))
    if kind <= 1:
        return Symbol(draw(st.integers(0, 2)))
    inner = row_patterns(depth - 1)
    if kind <= 3:
        return Concat(tuple(draw(st.lists(inner, min_size=1, max_size=3))))
    if kind == 4:
        return Alternate(tuple(draw(st.lists(inner, min_size=2, max_size=3))))
    low, high = draw(st.sampled_from([(0, None), (1, None), (0, 1), (0, 2), (1, 2), (2, 2)]))
    return Repeat(draw(inner), low, high)


RULES = st.builds(Rule, st.sampled_from(["a", "b", "c", "ab", "bc", "abc"]))
COMPARES = st.tuples(
    st.sampled_from(["<", ">", "<=", "<>"]), st.sampled_from(["first", "last"]), st.integers(0, 2)
)
RULES_ACROSS = st.builds(Rule, st.sampled_from(["a", "b", "ab", "abc"]), st.none() | COMPARES)


@st.composite
def streams(draw: st.DrawFn, max_size: int = 8) -> list[dict]:
    n = draw(st.integers(0, max_size))
    times = np.cumsum(draw(st.lists(st.sampled_from([0, 1, 1, 2]), min_size=n, max_size=n)))
    return [
        {
            "t": int(t),
            "s": draw(st.sampled_from("aabbcd")),
            "i": draw(st.sampled_from([None, 0, 1, 2, 3])),
            "d": None,
            "p": draw(st.sampled_from([0, 0, 1])),
        }
        for t in times
    ]


def decorate(draw: st.DrawFn, pattern: Pattern, semantics: Semantics) -> Pattern:
    """Put negations of D and edges into a sequence."""
    edge = [None, None, None]
    front = draw(st.sampled_from([*edge, START, Negation(3)]))
    back = draw(st.sampled_from([*edge, END, Negation(3)]))
    parts = list(pattern.parts) if isinstance(pattern, Concat) else [pattern]
    if semantics is not CONTIGUOUS and len(parts) > 1 and draw(st.booleans()):
        parts.insert(draw(st.integers(1, len(parts) - 1)), Negation(3))
    return Concat(tuple(p for p in (front, *parts, back) if p is not None))


@st.composite
def cases(draw: st.DrawFn, *, across: bool) -> tuple[BoundPatternQuery, list[dict]]:
    semantics = draw(st.sampled_from([CONTIGUOUS, NEXT, NEXT, ANY]))
    pattern = draw(row_patterns())
    within = draw(st.sampled_from([None, 0, 2, 3, 5]))
    if within is not None and draw(st.booleans()):
        pattern = decorate(draw, pattern, semantics)
    rules = draw(st.lists(RULES_ACROSS if across else RULES, min_size=3, max_size=3))
    rules.append(draw(st.builds(Rule, st.sampled_from(["c", "d", "b"]))))
    bound = asked(
        pattern,
        rules,
        semantics,
        within=within,
        partition_by=draw(st.sampled_from([(), ("p",)])),
        with_timeouts=within is not None and draw(st.booleans()),
    )
    return bound, draw(streams())


def check(case: tuple, cuts: list[int]) -> None:
    bound, rows = case
    expected = every_match(bound, rows)
    found = find(bound, to_table(rows), tuple(min(c, len(rows)) for c in cuts))
    event("matches" if expected else "none")
    assert to_answers(found) == expected
    count: dict[tuple, int] = {}
    for matches in found:
        for seq, number in zip(matches.first_seq.tolist(), matches.number.tolist(), strict=True):
            key = tuple(rows[seq][name] for name in bound.partition_by)
            count[key] = count.get(key, 0) + 1
            assert number == count[key]


CUTS = st.lists(st.integers(0, 8), max_size=3)


@examples(150)
@given(cases(across=False), CUTS)
def test_finds_what_the_naive_enumeration_finds(case: tuple, cuts: list[int]) -> None:
    check(case, cuts)


@examples(100)
@given(cases(across=True), CUTS)
def test_conditions_across_rows_see_the_rows_mapped_before(case: tuple, cuts: list[int]) -> None:
    check(case, cuts)


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
    assert to_answers(find(bound, to_table(rows))) == [Answer((0, n - 2, n - 1), (0, 1, 2))]


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
        assert to_answers(find(bound, to_table(rows), cuts)) == [Answer((0, 1), (0, 3))]


@examples(50)
@given(cases(across=True), st.integers(1, 3))
def test_limits_cut_the_same_answer(case: tuple, limit: int) -> None:
    bound, rows = case
    program = compile_program(bound)
    matcher = new_matcher(program)
    matcher.push(program.prepare(to_table(rows)), 0)
    taken = [matcher.take(limit)]
    matcher.finish()
    while len(part := matcher.take(limit)):
        assert len(part) <= limit
        taken.append(part)
    assert to_answers(taken) == every_match(bound, rows)


@examples(50)
@given(cases(across=True), CUTS, st.integers(1, 3))
def test_a_restored_matcher_goes_on_where_the_snapshot_was_taken(
    case: tuple, cuts: list[int], limit: int
) -> None:
    bound, rows = case
    program, table = compile_program(bound), to_table(rows)
    matcher = new_matcher(program)
    taken = []
    for low, high in pairwise([0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]):
        matcher.push(program.prepare(table.slice(low, high - low)), low)
        taken.append(matcher.take(limit))
        before, matcher = matcher, new_matcher(program)
        matcher.take_over(unpack(pack(before.state())))
    matcher.finish()
    taken.append(matcher.take(limit))
    before, matcher = matcher, new_matcher(program)
    matcher.take_over(unpack(pack(before.state())))
    taken.append(matcher.take())
    assert to_answers(taken) == every_match(bound, rows)


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
        assert [answer.rows for answer in to_answers(find(bound, table, cuts))] == [(0, 1), (2, 3)]


def test_a_state_of_another_query_is_refused() -> None:
    one, other = (asked(A, [Rule(letter)], ANY) for letter in "ab")
    state = new_matcher(compile_program(one)).state()
    with pytest.raises(ValueError, match="another query"):
        new_matcher(compile_program(other)).take_over(state)
