"""The tree's shape: fewest nodes for a range, levels across files, invariants."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.tree.summarise import summarise, summarise_times
from chronicle.tree.tab_tree import TabTree
from chronicle.tree.tree_file import build_levels


def _tree(blocks_per_file: list[int], fan_out: int) -> TabTree:
    files, now = [], 0
    for n in blocks_per_file:
        times = np.arange(now, now + 2 * n)
        files.append(build_levels(summarise_times(times, [2] * n), fan_out))
        now += 2 * n
    return TabTree(files, fan_out=fan_out, load=lambda name: [])


def test_files_stand_side_by_side_until_each_is_one_entry():
    # fan-out 2, files of 5 and 1 blocks:   level 0  b b b b b | b
    #                                       level 1  n   n   n | b
    #                                       level 2  n       n | b
    #                                       level 3  n         | b
    #                                       level 4  n
    tree = _tree([5, 1], 2)
    assert [tree.level(k).first_block.tolist() for k in range(tree.n_levels)] == [
        [0, 1, 2, 3, 4, 5, 6],
        [0, 2, 4, 5, 6],
        [0, 4, 5, 6],
        [0, 5, 6],
        [0, 6],
    ]
    tree._check()


@given(st.integers(-2, 44), st.integers(-2, 44))
def test_covering_blocks_hold_all_events_of_the_range(start: int, stop: int):
    tree = _tree([5, 16], 3)  # block i holds the times 2 i and 2 i + 1
    first, last = tree.covering(start, stop)
    expected = {t // 2 for t in range(max(0, start), min(42, stop))}
    assert expected <= set(range(first, last))
    assert last - first <= len(expected) + 1


def test_levels_beyond_the_top_are_refused():
    tree = _tree([3], 2)
    with pytest.raises(IndexError, match="levels 0 to 2"):
        tree.level(3)


def test_check_names_a_broken_entry():
    tree = _tree([4], 2)
    tree.level(1).times.gap_max[1] = 77
    with pytest.raises(AssertionError, match="level 1 of 3: gap_max of entry 1"):
        tree._check()


def test_check_notices_overlapping_blocks():
    tree = _tree([4], 2)
    tree.level(0).times.t_max[1] = 5
    with pytest.raises(AssertionError, match="overlap"):
        tree._check()


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(2, 4), st.data())
def test_nodes_tile_each_of_many_ranges_with_few_entries(
    sizes: list[int], fan_out: int, data: st.DataObject
):
    tree = _tree(sizes, fan_out)
    tree._check()
    ends = st.tuples(st.integers(0, tree.n_blocks), st.integers(0, tree.n_blocks))
    ranges = np.array(data.draw(st.lists(ends, max_size=8)), np.int64).reshape(-1, 2)

    found = tree.nodes_of_ranges(ranges[:, 0], ranges[:, 1])

    assert len(found.offsets) == len(ranges) + 1
    times, counts = tree.times_of_entries(found), tree.counts_of_entries(found)
    assert counts.tolist() == times.count.tolist()
    for place, (first, stop) in enumerate(ranges.tolist()):
        own = slice(*found.offsets[place : place + 2])
        borders = [tree.level(k).first_block for k in found.level[own]]
        places = zip(borders, found.entry[own], strict=True)
        covered = [block for at, entry in places for block in range(at[entry], at[entry + 1])]
        assert covered == list(range(first, stop))
        assert len(borders) <= 2 * (fan_out - 1) * tree.n_levels
        assert times.slice(own.start, own.stop).t_min.tolist() == [
            2 * at[e] for at, e in zip(borders, found.entry[own], strict=True)
        ]


def test_summaries_of_entries_come_in_the_order_of_the_ranges():
    # fan-out 2, four blocks of the values 0 1 | 2 3 | 4 5 | 6 7: sums 1 5 9 13, then 6 22, then 28.
    leaves = summarise(pa.array(np.arange(8.0)), [2] * 4)
    times = build_levels(summarise_times(np.arange(8), [2] * 4), 2)
    tree = TabTree([times], fan_out=2, load=lambda name: [build_levels(leaves, 2)])

    nodes = tree.nodes_of_ranges(np.array([2, 0, 1]), np.array([3, 4, 4]))

    assert tree.attribute_of_entries(nodes, "x").sum_high.tolist() == [9.0, 28.0, 5.0, 22.0]
