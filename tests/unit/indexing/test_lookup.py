"""Lists of entries put in stream order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.cover import Segments
from indexing.entries import sort_entries
from indexing.key_range import KeyRange, KeyRanges, to_bounds
from indexing.keys import KeyKind, to_keys
from indexing.lookup import PlacedRun, ascend, look_up, order
from indexing.run import Run
from indexing.run_format import CoveredFile, RunHead, TimeScale
from indexing.scratch import Room


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


@pytest.mark.parametrize(("n", "n_held"), [(4, 4), (5, 10), (10, 10), (0, 0)])
def test_room_much_too_large_is_not_held_on_to(n: int, n_held: int) -> None:
    room = Room(10)
    room.put(np.arange(n), np.arange(n))
    whole = room.filled()[0].base
    assert whole is not None
    assert whole.nbytes == 16 * n_held


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
    found = look_up([run.seek(bounds) for run in runs], None)
    assert list(zip(found.seq.tolist(), found.t.tolist(), strict=True)) == sorted(expected)


@pytest.mark.parametrize("spread", [1, 100_000])
@pytest.mark.parametrize("has_objects", [False, True])
def test_an_event_that_comes_twice_is_refused(spread: int, has_objects: bool) -> None:
    pieces = [np.array([1, 7]) * spread, np.array([2, 7]) * spread]
    with pytest.raises(ValueError, match="two entries of one event"):
        ordered(pieces, pa.array([1, 2, 3, 4]) if has_objects else None)
