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

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from chronicle import Store, StreamSettings
from costmodel.parameters import CostParameters
from indexing import RunWriter
from replay.engines.statistics import SnapshotStatistics
from replay.errors import SkipError
from replay.language import bind, parse_query
from replay.patterns import local
from tests.memory_stream import damage_run, index, some_store
from tests.oracles.matcher import match_rows
from tests.pattern_texts import Chooser, anchored
from tests.property.law import Rows, comparable

SEEDS = st.integers(0, 2**32 - 1)
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
            return comparable(match_rows(sorted(rows, key=lambda row: row["t"]), bound))
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
            "without keys": RunWriter(case.indexes, "t"),
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


@st.composite
def keyed_queries(draw: st.DrawFn) -> str:
    """Candidates that agree on the key, gaps of one symbol, with PARTITION BY and without."""
    gap = draw(st.sampled_from(("Z*", "Z*", "Z+?", "Z{0,3}", "(Z | B)*", "(Z B)*", "")))
    pairs = f"A {gap} B", f"A {gap} B", f"A {gap} B {gap} A", f"A {gap}"
    pattern = draw(st.sampled_from(pairs) | st.sampled_from(CHAINS))
    partition = draw(st.sampled_from(("PARTITION BY k", "PARTITION BY k, a", "PARTITION BY a", "")))
    semantics = draw(st.sampled_from(("", "", "SKIP TILL NEXT", "SKIP TILL ANY", "CONTIGUOUS")))
    if "|" in pattern or "Z B" in pattern or "{" in pattern:
        semantics = ""
    if semantics == "SKIP TILL ANY" and "C" in pattern:
        semantics = "SKIP TILL NEXT"  # any choice of the many rows in a gap would be a match
    skips = SKIPS if "B" in pattern else SKIPS[:-1]
    skip = "" if semantics else f"AFTER MATCH SKIP {draw(st.sampled_from(skips))}"
    likely, rare = st.sampled_from(LIKELY), st.sampled_from(RARE)
    defines = [f"A AS {draw(rare)}"]
    if "B" in pattern:
        defines.append(f"B AS {draw(st.one_of(rare, likely))}")
    if "C" in pattern:
        defines.append(f"C AS {draw(st.one_of(rare, likely))}")
    if "Z" in pattern and draw(st.booleans()):
        defines.append(f"Z AS {draw(likely)}")
    if "B" in pattern and semantics and draw(st.booleans()):
        pattern = draw(st.sampled_from((f"!N {pattern}", f"{pattern} !N")))
        defines.append(f"N AS {draw(likely)}")
    rows = draw(st.sampled_from(("", "ALL ROWS PER MATCH")))
    # Without a small window there may be exponentially many matches of SKIP TILL ANY.
    windows = ("WITHIN 1", "WITHIN 3", "WITHIN 9", "WITHIN 30", "")
    within = draw(st.sampled_from(windows[:3] if semantics == "SKIP TILL ANY" else windows))
    if "!N" in pattern and not within:
        within = "WITHIN 5"
    shown = draw(st.sampled_from(("*", "*", "*", "COUNT(*) AS n", "COUNT(*) AS n, MAX(m2) AS m")))
    before = "" if partition else ", PREV(A.a) AS m5"
    return (
        f"SELECT {shown} FROM s MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES FIRST(t) AS m1, "
        f"LAST(x) AS m2, COUNT(*) AS m3, MATCH_NUMBER() AS m4{before} {rows} {skip} "
        f"PATTERN ({pattern}) {f'SEMANTICS {semantics}' if semantics else ''} {within}"
        f" DEFINE {', '.join(defines)}){draw(st.sampled_from(('', '', '', ' LIMIT 1')))}"
    )


