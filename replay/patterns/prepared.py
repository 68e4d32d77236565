"""A batch of events as the matcher needs it: words of symbol bits instead of columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import Columns, to_plain
from replay.language.bound import Attribute, DataType

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Key = tuple[Any, ...]

BEFORE: Final = -1
"""Offset of the row before, which the first of a partition has not."""

BEHIND: Final = 1
"""Offset of the row behind, which the last of a partition has not."""

_NAN = ("NaN",)
"""Stands for NaN in keys: NaN is not equal to itself, but one partition holds all of them."""


@dataclass(frozen=True, slots=True)
class Strings:
    """A leaf of strings: codes into a dictionary of its own batch."""

    leaf: int
    codes: npt.NDArray[np.int32]
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partitions:
    """Which partition of the batch each row belongs to, and the partitions' keys."""

    codes: IntArray
    keys: list[Key]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows of a batch, their predicates evaluated.

    ``words`` has shape (n,); ``times`` too, or (0,) where the query has no WITHIN; ``leaves``
    (int64, or the bits of doubles) and ``known`` have shape (n_leaves, n).
    """

    words: Words
    times: IntArray
    leaves: IntArray
    known: npt.NDArray[np.bool_]
    strings: tuple[Strings, ...]
    partitions: Partitions | None
    n_faults: int
    table: pa.Table | None = None
    """The rows themselves, where they can be evaluated only once grouped by partition."""
    seq: IntArray | None = None
    """``seq`` of the rows, ascending, where some of the stretch are left out; None: none are."""
    moved: Mapping[int, IntArray] | None = None
    """``seq`` of the row so far on in the partition, -1 for none, by offset, where that is known
    beforehand; None: rows tell by where they stand."""

    @property
    def n_rows(self) -> int:
        """Number of rows, margins not counted."""
        return len(self.words) if self.table is None else int(self.table.num_rows)

    def slice(self, offset: int, length: int) -> Prepared:
        """Return ``length`` rows from ``offset`` on; arrays are views.

        The faults of the whole batch are counted with its first rows.
        """
        part = np.s_[offset : offset + length]
        groups = self.partitions
        return Prepared(
            words=self.words[part],
            times=self.times[part],
            leaves=self.leaves[:, part],
            known=self.known[:, part],
            strings=tuple(Strings(s.leaf, s.codes[part], s.entries) for s in self.strings),
            partitions=groups and Partitions(groups.codes[part], groups.keys),
            n_faults=self.n_faults if offset == 0 else 0,
            table=None if self.table is None else self.table.slice(offset, length),
            seq=None if self.seq is None else self.seq[part],
            moved=None if self.moved is None else {o: to[part] for o, to in self.moved.items()},
        )


def group_keys(
    columns: Columns, table: pa.Table, by: tuple[str, ...], *, before: int = 0
) -> Partitions:
    """Return the partition of every row ``by`` columns; NULL equals NULL, and NaN equals NaN.

    The table has the rows of ``columns`` and ``before`` others before them.
    """
    codes: IntArray = np.zeros(columns.n_rows, np.int64)
    keys: list[Key] = [()]
    for name in by:
        column = table.column(name)
        if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
            own, dictionary = columns.encoded(Attribute(name, DataType.STRING))
            entries = [*dictionary.to_pylist(), None]
        else:
            window = column.slice(before, columns.n_rows)
            encoded = to_plain(window.combine_chunks()).dictionary_encode("encode")
            own = encoded.indices.to_numpy(zero_copy_only=False)
            entries = [_NAN if _is_nan(v) else v for v in encoded.dictionary.to_pylist()]
        if len(keys) == 1:
            codes, keys = own.astype(np.int64), [(*keys[0], entry) for entry in entries]
            continue
        pairs = pa.array(codes * len(entries) + own).dictionary_encode()
        codes = pairs.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        found = [divmod(pair, len(entries)) for pair in pairs.dictionary.to_pylist()]
        keys = [(*keys[old], entries[new]) for old, new in found]
    return Partitions(codes, keys)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
