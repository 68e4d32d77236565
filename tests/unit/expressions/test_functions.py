"""Functions give the same bits by column, as constants, across rows and in the naive oracle.

Axes: the expression (random, of every function), the row, and the way it is evaluated. Not
compared: the count of faults across rows, since a program there evaluates both sides of CASE.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from replay.expressions.columns import Columns, to_arrow
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language import fold
from replay.language.bound import (
    CURRENT,
    Anchor,
    AnchorKind,
    Attribute,
    Call,
    DataType,
    Expression,
    Literal,
)
from replay.patterns.conditions.across import AcrossCompiler, new_mapped, to_conditions
from replay.patterns.conditions.kernels import CODE_BEGIN, CODE_END, bind_row, run_condition
from tests.compiled import only_compiled
from tests.oracles.scalar import evaluate as evaluate_naively

T = DataType
LAST_A = Anchor(AnchorKind.LAST, (0,))

DAY_US = 86_400_000_000
INTEGERS = st.one_of(
    st.integers(-40, 40), st.sampled_from([-(2**63), 2**63 - 1, 2**62, -(2**32), 10**18 + 5])
)
DOUBLES = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, -2.5, 1e308, 2.0**63, 1.0]),
    st.floats(-180, 180),
    st.floats(),
)
TEXTS = st.one_of(
    st.sampled_from(["", "a", "Ab", "a,b,,c", " äb ", "x\ny", "aa", ",", " ", "12", "-3.5e2"]),
    st.sampled_from(["true", "2020-02-29", "2020-02-29 23:59:59.5+01", "nan", "1e400", "+7 "]),
    st.text("ab ,ÄßI", max_size=5),
)
MOMENTS = st.one_of(
    st.integers(-(10**15), 2 * 10**15),
    st.integers(-62_000 * 365 * DAY_US, 62_000 * 365 * DAY_US),
    st.sampled_from([-(2**63), 2**63 - 1, 0, -1, 951_782_400_000_000, 1_582_934_399_999_999]),
)
DAYS = st.one_of(
    st.integers(-100_000, 100_000),
    st.sampled_from([-(2**31), 2**31 - 1, 106_751_991, -106_751_992]),
)
VALUES = {
    T.INTEGER: INTEGERS,
    T.DOUBLE: DOUBLES,
    T.STRING: TEXTS,
    T.BOOLEAN: st.booleans(),
    T.TIMESTAMP: MOMENTS,
    T.TIMESTAMP_UTC: MOMENTS,
    T.DATE: DAYS,
    T.INTERVAL: INTEGERS,
}
NAMES = {of: [f"{of.name.lower()}_{i}" for i in range(2)] for of in VALUES}
ARROW = {
    T.INTEGER: pa.int64(),
    T.DOUBLE: pa.float64(),
    T.STRING: pa.string(),
    T.BOOLEAN: pa.bool_(),
    T.TIMESTAMP: pa.int64(),
    T.TIMESTAMP_UTC: pa.int64(),
    T.DATE: pa.int64(),
    T.INTERVAL: pa.int64(),
}
SCHEMA = pa.schema([(name, ARROW[of]) for of, names in NAMES.items() for name in names])
ROWS = st.fixed_dictionaries(
    {name: st.none() | VALUES[of] for of, names in NAMES.items() for name in names}
)

NUMERIC = [
    *(
        ((name,), T.DOUBLE, (T.DOUBLE,))
        for name in (
            "sqrt",
            "cbrt",
            "ln",
            "log10",
            "log2",
            "exp",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "degrees",
            "radians",
        )
    ),
    *(
        (("floor", "ceil", "trunc", "sign", "round", "abs"), of, (of,))
        for of in (T.INTEGER, T.DOUBLE)
    ),
    (("power", "log", "atan2"), T.DOUBLE, (T.DOUBLE, T.DOUBLE)),
    (("distance",), T.DOUBLE, (T.DOUBLE,) * 4),
]
TIMES = [
    (
        ("year", "quarter", "month", "week", "year_of_week", "day", "day_of_week", "day_of_year"),
        T.INTEGER,
        (T.TIMESTAMP,),
    ),
    (("epoch",), T.DOUBLE, (T.TIMESTAMP,)),
    (("epoch",), T.DOUBLE, (T.INTERVAL,)),
    (("add_months",), T.TIMESTAMP, (T.TIMESTAMP, T.INTEGER)),
    (("months_between",), T.INTEGER, (T.TIMESTAMP, T.TIMESTAMP)),
    (("-",), T.INTERVAL, (T.TIMESTAMP, T.TIMESTAMP)),
    (("+", "-"), T.TIMESTAMP, (T.TIMESTAMP, T.INTERVAL)),
    (("/",), T.INTEGER, (T.INTERVAL, T.INTERVAL)),
    (("%",), T.INTERVAL, (T.INTERVAL, T.INTERVAL)),
]
STRINGS = [
    (("lower", "upper", "reverse", "trim", "ltrim", "rtrim"), T.STRING, (T.STRING,)),
    (("trim", "ltrim", "rtrim", "concat"), T.STRING, (T.STRING, T.STRING)),
    (("concat_ws", "replace"), T.STRING, (T.STRING, T.STRING, T.STRING)),
    (("left", "right", "repeat", "substring", "lpad", "rpad"), T.STRING, (T.STRING, T.INTEGER)),
    (("substring",), T.STRING, (T.STRING, T.INTEGER, T.INTEGER)),
    (("lpad", "rpad"), T.STRING, (T.STRING, T.INTEGER, T.STRING)),
    (("split_part",), T.STRING, (T.STRING, T.STRING, T.INTEGER)),
    (("length",), T.INTEGER, (T.STRING,)),
    (("strpos",), T.INTEGER, (T.STRING, T.STRING)),
    (("starts_with", "ends_with"), T.BOOLEAN, (T.STRING, T.STRING)),
]
CASTS_ACROSS = [
    (T.INTEGER, T.DOUBLE), (T.INTEGER, T.BOOLEAN), (T.DOUBLE, T.INTEGER), (T.BOOLEAN, T.INTEGER),
    (T.BOOLEAN, T.DOUBLE), (T.DATE, T.TIMESTAMP), (T.DATE, T.TIMESTAMP_UTC),
    (T.TIMESTAMP, T.DATE), (T.TIMESTAMP, T.TIMESTAMP_UTC), (T.TIMESTAMP_UTC, T.DATE),
    (T.TIMESTAMP_UTC, T.TIMESTAMP),
]  # fmt: skip
CASTS_OF_TEXTS = [
    *((T.STRING, of) for of in VALUES if of not in (T.STRING, T.INTERVAL)),
    *((of, T.STRING) for of in VALUES if of not in (T.STRING, T.INTERVAL)),
]

pytestmark = only_compiled("Python's math raises where compiled functions give an infinity")


def leaf(of: DataType) -> st.SearchStrategy[Expression]:
    attribute = st.builds(Attribute, st.sampled_from(NAMES[of]), st.just(of))
    literal = st.builds(Literal, st.none() | VALUES[of], st.just(of))
    return st.one_of(attribute, attribute, attribute, literal)


@cache
def expressions(
    of: DataType, depth: int = 2, *, texts: bool = True
) -> st.SearchStrategy[Expression]:
    """Random calls of functions; without those of texts where conditions cannot have them."""
    if depth == 0:
        return leaf(of)

    def inner(kind: DataType) -> st.SearchStrategy[Expression]:
        return st.one_of(leaf(kind), expressions(kind, depth - 1, texts=texts))

    options = []
    for ops, result, kinds in [*NUMERIC, *TIMES, *(STRINGS if texts else [])]:
        if result is of:
            arguments = st.tuples(*map(inner, kinds))
            options.append(st.builds(Call, st.sampled_from(ops), arguments, st.just(of)))
    casts = CASTS_ACROSS + (CASTS_OF_TEXTS if texts else [])
    for source, target in casts:
        if target is of:
            options.append(st.builds(Call, st.just("cast"), st.tuples(inner(source)), st.just(of)))
    options.append(
        st.builds(Call, st.just("coalesce"), st.tuples(inner(of), inner(of)), st.just(of))
    )
    branches = st.tuples(inner(T.BOOLEAN), inner(of), inner(of))
    options.append(st.builds(Call, st.just("case"), branches, st.just(of)))
    options += special(of, inner)
    return st.one_of(options)


def special(of: DataType, inner: Any) -> list[st.SearchStrategy[Expression]]:
    """Calls some of whose arguments are constants."""
    widths = st.sampled_from([1000, 3_600_000_000, DAY_US, 7 * DAY_US])
    width = st.builds(Literal, widths, st.just(T.INTERVAL))
    if of is T.TIMESTAMP:
        origin = st.builds(Literal, st.sampled_from([0, -3 * DAY_US]), st.just(of))
        months = st.builds(Literal, st.sampled_from([1, 3, 12]), st.just(T.INTEGER))
        return [
            st.builds(
                Call, st.just("time_floor"), st.tuples(inner(of), width, origin), st.just(of)
            ),
            st.builds(Call, st.just("month_floor"), st.tuples(inner(of), months), st.just(of)),
        ]
    if of is T.INTEGER:
        parts = st.tuples(inner(T.TIMESTAMP), width, width)
        return [st.builds(Call, st.just("time_part"), parts, st.just(of)), rounded(of, inner)]
    if of is T.DOUBLE:
        return [rounded(of, inner)]
    if of is not T.BOOLEAN:
        return []
    kinds = st.sampled_from([T.INTEGER, T.DOUBLE, T.TIMESTAMP])
    pairs = kinds.flatmap(lambda kind: st.tuples(inner(kind), inner(kind)))
    ops = st.sampled_from(["is_distinct", "=", "<", ">="])
    return [st.builds(Call, ops, pairs, st.just(of))]


def rounded(of: DataType, inner: Any) -> st.SearchStrategy[Expression]:
    digits = st.builds(Literal, st.integers(-18, 18), st.just(T.INTEGER))
    return st.builds(Call, st.just("round"), st.tuples(inner(of), digits), st.just(of))


CONSTANT = {
    "time_part": (Literal(DAY_US, T.INTERVAL), Literal(3_600_000_000, T.INTERVAL)),
    "time_floor": (Literal(7 * DAY_US, T.INTERVAL), Literal(-3 * DAY_US, T.TIMESTAMP)),
    "month_floor": (Literal(3, T.INTEGER),),
    "round": (Literal(1, T.INTEGER),),
}
"""Arguments that are constants in every query, after the first one."""
SIGNATURES = [
    *((op, result, kinds) for ops, result, kinds in [*NUMERIC, *TIMES, *STRINGS] for op in ops),
    *(("cast", target, (source,)) for source, target in [*CASTS_ACROSS, *CASTS_OF_TEXTS]),
    *(("is_distinct", T.BOOLEAN, (of, of)) for of in NAMES),
    ("round", T.DOUBLE, (T.DOUBLE,)),
    ("round", T.INTEGER, (T.INTEGER,)),
    ("time_part", T.INTEGER, (T.TIMESTAMP,)),
    ("time_floor", T.TIMESTAMP, (T.TIMESTAMP,)),
    ("month_floor", T.TIMESTAMP, (T.TIMESTAMP,)),
]


def calls(read: Callable[[int, DataType], Expression], *, texts: bool = True) -> Iterator[Call]:
    """Yield a call of every function; ``read`` gives its argument of some place and type."""
    for op, result, kinds in SIGNATURES:
        if texts or T.STRING not in (result, *kinds):
            args = tuple(read(place, of) for place, of in enumerate(kinds))
            yield Call(op, args + CONSTANT.get(op, ()), result)


def own(place: int, of: DataType) -> Expression:
    return Attribute(NAMES[of][place % 2], of)


def column(expression: Expression, rows: list[dict[str, Any]]) -> list[Any]:
    values = evaluate(expression, Columns(pa.Table.from_pylist(rows, schema=SCHEMA)), Faults())
    if expression.type in (T.BOOLEAN, T.DOUBLE, T.STRING):
        return to_arrow(values, expression.type).to_pylist()
    return to_arrow(values, T.INTEGER).to_pylist()


MANY = st.lists(ROWS, min_size=6, max_size=6)
FEW = settings(deadline=None, max_examples=6, phases=[Phase.explicit, Phase.generate])
"""Of many functions at once: a failure names its function, and shrinking would take minutes."""


@FEW
@given(rows=MANY)
def test_each_function_by_column_and_as_a_constant_gives_what_the_oracle_gives(rows) -> None:
    def constant(place: int, of: DataType) -> Expression:
        return Literal(rows[0][NAMES[of][place % 2]], of) if place else own(place, of)

    for expression in [*calls(own), *calls(constant)]:
        wanted = [bits(naively(expression, row)) for row in rows]
        assert [bits(value) for value in column(expression, rows)] == wanted, expression
        folded = [with_constants(expression, row) for row in rows]
        assert [bits(literal.value) for literal in folded] == wanted, expression


@FEW
@given(rows=MANY)
def test_each_function_across_rows_gives_what_the_oracle_gives(rows) -> None:
    def of_both(place: int, of: DataType) -> Expression:
        attribute = own(place, of)
        pair = (replace(attribute, anchor=LAST_A), attribute)
        return Call("coalesce", pair[:: 1 if place % 2 else -1], of)

    for expression in calls(of_both, texts=False):
        wanted = []
        for first, second in pairwise(rows):
            read = {CURRENT: second, LAST_A: first}
            value = evaluate_naively(expression, lambda a, read=read: read[a.anchor][a.name])
            wanted.append(bits(value))
        assert [bits(value) for value in across_pairs(expression, rows)] == wanted, expression


def bits(value: Any) -> Any:
    """Return a value such that equal ones have the same bits; all NaN are one."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("<d", value)
    return value, type(value)


