"""Indexes on derived attributes, on a stream small enough to work out by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import indexing.tail
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
from indexing.lifecycle import compact_index, create_index, drop_index, list_indexes
from indexing.writer import RunWriter, writer_for

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("speed", pa.float64())])
NAME = "delta(speed)"
ABOVE_ZERO = KeyRanges((KeyRange(low=0, low_closed=False),))
BELOW_ZERO = KeyRanges((KeyRange(high=0, high_closed=False),))


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


@pytest.mark.parametrize("least_events", [0, 100])
def test_lookup_finds_values_in_range_and_events_that_are_open(stream: Stream, least_events: int):
    stream.append(EVENTS)
    create_index(stream, [NAME], least_events=least_events)
    # The first of each object is open; a then rises by 1, falls by 2, stays; b falls, rises.
    assert found(stream, ABOVE_ZERO) == [0, 1, 2, 5]
    assert found(stream, BELOW_ZERO) == [0, 1, 3, 4]
    assert found(stream, KeyRanges((KeyRange(0, 0),))) == [0, 1, 6]
    assert found(stream, KeyRanges((KeyRange(1000, None),))) == [0, 1]
    assert found(stream, KeyRanges.everything()) == [0, 1, 2, 3, 4, 5, 6]
    assert found(stream, KeyRanges(())) == []


def test_large_tail_file_is_read_as_a_whole(stream: Stream, monkeypatch: pytest.MonkeyPatch):
    stream.append(EVENTS)
    create_index(stream, [NAME], least_events=100)
    monkeypatch.setattr(indexing.tail, "MEMTABLE_EVENTS", 0)
    monkeypatch.setattr(indexing.tail, "SCAN_EVENTS", 2)
    assert found(stream, ABOVE_ZERO) == [0, 1, 2, 5]
    assert index_of(stream).estimate_count(ABOVE_ZERO) == (0, 8)


def test_estimate_counts_open_events_as_possible_only(stream: Stream):
    stream.append(EVENTS)
    create_index(stream, [NAME], least_events=100)
    assert index_of(stream).estimate_count(ABOVE_ZERO) == (2, 4)
    assert index_of(stream).estimate_count(KeyRanges.everything()) == (5, 7)
    assert index_of(stream).estimate_count(KeyRanges(())) == (0, 0)


def test_late_event_corrects_the_one_after_it_in_its_object(stream: Stream):
    stream.append(EVENTS)
    create_index(stream, [NAME], least_events=0)
    late = table((4, "b", 70.0), (4, "a", 3.5))
    stream.append(late, derived=writer_for(stream, least_events=0))
    # t 0a 1b 2a 3b 4a 4b 4a 5b 6a 7b: b rises 40 to 70 and falls to 60, a falls to 3.5 and rises.
    assert found(stream, ABOVE_ZERO) == [0, 1, 2, 5, 8]
    assert found(stream, BELOW_ZERO) == [0, 1, 3, 4, 6, 7]


def test_event_whose_predecessor_lies_in_another_file_is_a_candidate(stream: Stream):
    stream.append(EVENTS)
    create_index(stream, [NAME], least_events=0)
    later = table((8, "a", 1.0), (9, "a", 0.5), (10, "b", 9.0))
    stream.append(later, derived=writer_for(stream, least_events=0))
    assert found(stream, ABOVE_ZERO) == [0, 1, 2, 5, 8, 10]
    compact_index(stream, full=True)
    assert index_of(stream).n_runs == 1
    assert found(stream, ABOVE_ZERO) == [0, 1, 2, 5, 8, 10]
    assert found(stream, BELOW_ZERO) == [0, 1, 3, 4, 8, 9, 10]


def test_dropped_index_leaves_the_attribute_declared(stream: Stream):
    stream.append(EVENTS)
    create_index(stream, [NAME], least_events=0)
    drop_index(stream, NAME)
    assert open_indexes(stream.snapshot()).attributes == ()
    assert stream.settings.derived == (NAME,)
    with pytest.raises(UnknownIndexError):
        drop_index(stream, NAME)


def test_what_cannot_be_derived_is_refused_before_anything_is_made(stream: Stream):
    with pytest.raises(SchemaError, match="column 'k' is string"):
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
