"""The one law, of aggregates over every match and of patterns in windows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, reject, settings
from hypothesis import strategies as st

import replay
from chronicle import StreamSettings
from indexing import RunWriter
from replay.aggregates.exact import listed
from replay.errors import LimitExceededError, NotSupportedError
from replay.language import bind, parse_query
from replay.language.bound import BoundPatternQuery
from replay.operators.packing import pack, unpack
from replay.patterns import together
from replay.patterns.program import MatchProgram, summed_as_pushed, summed_in_windows
from replay.patterns.summing import event_grain, lanes, within
from replay.patterns.summing.entries import EntryTrendOperator
from replay.patterns.summing.lanes import Lanes, lanes_of
from replay.patterns.summing.starts import StartTrendOperator
from replay.patterns.trends.algebra import to_summing, why_enumerated
from replay.running import windowed_patterns
from replay.running.summed_patterns import PatternSums
from replay.running.windowed_patterns import WindowedSums, grouped_by_window
from tests.helpers import fill_stream
from tests.memory_stream import index, memory_store, some_store
from tests.oracles.answer import MATCH
from tests.oracles.matcher import inner_rows, match_rows
from tests.oracles.outer import groups_of, value_of
from tests.oracles.trends import read
from tests.oracles.view import OutOfStepsError
from tests.pattern_cases import PatternCase, aggregate_case, cases_together
from tests.plan_cases import strategy_queries
from tests.property.law import FEW, ROWS_MAX, SLOW, Rows, answer, assert_plans_agree, comparable
from tests.strategies import SEEDS, SmallStream, streams
from tests.window_cases import seeds


@pytest.fixture(autouse=True, scope="module")
def trees_in_few_rows() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(event_grain, "ROWS_MIN", 1)
        yield


def pushed(bound: BoundPatternQuery) -> MatchProgram | None:
    """Return what sums over a query's matches; None: they are made, or the pattern is too large."""
    try:
        return summed_as_pushed(bound)
    except NotSupportedError:
        return None


def by_row(seed: int) -> PatternCase | None:
    """Return the case of a seed, if its conditions read rows mapped before and it is summed."""
    case = aggregate_case(seed, in_windows=False)
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    program = pushed(bound)
    has_cells_of_rows = program is not None and program.sums and program.sums.grain is not None
    return case if has_cells_of_rows else None


@given(SEEDS.map(by_row).filter(lambda case: case is not None))
@settings(SLOW, suppress_health_check=list(HealthCheck))
def test_sums_by_row_are_those_of_the_oracle(case: PatternCase) -> None:
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    try:
        expected = comparable(match_rows(case.stream.rows, bound, steps_max=30_000))
    except OutOfStepsError:
        return
    assert answer(replay.query({"s": case.stream.table}, case.sql).table) == expected


@given(SEEDS.map(aggregate_case))
@SLOW
def test_sums_of_rows_in_pieces_with_snapshots_between_are_those_of_all(case: PatternCase) -> None:
    stream, sql = case.stream, case.sql
    bound = bind(parse_query(sql), stream.schema, time="t", text=sql)
    program = pushed(bound)
    if program is None:
        return
    sums, table = PatternSums(bound, program, stream.schema), stream.table
    for low, high in pairwise([0, *stream.cuts, table.num_rows]):
        assert list(sums.push(table.slice(low, high - low))) == []
        state = unpack(pack(sums.state()))
        sums = PatternSums(bound, program, stream.schema)
        sums.take_over(state)
    (found,) = sums.finish()
    assert answer(found) == answer(replay.query({"s": table}, sql).table)


def by_entries(seed: int) -> PatternCase | None:
    """Return the case of a seed, if its sums within a time are told apart by entries."""
    case = aggregate_case(seed, in_windows=False)
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    program = pushed(bound)
    is_entered = program is not None and lanes_of(bound, program) is Lanes.ENTRIES
    return case if is_entered else None


@given(SEEDS.map(by_entries).filter(lambda case: case is not None))
@settings(SLOW, suppress_health_check=list(HealthCheck))
def test_sums_by_entries_in_pieces_are_those_by_starts(case: PatternCase) -> None:
    table = case.stream.table
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    with patch.object(within, "ROWS_AT_ONCE", 1):
        assert_entries_are_starts(bound, table, case.stream.cuts)