def naively(expression: Expression, row: dict[str, Any]) -> Any:
    return evaluate_naively(expression, lambda attribute: row[attribute.name])


@settings(deadline=None, max_examples=100)
@given(
    data=st.data(),
    rows=st.lists(ROWS, min_size=1, max_size=4),
    of=st.sampled_from([T.INTEGER, T.DOUBLE, T.STRING, T.BOOLEAN, T.TIMESTAMP, T.DATE]),
    encoded=st.booleans(),
)
def test_columns_give_what_the_oracle_gives(data, rows, of, encoded) -> None:
    expression = data.draw(expressions(of))
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    if encoded:
        at = SCHEMA.get_field_index("string_0")
        table = table.set_column(at, "string_0", table.column(at).dictionary_encode())
    values = evaluate(expression, Columns(table), Faults())
    found = to_arrow(values, T.INTEGER if of in (T.TIMESTAMP, T.DATE) else of).to_pylist()
    wanted = [naively(expression, row) for row in rows]
    assert [bits(value) for value in found] == [bits(value) for value in wanted]


def with_constants(expression: Expression, row: dict[str, Any]) -> Expression:
    """Return the expression as the binder folds it if a row's attributes are constants."""
    if isinstance(expression, Attribute):
        return Literal(row[expression.name], expression.type)
    if isinstance(expression, Call):
        parts = [with_constants(part, row) for part in expression.args]
        return fold.call(expression.op, parts, expression.type)
    return expression


