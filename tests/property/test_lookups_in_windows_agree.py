"""The one law where lookups are asked in windows, however small the stream and rare the candidates.

Streams of these tests are too small for windows to be worth finding; here they always are, groups
of runs hold few entries, and every lookup that was not planned is asked as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costmodel.parameters import CostParameters
from indexing import RunWriter, tail
from indexing.within import row_mask
from replay.planning import narrowing, safety
from tests.pattern_cases import pattern_case
from tests.property import test_keyed_plans_agree as over_keys
from tests.property.test_plans_agree import check_plans
from tests.property.test_wrong_estimates_agree import LIES, check_auto, weights
from tests.strategies import SmallStream, cases


@contextmanager
def windows_of_all_lookups(candidates_max: float) -> Iterator[None]:
    """Have lookups asked in windows: of a sweep, or where candidates are many in rows known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrowing, "ENTRIES_MIN", 0)
        patch.setattr(narrowing, "CANDIDATES_MAX", candidates_max)
        patch.setattr(narrowing, "ROWS_MAX", 1e9)
        patch.setattr(narrowing, "GIVEN_MAX", 1e9)
        patch.setattr(narrowing, "SATURATED", 1e9)
        patch.setattr(narrowing, "COVER_MAX", 1.0)
        patch.setattr(safety, "FURTHER_GAIN", math.inf)
        patch.setattr(row_mask, "ROW_MASK_BITS_MAX", 4)
        patch.setattr(tail, "FENCE_ENTRIES", 3)
        patch.setitem(RunWriter.__init__.__kwdefaults__, "fence_entries", 3)
        yield


MOST = st.sampled_from([1e9, 1e9, 0.5, 0.0])
SLOW = settings(
    max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@given(case=cases(), most=MOST)
@SLOW
def test_plans_agree(case: tuple[SmallStream, str], most: float) -> None:
    stream, sql = case
    with windows_of_all_lookups(most):
        check_plans(stream, sql, ("a", "x", "s", "f"))


@given(seed=st.integers(0, 2**32 - 1), most=MOST)
@SLOW
def test_plans_agree_whatever_the_constructs(seed: int, most: float) -> None:
    case = pattern_case(seed)
    with windows_of_all_lookups(most):
        check_plans(case.stream, case.sql, case.indexes)


@given(case=over_keys.cases(), most=MOST)
@SLOW
def test_plans_agree_over_keys(case: over_keys.Case, most: float) -> None:
    """Among them streams of several runs, late events, runs without keys, and files without any."""
    with windows_of_all_lookups(most):
        over_keys.check_plans_over_keys(case)


@given(seed=st.integers(0, 2**32 - 1), odd=weights(), lie=LIES, most=MOST)
@SLOW
def test_wrong_estimates_change_no_answer(
    seed: int, odd: CostParameters, lie: int | None, most: float
) -> None:
    """Whatever order they are asked in, and whichever are left out or asked besides."""
    case = pattern_case(seed)
    with windows_of_all_lookups(most):
        check_auto(case.stream, case.sql, case.indexes, odd, lie)
