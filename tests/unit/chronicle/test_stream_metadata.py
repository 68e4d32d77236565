"""The file that names a stream's derived attributes, and streams that follow it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from chronicle import Store, StreamSettings, create_store, describe_stream, open_store
from chronicle.errors import SchemaError, StorageError, StreamExistsError
from chronicle.log.stream_metadata import StreamMetadata, add_metadata, drop_metadata, read_metadata
from chronicle.maintenance.check import DECLARED, check_store
from chronicle.maintenance.finding import Severity
from chronicle.maintenance.repair import repair_store
from chronicle.store import Stream
from chronicle.write.block_writer import write_tree
from chronicle.write.commit import complete_derived
from chronicle.write.evolve import add_column, add_derived

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64()), ("n", pa.int64())])
EVENTS = pa.table({"t": [0, 1, 2, 3], "x": [1.0, 4.0, 2.0, 9.0], "n": [0, 0, 0, 5]}, schema=SCHEMA)


def make(path: Path, *derived: str) -> tuple[Store, Stream]:
    store = create_store(path / "store")
    settings = StreamSettings(time="t", block_events=2, derived=derived)
    return store, store.create_stream("s", SCHEMA, settings)


def named(store: Store) -> list[str]:
    found = json.loads((store.path / "s" / "attributes.json").read_text())
    assert (list(found), found["tables"]) == (["derived", "tables"], [])
    names: list[str] = found["derived"]
    return names


def test_new_stream_names_what_it_derives(tmp_path: Path):
    store, stream = make(tmp_path, "delta( x )")
    assert named(store) == ["delta(x)"]
    assert stream.settings.derived == ("delta(x)",)
    assert ("derived", "delta(x)") in describe_stream(stream.snapshot()).lines()


def test_stream_without_derived_attributes_has_no_file(tmp_path: Path):
    store, stream = make(tmp_path)
    assert not (store.path / "s" / "attributes.json").exists()
    assert ("derived", "none") in describe_stream(stream.snapshot()).lines()


def test_stream_that_exists_keeps_its_own(tmp_path: Path):
    store, _ = make(tmp_path, "delta(x)")
    settings = StreamSettings(time="t", derived=("delta(n)",))
    with pytest.raises(StreamExistsError):
        store.create_stream("s", SCHEMA, settings)
    assert named(store) == ["delta(x)"]


def test_new_stream_takes_nothing_from_one_that_a_crash_left_half_made(tmp_path: Path):
    store = create_store(tmp_path / "store")
    (store.path / "s").mkdir()
    (store.path / "s" / "attributes.json").write_text('{"derived": ["delta(x)"]}')
    stream = store.create_stream("s", SCHEMA, StreamSettings(time="t"))
    assert stream.settings.derived == ()


def test_stream_cannot_derive_from_what_it_lacks(tmp_path: Path):
    with pytest.raises(SchemaError, match="no column 'y'"):
        make(tmp_path, "delta(y)")
    assert open_store(tmp_path / "store").stream_names() == ()


def test_attribute_declared_later_is_seen_by_streams_opened_before(tmp_path: Path):
    store, stream = make(tmp_path, "delta(x)")
    other = open_store(store.path).stream("s")
    assert add_derived(other, ["delta(n)", "delta(x)"]) == ("delta(n)", "delta(x)")
    stream.refresh()
    assert stream.settings.derived == ("delta(x)", "delta(n)")


def test_attributes_declared_at_once_are_all_kept(tmp_path: Path):
    names = [f"delta(c{i})" for i in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: add_metadata(tmp_path, derived=[name]), names))
    assert sorted(read_metadata(tmp_path).derived) == sorted(names)
    assert [path.name for path in tmp_path.iterdir()] == ["attributes.json"]


def test_tables_are_declared_beside_attributes_and_taken_out_alone(tmp_path: Path):
    add_metadata(tmp_path, derived=["delta(x)"], tables=["index/x", "index/n"])
    add_metadata(tmp_path, tables=["index/x", "index/t"])
    drop_metadata(tmp_path, "index/n")
    drop_metadata(tmp_path, "index/never")
    assert read_metadata(tmp_path) == StreamMetadata(("delta(x)",), ("index/x", "index/t"))


def test_tables_declared_leave_a_stream_that_follows_the_attributes_as_it_is(tmp_path: Path):
    _, stream = make(tmp_path, "delta(x)")
    stream.append(EVENTS)
    before = stream.snapshot()
    add_metadata(stream.path, tables=["index/x"])
    assert stream.snapshot() is before


def test_bounds_are_known_but_for_blocks_with_open_events(tmp_path: Path):
    _, stream = make(tmp_path, "delta(x)")
    stream.append(EVENTS)
    bounds = stream.snapshot().bounds("delta(x)")
    assert bounds.known.tolist() == [False, True]
    assert bounds.minimum.to_pylist() == [None, -2.0]
    assert bounds.maximum.to_pylist() == [None, 7.0]
    assert bounds.n_values.tolist() == [2, 2]


def test_levels_summarise_what_is_known_and_count_what_is_open(tmp_path: Path):
    _, stream = make(tmp_path, "delta(x)")
    stream.append(EVENTS)
    top = stream.snapshot().tree.n_levels - 1
    known = stream.snapshot().level(top, "delta(x)").attribute
    opened = stream.snapshot().level(top, "open(delta(x))").attribute
    assert known is not None
    assert opened is not None
    assert (known.n_values.tolist(), known.minimum.tolist(), known.maximum.tolist()) == (
        [3], [-2.0], [7.0],
    )  # fmt: skip
    assert opened.null_count.tolist() == [1]


def test_files_written_before_have_no_bounds_until_they_are_completed(tmp_path: Path):
    store, stream = make(tmp_path)
    stream.append(EVENTS)
    early = stream.snapshot()
    assert early.bounds("x").known.all()
    add_derived(stream, ["delta(x)"])
    before = stream.snapshot()
    assert before.bounds("delta(x)").known.tolist() == [False, False]
    level = before.level(0, "delta(x)").attribute
    assert level is not None
    assert level.maximum.tolist() == [3.0, 7.0]
    findings = check_store(store, deep=True)
    assert [f.severity for f in findings if f.severity is not Severity.OK] == [Severity.WARNING]
    assert complete_derived(stream, None) == 1
    assert complete_derived(stream, None) == 0
    assert stream.snapshot().bounds("delta(x)").known.tolist() == [False, True]
    # The file under the older snapshots was replaced; it has the same entries and more.
    assert early.bounds("n").maximum.to_pylist() == [0, 5]
    assert before.bounds("n").known.tolist() == [True, True]
    assert (early.faults, before.faults, stream.snapshot().faults) == ((), (), ())
    assert {f.severity for f in check_store(store, deep=True)} == {Severity.OK}


def test_attribute_of_a_column_added_later_is_null_where_the_file_lacks_it(tmp_path: Path):
    _, stream = make(tmp_path, "delta(x)")
    stream.append(EVENTS)
    early = stream.snapshot()
    assert early.faults == ()
    add_column(stream, "y", pa.int64())
    add_derived(stream, ["delta(y)"])
    complete_derived(stream, None)
    bounds = stream.snapshot().bounds("delta(y)")
    assert bounds.known.all()
    assert bounds.n_values.tolist() == [0, 0]
    # Entries of y now stand before those of delta(x) in the file the older snapshot had opened.
    assert early.bounds("delta(x)").maximum.to_pylist() == [None, 7.0]
    assert early.faults == ()


def test_column_cannot_take_the_name_of_a_derived_attribute(tmp_path: Path):
    _, stream = make(tmp_path, "delta(x)")
    for name in ("delta(x)", "open(delta(x))"):
        with pytest.raises(SchemaError, match="take another name"):
            add_column(stream, name, pa.int64())


def test_derived_attribute_has_neither_events_nor_aggregates(tmp_path: Path):
    _, stream = make(tmp_path, "delta(x)")
    stream.append(EVENTS)
    snapshot = stream.snapshot()
    with pytest.raises(SchemaError, match=r"no column 'delta\(x\)'.*derived: delta\(x\)"):
        snapshot.read_blocks(np.arange(1), ["delta(x)"])
    with pytest.raises(SchemaError, match="has no exact aggregates"):
        snapshot.aggregate(None, None, "delta(x)")
    with pytest.raises(SchemaError, match=r"no column 'delta\(n\)'"):
        snapshot.bounds("delta(n)")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"derived": "delta(x)"}',
        '{"derived": [1]}',
        '{"derived": [], "tables": "index/x"}',
    ],
)
def test_damaged_file_is_named_and_costs_no_answer(tmp_path: Path, text: str):
    store, stream = make(tmp_path, "delta(x)")
    stream.append(EVENTS)
    (store.path / "s" / "attributes.json").write_text(text)
    for seen in (stream, open_store(store.path).stream("s")):
        snapshot = seen.snapshot()
        assert snapshot.n_events == 4
        assert snapshot.settings.derived == ()
        [fault] = snapshot.faults
        assert "attributes.json' of derived attributes is damaged" in fault
    faults = [f for f in check_store(store) if f.severity is Severity.FAULT]
    assert [(fault.invariant, fault.file) for fault in faults] == [(DECLARED, "s/attributes.json")]
    [left] = repair_store(store)["s"].left
    assert left.invariant == DECLARED
    with pytest.raises(StorageError, match="is damaged"):
        add_derived(stream, ["delta(x)"])


def test_name_that_fits_no_column_is_a_fault_and_costs_no_answer(tmp_path: Path):
    store, stream = make(tmp_path, "delta(x)")
    stream.append(EVENTS)
    (store.path / "s" / "attributes.json").write_text('{"derived": ["delta(y)"]}')
    snapshot = stream.snapshot()
    assert snapshot.settings.derived == ()
    assert "no column 'y'" in snapshot.faults[0]
    assert any(f.invariant == DECLARED and f.severity is Severity.FAULT for f in check_store(store))


def test_entries_that_events_do_not_give_are_found_and_repaired(tmp_path: Path):
    store, stream = make(tmp_path, "delta(x)")
    stream.append(EVENTS)
    [file] = stream.snapshot().files
    wrong = EVENTS.append_column("delta(x)", pa.array([float("inf"), 3.0, -2.0, 6.0]))
    write_tree(stream.path, file.name, wrong, np.arange(4), [2, 2], stream.settings)
    faults = [f for f in check_store(store, deep=True) if f.severity is Severity.FAULT]
    assert ["'delta(x)'" in fault.what for fault in faults] == [True]
    repair_store(store, deep=True)
    assert {f.severity for f in check_store(store, deep=True)} == {Severity.OK}
    assert open_store(store.path).stream("s").snapshot().bounds("delta(x)").maximum[1].as_py() == 7
