"""Lookups of a plan, asked one after the other: what they read, by hand, and what bounds it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel import CostParameters, PlanFeatures, estimate
from costmodel.lookups import (
    CANDIDATE_ENTRIES,
    ENTRIES_MIN,
    KEYED_ENTRIES,
    WITHIN_SHARE,
    estimate_lookups,
    full_costs,
    least_costs,
    within_cost,
)
from tests.unit.costmodel.cases import features

N = 2_000_000
GROUP = 4096


def asked(of: PlanFeatures, *plan: bool) -> list[float]:
    """Return entries, comparisons, decoded entries and lookups of one plan."""
    work = estimate_lookups(of, np.array([plan]))
    return [float(one[0]) for one in (work.entries, work.compared, work.decoded, work.asked)]


def rare_and_common(**options: Any) -> PlanFeatures:
    """Return A Z* B with a rare A, 20 events of 2,000,000, that begins a match; 400,000 Bs."""
    return features(density=[1e-5, 0.2], window=9, n_events=N, **options)


def test_a_single_lookup_is_read_whole_and_sorted():
    entries, compared, decoded, lookups = asked(rare_and_common(), False, True)
    assert (entries, decoded, lookups) == (400_000, 400_000, 1)
    assert compared == pytest.approx(400_000 * np.log2(400_000))


def test_entries_of_one_key_are_in_order():
    of = dataclasses.replace(rare_and_common(), in_order=np.array([False, True]))
    assert asked(of, False, True) == [400_000, 0, 400_000, 1]


def test_the_second_lookup_is_asked_in_the_windows_of_the_first():
    # Each A has a window of 10 events behind it: of the Bs 40 are left.
    entries, compared, decoded, lookups = asked(rare_and_common(), True, True)
    assert entries == pytest.approx(20 + WITHIN_SHARE * 400_000 + 40 * (1 - 0.8**10), rel=1e-4)
    assert compared < 20 * np.log2(20) + 40 * np.log2(40)
    assert decoded == pytest.approx(400_020)
    assert lookups == 2


def test_of_one_key_only_row_groups_in_windows_are_read():
    of = dataclasses.replace(rare_and_common(), in_order=np.array([False, True]))
    entries, _, decoded, _ = asked(of, True, True)
    assert decoded == pytest.approx(20 + 21 * GROUP)
    assert entries == pytest.approx(20 + WITHIN_SHARE * 21 * GROUP + 40, rel=1e-3)


def test_windows_that_reach_both_ways_are_twice_as_long():
    both = rare_and_common(starts_exact=False, ends_exact=False)
    longer = asked(both, True, True)[0] - asked(rare_and_common(), True, True)[0]
    assert longer == pytest.approx(40, rel=1e-2)


def test_events_of_the_same_basic_block_are_looked_for_in_its_rows():
    # A B: each of 20 As has its B in the next row.
    entries, *_ = asked(rare_and_common(basic_block=[0, 0]), True, True)
    assert entries == pytest.approx(20 + WITHIN_SHARE * 400_000 + 0.2 * 20, rel=1e-6)


@pytest.mark.parametrize(
    ("density", "window"),
    [
        pytest.param([1e-5, 0.9 * ENTRIES_MIN / N], 9, id="few entries"),
        pytest.param([0.1, 0.2], 2, id="many candidates"),
        pytest.param([1e-3, 0.2], 2_000, id="windows cover most of the stream"),
    ],
)
def test_where_windows_are_not_worth_it_lookups_are_asked_in_full(density, window):
    of = features(density=density, window=window, n_events=N)
    assert asked(of, True, True)[0] == pytest.approx(sum(density) * N)


def test_a_lookup_that_serves_more_places_is_asked_before_one_not_much_rarer():
    # B answers two conditions. Three times as frequent as A, it is read whole before it; ten times
    # as frequent, it is asked in the windows of A.
    def decoded_whole(common: float) -> bool:
        of = features(density=[0.06, common, common], window=0, lookup=[0, 1, 1], n_events=N)
        return asked(of, True, True, True)[0] >= 0.999 * common * N

    assert decoded_whole(0.18)
    assert not decoded_whole(0.6)


def test_keys_make_an_entry_dearer():
    n, not_in_order = np.array([1e6]), np.array([False])
    of = CostParameters(sort_s=0.0, seek_s=0.0)
    plain, keyed = (full_costs(n, not_in_order, of, keyed=k)[0] for k in (False, True))
    assert keyed == KEYED_ENTRIES * plain
    assert within_cost(1e6, of, keyed=True) == pytest.approx(WITHIN_SHARE * keyed)


@settings(deadline=None)
@given(st.data())
def test_no_set_of_lookups_takes_less_than_the_least(data):
    n = data.draw(st.integers(1, 6))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    density = np.minimum(random.uniform(0, 0.3, n) * 10 ** random.normal(-1, 1, n), 1.0)
    blocks = np.unique(random.integers(0, n, n), return_inverse=True)[1]
    of = dataclasses.replace(
        features(
            density=density.tolist(),
            window=data.draw(st.sampled_from([0, 10, 300, 30_000])),
            basic_block=np.sort(blocks).tolist(),
            n_events=N,
        ),
        in_order=random.random(n) < 0.3,
        n_keys=data.draw(st.sampled_from([1.0, 10.0])),
    )
    sets = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(bool)
    parameters = CostParameters()
    least, most = least_costs(of, parameters)
    assert (least <= most).all()
    found = estimate(of, sets, parameters)
    first = np.array([(most - least)[s].min(initial=np.inf) if s.any() else 0.0 for s in sets])
    assert (found.index_cost >= (sets @ least + first) * (1 - 1e-12)).all()
    # Windows make lookups cheaper; what is left is read and joined twice at most.
    asking = found.index_cost - CANDIDATE_ENTRIES * parameters.entry_s * found.candidates
    assert (asking <= (1 + WITHIN_SHARE) * (sets @ most) + 1e-12).all()
