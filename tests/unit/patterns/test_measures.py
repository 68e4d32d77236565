"""Measures are read late, once, from the rows of matches alone; ROWS PER MATCH by hand.

That they are what the naive evaluation gives, `tests.campaigns.test_pattern_fuzz` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replay
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Aggregate,
    Attribute,
    BoundPatternQuery,
    Call,
    Classifier,
    Expression,
    MatchNumber,
    Measure,
    RowsPerMatch,
    Symbol,
)
from replay.patterns import measures as measures_module
from replay.patterns.matches import NO_SYMBOL, Matches, MatchRows
from replay.patterns.measures import FetchedEvents, answer_counts
from tests.oracles.answer import Found
from tests.oracles.view import Mapped
from tests.unit.patterns.bound_queries import (
    INT,
    STRING,
    attr,
    first,
    last,
    lit,
    measured,
    query,
)

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


def measuring(
    measures: Sequence[Expression], *, rows: RowsPerMatch = ALL, columns: tuple[str, ...] = ()
) -> BoundPatternQuery:
    """Return a query whose answer has columns of the stream, then measures m0, m1, ….

    Its pattern means nothing; the matches come by hand.
    """
    named = tuple(Measure(f"m{k}", measure) for k, measure in enumerate(measures))
    output = tuple((name, name) for name in (*columns, *(measure.name for measure in named)))
    bound = query(Symbol(0), [None] * 3)
    return replace(bound, measures=named, output=output, rows_per_match=rows)


def to_matches(found: Sequence[Found]) -> Matches:
    """Return matches as a matcher gives them."""
    mapped = [[(f, m) for m in f.mapping or (Mapped(f.start, NO_SYMBOL),)] for f in found]
    flat = list(chain.from_iterable(mapped))
    rows = MatchRows(
        np.cumsum([0, *map(len, mapped)], dtype=np.int64),
        np.array([f.seqs[m.at] for f, m in flat], np.int64),
        np.array([m.symbol for _, m in flat], np.uint8),
        np.array([m.excluded for _, m in flat], np.bool_),
        np.empty((len(flat), 0), np.int64),
    )
    first = [f.seqs[f.start] for f in found]
    last = [f.seqs[f.mapping[-1].at] if f.mapping else f.seqs[f.start] - 1 for f in found]
    classifier = [f.mapping[-1].symbol if f.mapping else -1 for f in found]
    number = [f.number or 0 for f in found]
    columns = (np.array(c, np.int64) for c in (first, last, number, classifier))
    timed_out = np.array([f.timed_out for f in found], np.bool_)
    return Matches(*columns, np.empty((len(found), 0), np.int64), rows, timed_out)


def answer(
    bound: BoundPatternQuery,
    table: pa.Table,
    found: Sequence[Found],
    *,
    faults: Faults | None = None,
    on_fetch: Callable[[list[str], list[int]], object] = lambda _, __: None,
) -> pa.Table:
    """Evaluate measures of matches by hand; every fetch is checked to be a proper one."""

    def fetch(columns: list[str], seqs: np.ndarray[Any, Any]) -> pa.Table:
        assert columns
        assert seqs.tolist() == sorted(set(seqs.tolist()))
        assert all(0 <= seq < table.num_rows for seq in seqs.tolist())
        on_fetch(columns, seqs.tolist())
        return table.select(columns).take(pa.array(seqs))

    program: Any = SimpleNamespace(needs_rows=True, row_offsets=())
    matches = to_matches(found)
    return measured(bound, program, matches, fetch, n_events=table.num_rows, faults=faults)


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


@pytest.mark.parametrize("condition", ["i > 0", "i > 99"])
def test_measures_have_their_types_where_rows_of_matches_are_not_kept(condition: str) -> None:
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(i) AS i, LAST(s) AS s, "
        "A.at AS at, LAST(at) - FIRST(at) AS took, CLASSIFIER() AS c "
        f"PATTERN (A B) DEFINE B AS {condition})"
    )
    types = replay.query({"s": TABLE}, sql).table.schema.types
    utc = pa.timestamp("us", "UTC")
    assert types == [pa.int16(), pa.string(), utc, pa.duration("us"), pa.string()]


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


# -----------------------------------------------------------------------------
# Events fetched.

SEQS = st.one_of(st.integers(-1, 12), st.sampled_from([-1, 500, 10**6, 10**12]))


def fetch_any(columns: list[str], seq: Any) -> pa.Table:
    """Read events whose ``i`` is their ``seq``; each seventh has no ``s``."""
    assert (np.diff(seq) > 0).all()
    assert (seq >= 0).all()
    texts = [None if s % 7 == 0 else f"#{s}" for s in seq.tolist()]
    table = pa.table({"i": seq, "s": pa.array(texts, pa.string()).dictionary_encode()})
    return table.select(columns)


@given(st.lists(st.lists(SEQS, max_size=6), max_size=3))
def test_events_are_read_where_they_are_wanted(wanted: list[list[int]]) -> None:
    arrays = [np.array(seq, np.int64) for seq in wanted]
    events = FetchedEvents(fetch_any, ["s", "i", "i"], arrays)
    for seq in arrays:
        rows = events.rows(seq)
        expected = [None if s < 0 else s for s in seq.tolist()]
        texts = [None if s is None or s % 7 == 0 else f"#{s}" for s in expected]
        data, valid = events.values(Attribute("i", INT), rows)
        known = valid.tolist()
        assert [d if v else None for d, v in zip(data.tolist(), known, strict=True)] == expected
        assert events.plain("i", rows).to_pylist() == expected
        assert events.values(Attribute("s", STRING), rows).data.to_pylist() == texts
        assert events.plain("s", rows).to_pylist() == texts


def test_where_no_column_is_wanted_nothing_is_fetched() -> None:
    def never(columns: list[str], seq: Any) -> pa.Table:
        raise AssertionError(columns)

    FetchedEvents(never, [], [np.array([1, 2])])
