"""Parts: the blocks that are read through whatever lookups find, and those asked in."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.planning import parts
from replay.planning.block_ranges import all_blocks, mask_of, ranges_of
from replay.planning.parts import part_of
from tests.unit.planning.streams import SmallLeaves


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
