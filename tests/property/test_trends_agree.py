"""The one law, of aggregates over every match and of patterns in windows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import replay
from replay.errors import LimitExceededError
from replay.language import bind, parse_query
from replay.operators.packing import pack, unpack
from replay.patterns.program import summed_as_pushed
from replay.patterns.summing import event_grain
from replay.patterns.trends.algebra import to_summing, why_enumerated
from replay.running.summed_patterns import PatternSums
from tests.helpers import fill_stream
from tests.memory_stream import some_store
from tests.oracles.answer import MATCH
from tests.oracles.matcher import inner_rows, match_rows
from tests.oracles.outer import groups_of, value_of
from tests.oracles.trends import read
from tests.oracles.view import OutOfStepsError
from tests.pattern_cases import PatternCase, aggregate_case, trend_case
from tests.plan_cases import strategy_queries
from tests.property.law import ROWS_MAX, SLOW, answer, assert_plans_agree, comparable
from tests.strategies import SEEDS, SmallStream, streams


@pytest.fixture(autouse=True, scope="module")
def trees_in_few_rows() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(event_grain, "ROWS_MIN", 1)
        yield


@given(st.one_of(SEEDS.map(trend_case), SEEDS.map(aggregate_case)))
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
    expected = comparable(rows)
    try:
        found = replay.query({"s": stream.table}, sql, max_rows=ROWS_MAX).table
    except LimitExceededError:
        return
    assert answer(found) == expected
    with some_store(stream, sql, case.indexes) as store:
        fill_stream(store, "s", stream, index=case.indexes)
        assert_plans_agree(store, sql, ("tree", "all", "relevant", "auto"), expected=expected)


@given(SEEDS.map(aggregate_case))
@SLOW
def test_sums_of_rows_in_pieces_with_snapshots_between_are_those_of_all(case: PatternCase) -> None:
    stream, sql = case.stream, case.sql
    bound = bind(parse_query(sql), stream.schema, time="t", text=sql)
    program = summed_as_pushed(bound)
    if program is None:
        return
    sums, table = PatternSums(bound, program, stream.schema), stream.table
    for low, high in pairwise([0, *stream.cuts, table.num_rows]):
        assert list(sums.push(table.slice(low, high - low))) == []
        state = unpack(pack(sums.state()))
        sums = PatternSums(bound, program, stream.schema)
        sums.take_over(state)
    (found,) = sums.finish()
    assert answer(found) == answer(replay.query({"s": table}, sql).table)


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
        assert_plans_agree(store, sql, ("tree", "all", "relevant", "auto"))


@given(SEEDS.map(aggregate_case))
@SLOW
def test_channels_hold_what_aggregates_over_matches_need(case: PatternCase) -> None:
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    if why_enumerated(bound) is not None:
        return
    assert bound.outer is not None
    try:
        rows = inner_rows(case.stream.rows, bound, 30_000)
    except OutOfStepsError:
        return
    summing = to_summing(bound)
    for group in groups_of(rows, bound.outer):
        matches = [row[MATCH] for row in group]
        for part, reading in summing.readings:
            found = read(summing, part, reading, matches, "t")
            assert comparable([[found]]) == comparable([[value_of(part, group)]]), part
        event(f"groups of {min(len(group), 3)} matches, {min(len(summing.channels), 3)} channels")
