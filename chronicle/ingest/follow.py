"""Follow a folder: take what is put into it, batch by batch, each file exactly once."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import threading
import time as clock
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronicle.config import EVENTS_TABLE
from chronicle.disk import flush, writing
from chronicle.errors import CommitConflictError, SourceError, StorageError
from chronicle.ingest.pipeline import complete, take
from chronicle.ingest.preparation import (
    Checksums,
    DerivedFactory,
    Lateness,
    Request,
    check_options,
)
from chronicle.ingest.report import FollowReport, IngestOptions, IngestReport
from chronicle.ingest.session import first_line, open_spark, to_own_session
from chronicle.ingest.sources import find_sources, tells_format
from chronicle.log import delta_log
from chronicle.paths import local_path, url_scheme
from chronicle.store import Store
from chronicle.stream_folder import open_staging
from chronicle.words import number_of
from chronicle.write.commit import INGEST, OPERATION, Change, commit_change, retried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_BATCH_FILES_MAX = 1000
"""Files of one batch: bounds what one commit takes, and what is done anew after a crash."""

_POLL = "1 second"
"""How often Spark looks for new files."""

_WAKE_SECONDS = 0.2
_ATTEMPTS_MAX = 10
"""Times a batch is begun because others committed first what it does not go with."""

_FILE_DDL = "path string, modificationTime timestamp, length bigint, content binary"


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
    checkpoint: str | Path | None = None,
    log_file: Path | None = None,
) -> FollowReport:
    """Take the files of a folder into a stream as they appear, until it is interrupted.

    Spark Structured Streaming finds the files; each batch of them is ingested as ``ingest`` does
    it, and its number rides in the same commit. So each file is in the stream exactly once,
    whenever the process is killed and started again. Files arrive in the order of their batches,
    within a batch in that of their modification, then by name. They must be whole when they
    appear: move them into the folder.

    Ctrl-C ends it after the running batch.

    Parameters
    ----------
    store
        Where the stream is.
    stream_name
        Name of the stream, which is created with the first batch if it is new.
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
    checkpoint
        Folder that remembers what was taken; one in the store, for this stream and folder, if
        None.
    log_file
        Takes what Spark prints; a file in the temporary folder if None.

    Raises
    ------
    SourceError
        If there is no such folder, or a file cannot be taken; batches before it stay.
    StorageError
        If another process follows with the same checkpoint.
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
        may_be_empty=True,
        attempts_max=_ATTEMPTS_MAX,
    )
    check_options(request)
    place = default_place(store, stream_name, watched) if checkpoint is None else Path(checkpoint)
    with (
        open_checkpoint(place, store, stream_name) as lent,
        open_spark(options.master, log_file=log_file) as lease,
        ThreadPoolExecutor(max_workers=1) as pool,
    ):
        # Ingest changes settings of its session, which a running query must not see.
        batches = _Batches(request, watched, lent, to_own_session(lease.spark), pool)
        query = _start(lease.spark, batches, once=once)
        _await(query, batches, idle_seconds)
    return batches.to_report(seconds=clock.monotonic() - begin, log_file=lease.log_file)


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


def _start(spark: SparkSession, batches: _Batches, *, once: bool) -> StreamingQuery:
    """Start the query that finds files; it reads nothing of them."""
    found = (
        spark.readStream.format("binaryFile")
        .schema(_FILE_DDL)
        .option("recursiveFileLookup", "true")
        .option("ignoreMissingFiles", "true")
        .option("maxFilesPerTrigger", str(_BATCH_FILES_MAX))
        .load(str(batches.folder))
        .select("path", "modificationTime", "length")
    )
    writer = found.writeStream.foreachBatch(batches.take).option(
        "checkpointLocation", str(batches.checkpoint.spark_dir)
    )
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=_POLL)
    with _stated(batches.folder):
        return writer.start()


