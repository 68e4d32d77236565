"""What negation, timeouts, edges and exclusion mean with SEMANTICS, in cases worked out by hand."""

from __future__ import annotations

import pytest

from replay.errors import NotSupportedError, StepLimitError
from replay.language.bound import Alternate, Concat, Exclusion, Negation, Pattern, Repeat, Semantics
from replay.patterns.matcher import new_matcher
from replay.patterns.program import compile_program
from replay.patterns.strategies import searches
from tests.unit.patterns.bound_queries import to_table
from tests.unit.patterns.strategies.test_strategy_matcher import (
    ANY,
    CONTIGUOUS,
    NEXT,
    A,
    B,
    C,
    Rule,
    asked,
    find,
    letters,
    plus,
    star,
    to_answers,
)

NOT_C = Negation(2)


def timed_out(pattern: Pattern, text: str, semantics: Semantics, within: int) -> list[str]:
    rules = [Rule(s) for s in "abc"]
    bound = asked(pattern, rules, semantics, within=within, with_timeouts=True)
    found = to_answers(find(bound, to_table(letters(text))))
    words = ["".join(f"{text[r]}{r + 1}" for r in answer.rows) for answer in found]
    return [w + "?" * a.timed_out for w, a in zip(words, found, strict=True)]


def test_a_run_that_is_a_match_does_not_time_out() -> None:
    assert timed_out(Concat((A, plus(B))), "abdddd", NEXT, 2) == ["a1b2"]
    assert timed_out(Concat((A, plus(B))), "abdddd", ANY, 2) == ["a1?", "a1b2"]


def test_rows_within_exclusion_are_marked() -> None:
    bound = asked(Concat((A, Exclusion(B), C)), [Rule(s) for s in "abc"], ANY)
    found = find(bound, to_table(letters("abc")))
    assert [part.rows.excluded.tolist() for part in found if len(part)] == [[False, True, False]]


def test_the_preferred_derivation_tells_what_is_excluded() -> None:
    # a b by the first branch; a b c by the second, though b alone would be the first
    pattern = Concat((A, Alternate((Exclusion(B), Concat((B, C)), B))))
    bound = asked(pattern, [Rule(s) for s in "abc"], ANY)
    rows = find(bound, to_table(letters("abc")))[0].rows
    assert rows.offsets.tolist() == [0, 2, 5]
    assert rows.excluded.tolist() == [False, True, False, False, False]


def test_exponentially_many_matches_come_a_few_at_a_time() -> None:
    program = compile_program(asked(plus(A), [Rule("a")], ANY))
    matcher = new_matcher(program)
    matcher.push(program.prepare(to_table(letters("a" * 60))), 0)
    five = [answer.rows for answer in to_answers([matcher.take(5)])]
    assert five == [(0,), (0, 1), (0, 1, 2), (0, 2), (0, 1, 2, 3)]
    next_one = to_answers([matcher.take(1)])[0]
    assert next_one.rows == (0, 1, 3)
    assert len(next(matcher.batches())) > 0
    assert matcher.n_kept == 60


def test_a_match_is_out_before_the_stream_ends() -> None:
    program = compile_program(asked(Concat((A, B)), [Rule("a"), Rule("b")], NEXT))
    matcher = new_matcher(program)
    matcher.push(program.prepare(to_table(letters("ab"))), 0)
    assert [answer.rows for answer in to_answers([matcher.take()])] == [(0, 1)]
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
