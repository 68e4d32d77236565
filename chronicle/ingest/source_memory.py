"""Which source files a stream has taken, so that none is taken twice."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chronicle.config import EVENTS_TABLE
from chronicle.errors import SourceError
from chronicle.log import delta_log
from chronicle.store import Stream
from chronicle.words import number_of
from chronicle.write.commit import SOURCE_PREFIX

_CONTENT_PREFIX = SOURCE_PREFIX + "content."
"""Ids of this prefix stand for contents that no path stands for: see ``to_transactions``."""

_NAMED_MAX = 3
"""Files that a note names; the rest is counted."""

Stamp = tuple[int, int, int]
"""Inode, size and time of change of a file."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source file and what it holds."""

    path: str
    """Absolute, links and ``..`` resolved: however a file is called, it is one."""

    size_bytes: int
    sha256: str
    spelled: str = ""
    """Absolute, as it was named; streams of older versions remember files by it."""

    values: tuple[tuple[str, str | None], ...] = ()
    """Columns that names of folders give: two files of one content differ by them."""

    stamp: Stamp | None = field(default=None, compare=False)
    """Of the file that was read."""

    @property
    def application_id(self) -> str:
        """What stands for the path in a commit."""
        return to_application_id(self.path)

    @property
    def fingerprint(self) -> int:
        """What stands for the bytes in a commit: 63 bits."""
        return _to_number(f"{self.size_bytes}:{self.sha256}")

    @property
    def content(self) -> int:
        """What stands for the events: that of the bytes, unless names of folders add to them."""
        if not self.values:
            return self.fingerprint
        return _to_number(f"{self.size_bytes}:{self.sha256}:{sorted(self.values)}")

    @property
    def names(self) -> tuple[str, ...]:
        """What streams may remember it by."""
        return tuple(dict.fromkeys((self.path, self.spelled or self.path)))

    def to_dict(self) -> dict[str, str | int]:
        """Return it for the history of the stream."""
        return {"path": self.path, "size": self.size_bytes, "sha256": self.sha256}


def _to_number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def to_application_id(path: str | Path) -> str:
    """Return what stands for the absolute path of a source in a commit."""
    return SOURCE_PREFIX + hashlib.sha256(str(path).encode()).hexdigest()


def stamp_of(path: Path) -> Stamp | None:
    """Return what a file is now; None if the system does not tell."""
    try:
        return _stamp(path.stat())
    except OSError:
        return None


def read_source(
    path: Path, values: Mapping[str, str | None] | None = None, since: Stamp | None = None
) -> Source:
    """Read a file through for its checksum; one that is written meanwhile is refused.

    ``since`` is what it was when others began to read it.
    """
    try:
        with path.open("rb") as file:
            stamp = _stamp(os.fstat(file.fileno()))
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            size_bytes = file.tell()
            is_at_rest = _stamp(os.fstat(file.fileno())) == stamp == (since or stamp)
    except OSError as error:
        raise SourceError(f"'{path}' cannot be read ({error.strerror}); check the file") from error
    if not is_at_rest:
        raise _being_written(path)
    said = tuple((values or {}).items())
    return Source(str(path.resolve()), size_bytes, sha256, str(path.absolute()), said, stamp)


def check_unchanged(sources: Iterable[Source]) -> None:
    """Check that files are still what was read of them; call it before their events are committed.

    What the stream remembers of a file would else not be what it took.
    """
    for source in sources:
        path = Path(source.spelled or source.path)
        if stamp_of(path) != source.stamp:
            raise _being_written(path)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _being_written(path: Path) -> SourceError:
    return SourceError(
        f"'{path}' changed while it was read; nothing was taken, run it again when nobody writes "
        "to it"
    )


# ---------------------------------------------------------------------------------------------
# What a stream remembers, and what that means for files it is given.


def remembered(stream: Stream | None) -> dict[str, int]:
    """Return what stands in a stream's log for the sources it has taken; of none, nothing.

    Only the newest version of the stream counts: whoever prepares a commit looks here *after* it
    looked at the version the commit is prepared on. Then what another process takes in between
    is seen here or makes the commit fail.
    """
    if stream is None:
        return {}
    return delta_log.numbers_by_application(stream.path / EVENTS_TABLE, SOURCE_PREFIX)


