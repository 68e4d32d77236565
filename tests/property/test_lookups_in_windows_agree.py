"""The one law where lookups are asked in windows, however small the stream and rare the candidates.

Streams of these tests are too small for windows to be worth finding; here they always are, groups
of runs hold few entries, and every lookup is tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.parameters import CostParameters
from indexing import RunWriter, masked_lookup, tail
from replay.planning import row_filter, steps
from tests.plan_cases import Case, keyed_cases
from tests.property.law import FEW, SLOW
from tests.property.test_plans_agree import check_case, check_plans
from tests.property.test_wrong_estimates_agree import LIES, check_auto, questions, weights
from tests.strategies import SmallStream


@contextmanager
def windows_of_all_lookups(candidates_max: float) -> Iterator[None]:
    """Have lookups asked in windows: of a sweep, or where candidates are many in rows known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_filter, "ENTRIES_MIN", 0)
        patch.setattr(row_filter, "CANDIDATES_MAX", candidates_max)
        patch.setattr(row_filter, "ROWS_MAX", 1e9)
        patch.setattr(row_filter, "GIVEN_MAX", 1e9)
        patch.setattr(row_filter, "SATURATED", 1e9)
        patch.setattr(row_filter, "COVER_MAX", 1.0)
        patch.setattr(steps, "EXPLORE_SHARE", math.inf)
        patch.setattr(steps, "EXPLORE_UNKNOWN", math.inf)
        patch.setattr(steps, "is_bearable", lambda *seconds: True)
        patch.setattr(masked_lookup, "ROW_MASK_BITS_MAX", 4)
        patch.setattr(tail, "FENCE_ENTRIES", 3)
        patch.setitem(RunWriter.__init__.__kwdefaults__, "fence_entries", 3)
        yield


MOST = st.sampled_from([1e9, 1e9, 0.5, 0.0])


@given(asked=questions(), most=MOST)
@SLOW
def test_plans_agree(asked: tuple[SmallStream, str, tuple[str, ...]], most: float) -> None:
    with windows_of_all_lookups(most):
        check_plans(*asked)


@given(case=keyed_cases(), most=MOST)
@FEW
def test_plans_agree_over_keys(case: Case, most: float) -> None:
    """Among them streams of several runs, late events, runs without keys, and files without any."""
    with windows_of_all_lookups(most):
        check_case(case, "indexes=A", "indexes=A,B,Z")


@given(asked=questions(), odd=weights(), lie=LIES, most=MOST)
@FEW
def test_wrong_estimates_change_no_answer(
    asked: tuple[SmallStream, str, tuple[str, ...]],
    odd: CostParameters,
    lie: int | None,
    most: float,
) -> None:
    """Whatever order they are asked in, and whichever are left out or asked besides."""
    with windows_of_all_lookups(most):
        check_auto(*asked, odd, lie)
