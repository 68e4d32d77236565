"""Rows a lookup is asked about, as a bit map over the stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from indexing.config import ROW_MASK_BITS_MAX
from indexing.scratch import Scratch

# Held only while one lookup is read.
_marks = Scratch()


@dataclass(frozen=True, slots=True)
class RowMask:
    """Rows of a stream that are of interest. Inclusive: of long streams a bit stands for several.

    Attributes
    ----------
    marks
        uint64 array: bit ``seq >> shift`` is set where a row in question is of interest.
    shift
        Binary logarithm of the rows that one bit stands for.
    """

    marks: np.ndarray
    shift: int

    @classmethod
    def of(
        cls,
        n_events: int,
        *,
        rows: Sequence[np.ndarray] = (),
        spans: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> RowMask:
        """Return the mask of some rows of a stream, in time linear in them and, little, in it.

        Its memory is that of the thread's next mask.

        Parameters
        ----------
        n_events
            Of the stream.
        rows
            int64 arrays: single rows.
        spans
            int64 arrays: first rows of stretches, and rows behind their last; none is empty.
        """
        from indexing.kernels import mark_rows, mark_spans

        shift = max(0, (n_events - 1).bit_length() - ROW_MASK_BITS_MAX)
        marks = _marks.borrow(8 * ((n_events >> (shift + 6)) + 1)).view(np.uint64)
        marks[:] = 0
        for some in rows:
            mark_rows(some, shift, marks)
        if spans is not None:
            mark_spans(*spans, shift, marks)
        return cls(marks, shift)

    def touch(self, spans: np.ndarray) -> np.ndarray:
        """Return which stretches (int64, shape (n, 2), half-open) have a row of interest."""
        from indexing.kernels import find_touched

        touched: np.ndarray = find_touched(self.marks, self.shift, spans)
        return touched

    def places_of(self, seq: np.ndarray, into: np.ndarray) -> np.ndarray:
        """Return the places of the rows, -1 for none, that may be of interest.

        They are written to the front of ``into``, an int64 array longer than ``seq``.
        """
        from indexing.kernels import keep_rows

        return into[: keep_rows(seq, self.marks, self.shift, into)]

    def contains(self, seq: np.ndarray) -> np.ndarray:
        """Return for each row, -1 for none, whether it may be of interest, as a bool array."""
        bit = np.maximum(seq, 0) >> self.shift
        words = self.marks[bit >> 6] >> (bit & 63).astype(np.uint64)
        return np.asarray((words & np.uint64(1)).astype(np.bool_) & (seq >= 0))
