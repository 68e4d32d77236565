"""What a follower takes of a folder, when, and what it says: all but the reading on Spark."""

from __future__ import annotations

import os
import threading
import time as clock
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import replay
from chronicle.errors import ChronicleError, SourceError, StorageError
from chronicle.ingest import FollowReport, IngestOptions, IngestReport, follow
from chronicle.ingest.local import AppendOptions, append_files
from chronicle.ingest.preparation import Checksums, Request, nothing_usable, prepare
from chronicle.ingest.source_memory import check_unchanged
from chronicle.ingest.sources import SourceSet
from chronicle.store import Store, create_store

module = import_module("chronicle.ingest.follow")


def take(request: Request, sources: SourceSet, *given: Any) -> IngestReport:
    """Take a batch in this process, as the Spark driver does it there."""
    options = AppendOptions(time=request.options.time)
    while True:
        job = prepare(request, sources, given[-1])
        if not job.sources.files:
            return module.skip(job)
        try:
            known = (*job.found.had, *job.found.renamed, *job.found.new)
            files = [one.path for one in known] or job.sources.files
            taken = append_files(request.store, "s", files, options).appended
        except (ChronicleError, OSError) as error:
            if "another process" in str(error) or isinstance(error, StorageError):
                continue  # and began anew
            if "usable" in str(error):
                raise nothing_usable(sources.shown, "t", 1) from error
            raise
        n_events = 0 if taken is None else taken.n_events
        return IngestReport("s", request.store.path, n_events, 0, True, 0.0, 0)


class Given:
    """A store, a folder to follow into it, and what its followers said."""

    def __init__(self, folder: Path) -> None:
        self.store = create_store(folder / "store")
        self.folder = folder / "in"
        self.folder.mkdir()
        self.said: list[str] = []

    def put(self, name: str, *times: int | str, days_old: float = 0) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{each}\n" for each in ("t", *times)))
        if days_old:
            then = clock.time() - days_old * 86_400
            os.utime(path, (then, then))
        return path

    def follow(self, *, once: bool = True, **given: Any) -> FollowReport:
        options = IngestOptions(time="t", **given.pop("options", {}))
        progress = given.pop("progress", self.said.append)
        store = Store(self.store.path)
        return follow(store, "s", self.folder, options, once=once, progress=progress, **given)

    def times(self) -> list[int]:
        answer = replay.query(Store(self.store.path), "SELECT t FROM s").table
        return answer.column("t").to_pylist()


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(module, "take", take)
    monkeypatch.setattr(module._Spark, "lent", lambda _: None)
    return Given(tmp_path)


@pytest.mark.parametrize("days_old", [30, -1500, 0])
def test_file_of_any_date_is_taken(given: Given, days_old: float) -> None:
    given.put("a.csv", 1, days_old=days_old)
    given.follow()
    given.put("b.csv", 2, days_old=30)
    given.put("c.csv", 3)
    report = given.follow()
    assert given.times() == [1, 2, 3]
    assert (report.n_events, report.n_skipped) == (2, 1)


@pytest.mark.parametrize("times", [(1, 2), (2,), (5, 6, 7)], ids=["grown", "replaced", "both"])
def test_file_that_changed_is_told_and_passed_over(given: Given, times: tuple[int, ...]) -> None:
    given.put("a.csv", 1)
    given.follow()
    given.put("a.csv", *times)
    given.put("b.csv", 8)
    report = given.follow()
    assert given.times() == [1, 8]
    assert report.n_skipped == 0
    told = [text for text in given.said if "has other content now" in text]
    assert len(told) == 1
    assert "a.csv'" in told[0]


def test_folder_whose_logs_are_rotated_gives_each_event_once(given: Given) -> None:
    given.put("log.csv", 1)
    given.follow()
    for n in range(2, 5):
        for old in (2, 1):
            if (given.folder / f"log-{old}.csv").exists():
                (given.folder / f"log-{old}.csv").rename(given.folder / f"log-{old + 1}.csv")
        (given.folder / "log.csv").rename(given.folder / "log-1.csv")
        given.put("log.csv", n)
        given.follow()
        assert given.times() == list(range(1, n + 1))
    (given.folder / "log-3.csv").rename(given.folder / "log-9.csv")
    given.said.clear()
    assert given.follow().n_skipped == 4
    assert any("log-9.csv' has the content of a file that was taken" in x for x in given.said)


