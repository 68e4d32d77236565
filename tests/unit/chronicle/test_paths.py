"""Paths as people give them: URLs are refused before anything is made, homes are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chronicle import create_store, ensure_store, open_store
from chronicle.errors import SourceError, StorageError
from chronicle.ingest.sources import find_sources
from chronicle.paths import local_path
from chronicle.store import open_or_create


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
    with pytest.raises(StorageError, match="is a URL"):
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


@pytest.mark.parametrize("give", [str, Path])
def test_a_url_is_no_source(give: Callable[[str], str | Path]) -> None:
    with pytest.raises(SourceError, match="is no path"):
        find_sources([give("s3://bucket/x.csv")], format_name=None)


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
