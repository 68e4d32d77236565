"""Events older than the end of the stream: put beside first, then into the files they belong to.

Tasks meet late events in order of (time, arrival). They write them into staged files, one for each
*slot*: a stretch of time inside, behind or before the stream's data files. Jobs then write the
files concerned anew, each on its own; slots between files that hold much become files themselves.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.derived import DerivedWriter
from chronicle.disk import discard, writing
from chronicle.errors import SchemaError, StorageError
from chronicle.schema import conform
from chronicle.settings import StreamSettings
from chronicle.snapshot import DataFile
from chronicle.time import is_ascending, to_int64
from chronicle.tree.blocks import BlockReader
from chronicle.tree.summary import Ints
from chronicle.write.block_writer import WrittenFile, write_ordered
from chronicle.write.rewrite import Rewrite, even_cuts, merge_late, rewrite_files


@dataclass(frozen=True, slots=True)
class LateRoute:
    """What becomes of events older than the end of the stream."""

    stream_end: int
    """Time of the stream's last event."""

    oldest: int | None
    """Events older than this are put into the quarantine; None if none is."""

    reason: str
    """Why they are."""

    t_min: tuple[int, ...]
    t_max: tuple[int, ...]
    """Times of the first and last event of every data file, in stream order."""

    folder: Path
    """Takes the staged files."""


@dataclass(frozen=True, slots=True)
class LateFile:
    """A staged file of late events of one slot, as one task met them."""

    slot: int
    part: int
    """Number of the task; tasks meet events in order of (time, arrival)."""

    path: str
    n_events: int
    t_min: int
    t_max: int


def to_slots(times: Ints, t_min: Ints, t_max: Ints) -> Ints:
    """Return the slot of each late event; ascending where the times are. Pure.

    Slot 0 lies before all files, ``2 f + 1`` inside file ``f`` and ``2 f + 2`` behind it, up to the
    next file. An event at a file's last time arrived after it: it lies behind. One at the first
    time of the next file lies inside that, see ``place_late``. ``t_min`` and ``t_max`` are those of
    every file, in stream order, at least one.
    """
    file = np.searchsorted(t_min, times, "right") - 1
    behind = times >= t_max[np.maximum(file, 0)]
    return np.where(file < 0, 0, 2 * file + 1 + behind)


