"""Rows inside replay intervals, as runs."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, event, given
from hypothesis import strategies as st

from replay.planning.intervals import replay_stretches
from replay.planning.kernels import cut_to_intervals
from replay.planning.row_spans import RowSpans
from tests.oracles.intervals import matches
from tests.unit.planning.test_intervals import cases, queries

LEAST, MOST = -(2**63), 2**63 - 1


def spans(**bounds: list[int]) -> RowSpans:
    """Return spans with the bounds given and no others."""
    n = len(next(iter(bounds.values())))
    given = {name: np.array(bound, np.int64) for name, bound in bounds.items()}
    names = ("seq_low", "t_low", "seq_high", "t_high")
    return RowSpans(n, **{name: given.get(name) for name in names})


def cut(found: RowSpans, stretches: list[tuple[int, int]], times) -> list[tuple[int, int, int]]:
    """Return runs as (first row, number of rows, first seq), of stretches (first seq, rows)."""
    n_rows = np.array([n for _, n in stretches], np.int64)
    first_seqs = np.array([first for first, _ in stretches], np.int64)
    runs = found.cut(np.cumsum(n_rows) - n_rows, n_rows, first_seqs, np.asarray(times, np.int64))
    return list(zip(*(part.tolist() for part in runs), strict=True))


def test_rows_are_cut_by_one_kernel_wherever_arrays_come_from():
    # Each form of an array that Numba has not seen takes it half a second and more.
    found = spans(seq_low=[0, 4], t_high=[1, 5])
    lent = np.arange(12)
    lent.flags.writeable = False
    pieces = np.stack((np.arange(0, 12, 4), np.full(3, 4), np.arange(0, 12, 4)))
    for low in (found.seq_low, lent[::6]):
        for chosen in ([False, True, False], [True, False, True]):
            RowSpans(2, low, None, None, found.t_high).cut(*pieces[:, chosen], lent)
    assert len(cut_to_intervals.entry.signatures) == 1


def test_extreme_times_do_not_wrap():
    times = [LEAST, 0, MOST]
    assert cut(spans(t_low=[LEAST], t_high=[MOST]), [(0, 3)], times) == [(0, 3, 0)]
    assert cut(spans(t_low=[1], t_high=[MOST]), [(0, 3)], times) == [(2, 1, 2)]
    assert cut(spans(t_low=[LEAST], t_high=[LEAST]), [(0, 3)], times) == [(0, 1, 0)]


BOUNDS = st.lists(st.integers(0, 30), min_size=6, max_size=6).map(sorted)


@given(
    bounds=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("seq_low", "t_low", "seq_high", "t_high"), BOUNDS)
    ),
    sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6)), max_size=5),
    steps=st.lists(st.integers(0, 4), min_size=30, max_size=30),
)
def test_a_row_is_left_if_it_lies_in_some_interval(bounds, sizes, steps):
    """Held to a look at every row and interval."""
    assume(bounds)
    seqs, stretches, seq = [], [], 0
    for gap, n in sizes:
        seq += gap
        stretches.append((seq, n))
        seqs += range(seq, seq + n)
        seq += n
    times = np.cumsum(steps)[: len(seqs)].tolist()

    def is_in(at: int, k: int) -> bool:
        low = all(
            bounds[b][k] <= v
            for b, v in (("seq_low", seqs[at]), ("t_low", times[at]))
            if b in bounds
        )
        high = all(
            v <= bounds[b][k]
            for b, v in (("seq_high", seqs[at]), ("t_high", times[at]))
            if b in bounds
        )
        return low and high

    left = [at for at in range(len(seqs)) if any(is_in(at, k) for k in range(6))]
    found = cut(spans(**bounds), stretches, times)
    assert [row for first, n, _ in found for row in range(first, first + n)] == left
    assert [s for _, n, first in found for s in range(first, first + n)] == [
        seqs[at] for at in left
    ]
    within = [np.searchsorted([first for first, _ in stretches], s, "right") for s in seqs]
    assert all(len(set(within[first : first + n])) == 1 for first, n, _ in found)


@given(cases(queries()))
def test_rows_left_out_neither_take_nor_give_a_match(case):
    query, statistics, plan = case
    if plan.required.rows_min == 0:
        return
    found = replay_stretches(plan, statistics.look_up(plan), statistics)
    if found.rows is None:
        return
    times = [row["t"] for row in statistics.rows]
    runs = cut(found.rows, [(0, statistics.n_events)], times)
    left = [
        (word, *(first + i for i in at))
        for first, n, _ in runs
        for word, at in matches(query, statistics.rows[first : first + n], 4)
    ]
    assert sorted(left) == sorted((word, *at) for word, at in matches(query, statistics.rows, 4))
    n_left = sum(n for _, n, _ in runs)
    event(f"{'some' if n_left < statistics.n_events else 'none'} left out, {len(left) > 0}")
