"""Patterns compile to programs whose prefilter never refuses a match.

Predicates become bits as single evaluation has them; arithmetic is exact in int64, or NULL.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.types import Array, BaseTuple, Type

import replay
from chronicle.compiled import Kernel
from replay.expressions.columns import Columns
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Alternate,
    Attribute,
    Call,
    Concat,
    DataType,
    Edge,
    EdgeKind,
    Exclusion,
    Literal,
    Negation,
    Pattern,
    Repeat,
    Symbol,
)
from replay.patterns import backtracking_kernels as kernels
from replay.patterns.conditions.kernels import double_arithmetic, integer_arithmetic
from replay.patterns.pattern import compile_pattern, describe, rows_most
from replay.patterns.predicates import plan_masks
from replay.patterns.run_end_kernels import FOLLOW, MEMO
from tests.helpers import only_compiled
from tests.oracles.scalar import evaluate as evaluate_naively

ROOT = Path(replay.__file__).parent.parent
KERNELS = sorted((ROOT / "replay").rglob("*kernels.py"))

A, B, C, Z = Symbol(0), Symbol(1), Symbol(2), Symbol(3)


def test_fixed_sequence_unfolds_groups_and_exact_counts() -> None:
    assert compile_pattern(Concat((A, Repeat(Concat((B, C)), 2, 2)))).fixed == (0, 1, 2, 1, 2)
    assert compile_pattern(Repeat(A, 64, 64)).fixed == (0,) * 64
    for other in (Repeat(B, 0, None), Repeat(A, 65, 65), Exclusion(A), Alternate((A, B))):
        assert compile_pattern(other).fixed is None


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


@pytest.mark.parametrize(
    ("pattern", "required"),
    [
        #  A Z* B Z* C, Z any row: an A, a B and a C in this order
        (Concat((A, Repeat(Z, 0, None), B, Repeat(Z, 0, None), C)), [0b001, 0b010, 0b100]),
        #  A{2,} B?: two A
        (Concat((Repeat(A, 2, None), Repeat(B, 0, 1))), [0b001, 0b001]),
        #  (A B | C): an A or a C; of a second row the right branch has none
        (Alternate((Concat((A, B)), C)), [0b101]),
        (Alternate((A, Repeat(B, 0, None))), []),
        (Alternate((A, Z)), []),
        (Concat((Exclusion(A), Edge(EdgeKind.END))), [0b001]),
        (Repeat(A, 65, None), [0b001] * 64),
    ],
    ids=str,
)
def test_required_are_the_rows_every_match_has_in_their_order(
    pattern: Pattern, required: list[int]
) -> None:
    assert compile_pattern(pattern, unconditional=frozenset([3])).required.tolist() == required


def test_memo_by_row_serves_only_where_no_rows_are_bound() -> None:
    nested = Repeat(Repeat(Concat((A, B)), 1, None), 1, None)
    for bound, field in ((frozenset[int](), MEMO), (frozenset([1]), kernels.KEY)):
        compiled = compile_pattern(nested, bound=bound)
        points = {MEMO: 0, kernels.KEY: 0}
        points[field] = compiled.n_points
        assert compiled.n_points > 0
        assert {at: int((compiled.code[:, at] >= 0).sum()) for at in points} == points


def test_run_knows_the_symbols_that_must_follow() -> None:
    #  A C* B B{2} (A | C): the run of C ends before three Bs, a byte of symbol plus 1 each
    pattern = Concat((A, Repeat(C, 0, None), B, Repeat(B, 2, 2), Alternate((A, C))))
    for bound, known in ((frozenset[int](), 0x020202), (frozenset([0]), 0x02)):
        code = compile_pattern(pattern, bound=bound).code
        assert code[code[:, 0] == kernels.RUN][:, FOLLOW].tolist() == [known]
    open_end = compile_pattern(Concat((A, Repeat(C, 0, None)))).code
    assert open_end[1, [0, FOLLOW]].tolist() == [kernels.RUN, 0]


def test_run_that_a_start_comes_to_once_remembers_nothing_under_a_window() -> None:
    gap = Repeat(C, 0, None)
    for pattern, remembers in (
        (Concat((A, gap, B, gap, B)), [False, True]),
        (Concat((Repeat(A, 0, 1), gap, B)), [False, True]),  # A? is a RUN, the gap has two ways in
        (Repeat(Concat((A, gap)), 0, None), [True]),
    ):
        for bounded in (False, True):
            code = compile_pattern(pattern, bounded=bounded).code
            runs = code[code[:, 0] == kernels.RUN]
            expected = remembers if bounded else [True] * len(remembers)
            assert (runs[:, MEMO] >= 0).tolist() == expected


def test_pattern_is_described_as_it_would_be_written() -> None:
    pattern = Concat((A, Repeat(Alternate((B, Concat((A, C)))), 2, None, greedy=False)))
    assert describe(pattern, ("A", "B", "C")) == "A ((B | A C)){2,}?"


@only_compiled("references are counted only where something is compiled")
def test_what_counts_no_references_returns_nothing_that_is_counted() -> None:
    """Its caller would give back a reference that was never taken."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in KERNELS]
    found = [value for name in names for value in vars(importlib.import_module(name)).values()]
    uncounted = [
        k for k in found if isinstance(k, Kernel) and k.entry.targetoptions.get("_nrt") is False
    ]
    replay.query(
        {"s": pa.table({"t": [1, 2, 3], "x": [1.0, 3.0, 2.0]})},
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a PATTERN (A Z* B C*) "
        "DEFINE A AS x < 2, B AS x > A.x, C AS x > SUM(B.x))",
    )
    own = [overload for k in uncounted for overload in compiled_of(k)]
    assert own
    for overload in own:
        returned = flat(overload.signature.return_type)
        assert not any(isinstance(part, Array) for part in returned), overload.signature


