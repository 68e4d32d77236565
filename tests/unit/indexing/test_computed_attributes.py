"""Indexes on several columns together and on derived attributes, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chronicle import StreamSettings, create_store, open_store
from chronicle.errors import SchemaError
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.finding import Severity
from chronicle.schema import composite_parts
from chronicle.store import Stream
from chronicle.write.evolve import add_column, add_derived
from chronicle.write.lifecycle import rename_stream
from indexing import IndexingError, KeyRange, KeyRanges, RunWriter, UnknownIndexError
from indexing.attributes import indexed_field
from indexing.check import ENTRIES, check_runs
from indexing.composite import composite_ranges, parse_composite
from indexing.index import Index, clear_caches, open_indexes
from indexing.keys import KeyKind, key_kind
from indexing.lifecycle import create_index, drop_index, list_indexes
from indexing.run import open_run
from indexing.writer import writer_for

SCHEMA = pa.schema(
    [("t", pa.int64()), ("k", pa.string()), ("kind", pa.string()), ("beat", pa.int32())]
)
NAME = "beat+kind"


def table(*rows: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)


EVENTS = table(
    (0, "p", "ROBBERY", 35), (1, "q", "THEFT", 35), (2, "p", "ROBBERY", 8), (3, "q", None, 35),
    (4, "p", "ROBBERY", None), (5, "q", "ROBBERY", 35), (6, "p", "ARSON", 35), (7, "q", "THEFT", 9),
)  # fmt: skip


# Of a: 5, 6, 4, 4; of b: 50, 40, 60, null.
SPEEDS = table(
    (0, "a", 5.0), (1, "b", 50.0), (2, "a", 6.0), (3, "b", 40.0),
    (4, "a", 4.0), (5, "b", 60.0), (6, "a", 4.0), (7, "b", None),
    schema=pa.schema([("t", pa.int64()), ("k", pa.string()), ("speed", pa.float64())]),
)  # fmt: skip


def empty_stream(folder: Path, schema: pa.Schema, *, key: str | None = "k") -> Stream:
    settings = StreamSettings(time="t", key=key, block_events=2, file_events=64)
    return create_store(folder / "store").create_stream("s", schema, settings)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    stream = empty_stream(tmp_path, SCHEMA)
    stream.append(EVENTS)
    return stream


@pytest.fixture
def speed_stream(tmp_path: Path) -> Stream:
    stream = empty_stream(tmp_path, SPEEDS.schema)
    stream.append(SPEEDS)
    return stream


def index_of(stream: Stream, name: str = NAME, version: int | None = None) -> Index:
    clear_caches()
    return open_indexes(stream.snapshot(version)).index(name)


def ranges(*parts: KeyRange | None, name: str = NAME) -> KeyRanges:
    kinds = [key_kind(SCHEMA.field(part).type, part) for part in name.split("+")]
    asked = [None if part is None else KeyRanges((part,)) for part in parts]
    found = composite_ranges(kinds, [*asked, *[None] * (len(kinds) - len(asked))])
    assert found is not None
    return found[0]


ROBBERY_IN_35 = ranges(KeyRange(35, 35), KeyRange("ROBBERY", "ROBBERY"))
UP_TO_R_IN_35 = ranges(KeyRange(35, 35), KeyRange(None, "R", high_closed=False))
IN_35 = ranges(KeyRange(35, 35))


def found(
    stream: Stream, asked: KeyRanges = ROBBERY_IN_35, *, version: int | None = None
) -> list[int]:
    seq: list[int] = index_of(stream, version=version).lookup(asked).seq.tolist()
    return seq


def faults_of(stream: Stream) -> list[str]:
    findings = check_stream(stream, deep=True, derived_checks=(check_runs,))
    return [one.invariant for one in findings if one.severity is not Severity.OK]


@pytest.mark.parametrize("least_events", [0, 100], ids=["runs", "tail"])
def test_lookup_finds_the_events_all_of_whose_columns_are_in_range(
    stream: Stream, least_events: int
) -> None:
    [report] = create_index(stream, [NAME], least_events=least_events)
    # Event 4 has no beat and is no entry; event 3 has no kind and is one.
    assert (report.attribute, report.existed) == (NAME, False)
    assert report.n_entries == (7 if least_events == 0 else 0)
    assert found(stream) == [0, 5]
    assert found(stream, UP_TO_R_IN_35) == [6]
    assert found(stream, IN_35) == [0, 1, 3, 5, 6]
    assert found(stream, ranges(KeyRange(8, 9))) == [2, 7]
    assert index_of(stream).estimate_count(ROBBERY_IN_35)[1] >= 2


def test_older_version_answers_from_the_same_runs(stream: Stream) -> None:
    create_index(stream, [NAME], least_events=0)
    version = stream.snapshot().version
    stream.append(table((1, "q", "ROBBERY", 35)), derived=writer_for(stream, least_events=0))
    assert found(stream) == [0, 2, 6]
    assert found(stream, version=version) == [0, 5]


def test_version_without_one_of_its_columns_has_no_such_index(stream: Stream) -> None:
    before = stream.snapshot().version
    add_column(stream, "lane", "int64")
    create_index(stream, ["lane+kind", NAME], least_events=0)
    assert open_indexes(stream.snapshot()).attributes == (NAME, "lane+kind")
    assert open_indexes(stream.snapshot(before)).attributes == (NAME,)
    # No event has a lane, so none has a key; the runs say so.
    [described] = [d for d in list_indexes(stream.snapshot()) if d.attribute == "lane+kind"]
    assert (described.n_runs, described.n_entries, described.n_tail_events) == (1, 0, 0)


@pytest.mark.parametrize("name", ["kind", "kind+beat"])
def test_check_takes_no_offence_at_long_texts_that_begin_alike(tmp_path: Path, name: str) -> None:
    stream = empty_stream(tmp_path, SCHEMA)
    kinds = ["ab" * 200 + end for end in ("", "c", "", "d", "c", "", "e", "d")]
    alike = EVENTS.set_column(2, "kind", pa.array(kinds))
    stream.append(alike, derived=RunWriter((name,), "t", key="k", fence_entries=2))
    asked = KeyRange(kinds[1], kinds[3])
    found = ranges(asked, name=name) if "+" in name else KeyRanges((asked,))
    assert index_of(stream, name).lookup(found).seq.tolist() == [1, 3, 4, 7]
    assert faults_of(stream) == []


def test_dropped_and_made_again_under_every_order_of_its_columns(stream: Stream) -> None:
    create_index(stream, [NAME, "kind+beat", "beat"], least_events=0)
    assert open_indexes(stream.snapshot()).attributes == ("beat", NAME, "kind+beat")
    asked = ranges(KeyRange("ROBBERY", "ROBBERY"), KeyRange(30, None), name="kind+beat")
    assert index_of(stream, "kind+beat").lookup(asked).seq.tolist() == [0, 5]
    assert drop_index(stream, NAME) > 0
    with pytest.raises(UnknownIndexError, match=r"no index on 'beat\+kind'.*mean 'kind\+beat'"):
        index_of(stream)
    with pytest.raises(UnknownIndexError, match=r"beat\+kind"):
        drop_index(stream, NAME)
    create_index(stream, [NAME], least_events=0)
    assert found(stream) == [0, 5]


def test_stream_can_be_renamed_with_it(stream: Stream) -> None:
    create_index(stream, [NAME], least_events=0)
    assert found(rename_stream(open_store(stream.path.parent), "s", "other")) == [0, 5]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        pytest.param("beet+kind", "no column 'beet' .*did you mean 'beat'", id="unknown"),
        pytest.param("beat+", "no column ''", id="empty"),
        pytest.param("beat+kind+beat", "'beat' twice", id="twice"),
        pytest.param("t+k+kind+beat+x", "names 5 columns; at most 4", id="five"),
        pytest.param("beat+delta(beat)", r"'delta\(beat\)' is derived", id="derived"),
        pytest.param("delta(t)+delta(beat)", r"'delta\(t\)' is derived", id="all-derived"),
        pytest.param("beat+a+c", r"column 'a\+c' has the sign '\+' in its name", id="holds-a-plus"),
        pytest.param("beat+kind+c", "no column 'c'", id="part-of-another"),
        pytest.param("beat+price", "'price' of type DECIMAL.* cannot be indexed", id="no-order"),
    ],
)
def test_what_cannot_be_indexed_together_is_refused(
    stream: Stream, attribute: str, message: str
) -> None:
    add_column(stream, "x", "int64")
    add_column(stream, "price", pa.decimal128(9, 2))
    add_column(stream, "a+c", "int64")
    for refused in (
        lambda: create_index(stream, [attribute]),
        lambda: RunWriter((attribute,), "t").tables(stream.schema),
    ):
        with pytest.raises(IndexingError, match=message):
            refused()
    assert list_indexes(stream.snapshot()) == []
    assert stream.settings.derived == ()


def test_derived_attribute_of_a_column_with_a_plus_is_no_composite() -> None:
    schema = pa.schema([("t", pa.int64()), ("a+b", pa.int64())])
    assert indexed_field(schema, "delta(a+b)") == pa.field("delta(a+b)", pa.int64())
    with pytest.raises(SchemaError, match=r"no column 'a\+c'.*mean 'a\+b'"):
        indexed_field(schema, "delta(a+c)")


def test_column_of_that_very_name_comes_first(tmp_path: Path) -> None:
    schema = pa.schema([(name, pa.int64()) for name in ("t", "a", "b", "a+b")])
    stream = empty_stream(tmp_path, schema, key=None)
    stream.append(pa.table({"t": [0, 1], "a": [1, 1], "b": [2, 2], "a+b": [3, 4]}, schema=schema))
    create_index(stream, ["a+b", "b+a"], least_events=0)
    assert index_of(stream, "a+b").lookup(KeyRanges((KeyRange(4, 4),))).seq.tolist() == [1]
    assert index_of(stream, "b+a").n_entries == 2


def test_no_column_can_be_added_that_would_take_its_name(stream: Stream) -> None:
    with pytest.raises(SchemaError, match=r"index on beat and kind together"):
        add_column(stream, NAME, "string")
    add_column(stream, "beat+lane", "string")  # there is no lane to be indexed with
    add_column(stream, "lane", "int64")
    assert parse_composite(stream.schema.names, "beat+lane") is None
    assert composite_parts(stream.schema.names, "beat+lane") is None


def test_its_runs_hold_strings(stream: Stream) -> None:
    create_index(stream, [NAME], least_events=0)
    runs = sorted((stream.path / "index" / NAME).glob("*.parquet"))
    assert {open_run(path).kind for path in runs} == {KeyKind.STRING}


DELTA = "delta(speed)"
ABOVE_ZERO = KeyRanges((KeyRange(low=0, low_closed=False),))


def test_index_on_a_derived_attribute_declares_it(speed_stream: Stream):
    [report] = create_index(speed_stream, ["delta( speed )"], least_events=0)
    assert (report.attribute, report.existed, report.n_entries) == (DELTA, False, 7)
    assert speed_stream.settings.derived == (DELTA,)
    assert [index.attribute for index in list_indexes(speed_stream.snapshot())] == [DELTA]


def test_dropped_index_leaves_the_attribute_declared(speed_stream: Stream):
    create_index(speed_stream, [DELTA], least_events=0)
    drop_index(speed_stream, DELTA)
    assert open_indexes(speed_stream.snapshot()).attributes == ()
    assert speed_stream.settings.derived == (DELTA,)
    with pytest.raises(UnknownIndexError):
        drop_index(speed_stream, DELTA)


def test_what_cannot_be_derived_is_refused_before_anything_is_made(speed_stream: Stream):
    with pytest.raises(SchemaError, match="column 'k' is STRING"):
        create_index(speed_stream, ["speed", "delta(k)"])
    assert speed_stream.settings.derived == ()
    assert open_indexes(speed_stream.snapshot()).attributes == ()


def test_runs_without_objects_of_a_stream_with_a_key_pass_a_deep_check(tmp_path: Path):
    stream = empty_stream(tmp_path, SPEEDS.schema)
    add_derived(stream, [DELTA])
    stream.append(SPEEDS, derived=RunWriter((DELTA,), "t"))
    assert index_of(stream, DELTA).lookup(ABOVE_ZERO).seq.tolist() == [0, 1, 2, 5]
    assert faults_of(stream) == []


def test_runs_of_other_values_are_found_by_a_deep_check(speed_stream: Stream):
    add_derived(speed_stream, [DELTA])
    create_index(speed_stream, [DELTA], least_events=0)
    [file] = speed_stream.snapshot().files
    # As many entries as there should be, one of another value: 21 instead of 20.
    wrong = pa.array([float("inf"), float("inf"), 1.0, -10.0, -2.0, 21.0, 0.0, None])
    values = SPEEDS.append_column(DELTA, wrong)
    times = SPEEDS.column("t").combine_chunks()
    RunWriter((DELTA,), "t", key="k").write(speed_stream.path, file.name, values, times, [2] * 4)
    assert ENTRIES in faults_of(speed_stream)
