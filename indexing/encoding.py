"""How the columns of a run are encoded: decided per run, from what repeats in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from indexing.config import DICTIONARY_SHARE_MAX, FENCE_ENTRIES
from indexing.keys import KeyKind

_NUMBER_BYTES = 8
_DIVISOR_SAMPLE = 256
_UNSIGNED = (1 << 64) - 1


class Encoding(Enum):
    """Encodings of Parquet that runs use."""

    PLAIN = "plain"
    DELTA = "delta"  # DELTA_BINARY_PACKED
    DICTIONARY = "dictionary"


@dataclass(frozen=True, slots=True)
class TimeScale:
    """How a run stores times: as steps of ``divisor`` from ``offset``, modulo 2**64.

    The divisor is 0 where no two times differ.
    """

    offset: int = 0
    divisor: int = 0

    @classmethod
    def of(cls, time: np.ndarray) -> TimeScale:
        """Return the coarsest scale on which all times lie; milliseconds, say, in microseconds.

        Parameters
        ----------
        time
            int64 array, in any order.
        """
        if not len(time):
            return cls()
        offset = int(time.min())
        steps = time.view(np.uint64) - np.uint64(offset & _UNSIGNED)
        rest = steps[:: max(1, len(steps) // _DIVISOR_SAMPLE)]
        divisor = int(np.gcd.reduce(rest))
        # A sample tells the divisor nearly always; what it does not divide makes it smaller.
        while divisor != 1:
            rest = steps % np.uint64(divisor) if divisor else steps
            rest = rest[rest != 0]
            if not len(rest):
                return cls(offset, divisor)
            divisor = math.gcd(divisor, int(np.gcd.reduce(rest[:_DIVISOR_SAMPLE])))
        return cls(offset, 1)

    @classmethod
    def merged(cls, scales: Sequence[TimeScale]) -> TimeScale:
        """Return the coarsest scale on which the times of all ``scales`` lie."""
        offset = min((scale.offset for scale in scales), default=0)
        apart = (scale.offset - offset for scale in scales)
        return cls(offset, math.gcd(*(scale.divisor for scale in scales), *apart))

    def to_steps(self, time: np.ndarray) -> np.ndarray:
        """Return times as they are stored, an int64 array."""
        steps = time.view(np.uint64) - np.uint64(self.offset & _UNSIGNED)
        if self.divisor > 1:
            steps //= np.uint64(self.divisor)
        return steps.view(np.int64)


@dataclass(frozen=True, slots=True)
class Repetition:
    """How much repeats within the row groups of a run, which its encodings follow from.

    Attributes
    ----------
    key_share
        Different keys per entry, counted within each row group.
    object_share
        The same of objects.
    object_low, object_high
        Extremes of objects that are integers.
    """

    key_share: float = 1.0
    object_share: float = 1.0
    object_low: int = 0
    object_high: int = 0

    @classmethod
    def merged(cls, parts: Sequence[tuple[Repetition, int]]) -> Repetition:
        """Return what to expect of a run merged of runs with so many entries each.

        Keys repeat at least as much in the merged run as in its parts.
        """
        n = max(1, sum(count for _, count in parts))
        full = [part for part, count in parts if count] or [cls()]
        return cls(
            sum(part.key_share * count for part, count in parts) / n,
            sum(part.object_share * count for part, count in parts) / n,
            min(part.object_low for part in full),
            max(part.object_high for part in full),
        )


def choose_key_encoding(kind: KeyKind, repetition: Repetition) -> Encoding:
    """Return how keys are encoded.

    Pure. Doubles take eight bytes each in either encoding; a dictionary holds each of them once
    for a row group and adds at most 12 bits an entry.
    """
    if kind is KeyKind.INTEGER:
        return Encoding.DELTA
    if kind is KeyKind.STRING or repetition.key_share <= DICTIONARY_SHARE_MAX:
        return Encoding.DICTIONARY
    return Encoding.PLAIN


def choose_object_encoding(kind: KeyKind, repetition: Repetition) -> Encoding:
    """Return how objects are encoded: integers in the way that takes fewer bits.

    Pure. A few large numbers are best in a dictionary, many different ones as differences.
    """
    if kind is KeyKind.STRING:
        return Encoding.DICTIONARY
    share = repetition.object_share
    code_bits = math.ceil(share * FENCE_ENTRIES).bit_length()
    difference_bits = (repetition.object_high - repetition.object_low).bit_length() + 1
    is_coded = 8 * _NUMBER_BYTES * share + code_bits < difference_bits
    return Encoding.DICTIONARY if is_coded else Encoding.DELTA


@dataclass(frozen=True, slots=True)
class ObjectColumn:
    """How a run holds the value of the stream's key column."""

    kind: KeyKind
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a run and how they are encoded."""

    attribute: str
    kind: KeyKind
    key_encoding: Encoding
    scale: TimeScale = TimeScale()
    objects: ObjectColumn | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns of the Parquet file."""
        return run_schema(self.kind, None if self.objects is None else self.objects.kind)

    @property
    def encodings(self) -> dict[str, Encoding]:
        """How each column is encoded, in the order of the columns."""
        encodings = {"key": self.key_encoding, "t": Encoding.DELTA, "position": Encoding.DELTA}
        if self.objects is not None:
            encodings["object"] = self.objects.encoding
        return encodings


def choose_layout(
    attribute: str,
    kind: KeyKind,
    *,
    object_kind: KeyKind | None,
    scale: TimeScale,
    repetition: Repetition,
) -> Layout:
    """Return how a run is laid out. Pure."""
    objects = object_kind and ObjectColumn(
        object_kind, choose_object_encoding(object_kind, repetition)
    )
    return Layout(attribute, kind, choose_key_encoding(kind, repetition), scale, objects)


def run_schema(kind: KeyKind, object_kind: KeyKind | None = None) -> pa.Schema:
    """Return the columns of a run, of a stream with a key column if ``object_kind`` is given."""
    fields = [
        pa.field("key", kind.arrow_type, nullable=False),
        pa.field("t", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
    ]
    if object_kind is not None:
        fields.append(pa.field("object", object_kind.arrow_type))
    return pa.schema(fields)
