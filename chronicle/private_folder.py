"""Folders of code that is kept and run: nobody else may be able to write to them."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder, unless it is there, and check that nobody else can write to it.

    Whatever is kept to be run, machine code or scripts, lies in such a folder only.

    Raises
    ------
    OSError
        If there is none and it cannot be made, or others could write to it.
    """
    if not folder.is_absolute():
        raise NotADirectoryError(None, "no absolute path")  # the user has no home
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or others):
        raise PermissionError(None, "somebody else can write to it")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(None, "it cannot be written to")


def check_private(file: Path) -> None:
    """Check that a file of a private folder is a file of its own, which nobody else can write to.

    Raises
    ------
    OSError
        If it is none.
    """
    found = file.lstat()
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    is_own = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not others)
    if not stat.S_ISREG(found.st_mode) or not is_own:
        raise PermissionError(None, "somebody else can write to it")
