"""Cases for plans: a stream that may come late and be indexed in part, and a query over it.

Each generator turns on other axes: keys and rows that come late; neighbours in partitions and
anchors; differences to the event before; several columns of one index; strategies and negation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from chronicle import Store, StreamSettings
from costmodel.parameters import CostParameters
from indexing import RunWriter, row_mask, tail
from replay.engines.statistics import SnapshotStatistics
from replay.errors import SkipError
from replay.language import bind, parse_query
from replay.patterns import local
from replay.planning import cost_inputs, row_filter, steps
from replay.planning.block_selectivity import BlockShares
from tests.memory_stream import damage_run, index, some_store
from tests.oracles.matcher import match_rows
from tests.oracles.view import OutOfStepsError
from tests.pattern_texts import Chooser, anchored
from tests.property.law import Rows, comparable
from tests.strategies import seeded

STEPS_MAX = 50_000
"""Conditions the oracle may try; a case that needs more is held to the full replay alone."""

WHOLE = 1 << 17
"""Events of a unit in which any of these streams is read at once."""


@dataclass(frozen=True)
class Case:
    """A stream to make, how it is indexed, and what it is asked."""

    columns: tuple[tuple[str, pa.DataType], ...]
    settings: StreamSettings
    appends: list[tuple[str, list[tuple[Any, ...]]]]
    """How the files of each append are indexed, and its rows in order of arrival."""
    indexes: tuple[str, ...]
    sql: str
    beyond_oracle: tuple[str, ...] = ()
    """Words of queries that the oracle does not answer."""
    unit_events: int = WHOLE
    """Events read and evaluated at once."""
    damaged: int | None = None
    """Number of a run that is damaged, of as many as there are; None: none is."""
    weights: CostParameters | None = None
    """Such as make blocks, entries or jumps dear, so that every way is taken."""

    def expected(self) -> Rows | str | None:
        """Return the oracle's answer, where it has one, be it that SKIP TO cannot go on."""
        if any(word in self.sql for word in self.beyond_oracle):
            return None
        names = [name for name, _ in self.columns]
        rows = [dict(zip(names, row, strict=True)) for _, rows in self.appends for row in rows]
        bound = bind(parse_query(self.sql), pa.schema(self.columns), time="t", text=self.sql)
        try:
            rows.sort(key=lambda row: row["t"])
            return comparable(match_rows(rows, bound, steps_max=STEPS_MAX))
        except OutOfStepsError:
            return None
        except SkipError as error:
            return str(error)


@contextmanager
def filled(case: Case) -> Iterator[Store]:
    """Lend a store with the stream of a case."""
    schema, key = pa.schema(case.columns), case.settings.key
    with some_store(case) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "UNIT_EVENTS", case.unit_events)
        stream = store.create_stream("s", schema, case.settings)
        index(stream, case.indexes)
        writers = {
            "runs": RunWriter(case.indexes, "t", key=key),
            # Differences are those within the key, so what writes them has to know it.
            "without keys": RunWriter(
                tuple(name for name in case.indexes if name not in case.settings.derived), "t"
            ),
            "tail": None,
        }
        for how, rows in case.appends:
            arrived = [dict(zip(schema.names, row, strict=True)) for row in rows]
            stream.append(pa.Table.from_pylist(arrived, schema=schema), derived=writers[how])
        if case.damaged is not None:
            damage_run(stream, case.damaged)
        if case.weights is not None:
            patch.setattr(SnapshotStatistics, "parameters", case.weights)
        yield store


CANDIDATES_MOST = st.sampled_from([None, None, 1e9, 0.5, 0.0])


@contextmanager
def every_lookup_within_rows(candidates_max: float | None) -> Iterator[None]:
    """Have lookups asked within rows: of a sweep, or where candidates are many in rows known.

    Streams of these tests are too small for it to be worth while; here it always is, groups of runs
    hold few entries, and every lookup is tried. None leaves things as they are.
    """
    if candidates_max is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_filter, "ENTRIES_MIN", 0)
        patch.setattr(row_filter, "CANDIDATES_MAX", candidates_max)
        patch.setattr(row_filter, "COVER_MAX", 1.0)
        for name in ("ROWS_MAX", "GIVEN_MAX", "SATURATED"):
            patch.setattr(row_filter, name, 1e9)
        patch.setattr(steps, "EXPLORE_SHARE", math.inf)
        patch.setattr(cost_inputs, "are_even", lambda shares: np.zeros(len(shares), np.bool_))
        patch.setattr(BlockShares, "measures", lambda shares, parts: True)
        patch.setattr(steps, "is_bearable", lambda *seconds: True)
        patch.setattr(row_mask, "ROW_MASK_BITS_MAX", 4)
        patch.setattr(tail, "FENCE_ENTRIES", 3)
        patch.setitem(RunWriter.__init__.__kwdefaults__, "fence_entries", 3)
        yield