@dataclass(frozen=True, slots=True)
class Sorted:
    """Sources, by what a stream has of them."""

    new: tuple[Source, ...] = ()
    had: tuple[Source, ...] = ()
    """Taken before, from the same path."""

    renamed: tuple[Source, ...] = ()
    """Their content was taken before, from another path."""

    twins: tuple[tuple[Source, Source], ...] = ()
    """Each with a new source before it that has the same content."""

    changed: tuple[Source, ...] = ()
    """Taken before, with other content."""

    def without(self, empty: Collection[Path]) -> tuple[Source, ...]:
        """Return the new sources but for some, which are not to be remembered."""
        return tuple(one for one in self.new if Path(one.spelled) not in empty)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user is to know of sources that are passed over for their content."""
        notes = [
            f"'{source.path}' has the content of a file that was taken before under another name; "
            "passed over, --again takes it once more"
            for source in self.renamed[:_NAMED_MAX]
        ]
        notes += [
            f"'{source.path}' has the same content as '{other.path}'; passed over, name it alone "
            "with --again to take it, too"
            for source, other in self.twins[:_NAMED_MAX]
        ]
        n_more = sum(max(0, len(some) - _NAMED_MAX) for some in (self.renamed, self.twins))
        if n_more:
            notes.append(f"{number_of(n_more, 'more file')} passed over for the same reason")
        return tuple(notes)


def sort_sources(
    memory: Mapping[str, int],
    sources: Sequence[Source],
    beside: Iterable[Source] = (),
    *,
    by_content: bool = True,
) -> Sorted:
    """Sort sources by what a stream remembers.

    A source is known by its path and its content, or by its content alone: a file that was
    renamed. A path that was taken with other content is one that changed, unless what was taken
    from it is found under another name, among the sources or ``beside`` them: then the file was
    renamed, and another one took its place, as logs are rotated. Files that a table lists are not
    known by their content: it may list two of the same.
    """
    numbers = frozenset(memory.values())
    places = {one.fingerprint: one for one in (*beside, *sources)}
    first: dict[int, Source] = {}
    new, had, renamed, changed = [], [], [], []
    twins = []
    for source in sources:
        before = {memory[to_application_id(name)] for name in source.names if _is_in(memory, name)}
        if source.fingerprint in before:
            had.append(source)
        elif by_content and source.content in numbers:
            renamed.append(source)
        elif by_content and source.content in first:
            twins.append((source, first[source.content]))
        elif before and not any(_makes_way(places.get(one), source) for one in before):
            changed.append(source)
        else:
            new.append(source)
            first[source.content] = source
    return Sorted(tuple(new), tuple(had), tuple(renamed), tuple(twins), tuple(changed))


def _is_in(memory: Mapping[str, int], name: str) -> bool:
    return to_application_id(name) in memory


def _makes_way(old: Source | None, source: Source) -> bool:
    """Return whether what was taken from a source's path lies elsewhere now, at ``old``.

    A source that begins with all of it has grown, and the other file is a copy.
    """
    if old is None or old.path == source.path:
        return False
    if source.size_bytes < old.size_bytes:
        return True
    try:
        with Path(source.path).open("rb") as file:
            start = hashlib.sha256()
            left = old.size_bytes
            while left and (read := file.read(min(left, 1 << 20))):
                start.update(read)
                left -= len(read)
    except OSError:
        return False
    return start.hexdigest() != old.sha256


def check_none_changed(stream_name: str, found: Sorted) -> None:
    """Refuse a source of other content than was taken from its path."""
    for source in found.changed:
        raise SourceError(
            f"'{source.path}' was taken into stream '{stream_name}' before and has other "
            "content now; give what is new in a file of its own, or --again to take the file "
            "whole"
        )


def to_transactions(
    memory: Mapping[str, int], taken: Iterable[Source], passed: Iterable[Source] = ()
) -> dict[str, int]:
    """Return what a commit must carry that takes some sources and passes over renamed ones.

    A path stands for the last content taken from it. Contents that no path stands for have an id
    of their own: those that another one takes the place of, and those that differ by names of
    folders.
    """
    found: dict[str, int] = {}
    for source in (*taken, *passed):
        before = memory.get(source.application_id)
        if before is not None and before != source.fingerprint:
            found[_content_id(before)] = before
        if source.values:
            found[_content_id(source.content)] = source.content
        found[source.application_id] = source.fingerprint
    return found


def _content_id(number: int) -> str:
    return f"{_CONTENT_PREFIX}{number:016x}"
