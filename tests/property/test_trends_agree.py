"""The one law, of aggregates over every match and of patterns in windows."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

import replay
from replay.errors import LimitExceededError
from replay.language import bind, parse_query
from tests.helpers import fill_stream
from tests.memory_stream import some_store
from tests.oracles.matcher import match_rows
from tests.oracles.view import OutOfStepsError
from tests.pattern_cases import PatternCase, trend_case
from tests.plan_cases import strategy_queries
from tests.property.law import ROWS_MAX, SLOW, answer, assert_plans_agree, comparable
from tests.strategies import SEEDS, SmallStream, streams


@given(SEEDS.map(trend_case))
@SLOW
def test_every_plan_gives_aggregates_over_matches_as_the_oracle(case: PatternCase) -> None:
    stream, sql = case.stream, case.sql
    if "VAR_" in sql or "STDDEV" in sql:  # of which the last digits are not the oracle's
        return
    bound = bind(parse_query(sql), stream.schema, time="t", text=sql)
    try:
        rows = match_rows(stream.rows, bound, steps_max=30_000)
    except OutOfStepsError:
        return
    expected = comparable(
        [{name: value for name, value in row.items() if name != "(match)"} for row in rows]
    )
    try:
        found = replay.query({"s": stream.table}, sql, max_rows=ROWS_MAX).table
    except LimitExceededError:
        return
    assert answer(found) == expected
    with some_store(stream, sql, case.indexes) as store:
        fill_stream(store, "s", stream, index=case.indexes)
        assert_plans_agree(store, sql, ("tree", "all", "auto"), expected=expected)


@given(stream=streams(), data=st.data(), indexes=st.sets(st.sampled_from(("a", "x", "s", "f"))))
@SLOW
def test_every_plan_matches_in_windows_as_the_full_replay(
    stream: SmallStream, data: st.DataObject, indexes: set[str]
) -> None:
    sql = data.draw(strategy_queries(timestamps=stream.has_timestamps))
    size = data.draw(st.integers(1, 6))
    slide = data.draw(st.integers(1, size))
    lengths = [f"{n} SECONDS" if stream.has_timestamps else str(n) for n in (slide, size)]
    windows = f"TABLE(HOP(TABLE s, DESCRIPTOR(t), {', '.join(lengths)}))"
    sql = sql.replace("FROM s", f"FROM {windows}", 1)
    sql = sql.replace("(PARTITION BY k ", "(PARTITION BY window_start, k ", 1)
    sql = sql.replace("( ORDER BY", "(PARTITION BY window_start ORDER BY", 1)
    if data.draw(st.booleans()):
        sql = re.sub(r"WITHIN (INTERVAL '\d+' SECOND|\d+)", "", sql)
    with some_store(stream, sql, sorted(indexes)) as store:
        fill_stream(store, "s", stream, index=tuple(sorted(indexes)))
        assert_plans_agree(store, sql, ("tree", "all", "auto"))
