"""What index and tree say of derived attributes, held to the events in their order.

Whatever was appended, merged and indexed when: a lookup returns exactly the events whose value lies
in the ranges and those whose value their data file does not tell; bounds are those of the values.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import indexing.tail
from chronicle import StreamSettings, create_store, open_store
from chronicle.maintenance.check import check_store
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.finding import Severity
from chronicle.maintenance.repair import repair_store
from chronicle.snapshot import Snapshot
from chronicle.store import Stream
from chronicle.write.evolve import add_derived
from chronicle.write.lifecycle import delete_range
from indexing import KeyRange, KeyRanges
from indexing.check import check_runs
from indexing.index import clear_caches, open_indexes
from indexing.lifecycle import compact_index, create_index
from indexing.writer import writer_for
from tests.oracles.index import admits

Value = int | float | None
Row = dict[str, Any]

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("k", pa.string()),
        ("x", pa.float64()),
        ("n", pa.int64()),
        ("arrival", pa.int64()),
    ]
)
ATTRIBUTES = {"delta(x)": "x", "delta(n)": "n"}

FLOATS = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from([None, math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, -0.0]),
)
INTEGERS = st.one_of(
    st.integers(-3, 3), st.sampled_from([None, 2**63 - 1, -(2**63), 2**62, -(2**62)])
)
ROWS = st.lists(
    st.tuples(st.integers(-2, 12), st.sampled_from(["a", "b", None]), FLOATS, INTEGERS),
    min_size=1,
    max_size=14,
)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), ROWS),
        st.tuples(st.just("append"), ROWS),
        st.tuples(st.sampled_from(["merge files", "merge runs", "declare", "index", "repair"])),
        st.tuples(st.just("delete"), st.integers(0, 12)),
    ),
    min_size=1,
    max_size=7,
)
BOUNDS = st.one_of(
    st.none(),
    st.integers(-4, 4),
    st.sampled_from([0.5, -0.5, math.inf, -math.inf, 1e300, 2**62, -(2**63), 2**63 - 1, 2**70]),
)
RANGES = st.lists(st.builds(KeyRange, BOUNDS, BOUNDS, st.booleans(), st.booleans()), max_size=2)


@dataclass(frozen=True)
class Case:
    """A stream to make, what happens to it, and what it is asked."""

    keyed: bool
    declared: bool
    indexed: bool
    file_events: int
    least_events: int
    memtable_events: int
    operations: list[tuple[Any, ...]]
    ranges: list[list[KeyRange]]


CASES = st.builds(
    Case,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3, 8, 64]),
    st.sampled_from([0, 4, 100]),
    st.sampled_from([0, 1000]),
    OPERATIONS,
    st.lists(RANGES, min_size=1, max_size=3),
)


class Model:
    """The stream as a plain list, and the operations on both."""

    def __init__(self, path: Path, case: Case) -> None:
        self.case = case
        self.store = create_store(path / "store")
        self.rows: list[Row] = []
        self.versions: dict[int, list[Row]] = {}
        self.n_arrived = 0
        settings = StreamSettings(
            time="t",
            block_events=2,
            file_events=case.file_events,
            fan_out=2,
            key="k" if case.keyed else None,
            derived=tuple(ATTRIBUTES) if case.declared else (),
        )
        self.stream: Stream = self.store.create_stream("s", SCHEMA, settings)
        if case.indexed:
            self.apply("index")

    def apply(self, name: str, *given: Any) -> None:
        writer = writer_for(self.stream, least_events=self.case.least_events)
        if name == "append":
            rows = [self._row(*row) for row in given[0]]
            self.stream.append(pa.Table.from_pylist(rows, schema=SCHEMA), derived=writer)
            self.rows = sorted([*self.rows, *rows], key=lambda row: row["t"])
        elif name == "delete":
            delete_range(self.stream, given[0], given[0] + 3, derived=writer)
            self.rows = [row for row in self.rows if not given[0] <= row["t"] < given[0] + 3]
        elif name == "merge files":
            compact_events(self.stream, derived=writer, full=True)
        elif name == "merge runs":
            compact_index(self.stream, full=True)
        elif name == "declare":
            add_derived(self.stream, list(ATTRIBUTES))
        elif name == "index":
            create_index(self.stream, list(ATTRIBUTES), least_events=self.case.least_events)
        else:
            repair_store(self.store, derived=writer)
        self.versions[self.stream.refresh()] = self.rows

    def look_at(self, version: int) -> Snapshot:
        """Return an older version, and be what the stream was then."""
        self.rows = self.versions[version]
        return self.stream.snapshot(version)

    def _row(self, t: int, k: str | None, x: float | None, n: int | None) -> Row:
        self.n_arrived += 1
        return {"t": t, "k": k, "x": x, "n": n, "arrival": self.n_arrived}

    def before(self) -> list[int | None]:
        """Place of the event before each, of its object."""
        last: dict[object, int] = {}
        found: list[int | None] = []
        for i, row in enumerate(self.rows):
            name = row["k"] if self.case.keyed else 0
            found.append(last.get(name))
            last[name] = i
        return found

    def values(self, source: str) -> list[Value]:
        """True difference of each event; None if there is none."""
        return [
            None if b is None else difference(row[source], self.rows[b][source])
            for row, b in zip(self.rows, self.before(), strict=True)
        ]

    def open(self, source: str, snapshot: Snapshot) -> list[bool]:
        """Whether the data file of each event does not tell its difference."""
        files = [i for i, file in enumerate(snapshot.files) for _ in range(file.n_events)]
        found = []
        for i, (row, b) in enumerate(zip(self.rows, self.before(), strict=True)):
            if not usable(row[source]):
                found.append(False)
            elif b is None or files[b] != files[i]:
                found.append(True)
            else:
                earlier = self.rows[b][source]
                found.append(usable(earlier) and not fits(difference(row[source], earlier)))
        return found


def usable(value: Value) -> bool:
    return value is not None and not math.isnan(value)


def difference(value: Value, earlier: Value) -> Value:
    if value is None or earlier is None or not (usable(value) and usable(earlier)):
        return None
    return value - earlier


def fits(value: Value) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**63 - 1
    return value is not None and math.isfinite(value)


def lies_in(value: Value, ranges: list[KeyRange]) -> bool:
    return usable(value) and any(admits(r, value) for r in ranges)


def check_lookups(model: Model, snapshot: Snapshot) -> None:
    indexes = open_indexes(snapshot)
    assert not indexes.faults
    for attribute in indexes.attributes:
        source = ATTRIBUTES[attribute]
        values, is_open = model.values(source), model.open(source, snapshot)
        index = indexes.index(attribute)
        for ranges in model.case.ranges:
            wanted = KeyRanges.of(ranges)
            inside = [lies_in(value, ranges) for value in values]
            expected = [
                i for i, (o, yes) in enumerate(zip(is_open, inside, strict=True)) if o or yes
            ]
            found = index.lookup(wanted).seq.tolist()
            assert found == ([] if wanted.is_empty() else expected), (attribute, str(wanted))
            least, most = index.estimate_count(wanted)
            assert least <= sum(inside)
            assert max(sum(inside), len(found)) <= most


def check_bounds(model: Model, snapshot: Snapshot) -> None:
    for attribute in snapshot.settings.derived:
        source = ATTRIBUTES[attribute]
        values, is_open = model.values(source), model.open(source, snapshot)
        bounds = snapshot.bounds(attribute)
        level = snapshot.level(0, attribute).attribute
        opened = snapshot.level(0, f"open({attribute})").attribute
        for block, (start, stop) in enumerate(itertools.pairwise(snapshot.bases.tolist())):
            assert level is not None
            assert opened is not None
            told = [
                value
                for value, o in zip(values[start:stop], is_open[start:stop], strict=True)
                if value is not None and not o
            ]
            assert opened.null_count[block] == sum(is_open[start:stop])
            assert level.n_values[block] == len(told)
            if told:
                assert (level.minimum[block], level.maximum[block]) == (min(told), max(told))
            if bounds.known[block]:
                assert not any(is_open[start:stop])
                assert bounds.minimum[block].as_py() == min(told, default=None)
                assert bounds.maximum[block].as_py() == max(told, default=None)
            elif model.case.declared or model.case.indexed:
                assert any(is_open[start:stop])


def run(case: Case, path: Path) -> None:
    model = Model(path, case)
    for name, *given_ in case.operations:
        model.apply(name, *given_)
    clear_caches()
    snapshot = model.stream.snapshot()
    assert snapshot.n_events == len(model.rows)
    check_lookups(model, snapshot)
    check_bounds(model, snapshot)
    fresh = open_store(model.store.path).stream("s").snapshot()
    check_bounds(model, fresh)
    for version in model.versions:
        old = model.look_at(version)
        check_lookups(model, old)
        check_bounds(model, old)
    findings = check_store(model.store, deep=True, derived_checks=(check_runs,))
    assert [f for f in findings if f.severity is Severity.FAULT] == []


@given(CASES)
@settings(max_examples=25)
def test_index_and_tree_say_what_the_events_in_their_order_say(case: Case):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexing.tail, "MEMTABLE_EVENTS", case.memtable_events)
        patch.setattr(indexing.tail, "SCAN_EVENTS", 3)
        run(case, Path(folder))
