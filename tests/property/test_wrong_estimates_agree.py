"""The one law where estimates are wrong: counts that lie, odd weights, samples of a few blocks."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import replay
from chronicle import Store, create_store
from costmodel.parameters import CostParameters
from replay.engines.statistics import SnapshotStatistics
from replay.errors import SkipError
from replay.planning import planner, safety, sampling
from tests.helpers import fill_stream
from tests.pattern_cases import pattern_case
from tests.property.test_plans_agree import answer
from tests.strategies import SmallStream, cases


@st.composite
def weights(draw: st.DrawFn) -> CostParameters:
    """Weights that make blocks, entries or jumps very dear, so that every way is taken."""
    unit = st.sampled_from([1e-9, 1e-5, 1e-2])
    return CostParameters(
        block_s=draw(st.sampled_from([1e-5, 1e-2, 1.0])),
        value_s=1e-9,
        predicate_s=0.0,
        match_s=0.0,
        entry_s=draw(unit),
        sort_s=0.0,
        seek_s=draw(unit),
        full_margin=1.0,
    )


def check_auto(
    stream: SmallStream, sql: str, index: tuple[str, ...], odd: CostParameters, lie: int | None
) -> None:
    """Hold the planner's choice to the full replay, with a sample and with doubts between lookups.

    ``lie`` is what every range is said to hold at most; None: the truth. It is never nothing, as
    planning may take that for a proof.
    """

    def count(*asked: object, **knobs: object) -> tuple[int, int]:
        return 0, lie or 1

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        fill_stream(store, "s", stream, index=index)
        expected = rows_or_error(store, sql, "full")
        patch.setattr(SnapshotStatistics, "parameters", odd)
        patch.setattr(planner, "blocks_worth_sampling", lambda *costs: 2)
        patch.setattr(sampling, "CORE_BLOCKS", 1)
        patch.setattr(sampling, "BUCKETS_MIN", 1)
        patch.setattr(safety, "AS_EXPECTED", 1.0)
        patch.setattr(safety, "CHECK_SHARE", math.inf)
        if lie is not None:
            patch.setattr(SnapshotStatistics, "estimate_count", count)
        assert rows_or_error(store, sql, "auto") == expected


def rows_or_error(store: Store, sql: str, plan: str) -> object:
    try:
        result = replay.query(store, sql, plan=plan)
    except SkipError as error:
        return str(error)
    if plan == "auto" and result.plan is not None:
        event(f"{result.plan.kind.value}, switched: {result.actual.switched is not None}")
        event(f"sampled: {result.plan.sampled is not None}")
    return answer(result.table)


LIES = st.sampled_from([None, 1, 10**9])


@given(seed=st.integers(0, 2**32 - 1), odd=weights(), lie=LIES)
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_wrong_estimates_change_no_answer_whatever_the_constructs(
    seed: int, odd: CostParameters, lie: int | None
) -> None:
    case = pattern_case(seed)
    check_auto(case.stream, case.sql, case.indexes, odd, lie)


@given(case=cases(), odd=weights(), lie=LIES)
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_wrong_estimates_change_no_answer(
    case: tuple[SmallStream, str], odd: CostParameters, lie: int | None
) -> None:
    stream, sql = case
    check_auto(stream, sql, ("a", "x", "s", "f"), odd, lie)
