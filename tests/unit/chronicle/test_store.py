"""Stores are created, opened and listed by paths as people give them; what is missing is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

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
from chronicle.ingest.sources import find_sources
from chronicle.paths import local_path
from chronicle.settings import StreamSettings
from chronicle.store import Store, create_store, ensure_store, open_or_create, open_store

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


def fail_after_work(store: Store) -> None:
    (store.path / "s").mkdir()
    raise KeyboardInterrupt


def test_new_store_stays_if_its_block_succeeds(tmp_path: Path) -> None:
    with open_or_create(tmp_path / "a" / "store") as store:
        assert store.stream_names() == ()
    assert (tmp_path / "a" / "store" / "chronicle-store.json").exists()


@pytest.mark.parametrize("made", [[], ["a"]], ids=["no folder", "outer folder"])
def test_new_store_goes_with_the_folders_made_for_it(tmp_path: Path, made: list[str]) -> None:
    for name in made:
        (tmp_path / name).mkdir()
    with pytest.raises(KeyboardInterrupt), open_or_create(tmp_path / "a" / "b" / "store"):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == made


def test_empty_folder_that_was_there_stays_empty(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_or_create(tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_store_that_existed_or_holds_something_stays(tmp_path: Path) -> None:
    create_store(tmp_path / "old")
    with pytest.raises(KeyboardInterrupt), open_or_create(tmp_path / "old"):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), open_or_create(tmp_path / "new") as store:
        fail_after_work(store)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]
    assert (tmp_path / "new" / "chronicle-store.json").exists()


def test_folder_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(StoreExistsError), open_or_create(tmp_path):
        pytest.fail("no store can be made here")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def lend(path: str | Path) -> None:
    with open_or_create(path):
        pass


@pytest.mark.parametrize("url", ["s3://bucket/x", "gs://bucket/x", "abfss://c@a.net/x"])
@pytest.mark.parametrize("give", [str, Path])
@pytest.mark.parametrize("use", [create_store, open_store, ensure_store, lend])
def test_a_url_is_no_store_and_makes_no_folder(
    use: Callable[[object], object],
    give: Callable[[str], object],
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=f"'{url}' is a URL"):
        use(give(url))
    assert list(tmp_path.iterdir()) == []


def test_the_home_folder_and_a_file_url_are_places_for_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    create_store("~/one")
    create_store(f"file://{tmp_path}/a%20b")
    assert open_store(tmp_path / "home" / "one").path == tmp_path / "home" / "one"
    assert open_store(tmp_path / "a b").path == tmp_path / "a b"


def test_a_path_may_hold_a_colon() -> None:
    assert local_path("/data/10:30/x") == Path("/data/10:30/x")
    assert local_path("C:/data") == Path("C:/data")


def test_a_source_is_found_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.csv").write_text("t\n1\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_sources(["~/x.csv"], format_name=None).files == (tmp_path / "x.csv",)


def test_a_store_named_by_a_relative_path_is_the_same_to_a_process_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert create_store("data").path == tmp_path / "data"
    assert open_store("data").path == tmp_path / "data"
    assert ensure_store("./data").path == tmp_path / "data"
