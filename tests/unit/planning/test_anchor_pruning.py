"""Stretches cut down to where the stream begins or ends, held to every window there is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.language.bound import (
    Alternate,
    Concat,
    Edge,
    EdgeKind,
    Exclusion,
    Negation,
    Repeat,
    Symbol,
)
from replay.patterns.requirements import requirements
from replay.planning.coarse_map import cut_to_ends
from tests.unit.planning.streams import SmallLeaves, query_of

A, B = Symbol(0), Symbol(1)
START, END = Edge(EdgeKind.START), Edge(EdgeKind.END)


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [
        (A, False),
        (START, True),
        (END, False),
        (Negation(0), False),
        (Concat((A, START, B)), True),
        (Concat((START, A, END)), True),
        (Concat(()), False),
        (Alternate((Concat((START, A)), B)), False),
        (Alternate((Concat((START, A)), Concat((START, B)))), True),
        (Repeat(Concat((START, A)), 0, 1), False),
        (Repeat(Concat((START, A)), 1, None), True),
        (Exclusion(Concat((START, A))), True),
    ],
)
def test_a_pattern_needs_an_edge_that_no_mapping_goes_around(pattern, needs) -> None:
    assert requirements(query_of(pattern, [None, None])).at_start is needs


def leaves_of(times: list[int], size: int) -> SmallLeaves:
    blocks = [times[i : i + size] for i in range(0, len(times), size)]
    return SmallLeaves(
        np.array([len(block) for block in blocks]),
        np.append(np.arange(0, len(times), size), len(times)),
        np.array([block[0] for block in blocks]),
        np.array([block[-1] for block in blocks]),
        np.zeros(len(blocks), np.int64),
    )


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=20),
    st.integers(1, 4),
    st.sampled_from([(START, A), (A, END), (START, A, END), (A, B)]),
    st.one_of(st.none(), st.integers(0, 6), st.just(2**63 - 1)),
    st.one_of(st.none(), st.integers(1, 5)),
)
def test_what_is_left_holds_every_window_at_the_ends(gaps, size, parts, within, rows) -> None:
    times = np.cumsum(gaps).tolist()
    query = query_of(Concat((*parts, Repeat(B, 0, rows))), [None, None], within=within)
    shape = requirements(query)
    leaves = leaves_of(times, size)
    n = len(times)
    whole = np.array([[0, len(leaves.count)]])
    left = cut_to_ends(whole, shape, leaves)
    # All runs of rows that could be a match, by its length in time and rows alone.
    needed = {
        row // size
        for first in ([0] if START in parts else range(n))
        for last in ([n - 1] if END in parts else range(n))
        if first <= last
        and (within is None or times[last] - times[first] <= within)
        and (rows is None or last - first < shape.rows_max)
        for row in range(first, last + 1)
    }
    covered = {block for low, high in left.tolist() for block in range(low, high)}
    assert needed <= covered
    if END not in parts or START not in parts:
        assert covered == needed
    partitioned = replace(query, partition_by=("k",))
    assert np.array_equal(cut_to_ends(whole, requirements(partitioned), leaves), whole)


def test_times_near_the_ends_of_their_range_do_not_overflow() -> None:
    most = np.iinfo(np.int64).max
    leaves = leaves_of([-most, 0, most], 1)
    for parts, left in (((START, A), [[0, 2]]), ((A, END), [[1, 3]])):
        query = query_of(Concat((*parts, Repeat(B, 0, None))), [None, None], within=most)
        found = cut_to_ends(np.array([[0, 3]]), requirements(query), leaves)
        assert found.tolist() == left
