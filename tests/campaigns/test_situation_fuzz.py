"""Temporal patterns against the oracle that tries futures: random patterns and histories.

Every case is answered with EMIT EARLY and EMIT FINAL: over a table in memory in every order of
evaluation, and online in pieces of random sizes, from snapshot to snapshot. Half of the cases are
of the kind that plans are for; these are stored in tiny blocks and answered under each plan, too.
Seed, rows and text of a case are printed where an answer differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import replay
from replay.engines import scan
from replay.errors import PlanError
from replay.situations import matching, previous_rows, returns
from tests.helpers import fill_stream
from tests.memory_stream import some_store
from tests.situation_cases import (
    FILTERS,
    SCHEMA,
    STORED,
    AnyOrdering,
    FixedOrdering,
    Rows,
    SituationQuestion,
    pushed,
    some_bursts,
    some_question,
    some_rows,
    some_wanted,
    tuples,
)
from tests.strategies import SmallStream

PLANS = ("full", "tree", "all", "indexes=A", "indexes=B.x", "auto")

DRAWN_MAX = 4
"""Patterns that are drawn for a history until one has an answer; the last one is taken as it is."""


@dataclass
class Tally:
    """What the cases were like."""

    counts: Counter[str] = field(default_factory=Counter)

    def check(self, seed: int) -> None:
        """Compare every answer of a case with the oracle's."""
        random = Random(seed)
        planned = random.random() < 0.5
        rows = some_bursts(random, 20, 80) if planned else some_rows(random)
        source, stored = "s", rows
        if planned and random.random() < 0.4:
            condition, passes = random.choice(list(FILTERS.items()))
            source, rows = f"(SELECT * FROM s WHERE {condition})", list(filter(passes, rows))
        for _ in range(DRAWN_MAX):
            either = some_question(random, bounded=planned)
            asked = [either.emitting(is_final=is_final) for is_final in (False, True)]
            expected = [repr(one.expected(rows)) for one in asked]
            if expected != ["[]", "[]"]:
                break
        self.counts["cases"] += 1
        self.counts["with rows"] += expected != ["[]", "[]"]
        for one, wanted in zip(asked, expected, strict=True):
            for how, found in _in_memory(random, one, rows):
                self._hold(wanted, found, how, seed, one.sql(), rows)
        if planned:
            self.counts["planned"] += 1
            queries = []
            for one in asked:
                answer, sql = one.expected(rows), one.sql(source, order="")
                if random.random() < 0.4:
                    wanted, is_wanted = some_wanted(random, one)
                    sql = f"SELECT * FROM ({sql}) WHERE {wanted}"
                    answer = list(filter(is_wanted, answer))
                queries.append((sql, repr(answer)))
            self._check_plans(random, seed, queries, stored)

    def _check_plans(
        self, random: Random, seed: int, queries: list[tuple[str, str]], rows: Rows
    ) -> None:
        cuts = tuple(sorted(random.sample(range(len(rows)), 2)))
        block_events, file_events = random.choice((1, 1, 2, 5)), random.choice((8, 30))
        small = SmallStream(rows, block_events, file_events, 3, cuts, SCHEMA)
        index, key = random.choice(STORED)
        skips = False
        with some_store(seed) as store:
            fill_stream(store, "s", small, index=index, key=key)
            for sql, wanted in queries:
                for plan in PLANS:
                    try:
                        with patch.object(scan, "FEW_EVENTS", random.choice((1, 8, 1 << 12))):
                            result = replay.query(store, sql, plan=plan)
                    except PlanError:
                        assert plan not in ("full", "auto")
                        continue
                    skips |= result.actual.blocks_read < result.actual.blocks_total
                    how = f"{plan}, blocks of {block_events}, indexes {index}, key {key}"
                    self._hold(wanted, lambda t=result.table: tuples(t), how, seed, sql, rows)
        self.counts["skip blocks"] += skips

    def _hold(
        self,
        wanted: str,
        found: Callable[[], list[tuple[Any, ...]]],
        how: str,
        seed: int,
        sql: str,
        rows: Rows,
    ) -> None:
        self.counts["answers"] += 1
        given = repr(found())
        if given != wanted:
            pytest.fail(
                f"seed {seed}, {how}\nsql = {sql!r}\nnan = math.nan\nrows = {rows!r}\n"
                f"given    {given}\nexpected {wanted}"
            )


def _in_memory(
    random: Random, asked: SituationQuestion, rows: Rows
) -> Iterable[tuple[str, Callable[[], list[tuple[Any, ...]]]]]:
    """Yield how a table in memory is answered, and what does it."""
    table, sql = pa.Table.from_pylist(rows, SCHEMA), asked.sql()

    def whole(order: tuple[int, ...]) -> list[tuple[Any, ...]]:
        with patch.object(matching, "Ordering", partial(FixedOrdering, order)):
            return tuples(replay.query({"s": table}, sql).table)

    def in_pieces(held_min: int) -> list[tuple[Any, ...]]:
        with (
            patch.multiple(matching, MEASURED=1, Ordering=partial(AnyOrdering, random)),
            patch.object(returns, "HELD_MIN", held_min),
            patch.object(previous_rows, "KEPT_MIN", held_min),
        ):
            return pushed(random, sql, table)

    for order in permutations(range(len(asked.question.names))):
        yield f"in memory, order {order}", partial(whole, order)
    held_min = random.choice((1, 4, returns.HELD_MIN))
    yield f"online, {held_min} rows held", partial(in_pieces, held_min)


def run_seeds(seeds: range) -> None:
    """Check the cases of the seeds, and that they are worth checking."""
    tally = Tally()
    for seed in seeds:
        tally.check(seed)
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {dict(tally.counts)}")
    counts = tally.counts
    assert counts["with rows"] >= counts["cases"] / 2
    assert counts["skip blocks"] >= counts["planned"] / 3


def test_every_way_to_an_answer_is_as_the_oracle_has_it() -> None:
    run_seeds(range(125))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(30, 20_030, 500))
def test_every_way_to_an_answer_is_as_the_oracle_has_it_at_length(first: int) -> None:
    run_seeds(range(first, first + 500))
