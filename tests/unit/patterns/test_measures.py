"""MEASURES are read late, from the rows of matches only, with the types of their columns."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa

from replay.language.bound import Attribute, Call, Classifier, Concat, DataType, Symbol
from replay.patterns.matcher import PatternMatcher
from replay.patterns.program import compile_program
from tests.unit.patterns.bound_queries import INT, attr, call, first, last, lit, measured, query

TABLE = pa.table(
    {
        "t": pa.array([0, 1, 2, 3, 4]),
        "i": pa.array([1, 2, 2, 1, 2]),
        "small": pa.array([10, 11, 12, 13, 14], pa.int16()),
        "s": pa.array(["a", "b", None, "c", "d"]).dictionary_encode(),
        "at": pa.array([0, 1, 2, 3, 4], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "day": pa.array([0, 1, 2, 3, 4], pa.int32()).cast(pa.date32()),
    }
)
ONE, TWO = (call("=", attr("i"), lit(value)) for value in (1, 2))


def answer(measures: list, pattern=None, table: pa.Table = TABLE, **more: object) -> pa.Table:
    pattern = pattern or Concat((Symbol(0), Symbol(1)))
    bound = query(pattern, [ONE, TWO], measures=measures, **more)
    program = compile_program(bound)
    matcher = PatternMatcher(program)
    matcher.push(program.prepare(table), 0)
    matcher.finish()
    fetched = []

    def fetch(columns: list[str], seqs: np.ndarray) -> pa.Table:
        fetched.append((columns, seqs.tolist()))
        return table.select(columns).take(pa.array(seqs))

    result = measured(bound, program, matcher.take(), fetch, n_events=table.num_rows)
    assert len(fetched) <= 1
    for _, seqs in fetched:
        assert seqs == sorted(set(seqs))
    return result


def test_plain_attributes_keep_their_column_type_and_dictionaries_are_decoded() -> None:
    found = answer(
        [
            Attribute("small", INT, first(None)),
            attr("s", last(1)),
            Attribute("at", DataType.TIMESTAMP_UTC, last(None)),
            Attribute("day", DataType.DATE, first(0)),
        ]
    )
    types = [pa.int16(), pa.string(), pa.timestamp("us", "UTC"), pa.date32()]
    assert found.schema.types == types
    assert found.column(1).to_pylist() == ["b", "d"]  # matches at rows 0-1 and 3-4
    assert found.column(3).to_pylist() == [dt.date(1970, 1, 1), dt.date(1970, 1, 4)]


def test_expressions_over_rows_of_a_match_have_the_type_of_the_language() -> None:
    difference = Call(
        "-",
        (
            Attribute("at", DataType.TIMESTAMP_UTC, last(1)),
            Attribute("at", DataType.TIMESTAMP_UTC, first(0)),
        ),
        DataType.INTERVAL,
    )
    found = answer([difference, Classifier()])
    assert found.schema.types == [pa.duration("us"), pa.string()]
    assert found.column(0).cast(pa.int64()).to_pylist() == [1, 1]
    assert found.column(1).to_pylist() == ["B", "B"]


def test_no_match_gives_an_empty_table_with_all_columns_typed() -> None:
    found = answer([attr("s", first(0)), Classifier()], Concat((Symbol(1),) * 3))
    assert found.num_rows == 0
    assert found.schema.types == [pa.string(), pa.string()]


def test_measures_that_read_no_event_fetch_nothing() -> None:
    assert answer([Classifier()]).to_pydict() == {"m0": ["B", "B"]}
