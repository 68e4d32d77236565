"""Temporal patterns over random histories: what an oracle says that tries all futures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from random import Random
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given, settings

import replay
from replay.language.allen import BITS
from replay.language.bound import (
    Attribute,
    DataType,
    Literal,
    Situation,
    SituationRelation,
    StreamRelation,
)
from replay.situations import matching, previous_rows, returns
from replay.situations.network import distances
from tests.helpers import fill_stream
from tests.memory_stream import some_store
from tests.oracles.situations import RELATIONS, Name, Question, Truth, naive_matches
from tests.property.law import assert_plans_agree
from tests.strategies import SmallStream
from tests.window_cases import seeds

SCHEMA = pa.schema(
    {"t": pa.int64(), "k": pa.string(), "x": pa.float64(), "f": pa.bool_(), "v": pa.int64()}
)


def some_rows(random: Random) -> list[dict[str, Any]]:
    """Return a history with ties, holes, NULL and NaN."""
    t, rows = 0, []
    stays = random.choice((0.3, 0.8))
    x, f = 1.0, True
    for _ in range(random.randint(0, 24)):
        t += random.choice((0, 1, 1, 2, 5))
        x = x if random.random() < stays else random.choice((0.0, 1.0, 2.0, None, float("nan")))
        f = f if random.random() < stays else random.choice((True, False, None))
        key = random.choice(("a", "b", None))
        rows.append({"t": t, "k": key, "x": x, "f": f, "v": random.randint(0, 9)})
    return rows


def _greater(left: float | None, right: float | None) -> bool | None:
    is_unknown = left is None or right is None or left != left or right != right
    return None if is_unknown else left > right


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _differs(left: str | None, right: str | None) -> bool | None:
    return None if left is None or right is None else left != right


def _before(rows, i: int, n: int) -> float | None:
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


def some_bursts(random: Random) -> list[dict[str, Any]]:
    """Return a longer history in which little happens, but now and then."""
    t, rows, left, f = 0, [], 0, True
    for _ in range(random.randint(30, 150)):
        t += random.choice((0, 1, 1, 2, 9))
        left = left - 1 if left > 0 else random.choice((*[0] * 12, 3, 6))
        x = float(random.choice((1, 2, 3))) if left else random.choice((0.0, 0.0, None))
        f = f if random.random() < 0.9 else not f
        row = {"t": t, "k": random.choice(("a", "b", None)), "x": x, "f": f}
        rows.append(row | {"v": random.choice((5, 6, 9)) if left else random.randint(0, 3)})
    return rows


def some_question(random: Random, *, bounded: bool = False) -> tuple[str, Question]:
    """Return clauses of one to three situations, and the same for the oracle.

    Of ``bounded`` ones A can be looked up and is short, and the others may last long.
    """
    n = random.choice((1, 2, 2, 3))
    labels = "ABC"[:n]
    defines, names = [], []
    for label in labels:
        text = random.choice(list(CONDITIONS))
        if bounded:
            text = random.choice(
                ("x > 0", "v > 4", "x > PREV(x) AND x > 0")
                if label == "A"
                else ("f", "NOT f", "NOT x > 1", "x > 0", "PREV(x, 2) > 0")
            )
        truth = CONDITIONS[text]
        at_least = random.choice((None, None, random.randint(1, 6)))
        at_most = random.choice((None, None, None, (at_least or 0) + random.randint(1, 8)))
        words = "" if at_least is None else f" AT LEAST {at_least}"
        words += "" if at_most is None else f" AT MOST {at_most}"
        if at_least and at_most and "f" not in text and random.random() < 0.5:
            words = f" BETWEEN {at_least} AND {at_most}"
        if random.random() < 0.2:
            text = text.replace("x", f"{label}.x")
        defines.append(f"{label} AS {text}{words}")
        names.append(Name(truth, at_least, at_most))
    pairs = []
    for left, right in {1: [], 2: [(0, 1)], 3: [(0, 1), (1, 2), (0, 2)]}[n]:
        size = random.choice((5, 9) if bounded else (1, 2, 3, 5, 13))
        pairs.append((left, right, frozenset(random.sample(list(RELATIONS), size))))
    if n == 3 and random.random() < 0.5:
        pairs.pop(random.randrange(3))
    within = random.choice((3, 8, 20)) if n > 1 or random.random() < 0.5 else None
    if bounded and within is not None:
        within = random.choice((2, 4, 9))
    valid_for = random.choice((None, None, 1, 2, 4))
    is_final = random.random() < 0.3
    clauses = "" if valid_for is None else f"VALID FOR {valid_for} "
    clauses += "DEFINE " + ", ".join(defines)
    if pairs:
        clauses += " PATTERN " + " AND ".join(_term(random, labels, *pair) for pair in pairs)
    clauses += "" if within is None else f" WITHIN {within}"
    clauses += random.choice(("", " EMIT EARLY")) if not is_final else " EMIT FINAL"
    return clauses, Question(tuple(names), tuple(pairs), within, is_final, valid_for)


def _term(random: Random, labels: str, left: int, right: int, relations: frozenset[str]) -> str:
    words = [relation.replace(" ", random.choice(" _-")) for relation in sorted(relations)]
    if random.random() < 0.7:
        return f"{labels[left]} {';'.join(words)} {labels[right]}"
    return "; ".join(f"{labels[left]} {word} {labels[right]}" for word in words)


RETURNED: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
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


def expected(
    question: Question, rows: list[dict[str, Any]], by_key: bool, returned: list[tuple[str, int]]
) -> list[tuple]:
    """Return the rows of the answer."""
    answer = []
    for detection, periods in naive_matches(question, rows, lambda row: by_key and row["k"]):
        seen = [[rows[i] for i in period.rows if rows[i]["t"] <= detection] for period in periods]
        times = [time for period in periods for time in (period.start, period.end)]
        keys = [rows[periods[0].first]["k"]] if by_key else []
        values = [RETURNED[text](seen[number]) for text, number in returned]
        answer.append((*keys, *values, *times, detection))
    return answer


def assert_lies_as_the_network_says(question: Question, answer: list[tuple]) -> None:
    names = [
        Situation(str(i), Literal(True, DataType.BOOLEAN), name.at_least, name.at_most)
        for i, name in enumerate(question.names)
    ]
    pairs = [(a, b, sum(map(BITS.__getitem__, words))) for a, b, words in question.pairs]
    relation = SituationRelation(
        StreamRelation("s", (), "t"),
        Attribute("t", DataType.INTEGER),
        (),
        None,
        tuple(names),
        tuple(pairs),
        question.within,
        question.is_final,
        (),
        (),
    )
    bounds = distances(relation)
    assert bounds is not None or not answer
    for row in answer:
        *times, detection = row[-2 * len(names) - 1 :]
        for (i, start), (j, other) in product(enumerate(times[::2]), repeat=2):
            assert bounds is not None
            assert bounds.low[i][j] <= other - start <= bounds.high[i][j]
            assert detection - start <= bounds.reach[i]


def pushed(random: Random, sql: str, table: pa.Table) -> list[tuple]:
    """Return the answer of events that come in pieces, with promises and a restart between."""
    online, found, at = replay.online(sql, SCHEMA, time="t"), [], 0
    while at < table.num_rows:
        size = random.randint(1, 6)
        found.append(online.push(table.slice(at, size)))
        at += size
        if random.random() < 0.3 and at < table.num_rows:
            found.append(online.advance(table["t"][at].as_py()))
        if random.random() < 0.3:
            kept, online = online.snapshot(), replay.online(sql, SCHEMA, time="t")
            online.restore(kept)
    found.append(online.finish())
    return tuples(pa.concat_tables(found))


class AnyOrdering:
    """Has situations looked for in any order, and in another one whenever it is told anything."""

    def __init__(self, random: Random, query: SituationRelation) -> None:
        self._random, self._n = random, len(query.situations)
        self.see()

    def see(self, *_: Any) -> bool:
        rows = []
        for first in range(self._n):
            rest = [place for place in range(self._n) if place != first]
            rows.append([first, *self._random.sample(rest, len(rest))])
        self.names = np.array(rows)
        return True


def tuples(table: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_pylist()]


@settings(max_examples=min(settings.default.max_examples, 700))
@given(seeds)
def test_matches_are_those_that_no_future_undoes(random: Random) -> None:
    for _ in range(3):
        rows = some_rows(random)
        clauses, question = some_question(random)
        by_key = random.random() < 0.6
        n = len(question.names)
        texts = [random.choice(list(RETURNED)) for _ in range(random.choice((0, 2)))]
        returned = [(text, random.randrange(n)) for text in texts]
        key = "PARTITION BY k " if by_key else ""
        sql = f"FROM s {key}ORDER BY t {clauses}"
        if returned:
            texts = [f"{text.format('ABC'[i])} AS r{j}" for j, (text, i) in enumerate(returned)]
            sql += f" RETURN {', '.join(texts)}"
        table = pa.Table.from_pylist(rows, SCHEMA)
        answer = expected(question, rows, by_key, returned)
        assert_lies_as_the_network_says(question, answer)
        wanted = repr(answer)
        assert repr(tuples(replay.query({"s": table}, sql).table)) == wanted, sql
        held_min = random.choice((1, 4, returns.HELD_MIN))
        with (
            patch.multiple(matching, MEASURED=1, Ordering=partial(AnyOrdering, random)),
            patch.object(returns, "HELD_MIN", held_min),
            patch.object(previous_rows, "KEPT_MIN", held_min),
        ):
            assert repr(pushed(random, sql, table)) == wanted, sql


@settings(max_examples=min(settings.default.max_examples // 4, 700))
@given(seeds)
def test_every_plan_gives_the_answer_of_a_full_replay(random: Random) -> None:
    """Blocks of few rows: borders of what is read fall inside, before and behind situations."""
    rows = some_bursts(random)
    cuts = tuple(sorted(random.sample(range(len(rows)), 2)))
    small = SmallStream(rows, random.choice((1, 1, 2, 5)), random.choice((8, 30)), 3, cuts, SCHEMA)
    # By which the row before is found; and candidates are, where the stream has a key.
    index, key = random.choice(((("v", "x"), None), (("v", "x", "k"), None), (("v", "x"), "k")))
    with some_store(small, set(index)) as store:
        fill_stream(store, "s", small, index=index, key=key)
        for _ in range(3):
            clauses, _ = some_question(random, bounded=True)
            n = clauses.count(" AS ")
            partition = "PARTITION BY k " if random.random() < 0.6 else ""
            # Of whole blocks the tree has the first three, and MEDIAN not; LAST is of one row.
            returned = f" RETURN SUM({'ABC'[n - 1]}.v) AS total, COUNT(A.*) AS n"
            more = ("", "MAX(A.x)", "LAST(A.v)", "MEDIAN(A.v)", "LAST(A.k)")
            text = random.choice(more)
            returned += text and f", {text} AS v"
            sql = f"FROM s {partition}{clauses}{returned}"
            assert_plans_agree(store, sql, ("auto", "tree", "all", "indexes=A", "indexes=B.x"))
