"""Folding against the naive oracle: for every event the simpler call has the same value."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from replay.language import fold
from replay.language.bound import Attribute, Call, DataType, Literal
from tests.oracles.scalar import evaluate
from tests.unit.expressions.random_expressions import (
    DOUBLES,
    INTEGERS,
    NAMES,
    ROWS,
    bits,
    expressions,
    folded,
    naively,
)

T = DataType
DAY = Attribute("DATE_0", T.DATE)
WHOLE = Attribute("INTEGER_0", T.INTEGER)


@settings(deadline=None, max_examples=400)
@given(
    data=st.data(),
    row=ROWS,
    of=st.sampled_from(list(NAMES)),
    known=st.sampled_from([[], ["_0"], ["_0", "_1"]]),
)
def test_folded_expression_has_the_value_of_the_original(data, row, of, known):
    expression = data.draw(expressions(of))
    constants = {name: row[name] for name in row if name[-2:] in known}
    simple = folded(expression, constants)
    assert simple.type is expression.type
    assert isinstance(simple, Literal) or len(constants) < len(row)
    assert bits(naively(simple, row)) == bits(naively(expression, row))


@given(
    st.sampled_from(sorted(fold.NEGATED)),
    DOUBLES,
    st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 0, 1, 2]) | INTEGERS,
)
@example("<", 2.0**53 - 1, 2**53)
@example("=", 2.5, 2)
def test_comparison_through_a_cast_keeps_its_value(op, constant, value):
    cast = Call("cast", (WHOLE,), T.DOUBLE)
    literal = Literal(constant, T.DOUBLE)
    expected = evaluate(Call(op, (cast, literal), T.BOOLEAN), lambda _: value)
    assert evaluate(fold.comparison(op, cast, literal), lambda _: value) is expected


def test_comparison_of_a_whole_attribute_with_a_double_is_one_on_the_attribute():
    cast = Call("cast", (WHOLE,), T.DOUBLE)
    for op, constant, simple in [
        (">", 5.5, Call(">=", (WHOLE, Literal(6, T.INTEGER)), T.BOOLEAN)),
        ("<", 5.5, Call("<=", (WHOLE, Literal(5, T.INTEGER)), T.BOOLEAN)),
        (">=", 5.0, Call(">=", (WHOLE, Literal(5, T.INTEGER)), T.BOOLEAN)),
        ("=", -5.0, Call("=", (WHOLE, Literal(-5, T.INTEGER)), T.BOOLEAN)),
    ]:
        assert fold.comparison(op, cast, Literal(constant, T.DOUBLE)) == simple


def test_comparison_of_a_date_with_a_timestamp_is_one_of_days():
    cast = Call("cast", (DAY,), T.TIMESTAMP)
    noon_of_day_2 = Literal(2 * 86_400_000_000 + 43_200_000_000, T.TIMESTAMP)
    expected = Call(">=", (DAY, Literal(3, T.DATE)), T.BOOLEAN)
    assert fold.comparison(">", cast, noon_of_day_2) == expected


def test_constant_goes_to_the_right_of_a_comparison():
    five = Literal(5, T.INTEGER)
    assert fold.comparison("<", five, WHOLE) == Call(">", (WHOLE, five), T.BOOLEAN)
