"""Composite attributes: several columns as one key that sorts as the tuple of their values does.

``neighborhood+primary_type`` names one. A key is a string, whose order is that of its code points:
the encodings of the parts, one after the other. No encoding of a part is the beginning of another,
so keys compare by the first part that differs.

- Numbers (INTEGER, DOUBLE): 64 bits that ascend as the numbers do, as ten characters of seven bits,
  the highest first.
- STRING: U+0000 becomes U+0001 U+0001 and U+0001 becomes U+0001 U+0002; U+0000 ends it.
- A part behind the first is preceded by U+0001, or is U+0000 alone where it is null or NaN: what
  bounds the parts before it admits the row, what bounds this part does not.

A row whose first part is null or NaN has no key, as no range of an index admits it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.schema import SEPARATOR, composite_parts
from indexing.config import COMPOSITE_PARTS_MAX, COMPOSITE_POINTS_MAX, COMPOSITE_RANGES_MAX
from indexing.key_range import Bounds, KeyRange, KeyRanges, to_bounds
from indexing.keys import KeyKind, key_kind, to_keys

_NONE = "\x00"
_SOME = "\x01"
_END = "\x00"
_DIGITS = 10
_SIGN = np.uint64(1 << 63)
_SHIFTS = np.arange(63, -1, -7, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Composite:
    """An attribute of several columns, in the order its keys compare them in."""

    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name it is indexed and asked for by."""
        return SEPARATOR.join(self.parts)


def parse_composite(columns: Collection[str], attribute: str) -> Composite | None:
    """Return the composite attribute a text names; None if it names none. Pure.

    It names two to four columns, none twice, joined by ``+``. A column of the very name comes
    first; one that holds a ``+`` is no part.
    """
    parts = composite_parts(columns, attribute)
    if parts is None or len(set(parts)) < len(parts) or len(parts) > COMPOSITE_PARTS_MAX:
        return None
    return Composite(parts) if all(part in columns for part in parts) else None


def to_composite_column(events: pa.Table, composite: Composite) -> pa.DictionaryArray:
    """Return one key per row, null where its first part is null or NaN. Pure.

    Equal keys share their code. Raises `IndexingError` if a part has no order an index could use.
    """
    coded = [_Coded.of(events.column(part), part) for part in composite.parts]
    codes = coded[0].codes
    for part in coded[1:]:
        codes = _pair_codes(codes, part.codes, len(part.words))
    has_key = codes >= 0
    rows = np.empty(codes.max(initial=-1) + 1, np.int64)
    rows[codes[has_key]] = np.flatnonzero(has_key)  # of each key any row that has it
    words = [coded[0].words.take(pa.array(coded[0].codes[rows]))]
    words += [part.as_later_part().take(pa.array(part.codes[rows] + 1)) for part in coded[1:]]
    indices = pa.array(codes.astype(np.int32), mask=~has_key)
    return pa.DictionaryArray.from_arrays(indices, pc.binary_join_element_wise(*words, ""))


def composite_ranges(
    kinds: Sequence[KeyKind], parts: Sequence[KeyRanges | None]
) -> tuple[KeyRanges, int] | None:
    """Return the keys of a composite attribute whose parts lie in some ranges. Pure.

    Ranges admit exactly the keys whose used parts lie in theirs; beside them is said how many parts
    are used. These come first: those that are bounded to few keys, and the next one if it is
    bounded. What is said of later parts plays no role. None if the first part is not bounded.

    Parameters
    ----------
    kinds
        How the keys of each part are held.
    parts
        What bounds each part; None, or every key, is not bounded. A bound admits no null.
    """
    bounded = []
    for kind, ranges in zip(kinds, parts, strict=True):
        if ranges is None or ranges.is_everything():
            break
        bounded.append(to_bounds(ranges, kind))
    if not bounded:
        return None
    prefixes = [""]
    for i, bounds in enumerate(bounded):
        if len(prefixes) > 1 and len(prefixes) * len(bounds) > COMPOSITE_RANGES_MAX:
            return KeyRanges.of(KeyRange(p, _behind(p), high_closed=False) for p in prefixes), i
        starts = [prefix + (_SOME if i else "") for prefix in prefixes]
        words = None if i + 1 == len(bounded) else _few_keys(bounds, len(prefixes))
        if not words:
            is_whole_key = i + 1 == len(kinds)
            found = (r for start in starts for r in _ranges_behind(start, bounds, is_whole_key))
            return KeyRanges.of(found), i + 1
        prefixes = [start + word for start in starts for word in words]
    raise AssertionError("the last part that is bounded gives the ranges")