# ---------------------------------------------------------------------------------------------
# Streams with a key column. They are drawn by a seed: those drawn value by value are mostly too
# plain to hold a match.

KEYS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "string": (pa.string(), ("a", "b", "b", "", None)),
    "integer": (pa.int64(), (-(2**63), 2**63 - 1, 7, 7, None)),
    "narrow": (pa.int16(), (0, 1, 1, 2, None)),
    "time": (pa.timestamp("us"), (0, 1, 1, None)),
}
HOW = ("runs", "runs", "runs", "without keys", "tail")
SKIPS = ("TO NEXT ROW", "TO NEXT ROW", "PAST LAST ROW", "TO LAST A", "TO FIRST B")
CHAINS = (
    "A B C", "(A | B) C", "A{2} C", "A B{0,2} C", "A", "A Z* B Z* C", "A B* C", "A B+ C",
    "A (B | C)* C", "A B* C Z* A",
)  # fmt: skip
LIKELY = ("a > 1", "x < 0.5", "a <> 2", "x > 1.0 OR a = 0")
RARE = ("a = 3", "a = 3 AND x > 0.0", "x = 2.0", "a = 4")


def some_appends(
    choose: Random, keys: tuple[Any, ...], n: tuple[int, int], latest: int, how: tuple[str, ...]
) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Return one to three appends of as many rows as given, each with times from 0 on."""
    return [
        (
            choose.choice(how),
            [
                (
                    choose.randint(0, latest),
                    choose.choice(keys),
                    choose.choice((0, 1, 2, 2, 1, 3, 4, None)),
                    choose.choice((0.0, 1.0, 1.0, 2.0, None)),
                )
                for _ in range(choose.randint(*n))
            ],
        )
        for _ in range(choose.randint(1, 3))
    ]


def of_key(key: str) -> tuple[tuple[str, pa.DataType], ...]:
    """Return columns of streams with a key column of some type."""
    return ("t", pa.int64()), ("k", KEYS[key][0]), ("a", pa.int32()), ("x", pa.float64())


def keyed_query(choose: Random) -> str:
    """Candidates that agree on the key, gaps of one symbol, with PARTITION BY and without."""
    gap = choose.choice(("Z*", "Z*", "Z+?", "Z{0,3}", "(Z | B)*", "(Z B)*", ""))
    pairs = f"A {gap} B", f"A {gap} B", f"A {gap} B {gap} A", f"A {gap}"
    pattern = choose.choice((choose.choice(pairs), choose.choice(CHAINS)))
    partition = choose.choice(("PARTITION BY k", "PARTITION BY k, a", "PARTITION BY a", ""))
    semantics = choose.choice(("", "", "SKIP TILL NEXT", "SKIP TILL ANY", "CONTIGUOUS"))
    if "|" in pattern or "Z B" in pattern or "{" in pattern:
        semantics = ""
    if semantics == "SKIP TILL ANY" and "C" in pattern:
        semantics = "SKIP TILL NEXT"  # any choice of the many rows in a gap would be a match
    skips = SKIPS if "B" in pattern else SKIPS[:-1]
    skip = "" if semantics else f"AFTER MATCH SKIP {choose.choice(skips)}"
    defines = [f"A AS {choose.choice(RARE)}"]
    if "B" in pattern:
        defines.append(f"B AS {choose.choice((*RARE, *LIKELY))}")
    if "C" in pattern:
        defines.append(f"C AS {choose.choice((*RARE, *LIKELY))}")
    if "Z" in pattern and choose.random() < 0.5:
        defines.append(f"Z AS {choose.choice(LIKELY)}")
    if "B" in pattern and semantics and choose.random() < 0.5:
        pattern = choose.choice((f"!N {pattern}", f"{pattern} !N"))
        defines.append(f"N AS {choose.choice(LIKELY)}")
    rows = choose.choice(("", "ALL ROWS PER MATCH"))
    # Without a small window there may be exponentially many matches of SKIP TILL ANY.
    windows = ("WITHIN 1", "WITHIN 3", "WITHIN 9", "WITHIN 30", "")
    within = choose.choice(windows[:3] if semantics == "SKIP TILL ANY" else windows)
    if "!N" in pattern and not within:
        within = "WITHIN 5"
    shown = choose.choice(("*", "*", "*", "COUNT(*) AS n", "COUNT(*) AS n, MAX(m2) AS m"))
    before = "" if partition else ", PREV(A.a) AS m5"
    return (
        f"SELECT {shown} FROM s MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES FIRST(t) AS m1, "
        f"LAST(x) AS m2, COUNT(*) AS m3, MATCH_NUMBER() AS m4{before} {rows} {skip} "
        f"PATTERN ({pattern}) {f'SEMANTICS {semantics}' if semantics else ''} {within}"
        f" DEFINE {', '.join(defines)}){choose.choice(('', '', '', ' LIMIT 1'))}"
    )


@seeded
def keyed_cases(choose: Random) -> Case:
    """Keys are strings or integers, some null; answers are rows, counts, the first few.

    One stream of five is much longer than a window, with ties in time, late events, several runs.
    """
    key = choose.choice(tuple(KEYS))
    n, latest, file_events = (3, 40), 60, (4, 12, 64)
    if choose.random() < 0.2:
        n = choose.randint(60, 160), 160
        latest = int(choose.choice((0.6, 1.0, 3.0)) * n[0])
        file_events = (20, 64)
    return Case(
        of_key(key),
        StreamSettings(
            "t", choose.choice((1, 2, 3, 4, 20)), choose.choice(file_events), fan_out=2, key="k"
        ),
        some_appends(choose, KEYS[key][1], n, latest, HOW),
        choose.choice((("a", "x"), ("a", "x", "a+x"))),
        keyed_query(choose),
        ("SEMANTICS", "COUNT(*) AS n", "LIMIT"),
        choose.choice((1, 8, 40, WHOLE)),
    )


# ---------------------------------------------------------------------------------------------
# Neighbours in partitions by the stream's key. PREV and NEXT look up to three rows back and on,
# ``^`` and ``$`` one, wherever those of a key lie, or in the whole stream without PARTITION BY.


def neighbour(choose: Random) -> str:
    return f"{choose.choice(('PREV', 'NEXT'))}({{0}}.{{1}}, {choose.choice((1, 1, 1, 2, 3))})"


def beside_neighbours(choose: Random, name: str) -> str:
    """Return a comparison with a neighbour, as a rule beside one that can be looked up."""
    column = choose.choice("xa")
    near = neighbour(choose).format(name, column)
    compares = choose.choice(
        (
            f"{name}.{column} {choose.choice(('>', '<', '>=', '='))} {near}",
            f"{near} IS NULL",
            f"{near} IS NOT NULL",
            f"{name}.x > PREV({name}.x)",
            f"{name}.x - PREV({name}.x) > 0.5",
            f"{near} + PREV({name}.{column}) > 1",
            "PREV(CLASSIFIER(), 1) = 'A'",
        )
    )
    rare = choose.choice(("a = 3", "a = 3", "a = 4", "x = 2.0", "a > 1", "x < 0.5"))
    both = f"{compares} AND {rare}"
    return choose.choice((both, both, both, both, both, rare, compares, f"{rare} OR {compares}"))


def of_the_row(choose: Random, _: str) -> str:
    """Return a condition on the row alone."""
    return choose.choice(("a = 3", "a > 2", "a = 1", "x = 2.0", "a = 2 OR x < 0.5"))


def neighbour_query(choose: Random) -> str:
    gap = choose.choice(("Z*", "Z+?", "Z{0,3}", "", "(Z B)*"))
    pattern = choose.choice((f"A {gap} B", f"A {gap} B", f"A {gap} B", f"A {gap} B A", f"A {gap}"))
    semantics = choose.choice(("", "", "", "SKIP TILL NEXT", "SKIP TILL ANY", "CONTIGUOUS"))
    if "Z B" in pattern or "{" in pattern:
        semantics = ""
    names = [name for name in "ABZ" if name in pattern]
    is_anchored = choose.random() < 0.6
    # Anchors alone, and beside PREV and NEXT.
    navigates = not is_anchored or choose.random() < 0.4
    define = beside_neighbours if navigates else of_the_row
    defines = [f"{n} AS {define(choose, n)}" for n in names if n != "Z" or choose.random() < 0.4]
    if is_anchored:
        pattern = anchored(Chooser(choose.randrange(2**32)), pattern)
    if semantics and "B" in pattern and choose.random() < 0.4:
        pattern = choose.choice((f"!N {pattern}", f"{pattern} !N"))
        defines.append("N AS PREV(N.a) = 2")
    skip = "" if semantics else f"AFTER MATCH SKIP {choose.choice((*SKIPS[:-1], 'TO FIRST A'))}"
    windows = ("WITHIN 1", "WITHIN 3", "WITHIN 9", "WITHIN 30", "")
    within = choose.choice(windows[:3] if semantics == "SKIP TILL ANY" else windows)
    if "!N" in pattern and not within:
        within = "WITHIN 5"
    measured = [
        f"{neighbour(choose).format(choose.choice([n for n in names if n != 'Z']), 't')} AS m1",
        f"{choose.choice(('FIRST', 'LAST'))}(x) AS m2",
        f"{choose.choice(('PREV(CLASSIFIER(), 1)', 'COUNT(*)'))} AS m3",
        f"{neighbour(choose).format('', 'x').replace('.', '', 1)} AS m4",
        "MATCH_NUMBER() AS m5",
    ]
    measures = ", ".join(measured if navigates and choose.random() < 0.7 else measured[4:])
    rows = choose.choice(("", "", "ALL ROWS PER MATCH"))
    by = choose.choice((*("k",) * 12, "a", "k, a", *("",) * (6 if is_anchored else 1)))
    partition = f"PARTITION BY {by}" if by else ""
    limit = choose.choice(("", "", "", " LIMIT 1"))
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY t "
        f"MEASURES {measures} {rows} {skip} PATTERN ({pattern}) "
        f"{f'SEMANTICS {semantics}' if semantics else ''} {within} "
        f"DEFINE {', '.join(defines)}){limit}"
    )


@seeded
def neighbour_cases(choose: Random) -> Case:
    """The key column has an index or none, runs may be damaged."""
    key, latest = choose.choice(tuple(KEYS)), choose.choice((15, 60))
    made = StreamSettings(
        "t",
        choose.choice((1, 2, 3, 4, 20)),
        choose.choice((4, 12, 64)),
        fan_out=2,
        key="k",
        derived=("delta(x)",),
    )
    weights = CostParameters(
        block_s=choose.choice((1e-5, 1e-3, 1e-2)),
        value_s=1e-9,
        predicate_s=0.0,
        match_s=0.0,
        entry_s=choose.choice((1e-9, 1e-9, 1e-5)),
        sort_s=0.0,
        seek_s=choose.choice((1e-9, 1e-5)),
        full_margin=1.0,
    )
    indexes = ("a", "x"), ("a", "x", "k"), ("a", "k", "delta(x)"), ("a", "x", "k", "delta(x)")
    return Case(
        of_key(key),
        made,
        some_appends(choose, KEYS[key][1], (3, 40), latest, ("runs", *HOW)),
        choose.choice((*indexes, ("k",))),
        neighbour_query(choose),
        ("SEMANTICS", "LIMIT"),
        choose.choice((1, 8, 40, WHOLE)),
        choose.choice((None, None, None, choose.randint(0, 9))),
        weights,
    )


# ---------------------------------------------------------------------------------------------
# Comparisons with the event before, over derived attributes. Values are at the ends of their types.

DELTA_COLUMNS = ("t", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("n", pa.int64())
DELTAS = ("delta(x)", "delta(n)", "delta(t)")
FLOATS = (*map(float, range(-3, 4)), 0.8, 3.2, 4.0, 0.1, -0.0, 5e-324)
FLOATS_AT_ENDS = (None, math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 2.0**53, 2.0**53 + 2)
INTEGERS_AT_ENDS = (None, 2**63 - 1, -(2**63), 2**53, 2**53 + 1)


def delta_rows(choose: Random) -> list[tuple[Any, ...]]:
    """Return up to 24 rows in order of arrival."""
    return [
        (
            choose.randint(0, 40),
            choose.choice(("a", "b", None)),
            choose.choice(FLOATS_AT_ENDS if choose.random() < 0.3 else FLOATS),
            choose.choice(INTEGERS_AT_ENDS) if choose.random() < 0.3 else choose.randint(-3, 3),
        )
        for _ in range(choose.randint(0, 24))
    ]


def difference(choose: Random) -> str:
    """Comparisons with the event before, in all the forms one may write them."""
    column = choose.choice("xxnnt")
    now, before = choose.choice(
        ((column, f"PREV({column})"), (f"LAST({column})", f"PREV({column}, 1)"))
    )
    step = choose.choice(("0", "1", "2", "3", "-1", "9007199254740992"))
    if column == "x":
        step = choose.choice((step, "0.8", "0.1", "-0.5", "1e308", "5e-324"))
    op = choose.choice((">", ">", ">=", "<", "<=", "=", "<>"))
    half = f"CAST({now} AS DOUBLE) {op} {before} + 0.5"
    forms = [
        f"{now} {op} {before}",
        f"{now} - {before} {op} {step}",
        f"{step} {op} {before} - {now}",
        f"{now} {op} {before} + {step}",
        f"{now} - {step} {op} {before}",
        f"{now} BETWEEN {before} - 1 AND {before} + {step}",
        f"{now} NOT BETWEEN {before} AND {before} + {step}",
        f"ABS({now} - {before}) {op} {step}",
        f"{now} - {before} IN ({step}, 1)",
        f"{before} {op} {now} + {step} + {step}",
        half if column == "n" else f"-{now} {op} -{before}",
    ]
    found = choose.choice(forms)
    return choose.choice((found, found, f"NOT ({found})"))


def delta_query(choose: Random, *, keyed: bool) -> str:
    pattern = choose.choice(("A", "A B", "A Z* B", "A B C", "A+ B", "A Z{0,2} (B | C)"))
    defines = []
    for name in (name for name in "ABC" if name in pattern):
        atoms = [difference(choose) for _ in range(choose.randint(1, 2))]
        if name != "A" and choose.random() < 0.5:
            other = choose.choice(["A", chr(ord(name) - 1)])
            atoms = [re.sub(r"PREV\((.)\)", rf"{other}.\1", atom) for atom in atoms]
        if choose.randint(0, 3) == 0:
            atoms.append(choose.choice(("n > 0", "x <= 2", "n IS NOT NULL")))
        defines.append(f"{name} AS {choose.choice((' AND ', ' AND ', ' OR ')).join(atoms)}")
    partitions = ("", "PARTITION BY k", "PARTITION BY k", "PARTITION BY k, n")
    partition = choose.choice(partitions) if keyed else ""
    semantics = choose.choice(("", "", "SEMANTICS SKIP TILL NEXT", "SEMANTICS CONTIGUOUS"))
    if "Z" in pattern or "|" in pattern:
        semantics = ""
    within = f"WITHIN {choose.choice((0, 1, 3, 9))}"
    order = choose.choice(("t", "t", "t", "t, n")) if not semantics else "t"
    skip = "" if semantics else "AFTER MATCH SKIP TO NEXT ROW"
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY {order} MEASURES FIRST(t) AS a, "
        f"LAST(t) AS b, COUNT(*) AS c, MATCH_NUMBER() AS m {skip} "
        f"PATTERN ({pattern}) {semantics} {within} DEFINE {', '.join(defines)})"
    )


@seeded
def delta_cases(choose: Random) -> Case:
    """Whatever was appended, late or not, and whatever is declared and indexed."""
    keyed = choose.randint(0, 2) == 0
    declared = choose.choice((DELTAS, DELTAS, ("delta(x)",), ()))
    made = StreamSettings(
        "t",
        choose.randint(1, 4),
        choose.choice((4, 12, 64)),
        fan_out=2,
        key="k" if keyed else None,
        derived=declared,
    )
    indexed = choose.choice(((*DELTAS, "x", "n"), DELTAS, ("delta(n)",), ()))
    return Case(
        DELTA_COLUMNS,
        made,
        [
            (choose.choice(("runs", "runs", "tail")), delta_rows(choose))
            for _ in range(choose.randint(1, 3))
        ],
        tuple(sorted(name for name in indexed if name in (*declared, "x", "n"))),
        delta_query(choose, keyed=keyed),
    )


# ---------------------------------------------------------------------------------------------
# Queries over streams of `tests.strategies`: indexes over several columns, and strategies.

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

COMPOSITES = ("a+s", "s+a", "x+a", "a+x+s", "f+k", "k+a", "s+x+a+f", "x+f")


@seeded
def composites(choose: Random) -> tuple[str, ...]:
    """Indexes over several columns, and up to two over one."""
    singles = choose.sample("axsf", choose.randint(0, 2))
    return tuple(sorted((*singles, *choose.sample(COMPOSITES, choose.randint(1, 3)))))


def conjunction(choose: Random, symbol: str, others: tuple[str, ...] = ()) -> str:
    """Conditions on one to four columns, which composites cover in part or in full."""
    columns = choose.sample(tuple(ATOMS), choose.randint(1, 4))
    terms = [choose.choice(ATOMS[column]) for column in columns]
    if others and choose.random() < 0.5:
        terms[0] = choose.choice(PINNED).format(symbol, choose.choice(others))
    text = " AND ".join(f"({term})" for term in terms)
    if choose.randint(0, 4) == 0:
        text = f"({text}) OR ({conjunction(choose, symbol)})"
    return text


conjunctions = seeded(conjunction)


@seeded
def composite_queries(choose: Random, *, timestamps: bool) -> str:
    patterns = "A B", "A Z* B", "A B* D", "A Z* B D", "(A | B) Z* D", "A+ B", "Z* A B", "A{2} Z* D"
    pattern = choose.choice(patterns)
    names = tuple(name for name in "ABD" if name in pattern)
    defines = [
        f"{name} AS {conjunction(choose, name, tuple(n for n in names if n != name))}"
        for name in names
    ]
    partition = choose.choice(("", "", "PARTITION BY k", "PARTITION BY s, k"))
    unit = "INTERVAL '{}' SECOND" if timestamps else "{}"
    within = choose.choice(("WITHIN " + unit.format(3), "WITHIN " + unit.format(20), ""))
    skip = choose.choice(("", "AFTER MATCH SKIP TO NEXT ROW"))
    measures = "FIRST(t) AS m1, LAST(t) AS m2, A.a AS m3, LAST(s) AS m4, COUNT(*) AS m5"
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES {measures} "
        f"ONE ROW PER MATCH {skip} PATTERN ({pattern}) {within} DEFINE {', '.join(defines)})"
    )


@seeded
def strategy_queries(choose: Random, *, timestamps: bool) -> str:
    """Strategies with negations anywhere, whose symbols are so rare that blocks are skipped."""
    rarely = ("a = 5", "a > 4", "s = 'z'", "x > 2.0", "s LIKE 'ab%'", "a = 0")
    common = ("f", "a < 4", "x >= 0.0", "a <> 2", "x IS NOT NULL", "a >= {0}.a", "{0}.k = k")
    parts = ["A", choose.choice(("", "B", "B+", "B?", "(B | C)", "C*")), "D"]
    semantics = choose.choice(("CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL ANY"))
    inner = () if semantics == "CONTIGUOUS" else (1, 2)  # there nothing lies between rows
    places = choose.sample((0, *inner, 3), choose.randint(0, 2))
    for place in sorted(places, reverse=True):
        parts.insert(place, "!X")
    pattern = " ".join(part for part in parts if part)
    unit = "INTERVAL '{}' SECOND" if timestamps else "{}"
    within = unit.format(choose.choice((1, 2, 3, 5)))
    names = [name for name in "ABCD" if name in pattern]
    rare = choose.choice(names)
    defines = []
    for name in names:
        other = choose.choice([n for n in names if n != name])
        likely = choose.choice(common).format(other)
        defines.append(f"{name} AS {choose.choice(rarely) if name == rare else likely}")
    if "!X" in pattern:
        defines.append(f"X AS {choose.choice((*rarely, 'f', 'a = 2', 'PREV(a) = 1'))}")
    rows = choose.choice(("", "ONE ROW PER MATCH", "ALL ROWS PER MATCH"))
    partition = choose.choice(("", "", "PARTITION BY k"))
    measures = (
        "A.a AS m1, LAST(D.x) AS m2, COUNT(*) AS m3, MATCH_NUMBER() AS m4, CLASSIFIER() AS m5"
    )
    limit = choose.choice(("", "", " LIMIT 2"))
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES {measures} {rows} "
        f"PATTERN ({pattern}) SEMANTICS {semantics} WITHIN {within} DEFINE {', '.join(defines)})"
        f"{limit}"
    )
