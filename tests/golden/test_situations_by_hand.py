"""Temporal patterns over situations: small histories whose answers were worked by hand.

Conditions are 0/1 columns and rows come once a second unless said; ``(2, 6)`` is a situation that
starts at 2 and ends at 6. Each answer holds for the table operator, the papers' form, and events
that come one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

import replay
from replay.language import allen

Periods = dict[str, tuple[int, int] | list[tuple[int, int]]]


def seconds(periods: Periods, until: int = 20, **also: Any) -> list[dict[str, Any]]:
    """Return a row a second, in which a name is 1 while its situations last."""
    rows = []
    for t in range(until):
        row: dict[str, Any] = {"t": t, **also}
        for name, spans in periods.items():
            listed = spans if isinstance(spans, list) else [spans]
            row[name] = int(any(start <= t < end for start, end in listed))
        rows.append(row)
    return rows


def ask(rows: Sequence[dict[str, Any]], clauses: str) -> list[tuple]:
    """Return the answer, the same from all three ways."""
    table = pa.Table.from_pylist(list(rows))
    before, partition_by, rest = clauses.rpartition("PARTITION BY k ")
    clauses = f"{before}{partition_by}ORDER BY t {rest}"
    sql = f"FROM s {clauses}"
    answer = tuples(replay.query({"s": table}, sql).table)
    operator = f"SELECT * FROM s MATCH_SITUATIONS ({clauses})"
    assert tuples(replay.query({"s": table}, operator).table) == answer
    online = replay.online(sql, table.schema, time="t")
    pieces = [online.push(table.slice(at, 1)) for at in range(table.num_rows)]
    assert tuples(pa.concat_tables([*pieces, online.finish()])) == answer
    return answer


def tuples(table: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_pylist()]


def define(*names: str) -> str:
    return "DEFINE " + ", ".join(f"{name} AS {name} = 1" for name in names)


# ---------------------------------------------------------------------------------------------
# One situation


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("", [(1, 2, None, 2)]),
        ("AT LEAST 4", [(5, 2, None, 6)]),  # as the condition has held for 4 seconds
        ("BETWEEN 4 AND 30", [(8, 2, 10, 10)]),  # that it is no longer only its end tells
        ("BETWEEN 9 AND 30", []),
    ],
)
def test_1_a_situation_is_told_as_soon_as_its_duration_is_certain(duration, expected):
    rows = [{"t": t, "speed": 80 if 2 <= t <= 9 else 60} for t in range(1, 11)]
    clauses = f"DEFINE B AS speed > 70 {duration} RETURN COUNT(B.*) AS n"
    assert ask(rows, clauses) == expected


LEAST_4 = "PARTITION BY k DEFINE B AS b = 1 AT LEAST 4 RETURN COUNT(B.*) AS n"


def test_7_a_duration_is_reached_between_events_but_not_after_the_last() -> None:
    rows = [{"t": t, "k": 1, "b": b} for t, b in ((0, 1), (10, 1), (12, 0))]
    assert ask(rows, LEAST_4) == [(1, 1, 0, None, 4)]
    rows = [{"t": t, "k": 1, "b": 1} for t in (0, 3)]
    assert ask(rows, LEAST_4) == []  # history ends at 3
    # A row of another partition makes it reach 4.
    assert ask([*rows, {"t": 4, "k": 2, "b": 0}], LEAST_4) == [(1, 2, 0, None, 4)]


def test_a_column_of_partition_by_can_stand_in_what_is_returned() -> None:
    rows = [{"t": t, "k": 7, "b": b} for t, b in ((0, 1), (10, 1), (12, 0))]
    returned = "RETURN COUNT(B.*) + k AS n, k * 2 AS twice"
    clauses = f"PARTITION BY k DEFINE B AS b = 1 AT LEAST 4 {returned}"
    assert ask(rows, clauses) == [(7, 8, 14, 0, None, 4)]


def spans(events: list[tuple[int, int]], clauses: str = "DEFINE B AS b = 1 EMIT FINAL") -> list:
    return [row[:2] for row in ask([{"t": t, "b": b} for t, b in events], clauses)]


def test_8_of_events_at_one_time_the_last_says_what_holds() -> None:
    # On at 5, off at 5: no time. On at 5 again, until 8.
    assert spans([(4, 0), (5, 1), (5, 0), (5, 1), (8, 0)]) == [(5, 8)]
    assert spans([(2, 1), (5, 0), (5, 1), (8, 0)]) == [(2, 5), (5, 8)]


def test_9_an_event_speaks_for_no_longer_than_it_is_valid() -> None:
    clauses = "VALID FOR 3 DEFINE B AS b = 1 EMIT FINAL"
    assert spans([(1, 1), (2, 1), (3, 1), (7, 1), (9, 0)], clauses) == [(1, 6), (7, 9)]
    assert spans([(1, 1), (4, 1), (7, 1), (9, 0)], clauses) == [(1, 9)]  # exactly 3 apart
    assert spans([(1, 1), (2, 1), (3, 1), (5, 0)], clauses) == [(1, 5)]


def test_10_null_and_nan_end_a_situation_as_false_does() -> None:
    rows = [{"t": t, "x": x} for t, x in enumerate((7.0, None, 7.0, float("nan"), 7.0))]
    found = ask(rows, "DEFINE B AS x > 5 EMIT FINAL")
    assert [row[:2] for row in found] == [(0, 1), (2, 3)]  # the last goes on
    assert ask(rows, "DEFINE B AS NOT (x > 5) EMIT FINAL") == []


# ---------------------------------------------------------------------------------------------
# Several


BRAKING = (
    "PATTERN A meets;overlaps;starts;during B AND B contains;finished by;overlaps;meets C AND "
    "A before C WITHIN 300"
)


def drives() -> list[dict[str, Any]]:
    cars = [
        seconds({"a": (2, 6), "b": (4, 13), "c": (10, 15)}, k=1),
        seconds({"a": (2, 6), "b": (4, 16), "c": (10, 13)}, k=2),
    ]
    return [row | {"speed": 60.0 + row["t"]} for both in zip(*cars, strict=True) for row in both]


def test_2_aggressive_drivers_are_told_as_they_brake() -> None:
    clauses = f"PARTITION BY k DEFINE A AS a = 1, B AS b = 1, C AS c = 1 {BRAKING}"
    returned = "RETURN AVG(B.speed) AS v"
    # The speeds of B so far are 64 to 70.
    assert ask(drives(), f"{clauses} {returned}") == [
        (1, 67.0, 2, 6, 4, None, 10, None, 10),
        (2, 67.0, 2, 6, 4, None, 10, None, 10),
    ]
    assert ask(drives(), f"{clauses} EMIT FINAL {returned}") == [
        (1, 68.0, 2, 6, 4, 13, 10, 15, 15),
        (2, 69.5, 2, 6, 4, 16, 10, 13, 16),
    ]


def test_3_a_greatest_duration_waits_for_the_end() -> None:
    clauses = (
        "PARTITION BY k DEFINE A AS a = 1 AT LEAST {}, B AS b = 1 BETWEEN 4 AND 30, "
        f"C AS c = 1 AT LEAST 3 {BRAKING}"
    )
    assert [(row[0], row[-1]) for row in ask(drives(), clauses.format(4))] == [(1, 13), (2, 16)]
    assert ask(drives(), clauses.format(5)) == []  # A lasts 4


ALONE = {
    "before": ((1, 3), (5, 7), 5),
    "meets": ((1, 3), (3, 6), 3),
    "overlaps": ((1, 4), (3, 6), 4),
    "finished by": ((1, 6), (3, 6), 6),
    "contains": ((1, 7), (3, 5), 5),
    "starts": ((2, 4), (2, 6), 4),
    "equals": ((2, 5), (2, 5), 5),
    "started by": ((2, 6), (2, 4), 4),
}
OVERLAPPING = ("overlaps", "finished by", "contains")


@pytest.mark.parametrize("relation", ALONE)
def test_4_a_relation_is_certain_as_table_5_2_says(relation: str) -> None:
    a, b, alone = ALONE[relation]
    rows = seconds({"A": a, "B": b})

    def detections(relations: str) -> list[int]:
        return [
            row[-1] for row in ask(rows, f"{define('A', 'B')} PATTERN A {relations} B WITHIN 99")
        ]

    assert detections(relation) == [alone]
    later = max(a[0], b[0])
    if relation not in ("before", "meets"):
        group = OVERLAPPING if relation in OVERLAPPING else ("starts", "equals", "started by")
        assert detections(";".join(group)) == [later] == [3 if group is OVERLAPPING else 2]
    assert detections(";".join(allen.NAMES)) == [later]


@pytest.mark.parametrize(
    ("b", "c", "d", "expected"),
    [
        ((5, 12), (4, 8), (8, 11), [8]),  # D starts as C ends, while B goes on
        ((5, 12), (4, 13), (6, 9), [9]),  # D ends
        ((5, 9), (4, 10), (6, 12), []),  # the false positive of Figure 5.4 b
        ((5, 12), (4, 9), (6, 9), [9]),
        ((11, 13), (4, 9), (6, 8), [11]),  # B starts
    ],
)
def test_5_a_match_is_told_at_the_last_instant_it_needs(b, c, d, expected) -> None:
    pattern = "A before B AND A before C AND A before D AND C contains;finished by;meets D"
    rows = seconds({"A": (1, 3), "B": b, "C": c, "D": d})
    found = ask(rows, f"{define('A', 'B', 'C', 'D')} PATTERN {pattern} WITHIN 99")
    assert [row[-1] for row in found] == expected


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("", [(3, 5, 1, None, 5)]),
        ("AT LEAST 8", [(3, 5, 1, None, 9)]),
        ("AT LEAST 10", [(3, 5, 1, 11, 11)]),  # reached as it ends
        ("AT LEAST 11", []),
    ],
)
def test_6_a_duration_may_be_certain_after_the_relation(duration, expected) -> None:
    rows = seconds({"A": (3, 5), "B": (1, 11)})
    clauses = f"DEFINE A AS A = 1, B AS B = 1 {duration} PATTERN A during B WITHIN 99"
    assert ask(rows, clauses) == expected


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ("WITHIN 8", [9]),
        ("WITHIN 7", []),
        ("WITHIN 11 EMIT FINAL", [12]),
        ("WITHIN 10 EMIT FINAL", []),
    ],
)
def test_11_within_ends_at_the_detection(bound: str, expected: list[int]) -> None:
    rows = seconds({"A": (1, 3), "B": (9, 12)})
    found = ask(rows, f"{define('A', 'B')} PATTERN A before B {bound}")
    assert [row[-1] for row in found] == expected


def test_12_batches_do_not_show() -> None:
    rows = seconds({"A": [(2, 4), (7, 8)], "B": (4, 6)}, until=9)[1:]
    clauses = f"{define('A', 'B')} PATTERN A meets;after B WITHIN 99"
    expected = [(2, 4, 4, None, 4), (7, None, 4, 6, 7)]
    assert ask(rows, clauses) == expected
    table = pa.Table.from_pylist(rows)
    online = replay.online(f"FROM s ORDER BY t {clauses}", table.schema)
    pieces = [online.push(table.slice(0, 4)), online.push(table.slice(4)), online.finish()]
    assert tuples(pa.concat_tables(pieces)) == expected


def test_13_every_combination_is_a_match_in_the_order_of_its_situations() -> None:
    rows = seconds({"A": [(0, 1), (2, 3), (4, 5)], "B": [(6, 7), (8, 9)]})
    found = ask(rows, f"{define('A', 'B')} PATTERN A before B WITHIN 99")
    assert [(row[0], row[2], row[-1]) for row in found] == [
        (0, 6, 6), (2, 6, 6), (4, 6, 6), (0, 8, 8), (2, 8, 8), (4, 8, 8),
    ]  # fmt: skip


def test_more_matches_than_there_is_room_for_are_found_anew() -> None:
    """As at 0, 2, … 58 and Bs at 60, 62, … 118: each B with all As, of two partitions."""
    a, b = range(0, 60, 2), range(60, 120, 2)
    spans = {"A": [(t, t + 1) for t in a], "B": [(t, t + 1) for t in b]}
    rows = [row | {"k": k} for row in seconds(spans, until=120) for k in (1, 2)]
    found = ask(rows, f"PARTITION BY k {define('A', 'B')} PATTERN A before B WITHIN 999")
    assert [(row[1], row[3], row[0]) for row in found] == [
        (first, second, k) for second in b for first, k in sorted((t, k) for t in a for k in (1, 2))
    ]


@pytest.mark.parametrize("names", list(permutations("ABC")))
def test_a_match_that_two_ends_make_certain_is_told_once(names: tuple[str, ...]) -> None:
    """B [2, 10) and C [2, 10) end inside A [0, 18), whichever is defined first."""
    rows = seconds({"A": (0, 18), "B": (2, 10), "C": (2, 10)})
    pattern = "PATTERN A contains B AND A contains C AND B starts;equals;started by C"
    ((*times, detection),) = ask(rows, f"{define(*names)} {pattern} WITHIN 99")
    told = {"A": [0, None], "B": [2, 10], "C": [2, 10]}
    assert (times, detection) == ([time for name in names for time in told[name]], 10)


@pytest.mark.parametrize(("within", "expected"), [(3, [(2, 5, 4, None, 5)]), (2, [])])
def test_another_situation_that_begins_as_one_ends_is_not_taken_for_it(within, expected) -> None:
    """A [2, 5) overlaps B [4, 9), but is too old by its end, when the next A begins."""
    told = ((2, 1, 0), (4, 1, 1), (5, 0, 1), (5, 1, 1), (9, 1, 0), (10, 1, 0))
    rows = [{"t": t, "A": a, "B": b} for t, a, b in told]
    assert ask(rows, f"{define('A', 'B')} PATTERN A overlaps B WITHIN {within}") == expected