class LateWriter:
    """Writes one task's late events, which must come in order of time, slot by slot."""

    def __init__(self, route: LateRoute, schema: pa.Schema, time: str, *, part: int) -> None:
        self._route = route
        self._schema = schema
        self._time = time
        self._part = part
        self._bounds = np.array(route.t_min, np.int64), np.array(route.t_max, np.int64)
        self._files: list[LateFile] = []
        self._writer: pa.RecordBatchFileWriter | None = None
        self._last: int | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Take the next late events.

        Events that are older than those before are refused.
        """
        events = conform(batch, self._schema, where="ingest")
        times = np.asarray(to_int64(events.column(self._time), name=self._time).to_numpy())
        if not len(times):
            return
        if not is_ascending(times) or (self._last is not None and times[0] < self._last):
            raise SchemaError(
                f"time column '{self._time}' goes back among late events; the sources changed "
                "while they were read, run it again when nobody writes to them"
            )
        self._last = int(times[-1])
        slots = to_slots(times, *self._bounds)
        borders = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
        for start, stop in pairwise(borders):
            self._write(int(slots[start]), events.slice(start, stop - start), times[start:stop])

    def _write(self, slot: int, events: pa.Table, times: Ints) -> None:
        if self._writer is None or self._files[-1].slot != slot:
            self._end_file()
            # A task may be run twice, the second time while what the first wrote is read.
            attempt = uuid.uuid4().hex
            path = self._route.folder / f"{self._part:06d}-{slot:08d}-{attempt}.arrow"
            with writing(path):
                self._route.folder.mkdir(parents=True, exist_ok=True)
                self._writer = pa.ipc.new_file(str(path), self._schema)
            first = int(times[0])
            self._files.append(LateFile(slot, self._part, str(path), 0, first, first))
        with writing(Path(self._files[-1].path)):
            self._writer.write_table(events)
        file = self._files[-1]
        n_events = file.n_events + events.num_rows
        self._files[-1] = replace(file, n_events=n_events, t_max=int(times[-1]))

    def close(self) -> list[LateFile]:
        """Complete the files and return them."""
        self._end_file()
        return self._files

    def discard(self) -> None:
        """Remove what was written."""
        with suppress(StorageError):  # the disk may take no byte more
            self._end_file()
        discard(Path(file.path) for file in self._files)

    def _end_file(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with writing(Path(self._files[-1].path)):
                writer.close()


# ---------------------------------------------------------------------------------------------
# From staged files to data files.


@dataclass(frozen=True, slots=True)
class LateJob:
    """Staged files that become part of one data file, or files of their own."""

    file: str | None
    """Data file to write anew; None where the events get files of their own."""

    ordinal: str
    """That of the data file; of files of their own generation and part."""

    late: tuple[str, ...]
    """Staged files, in order of (time, arrival)."""

    n_late: int


def plan_late(
    staged: Iterable[LateFile], live: Sequence[DataFile], *, generation: int, file_events: int
) -> list[LateJob]:
    """Decide which data files are written anew, and what gets files of its own. Pure.

    What lies between two files goes into the earlier, before all files into the first, as
    ``place_late`` has it. Where it fills half a file at least it becomes a file of its own: the
    order of events is the same, and what has years of history loaded backwards costs no rewrite.
    ``live`` are the stream's data files in stream order.
    """
    in_order = sorted(staged, key=lambda file: (file.slot, file.part))
    own: list[LateJob] = []
    into: dict[int, list[LateFile]] = {}
    for slot, found in groupby(in_order, key=lambda file: file.slot):
        files = list(found)
        n_late = sum(file.n_events for file in files)
        if slot % 2 == 0 and 2 * n_late >= file_events:
            # Slots share no time: no file of one ties with a file of another.
            paths = tuple(file.path for file in files)
            own.append(LateJob(None, f"{generation:06d}-{slot:06d}", paths, n_late))
        else:
            into.setdefault(max(slot - 1, 0) // 2, []).extend(files)
    rewrites = [
        LateJob(
            live[position].name,
            live[position].ordinal,
            tuple(file.path for file in files),
            sum(file.n_events for file in files),
        )
        for position, files in into.items()
    ]
    return own + rewrites


@dataclass(frozen=True, slots=True)
class LateMerge:
    """Carries out late jobs; what is the same for all of them. Commits nothing."""

    events_dir: Path
    """Folder of the stream's events table."""

    target_dir: Path
    """Folder staged for the stream's files."""

    schema: pa.Schema
    settings: StreamSettings
    derived: DerivedWriter | None

    def __call__(self, job: LateJob) -> list[WrittenFile]:
        """Write the files of one job, holding no more than three data files in memory."""
        if job.file is None:
            return self._write(read_staged(job.late), self.settings, job.ordinal)
        if job.n_late <= self.settings.file_events:
            late = pa.Table.from_batches(read_staged(job.late), self.schema)
            return rewrite_files(
                Rewrite((job.file,), job.ordinal),
                events_dir=self.events_dir,
                target_dir=self.target_dir,
                schema=self.schema,
                settings=self.settings,
                derived=self.derived,
                late=late,
            )
        events = BlockReader(self.events_dir, self.schema).read_file(job.file)
        total = events.num_rows + job.n_late
        cuts = even_cuts(total, self.settings.file_events, self.settings.block_events)
        merged = merge_batches(events, read_staged(job.late), self.settings.time)
        return self._write(merged, replace(self.settings, file_events=cuts[1]), job.ordinal)

    def _write(
        self, batches: Iterable[pa.RecordBatch], settings: StreamSettings, prefix: str
    ) -> list[WrittenFile]:
        return write_ordered(
            batches,
            stream_dir=self.target_dir,
            schema=self.schema,
            settings=settings,
            ordinal_prefix=prefix,
            derived=self.derived,
        )


def read_staged(paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the events of staged files, batch by batch."""
    for path in paths:
        with pa.OSFile(path) as file:
            reader = pa.ipc.open_file(file)
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i)


def merge_batches(
    events: pa.Table, late: Iterable[pa.RecordBatch], time: str
) -> Iterator[pa.RecordBatch]:
    """Merge late events into those that arrived before them, a batch at a time. Pure.

    Both come in order of (time, arrival); of equal times first ``events``, then ``late``.
    """
    times = to_int64(events.column(time), name=time).to_numpy()
    done = 0
    for batch in late:
        last = to_int64(batch.column(time), name=time)[-1].as_py()
        upto = int(np.searchsorted(times, last, "right"))
        earlier = events.slice(done, upto - done)
        yield from merge_late(earlier, pa.Table.from_batches([batch]), time).to_batches()
        done = upto
    yield from events.slice(done).to_batches()
