"""Checks files one by one: data files, their tree files, and those of the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.config import EVENTS_TABLE
from chronicle.disk_errors import reason_of, unread_remedy
from chronicle.errors import (
    ChangedFileError,
    ChronicleError,
    CorruptBlockError,
    CorruptTreeError,
    ForeignFileError,
    StorageError,
    UnreadFileError,
)
from chronicle.log import delta_log
from chronicle.log.delta_log import LiveFile, TableState
from chronicle.maintenance.finding import Findings
from chronicle.ordinal import parse_ordinal
from chronicle.settings import StreamSettings
from chronicle.time import is_ascending, show_time, time_type, to_int64
from chronicle.tree.blocks import BlockReader, block_counts
from chronicle.tree.derived_attributes import (
    Declared,
    check_derived,
    columns_for,
    summarise_declared,
)
from chronicle.tree.summarise import summarise, summarise_times
from chronicle.tree.summary import AttributeSummary, Ints, TimeSummary, kind_of
from chronicle.tree.tree_file import TREE_TABLE, TreeFile, build_levels
from chronicle.words import number_of
from chronicle.write.quarantine import QUARANTINE_SCHEMA, QUARANTINE_TABLE, named_batches

NAMES = "names of data files carry their place in the stream"
FILES = "data files are there with the size and the events the log says"
CHECKSUMS = "every byte of a data file matches its checksum"
BLOCKS = "blocks are full but for the last of a file"
TIMES = "time ascends within a data file and is never null"
ORDER = "data files do not overlap in time"
TREE = "each data file has tree entries, equal to those its events give"
QUARANTINE = "records put aside are there, and every page matches its checksum"

_RESTORE = (
    "restore the file from a copy, or delete its stretch of time; until then queries answer "
    "without it under --skip-damaged"
)
_RESTORE_RECORDS = "restore it from a copy, or take the records from the sources of that ingest"
_ADOPT_AGAIN = (
    "run 'chronicle adopt' again, which verifies it anew, or take the table in with 'chronicle "
    "ingest'"
)
_FOREIGN = (
    "restore the table to the last version before it (Delta RESTORE), or ingest its events into a "
    "new stream"
)
_REPAIR = "chronicle repair"
_SCAN_BLOCKS = 64

_Summary = TypeVar("_Summary", TimeSummary, AttributeSummary)


@dataclass(frozen=True, slots=True)
class FileSpan:
    """Where a data file lies in time, as its events say."""

    name: str
    ordinal: tuple[int, ...]
    t_min: int
    t_max: int


@dataclass(frozen=True, slots=True)
class EventsChecker:
    """Checks the data files of one stream; holds one column of one of them in memory."""

    stream_dir: Path
    schema: pa.Schema
    settings: StreamSettings
    reader: BlockReader
    findings: Findings

    def check_file(self, file: LiveFile, *, tree: bool, deep: bool) -> FileSpan | None:
        """Check a data file and its tree file.

        ``tree`` says whether the tree table lists a tree file of it; ``deep`` asks to compare all
        summaries with the events, not those of times alone. None if the file cannot be read.
        """
        path = self.stream_dir / EVENTS_TABLE / file.name
        ordinal = self._ordinal(path)
        try:
            counts = self._check_blocks(file, path)
            self._check_bytes(file.name, counts)
            times = self._times(file.name, path, len(counts))
        except CorruptBlockError as error:
            invariant = CHECKSUMS if path.exists() else FILES
            what, remedy = error.reason + self._lost(file.name), _RESTORE
            if isinstance(error, ChangedFileError):
                what, remedy = f"of '{error.target}': {what}", _ADOPT_AGAIN
            self.findings.fault(invariant, path, what, remedy)
            return None
        except UnreadFileError as error:
            self.findings.fault(CHECKSUMS, path, error.reason, "", unread=error.remedy)
            return None
        if times is None or len(times) == 0:
            return None
        self._check_tree(file.name, times, counts, listed=tree, deep=deep)
        return FileSpan(file.name, ordinal, int(times.min()), int(times.max()))

    def _lost(self, name: str) -> str:
        """Say which stretch of time a data file that cannot be read holds, if its tree knows."""
        try:
            leaves = TreeFile(self.stream_dir / TREE_TABLE / name).times()[0]
        except (CorruptTreeError, UnreadFileError):
            return ""
        kind = time_type(self.schema.field(self.settings.time).type, column=self.settings.time)
        first, last = show_time(int(leaves.t_min[0]), kind), show_time(int(leaves.t_max[-1]), kind)
        return f"; its {int(leaves.count.sum()):,} events lie from {first} to {last}"

    def _ordinal(self, path: Path) -> tuple[int, ...]:
        try:
            return parse_ordinal(path.name, events_dir=path.parent)
        except ForeignFileError as error:
            self.findings.fault(NAMES, path, str(error), _FOREIGN)
            return ()

    def _check_blocks(self, file: LiveFile, path: Path) -> list[int]:
        """Compare size and counts with the log and the settings; return events per block."""
        counts = self.reader.block_counts(file.name)
        size, n_events = path.stat().st_size, sum(counts)
        if size != file.size_bytes:
            what = f"it has {size} bytes, the log says {file.size_bytes}"
            self.findings.fault(FILES, path, what, _RESTORE)
        if file.n_rows is not None and n_events != file.n_rows:
            what = f"it has {number_of(n_events, 'event')}, the log says {file.n_rows}"
            self.findings.fault(FILES, path, what, _RESTORE)
        if self.settings.adopted_from is not None:
            return counts  # blocks are the row groups of whoever wrote the file
        if n_events > self.settings.file_events:
            most = self.settings.file_events
            what = f"it has {number_of(n_events, 'event')}, at most {most} were to be"
            self.findings.fault(BLOCKS, path, what, _FOREIGN)
        expected = block_counts(n_events, self.settings.block_events)
        if counts != expected:
            at = next(i for i, n in enumerate(counts) if i >= len(expected) or n != expected[i])
            what = f"block {at} has {counts[at]} events, not {expected[min(at, len(expected) - 1)]}"
            self.findings.fault(BLOCKS, path, what, _FOREIGN)
        return counts

    def _check_bytes(self, name: str, counts: list[int]) -> None:
        for first in range(0, len(counts), _SCAN_BLOCKS):
            self.reader.verify(name, range(first, min(len(counts), first + _SCAN_BLOCKS)))

    def _times(self, name: str, path: Path, n_blocks: int) -> Ints | None:
        """Return the times of all events; None if one is null."""
        column = self.reader.read(name, range(n_blocks), [self.settings.time]).column(0)
        if column.null_count:
            what = f"events without a time: {column.null_count:,}"
            self.findings.fault(TIMES, path, what, _FOREIGN)
            return None
        times: Ints = to_int64(column, name=self.settings.time).to_numpy()
        if not is_ascending(times):
            at = int(np.flatnonzero(times[1:] < times[:-1])[0]) + 1
            what = f"time goes back from {times[at - 1]} to {times[at]} at its event {at}"
            self.findings.fault(TIMES, path, what, _FOREIGN)
        return times

    def _check_tree(
        self, name: str, times: Ints, counts: list[int], *, listed: bool, deep: bool
    ) -> None:
        path = self.stream_dir / TREE_TABLE / name
        if not listed:
            what = f"no tree entries of '{name}' are stored, so it is always read in full"
            self.findings.warn(TREE, path, what, _REPAIR)
            return
        stored, unread = TreeFile(path), None
        try:
            stored.check()
            expected = build_levels(summarise_times(times, counts), self.settings.fan_out)
            wrong = _different(stored.times(), expected)
            for column in self.schema.names if deep and not wrong else ():
                wrong = wrong or self._check_attribute(stored, name, column, counts)
            for derived in self._declared() if not wrong else ():
                wrong = wrong or self._check_derived(stored, name, derived, counts, deep=deep)
        except (ChronicleError, OSError, ValueError) as error:
            wrong, unread = _reason(error), _unread(error)
        if wrong:
            self.findings.fault(TREE, path, wrong, _REPAIR, unread=unread)

    def _check_attribute(
        self, stored: TreeFile, name: str, column: str, counts: list[int]
    ) -> str | None:
        kind = kind_of(self.schema.field(column).type)
        found = stored.attribute(column, kind)
        if found is None:
            held = self.reader.has_column(name, column)
            return f"it has no entries of '{column}'" if held else None
        values = self.reader.read(name, range(len(counts)), [column]).column(0)
        expected = build_levels(summarise(values, counts), self.settings.fan_out)
        wrong = _different(found, expected)
        return f"'{column}': {wrong}" if wrong else None

    def _declared(self) -> tuple[Declared, ...]:
        return check_derived(self.schema, self.settings.derived, key=self.settings.key)

    def _check_derived(
        self, stored: TreeFile, name: str, derived: Declared, counts: list[int], *, deep: bool
    ) -> str | None:
        if not stored.holds([derived.name]):
            what = f"it has no entries of '{derived.name}', so nothing is known of its blocks"
            self.findings.warn(TREE, self.stream_dir / TREE_TABLE / name, what, _REPAIR)
            return None
        if not deep:
            return None
        key = self.settings.key
        columns = columns_for(self.schema, [derived.name], key)
        events = self.reader.read(name, range(len(counts)), columns)
        for attribute, leaves in summarise_declared(events, derived, key, counts).items():
            found = stored.attribute(attribute, leaves.kind)
            if found is None:
                return f"it has no entries of '{attribute}'"
            expected = build_levels(leaves, self.settings.fan_out)
            wrong = _different(found, expected)
            if wrong:
                return f"'{attribute}': {wrong}"
        return None


def check_order(
    spans: Mapping[str, FileSpan], stream_dir: Path, findings: Findings
) -> list[FileSpan]:
    """Check that files follow each other in time; return them in stream order."""
    ordered = sorted(spans.values(), key=lambda s: (s.t_min, s.t_max, s.ordinal, s.name))
    furthest: FileSpan | None = None
    for span in ordered:
        if furthest is not None and span.t_min < furthest.t_max:
            findings.fault(
                ORDER,
                stream_dir / EVENTS_TABLE / span.name,
                f"it starts at {span.t_min}, before '{furthest.name}' ends at {furthest.t_max}",
                "restore the table to the last version before the second (Delta RESTORE)",
            )
        if furthest is None or span.t_max > furthest.t_max:
            furthest = span
    return ordered


def _different(found: list[_Summary], expected: list[_Summary]) -> str | None:
    """Return where stored levels differ from those the events give; None if they do not."""
    if [len(level) for level in found] != [len(level) for level in expected]:
        return f"it has {[len(level) for level in found]} entries by level, not " + str(
            [len(level) for level in expected]
        )
    for k, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        names = [field.name for field in fields(ours) if field.name != "kind"]
        for name, a, b in zip(names, ours.columns(), theirs.columns(), strict=True):
            if not _equal(a, b):
                return f"its {name} on level {k} is not what the events give"
    return None


def _equal(found: object, expected: object) -> bool:
    if isinstance(found, pa.Array | pa.ChunkedArray) or not isinstance(expected, np.ndarray):
        return _to_list(found) == _to_list(expected)
    is_float = expected.dtype.kind == "f"
    return bool(np.array_equal(np.asarray(found), expected, equal_nan=is_float))


def _to_list(column: object) -> object:
    to_list: Callable[[], object] = getattr(column, "to_pylist", lambda: column)
    return to_list()


def _reason(error: Exception) -> str:
    if isinstance(error, CorruptTreeError | UnreadFileError):
        return error.reason
    return reason_of(error)


def _unread(error: Exception) -> str | None:
    if isinstance(error, CorruptTreeError):
        return error.unread
    return error.remedy if isinstance(error, UnreadFileError) else unread_remedy(error)


def check_quarantine(path: Path, state: TableState | None, findings: Findings) -> None:
    """Check the quarantine table of a stream.

    ``state`` is None where there is no such table or its log cannot be read.
    """
    folder = path / QUARANTINE_TABLE
    if state is None and folder.exists():
        return  # said of its log already
    files = () if state is None else state.files
    batches: set[str] = set()
    for file in sorted(files, key=lambda file: file.name):
        batches |= _check_records(folder / file.name, file, findings)
    missing = _named_batches(path) - batches
    if missing and not findings.has(QUARANTINE):
        what = f"records of {len(missing)} batches are gone that commits of the events name"
        findings.fault(QUARANTINE, folder, what, _RESTORE_RECORDS)
    n_records = sum(file.n_rows or 0 for file in files)
    findings.conclude(QUARANTINE, path, f"{n_records} records of {len(batches)} batches")


def _check_records(path: Path, file: LiveFile, findings: Findings) -> set[str]:
    """Check one file; return the batches it holds."""
    try:
        size = path.stat().st_size
        table = pq.read_table(path, page_checksum_verification=True, partitioning=None)
    except (OSError, ValueError, pa.ArrowException) as error:
        what = "the file is missing" if isinstance(error, FileNotFoundError) else reason_of(error)
        findings.fault(QUARANTINE, path, what, _RESTORE_RECORDS, unread=unread_remedy(error))
        return set()
    wrong = None
    if list(table.schema) not in [list(QUARANTINE_SCHEMA)[:n] for n in (4, 5, 6, 7)]:  # older ones
        wrong = "its columns are not those of the quarantine"
    elif size != file.size_bytes:
        wrong = f"it has {size} bytes, the log says {file.size_bytes}"
    elif file.n_rows is not None and table.num_rows != file.n_rows:
        wrong = f"it has {table.num_rows} records, the log says {file.n_rows}"
    if wrong is not None:
        findings.fault(QUARANTINE, path, wrong, _RESTORE_RECORDS)
        return set()
    return set(table.column("batch").unique().to_pylist())


def _named_batches(path: Path) -> set[str]:
    """Return the batches that commits of the events name, as far back as the log reaches."""
    try:
        return named_batches(delta_log.commits(path / EVENTS_TABLE))
    except StorageError:
        return set()  # said of that log already