@contextmanager
def _stated(folder: Path) -> Iterator[None]:
    """Turn a failure of Spark into a sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise StorageError(
            f"Spark cannot follow '{folder}' ({first_line(error)}); begin again, it goes on "
            "where it ended"
        ) from error


def _await(query: StreamingQuery, batches: _Batches, idle_seconds: float | None) -> None:
    """Wait until the query ends, nothing comes any more, or Ctrl-C is pressed."""
    ended = threading.Event()
    faults: list[StorageError] = []

    def watch() -> None:
        try:
            with _stated(batches.folder):
                query.awaitTermination()
        except StorageError as error:
            faults.append(error)
        finally:
            ended.set()

    # A thread of its own, because an interrupt that breaks into a call to the JVM breaks it.
    watcher = threading.Thread(target=watch, name="chronicle-follow")
    watcher.start()
    try:
        while not ended.wait(_WAKE_SECONDS):
            if idle_seconds is not None and batches.idle_seconds() > idle_seconds:
                break
    except KeyboardInterrupt:
        batches.request.progress("interrupted; ending after the running batch")
    finally:
        batches.stop()
        with suppress(StorageError), _stated(batches.folder):
            query.stop()
        watcher.join()
    if batches.fault is not None:
        raise batches.fault
    if faults and not batches.refused:
        raise faults[0]


class _StoppedError(Exception):
    """A batch is refused because following ends; Spark must not hold it for done."""


@dataclass(slots=True)
class _Batches:
    """Takes Spark's batches, one at a time."""

    request: Request
    folder: Path
    checkpoint: Checkpoint
    spark: SparkSession
    pool: ThreadPoolExecutor
    fault: BaseException | None = None
    """What stopped a batch."""

    refused: bool = False
    """Whether a batch came after the end."""

    reports: list[IngestReport] = field(default_factory=list)
    _running: Any = field(default_factory=threading.Lock)
    _stopping: bool = False
    _last: float = field(default_factory=clock.monotonic)

    def take(self, frame: DataFrame, batch: int) -> None:
        """Take one batch, unless the stream has it; Spark calls it in a thread of its own."""
        with self._running:
            if self._stopping:
                self.refused = True
                raise _StoppedError
            try:
                self._take(frame, batch)
            except BaseException as error:
                self.fault = error
                raise
            finally:
                self._last = clock.monotonic()

    def stop(self) -> None:
        """Wait for the running batch; those that come later are refused."""
        with self._running:
            self._stopping = True

    def idle_seconds(self) -> float:
        """Return for how long no batch has been at work."""
        return 0.0 if self._running.locked() else clock.monotonic() - self._last

    def _take(self, frame: DataFrame, batch: int) -> None:
        request = self.request
        if last_committed(self.checkpoint, request.store, request.stream_name) >= batch:
            complete(request)  # the crash that Spark does not know of may have left something out
            request.progress(f"batch {batch}: taken before")
            return
        numbered = replace(request, transactions={self.checkpoint.application_id: batch})
        files = self._files(frame)
        if files:
            wanted = request.options.format
            sources = find_sources(files, format_name=wanted, base=self.folder)
            with open_staging(request.store.path) as staging:
                report = take(numbered, sources, self.spark, staging, Checksums(self.pool))
            self.reports.append(report)
            request.progress(f"batch {batch}: {_in_words(report, len(files))}")
        # A batch without anything new leaves its number too: the checkpoint is never ahead.
        if last_committed(self.checkpoint, request.store, request.stream_name) < batch:
            _leave_number(numbered)

    def _files(self, frame: DataFrame) -> list[Path]:
        """Return the batch's files in the order of arrival."""
        rows = sorted(
            (row["modificationTime"], row["path"], row["length"]) for row in frame.collect()
        )
        wanted = self.request.options.format
        files = []
        for _, name, length in rows:
            path = Path(str(name).removeprefix("file:"))
            if wanted is None and not tells_format(path):
                self.request.progress(f"left out: '{path}', whose ending tells no format")
            elif length == 0:
                self.request.progress(f"left out: '{path}', which is empty")
            else:
                files.append(path)
        return files

    def to_report(self, *, seconds: float, log_file: Path | None) -> FollowReport:
        """Return what was done."""
        return FollowReport(
            stream=self.request.stream_name,
            store_path=self.request.store.path,
            n_batches=len(self.reports),
            n_events=sum(one.n_events for one in self.reports),
            n_late=sum(one.n_late for one in self.reports),
            n_quarantined=sum(one.n_quarantined for one in self.reports),
            n_skipped=sum(one.n_skipped for one in self.reports),
            seconds=seconds,
            log_file=log_file,
            fault=next((one.fault for one in reversed(self.reports) if one.fault), None),
        )


