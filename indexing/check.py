"""Verifies the runs of a stream: whole, in order, of known files, and holding what events give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chronicle.config import EVENTS_TABLE
from chronicle.errors import CorruptBlockError, StorageError, UnreadFileError
from chronicle.log import delta_log
from chronicle.log.delta_log import LiveFile
from chronicle.maintenance.check import COMMITTED
from chronicle.maintenance.finding import CheckedEvents, Finding, Findings
from chronicle.words import number_of
from indexing.attributes import indexed_field
from indexing.config import MERGE_GROUPS, TAIL_FILE_EVENTS
from indexing.errors import CorruptRunError
from indexing.fingerprint import EntryFingerprint, fingerprint_entries, fingerprint_file
from indexing.keys import key_kind
from indexing.run import Run, open_run
from indexing.tables import index_table, indexed_attributes, is_of_one_file

WHOLE = (
    "runs are there with the size the log says, every byte matches its checksum, and keys and "
    "events are in order"
)
COVER = "runs cover data files that exist, with the events they have"
ENTRIES = "runs hold the entries that the events give"
COVERED = "large data files have a run in each index"

_REPAIR = "chronicle repair"


def check_runs(events: CheckedEvents, *, deep: bool) -> list[Finding]:
    """Check every index of a stream (a :class:`chronicle.maintenance.finding.DerivedCheck`).

    Reads all runs, some groups at a time.

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
    runs = f"{number_of(n_runs, 'run')} of {number_of(len(attributes), 'index', 'indexes')}"
    for invariant in (WHOLE, COVER, COVERED, *([ENTRIES] if deep else [])):
        findings.conclude(invariant, events.stream_dir, runs)
    return findings.all()


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
            fingerprint = self._fingerprint(run)
        except CorruptRunError as error:
            self.findings.fault(WHOLE, path, error.reason, _REPAIR, unread=error.unread)
            return set()
        except UnreadFileError as error:
            self.findings.fault(WHOLE, path, error.reason, "", unread=error.remedy)
            return set()
        if not self._check_cover(run, fingerprint):
            return set()
        if self.deep and (wrong := self._check_entries(run, fingerprint)) is not None:
            self.findings.fault(ENTRIES, path, wrong, _REPAIR)
            return set()
        counts = self.events.counts
        return {c.name for c in run.cover if counts.get(c.name) == c.n_events}

    def _check_head(self, run: Run, attribute: str, file: LiveFile) -> None:
        kind = key_kind(indexed_field(self.events.schema, attribute).type, attribute)
        run.check_keys(attribute, kind)
        if run.size_bytes != file.size_bytes:
            found = f"it has {run.size_bytes} bytes, the log says {file.size_bytes}"
            raise CorruptRunError(str(run.path), found)

    def _fingerprint(self, run: Run) -> EntryFingerprint:
        """Read all entries, which checks them, and return their fingerprint."""
        fingerprint = EntryFingerprint.none(len(run.cover))
        ends = np.cumsum([covered.n_events for covered in run.cover], dtype=np.int64)
        for first in range(0, len(run.fences), MERGE_GROUPS):
            groups = np.arange(first, min(len(run.fences), first + MERGE_GROUPS))
            fingerprint.add(fingerprint_entries(run.read(groups), ends))
        return fingerprint

    def _check_cover(self, run: Run, fingerprint: EntryFingerprint) -> bool:
        counts, known = self.events.counts, self.events.known
        found = fingerprint.n_entries.tolist()
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

    def _report_lost(self, run: Run, lost: Path) -> None:
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

    def _check_entries(self, run: Run, fingerprint: EntryFingerprint) -> str | None:
        """Compare with the entries that the events of each covered live file give."""
        for i, covered in enumerate(run.cover):
            if covered.name not in self.events.readable:
                continue
            try:
                expected = fingerprint_file(
                    self.events, covered.name, run.head.attribute,
                    with_objects=run.object_kind is not None,
                )  # fmt: skip
            except CorruptBlockError as error:
                return str(error)
            if expected != (int(fingerprint.n_entries[i]), int(fingerprint.total[i])):
                return f"its entries of '{covered.name}' are not those the events give"
        return None
