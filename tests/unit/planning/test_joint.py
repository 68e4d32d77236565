"""Conditions that hold together: what a sample shows of all sets of a basic block's conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from costmodel.features import PlanFeatures
from replay.language.bound import BoundPatternQuery, Symbol
from replay.planning.block_ranges import all_blocks
from replay.planning.joint import with_lifts
from replay.planning.sampling import draw, evaluate, sampled_attributes
from tests.unit.planning.array_streams import (
    BLOCK,
    ArrayStream,
    conditions_of,
    features_of,
)
from tests.unit.planning.streams import both, compare, query_of, seq, star

N_BLOCKS = 800
N_EVENTS = N_BLOCKS * BLOCK
WITHIN = 20


def one_event(names: str) -> BoundPatternQuery:
    """Return ``A Z* B`` where A is ``a = 1 AND b = 1 AND …`` and B is ``d = 1``."""
    conditions = [compare("=", name, 1) for name in names]
    joined = both(*conditions) if len(conditions) > 1 else conditions[0]
    pattern = seq(Symbol(0), star(Symbol(2)), Symbol(1))
    return query_of(pattern, [joined, compare("=", "d", 1), None], within=WITHIN)


def in_a_row(names: str) -> BoundPatternQuery:
    """Return ``A B C …`` where each symbol bounds its own attribute."""
    return query_of(
        seq(*(Symbol(i) for i in range(len(names)))),
        [compare("=", name, 1) for name in names],
        within=WITHIN,
    )


def lifted(
    query: BoundPatternQuery, stream: ArrayStream, shares: Sequence[float]
) -> tuple[PlanFeatures, PlanFeatures]:
    """Return the features before and after a look at a sample of 256 blocks."""
    shape, usable = conditions_of(query)
    features = replace(
        features_of(stream),
        block_lengths=np.array([z - a for a, z in shape.blocks]),
        basic_block=np.array([shape.block_at[c.position] for c in usable]),
        lookup=np.arange(len(usable)),
        lookup_entries=np.array(shares) * N_EVENTS,
        window_events=np.array([float(WITHIN)]),
        density=np.array([shares]),
        block_density=np.full((1, len(shape.blocks)), 0.5),
    )
    sample, said = draw(
        all_blocks(N_BLOCKS),
        stream.leaves,
        np.ones(N_BLOCKS),
        within=WITHIN,
        rows=None,
        n_blocks_max=256,
    )
    assert sample is not None, said
    columns = stream.sample_columns(sample.blocks, sampled_attributes(query, shape, usable))
    events = evaluate(sample, columns, usable, query, shape, stream.leaves)
    segment = np.zeros(N_BLOCKS, dtype=np.int64)
    return features, with_lifts(features, usable, shape.blocks, segment, events)


def independent(names: str, share: float, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: (rng.random(N_EVENTS) < share).astype(np.int64) for name in names}


def test_conditions_that_exclude_each_other_are_known_to_leave_nothing() -> None:
    columns = independent("abcd", 0.2, 1)
    columns["b"] = np.where(columns["a"] == 1, 0, columns["b"])
    stream = ArrayStream(columns)
    shares = [float(columns[name].mean()) for name in "abcd"]
    _, after = lifted(one_event("abc"), stream, shares)
    lift = after.lifts[0]
    # Bits: a, b, c. About 16,000 events are judged, of which chance would give 500 a and b.
    assert lift[0b011] < np.log(0.01)
    assert lift[0b111] < np.log(0.02)
    assert abs(lift[0b101]) < 0.35
    assert abs(lift[0b110]) < 0.35
    assert lift[[0b000, 0b001, 0b010, 0b100]].tolist() == [0.0] * 4
    assert after.block_density[0, 0] < 0.02
    assert len(after.lifts[1]) == 0


def test_conditions_that_always_come_together_are_as_frequent_as_one_of_them() -> None:
    columns = independent("abcd", 0.05, 2)
    columns["b"] = columns["c"] = columns["a"]
    stream = ArrayStream(columns)
    _, after = lifted(one_event("abc"), stream, [0.05] * 4)
    together = np.exp(after.lifts[0][[0b011, 0b101, 0b110]]) * 0.05**2
    assert together == pytest.approx([0.05] * 3, rel=0.25)
    assert np.exp(after.lifts[0][0b111]) * 0.05**3 == pytest.approx(0.05, rel=0.25)


def test_independent_conditions_stay_so() -> None:
    n_changed = 0
    for seed in range(20):
        columns = independent("abcd", 0.1, seed)
        before, after = lifted(one_event("abc"), ArrayStream(columns), [0.1] * 4)
        if after is before:
            continue
        n_changed += 1
        assert np.abs(after.lifts[0]).max() < 0.4
    # Four sets, of which chance puts one in twenty beyond two standard deviations.
    assert n_changed <= 10


def test_rows_of_a_basic_block_are_counted_at_their_distance() -> None:
    columns = independent("abc", 0.05, 3)
    columns["b"] = np.append(0, columns["a"][:-1])
    stream = ArrayStream(columns)
    _, after = lifted(in_a_row("abc"), stream, [0.05] * 3)
    assert np.exp(after.lifts[0][0b011]) * 0.05**2 == pytest.approx(0.05, rel=0.25)
    assert abs(after.lifts[0][0b110]) < 0.5


def test_more_conditions_are_never_expected_more_often_than_fewer() -> None:
    rng = np.random.default_rng(5)
    base = rng.random(N_EVENTS)
    columns = {name: (base + 0.3 * rng.random(N_EVENTS) < 0.3).astype(np.int64) for name in "abcd"}
    shares = [float(columns[name].mean()) for name in "abcd"]
    _, after = lifted(one_event("abcd"[:3]), ArrayStream(columns), shares)
    logs = np.log(shares[:3])
    together = {
        places: sum(logs[p] for p in places) + after.lifts[0][sum(1 << p for p in places)]
        for n in (1, 2, 3)
        for places in combinations(range(3), n)
    }
    for places, value in together.items():
        for fewer in combinations(places, len(places) - 1):
            if fewer:
                assert value <= together[fewer] + 1e-9
