"""Delta tables as they lie on disk: which commits are there, and which a power failure cut."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.disk import flush, writing
from chronicle.disk_errors import unread_remedy
from chronicle.errors import StorageError, unread
from chronicle.foreign_text import parse_json

APPLICATION_ID = "chronicle"
"""Delta transaction application id: of two commits that carry it and were prepared on the same
version, the second fails even if its writer retries."""

LOG_FOLDER = "_delta_log"

HINT = "_last_checkpoint"
"""File of a log that says where to begin reading. A log is whole without it."""

Stamp = tuple[int, int, int]
"""Inode, size and time of change of a commit file."""


_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")
"""What delta-rs, which takes paths for URLs, takes for another sign, or refuses."""
_CUT_OFF = re.compile(r"[#?]")
"""Signs from which on it cuts a path off where it lists a log: such a table has no history."""


def check_place(path: Path, *, is_new: bool = False) -> None:
    """Check that the Delta library opens this folder and no other; raise StorageError if not.

    A new table must have its history, too.
    """
    place = os.path.abspath(path)  # noqa: PTH100 -- links are the user's
    found = _MISREAD.search(place) or (_CUT_OFF.search(place) if is_new else None)
    if found:
        raise StorageError(
            f"'{path}' cannot be used: the Delta library takes {found[0]!r} in the name of a "
            "folder for another sign, and would look elsewhere; rename the folder"
        )


def table_exists(path: Path | str) -> bool:
    """Return whether a Delta table lies at ``path``; reads nothing."""
    return has_commit(path, 0) or any((Path(path) / LOG_FOLDER).glob("*.json"))


def version_exists_after(path: Path | str, version: int) -> bool:
    """Return whether a version newer than ``version`` was committed; one ``stat``."""
    return has_commit(path, version + 1)


def has_commit(path: Path | str, version: int) -> bool:
    """Return whether the commit of a version lies in the log; one ``stat``.

    Raises if the system does not tell: to take it for missing would hide what was committed.
    """
    return commit_stamp(path, version) is not None


def commit_stamp(path: Path | str, version: int) -> Stamp | None:
    """Return what tells the commit file of a version from any other; None if it is gone.

    Why: a table that was dropped and made again can have the same number of versions. One
    ``stat``. A folder of that name is no commit, and readers of the log pass it over.
    """
    # Asked of every table by every query: a Path object would cost more than the call.
    commit = f"{path}/{LOG_FOLDER}/{version:020d}.json"
    try:
        found = os.stat(commit)  # noqa: PTH116
    except OSError as error:
        missed = unread(commit, error)
        if missed is not None:
            raise missed from error
        return None
    if stat.S_ISDIR(found.st_mode):
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def commit_path(path: Path, version: int) -> Path:
    """Return the file of a version's commit."""
    return path / LOG_FOLDER / f"{version:020d}.json"


_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\..+)?\.parquet")


class LogFiles(NamedTuple):
    """What lies in the folder of a log, by version, ascending; nothing where there is none."""

    commits: dict[int, Path]
    checkpoints: dict[int, list[Path]]


def list_log(table: Path) -> LogFiles:
    """Return the commits and checkpoints of a table; raises OSError if they cannot be listed."""
    found = LogFiles({}, {})
    log = table / LOG_FOLDER
    if not log.is_dir():
        return found
    with os.scandir(log) as entries:
        names = sorted(entry.name for entry in entries if not entry.is_dir())
    for name in names:
        if commit := _COMMIT.fullmatch(name):
            found.commits[int(commit[1])] = log / name
        elif checkpoint := _CHECKPOINT.fullmatch(name):
            found.checkpoints.setdefault(int(checkpoint[1]), []).append(log / name)
    return found


def odd_folders(table: Path) -> list[Path]:
    """Return folders in a table's log that are named as its files are.

    Readers pass them over, but a commit cannot be made, and a checkpoint not be written, where one
    lies.
    """
    log = table / LOG_FOLDER
    if not log.is_dir():
        return []
    with os.scandir(log) as entries:
        folders = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    names = (_COMMIT, _CHECKPOINT, re.compile(re.escape(HINT)))
    return [log / name for name in folders if any(one.fullmatch(name) for one in names)]


# ---------------------------------------------------------------------------------------------
# Files that a power failure cut: which ones nobody stands on, and moving them out


ASIDE_FOLDER = "put-aside"
"""Folder of a stream that takes what ``repair`` moves out of its logs; nothing there is deleted."""


def why_torn(commit: Path) -> str | None:
    """Return what shows that a commit was not written to its end; None if nothing does.

    Of what the system does not hand out nothing is known.
    """
    try:
        text = commit.read_bytes()
    except OSError:
        return None
    if not text.strip(b"\0 \n"):
        return "it is empty"
    for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            is_action = isinstance(parse_json(line), dict)
        except ValueError:  # also where it is no UTF-8
            is_action = False
        if not is_action:
            return f"its line {number} is no JSON object"
    return None


def torn_commit(table: Path) -> Path | None:
    """Return the newest commit of a table if it was not written to its end and none follows it.

    A power failure leaves such a commit where it was not flushed yet, so it was never
    acknowledged. The first commit counts only while the table has no data file: without it there
    is no table.
    """
    commits, checkpoints = list_log(table)
    version = max(commits, default=-1)
    if version < 0 or max(checkpoints, default=-1) >= version:
        return None
    if version > 0 and not has_commit(table, version - 1):
        return None
    if version == 0 and any(table.glob("*.parquet")):
        return None
    return commits[version] if why_torn(commits[version]) is not None else None


def torn_checkpoints(table: Path) -> list[Path]:
    """Return the checkpoints of a table that cannot be read and whose commits are all there.

    A checkpoint only sums up commits: without it they are read instead.
    """
    torn: list[Path] = []
    n_summed = 0  # commits before this version have a checkpoint that can be read
    found = list_log(table).checkpoints
    for version, checkpoint in ((v, path) for v, paths in found.items() for path in paths):
        try:
            pq.read_table(checkpoint)
        except (OSError, ValueError, pa.ArrowException) as error:
            is_known = unread_remedy(error) is None
            if is_known and all(has_commit(table, each) for each in range(n_summed, version + 1)):
                torn.append(checkpoint)
        else:
            n_summed = version + 1
    return torn


def torn_files(table: Path) -> list[Path]:
    """Return the files that a power failure cut in a table's log and that nobody stands on."""
    torn = torn_commit(table)
    return [*torn_checkpoints(table), *([] if torn is None else [torn])]


def torn_remedy(commit: Path) -> str:
    """Return what to do about a file of a log that cannot be read."""
    if commit in torn_files(commit.parent.parent):
        return (
            "a power failure may have cut it before anything that rests on it was acknowledged: "
            "'chronicle repair' puts it aside, or restore it from a copy"
        )
    return "restore it from a copy"


def put_aside(stream_dir: Path, file: Path) -> Path:
    """Move a file of a log out of it, to the folder that repair deletes nothing from."""
    inside = file.relative_to(stream_dir)
    folder = stream_dir / ASIDE_FOLDER / inside.parent.parent
    place, n = folder / inside.name, 0
    while place.exists():
        n += 1
        place = folder / f"{inside.name}.{n}"
    with writing(place):
        folder.mkdir(parents=True, exist_ok=True)
        file.rename(place)
    flush([folder, file.parent])
    return place