@given(SEEDS.map(by_entries).filter(lambda case: case is not None))
@settings(SLOW, suppress_health_check=list(HealthCheck))
def test_sums_by_entries_of_numbers_that_become_longer_are_those_by_starts(
    case: PatternCase,
) -> None:
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    rows = case.stream.table
    table = pa.concat_tables([rows] * (600 // rows.num_rows))
    # Few rows are within the time of each other at first, and then so many that sums take words.
    times = np.cumsum(
        np.where(np.arange(table.num_rows) < 100, 40, np.arange(table.num_rows) % 4 == 0)
    )
    times = pa.array(times).cast(table.schema.field("t").type)
    table = table.set_column(table.schema.get_field_index("t"), "t", times)
    assert_entries_are_starts(replace(bound, within=100), table, ())


def assert_entries_are_starts(
    bound: BoundPatternQuery, table: pa.Table, cuts: Sequence[int]
) -> None:
    program = pushed(bound)
    assert program is not None
    operators = EntryTrendOperator(program), StartTrendOperator(program)
    for low, high in pairwise([0, *cuts, table.num_rows]):
        rows = table.slice(low, high - low).select(list(program.columns))
        for operator in operators:
            operator.push(program.prepare(rows.unify_dictionaries()), low)
    for operator in operators:
        operator.finish()
    found, expected = (operator.totals() for operator in operators)
    assert (found.keys, found.first_seqs) == (expected.keys, expected.first_seqs)
    for number, values in expected.numbers.items():
        assert listed(found.numbers[number]) == listed(values)


SPARSE = ("A B? A", "A C", "A B C", "A+ B", "A B*", "B? A C", "(A | B) C", "A{1,3} C")


@given(seeds)
@FEW
def test_every_plan_finds_the_matches_in_windows_of_a_stream_of_which_little_fits(
    random: Random,
) -> None:
    """Rows that no plan reads lie between others, far more often than in streams drawn at large."""
    n, share = random.randint(20, 90), random.choice((0.05, 0.1, 0.2, 0.4))
    times = np.cumsum([random.choice((0, 1, 1, 2, 5)) for _ in range(n)])
    a = [random.choice((1, 2, 3, 4)) if random.random() < share else 0 for _ in range(n)]
    rows = pa.table({"t": times, "a": a, "k": [random.randint(0, 2) for _ in range(n)]})
    size = random.choice((5, 20, 60, 200))
    windows = random.choice(
        (f"TUMBLE(TABLE s, DESCRIPTOR(t), {size})", f"SLIDING(TABLE s, DESCRIPTOR(t), {size})")
    )
    by = f"window_start, window_end{random.choice(('', '', ', k'))}"
    within = random.choice(("", "", f"WITHIN {random.randint(1, size)}"))
    semantics = random.choice(("CONTIGUOUS", "CONTIGUOUS", "SKIP TILL NEXT"))
    pattern = random.choice(SPARSE)
    defines = {
        "A": random.choice(("a = 1", "a IN (1, 2)", "a IN (1, 2, 3)")),
        "B": random.choice(("a = 2", "a IN (2, 3)")),
        "C": random.choice(("a = 3", "a IN (1, 3)", "a >= 2")),
    }
    define = ", ".join(f"{name} AS {of}" for name, of in defines.items() if name in pattern)
    recognize = (
        f"FROM TABLE({windows}) MATCH_RECOGNIZE (PARTITION BY {by} ORDER BY t MEASURES "
        f"COUNT(*) AS m PATTERN ({pattern}) SEMANTICS {semantics} {within} DEFINE {define})"
    )
    counted = f"SELECT window_start, COUNT(*) AS n, MAX(m) AS m {recognize} GROUP BY window_start"
    with memory_store() as store:
        settings = StreamSettings("t", random.choice((1, 1, 2)))
        stream = store.create_stream("s", rows.schema, settings)
        indexed = random.choice(((), ("a",)))
        index(stream, indexed)
        stream.append(rows, derived=RunWriter(indexed, "t"))
        for sql in (counted, f"SELECT * {recognize}"):
            expected = answer(replay.query({"s": rows}, sql).table)
            assert_plans_agree(store, sql, ("tree", "all", "auto"), expected=expected)


@given(SEEDS.map(cases_together))
@SLOW
def test_queries_asked_at_once_are_answered_as_each_alone(
    case: tuple[SmallStream, list[str]],
) -> None:
    stream, sqls = case
    for sql in sqls:
        try:
            replay.query({"s": stream.table}, sql, max_rows=ROWS_MAX)
        except LimitExceededError:
            reject()
    joined: list[int] = []

    def noted(programs: Sequence[MatchProgram], lanes: Lanes) -> MatchProgram | None:
        program = plainly_joined(programs, lanes)
        joined.append(0 if program is None else len(programs))
        return program

    with some_store(stream, *sqls) as store, patch.object(together, "joined", noted):
        fill_stream(store, "s", stream)
        for source in ({"s": stream.table}, store):
            joined.clear()
            found = replay.query_many(source, sqls, plan="full")
            event(f"{sum(joined)} of {len(sqls)} joined")
            for sql, result in zip(sqls, found, strict=True):
                alone = replay.query(source, sql, plan="full")
                assert comparable(answer(result.table)) == comparable(answer(alone.table)), sql
                assert result.table.schema == alone.table.schema
                assert told(result) == told(alone), sql


plainly_joined = together.joined


def told(result: replay.Result) -> object:
    """Return what is told of an answer, but for the time it took."""
    stats = result.stats
    del stats["actual"]["seconds"]
    return stats


def in_panes(seed: int) -> PatternCase | None:
    """Return the case of a seed, if its windows may be summed by panes."""
    case = aggregate_case(seed, in_windows=True)
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    program = summed_in_windows(bound)
    is_alone = program is None or lanes_of(bound, program) is Lanes.WINDOWS
    return None if is_alone else case


@given(SEEDS.map(in_panes).filter(lambda case: case is not None))
@settings(SLOW, suppress_health_check=list(HealthCheck))
def test_windows_summed_in_one_go_are_those_that_are_summed_by_themselves(
    case: PatternCase,
) -> None:
    sql, table = case.sql, case.stream.table
    bound = bind(parse_query(sql), case.stream.schema, time="t", text=sql)
    program = summed_in_windows(bound)
    assert program is not None
    with patch.object(windowed_patterns, "lanes_of", return_value=Lanes.WINDOWS):
        sums = WindowedSums(bound, program, table.schema)
    expected = [row for part in (*sums.push(table), *sums.finish()) for row in answer(part)]
    for panes_max in (0, 1 << 40):  # by entries, if products of rows have all that is asked
        with patch.object(lanes, "PANES_MAX", panes_max):
            sums = WindowedSums(bound, program, table.schema)
        assert _pushed(sums, table, case.stream.cuts) == expected
    if not grouped_by_window(bound.outer):
        return
    eager = WindowedSums(bound, program, table.schema, eager=True)
    found = []
    for low, high in pairwise([0, *case.stream.cuts, table.num_rows]):
        found += _pushed(eager, table.slice(low, high - low), (), ends=False)
        state = unpack(pack(eager.state()))
        eager = WindowedSums(bound, program, table.schema, eager=True)
        eager.take_over(state)
        if high < table.num_rows:
            coming = int(table.column("t").cast(pa.int64())[high].as_py())
            found += [row for part in eager.advance(coming) for row in answer(part)]
    found += [row for part in eager.finish() for row in answer(part)]
    assert found == expected


def _pushed(sums: WindowedSums, table: pa.Table, cuts: Sequence[int], *, ends: bool = True) -> Rows:
    """Return the rows of the answer, of rows that are pushed in pieces."""
    pieces = pairwise([0, *cuts, table.num_rows])
    parts = [part for low, high in pieces for part in sums.push(table.slice(low, high - low))]
    return [row for part in (*parts, *(sums.finish() if ends else ())) for row in answer(part)]


@given(stream=streams(), data=st.data(), indexes=st.sets(st.sampled_from(("a", "x", "s", "f"))))
@SLOW
def test_every_plan_matches_in_windows_as_the_full_replay(
    stream: SmallStream, data: st.DataObject, indexes: set[str]
) -> None:
    sql = data.draw(strategy_queries(timestamps=stream.has_timestamps))
    size = data.draw(st.integers(1, 6))
    slide = data.draw(st.integers(1, size))
    lengths = [f"{n} SECONDS" if stream.has_timestamps else str(n) for n in (slide, size)]
    kind = data.draw(st.sampled_from(("HOP", "HOP", "SLIDING")))
    lengths = lengths[-1:] if kind == "SLIDING" else lengths
    windows = f"TABLE({kind}(TABLE s, DESCRIPTOR(t), {', '.join(lengths)}))"
    sql = sql.replace("FROM s", f"FROM {windows}", 1)
    sql = sql.replace("(PARTITION BY k ", "(PARTITION BY window_start, k ", 1)
    sql = sql.replace("( ORDER BY", "(PARTITION BY window_start ORDER BY", 1)
    if data.draw(st.booleans()):
        sql = re.sub(r"WITHIN (INTERVAL '\d+' SECOND|\d+)", "", sql)
    with some_store(stream, sql, sorted(indexes)) as store:
        fill_stream(store, "s", stream, index=tuple(sorted(indexes)))
        assert_plans_agree(store, sql, ("tree", "all", "relevant", "auto"))


@given(SEEDS.map(aggregate_case))
@SLOW
def test_channels_hold_what_aggregates_over_matches_need(case: PatternCase) -> None:
    bound = bind(parse_query(case.sql), case.stream.schema, time="t", text=case.sql)
    if why_enumerated(bound) is not None:
        return
    assert bound.outer is not None
    try:
        rows = inner_rows(case.stream.rows, bound, 30_000)
    except OutOfStepsError:
        return
    summing = to_summing(bound)
    for group in groups_of(rows, bound.outer):
        matches = [row[MATCH] for row in group]
        for part, reading in summing.readings:
            found = read(summing, part, reading, matches, "t")
            assert comparable([[found]]) == comparable([[value_of(part, group)]]), part
        event(f"groups of {min(len(group), 3)} matches, {min(len(summing.channels), 3)} channels")
