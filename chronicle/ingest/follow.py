"""Follow a folder: take what is put into it, batch by batch, each file exactly once."""

from __future__ import annotations

import threading
import time as clock
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chronicle.errors import NoEventError, SourceError
from chronicle.ingest.pipeline import complete, skip, take
from chronicle.ingest.preparation import (
    Checksums,
    DerivedFactory,
    Lateness,
    Request,
    check_options,
    prepare,
)
from chronicle.ingest.report import FollowReport, IngestOptions, IngestReport
from chronicle.ingest.session import open_spark
from chronicle.ingest.source_memory import Sorted
from chronicle.ingest.sources import find_sources, tells_format
from chronicle.log import delta_log
from chronicle.log.foreign_layouts import loose_files
from chronicle.paths import local_path, url_scheme
from chronicle.store import Store
from chronicle.stream_folder import open_staging
from chronicle.words import number_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH_FILES_MAX = 1000
"""Files of one batch: bounds what one commit takes, and what is done anew after a crash."""

POLL_SECONDS = 1.0
"""Time between two looks at the folder. A file is taken once it was the same in both."""

_WAKE_SECONDS = 0.2
_LISTING_SHARE = 0.1
"""Most of the time that looking may take: large folders are looked at less often."""

_ATTEMPTS_MAX = 10
"""Times a batch is begun because others committed first what it does not go with."""


def follow(  # noqa: PLR0913 -- the options of a command
    store: Store,
    stream_name: str,
    folder: str | Path,
    options: IngestOptions,
    *,
    derived: DerivedFactory | None = None,
    lateness: Lateness | None = None,
    once: bool = False,
    idle_seconds: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
    log_file: Path | None = None,
) -> FollowReport:
    """Take the files of a folder into a stream as they appear, until it is interrupted.

    Files are taken batch by batch, each as ``ingest`` does it. What was taken is known by the log
    of the stream alone, in which a file's path, size and checksum stand in the commit that brings
    its events. So each file is in the stream exactly once, whenever the process is killed and
    started again, whatever the date of the file, and however many processes follow the folder.
    Files arrive in the order of their batches, within a batch in that of their modification, then
    by name. A file that was taken and has other content now is told and passed over, and so is one
    that has the content of another.

    A file is taken once its size and date stayed the same for a second. Whoever writes one more
    slowly gives it a name that is no data file's until it is whole (``a.csv.tmp``, or one that
    begins with a dot), or moves it into the folder.

    Ctrl-C ends it after the running batch.

    Parameters
    ----------
    store
        Where the stream is.
    stream_name
        Name of the stream, which is created with the first batch that has an event.
    folder
        What to follow, with all folders in it; hidden files are left out.
    options
        How to read the files, and what becomes of late events.
    derived
        Makes the writer of indexes; None writes none.
    lateness
        How much older than the end of the stream (as each batch finds it) an event may be: a
        duration, or a number where time is an integer. Older ones go to the quarantine; None
        merges all.
    once
        Whether to end when all that is there now has been taken.
    idle_seconds
        End after so long without a new file; None waits for ever.
    progress
        Told what is being done, in words, by another thread.
    log_file
        Takes what Spark prints; a file in the temporary folder if None.

    Raises
    ------
    SourceError
        If there is no such folder, or a file cannot be taken; batches before it stay.
    ChronicleError
        Whatever else stops an ingest; begun again, it goes on with the batch that failed.
    """
    begin = clock.monotonic()
    watched = _check_folder(folder)
    if options.again:
        raise SourceError(
            "following takes each file once; leave --again out, and take a file that has changed "
            "with 'chronicle ingest --again'"
        )
    request = Request(
        store,
        stream_name,
        options,
        derived,
        progress,
        lateness=lateness,
        is_following=True,
        attempts_max=_ATTEMPTS_MAX,
    )
    check_options(request)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=1))
        follower = _Follower(request, watched, Checksums(pool), _Spark(stack, options, log_file))
        _run(follower, once=once, idle_seconds=idle_seconds)
    return follower.to_report(seconds=clock.monotonic() - begin, log_file=log_file)