@st.composite
def keyed_cases(draw: st.DrawFn) -> Case:
    """Keys are strings or integers, some null; answers are rows, counts, the first few.

    One stream of four is much longer than a window, with ties in time, late events, several runs.
    """
    key, choose = draw(st.sampled_from(tuple(KEYS))), Random(draw(SEEDS))
    n, latest = (3, 40), 60
    if choose.random() < 0.25:
        n = choose.randint(60, 160), 160
        latest = int(choose.choice((0.6, 1.0, 3.0)) * n[0])
    return Case(
        of_key(key),
        StreamSettings(
            "t", choose.choice((1, 2, 3, 4, 20)), choose.choice((4, 12, 64)), fan_out=2, key="k"
        ),
        some_appends(choose, KEYS[key][1], n, latest, HOW),
        choose.choice((("a", "x"), ("a", "x", "a+x"))),
        draw(keyed_queries()),
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


def neighbour_case(seed: int) -> Case:
    """Return the case of a seed: the key column has an index or none, runs may be damaged."""
    choose = Random(seed)
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
FLOATS = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from((0.8, 3.2, 4.0, 0.1, -0.0, 5e-324)),
    st.sampled_from((None, math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 2.0**53, 2.0**53 + 2)),
)
INTEGERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-3, 3),
    st.sampled_from((None, 2**63 - 1, -(2**63), 2**53, 2**53 + 1)),
)
DELTA_ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(("a", "b", None)), FLOATS, INTEGERS), max_size=24
)


@st.composite
def differences(draw: st.DrawFn) -> str:
    """Comparisons with the event before, in all the forms one may write them."""
    column = draw(st.sampled_from("xxnnt"))
    now, before = draw(
        st.sampled_from(((column, f"PREV({column})"), (f"LAST({column})", f"PREV({column}, 1)")))
    )
    step = draw(st.sampled_from(("0", "1", "2", "3", "-1", "9007199254740992")))
    if column == "x":
        step = draw(st.sampled_from((step, "0.8", "0.1", "-0.5", "1e308", "5e-324")))
    op = draw(st.sampled_from((">", ">", ">=", "<", "<=", "=", "<>")))
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
    found = draw(st.sampled_from(forms))
    return draw(st.sampled_from((found, found, f"NOT ({found})")))


@st.composite
def delta_queries(draw: st.DrawFn, *, keyed: bool) -> str:
    pattern = draw(st.sampled_from(("A", "A B", "A Z* B", "A B C", "A+ B", "A Z{0,2} (B | C)")))
    defines = []
    for name in (name for name in "ABC" if name in pattern):
        atoms = [draw(differences()) for _ in range(draw(st.integers(1, 2)))]
        if name != "A" and draw(st.booleans()):
            other = draw(st.sampled_from(["A", chr(ord(name) - 1)]))
            atoms = [re.sub(r"PREV\((.)\)", rf"{other}.\1", atom) for atom in atoms]
        if draw(st.integers(0, 3)) == 0:
            atoms.append(draw(st.sampled_from(("n > 0", "x <= 2", "n IS NOT NULL"))))
        defines.append(f"{name} AS {draw(st.sampled_from((' AND ', ' AND ', ' OR '))).join(atoms)}")
    partitions = ("", "PARTITION BY k", "PARTITION BY k", "PARTITION BY k, n")
    partition = draw(st.sampled_from(partitions)) if keyed else ""
    semantics = draw(st.sampled_from(("", "", "SEMANTICS SKIP TILL NEXT", "SEMANTICS CONTIGUOUS")))
    if "Z" in pattern or "|" in pattern:
        semantics = ""
    within = f"WITHIN {draw(st.sampled_from((0, 1, 3, 9)))}"
    order = draw(st.sampled_from(("t", "t", "t", "t, n"))) if not semantics else "t"
    skip = "" if semantics else "AFTER MATCH SKIP TO NEXT ROW"
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY {order} MEASURES FIRST(t) AS a, "
        f"LAST(t) AS b, COUNT(*) AS c, MATCH_NUMBER() AS m {skip} "
        f"PATTERN ({pattern}) {semantics} {within} DEFINE {', '.join(defines)})"
    )


