"""Which source files a stream has taken, so that none is taken twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chronicle.config import EVENTS_TABLE
from chronicle.errors import SourceError
from chronicle.log import delta_log
from chronicle.store import Stream

SOURCE_PREFIX = "chronicle.source."
"""Delta application ids of this prefix stand for source files, their numbers for the content."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source file and what it holds."""

    path: str
    """Absolute, links and ``..`` resolved: however a file is called, it is one."""

    size_bytes: int
    sha256: str
    spelled: str = ""
    """Absolute, as it was named; streams of older versions remember files by it."""

    @property
    def application_id(self) -> str:
        """What stands for the path in a commit."""
        return to_application_id(self.path)

    @property
    def fingerprint(self) -> int:
        """What stands for the content in a commit: 63 bits."""
        digest = hashlib.sha256(f"{self.size_bytes}:{self.sha256}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    @property
    def names(self) -> tuple[str, ...]:
        """What streams may remember it by."""
        return tuple(dict.fromkeys((self.path, self.spelled or self.path)))

    def to_dict(self) -> dict[str, str | int]:
        """Return it for the history of the stream."""
        return {"path": self.path, "size": self.size_bytes, "sha256": self.sha256}


def to_application_id(path: str | Path) -> str:
    """Return what stands for the absolute path of a source in a commit."""
    return SOURCE_PREFIX + hashlib.sha256(str(path).encode()).hexdigest()


def read_source(path: Path) -> Source:
    """Read a file through for its checksum."""
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return Source(str(path.resolve()), file.tell(), sha256, str(path.absolute()))
    except OSError as error:
        raise SourceError(f"'{path}' cannot be read ({error.strerror}); check the file") from error


def to_transactions(sources: Iterable[Source]) -> dict[str, int]:
    """Return what a commit must carry that takes these sources."""
    return {source.application_id: source.fingerprint for source in sources}


def fingerprints(stream: Stream, paths: Sequence[str | Path]) -> dict[str, int]:
    """Return the fingerprints of what was taken from these absolute paths last, by path.

    Only the newest version of the stream counts: whoever prepares a commit looks here *after* it
    looked at the version the commit is prepared on. Then what another process takes in between
    is seen here or makes the commit fail.
    """
    names = {str(path): to_application_id(path) for path in paths}
    found = delta_log.transaction_versions(stream.path / EVENTS_TABLE, list(names.values()))
    return {path: found[name] for path, name in names.items() if name in found}


def taken(stream: Stream | None, sources: Sequence[Source]) -> frozenset[str]:
    """Return the paths of the sources that a stream has taken, content and all.

    A file of other content than was taken from its path is refused. None, for a stream that does
    not exist yet, has taken nothing.
    """
    if stream is None:
        return frozenset()
    known = fingerprints(stream, [name for source in sources for name in source.names])
    had = set[str]()
    for source in sources:
        before = [known[name] for name in source.names if name in known]
        if before and source.fingerprint not in before:
            raise SourceError(
                f"'{source.path}' was taken into stream '{stream.name}' before and has other "
                "content now; give what is new in a file of its own, or --again to take the file "
                "whole"
            )
        if before:
            had.add(source.path)
    return frozenset(had)


def names_of(path: Path) -> tuple[str, ...]:
    """Return what streams may remember a file by: where it lies, and the path as it was named."""
    return tuple(dict.fromkeys((str(path.resolve()), str(path.absolute()))))
