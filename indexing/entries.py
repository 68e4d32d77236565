"""Entries of a run in order, cut into groups, their values coded by the words of each group."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexing.keys import Keys, to_comparable
from indexing.objects import code_objects

_DENSE_MAX = 1 << 16
_RADIX_RANGE = 1 << 16


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


def number_keys(changes: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the number of each entry's key, counted from the least, as an int64 array.

    ``order`` says which entry comes at each place in order of keys, ``changes`` at which of these
    places, ascending, the key differs from the one before.
    """
    starts = np.zeros(len(order), np.int64)
    starts[changes] = 1
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(starts)
    return numbers


def find_words(changes: np.ndarray, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places, in order of keys, that hold the words of groups, and the cuts of words.

    ``changes`` are as in ``number_keys``; entries behind the last cut are left out.
    """
    begins_word = np.zeros(cuts[-1], np.bool_)
    begins_word[cuts[:-1]] = True
    begins_word[changes[: np.searchsorted(changes, cuts[-1])]] = True
    places = np.flatnonzero(begins_word)
    return places, np.searchsorted(places, cuts)


def code_keys(
    numbers: np.ndarray, words: pa.Array, word_cuts: np.ndarray, cuts: np.ndarray
) -> GroupWords:
    """Return keys, whose numbers follow each other in each group, as codes of its words."""
    least = np.minimum.reduceat(numbers, cuts[:-1]) if len(numbers) else cuts[:-1]
    codes = (numbers - np.repeat(least, np.diff(cuts))).astype(np.uint16)
    return GroupWords(codes, words, word_cuts, cuts)


def code_by_group(objects: pa.Array, cuts: np.ndarray) -> GroupWords:
    """Return objects of entries in groups, nulls among them, as codes of each group's own words."""
    if pa.types.is_dictionary(objects.type):
        nulls = objects.indices.is_null().to_numpy(zero_copy_only=False)
        places = objects.indices.fill_null(0).to_numpy()
        encoded = code_objects(places, nulls, [objects.dictionary], is_unique=True)
    else:
        encoded = objects.dictionary_encode()
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


def sort_entries(
    keys: Keys, time: np.ndarray, *, fence_entries: int, objects: pa.Array | None = None
) -> Entries:
    """Return the entries of one data file as a run holds them.

    ``time`` (int64) and ``objects`` are of every row of the file, ``keys`` of the usable ones.
    """
    sortable = _ranks(keys.values)
    # NumPy sorts 16-bit numbers by radix if told to be stable, six times as fast as wider ones.
    order = np.argsort(sortable, kind="stable" if sortable.dtype == np.uint16 else None)
    order = order.astype(np.int32)
    in_order = sortable[order]
    changes = np.flatnonzero(in_order[1:] != in_order[:-1]) + 1
    cuts = choose_cuts(changes, len(order), fence_entries=fence_entries)
    numbers = number_keys(changes, order)
    places, word_cuts = find_words(changes, cuts)
    words = keys.values.take(pa.array(order[places]))
    _restore_row_order(order, in_order, changes, cuts)
    rows = keys.rows[order]
    return Entries(
        keys=code_keys(numbers[order], words, word_cuts, cuts),
        t=time[rows],
        position=rows,
        objects=None if objects is None else code_by_group(objects.take(pa.array(rows)), cuts),
    )


def choose_cuts(
    changes: np.ndarray, n: int, *, fence_entries: int, start: int = 0, open_end: bool = False
) -> np.ndarray:
    """Return where ``n`` entries sorted by key are cut into groups, from ``start`` on.

    A group ends where the key last changes in the second half of its room, so that a frequent key
    owns whole groups; where it does not change there the group is filled. The cuts end with ``n``
    unless ``open_end``: more entries will follow then, so the end of the last group is not known.
    ``changes`` are the places, ascending, whose key differs from that of the place before.
    """
    cuts = [start]
    while cuts[-1] + fence_entries < n:
        end = cuts[-1] + fence_entries
        last = int(np.searchsorted(changes, end, side="right")) - 1
        half = cuts[-1] + fence_entries // 2
        cuts.append(int(changes[last]) if last >= 0 and changes[last] > half else end)
    if cuts[-1] < n and not open_end:
        cuts.append(n)
    return np.array(cuts, dtype=np.int64)


def _ranks(values: pa.Array) -> np.ndarray:
    """Return numbers that sort as the keys do, in 16 bits where their range allows it."""
    if pa.types.is_string(values.type):
        encoded = values.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        rank = np.empty(len(order), dtype=np.uint16 if len(order) <= _RADIX_RANGE else np.int64)
        rank[order] = np.arange(len(order))
        return np.asarray(rank[encoded.indices.to_numpy()])
    numbers = to_comparable(values)
    if len(numbers) == 0 or numbers.dtype != np.int64:
        return numbers
    least = int(numbers.min())
    if int(numbers.max()) - least >= _RADIX_RANGE:
        return numbers
    return (numbers - least).astype(np.uint16)


def _restore_row_order(
    order: np.ndarray, in_order: np.ndarray, changes: np.ndarray, cuts: np.ndarray
) -> None:
    """Sort by row, in place, first what a key split by a cut owns, then each group.

    The sort before is not stable, because an unstable one is faster and groups are put in the
    order of rows anyway.
    """
    borders = np.concatenate(([0], changes, [len(order)]))
    inner = cuts[1:-1]
    split = np.unique(np.searchsorted(borders, inner[in_order[inner] == in_order[inner - 1]]))
    for i in split:
        order[borders[i - 1] : borders[i]].sort()
    for first, end in pairwise(cuts.tolist()):
        order[first:end].sort()
