"""Matches are counted without being built, exactly, and as many as enumeration finds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import comb

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replay.language.bound import BoundPatternQuery, Concat, Semantics
from replay.patterns.program import compile_program
from replay.patterns.strategies.count import MatchCounter
from tests.compiled import only_compiled
from tests.unit.patterns.bound_queries import to_table
from tests.unit.patterns.strategies.test_strategy_matcher import (
    ANY,
    COGRA,
    CONTIGUOUS,
    CUTS,
    NEXT,
    START,
    A,
    B,
    C,
    Rule,
    asked,
    cases,
    every_match,
    examples,
    letters,
    plus,
)

WRAPS = only_compiled("NumPy warns where compiled integers wrap")


def count(bound: BoundPatternQuery, rows: list[dict], cuts: tuple[int, ...] = ()) -> int:
    program, table = compile_program(bound), to_table(rows)
    counter = MatchCounter(program)
    for low, high in pairwise([0, *sorted(cuts), len(rows)]):
        counter.push(program.prepare(table.slice(low, high - low)), low)
    counter.finish()
    return counter.count


@pytest.mark.parametrize(("semantics", "expected"), [(ANY, 43), (NEXT, 8), (CONTIGUOUS, 2)])
def test_cogra_figure_2_is_counted(semantics: Semantics, expected: int) -> None:
    rules = [Rule("a"), Rule("b")]
    assert count(asked(COGRA, rules, semantics), letters("abaacbab")) == expected
    assert count(asked(COGRA, rules, semantics, within=100), letters("abaacbab")) == expected


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


def test_fixed_length_sequences_are_binomial() -> None:
    bound = asked(Concat((A, B, C)), [Rule("a")] * 3, ANY)
    assert count(bound, letters("a" * 60)) == comb(60, 3)


@examples(150)
@given(cases(across=False), CUTS)
def test_counts_as_many_as_the_naive_enumeration_finds(case: tuple, cuts: list[int]) -> None:
    bound, rows = case
    bound = replace(bound, with_timeouts=False)
    assume(compile_program(bound).is_countable)
    found = count(bound, rows, tuple(min(c, len(rows)) for c in cuts))
    assert found == len(every_match(bound, rows))


@examples(30)
@given(cases(across=False), st.integers(0, 8))
def test_no_run_goes_on_in_the_next_stretch(case: tuple, cut: int) -> None:
    bound, rows = case
    bound = replace(bound, with_timeouts=False)
    program, table = compile_program(bound), to_table(rows)
    assume(program.is_countable)
    assume(not program.partition_edges)
    counter = MatchCounter(program)
    for low, high in pairwise([0, min(cut, len(rows)), len(rows)]):
        counter.push(program.prepare(table.slice(low, high - low)), low)
        counter.finish()
    parts = rows[:cut], rows[cut:]
    assert counter.count == sum(len(every_match(bound, part)) for part in parts)


@WRAPS
def test_rows_that_no_match_can_begin_with_are_not_kept() -> None:
    program = compile_program(asked(plus(A), [Rule("a")], ANY))
    counter = MatchCounter(program)
    counter.push(program.prepare(to_table(letters("a" * 50))), 0)
    counter.push(program.prepare(to_table(letters("a" * 50))), 50)
    assert counter.n_kept == 0
    assert counter.count == 2**100 - 1


def test_what_cannot_be_counted_is_said() -> None:
    across = asked(A, [Rule("a", ("<", "first", 0))], ANY)
    late = asked(A, [Rule("a")], ANY, within=3, with_timeouts=True)
    fine = asked(Concat((START, A)), [Rule("a")], ANY)
    countable = [compile_program(bound).is_countable for bound in (across, late, fine)]
    assert countable == [False, False, True]
