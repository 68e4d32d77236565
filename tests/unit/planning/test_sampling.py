"""Samples of blocks: where they are drawn, and what is found in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.plan_cost import Estimate
from indexing.key_range import KeyRange, KeyRanges
from replay.language.bound import Symbol
from replay.planning.block_ranges import all_blocks, mask_of
from replay.planning.correction import touched_blocks
from replay.planning.intervals import replay_stretches
from replay.planning.plan import Condition
from replay.planning.requests import index_conditions
from replay.planning.sampling import (
    BUCKETS_MIN,
    EVEN_SHARE,
    Sample,
    draw,
    evaluate,
    sampled_attributes,
)
from replay.planning.shape import to_shape
from tests.unit.planning.array_streams import ArrayStream, conditions_of, gapped, plan_of
from tests.unit.planning.streams import (
    SmallStatistics,
    compare,
    conditions,
    patterns,
    query_of,
    rows,
    seq,
    star,
)

NOTHING = Estimate(0.0, 0.0, 0.0, 0.0, 0.0)


def stream_of(n_blocks: int, block_events: int = 64) -> ArrayStream:
    zeros = np.zeros(n_blocks * block_events, dtype=np.int64)
    return ArrayStream({"a": zeros, "b": zeros}, block_events)


def draw_evenly(stream: ArrayStream, **knobs: int | None) -> tuple[Sample | None, str]:
    given_knobs = {"within": 1, "rows": None, "n_blocks_max": 32, **knobs}
    return draw(all_blocks(stream.n_blocks), stream.leaves, np.ones(stream.n_blocks), **given_knobs)


def test_equal_arguments_draw_the_same_and_another_seed_something_else() -> None:
    stream = stream_of(1000)
    first, again, other = (draw_evenly(stream, seed=seed)[0] for seed in (7, 7, 8))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.blocks.tolist() == again.blocks.tolist()
    assert first.weight.tolist() == again.weight.tolist()
    assert first.blocks.tolist() != other.blocks.tolist()


def test_places_are_drawn_in_proportion_to_expected_cost() -> None:
    """One place in ten costs nine times as much: half of the cost is there."""
    stream = stream_of(400)
    dear = np.repeat(np.arange(100) % 10 == 0, 4)
    cost = np.where(dear, 9.0, 1.0)
    drawn = np.zeros(100)
    for seed in range(200):
        sample, _ = draw(
            all_blocks(400),
            stream.leaves,
            cost,
            within=1,
            rows=None,
            n_blocks_max=32,
            seed=seed,
        )
        assert sample is not None
        # A dear place has 36 of the total cost of 720, a cheap one 4.
        probability = np.where(dear[::4], 36, 4) / 720 * (1 - EVEN_SHARE) + EVEN_SHARE / 100
        places = sample.core[:, 0] // 4
        drawn[places] += np.rint(sample.weight * 8 * probability[places])
    share = drawn[dear[::4]].sum() / drawn.sum()
    # Half of the cost is dear: 0.9 of the draws follow it, and a tenth of the even ones is dear.
    assert share == pytest.approx(0.5 * 0.9 + 0.1 * 0.1, abs=0.03)


def test_weights_estimate_a_total_without_bias() -> None:
    """The weighted sum over samples of a known amount per block has the true total as its mean."""
    stream = stream_of(240)
    rng = np.random.default_rng(5)
    cost, amount = rng.random(240) ** 3, rng.random(240)
    totals = []
    for seed in range(600):
        sample, _ = draw(
            all_blocks(240), stream.leaves, cost, within=1, rows=None, n_blocks_max=24, seed=seed
        )
        assert sample is not None
        parts = [amount[a:b].sum() for a, b in sample.core.tolist()]
        totals.append(float(sample.weight @ parts))
    error = np.std(totals) / np.sqrt(len(totals))
    assert np.mean(totals) == pytest.approx(amount.sum(), abs=4 * error)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=6),
    st.integers(0, 400),
    st.integers(8, 40),
    st.integers(0, 5),
)
def test_a_sample_keeps_the_budget_and_the_stretches(
    spans: list[tuple[int, int]], within: int, n_blocks_max: int, seed: int
) -> None:
    edges = np.cumsum(np.array(spans).ravel())
    stretches = np.stack((edges[0::2], edges[1::2]), axis=1)
    stream = stream_of(int(edges[-1]) + 3)
    cost = np.random.default_rng(seed).random(stream.n_blocks)
    sample, why = draw(
        stretches,
        stream.leaves,
        cost,
        within=within,
        rows=None,
        n_blocks_max=n_blocks_max,
        seed=seed,
    )
    assert why
    if sample is None:
        return
    assert len(sample.blocks) <= n_blocks_max
    inside = mask_of(stretches, stream.n_blocks)
    assert inside[sample.blocks].all()
    assert (sample.read[:, 0] <= sample.core[:, 0]).all()
    assert (sample.core[:, 1] <= sample.read[:, 1]).all()
    assert (np.diff(sample.core[:, 0]) > 0).all()
    # A window that crosses from the core to a neighbour in its stretch finds that neighbour read.
    for (a, b), (c, d) in zip(sample.read.tolist(), sample.core.tolist(), strict=True):
        if within * 16 > (d - c) * 64 and a > 0 and inside[a - 1]:
            assert c * 64 - within > a * 64 - 1
        if within * 16 > (d - c) * 64 and b < stream.n_blocks and inside[b]:
            assert d * 64 - 1 + within < b * 64


def test_a_window_too_long_for_the_budget_draws_nothing_and_says_so() -> None:
    sample, why = draw_evenly(stream_of(1000), within=64 * 10)
    assert sample is None
    # 10 blocks on each side of a core of 4.
    assert "a place takes 24 blocks" in why
    assert f"{BUCKETS_MIN} of them do not fit into the 32" in why


def test_places_of_unequal_length_keep_the_budget_too() -> None:
    """A window spans one block on each side where events are slow, ten where they are fast."""
    slow = np.repeat(np.random.default_rng(4).random(40) < 0.5, 40)
    ends = np.cumsum(np.where(slow, 640, 64))
    leaves = replace(stream_of(1600).leaves, t_min=ends - np.where(slow, 640, 64), t_max=ends - 1)
    n_read = []
    for seed in range(50):
        sample, why = draw(
            all_blocks(1600),
            leaves,
            np.ones(1600),
            within=640,
            rows=None,
            n_blocks_max=64,
            seed=seed,
        )
        if sample is None:
            assert "do not fit" in why
            continue
        n_read.append(len(sample.blocks))
    assert len(n_read) > 25
    assert max(n_read) <= 64
    assert len(set(n_read)) > 1


def test_rows_bound_a_place_as_time_does() -> None:
    by_time, _ = draw_evenly(stream_of(1000), within=99)
    by_rows, _ = draw_evenly(stream_of(1000), within=None, rows=100)
    assert by_time is not None
    assert by_rows is not None
    assert by_time.read.tolist() == by_rows.read.tolist()


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        pytest.param({"within": None}, "nothing bounds a match", id="no window"),
        pytest.param({"n_blocks_max": 1000}, "only 1000 blocks remain", id="few blocks"),
    ],
)
def test_where_a_sample_says_nothing_none_is_drawn(knobs: dict[str, int], said: str) -> None:
    sample, why = draw_evenly(stream_of(1000), **knobs)
    assert sample is None
    assert said in why


def test_times_too_far_apart_are_not_laid_side_by_side() -> None:
    """Eight places, and a window of 2**59 between any two; the rows bound the places."""
    stream = stream_of(1000)
    stream.leaves.t_max[-1] = 2**61
    sample, why = draw_evenly(stream, within=2**59, rows=2)
    assert sample is None
    assert "too far apart" in why
    sample, _ = draw_evenly(stream, within=2**58, rows=2)
    assert sample is not None


@pytest.mark.parametrize("within", [1, 30, 200])
def test_the_sample_tells_of_its_blocks_what_the_whole_stream_tells(within: int) -> None:
    """Blocks judged are touched in the sample exactly where the plan's intervals touch them.

    Without a margin (a window of 1) those may differ at the rim of a place only.
    """
    rng = np.random.default_rng(3)
    n = 64 * 600
    stream = ArrayStream({"a": (rng.random(n) < 0.005) * 1, "b": (rng.random(n) < 0.02) * 1})
    query = gapped("ab", within)
    shape, usable = conditions_of(query)
    plans = [usable, usable[:1], usable[1:]]
    whole = []
    for plan in plans:
        found = {c.slot: stream.occurrences(c.attribute, c.ranges) for c in plan}
        blocks = replay_stretches(
            plan_of(shape, plan, 600, NOTHING), found, query, stream, bridge_blocks=0
        ).blocks
        whole.append(mask_of(blocks, 600))
    n_touched = 0
    for seed in range(20):
        sample, _ = draw(
            all_blocks(600),
            stream.leaves,
            np.ones(600),
            within=within,
            rows=None,
            n_blocks_max=64,
            seed=seed,
        )
        assert sample is not None
        columns = stream.sample_columns(sample.blocks, sampled_attributes(query, shape, usable))
        events = evaluate(sample, columns, usable, query, shape, stream.leaves)
        touched, is_told = touched_blocks(events, plans)
        assert is_told.all()
        judged = np.concatenate([np.arange(a, b) for a, b in sample.core.tolist()])
        n_touched += int(touched.sum())
        for of_plan, mask in zip(touched, whole, strict=True):
            differs = of_plan != mask[judged]
            rim = np.isin(judged, sample.core[:, 0]) | np.isin(judged, sample.core[:, 1] - 1)
            assert not (differs & ~rim).any() if within == 1 else not differs.any()
    assert n_touched > 100


@given(st.data())
def test_a_sample_of_everything_is_the_stream(data: st.DataObject) -> None:
    """Each place a stretch of its own: what is found there is what the stream has there."""
    # Of a column without any value the type would not be known.
    events = [*data.draw(rows(12)), {"t": 99, "a": 2, "b": 2, "k": 0}]
    composites = data.draw(st.sampled_from([[], [("a", "b")], [("b", "a"), ("a", "k")]]))
    statistics = SmallStatistics(events, 2, "ab", key="k", composites=composites)
    query = query_of(
        data.draw(patterns(3)),
        [data.draw(conditions()) for _ in range(3)],
        within=data.draw(st.integers(0, 12)),
        partition_by=data.draw(st.sampled_from([(), ("k",)])),
    )
    shape = to_shape(query)
    usable = index_conditions(shape, frozenset("ab"), statistics.composites)
    if not usable or shape.is_impossible:
        return
    n = statistics.n_blocks
    whole = np.array([[0, n]])
    sample = Sample(whole, whole, np.ones(1), n)
    names = sampled_attributes(query, shape, usable, "k")
    sampled = evaluate(
        sample,
        statistics.sample_columns(sample.blocks, names),
        usable,
        query,
        shape,
        statistics.leaves,
        key="k",
    )
    touched, is_told = touched_blocks(sampled, [usable])
    plan = plan_of(shape, usable, n, NOTHING)
    found = replay_stretches(plan, statistics.look_up(plan), query, statistics, bridge_blocks=0)
    assert is_told.all()
    assert touched[0].tolist() == mask_of(found.blocks, n).tolist()


def test_an_event_that_two_places_read_is_there_twice() -> None:
    """Two events a block: rows 2 to 5 are read for both places, and row 3 among them."""
    column = np.zeros(8, dtype=np.int64)
    column[[0, 3]] = 1
    stream = ArrayStream({"a": column, "b": column}, block_events=2)
    query = gapped("ab", 3)
    shape, usable = conditions_of(query)
    read, core = np.array([[0, 3], [1, 4]]), np.array([[0, 1], [3, 4]])
    sample = Sample(read, core, np.ones(2), 4)
    columns = stream.sample_columns(sample.blocks, sampled_attributes(query, shape, usable))
    events = evaluate(sample, columns, usable[:1], query, shape, stream.leaves)
    found = events.occurrences[usable[0].lookup]
    block = np.searchsorted(events.leaves.base, found.seq, side="right") - 1
    assert events.place[block].tolist() == [0, 0, 1]
    # The first place begins with row 0, the second with row 2: there row 3 is the second.
    assert found.seq[:2].tolist() == [0, 3]
    second = np.flatnonzero(events.place == 1)[0]
    assert found.seq[2] - events.leaves.base[second] == 1
    assert found.t[2] - events.leaves.t_min[second] == 1


def test_plans_that_share_what_they_join_touch_what_each_touches_alone() -> None:
    """A B next to each other: the block is joined of A, of B, of both and of none."""
    rng = np.random.default_rng(8)
    stream = ArrayStream({name: (rng.random(64 * 40) < 0.03).astype(int) for name in "abc"})
    defines = [compare("=", name, 1) for name in "abc"]
    query = query_of(
        seq(Symbol(0), Symbol(1), star(Symbol(3)), Symbol(2)), [*defines, None], within=30
    )
    shape = to_shape(query)
    usable = index_conditions(shape, frozenset("abc"))
    a, b, c = usable
    whole = np.array([[0, 40]])
    sample = Sample(whole, whole, np.ones(1), 40)
    columns = stream.sample_columns(sample.blocks, sampled_attributes(query, shape, usable))
    events = evaluate(sample, columns, usable, query, shape, stream.leaves)
    plans = [(a,), (a, b), (b,), (a, c), (a, b, c), (b, c), (c,)]
    together, _ = touched_blocks(events, plans)
    for plan, touched in zip(plans, together, strict=True):
        found = {k.slot: stream.occurrences(*k.lookup) for k in plan}
        alone = replay_stretches(
            plan_of(shape, plan, 40, NOTHING), found, query, stream, bridge_blocks=0
        )
        assert touched.tolist() == mask_of(alone.blocks, 40).tolist()
    assert len({touched.tobytes() for touched in together}) > 4


def strings_of(values: list[str | None]) -> pa.Array:
    return pa.array(values).dictionary_encode()


@pytest.mark.parametrize(
    ("column", "ranges", "rows_inside"),
    [
        pytest.param(
            pa.array([1, None, 3, 4, 5, 6, 7, 8]), KeyRange(3, 5), [2, 3, 4], id="integers"
        ),
        pytest.param(
            pa.array([0.5, None, float("nan"), -0.0, 2.5, 9.0, 9.0, 9.0]),
            KeyRange(0.0, 2.5, True, False),
            [0, 3],
            id="doubles",
        ),
        pytest.param(
            strings_of(["b", None, "a", "c", "b", None, "d", "a"]),
            KeyRange("b", "c"),
            [0, 3, 4],
            id="strings in a dictionary",
        ),
        pytest.param(
            pa.array([True, False, None, True, False, False, False, False]),
            KeyRange(1, 1),
            [0, 3],
            id="booleans",
        ),
    ],
)
def test_events_are_found_as_an_index_would_find_them(
    column: pa.Array, ranges: KeyRange, rows_inside: list[int]
) -> None:
    stream = stream_of(4, 2)
    query = query_of(seq(), [], within=3)
    condition = Condition(0, "A", "x", KeyRanges((ranges,)))
    whole = np.array([[0, 4]])
    sample = Sample(whole, whole, np.ones(1), 4)
    columns = {"t": pa.array(stream.columns["t"]), "x": column}
    events = evaluate(sample, columns, [condition], query, to_shape(query), stream.leaves)
    assert events.occurrences[condition.lookup].seq.tolist() == rows_inside


def test_a_condition_whose_column_is_not_there_is_not_told() -> None:
    stream = stream_of(100)
    query = gapped("ab", 5)
    shape, usable = conditions_of(query)
    sample, _ = draw_evenly(stream)
    assert sample is not None
    columns = stream.sample_columns(sample.blocks, ["t", "a"])
    events = evaluate(sample, columns, usable, query, shape, stream.leaves)
    assert events.tells(usable[:1])
    assert not events.tells(usable)


def test_candidates_agree_on_the_key_in_a_sample_too() -> None:
    """A and B of different keys are no candidate; without the keys the plan is not told."""
    events = [{"t": i, "a": i % 2, "b": 0, "k": i % 2} for i in range(8)]
    statistics = SmallStatistics(events, 2, "ab", key="k")
    query = query_of(
        gapped("ab", 4).pattern,
        [compare("=", "a", 1), compare("=", "a", 0), None],
        within=4,
        partition_by=("k",),
    )
    shape = to_shape(query)
    usable = index_conditions(shape, frozenset("a"))
    whole = np.array([[0, 4]])
    sample = Sample(whole, whole, np.ones(1), 4)
    names = sampled_attributes(query, shape, usable, "k")
    assert set(names) == {"t", "a", "k"}
    columns = dict(statistics.sample_columns(sample.blocks, names))
    arguments = (usable, query, shape, statistics.leaves)
    with_keys = evaluate(sample, columns, *arguments, key="k")
    assert with_keys.tells(usable)
    assert not touched_blocks(with_keys, [usable])[0].any()
    del columns["k"]
    without = evaluate(sample, columns, *arguments, key="k")
    assert not without.tells(usable)
