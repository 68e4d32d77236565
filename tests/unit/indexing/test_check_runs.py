"""Checks and repair of runs: what is whole passes, each kind of damage is found and mended."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle import StreamSettings, create_store, open_store
from chronicle.log import delta_log
from chronicle.maintenance.check import COMMITTED, check_stream
from chronicle.maintenance.finding import Severity
from chronicle.maintenance.repair import repair_stream
from chronicle.store import Stream
from indexing import KeyRange, KeyRanges, RunWriter, open_indexes
from indexing.check import COVER, COVERED, ENTRIES, WHOLE, check_runs
from indexing.entries import Entries, GroupWords
from indexing.kway_merge import merge_runs
from indexing.run import open_run
from indexing.run_format import RunFileWriter
from tests.helpers import commit_table
from tests.unit.indexing.doubles import flip_byte

SCHEMA = pa.schema(
    [("t", pa.int64()), ("price", pa.float64()), ("venue", pa.string()), ("n", pa.int32())]
)
ATTRIBUTES = ("n", "price", "venue")


def _events(first: int, stop: int) -> pa.Table:
    rows = range(first, stop)
    return pa.table(
        {
            "t": [i // 3 for i in rows],
            "price": [None if i % 11 == 0 else (-0.0, 2.5, 7.0, -1.0)[i % 4] for i in rows],
            "venue": [None if i % 13 == 0 else f"v{(i * 7) % 9}" for i in rows],
            "n": [(i * 5) % 17 for i in rows],
        },
        schema=SCHEMA,
    )


def _append(stream: Stream, table: pa.Table, *, fence_entries: int = 8) -> None:
    commit_table(stream, table, derived=_writer(stream, fence_entries=fence_entries))


def _writer(stream: Stream, *, fence_entries: int = 8) -> RunWriter:
    key = stream.settings.key
    return RunWriter(ATTRIBUTES, "t", key=key, fence_entries=fence_entries)


def _make(folder: Path, tables: list[pa.Table], *, key: str | None = None) -> Stream:
    options = StreamSettings(time="t", block_events=16, file_events=50, key=key)
    stream = create_store(folder / "store").create_stream("ticks", SCHEMA, options)
    for table in tables:
        _append(stream, table)
    return stream


@pytest.fixture(scope="module", params=[None, "venue", "n"], ids=["no key", "text", "integer"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """Make a stream with each kind of key, to be copied."""
    folder = tmp_path_factory.mktemp("made")
    return _make(folder, [_events(0, 50), _events(50, 120)], key=request.param)


@pytest.fixture
def stream(made: Stream, tmp_path: Path) -> Stream:
    """Copy a stream of two appends; of one kind of key where ``made`` is given one."""
    return open_store(shutil.copytree(made.path.parent, tmp_path / "store")).stream("ticks")


def _broken(stream: Stream, *, deep: bool = False) -> list[tuple[str, str, str]]:
    found = check_stream(stream.path, deep=deep, derived_checks=[check_runs])
    return [(f.severity, f.invariant, f.file) for f in found if f.severity is not Severity.OK]


def _names(stream: Stream) -> list[str]:
    return [file.name for file in stream.snapshot().files]


def _list_run(stream: Stream, name: str, size_bytes: int, n_rows: int) -> None:
    """Have the log of the index on n say that a run is of this size."""
    found = delta_log.new_files([(name, size_bytes, n_rows)])
    delta_log.commit_changes(stream.path / "index/n", add=found, read_version=None, metadata={})


def _write_other(stream: Stream, table: pa.Table) -> str:
    """Write the run of n of the first data file from other events; return its name."""
    name = _names(stream)[0]
    writer = RunWriter(("n",), "t", key=stream.settings.key, fence_entries=8)
    times = table["t"].combine_chunks()
    [written] = writer.write(stream.path, name, table, times, [table.num_rows])
    _list_run(stream, name, written.size_bytes, written.n_rows)
    return name


def _found(stream: Stream, attribute: str, r: KeyRange) -> list[int]:
    return open_indexes(stream.snapshot()).index(attribute).lookup(KeyRanges.of([r])).seq.tolist()


def test_whole_runs_have_one_ok_per_invariant(stream: Stream):
    for deep in (False, True):
        found = check_stream(stream.path, deep=deep, derived_checks=[check_runs])
        assert {f.severity for f in found} == {Severity.OK}
        of_runs = {f.invariant: f.what for f in found if " runs of " in f.what}
        assert of_runs.keys() == {WHOLE, COVER, COVERED, *([ENTRIES] if deep else [])}
        # 50 events in one file, 70 in two: three files, each with a run in three indexes.
        assert set(of_runs.values()) == {"9 runs of 3 indexes"}


_rows = st.tuples(
    st.integers(0, 3),
    st.one_of(st.none(), st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1.5])),
    st.one_of(st.none(), st.text("aÄ😀", max_size=2)),
    st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
)


@settings(max_examples=15)
@given(rows=st.lists(_rows, max_size=60), key=st.sampled_from([None, "venue", "n"]))
def test_whatever_is_indexed_passes_a_deep_check(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]], key: str | None
):
    columns = list(zip(*rows, strict=True)) if rows else [()] * 4
    times = np.cumsum(np.array(columns[0], np.int64))
    table = pa.table([pa.array(times), *(list(c) for c in columns[1:])], SCHEMA.names)
    stream = _make(tmp_path_factory.mktemp("runs"), [table.cast(SCHEMA)], key=key)
    assert _broken(stream, deep=True) == []


def _of_another_size(stream: Stream, path: Path) -> None:
    _list_run(stream, path.name, path.stat().st_size + 1, 50)


def _of_another_attribute(stream: Stream, path: Path) -> None:
    shutil.copy(path.parent.parent / "price" / path.name, path)
    _list_run(stream, path.name, path.stat().st_size, 50)


@pytest.mark.parametrize(
    ("made", "harm", "invariant"),
    [
        *(
            pytest.param(key, lambda _, path, at=at: flip_byte(path, at), WHOLE, id=f"byte {at}")
            for key, at in ((None, 4), ("venue", 60), ("n", -100), (None, -4))
        ),
        pytest.param("venue", lambda _, path: path.unlink(), WHOLE, id="missing"),
        pytest.param("n", _of_another_size, WHOLE, id="of another size than the log says"),
        pytest.param("venue", _of_another_attribute, WHOLE, id="of another attribute"),
        pytest.param(
            "n", lambda stream, _: _write_other(stream, _events(0, 40)), COVER, id="of fewer events"
        ),
    ],
    indirect=["made"],
)
def test_damage_of_a_run_is_found_changes_no_answer_and_is_repaired(
    stream: Stream, harm: Callable[[Stream, Path], object], invariant: str
):
    expected = _found(stream, "n", KeyRange(2, 8))
    name = _names(stream)[0]
    harm(stream, stream.path / "index/n" / name)
    assert _broken(stream) == [("fault", invariant, f"ticks/index/n/{name}")]
    assert _found(stream, "n", KeyRange(2, 8)) == expected
    report = repair_stream(stream.path, derived=_writer(stream), derived_checks=[check_runs])
    assert report.n_written == 1
    assert report.left == ()
    assert _broken(stream, deep=True) == []
    assert _found(stream, "n", KeyRange(2, 8)) == expected


@pytest.mark.parametrize(
    ("column", "values"),
    [("n", [(i * 5) % 16 for i in range(50)]), ("t", [i // 2 for i in range(50)])],
    ids=["values", "times"],
)
def test_a_run_of_other_events_is_found_by_a_deep_check_alone(
    stream: Stream, column: str, values: list[int]
):
    field = SCHEMA.field(column)
    other = pa.array(values, field.type)
    at = SCHEMA.get_field_index(column)
    name = _write_other(stream, _events(0, 50).set_column(at, field, other))
    assert _broken(stream) == []
    assert _broken(stream, deep=True) == [("fault", ENTRIES, f"ticks/index/n/{name}")]
    repair_stream(stream.path, derived=_writer(stream), derived_checks=[check_runs], deep=True)
    assert _broken(stream, deep=True) == []


def test_entries_that_carry_other_objects_are_found(tmp_path: Path):
    stream = _make(tmp_path, [_events(0, 50)], key="venue")
    name = _write_other(stream, _events(0, 50).set_column(2, "venue", pa.array(["v1"] * 50)))
    assert _broken(stream, deep=True) == [("fault", ENTRIES, f"ticks/index/n/{name}")]


@pytest.mark.parametrize(
    ("groups", "fences", "what"),
    [
        ([[0, 1], [2, 3]], [(0, 1), (2, 2)], "keys of its groups are not in order"),
        ([[0, 1], [2, 3]], [(0, 1), (4, 3)], "its fences do not ascend"),
        ([[2, 3], [0, 1]], [(2, 3), (0, 1)], "its fences do not ascend"),
        ([[1, 0], [2, 3]], [(0, 1), (2, 3)], "entries of its groups are not in the order"),
        ([[0, 1], [2, 4]], [(0, 1), (2, 4)], "are not in the order of events, or of none"),
    ],
)
def test_fences_and_order_that_a_run_does_not_keep_are_found(
    tmp_path: Path, groups: list[list[int]], fences: list[tuple[int, int]], what: str
):
    # Four events whose value is their position.
    table = pa.table({"t": range(4), "price": [0.0] * 4, "venue": ["v"] * 4, "n": range(4)})
    stream = _make(tmp_path, [table.cast(SCHEMA)])
    [name] = _names(stream)
    path = stream.path / "index/n" / name
    head = open_run(path).head
    writer = RunFileWriter(path, head)
    for rows, (low, high) in zip(groups, fences, strict=True):
        words, cuts = sorted(rows), np.array([0, 2])
        codes = np.array([words.index(row) for row in rows], np.uint16)
        keys = GroupWords(codes, pa.array(words), cuts, cuts)
        writer.append(Entries(keys, np.array([0, 1]), np.array(rows)))
        writer._low[-1], writer._high[-1] = low, high
    writer.finish()
    _list_run(stream, name, path.stat().st_size, 4)
    assert _broken(stream) == [("fault", WHOLE, f"ticks/index/n/{name}")]
    assert any(what in f.what for f in check_stream(stream.path, derived_checks=[check_runs]))


def test_a_merged_run_passes_and_its_lost_data_files_are_said_plainly(stream: Stream):
    names = _names(stream)
    target = f"{'0' * 32}.parquet"
    merged = merge_runs(stream.path, "n", names, live=names, target=target)
    delta_log.commit_changes(
        stream.path / "index/n",
        add=delta_log.new_files([(target, merged.size_bytes, merged.n_rows)]),
        remove=names,
        read_version=None,
        metadata={},
    )
    assert _broken(stream, deep=True) == []
    (stream.path / "events/_delta_log" / f"{2:020d}.json").unlink()
    # With their tree entries gone too, the run alone remembers the files.
    delta_log.commit_changes(stream.path / "tree", remove=names[1:], read_version=None, metadata={})
    for attribute in ("price", "venue"):
        shutil.rmtree(stream.path / "index" / attribute)
    found = check_stream(stream.path, derived_checks=[check_runs])
    lost = {f.file for f in found if f.invariant == COMMITTED and f.severity is Severity.FAULT}
    assert lost == {f"ticks/events/{name}" for name in names[1:]}


def test_a_large_file_without_a_run_is_a_warning(stream: Stream, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("indexing.check.TAIL_FILE_EVENTS", 50)
    # Files of 50, 50 and 20 events: the last one is small enough to be answered from memory.
    names = _names(stream)
    for name in names[1:]:
        delta_log.commit_changes(
            stream.path / "index/n", remove=[name], read_version=None, metadata={}
        )
    assert _broken(stream) == [("warning", COVERED, "ticks/index/n")]


def test_an_index_whose_log_is_damaged_is_put_anew(stream: Stream):
    expected = _found(stream, "n", KeyRange(3, 9))
    log = stream.path / "index/n/_delta_log" / f"{1:020d}.json"
    log.write_text("")
    repair_stream(stream.path, derived=_writer(stream), derived_checks=[check_runs])
    assert _broken(stream, deep=True) == []
    assert _found(stream, "n", KeyRange(3, 9)) == expected
