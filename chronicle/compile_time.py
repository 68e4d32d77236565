"""Time that a thread spends compiling, or on plain Python instead; measured work leaves it out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class _Spent(threading.local):
    """What this thread spends on compiling."""

    depth = 0
    """Compiled functions are compiled within those that call them: only the outermost counts."""
    began = 0.0
    seconds = 0.0


_SPENT = _Spent()


@contextmanager
def compiling() -> Iterator[None]:
    """Count what is done inside as compiling, in this thread."""
    if _SPENT.depth == 0:
        _SPENT.began = time.perf_counter()
    _SPENT.depth += 1
    try:
        yield
    finally:
        _SPENT.depth -= 1
        if _SPENT.depth == 0:
            _SPENT.seconds += time.perf_counter() - _SPENT.began


def compiling_s() -> float:
    """Return the seconds this thread has spent compiling and loading what was compiled."""
    return _SPENT.seconds


def clock() -> float:
    """Return a time in seconds that leaves out what this thread has spent compiling.

    Work timed by it takes as long as it will from the second time on.
    """
    return time.perf_counter() - _SPENT.seconds
