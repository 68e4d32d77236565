"""Append events held in memory: order them, merge late ones in, commit. No Spark, no JVM."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.append_report import AppendReport
from chronicle.derived import DerivedWriter
from chronicle.errors import LateEventError, SourceError, did_you_mean
from chronicle.schema import conform
from chronicle.snapshot import Snapshot
from chronicle.store import Stream, watched
from chronicle.time import from_int64, is_ascending, show_time, time_type, times_of
from chronicle.tree.summary import Ints
from chronicle.write.block_writer import WrittenFile, removed_on_failure, write_ordered
from chronicle.write.commit import (
    APPEND,
    OPERATION,
    Change,
    commit_change,
    remove_uncommitted,
    retried,
)
from chronicle.write.quarantine import (
    LATE_REASON,
    QUARANTINE_TABLE,
    QuarantineFile,
    QuarantineWriter,
    commit_quarantine,
    rows_of_events,
)
from chronicle.write.rewrite import Rewrite, rewrite_files

_NO_TIME_REASON = "the event has no time"


class Late(StrEnum):
    """What becomes of events older than the end of the stream."""

    MERGE = "merge"
    """They are merged into the files they fall into."""

    REJECT = "reject"
    """Nothing is taken."""

    QUARANTINE = "quarantine"
    """They are put into the quarantine table."""

    @classmethod
    def of(cls, given: object) -> Late:
        """Return the policy that is given as itself or by name."""
        known = [policy.value for policy in cls]
        if not isinstance(given, str) or given not in known:
            raise SourceError(
                f"late events cannot be treated as '{given}' (there are: {', '.join(known)})"
                f"{did_you_mean(str(given), known)}"
            )
        return cls(given)


@watched
def append(
    stream: Stream,
    events: pa.Table | pa.RecordBatch,
    *,
    late: Late | str = Late.MERGE,
    derived: DerivedWriter | None = None,
    metadata: Mapping[str, str] | None = None,
    transactions: Mapping[str, int] | None = None,
    put_aside: pa.Table | None = None,
    guard: Callable[[], None] | None = None,
) -> AppendReport:
    """Append events to a stream; all of them become visible at once, or none.

    The stream is then what a bulk load of all its events in order of (time, arrival) had made.
    Where another process commits first, the append is prepared anew on what it left.

    Beside what ``Stream.append`` takes: ``metadata`` and ``transactions`` ride in the commit, see
    ``delta_log.commit_changes``; ``put_aside`` are rows of the quarantine table that go with the
    events, such as records that did not parse. ``guard`` is called in each attempt, once it is
    known which version it builds on: it raises where the events must not be appended to it, such as
    because another process took their source.
    """
    stream.check_writable()
    policy = Late.of(late)
    table = conform(events, stream.schema, where=f"append to '{stream.name}'").combine_chunks()
    job = _Append(stream, policy, derived, dict(metadata or {}), dict(transactions or {}), guard)
    timeless = pc.is_null(table.column(stream.settings.time))
    aside = {} if put_aside is None else {"": put_aside}
    if pc.any(timeless).as_py():
        aside[_NO_TIME_REASON] = table.filter(timeless)
        table = table.filter(pc.invert(timeless))
    ordered = _in_time_order(table, stream.settings.time)
    return retried(lambda: _try(job, ordered, aside))


@dataclass(frozen=True, slots=True)
class _Append:
    """What is the same for every attempt."""

    stream: Stream
    policy: Late
    derived: DerivedWriter | None
    metadata: dict[str, str]
    transactions: dict[str, int]
    guard: Callable[[], None] | None


def _try(job: _Append, events: pa.Table, aside: Mapping[str, pa.Table]) -> AppendReport:
    """Append to the newest version; leaves nothing behind if it fails."""
    snapshot = job.stream.snapshot()
    if job.guard is not None:
        job.guard()
    if not events.num_rows and not aside and not job.transactions:
        return AppendReport(0, 0, 0, 0, snapshot.version)
    # Another process may have added a column since the first attempt.
    events = conform(events, snapshot.schema, where=f"append to '{job.stream.name}'")
    times = times_of(events, job.stream.settings.time)
    end = snapshot.t_max
    n_late = 0 if end is None else int(np.searchsorted(times, end, "left"))
    late, new = events.slice(0, n_late), events.slice(n_late)
    aside = dict(aside)
    if n_late and job.policy is Late.REJECT:
        raise _to_error(job.stream, times[:n_late], snapshot, events.num_rows)
    if n_late and job.policy is Late.QUARANTINE:
        aside[LATE_REASON] = late
        late = events.slice(0, 0)
    batch_id = uuid.uuid4().hex
    written: list[WrittenFile] = []
    quarantine: list[QuarantineFile] = []
    try:
        quarantine = _write_aside(job.stream, batch_id, aside)
        removed, rewritten = _merge(job, snapshot, late, times[: late.num_rows])
        written += rewritten
        written += _write_new(job, snapshot, new)
        with job.stream.held():
            commit_quarantine(job.stream.path, quarantine)
        metadata = _metadata(job, batch_id if quarantine else None, late, new)
        change = Change(tuple(written), tuple(removed))
        committed = commit_change(
            job.stream, change, read_version=snapshot.version, metadata=metadata,
            transactions=job.transactions,
        )  # fmt: skip
    except BaseException:
        remove_uncommitted(job.stream, written, since=snapshot.version)
        raise
    reasons: dict[str, int] = {}
    for file in quarantine:
        reasons |= file.reasons
    taken = times if job.policy is not Late.QUARANTINE else times[n_late:]
    time = job.stream.settings.time
    kind = time_type(snapshot.schema.field(time).type, column=time)
    return AppendReport(
        first_time=show_time(int(taken[0]), kind) if len(taken) else None,
        last_time=show_time(int(taken[-1]), kind) if len(taken) else None,
        n_events=late.num_rows + new.num_rows,
        n_late=late.num_rows,
        n_rewritten=len(removed),
        n_quarantined=sum(file.n_rows for file in quarantine),
        version=committed.version,
        reasons=reasons,
        n_runs=sum(len(file.derived) for file in written),
        fault=committed.fault,
    )


def _merge(
    job: _Append, snapshot: Snapshot, late: pa.Table, times: Ints
) -> tuple[list[str], list[WrittenFile]]:
    """Write the files that late events belong to anew; return which go and which come."""
    stream, removed = job.stream, list[str]()
    t_min = np.array([file.t_min for file in snapshot.files], np.int64)
    with removed_on_failure(stream.path) as written:
        for placed in place_late(times, t_min):
            file = snapshot.files[placed.file]
            written += rewrite_files(
                Rewrite((file.name,), file.ordinal),
                events_dir=stream.path / "events",
                target_dir=stream.path,
                schema=snapshot.schema,
                settings=stream.settings,
                derived=job.derived,
                late=late.slice(placed.start, placed.stop - placed.start),
            )
            removed.append(file.name)
    return removed, written


def _write_new(job: _Append, snapshot: Snapshot, events: pa.Table) -> list[WrittenFile]:
    if not events.num_rows:
        return []
    return write_ordered(
        events.to_batches(),
        stream_dir=job.stream.path,
        schema=snapshot.schema,
        settings=job.stream.settings,
        ordinal_prefix=f"{job.stream.next_generation():06d}-{0:06d}",
        derived=job.derived,
    )


def _write_aside(
    stream: Stream, batch_id: str, aside: Mapping[str, pa.Table]
) -> list[QuarantineFile]:
    """Write what is put aside, by reason; rows of the quarantine table come without one."""
    writer = QuarantineWriter(stream.path / QUARANTINE_TABLE, f"{batch_id}.parquet")
    try:
        for reason, table in aside.items():
            if reason:
                table = rows_of_events(table, batch_id=batch_id, reason=reason, source="append")
            else:
                batch = pa.array([batch_id] * table.num_rows, pa.string())
                table = table.set_column(table.schema.get_field_index("batch"), "batch", batch)
            if table.num_rows:
                writer.write(table)
        file = writer.close()
    except BaseException:
        writer.discard()
        raise
    return [] if file is None else [file]


def _metadata(
    job: _Append, quarantine_batch: str | None, late: pa.Table, new: pa.Table
) -> dict[str, str]:
    metadata = {
        OPERATION: APPEND,
        "n_events": str(late.num_rows + new.num_rows),
        "n_late": str(late.num_rows),
    }
    if quarantine_batch is not None:
        metadata["quarantine_batch"] = quarantine_batch
    return metadata | job.metadata


def _to_error(stream: Stream, late: Ints, snapshot: Snapshot, n_events: int) -> LateEventError:
    assert snapshot.t_max is not None
    data_type = stream.schema.field(stream.settings.time).type
    oldest, end = (
        str(value) for value in from_int64(np.array([late[0], snapshot.t_max]), data_type)
        .cast(pa.string()).to_pylist()
    )  # fmt: skip
    return LateEventError(
        f"{len(late):,} of {n_events:,} events are older than the end of stream '{stream.name}' "
        f"({end}), the oldest of {oldest}; nothing was appended, take them out, merge them "
        "(late 'merge') or put them aside (late 'quarantine')",
        n_late=len(late),
    )


def _in_time_order(events: pa.Table, time: str) -> pa.Table:
    times = times_of(events, time)
    if is_ascending(times):
        return events
    return events.take(pa.array(np.argsort(times, kind="stable")))


@dataclass(frozen=True, slots=True)
class Placement:
    """Late events ``start:stop`` that go into one file."""

    file: int
    """Position of the file in stream order."""

    start: int
    stop: int


def place_late(times: Ints, t_min: Ints) -> list[Placement]:
    """Return which late events go into which file, ascending in both. Pure.

    An event goes into the last file that begins no later than it: behind all events of its own
    time, since they arrived before it, and where it falls between two files to the end of the
    first. Events older than all go to the front of the first file. So merging file by file gives
    the order (time, arrival) of the whole.

    ``times`` are those of the late events, ascending; ``t_min`` is the first time of every live
    file, in stream order, at least one.
    """
    if not len(times):
        return []
    file = np.maximum(np.searchsorted(t_min, times, "right") - 1, 0)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(file)) + 1))
    stops = np.concatenate((starts[1:], [len(times)]))
    return [
        Placement(int(file[start]), int(start), int(stop))
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    ]
