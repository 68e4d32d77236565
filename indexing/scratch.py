"""Memory of lookups: what a thread uses again and again, and what an answer is written to."""

from __future__ import annotations

import threading

import numpy as np

from indexing.config import SCRATCH_BYTES


class Scratch(threading.local):
    """A buffer per thread, which the next :meth:`borrow` of the thread overwrites.

    Memory fresh from the system costs more to touch than entries cost to decode to it.
    """

    def __init__(self) -> None:
        self._buffer = np.empty(0, dtype=np.uint8)

    def borrow(self, n_bytes: int) -> np.ndarray:
        """Return a uint8 array, aligned for any number; above a bound it is fresh."""
        if n_bytes > SCRATCH_BYTES:
            return np.empty(n_bytes, dtype=np.uint8)
        if n_bytes > len(self._buffer):
            room = min(SCRATCH_BYTES, n_bytes + n_bytes // 2)
            self._buffer = np.empty(room, dtype=np.uint8)
        return self._buffer[:n_bytes]

    def borrow_two(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return two int64 arrays of length ``n``, in one buffer."""
        both = self.borrow(16 * n).view(np.int64)
        return both[:n], both[n:]


class Room:
    """Memory for the entries of one answer, ``n_most`` of them, which its parts fill in turn.

    One piece for all of them: what is touched only once costs most, and large pieces least, as the
    system gives them out in large pages. What is never filled takes no memory.
    """

    def __init__(self, n_most: int) -> None:
        self._both = np.empty((2, n_most), dtype=np.int64)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def free(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return where sequence numbers and times of the next ``n`` entries go."""
        seq, t = self._both[:, self._n : self._n + n]
        return seq, t

    def keep(self, n: int) -> None:
        """Take what was written to the first ``n`` of the free places."""
        self._n += n

    def put(self, seq: np.ndarray, t: np.ndarray) -> None:
        """Append entries."""
        seq_out, t_out = self.free(len(seq))
        seq_out[:], t_out[:] = seq, t
        self.keep(len(seq))

    def filled(self) -> tuple[np.ndarray, np.ndarray]:
        """Return sequence numbers and times of all entries, in memory mostly filled."""
        kept = self._both[:, : self._n]
        if 2 * kept.nbytes < self._both.nbytes:
            kept = kept.copy()
        seq, t = kept
        return seq, t
