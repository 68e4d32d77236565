"""Random temporal patterns, the same for the oracle, and the histories they are asked over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import replay
from replay.language.bound import SituationRelation
from replay.online import OnlineFlow, OnlineQuery
from replay.situations import derive, matching, returns
from tests.oracles.situations import RELATIONS, Name, Question, Truth, naive_matches

LABELS = "ABCD"
SCHEMA = pa.schema(
    {"t": pa.int64(), "k": pa.string(), "x": pa.float64(), "f": pa.bool_(), "v": pa.int64()}
)
Rows = list[dict[str, Any]]

STORED = (
    (("v", "x"), None),
    (("v", "x", "k"), None),
    (("v", "x"), "k"),
    (("v", "x", "k"), "v"),
)
"""What is indexed, and which column is the key: by them the row before is found."""

# ---------------------------------------------------------------------------------------------
# Histories


def some_rows(random: Random) -> Rows:
    """Return a history with ties, holes, NULL and NaN."""
    t, rows = 0, []
    stays = random.choice((0.3, 0.8))
    keys = random.choice((("a",), ("a", "b"), ("a", "b", None)))
    x, f = 1.0, True
    for _ in range(random.randint(0, 40)):
        t += random.choice((0, 1, 1, 2, 5))
        x = x if random.random() < stays else random.choice((0.0, 1.0, 2.0, None, float("nan")))
        f = f if random.random() < stays else random.choice((True, False, None))
        key = random.choice(keys)
        rows.append({"t": t, "k": key, "x": x, "f": f, "v": random.randint(0, 9)})
    return rows


def some_bursts(random: Random, least: int = 30, most: int = 150) -> Rows:
    """Return a longer history in which little happens, but now and then."""
    t, rows, left, f = 0, [], 0, True
    for _ in range(random.randint(least, most)):
        t += random.choice((0, 1, 1, 2, 9))
        left = left - 1 if left > 0 else random.choice((*[0] * 12, 3, 6))
        x = float(random.choice((1, 2, 3))) if left else random.choice((0.0, 0.0, None))
        f = f if random.random() < 0.9 else not f
        row = {"t": t, "k": random.choice(("a", "b", None)), "x": x, "f": f}
        rows.append(row | {"v": random.choice((5, 6, 9)) if left else random.randint(0, 3)})
    return rows


# ---------------------------------------------------------------------------------------------
# Conditions and aggregates, and what they mean


def _greater(left: float | None, right: float | None) -> bool | None:
    is_unknown = left is None or right is None or left != left or right != right
    return None if is_unknown else left > right


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _differs(left: str | None, right: str | None) -> bool | None:
    return None if left is None or right is None else left != right


def _before(rows: Rows, i: int, n: int) -> float | None:
    return rows[i - n]["x"] if i >= n else None


CONDITIONS: dict[str, Truth] = {
    "f": lambda rows, i: rows[i]["f"],
    "NOT f": lambda rows, i: _not(rows[i]["f"]),
    "x > 0": lambda rows, i: _greater(rows[i]["x"], 0),
    "NOT x > 1": lambda rows, i: _not(_greater(rows[i]["x"], 1)),
    "x IS NULL": lambda rows, i: rows[i]["x"] is None,
    "v > 4": lambda rows, i: rows[i]["v"] > 4,
    "x > PREV(x)": lambda rows, i: _greater(rows[i]["x"], _before(rows, i, 1)),
    "x > PREV(x) AND x > 0": lambda rows, i: (
        _greater(rows[i]["x"], _before(rows, i, 1)) and _greater(rows[i]["x"], 0)
    ),
    "PREV(x, 2) > 0": lambda rows, i: _greater(_before(rows, i, 2), 0),
    "k <> 'a'": lambda rows, i: _differs(rows[i]["k"], "a"),
    "k <> PREV(k)": lambda rows, i: _differs(rows[i]["k"], rows[i - 1]["k"] if i else None),
}

RETURNED: dict[str, Callable[[Rows], Any]] = {
    "COUNT({}.*)": len,
    "SUM({}.v)": lambda rows: sum(row["v"] for row in rows),
    "MAX({0}.v) - MIN({0}.v)": lambda rows: max(r["v"] for r in rows) - min(r["v"] for r in rows),
    "FIRST({}.x)": lambda rows: rows[0]["x"],
    "LAST({}.v)": lambda rows: rows[-1]["v"],
    "AVG({}.v)": lambda rows: sum(row["v"] for row in rows) / len(rows),
    "MEDIAN({}.v)": lambda rows: float(median(row["v"] for row in rows)),
    "COUNT(DISTINCT {}.v)": lambda rows: len({row["v"] for row in rows}),
    "LAST({}.k)": lambda rows: rows[-1]["k"],
    "COUNT(DISTINCT {}.k)": lambda rows: len({row["k"] for row in rows} - {None}),
}

FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "f": lambda row: row["f"] is True,
    "v > 1": lambda row: row["v"] > 1,
    "x IS NOT NULL": lambda row: row["x"] is not None,
    "k = 'a'": lambda row: row["k"] == "a",
    "t > 60 AND v <> 3": lambda row: row["t"] > 60 and row["v"] != 3,
}
"""Conditions on the events of a source, and whether one passes."""

# ---------------------------------------------------------------------------------------------
# Questions

SIZES = {2: (1, 2, 3, 5, 9, 13), 3: (2, 5, 9, 13), 4: (9, 11, 13)}
"""How many relations a pair may have, by how many situations there are: so that some match."""


@dataclass(frozen=True)
class SituationQuestion:
    """A temporal pattern as text and as the oracle is asked."""

    clauses: str
    """From VALID FOR to WITHIN."""
    question: Question
    by_key: bool
    returned: tuple[tuple[str, int], ...]
    """Aggregates, and the situation of each."""

    def emitting(self, *, is_final: bool) -> SituationQuestion:
        """Return the same with EMIT FINAL, or with EMIT EARLY."""
        return replace(self, question=replace(self.question, is_final=is_final))

    def sql(self, source: str = "s", *, order: str = "ORDER BY t ") -> str:
        """Return the query."""
        key = "PARTITION BY k " if self.by_key else ""
        emit = " EMIT FINAL" if self.question.is_final else ""
        texts = [
            f"{text.format(LABELS[place])} AS r{number}"
            for number, (text, place) in enumerate(self.returned)
        ]
        returned = f" RETURN {', '.join(texts)}" if texts else ""
        return f"FROM {source} {key}{order}{self.clauses}{emit}{returned}"

    def expected(self, rows: Rows) -> list[tuple[Any, ...]]:
        """Return the rows of the answer."""
        answer = []
        key = (lambda row: row["k"]) if self.by_key else (lambda row: None)
        for detection, periods in naive_matches(self.question, rows, key):
            seen = [[rows[i] for i in one.rows if rows[i]["t"] <= detection] for one in periods]
            times = [time for period in periods for time in (period.start, period.end)]
            keys = [rows[periods[0].first]["k"]] if self.by_key else []
            values = [RETURNED[text](seen[number]) for text, number in self.returned]
            answer.append((*keys, *values, *times, detection))
        return answer


def some_question(random: Random, *, bounded: bool = False) -> SituationQuestion:
    """Return a pattern of one to four situations.

    Of ``bounded`` ones A can be looked up and is short, and the others may last long.
    """
    n = random.choice((1, 2, 2, 2, 3, 3, 4))
    names, defines = zip(*(_some_situation(random, label, bounded) for label in LABELS[:n]),
                         strict=True)  # fmt: skip
    pairs = []
    for left, right in _some_pairs(random, n):
        size = random.choice(SIZES[n])
        pairs.append((left, right, frozenset(random.sample(list(RELATIONS), size))))
    within = random.choice((3, 8, 20, 20)) if n > 1 or random.random() < 0.5 else None
    if bounded and within is not None:
        within = random.choice((2, 4, 9))
    valid_for = random.choice((None, None, 1, 2, 4))
    clauses = "" if valid_for is None else f"VALID FOR {valid_for} "
    clauses += "DEFINE " + ", ".join(defines)
    if pairs:
        clauses += " PATTERN " + " AND ".join(_term(random, *pair) for pair in pairs)
    clauses += "" if within is None else f" WITHIN {within}"
    texts = [random.choice(list(RETURNED)) for _ in range(random.choice((0, 2)))]
    return SituationQuestion(
        clauses,
        Question(names, tuple(pairs), within, random.random() < 0.3, valid_for),
        random.random() < 0.6,
        tuple((text, random.randrange(n)) for text in texts),
    )


def _some_situation(random: Random, label: str, bounded: bool) -> tuple[Name, str]:
    text = random.choice(list(CONDITIONS))
    if bounded:
        text = random.choice(
            ("x > 0", "v > 4", "x > PREV(x) AND x > 0")
            if label == "A"
            else ("f", "NOT f", "NOT x > 1", "x > 0", "PREV(x, 2) > 0")
        )
    truth = CONDITIONS[text]
    at_least = random.choice((None, None, None, random.randint(1, 4)))
    at_most = random.choice((None, None, None, (at_least or 0) + random.randint(1, 8)))
    words = "" if at_least is None else f" AT LEAST {at_least}"
    words += "" if at_most is None else f" AT MOST {at_most}"
    if at_least and at_most and "f" not in text and random.random() < 0.5:
        words = f" BETWEEN {at_least} AND {at_most}"
    if random.random() < 0.2:
        text = text.replace("x", f"{label}.x")
    return Name(truth, at_least, at_most), f"{label} AS {text}{words}"


def _some_pairs(random: Random, n: int) -> list[tuple[int, int]]:
    """Return pairs in which every name occurs, all or some of them."""
    pairs = list(combinations(range(n), 2))
    if n < 3 or random.random() < 0.5:
        return pairs
    some = random.sample(pairs, random.randint(2, len(pairs) - 1))
    return sorted(some) if {name for pair in some for name in pair} == set(range(n)) else pairs


def _term(random: Random, left: int, right: int, relations: frozenset[str]) -> str:
    words = [relation.replace(" ", random.choice(" _-")) for relation in sorted(relations)]
    if random.random() < 0.7:
        return f"{LABELS[left]} {';'.join(words)} {LABELS[right]}"
    return "; ".join(f"{LABELS[left]} {word} {LABELS[right]}" for word in words)


def some_wanted(
    random: Random, asked: SituationQuestion
) -> tuple[str, Callable[[tuple[Any, ...]], bool]]:
    """Return a condition on the rows of the answer, and which of them satisfy it."""
    n = len(asked.question.names)
    time, place = random.randint(0, 300), random.randrange(n)
    start = 2 * (place - n) - 1
    wanted: list[tuple[str, Callable[[tuple[Any, ...]], bool]]] = [
        (f"{LABELS[place]}_start > {time}", lambda row: row[start] > time),
        (f"{LABELS[place]}_start < {time}", lambda row: row[start] < time),
        (f"detection_time >= {time}", lambda row: row[-1] >= time),
        (f"detection_time < {time}", lambda row: row[-1] < time),
    ]
    if asked.by_key:
        wanted.append(("k = 'a'", lambda row: row[0] == "a"))
        wanted.append(
            (f"k = 'b' AND A_start > {time}", lambda r: r[0] == "b" and r[-2 * n - 1] > time)
        )
    return random.choice(wanted)


# ---------------------------------------------------------------------------------------------
# Ways to an answer


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of an answer as the oracle has them."""
    return [tuple(row.values()) for row in table.to_pylist()]


