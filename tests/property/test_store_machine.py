"""A store against a sorted list: whatever is done, in whatever order, and killed wherever."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chronicle import StreamSettings, create_store, open_store
from chronicle.errors import LateEventError
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.repair import repair_store
from chronicle.maintenance.vacuum import vacuum
from chronicle.store import Stream
from chronicle.write.append import Late, append
from chronicle.write.evolve import add_column
from chronicle.write.lifecycle import delete_range, rename_stream
from indexing import clear_caches
from indexing.check import check_runs
from indexing.lifecycle import compact_index, create_index, drop_index
from indexing.tables import indexed_attributes
from tests.crash_points import dying_at
from tests.store_model import (
    INDEXABLE,
    NUMBERED,
    PROBE,
    Row,
    any_question,
    check_answers,
    check_any_answer,
    faults_of,
    in_order,
    plain,
    rows_of,
    writer_of,
)
from tests.strategies import nullable, queries, seeded

STEPS_MAX = 60


class Killed(KeyboardInterrupt):
    """What stands for the end of a process here."""


def die() -> None:
    raise Killed


@st.composite
def events(draw: st.DrawFn, most: int = 14) -> list[Row]:
    """Events that arrive together, at times that crowd."""
    low = draw(st.integers(0, 40))
    span = draw(st.sampled_from((0, 1, 4, 15, 40)))
    return draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "t": st.integers(low, low + span),
                    "a": nullable(st.integers(0, 3)),
                    "x": nullable(st.sampled_from((-1.5, 0.5, 2.5))),
                    "s": nullable(st.sampled_from(("", "a", "ab", "b"))),
                    "f": nullable(st.booleans()),
                    "k": nullable(st.integers(0, 2)),
                }
            ),
            max_size=most,
        )
    )


any_questions = seeded(any_question)()


class StoreMachine(RuleBasedStateMachine):
    """Operations on one stream; after each, the stream is the list."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.rows: list[Row] = []
        self.by_version: dict[int, list[Row]] = {}
        self.n_arrived = 0
        self.n_columns = 0
        self.is_damaged = False
        self.name = "s"

    @initialize(
        block_events=st.integers(1, 5), file_events=st.integers(5, 12), fan_out=st.integers(2, 3)
    )
    def create(self, block_events: int, file_events: int, fan_out: int) -> None:
        self.store = create_store(self.folder / "store")
        knobs = StreamSettings(
            time="t", block_events=block_events, file_events=file_events, fan_out=fan_out
        )
        self.store.create_stream("s", NUMBERED, knobs)
        self.reader = open_store(self.store.path)
        self._remember()

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def stream(self) -> Stream:
        return self.store.stream(self.name)

    def _remember(self) -> None:
        self.by_version[self.stream.refresh()] = self.rows

    def _do(self, action: Callable[[], Any], after: list[Row], step: int | None) -> Any:
        """Do something that leads to the rows ``after``; killed at a step, it has or has not."""
        result, landed = None, False
        try:
            with dying_at(step, die):
                result = action()
            landed = True
        except Killed:
            event("killed")
            self.store = open_store(self.store.path)
        [self.name] = self.store.stream_names()
        if not landed:
            landed = plain(rows_of(self.stream)) == plain(after)
        if landed:
            self.rows = after
        self._remember()
        return result

    def _arrived(self, drawn: list[Row]) -> list[Row]:
        extra = {f"c{i}": None for i in range(self.n_columns)}
        fresh = [row | {"n": self.n_arrived + i} | extra for i, row in enumerate(drawn)]
        self.n_arrived += len(fresh)
        return fresh

    kills = st.one_of(st.none(), st.none(), st.integers(0, STEPS_MAX))

    @rule(
        drawn=events(),
        late=st.sampled_from(list(Late)),
        runs=st.sampled_from((None, 0, 6)),
        tidy=st.booleans(),
        step=kills,
    )
    def append(
        self, drawn: list[Row], late: Late, runs: int | None, tidy: bool, step: int | None
    ) -> None:
        fresh = self._arrived(drawn)
        end = max((row["t"] for row in self.rows), default=-1)
        too_late = [row for row in fresh if row["t"] < end]
        kept = [row for row in fresh if row["t"] >= end] if late is Late.QUARANTINE else fresh
        table = pa.Table.from_pylist(fresh, schema=self.stream.schema)
        derived = None if runs is None else writer_of(self.stream, runs)
        add = self.stream.append if tidy else partial(append, self.stream)
        action = partial(add, table, late=late, derived=derived)
        if late is Late.REJECT and too_late:
            with pytest.raises(LateEventError):
                action()
            return
        report = self._do(action, in_order(self.rows + kept), step)
        if report is not None:
            assert report.fault is None
            assert report.n_events == len(kept)
            assert report.n_late == (0 if late is Late.QUARANTINE else len(too_late))
            assert report.n_quarantined == len(fresh) - len(kept)

    @rule(full=st.booleans(), budget=st.sampled_from((4, 1 << 20)), step=kills)
    def compact(self, full: bool, budget: int, step: int | None) -> None:
        action = partial(
            compact_events, self.stream, derived=writer_of(self.stream), full=full, budget=budget
        )
        self._do(action, self.rows, step)

    @rule(
        attributes=st.lists(st.sampled_from(INDEXABLE), min_size=1, max_size=3, unique=True),
        least=st.sampled_from((0, 6)),
        step=kills,
    )
    def index(self, attributes: list[str], least: int, step: int | None) -> None:
        action = partial(create_index, self.stream, attributes, least_events=least)
        self._do(action, self.rows, step)

    @rule(data=st.data(), step=kills)
    def drop_index(self, data: st.DataObject, step: int | None) -> None:
        known = indexed_attributes(self.stream.path, self.stream.schema.names)
        if known:
            chosen = data.draw(st.sampled_from(sorted(known)))
            self._do(partial(drop_index, self.stream, chosen), self.rows, step)

    @rule(full=st.booleans(), step=kills)
    def compact_index(self, full: bool, step: int | None) -> None:
        self._do(partial(compact_index, self.stream, full=full), self.rows, step)

    @rule(
        start=st.one_of(st.none(), st.integers(0, 45)),
        length=st.sampled_from((0, 1, 5, 20, None)),
        step=kills,
    )
    def delete(self, start: int | None, length: int | None, step: int | None) -> None:
        stop = None if length is None else (0 if start is None else start) + length
        left = [
            row
            for row in self.rows
            if (start is not None and row["t"] < start) or (stop is not None and row["t"] >= stop)
        ]
        n_before = len(self.rows)
        action = partial(delete_range, self.stream, start, stop, derived=writer_of(self.stream))
        report = self._do(action, left, step)
        if report is not None:
            assert report.n_events == n_before - len(left)

    @precondition(lambda self: self.n_columns < 2)
    @rule(step=kills)
    def add_column(self, step: int | None) -> None:
        name = f"c{self.n_columns}"
        wider = [row | {name: None} for row in self.rows]
        self._do(partial(add_column, self.stream, name, "int64"), wider, step)
        # Without an event the rows do not tell whether the column came.
        self.n_columns += name in self.stream.schema.names
        if name in self.stream.schema.names:
            self.rows = wider
        self._remember()

    @rule(keep=st.booleans(), step=kills)
    def vacuum(self, keep: bool, step: int | None) -> None:
        retention = dt.timedelta(days=7 if keep else 0)
        if not keep:
            self.by_version.clear()
            self.reader = open_store(self.store.path)
        # Files age by the clock of the file system, which ticks more slowly than the process'.
        now = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)
        action = partial(
            vacuum, self.stream, derived=writer_of(self.stream), retention=retention, now=now
        )
        self._do(action, self.rows, step)

    @rule(step=kills)
    def rename(self, step: int | None) -> None:
        new = "u" if self.name == "s" else "s"
        self._do(partial(rename_stream, self.store, self.name, new), self.rows, step)

    @rule(number=st.integers(0, 30), at=st.integers(-1, 5000))
    def damage(self, number: int, at: int) -> None:
        """Flip a byte of a run, or remove it."""
        runs = sorted((self.stream.path / "index").rglob("*.parquet"))
        if runs:
            path = runs[number % len(runs)]
            content = bytearray(path.read_bytes())
            path.unlink()
            if at >= 0:
                content[at % len(content)] ^= 0x40
                path.write_bytes(content)
            self.is_damaged = True
            clear_caches()

    @rule(deep=st.booleans(), step=kills)
    def repair(self, deep: bool, step: int | None) -> None:
        action = partial(
            repair_store,
            self.store,
            derived=writer_of(self.stream),
            derived_checks=(check_runs,),
            deep=deep,
            leftover_age=dt.timedelta(0),
        )
        self._do(action, self.rows, step)

    @rule()
    def reopen(self) -> None:
        self.store = open_store(self.store.path)

    @rule(deep=st.booleans())
    def check(self, deep: bool) -> None:
        if not self.is_damaged:
            found = faults_of(self.store, deep=deep)
            assert not found, found

    @rule(sql=queries())
    def ask(self, sql: str) -> None:
        check_answers(self.store, self.name, self.rows, sql)

    @rule(texts=st.lists(any_questions, min_size=5, max_size=5))
    def ask_of_any_class(self, texts: list[str]) -> None:
        for text in texts:
            check_any_answer(self.store, self.name, self.rows, text)

    @rule(data=st.data(), text=any_questions)
    def ask_the_past(self, data: st.DataObject, text: str) -> None:
        version = data.draw(st.sampled_from(sorted(self.by_version)))
        rows = self.by_version[version]
        assert plain(rows_of(self.stream, version)) == plain(rows)
        check_answers(self.store, self.name, rows, PROBE, as_of=version)
        check_any_answer(self.store, self.name, rows, text, as_of=version)

    @invariant()
    def the_stream_is_the_list(self) -> None:
        if not self.by_version:
            return
        assert plain(rows_of(self.stream)) == plain(self.rows)
        assert plain(rows_of(self.reader.stream(self.name))) == plain(self.rows)
        check_answers(self.store, self.name, self.rows, PROBE)


