"""Matches as the matcher gives them: rows by their sequence numbers, nothing materialised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches by column, int64, in canonical order (by ``first_seq``).

    ``first_seq``, ``last_seq`` (``first_seq - 1`` where no row is mapped), ``number`` (1, 2, … in
    each partition) and ``classifier`` (symbol of the last row, -1 if none) have shape (n,);
    ``anchors`` (``seq`` of the rows MEASURES read, -1 if none) has shape (n, n_anchors).
    """

    first_seq: IntArray
    last_seq: IntArray
    number: IntArray
    classifier: IntArray
    anchors: IntArray

    def __len__(self) -> int:
        return len(self.first_seq)

    @classmethod
    def concat(cls, parts: list[Matches], n_anchors: int) -> Matches:
        """Return the parts one after the other."""
        if len(parts) == 1:
            return parts[0]
        none = np.empty(0, np.int64)
        empty = cls(none, none, none, none, np.empty((0, n_anchors), np.int64))
        parts = [empty, *parts]
        return cls(
            np.concatenate([part.first_seq for part in parts]),
            np.concatenate([part.last_seq for part in parts]),
            np.concatenate([part.number for part in parts]),
            np.concatenate([part.classifier for part in parts]),
            np.concatenate([part.anchors for part in parts]),
        )

    def take(self, rows: IntArray | npt.NDArray[np.bool_] | slice) -> Matches:
        """Return the chosen matches, in the order chosen."""
        return Matches(
            self.first_seq[rows],
            self.last_seq[rows],
            self.number[rows],
            self.classifier[rows],
            self.anchors[rows],
        )

    def head(self, n: int) -> Matches:
        """Return the first ``n`` matches."""
        return self.take(slice(0, n))
