"""The file of a run: what it says of itself, what of that is checked, and how it is written.

A run is a column file (``chronicle/tree/``) of kind ``run``. Its n entries lie in groups, one
after the other; group g has ``count[g]`` of them. Columns of entries:

========== ======== =========================================================================
key        u2       which of the group's keys
t          u4 or u8 time of the event, as steps
position   u4 or u8 row of the event, over all files the run covers
object     u2       which of the group's objects, from 1; 0 is null (streams with a key column)
========== ======== =========================================================================

Columns of groups, one after the other: ``key_word``, the keys of each group, ascending, and
``object_word``, its objects; how many of them each group has, ``key_words`` and ``object_words``
(u4); ``low`` and ``high``, its fence; ``count`` (u4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from chronicle.tree.column_file import ColumnWriter
from indexing.config import FENCE_KEY_CHARS
from indexing.entries import Entries, GroupWords
from indexing.key_range import after_prefix
from indexing.keys import KeyKind

FILE_KIND = "run"

GROUP_ENTRIES_MAX = (1 << 16) - 1
"""Most entries of a group: which of its keys an entry has is said in two bytes."""

NUMBERS = {KeyKind.INTEGER: "i8", KeyKind.DOUBLE: "f8"}
"""Types of the columns of keys that are numbers."""

_DIVISOR_SAMPLE = 256
_UNSIGNED = (1 << 64) - 1
_NARROW = 1 << 32
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class CoveredFile:
    """A data file whose entries a run holds."""

    name: str
    n_events: int
    n_entries: int


@dataclass(frozen=True, slots=True)
class TimeScale:
    """How a run stores times: as steps of ``divisor`` from ``first`` to ``last``.

    The divisor is 0 where no two times differ.
    """

    first: int = 0
    last: int = 0
    divisor: int = 0

    @classmethod
    def of(cls, time: np.ndarray) -> TimeScale:
        """Return the coarsest scale on which all times (int64, in any order) lie.

        Of times in microseconds these may be steps of a millisecond, say.
        """
        if not len(time):
            return cls()
        first, last = int(time.min()), int(time.max())
        steps = time.view(np.uint64) - np.uint64(first & _UNSIGNED)
        rest = steps[:: max(1, len(steps) // _DIVISOR_SAMPLE)]
        divisor = int(np.gcd.reduce(rest))
        # A sample tells the divisor nearly always; what it does not divide makes it smaller.
        while divisor != 1:
            rest = steps % np.uint64(divisor) if divisor else steps
            rest = rest[rest != 0]
            if not len(rest):
                break
            divisor = math.gcd(divisor, int(np.gcd.reduce(rest[:_DIVISOR_SAMPLE])))
        return cls(first, last, divisor)

    @classmethod
    def merged(cls, scales: Sequence[TimeScale]) -> TimeScale:
        """Return the coarsest scale on which the times of all ``scales`` lie."""
        first = min((scale.first for scale in scales), default=0)
        last = max((scale.last for scale in scales), default=0)
        apart = (scale.first - first for scale in scales)
        return cls(first, last, math.gcd(*(scale.divisor for scale in scales), *apart))

    @property
    def steps_max(self) -> int:
        """Steps from the first time to the last."""
        return (self.last - self.first) // self.divisor if self.divisor else 0

    @property
    def dtype(self) -> str:
        """Type of the column of steps."""
        return width_of(self.steps_max + 1)

    def to_steps(self, time: np.ndarray) -> np.ndarray:
        """Return times as they are stored, a uint64 array."""
        steps = time.view(np.uint64) - np.uint64(self.first & _UNSIGNED)
        if self.divisor > 1:
            steps //= np.uint64(self.divisor)
        return steps


@dataclass(frozen=True, slots=True)
class RunHead:
    """What is known of a run before any entry is read."""

    attribute: str
    kind: KeyKind
    object_kind: KeyKind | None
    scale: TimeScale
    cover: tuple[CoveredFile, ...]

    @property
    def n_events(self) -> int:
        """Events of the files it covers: positions are smaller."""
        return sum(covered.n_events for covered in self.cover)

    @property
    def n_entries(self) -> int:
        """Entries of the files it covers."""
        return sum(covered.n_entries for covered in self.cover)

    def entry_columns(self) -> dict[str, str]:
        """Return the types of the columns of entries, by name."""
        columns = {"key": "u2", "t": self.scale.dtype, "position": width_of(self.n_events)}
        return columns if self.object_kind is None else {**columns, "object": "u2"}

    def to_json(self) -> dict[str, Any]:
        """Return the head as what JSON holds."""
        scale = self.scale
        return {
            "attribute": self.attribute,
            "key": self.kind.value,
            "object": None if self.object_kind is None else self.object_kind.value,
            "t": [scale.first, scale.last, scale.divisor],
            "cover": [[c.name, c.n_events, c.n_entries] for c in self.cover],
        }

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> RunHead:
        """Return the head that ``to_json`` gave; `ValueError` if it says what no run can."""
        try:
            first, last, divisor = about["t"]
            cover = tuple(CoveredFile(name, n, m) for name, n, m in about["cover"])
            kind = KeyKind(about["key"])
            object_kind = None if about["object"] is None else KeyKind(about["object"])
            attribute = about["attribute"]
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"its head cannot be read ({error!r})") from error
        numbers = (first, last, divisor, *(n for c in cover for n in (c.n_events, c.n_entries)))
        if any(type(n) is not int or n not in _INT64 for n in (first, last, *numbers[3:])):
            raise ValueError("its head holds numbers that are none")
        if type(divisor) is not int or not 0 <= divisor <= _UNSIGNED or first > last:
            raise ValueError("its times have no scale")
        names = [c.name for c in cover]
        if any(type(name) is not str for name in (attribute, *names)):
            raise ValueError("its head holds names that are none")
        head = cls(attribute, kind, object_kind, TimeScale(first, last, divisor), cover)
        if len(set(names)) < len(names) or head.n_events not in _INT64:
            raise ValueError("it covers a data file twice")
        if any(not 0 <= c.n_entries <= c.n_events for c in cover):
            raise ValueError("it has more entries of a data file than events")
        return head


def width_of(n: int) -> str:
    """Return the type of a column of numbers below ``n``."""
    return "u4" if n <= _NARROW else "u8"


class RunFileWriter:
    """Writes one run, some groups at a time, in the order of keys.

    The file is at its path once it is whole: a run that is written a second time (after a crash
    between writing and committing) never hides a whole one. The files that ``head`` says it covers
    must have as many entries as will be written.
    """

    def __init__(self, path: Path, head: RunHead) -> None:
        self._head = head
        self._low: list[object] = []
        self._high: list[object] = []
        self._columns = ColumnWriter(path, kind=FILE_KIND, subject=path.name)
        for name, dtype in head.entry_columns().items():
            self._columns.add(name, dtype)
        self._add_words("key_word", head.kind)
        if head.object_kind is not None:
            self._add_words("object_word", head.object_kind)
            self._columns.add("object_words", "u4")
        self._columns.add("key_words", "u4")
        self._columns.add("count", "u4")

    def append(self, entries: Entries) -> None:
        """Append groups of entries; positions count rows over the files the run covers."""
        keys, objects = entries.keys, entries.objects
        counts = np.diff(keys.cuts)
        assert not len(counts) or counts.max() <= GROUP_ENTRIES_MAX, "a code has two bytes"
        columns = self._columns
        columns.append("key", keys.codes)
        columns.append("t", self._head.scale.to_steps(entries.t))
        columns.append("position", entries.position)
        columns.append("count", counts)
        self._append_words("key_word", keys)
        if objects is not None:
            columns.append("object", objects.codes)
            self._append_words("object_word", objects)
        low, high = keys.ends()
        self._low += [cut_below(key) for key in low.tolist()]
        self._high += [cut_above(key) for key in high.tolist()]

    def finish(self) -> int:
        """Write the file and return its size in bytes."""
        for name, keys in (("low", self._low), ("high", self._high)):
            self._add_words(name, self._head.kind)
            if self._head.kind is KeyKind.STRING:
                self._columns.append_strings(name, pa.array(keys, pa.string()))
            else:
                self._columns.append(name, np.array(keys, self._head.kind.numpy_type))
        return self._columns.finish(self._head.to_json())

    def close(self) -> None:
        """Let go of what was written."""
        self._columns.close()

    def _add_words(self, name: str, kind: KeyKind) -> None:
        if kind is KeyKind.STRING:
            self._columns.add_strings(name)
        else:
            self._columns.add(name, NUMBERS[kind])

    def _append_words(self, name: str, groups: GroupWords) -> None:
        self._columns.append(f"{name}s", np.diff(groups.word_cuts))
        if pa.types.is_string(groups.words.type):
            self._columns.append_strings(name, groups.words)
        else:
            self._columns.append(name, groups.words.to_numpy(zero_copy_only=False))


def write_entries(path: Path, entries: Entries, head: RunHead) -> int:
    """Write a run of one data file and return its size; on failure nothing is left behind."""
    with closing(RunFileWriter(path, head)) as writer:
        writer.append(entries)
        return writer.finish()


def cut_below(key: object) -> object:
    """Return a fence no greater than ``key``: itself, or the prefix of a long string."""
    return key[:FENCE_KEY_CHARS] if isinstance(key, str) else key


def cut_above(key: object) -> object:
    """Return a fence no smaller than ``key``: itself, or what follows all strings of a prefix."""
    if not isinstance(key, str) or len(key) <= FENCE_KEY_CHARS:
        return key
    following = after_prefix(key[:FENCE_KEY_CHARS])
    return key if following is None else following