@settings(deadline=None, max_examples=100)
@given(data=st.data(), row=ROWS, of=st.sampled_from(list(NAMES)))
def test_constants_are_folded_to_what_the_oracle_gives(data, row, of) -> None:
    expression = data.draw(expressions(of))
    folded = with_constants(expression, row)
    assert isinstance(folded, Literal)
    assert bits(folded.value) == bits(naively(expression, row))


# ---------------------------------------------------------------------------------------------
# Across rows


def spread(expression: Expression, data: Any) -> Expression:
    """Return the expression with some attributes read from the row of A, the others from B's."""
    if isinstance(expression, Attribute):
        return replace(expression, anchor=data.draw(st.sampled_from([CURRENT, LAST_A])))
    if isinstance(expression, Call):
        parts = tuple(spread(part, data) for part in expression.args)
        return Call(expression.op, parts, expression.type)
    return expression


def across_rows(expression: Expression, rows: list[dict[str, Any]]) -> Any:
    """Return the value of an expression of the second of two rows, as conditions compute it."""
    return across_pairs(expression, rows)[0]


def across_pairs(expression: Expression, rows: list[dict[str, Any]]) -> list[Any]:
    """Return the values of an expression for matches of each row and the next."""
    compiler = AcrossCompiler(("A", "B"))
    compiler.add(1, [expression])
    code = compiler.finish()
    columns = Columns(pa.Table.from_pylist(rows, schema=SCHEMA))
    leaves = np.zeros((len(code.leaves), len(rows)), np.int64)
    known = np.ones((len(code.leaves), len(rows)), np.bool_)
    for number, part in enumerate(code.leaves):
        values, valid = evaluate(part, columns, Faults())
        assert part.type is not T.STRING
        leaves[number] = values.view(np.int64) if part.type is T.DOUBLE else values
        known[number] = True if valid is None else valid
    conditions, mapped = to_conditions(code, leaves, known), new_mapped(code, len(rows))
    results = []
    xcode, symbols, slots, totals, const_i, const_f, *values, calls = conditions
    counts, *bound, path, stack_i, stack_f, stack_ok = mapped
    begin, end = symbols[1, [CODE_BEGIN, CODE_END]].tolist()
    for row in range(len(rows) - 1):
        counts[:] = 0
        for symbol in (0, 1):
            bind_row(symbol, row + symbol, symbols, slots, totals, *values, counts, *bound, path)
        run_condition(
            begin, end, row, row + 1, 1, xcode, totals, const_i, const_f, *values, calls, counts,
            *bound, path, stack_i, stack_f, stack_ok, np.zeros(8, np.int64),
        )  # fmt: skip
        results.append(top_of_stack(stack_i, stack_f, stack_ok, expression.type))
    return results


def top_of_stack(stack_i: Any, stack_f: Any, stack_ok: Any, of: DataType) -> Any:
    if not stack_ok[0]:
        return None
    if of is T.DOUBLE:
        return float(stack_f[0])
    value = int(stack_i[0])
    return bool(value) if of is T.BOOLEAN else value


@settings(deadline=None, max_examples=100)
@given(
    data=st.data(),
    rows=st.lists(ROWS, min_size=2, max_size=2),
    of=st.sampled_from([of for of in NAMES if of is not T.STRING]),
)
def test_rows_of_a_match_give_what_the_oracle_gives(data, rows, of) -> None:
    expression = spread(data.draw(expressions(of, texts=False)), data)
    first, second = rows

    def lookup(attribute: Any) -> Any:
        return (second if attribute.anchor == CURRENT else first)[attribute.name]

    assert bits(across_rows(expression, rows)) == bits(evaluate_naively(expression, lookup))
