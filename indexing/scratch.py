"""Memory of lookups that a thread uses again and again."""

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
