"""Aggregates over every match against the oracle: random patterns, windows, aggregates and streams.

Every query is answered over a table in memory, online in random pieces with snapshots between, from
a store of tiny blocks under each plan, and at once with the other queries over the same stream, of
a table and of a store: bit for bit as the oracle that makes all matches. Now and then limits are
so low that few rows have trees, batches and panes of their own. Seed, rows and text of a case are
printed where an answer differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import replay
from replay.errors import NotSupportedError, PlanError, QueryError
from replay.language import bind, parse_query
from replay.language.bound import BoundPatternQuery
from replay.operators.packing import pack, unpack
from replay.patterns import together
from replay.patterns.program import summed_as_pushed, summed_in_windows
from replay.patterns.summing.lanes import lanes_of
from replay.running.steps import Chain, operators_of
from tests.helpers import fill_stream
from tests.memory_stream import some_store
from tests.oracles.matcher import match_rows
from tests.oracles.view import OutOfStepsError
from tests.pattern_cases import PatternCase, cases_of_sums
from tests.property.law import ROWS_MAX, Rows, answer, comparable

STEPS_MAX = 20_000
"""Conditions the oracle may try; a query that needs more is left out and counted."""

PLANS = ("full", "tree", "all", "relevant", "index-only", "auto")

DRAWN_MAX = 3
"""Cases that are drawn until a query of one has matches; the last one is taken as it is."""

KNOBS = {
    "engines.source.TABLE_BLOCK_EVENTS": (1, 3),
    "patterns.local.UNIT_EVENTS": (1, 3),
    "patterns.summing.event_grain.ROWS_MIN": (1, 4),
    "patterns.summing.within.ROWS_AT_ONCE": (1, 4),
    "patterns.summing.lanes.PANES_MAX": (0, 1 << 40),
}
"""Limits that streams of some rows would never reach."""


@contextmanager
def turned(random: Random) -> Iterator[None]:
    """Turn each of the knobs in half of the cases."""
    with ExitStack() as stack:
        for name, values in KNOBS.items():
            if random.random() < 0.5:
                stack.enter_context(mock.patch(f"replay.{name}", random.choice(values)))
        yield


@dataclass(frozen=True)
class Asked:
    """A query of a case, bound, and the oracle's answer."""

    case: PatternCase
    bound: BoundPatternQuery
    expected: Rows

    @property
    def sql(self) -> str:
        return self.case.sql

    def hold(self, found: pa.Table, how: str) -> None:
        """Compare an answer with the oracle's."""
        given = answer(found)
        if given != self.expected:
            pytest.fail(f"{how}: {self.case.shown()}\ngiven    {given}\nexpected {self.expected}")


def asked_of(case: PatternCase) -> Asked | None:
    """Return a query with the oracle's answer; None where it would take too long.

    Nor is there one of variances, of which the last digits are not the oracle's.
    """
    if "VAR_" in case.sql or "STDDEV" in case.sql:
        return None
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    assert isinstance(bound, BoundPatternQuery)
    try:
        rows = match_rows(case.stream.rows, bound, steps_max=STEPS_MAX)
    except OutOfStepsError:
        return None
    return Asked(case, bound, comparable(rows)) if len(rows) <= ROWS_MAX // 10 else None


def has_matches(asked: Asked) -> bool:
    """Return whether anything but NULL and 0 is in an answer."""
    return any(value for row in asked.expected for value in row)


def how_summed(bound: BoundPatternQuery) -> str:
    """Return how a query is summed: lanes and grain; or that matches are made."""
    program = summed_in_windows(bound) if bound.windows is not None else summed_as_pushed(bound)
    if program is None or program.sums is None:
        return "not as pushed"
    grain = "type" if program.sums.grain is None else "event"
    return f"{lanes_of(bound, program)} by {grain}"


