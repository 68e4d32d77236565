"""The survey of splits says what a look at all times at once would say."""

from __future__ import annotations

from itertools import groupby, pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from chronicle.ingest.survey import LATE_SHOWN_MAX, Split, summarise_splits

Record = tuple[tuple[int, int], int | None]
"""A split, and the time of one of its records or None for a fault."""


def to_splits(batches: list[list[Record]], stream_end: int | None) -> list[Split]:
    splits: dict[tuple[int, int], Split] = {}
    for batch in batches:
        for key, records in groupby(batch, key=lambda record: record[0]):
            times = pa.array([time for _, time in records], pa.int64())
            splits.setdefault(key, Split(*key)).add(times, stream_end)
    return list(splits.values())


@st.composite
def surveys(draw: st.DrawFn) -> tuple[list[Record], list[int], int | None]:
    keys = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), unique=True, max_size=6))
    times = st.one_of(st.none(), st.integers(0, 9))
    sort = draw(st.booleans())
    records: list[Record] = []
    for key in sorted(keys):
        records += [(key, time) for time in draw(st.lists(times, min_size=1, max_size=6))]
    if sort:
        ordered = sorted(time for _, time in records if time is not None)
        rest = iter(ordered)
        records = [(key, None if time is None else next(rest)) for key, time in records]
    cuts = draw(st.lists(st.integers(0, len(records)), max_size=4))
    return records, sorted(cuts), draw(st.one_of(st.none(), st.integers(0, 9)))


@given(surveys(), st.randoms(use_true_random=False))
def test_survey_equals_a_look_at_all_times(
    drawn: tuple[list[Record], list[int], int | None], random: object
) -> None:
    records, cuts, stream_end = drawn
    borders = [0, *cuts, len(records)]
    batches = [records[a:b] for a, b in pairwise(borders)]
    splits = to_splits(batches, stream_end)
    random.shuffle(splits)  # type: ignore[attr-defined]
    survey = summarise_splits(splits)

    usable = [time for _, time in records if time is not None]
    late = [time for time in usable if stream_end is not None and time < stream_end]
    assert survey.n_usable == len(usable)
    assert survey.n_bad == len(records) - len(usable)
    assert survey.in_order == (usable == sorted(usable))
    assert survey.n_late == len(late)
    assert [(s.position, s.block_start) for s in survey.splits] == sorted(
        {key for key, _ in records}
    )
    for split, (_, group) in zip(
        survey.splits, groupby(records, key=lambda record: record[0]), strict=True
    ):
        times = [time for _, time in group if time is not None]
        if times:
            assert (split.first, split.last) == (times[0], times[-1])
            assert (split.t_min, split.t_max) == (min(times), max(times))
        expected = [t for t in times if stream_end is not None and t < stream_end]
        assert list(split.late) == expected[:LATE_SHOWN_MAX]
