"""Entries: their order, where row groups are cut, and what fences tell of ranges."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.entries import choose_cuts, sort_entries
from indexing.fences import Fences
from indexing.key_range import KeyRange, KeyRanges
from indexing.keys import to_keys
from tests.oracles.index import to_key
from tests.unit.indexing.index_strategies import streams


@pytest.mark.parametrize(
    ("keys", "cuts"),
    [
        # Groups of at most 4; | marks a cut.
        pytest.param("", [0], id="no-entry"),
        pytest.param("abcd", [0, 4], id="one-full-group"),
        pytest.param("aabbcc", [0, 4, 6], id="change-at-the-end-of-the-room"),
        pytest.param("aaabbbbb", [0, 3, 7, 8], id="change-in-the-second-half"),  # aaa|bbbb|b
        pytest.param("abbbbbb", [0, 4, 7], id="change-in-the-first-half"),  # abbb|bbb
        pytest.param("aabbbb", [0, 4, 6], id="change-in-the-middle-is-first-half"),
        pytest.param("aaaaaaaa", [0, 4, 8], id="no-change"),
        pytest.param("abcdefg", [0, 4, 7], id="all-differ"),
    ],
)  # fmt: skip
def test_groups_end_where_the_key_last_changes_in_their_second_half(
    keys: str, cuts: list[int]
) -> None:
    changes = np.array([i for i in range(1, len(keys)) if keys[i] != keys[i - 1]], dtype=np.int64)
    assert choose_cuts(changes, len(keys), fence_entries=4).tolist() == cuts


@given(st.text("abc"), st.integers(0, 30), st.integers(2, 5))
def test_cuts_before_an_open_end_stay_when_more_entries_come(
    text: str, n_first: int, fence_entries: int
) -> None:
    keys = "".join(sorted(text))
    changes = np.array([i for i in range(1, len(keys)) if keys[i] != keys[i - 1]], dtype=np.int64)
    whole = choose_cuts(changes, len(keys), fence_entries=fence_entries)
    n_first = min(n_first, len(keys))
    first = choose_cuts(
        changes[changes < n_first], n_first, fence_entries=fence_entries, open_end=True
    )
    assert whole[: len(first)].tolist() == first.tolist()


@given(streams(), st.integers(2, 9))
def test_entries_are_sorted_by_key_then_place_and_groups_by_place(
    events: pa.Table, fence_entries: int
) -> None:
    values = [to_key(v) for v in events["x"].to_pylist()]
    entries = sort_entries(
        to_keys(events["x"], "x"),
        events["t"].to_numpy(),
        fence_entries=fence_entries,
    )
    expected = sorted((key, row) for row, key in enumerate(values) if key is not None)
    rows = entries.position.tolist()
    keys = entries.keys.values().to_pylist()
    cuts = entries.keys.cuts.tolist()
    low, high = entries.keys.ends()
    assert [values[row] for row in rows] == keys
    assert entries.t.tolist() == [events["t"][row].as_py() for row in rows]
    assert (cuts[0], cuts[-1]) == (0, len(expected))
    for group, (first, end) in enumerate(pairwise(cuts)):
        assert 0 < end - first <= fence_entries
        wanted = expected[first:end]
        assert rows[first:end] == sorted(row for _, row in wanted)
        assert (low[group], high[group]) == (wanted[0][0], wanted[-1][0])
        words = entries.keys.words[
            entries.keys.word_cuts[group] : entries.keys.word_cuts[group + 1]
        ]
        assert words.to_pylist() == sorted({key for key, _ in wanted})


@st.composite
def fences(draw: st.DrawFn) -> Fences:
    ends = sorted(draw(st.lists(st.integers(-9, 9), min_size=0, max_size=12)))
    ends = ends[: len(ends) // 2 * 2]
    counts = [draw(st.integers(1, 5)) for _ in ends[::2]]
    low, high = (np.array(part, dtype=np.int64) for part in (ends[::2], ends[1::2]))
    return Fences(low, high, np.array(counts, dtype=np.int64))


@st.composite
def ranges(draw: st.DrawFn) -> KeyRanges:
    bound = st.none() | st.integers(-10, 10)
    found = st.builds(KeyRange, bound, bound, st.booleans(), st.booleans())
    return KeyRanges.of(draw(st.lists(found, max_size=3)))
