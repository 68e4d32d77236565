"""The one law where some blocks are read through and lookups are asked in the others alone.

Streams of these tests are too small for it to pay, and planning would choose the part with care;
here it is any set of blocks, and lookups in the rest are any, with what fills gaps or without.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from costmodel.features import PlanFeatures
from costmodel.parameters import CostParameters
from costmodel.selection import Selection
from replay.planning import parts
from replay.planning.parts import Parted, Parting, part_of
from replay.planning.plan import Condition
from tests.pattern_cases import pattern_case
from tests.property import test_delta_plans_agree as over_deltas
from tests.property import test_filters_agree as over_filters
from tests.property import test_keyed_plans_agree as over_keys
from tests.property.test_lookups_in_windows_agree import windows_of_all_lookups
from tests.property.test_plans_agree import check_plans
from tests.strategies import SmallStream, queries, streams


@contextmanager
def any_part(seed: int, *, in_windows: bool) -> Iterator[None]:
    """Have every plan of ``auto`` that may read some blocks through, drawn by a seed."""
    random = np.random.default_rng(seed)

    def any_lookups(features: PlanFeatures, parameters: CostParameters) -> Selection:
        lookups = random.random(len(features.lookup_entries)) < 0.6
        lookups[random.integers(len(lookups))] = True
        return Selection(lookups[features.lookup], 0.0, 1)

    def best(
        self: Parting, plans: Sequence[tuple[Condition, ...]], **knobs: float
    ) -> Parted | None:
        if not self.is_possible:
            event("no part possible")
            return None
        n = self.statistics.n_blocks
        borders = np.sort(random.integers(0, n + 1, random.choice([2, 2, 4])))
        wanted = np.searchsorted(borders, np.arange(n), side="right") % 2 == 1
        window = self.query.within, self.shape.row_window
        blocks = part_of(self.stretches, wanted, self.statistics.leaves, *window)
        if blocks is None:
            event("all or nothing is reached")
            return None
        found = self.parted(*blocks, math.inf, 0.0)
        assert found is not None
        filled = self.weighed.fill(found.conditions) if random.random() < 0.5 else ()
        event("in a part, gaps filled" if filled else "in a part")
        return replace(found, conditions=filled) if filled else found

    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(Parting, "best", best)
        patch.setattr(parts, "select", any_lookups)
        patch.setattr(parts, "PIECE_BLOCKS", 1)
        if in_windows:
            stack.enter_context(windows_of_all_lookups(1e9))
        yield


SEEDS = st.integers(0, 2**32 - 1)
SLOW = settings(
    max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
BOUNDED = ("A B", "A B C", "(A | B) C", "A{2} C", "A B{0,2} C", "A")
GAPPED = ("A Z* B", "A Z* B Z* C", "A B* C", "A B+ C", "A (B | C)* C", "A B* C Z* A")


@st.composite
def long_cases(draw: st.DrawFn) -> over_keys.Case:
    """Streams much longer than a window, with ties in time, late events and several runs."""
    choose = Random(draw(SEEDS))
    n, step = choose.randint(60, 160), choose.choice((0.6, 1.0, 3.0))
    appends = []
    for _ in range(choose.randint(1, 3)):
        rows = [
            (
                choose.randint(0, int(step * n)),
                None,
                choose.choice((0, 1, 2, 2, 1, 3, 4, None)),
                choose.choice((0.0, 1.0, 1.0, 2.0, None)),
            )
            for _ in range(n)
        ]
        appends.append((choose.choice(("runs", "runs", "runs", "tail")), rows))
    sizes = choose.choice((1, 2, 3, 5)), choose.choice((8, 24, 500))
    return over_keys.Case("integer", appends, *sizes, draw(long_queries()), 1 << 17)


@st.composite
def long_queries(draw: st.DrawFn) -> str:
    pattern = draw(st.sampled_from((*BOUNDED, *GAPPED)))
    windows = ("WITHIN 0", "WITHIN 1", "WITHIN 2", "WITHIN 5")
    within = draw(st.sampled_from((*windows, "") if pattern in BOUNDED else windows))
    semantics = draw(st.sampled_from(("", "", "", "CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL ANY")))
    if "|" in pattern or "{" in pattern:
        semantics = ""
    if semantics == "SKIP TILL ANY" and ("*" in pattern or "+" in pattern):
        semantics = "SKIP TILL NEXT"  # any choice of the many rows in a gap would be a match
    names = [name for name in "ABC" if name in pattern]
    skips = ("TO NEXT ROW", "PAST LAST ROW", "TO LAST A", f"TO LAST {names[-1]}")
    skip = "" if semantics else f"AFTER MATCH SKIP {draw(st.sampled_from(skips))}"
    likely = ("a > 1", "x < 1.5", "a <> 2", "a = 2 OR a = 1", "PREV(a) = 1 AND a < 3")
    rare = ("a = 3", "a = 3 AND x > 0.0", "x = 2.0", "a = 4")
    defines = [f"{name} AS {draw(st.sampled_from((*likely, *rare)))}" for name in names]
    if semantics and within and draw(st.booleans()):
        pattern = draw(st.sampled_from((f"!N {pattern}", f"{pattern} !N")))
        defines.append("N AS a = 0")
    rows = draw(st.sampled_from(("", "ALL ROWS PER MATCH")))
    return (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(t) AS m1, LAST(x) AS m2, "
        f"COUNT(*) AS m3, MATCH_NUMBER() AS m4, PREV(A.a) AS m5 {rows} {skip} PATTERN ({pattern}) "
        f"{f'SEMANTICS {semantics}' if semantics else ''} {within} DEFINE {', '.join(defines)})"
    )


@given(case=long_cases(), seed=SEEDS, in_windows=st.booleans())
@settings(
    max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_plans_agree_over_long_streams(case: over_keys.Case, seed: int, in_windows: bool) -> None:
    with any_part(seed, in_windows=in_windows):
        over_keys.check_plans_over_keys(case)


@given(of=SEEDS, seed=SEEDS, in_windows=st.booleans())
@SLOW
def test_plans_agree_whatever_the_constructs(of: int, seed: int, in_windows: bool) -> None:
    case = pattern_case(of)
    with any_part(seed, in_windows=in_windows):
        check_plans(case.stream, case.sql, case.indexes)


@given(case=over_deltas.cases(), seed=SEEDS, in_windows=st.booleans())
@SLOW
def test_plans_agree_on_what_compares_with_the_event_before(
    case: over_deltas.Case, seed: int, in_windows: bool
) -> None:
    with any_part(seed, in_windows=in_windows):
        over_deltas.check_plans(case)


@given(stream=streams(), sql=over_filters.filters(), seed=SEEDS)
@SLOW
def test_filters_agree(stream: SmallStream, sql: str, seed: int) -> None:
    with any_part(seed, in_windows=False):
        over_filters.check_filter(stream, sql, {"a", "x", "s", "f"})


@given(stream=streams(), inner=over_filters.plain_filters(), data=st.data(), seed=SEEDS)
@SLOW
def test_patterns_over_filters_agree(
    stream: SmallStream, inner: str, data: st.DataObject, seed: int
) -> None:
    pattern = data.draw(queries(timestamps=stream.has_timestamps))
    with any_part(seed, in_windows=False):
        over_filters.check_pattern(stream, pattern, inner)
