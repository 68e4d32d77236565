"""Indexes through any life: written, merged, damaged, dropped, killed; against a scan."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from chronicle import Snapshot, StreamSettings, create_store
from chronicle.append import append
from chronicle.commit import commit_tidy, complete_derived
from chronicle.store import Stream
from indexing import KeyRange, KeyRanges, RunWriter, clear_caches, open_indexes
from indexing.composite import composite_ranges
from indexing.keys import key_kind
from indexing.lifecycle import compact_index, create_index, drop_index, list_indexes
from indexing.tables import indexed_attributes
from tests.oracles.index import matching_rows
from tests.unit.indexing.killing import killed_at

Row = tuple[int, int | None, str]
SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int64()), ("y", pa.string())])
TOGETHER = ("x+y", "y+x", "t+x+y")
ATTRIBUTES = ("x", "y", "t", *TOGETHER)
RANGES = {"x": KeyRange(1, 2), "y": KeyRange("b", None), "t": KeyRange(3, 9, high_closed=False)}
ROWS = st.lists(
    st.tuples(
        st.integers(0, 14),
        st.one_of(st.none(), st.integers(0, 3)),
        st.sampled_from(["", "a", "b", "c"]),
    ),
    min_size=1,
    max_size=14,
)
STEPS = (
    "chronicle.delta_log.create_table",
    "chronicle.delta_log.commit_changes",
    "indexing.compaction.merge_runs",
    "indexing.lifecycle.write_runs",
    "shutil.rmtree",
)


class IndexMachine(RuleBasedStateMachine):
    """A stream whose indexes are what it is about; the model is the sorted rows."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp())
        self.rows: list[Row] = []
        self.old: tuple[Snapshot, list[Row]] | None = None
        self.least_events = 0

    @initialize(least_events=st.sampled_from([0, 4]))
    def open(self, least_events: int) -> None:
        store = create_store(self.folder / "store")
        options = StreamSettings(time="t", block_events=3, file_events=6)
        self.stream: Stream = store.create_stream("s", SCHEMA, options)
        self.least_events = least_events

    def teardown(self) -> None:
        shutil.rmtree(self.folder)
        clear_caches()

    def writer(self) -> RunWriter:
        found = indexed_attributes(self.stream.path, SCHEMA.names)
        return RunWriter(found, "t", least_events=self.least_events)

    @rule(rows=ROWS, with_runs=st.booleans())
    def append(self, rows: list[Row], with_runs: bool) -> None:
        rows = sorted(rows, key=lambda row: row[0])
        table = pa.Table.from_pylist(
            [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA
        )
        append(self.stream, table, derived=self.writer() if with_runs else None, tidy=False)
        self.rows = sorted(self.rows + rows, key=lambda row: row[0])

    @rule(
        attributes=st.lists(st.sampled_from(ATTRIBUTES), unique=True, min_size=1),
        dies=st.one_of(st.none(), st.integers(1, 9)),
    )
    def create(self, attributes: list[str], dies: int | None) -> None:
        with killed_at(dies, STEPS):
            create_index(self.stream, attributes, least_events=self.least_events)

    @rule(attribute=st.sampled_from(ATTRIBUTES), dies=st.one_of(st.none(), st.just(1)))
    def drop(self, attribute: str, dies: int | None) -> None:
        if attribute in indexed_attributes(self.stream.path, SCHEMA.names):
            with killed_at(dies, STEPS):
                drop_index(self.stream, attribute)
            assert attribute not in indexed_attributes(self.stream.path, SCHEMA.names)

    @rule(full=st.booleans(), dies=st.one_of(st.none(), st.integers(1, 6)))
    def compact(self, full: bool, dies: int | None) -> None:
        with killed_at(dies, STEPS):
            compact_index(self.stream, full=full)

    @rule(budget=st.integers(0, 60))
    def tidy(self, budget: int) -> None:
        live = [file.name for file in self.stream.snapshot().files]
        changes = self.writer().tidy(self.stream.path, live, budget=budget)
        assert sum(file.n_rows for change in changes for file in change.added) <= budget
        commit_tidy(self.stream, changes)

    @rule(dies=st.one_of(st.none(), st.integers(1, 6)))
    def complete(self, dies: int | None) -> None:
        with killed_at(dies, STEPS):
            complete_derived(self.stream, self.writer())
        if dies is None:
            for described in list_indexes(self.stream.snapshot()):
                files = self.stream.snapshot().files
                small = sum(f.n_events for f in files if f.n_events < self.least_events)
                assert described.n_tail_events <= small
                assert described.faults == ()

    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        folders = [self.stream.path / "index" / a for a in ATTRIBUTES]
        runs = sorted(path for folder in folders for path in folder.glob("*.parquet"))
        if runs:
            path = runs[data.draw(st.integers(0, len(runs) - 1), label="run")]
            content = bytearray(path.read_bytes())
            at = data.draw(st.integers(-1, len(content) - 1), label="byte")
            path.unlink()
            if at >= 0:
                content[at] ^= 0x40
                path.write_bytes(content)
            clear_caches()

    @rule()
    def remember(self) -> None:
        self.old = self.stream.snapshot(), list(self.rows)

    @invariant()
    def answers_are_those_of_a_scan(self) -> None:
        if not hasattr(self, "stream"):
            return
        self.check(self.stream.snapshot(), self.rows)
        if self.old is not None:
            self.check(*self.old)

    def check(self, snapshot: Snapshot, rows: list[Row]) -> None:
        indexes = open_indexes(snapshot)
        for attribute in indexes.attributes:
            index = indexes.index(attribute)
            asked, told = ranges_of(attribute)
            columns = (matching_rows(values_of(rows, part), [RANGES[part]]) for part in told)
            expected = sorted(set.intersection(*map(set, columns)))
            found = index.lookup(asked)
            assert found.seq.tolist() == expected, attribute
            assert found.t.tolist() == [rows[i][0] for i in expected]
            least, most = index.estimate_count(asked)
            assert least <= len(expected) <= most


def values_of(rows: list[Row], column: str) -> list[object]:
    return [row[SCHEMA.names.index(column)] for row in rows]


def ranges_of(attribute: str) -> tuple[KeyRanges, tuple[str, ...]]:
    """Return what an index is asked for, and which columns that bounds."""
    if attribute not in TOGETHER:
        return KeyRanges.of([RANGES[attribute]]), (attribute,)
    parts = tuple(attribute.split("+"))
    kinds = [key_kind(SCHEMA.field(part).type, part) for part in parts]
    found = composite_ranges(kinds, [KeyRanges.of([RANGES[part]]) for part in parts])
    assert found is not None
    return found[0], parts[: found[1]]


IndexMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
TestIndexMachine = IndexMachine.TestCase
