"""Spans by key: what overlaps is united, and every event is told by the spans of its own key."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from replay.language.bound import Symbol
from replay.planning.intervals import replay_stretches
from replay.planning.key_join import COUNTED_MIN
from replay.planning.key_spans import unite_by_key
from tests.oracles.intervals import matches
from tests.unit.planning.streams import (
    SmallStatistics,
    chain_queries,
    compare,
    inside,
    query_of,
    rows,
    seq,
    star,
    strategy_queries,
)
from tests.unit.planning.test_intervals import plan_with

A, B, C, D = (Symbol(i) for i in range(4))


def united(given_spans: list[tuple[int, int, int]]):
    """Unite spans (key, low, high), each of which is told by an event of ten times its key."""
    key, low, high = (np.array(part, dtype=np.int64) for part in zip(*given_spans, strict=True))
    return unite_by_key(key, 10 * key, low, high, by_time=True)


def ascending(by_key: dict[int, list[tuple[int, int]]]) -> list[tuple[int, int, int]]:
    """Return spans whose ends ascend within each key, as those of intervals do."""
    spans = []
    for key, drawn in by_key.items():
        lows = sorted(low for low, _ in drawn)
        highs = sorted(low + length for low, length in drawn)
        spans += [(key, low, high) for low, high in zip(lows, highs, strict=True)]
    return spans


SPANS = st.dictionaries(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(-9, 20), st.integers(0, 6)), min_size=1, max_size=5),
    min_size=1,
).map(ascending)
EVENTS = st.lists(st.tuples(st.integers(-12, 30), st.integers(0, 6)), max_size=30).map(sorted)


@given(SPANS, EVENTS)
def test_an_event_is_kept_where_a_span_of_its_key_holds_it(spans, events):
    found = united(spans)
    number = {seq // 10: n for n, seq in enumerate(found.examples.tolist())}
    keys = np.array([number.get(key, -1) for _, key in events], dtype=np.int64)
    at = np.array([t for t, _ in events], dtype=np.int64)
    expected = [any(k == key and a <= t <= z for k, a, z in spans) for t, key in events]
    assert found.contain(keys, at).tolist() == expected


@given(SPANS)
def test_spans_of_a_key_ascend_apart_and_every_key_has_one(spans):
    found = united(spans)
    assert found.examples.tolist() == [10 * key for key in sorted({key for key, _, _ in spans})]
    assert found.offsets[0] == 0
    assert found.offsets[-1] == len(found.low) == len(found.high)
    for begin, end in zip(found.offsets[:-1], found.offsets[1:], strict=True):
        assert end > begin
        assert np.all(found.low[begin:end] <= found.high[begin:end])
        assert np.all(found.low[begin + 1 : end] > found.high[begin : end - 1])


def test_extreme_times_do_not_wrap():
    least, most = -(2**63), 2**63 - 1
    found = united([(0, least, 0), (0, 5, most), (1, least, most)])
    assert found.offsets.tolist() == [0, 2, 3]
    at = np.array([least, 3, most])
    assert found.contain(np.array([0, 0, 0]), at).tolist() == [True, False, True]
    assert found.contain(np.array([1, 1, 1]), at).tolist() == [True, True, True]


@pytest.mark.parametrize("n_keys", [1, 40])
def test_many_spans_are_united_as_few_are(n_keys):
    random = np.random.default_rng(n_keys)
    low = np.sort(random.integers(0, 200_000, 2 * COUNTED_MIN))
    key = random.integers(0, n_keys, len(low))
    found = unite_by_key(key, low, low, low + 100, by_time=False)
    at = np.sort(random.integers(0, 200_200, 5_000))
    of = random.integers(0, n_keys, len(at))
    near = [low[key == k] for k in range(n_keys)]
    # The last span that begins at or before an event is, of equal ones, the one to hold it.
    last = [np.searchsorted(near[k], t, side="right") - 1 for t, k in zip(at, of, strict=True)]
    pairs = zip(at, of, last, strict=True)
    expected = [bool(i >= 0 and t <= near[k][i] + 100) for t, k, i in pairs]
    assert found.contain(of, at).tolist() == expected


@st.composite
def keyed_cases(draw: st.DrawFn):
    """Partitions of a stream in which matches are common, and a plan that looks some of it up."""
    drawn = draw(st.one_of(chain_queries(), strategy_queries()))
    simple = [compare("<=", draw(st.sampled_from("ab")), draw(st.integers(0, 2))) for _ in range(3)]
    between = [star(draw(st.sampled_from((C, D)))) for _ in range(2)]
    chain = seq(*between[: draw(st.integers(0, 1))], A, between[1], B)
    plain = query_of(chain, [*simple, None], within=drawn.within)
    query = replace(draw(st.sampled_from((drawn, plain, plain))), partition_by=("k",))
    statistics = SmallStatistics(draw(rows(16, n_min=10)), 2, ["a", "b"], key="k")
    plan = plan_with(query, statistics)
    assume(plan.conditions)
    chosen = draw(st.sets(st.sampled_from(plan.conditions), min_size=1))
    return (
        query,
        statistics,
        replace(plan, conditions=tuple(c for c in plan.conditions if c in chosen)),
    )


@given(keyed_cases())
def test_rows_left_out_by_key_neither_take_nor_give_a_match(case):
    query, statistics, plan = case
    assume(plan.required.rows_min > 0)
    found = replay_stretches(plan, statistics.look_up(plan), statistics)
    kept = range(statistics.n_events)
    if found.n_candidates == 0:
        kept = []
    elif found.keys is not None:
        kept = np.flatnonzero(inside(found.keys, statistics)).tolist()
    rows_kept = [statistics.rows[i] for i in kept]
    left = [(word, *(kept[i] for i in at)) for word, at in matches(query, rows_kept, 4)]
    assert sorted(left) == sorted((word, *at) for word, at in matches(query, statistics.rows, 4))
    some_left_out = "some" if len(kept) < statistics.n_events else "none"
    event(f"{some_left_out} left out, {'some' if left else 'no'} matches")
