"""What lookups take, asked in full and where row filters leave most of them out."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel import CostParameters
from costmodel.lookups import (
    CANDIDATE_ENTRIES,
    KEYED_ENTRIES,
    LOOKUP_JUMPS,
    WITHIN_SHARE,
    interval_cost,
    lookup_cost,
    within_cost,
)

ENTRIES_ONLY = CostParameters(sort_s=0.0, seek_s=0.0)


def test_each_term_of_a_lookup_alone():
    n, in_order = np.array([0.0, 1024.0, 1024.0]), np.array([False, False, True])
    of = CostParameters(entry_s=1.0, sort_s=0.0, seek_s=0.0)
    assert lookup_cost(n, in_order, of, keyed=False).tolist() == [0.0, 1024.0, 1024.0]
    of = CostParameters(entry_s=0.0, sort_s=1.0, seek_s=0.0)
    assert lookup_cost(n, in_order, of, keyed=False).tolist() == [0.0, 10_240.0, 0.0]
    of = CostParameters(entry_s=0.0, sort_s=0.0, seek_s=1.0)
    assert lookup_cost(n, in_order, of, keyed=False).tolist() == [LOOKUP_JUMPS] * 3


def test_keys_make_an_entry_dearer():
    n, not_in_order = np.array([1e6]), np.array([False])
    plain, keyed = (lookup_cost(n, not_in_order, ENTRIES_ONLY, keyed=k)[0] for k in (False, True))
    assert keyed == KEYED_ENTRIES * plain
    assert within_cost(1e6, ENTRIES_ONLY, keyed=True) == pytest.approx(WITHIN_SHARE * keyed)


def test_intervals_take_as_long_as_so_many_entries():
    n = np.array([0.0, 1e3])
    expected = CANDIDATE_ENTRIES * ENTRIES_ONLY.entry_s * n
    assert interval_cost(n, ENTRIES_ONLY).tolist() == expected.tolist()
