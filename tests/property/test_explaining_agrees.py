"""Explaining takes the steps that the query takes."""

from __future__ import annotations

from random import Random

from hypothesis import event, given
from hypothesis import strategies as st

import replay
from replay.errors import SkipError
from tests.helpers import fill_stream
from tests.memory_stream import some_store
from tests.pattern_cases import pattern_case
from tests.property.law import SLOW
from tests.strategies import SEEDS, SmallStream

BLOCK = 8
PATTERNS = ("A Z* B", "A B Z* C", "Z* A B", "A B* C", "(A | B) Z* C", "A+ B", "A? B Z*", "A B{2}")
CONDITIONS = ("a = 3", "a = 7 AND s = 'b'", "s IN ('c', 'd')", "a BETWEEN 4 AND 5", "s > 'g'")
SKIPS = ("AFTER MATCH SKIP PAST LAST ROW", "AFTER MATCH SKIP TO NEXT ROW")


def check_steps(stream: SmallStream, sql: str, index: tuple[str, ...], requested: str) -> None:
    """Hold an explanation to the query: the same steps, and what they left is what was read."""
    with some_store(stream, sql, index) as store:
        fill_stream(store, "s", stream, index=index)
        try:
            explained = replay.explain(store, sql, plan=requested).to_dict()
        except replay.PlanError:
            return
        replay.clear_caches()
        try:
            stats = replay.query(store, sql, plan=requested).stats
        except SkipError:
            return
        for told in (explained, stats):
            for step in told["steps"]:
                step["seconds"] = 0.0
        assert explained == {**stats, "actual": None}
        taken = [step for step in stats["steps"] if step["taken"]]
        event(f"{len(taken)} steps taken")
        actual = stats["actual"]
        if actual["switched"] is None and taken and (left := taken[-1]["left"]) is not None:
            assert left["intervals"] == actual["intervals"]
            # With neighbours in partitions more is read beside it; all of it where that is cheaper.
            if stats["plan"].startswith("indexes"):
                assert left["blocks"] <= actual["blocks_read"]


@st.composite
def rare_in_every_block(draw: st.DrawFn) -> tuple[SmallStream, str]:
    """Streams of which the extremes prune nothing, and patterns of rare symbols in a window."""
    random = Random(draw(SEEDS))
    extremes = [(-9, "A"), (99, "zz")]
    rows, t = [], 0
    for i in range(BLOCK * random.randint(8, 40)):
        t += random.choice([0, 1, 1, 3])
        a, s = random.randint(0, 8), random.choice("abcdefgh")
        a, s = extremes[i % BLOCK] if i % BLOCK < len(extremes) else (a, s)
        rows.append({"t": t, "a": a, "x": float(i), "s": s, "f": True, "k": i % 3})
    pattern = draw(st.sampled_from(PATTERNS))
    names = [name for name in "ABC" if name in pattern]
    conditions = [f"{name} AS {random.choice(CONDITIONS)}" for name in names]
    sql = (
        f"SELECT * FROM s MATCH_RECOGNIZE ({random.choice(['', 'PARTITION BY k '])}ORDER BY t "
        f"MEASURES LAST(t) AS e {random.choice(SKIPS)} PATTERN ({pattern}) "
        f"WITHIN {random.choice([0, 2, 9, 40])} DEFINE {', '.join(conditions)})"
    )
    return SmallStream(rows, BLOCK, file_events=64, fan_out=4, cuts=()), sql


def of_any_constructs(seed: int) -> tuple[SmallStream, str, tuple[str, ...]]:
    """Return a stream, a query and what is indexed."""
    case = pattern_case(seed)
    return case.stream, case.sql, case.indexes


@given(
    asked=SEEDS.map(of_any_constructs)
    | rare_in_every_block().map(lambda case: (*case, ("a", "s"))),
    requested=st.sampled_from(["auto", "auto", "all", "indexes=A", "indexes=B"]),
)
@SLOW
def test_explaining_takes_the_steps_of_the_query(
    asked: tuple[SmallStream, str, tuple[str, ...]], requested: str
) -> None:
    check_steps(*asked, requested)
