"""Paths as people give them: a ``~`` of a shell that left it, and URLs, which are no paths."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from chronicle.errors import StorageError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A scheme of two letters at least (one is a drive); ``Path`` leaves one slash of two."""


def url_scheme(path: str | Path) -> str | None:
    """Return the scheme of a URL in small letters; None for a path. Pure.

    Examples
    --------
    >>> url_scheme("s3://bucket/events"), url_scheme("data/events")
    ('s3', None)
    """
    found = _URL.match(os.fspath(path))
    return None if found is None else found[1].lower()


def local_path(path: str | Path, *, what: str = "store") -> Path:
    """Return a path on this machine, with ``~`` expanded; ``file://`` URLs are paths too.

    ``what`` names in messages what is to lie there.

    Raises
    ------
    StorageError
        If it is a URL of another machine, or names the home of a user who has none.
    """
    text, scheme = os.fspath(path), url_scheme(path)
    if scheme == "file":
        place = re.sub(r"^/+(?:localhost/)?", "/", text[len("file:") :])
        return Path(unquote(place))
    if scheme is not None:
        raise StorageError(
            f"{what} '{text}' is a URL, and Chronicle reads and writes local files only; name a "
            "folder of this machine, such as one the bucket is mounted at"
        )
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise StorageError(
            f"{what} '{text}' names no home folder ({error}); write the path in full"
        ) from error
