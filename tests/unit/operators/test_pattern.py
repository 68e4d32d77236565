"""Patterns compile to programs whose prefilter never refuses a match."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import replay
from replay.language.bound import Alternate, Concat, Repeat, Symbol
from replay.operators.pattern import compile_pattern, describe, fixed_sequence

ROOT = Path(replay.__file__).parent.parent
KERNELS = sorted((ROOT / "replay" / "operators").rglob("kernels.py"))

A, B, C = Symbol(0), Symbol(1), Symbol(2)


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: str(path.parent.name))
def test_kernels_are_renewed_when_kernels_they_compile_in_change(path: Path) -> None:
    text = path.read_text()
    for module in re.findall(r"^from (replay\.\S+\.kernels) import", text, re.MULTILINE):
        folder = module.split(".")[-2]
        source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_bytes()
        digest = hashlib.sha256(source).hexdigest()
        assert f'{folder.upper()}_DIGEST = "{digest}"' in text, (
            f"{module} changed: write its SHA-256 ({digest}) into {folder.upper()}_DIGEST of "
            f"{path.relative_to(ROOT)}, or Numba's disk cache keeps running the old code"
        )


def test_fixed_sequence_unfolds_groups_and_exact_counts() -> None:
    assert fixed_sequence(Concat((A, Repeat(Concat((B, C)), 2, 2)))) == [0, 1, 2, 1, 2]
    assert fixed_sequence(Concat((A, Repeat(B, 0, None)))) is None
    assert fixed_sequence(Repeat(A, 65, 65)) is None


def test_prefix_holds_the_symbols_each_of_the_first_rows_may_have() -> None:
    #  A+ B C: row 0 is A; row 1 A or B; row 2 A, B or C; row 3 may lie beyond the match
    compiled = compile_pattern(Concat((Repeat(A, 1, None), B, C)))
    assert compiled.prefix.tolist() == [0b001, 0b011, 0b111]


def test_prefix_ends_where_any_row_would_do() -> None:
    gapped = Concat((A, Repeat(C, 0, None), B))
    compiled = compile_pattern(gapped, unconditional=frozenset([2]))
    assert compiled.prefix.tolist() == [0b001]


def test_pattern_that_may_be_empty_has_no_prefix() -> None:
    assert compile_pattern(Repeat(A, 0, None)).prefix.tolist() == []


def test_memo_by_row_serves_only_where_no_rows_are_bound() -> None:
    nested = Repeat(Repeat(Concat((A, B)), 1, None), 1, None)
    assert compile_pattern(nested).n_memo == compile_pattern(nested).n_points > 0
    assert compile_pattern(nested, bound=frozenset([1])).n_memo == 0


def test_pattern_is_described_as_it_would_be_written() -> None:
    pattern = Concat((A, Repeat(Alternate((B, Concat((A, C)))), 2, None, greedy=False)))
    assert describe(pattern, ("A", "B", "C")) == "A ((B | A C)){2,}?"
