"""Data files that a stream reads where somebody else keeps them: links, with what was verified.

A data file of an adopted stream is a symbolic link. Its name ends in a fingerprint: of where the
file lies, its size, the time of its last change and its Parquet footer, as they were when the file
was verified. So what was verified is written down once, in a name that never changes, and nothing
can be read through a link whose file is no longer the one that was verified:

- each snapshot compares size and time of change of all files with what the log says of them;
- whoever parses a footer compares the fingerprint;
- whoever has read blocks compares size and time of change once more, since the file may have been
  changed in place while it was read.

Events are never written through a link: the stream refuses (see ``Stream.check_writable``), and to
remove a data file removes the link.

The target is spelled ``<table>/./<file>``: what stands behind the ``.`` may name values of
partition columns, which the file itself lacks.
"""

from __future__ import annotations

import hashlib
import os
import time as clock
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from chronicle.errors import ChangedFileError, CorruptBlockError
from chronicle.log.delta_log import LiveFile

_SUFFIX = ".adopted.parquet"

_SETTLED_NS = 20_000_000
"""A file changed less than this ago may be changed again without its time telling: the clocks of
file systems tick every 4 to 10 ms."""


class Stamp(NamedTuple):
    """What a look at a file tells of its content."""

    size_bytes: int
    mtime_ns: int


def is_adopted(name: str) -> bool:
    """Return whether a data file is a link to a file of another owner, told by its name. Pure."""
    return name.endswith(_SUFFIX)


def adopted_name(ordinal: str, fingerprint: str) -> str:
    """Return the name of the link to a file. Pure."""
    return f"{ordinal}-{fingerprint}{_SUFFIX}"


def fingerprint_in(name: str) -> str:
    """Return the fingerprint in the name of a link. Pure."""
    return name.removesuffix(_SUFFIX).rpartition("-")[2]


def link_target(table: Path, inside: str) -> str:
    """Return what the link to a file of a table holds; ``inside`` is relative to it. Pure."""
    return f"{table}/./{inside}"


def place_in_table(target: str) -> str:
    """Return the path of a file relative to its table, from what its link holds. Pure."""
    return target.rpartition("/./")[2]


def stamp_of(path: Path | str) -> Stamp:
    """Return size and time of change of a file, or of that behind a link."""
    found = os.stat(path)  # noqa: PTH116 - asked of every file by every query
    return Stamp(found.st_size, found.st_mtime_ns)


def settled_stamp(path: Path) -> Stamp:
    """Return size and time of change, once any later change has another time."""
    stamp = stamp_of(path)
    while 0 <= clock.time_ns() - stamp.mtime_ns < _SETTLED_NS:
        clock.sleep(_SETTLED_NS / 1e9)
        stamp = stamp_of(path)
    return stamp


def to_fingerprint(target: str, stamp: Stamp, footer: bytes) -> str:
    """Return what tells a verified file from any other: 32 hexadecimal digits. Pure.

    ``target`` is what its link holds, ``footer`` the bytes of its Parquet footer.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (os.fsencode(target), b"\0%d\0%d\0" % stamp, footer):
        digest.update(part)
    return digest.hexdigest()


def check_footer(link: Path, footer: bytes) -> Stamp:
    """Check that the file behind a link is the one that was verified; return its stamp.

    Raises ChangedFileError, or OSError if it is gone.
    """
    target = os.readlink(link)  # noqa: PTH115 - the text of the link, which a Path would tidy
    stamp = stamp_of(link)
    if to_fingerprint(target, stamp, footer) != fingerprint_in(link.name):
        raise ChangedFileError(str(link), target, "its footer or its times are not those verified")
    return stamp


def check_unchanged(link: Path, stamp: Stamp) -> None:
    """Check that a file has the size and the time of change it had when its footer was parsed."""
    if stamp_of(link) != stamp:
        target = os.readlink(link)  # noqa: PTH115
        raise ChangedFileError(str(link), target, "it was changed while it was read")


def check_stamps(events_dir: Path, files: Iterable[LiveFile]) -> None:
    """Check that adopted files have the sizes and times of change that the log says they had.

    Costs one ``stat`` a file. One that differs, or is gone, is a ChangedFileError.
    """
    for file in files:
        try:
            reason = _difference(f"{events_dir}/{file.name}", file)
        except OSError as error:
            raise CorruptBlockError.of(events_dir / file.name, error) from error
        if reason is not None:
            link = events_dir / file.name
            target = os.readlink(link) if link.is_symlink() else str(link)  # noqa: PTH115
            raise ChangedFileError(str(link), target, reason)


def _difference(path: str, file: LiveFile) -> str | None:
    """Return how a file differs from what the log says of it; None if it does not."""
    try:
        found = stamp_of(path)
    except (FileNotFoundError, NotADirectoryError):
        return "it is gone"
    if found.size_bytes != file.size_bytes:
        return f"it has {found.size_bytes:,} bytes, and had {file.size_bytes:,}"
    if found.mtime_ns // 1_000_000 != file.modified_ms:
        return "it was written again since"
    return None
