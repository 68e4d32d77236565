"""Parts: the blocks that are read through whatever lookups find, and those asked in."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.language.bound import BoundPatternQuery
from replay.planning import parts
from replay.planning.block_ranges import all_blocks, mask_of, ranges_of
from replay.planning.lookup_order import lookups_in_order
from replay.planning.narrowing import Windows
from replay.planning.parts import part_of
from replay.planning.plan import Lookup, Part, Plan
from replay.planning.safety import find_stretches
from tests.unit.planning.array_streams import ArrayStream
from tests.unit.planning.streams import SmallLeaves
from tests.unit.planning.test_safety import Indexes, ones_at, planned


def leaves_of(times: list[list[int]]) -> SmallLeaves:
    """Return the leaves of blocks with these times."""
    count = np.array([len(block) for block in times])
    return SmallLeaves(
        count,
        np.append(0, np.cumsum(count)),
        np.array([block[0] for block in times]),
        np.array([block[-1] for block in times]),
        np.zeros(len(times), dtype=np.int64),
    )


TENS = leaves_of([list(range(10 * b, 10 * b + 10)) for b in range(12)])
"""Twelve blocks of ten events, one a unit of time."""


def part(*wanted: int, within=None, rows=None, stretches=None, leaves=TENS):
    """Return as lists what is asked in and what is read through."""
    n = len(leaves.count)
    stretches = all_blocks(n) if stretches is None else np.array(stretches)
    mask = np.isin(np.arange(n), wanted)
    found = part_of(stretches, mask, leaves, within, rows)
    return None if found is None else tuple(ranges.tolist() for ranges in found)


@pytest.fixture
def short_pieces(monkeypatch):
    monkeypatch.setattr(parts, "PIECE_BLOCKS", 1)


@pytest.mark.usefixtures("short_pieces")
class TestPartOf:
    def test_blocks_within_a_window_are_read_too(self):
        # Rows 40 to 59 reach 35 to 64: the blocks of 30 and 60. Those are asked in all the same.
        assert part(4, 5, within=5) == ([[0, 4], [6, 12]], [[3, 7]])
        assert part(4, 5, within=11) == ([[0, 4], [6, 12]], [[2, 8]])

    def test_a_window_of_rows_reaches_rows(self):
        # Of two rows, the row before and behind; of eleven, ten more; of twelve, eleven.
        assert part(4, rows=2) == ([[0, 4], [5, 12]], [[3, 6]])
        assert part(4, rows=11) == ([[0, 4], [5, 12]], [[3, 6]])
        assert part(4, rows=12) == ([[0, 4], [5, 12]], [[2, 7]])
        assert part(4, rows=1) == ([[0, 4], [5, 12]], [[4, 5]])

    def test_of_two_windows_the_nearer_counts(self):
        assert part(4, within=30, rows=2) == ([[0, 4], [5, 12]], [[3, 6]])
        assert part(4, within=5, rows=40) == ([[0, 4], [5, 12]], [[3, 6]])

    def test_events_of_one_time_are_not_parted(self):
        leaves = leaves_of([[0, 5], [5, 5], [5, 9], [9, 12], [13, 14]])
        assert part(2, within=0, leaves=leaves) == ([[3, 5]], [[0, 4]])
        assert part(4, within=0, leaves=leaves) == ([[0, 4]], [[4, 5]])

    def test_blocks_that_windows_reach_throughout_are_not_asked_in(self):
        assert part(3, 5, within=5) == ([[0, 3], [6, 12]], [[2, 7]])
        assert part(3, 6, within=5) == ([[0, 3], [7, 12]], [[2, 8]])
        assert part(3, 7, within=5) == ([[0, 3], [4, 7], [8, 12]], [[2, 5], [6, 9]])
        assert part(1, within=5) == ([[2, 12]], [[0, 3]])

    def test_what_the_tree_leaves_out_is_neither_read_nor_asked(self):
        assert part(4, 9, within=5, stretches=[[2, 4], [4, 5], [8, 11]]) == (
            [[2, 4]],
            [[3, 5], [8, 11]],
        )

    def test_matches_that_nothing_bounds_may_be_anywhere(self):
        assert part(4) is None

    @pytest.mark.parametrize("wanted", [(), tuple(range(12)), tuple(range(0, 12, 2))])
    def test_all_or_nothing_is_no_part(self, wanted):
        assert part(*wanted, within=5) is None

    def test_windows_at_the_ends_of_time_do_not_wrap(self):
        low, high = -(2**63), 2**63 - 1
        leaves = leaves_of([[low, low], [0, 1], [high, high]])
        assert part(0, within=2**62, leaves=leaves) == ([[1, 3]], [[0, 1]])
        assert part(2, within=high, leaves=leaves) == ([[0, 2]], [[1, 3]])


def test_short_pieces_are_asked_in(monkeypatch):
    monkeypatch.setattr(parts, "PIECE_BLOCKS", 3)
    assert part(2, 3, 8, 9, 10, within=5) == ([[0, 8]], [[7, 12]])
    # Two pieces whose windows meet are one.
    assert part(2, 4, within=5) == ([[0, 2], [5, 12]], [[1, 6]])


@st.composite
def placements(draw: st.DrawFn) -> tuple[list[list[int]], list[bool], list[bool]]:
    steps = draw(st.lists(st.sampled_from((0, 0, 1, 1, 3)), min_size=4, max_size=30))
    times = np.cumsum(steps).tolist()
    cuts = sorted(draw(st.sets(st.integers(1, len(times) - 1))))
    blocks = [times[a:b] for a, b in pairwise((0, *cuts, len(times)))]
    flags = st.lists(st.booleans(), min_size=len(blocks), max_size=len(blocks))
    remaining = draw(st.lists(st.sampled_from((True, True, True, False)), min_size=len(blocks)))
    return blocks, draw(flags), remaining[: len(blocks)]


@given(placements(), st.integers(0, 5), st.sampled_from((None, 1, 2, 3, 8)), st.booleans())
def test_every_match_lies_in_what_is_read_through_or_in_what_is_asked(
    placed: tuple[list[list[int]], list[bool], list[bool]],
    within: int,
    rows: int | None,
    in_time: bool,
):
    blocks, wanted, remaining = placed
    limit = within if in_time or rows is None else None
    leaves = leaves_of(blocks)
    stretches = ranges_of(np.array(remaining))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "PIECE_BLOCKS", 1)
        found = part_of(stretches, np.array(wanted), leaves, limit, rows)
    if found is None:
        return
    times = [t for block in blocks for t in block]
    block_of = [b for b, block in enumerate(blocks) for _ in block]
    inside = [mask_of(np.array([s]), len(blocks)) for s in stretches.tolist()]
    either = [mask_of(np.array([r]), len(blocks)) for ranges in found for r in ranges.tolist()]
    for first in range(len(times)):
        for last in range(first, len(times)):
            too_long = limit is not None and times[last] - times[first] > limit
            if too_long or (rows is not None and last - first >= rows):
                break
            span = slice(block_of[first], block_of[last] + 1)
            if any(mask[span].all() for mask in inside):
                assert any(mask[span].all() for mask in either), (first, last)


class Watched(Indexes):
    """Answers lookups and keeps the windows they were asked in."""

    def __init__(self, stream: ArrayStream) -> None:
        super().__init__(stream)
        self.windows: list[Windows | None] = []

    def read(self, lookup: Lookup, windows: Windows | None = None) -> int:
        self.windows.append(windows)
        return super().read(lookup, windows)


def parted_plan(a: list[int], b: list[int]) -> tuple[ArrayStream, BoundPatternQuery, Plan]:
    """Return A Z* B within 4 over 100 blocks of ten events, the first 30 of them read through."""
    stream, query, plan = planned(
        {"a": ones_at(*a), "b": ones_at(*b)}, {"a": 0.01, "b": 0.01}, replay_s=0.04
    )
    assert plan.features is not None
    expected = {c.lookup: 2.0 for c in plan.conditions}
    asked, through = np.array([[30, 100]]), np.array([[0, 31]])
    part = Part(asked, through, ((0, 309),), 700, expected, plan.features)
    return stream, query, dataclasses.replace(plan, part=part)


def test_lookups_are_asked_in_the_part_alone_and_the_rest_is_read():
    # One pair in what is read through, one across the border, one far behind it.
    stream, query, plan = parted_plan([100, 299, 700], [103, 302, 702])
    source = Watched(stream)
    settled = find_stretches(plan, query, stream, source, is_adaptive=False)
    for windows in source.windows:
        assert windows is not None
        assert windows.spans is not None
        assert [ends.tolist() for ends in windows.spans] == [[300], [1000]]
    assert settled.stretches.blocks.tolist() == [[0, 31], [70, 71]]
    assert settled.stretches.n_candidates == 1
    assert settled.stretches.n_intervals == 2
    assert settled.switched is None


def test_what_is_read_through_is_read_where_nothing_is_found_in_the_part():
    stream, query, plan = parted_plan([100], [103])
    settled = find_stretches(plan, query, stream, Watched(stream), is_adaptive=False)
    assert settled.stretches.blocks.tolist() == [[0, 31]]
    assert settled.stretches.n_intervals == 1
    assert settled.stretches.n_events_covered == 310


def test_counts_are_held_against_those_expected_of_the_part():
    # Two events of each are expected in 700, where 1 % of all would be ten.
    _, _, plan = parted_plan([100], [103])
    assert lookups_in_order(plan) == [c.lookup for c in plan.conditions]
    assert plan.part is not None
    rare = {c.lookup: n for c, n in zip(plan.conditions, (50.0, 2.0), strict=True)}
    other = dataclasses.replace(plan, part=dataclasses.replace(plan.part, expected=rare))
    assert lookups_in_order(other) == [c.lookup for c in reversed(plan.conditions)]
