"""Row pattern matching against the oracle: random patterns, conditions, measures and streams.

Every case is answered over a table in memory, in three sizes of batches and online, from snapshot
to snapshot; a share also from a store of tiny blocks with random indexes, under each plan. Seed,
rows and text of a case are printed where an answer differs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import replay
from replay.errors import PlanError, SkipError
from replay.language import bind, parse_query
from replay.language.query_printer import to_sql
from tests.helpers import fill_stream
from tests.memory_stream import some_store
from tests.oracles.matcher import match_rows
from tests.oracles.outer import is_row_by_row
from tests.oracles.view import OutOfStepsError
from tests.pattern_cases import PatternCase, pattern_case

STEPS_MAX = 20_000
"""Conditions the oracle may try; a case that needs more is left out and counted."""

PLANS = ("full", "tree", "all", "auto")

BATCH_EVENTS = (1, 3, 1 << 16)
"""Events pushed into the matcher at once."""

Answer = list[dict[str, Any]] | str
"""Rows in their order, or the name of an error that is the answer."""


def as_rows(table: pa.Table) -> Answer:
    """Return the rows as the oracle has them: times, intervals and dates as whole numbers."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
            column = column.cast(pa.int64())
        elif pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        assert name not in columns, f"two columns are named {name}"
        columns[name] = column
    return pa.table(columns).to_pylist() if columns else [{}] * len(table)


def is_same(given: Answer, expected: Answer) -> bool:
    """Return whether two answers are equal; doubles but for the rounding of their last digits."""
    if isinstance(given, str) or isinstance(expected, str):
        return given == expected
    return len(given) == len(expected) and all(
        list(one) == list(other)
        and all(_equal(a, b) for a, b in zip(one.values(), other.values(), strict=True))
        for one, other in zip(given, expected, strict=True)
    )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        both_nan = math.isnan(a) and math.isnan(b)
        return both_nan or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)
    return type(a) is type(b) and a == b


def hold_to(expected: Answer, given: Answer, how: str, case: PatternCase) -> None:
    if not is_same(given, expected):
        pytest.fail(f"{how}: {case.shown()}\ngiven    {given}\nexpected {expected}")


@contextmanager
def batches_of(events: int) -> Iterator[None]:
    """Have tables in memory replayed so many events at a time, few with little room for results."""
    limits = {"engines.source.TABLE_BLOCK_EVENTS": events, "patterns.local.UNIT_EVENTS": events}
    if events < 10:
        limits |= {
            "patterns.answer.MEASURED_ROWS_AT_ONCE": events,
            "patterns.answer.MEASURED_ROWS_FIRST": 1,
            "patterns.measures.MEASURED_ROWS_AT_ONCE": events,
            "patterns.search.MATCHES_AT_ONCE": events,
            "patterns.search.PATH_BYTES_AT_ONCE": 1,
            "patterns.strategies.matcher.MATCHES_AT_ONCE": events,
            "patterns.strategies.matcher.EAGER_ROWS": events,
            "patterns.strategies.searches.ROWS_AT_ONCE": 64,
        }
    with ExitStack() as stack:
        for name, value in limits.items():
            stack.enter_context(mock.patch(f"replay.{name}", value))
        yield


def answer_online(case: PatternCase) -> pa.Table | None:
    """Return what comes out while events come in, from operators that give way to each other.

    That is so after one push of three, others for each seed: to begin anew takes longer than all
    else. None where the outer query has no answer before the end.
    """
    table = case.stream.table
    outer = bind(parse_query(case.sql), table.schema, time="t", text=case.sql).outer
    if outer is not None and not is_row_by_row(outer):
        return None
    n_at_once = 1 + case.seed % 3
    with mock.patch("replay.patterns.row_intake.KNOWN_MIN", 1 + case.seed % 2):
        operator = replay.online(case.sql, table.schema, time="t")
        pieces = []
        for first in range(0, len(table), n_at_once):
            pieces.append(operator.push(table.slice(first, n_at_once)))
            if first // n_at_once % 3 == case.seed // 3 % 3:
                successor = replay.online(case.sql, table.schema, time="t")
                successor.restore(operator.snapshot())
                operator = successor
        return pa.concat_tables([*pieces, operator.finish()])


def expected_answer(case: PatternCase) -> Answer | None:
    """Return the oracle's answer, None where it would take too long."""
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    try:
        return match_rows(case.stream.rows, bound, steps_max=STEPS_MAX)
    except OutOfStepsError:
        return None
    except SkipError:
        return "SkipError"