@dataclass
class Tally:
    """What the cases were like."""

    counts: Counter[str] = field(default_factory=Counter)

    def check(self, seed: int) -> None:
        """Compare every answer of the queries of a seed with the oracle's."""
        random = Random(seed)
        for drawn in range(DRAWN_MAX):
            queries = self._asked(DRAWN_MAX * seed + drawn)
            if any(map(has_matches, queries)):
                break
        if not queries:
            return
        case = queries[0].case
        try:
            with turned(random):
                table = {"s": case.stream.table}
                for asked in queries:
                    self._note(asked)
                    threads = random.choice((1, 1, 2))
                    found = replay.query(table, asked.sql, max_rows=ROWS_MAX, threads=threads)
                    asked.hold(found.table, "in memory")
                    is_large = any(map(pa.types.is_decimal256, found.table.schema.types))
                    self._check_online(asked, random, is_large=is_large)
                self._check_together(queries, table, "full")
                with some_store(seed) as store:
                    fill_stream(store, "s", case.stream, index=case.indexes, key=case.key)
                    for asked in queries:
                        self._check_plans(asked, store)
                    self._check_together(queries, store, random.choice(PLANS))
        except Exception as error:
            error.add_note(f"{case.shown()}\n{[asked.sql for asked in queries]}")
            raise

    def _asked(self, seed: int) -> list[Asked]:
        """Return the queries of a seed with the oracle's answers."""
        queries = list(map(asked_of, cases_of_sums(seed)))
        self.counts["left out"] += queries.count(None)
        return [asked for asked in queries if asked is not None]

    def _note(self, asked: Asked) -> None:
        self.counts["queries"] += 1
        self.counts["with matches"] += has_matches(asked)
        self.counts[how_summed(asked.bound)] += 1

    def _check_plans(self, asked: Asked, store: Any) -> None:
        types = None
        for plan in PLANS:
            try:
                result = replay.query(store, asked.sql, plan=plan, max_rows=ROWS_MAX)
            except PlanError:
                assert plan not in ("full", "auto")
                continue
            asked.hold(result.table, f"plan {plan}")
            types = result.table.schema if types is None else types
            assert result.table.schema == types, f"plan {plan}"
            read, there = result.actual.blocks_read, result.actual.blocks_total
            self.counts[f"plan {plan}"] += 1
            self.counts[f"plan {plan} leaves blocks out"] += read < there
            assert plan != "index-only" or read == 0

    def _check_together(self, queries: Sequence[Asked], source: Any, plan: str) -> None:
        joined = together.joined

        def noted(programs: Sequence[Any], lanes: Any) -> Any:
            program = joined(programs, lanes)
            self.counts["summed with others"] += 0 if program is None else len(programs)
            return program

        with mock.patch.object(together, "joined", noted):
            try:
                found = replay.query_many(source, [asked.sql for asked in queries], plan=plan)
            except PlanError:
                assert plan not in ("full", "auto")
                return
        self.counts["asked at once"] += len(queries)
        for asked, result in zip(queries, found, strict=True):
            asked.hold(result.table, f"at once with others, plan {plan}")

    def _check_online(self, asked: Asked, random: Random, *, is_large: bool) -> None:
        """Compare what is pushed; ``is_large``: a number is beyond 64 bits, LIMIT or not."""
        table = asked.case.stream.table
        try:
            flow: Any = replay.online(asked.sql, table.schema, time="t")
        except NotSupportedError:
            if summed_as_pushed(asked.bound) is not None:
                self.counts["pushed in pieces"] += 1
                asked.hold(pushed_in_pieces(asked.bound, table, random), "pushed in pieces")
            return
        self.counts["online"] += 1
        try:
            found = online_in_pieces(flow, asked, random)
        except QueryError as error:
            if not is_large or " cannot hold, and an online" not in str(error):
                raise
            return
        assert not is_large or asked.bound.outer is None or asked.bound.outer.limit is not None
        asked.hold(found, "online")


def online_in_pieces(flow: Any, asked: Asked, random: Random) -> pa.Table:
    """Return all that comes out of an online query, by operators that give way to each other."""
    table, low, pieces = asked.case.stream.table, 0, []
    while low < table.num_rows:
        high = min(low + random.randint(0, 5), table.num_rows)
        pieces.append(flow.push(table.slice(low, high - low)))
        low = high
        if asked.bound.windows is not None and low < table.num_rows and random.random() < 0.3:
            coming = table.column("t")[low].as_py()
            pieces.append(flow.advance(coming))
        if random.random() < 0.5:
            successor = replay.online(asked.sql, table.schema, time="t")
            successor.restore(flow.snapshot())
            flow = successor
    return pa.concat_tables([*pieces, flow.finish()])


def pushed_in_pieces(bound: BoundPatternQuery, table: pa.Table, random: Random) -> pa.Table:
    """Return what comes out of the operators of a query that has no answer before the end."""

    def begun() -> Chain:
        chain = Chain(operators_of(bound))
        assert list(chain.push(table.slice(0, 0))) == []
        return chain

    chain, low = begun(), 0
    while low < table.num_rows:
        high = min(low + random.randint(1, 5), table.num_rows)
        assert list(chain.push(table.slice(low, high - low))) == []
        low = high
        if random.random() < 0.5:
            successor = begun()
            successor.take_over(unpack(pack(chain.state())))
            chain = successor
    return pa.concat_tables(chain.finish())


def run_seeds(seeds: range) -> None:
    """Check the cases of the seeds, and that they are worth checking."""
    tally = Tally()
    for seed in seeds:
        tally.check(seed)
    counts = tally.counts
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {dict(sorted(counts.items()))}")
    assert counts["with matches"] >= counts["queries"] / 2
    assert counts["left out"] <= counts["queries"] / 20


def test_every_way_to_an_answer_is_as_the_oracle_has_it() -> None:
    run_seeds(range(60))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(60, 20_060, 250))
def test_every_way_to_an_answer_is_as_the_oracle_has_it_at_length(first: int) -> None:
    run_seeds(range(first, first + 250))
