"""The one law where estimates are wrong: counts that lie, odd weights, steps that nobody needs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import replay
from chronicle import Store
from costmodel.parameters import CostParameters
from replay.engines.statistics import SnapshotStatistics
from replay.errors import SkipError
from replay.planning import cost_inputs, steps
from replay.planning.block_selectivity import BlockShares
from tests.helpers import fill_stream
from tests.memory_stream import some_store
from tests.pattern_cases import pattern_case
from tests.plan_cases import (
    CANDIDATES_MOST,
    composite_queries,
    composites,
    every_lookup_within_rows,
)
from tests.property.law import SLOW, answer
from tests.strategies import SEEDS, SmallStream, cases, streams


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
    stream: SmallStream,
    sql: str,
    index: tuple[str, ...],
    odd: CostParameters,
    lie: int | None,
    *,
    boldness: int = 0,
) -> None:
    """Hold the steps that are taken to the full replay.

    ``lie`` is what every range is said to hold at most; None: the truth. It is never nothing, as
    planning may take that for a proof. ``boldness`` 1 has every lookup tried and intervals computed
    behind each, 2 has them tried without a look between.
    """

    def count(*asked: object, **knobs: object) -> tuple[int, int]:
        return 0, lie or 1

    with pytest.MonkeyPatch.context() as patch, some_store(stream, sql, lie) as store:
        fill_stream(store, "s", stream, index=index)
        expected = rows_or_error(store, sql, "full")
        patch.setattr(SnapshotStatistics, "parameters", odd)
        if boldness:
            patch.setattr(steps, "EXPLORE_SHARE", math.inf)
            patch.setattr(cost_inputs, "are_even", lambda shares: np.zeros(len(shares), np.bool_))
            patch.setattr(BlockShares, "measures", lambda shares, parts: True)
            patch.setattr(steps, "is_bearable", lambda *seconds: True)
            patch.setattr(steps, "SWEEP_S", math.inf if boldness == 2 else 0.0)
        if lie is not None:
            patch.setattr(SnapshotStatistics, "estimate_count", count)
        assert rows_or_error(store, sql, "auto") == expected


def rows_or_error(store: Store, sql: str, plan: str) -> object:
    try:
        result = replay.query(store, sql, plan=plan)
    except SkipError as error:
        return str(error)
    if plan == "auto" and result.plan is not None:
        taken = [step.taken for step in result.plan.steps]
        event(f"{result.plan.kind.value}, {sum(taken)} steps taken, {taken.count(False)} refused")
    return answer(result.table)


@st.composite
def questions(draw: st.DrawFn) -> tuple[SmallStream, str, tuple[str, ...]]:
    """Streams, queries of any constructs, and indexes over one column or several."""
    source = draw(st.sampled_from(("plain", "constructs", "composites")))
    if source == "plain":
        return *draw(cases()), ("a", "x", "s", "f")
    if source == "constructs":
        case = pattern_case(draw(SEEDS))
        return case.stream, case.sql, case.indexes
    stream = draw(streams())
    return stream, draw(composite_queries(timestamps=stream.has_timestamps)), draw(composites())


@given(
    asked=questions(),
    odd=weights(),
    lie=st.sampled_from([None, 1, 10**9]),
    boldness=st.sampled_from([0, 1, 1, 2]),
    most=CANDIDATES_MOST,
)
@SLOW
def test_wrong_estimates_change_no_answer(
    asked: tuple[SmallStream, str, tuple[str, ...]],
    odd: CostParameters,
    lie: int | None,
    boldness: int,
    most: float | None,
) -> None:
    with every_lookup_within_rows(most):
        check_auto(*asked, odd, lie, boldness=boldness)
