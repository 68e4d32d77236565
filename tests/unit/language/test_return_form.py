"""``RETURN … PATTERN SEQ(…)``: the SQL it stands for, and that it is answered as that is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import replay
from replay.language import parse_query
from replay.language.query_parser import in_sql
from tests.golden.by_hand import trace

Q1 = """RETURN sector, COUNT(*), AVG(S.price) AS mean, COUNT(Dropoff)
FROM trades TYPE BY event_type
PATTERN (SEQ(Pickup P, !Cancel X, Trip S+, (Dropoff OR 'MOTOR THEFT' V)?))+
SEMANTICS skip-till-next-match
WHERE [driver, rider] AND S.price > NEXT(S).price AND P.fare > 10 AND X.n BETWEEN P.n AND 5
GROUP-BY sector  WITHIN 10 minutes SLIDE 10 seconds"""
Q1_SQL = """SELECT window_start, window_end, sector, COUNT(*) AS "COUNT(*)", \
AVG("S".price) AS mean, COUNT("Dropoff".*) AS "COUNT(Dropoff)"
FROM TABLE(HOP(TABLE trades, INTERVAL '10' SECOND, INTERVAL '10' MINUTE)) MATCH_RECOGNIZE (
  PARTITION BY window_start, window_end, sector, driver, rider
  PATTERN (("P" !"X" "S"+ ("Dropoff" | "V")?)+)
  SEMANTICS SKIP TILL NEXT
  DEFINE "P" AS event_type = 'Pickup' AND "P".fare > 10, \
"X" AS event_type = 'Cancel' AND "X".n BETWEEN "P".n AND 5, \
"S" AS event_type = 'Trip' AND (COALESCE(LAST(CLASSIFIER(), 1), '') <> 'S' OR \
LAST(price, 1) > price), \
"Dropoff" AS event_type = 'Dropoff', "V" AS event_type = 'MOTOR THEFT'
) GROUP BY window_start, window_end, sector"""


def test_every_clause_is_translated():
    assert in_sql(Q1) == Q1_SQL


@pytest.mark.parametrize(
    "text",
    [
        Q1,
        "RETURN COUNT(*) FROM s PATTERN SEQ(A, B) WITHIN 5",
        "RETURN MAX(B.x) FROM (SELECT * FROM s WHERE x > 1 ORDER BY t) PATTERN SEQ(A, B*);",
        "RETURN k, COUNT(A) FROM s PATTERN A+ OR SEQ(B, C) SEMANTICS contiguous GROUP BY k",
    ],
)
def test_the_sql_it_stands_for_is_the_query_it_is_parsed_to(text: str):
    translated = in_sql(text)
    assert translated is not None
    assert parse_query(translated) == parse_query(text)


def test_other_texts_stand_for_themselves():
    assert in_sql("SELECT t::int FROM s") is None


EVENTS = trace("a1 b2 a3 a4 c5 b6 a7 b8").append_column(
    "x", pa.array([10, 20, 30, 40, 50, 90, 70, 80])
)


def ask(clauses: str, returned: str = "COUNT(*) AS n") -> list[tuple[Any, ...]]:
    """Return the answer over the events of COGRA Fig. 2, which is that of the SQL."""
    text = f"RETURN {returned} FROM (SELECT * FROM s ORDER BY t) TYPE BY k PATTERN {clauses}"
    translated = in_sql(text)
    assert translated is not None
    found, by_sql = (replay.query({"s": EVENTS}, sql).table for sql in (text, translated))
    assert found == by_sql
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize(
    ("clauses", "count"),
    [
        ("(SEQ(a A+, b B))+", 43),  # COGRA Table 6: any match is the default
        ("(SEQ(a A+, b B))+ SEMANTICS skip-till-next-match", 8),
        ("(SEQ(a A+, b B))+ SEMANTICS contiguous", 2),
        # Table 7: b6 is too high for a7.
        ("(SEQ(a A+, b B))+ WHERE B.x <= NEXT(A).x", 33),
        # Between two that are named the later has the condition: a1 with b2, b6 and b8, a3 with
        # b6 and b8, a4 likewise, a7 with b8, and the highest b6 is above all.
        ("SEQ(a, b) WHERE a.x < b.x", 8),
        ("SEQ(a, b) WHERE b.x > a.x AND b.x < 30", 1),
        # Pairs a b without a c between: (a1 b2), (a7 b8).
        ("SEQ(a, !c, b)", 2),
        ("SEQ(a, !c C, b) WHERE C.x < 50", 8),
        ("SEQ(a, (b OR c) L)", None),
    ],
)
def test_answers_of_the_papers(clauses: str, count: int | None):
    if count is None:
        with pytest.raises(replay.QueryError, match="expected ',' or '\\)'"):
            ask(clauses)
    else:
        assert ask(clauses) == [(count,)]


def test_windows_come_first_and_groups_are_those_of_each():
    # (-3, 1] and (-2, 2] have a1; (-1, 3] has a1 and a3: each alone, and both.
    found = ask("a+ GROUP-BY k WITHIN 4", "k, COUNT(*) AS n")
    assert found[:3] == [(-2, 2, "a", 1), (-1, 3, "a", 1), (0, 4, "a", 3)]
    # Events of one name are never more than one.
    assert {n for *_, n in ask("a+ WHERE [name] WITHIN 1", "COUNT(*) AS n")} == {1}
    assert ask("SEQ(a, b) WITHIN 4 SLIDE 4") == [(0, 4, 1), (4, 8, 1)]


def rows(names: str, *events: tuple[Any, ...]) -> pa.Table:
    """Return events of columns t, type and those named."""
    columns = ("t", "type", *names.split())
    return pa.Table.from_pylist([dict(zip(columns, event, strict=True)) for event in events])


PAPERS = {
    # The load of mapper 1 rises from its start to its end; that of mapper 2 falls.
    "COGRA q1": (
        (
            "RETURN mapper, SUM(L.cpu) FROM {} TYPE BY type PATTERN SEQ(Start S, Load L+, End E) "
            "SEMANTICS contiguous WHERE [job, mapper] AND L.cpu < NEXT(L).cpu GROUP-BY job, mapper "
            "WITHIN 60 SLIDE 30"
        ),
        rows(
            "job mapper cpu",
            *((t, "Start", 1, mapper, 0) for t, mapper in ((0, 1), (0, 2))),
            *((10, "Load", 1, mapper, cpu) for mapper, cpu in ((1, 5), (2, 7))),
            *((20, "Load", 1, mapper, cpu) for mapper, cpu in ((1, 7), (2, 5))),
            *((40, "End", 1, mapper, 0) for mapper in (1, 2)),
        ),
        [(0, 60, 1, 12)],
    ),
    # The cancellation is passed over: one trip in each of the 27 windows that hold it whole.
    "COGRA q2": (
        (
            "RETURN district, COUNT(*), AVG(T.speed) FROM {} TYPE BY type PATTERN SEQ(Pickup P, "
            "Trip T+, Dropoff D) SEMANTICS skip-till-next-match WHERE [driver, rider, district] "
            "GROUP-BY district WITHIN 1800 SLIDE 60"
        ),
        rows(
            "driver rider district speed",
            (0, "Pickup", 1, 1, "x", 0),
            (60, "Trip", 1, 1, "x", 30),
            (90, "Cancel", 1, 1, "x", 1),
            (120, "Trip", 1, 1, "x", 50),
            (180, "Dropoff", 1, 1, "x", 0),
        ),
        [(60 * k - 1560, 60 * k + 240, "x", 1, 40.0) for k in range(27)],
    ),
    "COGRA q3": (
        (
            "RETURN sector, COUNT(*) FROM {} PATTERN Stock S+ SEMANTICS skip-till-any-match "
            "WHERE [company, sector] AND S.price > NEXT(S).price GROUP-BY sector WITHIN 10 SLIDE 10"
        ),
        rows("company sector price", *((t, "Stock", "c", "s", 4 - t) for t in range(4))),
        [(0, 10, "s", 15)],
    ),
    "COGRA q4": (
        (
            "RETURN patient, COUNT(*) FROM {} PATTERN SEQ(Activity S, Activity A+, Activity F) "
            "SEMANTICS contiguous WHERE [patient] AND S.rate < 60 AND F.rate > 100 AND "
            "A.type = 'passive' GROUP-BY patient WITHIN 600 SLIDE 600"
        ),
        rows("patient rate", *((t, "passive", 1, (50, 80, 90, 110)[t]) for t in range(4))),
        [(0, 600, 1, 1)],
    ),
    # A second password comes after the click: the window at 4 still holds the first three.
    "A-Seq, a wrong password": (
        (
            "RETURN ip, COUNT(*) FROM {} TYPE BY type PATTERN SEQ(TypeUsername, TypePassword, "
            "ClickSubmit) WHERE TypePassword.value <> TypeUsername.value GROUP-BY ip WITHIN 10"
        ),
        rows(
            "ip value",
            (1, "TypeUsername", 7, "x"),
            (2, "TypePassword", 7, "y"),
            (3, "ClickSubmit", 7, ""),
            (4, "TypePassword", 7, "x"),
        ),
        [(-6, 4, 7, 1), (-5, 5, 7, 1)],
    ),
    "A-Seq, a shop": (
        (
            "RETURN COUNT(*) FROM {} TYPE BY type PATTERN SEQ(Kindle, KindleCase, Stylus) "
            "WHERE [user] WITHIN 3600"
        ),
        rows(
            "user",
            (1, "Kindle", 1),
            (2, "KindleCase", 1),
            (3, "KindleCase", 2),
            (4, "Stylus", 1),
        ),
        [(-3595, 5, 1)],
    ),
}


@pytest.mark.parametrize("name", PAPERS)
def test_queries_of_the_papers_are_answered_as_their_sql(name: str):
    text, events, expected = PAPERS[name]
    text = text.format("(SELECT * FROM s ORDER BY t)")
    translated = in_sql(text)
    assert translated is not None
    found, by_sql = (replay.query({"s": events}, sql).table for sql in (text, translated))
    assert found == by_sql
    assert [tuple(row.values()) for row in found.to_pylist()] == expected
