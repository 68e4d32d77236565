"""What a check says of a store: one finding per invariant that holds, one per fault otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from chronicle.settings import StreamSettings
from chronicle.tree.blocks import BlockReader


class Severity(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    """The invariant holds."""

    WARNING = "warning"
    """Something lies about or is missing that costs time or room; answers are right."""

    FAULT = "fault"
    """The invariant is broken."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found about one invariant."""

    severity: Severity
    invariant: str
    """What must hold, in a few words."""

    file: str
    """File that breaks it, relative to the store; the stream or empty where no one file does."""

    what: str
    """What was found."""

    remedy: str = ""
    """What to do next; empty where there is nothing to do."""

    is_unread: bool = False
    """Whether the system only did not hand out the file, which may be whole: nothing is to be
    restored, and repair leaves it as it is."""


@dataclass(frozen=True, slots=True)
class CheckedEvents:
    """The events of a stream as a check found them: what derived data is compared with."""

    stream_dir: Path
    schema: pa.Schema
    settings: StreamSettings
    counts: Mapping[str, int]
    """Number of events of each live data file, damaged ones included, in stream order."""

    readable: frozenset[str]
    """Live data files that are whole."""

    known: frozenset[str]
    """Data files that any version of the events table names."""

    reader: BlockReader


class DerivedCheck(Protocol):
    """Checks what is derived from the events, such as runs; handed in from above."""

    def __call__(self, events: CheckedEvents, /, *, deep: bool) -> Iterable[Finding]:
        """Return findings; ``deep`` asks to compare everything with the events themselves."""
        ...


class Findings:
    """Collects findings; an invariant about which none was reported holds."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._found: list[Finding] = []

    def fault(
        self, invariant: str, path: Path, what: str, remedy: str, *, unread: str | None = None
    ) -> None:
        """Report a file that breaks an invariant.

        ``unread`` takes the place of the remedy where the system did not hand out the file.
        """
        is_unread = unread is not None
        self._add(Severity.FAULT, invariant, path, what, unread or remedy, is_unread=is_unread)

    def warn(self, invariant: str, path: Path, what: str, remedy: str) -> None:
        """Report a file that costs time or room."""
        self._add(Severity.WARNING, invariant, path, what, remedy)

    def conclude(self, invariant: str, path: Path, what: str) -> None:
        """Say that an invariant holds, unless something was reported about it."""
        if not self.has(invariant):
            self._add(Severity.OK, invariant, path, what, "")

    def has(self, invariant: str) -> bool:
        """Return whether anything was reported about an invariant."""
        return any(finding.invariant == invariant for finding in self._found)

    def all(self) -> list[Finding]:
        """Return the findings in the order they were made."""
        return list(self._found)

    def _add(
        self,
        severity: Severity,
        invariant: str,
        path: Path,
        what: str,
        remedy: str,
        *,
        is_unread: bool = False,
    ) -> None:
        inside = path.is_relative_to(self._root)
        name = path.relative_to(self._root).as_posix() if inside else str(path)
        name = "" if name == "." else name
        self._found.append(Finding(severity, invariant, name, what, remedy, is_unread))


def faults_of(findings: Sequence[Finding]) -> list[Finding]:
    """Return the faults among findings."""
    return [finding for finding in findings if finding.severity is Severity.FAULT]
