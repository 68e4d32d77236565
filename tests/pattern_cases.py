"""Random cases of row pattern matching: a tiny stream and the text of a query over it.

``pattern_case(seed)`` is a pure function of its seed, so that a seed printed is a case kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from tests.pattern_texts import (
    Chooser,
    Names,
    anchored,
    any_pattern,
    condition,
    easy,
    gapped_pattern,
    measures,
    negated,
    negated_condition,
    negated_in_gap,
    neighbours,
    symbols_in,
    with_edges,
)
from tests.strategies import SECOND, SmallStream

STRINGS = ("", "a", "a", "ab", "b", "z")
DOUBLES = (-1.5, 0.0, 0.5, 0.5, 1.0, 2.5, 2.5, math.nan, math.inf)
ODD_DOUBLES = (*DOUBLES, -0.0, -math.inf, 0.1, -0.3, 1e-300, 2.0**-1074)
INDEXED = ("a", "x", "s", "f")
LONGS = (-1, 0, 1, 1, 2, 1 << 62, -(1 << 62), (1 << 63) - 1)
DAYS = (19_781, 19_782, 19_783)
"""Days since the epoch about 2024-02-29, as bound expressions carry dates."""


@dataclass(frozen=True)
class PatternCase:
    """A stream, a query, and what is indexed where the stream is stored."""

    seed: int
    stream: SmallStream
    sql: str
    indexes: tuple[str, ...]
    planned: bool = False
    """Whether it is of the kind that plans with replay intervals are for."""
    key: str | None = None
    """The key column where the stream is stored."""

    def shown(self) -> str:
        """Return the case as Python to paste."""
        rows = "\n".join(f"    {row!r}," for row in self.stream.rows)
        return (
            f"seed {self.seed}; blocks of {self.stream.block_events}, indexes {self.indexes}, "
            f"key {self.key}, types {[str(t) for t in self.stream.schema.types]}\n"
            f"sql = {self.sql!r}\n"
            f"nan, inf = math.nan, math.inf\nrows = [\n{rows}\n]"
        )


def pattern_case(seed: int) -> PatternCase:
    """Return the case of a seed: one in four is of the kind that skips blocks."""
    choose = Chooser(seed)
    planned = choose.chance(0.25)
    stream = _stream(choose, planned=planned)
    names_time = stream.has_timestamps
    sql = _planned_query(choose, names_time) if planned else _query(choose, names_time)
    indexes = tuple(sorted(choose.some(INDEXED, 1, 4)))
    return PatternCase(seed, stream, sql, indexes, planned)


# ---------------------------------------------------------------------------------------------
# Streams


def _stream(choose: Chooser, *, planned: bool, doubles: tuple[float, ...] = DOUBLES) -> SmallStream:
    time = choose.pick((pa.int64(),) * 6 + (pa.timestamp("us"), pa.timestamp("us", "UTC")))
    unit = SECOND if pa.types.is_timestamp(time) else 1
    n_rows = (
        choose.between(16, 40)
        if planned
        else choose.pick((1, 4, 6, 7, 8, 9, 9, 10, 10, 11, 11, 12))
    )
    t = choose.between(-3, 3)
    n_partitions = choose.between(1, 3)
    steps = (0, 1, 1, 2, 3, 8) if planned else (0, 0, 1, 1, 1, 2, 4)
    gaps = choose.pick((0.0, 0.0, 0.0, 0.1, 0.25))
    rows = []
    for _ in range(n_rows):
        t += choose.pick(steps)
        row: dict[str, Any] = {
            "t": t * unit,
            "a": choose.between(0, 5),
            "x": choose.pick(doubles),
            "s": choose.pick(STRINGS),
            "f": choose.chance(0.6),
            "k": choose.between(1, n_partitions),
            "b": choose.pick(LONGS),
            "d": choose.pick(DAYS),
        }
        row["e"] = Decimal((row["a"] - 2) * 3 * 10**17 + 7).scaleb(-2)  # a few are beyond 18 digits
        rows.append(
            {
                name: None if name != "t" and choose.chance(gaps) else value
                for name, value in row.items()
            }
        )
    types = {
        "t": time,
        "a": choose.pick((pa.int32(), pa.int64(), pa.int8())),
        "x": pa.float64(),
        "s": pa.string(),
        "f": pa.bool_(),
        "k": choose.pick((pa.int16(), pa.int64())),
        "b": pa.int64(),
        "d": pa.date32(),
        "e": pa.decimal128(18, 2),
    }
    return SmallStream(
        rows,
        block_events=choose.between(1, 3),
        file_events=choose.pick((5, 12, 1000)),
        fan_out=choose.between(2, 3),
        cuts=tuple(sorted(choose.between(0, n_rows) for _ in range(choose.between(0, 2)))),
        schema=pa.schema([*types.items()]),
    )


# ---------------------------------------------------------------------------------------------
# Queries


@dataclass
class _Clauses:
    """The clauses of MATCH_RECOGNIZE, as text."""

    partition: str = ""
    order: str = "ORDER BY t"
    measures: tuple[str, ...] = ()
    rows: str = ""
    skip: str = ""
    pattern: str = ""
    semantics: str = ""
    within: str = ""
    timeouts: str = ""
    subset: str = ""
    defines: tuple[str, ...] = ()
    lower_case: bool = False
    """Whether PATTERN has its symbols in lower case."""

    def __str__(self) -> str:
        named = [f"{measure} AS m{k}" for k, measure in enumerate(self.measures)]
        parts = (
            self.partition,
            self.order,
            f"MEASURES {', '.join(named)}",
            self.rows,
            self.skip,
            f"PATTERN ({self.pattern.lower() if self.lower_case else self.pattern})",
            self.semantics,
            self.within,
            self.timeouts,
            self.subset,
            f"DEFINE {', '.join(self.defines)}" if self.defines else "",
        )
        return " ".join(part for part in parts if part)


def aggregate_case(seed: int, *, in_windows: bool | None = None) -> PatternCase:
    """Return the case of a seed: aggregates over every match, most of which need none made.

    ``in_windows``: whether a window function stands before; None: in some.
    """
    choose = Chooser(seed)
    stream = _stream(choose, planned=False)
    made = _aggregates(choose, stream.has_timestamps, in_windows=in_windows)
    key = choose.pick(("", *made.keys[:1]))
    group = f" GROUP BY {key}" if key else ""
    sql = f"SELECT {made.selected()} {made.inner}{group}"
    return PatternCase(seed, stream, sql, tuple(sorted(choose.some(INDEXED, 1, 4))))


def cases_of_sums(seed: int) -> list[PatternCase]:
    """Return the cases of a seed: queries over one stream, each around every match of a pattern.

    Most are aggregates for which no match need be made; some are of rare events, which indexes
    tell; some begin alike.
    """
    choose = Chooser(seed)
    kind = choose.pick(
        (
            *("any", "any", "any", "row before", "row before"),
            "rare",
            "rare",
            "alike",
            "alike",
            "each match",
        )
    )
    if kind == "alike":
        stream, sqls = cases_together(seed)
    else:
        stream = _stream(choose, planned=kind == "rare", doubles=ODD_DOUBLES)
        timestamps, n_queries = stream.has_timestamps, choose.pick((1, 1, 2, 3))
        aggregates = {
            "rare": _rare_aggregates,
            "row before": partial(_aggregates, reads=choose.pick(("LAST({0}, 1)", "A.{0}"))),
        }.get(kind, _aggregates)
        sqls = [_around(choose, aggregates(choose, timestamps)) for _ in range(n_queries)]
        if kind == "each match":
            sqls[0] = _query(choose, timestamps, is_trend=True)
    indexes = tuple(sorted(choose.some(INDEXED, 3 if kind == "rare" else 1, 4)))
    key = choose.pick((None, "k"))
    return [PatternCase(seed, stream, sql, indexes, key=key) for sql in sqls]


@dataclass(frozen=True)
class _Aggregates:
    """What a query around every match is made of."""

    items: list[str]
    inner: str
    """FROM and what follows it."""
    keys: list[str]
    """Columns of PARTITION BY."""
    mapped: list[str]
    """Symbols that may have rows, SUBSET U among them."""

    def selected(self) -> str:
        return ", ".join(f"{text} AS v{place}" for place, text in enumerate(self.items))


def _aggregates(
    choose: Chooser, timestamps: bool, *, in_windows: bool | None = None, reads: str = ""
) -> _Aggregates:
    """Return aggregates of any kind over every match.

    ``reads``: what of a row mapped before conditions compare with; empty: any, or none.
    """
    names = Names((), None, timestamps)
    clauses = _Clauses()
    clauses.partition = choose.pick(
        ("", "", "", "", "PARTITION BY k", "PARTITION BY k", "PARTITION BY s, k", "PARTITION BY x")
    )
    clauses.order += choose.pick(("",) * 12 + (", a", ", x"))
    within = choose.pick((None, 1, 3, 6))
    clauses.within = "" if within is None else f"WITHIN {names.lasting(within)}"
    in_some = choose.chance(0.4)
    in_windows = in_some if in_windows is None else in_windows
    source = _windows(choose, clauses, names) if in_windows else "s"
    _strategy(choose, clauses, in_windows=in_windows)
    clauses.timeouts = ""
    if reads:
        clauses.pattern = choose.pick(_BEHIND_A)
    elif not symbols_in(clauses.pattern):
        clauses.pattern = "A"
    symbols = symbols_in(clauses.pattern)
    mapped = [*symbols]
    reads_others = 0.5 if choose.chance(0.5) else 0.0
    clauses.defines = tuple(
        f"{symbol} AS {_compared(choose, symbol, reads)}"
        if reads
        else f"{symbol} AS {_of_one_other(choose, mapped, reads_others) or easy(choose, symbol)}"
        for symbol in symbols
        if choose.chance(0.8)
    )
    if clauses.defines and choose.chance(0.04):
        looks = neighbours(choose, clauses.defines[-1][0])
        clauses.defines = (*clauses.defines[:-1], f"{clauses.defines[-1]} AND ({looks})")
    names = replace(names, symbols=tuple(symbols))
    clauses.defines += _negated_defines(choose, clauses.pattern, names)
    clauses.subset = f"SUBSET U = ({', '.join(mapped[:2])})"
    mapped.append("U")
    clauses.measures = tuple(
        choose.pick(_MEASURES).format(choose.pick(mapped), choose.pick(mapped)) for _ in range(3)
    )
    of_matches = choose.some(_OF_MEASURES, 1, 3)
    items = [text.format(choose.pick(("m0", "m1", "m2"))) for text in of_matches]
    items += [text.format(choose.pick(mapped)) for text in choose.some(_OF_ROWS, 1, 3)]
    inner = f"FROM {source} MATCH_RECOGNIZE ({clauses})"
    return _Aggregates(items, inner, _keys(clauses), mapped)


_BEHIND_A = (
    *("A B", "A B*", "A B+", "A B* C", "A B+ C", "A B? C", "(A B+)+", "A (B | C)+", "A B C*"),
    *("A+ B", "A* B+", "A B{1,2}"),
)


def _compared(choose: Chooser, symbol: str, reads: str) -> str:
    """Return a condition that compares with a row before, or for the first symbol none."""
    if symbol == "A" and not (reads.startswith("LAST") and choose.chance(0.3)):
        return easy(choose, symbol)
    column, other = choose.pick(("a", "x", "a", "x", "t")), choose.pick(("a", "x"))
    by = choose.pick(("<", "<=", ">", ">=", "<>", "="))
    text = choose.pick(
        (
            *(f"{column} {by} {{}}",) * 3,
            f"({{}} IS NULL OR {column} {by} {{}})",
            f"{column} {by} {{}} AND {other} >= {reads.format(other)}",
            f"{column} {by} {{}} AND {easy(choose, symbol)}",
            f"COALESCE({column} {by} {{}}, {choose.pick(('TRUE', 'FALSE'))})",
        )
    )
    return text.replace("{}", reads.format(column))


def _rare_aggregates(choose: Chooser, timestamps: bool) -> _Aggregates:
    """Return aggregates over matches of rare events, most of which indexes know all about."""
    names = Names((), None, timestamps)
    clauses = _Clauses()
    clauses.partition = choose.pick(("", "", "PARTITION BY k"))
    within = choose.pick((None, None, 3, 6))
    clauses.within = "" if within is None else f"WITHIN {names.lasting(within)}"
    source = _windows(choose, clauses, names) if choose.chance(0.4) else "s"
    kinds = ("SKIP TILL ANY", "SKIP TILL ANY", "SKIP TILL NEXT", "SKIP TILL NEXT", "CONTIGUOUS")
    semantics = choose.pick(kinds)
    clauses.semantics = f"SEMANTICS {semantics}"
    patterns = ["A B", "A B C", "A B+", "A B* C", "(A B)+", "A (B | C)", "A B? A"]
    patterns += [] if semantics == "CONTIGUOUS" else ["A !X B", "A B !X C", "(A !X B)+"]
    clauses.pattern = choose.pick(patterns)
    symbols = [*symbols_in(clauses.pattern), *(["X"] if "!X" in clauses.pattern else [])]
    mapped = symbols_in(clauses.pattern)
    conditions = ("a = 5", "a > 4", "s = 'z'", "x > 2.5", "s = 'ab'", "a = 0", "x < 0", "a <= 1")
    both = ("a >= 4 AND x > 0", "a BETWEEN 1 AND 2", "s IN ('b', 'z')", "a = 5 AND s >= 'b'")
    clauses.defines = tuple(
        f"{symbol} AS {choose.pick((*conditions, *both))}" for symbol in symbols
    )
    clauses.measures = ("COUNT(*)", "LAST(t) - FIRST(t)", "COUNT(A.*)")
    clauses.subset = f"SUBSET U = ({', '.join(mapped)})"
    items = choose.some(("COUNT(*)", "COUNT(U.*)", "MAX(m0)", "MAX(m1)", "SUM(m2)"), 1, 3)
    items += choose.some(("SUM(A.a)", "MIN(U.x)"), 0, 1) if choose.chance(0.3) else []
    inner = f"FROM {source} MATCH_RECOGNIZE ({clauses})"
    return _Aggregates(items, inner, _keys(clauses), [*mapped, "U"])


def _keys(clauses: _Clauses) -> list[str]:
    return [key for key in clauses.partition.removeprefix("PARTITION BY ").split(", ") if key]


def _around(choose: Chooser, made: _Aggregates) -> str:
    """Return the whole query: grouped or not, with conditions on groups and an order of them."""
    is_grouped = bool(made.keys) and choose.chance(0.8)
    keys = choose.some(made.keys, 1, len(made.keys)) if is_grouped else []
    is_plain = bool(keys) and keys[0].startswith("window") and choose.chance(0.6)
    if "k" in keys and choose.chance(0.15):
        keys[keys.index("k")] = choose.pick(("k + 1", "k IS NULL", "k % 2"))
    selected = ", ".join([*keys, made.selected()])
    counts = ("CAST(COUNT(*) AS VARCHAR)", "LOG2(COUNT(*))", "COUNT(*) + 1", "COUNT(*)")
    selected += f", {choose.pick(counts)} AS n" if choose.chance(0.3) else ""
    sql = f"SELECT {selected} {made.inner}"
    if "k" in made.keys and choose.chance(0.1):
        sql += choose.pick((" WHERE k = 1", " WHERE k IS NOT NULL", " WHERE k <> 2 OR k IS NULL"))
    sql += f" GROUP BY {', '.join(keys)}" if keys else ""
    symbol = choose.pick(made.mapped)
    conditions = ("COUNT(*) > 1", f"COUNT({symbol}.*) <> 2", f"MAX({symbol}.a) >= 3")
    sql += f" HAVING {choose.pick(conditions)}" if choose.chance(0.3) else ""
    if is_plain or not keys:
        return sql
    order = choose.pick(("", "", f" ORDER BY {choose.pick(made.items)}", " ORDER BY COUNT(*)"))
    order += _direction(choose) if order else ""
    return f"{sql}{order}{_limit(choose)}"


def cases_together(seed: int) -> tuple[SmallStream, list[str]]:
    """Return a stream and queries to ask at once, of which most have much in common."""
    choose = Chooser(seed)
    stream = _stream(choose, planned=False)
    names = Names((), None, stream.has_timestamps)
    clauses = _Clauses()
    clauses.partition = choose.pick(("", "PARTITION BY k"))
    key = clauses.partition.removeprefix("PARTITION BY ")
    is_within = choose.chance(0.3)
    clauses.within = f"WITHIN {names.lasting(choose.between(1, 6))}" if is_within else ""
    source = _windows(choose, clauses, names) if choose.chance(0.3) else "s"
    kinds = ("SKIP TILL ANY", "SKIP TILL ANY", "CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL NEXT")
    clauses.semantics = f"SEMANTICS {choose.pick(kinds)}"
    # Rows of one query must not move the runs of another, which few of long patterns show.
    is_short = "NEXT" in clauses.semantics
    plain = ("a > 0", "a <= 3", "x < 1.5", "s = 'a'", "a = 2")
    is_plain = choose.chance(0.5)
    conditions = {
        symbol: [choose.pick(plain) if is_plain else easy(choose, symbol) for _ in range(2)]
        for symbol in "ABCDX"
    }
    parts = ("A", "B", "C", "B+", "A?", "(A | C)", "C{1,2}", "(A B)+", "D")
    begin = [choose.pick(parts) for _ in range(2)]
    counted = choose.pick(("COUNT(*)", "COUNT(*), SUM(A.x)", "COUNT(*), MIN(A.a), AVG(B.x)"))
    sqls = []
    for _ in range(choose.between(2, 5)):
        own = [choose.pick(parts) for _ in range(choose.between(*((0, 1) if is_short else (1, 2))))]
        gap = ["!X"] if choose.chance(0.1) and "CONTIG" not in clauses.semantics else []
        last = "B" if "B." in counted else choose.pick("BBCD")
        rest = [*gap, *own, *([] if is_short else choose.some("BC", 0, 1)), last]
        first = "A" if "A." in counted else choose.pick("AAD")
        clauses.pattern = " ".join(
            [first, *begin[: choose.between(0, 1 if is_short else 2)], *rest]
        )
        clauses.defines = tuple(
            f"{symbol} AS {choose.pick(conditions[symbol][: choose.pick((1, 1, 1, 2))])}"
            for symbol in (*symbols_in(clauses.pattern), *("X" if gap else ""))
        )
        clauses.measures = ("COUNT(*)",)
        group = f" GROUP BY {key}" if key and choose.chance(0.8) else ""
        sqls.append(f"SELECT {counted} FROM {source} MATCH_RECOGNIZE ({clauses}){group}")
    return stream, sqls


def _of_one_other(choose: Chooser, mapped: list[str], chance: float) -> str:
    """Return a condition that reads a row mapped before; empty where it is not to be had."""
    if not mapped or not choose.chance(chance):
        return ""
    text = choose.pick(_READS).format(choose.pick(("a", "x")), choose.pick(mapped))
    return choose.pick((text, text, f"a >= 1 AND {text}", f"(a = 0 OR {text})"))


_READS = (
    *("{0} < LAST({0}, 1)", "{0} >= LAST({0}, 1)", "{0} <> LAST({0}, 1)", "{0} = LAST({0}, 1)"),
    *("{0} < LAST({0}, 1)", "{0} > {1}.{0}", "{0} >= FIRST({1}.{0})", "{0} <> FIRST({0})"),
    *("LAST({1}.{0}, 1) <= {0}", "COALESCE(LAST({0}, 1) > {0}, TRUE)", "s <= LAST(s, 1)"),
    "(COALESCE(LAST(CLASSIFIER(), 1), '') <> '{1}' OR {0} <= LAST({0}, 1))",
    "{0} < LAST({0}, 1) AND a + 1 >= LAST(a, 1)",
)
"""Conditions that read the row before, one other row or, where both are asked for, two."""

_MEASURES = (
    *("COUNT(*)", "COUNT({0}.*)", "COUNT({0}.x)", "{0}.x", "FIRST({0}.a)", "LAST({0}.a * 2)"),
    *("MIN({0}.x)", "MAX({0}.a)", "SUM({0}.a)", "SUM({0}.x)", "LAST(t) - FIRST(t)", "FIRST(x)"),
    *("{0}.t - {1}.t", "LAST({0}.b)", "LAST({0}.e)"),
)
_OF_MEASURES = ("COUNT({0})", "SUM({0})", "AVG({0})", "MIN({0})", "MAX({0})", "COUNT(*)")
_OF_ROWS = (
    *("COUNT({0}.*)", "COUNT({0}.s)", "SUM({0}.a)", "SUM({0}.x)", "AVG({0}.x)", "MIN({0}.x)"),
    *("MAX({0}.a * {0}.x)", "BOOL_OR({0}.f)", "SUM({0}.x * 1e300)", "SUM({0}.b)", "MIN({0}.d)"),
    *("AVG({0}.b)", "MIN({0}.t)", "AVG({0}.a)", "SUM({0}.e)", "CAST(SUM({0}.e) AS VARCHAR)"),
)


def _windows(choose: Chooser, clauses: _Clauses, names: Names) -> str:
    """Return a window function as the source, and have PARTITION BY name its columns."""
    others = clauses.partition.removeprefix("PARTITION BY ")
    by = choose.pick(("window_start, window_end", "window_start", "window_end"))
    size = choose.between(1, 9)
    slide = choose.between(1, size)
    origin = choose.pick(("", ", ORIGIN FIRST EVENT", ""))
    lasting = names.lasting
    windows = choose.pick(
        (
            f"HOP(TABLE s, DESCRIPTOR(t), {lasting(slide)}, {lasting(size)}{origin})",
            f"TUMBLE(TABLE s, DESCRIPTOR(t), {lasting(size)}{origin})",
            f"CUMULATE(TABLE s, DESCRIPTOR(t), {lasting(slide)}, {lasting(2 * slide)}{origin})",
            f"SLIDING(TABLE s, DESCRIPTOR(t), {lasting(size)})",
        )
    )
    by = "window_start, window_end" if windows.startswith("CUMULATE") else by
    clauses.partition = f"PARTITION BY {by}{', ' if others else ''}{others}"
    return f"TABLE({windows})"


def _query(choose: Chooser, timestamps: bool, *, is_trend: bool = False) -> str:
    """Return a query of any constructs; ``is_trend``: one with SEMANTICS, maybe in windows."""
    clauses = _Clauses()
    clauses.partition = choose.pick(
        ("", "", "PARTITION BY k", "PARTITION BY k", "PARTITION BY s, k", "PARTITION BY f, x")
    )
    clauses.order += choose.pick(("", "", "", ", a", ", s, x", ", x, a", ", f, b"))
    strategy = is_trend or choose.chance(0.25)
    names = Names((), None, timestamps)
    in_windows = is_trend and choose.chance(0.7)
    source = _windows(choose, clauses, names) if in_windows else ""
    within = (
        choose.pick((None, None, None, 2, 3, 5, 0))
        if not strategy
        else choose.pick((None, 1, 3, 6, 6))
    )
    clauses.within = "" if within is None else f"WITHIN {names.lasting(within)}"
    if strategy:
        _strategy(choose, clauses, in_windows=in_windows)
    else:
        _sql_pattern(choose, clauses)
    used = symbols_in(clauses.pattern)
    subset = choose.some(used, 1, 2) if choose.chance(0.3) and used else []
    names = Names(tuple(used) or ("Z",), "U" if subset else None, timestamps)
    if not used:
        clauses.pattern = f"{clauses.pattern} | Z"
    clauses.subset = f"SUBSET U = ({', '.join(subset)})" if subset else ""
    _rows_per_match(choose, clauses, strategy=strategy)
    all_rows = clauses.rows.startswith("ALL")
    if not strategy:
        clauses.skip = _skip(choose, names)
    clauses.measures = tuple(measures(choose, names, all_rows=all_rows))
    clauses.defines = tuple(_defines(choose, clauses.pattern, names, strategy=strategy))
    source = source or f"s{_alias(choose, clauses)}"
    return _outer(choose, clauses, f"FROM {source} MATCH_RECOGNIZE ({clauses})")


def _alias(choose: Chooser, clauses: _Clauses) -> str:
    """Return an alias of the stream, now and then, and have PATTERN and columns in its manner."""
    if choose.chance(0.8):
        return ""
    clauses.order = clauses.order.replace("BY t", "BY q.t")
    clauses.partition = clauses.partition.replace("BY ", "BY Q.")
    clauses.lower_case = True
    return choose.pick((" AS q", " q"))


def _strategy(choose: Chooser, clauses: _Clauses, *, in_windows: bool) -> None:
    semantics = choose.pick(("CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL NEXT", "SKIP TILL ANY"))
    clauses.semantics = f"SEMANTICS {semantics}"
    if clauses.within and choose.chance(0.4):
        clauses.timeouts = "WITH TIMEOUTS"
    if semantics != "CONTIGUOUS" and choose.chance(0.35):
        has_window = in_windows or bool(clauses.within)
        clauses.pattern = negated(choose, ("A", "B", "C"), window=has_window)
        return
    leaves = choose.between(1, 4)
    pattern = any_pattern(choose, ("A", "B", "C"), leaves, exclusion=choose.chance(0.2))
    if choose.chance(0.1):
        pattern = f"{pattern} {{- D -}}"
    plain = not clauses.timeouts and "{-" not in pattern
    clauses.pattern = with_edges(choose, pattern) if plain else pattern


def _sql_pattern(choose: Chooser, clauses: _Clauses) -> None:
    if choose.chance(0.1):
        clauses.pattern = negated_in_gap(choose, ("A", "B", "C"))
        return
    symbols = ("A", "B", "C", "A", "B", "C", "Z")
    if choose.chance(0.25):
        clauses.pattern = gapped_pattern(choose, symbols)
        return
    pattern = any_pattern(choose, symbols, choose.pick((1, 2, 3, 3, 4, 4, 5, 6)), exclusion=True)
    clauses.pattern = with_edges(choose, pattern)


def _rows_per_match(choose: Chooser, clauses: _Clauses, *, strategy: bool) -> None:
    options = ["", "ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH"]
    if not strategy:
        options += [
            "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
            "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
        ]
        if "{-" not in clauses.pattern:
            options += ["ALL ROWS PER MATCH WITH UNMATCHED ROWS"]
    clauses.rows = choose.pick(options)


def _skip(choose: Chooser, names: Names) -> str:
    target = choose.pick((*names.symbols, *([names.subset] * 2 if names.subset else [])))
    modes = [
        "",
        "",
        "PAST LAST ROW",
        "TO NEXT ROW",
        "TO NEXT ROW",
        f"TO LAST {target}",
        f"TO FIRST {target}",
        f"TO {target}",
    ]
    mode = choose.pick(modes)
    return f"AFTER MATCH SKIP {mode}" if mode else ""


def _defines(choose: Chooser, pattern: str, names: Names, *, strategy: bool) -> list[str]:
    defines = []
    for symbol in names.symbols:
        if symbol == "Z" or choose.chance(0.35):
            continue
        # Where a match depends on what is not there, it had better be there but for that.
        is_easy = "!" in pattern and choose.chance(0.8)
        text = easy(choose, symbol) if is_easy else condition(choose, symbol, names)
        if choose.chance(0.2):
            text = f"({text}) OR {easy(choose, symbol)}"
        if not strategy and choose.chance(0.04):
            text = f"({text}) AND MATCH_NUMBER() {choose.pick(('<= 2', '<> 1'))}"
        defines.append(f"{symbol} AS {text}")
    return [*defines, *_negated_defines(choose, pattern, names)]


def _negated_defines(choose: Chooser, pattern: str, names: Names) -> tuple[str, ...]:
    """Return the conditions of the negated symbols of a pattern."""
    defines = []
    for symbol in ("X", "Y"):
        if f"!{symbol}" in pattern:
            leads = pattern.lstrip("(").startswith(f"!{symbol}")
            text = negated_condition(choose, symbol, names, leads=leads)
            defines.append(f"{symbol} AS {text}")
    return tuple(defines)


# ---------------------------------------------------------------------------------------------
# The outer query


def _outer(choose: Chooser, clauses: _Clauses, inner: str) -> str:
    """Return the whole query: now and then with more than SELECT * and LIMIT."""
    if choose.chance(0.15 if clauses.semantics else 0.02):
        return f"SELECT COUNT(*) AS n {inner}"  # over a strategy it need not enumerate
    if clauses.semantics and not clauses.rows.startswith("ALL") and choose.chance(0.3):
        return _over_symbols(choose, clauses, inner)
    if choose.chance(0.72):
        limit = f" LIMIT {choose.pick((0, 1, 1, 2, 3, 4))}" if choose.chance(0.2) else ""
        return f"SELECT * {inner}{limit}"
    columns = [f"m{k}" for k in range(len(clauses.measures))]
    if clauses.rows.startswith("ALL"):
        columns += ["t", "a", "x", "s"]
    column, other = choose.pick(columns), choose.pick(columns)
    inner += choose.pick(
        (
            *("", ""),
            f" WHERE {column} IS NOT NULL",
            f" WHERE {column} IS NULL OR {other} IS NOT NULL",
            f" WHERE COALESCE({column}, {column}) = {column}",
        )
    )
    if choose.chance(0.4):
        return _grouped(choose, column, other, inner)
    order = f"ORDER BY {column}{_direction(choose)}"
    if choose.chance(0.3):
        order = choose.pick((order, ""))
        return f"SELECT DISTINCT {column} {inner} {order}{_limit(choose)}"
    items = choose.pick(
        (
            f"{column} AS one, {other} AS other",
            f"{column} AS one, COALESCE({column}, {column}) AS two",
            f"{column} IS NULL AS missing, {column}",
            f"CASE WHEN {other} IS NULL THEN {column} END AS sometimes",
            "*",
        )
    )
    order = choose.pick(("", f" {order}, {other}{_direction(choose)}"))
    return f"SELECT {items} {inner}{order}{_limit(choose)}"


def _over_symbols(choose: Chooser, clauses: _Clauses, inner: str) -> str:
    """Return aggregates over the rows that matches map, grouped or not."""
    names = [name for name in symbols_in(clauses.pattern) if f"!{name}" not in clauses.pattern]
    names += ["U"] if clauses.subset else []
    aggregates = [
        "COUNT({0}.*)", "COUNT({0}.x)", "COUNT(DISTINCT {0}.a)", "SUM({0}.a)", "SUM({0}.x)",
        "AVG({0}.x)", "AVG({0}.a)", "MIN({0}.x)", "MAX({0}.s)", "MAX({0}.a * {0}.x)",
        "BOOL_OR({0}.a > 1)", "AVG({0}.a) + COUNT({0}.x)",
    ]  # fmt: skip
    some = [text.format(choose.pick(names)) for text in choose.some(aggregates, 1, 4)]
    selected = ", ".join(f"{text} AS v{k}" for k, text in enumerate(some))
    key = choose.pick(("", "m0", *clauses.partition.removeprefix("PARTITION BY ").split(", ")[:1]))
    key = key.removeprefix("Q.")
    if not key:
        return f"SELECT {selected} {inner}"
    having = choose.pick(("", "", f" HAVING COUNT({choose.pick(names)}.*) > 1"))
    order = choose.pick(("", f" ORDER BY {some[0]}{_direction(choose)}"))
    return f"SELECT {key}, {selected} {inner} GROUP BY {key}{having}{order}{_limit(choose)}"


def _grouped(choose: Chooser, column: str, other: str, inner: str) -> str:
    having = choose.pick(("", "", " HAVING COUNT(*) > 1", f" HAVING COUNT({other}) < 3"))
    if choose.chance(0.2):
        return f"SELECT COUNT(*) AS n, COUNT({column}) AS c, MIN({other}) AS least {inner}"
    keys = choose.pick((column, column, f"{column}, {other}", f"{column} IS NULL"))
    if keys == f"{column} IS NULL":
        return (
            f"SELECT COUNT(DISTINCT {other}) AS n, MIN({column}) AS least {inner} GROUP BY {keys}"
            f"{having} ORDER BY COUNT(*){_direction(choose)}{_limit(choose)}"
        )
    return (
        f"SELECT {column} AS g, COUNT(*) AS n, MAX({other}) AS most {inner} GROUP BY {keys}"
        f"{having} ORDER BY n{_direction(choose)}, g{_limit(choose)}"
    )


def _direction(choose: Chooser) -> str:
    return choose.pick(("", " ASC", " DESC")) + choose.pick(("", " NULLS FIRST", " NULLS LAST"))


def _limit(choose: Chooser) -> str:
    limits = ("", "", f" LIMIT {choose.between(1, 4)}", " LIMIT 3 OFFSET 1", " OFFSET 1")
    return choose.pick(limits)


# ---------------------------------------------------------------------------------------------
# Queries that skip blocks


def _planned_query(choose: Chooser, timestamps: bool) -> str:
    """Return a query with rare symbols and a window: what indexes and the tree are for."""
    clauses = _Clauses()
    clauses.partition = choose.pick(("", "", "", "PARTITION BY k"))
    clauses.pattern = gapped_pattern(choose, ("A", "B", "C"), parts_max=3)
    used = [symbol for symbol in symbols_in(clauses.pattern) if symbol != "Z"]
    names = Names(tuple(used), None, timestamps)
    within = choose.pick((None, 3, 4, 5, 6))
    clauses.within = "" if within is None else f"WITHIN {names.lasting(within)}"
    if choose.chance(0.2) and within is not None:
        semantics = choose.pick(("CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL ANY"))
        clauses.semantics = f"SEMANTICS {semantics}"
        clauses.pattern = " ".join(used)
    else:
        clauses.skip = choose.pick(("", "", "AFTER MATCH SKIP TO NEXT ROW"))
        if choose.chance(0.1):
            clauses.skip = f"AFTER MATCH SKIP TO LAST {used[-1]}"
    clauses.rows = choose.pick(
        ("", "", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH OMIT EMPTY MATCHES")
    )
    clauses.measures = tuple(measures(choose, names, all_rows=clauses.rows != ""))
    defines = []
    rare_one = choose.pick(used)
    for symbol in used:
        rare = choose.pick(("a = 5", "a > 4", "s = 'z'", "x > 2.5", "s = 'ab'", "a = 0", "x < 0"))
        is_rare = symbol == rare_one or choose.chance(0.2)
        text = rare if is_rare else easy(choose, symbol)
        if choose.chance(0.15):
            text = f"({text}) AND ({condition(choose, symbol, names, 0)})"
        defines.append(f"{symbol} AS {text}")
    clauses.defines = tuple(defines)
    limit = f" LIMIT {choose.between(1, 4)}" if choose.chance(0.1) else ""
    if choose.chance(0.3):
        clauses.pattern = anchored(choose, clauses.pattern)
    return f"SELECT * FROM s MATCH_RECOGNIZE ({clauses}){limit}"
