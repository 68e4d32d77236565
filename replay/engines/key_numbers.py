"""Numbers for the values of a stream's key column, so that planning can compare them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexing.objects import to_codes
from replay.planning.statistics import IntArray

SPAN_PER_VALUE: Final = 4
"""Integers that span at most so many numbers a value are numbered by subtraction: what marks keys
as present then takes less memory than the values, and hashing takes ten times as long."""


def number_keys(parts: Sequence[pa.Array]) -> list[IntArray]:
    """Return for each list of key values the numbers of its values.

    The lists are of one type: int64, or strings with a dictionary or none; nulls may be anywhere.
    Numbers count from 0 and are at most a few times as large as there are values. They are equal,
    in one list or in two, exactly where values are; null equals null.
    """
    if not parts:
        return []
    is_integer = pa.types.is_int64(parts[0].type)
    numbers = _of_integers(parts) if is_integer else _of_strings(parts)
    borders = np.cumsum([len(part) for part in parts])[:-1]
    return list(np.split(numbers, borders))


def count_keys(parts: Sequence[IntArray]) -> float:
    """Return how many keys take turns: how rare it is that two neighbours have the same one.

    ``parts`` are numbers of the keys of events that are near to each other, list by list. The
    result is ``k`` if ``k`` keys are equally frequent, less if some are more frequent or keep
    together, and never below 1. Where no two events agree at all, it is the number of pairs looked
    at.
    """
    n_pairs = n_equal = 0
    for numbers in parts:
        counts = np.bincount(numbers)
        n_pairs += len(numbers) * (len(numbers) - 1)
        n_equal += int((counts * (counts - 1)).sum())
    return max(n_pairs / max(n_equal, 1), 1.0)


def _of_integers(parts: Sequence[pa.Array]) -> IntArray:
    values = pa.concat_arrays(parts)
    extremes = pc.min_max(values).as_py()
    low, high = extremes["min"], extremes["max"]
    if low is None:
        return np.zeros(len(values), dtype=np.int64)
    span = high - low + 1
    if span > SPAN_PER_VALUE * len(values):
        encoded = values.dictionary_encode()
        return _filled(encoded.indices, len(encoded.dictionary))
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else False
    return np.asarray(np.where(nulls, span, values.fill_null(low).to_numpy() - low), np.int64)


def _of_strings(parts: Sequence[pa.Array]) -> IntArray:
    coded = [to_codes(part) for part in parts]
    # The same word may stand in several dictionaries, and more than once in one.
    words = pa.concat_arrays([part.dictionary for part in coded]).dictionary_encode()
    n_words = len(words.dictionary)
    number = np.append(_filled(words.indices, n_words), n_words)
    pieces, first = [], 0
    for part in coded:
        codes = _filled(part.indices, len(part.dictionary))
        is_null = codes == len(part.dictionary)
        pieces.append(number[np.where(is_null, len(number) - 1, codes + first)])
        first += len(part.dictionary)
    return np.concatenate(pieces)


def _filled(indices: pa.Array, of_null: int) -> IntArray:
    """Return the indices of a dictionary as int64, with a number for null."""
    return np.asarray(indices.cast(pa.int64()).fill_null(of_null).to_numpy(), dtype=np.int64)
