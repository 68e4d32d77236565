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
from replay.planning.ascending import saturating_add
from replay.planning.coarse_map import cut_to_ends, draw_coarse_map
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


def within(window: int | None, *parts):
    """Return a query whose A and B are their letters; C is any row."""
    return query_of(seq(*parts), [EQUALS[0], EQUALS[1], None], within=window)


def stretches_shown(query, shown: str, step: int = 1) -> str:
    """Return the blocks of a stream, those that remain in brackets."""
    blocks = shown.replace("[", "").replace("]", "").split()
    statistics = SmallStatistics(stream("".join(blocks), step), [len(block) for block in blocks])
    for first, stop in stretches_of(query, statistics):
        blocks[first] = f"[{blocks[first]}"
        blocks[stop - 1] += "]"
    return " ".join(blocks)


ANY, EITHER = star(C), [compare(">=", "a", 0)] * 2
EXAMPLES = {
    "between its symbols": (within(99, A, ANY, B), ".... [A... .... ...B] .... A..."),
    "over the border of neighbours": (within(None, A, B), "[...A B...]"),
    "not over a block between them": (within(None, A, B), "...A .... B..."),
    "in the block of both": (within(None, A, B), ".... [.AB.]"),
    "up to any block of its end": (within(99, A, ANY, B), ".... [A... B... .... B...] ...."),
    "in a block of two events": (within(None, A, B), ".. [AB] .."),
    "never in a block of one": (query_of(seq(A, B), EITHER), "A ."),
    "in as many rows as it has": (within(None, A, Repeat(C, 0, 20), B), "[A... .... .... B...]"),
    "in no more rows": (within(None, A, Repeat(C, 0, 3), B), "A... .... .... B..."),
    "in order": (within(None, A, ANY, B), ".... [A... .... B...] ...."),
    "in no other order": (within(None, A, ANY, B), ".... B... .... A... ...."),
    # The block of A is [12, 15]: 5 before its least time is 7, 5 after its greatest is 20.
    "a window before A": (within(5, ANY, A), ".... [.... .... A...] .... .... ...."),
    "a window behind A": (within(5, A, ANY), ".... .... .... [A... .... ....] ...."),
    "not where there are too few events": (within(None, Repeat(A, 9, None)), "AA A"),
}


@pytest.mark.parametrize(("query", "shown"), EXAMPLES.values(), ids=EXAMPLES)
def test_pattern_can_lie(query, shown):
    assert stretches_shown(query, shown) == shown


def test_window_cuts_chains_that_are_too_long():
    # Block 0 ends at 30, block 2 begins at 80: a window of 50 still reaches, one of 49 does not.
    for window, shown in ((50, "[A... .... ...B]"), (49, "A... .... ...B")):
        assert stretches_shown(within(window, A, ANY, B), shown, step=10) == shown
    # Blocks of one event that all admit both symbols.
    for window, shown in ((10, "[A A A]"), (9, "A A A")):
        assert stretches_shown(query_of(seq(A, B), EITHER, within=window), shown, step=10) == shown


def test_block_nothing_is_known_of_may_hold_anything():
    statistics = SmallStatistics(stream("...." * 3), 4, unknown_blocks=[1])
    assert stretches_of(query_of(A, EQUALS[:1]), statistics) == [[1, 2]]


def test_range_on_the_time_column_uses_the_leaves():
    query = query_of(A, [compare(">", "t", 8)])
    assert stretches_of(query, SmallStatistics(stream("...." * 3), 4)) == [[2, 3]]


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
    query = within(20, A, ANY, B)
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
    query = within(window, *([ANY] if ends_open else []), A, ANY, B)
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


@pytest.mark.parametrize(
    ("r", "expected"),
    [
        (KeyRange(1, None, low_closed=False), [False, False, True]),
        (KeyRange(None, 1, high_closed=False), [True, False, False]),
    ],
)
def test_exact_borders_of_a_range_decide(r, expected):
    bounds = SmallStatistics(stream("AABBCC"), 2).bounds("a")
    assert may_contain(KeyRanges((r,)), bounds).tolist() == expected


@pytest.mark.parametrize("delta", [0, 1, -1, 2**62, -(2**62), 2**70, -(2**70)])
def test_sums_of_times_never_wrap(delta):
    info = np.iinfo(np.int64)
    times = [info.min, -5, 0, 5, info.max]
    added = min(max(delta, -info.max), info.max)
    expected = [min(max(t + added, info.min), info.max) for t in times]
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
    nulls = SmallStatistics([{"t": i, "a": None} for i in range(4)], 2).bounds("a")
    assert may_contain(KeyRanges((KeyRange("b", "b"),)), nulls).tolist() == [False, False]


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
