"""Work done in threads a little ahead of whoever takes the results, in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

Unit = TypeVar("Unit")
Read = TypeVar("Read")

UNITS_AHEAD_PER_THREAD = 2
"""Units each thread is ahead of whoever takes them; bounds a query's memory."""


@cache
def thread_count() -> int:
    """Return how many threads a query may use: the processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_count(), thread_name_prefix="chronicle-read")


def read_ahead(
    units: Iterable[Unit], read: Callable[[Unit], Read], *, in_threads: bool
) -> Iterator[tuple[Unit, Read]]:
    """Yield every unit with what ``read`` gives for it, in order, reading ahead in threads.

    Units are asked for as they are read. Whoever leaves the iteration has no further unit read.
    """
    if not in_threads or thread_count() == 1:
        for unit in units:
            yield unit, read(unit)
        return
    ahead = thread_count() * UNITS_AHEAD_PER_THREAD
    waiting: deque[tuple[Unit, Future[Read]]] = deque()
    try:
        for unit in units:
            waiting.append((unit, _pool().submit(read, unit)))
            if len(waiting) >= ahead:
                done, future = waiting.popleft()
                yield done, future.result()
        while waiting:
            done, future = waiting.popleft()
            yield done, future.result()
    finally:
        for _, future in waiting:
            future.cancel()
