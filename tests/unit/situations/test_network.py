"""What bounds say of starts and detection, by hand; random ones are in `test_situations_agree`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replay.language import bind_query, parse_query
from replay.language.bound import BoundSelect, SituationRelation
from replay.situations.network import UNBOUNDED, distances, why_never

SCHEMA = pa.schema({"t": pa.int64(), "x": pa.int64()})


def relation(clauses: str) -> SituationRelation:
    text = f"FROM s {clauses}"
    query = bind_query(parse_query(text), lambda _: (SCHEMA, "t"), text=text)
    assert isinstance(query, BoundSelect)
    assert isinstance(query.source, SituationRelation)
    return query.source


def test_a_situation_that_another_meets_starts_when_that_can_end() -> None:
    of = "DEFINE A AS x > 1 BETWEEN 4 AND 30, B AS x < 1 PATTERN A meets B WITHIN 300"
    found = distances(relation(of))
    assert found is not None
    assert (found.low[0][1], found.high[0][1]) == (4, 30)
    assert (found.low[1][0], found.high[1][0]) == (-30, -4)
    assert found.reach == (30, 0)  # as B starts, A has ended
    assert [found.before(place) for place in range(2)] == [0, 30]


def test_durations_bound_more_than_within() -> None:
    found = distances(
        relation(
            "DEFINE A AS x > 8 AT LEAST 5, B AS x > 7 BETWEEN 4 AND 30, C AS x < 0 AT LEAST 3 "
            "PATTERN A meets;overlaps;starts;during B AND B contains;finished by;overlaps;meets C "
            "AND A before C WITHIN 300"
        )
    )
    assert found is not None
    # A ends no later than B does: A starts at most 30 - 5 behind B. B ends 4 behind its start, by
    # the detection, which is at most 300 behind A's.
    assert (found.low[0][1], found.high[0][1]) == (-25, 296)
    assert (found.low[1][2], found.high[1][2]) == (0, 30)  # C starts while B lasts, or as it ends
    assert found.reach[1] == 33  # C, the last to start, must have lasted 3


@pytest.mark.parametrize(
    ("clauses", "reach"),
    [
        ("DEFINE A AS x > 8", 0),
        ("DEFINE A AS x > 8 AT LEAST 5", 5),
        ("DEFINE A AS x > 8 BETWEEN 5 AND 7", 7),
        ("DEFINE A AS x > 8 AT MOST 7 WITHIN 6", 6),
        ("DEFINE A AS x > 8 AT LEAST 5 EMIT FINAL", UNBOUNDED),
        ("DEFINE A AS x > 8 AT LEAST 5 WITHIN 9 EMIT FINAL", 9),
    ],
)
def test_one_situation_is_certain_as_its_durations_are(clauses: str, reach: int) -> None:
    found = distances(relation(clauses))
    assert found is not None
    assert found.reach == (reach,)


@pytest.mark.parametrize(
    ("clauses", "why"),
    [
        ("A AS x > 8 AT LEAST 6, B AS x > 7 AT MOST 5 PATTERN A during B WITHIN 90", "durations"),
        ("A AS x > 8 AT LEAST 6, B AS x > 7 PATTERN A before B WITHIN 5", "durations"),
        (
            "A AS x>8, B AS x>7, C AS x<6 PATTERN A meets B AND B meets C AND C meets A WITHIN 5",
            "have all relations",
        ),
    ],
)
def test_bounds_that_contradict_each_other_match_nothing(clauses: str, why: str) -> None:
    assert distances(relation(f"DEFINE {clauses}")) is None
    assert why in (why_never(relation(f"DEFINE {clauses}")) or "")