def test_a_store_is_a_sorted_list() -> None:
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=max(20, settings().max_examples // 10),
            stateful_step_count=20,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@given(
    parts=st.lists(events(), max_size=5),
    block_events=st.integers(1, 5),
    file_events=st.integers(5, 12),
    sql=queries(),
)
@settings(
    max_examples=max(25, settings().max_examples // 5), suppress_health_check=list(HealthCheck)
)
def test_any_split_in_any_order_answers_like_one_load(
    parts: list[list[Row]], block_events: int, file_events: int, sql: str
) -> None:
    arrived = [row for part in parts for row in part]
    numbered = [row | {"n": n} for n, row in enumerate(arrived)]
    knobs = StreamSettings(time="t", block_events=block_events, file_events=file_events, fan_out=2)
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        loads = {"one": [len(numbered)], "s": [len(part) for part in parts]}
        for name, sizes in loads.items():
            stream = store.create_stream(name, NUMBERED, knobs)
            create_index(stream, ["a"], least_events=0)
            start = 0
            for size in sizes:
                table = pa.Table.from_pylist(numbered[start : start + size], schema=NUMBERED)
                stream.append(table, derived=writer_of(stream))
                start += size
            assert plain(rows_of(stream)) == plain(in_order(numbered))
            check_answers(store, name, in_order(numbered), sql)