def compiled_of(kernel: Kernel) -> list[Any]:
    """Return what was compiled of a kernel, for Python and for compiled callers."""
    return [own for made in (kernel.entry, kernel.inner) for own in made.overloads.values()]


def flat(of: Type) -> list[Type]:
    """Return a type and those it is a tuple of."""
    parts = list(of) if isinstance(of, BaseTuple) else []
    return [of, *(inner for part in parts for inner in flat(part))]


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        (Concat((Symbol(0), Repeat(Symbol(1), 0, None), Symbol(0))), (2.0, math.inf)),
        (Alternate((Symbol(0), Concat((Symbol(1), Symbol(1))))), (1.0, 2.0)),
        (Repeat(Concat((Symbol(0), Repeat(Symbol(1), 0, 1))), 2, 3), (3.0, 3.0)),
        (Concat((Exclusion(Symbol(0)), Negation(1))), (1.0, 0.0)),
    ],
)
def test_most_rows_of_a_symbol_are_counted_over_repetitions(pattern, most):
    assert (rows_most(pattern, 0), rows_most(pattern, 1)) == most


BOOL, INT, DOUBLE, STRING = DataType.BOOLEAN, DataType.INTEGER, DataType.DOUBLE, DataType.STRING
COMPARISONS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
EDGES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.0, 1.7976931348623157e308]
WHOLE = st.sampled_from([-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1])


@st.composite
def comparisons(draw: st.DrawFn) -> Call:
    of = draw(st.sampled_from([INT, DOUBLE, STRING]))
    values = {INT: WHOLE, DOUBLE: st.sampled_from(EDGES), STRING: st.sampled_from(["a", "b"])}[of]
    sides = [
        Attribute({INT: "i", DOUBLE: "d", STRING: "s"}[of], of),
        Literal(draw(st.one_of(values, values, st.none())), of),
    ]
    return Call(draw(COMPARISONS), tuple(sides if draw(st.booleans()) else sides[::-1]), BOOL)


@settings(deadline=None)
@given(
    conditions=st.lists(st.tuples(st.integers(0, 63), comparisons()), max_size=8),
    events=st.lists(
        st.fixed_dictionaries(
            {
                "i": st.one_of(st.none(), WHOLE),
                "d": st.one_of(st.none(), st.sampled_from(EDGES)),
                "s": st.sampled_from([None, "a", "b", "c"]),
            }
        ),
        max_size=6,
    ),
)
def test_bit_is_set_where_all_conditions_of_the_symbol_are_true(conditions, events) -> None:
    schema = pa.schema([("i", pa.int64()), ("d", pa.float64()), ("s", pa.string())])
    table = pa.Table.from_pylist(events, schema=schema)
    words = plan_masks(conditions, 64).words(Columns(table), Faults())
    for event, word in zip(events, words.tolist(), strict=True):
        for symbol in range(64):
            holds = all(
                evaluate_naively(condition, lambda a, event=event: event[a.name]) is True
                for owner, condition in conditions
                if owner == symbol
            )
            assert (word >> symbol & 1 == 1) is holds


def test_ranges_of_one_attribute_and_equal_conditions_are_evaluated_once() -> None:
    x = Attribute("d", DOUBLE)
    low, high = (Call(op, (x, Literal(v, DOUBLE)), BOOL) for op, v in ((">=", 0.0), ("<", 1.0)))
    unequal = Call("<>", (x, Literal(0.5, DOUBLE)), BOOL)
    plan = plan_masks([(0, low), (0, high), (1, low), (1, high), (0, unequal), (1, unequal)], 2)
    assert len(plan.ranges) == 1
    assert plan.ranges[0].bits.tolist() == [3]
    assert [bits for _, bits in plan.others] == [np.uint64(3)]


OPERATORS = ["+", "-", "*", "/", "%"]
WHOLE_EDGES = [-(2**63), -(2**63) + 1, -(2**32), -3, -2, -1, 0, 1, 2, 3, 2**32, 2**62, 2**63 - 1]
INTEGERS = st.one_of(st.sampled_from(WHOLE_EDGES), st.integers(-(2**63), 2**63 - 1))
DOUBLES = st.one_of(st.sampled_from([0.0, -0.0, math.inf, math.nan]), st.floats())


def naively(op: str, a: float, b: float, of: DataType) -> float | None:
    value = evaluate_naively(Call(op, (Literal(a, of), Literal(b, of)), of), lambda _: None)
    assert value is None or isinstance(value, int | float)
    return value


@given(op=st.sampled_from(OPERATORS), a=INTEGERS, b=INTEGERS)
def test_any_integers(op: str, a: int, b: int) -> None:
    value, exists = integer_arithmetic(OPERATORS.index(op), np.int64(a), np.int64(b))
    assert (int(value) if exists else None) == naively(op, a, b, DataType.INTEGER)


@given(op=st.sampled_from(OPERATORS), a=DOUBLES, b=DOUBLES)
def test_any_doubles(op: str, a: float, b: float) -> None:
    with np.errstate(all="ignore"):
        value, exists = double_arithmetic(OPERATORS.index(op), a, b)
    wanted = naively(op, a, b, DataType.DOUBLE)
    assert bool(exists) == (wanted is not None)
    if wanted is not None:
        assert value == wanted or (math.isnan(value) and math.isnan(wanted))
