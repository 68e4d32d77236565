"""Ranges of index keys: what a lookup is asked for, and the same in the key type of an index."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexing.errors import IndexingError
from indexing.keys import KeyKind, to_comparable

Key = int | float | str
"""A key as runs hold it: integers, timestamps (µs), dates (days) and booleans are ``int``."""

_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1

_FEW_RANGES = 10
"""Up to here keys are compared with each range; beyond, they search their range."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """One range of keys; ``None`` as a bound is unbounded.

    Unlike intervals of time, key ranges say for each bound whether it belongs to the range,
    since doubles and strings have no successor one would want to write.
    """

    low: Key | None = None
    high: Key | None = None
    low_closed: bool = True
    high_closed: bool = True

    def __post_init__(self) -> None:
        # Where there is no bound it is not open either: ranges with the same keys are equal.
        if self.low is None and not self.low_closed:
            object.__setattr__(self, "low_closed", True)
        if self.high is None and not self.high_closed:
            object.__setattr__(self, "high_closed", True)

    def is_empty(self) -> bool:
        """Return whether no key can lie inside; none compares with NaN."""
        if self.low != self.low or self.high != self.high:
            return True
        if self.low is None or self.high is None:
            return False
        if self.low == self.high:
            return not (self.low_closed and self.high_closed)
        return bool(self.low > self.high)  # type: ignore[operator]

    def intersect(self, other: KeyRange) -> KeyRange:
        """Return the keys in both."""
        low, low_closed = _tighter(self.low, self.low_closed, other.low, other.low_closed, 1)
        high, high_closed = _tighter(self.high, self.high_closed, other.high, other.high_closed, -1)
        return KeyRange(low, high, low_closed, high_closed)

    def __str__(self) -> str:
        if self.low is not None and self.low == self.high:
            return f"= {self.low!r}"
        left = "(-∞" if self.low is None else f"{'[' if self.low_closed else '('}{self.low!r}"
        right = "∞)" if self.high is None else f"{self.high!r}{']' if self.high_closed else ')'}"
        return f"{left}, {right}"


def _tighter(
    a: Key | None, a_closed: bool, b: Key | None, b_closed: bool, sign: int
) -> tuple[Key | None, bool]:
    """Return the bound that admits fewer keys; ``sign`` 1 for lower bounds, -1 for upper."""
    if a is None:
        return b, b_closed
    if b is None:
        return a, a_closed
    if a == b:
        return a, a_closed and b_closed
    a_wins = (a > b) if sign > 0 else (a < b)  # type: ignore[operator]
    return (a, a_closed) if a_wins else (b, b_closed)


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """A union of disjoint ranges in ascending order; no range at all admits nothing."""

    ranges: tuple[KeyRange, ...]
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        # Kept: planning looks plans and answers up by ranges, thousands of times a query.
        if self._hash is None:
            object.__setattr__(self, "_hash", hash(self.ranges))
        return self._hash or 0

    def __reduce__(self) -> tuple[type[KeyRanges], tuple[tuple[KeyRange, ...]]]:
        # Without the hash, which texts have anew in each process.
        return KeyRanges, (self.ranges,)

    @property
    def is_one_key(self) -> bool:
        """Whether one key is admitted and no other: its entries stand in order of the stream."""
        return len(self.ranges) == 1 and self.is_of_keys

    @property
    def is_of_keys(self) -> bool:
        """Whether single keys are admitted and no range of several."""
        return all(r.low is not None and r.low == r.high for r in self.ranges)

    @classmethod
    def of(cls, ranges: Iterable[KeyRange]) -> KeyRanges:
        """Return the union of ``ranges``, in any order, overlapping or not."""
        kept = [r for r in ranges if not r.is_empty()]
        if len(kept) < 2:
            return cls(tuple(kept))
        kept.sort(key=_by_low)
        merged: list[KeyRange] = []
        for r in kept:
            if merged and _touches(merged[-1], r):
                merged[-1] = _join(merged[-1], r)
            else:
                merged.append(r)
        return cls(tuple(merged))

    @classmethod
    def everything(cls) -> KeyRanges:
        """Return the range that admits every key (but no null and no NaN)."""
        return cls((KeyRange(),))

    def union(self, other: KeyRanges) -> KeyRanges:
        """Return the keys in either."""
        return KeyRanges.of((*self.ranges, *other.ranges))

    def intersect(self, other: KeyRanges) -> KeyRanges:
        """Return the keys in both."""
        return KeyRanges.of(a.intersect(b) for a in self.ranges for b in other.ranges)

    def is_empty(self) -> bool:
        """Return whether no key is admitted."""
        return not self.ranges

    def is_everything(self) -> bool:
        """Return whether every key is admitted."""
        return any(r.low is None and r.high is None for r in self.ranges)

    def __str__(self) -> str:
        return " or ".join(str(r) for r in self.ranges) or "nothing"


class _Lowest:
    """Sorts before every key."""

    def __lt__(self, other: object) -> bool:
        return not isinstance(other, _Lowest)

    def __gt__(self, other: object) -> bool:
        return False


_LOWEST = _Lowest()


def _by_low(r: KeyRange) -> tuple[object, bool]:
    return (_LOWEST if r.low is None else r.low, not r.low_closed)


def _touches(left: KeyRange, right: KeyRange) -> bool:
    """Return whether two ranges, ``left`` starting first, leave no key between them."""
    if left.high is None or right.low is None:
        return True
    if left.high == right.low:
        return left.high_closed or right.low_closed
    return bool(left.high > right.low)  # type: ignore[operator]


def _join(left: KeyRange, right: KeyRange) -> KeyRange:
    if left.high is None or right.high is None:
        return KeyRange(left.low, None, left.low_closed, True)
    if left.high == right.high:
        return KeyRange(left.low, left.high, left.low_closed, left.high_closed or right.high_closed)
    wider = left if left.high > right.high else right  # type: ignore[operator]
    return KeyRange(left.low, wider.high, left.low_closed, wider.high_closed)


# ---------------------------------------------------------------------------------------------
# In the key type of one index, as arrays that fences and keys are compared with


@dataclass(frozen=True, slots=True)
class Bounds:
    """Disjoint ranges in ascending order, one element each.

    Bounds are int64, float64 or object (str) arrays. What a range without a bound would need is the
    least or greatest value of the type, except for strings, which have no greatest: ``endless``.
    """

    kind: KeyKind
    low: np.ndarray
    low_open: np.ndarray
    high: np.ndarray
    high_open: np.ndarray
    endless: np.ndarray

    def __len__(self) -> int:
        return len(self.low)

    @property
    def is_one_key(self) -> bool:
        """Return whether no two keys are admitted."""
        return len(self) == 1 and not self.endless[0] and bool(self.low[0] == self.high[0])

    def contains(self, keys: np.ndarray | pa.Array) -> np.ndarray:
        """Return for each key (int64, float64 or Arrow array) whether any range admits it."""
        if len(self) == 0:
            return np.zeros(len(keys), dtype=bool)
        if self.kind is KeyKind.STRING and len(self) <= _FEW_RANGES:
            return self._contains_strings(keys)
        values = keys if isinstance(keys, np.ndarray) else to_comparable(keys)
        if len(self) <= _FEW_RANGES and self.kind is not KeyKind.STRING:
            admitted = self._in_range(values, 0)
            for i in range(1, len(self)):
                admitted |= self._in_range(values, i)
            return admitted
        # Ranges are disjoint and ascending: only the last that starts at or below can admit.
        found = np.searchsorted(self.low, values, side="right") - 1
        reached = found >= 0
        at = np.maximum(found, 0)
        above = np.where(self.low_open[at], values > self.low[at], values >= self.low[at])
        below = np.where(self.high_open[at], values < self.high[at], values <= self.high[at])
        return np.asarray(reached & above & (below | self.endless[at]), dtype=bool)

    def _in_range(self, values: np.ndarray, i: int) -> np.ndarray:
        """Return which numbers range ``i`` admits; an absent bound admits all."""
        low, high = self.low[i], self.high[i]
        inside = values > low if self.low_open[i] else values >= low
        inside &= values < high if self.high_open[i] else values <= high
        return np.asarray(inside, dtype=bool)

    def _contains_strings(self, keys: pa.Array) -> np.ndarray:
        admitted = np.zeros(len(keys), dtype=bool)
        for i in range(len(self)):
            low, high = self.low[i], self.high[i]
            if low == high and not (self.low_open[i] or self.high_open[i] or self.endless[i]):
                admitted |= _compare(pc.equal, keys, low)
                continue
            inside = _compare(pc.greater if self.low_open[i] else pc.greater_equal, keys, low)
            if not self.endless[i]:
                inside &= _compare(pc.less if self.high_open[i] else pc.less_equal, keys, high)
            admitted |= inside
        return admitted


def _compare(
    compare: Callable[[pa.Array, pa.Scalar], pa.Array], keys: pa.Array, bound: str
) -> np.ndarray:
    found: np.ndarray = compare(keys, pa.scalar(bound, pa.string())).to_numpy(zero_copy_only=False)
    return found


def to_bounds(ranges: KeyRanges, kind: KeyKind) -> Bounds:
    """Return ``ranges`` in the key type of an index, exactly.

    A bound of another numeric type is rounded to the side that admits the same keys; a NaN bound
    admits nothing. A bound that cannot be compared with the keys raises `IndexingError`.
    """
    convert = _CONVERTERS[kind]
    converted = [convert(r) for r in ranges.ranges if not r.is_empty()]
    kept = tuple(r for r in converted if r is not None)
    if len(kept) > 1:  # rounding may have made neighbours of them
        kept = KeyRanges.of(kept).ranges
    lowest, highest = _EXTREMES[kind]
    dtype = kind.numpy_type
    return Bounds(  # a range is not open where it has no bound
        kind=kind,
        low=np.array([lowest if r.low is None else r.low for r in kept], dtype=dtype),
        low_open=np.array([not r.low_closed for r in kept], dtype=bool),
        high=np.array([highest if r.high is None else r.high for r in kept], dtype=dtype),
        high_open=np.array([not r.high_closed for r in kept], dtype=bool),
        endless=np.array([r.high is None for r in kept], dtype=bool),
    )


def _integer_range(r: KeyRange) -> KeyRange | None:
    """Return the closed range of int64 with the same integers, or None if there are none."""
    low, high = _number(r.low), _number(r.high)
    first = _INT64_MIN
    if low is not None and low != -math.inf:
        if low == math.inf:
            return None
        first = max(first, math.ceil(low) + (not r.low_closed and low == math.ceil(low)))
    last = _INT64_MAX
    if high is not None and high != math.inf:
        if high == -math.inf:
            return None
        last = min(last, math.floor(high) - (not r.high_closed and high == math.floor(high)))
    return KeyRange(first, last) if first <= last else None


def _double_range(r: KeyRange) -> KeyRange | None:
    """Return the range of doubles with the same doubles in it."""
    if isinstance(r.low, float) and isinstance(r.high, float):
        return r
    low, low_closed = _number(r.low), r.low_closed
    if isinstance(low, int):
        # Rounded down past the bound: the double itself lies below it, the next one above.
        exact, low = low, _nearest_double(low)
        low_closed = low_closed if low == exact else low > exact
    high, high_closed = _number(r.high), r.high_closed
    if isinstance(high, int):
        exact, high = high, _nearest_double(high)
        high_closed = high_closed if high == exact else high < exact
    converted = KeyRange(low, high, low_closed, high_closed)
    return None if converted.is_empty() else converted


def _nearest_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _number(bound: Key | None) -> int | float | None:
    if isinstance(bound, str):
        raise IndexingError(f"bound {bound!r} is a string, the keys of the index are numbers")
    return bound


def _string_range(r: KeyRange) -> KeyRange | None:
    for bound in (r.low, r.high):
        if bound is not None and not isinstance(bound, str):
            raise IndexingError(f"bound {bound!r} is a number, the keys of the index are strings")
    return r


_CONVERTERS: dict[KeyKind, Callable[[KeyRange], KeyRange | None]] = {
    KeyKind.INTEGER: _integer_range,
    KeyKind.DOUBLE: _double_range,
    KeyKind.STRING: _string_range,
}

_EXTREMES: dict[KeyKind, tuple[Key, Key]] = {
    KeyKind.INTEGER: (_INT64_MIN, _INT64_MAX),
    KeyKind.DOUBLE: (-math.inf, math.inf),
    KeyKind.STRING: ("", ""),
}


def after_prefix(prefix: str) -> str | None:
    """Return the least string above all that start with ``prefix``, or None if there is none."""
    while prefix:
        code = ord(prefix[-1]) + 1
        if code <= 0x10FFFF:
            # Surrogates are no characters of UTF-8.
            return prefix[:-1] + chr(0xE000 if 0xD800 <= code <= 0xDFFF else code)
        prefix = prefix[:-1]
    return None