@st.composite
def delta_cases(draw: st.DrawFn) -> Case:
    """Whatever was appended, late or not, and whatever is declared and indexed."""
    keyed = draw(st.integers(0, 2)) == 0
    how, appended = (
        st.sampled_from(("runs", "runs", "tail")),
        draw(st.lists(DELTA_ROWS, min_size=1, max_size=3)),
    )
    declared = draw(st.sampled_from((DELTAS, DELTAS, ("delta(x)",), ())))
    made = StreamSettings(
        "t",
        draw(st.integers(1, 4)),
        draw(st.sampled_from((4, 12, 64))),
        fan_out=2,
        key="k" if keyed else None,
        derived=declared,
    )
    indexed = draw(st.sampled_from(((*DELTAS, "x", "n"), DELTAS, ("delta(n)",), ())))
    return Case(
        DELTA_COLUMNS,
        made,
        [(draw(how), rows) for rows in appended],
        tuple(sorted(name for name in indexed if name in (*declared, "x", "n"))),
        draw(delta_queries(keyed=keyed)),
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


def composites() -> st.SearchStrategy[tuple[str, ...]]:
    """Indexes over several columns, and up to two over one."""
    singles = st.sets(st.sampled_from(("a", "x", "s", "f")), max_size=2)
    joined = st.sets(st.sampled_from(COMPOSITES), min_size=1, max_size=3)
    return st.builds(lambda one, more: tuple(sorted(one | more)), singles, joined)


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
def composite_queries(draw: st.DrawFn, *, timestamps: bool) -> str:
    patterns = "A B", "A Z* B", "A B* D", "A Z* B D", "(A | B) Z* D", "A+ B", "Z* A B", "A{2} Z* D"
    pattern = draw(st.sampled_from(patterns))
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


@st.composite
def strategy_queries(draw: st.DrawFn, *, timestamps: bool) -> str:
    """Strategies with negations anywhere, whose symbols are so rare that blocks are skipped."""
    rarely = ("a = 5", "a > 4", "s = 'z'", "x > 2.0", "s LIKE 'ab%'", "a = 0")
    common = ("f", "a < 4", "x >= 0.0", "a <> 2", "x IS NOT NULL", "a >= {0}.a", "{0}.k = k")
    parts = ["A", draw(st.sampled_from(("", "B", "B+", "B?", "(B | C)", "C*"))), "D"]
    semantics = draw(st.sampled_from(("CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL ANY")))
    inner = () if semantics == "CONTIGUOUS" else (1, 2)  # there nothing lies between rows
    for place in sorted(draw(st.sets(st.sampled_from((0, *inner, 3)), max_size=2)), reverse=True):
        parts.insert(place, "!X")
    pattern = " ".join(part for part in parts if part)
    unit = "INTERVAL '{}' SECOND" if timestamps else "{}"
    within = unit.format(draw(st.sampled_from((1, 2, 3, 5))))
    names = [name for name in "ABCD" if name in pattern]
    rare = draw(st.sampled_from(names))
    defines = []
    for name in names:
        other = draw(st.sampled_from([n for n in names if n != name]))
        likely = draw(st.sampled_from(common)).format(other)
        defines.append(f"{name} AS {draw(st.sampled_from(rarely)) if name == rare else likely}")
    if "!X" in pattern:
        defines.append(f"X AS {draw(st.sampled_from((*rarely, 'f', 'a = 2', 'PREV(a) = 1')))}")
    rows = draw(st.sampled_from(("", "ONE ROW PER MATCH", "ALL ROWS PER MATCH")))
    partition = draw(st.sampled_from(("", "", "PARTITION BY k")))
    measures = (
        "A.a AS m1, LAST(D.x) AS m2, COUNT(*) AS m3, MATCH_NUMBER() AS m4, CLASSIFIER() AS m5"
    )
    limit = draw(st.sampled_from(("", "", " LIMIT 2")))
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES {measures} {rows} "
        f"PATTERN ({pattern}) SEMANTICS {semantics} WITHIN {within} DEFINE {', '.join(defines)})"
        f"{limit}"
    )
