"""What fences tell of ranges, against every row group looked at by itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from indexing.fences import Fences, expect_entries
from indexing.key_range import KeyRange, KeyRanges, to_bounds
from indexing.keys import KeyKind


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


@given(fences(), ranges())
def test_entries_between_are_those_of_groups_inside_and_of_groups_touched(
    of: Fences, wanted: KeyRanges
) -> None:
    bounds = to_bounds(wanted, KeyKind.INTEGER)
    asked = list(zip(bounds.low.tolist(), bounds.high.tolist(), strict=True))
    least = most = 0
    for low, high, count in zip(of.low.tolist(), of.high.tolist(), of.count.tolist(), strict=True):
        most += count * any(low <= last and first <= high for first, last in asked)
        least += count * any(first <= low and high <= last for first, last in asked)
    assert of.count_between(bounds) == (least, most)


@given(st.lists(fences(), max_size=4), ranges(), st.sampled_from([KeyKind.INTEGER, KeyKind.DOUBLE]))
def test_runs_are_expected_to_hold_together_what_each_is_alone(
    runs: list[Fences], wanted: KeyRanges, kind: KeyKind
) -> None:
    runs = [
        Fences(run.low.astype(kind.numpy_type), run.high.astype(kind.numpy_type), run.count)
        for run in runs
    ]
    bounds = to_bounds(wanted, kind)
    together = expect_entries(runs, bounds)
    assert together == [expect_entries([run], bounds)[0] for run in runs]
    for run, expected in zip(runs, together, strict=True):
        least, most = run.count_between(bounds)
        assert least <= expected <= most
