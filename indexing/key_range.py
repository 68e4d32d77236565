"""Ranges of index keys and sets of them: what a lookup is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Key = int | float | str
"""A key as runs hold it: integers, timestamps (µs), dates (days) and booleans are ``int``."""


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
