"""Measures at the rows of the answer against the naive evaluation, on matches drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.language.bound import (
    CURRENT,
    Aggregate,
    Anchor,
    AnchorKind,
    BoundPatternQuery,
    Call,
    Classifier,
    Expression,
    MatchNumber,
    RowsPerMatch,
    TimedOut,
)
from replay.patterns import measures as measures_module
from tests.oracles.answer import Found, rows_of
from tests.oracles.matcher import partitions
from tests.oracles.view import Mapped
from tests.unit.patterns.bound_queries import (
    BOOL,
    DOUBLE,
    INT,
    STRING,
    Attribute,
    canonical,
    conditions,
    numbers,
    rows,
    to_table,
)
from tests.unit.patterns.matches_by_hand import answer, measuring

N_SYMBOLS = 3
SYMBOL_SETS = st.sampled_from([None, (0,), (1,), (2,), (0, 1), (1, 2)])
OFFSETS = st.sampled_from([0, 0, 0, -1, 1, -2])


def anchors(*, final: bool) -> st.SearchStrategy[Anchor]:
    return st.builds(
        Anchor,
        st.sampled_from([AnchorKind.FIRST, AnchorKind.LAST]),
        SYMBOL_SETS,
        st.sampled_from([0, 0, 1, 2, 5]),
        st.booleans() if final else st.just(False),
    )


@st.composite
def arguments(draw: st.DrawFn) -> Expression:
    """Draw what an aggregate is of."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return Attribute("s", STRING, CURRENT, draw(OFFSETS))
    if kind == 1:
        return Classifier(anchor=CURRENT, offset=draw(OFFSETS))
    if kind == 2:
        return draw(conditions([CURRENT], 1))
    return draw(numbers([CURRENT], draw(st.sampled_from([INT, DOUBLE])), 2))


@st.composite
def aggregates(draw: st.DrawFn, *, final: bool) -> Aggregate:
    symbols, is_final = draw(SYMBOL_SETS), final and draw(st.booleans())
    if draw(st.integers(0, 5)) == 0:
        return Aggregate("count", None, symbols, INT, final=is_final)
    argument = draw(arguments())
    functions = ["count", "min", "max"]
    if argument.type in (INT, DOUBLE):
        functions += ["sum", "sum", "avg"]
    function = draw(st.sampled_from(functions))
    types = {"count": INT, "avg": DOUBLE}
    of = types.get(function, argument.type)
    return Aggregate(function, argument, symbols, of, draw(st.booleans()), is_final)


@st.composite
def measures(draw: st.DrawFn, *, final: bool) -> Expression:
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return Classifier(anchor=draw(anchors(final=final)), offset=draw(OFFSETS))
    if kind == 1:
        name, of = draw(st.sampled_from([("i", INT), ("d", DOUBLE), ("s", STRING)]))
        return Attribute(name, of, draw(anchors(final=final)), draw(OFFSETS))
    if kind == 2:
        some = draw(st.lists(anchors(final=final), min_size=1, max_size=3))
        return draw(numbers(some, draw(st.sampled_from([INT, DOUBLE])), 2))
    if kind == 3:
        same = Call("=", (Classifier(), Classifier(anchor=draw(anchors(final=final)))), BOOL)
        return draw(st.sampled_from([MatchNumber(), TimedOut(), same]))
    one = draw(aggregates(final=final))
    if kind == 4 and one.type is INT:
        return Call("-", (draw(numbers([Anchor(AnchorKind.LAST)], INT, 1)), one), INT)
    return one


@st.composite
def matches(draw: st.DrawFn, of: Sequence[dict[str, Any]], bound: BoundPatternQuery) -> list[Found]:
    """Draw matches of any rows, empty ones and unmatched rows among them."""
    found = []
    for seqs in partitions(of, bound).values():
        members = [of[seq] for seq in seqs]
        n = draw(st.integers(0, 3))
        for number in range(1, n + 1):
            start = draw(st.integers(0, len(seqs) - 1))
            gaps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 3]), max_size=7))
            places = [start + sum(gaps[:k]) for k in range(len(gaps))]
            mapping = tuple(
                Mapped(at, draw(st.integers(0, N_SYMBOLS - 1)), draw(st.integers(0, 4)) == 0)
                for at in places
                if at < len(seqs)
            )
            is_unmatched = (
                not mapping
                and bound.rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED
                and draw(st.booleans())
            )
            timed_out = draw(st.booleans())
            found.append(
                Found(members, seqs, start, mapping, None if is_unmatched else number, timed_out)
            )
    return sorted(found, key=lambda match: match.order)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[str, Any]], BoundPatternQuery, list[Found]]:
    of = draw(rows())
    per_match = draw(st.sampled_from(RowsPerMatch))
    every = per_match is not RowsPerMatch.ONE
    bound = measuring(
        draw(st.lists(measures(final=every), min_size=1, max_size=5)),
        rows=per_match,
        n_symbols=N_SYMBOLS,
        partition_by=draw(st.sampled_from([(), ("p",)])),
        columns=("t", "s", "d") if every else (),
    )
    return of, bound, draw(matches(of, bound))


@given(cases())
def test_every_row_of_the_answer_is_what_the_naive_evaluation_gives(case: Any) -> None:
    of, bound, found = case
    expected = [row for match in found for row in rows_of(match, bound)]
    table = answer(bound, to_table(of), found)
    assert canonical(table.to_pylist()) == canonical(expected)


@given(cases(), st.integers(1, 6))
def test_an_answer_in_parts_is_the_answer_at_once(case: Any, n_rows: int) -> None:
    of, bound, found = case
    whole = answer(bound, to_table(of), found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measures_module, "MEASURED_ROWS_AT_ONCE", n_rows)
        parts = answer(bound, to_table(of), found)
    assert parts.schema == whole.schema
    assert canonical(parts.to_pylist()) == canonical(whole.to_pylist())
