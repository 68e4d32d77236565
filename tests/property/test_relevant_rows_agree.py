"""The one law, of plans `relevant` and `index-only`.

Rows outside the ranges of all symbols change nothing; entries tell which rows are of which symbol.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import event, given

import replay
from chronicle import StreamSettings
from costmodel.parameters import CostParameters
from tests.plan_cases import HOW, KEYS, WHOLE, Case, filled, of_key
from tests.property.law import ROWS_MAX, SLOW, answer, assert_plans_agree
from tests.strategies import seeded

RARE = (
    *("a = 3", "a = 4", "a IN (3, 4)", "x = 2.0", "x > 2.0", "a = 3 OR a = 4", "a > 4"),
    *("a = 3 AND x > 0.0", "a >= 3 AND x <= 1.0", "x BETWEEN 2 AND 3 AND a <> 1", "a = 9"),
)
READING = (
    *("a >= 3 AND x >= LAST(x, 1)", "x > 1.0 AND a <> LAST(a, 1)", "a > 2 AND x < A.x"),
    *("a = A.a", "a = 4 AND x = FIRST(x)", "a > 3 AND COUNT(*) < 3"),
)
"""Conditions that read rows of the match as well; `a = A.a` has the ranges of A."""

ANY_ROW = ("x IS NOT NULL", "a = 3 OR x > LAST(x, 1)", "TRUE", "a = 3 AND PREV(a) = 1")
"""Conditions that any row may satisfy, or that look at rows of no symbol."""

PATTERNS = (
    *("A", "A B", "A B", "A+ B", "A B+ C", "(A B)+", "A (B | C)", "A B? C", "A{2} B", "A+"),
    *("A !N B", "A !N B+ C", "A B !N", "!N A B", "(A | B) !N C"),
)
WEIGHTS = (
    None,
    CostParameters(block_s=1.0, entry_s=0.0, sort_s=0.0, seek_s=0.0),
    CostParameters(block_s=0.01, entry_s=0.001, seek_s=0.05),
)
SELECTED = (
    "COUNT(*) AS n",
    "COUNT(*) AS n, SUM(A.x) AS s, MIN(A.a) AS l, AVG(A.a) AS m",
    "COUNT(*) AS n, MAX(m3) AS most, MIN(m1) AS first, SUM(A.x) AS s",
    "*",
    "*",
)


def some_rows(choose: Random, keys: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Rows in any order of time, most of which are of no symbol."""
    latest = choose.choice((10, 60, 200))
    return [
        (
            choose.randint(0, latest),
            choose.choice(keys),
            choose.choice((0, 0, 0, 1, 1, 1, 2, 3, 4, 5, None)),
            choose.choice((0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 3.0, None, math.nan, -0.0)),
        )
        for _ in range(choose.choice((3, 20, 50)))
    ]


def in_windows(choose: Random) -> tuple[str, str]:
    """Return a source and the columns of PARTITION BY that it brings."""
    size = choose.randint(1, 12)
    slide = choose.randint(1, size)
    origin = choose.choice(("", "", ", ORIGIN FIRST EVENT"))
    return choose.choice(
        (
            (f"TABLE(HOP(TABLE s, DESCRIPTOR(t), {slide}, {size}{origin}))", "window_start"),
            (f"TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), {size}{origin}))", "window_start"),
            (
                f"TABLE(CUMULATE(TABLE s, DESCRIPTOR(t), {slide}, {2 * slide}{origin}))",
                "window_start, window_end",
            ),
            (f"TABLE(SLIDING(TABLE s, DESCRIPTOR(t), {size}))", "window_end"),
        )
    )


