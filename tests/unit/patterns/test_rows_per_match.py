"""Which rows a match gives the answer, and what measures are there where no row is mapped."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.expressions.scalars import Faults
from replay.language.bound import (
    MATCH_LAST,
    Aggregate,
    Attribute,
    Call,
    Classifier,
    Expression,
    MatchNumber,
    RowsPerMatch,
    TimedOut,
)
from replay.patterns import measures as measures_module
from replay.patterns.matches import Matches
from replay.patterns.measures import answer_counts
from tests.oracles.answer import Found
from tests.oracles.view import Mapped
from tests.unit.patterns.bound_queries import INT, STRING, attr, first, last, lit
from tests.unit.patterns.matches_by_hand import answer, measuring, to_matches

TABLE = pa.table(
    {
        "t": pa.array([0, 1, 2, 3, 4]),
        "i": pa.array([10, 20, 30, 40, 50], pa.int16()),
        "s": pa.array(["a", None, "c", "d", "e"]).dictionary_encode(),
        "at": pa.array(range(5), pa.int64()).cast(pa.timestamp("us", "UTC")),
        "p": pa.array([1, 1, 2, 1, 1], pa.int8()),
    }
)
ROWS: list[dict[str, Any]] = [{}] * 5
COUNT = Aggregate("count", None, None, INT)
TOTAL = Aggregate("sum", attr("i"), None, INT)
ALL, ONE = RowsPerMatch.ALL_SHOW_EMPTY, RowsPerMatch.ONE
OMIT, UNMATCHED = RowsPerMatch.ALL_OMIT_EMPTY, RowsPerMatch.ALL_WITH_UNMATCHED


def match(start: int, symbols: str = "", number: int | None = 1, timed_out: bool = False) -> Found:
    """Write down a match of adjacent rows; a lower-case letter is an excluded row."""
    mapping = tuple(
        Mapped(start + k, "ABC".index(letter.upper()), letter.islower())
        for k, letter in enumerate(symbols)
    )
    return Found(ROWS, range(5), start, mapping, number, timed_out)


FOUND = [match(0, "AB"), match(2, "", 2), match(3, "", None), match(4, "C", 3)]
"""A match, an empty match, an unmatched row, a match."""


def columns(measures: list[Expression], found: list[Found], **more: Any) -> dict[str, list[Any]]:
    return answer(measuring(measures, **more), TABLE, found).to_pydict()


def test_columns_and_plain_measures_keep_their_type_and_dictionaries_are_decoded() -> None:
    measures = [
        attr("i", last(None)),
        attr("s", first(0)),
        TOTAL,
        Aggregate("max", attr("i"), None, INT),
    ]
    bound = measuring(measures, rows=UNMATCHED, columns=("i", "s", "at"))
    types = [
        pa.int16(), pa.string(), pa.timestamp("us", "UTC"),
        pa.int16(), pa.string(), pa.int64(), pa.int64(),
    ]  # fmt: skip
    for found in (FOUND, FOUND[:1], FOUND[2:3], []):
        assert answer(bound, TABLE, found).schema.types == types
    assert answer(bound, TABLE, FOUND).column("i").to_pylist() == [10, 20, 30, 40, 50]


def test_runs_that_timed_out_say_so() -> None:
    assert columns([TimedOut()], [match(0, "A"), match(1, "A", 2, timed_out=True)], rows=ONE) == {
        "m0": [False, True]
    }


def test_every_event_is_fetched_once_and_nothing_where_nothing_is_read() -> None:
    fetched: list[Any] = []
    overlapping = [match(0, "ABC"), match(1, "ABC", 2)]
    bound = measuring(
        [attr("t", last(None), -1), TOTAL, attr("s", first(1))], rows=ALL, columns=("p",)
    )
    answer(bound, TABLE, overlapping, on_fetch=lambda names, seqs: fetched.append((names, seqs)))
    assert fetched == [(["i", "p", "s", "t"], [0, 1, 2, 3])]
    fetched.clear()
    silent = measuring([Classifier(), COUNT, MatchNumber()], rows=ALL)
    answer(silent, TABLE, overlapping, on_fetch=lambda names, seqs: fetched.append((names, seqs)))
    assert fetched == []


def test_many_matches_are_measured_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures_module, "MEASURED_ROWS_AT_ONCE", 3)
    fetched: list[Any] = []
    found = [match(0, "AB"), match(1, "A", 2), match(1, "ABCC", 3), match(2, "AB", 4)]
    bound = measuring([TOTAL], rows=ONE)
    table = answer(bound, TABLE, found, on_fetch=lambda _, seqs: fetched.append(seqs))
    assert fetched == [[0, 1], [1, 2, 3, 4], [2, 3]]  # three rows; four of one match; two
    assert table.to_pydict() == {"m0": [30, 20, 140, 70]}


def test_only_rows_that_an_aggregate_is_about_can_be_at_fault() -> None:
    inverse = Call("/", (lit(60), Call("-", (attr("i"), lit(20)), INT)), INT)  # NULL at row 1
    faults = Faults()
    bound = measuring([Aggregate("sum", inverse, (0,), INT)], rows=ALL)
    table = answer(bound, TABLE, [match(0, "ABA")], faults=faults)
    assert table.to_pydict() == {"m0": [-6, -6, 0]}
    assert faults.count == 0
    bound = measuring([Aggregate("sum", inverse, None, INT)], rows=ALL)
    assert answer(bound, TABLE, [match(0, "ABA")], faults=faults).to_pydict() == {"m0": [-6, -6, 0]}
    assert faults.count == 1


def test_unmatched_rows_are_never_at_fault() -> None:
    faults = Faults()
    bound = measuring([Call("/", (lit(1), COUNT), INT)], rows=UNMATCHED)
    assert answer(bound, TABLE, FOUND, faults=faults).to_pydict() == {"m0": [1, 0, None, None, 1]}
    assert faults.count == 1  # the empty match counts no row


def test_strings_navigate_as_numbers_do() -> None:
    measures = [
        Attribute("s", STRING, MATCH_LAST, -1),
        Aggregate("max", attr("s"), None, STRING),
        Call("upper", (attr("s", first(1)),), STRING),
    ]
    found = columns(measures, [match(2, "ABB")], rows=ALL)
    assert found == {"m0": [None, "c", "d"], "m1": ["c", "d", "e"], "m2": [None, "D", "D"]}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(ONE, [1, 1, 1, 1]), (ALL, [1, 1, 1, 0]), (OMIT, [1, 0, 1, 0]), (UNMATCHED, [1, 1, 1, 0])],
)
def test_a_limit_can_count_the_rows_each_match_gives(
    rows: RowsPerMatch, expected: list[int]
) -> None:
    found = [match(0, "Ab"), match(2), match(3, "A"), match(4, "c")]
    bound = measuring([COUNT], rows=rows)
    assert answer_counts(bound, to_matches(found)).tolist() == expected
    assert answer(bound, TABLE, found).num_rows == sum(expected)


@given(st.lists(st.integers(1, 5), max_size=8), st.integers(1, 12))
def test_parts_are_whole_matches_and_no_larger_than_asked_but_for_a_single_match(
    lengths: list[int], n_rows: int
) -> None:
    matches = to_matches([match(0, "A" * n, k + 1) for k, n in enumerate(lengths)])
    parts = list(matches.split(n_rows))
    assert np.concatenate([part.number for part in parts]).tolist() == matches.number.tolist()
    again = Matches.concat(parts).rows
    assert again is not None
    assert matches.rows is not None
    assert again.offsets.tolist() == matches.rows.offsets.tolist()
    assert again.symbol.tolist() == matches.rows.symbol.tolist()
    sizes = [len(part.rows or ()) for part in parts]
    assert sum(sizes) == sum(lengths)
    for part, size in zip(parts, sizes, strict=True):
        assert size <= n_rows or len(part) == 1
    for one, two in pairwise(sizes):
        assert one + two > n_rows  # parts are as large as they may be
