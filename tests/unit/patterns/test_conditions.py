"""Arithmetic between rows: exact in int64, or NULL."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.language.bound import Call, DataType, Literal
from replay.patterns.conditions.kernels import double_arithmetic, integer_arithmetic
from tests.oracles.scalar import evaluate as evaluate_naively

OPERATORS = ["+", "-", "*", "/", "%"]
EDGES = [-(2**63), -(2**63) + 1, -(2**32), -3, -2, -1, 0, 1, 2, 3, 2**32, 2**62, 2**63 - 1]
INTEGERS = st.one_of(st.sampled_from(EDGES), st.integers(-(2**63), 2**63 - 1))
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
