"""Stores and streams are created, opened and listed; whatever is missing is said by name."""

from pathlib import Path

import pyarrow as pa
import pytest

import chronicle
from chronicle import config
from chronicle.errors import (
    FormatVersionError,
    SchemaError,
    StorageError,
    StoreExistsError,
    StoreNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
)
from chronicle.settings import StreamSettings
from chronicle.store import create_store, ensure_store, open_store

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64())])


def test_missing_store_is_also_a_file_not_found(tmp_path: Path):
    with pytest.raises(StoreNotFoundError, match="no Chronicle store at") as caught:
        open_store(tmp_path / "nowhere")
    assert isinstance(caught.value, FileNotFoundError)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreNotFoundError):
        open_store(tmp_path / "file")


def test_marker_that_cannot_be_read_is_said(tmp_path: Path):
    (tmp_path / config.MARKER_FILE).mkdir()
    with pytest.raises(StorageError, match=r"marker file .* cannot be read \(Is a directory\)"):
        open_store(tmp_path)


def test_store_is_not_created_over_anything(tmp_path: Path):
    create_store(tmp_path / "store")
    with pytest.raises(StoreExistsError, match="a store exists"):
        create_store(tmp_path / "store")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.csv").write_text("")
    with pytest.raises(StoreExistsError, match="not an empty folder"):
        create_store(tmp_path / "data")
    with pytest.raises(StoreExistsError, match="not an empty folder"):
        create_store(tmp_path / "data" / "mine.csv")


def test_ensure_store_creates_once(tmp_path: Path):
    ensure_store(tmp_path / "a" / "b").create_stream("x", SCHEMA, StreamSettings("t"))
    assert ensure_store(tmp_path / "a" / "b").stream_names() == ("x",)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('{"format_version": 99}', FormatVersionError),
        ('{"format_version": "new"}', FormatVersionError),
        ("{}", StorageError),
        ("", StorageError),
        ("[1]", StorageError),
    ],
)
def test_marker_of_another_format_or_damaged_is_refused(tmp_path: Path, content, error):
    (tmp_path / config.MARKER_FILE).write_text(content)
    with pytest.raises(error):
        open_store(tmp_path)


def test_unknown_stream_names_the_nearest(tmp_path: Path):
    store = create_store(tmp_path / "s")
    with pytest.raises(StreamNotFoundError, match="streams: none yet"):
        store.stream("crimes")
    store.create_stream("crimes", SCHEMA, StreamSettings("t"))
    with pytest.raises(StreamNotFoundError, match="did you mean 'crimes'"):
        store.stream("crime")
    with pytest.raises(StreamNotFoundError):
        store.stream("../s/crimes")


def test_stream_is_created_once(tmp_path: Path):
    store = create_store(tmp_path / "s")
    stream = store.create_stream("x", SCHEMA, StreamSettings("t"))
    assert store.stream("x") is stream
    with pytest.raises(StreamExistsError, match="append to it"):
        store.create_stream("x", SCHEMA, StreamSettings("t"))


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "-x", "_delta_log"])
def test_stream_names_are_folder_names(tmp_path: Path, name: str):
    with pytest.raises(StorageError, match="cannot be used"):
        create_store(tmp_path / "s").create_stream(name, SCHEMA, StreamSettings("t"))


def test_stream_needs_its_time_column(tmp_path: Path):
    store = create_store(tmp_path / "s")
    with pytest.raises(SchemaError, match=r"no time column 'T'.*did you mean 't'"):
        store.create_stream("x", SCHEMA, StreamSettings("T"))
    with pytest.raises(SchemaError, match="no key column 'k'"):
        store.create_stream("x", SCHEMA, StreamSettings("t", key="k"))
    assert store.stream_names() == ()


def test_other_folders_are_no_streams(tmp_path: Path):
    store = create_store(tmp_path / "s")
    (store.path / "notes").mkdir()
    assert store.stream_names() == ()


def test_stream_left_half_created_is_created_again(tmp_path: Path):
    store = create_store(tmp_path / "s")
    store.create_stream("x", SCHEMA, StreamSettings("t"))
    # The events table is created last; without it there is no stream.
    for file in (store.path / "x" / "events" / "_delta_log").iterdir():
        file.unlink()
    again = open_store(tmp_path / "s")
    assert again.stream_names() == ()
    assert again.create_stream("x", SCHEMA, StreamSettings("t")).snapshot().n_events == 0


def test_public_names_are_sorted_and_exist():
    assert list(chronicle.__all__) == sorted(chronicle.__all__)
    assert all(hasattr(chronicle, name) for name in chronicle.__all__)
