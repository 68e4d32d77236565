"""What all matchers do with the rows pushed into them before they search them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.operators.partitions import PartitionTable
from replay.operators.prepared import Prepared
from replay.operators.program import MatchProgram
from replay.operators.search import Rows

IntArray = npt.NDArray[np.int64]


class RowIntake:
    """Counts rows and faults, holds them to their order, and gives texts codes that last.

    Parameters
    ----------
    program
        The compiled query.
    partitions
        Numbers of partitions, none seen yet.
    """

    def __init__(self, program: MatchProgram, partitions: PartitionTable) -> None:
        self._program = program
        self._partitions = partitions
        self._inbox: list[Rows] = []
        self._deferred: list[tuple[Prepared, int]] = []
        self._next_seq: int | None = None
        self._strings = {text: code for code, text in enumerate(program.across.texts)}
        self._n_rows = 0
        self._n_faults = 0

    @property
    def n_faults(self) -> int:
        """Number of faults counted so far."""
        return self._n_faults

    def _note_pushed(self, n_rows: int, first_seq: int) -> None:
        """Hold the next rows of a stretch to follow those pushed last."""
        if self._next_seq is not None and first_seq != self._next_seq:
            raise ValueError(
                f"rows from seq {first_seq} pushed where {self._next_seq} follows; "
                "finish the stretch first"
            )
        self._next_seq = first_seq + n_rows
        self._n_rows += n_rows

    def _check_no_stretch_is_open(self) -> None:
        if self._next_seq is not None:
            raise ValueError("a stretch is open; finish it before pushing whole ones")

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
        return Rows(prepared.words, prepared.times, leaves, prepared.known, seq, partition)
