"""Which run answers for which file, and entries put in the order of the stream."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.cover import Segments, choose_runs, overlapping
from indexing.entries import sort_entries
from indexing.kernels import admit, decode, order_by_seq
from indexing.key_range import KeyRange, KeyRanges, to_bounds
from indexing.keys import KeyKind, to_keys
from indexing.lookup import ascend, look_up, order
from indexing.placed_run import PlacedRun
from indexing.run import Run
from indexing.run_format import CoveredFile, RunHead, TimeScale

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


def ordered(
    pieces: list[np.ndarray], objects: pa.Array | None = None
) -> tuple[list[int], list[int], pa.Array | None]:
    """Put pieces in order; the time of an entry is a third of its number."""
    seq = np.concatenate(pieces)
    into = np.full(len(seq), -1), np.full(len(seq), -1)
    cuts = np.cumsum([0, *map(len, pieces)])
    objects = order(seq, seq // 3, cuts, objects, into)
    return into[0].tolist(), into[1].tolist(), objects


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 400), unique=True, min_size=1),
    st.lists(st.integers(0, 400), max_size=3),
    st.sampled_from([1, 30, 100_000]),
    st.integers(0, 1 << 40),
    st.booleans(),
)
def test_ascending_pieces_become_one_ascending_list(
    numbers: list[int], cuts: list[int], spread: int, first: int, has_objects: bool
) -> None:
    # Spread 100,000 is so thin that entries are sorted and not scattered.
    seq = np.array(numbers, dtype=np.int64) * spread + first
    pieces = [np.sort(p) for p in np.split(seq, sorted(min(c, len(seq)) for c in cuts))]
    names = pa.array(np.concatenate(pieces)) if has_objects else None
    found, t, objects = ordered(pieces, names)
    expected = sorted(seq.tolist())
    assert found == expected
    assert t == [s // 3 for s in expected]
    assert (objects is not None) == has_objects
    assert objects is None or objects.to_pylist() == expected


@given(st.lists(st.lists(st.integers(0, 20)), max_size=5))
def test_pieces_ascend_if_all_of_them_in_a_row_do(numbers: list[list[int]]) -> None:
    pieces = [sorted(set(piece)) for piece in numbers]
    flat = [number for piece in pieces for number in piece]
    cuts = np.cumsum([0, *map(len, pieces)])
    assert ascend(np.array(flat, dtype=np.int64), cuts) == (flat == sorted(set(flat)))


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=12), min_size=1, max_size=4),
    st.data(),
)
def test_runs_in_memory_are_read_in_order_wherever_their_files_lie(
    files: list[list[int]], data: st.DataObject
) -> None:
    keys = [key for file in files for key in file]
    column, times = pa.array(keys), np.arange(len(keys), dtype=np.int64) * 10
    entries = sort_entries(to_keys(column, "x"), times, fence_entries=2)
    cover = tuple(CoveredFile(str(i), len(file), len(file)) for i, file in enumerate(files))
    low = data.draw(st.integers(0, 6), "low")
    high = data.draw(st.integers(low, 6), "high")
    expected, runs, base = [], [], 1000
    # Each file is taken from one of two equal runs, or from none, and lies anywhere.
    taken: list[dict[str, int]] = [{}, {}]
    for i in data.draw(st.permutations(range(len(files))), "order"):
        which = data.draw(st.integers(0, 2), "run")
        if which < 2:
            taken[which][str(i)] = base
            first = sum(map(len, files[:i]))
            for offset, key in enumerate(files[i]):
                if low <= key <= high:
                    expected.append((base + offset, 10 * (first + offset)))
        base += len(files[i]) + 3
    for names in taken:
        if names:
            head = RunHead("x", KeyKind.INTEGER, None, TimeScale.of(times), cover)
            run = Run.in_memory(head, entries)
            runs.append(PlacedRun(run, Segments.of(cover, names)))
    bounds = to_bounds(KeyRanges.of([KeyRange(low, high)]), KeyKind.INTEGER)
    found = look_up(runs, bounds, None)
    assert list(zip(found.seq.tolist(), found.t.tolist(), strict=True)) == sorted(expected)


@pytest.mark.parametrize("spread", [1, 100_000])
@pytest.mark.parametrize("has_objects", [False, True])
def test_an_event_that_comes_twice_is_refused(spread: int, has_objects: bool) -> None:
    pieces = [np.array([1, 7]) * spread, np.array([2, 7]) * spread]
    with pytest.raises(ValueError, match="two entries of one event"):
        ordered(pieces, pa.array([1, 2, 3, 4]) if has_objects else None)


_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1)),
        max_size=5,
    ),
    st.booleans(),
    st.integers(0, 9),
    st.sampled_from(["u4", "u8"]),
    st.integers(0, 7),
    _INT64,
)
def test_numbers_are_checked_scaled_and_kept_where_they_are_admitted(
    groups: list[tuple[bool, list[tuple[int, bool]]]],
    may_repeat: bool,
    most: int,
    dtype: str,
    scale: int,
    shift: int,
) -> None:
    numbers = [n for _, group in groups for n, _ in group]
    cuts = np.cumsum([0, *(len(group) for _, group in groups)])
    rim = np.array([is_rim for is_rim, _ in groups], dtype=bool)
    admitted = np.array([a for is_rim, group in groups if is_rim for _, a in group], dtype=bool)
    out, kept_cuts = np.empty(len(numbers), np.int64), np.empty_like(cuts)
    line = np.uint64(scale), np.uint64(shift & ((1 << 64) - 1))
    is_right = decode(
        np.array(numbers, dtype), cuts, (rim, admitted), (may_repeat, np.uint64(most)), line, out,
        kept_cuts,
    )  # fmt: skip
    rises = all(
        a < b or (may_repeat and a == b)
        for _, group in groups
        for (a, _), (b, _) in pairwise(group)
    )
    assert is_right == (rises and all(group[-1][0] <= most for _, group in groups))
    kept = [[n for n, is_in in group if is_in or not is_rim] for is_rim, group in groups]
    assert kept_cuts.tolist() == np.cumsum([0, *map(len, kept)]).tolist()
    wrapped = [(n * scale + shift + (1 << 63)) % (1 << 64) - (1 << 63) for g in kept for n in g]
    assert out[: kept_cuts[-1]].tolist() == wrapped


@pytest.mark.parametrize(("last", "is_right"), [(2, True), (3, False), (65_535, False)])
def test_a_code_without_a_word_is_found_before_it_is_followed(last: int, is_right: bool) -> None:
    codes = np.array([1, 0, 0, last], np.uint16)
    cuts, word_cuts = np.array([0, 2, 4]), np.array([0, 2, 5])
    admitted = np.zeros(4, bool)
    admits = np.array([True, False, False, True, True])
    assert admit(codes, cuts, word_cuts, admits, admitted) == is_right
    if is_right:
        assert admitted.tolist() == [False, True, False, True]


def test_a_number_that_comes_twice_is_counted_once() -> None:
    seq = np.array([70, 3, 70])
    marks, below = np.zeros(2, np.uint64), np.zeros(2, np.int32)
    into = np.full((2, 3), -1)
    assert order_by_seq(seq, seq, 0, marks, below, into[0], into[1]) == 2
    assert (into == -1).all()
