"""Entries of a run in order, cut into groups, their values coded by the words of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexing.keys import Keys, to_comparable
from indexing.objects import join_values

_DENSE_MAX = 1 << 16
_RADIX_RANGE = 1 << 16
_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class GroupWords:
    """Values of n entries that lie in groups.

    Group g has the entries ``cuts[g]:cuts[g + 1]`` and the words ``word_cuts[g]:word_cuts[g + 1]``.
    """

    codes: np.ndarray
    """uint16: places among the words of the group; of objects one more, since 0 stands for null."""
    words: pa.Array
    """The different values of each group, one group after the other: int64, double or string."""
    word_cuts: np.ndarray
    cuts: np.ndarray

    @property
    def nbytes(self) -> int:
        """Memory it takes."""
        return int(self.codes.nbytes + self.words.nbytes + 2 * self.cuts.nbytes)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last word of each group, as NumPy compares them."""
        first, last = self.word_cuts[:-1], self.word_cuts[1:] - 1
        low, high = (to_comparable(self.words.take(pa.array(at))) for at in (first, last))
        return low, high

    def values(self) -> pa.Array:
        """Return the values of entries that have one each, as keys do."""
        return self.words.take(pa.array(spread(self.codes, self.word_cuts, self.cuts)))


def spread(codes: np.ndarray, word_cuts: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return the places among all words of entries whose codes count within their group."""
    places: np.ndarray = codes + np.repeat(word_cuts[:-1] - word_cuts[0], np.diff(cuts))
    return places


def code_by_group(objects: pa.Array, cuts: np.ndarray) -> GroupWords:
    """Return objects of entries in groups, nulls among them, as codes of each group's own words.

    Of a dictionary no word comes twice.
    """
    encoded = objects if pa.types.is_dictionary(objects.type) else objects.dictionary_encode()
    none = len(encoded.dictionary)
    places = encoded.indices.fill_null(none).to_numpy(zero_copy_only=False)
    codes = np.empty(len(places), np.uint16)
    used, n_words = [np.empty(0, np.int64)], [0]
    code_of = np.zeros(none + 1, np.uint16)
    for first, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        here = places[first:end]
        if none < _DENSE_MAX:
            words = np.flatnonzero(np.bincount(here, minlength=none + 1))
        else:
            words = np.unique(here)
        words = words[words < none]
        code_of[words] = np.arange(1, len(words) + 1)
        codes[first:end] = code_of[here]
        used.append(words)
        n_words.append(len(words))
    dictionary = encoded.dictionary.take(pa.array(np.concatenate(used)))
    return GroupWords(codes, dictionary, np.cumsum(n_words), cuts)


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of a run: groups ascend in key, and each lies in order of ``seq``."""

    keys: GroupWords
    """The words of each group ascend."""
    t: np.ndarray
    """int64: times in the stream's unit."""
    position: np.ndarray
    """int64: row of the event, counted over the files the run covers."""
    objects: GroupWords | None = None
    """Values of the key column, if the stream has one."""


@dataclass(frozen=True, slots=True)
class LooseEntries:
    """Entries in any order."""

    keys: pa.Array
    """int64, double or string; or strings as a dictionary array, whose words come once."""
    t: np.ndarray
    position: np.ndarray
    objects: pa.Array | None
    """int64 or string, null among them; or a dictionary array."""

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def concat(cls, parts: Sequence[LooseEntries]) -> LooseEntries:
        """Return the entries of all parts, at least one."""
        objects = [part.objects for part in parts if part.objects is not None]
        return cls(
            join_values([part.keys for part in parts]),
            np.concatenate([part.t for part in parts]),
            np.concatenate([part.position for part in parts]),
            join_values(objects) if objects else None,
        )

    def plain(self) -> LooseEntries:
        """Return the same entries, which hold no words of others."""
        objects = None if self.objects is None else to_words(self.objects)
        return replace(self, keys=to_words(self.keys), objects=objects)

    def take(self, places: np.ndarray) -> LooseEntries:
        """Return the entries at ``places``, in that order."""
        at = pa.array(places)
        objects = None if self.objects is None else self.objects.take(at)
        return LooseEntries(self.keys.take(at), self.t[places], self.position[places], objects)

    def grouped(
        self, places: np.ndarray, ranks: np.ndarray, *, fence_entries: int, open_end: bool = False
    ) -> tuple[Entries, np.ndarray]:
        """Return entries as a run holds them, and the places of those that are left for later.

        ``places`` say which entries, ``ranks`` of all of them are those of ``rank_keys``. With
        ``open_end`` more will follow that come after these in order of (key, position).
        """
        # NumPy sorts 16-bit numbers by radix if told to be stable, six times as fast as wider ones,
        # which it sorts faster if not: entries of a group are put in order of position anyway.
        chosen = ranks[places]
        by_key = np.argsort(chosen, kind="stable" if chosen.dtype == np.uint16 else None)
        order, in_order = places[by_key], chosen[by_key]
        changes = np.flatnonzero(in_order[1:] != in_order[:-1]) + 1
        cuts = choose_cuts(changes, len(order), fence_entries=fence_entries, open_end=open_end)
        n = int(cuts[-1])
        inner = cuts[(cuts > 0) & (cuts < len(order))]
        for rank in np.unique(in_order[inner[in_order[inner] == in_order[inner - 1]]]):
            first, end = (np.searchsorted(in_order, rank, side=side) for side in ("left", "right"))
            self._sort_by_position(order[first:end])
        begins_word = np.zeros(n, np.bool_)
        begins_word[cuts[:-1]] = True
        begins_word[changes[: np.searchsorted(changes, n)]] = True
        words = self.keys.take(pa.array(order[:n][begins_word]))
        n_words = np.concatenate(([0], np.cumsum(begins_word)))
        word_cuts = n_words[cuts]
        codes = n_words[1:] - 1 - np.repeat(word_cuts[:-1], np.diff(cuts))
        within = order[:n].copy()
        for first, end in pairwise(cuts.tolist()):
            codes[first:end] = codes[first:end][self._sort_by_position(within[first:end])]
        keys = GroupWords(codes.astype(np.uint16), to_words(words), word_cuts, cuts)
        objects = self.objects
        if objects is not None:
            objects = code_by_group(objects.take(pa.array(within)), cuts)
        return Entries(keys, self.t[within], self.position[within], objects), order[n:]

    def _sort_by_position(self, places: np.ndarray) -> np.ndarray:
        """Put places of entries in order of position; return how they were taken."""
        taken = np.argsort(self.position[places])
        places[:] = places[taken]
        return taken


def to_words(values: pa.Array) -> pa.Array:
    """Return values without a dictionary."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def sort_entries(
    keys: Keys, time: np.ndarray, *, fence_entries: int, objects: pa.Array | None = None
) -> Entries:
    """Return the entries of one data file as a run holds them.

    ``time`` (int64) and ``objects`` are of every row of the file, ``keys`` of the usable ones.
    """
    of_rows = None if objects is None else objects.take(pa.array(keys.rows))
    entries = LooseEntries(keys.values, time[keys.rows], keys.rows, of_rows)
    every, ranks = np.arange(len(entries)), rank_keys(entries.keys)
    return entries.grouped(every, ranks, fence_entries=fence_entries)[0]


def choose_cuts(
    changes: np.ndarray, n: int, *, fence_entries: int, open_end: bool = False
) -> np.ndarray:
    """Return where ``n`` entries sorted by key are cut into groups.

    A group ends where the key last changes in the second half of its room, so that a frequent key
    owns whole groups; where it does not change there the group is filled. The cuts end with ``n``
    unless ``open_end``: more entries will follow then, so the end of the last group is not known.
    ``changes`` are the places, ascending, whose key differs from that of the place before.
    """
    cuts = [0]
    while cuts[-1] + fence_entries < n:
        end = cuts[-1] + fence_entries
        last = int(np.searchsorted(changes, end, side="right")) - 1
        half = cuts[-1] + fence_entries // 2
        cuts.append(int(changes[last]) if last >= 0 and changes[last] > half else end)
    if cuts[-1] < n and not open_end:
        cuts.append(n)
    return np.array(cuts, dtype=np.int64)


def rank_keys(keys: pa.Array) -> np.ndarray:
    """Return numbers that sort as the keys do, in 16 bits where their range allows it."""
    if not pa.types.is_primitive(keys.type):
        encoded = keys if pa.types.is_dictionary(keys.type) else keys.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        rank = np.empty(len(order), dtype=np.uint16 if len(order) <= _RADIX_RANGE else np.int64)
        rank[order] = np.arange(len(order))
        return np.asarray(rank[encoded.indices.to_numpy()])
    numbers = to_comparable(keys)
    if numbers.dtype != np.int64:  # bits of doubles ascend as they do, those below zero turned over
        bits = numbers.view(np.int64)
        numbers = bits ^ ((bits >> 63) & np.int64(_INT64_MAX))
    if len(numbers) == 0:
        return numbers
    least = int(numbers.min())
    if int(numbers.max()) - least >= _RADIX_RANGE:
        return numbers
    return (numbers - least).astype(np.uint16)
