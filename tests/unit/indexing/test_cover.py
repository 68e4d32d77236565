"""Which run answers for which file."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.cover import Segments, choose_runs, overlapping
from indexing.run_format import CoveredFile

FILES = "abcdef"


@given(
    st.lists(st.dictionaries(st.sampled_from(FILES), st.integers(1, 2)), max_size=5),
    st.dictionaries(st.sampled_from(FILES), st.integers(1, 2)),
)
def test_each_live_file_is_taken_once_from_a_run_that_fits(
    covers: list[dict[str, int]], live: dict[str, int]
) -> None:
    chosen = choose_runs(
        [tuple(CoveredFile(name, n, 0) for name, n in cover.items()) for cover in covers], live
    )
    for cover, names in zip(covers, chosen, strict=True):
        assert all(cover[name] == live[name] for name in names)
    taken = [name for names in chosen for name in names]
    coverable = {name for cover in covers for name, n in cover.items() if live.get(name) == n}
    assert sorted(taken) == sorted(coverable)


def test_run_that_covers_more_is_preferred() -> None:
    one, all_three = CoveredFile("a", 1, 5), [CoveredFile(name, 1, 5) for name in "abc"]
    live = {"a": 1, "b": 1, "c": 1}
    assert choose_runs([(one,), tuple(all_three)], live) == [[], ["a", "b", "c"]]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.one_of(st.none(), st.integers(0, 50))), min_size=1),
    st.randoms(use_true_random=False),
)
def test_positions_are_placed_file_by_file(
    files: list[tuple[int, int | None]], random: random.Random
) -> None:
    cover = [CoveredFile(str(i), n, n) for i, (n, _) in enumerate(files)]
    first_seq = {str(i): first for i, (_, first) in enumerate(files) if first is not None}
    # A position is a row counted over all files: row r of a file at `first` becomes first + r.
    expected = [-1 if first is None else first + row for n, first in files for row in range(n)]
    segments = Segments.of(cover, first_seq)
    asked = list(range(len(expected)))
    random.shuffle(asked)
    position = np.array(asked, dtype=np.int64)
    segments.place(position)
    assert position.tolist() == [expected[p] for p in asked]
    if segments.is_one:
        assert expected == [p + int(segments.shifts[0]) for p in range(len(expected))]
    if first_seq:
        assert segments.first_seq == min(first_seq.values())
    live = [seq for seq in expected if seq >= 0]
    if segments.ascends:
        assert live == sorted(live)


def test_files_next_to_each_other_in_the_stream_are_one_segment() -> None:
    cover = [CoveredFile(name, 10, 10) for name in "abcd"]
    segments = Segments.of(cover, {"a": 100, "b": 110, "d": 130})
    assert segments.ends.tolist() == [20, 30, 40]
    assert segments.live.tolist() == [True, False, True]
    assert Segments.of(cover[:2], {"a": 100, "b": 110}).is_one


def test_order_is_seen_past_dead_files_longer_than_what_replaced_them() -> None:
    # Positions 0-5 of a, 5-13 of a dead file, 13-19 of b; in the stream b follows a at 6.
    cover = [CoveredFile("a", 5, 5), CoveredFile("dead", 8, 8), CoveredFile("b", 6, 6)]
    assert Segments.of(cover, {"a": 0, "b": 6}).ascends
    assert not Segments.of(cover, {"a": 6, "b": 0}).ascends


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), max_size=8),
    st.sets(st.integers(0, 36)).map(sorted),
)
def test_overlapping_spans_are_those_that_share_a_number(
    spans: list[tuple[int, int]], borders: list[int]
) -> None:
    pairs = np.array([(first, first + n) for first, n in spans], dtype=np.int64).reshape(-1, 2)
    ranges = np.array(borders[: len(borders) // 2 * 2], dtype=np.int64).reshape(-1, 2)
    numbers = {n for first, stop in ranges.tolist() for n in range(first, stop)}
    expected = [bool(numbers & set(range(first, stop))) for first, stop in pairs.tolist()]
    assert overlapping(pairs, ranges).tolist() == expected