def some_query(choose: Random) -> str:
    """Every match of a strategy, or sums over them, of symbols that are rare."""
    pattern = choose.choice(PATTERNS)
    semantics = choose.choice(
        ("SKIP TILL ANY", "SKIP TILL ANY", "SKIP TILL NEXT", "SKIP TILL NEXT", "CONTIGUOUS")
    )
    if semantics == "CONTIGUOUS" and ("N" in pattern or choose.random() < 0.8):
        semantics = "SKIP TILL ANY"
    symbols = [symbol for symbol in "ABCN" if symbol in pattern]
    defines = []
    for place, symbol in enumerate(symbols):
        texts = RARE if not place or choose.random() < 0.6 else READING
        if "+" not in pattern and choose.random() < 0.08:  # else there are too many matches
            texts = ANY_ROW
        text = choose.choice(texts)
        if symbol == "N" and ("COUNT" in text or pattern.startswith("!N")):
            text = choose.choice(RARE)
        defines.append(f"{symbol} AS {text}")
    source, by = ("s", "") if choose.random() < 0.6 else in_windows(choose)
    if source == "s" and choose.random() < 0.15:
        source = f"(SELECT * FROM s WHERE {choose.choice(('a > 0', 'x >= 0.0', 'a <> 2'))})"
    keys = choose.choice(("", "", "k", "k", "k, a"))
    by = ", ".join(part for part in (by, keys) if part)
    within = choose.choice(("", "WITHIN 2", "WITHIN 9", "WITHIN 40"))
    if pattern.startswith("!N") or pattern.endswith("!N"):
        within = within or "WITHIN 5"
    order = choose.choice(("t",) * 12 + ("t, a",))
    selected, all_rows = choose.choice(SELECTED), ""
    if selected != "*":
        rest = choose.choice(("", " GROUP BY k" if keys else ""))
        selected = f"k, {selected}" if rest else selected
        if choose.random() < 0.15:
            rest = f" WHERE {choose.choice(('m1 > 20', 'm2 > 1.0', 'm1 < 30 AND m3 > 1'))}{rest}"
    else:
        rest = choose.choice(("", "", " LIMIT 2", " WHERE m1 > 20", " WHERE m5 = 3"))
        all_rows = choose.choice(("", "ALL ROWS PER MATCH"))
    return (
        f"SELECT {selected} FROM {source} MATCH_RECOGNIZE ({f'PARTITION BY {by}' if by else ''} "
        f"ORDER BY {order} MEASURES FIRST(t) AS m1, LAST(x) AS m2, COUNT(*) AS m3, "
        f"MATCH_NUMBER() AS m4, A.a AS m5 {all_rows} "
        f"PATTERN ({pattern}) SEMANTICS {semantics} {within} DEFINE {', '.join(defines)}){rest}"
    )


@seeded
def relevant_cases(choose: Random) -> Case:
    """Late events, several files, some without runs or keys in them; keys and values missing."""
    key = choose.choice(tuple(KEYS))
    appends = [
        (choose.choice(HOW), some_rows(choose, KEYS[key][1])) for _ in range(choose.randint(1, 3))
    ]
    return Case(
        of_key(key),
        StreamSettings(
            "t",
            choose.choice((1, 2, 3, 5, 20)),
            choose.choice((12, 20, 64)),
            fan_out=2,
            key=choose.choice(("k", None)),
        ),
        appends,
        choose.choice(((), ("a",), ("a", "x"), ("a", "x"), ("a", "x", "a+x"))),
        some_query(choose),
        ("LIMIT", "ALL ROWS", "(SELECT"),
        choose.choice((1, 8, 40, WHOLE)),
        weights=choose.choice(WEIGHTS),
    )


EXACT = (
    *("a = 3", "a IN (3, 4)", "a > 2.5 AND a < 5", "x = 0.0", "x > -0.0", "x >= 0.0 AND x < 1.0"),
    *("NOT (x <= 1.0)", "x <> 1.0 AND a = 0", "a = 3 AND x BETWEEN 0 AND 2", "a = 3 OR a = 5"),
    *("a + 1 = 4 AND a > 1", "x > 1.0 OR a = 4", "a NOT IN (0, 1, 2)", "x IN (2.0, 3.0, 9.0)"),
)
"""Conditions on single attributes, most of which say just that these lie in ranges."""