def test_copy_beside_a_file_that_grew_is_no_rotation(given: Given) -> None:
    given.put("log.csv", 1)
    given.follow()
    (given.folder / "copy.csv").write_text("t\n1\n")
    given.put("log.csv", 1, 2)
    given.follow()
    assert given.times() == [1]
    assert any("log.csv' was taken before and has other content" in text for text in given.said)


def test_file_is_taken_once_it_is_whole(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer adds to one file at every look, and renames another when it is done."""
    given.put("a.csv", 1)
    growing = given.put("b.csv", 2)
    given.put("c.csv.tmp", 3)
    looks = 0
    look = module._Follower._look

    def write(follower: Any) -> Any:
        nonlocal looks
        looks += 1
        if looks < 4:
            with growing.open("a") as file:
                file.write(f"{20 + looks}\n")
        if looks == 6:
            (given.folder / "c.csv.tmp").rename(given.folder / "c.csv")
        return look(follower)

    monkeypatch.setattr(module._Follower, "_look", write)
    report = given.follow(once=False, idle_seconds=0.3, options={"format": "csv"})
    assert given.times() == [1, 2, 3, 21, 22, 23]
    assert report.n_batches == 3


def test_file_that_is_written_to_while_it_is_read_waits(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = given.put("a.csv", 1)
    tries = 0

    def write_and_take(*args: Any) -> IngestReport:
        nonlocal tries
        tries += 1
        if tries == 1:
            args[-1].begin(args[1])
            path.write_text("t\n1\n2\n3\n")
            check_unchanged(args[-1].of(args[1]))
        return take(*args)

    monkeypatch.setattr(module, "take", write_and_take)
    given.follow(once=False, idle_seconds=0.3)
    assert given.times() == [1, 2, 3]
    assert tries == 2


def test_once_leaves_out_what_is_being_written(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    given.put("a.csv", 1)
    path = given.put("b.csv", 2)
    look = module._Follower._look

    def write(follower: Any) -> Any:
        with path.open("a") as file:
            file.write("3\n")
        return look(follower)

    monkeypatch.setattr(module._Follower, "_look", write)
    given.follow()
    assert given.times() == [1]
    assert any("b.csv', which is being written" in text for text in given.said)


def test_no_stream_is_made_of_a_file_without_a_usable_record(given: Given) -> None:
    given.put("a.csv", "x", "y")
    with pytest.raises(SourceError, match="nothing was taken"):
        given.follow()
    assert given.store.stream_names() == ()

    def progress(text: str) -> None:
        given.said.append(text)
        if "waiting for other files" in text:
            given.put("a.csv", 3)
            given.put("b.csv", 4)

    given.follow(once=False, idle_seconds=0.3, progress=progress)
    assert given.times() == [3, 4]


def test_file_without_a_record_is_taken_once_it_has_one(given: Given) -> None:
    given.put("a.csv", 1)
    given.put("b.csv")
    given.follow()
    given.put("b.csv", 2)
    given.follow()
    assert given.times() == [1, 2]


def test_unchanged_files_are_read_once(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    begin = Checksums.begin

    def counted(checksums: Checksums, sources: SourceSet) -> None:
        read.extend(path.name for path in sources.files if path not in checksums._found)
        begin(checksums, sources)

    monkeypatch.setattr(Checksums, "begin", counted)
    given.put("a.csv", 1)
    given.follow()
    read.clear()
    given.follow(once=False, idle_seconds=0.3)
    assert read == ["a.csv"]


def test_several_followers_of_a_folder_take_each_file_once(given: Given) -> None:
    ended: list[FollowReport] = []

    def work() -> None:
        ended.append(given.follow(once=False, idle_seconds=1.0))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for n in range(6):
        given.put(f"{n}.csv", n)
        clock.sleep(0.05)
    for worker in workers:
        worker.join()
    assert len(ended) == 3
    assert given.times() == list(range(6))


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        (".hoodie/hoodie.properties", "Hudi table"),
        ("metadata/v1.metadata.json", "Iceberg table"),
        ("_spark_metadata/0", "Spark streaming sink"),
        ("part/.hoodie_partition_metadata", "holds .*Hudi table"),
        ("part/_delta_log/00000000000000000000.json", "holds .*Delta table"),
    ],
)
def test_table_of_another_program_is_not_followed(given: Given, marker: str, said: str) -> None:
    given.put("a.csv", 1)
    path = given.folder / marker
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(SourceError, match=said):
        given.follow()
    assert given.store.stream_names() == ()


def test_pipe_in_the_place_of_a_file_is_refused(given: Given) -> None:
    os.mkfifo(given.folder / "a.csv")
    with pytest.raises(SourceError, match=r"a\.csv' is a pipe"):
        given.follow()
