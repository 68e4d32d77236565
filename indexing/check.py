"""Verifies the runs of a stream: whole, in order, of known files, and holding what events give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chronicle import delta_log
from chronicle.block_writer import EVENTS_TABLE
from chronicle.check import COMMITTED
from chronicle.delta_log import LiveFile
from chronicle.errors import CorruptBlockError, StorageError, UnreadFileError
from chronicle.finding import CheckedEvents, Finding, Findings
from indexing.attributes import indexed_field
from indexing.config import FENCE_KEY_CHARS, MERGE_GROUPS, TAIL_FILE_EVENTS
from indexing.digest import EntryDigest, digest_entries, digest_file
from indexing.errors import CorruptRunError
from indexing.fences import Fences
from indexing.keys import key_kind
from indexing.run import FileRun, open_run
from indexing.tables import index_table, indexed_attributes, is_of_one_file

WHOLE = "runs are there with the size the log says, and every byte matches its checksum"
COVER = "runs cover data files that exist, with the events they have"
FENCES = "fences of runs ascend and hold their keys, and entries lie in the order of events"
ENTRIES = "runs hold the entries that the events give"
COVERED = "large data files have a run in each index"

_REPAIR = "chronicle repair"


def check_runs(events: CheckedEvents, *, deep: bool) -> list[Finding]:
    """Check every index of a stream (a :class:`chronicle.finding.DerivedCheck`).

    Reads all runs, some row groups at a time.

    Parameters
    ----------
    events
        What the events table and its data files say.
    deep
        Whether to compare the entries with those the events give.
    """
    findings = Findings(events.stream_dir.parent)
    checker = _RunChecker(events, findings, deep=deep)
    attributes = indexed_attributes(events.stream_dir, events.schema.names, events.settings.derived)
    n_runs = sum(checker.check_index(attribute) for attribute in attributes)
    runs = f"{n_runs} runs of {len(attributes)} indexes"
    for invariant in (WHOLE, COVER, FENCES, COVERED, *([ENTRIES] if deep else [])):
        findings.conclude(invariant, events.stream_dir, runs)
    return findings.all()


@dataclass(slots=True)
class _Group:
    """What is checked of some row groups of a run."""

    wrong: str | None
    digest: EntryDigest


@dataclass(frozen=True, slots=True)
class _RunChecker:
    events: CheckedEvents
    findings: Findings
    deep: bool

    def check_index(self, attribute: str) -> int:
        """Check the runs of one index; return how many there are."""
        folder = self.events.stream_dir / index_table(attribute)
        try:
            files = sorted(delta_log.load_table(folder).files, key=lambda file: file.name)
        except StorageError:
            return 0  # said of the logs already
        covered: set[str] = set()
        for file in files:
            covered |= self._check_run(attribute, folder / file.name, file)
        for name, n_events in self.events.counts.items():
            if n_events >= TAIL_FILE_EVENTS and name not in covered:
                what = f"no whole run covers '{name}', so lookups read its events"
                self.findings.warn(COVERED, folder, what, _REPAIR)
        return len(files)

    def _check_run(self, attribute: str, path: Path, file: LiveFile) -> set[str]:
        """Check one run; return the live data files it answers for."""
        data_file = self.events.stream_dir / EVENTS_TABLE / path.name
        is_old = path.name not in self.events.counts and is_of_one_file(path.name)
        if is_old and not data_file.exists():
            return set()  # vacuumed with its data file, or about to be
        try:
            run = open_run(path)
            self._check_head(run, attribute, file)
            wrong, digest = self._check_groups(run)
        except CorruptRunError as error:
            self.findings.fault(WHOLE, path, error.reason, _REPAIR, unread=error.unread)
            return set()
        except UnreadFileError as error:
            self.findings.fault(WHOLE, path, error.reason, "", unread=error.remedy)
            return set()
        if wrong is None and not self._check_cover(run, digest):
            return set()
        if wrong is None and self.deep:
            wrong = self._check_entries(run, digest)
            if wrong is not None:
                self.findings.fault(ENTRIES, path, wrong, _REPAIR)
        elif wrong is not None:
            self.findings.fault(FENCES, path, wrong, _REPAIR)
        counts = self.events.counts
        return {c.name for c in run.cover if wrong is None and counts.get(c.name) == c.n_events}

    def _check_head(self, run: FileRun, attribute: str, file: LiveFile) -> None:
        kind = key_kind(indexed_field(self.events.schema, attribute).type, attribute)
        if run.head.attribute != attribute or run.kind is not kind:
            found = f"it holds {run.kind.value} keys of '{run.head.attribute}'"
            raise CorruptRunError(str(run.path), found)
        if run.size_bytes != file.size_bytes:
            found = f"it has {run.size_bytes} bytes, the log says {file.size_bytes}"
            raise CorruptRunError(str(run.path), found)

    def _check_groups(self, run: FileRun) -> tuple[str | None, EntryDigest]:
        """Read all entries; return what is wrong with their order, and their digest."""
        wrong = _wrong_fences(run)
        digest = EntryDigest.none(len(run.cover))
        ends = np.cumsum([covered.n_events for covered in run.cover], dtype=np.int64)
        for first in range(0, len(run.fences), MERGE_GROUPS):
            groups = np.arange(first, min(len(run.fences), first + MERGE_GROUPS))
            read = run.read(groups)
            if wrong is None:
                wrong = _wrong_entries(run, groups, read.keys, read.position, ends)
            if wrong is None:
                digest.add(digest_entries(read, ends))
        return wrong, digest

    def _check_cover(self, run: FileRun, digest: EntryDigest) -> bool:
        counts, known = self.events.counts, self.events.known
        found = digest.n_entries.tolist()
        for covered, n_entries in zip(run.cover, found, strict=True):
            lost = self.events.stream_dir / EVENTS_TABLE / covered.name
            wrong = None
            if covered.name in counts and counts[covered.name] != covered.n_events:
                wrong = f"has {counts[covered.name]} events, the run says {covered.n_events}"
            elif n_entries != covered.n_entries:
                wrong = f"has {n_entries} entries in it, its footer says {covered.n_entries}"
            if wrong is not None:
                self.findings.fault(COVER, run.path, f"'{covered.name}' {wrong}", _REPAIR)
                return False
            if covered.name not in known and lost.exists():
                self._report_lost(run, lost)
        return True

    def _report_lost(self, run: FileRun, lost: Path) -> None:
        if is_of_one_file(run.path.name):
            return  # named alike, so said of the table already
        self.findings.fault(
            COMMITTED,
            lost,
            f"run '{run.path.name}' of index '{run.head.attribute}' covers this data file, and no "
            "version of the events table names it: the newest commits of that table were lost",
            "restore the newest commits of the events table from a copy before anything is written "
            "to the stream",
        )

    def _check_entries(self, run: FileRun, digest: EntryDigest) -> str | None:
        """Compare with the entries that the events of each covered live file give."""
        for i, covered in enumerate(run.cover):
            if covered.name not in self.events.readable:
                continue
            try:
                expected = digest_file(
                    self.events, covered.name, run.head.attribute,
                    with_objects=run.object_kind is not None,
                )  # fmt: skip
            except CorruptBlockError as error:
                return str(error)
            if expected != (int(digest.n_entries[i]), int(digest.total[i])):
                return f"its entries of '{covered.name}' are not those the events give"
        return None


def _wrong_fences(run: FileRun) -> str | None:
    fences = run.fences
    n = len(fences)
    if not all(bool(fences.low[g] <= fences.high[g]) for g in range(n)):
        return "a fence's low end is above its high end"
    if not all(_ascend(fences, g) for g in range(n - 1)):
        return "its fences do not ascend"
    return "a row group is empty" if n and int(fences.count.min()) < 1 else None


def _ascend(fences: Fences, g: int) -> bool:
    """Return whether a row group and the next one can lie in the order of their keys."""
    low, next_low = fences.low[g], fences.low[g + 1]
    if isinstance(next_low, str) and len(next_low) >= FENCE_KEY_CHARS:
        # Keys that begin alike are told apart behind where fences are cut: low ends are cut down
        # to the same text, high ends up to the next one.
        return bool(low <= next_low and fences.high[g] <= fences.high[g + 1])
    return bool(fences.high[g] <= next_low)


def _wrong_entries(
    run: FileRun, groups: np.ndarray, keys: np.ndarray, position: np.ndarray, ends: np.ndarray
) -> str | None:
    for group, part in _parts(run, groups):
        if keys[part].min() < run.fences.low[group] or keys[part].max() > run.fences.high[group]:
            return f"row group {group} holds keys outside its fence"
        inside = position[part]
        if inside[0] < 0 or not len(ends) or inside[-1] >= ends[-1]:
            return f"row group {group} names events that its data files do not have"
        if (np.diff(inside) <= 0).any():
            return f"entries of row group {group} are not in the order of events"
    return None


def _parts(run: FileRun, groups: np.ndarray) -> Iterator[tuple[int, slice]]:
    start = 0
    for group in groups.tolist():
        stop = start + int(run.fences.count[group])
        yield group, slice(start, stop)
        start = stop
