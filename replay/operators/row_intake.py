"""What all matchers do with the rows pushed into them before they search them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from replay.operators.partitions import PartitionTable
from replay.operators.prepared import Prepared
from replay.operators.program import MatchProgram
from replay.operators.rims import Rims
from replay.operators.search import Rows

IntArray = npt.NDArray[np.int64]


class RowIntake(ABC):
    """Counts rows and faults, holds them to their order, and gives texts codes that last.

    Parameters
    ----------
    program
        The compiled query.
    partitions
        Numbers of partitions, none seen yet.
    n_events
        Events of the stream the stretches are of; None: what is pushed is the stream.
    """

    def __init__(
        self, program: MatchProgram, partitions: PartitionTable, n_events: int | None
    ) -> None:
        self._program = program
        self._partitions = partitions
        self._rims = Rims.of(program, n_events)
        self._inbox: list[Rows] = []
        self._deferred: list[tuple[Prepared, int]] = []
        self._next_seq: int | None = None
        self._strings = {text: code for code, text in enumerate(program.across.texts)}
        self._ranks_of_known = np.empty(0, np.int64)
        self._n_rows = 0
        self._n_faults = 0

    @property
    def n_faults(self) -> int:
        """Number of faults counted so far."""
        return self._n_faults

    @abstractmethod
    def push(self, prepared: Prepared, first_seq: int) -> None:
        """Take the next rows of the stretch.

        Row i has ``seq`` ``first_seq + i``, unless rows were left out and they tell theirs.
        """

    @abstractmethod
    def finish(self) -> None:
        """End the stretch: nothing more is to come."""

    @abstractmethod
    def _take_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        """Take whole stretches, of one row at least."""

    def push_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        """Take several whole stretches at once, each finished.

        Parameters
        ----------
        prepared
            Rows of all of them, one after the other.
        starts, n_rows, first_seqs
            First row in ``prepared``, number of rows and first ``seq`` of each stretch.
        """
        if self._next_seq is not None:
            raise ValueError("a stretch is open; finish it before pushing whole ones")
        if prepared.n_rows:
            self._take_stretches(prepared, starts, n_rows, first_seqs)

    def _take_one_by_one(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        """Take whole stretches as if each were pushed by itself."""
        parts = zip(starts.tolist(), n_rows.tolist(), first_seqs.tolist(), strict=True)
        for start, n, first in parts:
            self.push(prepared.slice(start, n), first)
            self.finish()

    def _note_pushed(self, prepared: Prepared, first_seq: int) -> None:
        """Hold the next rows of a stretch to follow those pushed last."""
        follows, n, seq = self._next_seq, prepared.n_rows, prepared.seq
        first = first_seq if seq is None else int(seq[0])
        if follows is not None and (first < follows if seq is not None else first != follows):
            raise ValueError(
                f"rows from seq {first} pushed where {follows} follows; finish the stretch first"
            )
        self._next_seq = first + n if seq is None else int(seq[-1]) + 1
        self._n_rows += n

    def _ranks(self) -> IntArray | None:
        """Return what stands for texts in a search whose conditions order them: their ranks.

        They are of one search alone: a text seen later may come between those seen before.
        """
        if not self._program.across.orders_texts:
            return None
        known = list(self._strings)
        if len(self._ranks_of_known) != len(known) + 1:
            ranks = np.full(len(known) + 1, -1)
            ranks[sorted(range(len(known)), key=known.__getitem__)] = np.arange(len(known))
            self._ranks_of_known = ranks
        return self._ranks_of_known

    def _to_rows(
        self, prepared: Prepared, seq: IntArray | None, partition: IntArray | None
    ) -> Rows:
        """Return prepared rows with codes of strings that mean the same in every batch."""
        self._n_faults += prepared.n_faults
        leaves = prepared.leaves.copy() if prepared.strings else prepared.leaves
        known = self._strings
        for strings in prepared.strings:
            table = [known.setdefault(entry, len(known)) for entry in strings.entries]
            leaves[strings.leaf] = np.array([*table, -1], np.int64)[strings.codes]
        return Rows(
            prepared.words,
            prepared.times,
            leaves,
            prepared.known,
            seq,
            partition,
            prepared.moved,
        )


def seqs_of(prepared: Prepared, first_seq: int) -> IntArray:
    """Return the ``seq`` of prepared rows, which begin with ``first_seq`` unless they tell."""
    if prepared.seq is not None:
        return prepared.seq
    return np.arange(first_seq, first_seq + prepared.n_rows, dtype=np.int64)


def seqs_of_stretches(
    prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the stretch of each row, by number, and its ``seq``; see `push_stretches`."""
    stretch = np.repeat(np.arange(len(starts)), n_rows)
    if prepared.seq is not None:
        return stretch, prepared.seq
    return stretch, np.arange(prepared.n_rows) + (first_seqs - starts)[stretch]
