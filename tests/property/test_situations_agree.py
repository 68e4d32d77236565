"""Temporal patterns over random histories: what an oracle says that tries all futures."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from random import Random
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings

import replay
from replay.engines import scan
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
from tests.oracles.situations import Question
from tests.property.law import SLOW, assert_plans_agree
from tests.situation_cases import (
    FILTERS,
    SCHEMA,
    STORED,
    AnyOrdering,
    pushed,
    some_bursts,
    some_question,
    some_rows,
    some_wanted,
    tuples,
)
from tests.strategies import SmallStream
from tests.window_cases import seeds


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


@settings(max_examples=min(SLOW.max_examples, 700))
@given(seeds)
def test_matches_are_those_that_no_future_undoes(random: Random) -> None:
    for _ in range(3):
        rows = some_rows(random)
        asked = some_question(random)
        sql = asked.sql()
        table = pa.Table.from_pylist(rows, SCHEMA)
        answer = asked.expected(rows)
        assert_lies_as_the_network_says(asked.question, answer)
        wanted = repr(answer)
        assert repr(tuples(replay.query({"s": table}, sql).table)) == wanted, sql
        held_min = random.choice((1, 4, returns.HELD_MIN))
        with (
            patch.multiple(matching, MEASURED=1, Ordering=partial(AnyOrdering, random)),
            patch.object(returns, "HELD_MIN", held_min),
            patch.object(previous_rows, "KEPT_MIN", held_min),
        ):
            assert repr(pushed(random, sql, table)) == wanted, sql


@settings(max_examples=min(SLOW.max_examples // 4, 700))
@given(seeds)
def test_every_plan_gives_the_answer_of_a_full_replay(random: Random) -> None:
    """Blocks of few rows: borders of what is read fall inside, before and behind situations."""
    rows = some_bursts(random)
    cuts = tuple(sorted(random.sample(range(len(rows)), 2)))
    small = SmallStream(rows, random.choice((1, 1, 2, 5)), random.choice((8, 30)), 3, cuts, SCHEMA)
    # By which the row before is found; and candidates are, where the stream has a key.
    index, key = random.choice(STORED)
    with some_store(small, set(index)) as store:
        fill_stream(store, "s", small, index=index, key=key)
        for _ in range(3):
            asked = some_question(random, bounded=True)
            last = "ABCD"[len(asked.question.names) - 1]
            # Of whole blocks the tree has the first three, and MEDIAN not; LAST is of one row.
            more = random.choice(("", "MAX(A.x)", "LAST(A.v)", "MEDIAN(A.v)", "LAST(A.k)"))
            more = more and f", {more} AS v"
            asked = replace(asked, returned=())
            source = random.choice(("s", f"(SELECT * FROM s WHERE {random.choice(list(FILTERS))})"))
            sql = asked.sql(source, order="")
            # Over a filter blocks are left out as constant only without RETURN.
            if random.random() < 0.7:
                sql += f" RETURN SUM({last}.v) AS total, COUNT(A.*) AS n{more}"
            if random.random() < 0.3:
                sql = f"SELECT * FROM ({sql}) WHERE {some_wanted(random, asked)[0]}"
            with patch.object(scan, "FEW_EVENTS", random.choice((1, 8, 1 << 12))):
                assert_plans_agree(store, sql, ("auto", "tree", "all", "indexes=A", "indexes=B.x"))