@dataclass
class Tally:
    """What the cases were like."""

    counts: Counter[str] = field(default_factory=Counter)

    def check(self, case: PatternCase, *, stored: bool) -> None:
        """Compare every answer of a case with the oracle's."""
        parsed = parse_query(case.sql)
        assert parse_query(to_sql(parsed)) == parsed, case.shown()
        expected = expected_answer(case)
        if expected is None:
            self.counts["too long for the oracle"] += 1
            return
        self.counts["cases"] += 1
        self.counts["with rows"] += bool(expected) and expected != "SkipError"
        self.counts["with an error"] += expected == "SkipError"
        for events in BATCH_EVENTS:
            with batches_of(events):
                how = f"in memory, batches of {events}"
                self._compare(case, how, expected, {"s": case.stream.table}, "auto")
        self._compare_online(case, expected)
        if stored:
            with some_store(case.seed) as store:
                fill_stream(store, "s", case.stream, index=case.indexes)
                skipped = [self._compare(case, plan, expected, store, plan) for plan in PLANS]
            self.counts["planned"] += case.planned
            self.counts["skip blocks"] += case.planned and any(skipped)

    def _compare(
        self, case: PatternCase, how: str, expected: Answer, source: Any, plan: str
    ) -> bool:
        """Compare one answer; return whether blocks were skipped for it."""
        given: Answer
        skips = False
        try:
            result = replay.query(source, case.sql, plan=plan)
        except SkipError:
            given = "SkipError"
        except PlanError:
            assert plan in ("tree", "all"), case.shown()
            return False
        except Exception as error:
            error.add_note(f"{how}: {case.shown()}")
            raise
        else:
            given = as_rows(result.table)
            skips = result.actual.blocks_read < result.actual.blocks_total
        hold_to(expected, given, how, case)
        return skips

    def _compare_online(self, case: PatternCase, expected: Answer) -> None:
        given: Answer
        try:
            table = answer_online(case)
        except SkipError:
            given = "SkipError"
        else:
            if table is None:
                return
            given = as_rows(table)
        self.counts["online"] += 1
        hold_to(expected, given, "online", case)


def run_seeds(seeds: range, *, stored_every: int) -> None:
    """Check the cases of the seeds, and that they are worth checking.

    Of the cases made for it, and of a few others, one in ``stored_every`` is put into a store.
    """
    tally = Tally()
    for seed in seeds:
        case = pattern_case(seed)
        place = seed // 11 if seed % 11 == 0 else seed
        stored = (case.planned or seed % 11 == 0) and place % stored_every == 0
        tally.check(case, stored=stored)
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {dict(tally.counts)}")
    counts = tally.counts
    assert counts["with rows"] + counts["with an error"] >= counts["cases"] / 2
    assert counts["skip blocks"] >= counts["planned"] / 3
    assert counts["too long for the oracle"] <= len(seeds) / 50


CONSTRUCTS = (
    *("PARTITION BY s, k", "ORDER BY t,", "FROM s AS q", "BY Q.k", "PATTERN (a"),
    *("ONE ROW", "SHOW EMPTY", "OMIT EMPTY", "WITH UNMATCHED"),
    *("SKIP PAST", "TO NEXT ROW", "SKIP TO FIRST", "SKIP TO LAST", "SKIP TO A", "SKIP TO LAST U"),
    *("PERMUTE(", "{-", "^ ", " $", "()", " | ", "*?", "+?", "??", "}?", "{1,2}", "{,2}", "{2,}"),
    *("CONTIGUOUS", "TILL NEXT", "TILL ANY", "WITHIN", "INTERVAL", "TIMEOUTS", "SUBSET", "!X"),
    *("Z* !X", "!X Z*", "RUNNING", "FINAL", "PREV(FIRST(", "NEXT(", "PREV(FINAL LAST(", ", 2)"),
    *("COUNT(*)", "COUNT(A.*)", "COUNT(DISTINCT", "SUM(U.", "AVG(", "MIN(", "MAX(", "STDDEV"),
    *("CLASSIFIER()", "CLASSIFIER(U)", "MATCH_NUMBER()", "AND MATCH_NUMBER()", "LAST(a, 1)"),
    *("GROUP BY", "HAVING", "DISTINCT m", "WHERE", "ORDER BY m", "NULLS FIRST", "LIMIT", "OFFSET"),
)


def test_the_cases_have_every_construct() -> None:
    texts = [pattern_case(seed).sql for seed in range(600)]
    rare = {construct for construct in CONSTRUCTS if sum(construct in t for t in texts) < 3}
    assert not rare


def test_every_plan_answers_as_the_oracle() -> None:
    run_seeds(range(200), stored_every=1)


def test_every_match_of_a_strategy_is_as_the_oracle_has_it() -> None:
    tally = Tally()
    for case in map(pattern_case, range(200, 700)):
        if "SEMANTICS" in case.sql:
            tally.check(case, stored=False)
    assert tally.counts["with rows"] > 40


@pytest.mark.slow
@pytest.mark.parametrize("first", range(200, 20_200, 500))
def test_every_plan_answers_as_the_oracle_at_length(first: int) -> None:
    run_seeds(range(first, first + 500), stored_every=1)
