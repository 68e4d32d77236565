"""The law of online queries: the pieces that come out are the answer over all events at once."""

from __future__ import annotations

from random import Random
from unittest import mock

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import replay
from replay.errors import NotSupportedError, SkipError
from tests.pattern_cases import pattern_case


def answer_at_once(table: pa.Table, sql: str) -> pa.Table | None:
    try:
        return replay.query({"s": table}, sql).table
    except SkipError:
        return None


@given(seed=st.integers(0, 2**32 - 1), split=st.integers(0, 2**32 - 1))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@mock.patch("replay.patterns.row_intake.KNOWN_MIN", 1)  # keys are forgotten wherever they may be
def test_pieces_of_an_online_answer_make_the_answer(seed: int, split: int) -> None:
    cuts = Random(split)
    case = pattern_case(seed)
    table = case.stream.table
    try:
        operator = replay.online(case.sql, table.schema, time="t")
    except NotSupportedError:
        event("needs the whole answer")
        return
    expected = answer_at_once(table, case.sql)
    pieces, at = [], 0
    try:
        while at < table.num_rows:
            n = cuts.randint(0, 4)
            pieces.append(operator.push(table.slice(at, n)))
            at += n
            if cuts.random() < 0.5:
                state = operator.snapshot()
                operator = replay.online(case.sql, table.schema, time="t")
                operator.restore(state)
        pieces.append(operator.finish())
    except SkipError:
        event("skip error")
        assert expected is None
        return
    assert expected is not None
    event(f"rows before the end: {sum(len(piece) for piece in pieces[:-1]) > 0}")
    # As text, NaN equals itself and -0.0 is not 0.0.
    assert repr(pa.concat_tables(pieces).to_pylist()) == repr(expected.to_pylist())
