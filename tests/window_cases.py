"""Windowed aggregations built by hand and at random, and the way through the operator."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from chronicle.tree.summary import AttributeSummary, Ints, Kind, kind_of
from replay.errors import QueryError
from replay.expressions.columns import Values, to_arrays
from replay.language.bound import (
    Aggregate,
    Attribute,
    Calendar,
    Call,
    CumulateWindows,
    DataType,
    Expression,
    Literal,
    Outer,
    RowWindows,
    SessionWindows,
    TimeWindows,
    WholeRange,
    WindowAggregation,
    Windows,
)
from replay.operators.packing import pack, unpack
from replay.windows.aggregator import WindowAggregator
from replay.windows.entries import summarise_rows
from tests.oracles.windows import TOO_LARGE, agrees

BOOL, INT, DOUBLE, STRING = DataType.BOOLEAN, DataType.INTEGER, DataType.DOUBLE, DataType.STRING
DATE, INTERVAL = DataType.DATE, DataType.INTERVAL

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("x", pa.float64()),
        ("i", pa.int64()),
        ("s", pa.string()),
        ("k", pa.int8()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
    ]
)
X, N, S = Attribute("x", DOUBLE), Attribute("i", INT), Attribute("s", STRING)
K, B, D = Attribute("k", INT), Attribute("b", BOOL), Attribute("d", DATE)
COLUMNS = {"x": X, "i": N, "s": S, "k": K, "b": B, "d": D}

DOUBLES = (
    -0.0, 0.0, 1.0, -2.5, 0.1, 3e-310, 1e16, -1e16, 1e300, 1.7e308, math.inf, -math.inf, math.nan,
)  # fmt: skip
INTEGERS = (0, 1, -1, 7, 2**40, -(2**63), 2**63 - 1)
STRINGS = ("", "a", "b", "ß", "Z")


def agg(
    function: str, argument: Expression | None = X, to: DataType | None = None, **more: Any
) -> Aggregate:
    kind = to
    if kind is None:
        assert argument is not None
        kind = argument.type
        if function == "count":
            kind = INT
        elif function in ("avg", "percentile") or function.startswith(("var", "stddev")):
            kind = DOUBLE
    return Aggregate(function, argument, None, kind, **more)


COUNT = agg("count", None, INT)


def aggregation(
    windows: Windows,
    *aggregates: Aggregate,
    keys: tuple[Expression, ...] = (),
    where: Expression | None = None,
) -> WindowAggregation:
    """Return what the binder would make of it."""
    return WindowAggregation(
        windows,
        "t",
        where,
        keys,
        tuple(f"key{n}" for n in range(len(keys))),
        aggregates,
        tuple(f"a{n}" for n in range(len(aggregates))),
        Outer(()),
    )


def run(
    what: WindowAggregation,
    table: pa.Table,
    *,
    cuts: tuple[int, ...] = (),
    span: tuple[int, int] | None = None,
    eager: bool = False,
    moves: bool = False,
    promises: bool = False,
) -> tuple[list[tuple[Any, ...]], str]:
    """Return the rows that come out, and the message of the error that ended them.

    With ``moves``, a new operator goes on from the packed state of the one before at every cut;
    with ``promises``, it is told there that no event is before the next one.
    """
    aggregator = WindowAggregator(what, table.schema, span=span, eager=eager)
    borders = [0, *cuts, table.num_rows]
    rows: list[tuple[Any, ...]] = []
    try:
        for begin, end in itertools.pairwise(borders):
            if moves:
                state = pack(aggregator.state())
                aggregator = WindowAggregator(what, table.schema, span=span, eager=eager)
                aggregator.take_over(unpack(state))
            if promises and begin < table.num_rows:
                for part in aggregator.advance(table.column("t")[begin].as_py()):
                    rows += to_rows(part)
            for part in aggregator.push(table.slice(begin, end - begin)):
                assert part.schema == aggregator.schema
                rows += to_rows(part)
        for part in aggregator.finish():
            rows += to_rows(part)
    except QueryError as error:
        return rows, str(error)
    return rows, ""


def summarise_panes(
    column: pa.ChunkedArray, lengths: Ints, *, squares: bool = True
) -> AttributeSummary:
    """Summarise a column over consecutive panes of any lengths, each at least 1."""
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    kind = kind_of(column.type)
    if kind in (Kind.STRING, Kind.OPAQUE):
        return summarise_rows(Values(column.combine_chunks(), None), kind, begins, squares=False)
    return summarise_rows(to_arrays(column), kind, begins, squares=squares)


def to_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows of plain numbers and texts: times in microseconds, dates in days."""
    return list(zip(*(plain(column) for column in table.columns), strict=True))


def plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    return column.to_pylist()


def events(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as the oracle takes them."""
    columns = {name: plain(table.column(name)) for name in table.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def assert_agree(got: tuple[list[tuple[Any, ...]], str], expected: list[tuple[Any, ...]]) -> None:
    """Compare with the oracle: rows up to the first that is an error, and that it is raised."""
    rows, error = got
    fault = next((n for n, row in enumerate(expected) if TOO_LARGE in row), None)
    if fault is None:
        assert not error
    else:
        assert "fit" in error
        expected = expected[:fault]
    assert len(rows) == len(expected), (rows, expected)
    for mine, theirs in zip(rows, expected, strict=True):
        assert all(map(agrees, mine, theirs)), (mine, theirs)


# ---------------------------------------------------------------------------------------------
# At random, by a generator of its own: Hypothesis varies an example little by little, and most
# windows over most streams are dull.

seeds = st.integers(0, 2**64 - 1).map(Random)

TWICE = Call("*", (X, Literal(2.0, DOUBLE)), DOUBLE)
WIDE = Call("cast", (N,), DOUBLE)
SPREADS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")

AGGREGATES = (
    COUNT,
    *(agg("count", column) for column in COLUMNS.values()),
    *(agg("count", column, distinct=True) for column in COLUMNS.values()),
    *(agg(f, column) for f in ("min", "max", "first", "last") for column in COLUMNS.values()),
    *(agg(f, column) for f in ("sum", "avg") for column in (X, N, K, TWICE)),
    *(agg(f, column) for f in SPREADS for column in (X, TWICE, WIDE)),
    *(agg(f, c, distinct=True) for f in ("sum", "avg") for c in (X, N, K)),
    *(agg(f, c, distinct=True) for f in SPREADS for c in (X, WIDE)),
    *(agg("percentile", c, fraction=p) for c in (X, N) for p in (0.0, 0.25, 0.5, 0.9, 1.0)),
)

CONDITIONS: tuple[Expression | None, ...] = (
    None,
    None,
    None,
    Call("<>", (S, Literal("a", STRING)), BOOL),
    Call(">", (X, Literal(0.0, DOUBLE)), BOOL),
    Call("=", (S, Literal("a", STRING)), BOOL),
    Call("not", (Call("is_null", (K,), BOOL),), BOOL),
    Literal(value=False, type=BOOL),
)
KEYS = (S, K, X, B, D, Call("%", (N, Literal(2, INT)), INT), Call("upper", (S,), STRING))


PARTITIONS = ((), (), ("s",), ("k",), ("k", "s"))


def optional(random: Random, values: tuple[Any, ...], n: int) -> list[Any]:
    """Return values, a quarter of them missing."""
    return [random.choice(values) if random.random() < 0.75 else None for _ in range(n)]


def some_table(random: Random, *, rows_max: int = 30) -> pa.Table:
    """Return a stream whose times tie, and leave gaps now and then."""
    n = random.choice((0, 1, 5, rows_max // 2, rows_max, rows_max))
    time = random.randint(-50, 50)
    times = []
    for _ in range(n):
        time += random.choice((0, 0, 1, 1, 2, 3, 5, 40))
        times.append(time)
    tame = random.random() < 0.6
    some_doubles = tuple(random.uniform(-10, 10) for _ in range(8))
    values: dict[str, tuple[Any, ...]] = {
        "x": (*DOUBLES[: 8 if tame else None], *some_doubles),
        "i": INTEGERS[: 5 if tame else None],
        "s": STRINGS,
        "k": (0, 1, 2),
        "b": (True, False),
        "d": (-3, 0, 3),
    }
    columns = {name: optional(random, choice, n) for name, choice in values.items()}
    arrays = {"t": times, **columns, "d": pa.array(columns["d"], pa.int32()).cast(pa.date32())}
    return pa.table({name: pa.array(v, SCHEMA.field(name).type) for name, v in arrays.items()})


def some_windows(random: Random) -> Windows:
    """Return windows small enough to have many borders."""
    origin = random.choice((None, random.randint(-1000, 1000)))
    match random.choice(("time", "time", "cumulate", "session", "rows", "rows", "whole")):
        case "time":
            size = random.randint(1, 20)
            return TimeWindows(size, random.randint(1, size), origin)
        case "cumulate":
            step = random.randint(1, 6)
            return CumulateWindows(step, step * random.randint(1, 5), origin)
        case "session":
            return SessionWindows(random.randint(1, 5), random.choice(PARTITIONS))
        case "rows":
            size = random.randint(1, 7)
            return RowWindows(size, random.randint(1, size), random.choice(PARTITIONS))
    return WholeRange()


DAY_US = 86_400_000_000
ZONES = ("America/Chicago", "America/Havana", "America/Sao_Paulo", "Australia/Lord_Howe")
"""Clocks are put at 2:00; back from 1:00 and forward from 0:00; both at 0:00; by half an hour."""
CHANGES = ("1969-12-20", "2010-10-14", "2011-02-17", "2011-03-10", "2011-11-03", "2011-12-27")
"""Some days before clocks of these zones are put, and before Samoa skipped one."""


def on_calendar(random: Random, table: pa.Table) -> tuple[pa.Table, int, int]:
    """Return the events some hours or days apart, near a change of clocks; where, and how far."""
    begin = int(np.datetime64(random.choice(CHANGES), "us").astype(np.int64))
    step = random.choice((7 * DAY_US // 24 + 1, DAY_US // 2, 9 * DAY_US + 12345))
    times = pc.add(pc.multiply(table.column("t"), step), begin)
    return table.set_column(0, "t", times), begin, step


def some_calendar_windows(random: Random, step: int) -> TimeWindows | CumulateWindows:
    """Return windows of days of a zone, or of months where events lie days apart.

    So there are few of them: plan tree-naive asks for each by itself.
    """
    of_months = step > DAY_US
    zone = random.choice((*ZONES, "Pacific/Apia"))
    phase = random.choice((0, 0, random.randrange(27 * DAY_US if of_months else DAY_US)))
    calendar = Calendar(of_months, random.choice((None, zone)) if of_months else zone, phase)
    size, origin = random.randint(1, 9), random.randint(-30, 500)
    if random.random() < 0.5:
        return TimeWindows(size, random.randint(1, size), origin, calendar)
    return CumulateWindows(size, size * random.randint(1, 4), origin, calendar)


def some_aggregation(random: Random, windows: Windows | None = None) -> WindowAggregation:
    """Return windows, keys, a condition and a few aggregates."""
    windows = some_windows(random) if windows is None else windows
    keys = random.sample(KEYS, random.choice((0, 0, 1, 1, 2)))
    if isinstance(windows, SessionWindows | RowWindows):
        keys += [COLUMNS[name] for name in windows.partition_by if COLUMNS[name] not in keys]
    aggregates = [COUNT, *random.sample(AGGREGATES[1:], random.randint(1, 4))]
    where = random.choice(CONDITIONS)
    return aggregation(windows, *aggregates, keys=tuple(keys), where=where)
