"""Commits as versions of a stream: what each changed, and which was the newest at a time. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from chronicle.errors import VersionNotFoundError
from chronicle.foreign_text import parse_json
from chronicle.log.delta_log import Commit

_OPERATION = "chronicle.operation"

_CREATE = "create"

_EVENTS_GAINED = {
    _CREATE: 0, "ingest": 1, "append": 1, "materialise": 1, "compact": 0, "delete": -1,
    "add column": 0, "adopt": 1,
}  # fmt: skip
"""What an operation does to the number of events, as a factor of its ``n_events``."""

_SOURCES = "sources"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One version of a stream and the commit that made it."""

    version: int
    time: dt.datetime
    """When it was committed, UTC; never before the version before it, whatever the clocks."""

    operation: str
    """``create``, ``ingest``, ``append``, ``materialise`` (the answer of a query), ``compact``,
    ``delete``, ``add column``, ``adopt``, or what a foreign writer called it."""

    n_events: int | None
    """Events it added, or took out; None if it does not say."""

    n_late: int
    """Of these, events older than the end of the stream as it was."""

    n_events_total: int | None
    """Events of the stream at this version; None if a later commit does not say what it did."""

    sources: tuple[str, ...]
    """Paths of the input files it took."""

    quarantine_batch: str | None
    """Batch of the records it could not take; None if there is none."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for machines; the time as ISO 8601."""
        return asdict(self) | {"time": _iso(self.time), "sources": list(self.sources)}


def to_history(commits: Sequence[Commit], n_events_total: int | None) -> list[HistoryEntry]:
    """Return commits as versions of a stream. Pure.

    ``commits`` come newest first; ``n_events_total`` are the events of the stream at the newest,
    None if not known.
    """
    times = _monotone(commits)
    entries = []
    for commit, time_ms in zip(commits, times, strict=True):
        metadata = commit.metadata
        operation = _operation(commit)
        entry = HistoryEntry(
            version=commit.version,
            time=_to_datetime(time_ms),
            operation=operation,
            n_events=_count(metadata.get("n_events")),
            n_late=_count(metadata.get("n_late")) or 0,
            n_events_total=0 if operation == _CREATE else n_events_total,
            sources=_source_paths(metadata.get(_SOURCES)),
            quarantine_batch=metadata.get("quarantine_batch"),
        )
        entries.append(entry)
        n_events_total = _total_before(entry)
    return entries


def _operation(commit: Commit) -> str:
    """Return what a commit did; those of format version 1 say it in Delta's words alone."""
    said = commit.metadata.get(_OPERATION)
    if said is not None:
        return said
    if commit.operation == "CREATE TABLE":
        return _CREATE
    return "ingest" if _SOURCES in commit.metadata else commit.operation.lower()


def _total_before(entry: HistoryEntry) -> int | None:
    """Return the events of the version before."""
    factor = _EVENTS_GAINED.get(entry.operation)
    if entry.n_events_total is None or factor is None:
        return None
    if factor == 0:
        return entry.n_events_total
    return None if entry.n_events is None else entry.n_events_total - factor * entry.n_events


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _source_paths(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    try:
        return tuple(str(source["path"]) for source in parse_json(text))
    except (ValueError, TypeError, KeyError):
        return (text,)  # a foreign writer's: better shown as it is than not at all


def version_at(commits: Sequence[Commit], time: dt.datetime) -> int:
    """Return the latest version committed at or before a time. Pure.

    Commits are dated by what they say of themselves, not by their files' times, which a copy of
    the store loses; where clocks went back, a commit counts as of the time of the one before.

    ``commits`` come newest first, at least one; a time without a zone is UTC. Raises
    VersionNotFoundError if the log does not go back so far.
    """
    asked = _to_utc(time)
    times = _monotone(commits)
    for commit, time_ms in zip(commits, times, strict=True):
        if _to_datetime(time_ms) <= asked:
            return commit.version
    first = _to_datetime(times[-1])
    raise VersionNotFoundError(
        f"there is no version as old as {_iso(asked)}; the first one known is version "
        f"{commits[-1].version} of {_iso(first)}, name that time or a later one"
    )


def parse_version(text: str) -> int | dt.datetime:
    """Read a version as people write it: a number, or a time in ISO 8601.

    Digits alone are a number. A date is its first instant, a time without a zone is UTC.

    Examples
    --------
    >>> parse_version("12"), parse_version("2024-05-01")
    (12, datetime.datetime(2024, 5, 1, 0, 0, tzinfo=datetime.timezone.utc))
    """
    stripped = text.strip()
    if stripped.isdecimal():
        return int(stripped)
    try:
        return _to_utc(dt.datetime.fromisoformat(stripped))
    except ValueError as error:
        raise VersionNotFoundError(
            f"'{text}' is neither a version nor a time; give a number from 0, or a time such as "
            "2024-05-01T12:30 (UTC unless it names a zone)"
        ) from error


def _monotone(commits: Sequence[Commit]) -> list[int]:
    """Return when commits were made, newest first: none before an older one."""
    return list(accumulate((c.timestamp_ms for c in reversed(commits)), max))[::-1]


def _iso(time: dt.datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _to_datetime(time_ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=time_ms)


def _to_utc(time: dt.datetime) -> dt.datetime:
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
