"""Joins bound by hand, and rows to join: what tests of joins need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from replay.language.bound import (
    JOIN_TIME,
    Attribute,
    Call,
    DataType,
    Expression,
    JoinKind,
    JoinRelation,
    JoinWindow,
    Literal,
    StreamRelation,
)
from tests.oracles.joins import Pair, Row, asof_join, windowed_join
from tests.property.law import comparable
from tests.strategies import seeded

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int32()), ("s", pa.string()), ("x", pa.float64())])
COLUMNS = (
    ("t", DataType.INTEGER),
    ("k", DataType.INTEGER),
    ("s", DataType.STRING),
    ("x", DataType.DOUBLE),
)
TYPES = dict(COLUMNS)


def column(name: str) -> Attribute:
    """A column of the join, as ``l.x`` or ``r.x``."""
    return Attribute(name, TYPES[name[2:]])


def call(op: str, *args: Expression) -> Call:
    return Call(op, args, DataType.BOOLEAN)


def join_of(
    kind: JoinKind,
    *,
    equal: Sequence[str] = (),
    condition: Expression | None = None,
    windows: tuple[JoinWindow | None, JoinWindow | None] = (None, None),
    strict: bool = False,
    forward: bool = False,
    null_safe: tuple[bool, ...] = (),
) -> JoinRelation:
    """Return the join of streams ``l`` and ``r``, both of `SCHEMA`."""
    is_asof = kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT)
    columns = [(f"{side}.{name}", of) for side in "lr" for name, of in COLUMNS]
    names = tuple(name for name, _ in COLUMNS)
    return JoinRelation(
        kind=kind,
        left=StreamRelation("l", COLUMNS, "t"),
        right=StreamRelation("r", COLUMNS, "t"),
        columns=(*columns, *([] if is_asof else [(JOIN_TIME, DataType.INTEGER)])),
        left_names=names,
        right_names=names,
        equal=tuple((name, name) for name in equal),
        condition=condition,
        left_window=windows[0],
        right_window=windows[1],
        time="l.t" if is_asof else JOIN_TIME,
        left_time="t",
        right_time="t",
        asof_strict=strict,
        asof_forward=forward,
        null_safe=null_safe,
    )


def to_table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def row(t: int, k: int | None = 0, s: str | None = "a", x: float | None = 0.0) -> Row:
    return {"t": t, "k": k, "s": s, "x": x}


def equals(one: Any, other: Any) -> bool:
    """SQL's equality, which is never true of NULL, and here never of NaN."""
    return one is not None and other is not None and one == other


def is_like(one: Any, other: Any) -> bool:
    """IS NOT DISTINCT FROM: NULL is like NULL, and NaN like NaN."""
    are_nan = isinstance(one, float) and isinstance(other, float) and one != one and other != other
    return (one is None and other is None) or are_nan or equals(one, other)


@dataclass(frozen=True)
class JoinCase:
    """A join and the rows of both sides."""

    join: JoinRelation
    left: list[Row]
    right: list[Row]
    holds: Callable[[Row, Row], bool]
    """ON beyond the equal columns."""

    def pairs(self) -> list[Pair]:
        """What the oracle says."""
        join = self.join

        def agree(i: int, j: int) -> bool:
            one, other = self.left[i], self.right[j]
            alike = join.null_safe or (False,) * len(join.equal)
            keys = all(
                (is_like if like else equals)(one[a], other[b])
                for (a, b), like in zip(join.equal, alike, strict=True)
            )
            return keys and self.holds(one, other)

        times = [row["t"] for row in self.left], [row["t"] for row in self.right]
        if join.kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT):
            return asof_join(
                *times,
                agree,
                strict=join.asof_strict,
                forward=join.asof_forward,
                within=None if join.right_window is None else join.right_window.size,
                outer=join.kind is JoinKind.ASOF_LEFT,
            )
        assert join.left_window is not None
        assert join.right_window is not None
        outer = join.kind is JoinKind.LEFT
        return windowed_join(*times, join.left_window, join.right_window, agree, outer=outer)

    def rows(self) -> list[tuple[Any, ...]]:
        """The answer, as `comparable` has it."""
        return comparable(self.raw_rows())

    def raw_rows(self) -> list[list[Any]]:
        """The answer."""
        answer = []
        for i, j in self.pairs():
            one = self.left[i]
            other = dict.fromkeys(one) if j is None else self.right[j]
            values = [*one.values(), *other.values()]
            if self.join.time == JOIN_TIME:
                values.append(one["t"] if j is None else max(one["t"], other["t"]))
            answer.append(values)
        return answer


