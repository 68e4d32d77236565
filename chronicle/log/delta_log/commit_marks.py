"""What a commit says of itself, so that one overwritten by another's text is noticed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chronicle.disk_errors import reason_of
from chronicle.errors import StorageError, unread
from chronicle.log.delta_log.files import APPLICATION_ID, LOG_FOLDER, Stamp, commit_path
from chronicle.log.delta_log.torn import torn_remedy

TABLE, ROWS, COMMIT = "chronicle.table", "chronicle.rows", "chronicle.commit"
"""Names in a commit's metadata: Delta's id of the table it was made for, the rows that the table
has with it, and a name that no other commit has."""

MARKS = frozenset({TABLE, ROWS, COMMIT})


@dataclass(frozen=True, slots=True)
class CommitMarks:
    """What a commit says of itself; None where it does not."""

    version: int | None = None
    """The version it was made to be: the number of Chronicle's own transaction."""

    identity: str | None = None
    """Delta's id of the table it belongs to."""

    n_rows: int | None = None
    """Rows of the table with it."""

    name: str | None = None
    """Which no other commit has."""

    stamp: Stamp | None = None
    """Of the file it was read from."""


def to_marks(text: str) -> CommitMarks:
    """Return what the text of a commit says of itself; what is no JSON says nothing. Pure."""
    version, info, identity = None, dict[str, Any](), None
    for line in text.splitlines():
        if not line.startswith(('{"txn"', '{"commitInfo"', '{"metaData"')):
            continue
        try:
            action = json.loads(line)
        except ValueError:
            continue
        txn = action.get("txn")
        if txn is not None and txn.get("appId") == APPLICATION_ID:
            version = int(txn["version"])
        info = action.get("commitInfo") or info
        identity = (action.get("metaData") or {}).get("id", identity)
    n_rows = info.get(ROWS)
    return CommitMarks(
        version,
        info.get(TABLE, identity),
        None if n_rows is None else int(n_rows),
        info.get(COMMIT),
    )


def why_foreign(marks: CommitMarks, *, version: int, identity: str | None) -> str | None:
    """Return why a commit cannot be that of a version of a table; None if it can. Pure.

    Commits of other programs and of older Chronicles say less, and are taken as they are.
    """
    if marks.version not in (None, version):
        return f"it holds the text of version {marks.version}"
    if None not in (marks.identity, identity) and marks.identity != identity:
        return "it holds the text of a commit to another table"
    return None


def read_marks(path: Path) -> CommitMarks | None:
    """Return what a commit file says of itself; None if it is gone.

    Refuses one that is empty, as a crash of the machine can leave it.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text, found = file.read(), os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unread(path, error) or StorageError(
            f"commit '{path}' cannot be read ({reason_of(error)}); restore it from a copy"
        ) from error
    if not text:
        raise StorageError(f"commit '{path}' is empty; {torn_remedy(path)}")
    marks = to_marks(text)
    stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
    return CommitMarks(marks.version, marks.identity, marks.n_rows, marks.name, stamp)


def check_commits(path: Path, version: int, *, identity: str, after: int) -> CommitMarks:
    """Check the commits that a version of a table is made of; return what the last says of itself.

    Why: Delta takes an empty commit for one that changed nothing, and any text for that of the
    version its file is called like: events would be gone, or come twice, unseen. Only commits
    after ``after`` and after the checkpoint are read.
    """
    try:
        names = os.listdir(path / LOG_FOLDER)  # noqa: PTH208
    except OSError as error:
        raise unread(path / LOG_FOLDER, error) or StorageError(
            f"no Delta table at '{path}' any more; was it dropped?"
        ) from error
    stems = [name.split(".checkpoint.") for name in names]
    checkpoints = [int(stem[0]) for stem in stems if len(stem) == 2 and stem[0].isdigit()]
    begin = max((found for found in checkpoints if found <= version), default=-1)
    last = CommitMarks()
    # The newest is read in any case, for its rows and its stamp.
    for number in range(min(max(begin, after) + 1, version), version + 1):
        last = read_marks(commit_path(path, number)) or CommitMarks()  # cleaned up meanwhile
        reason = why_foreign(last, version=number, identity=identity)
        if reason is not None:
            raise StorageError(
                f"commit '{commit_path(path, number)}' was overwritten: {reason}; restore it from "
                "a copy"
            )
    return last


def own_marks(identity: str, counts: Sequence[int | None], n_added: int | None) -> dict[str, str]:
    """Return what a commit is to say of its table.

    ``counts`` are the rows of the live files that stay, None where their writer did not say;
    ``n_added`` those of the files that come.
    """
    known = [count for count in counts if count is not None]
    if n_added is None or len(known) < len(counts):
        return {TABLE: identity}
    return {TABLE: identity, ROWS: str(sum(known) + n_added)}
