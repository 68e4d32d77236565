"""Files of logs that a power failure cut: which ones nobody stands on, and moving them out."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.disk import flush, writing
from chronicle.disk_errors import unread_remedy
from chronicle.log.delta_log.files import LOG_FOLDER, has_commit

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
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            is_action = isinstance(json.loads(line), dict)
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
    log = table / LOG_FOLDER
    named = [path for path in log.glob("[0-9]*.json") if path.stem.isdecimal()]
    if not named:
        return None
    newest = max(named, key=lambda path: int(path.stem))
    version = int(newest.stem)
    checkpoints = (path.name.split(".")[0] for path in log.glob("[0-9]*.checkpoint*.parquet"))
    if any(stem.isdecimal() and int(stem) >= version for stem in checkpoints):
        return None
    if version > 0 and not has_commit(table, version - 1):
        return None
    if version == 0 and any(table.glob("*.parquet")):
        return None
    return newest if why_torn(newest) is not None else None


def torn_checkpoints(table: Path) -> list[Path]:
    """Return the checkpoints of a table that cannot be read and whose commits are all there.

    A checkpoint only sums up commits: without it they are read instead.
    """
    log = table / LOG_FOLDER
    torn: list[Path] = []
    n_summed = 0  # commits before this version have a checkpoint that can be read
    found = sorted(log.glob("[0-9]*.checkpoint*.parquet"))
    for checkpoint in (path for path in found if path.name.split(".")[0].isdecimal()):
        version = int(checkpoint.name.split(".")[0])
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
