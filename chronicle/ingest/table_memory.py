"""Up to which version a stream has taken a Delta table, and whether it is still that table.

A commit that takes a table says so twice, under the table's path and under its id: the version, and
63 bits of what the commit of that version holds. So a table that moved is known by its id, one that
got another id by its path, and neither a copy that was restored nor a table made anew is taken for
it: their commit of that number is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chronicle.config import EVENTS_TABLE
from chronicle.errors import SourceError
from chronicle.ingest.source_memory import to_application_id
from chronicle.log import delta_log
from chronicle.log.delta_log import ForeignTable
from chronicle.store import Stream
from chronicle.words import number_of

TABLE_PREFIX = "chronicle.table."
"""Delta application ids of this prefix stand for Delta tables, their numbers for versions."""

_COMMIT = ".commit"
"""Ends the application id whose number stands for what the commit of that version holds."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A version of a table that a stream has taken."""

    version: int
    commit: int | None = None
    """Stands for what its commit holds; None in streams of Chronicle 0.3, which did not say."""

    note: str = ""
    """What whoever asked should know."""


def to_transactions(table: ForeignTable) -> dict[str, int]:
    """Return what a commit must carry that takes a version of a table."""
    commit = delta_log.commit_fingerprint(table.path, table.version)
    found = {}
    for name in (_by_path(table), _by_id(table.id)):
        found[name] = table.version
        if commit is not None:
            found[name + _COMMIT] = commit
    return found


def since_taken(stream: Stream | None) -> Callable[[ForeignTable], Taken | None]:
    """Return what tells up to which version a stream has taken a Delta table.

    It refuses a table that is no longer, or was never, the one that was taken.
    """

    def since(table: ForeignTable) -> Taken | None:
        return None if stream is None else _since(stream, table)

    return since


def _since(stream: Stream, table: ForeignTable) -> Taken | None:
    at_path, of_id = _recall(stream, [_by_path(table), _by_id(table.id)])
    others: list[Taken | None] = []
    if at_path is None and of_id is None:
        ids = delta_log.former_ids(table)
        others = _recall(stream, [_by_id(one) for one in ids])
        if not any(others):  # what Chronicle 0.3 wrote down
            others = _recall(stream, [_by_both(table, one) for one in (table.id, *ids)])
            at_path = next(filter(None, others), None)
    same = [of_id, *others]
    commits = {
        taken.version: delta_log.commit_fingerprint(table.path, taken.version)
        for taken in (at_path, *same)
        if taken is not None and taken.version <= table.version
    }
    return choose_taken(table, at_path, same, commits, stream=stream.name)


def choose_taken(
    table: ForeignTable,
    at_path: Taken | None,
    same: Iterable[Taken | None],
    commits: Mapping[int, int | None],
    *,
    stream: str,
) -> Taken | None:
    """Return the version up to which a stream has taken a table; None if it was not. Pure.

    ``at_path`` is what is known of the table at this place, ``same`` what is known of a table of
    this id, or of one that it had, wherever it lay. ``commits`` stand for what the log holds now,
    by version. Refuses a table whose commits are others than those that were taken.
    """
    of_id = [taken for taken in same if taken is not None]
    known = [*([] if at_path is None else [at_path]), *of_id]
    for taken in known:
        if taken.version > table.version:
            what = f"has only {number_of(table.version + 1, 'version')} now"
        elif taken.commit is None or commits[taken.version] == taken.commit:
            continue
        elif commits[taken.version] is None:
            raise SourceError(
                f"Delta table '{table.path}' was taken up to its version {taken.version}, and that "
                "commit is in its log no more, so what is new cannot be told; take the table whole "
                "into a new stream"
            )
        else:
            what = f"has another commit as version {taken.version} now"
        if not of_id:
            raise SourceError(
                f"'{table.path}' is another table (its id is {table.id}) than the one of which "
                f"stream '{stream}' took version {taken.version} there; move it elsewhere if it "
                "is not meant, or give --again to take it whole"
            )
        raise SourceError(
            f"Delta table '{table.path}' was taken up to its version {taken.version}, and {what} "
            "(was it restored from a copy?), so what is new cannot be told; take the table whole "
            "into a new stream, or give --again to take all of its rows once more"
        )
    if not known:
        return None
    latest = max(known, key=lambda taken: taken.version)
    if at_path is None:
        note = (
            f"Delta table '{table.path}' is the one that was taken elsewhere up to its version "
            f"{latest.version}; what came since is taken"
        )
        return Taken(latest.version, latest.commit, note)
    return latest


def _recall(stream: Stream, names: Iterable[str]) -> list[Taken | None]:
    """Return what a stream remembers under several names."""
    wanted = list(names)
    ids = [*wanted, *(name + _COMMIT for name in wanted)]
    found = delta_log.transaction_versions(stream.path / EVENTS_TABLE, ids) if ids else {}
    return [
        Taken(found[name], found.get(name + _COMMIT)) if name in found else None for name in wanted
    ]


def _by_path(table: ForeignTable) -> str:
    return _to_name(f"path:{Path(table.path).resolve()}")


def _by_id(identity: str) -> str:
    return _to_name(f"id:{identity}")


def _to_name(text: str) -> str:
    return TABLE_PREFIX + hashlib.sha256(text.encode()).hexdigest()


def _by_both(table: ForeignTable, identity: str) -> str:
    """Return what Chronicle 0.3 called a table in a commit."""
    return to_application_id(f"{Path(table.path).resolve()}#{identity}")
