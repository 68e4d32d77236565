"""Indexes on derived attributes, on a stream small enough to work out by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from chronicle import StreamSettings, create_store
from chronicle.errors import SchemaError
from chronicle.maintenance.check import check_store
from chronicle.maintenance.finding import Severity
from chronicle.store import Stream
from chronicle.write.evolve import add_derived
from indexing import KeyRange, KeyRanges
from indexing.check import ENTRIES, check_runs
from indexing.errors import UnknownIndexError
from indexing.index import Index, clear_caches, open_indexes
from indexing.lifecycle import create_index, drop_index, list_indexes
from indexing.writer import RunWriter

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("speed", pa.float64())])
NAME = "delta(speed)"
ABOVE_ZERO = KeyRanges((KeyRange(low=0, low_closed=False),))


def table(*rows: tuple[int, str, float | None]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


# Of a: 5, 6, 4, 4; of b: 50, 40, 60, null.
EVENTS = table(
    (0, "a", 5.0), (1, "b", 50.0), (2, "a", 6.0), (3, "b", 40.0),
    (4, "a", 4.0), (5, "b", 60.0), (6, "a", 4.0), (7, "b", None),
)  # fmt: skip


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    store = create_store(tmp_path / "store")
    settings = StreamSettings(time="t", key="k", block_events=2, file_events=64)
    return store.create_stream("s", SCHEMA, settings)


def index_of(stream: Stream) -> Index:
    clear_caches()
    return open_indexes(stream.snapshot()).index(NAME)


def found(stream: Stream, ranges: KeyRanges) -> list[int]:
    seq: list[int] = index_of(stream).lookup(ranges).seq.tolist()
    return seq


def test_index_on_a_derived_attribute_declares_it(stream: Stream):
    stream.append(EVENTS)
    [report] = create_index(stream, ["delta( speed )"], least_events=0)
    assert (report.attribute, report.existed, report.n_entries) == (NAME, False, 7)
    assert stream.settings.derived == (NAME,)
    assert [index.attribute for index in list_indexes(stream.snapshot())] == [NAME]


def test_dropped_index_leaves_the_attribute_declared(stream: Stream):
    stream.append(EVENTS)
    create_index(stream, [NAME], least_events=0)
    drop_index(stream, NAME)
    assert open_indexes(stream.snapshot()).attributes == ()
    assert stream.settings.derived == (NAME,)
    with pytest.raises(UnknownIndexError):
        drop_index(stream, NAME)


def test_what_cannot_be_derived_is_refused_before_anything_is_made(stream: Stream):
    with pytest.raises(SchemaError, match="column 'k' is STRING"):
        create_index(stream, ["speed", "delta(k)"])
    assert stream.settings.derived == ()
    assert open_indexes(stream.snapshot()).attributes == ()


def test_runs_without_objects_of_a_stream_with_a_key_pass_a_deep_check(stream: Stream):
    add_derived(stream, [NAME])
    stream.append(EVENTS, derived=RunWriter((NAME,), "t"))
    assert found(stream, ABOVE_ZERO) == [0, 1, 2, 5]
    findings = check_store(stream.path.parent, deep=True, derived_checks=(check_runs,))
    assert [finding for finding in findings if finding.severity is Severity.FAULT] == []


def test_runs_of_other_values_are_found_by_a_deep_check(stream: Stream):
    stream.append(EVENTS)
    add_derived(stream, [NAME])
    create_index(stream, [NAME], least_events=0)
    [file] = stream.snapshot().files
    # As many entries as there should be, one of another value: 21 instead of 20.
    wrong = pa.array([float("inf"), float("inf"), 1.0, -10.0, -2.0, 21.0, 0.0, None])
    values = EVENTS.append_column(NAME, wrong)
    times = EVENTS.column("t").combine_chunks()
    RunWriter((NAME,), "t", key="k").write(stream.path, file.name, values, times, [2] * 4)
    findings = check_store(stream.path.parent, deep=True, derived_checks=(check_runs,))
    faults = {finding.invariant for finding in findings if finding.severity is Severity.FAULT}
    assert faults == {ENTRIES}
