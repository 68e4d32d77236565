"""Ranges of ``delta(x)``: whenever a comparison with the event before is TRUE, the key lies inside.

Method: ranges by hand for each form; then the law, over values at every end of their types. The
key is what the event store derives, the truth of a condition what the naive evaluator says.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from chronicle.tree.derived_attributes import extend, open_key
from replay.expressions.ranges import implied_ranges
from replay.language.bound import (
    Attribute,
    Call,
    DataType,
    Expression,
    Literal,
    Symbol,
)
from replay.patterns.symbol_ranges import usable_deltas
from tests.oracles.scalar import evaluate
from tests.unit.expressions.bound_conditions import condition_in
from tests.unit.planning.streams import (
    SmallStatistics,
    both,
    is_in,
    last_of,
    negated,
    query_of,
)

T = DataType
MAX = 2**63 - 1
DAY = 86_400_000_000
ANY = {"x": math.inf}
ARROW = {
    T.DOUBLE: pa.float64(),
    T.INTEGER: pa.int64(),
    T.TIMESTAMP: pa.timestamp("us"),
    T.DATE: pa.date32(),
}


def now(type_: DataType = T.DOUBLE) -> Attribute:
    return Attribute("x", type_)


def prev(type_: DataType = T.DOUBLE, n: int = 1) -> Attribute:
    return Attribute("x", type_, offset=-n)


def plus(left: Expression, right: Expression, type_: DataType = T.DOUBLE) -> Call:
    return Call("+", (left, right), type_)


def minus(left: Expression, right: Expression, type_: DataType = T.DOUBLE) -> Call:
    return Call("-", (left, right), type_)


def double(value: float) -> Literal:
    return Literal(value, T.DOUBLE)


def whole(value: int) -> Literal:
    return Literal(value, T.INTEGER)


def test(op: str, left: Expression, right: Expression) -> Call:
    return Call(op, (left, right), T.BOOLEAN)


test.__test__ = False  # type: ignore[attr-defined]


X, P = now(), prev()
N, Q = now(T.INTEGER), prev(T.INTEGER)
CHANGE = minus(X, P)


def ranges_of(text: str, type_: DataType, magnitude: float) -> dict[str, str]:
    """Return the ranges that a condition on x of a type implies, as mathematics writes them."""
    condition = condition_in(pa.schema({"t": pa.int64(), "x": ARROW[type_]}), text)
    found = implied_ranges(condition, deltas={"x": magnitude})
    assert found is not None
    return {name: str(ranges) for name, ranges in found.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x > PREV(x)", "(0.0, ∞)"),
        ("PREV(x) > x", "(-∞, 0.0)"),
        ("x >= PREV(x)", "[0.0, ∞)"),
        ("x = PREV(x)", "= 0.0"),
        ("x <> PREV(x)", "(-∞, 0.0) or (0.0, ∞)"),
        ("NOT x <= PREV(x)", "(0.0, ∞)"),
        # The difference itself is exact.
        ("x - PREV(x) > 0.8", "(0.8, ∞)"),
        ("0.8 > PREV(x) - x", "(-0.8, ∞)"),
        ("abs(x - PREV(x)) > 3.0", "(-∞, -3.0) or (3.0, ∞)"),
        ("abs(x - PREV(x)) <= 3.0", "[-3.0, 3.0]"),
        # Nothing is known of how large x is: the nearest double to p + c may be p itself.
        ("x >= PREV(x) + 0.8", "[0.0, ∞)"),
        ("x <= 0.8 + PREV(x)", "(-∞, 1.6]"),
        ("x >= PREV(x) - 2.0 AND x <= PREV(x) + 1.0", "[-4.0, 2.0]"),
        ("x - PREV(x) IN (1.0, 2.0)", "= 1.0 or = 2.0"),
        ("x - PREV(x) > 5.0 OR x - PREV(x) < -5.0", "(-∞, -5.0) or (5.0, ∞)"),
    ],
)
def test_ranges_of_the_difference_of_doubles(text: str, expected: str) -> None:
    # An open key, infinity, is always within; where a range has no end it holds it anyway.
    whole = expected if expected.endswith("∞)") else f"{expected} or = inf"
    assert ranges_of(text, T.DOUBLE, math.inf) == {"delta(x)": whole}


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (T.INTEGER, "x > PREV(x)", "[1, ∞)"),
        (T.INTEGER, "x - PREV(x) > 4", "[5, ∞)"),
        (T.INTEGER, "x >= PREV(x) + 4", "[4, ∞)"),
        (T.INTEGER, "4 + x < PREV(x)", "(-∞, -5]"),
        (T.INTEGER, "PREV(x) - x = 4", "= -4"),
        (T.INTEGER, "(x - PREV(x)) + (x - PREV(x)) > 5", "[3, ∞)"),
        (T.DATE, "x - PREV(x) > 2", "[3, ∞)"),
        (T.DATE, "x > PREV(x) + INTERVAL '86400.000001' SECOND", "[2, ∞)"),
        (T.TIMESTAMP, "x - PREV(x) >= 5 SECONDS", "[5000000, ∞)"),
    ],
)
def test_ranges_of_the_difference_of_whole_numbers_are_exact(
    type_: DataType, text: str, expected: str
) -> None:
    whole = expected if expected.endswith("∞)") else f"{expected} or = {MAX}"
    assert ranges_of(text, type_, 2**63) == {"delta(x)": whole}


def test_a_sum_that_rounds_up_to_the_event_keeps_it():
    # The case: 3.2 + 0.8 is exactly 4.0, while 4.0 - 3.2 is 0.7999999999999998.
    condition = test(">=", X, plus(P, double(0.8)))
    assert 3.2 + 0.8 <= 4.0
    assert 4.0 - 3.2 < 0.8
    [kept] = implied_ranges(condition, deltas={"x": 4.0}).values()
    assert is_in(kept, 4.0 - 3.2)
    # Between 4 and 8 doubles are 2**-50 apart, a sum is off by half of that.
    low = kept.ranges[0].low
    assert 0.8 - 2**-50 < low < 0.8 - 2**-53


def test_values_known_to_be_small_make_a_rise_by_a_constant_a_narrow_range():
    condition = test(">", X, plus(P, double(1.0)))
    [narrow] = implied_ranges(condition, deltas={"x": 1000.0}).values()
    [wide] = implied_ranges(condition, deltas=ANY).values()
    assert not is_in(narrow, 0.999_999)
    assert is_in(wide, 0.999_999)


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(test(">", X, prev(n=2)), id="two-events-before"),
        pytest.param(test(">", X, Attribute("x", T.DOUBLE, offset=1)), id="the-event-after"),
        pytest.param(test(">", last_of(0, "x", T.DOUBLE), P), id="another-symbols-event"),
        pytest.param(test(">", X, Attribute("y", T.DOUBLE, offset=-1)), id="another-attribute"),
        pytest.param(test(">", plus(X, P), double(1.0)), id="sum"),
        pytest.param(test(">", X, Call("*", (double(2.0), P), T.DOUBLE)), id="product"),
        pytest.param(test(">", plus(X, X), plus(P, P)), id="sums-that-may-both-overflow"),
        pytest.param(test("<>", X, plus(P, double(1.0))), id="not-equal-to-what-is-rounded"),
        pytest.param(test(">", minus(P, P), double(1.0)), id="difference-to-itself"),
        pytest.param(test(">", X, plus(P, double(math.inf))), id="infinite-constant"),
        pytest.param(test(">", X, plus(P, double(math.nan))), id="no-number"),
    ],
)
def test_what_bounds_no_difference_gives_no_range(condition):
    assert implied_ranges(condition, deltas=ANY) == {}


def test_without_the_attribute_there_is_no_range():
    assert implied_ranges(test(">", X, P)) == {}
    assert implied_ranges(test(">", X, P), deltas={"y": math.inf}) == {}


def test_conditions_that_exclude_each_other_leave_open_events():
    # Infinity after infinity: both are TRUE, and the difference is no number.
    condition = both(test(">=", X, plus(P, double(1.0))), test("<=", X, minus(P, double(1.0))))
    assert evaluate(condition, lambda attribute: math.inf) is True
    for magnitudes in (ANY, {"x": 10.0}):
        assert is_in(implied_ranges(condition, deltas=magnitudes)["delta(x)"], math.inf)


# ---------------------------------------------------------------------------------------------
# The law.

EPSILON = math.ulp(1.0)
LARGEST = 1.7976931348623157e308
TINY = (5e-324, 2.2250738585072014e-308, 1.0, 1.0 + EPSILON)
HUGE = (2.0**53, 2.0**53 + 2, 1e308, LARGEST, math.inf)
NASTY = (0.0, -0.0, *TINY, -5e-324, -1.0, 0.8, 3.2, 4.0, *HUGE, -LARGEST, -math.inf, math.nan)
DOUBLES = st.one_of(
    st.sampled_from(NASTY),
    st.floats(),
    st.floats(-10.0, 10.0),
)
WHOLES = st.one_of(
    st.sampled_from([0, 1, -1, MAX, -MAX - 1, MAX - 1, 2**62, -(2**62), 2**53, 2**53 + 1]),
    st.integers(-3, 3),
    st.integers(-MAX - 1, MAX),
)
DAYS = st.one_of(st.integers(-3, 3), st.sampled_from([2**31 - 1, -(2**31), 106_751_991]))
VALUES = {T.DOUBLE: DOUBLES, T.INTEGER: WHOLES, T.TIMESTAMP: WHOLES, T.DATE: DAYS}
OPS = st.sampled_from(("=", "<>", "<", "<=", ">", ">="))


def nearby(value: float, steps: int) -> float:
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.copysign(math.inf, steps))
    return value


def key_of(before: object, value: object, type_: DataType) -> object:
    """Return what the event store derives for the second of two events of a file."""
    column = pa.array([before, value], pa.int64() if type_ is T.TIMESTAMP else ARROW[type_])
    if type_ is T.TIMESTAMP:
        column = column.view(ARROW[type_])
    return extend(pa.table({"x": column}), ["delta(x)"], None).column("delta(x)")[1].as_py()


def check_law(condition: Expression, before: object, value: object, type_: DataType, size: float):
    """Hold the ranges to one event and the one before it."""
    truth = evaluate(condition, lambda part: value if part.offset == 0 else before)
    found = implied_ranges(condition, deltas={"x": size})
    event(f"{truth}, {'restricted' if found else 'not restricted'}")
    if truth is True:
        assert found is not None
        keys = {"x": value, "delta(x)": key_of(before, value, type_)}
        for name, ranges in found.items():
            assert is_in(ranges, keys[name]), f"{name} {ranges}"


def size_of(draw: st.DrawFn, values: list, unknown: float) -> float:
    """Return a magnitude no value exceeds: the least, a larger one, or none known."""
    sizes = [abs(v) for v in values if v is not None and not (isinstance(v, float) and v != v)]
    least = max(sizes, default=0)
    return draw(st.sampled_from([least, least, max(least, 1000), unknown]))


@st.composite
def double_terms(draw: st.DrawFn, constants: st.SearchStrategy[float]) -> Expression:
    """Sums and differences of x, PREV(x) and constants, mostly with one operation."""
    leaf = st.one_of(st.just(X), st.just(P), constants.map(double))
    kind = draw(st.sampled_from(("leaf", "sum", "sum", "sum", "neg", "deep", "change")))
    if kind == "leaf":
        return draw(leaf)
    if kind == "neg":
        return Call("neg", (draw(leaf),), T.DOUBLE)
    if kind == "change":
        return draw(st.sampled_from((CHANGE, minus(P, X), Call("abs", (CHANGE,), T.DOUBLE))))
    op = draw(st.sampled_from("+-"))
    inner = leaf if kind == "sum" else st.one_of(leaf, double_terms(constants))
    return Call(op, (draw(inner), draw(leaf)), T.DOUBLE)


@st.composite
def double_cases(draw: st.DrawFn) -> tuple[Expression, float | None, float | None, float]:
    values = st.one_of(DOUBLES, DOUBLES, DOUBLES, st.none())
    before, value = draw(values), draw(values)
    if draw(st.integers(0, 5)) == 0 and before is not None:
        value = nearby(before, draw(st.integers(-3, 3)))
    constants = DOUBLES
    if before is not None and value is not None and math.isfinite(value - before):
        close = st.integers(-2, 2).map(lambda steps: nearby(value - before, steps))
        constants = st.one_of(close, close, close.map(lambda c: -c), DOUBLES)
    terms = double_terms(constants)
    condition: Expression = test(draw(OPS), draw(terms), draw(terms))
    if draw(st.booleans()):
        shifted = Call(draw(st.sampled_from("+-")), (P, double(draw(constants))), T.DOUBLE)
        condition = test(draw(OPS), X, shifted)
    if draw(st.booleans()):
        condition = negated(condition)
    return condition, before, value, size_of(draw, [before, value], math.inf)


ALL = math.inf


@settings(max_examples=200)
@given(case=double_cases())
@example(case=(test(">=", X, plus(P, double(0.8))), 3.2, 4.0, 4.0))
@example(case=(test(">=", X, plus(P, double(100.0))), 2.0**60, 2.0**60, ALL))
@example(case=(test("<=", X, plus(P, double(1e308))), 1.7e308, 1.7e308, ALL))
@example(case=(test(">", X, P), 5e-324, 1e-323, 1e-323))
@example(case=(test(">=", X, plus(P, double(1.0))), math.inf, math.inf, math.inf))
@example(case=(test("<=", plus(P, double(1e308)), plus(X, double(1e308))), LARGEST, 1e308, ALL))
@example(case=(test("<=", X, minus(plus(P, double(2e292)), double(1e308))), LARGEST, LARGEST, ALL))
def test_an_event_of_doubles_that_satisfies_the_condition_lies_in_the_range(case):
    condition, before, value, size = case
    check_law(condition, before, value, T.DOUBLE, size)


@st.composite
def whole_cases(draw: st.DrawFn) -> tuple[Expression, int | None, int | None, DataType, int]:
    """Conditions on integers, timestamps or days, some as doubles or as timestamps."""
    type_ = draw(st.sampled_from((T.INTEGER, T.INTEGER, T.TIMESTAMP, T.DATE)))
    values = st.one_of(VALUES[type_], VALUES[type_], VALUES[type_], st.none())
    before, value = draw(values), draw(values)
    around = 0 if before is None or value is None else value - before
    close = st.integers(-2, 2).map(lambda step: max(-MAX - 1, min(around + step, MAX)))
    constants = st.one_of(close, close.map(lambda c: min(-c, MAX)), WHOLES)
    step = T.INTEGER if type_ is T.INTEGER else T.INTERVAL
    x, p = now(type_), prev(type_)
    if type_ is T.DATE:
        x, p = (Call("cast", (term,), T.TIMESTAMP) for term in (x, p))
        constants = st.one_of(
            close.map(lambda c: max(-MAX - 1, min(c * DAY, MAX))), st.just(DAY + 1), WHOLES
        )
    result = T.INTEGER if type_ is T.INTEGER else T.TIMESTAMP
    c, op = Literal(draw(constants), step), draw(OPS)
    left, right = draw(
        st.sampled_from(
            [
                (x, p),
                (x, plus(p, c, result)),
                (minus(x, c, result), p),
                (minus(p, x, step), c),
                (minus(x, p, step), c),
                (plus(x, c, result), minus(p, c, result)),
            ]
        )
    )
    if type_ is T.DATE and draw(st.booleans()):
        c = Literal(draw(close), T.INTEGER)
        left, right = minus(now(T.DATE), prev(T.DATE), T.INTEGER), c
    if type_ is T.INTEGER and draw(st.booleans()):
        left, right = (Call("cast", (side,), T.DOUBLE) for side in (left, right))
        if draw(st.booleans()):
            right = plus(right, double(draw(st.floats(-3.0, 3.0))))
    condition: Expression = test(op, left, right)
    if draw(st.booleans()):
        condition = negated(condition)
    return condition, before, value, type_, size_of(draw, [before, value], 2**63)


AS_DOUBLES = [Call("cast", (side,), T.DOUBLE) for side in (N, Q)]


@settings(max_examples=200)
@given(case=whole_cases())
@example(case=(test(">=", *AS_DOUBLES), 2**53 + 1, 2**53, T.INTEGER, 2**53 + 1))
@example(case=(test(">", N, plus(Q, whole(MAX), T.INTEGER)), -MAX, 5, T.INTEGER, 2**63))
@example(case=(test(">", minus(N, Q, T.INTEGER), whole(MAX - 1)), -1, MAX - 1, T.INTEGER, 2**63))
def test_an_event_of_whole_numbers_that_satisfies_the_condition_lies_in_the_range(case):
    condition, before, value, type_, size = case
    check_law(condition, before, value, type_, size)


# ---------------------------------------------------------------------------------------------
# Which attributes may be used.

ROWS = [{"t": i, "k": 0, "x": float(x), "n": x} for i, x in enumerate([3, -7, 2])]


def statistics(rows=ROWS, *, declared=("delta(x)",), key=None, unknown=()) -> SmallStatistics:
    return SmallStatistics(rows, 2, derived=declared, key=key, unknown_blocks=unknown)


def rises(**keywords):
    return query_of(Symbol(0), [test(">", X, P)], **keywords)


def test_a_declared_attribute_may_be_used_with_the_greatest_magnitude_of_its_column():
    assert usable_deltas(rises(), statistics()) == {"x": 7.0}


def test_magnitude_is_not_known_where_a_block_is_not_or_a_value_is_infinite():
    assert usable_deltas(rises(), statistics(unknown=[1])) == {"x": math.inf}
    infinite = [*ROWS, {"t": 9, "k": 0, "x": -math.inf, "n": 0}]
    assert usable_deltas(rises(), statistics(infinite)) == {"x": math.inf}


def test_differences_of_another_order_or_another_object_may_not_be_used():
    assert usable_deltas(rises(), statistics(declared=())) == {}
    assert usable_deltas(rises(), statistics(key="k")) == {}
    assert usable_deltas(rises(partition_by=("k",)), statistics()) == {}
    assert usable_deltas(rises(partition_by=("k", "n")), statistics(key="k")) == {}
    assert usable_deltas(rises(partition_by=("n",)), statistics(key="k")) == {}
    assert usable_deltas(replace(rises(), order_by=("n",)), statistics()) == {}
    assert usable_deltas(rises(partition_by=("k",)), statistics(key="k")) == {"x": 7.0}


def test_only_attributes_whose_row_before_is_read_are_looked_at():
    query = query_of(Symbol(0), [test(">", X, double(1.0))])
    assert usable_deltas(query, statistics()) == {}


def test_open_key_is_that_of_the_event_store():
    assert open_key(pa.float64()) == math.inf
    assert open_key(pa.int64()) == MAX
