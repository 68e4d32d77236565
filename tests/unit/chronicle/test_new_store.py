"""A store made for something that fails goes again; any other stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronicle.errors import StoreExistsError
from chronicle.store import Store, create_store, open_or_create


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
