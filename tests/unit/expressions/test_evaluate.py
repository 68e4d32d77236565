"""Evaluation by column gives what the naive evaluator gives event by event."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import NotSupportedError
from replay.expressions.columns import Columns, to_arrow
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import CURRENT, Attribute, Call, DataType, Expression, Literal
from tests.compiled import only_compiled
from tests.oracles.scalar import evaluate as evaluate_naively

BOOL, INT, DOUBLE, STRING = DataType.BOOLEAN, DataType.INTEGER, DataType.DOUBLE, DataType.STRING
INT64 = st.one_of(
    st.integers(-9, 9), st.sampled_from([-(2**63), 2**63 - 1, 2**62, -(2**62), 2**32, 3037000500])
)
DOUBLES = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, -2.5, 1e308, 2.0**63]),
    st.floats(-100, 100),
)
TEXTS = st.sampled_from(["", "a", "A", "ab", "a%", "äb", "x\ny", "a_b"])


def leaf(of: DataType) -> st.SearchStrategy[Expression]:
    literals = {INT: INT64, DOUBLE: DOUBLES, STRING: TEXTS, BOOL: st.booleans()}[of]
    names = {INT: ["i", "j"], DOUBLE: ["d", "e"], STRING: ["s", "u"], BOOL: ["b"]}[of]
    attribute = st.builds(
        lambda name, offset: Attribute(name, of, CURRENT, offset),
        st.sampled_from(names),
        st.sampled_from([0, 0, 0, -1, 2]),
    )
    literal = st.builds(Literal, st.one_of(literals, st.none()), st.just(of))
    return st.one_of(attribute, attribute, literal)


@cache
def expressions(of: DataType, depth: int = 3) -> st.SearchStrategy[Expression]:
    if depth == 0:
        return leaf(of)

    def inner(kind: DataType) -> st.SearchStrategy[Expression]:
        return expressions(kind, depth - 1)

    def make(ops: list[str], *kinds: DataType) -> st.SearchStrategy[Expression]:
        parts = st.tuples(*map(inner, kinds))
        return st.builds(lambda op, args: Call(op, args, of), st.sampled_from(ops), parts)

    options = [
        leaf(of),
        make(["coalesce"], of, of, of),
        make(["case"], BOOL, of, BOOL, of, of),
        make(["nullif"], of, of),
    ]
    if of in (INT, DOUBLE):
        options += [
            make(["+", "-", "*", "/", "%", "mod"], of, of),
            make(["neg", "abs", "round", "floor", "ceil"], of),
            make(["cast"], DOUBLE if of is INT else INT),
        ]
    if of is DOUBLE:
        options += [make(["sqrt", "ln", "exp"], of), make(["power"], of, of)]
    if of is INT:
        options += [make(["length"], STRING), make(["cast"], BOOL)]
    if of is STRING:
        options += [make(["lower", "upper"], STRING), make(["cast"], INT), make(["cast"], BOOL)]
    if of is BOOL:
        comparisons = ["=", "<>", "<", "<=", ">", ">="]
        options += [make(comparisons, kind, kind) for kind in (INT, DOUBLE, STRING)]
        options += [make(["in"], kind, kind, kind) for kind in (INT, STRING)]
        options += [make(["and", "or"], BOOL, BOOL, BOOL), make(["not"], BOOL)]
        options += [make(["is_null"], kind) for kind in (INT, DOUBLE, STRING)]
        options.append(st.builds(like, inner(STRING), st.sampled_from(["a%", "_", "%b", "A!%"])))
    return st.one_of(options)


def like(value: Expression, pattern: str) -> Call:
    escape = (Literal("!", STRING),) if "!" in pattern else ()
    return Call("like", (value, Literal(pattern, STRING), *escape), BOOL)


ROW = st.fixed_dictionaries(
    {
        name: st.one_of(st.none(), values)
        for name, values in {
            "i": INT64,
            "j": INT64,
            "d": DOUBLES,
            "e": DOUBLES,
            "s": TEXTS,
            "u": TEXTS,
            "b": st.booleans(),
        }.items()
    }
)
SCHEMA = pa.schema(
    [
        *[(name, pa.int64()) for name in "ij"],
        *[(name, pa.float64()) for name in "de"],
        *[(name, pa.string()) for name in "su"],
        ("b", pa.bool_()),
    ]
)


def close(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        same = math.isnan(found) and math.isnan(wanted)
        return same or found == wanted or math.isclose(found, wanted, rel_tol=1e-12)
    return found == wanted and type(found) is type(wanted)


@only_compiled("Python's math raises where compiled functions give an infinity")
@settings(deadline=None, max_examples=300)
@given(
    data=st.data(),
    events=st.lists(ROW, max_size=5),
    of=st.sampled_from([INT, DOUBLE, STRING, BOOL]),
    encoded=st.booleans(),
    split=st.booleans(),
)
def test_columns_give_what_single_events_give(data, events, of, encoded, split) -> None:
    expression = data.draw(expressions(of))
    table = pa.Table.from_pylist(events, schema=SCHEMA)
    if encoded:
        table = table.set_column(4, "s", table.column("s").dictionary_encode())
    if split and len(events) > 1:
        halves = [pa.Table.from_pylist(part, schema=SCHEMA) for part in (events[:1], events[1:])]
        if encoded:  # each with a dictionary of its own
            halves = [h.set_column(4, "s", h.column("s").dictionary_encode()) for h in halves]
        table = pa.concat_tables(halves)
    found = to_arrow(evaluate(expression, Columns(table), Faults()), of).to_pylist()
    for at in range(len(events)):

        def lookup(attribute: Any, at: int = at) -> Any:
            there = 0 <= at + attribute.offset < len(events)
            return events[at + attribute.offset][attribute.name] if there else None

        wanted = evaluate_naively(expression, lookup)
        assert close(found[at], wanted), (found[at], wanted)


def test_faults_are_counted_once_per_row_also_on_dictionaries() -> None:
    table = pa.table({"s": pa.array(["a", "", "", "a", None]).dictionary_encode(), "i": [1] * 5})
    length = Call("length", (Attribute("s", STRING),), INT)
    inverse = Call("/", (Literal(1, INT), length), INT)  # 1 / 0 in two rows
    faults = Faults()
    data, valid = evaluate(Call("=", (inverse, Literal(1, INT)), BOOL), Columns(table), faults)
    assert faults.count == 2
    assert (data & valid).tolist() == [True, False, False, True, False]


def test_margins_are_read_but_have_no_value_of_their_own() -> None:
    table = pa.table({"i": [10, 11, 12, 13]})
    columns = Columns(table, before=1, after=1)
    previous = columns.at(Attribute("i", INT, CURRENT, -1))
    assert (previous.data.tolist(), previous.valid) == ([10, 11], None)
    beyond = columns.at(Attribute("i", INT, CURRENT, 2))
    assert (beyond.data[:1].tolist(), beyond.valid.tolist()) == ([13], [True, False])


@pytest.mark.parametrize(
    ("values", "arrow_type", "wanted"),
    [
        pytest.param([1000, None], pa.timestamp("ns"), [1, None], id="nanoseconds"),
        pytest.param([2, None], pa.timestamp("s", "UTC"), [2_000_000, None], id="seconds"),
        pytest.param([3, None], pa.date32(), [3, None], id="days"),
        pytest.param([4, None], pa.duration("ms"), [4000, None], id="durations"),
        pytest.param([5, None], pa.int8(), [5, None], id="small integers"),
    ],
)
def test_columns_of_any_width_are_carried_as_int64(values, arrow_type, wanted) -> None:
    array = pa.array(values, pa.int64() if arrow_type != pa.date32() else pa.int32())
    table = pa.table({"c": array.cast(arrow_type)})
    data, valid = Columns(table).at(Attribute("c", INT))
    assert data.dtype == np.int64
    assert [v if ok else None for v, ok in zip(data.tolist(), valid, strict=True)] == wanted


def test_nested_column_is_refused_by_type() -> None:
    table = pa.table({"c": pa.array([[1], [2]])})
    with pytest.raises(NotSupportedError, match="type list"):
        Columns(table).at(Attribute("c", INT))
