"""Bytes of some row groups of a run in memory, and what they are decoded to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from indexing.bounds import Bounds
from indexing.cover import Segments
from indexing.encoding import Encoding, Layout, ObjectColumn
from indexing.keys import KeyKind
from indexing.objects import code_objects
from indexing.scratch import Scratch
from indexing.within.row_mask import Kept, RowMask

# Entries that a mask leaves, until it is known how many they are.
_kept = Scratch()

PADDING = 8
"""Bytes behind the pages, so that a number of any width can be read as a word."""

KEY, OBJECT = 0, 3
"""Places of columns in a run, which :class:`Pages` counts from 0."""


@dataclass(frozen=True, slots=True)
class Pages:
    """Row groups of a run as bytes.

    Attributes
    ----------
    data, words
        As the kernels take them.
    layout
        How the columns are encoded.
    pages
        int64 array of shape (groups, columns): where in ``data`` the values of each column start.
    dictionaries
        int64 array of shape (groups, columns, 2): where in ``data`` its dictionary lies.
    counts
        int64 array: entries of each group.
    """

    data: np.ndarray
    words: np.ndarray
    layout: Layout
    pages: np.ndarray
    dictionaries: np.ndarray
    counts: np.ndarray

    def decode(
        self,
        rim: np.ndarray,
        admitted: np.ndarray,
        *,
        shift: int,
        into: tuple[np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions, times and cuts, of groups at the rim those of admitted entries only.

        The first two are written to the front of ``into``, where there is room for all entries.
        """
        from indexing.kernels import decode_groups

        position, t = into
        cuts = np.empty(len(self.counts) + 1, dtype=np.int64)
        scale = self.layout.scale
        decode_groups(
            self.data,
            self.words,
            self.pages,
            self.counts,
            rim,
            admitted,
            shift,
            scale.offset,
            scale.divisor,
            position,
            t,
            cuts,
        )
        kept = int(cuts[-1])
        return position[:kept], t[:kept], cuts

    def within(
        self,
        rim: np.ndarray,
        bounds: Bounds,
        follows: np.ndarray,
        segments: Segments,
        rows: RowMask,
        *,
        with_times: bool,
        with_objects: bool,
    ) -> Kept:
        """Return the entries that a mask of rows leaves, of groups at the rim those of ``bounds``.

        ``follows`` says of which groups all rows lie before the first row of the next one.
        """
        from indexing.within.kernels import find_within, times_within

        n = int(self.counts.sum())
        cuts = np.empty(len(self.counts) + 1, dtype=np.int64)
        seq, places = _kept.borrow_two(n + 1)
        n_read = find_within(
            self.data,
            self.words,
            self.pages,
            self.counts,
            follows,
            (segments.ends, segments.shifts, segments.live),
            (rows.marks, rows.shift),
            places,
            seq,
            cuts,
        )
        seq, places = seq[: cuts[-1]], places[: cuts[-1]]
        wanted = np.flatnonzero(rim & (cuts[1:] > cuts[:-1]))
        if len(wanted):
            admitted = self._admitted_at(wanted, bounds, places, cuts)
            seq, places = seq[admitted], places[admitted]
            cuts = np.concatenate(([0], np.cumsum(admitted)))[cuts]
        else:
            seq = seq.copy()
        t = None
        if with_times:
            t = np.empty(len(seq), dtype=np.int64)
            scale = (self.layout.scale.offset, self.layout.scale.divisor)
            times_within(self.data, self.words, self.pages, self.counts, scale, places, cuts, t)
        objects = self._objects_at(places, cuts) if with_objects else None
        return Kept(seq, t, cuts, int(n_read), len(self.data) - PADDING, objects)

    def _admitted_at(
        self, rim: np.ndarray, bounds: Bounds, places: np.ndarray, cuts: np.ndarray
    ) -> np.ndarray:
        """Return which of some entries have keys in ``bounds``; those outside ``rim`` do."""
        admitted = np.ones(len(places), dtype=np.bool_)
        of_rim = self.admitted(rim, bounds)
        first = 0
        for group in rim.tolist():
            here = slice(cuts[group], cuts[group + 1])
            admitted[here] = of_rim[first + places[here]]
            first += int(self.counts[group])
        return admitted

    def _objects_at(self, places: np.ndarray, cuts: np.ndarray) -> pa.Array:
        """Return the objects of entries at ascending places of their groups."""
        groups = np.flatnonzero(cuts[1:] > cuts[:-1])
        counts = self.counts[groups]
        chosen = np.zeros(int(counts.sum()), dtype=np.bool_)
        chosen[places + np.repeat(np.cumsum(counts) - counts, np.diff(cuts)[groups])] = True
        held = replace(
            self, pages=self.pages[groups], dictionaries=self.dictionaries[groups], counts=counts
        )
        return held.objects(np.ones(len(groups), dtype=np.bool_), chosen)

    def admitted(self, which: np.ndarray, bounds: Bounds) -> np.ndarray:
        """Return which entries of some of the groups have keys in ``bounds``."""
        if self.layout.key_encoding is not Encoding.DICTIONARY:
            return bounds.contains(self._numbers(which))
        # Whether a key is admitted is decided once for all entries that have it.
        parts = [bounds.contains(keys)[codes] for keys, codes in self._coded(which)]
        return np.concatenate([np.empty(0, dtype=bool), *parts])

    def keys(self) -> tuple[np.ndarray, pa.StringArray | None]:
        """Return the keys of all entries: numbers, or codes and the strings they stand for.

        The strings are not sorted, and may come more than once.
        """
        everything = np.arange(len(self.counts))
        if self.layout.key_encoding is not Encoding.DICTIONARY:
            return self._numbers(everything), None
        parts, words, n_words = [], [], 0
        for keys, codes in self._coded(everything):
            if self.layout.kind is KeyKind.STRING:
                parts.append(codes + n_words)
                words.append(keys)
                n_words += len(keys)
            else:
                parts.append(keys[codes])
        if self.layout.kind is KeyKind.STRING:
            codes = np.concatenate([np.empty(0, dtype=np.int64), *parts])
            return codes, pa.concat_arrays([pa.array([], pa.string()), *words])
        return np.concatenate([np.empty(0, dtype=self.layout.kind.numpy_type), *parts]), None

    def objects(self, rim: np.ndarray, admitted: np.ndarray, *, is_unique: bool = True) -> pa.Array:
        """Return objects of the entries :meth:`decode` keeps; of strings a dictionary array.

        The dictionary may hold a string more than once if ``is_unique`` is not set.
        """
        column = self.layout.objects
        assert column is not None, "asked of runs with objects only"
        numbers, nulls, words = self._object_numbers(column, rim, admitted)
        if column.kind is KeyKind.STRING:
            return code_objects(numbers, nulls, words, is_unique=is_unique)
        return pa.array(numbers, mask=nulls if nulls.any() else None)

    def _object_numbers(
        self, column: ObjectColumn, rim: np.ndarray, admitted: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, list[pa.StringArray]]:
        """Return objects or, of strings, codes; which are null; and the strings."""
        from indexing.kernels import decode_optional

        n = int(self.counts.sum())
        numbers, valid = np.empty(n, dtype=np.int64), np.empty(n, dtype=bool)
        is_coded, at, asked = column.encoding is Encoding.DICTIONARY, 0, 0
        words: list[pa.StringArray] = []
        n_words = 0
        for group, count in enumerate(self.counts.tolist()):
            part, present = numbers[at : at + count], valid[at : at + count]
            page = int(self.pages[group, OBJECT])
            n_valid = decode_optional(self.data, self.words, page, is_coded, part, present)
            if is_coded and n_valid:
                dictionary = self._dictionary(group, OBJECT, column.kind)
                if column.kind is KeyKind.STRING:
                    words.append(dictionary)
                    part += n_words
                    n_words += len(dictionary)
                else:
                    part[:] = dictionary[part]
            if rim[group]:
                kept = admitted[asked : asked + count]
                asked += count
                count = int(np.count_nonzero(kept))
                part[:count], present[:count] = part[kept], present[kept]
            at += count
        return numbers[:at], ~valid[:at], words

    def _numbers(self, which: np.ndarray) -> np.ndarray:
        """Return keys that are numbers and in no dictionary."""
        from indexing.kernels import decode_page

        counts = self.counts[which].tolist()
        keys = np.empty(sum(counts), dtype=self.layout.kind.numpy_type)
        first = 0
        for at, count in zip(self.pages[which, KEY].tolist(), counts, strict=True):
            part = keys[first : first + count]
            if self.layout.kind is KeyKind.DOUBLE:
                part[:] = np.frombuffer(self.data, np.float64, count, at)
            else:
                decode_page(self.data, self.words, at, 0, 1, part)
            first += count
        return keys

    def _coded(self, which: np.ndarray) -> Iterator[tuple[np.ndarray | pa.StringArray, np.ndarray]]:
        """Yield for each of the groups its different keys, and which of them each entry has."""
        from indexing.kernels import decode_codes

        for group in which.tolist():
            codes = np.empty(int(self.counts[group]), dtype=np.int64)
            decode_codes(self.data, self.words, int(self.pages[group, KEY]), codes)
            yield self._dictionary(group, KEY, self.layout.kind), codes

    def _dictionary(self, group: int, column: int, kind: KeyKind) -> np.ndarray | pa.StringArray:
        from indexing.kernels import split_strings

        start, end = self.dictionaries[group, column].tolist()
        if kind is not KeyKind.STRING:
            return np.frombuffer(self.data, kind.numpy_type, (end - start) // 8, start)
        offsets = np.empty((end - start) // 4 + 1, dtype=np.int32)
        chars = np.empty(end - start, dtype=np.uint8)
        n = int(split_strings(self.data, start, end, offsets, chars))
        return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(chars))
