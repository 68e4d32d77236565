"""Data files kept open for the next read: so many a process, however many stores it opens."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

import pyarrow.parquet as pq

IDLE_FILES_MAX = 64
"""Open data files kept for the next read; each holds a file descriptor, of which a process has
1,024 by default."""


class OpenFiles:
    """Files that no thread reads at the moment, closed when others take their room. Thread-safe."""

    def __init__(self, n_max: int) -> None:
        self._n_max = n_max
        self._lock = threading.Lock()
        self._idle: OrderedDict[Hashable, list[pq.ParquetFile]] = OrderedDict()
        self._n_idle = 0

    def take(self, key: Hashable) -> pq.ParquetFile | None:
        """Hand over a file kept under a key; None if there is none."""
        with self._lock:
            files = self._idle.get(key)
            if not files:
                return None
            file = files.pop()
            self._n_idle -= 1
            if not files:
                del self._idle[key]
            return file

    def keep(self, key: Hashable, file: pq.ParquetFile) -> None:
        """Keep a file for whoever takes it next; closes those kept longest for it."""
        surplus = []
        with self._lock:
            self._idle.setdefault(key, []).append(file)
            self._idle.move_to_end(key)
            self._n_idle += 1
            while self._n_idle > self._n_max:
                oldest, files = next(iter(self._idle.items()))
                surplus.append(files.pop())
                self._n_idle -= 1
                if not files:
                    del self._idle[oldest]
        for closing in surplus:
            closing.close()

    def close(self, key: Hashable) -> None:
        """Close the files kept under a key."""
        with self._lock:
            files = self._idle.pop(key, [])
            self._n_idle -= len(files)
        for closing in files:
            closing.close()
