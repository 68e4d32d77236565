"""Folding against the naive oracle: for every event the simpler call has the same value."""

from __future__ import annotations

import math
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replay.language import fold
from replay.language.bound import Attribute, Call, DataType, Literal, walk
from tests.oracles.scalar import evaluate

T = DataType
INT64 = (-(2**63), 2**63 - 1)
INTEGERS = st.sampled_from([0, 1, -1, 2, 7, *INT64, 2**53, 2**53 + 1]) | st.integers(*INT64)
DOUBLES = (
    st.sampled_from([0.0, -0.0, 0.5, -2.5, 3.0, 1e308, 2.0**53, math.inf, -math.inf, math.nan])
    | st.floats()
)
DAYS = st.integers(-100_000, 100_000)
VALUES = {
    T.INTEGER: INTEGERS,
    T.DOUBLE: DOUBLES,
    T.BOOLEAN: st.booleans(),
    T.STRING: st.text("ab%_!", max_size=3),
    T.DATE: DAYS,
    T.TIMESTAMP: DAYS.map(lambda days: days * 43_200_000_000) | INTEGERS,
    T.INTERVAL: INTEGERS,
}


@cache
def literals(data_type):
    return (st.none() | VALUES[data_type]).map(lambda value: Literal(value, data_type))


@cache
def leaves(data_type):
    names = st.sampled_from([f"{data_type.name}_{i}" for i in range(2)])
    return literals(data_type) | names.map(lambda name: Attribute(name, data_type))


def build(op, data_type, *arguments):
    return st.tuples(*arguments).map(lambda args: Call(op, args, data_type))


@st.composite
def cases(draw, of, data_type):
    pairs = draw(st.lists(st.tuples(of(T.BOOLEAN), of(data_type)), min_size=1, max_size=2))
    return Call(
        "case", (*(part for pair in pairs for part in pair), draw(of(data_type))), data_type
    )


@cache
def calls(of, data_type):
    """Calls of every operator that gives a type, over arguments from ``of(type)``."""
    if data_type is T.BOOLEAN:
        return booleans(of)
    options = [cases(of, data_type), build("nullif", data_type, of(data_type), of(data_type))]
    options.append(build("coalesce", data_type, of(data_type), of(data_type), of(data_type)))
    if data_type in (T.INTEGER, T.DOUBLE):
        options += [build(op, data_type, of(data_type), of(data_type)) for op in "+-*/%"]
        options += [
            build(op, data_type, of(data_type)) for op in ("neg", "abs", "floor", "ceil", "round")
        ]
        digits = st.integers(-3, 3).map(lambda n: Literal(n, T.INTEGER))
        options.append(build("round", data_type, of(data_type), digits))
    if data_type is T.INTEGER:
        options += [build("cast", T.INTEGER, of(T.DOUBLE)), build("cast", T.INTEGER, of(T.BOOLEAN))]
        options += [
            build("length", T.INTEGER, of(T.STRING)),
            build("-", T.INTEGER, *2 * [of(T.DATE)]),
        ]
    if data_type is T.DOUBLE:
        options += [
            build("cast", T.DOUBLE, of(T.INTEGER)),
            build("power", T.DOUBLE, *2 * [of(T.DOUBLE)]),
        ]
        options += [build(op, T.DOUBLE, of(T.DOUBLE)) for op in ("sqrt", "ln", "exp")]
    if data_type is T.STRING:
        options += [build(op, T.STRING, of(T.STRING)) for op in ("lower", "upper")]
        options += [build("cast", T.STRING, of(T.INTEGER)), build("cast", T.STRING, of(T.BOOLEAN))]
    if data_type is T.TIMESTAMP:
        options += [build(op, data_type, of(T.TIMESTAMP), of(T.INTERVAL)) for op in "+-"]
        options.append(build("cast", data_type, of(T.DATE)))
    if data_type is T.DATE:
        options = [build("coalesce", T.DATE, of(T.DATE), of(T.DATE))]
    if data_type is T.INTERVAL:
        options += [
            build("-", data_type, *2 * [of(T.TIMESTAMP)]),
            build("neg", data_type, of(T.INTERVAL)),
        ]
        options.append(build("*", data_type, of(T.INTERVAL), of(T.INTEGER)))
    return st.one_of(options)


