"""Faults of functions are counted, texts of two rows refused by name, clocks are Python's."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import NotSupportedError
from replay.expressions.columns import Columns, Values, to_arrow
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Anchor,
    AnchorKind,
    Attribute,
    Call,
    Classifier,
    DataType,
    Expression,
    Literal,
)
from replay.patterns.conditions.across import AcrossCompiler
from tests.oracles.scalar_functions import apply_function

T = DataType
LAST_A = Anchor(AnchorKind.LAST, (0,))

NUMBER = Attribute("integer_0", T.INTEGER)
TEXT = Attribute("string_0", T.STRING)
EARLIER = replace(TEXT, anchor=LAST_A)
MOMENT = Call("-", (Attribute("timestamp_0", T.TIMESTAMP), Literal(1, T.INTERVAL)), T.TIMESTAMP)


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        pytest.param(Call("concat", (TEXT, EARLIER), T.STRING), "'concat'", id="text"),
        pytest.param(
            Call("length", (Call("concat", (TEXT, EARLIER), T.STRING),), T.INTEGER),
            "'length'",
            id="number of a text",
        ),
        pytest.param(
            Call(
                "cast", (Call("+", (NUMBER, replace(NUMBER, anchor=LAST_A)), T.INTEGER),), T.STRING
            ),
            r"'CAST\(… AS STRING\)'",
            id="cast",
        ),
        pytest.param(
            Call(
                "local_time",
                (
                    Call(
                        "case",
                        (Literal(True, T.BOOLEAN), MOMENT, replace(MOMENT.args[0], anchor=LAST_A)),
                        T.TIMESTAMP,
                    ),
                    Literal("UTC", T.STRING),
                ),
                T.TIMESTAMP,
            ),
            "'AT TIME ZONE'",
            id="zone",
        ),
    ],
)
def test_texts_of_different_rows_are_refused_by_the_name_of_the_function(condition, named) -> None:
    compiler = AcrossCompiler(("A", "B"))
    wanted = Literal(None if condition.type is not T.STRING else "x", condition.type)
    with pytest.raises(NotSupportedError, match=named):
        compiler.add(1, [Call("=", (condition, wanted), T.BOOLEAN)])


def count_faults(expression: Expression, table: pa.Table) -> int:
    faults = Faults()
    evaluate(expression, Columns(table), faults)
    return faults.count


@pytest.mark.parametrize("encoded", [False, True])
def test_rows_at_fault_are_counted_and_rows_with_null_are_not(encoded) -> None:
    texts = pa.array(["1", "x", "x", None, "", "-7"])
    table = pa.table({"s": texts.dictionary_encode() if encoded else texts})
    number = Call("cast", (Attribute("s", T.STRING),), T.INTEGER)  # 3 are no numbers
    assert count_faults(number, table) == 3
    logarithm = Call("ln", (Call("cast", (number,), T.DOUBLE),), T.DOUBLE)  # nor has -7 one
    assert count_faults(logarithm, table) == 4
    part = Call("split_part", (Attribute("s", T.STRING), Literal("-", T.STRING), number), T.STRING)
    assert count_faults(part, table) == 3


def test_faults_are_counted_once_per_row_also_on_dictionaries() -> None:
    table = pa.table({"s": pa.array(["a", "", "", "a", None]).dictionary_encode(), "i": [1] * 5})
    length = Call("length", (Attribute("s", T.STRING),), T.INTEGER)
    inverse = Call("/", (Literal(1, T.INTEGER), length), T.INTEGER)  # 1 / 0 in two rows
    faults = Faults()
    data, valid = evaluate(
        Call("=", (inverse, Literal(1, T.INTEGER)), T.BOOLEAN), Columns(table), faults
    )
    assert faults.count == 2
    assert (data & valid).tolist() == [True, False, False, True, False]


def test_text_made_of_a_dictionary_keeps_the_order_of_the_rows() -> None:
    texts = pa.array(["b", None, "a", "b"]).dictionary_encode()
    values, _ = evaluate(
        Call("upper", (Attribute("s", T.STRING),), T.STRING),
        Columns(pa.table({"s": texts})),
        Faults(),
    )
    assert values.to_pylist() == ["B", None, "A", "B"]


def test_text_of_an_event_is_joined_with_what_the_match_tells() -> None:
    table = pa.table({"s": pa.array(["x", "y"]).dictionary_encode()})
    joined, _ = evaluate(
        Call("concat", (Attribute("s", T.STRING), Classifier()), T.STRING),
        Columns(table),
        Faults(),
        match_values=lambda _: Values(pa.array(["A", "B"]), None),
    )
    assert joined.to_pylist() == ["xA", "yB"]


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]
)
@settings(deadline=None, max_examples=30)
@given(moments=st.lists(st.integers(-60_000_000_000_000_000, 2_300_000_000_000_000), max_size=5))
def test_clocks_of_a_zone_are_those_of_python(zone, moments) -> None:
    table = pa.table({"ts": pa.array(moments, pa.int64())})
    for op, of, result in (
        ("local_time", T.TIMESTAMP_UTC, T.TIMESTAMP),
        ("instant", T.TIMESTAMP, T.TIMESTAMP_UTC),
    ):
        call = Call(op, (Attribute("ts", of), Literal(zone, T.STRING)), result)
        found = to_arrow(evaluate(call, Columns(table), Faults()), T.INTEGER).to_pylist()
        assert found == [apply_function(op, [moment, zone]) for moment in moments]