def _in_words(report: IngestReport, n_files: int) -> str:
    parts = [number_of(n_files, "file"), number_of(report.n_events, "event")]
    parts += [f"{report.n_late:,} of them late"] if report.n_late else []
    parts += [f"{report.n_quarantined:,} quarantined"] if report.n_quarantined else []
    parts += [f"{number_of(report.n_skipped, 'file')} taken before"] if report.n_skipped else []
    return ", ".join(parts)


def _leave_number(request: Request) -> None:
    """Commit the number of a batch that adds nothing; a stream that is not there yet has none."""
    if request.stream_name not in request.store.stream_names():
        return
    stream = request.store.stream(request.stream_name)

    def attempt() -> None:
        commit_change(
            stream,
            Change(()),
            read_version=stream.snapshot().version,
            metadata={OPERATION: INGEST, "n_events": "0", "n_late": "0"},
            transactions=request.transactions,
        )

    with suppress(CommitConflictError):
        retried(attempt, attempts=request.attempts_max)


# ---------------------------------------------------------------------------------------------
# The checkpoint: what the folder has been read up to, kept beside the streams it goes into.

FOLLOW_FOLDER = ".follow"
"""Folder at the root of a store with the checkpoints of its streams, by name."""

FOLLOW_PREFIX = "chronicle.follow."
"""Delta application ids of this prefix stand for checkpoints, their numbers for batches."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that this process alone holds."""

    id: str
    """Tells it from any other, also from one that lay at the same place before."""

    spark_dir: Path
    """Where Spark keeps which files belong to which batch."""

    @property
    def application_id(self) -> str:
        """What stands for it in commits."""
        return FOLLOW_PREFIX + self.id


def default_place(store: Store, stream_name: str, folder: Path) -> Path:
    """Return where the checkpoint of a folder followed into a stream lies; moves with the store."""
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return store.path / FOLLOW_FOLDER / stream_name / name


@contextmanager
def open_checkpoint(place: Path, store: Store, stream_name: str) -> Iterator[Checkpoint]:
    """Lend the checkpoint at ``place``, a new one if there is none that fits the stream.

    A checkpoint that is ahead of its stream belongs to one that was dropped or restored: what it
    holds for done is not in the stream, so it is begun anew. Files that the stream has all the same
    are then skipped as sources that were taken. It is refused where another process holds it.
    """
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place / "lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(
                f"another process follows with checkpoint '{place}'; stop it first, or name "
                "another checkpoint"
            ) from error
        yield _load(place, store, stream_name)
    finally:
        os.close(descriptor)


def _load(place: Path, store: Store, stream_name: str) -> Checkpoint:
    identity, spark_dir = place / "checkpoint.json", place / "spark"
    if identity.exists():
        found = Checkpoint(json.loads(identity.read_text(encoding="utf-8"))["id"], spark_dir)
        if last_batch(spark_dir) <= last_committed(found, store, stream_name):
            return found
    shutil.rmtree(spark_dir, ignore_errors=True)
    fresh = Checkpoint(uuid.uuid4().hex, spark_dir)
    draft = place / "checkpoint.json.draft"
    with writing(identity):
        draft.write_text(json.dumps({"id": fresh.id}) + "\n", encoding="utf-8")
        flush([draft])
        draft.replace(identity)
    flush([place])
    return fresh


def last_batch(spark_dir: Path) -> int:
    """Return the number of the last batch Spark holds for done, -1 if none."""
    return max((int(path.name) for path in spark_dir.glob("commits/[0-9]*")), default=-1)


def last_committed(checkpoint: Checkpoint, store: Store, stream_name: str) -> int:
    """Return the number of the last batch that is in the stream, -1 if none."""
    events = store.path / stream_name / EVENTS_TABLE
    if not delta_log.table_exists(events):
        return -1
    number = delta_log.transaction_version(events, checkpoint.application_id)
    return -1 if number is None else number