def pushed(random: Random, sql: str, table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the answer of events that come in pieces, with promises and a restart between.

    Threads share each piece, others in number behind a restart. Searches pause and go on.
    """
    few = random.choice((1, 2, 1 << 20))
    room = max(2, min(few, 256))
    with (
        patch.object(derive, "PART_MIN", 1),
        patch.multiple(matching, PART_MIN=1, PIECE_STEPS=few, PIECE_MATCHES=few, _ROOM_MIN=room),
        patch.object(returns, "PIECE_ROWS", few),
    ):
        return _pushed(random, sql, table)


def _pushed(random: Random, sql: str, table: pa.Table) -> list[tuple[Any, ...]]:
    def opened() -> OnlineQuery | OnlineFlow:
        return replay.online(sql, SCHEMA, time="t", threads=random.randint(1, 4))

    online, found, at = opened(), [], 0
    while at < table.num_rows:
        size = random.randint(1, 6)
        found.append(online.push(table.slice(at, size)))
        at += size
        if random.random() < 0.3 and at < table.num_rows:
            found.append(online.advance(table["t"][at].as_py()))
        if random.random() < 0.3:
            kept, online = online.snapshot(), opened()
            online.restore(kept)
    found.append(online.finish())
    return tuples(pa.concat_tables(found))


class AnyOrdering:
    """Has situations looked for in any order, and in another one whenever it is told anything."""

    def __init__(self, random: Random, query: SituationRelation) -> None:
        self._random, self._n = random, len(query.situations)
        self.see()

    def see(self, *_: Any) -> bool:
        """Take other orders."""
        rows = []
        for first in range(self._n):
            rest = [place for place in range(self._n) if place != first]
            rows.append([first, *self._random.sample(rest, len(rest))])
        self.names = np.array(rows)
        return True


class FixedOrdering:
    """Has the others looked for in one order behind each situation."""

    def __init__(self, order: tuple[int, ...], _: SituationRelation) -> None:
        rows = [[first, *(name for name in order if name != first)] for first in order]
        self.names = np.array(sorted(rows))

    def see(self, *_: Any) -> bool:
        """Keep it."""
        return False
