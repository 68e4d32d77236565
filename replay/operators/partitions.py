"""Partitions across batches: their numbers, the grouping of rows by them, their match numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.operators.columns import Columns
from replay.operators.masks.kernels import group_rows
from replay.operators.prepared import Key, Partitions, Prepared, group_keys
from replay.operators.program import MatchProgram
from replay.operators.search import Rows

IntArray = npt.NDArray[np.int64]

SPARSE = 4
"""With this many times more partitions than rows, only those that have rows are visited."""


class PartitionTable:
    """Gives each key of PARTITION BY a number that stays, and counts its matches."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        self._n_matches = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, partitions: Partitions) -> IntArray:
        """Return the partition's number for every row of a batch."""
        known = self._numbers
        table = [known.setdefault(key, len(known)) for key in partitions.keys]
        return np.array(table, np.int64)[partitions.codes]

    def match_numbers(self, partition: IntArray) -> IntArray:
        """Return MATCH_NUMBER of further matches, given by the partition of each.

        Matches of a partition stand together, in their order.
        """
        if not len(partition):
            return partition
        if len(self._n_matches) < len(self):
            grown = np.zeros(2 * len(self), np.int64)
            grown[: len(self._n_matches)] = self._n_matches
            self._n_matches = grown
        begins = np.flatnonzero(np.diff(partition, prepend=-1))
        counts = np.diff(begins, append=len(partition))
        rank = np.arange(len(partition)) - np.repeat(begins, counts) + 1
        numbers = self._n_matches[partition] + rank
        self._n_matches[partition[begins]] += counts
        return numbers


def group(rows: Rows, n_partitions: int) -> tuple[Rows, IntArray, IntArray]:
    """Bring the rows of each partition together, keeping their order.

    Returns
    -------
    tuple
        The rows; begin and end (half-open) of each partition that may have rows, int64.
    """
    assert rows.group is not None
    codes = rows.group
    if n_partitions > SPARSE * len(codes):
        present, codes = np.unique(codes, return_inverse=True)
        n_partitions = len(present)
    order, begins = group_rows(codes, n_partitions)
    return rows.take(order), begins[:-1].copy(), begins[1:].copy()


def evaluate_grouped(
    program: MatchProgram, batches: Sequence[tuple[Prepared, int]], partitions: PartitionTable
) -> tuple[Prepared, IntArray, IntArray]:
    """Evaluate predicates on a whole stretch grouped by partition, so that PREV and NEXT stay in.

    Parameters
    ----------
    batches
        Rows not evaluated yet and their first ``seq``, in order.

    Returns
    -------
    tuple
        The rows of each partition together; the ``seq`` and the partition of each.
    """
    table = pa.concat_tables([batch.table for batch, _ in batches]).unify_dictionaries()
    numbers = partitions.numbers(group_keys(Columns(table), table, program.partition_by))
    order, _ = group_rows(numbers, len(partitions))
    grouped = numbers[order]
    columns = Columns(table.take(pa.array(order)), segments=grouped)
    return program.evaluate(columns, None), order + batches[0][1], grouped
