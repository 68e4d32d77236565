"""The one law with indexes over several attributes: what is asked of which changes no answer."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import replay
from chronicle import create_store
from replay.errors import PlanError
from tests.helpers import fill_stream
from tests.property.test_plans_agree import answer, rows_or_error
from tests.property.test_wrong_estimates_agree import LIES, check_auto, weights
from tests.strategies import SmallStream, streams

SINGLES = ("a", "x", "s", "f")
COMPOSITES = ("a+s", "s+a", "x+a", "a+x+s", "f+k", "k+a", "s+x+a+f", "x+f")

ATOMS = {
    "a": ("a = 2", "a IN (1, 3, 4)", "a > 2", "a BETWEEN 1 AND 3", "a <> 2", "a >= 1.5"),
    "x": ("x = 0", "x > 0.5", "x <= 0", "x IN (-1.5, 2.5)", "x NOT BETWEEN 0 AND 1"),
    "s": ("s = 'ab'", "s LIKE 'a%'", "s > 'a'", "s IN ('', 'z', 'ß')", "s <= 'b'"),
    "f": ("f", "NOT f"),
    "k": ("k = 1", "k >= 1"),
}
"""Terms on single columns, each of which gives a range."""

PINNED = ("{0}.a = {1}.a", "{0}.s = {1}.s", "{0}.x <= {1}.x", "{0}.k = {1}.k")
"""Terms that give a symbol what is known of another one."""

PATTERNS = ("A B", "A Z* B", "A B* D", "A Z* B D", "(A | B) Z* D", "A+ B", "Z* A B", "A{2} Z* D")


def indexes() -> st.SearchStrategy[tuple[str, ...]]:
    singles = st.sets(st.sampled_from(SINGLES), max_size=2)
    composites = st.sets(st.sampled_from(COMPOSITES), min_size=1, max_size=3)
    return st.builds(lambda one, more: tuple(sorted(one | more)), singles, composites)


@st.composite
def conjunctions(draw: st.DrawFn, symbol: str, others: tuple[str, ...]) -> str:
    """Conditions on one to four columns, which composites cover in part or in full."""
    columns = draw(st.lists(st.sampled_from(tuple(ATOMS)), min_size=1, max_size=4, unique=True))
    terms = [draw(st.sampled_from(ATOMS[column])) for column in columns]
    if others and draw(st.booleans()):
        terms[0] = draw(st.sampled_from(PINNED)).format(symbol, draw(st.sampled_from(others)))
    text = " AND ".join(f"({term})" for term in terms)
    if draw(st.integers(0, 4)) == 0:
        text = f"({text}) OR ({draw(conjunctions(symbol, ()))})"
    return text


@st.composite
def queries(draw: st.DrawFn, *, timestamps: bool) -> str:
    pattern = draw(st.sampled_from(PATTERNS))
    names = tuple(name for name in "ABD" if name in pattern)
    defines = [
        f"{name} AS {draw(conjunctions(name, tuple(n for n in names if n != name)))}"
        for name in names
    ]
    partition = draw(st.sampled_from(("", "", "PARTITION BY k", "PARTITION BY s, k")))
    unit = "INTERVAL '{}' SECOND" if timestamps else "{}"
    within = draw(st.sampled_from(("WITHIN " + unit.format(3), "WITHIN " + unit.format(20), "")))
    skip = draw(st.sampled_from(("", "AFTER MATCH SKIP TO NEXT ROW")))
    measures = "FIRST(t) AS m1, LAST(t) AS m2, A.a AS m3, LAST(s) AS m4, COUNT(*) AS m5"
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES {measures} "
        f"ONE ROW PER MATCH {skip} PATTERN ({pattern}) {within} DEFINE {', '.join(defines)})"
    )


@given(stream=streams(), data=st.data(), index=indexes())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_over_composites_gives_the_answer_of_a_full_replay(
    stream: SmallStream, data: st.DataObject, index: tuple[str, ...]
) -> None:
    sql = data.draw(queries(timestamps=stream.has_timestamps))
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        fill_stream(store, "s", stream, index=index)
        full, _ = rows_or_error(store, sql, "full")
        named = [f"indexes={symbol}.{name}" for symbol in "ABD" for name in index]
        for plan in ("tree", "all", "auto", "indexes=A", *named):
            try:
                given_rows, n_skipped = rows_or_error(store, sql, plan)
            except PlanError:
                continue
            kind = "composite" if "+" in plan else plan.partition("=")[0]
            event(f"{kind}: {'skips' if n_skipped else 'reads all'}")
            assert given_rows == full, plan


@given(stream=streams(), data=st.data(), index=indexes(), odd=weights(), lie=LIES)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_estimates_of_composites_may_be_wrong(
    stream: SmallStream, data: st.DataObject, index: tuple[str, ...], odd: object, lie: int | None
) -> None:
    check_auto(stream, data.draw(queries(timestamps=stream.has_timestamps)), index, odd, lie)


@given(stream=streams(), data=st.data(), index=indexes())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_filters_through_composites(
    stream: SmallStream, data: st.DataObject, index: tuple[str, ...]
) -> None:
    sql = f"SELECT t, a, x, s FROM s WHERE {data.draw(conjunctions('s', ()))}"
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        fill_stream(store, "s", stream, index=index)
        full = answer(replay.query(store, sql, plan="full").table)
        for plan in ("tree", "all", "auto", *(f"indexes={name}" for name in index)):
            try:
                result = replay.query(store, sql, plan=plan)
            except PlanError:
                continue
            event(f"{plan.partition('=')[0]}: {result.actual.entries_read > 0}")
            assert answer(result.table) == full, plan
