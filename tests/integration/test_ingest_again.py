"""Files that a stream has taken are not taken twice, whoever ingests them when."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from chronicle.errors import ChronicleError, SourceError
from chronicle.ingest import IngestReport, pipeline
from chronicle.ingest.pipeline import ingest
from chronicle.ingest.source_memory import read_source
from chronicle.log import delta_log
from chronicle.store import Store, open_store
from chronicle.write import commit
from indexing import RunWriter
from tests.ingest_files import TIES, Row, options, read_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def put(folder: Path, name: str, times: list[int], first: int = 0) -> Path:
    return write_rows(folder / name, rows_of(times, first), TIES)


def rows_of(times: list[int], first: int = 0) -> list[Row]:
    return [{"t": t, "n": first + i, "pad": "x"} for i, t in enumerate(times)]


def numbers(store: Store) -> list[int]:
    return [row["n"] for row in read_rows(store)]


def test_sources_taken_are_skipped_counted_and_start_no_spark(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = put(tmp_path, "a.parquet", [1, 2]), put(tmp_path, "b.parquet", [2, 3], 10)
    assert ingest(store, "s", [a], options()).n_skipped == 0
    both = ingest(store, "s", [b, a], options())
    assert (both.n_events, both.n_skipped) == (2, 1)
    assert "skipped: 1 source taken before" in str(both)

    monkeypatch.setattr(pipeline, "open_spark", None)
    version = store.stream("s").snapshot().version
    none = ingest(store, "s", [a, b], options())
    assert (none.n_events, none.n_skipped, none.version, none.log_file) == (0, 2, version, None)
    assert "nothing new" in str(none)
    assert numbers(store) == [0, 1, 10, 11]


def test_file_that_changed_is_refused_unless_it_is_to_be_taken_again(
    tmp_path: Path, store: Store
) -> None:
    a = put(tmp_path, "a.parquet", [1, 2])
    ingest(store, "s", [a], options())
    put(tmp_path, "a.parquet", [3], 10)
    with pytest.raises(SourceError, match=r"a\.parquet' was taken into stream 's'.*--again"):
        ingest(store, "s", [a], options())
    assert numbers(store) == [0, 1]
    ingest(store, "s", [a], options(again=True))
    assert numbers(store) == [0, 1, 10]
    assert ingest(store, "s", [a], options()).n_skipped == 1
    ingest(store, "s", [a], options(again=True))
    assert numbers(store) == [0, 1, 10, 10]


def test_what_is_taken_is_remembered_in_the_commit_of_its_events(
    tmp_path: Path, store: Store
) -> None:
    for name, version in (("a.parquet", 1), ("b.parquet", 2)):
        path = put(tmp_path, name, [version])
        ingest(store, "s", [path], options())
        source = read_source(path)
        (change,) = delta_log.changes_since(store.path / "s" / "events", version - 1)[:1]
        assert source.application_id in change.transactions
        assert len(change.added) == 1


def test_crash_after_the_commit_is_completed_though_all_is_skipped(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_args: object) -> None:
        raise KeyboardInterrupt

    a, b = put(tmp_path, "a.parquet", [1]), put(tmp_path, "b.parquet", [2], 10)
    ingest(store, "s", [a], options(index=("n",)), derived=RunWriter)
    with monkeypatch.context() as patch:
        patch.setattr(commit, "commit_tree", crash)
        with pytest.raises(KeyboardInterrupt):
            ingest(store, "s", [a, b], options(), derived=RunWriter)
    assert ingest(store, "s", [a, b], options(), derived=RunWriter).n_skipped == 2
    snapshot = store.stream("s").snapshot()
    assert all(file.has_tree for file in snapshot.files)
    runs = {file.name for file in delta_log.live_files(store.path / "s" / "index" / "n")}
    assert runs == {file.name for file in snapshot.files}
    assert numbers(store) == [0, 10]


def at_once(store: Store, jobs: list[list[Path]]) -> list[IngestReport | ChronicleError]:
    """Ingest from several threads, each with a store object of its own."""
    found: list[IngestReport | ChronicleError] = []
    barrier = threading.Barrier(len(jobs))

    def run(paths: list[Path]) -> None:
        barrier.wait()
        try:
            found.append(ingest(open_store(store.path), "s", paths, options()))
        except ChronicleError as error:
            found.append(error)

    threads = [threading.Thread(target=run, args=(paths,)) for paths in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("exists", [False, True], ids=["first ingest", "stream that exists"])
def test_two_ingests_of_one_file_at_once_take_it_once(
    tmp_path: Path, store: Store, exists: bool
) -> None:
    a = put(tmp_path, "a.parquet", [5, 6], 10)
    if exists:
        ingest(store, "s", [put(tmp_path, "first.parquet", [1])], options())
    found = at_once(store, [[a], [a]])
    reports = [one for one in found if isinstance(one, IngestReport)]
    assert sorted(one.n_events for one in reports) == [0, 2]
    assert numbers(open_store(store.path)) == ([0] if exists else []) + [10, 11]


def test_two_ingests_of_two_files_at_once_both_land_in_full(tmp_path: Path, store: Store) -> None:
    first = put(tmp_path, "first.parquet", [1, 9])
    a, b = put(tmp_path, "a.parquet", [5, 12], 10), put(tmp_path, "b.parquet", [5, 11, 13], 20)
    ingest(store, "s", [first], options())
    for found in at_once(store, [[a], [b]]):
        assert isinstance(found, IngestReport)
    rows = read_rows(open_store(store.path))
    assert [row["t"] for row in rows] == [1, 5, 5, 9, 11, 12, 13]
    assert {row["n"] for row in rows} == {0, 1, 10, 11, 20, 21, 22}
    assert not list(store.path.glob(".ingest-*"))
