"""Coarse pattern map: no match is lost, and what cannot match is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.key_range import KeyRange, KeyRanges
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
from replay.planning import coarse_map
from replay.planning.coarse_map import cut_to_ends, draw_coarse_map, saturating_add
from replay.planning.extremes import may_contain
from tests.oracles.intervals import deciding_rows, matches
from tests.unit.planning.streams import (
    SmallLeaves,
    SmallStatistics,
    compare,
    conditions,
    contains,
    is_in,
    patterns,
    query_of,
    rows,
    seq,
    star,
    strategy_queries,
)

A, B, C = (Symbol(i) for i in range(3))
EQUALS = [compare("=", "a", i) for i in range(3)]


def stretches_of(query, statistics) -> list[list[int]]:
    return draw_coarse_map(requirements(query), statistics).stretches.tolist()


def stream(letters: str, step: int = 1) -> list[dict]:
    """One event a letter: A, B and C are a = 0, 1, 2; a point has no value."""
    values = {"A": 0, "B": 1, "C": 2, ".": None}
    return [{"t": i * step, "a": values[x], "b": 0, "k": 0} for i, x in enumerate(letters)]


def test_only_blocks_in_which_the_pattern_can_lie_remain():
    #        0    1    2    3    4    5    6
    rows_ = stream("...." + "A..." + "...." + "...B" + "...." + "A..." + "....")
    statistics = SmallStatistics(rows_, 4)
    query = query_of(seq(A, star(C), B), [EQUALS[0], EQUALS[1], None], within=100)
    assert stretches_of(query, statistics) == [[1, 4]]


def test_window_cuts_chains_that_are_too_long():
    rows_ = stream("A..." + "...." + "...B", step=10)
    query = seq(A, star(C), B)
    defines = [EQUALS[0], EQUALS[1], None]
    # Block 0 ends at 30, block 2 begins at 80: a window of 50 still reaches, one of 49 does not.
    assert stretches_of(query_of(query, defines, within=50), SmallStatistics(rows_, 4)) == [[0, 3]]
    assert stretches_of(query_of(query, defines, within=49), SmallStatistics(rows_, 4)) == []


def test_adjacent_symbols_stay_in_a_block_or_go_on_to_the_next():
    query = query_of(seq(A, B), EQUALS[:2])
    assert stretches_of(query, SmallStatistics(stream("...A" + "B..."), 4)) == [[0, 2]]
    assert stretches_of(query, SmallStatistics(stream("...A" + "...." + "B..."), 4)) == []
    assert stretches_of(query, SmallStatistics(stream("...." + ".AB."), 4)) == [[1, 2]]


def test_match_may_end_in_any_block_its_end_may_lie_in():
    rows_ = stream("...." + "A..." + "B..." + "...." + "B..." + "....")
    query = query_of(seq(A, star(C), B), [EQUALS[0], EQUALS[1], None], within=100)
    assert stretches_of(query, SmallStatistics(rows_, 4)) == [[1, 5]]


def test_block_of_two_events_holds_two_symbols():
    query = query_of(seq(A, B), EQUALS[:2])
    assert stretches_of(query, SmallStatistics(stream("..AB.."), 2)) == [[1, 2]]


def test_block_of_one_event_holds_one_symbol():
    # x admits both symbols, but a block of one event cannot hold two of them.
    query = query_of(seq(A, B), [compare(">=", "a", 0)] * 2)
    assert stretches_of(query, SmallStatistics(stream("A."), 1)) == []


def test_blocks_of_one_event_that_all_admit_both_symbols_may_lie_too_far_apart():
    query = seq(A, B)
    defines = [compare(">=", "a", 0)] * 2
    for within, expected in ((9, []), (10, [[0, 3]])):
        statistics = SmallStatistics(stream("AAA", step=10), 1)
        assert stretches_of(query_of(query, defines, within=within), statistics) == expected


def test_bounded_pattern_without_time_window_has_a_window_in_rows():
    rows_ = stream("A..." + "...." + "...." + "B...")
    near = query_of(seq(A, Repeat(C, 0, 20), B), [EQUALS[0], EQUALS[1], None])
    far = query_of(seq(A, Repeat(C, 0, 3), B), [EQUALS[0], EQUALS[1], None])
    assert stretches_of(near, SmallStatistics(rows_, 4)) == [[0, 4]]
    assert stretches_of(far, SmallStatistics(rows_, 4)) == []


def test_unbounded_pattern_keeps_order_only():
    query = query_of(seq(A, star(C), B), [EQUALS[0], EQUALS[1], None])
    after = SmallStatistics(stream("...." + "A..." + "...." + "B..." + "...."), 4)
    before = SmallStatistics(stream("...." + "B..." + "...." + "A..." + "...."), 4)
    assert stretches_of(query, after) == [[1, 4]]
    assert stretches_of(query, before) == []


def test_optional_ends_reach_as_far_as_the_window():
    rows_ = stream("...." * 3 + "A..." + "...." * 3, step=1)
    ahead = query_of(seq(star(C), A), [EQUALS[0], None, None], within=5)
    behind = query_of(seq(A, star(C)), [EQUALS[0], None, None], within=5)
    statistics = SmallStatistics(rows_, 4)
    # Block 3 is [12, 15]: 5 before its least time is 7, in block 1; 5 after its greatest is 20.
    assert stretches_of(ahead, statistics) == [[1, 4]]
    assert stretches_of(behind, statistics) == [[3, 6]]


def test_block_nothing_is_known_of_may_hold_anything():
    statistics = SmallStatistics(stream("...." * 3), 4, unknown_blocks=[1])
    assert stretches_of(query_of(A, EQUALS[:1]), statistics) == [[1, 2]]


def test_range_on_the_time_column_uses_the_leaves():
    query = query_of(A, [compare(">", "t", 8)])
    assert stretches_of(query, SmallStatistics(stream("...." * 3), 4)) == [[2, 3]]


def test_pattern_longer_than_the_stream_leaves_nothing():
    assert (
        stretches_of(query_of(Repeat(A, 9, None), [None]), SmallStatistics(stream("AAA"), 2)) == []
    )


def test_empty_stream_has_no_stretch():
    assert stretches_of(query_of(A, EQUALS[:1]), SmallStatistics([], 4)) == []


# ---------------------------------------------------------------------------------------------
# Levels: coarse buckets first, blocks only under those that survive.


@contextmanager
def levels(width: int, blocks: int) -> Iterator[None]:
    """Make streams of a few blocks as high as those of many thousand."""
    with (
        patch.object(coarse_map, "LEVEL_WIDTH", width),
        patch.object(coarse_map, "LEVEL_BLOCKS", blocks),
    ):
        yield


LEVELS = st.sampled_from([(32, 8192)]) | st.tuples(st.integers(2, 4), st.integers(1, 4))


@given(
    patterns(3),
    st.lists(st.none() | conditions(3), min_size=3, max_size=3),
    rows(n_max=20),
    st.integers(1, 4),
    st.none() | st.integers(0, 12),
    st.booleans(),
    LEVELS,
)
def test_every_match_lies_in_one_stretch(
    pattern, defines, stream, block, within, partitioned, height
):
    query = query_of(pattern, defines, within=within, partition_by=("k",) if partitioned else ())
    shape = requirements(query)
    if shape.rows_min == 0:
        return
    statistics = SmallStatistics(stream, block)
    with levels(*height):
        stretches = draw_coarse_map(shape, statistics).stretches
    for _, at in matches(query, stream, length_max=4):
        assert contains(stretches, statistics, at[0], at[-1])


@given(strategy_queries(), rows(n_max=20), st.integers(1, 2), LEVELS)
def test_every_row_that_decides_over_a_match_lies_in_its_stretch(query, stream, block, height):
    statistics = SmallStatistics(stream, block)
    with levels(*height):
        stretches = draw_coarse_map(requirements(query), statistics).stretches
    for word, at in matches(query, stream, length_max=4):
        assert contains(stretches, statistics, *deciding_rows(query, stream, word, at))


def test_blocks_are_looked_at_only_under_coarse_buckets_that_survive():
    # Of eight coarse buckets of four blocks only the third has an A, and only there a B follows.
    blocks = ["...."] * 32
    blocks[9], blocks[10], blocks[25] = "A...", "..B.", "B..."
    statistics = SmallStatistics(stream("".join(blocks)), 4)
    query = query_of(seq(A, star(C), B), [EQUALS[0], EQUALS[1], None], within=20)
    looked_at = []
    sweep = coarse_map._sweep

    def counted(shape, masks, buckets):
        looked_at.append(len(buckets))
        return sweep(shape, masks, buckets)

    with levels(4, 8), patch.object(coarse_map, "_sweep", counted):
        assert stretches_of(query, statistics) == [[9, 11]]
    assert looked_at == [8, 4]


@pytest.mark.parametrize(("first", "second"), [(11, 12), (8, 11), (11, 15), (0, 1), (30, 31)])
@pytest.mark.parametrize("ends_open", [False, True])
def test_coarse_buckets_reach_as_far_as_any_of_their_blocks(first, second, ends_open):
    # An event each time unit, four a block: A begins its block, B ends its own.
    blocks = ["...."] * 32
    blocks[first], blocks[second] = "A...", "...B"
    statistics = SmallStatistics(stream("".join(blocks)), 4)
    window = 4 * (second - first) + 3
    parts = [star(C), A, star(C), B] if ends_open else [A, star(C), B]
    query = query_of(seq(*parts), [EQUALS[0], EQUALS[1], None], within=window)
    with levels(4, 2):
        stretches = stretches_of(query, statistics)
    assert any(a <= first and second < b for a, b in stretches)


def test_a_coarse_bucket_of_single_events_holds_a_chain():
    # A B are neighbours; each block has one event, each coarse bucket two.
    statistics = SmallStatistics(stream("." * 8 + "AB" + "." * 6), 1)
    query = query_of(seq(A, B), EQUALS[:2])
    with levels(2, 4):
        assert stretches_of(query, statistics) == [[8, 10]]


@pytest.mark.parametrize(
    ("n_blocks", "level"), [(0, 0), (4_883, 0), (8_192, 0), (8_193, 1), (100_000, 1), (10**6, 2)]
)
def test_only_long_streams_begin_at_a_higher_level(n_blocks, level):
    # With 32 to one: 1,000,000 blocks, 31,250, 977.
    assert coarse_map.coarsest_level(n_blocks) == level


VALUES = st.one_of(st.none(), st.integers(-3, 3))


@given(
    st.lists(VALUES, min_size=1, max_size=12),
    st.lists(st.tuples(VALUES, VALUES, st.booleans(), st.booleans()), max_size=4),
    st.sampled_from(("int", "float", "string")),
    st.booleans(),
)
def test_no_block_that_holds_a_value_of_the_ranges_is_denied(values, ranges, kind, many):
    convert = {"int": int, "float": lambda v: v / 2, "string": lambda v: f"{v + 3}"}[kind]
    keys = [
        (*(None if v is None else convert(v) for v in (low, high)), a, b)
        for low, high, a, b in ranges
    ]
    points = [KeyRange(convert(v), convert(v)) for v in range(-100, -60)] if many else []
    wanted = KeyRanges.of([KeyRange(*key) for key in keys] + points)
    stream = [{"t": i, "a": None if v is None else convert(v)} for i, v in enumerate(values)]
    statistics = SmallStatistics(stream, 2)
    mask = may_contain(wanted, statistics.bounds("a"))
    for block, (first, last) in enumerate(statistics.blocks):
        if any(is_in(wanted, row["a"]) for row in stream[first:last]):
            assert mask[block]


def test_exact_borders_of_a_range_decide():
    statistics = SmallStatistics(stream("AABBCC"), 2)
    bounds = statistics.bounds("a")
    above = KeyRanges((KeyRange(1, None, False),))
    assert may_contain(above, bounds).tolist() == [False, False, True]
    assert may_contain(KeyRanges((KeyRange(None, 1, True, False),)), bounds).tolist() == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("delta", [0, 1, -1, 2**62, -(2**62), 2**70, -(2**70)])
def test_sums_of_times_never_wrap(delta):
    info = np.iinfo(np.int64)
    times = [info.min, -5, 0, 5, info.max]
    expected = [min(max(t + delta, info.min), info.max) for t in times]
    if abs(delta) > info.max:
        expected = [
            min(max(t + info.max * (1 if delta > 0 else -1), info.min), info.max) for t in times
        ]
    assert saturating_add(np.array(times), delta).tolist() == expected


def test_texts_between_two_extremes_are_met_by_the_block_that_spans_them():
    bounds = SmallStatistics([{"t": i, "a": a} for i, a in enumerate("acegik")], 2).bounds("a")
    # Blocks hold a to c, e to g, i to k. No extreme lies in any of these ranges.
    between = {
        ("b", "b"): [True, False, False],
        ("d", "d"): [False, False, False],
        ("f", "j"): [False, True, True],
        (None, "Z"): [False, False, False],
        ("l", None): [False, False, False],
    }
    for (low, high), expected in between.items():
        assert may_contain(KeyRanges((KeyRange(low, high),)), bounds).tolist() == expected
    open_ends = KeyRanges((KeyRange("c", "e", False, False),))
    assert may_contain(open_ends, bounds).tolist() == [False, False, False]
    many = KeyRanges(tuple(KeyRange(f"d{i:02}", f"d{i:02}") for i in range(20)))
    assert may_contain(many, bounds).tolist() == [False, False, False]
    both = KeyRanges((*many.ranges, KeyRange("j", "j")))
    assert may_contain(both, bounds).tolist() == [False, False, True]


# ---------------------------------------------------------------------------------------------
# Ends of the stream.

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
