"""Compiled leaves of deriving: from a word per row to the situations that begin and end.

A word has a bit for each situation's condition, in the order of DEFINE: set where it is true.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.compiled import njit
from replay.situations.detection import OPEN

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

PARTITION, NAME, START, FIRST, END, STOP = range(6)
"""Columns of the situations that `derive` finds; end and stop of one that goes on are `OPEN`."""

NOT_BEGUN: Final = -1
"""Instead of the ``seq`` of the first row: it is not known, or the run is no situation."""

NO_GAP, HIDING_GAP, ASKING_GAP = range(3)
"""What rows left out before mean: there are none; a run may have begun among them, so that it
counts for nothing; the row before is asked for later, if a match needs it."""


class Rows(NamedTuple):
    """Rows of a batch."""

    partitions: Ints
    """Numbers of their partitions; empty: all are of number 0."""
    times: Ints
    words: Words
    seqs: Ints
    """Empty: each stands behind the one before."""
    until: Ints
    """Times up to which rows alike follow each that are not there; most often its own."""


class PartitionState(NamedTuple):
    """What is known of each partition, by its number."""

    words: Words
    """Of its last row."""
    times: Ints
    """Of its last row; kept only with VALID FOR."""
    has_spoken: npt.NDArray[np.bool_]
    """Whether a row has come since rows were left out; kept only if some were."""
    first_rows: Ints
    """``seq`` of that row, if the row before is asked for; else -1."""
    runs: Ints
    """Where the run of each name began that goes on, int64[n, n_names, 3]: its time, the ``seq`` of
    its first row, and its place among those found, which holds for one batch."""


class Rules(NamedTuple):
    """What deriving follows in one batch."""

    least: Ints
    """How long a situation of each name lasts at least; 1 or more, as one covers time."""
    most: Ints
    """And at most."""
    valid_for: int
    """How long a row speaks; -1: until the next one."""
    first_seq: int
    """``seq`` of the first row, or one before it that is behind all of earlier batches."""
    gap: int
    """`NO_GAP`, `HIDING_GAP` or `ASKING_GAP`."""
    gap_time: int
    """Time of the last row left out."""


@njit()
def set_bits(holds, bits, words):  # type: ignore[no-untyped-def]
    """Set ``bits`` in the words of the rows where a condition holds."""
    for row in range(words.size):
        words[row] |= bits if holds[row] else np.uint64(0)


@njit(_nrt=False)
def derive(rows, known, rules, begin, n_found, found):  # type: ignore[no-untyped-def]
    """Find the situations that begin or end at the rows from ``begin`` on.

    Each row's word is compared with that of the row before of its partition, and only where a bit
    changes (or the partition was silent too long) is anything written. ``found``, int64[n, 6], has
    the columns of `PARTITION` to `STOP`; of it the first ``n_found`` are there already. A situation
    is found once a batch: as it begins, with an end filled in as it comes; or, begun in an earlier
    batch, as it ends. One that proves too short or too long in the batch it begins in gets
    `NOT_BEGUN` as its first row.

    Returns the row at which room is lacking, or the number of rows, and how many are found.
    """
    n_names = rules.least.size
    n_max = found.shape[0] - 2 * n_names
    is_one = rows.partitions.size == 0
    for row in range(begin, rows.words.size):
        if n_found > n_max:
            return row, n_found
        partition = 0 if is_one else rows.partitions[row]
        seq = rules.first_seq + row if rows.seqs.size == 0 else rows.seqs[row]
        now = rows.words[row]
        before = known.words[partition]
        is_hidden = False
        if rules.gap != NO_GAP and not known.has_spoken[partition]:
            known.has_spoken[partition] = True
            if rules.gap == ASKING_GAP:
                known.first_rows[partition] = seq
            elif rules.valid_for < 0 or rows.times[row] - rules.valid_for <= rules.gap_time:
                is_hidden = True
        spoke = rows.times[row]
        is_silent = False
        if rules.valid_for >= 0:
            spoke = known.times[partition]
            waited = rows.times[row] - spoke
            is_silent = before != 0 and waited > rules.valid_for
            known.times[partition] = rows.until[row]
        if now == before and not is_silent:
            continue
        known.words[partition] = now
        ends = before if is_silent else before & ~now
        begins = now if is_silent else now & ~before
        for name in range(n_names):
            bit = np.uint64(1) << np.uint64(name)
            run = known.runs[partition, name]
            if ends & bit and run[1] != NOT_BEGUN:
                end = spoke + rules.valid_for if is_silent else rows.times[row]
                place = run[2]
                if run[1] < rules.first_seq:  # it began in an earlier batch
                    place = n_found
                    n_found += 1
                    found[place, PARTITION] = partition
                    found[place, NAME] = name
                    found[place, START] = run[0]
                    found[place, FIRST] = run[1]
                else:
                    lasted = end - run[0]
                    if lasted < rules.least[name] or lasted > rules.most[name]:
                        if place == n_found - 1:
                            n_found = place
                        else:
                            found[place, FIRST] = NOT_BEGUN
                found[place, END] = end
                found[place, STOP] = seq
            if begins & bit:
                run[0] = rows.times[row]
                run[1] = NOT_BEGUN if is_hidden else seq
                run[2] = n_found
                if not is_hidden:
                    found[n_found, PARTITION] = partition
                    found[n_found, NAME] = name
                    found[n_found, START] = run[0]
                    found[n_found, FIRST] = seq
                    found[n_found, END] = OPEN
                    found[n_found, STOP] = OPEN
                    n_found += 1
    return rows.words.size, n_found


@njit()
def places_before(partitions, first_seq, counts, rings, offsets, places, ordinals):  # type: ignore[no-untyped-def]
    """Find the rows that stand ``offsets`` before each row in its partition.

    ``rings``, int64[n, depth], has the ``seq`` of the last rows of each partition, the one that
    came as its i-th at ``i % depth``; ``counts`` how many have come. ``places``, int64[n_offsets,
    n_rows], gets ``seq``, -1 for none; ``ordinals`` the how-manieth of its partition each row is.
    """
    depth = rings.shape[1]
    for row in range(ordinals.size):
        partition = partitions[row]
        count = counts[partition]
        for k in range(offsets.size):
            before = offsets[k]
            places[k, row] = rings[partition, (count - before) % depth] if before <= count else -1
        ordinals[row] = count
        rings[partition, count % depth] = first_seq + row
        counts[partition] = count + 1
