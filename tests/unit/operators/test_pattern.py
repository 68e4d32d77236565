"""Patterns compile to programs whose prefilter never refuses a match."""

from __future__ import annotations

import hashlib
from pathlib import Path

from replay.language.bound import Alternate, Concat, Repeat, Symbol
from replay.operators import kernels
from replay.operators.conditions import kernels as conditions
from replay.operators.pattern import compile_pattern, describe, fixed_sequence

A, B, C = Symbol(0), Symbol(1), Symbol(2)


def test_kernels_are_renewed_when_the_conditions_they_compile_in_change() -> None:
    source = Path(str(conditions.__file__)).read_bytes()
    assert hashlib.sha256(source).hexdigest() == kernels.CONDITIONS_DIGEST, (
        "conditions/kernels.py changed: write its SHA-256 into CONDITIONS_DIGEST of "
        "replay/operators/kernels.py, or Numba's disk cache keeps running the old code"
    )


def test_fixed_sequence_unfolds_groups_and_exact_counts() -> None:
    assert fixed_sequence(Concat((A, Repeat(Concat((B, C)), 2, 2)))) == [0, 1, 2, 1, 2]
    assert fixed_sequence(Concat((A, Repeat(B, 0, None)))) is None
    assert fixed_sequence(Repeat(A, 65, 65)) is None


def test_prefix_holds_the_symbols_each_of_the_first_rows_may_have() -> None:
    #  A+ B C: row 0 is A; row 1 A or B; row 2 A, B or C; row 3 may lie beyond the match
    compiled = compile_pattern(Concat((Repeat(A, 1, None), B, C)), n_symbols=3)
    assert compiled.prefix.tolist() == [0b001, 0b011, 0b111]


def test_prefix_ends_where_any_row_would_do() -> None:
    gapped = Concat((A, Repeat(C, 0, None), B))
    compiled = compile_pattern(gapped, n_symbols=3, unconditional=frozenset([2]))
    assert compiled.prefix.tolist() == [0b001]


def test_pattern_that_may_be_empty_has_no_prefix() -> None:
    assert compile_pattern(Repeat(A, 0, None), n_symbols=1).prefix.tolist() == []


def test_conditions_across_rows_forbid_the_memo() -> None:
    nested = Repeat(Repeat(Concat((A, B)), 1, None), 1, None)
    assert compile_pattern(nested, n_symbols=2).n_memo > 0
    assert compile_pattern(nested, n_symbols=2, conditioned=frozenset([1])).n_memo == 0


def test_pattern_is_described_as_it_would_be_written() -> None:
    pattern = Concat((A, Repeat(Alternate((B, Concat((A, C)))), 2, None, greedy=False)))
    assert describe(pattern, ("A", "B", "C")) == "A ((B | A C)){2,}?"
