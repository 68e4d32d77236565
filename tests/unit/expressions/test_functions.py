"""Functions give the same bits by column, as constants, across rows and in the naive oracle.

Axes: the expression (random, of every function), the row, and the way it is evaluated. Not
compared: the count of faults across rows, since a program there evaluates both sides of CASE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from replay.expressions.columns import Columns, to_arrow
from replay.expressions.evaluate import COMPARISONS, evaluate
from replay.expressions.scalars import Faults
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
from tests.helpers import only_compiled
from tests.oracles.scalar import evaluate as evaluate_naively
from tests.unit.expressions.random_expressions import (
    CASTS_ACROSS,
    CASTS_OF_TEXTS,
    DAY_US,
    NAMES,
    NUMERIC,
    ROWS,
    SCHEMA,
    STRINGS,
    TIMES,
    T,
    bits,
    expressions,
    folded,
    naively,
)

LAST_A = Anchor(AnchorKind.LAST, (0,))

pytestmark = only_compiled("Python's math raises where compiled functions give an infinity")


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
    *(
        (op, T.BOOLEAN, (of, of))
        for op in COMPARISONS
        for of in (T.INTEGER, T.DOUBLE, T.STRING, T.TIMESTAMP)
    ),
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
        literals = [folded(expression, row) for row in rows]
        assert [bits(literal.value) for literal in literals] == wanted, expression


def test_a_cube_root_of_a_constant_has_the_last_bit_of_that_of_a_column() -> None:
    # NumPy's own, where it is of another library than C's, differs for one value in two.
    call = Call("cbrt", (own(0, T.DOUBLE),), T.DOUBLE)
    name = NAMES[T.DOUBLE][0]
    rows = [{name: (-1.7) ** n} for n in range(-300, 301)]
    wanted = [naively(call, row) for row in rows]
    assert [folded(call, row).value for row in rows] == wanted
    assert column(call, rows) == wanted


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


def moved(expression: Expression, data: Any) -> Expression:
    """Return the expression with some attributes read from rows before and after."""
    if isinstance(expression, Attribute):
        return replace(expression, offset=data.draw(st.sampled_from([0, 0, 0, -1, 2])))
    if isinstance(expression, Call):
        return replace(expression, args=tuple(moved(part, data) for part in expression.args))
    return expression


@settings(deadline=None, max_examples=150)
@given(
    data=st.data(),
    rows=st.lists(ROWS, min_size=1, max_size=4),
    of=st.sampled_from([T.INTEGER, T.DOUBLE, T.STRING, T.BOOLEAN, T.TIMESTAMP, T.DATE]),
    encoded=st.booleans(),
    split=st.booleans(),
)
def test_columns_give_what_the_oracle_gives(data, rows, of, encoded, split) -> None:
    expression = moved(data.draw(expressions(of)), data)
    parts = [rows[:1], rows[1:]] if split else [rows]
    tables = [pa.Table.from_pylist(part, schema=SCHEMA) for part in parts]
    if encoded:  # each part with a dictionary of its own
        at = SCHEMA.get_field_index("string_0")
        tables = [
            table.set_column(at, "string_0", table.column(at).dictionary_encode())
            for table in tables
        ]
    values = evaluate(expression, Columns(pa.concat_tables(tables)), Faults())
    found = to_arrow(values, T.INTEGER if of in (T.TIMESTAMP, T.DATE) else of).to_pylist()
    beyond = dict.fromkeys(SCHEMA.names)
    for at, value in enumerate(found):

        def lookup(attribute: Attribute, at: int = at) -> Any:
            row = at + attribute.offset
            return (rows[row] if 0 <= row < len(rows) else beyond)[attribute.name]

        assert bits(value) == bits(evaluate_naively(expression, lookup))


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


@settings(deadline=None, max_examples=60)
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
