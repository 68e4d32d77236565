"""Candidates of one key: the sweep of many partitions at once, where it is large or impossible."""

from __future__ import annotations

import numpy as np
import pytest

from replay.language.bound import Symbol
from replay.patterns.requirements import requirements
from replay.planning.hits import BlockHits
from replay.planning.key_join import COUNTED_MIN, link_by_key, tells_keys
from tests.unit.planning.streams import compare, query_of, seq

A, B = Symbol(0), Symbol(1)
DEFINES = [compare("=", "a", 0), compare("=", "b", 0)]


def hits(position: int, seqs: np.ndarray, keys: np.ndarray) -> BlockHits:
    return BlockHits(position, position + 1, position, position, seqs, seqs, seqs, keys)


def by_hand(first: BlockHits, last: BlockHits, within: int) -> dict[int, tuple[int, int]]:
    """Return for each start its first and last end, tried one by one."""
    ends: dict[int, dict[int, int]] = {}
    for j, (end, key) in enumerate(zip(last.start.tolist(), last.keys.tolist(), strict=True)):
        ends.setdefault(key, {})[end] = j
    found = {}
    for i, (start, key) in enumerate(zip(first.start.tolist(), first.keys.tolist(), strict=True)):
        near = [j for end, j in ends.get(key, {}).items() if start < end <= start + within]
        if near:
            found[i] = min(near), max(near)
    return found


@pytest.mark.parametrize("n_keys", [1, 7, 2000])
def test_starts_have_the_first_and_last_end_of_their_key(n_keys):
    random = np.random.default_rng(n_keys)
    n_events, within = 40_000, 3_000
    seqs = [np.flatnonzero(random.random(n_events) < 0.1) for _ in range(2)]
    assert min(map(len, seqs)) > COUNTED_MIN
    first, last = (
        hits(position, chosen, random.integers(0, n_keys, len(chosen)))
        for position, chosen in enumerate(seqs)
    )
    in_time = np.searchsorted(last.start, first.start + within, side="right")
    starts, earliest, latest = link_by_key([first, last], n_events, in_time)
    found = zip(starts.tolist(), earliest.tolist(), latest.tolist(), strict=True)
    assert {i: (a, b) for i, a, b in found} == by_hand(first, last, within)


def test_keys_are_not_told_apart_where_one_integer_cannot_hold_key_and_seq():
    seqs, keys = np.array([1, 2]), np.array([0, 1])
    assert link_by_key([hits(0, seqs, keys), hits(1, seqs, keys)], 2**61, None) is None


@pytest.mark.parametrize(
    ("partition_by", "key", "expected"),
    [
        pytest.param(("k",), "k", True, id="the-key"),
        pytest.param(("b", "k"), "k", True, id="the-key-among-others"),
        pytest.param(("b",), "k", False, id="another-column"),
        pytest.param((), "k", False, id="no-partitions"),
        pytest.param(("k",), None, False, id="no-key-column"),
    ],
)
def test_keys_are_asked_for_where_partitions_are_at_least_as_fine(partition_by, key, expected):
    shape = requirements(query_of(seq(A, B), DEFINES, partition_by=partition_by))
    assert tells_keys(shape, key) is expected
