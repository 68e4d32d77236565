"""Random expressions of every operator and function, and rows to evaluate them on."""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from replay.expressions.nodes import Attribute, Call, DataType, Expression, Literal
from replay.language import fold
from tests.oracles.scalar import evaluate as evaluate_naively

T = DataType

DAY_US = 86_400_000_000
INTEGERS = st.one_of(
    st.integers(-3, 5),
    st.integers(-40, 40),
    st.sampled_from([-(2**63), 2**63 - 1, 2**62, -(2**32), 10**18 + 5]),
)
DOUBLES = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, -2.5, 1e308, 2.0**63, 1.0]),
    st.sampled_from([math.nan, math.inf, 0.0, -0.0]),
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
    *((tuple("+-*/%"), of, (of, of)) for of in (T.INTEGER, T.DOUBLE)),
    *((("neg",), of, (of,)) for of in (T.INTEGER, T.DOUBLE, T.INTERVAL)),
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
    (("*",), T.INTERVAL, (T.INTERVAL, T.INTEGER)),
    (("-",), T.INTEGER, (T.DATE, T.DATE)),
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
    branches = st.tuples(inner(T.BOOLEAN), inner(of), inner(T.BOOLEAN), inner(of), inner(of))
    options += [
        calls(["coalesce"], of, inner(of), inner(of), inner(of)),
        calls(["nullif"], of, inner(of), inner(of)),
        branches.map(lambda args: Call("case", args, of)),
    ]
    options += special(of, inner)
    if of is T.BOOLEAN:
        options += conditions(inner, texts=texts)
    return st.one_of(options)


def calls(ops: list[str], of: DataType, *args: Any) -> st.SearchStrategy[Expression]:
    return st.builds(Call, st.sampled_from(ops), st.tuples(*args), st.just(of))


def conditions(inner: Any, *, texts: bool) -> list[st.SearchStrategy[Expression]]:
    """Comparisons of every type, and what joins conditions."""
    boolean = inner(T.BOOLEAN)
    options = [calls(["and", "or"], T.BOOLEAN, *[boolean] * n) for n in (2, 2, 3)]
    options.append(calls(["not"], T.BOOLEAN, boolean))
    for kind in (T.INTEGER, T.DOUBLE, T.TIMESTAMP, *([T.STRING] if texts else [])):
        value, constant = inner(kind), st.builds(Literal, st.none() | VALUES[kind], st.just(kind))
        options += [
            calls(["=", "<>", "<", "<=", ">", ">=", "is_distinct"], T.BOOLEAN, value, value),
            calls(["is_null"], T.BOOLEAN, value),
            calls(["in"], T.BOOLEAN, value, constant, constant),
        ]
    if texts:
        options += [
            calls(["like"], T.BOOLEAN, inner(T.STRING), pattern)
            for pattern in map(st.sampled_from, [[text("a%"), text("_"), text("%b")]])
        ]
        escaped = st.sampled_from([text("A!%"), text("a!_%")])
        options.append(calls(["like"], T.BOOLEAN, inner(T.STRING), escaped, st.just(text("!"))))
    return options


def text(value: str) -> Literal:
    return Literal(value, T.STRING)


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
    return []


def rounded(of: DataType, inner: Any) -> st.SearchStrategy[Expression]:
    digits = st.builds(Literal, st.integers(-18, 18), st.just(T.INTEGER))
    return st.builds(Call, st.just("round"), st.tuples(inner(of), digits), st.just(of))


def bits(value: Any) -> Any:
    """Return a value such that equal ones have the same bits; all NaN are one."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("<d", value)
    return value, type(value)


def naively(expression: Expression, row: dict[str, Any]) -> Any:
    return evaluate_naively(expression, lambda attribute: row[attribute.name])


def folded(expression: Expression, constants: dict[str, Any]) -> Expression:
    """Return the expression as the binder folds it if some of its attributes are constants."""
    if isinstance(expression, Attribute) and expression.name in constants:
        return Literal(constants[expression.name], expression.type)
    if not isinstance(expression, Call):
        return expression
    parts = [folded(part, constants) for part in expression.args]
    return fold.call(expression.op, parts, expression.type)
