"""What is held of runs, and why some queries need their matches made: decided by text alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replay.language import bind, parse_query
from replay.language.bound import Aggregate, Attribute, BoundPatternQuery, DataType
from replay.patterns.trends.algebra import (
    MATCHES,
    Channel,
    Held,
    Number,
    Part,
    Reading,
    to_summing,
    why_enumerated,
)

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("i", pa.int64())])
X, T = Attribute("x", DataType.DOUBLE), Attribute("t", DataType.INTEGER)
I = Attribute("i", DataType.INTEGER)  # noqa: E741


def bound(select: str, measures: str = "", more: str = "", define: str = "") -> BoundPatternQuery:
    """Return a query over ``A B* C`` of every match, partitioned by k."""
    sql = (
        f"SELECT {select} FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t "
        f"{measures and 'MEASURES ' + measures} PATTERN (A B* C) SEMANTICS SKIP TILL ANY "
        f"{define and 'DEFINE ' + define}) {more}"
    )
    return parsed(sql)


def in_windows(pattern: str, define: str = "A AS x > 1") -> BoundPatternQuery:
    """Return a count of every match in windows."""
    return parsed(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 5)) MATCH_RECOGNIZE ("
        f"PARTITION BY window_start PATTERN ({pattern}) SEMANTICS SKIP TILL ANY DEFINE {define})"
    )


def parsed(sql: str) -> BoundPatternQuery:
    """Return a query bound."""
    return bind(parse_query(sql), SCHEMA, time="t", text=sql)


def held(argument: str, measure: str) -> tuple[tuple[Channel, ...], Reading]:
    """Return what is held for an aggregate of a measure m, and how it is read."""
    summing = to_summing(bound(argument, f"{measure} AS m"))
    ((_, reading),) = summing.readings
    return summing.channels, reading


@pytest.mark.parametrize(
    ("aggregate", "measure", "channels", "reading"),
    [
        ("COUNT(*)", "A.x", (), Reading(MATCHES)),
        (
            "AVG(m)",
            "A.x",
            (Channel(Held.LAST, (0,), X),),
            Reading(Number(0, Part.SUM), Number(0), is_ratio=True),
        ),
        (
            "MAX(m)",
            "FIRST(B.x + B.i)",
            None,
            Reading(Number(0, Part.GREATEST)),
        ),
        (
            "SUM(m)",
            "COUNT(B.*)",
            (Channel(Held.ROWS, (1,), None),),
            Reading(Number(0), MATCHES),
        ),
        (
            "MIN(m)",
            "COUNT(*)",
            (Channel(Held.COUNT, None, None),),
            Reading(Number(0, Part.LEAST)),
        ),
        (
            "AVG(m)",
            "SUM(B.i)",
            (Channel(Held.SUM, (1,), I), Channel(Held.ROWS, (1,), I)),
            Reading(Number(1, Part.SUM), Number(0), is_ratio=True),
        ),
        (
            "MAX(m)",
            "C.t - A.t",
            (Channel(Held.GAP, (2,), T, (0,)),),
            Reading(Number(0, Part.GREATEST)),
        ),
        (
            "SUM(m)",
            "LAST(t) - FIRST(t)",
            (Channel(Held.GAP, None, T),),
            Reading(Number(0, Part.SUM), Number(0)),
        ),
    ],
)
def test_aggregates_of_measures_are_read_from_channels(aggregate, measure, channels, reading):
    found, how = held(aggregate, measure)
    assert how == reading
    assert channels is None or found == channels


def test_values_of_the_first_row_are_held_apart_from_those_of_the_last():
    (channel,), _ = held("MAX(m)", "FIRST(B.x + B.i)")
    assert (channel.held, channel.symbols) == (Held.FIRST, (1,))


def test_each_channel_is_held_once():
    summing = to_summing(bound("SUM(m), AVG(m), SUM(n), COUNT(n)", "COUNT(B.*) AS m, C.x AS n"))
    assert summing.channels == (
        Channel(Held.ROWS, (1,), None),
        Channel(Held.LAST, (2,), X),
    )
    assert [part.function for part, _ in summing.readings] == ["sum", "avg", "sum", "count"]
    assert all(isinstance(part, Aggregate) for part, _ in summing.readings)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (bound("k"), "each of them is a row of the answer"),
        (bound("COUNT(*)", "A.x AS m", "WHERE m > 1"), "WHERE reads 'm', a measure of each"),
        (
            bound("COUNT(*)", "A.x AS m", "GROUP BY m"),
            "GROUP BY reads 'm', a measure of each",
        ),
        (
            bound("COUNT(DISTINCT m)", "A.x AS m"),
            "DISTINCT needs all values one by one",
        ),
        (bound("VAR_POP(m)", "A.x AS m"), "VAR_POP needs all values one by one"),
        (bound("SUM(m)", "SUM(B.x) AS m"), "the SUM of the SUM of each is asked for"),
        (bound("MAX(m)", "AVG(B.x) AS m"), "AVG of the rows of each is asked for"),
        (bound("MAX(m)", "A.x + C.x AS m"), "a measure reads more than one row of each"),
        (
            bound("MAX(m)", "A.t - C.t AS m"),
            "a measure reads more than one row of each",
        ),
        (
            bound("MAX(m)", "PREV(A.x) AS m"),
            "a measure reads a row beside those of a match, or behind its ends",
        ),
        (
            bound("MAX(m)", "COALESCE(B.x, 0.0) AS m"),
            "a measure has a value where a symbol has no row, too",
        ),
        (bound("MAX(m)", "A.k AS m"), "MAX of texts is asked for"),
        (
            bound("COUNT(m)", "CLASSIFIER() AS m"),
            "a measure reads more of each than values of its rows",
        ),
        (
            bound("COUNT(*)", define="B AS COUNT(B.*) < 3"),
            "the condition of B aggregates the rows mapped before",
        ),
        (in_windows("^ A B"), "^ and $ are the ends of each window"),
        (
            in_windows("A B", "B AS x > PREV(x)"),
            "the condition of B reads neighbours, which each window has its own of",
        ),
    ],
)
def test_other_queries_say_why_their_matches_are_made(query: BoundPatternQuery, why: str):
    assert why_enumerated(query) == why


def test_keys_and_conditions_over_partitions_need_no_matches():
    query = bound("k, COUNT(*)", "A.x AS m", "WHERE k > 'a' GROUP BY k HAVING MAX(m) > 3")
    assert why_enumerated(query) is None
    assert why_enumerated(in_windows("A !B C")) is None
    assert why_enumerated(bound("COUNT(*)", define="B AS x > PREV(x)")) is None