def values_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return comparable(table.to_pylist())


def ordered_rows(choose: Random, rows_max: int = 14, rows_min: int = 0) -> list[Row]:
    """Return bursts and pauses, few keys, NULL and NaN among them."""
    t, rows = choose.randint(-3, 3), []
    for _ in range(choose.randint(rows_min, rows_max)):
        t += choose.choice((0, 0, 0, 1, 1, 2, 3, 9))
        k, s, x = choose.randint(0, 2), choose.choice(("", "a", "ab")), choose.choice(DOUBLES)
        rows.append(row(t, *(None if choose.random() < 0.25 else value for value in (k, s, x))))
    return rows


DOUBLES = (-0.0, 0.0, 1.5, -2.0, math.inf, math.nan)
rows_in_order = seeded(ordered_rows)


def join_window(choose: Random) -> JoinWindow:
    size = choose.randint(1, 8)
    return JoinWindow(size, choose.choice((1, choose.randint(1, size))), choose.random() < 0.5)


def _below(one: Row, other: Row) -> bool:
    x, y = one["x"], other["x"]
    return x is not None and y is not None and x <= y


CONDITIONS: tuple[tuple[Expression | None, Callable[[Row, Row], bool]], ...] = (
    (None, lambda one, other: True),
    (call("<=", column("l.x"), column("r.x")), _below),
)

ONE_SIDED: tuple[tuple[Expression | None, Callable[[Row, Row], bool]], ...] = (
    (
        call("<", column("r.k"), Literal(2, DataType.INTEGER)),
        lambda one, other: other["k"] is not None and other["k"] < 2,
    ),
    (
        call("<", column("l.k"), Literal(1, DataType.INTEGER)),
        lambda one, other: one["k"] is not None and one["k"] < 1,
    ),
)
"""Conditions on one side, which ON of an ASOF join may have."""

CONSTANT = tuple(
    (Literal(value, DataType.BOOLEAN), lambda one, other: False) for value in (False, None)
)
"""Conditions that no pair fulfils, whatever it is."""


@seeded
def join_cases(choose: Random, rows_max: int = 14) -> JoinCase:
    """Joins of every kind, over rows with every kind of value."""
    kind = choose.choice(list(JoinKind))
    equal = choose.choice(((), (), ("k",), ("k",), ("s",), ("x",), ("s", "k"), ("k", "x", "s")))
    is_asof = kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT)
    usual = (*CONDITIONS[:1], *ONE_SIDED) if is_asof else CONDITIONS
    condition, holds = choose.choice((*usual * 4, *CONSTANT))
    windows: tuple[JoinWindow | None, JoinWindow | None]
    if is_asof:
        windows = None, None if choose.random() < 0.25 else JoinWindow(choose.randint(1, 8))
    else:
        windows = join_window(choose), join_window(choose)
    strict = choose.random() < 0.5
    join = join_of(
        kind,
        equal=equal,
        condition=condition,
        windows=windows,
        strict=strict,
        forward=is_asof and choose.random() < 0.5,
        null_safe=tuple(choose.random() < 0.3 for _ in equal),
    )
    return JoinCase(join, ordered_rows(choose, rows_max), ordered_rows(choose, rows_max), holds)