@cache
def booleans(of):
    patterns = st.text("ab%_", max_size=3).map(lambda text: Literal(text, T.STRING))
    escaped = st.sampled_from(["a!%", "!_b%", "%!!"]).map(lambda text: Literal(text, T.STRING))
    options = [build("not", T.BOOLEAN, of(T.BOOLEAN))]
    for op in ("and", "or"):
        options.append(build(op, T.BOOLEAN, *2 * [of(T.BOOLEAN)]))
        options.append(build(op, T.BOOLEAN, *3 * [of(T.BOOLEAN)]))
    for data_type in VALUES:
        options += [build(op, T.BOOLEAN, *2 * [of(data_type)]) for op in fold.NEGATED]
        options.append(build("is_null", T.BOOLEAN, of(data_type)))
        options.append(build("in", T.BOOLEAN, of(data_type), *2 * [literals(data_type)]))
        options.append(build("in", T.BOOLEAN, of(data_type), literals(data_type)))
    options.append(build("like", T.BOOLEAN, of(T.STRING), patterns))
    options.append(build("like", T.BOOLEAN, of(T.STRING), escaped, st.just(Literal("!", T.STRING))))
    return st.one_of(options)


@cache
def shallow(data_type):
    return leaves(data_type) | calls(leaves, data_type)


EXPRESSIONS = st.sampled_from(list(VALUES)).flatmap(
    lambda data_type: st.one_of(calls(leaves, data_type), calls(shallow, data_type))
)
EVENTS = st.fixed_dictionaries(
    {
        f"{data_type.name}_{i}": st.none() | VALUES[data_type]
        for data_type in VALUES
        for i in range(2)
    }
)

DAY = Attribute("DATE_0", T.DATE)
WHOLE = Attribute("INTEGER_0", T.INTEGER)


def folded(expression):
    if not isinstance(expression, Call):
        return expression
    return fold.call(expression.op, [folded(part) for part in expression.args], expression.type)


def same(left, right):
    if isinstance(left, float) and isinstance(right, float):
        return repr(left) == repr(right)
    return type(left) is type(right) and left == right


@given(EXPRESSIONS, EVENTS)
def test_folded_expression_has_the_value_of_the_original(expression, event):
    simple = folded(expression)
    assert simple.type is expression.type
    expected = evaluate(expression, lambda attribute: event[attribute.name])
    assert same(evaluate(simple, lambda attribute: event[attribute.name]), expected)


@given(EXPRESSIONS)
def test_expression_without_attributes_folds_to_a_constant(expression):
    if not any(isinstance(part, Attribute) for part in walk(expression)):
        assert isinstance(folded(expression), Literal)


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


@pytest.mark.parametrize(
    ("op", "values", "data_type", "expected"),
    [
        ("+", [2**63 - 1, 1], T.INTEGER, None),
        ("neg", [-(2**63)], T.INTEGER, None),
        ("/", [-7, 2], T.INTEGER, -3),
        ("%", [-7, 2], T.INTEGER, -1),
        ("/", [-(2**63), -1], T.INTEGER, None),
        ("/", [1, 0], T.INTEGER, None),
        ("/", [1.0, 0.0], T.DOUBLE, None),
        ("*", [1e308, 10.0], T.DOUBLE, math.inf),
        ("sqrt", [-1.0], T.DOUBLE, None),
        ("ln", [0.0], T.DOUBLE, None),
        ("power", [0.0, -1.0], T.DOUBLE, None),
        ("power", [-8.0, 1 / 3], T.DOUBLE, None),
        ("power", [-10.0, 999.0], T.DOUBLE, -math.inf),
        ("exp", [1000.0], T.DOUBLE, math.inf),
        ("round", [2.5], T.DOUBLE, 3.0),
        ("round", [-2.5], T.DOUBLE, -3.0),
        ("round", [0.49999999999999994], T.DOUBLE, 0.0),
        ("round", [15, -1], T.INTEGER, 20),
        ("length", ["éa"], T.INTEGER, 2),
        ("upper", ["straße"], T.STRING, "STRAẞE"),
        ("like", ["50%", "50!%", "!"], T.BOOLEAN, True),
        ("like", ["a\nb", "a_b"], T.BOOLEAN, True),
    ],
)
def test_constants_are_computed(op, values, data_type, expected):
    kinds = {int: T.INTEGER, float: T.DOUBLE, str: T.STRING}
    args = [Literal(value, kinds[type(value)]) for value in values]
    assert fold.call(op, args, data_type) == Literal(expected, data_type)


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (2.5, T.DOUBLE, T.INTEGER, 3),
        (-2.5, T.DOUBLE, T.INTEGER, -3),
        (math.nan, T.DOUBLE, T.INTEGER, None),
        (2.0**63, T.DOUBLE, T.INTEGER, None),
        (True, T.BOOLEAN, T.INTEGER, 1),
        (True, T.BOOLEAN, T.STRING, "true"),
        (-12, T.INTEGER, T.STRING, "-12"),
        (1, T.DATE, T.TIMESTAMP, 86_400_000_000),
        (-1, T.TIMESTAMP, T.DATE, -1),
    ],
)
def test_constants_are_cast(value, source, target, expected):
    assert fold.call("cast", [Literal(value, source)], target) == Literal(expected, target)