COUNTED = (
    *("COUNT(*) AS n", "COUNT(*) AS n", "COUNT(*) AS n, COUNT(A.*) AS c, MAX(m1) AS m"),
    *("COUNT(*) AS n, SUM(d) AS s, MIN(d) AS l", "AVG(A.t) AS m", "COUNT(A.x) AS c"),
    *("COUNT(A.k) AS n, MAX(m1) AS m", "COUNT(*) AS n, COUNT(A.k) AS ks, MAX(m3) AS m"),
)


@seeded
def counting_cases(choose: Random) -> Case:
    """Aggregates that may need nothing of rows but their symbols, their times and their keys."""
    patterns = ("A", "A B", "A B+ C", "A+", "(A B)+", "A (B | C)", "A !N B", "A B? C")
    pattern = choose.choice(patterns)
    symbols = [symbol for symbol in "ABCN" if symbol in pattern]
    defines = ", ".join(f"{symbol} AS {choose.choice(EXACT)}" for symbol in symbols)
    within = choose.choice(("", "WITHIN 2", "WITHIN 20"))
    measures = "FIRST(t) AS m1, LAST(t) - FIRST(t) AS d, LAST(x) AS m2, COUNT(*) AS m3"
    source, by = ("s", "") if choose.random() < 0.5 else in_windows(choose)
    by = ", ".join(part for part in (by, choose.choice(("", "k", "k", "k", "t", "k, t"))) if part)
    groups = [column for column in by.split(", ") if column and choose.random() < 0.6]
    selected = ", ".join([*groups, choose.choice(COUNTED)])
    grouped = f" GROUP BY {', '.join(groups)}" if groups else ""
    sql = (
        f"SELECT {selected} FROM {source} MATCH_RECOGNIZE ({f'PARTITION BY {by}' if by else ''} "
        f"ORDER BY t MEASURES {measures} "
        f"PATTERN ({pattern}) SEMANTICS SKIP TILL {choose.choice(('ANY', 'NEXT'))} {within} "
        f"DEFINE {defines}){grouped}"
    )
    key = choose.choice(tuple(KEYS))
    how = choose.choice((HOW, ("runs", "runs", "tail")))
    appends = [
        (choose.choice(how), some_rows(choose, KEYS[key][1])) for _ in range(choose.randint(1, 3))
    ]
    return Case(
        of_key(key),
        StreamSettings("t", choose.choice((1, 3, 20)), choose.choice((12, 64)), fan_out=2, key="k"),
        appends,
        choose.choice((("a",), ("a", "x"), ("a", "x"), ("a+x", "x"), ("a", "x", "x+a"))),
        sql,
        damaged=choose.choice((None, None, None, 0, 1)),
        weights=choose.choice(WEIGHTS),
    )


@given(counting_cases())
@SLOW
def test_entries_tell_which_rows_are_of_which_symbol(case: Case) -> None:
    with filled(case) as store:
        plans = ("relevant", "index-only", "auto")
        _, by_plan = assert_plans_agree(store, case.sql, plans, expected=case.expected())
    actual = by_plan.get("index-only")
    event(f"index-only: {actual is not None}")
    assert actual is None or actual.blocks_read == 0


@given(relevant_cases())
@SLOW
def test_rows_of_no_symbol_change_no_answer(case: Case) -> None:
    with filled(case) as store:
        plans = ("relevant", "index-only", "auto")
        full, by_plan = assert_plans_agree(store, case.sql, plans, expected=case.expected())
    if isinstance(full, str):
        return
    event(f"relevant: {'relevant' in by_plan}")
    schema = pa.schema(case.columns)
    rows = [dict(zip(schema.names, row, strict=True)) for _, rows in case.appends for row in rows]
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: row["t"]), schema=schema)
    assert answer(replay.query({"s": table}, case.sql, max_rows=ROWS_MAX).table) == full
