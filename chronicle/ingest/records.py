"""Records of text files as they are handed on: cells by column, and what is no record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

BATCH_RECORDS = 1 << 16
"""Records handed on together."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records that follow one another in a file."""

    first: int
    """Number of the first among the records of the file, from 0."""

    cells: dict[str, pa.Array]
    """By column: texts, or what JSON says of the type; null where there is no value."""

    n_records: int

    nested: dict[str, pa.Array]
    """Masks of cells that hold an object or an array, for columns that have any."""


class Place(NamedTuple):
    """Where a record stands in its file."""

    line: int
    """Its first line, from 1."""

    text: str
    """The record as it is written."""


class Reject(NamedTuple):
    """What stands in a file and is no record."""

    line: int
    text: str
    reason: str


class Records(Protocol):
    """The records of one file, to be read once from front to back."""

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield the records; raises ``SourceError`` where the file cannot be read."""
        ...

    def rejects(self) -> Sequence[Reject]:
        """Return what is no record; once all records were read."""
        ...

    def places(self, numbers: Sequence[int]) -> Iterator[Place]:
        """Yield the places of some records, named in ascending order; once all were read."""
        ...
