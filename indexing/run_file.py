"""Writes the column file of a run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.tree.column_file import ColumnWriter
from indexing.config import FENCE_KEY_CHARS
from indexing.entries import Entries
from indexing.group_words import GroupWords
from indexing.keys import KeyKind
from indexing.run_format import FILE_KIND, GROUP_ENTRIES_MAX, RunHead

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_NUMBERS = {KeyKind.INTEGER: "i8", KeyKind.DOUBLE: "f8"}


class RunFileWriter:
    """Writes one run, some groups at a time, in the order of keys.

    Parameters
    ----------
    path
        Where it will be, once it is whole: a run that is written a second time (after a crash
        between writing and committing) never hides a whole one.
    head
        What it will say of itself. The files it covers must have as many entries as will be
        written.
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

    def append(
        self, keys: GroupWords, t: np.ndarray, position: np.ndarray, objects: GroupWords | None
    ) -> None:
        """Append groups of entries.

        Parameters
        ----------
        keys
            Of the entries, the words of each group ascending.
        t, position
            int64 arrays: times, and rows over the files the run covers.
        objects
            Of the entries, if the run holds any.
        """
        counts = np.diff(keys.cuts)
        assert not len(counts) or counts.max() <= GROUP_ENTRIES_MAX, "a code has two bytes"
        columns = self._columns
        columns.append("key", keys.codes)
        columns.append("t", self._head.scale.to_steps(t))
        columns.append("position", position)
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
            self._columns.add(name, _NUMBERS[kind])

    def _append_words(self, name: str, groups: GroupWords) -> None:
        self._columns.append(f"{name}s", np.diff(groups.word_cuts))
        if pa.types.is_string(groups.words.type):
            self._columns.append_strings(name, groups.words)
        else:
            self._columns.append(name, groups.words.to_numpy(zero_copy_only=False))


def write_entries(path: Path, entries: Entries, head: RunHead) -> int:
    """Write a run of one data file and return its size; on failure nothing is left behind."""
    with closing(RunFileWriter(path, head)) as writer:
        writer.append(entries.keys, entries.t, entries.position, entries.objects)
        return writer.finish()


def cut_below(key: object) -> object:
    """Return a fence no greater than ``key``: itself, or the prefix of a long string."""
    return key[:FENCE_KEY_CHARS] if isinstance(key, str) else key


def cut_above(key: object) -> object:
    """Return a fence no smaller than ``key``: itself, or what follows all strings of a prefix."""
    if not isinstance(key, str) or len(key) <= FENCE_KEY_CHARS:
        return key
    prefix = key[:FENCE_KEY_CHARS].rstrip(chr(_LAST_CODE_POINT))
    if not prefix:
        return key
    following = ord(prefix[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return prefix[:-1] + chr(following)
