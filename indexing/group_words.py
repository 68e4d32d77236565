"""Values of entries as codes of the different values, the words, of their group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from indexing.keys import to_comparable
from indexing.objects import code_objects

_DENSE_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class GroupWords:
    """Values of n entries that lie in groups.

    Attributes
    ----------
    codes
        uint16 array: places of the values among the words of their group; of objects one more,
        since 0 stands for null.
    words
        The different values of each group, one group after the other: int64, double or string.
    word_cuts
        int64 array: group g has the words ``word_cuts[g]:word_cuts[g + 1]``.
    cuts
        int64 array: group g has the entries ``cuts[g]:cuts[g + 1]``.
    """

    codes: np.ndarray
    words: pa.Array
    word_cuts: np.ndarray
    cuts: np.ndarray

    @property
    def nbytes(self) -> int:
        """Memory it takes."""
        return int(self.codes.nbytes + self.words.nbytes + 2 * self.cuts.nbytes)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last word of each group, as NumPy compares them."""
        first, last = self.word_cuts[:-1], self.word_cuts[1:] - 1
        return tuple(to_comparable(self.words.take(pa.array(at))) for at in (first, last))  # type: ignore[return-value]

    def values(self) -> pa.Array:
        """Return the values of entries that have one each, as keys do."""
        return self.words.take(pa.array(spread(self.codes, self.word_cuts, self.cuts)))


def spread(codes: np.ndarray, word_cuts: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Return the places among all words of entries whose codes count within their group."""
    places: np.ndarray = codes + np.repeat(word_cuts[:-1] - word_cuts[0], np.diff(cuts))
    return places


def number_keys(changes: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the number of each entry's key, counted from the least, as an int64 array.

    Parameters
    ----------
    changes
        int64 array, ascending: places, in order of keys, whose key differs from the one before.
    order
        Which entry comes at each place.
    """
    starts = np.zeros(len(order), np.int64)
    starts[changes] = 1
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(starts)
    return numbers


def find_words(changes: np.ndarray, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places, in order of keys, that hold the words of groups, and the cuts of words.

    Parameters
    ----------
    changes
        As in ``number_keys``.
    cuts
        int64 array: group g is ``cuts[g]:cuts[g + 1]``; entries behind the last are left out.
    """
    places = np.union1d(changes[changes < cuts[-1]], cuts[:-1])
    return places, np.searchsorted(places, cuts)


def code_keys(
    numbers: np.ndarray, words: pa.Array, word_cuts: np.ndarray, cuts: np.ndarray
) -> GroupWords:
    """Return keys, whose numbers follow each other in each group, as codes of its words."""
    least = np.minimum.reduceat(numbers, cuts[:-1]) if len(numbers) else cuts[:-1]
    codes = (numbers - np.repeat(least, np.diff(cuts))).astype(np.uint16)
    return GroupWords(codes, words, word_cuts, cuts)


def code_by_group(objects: pa.Array, cuts: np.ndarray) -> GroupWords:
    """Return objects of entries in groups as codes of each group's own words.

    Parameters
    ----------
    objects
        int64, string or dictionary array, with nulls.
    cuts
        int64 array: group g is ``cuts[g]:cuts[g + 1]``.
    """
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
