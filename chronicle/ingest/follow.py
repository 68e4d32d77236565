"""Follow a folder: take what is put into it, batch by batch, each file exactly once."""

from __future__ import annotations

import threading
import time as clock
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronicle.errors import CommitConflictError, SourceError, StorageError
from chronicle.ingest.checkpoint import Checkpoint, default_place, last_committed, open_checkpoint
from chronicle.ingest.pipeline import Outcome, complete, take
from chronicle.ingest.preparation import (
    Checksums,
    DerivedFactory,
    Lateness,
    Request,
    check_options,
)
from chronicle.ingest.report import FollowReport, IngestOptions
from chronicle.ingest.session import open_spark, to_own_session
from chronicle.ingest.sources import find_sources, tells_format
from chronicle.ingest.spark_tools import first_line
from chronicle.log import delta_log
from chronicle.paths import local_path, url_scheme
from chronicle.store import Store
from chronicle.stream_folder import open_staging
from chronicle.write.commit import INGEST, OPERATION, Change, commit_change

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

    outcomes: list[Outcome] = field(default_factory=list)
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
        numbered = request.with_transactions({self.checkpoint.application_id: batch})
        files = self._files(frame)
        if files:
            wanted = request.options.format
            sources = find_sources(files, format_name=wanted, base=self.folder)
            with open_staging(request.store.path) as staging:
                outcome = take(numbered, sources, self.spark, staging, Checksums(self.pool))
            self.outcomes.append(outcome)
            request.progress(f"batch {batch}: {_in_words(outcome, len(files))}")
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
            n_batches=len(self.outcomes),
            n_events=sum(one.n_events for one in self.outcomes),
            n_late=sum(one.n_late for one in self.outcomes),
            n_quarantined=sum(sum(one.reasons.values()) for one in self.outcomes),
            n_skipped=sum(one.n_skipped for one in self.outcomes),
            seconds=seconds,
            log_file=log_file,
            fault=next((one.fault for one in reversed(self.outcomes) if one.fault), None),
        )


def _in_words(outcome: Outcome, n_files: int) -> str:
    parts = [f"{n_files:,} files", f"{outcome.n_events:,} events"]
    parts += [f"{outcome.n_late:,} of them late"] if outcome.n_late else []
    n_aside = sum(outcome.reasons.values())
    parts += [f"{n_aside:,} quarantined"] if n_aside else []
    parts += [f"{outcome.n_skipped:,} files taken before"] if outcome.n_skipped else []
    return ", ".join(parts)


def _leave_number(request: Request) -> None:
    """Commit the number of a batch that adds nothing; a stream that is not there yet has none."""
    if request.stream_name not in request.store.stream_names():
        return
    stream = request.store.stream(request.stream_name)
    for _ in range(request.attempts_max):
        version = stream.snapshot().version
        try:
            commit_change(
                stream,
                Change(()),
                read_version=version,
                metadata={OPERATION: INGEST, "n_events": "0", "n_late": "0"},
                transactions=request.transactions,
            )
        except CommitConflictError:
            continue
        return