def _check_folder(folder: str | Path) -> Path:
    if str(folder).startswith("kafka:") or url_scheme(folder) not in (None, "file"):
        raise SourceError(
            f"'{folder}' is no folder, and nothing else can be followed, Kafka neither; have its "
            "records written to files, and follow their folder"
        )
    watched = local_path(folder, what="folder").absolute()
    if not watched.is_dir():
        raise SourceError(f"no folder '{folder}' to follow; make it, or correct the path")
    if delta_log.table_exists(watched):
        raise SourceError(
            f"'{folder}' is a Delta table, whose files come and go by its log; run 'chronicle "
            "append' or 'chronicle ingest' of it again and again, which take what was added"
        )
    return watched


def _run(follower: _Follower, *, once: bool, idle_seconds: float | None) -> None:
    """Follow in a thread of its own: Ctrl-C must not break into a batch, nor into a call of Spark.

    Returns once the thread ended; a second Ctrl-C does not wait for it.
    """
    fault: list[BaseException] = []

    def work() -> None:
        try:
            follower.run(once=once, idle_seconds=idle_seconds)
        except BaseException as error:  # noqa: BLE001 -- raised below
            fault.append(error)

    worker = threading.Thread(target=work, name="chronicle-follow", daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(_WAKE_SECONDS)
    except KeyboardInterrupt:
        follower.stopping.set()
        follower.request.progress("interrupted; ending after the running batch")
        worker.join()
    if fault:
        raise fault[0]


@dataclass(slots=True)
class _Spark:
    """Starts Spark when the first file is to be read, and keeps it until the stack is closed."""

    stack: ExitStack
    options: IngestOptions
    log_file: Path | None
    session: SparkSession | None = None

    def lent(self) -> SparkSession:
        """Return the session."""
        if self.session is None:
            lease = open_spark(self.options.master, log_file=self.log_file)
            self.session = self.stack.enter_context(lease).spark
        return self.session


Stamp = tuple[int, int, int, int]
"""Inode, size, and the times of change of a file and of its entry.

Whoever changes a file changes one of them: the last is the system's own, and goes on by the clock
though a file's date is set back. So what was found out of a file holds while they stay. A file is
read only after it stayed the same for longer than a tick of that clock.
"""


@dataclass(slots=True)
class _Follower:
    """Looks at a folder again and again, and takes what it has not taken."""

    request: Request
    folder: Path
    checksums: Checksums
    spark: _Spark
    stopping: threading.Event = field(default_factory=threading.Event)
    reports: list[IngestReport] = field(default_factory=list)
    n_skipped: int = 0
    _decided: set[Path] = field(default_factory=set)
    """Files that were taken or passed over, and did not change since."""

    _held: list[tuple[Path, Stamp]] = field(default_factory=list)
    """Files that hold no event, where there is no stream yet: they wait for others."""

    _seen: set[str] = field(default_factory=set)
    """Files that were counted, as taken here or before."""

    _told: set[tuple[str, Path]] = field(default_factory=set)

    def run(self, *, once: bool, idle_seconds: float | None) -> None:
        """Follow until it is stopped, nothing comes any more, or, once, all was taken."""
        if self.request.stream_name in self.request.store.stream_names():
            complete(self.request)  # what a crash may have left out
        before: dict[Path, Stamp] = {}
        is_first = True
        last = clock.monotonic()
        while not self.stopping.is_set():
            begin = clock.monotonic()
            now = self._look()
            took = clock.monotonic() - begin
            self._forget(before, now)
            ready = self._settled(before, now)
            if ready and ready != self._held:
                self._take_all(ready, once=once)
                last = clock.monotonic()
            if once and not (is_first and now):
                self._tell_unsettled(before, now)
                return
            if idle_seconds is not None and clock.monotonic() - last > idle_seconds:
                return
            before, is_first = now, False
            self.stopping.wait(max(POLL_SECONDS, took / _LISTING_SHARE))

    def _look(self) -> dict[Path, Stamp]:
        """Return the files of the folder, and what they are now."""
        found = ((path, _stamp(path)) for path in loose_files(self.folder, self._names_data))
        return {path: stamp for path, stamp in found if stamp is not None}

    def _forget(self, before: dict[Path, Stamp], now: dict[Path, Stamp]) -> None:
        """Forget what was found out of files that changed or are gone."""
        stale = [path for path, stamp in before.items() if now.get(path) != stamp]
        self.checksums.forget(stale)
        self._decided.difference_update(stale)

    def _settled(
        self, before: dict[Path, Stamp], now: dict[Path, Stamp]
    ) -> list[tuple[Path, Stamp]]:
        """Return the files to look into, in the order of arrival."""
        found = [
            (path, stamp)
            for path, stamp in now.items()
            if before.get(path) == stamp and path not in self._decided
        ]
        wanted = [(path, stamp) for path, stamp in found if self._is_data(path, stamp)]
        return sorted(wanted, key=lambda one: (one[1][2], one[0]))

    def _is_data(self, path: Path, stamp: Stamp) -> bool:
        """Return whether a file can hold events by its name and size; told once if not."""
        if not self._names_data(path):
            self._tell(path, f"left out: '{path}', whose ending tells no format")
        elif stamp[1] == 0:
            self._tell(path, f"left out: '{path}', which is empty")
        else:
            return True
        self._decided.add(path)
        return False

    def _names_data(self, path: Path) -> bool:
        return self.request.options.format is not None or tells_format(path)

    def _tell(self, path: Path, text: str) -> None:
        """Tell something of a file, once."""
        if (text, path) not in self._told:
            self._told.add((text, path))
            self.request.progress(text)

    def _tell_unsettled(self, before: dict[Path, Stamp], now: dict[Path, Stamp]) -> None:
        for path, stamp in now.items():
            if before.get(path) != stamp and self._names_data(path) and stamp[1] > 0:
                self._tell(path, f"left out: '{path}', which is being written; it is taken next")

    def _take_all(self, ready: Sequence[tuple[Path, Stamp]], *, once: bool) -> None:
        for start in range(0, len(ready), _BATCH_FILES_MAX):
            if self.stopping.is_set():
                return
            batch = ready[start : start + _BATCH_FILES_MAX]
            try:
                if not self._take(batch):
                    return
            except NoEventError as error:
                if once:
                    raise
                self._held = list(ready)
                self.request.progress(f"{error}; waiting for other files")
                return
            except SourceError:
                if not self._has_changed(batch):
                    raise
                return
            self._decided.update(path for path, _ in batch)

    def _has_changed(self, batch: Sequence[tuple[Path, Stamp]]) -> bool:
        """Return whether files changed or went since; they are then looked at again."""
        changed = [path for path, stamp in batch if _stamp(path) != stamp]
        self.checksums.forget(changed)
        return bool(changed)

    def _take(self, batch: Sequence[tuple[Path, Stamp]]) -> bool:
        """Take a batch, all of it or nothing; return whether that was done."""
        request, files = self.request, [path for path, _ in batch]
        sources = find_sources(files, format_name=request.options.format, base=self.folder)
        job = prepare(request, sources, self.checksums)
        if self._has_changed(batch):
            return False
        self._tell_passed(job.found)
        if not job.sources.files:
            skip(job)
            return True
        with open_staging(request.store.path) as staging:
            report = take(request, sources, self.spark.lent(), staging, self.checksums)
        number = len(self.reports)
        self.reports.append(report)
        request.progress(f"batch {number}: {_in_words(report, len(job.sources.files))}")
        return True

    def _tell_passed(self, found: Sorted) -> None:
        """Tell what is passed over, each file once."""
        known = {source.path for source in (*found.had, *found.renamed)}
        self.n_skipped += len(known - self._seen)
        self._seen |= known | {source.path for source in found.new}
        for note in found.notes:
            self.request.progress(note)
        for source in found.changed:
            self._tell(
                Path(source.path),
                f"passed over: '{source.path}' was taken before and has other content now; give "
                "what is new in a file of its own, or take it whole with 'chronicle ingest "
                "--again'",
            )

    def to_report(self, *, seconds: float, log_file: Path | None) -> FollowReport:
        """Return what was done."""
        return FollowReport(
            stream=self.request.stream_name,
            store_path=self.request.store.path,
            n_batches=len(self.reports),
            n_events=sum(one.n_events for one in self.reports),
            n_late=sum(one.n_late for one in self.reports),
            n_quarantined=sum(one.n_quarantined for one in self.reports),
            n_skipped=self.n_skipped,
            seconds=seconds,
            log_file=log_file,
            fault=next((one.fault for one in reversed(self.reports) if one.fault), None),
        )


def _stamp(path: Path) -> Stamp | None:
    """Return what a file is now; None if it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _in_words(report: IngestReport, n_files: int) -> str:
    parts = [number_of(n_files, "file"), number_of(report.n_events, "event")]
    parts += [f"times {report.first_time} to {report.last_time}"] if report.first_time else []
    parts += [f"{report.n_late:,} of them late"] if report.n_late else []
    parts += [f"{report.n_quarantined:,} quarantined"] if report.n_quarantined else []
    return ", ".join(parts)
