"""What errors of the file system mean: wrong bytes, or bytes not handed out; and what to do."""

from __future__ import annotations

import errno
import os
import re

from chronicle.foreign_text import first_line

PERMIT = "check the permissions of the file and its folders"
"""What to do where a file may not be read: it may be whole."""

_EXHAUSTED = {
    errno.EMFILE: "the process has too many files open: let it close some, or raise its limit "
    "('ulimit -n'), and run it again",
    errno.ENFILE: "the system has too many files open: close some, and run it again",
    errno.ENOMEM: "memory is short: free some, and run it again",
    errno.EAGAIN: "the system is short of something: run it again",
}
"""What the process or the system has run out of. Whatever is tried next fails too."""

_DISK = "look into the system's log, check the disk and its connection, and run it again"
_SHARE = "check the connection to the disk or the share, and run it again"

_UNREAD = {
    **_EXHAUSTED,
    errno.EACCES: PERMIT,
    errno.EPERM: PERMIT,
    errno.EIO: f"the disk did not hand out its bytes: {_DISK}",
    errno.ENODEV: _SHARE,
    errno.ENXIO: _SHARE,
    errno.ESTALE: _SHARE,
    errno.ETIMEDOUT: _SHARE,
    errno.EHOSTDOWN: _SHARE,
    errno.ENOTCONN: _SHARE,
    errno.EBUSY: "another process holds it: run it again",
    errno.EINTR: "run it again",
}
"""Errors of reading that say nothing of the bytes of a file, and what to do; so do others."""

_OF_THE_FILE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP, errno.ENAMETOOLONG}
)
"""Errors that say there is no such file: it is missing, or something else lies in its place."""

_UNWRITTEN = {
    **_EXHAUSTED,
    errno.ENOSPC: "free space on its disk, and run it again",
    errno.EDQUOT: "free space or raise the quota of the user, and run it again",
    errno.EFBIG: "raise the limit on the size of a file ('ulimit -f'), and run it again",
    errno.EROFS: "its file system can only be read: mount it writable, or take another store",
    errno.EACCES: "check its permissions and those of its folder",
    errno.EPERM: "check its permissions and those of its folder",
    errno.EIO: f"the disk did not take its bytes: {_DISK}",
    errno.ENOENT: "its folder is gone: was the stream dropped or renamed meanwhile?",
}

_OF_DELTA = re.compile(r"\(os error (\d+)\)")
"""How delta-rs writes the number of an error into what it says of a file."""


def errno_of(error: BaseException) -> int | None:
    """Return the number of the system's error that an error of a library stands for. Pure."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    found = _OF_DELTA.search(str(error))
    return None if found is None else int(found[1])


def unread_remedy(error: BaseException) -> str | None:
    """Return what to do where the system did not hand out the bytes of a file. Pure.

    None where the file is missing or its bytes are wrong.
    """
    number = errno_of(error)
    if number is None or number in _OF_THE_FILE:
        return None
    return _UNREAD.get(number, _DISK)


def is_exhausted(error: BaseException) -> bool:
    """Return whether the process or the system has run out of something. Pure."""
    return errno_of(error) in _EXHAUSTED


def unwritten_remedy(error: BaseException) -> str:
    """Return what to do where something cannot be written. Pure."""
    number = errno_of(error)
    return _UNWRITTEN.get(
        number or 0, "check its permissions and the space on its disk, and run it again"
    )


def reason_of(error: BaseException) -> str:
    """Return what an error of a library says, without what follows in further lines.

    What the system says of a file comes without its name, which the caller tells.
    """
    number = errno_of(error)
    if number is not None and number > 0:
        return os.strerror(number)
    return first_line(str(error)) or type(error).__name__
