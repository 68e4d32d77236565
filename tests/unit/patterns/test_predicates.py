"""Predicates become bits as single evaluation has them; arithmetic is exact in int64, or NULL."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.expressions.columns import Columns
from replay.expressions.scalars import Faults
from replay.language.bound import Attribute, Call, DataType, Literal
from replay.patterns.conditions.kernels import double_arithmetic, integer_arithmetic
from replay.patterns.predicates import plan_masks
from tests.oracles.scalar import evaluate as evaluate_naively

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