def _ranges_behind(start: str, bounds: Bounds, is_whole_key: bool) -> Iterator[KeyRange]:
    """Return the ranges of what begins with ``start`` and goes on with a part in its bounds."""
    lows, highs = _encoded(bounds.kind, bounds.low), _encoded(bounds.kind, bounds.high)
    is_point = _are_points(bounds)
    for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if is_whole_key and is_point[i]:
            yield KeyRange(start + low, start + low)
            continue
        first = _behind(start + low) if bounds.low_open[i] else start + low
        if bounds.kind is KeyKind.STRING and bounds.endless[i]:
            stop = _behind(start) if start else None
        else:
            stop = start + high if bounds.high_open[i] else _behind(start + high)
        yield KeyRange(first, stop, high_closed=False)


def _few_keys(bounds: Bounds, n_prefixes: int) -> list[str] | None:
    """Return the encodings of all keys in some bounds; None if they are many, or not counted."""
    most = COMPOSITE_POINTS_MAX // n_prefixes
    if bounds.kind is KeyKind.INTEGER:
        spans = [(int(a), int(b)) for a, b in zip(bounds.low, bounds.high, strict=True)]
        if sum(high - low + 1 for low, high in spans) > most:
            return None
        keys = [np.arange(high - low + 1) + low for low, high in spans]
        return _encoded(bounds.kind, np.concatenate([np.empty(0, np.int64), *keys]))
    is_few = len(bounds) <= most and _are_points(bounds).all()
    return _encoded(bounds.kind, bounds.low) if is_few else None


def _are_points(bounds: Bounds) -> np.ndarray:
    """Return which bounds admit one key."""
    is_open = bounds.low_open | bounds.high_open | bounds.endless
    return np.asarray((bounds.low == bounds.high) & ~is_open, dtype=bool)


def _behind(text: str) -> str:
    """Return the least text behind all that begin with ``text``, which ends below U+0081."""
    return text[:-1] + chr(ord(text[-1]) + 1)


@dataclass(frozen=True, slots=True)
class _Coded:
    """A column as codes of the encodings of its values."""

    words: pa.StringArray
    codes: np.ndarray
    """int64 array: one per row, -1 where the value is null or NaN."""

    @classmethod
    def of(cls, column: pa.ChunkedArray, name: str) -> _Coded:
        keys = to_keys(column, name)
        encoded = keys.values.dictionary_encode()
        codes = np.full(len(column), -1, np.int64)
        codes[keys.rows] = encoded.indices.to_numpy(zero_copy_only=False)
        kind = key_kind(column.type, name)
        if kind is KeyKind.STRING:
            return cls(_escaped(encoded.dictionary), codes)
        digits = _digits(kind, encoded.dictionary.to_numpy(zero_copy_only=False))
        offsets = np.arange(len(encoded.dictionary) + 1, dtype=np.int32) * _DIGITS
        buffers = pa.py_buffer(offsets), pa.py_buffer(digits)
        return cls(pa.StringArray.from_buffers(len(offsets) - 1, *buffers), codes)

    def as_later_part(self) -> pa.StringArray:
        """Return what stands for no value, then the encodings of the values, led by their mark."""
        led = pc.binary_join_element_wise(_SOME, self.words, "")
        return pa.concat_arrays([pa.array([_NONE]), led.cast(pa.string())])


def _encoded(kind: KeyKind, keys: np.ndarray) -> list[str]:
    """Return the encodings of keys as ``to_bounds`` gives them."""
    if kind is KeyKind.STRING:
        return [k.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01") + _END for k in keys]
    digits = _digits(kind, keys).decode("ascii")
    return [digits[i : i + _DIGITS] for i in range(0, len(digits), _DIGITS)]


def _escaped(values: pa.StringArray) -> pa.StringArray:
    escaped = pc.replace_substring(values, "\x01", "\x01\x02")
    escaped = pc.replace_substring(escaped, "\x00", "\x01\x01")
    return pc.binary_join_element_wise(escaped, _END, "")


def _digits(kind: KeyKind, keys: np.ndarray) -> bytes:
    """Return ten characters per number, int64 or float64."""
    if kind is KeyKind.INTEGER:
        bits = keys.astype(np.int64).view(np.uint64) ^ _SIGN
    else:
        # IEEE 754 numbers ascend as their bits do, negative ones the other way round.
        bits = (keys + 0.0).view(np.uint64)
        bits = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    return ((bits[:, None] >> _SHIFTS) & np.uint64(127)).astype(np.uint8).tobytes()


def _pair_codes(first: np.ndarray, second: np.ndarray, n_second: int) -> np.ndarray:
    """Return codes of pairs, counted from 0 without gaps; -1 where the first has none."""
    # Codes are fewer than rows, so those of pairs are below 2^63.
    pairs = pa.array(first * (n_second + 1) + second + 1, mask=first < 0)
    coded = pairs.dictionary_encode().indices.fill_null(-1)
    return np.asarray(coded.to_numpy(zero_copy_only=False), np.int64)
