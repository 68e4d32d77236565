"""How many runs of rows that satisfy a condition a stream has, told from a few of its blocks."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from chronicle.errors import StorageError
from chronicle.time import to_int64
from replay.engines.block_truth import ALL_PASS, NONE_PASS, classify_blocks
from replay.engines.scan import Rows
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.language.bound import Expression, attributes
from replay.planning.statistics import IntArray

SAMPLED_BLOCKS: Final = 4
"""Blocks that are looked at for each condition; explain alone waits for them."""


def expected_runs(
    snapshot: Snapshot,
    condition: Expression,
    *,
    by: tuple[str, ...],
    time: str,
    silence: int | None,
    where: Expression | None,
) -> float | None:
    """Return about how many runs of neighbouring rows satisfy a condition.

    Neighbours are the rows of a partition that pass ``where``, at most ``silence`` apart. None
    where it reads PREV, or where the few rows that are looked at have no neighbours.

    Notes
    -----
    A run begins at a row that satisfies the condition behind one that does not. How often that is
    seen in some of the blocks in which one may begin, looked at with the block before, is taken for
    all of these.
    """
    if any(part.offset for part in attributes(condition)):
        return None
    asked = (condition,) if where is None else (where, condition)
    counts = snapshot.leaves.count
    classes = classify_blocks(asked, counts, snapshot.bounds)
    assert classes is not None, "of a condition"
    may = classes != NONE_PASS
    if silence is None:  # where all goes on nothing begins
        may[1:] &= (classes[1:] != ALL_PASS) | (classes[:-1] != ALL_PASS)
    blocks = np.flatnonzero(may)
    if not len(blocks):
        return 0.0
    places = (np.arange(SAMPLED_BLOCKS) + 0.5) * len(blocks) / SAMPLED_BLOCKS
    sampled = blocks[np.unique(places.astype(np.int64))]
    names = sorted({*by, time, *(part.name for one in asked for part in attributes(one))})
    n_begun = n_known = n_passed = 0
    for block in sampled.tolist():
        first = max(block - 1, 0)
        try:
            rows = snapshot.read_blocks(np.arange(first, block + 1), names)
        except StorageError:  # what cannot be read is for the query to complain of
            return None
        is_own = np.arange(rows.num_rows) >= rows.num_rows - counts[block]
        if where is not None:
            passes = truths(where, Rows(rows, rows.num_rows), Faults())
            rows, is_own = rows.filter(pa.array(passes)), is_own[passes]
        holds = truths(condition, Rows(rows, rows.num_rows), Faults())
        times = np.asarray(to_int64(rows.column(time), name=time).to_numpy())
        partitions = _partitions(rows, by)
        order = np.argsort(partitions, kind="stable")
        is_next = np.diff(partitions[order], prepend=-1) == 0
        goes_on = np.append(False, holds[order][:-1])[: len(order)] & is_next
        if silence is not None:
            goes_on[1:] &= np.diff(times[order]) <= silence
        is_known = is_own[order] & (is_next | (first == 0))
        n_begun += int(np.count_nonzero(holds[order] & ~goes_on & is_known))
        n_known += int(np.count_nonzero(is_known))
        n_passed += int(np.count_nonzero(is_own))
    if not n_known:
        return None if n_passed else 0.0
    share = n_passed / int(counts[sampled].sum())
    return n_begun / n_known * share * int(counts[blocks].sum())


def _partitions(rows: pa.Table, by: tuple[str, ...]) -> IntArray:
    """Return a number for each row, the same for rows of one partition."""
    numbers = np.zeros(rows.num_rows, np.int64)
    for name in by:
        column = rows.column(name).combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        n_values = len(column.dictionary)
        numbers = numbers * (n_values + 1) + np.asarray(column.indices.fill_null(n_values))
    return numbers
