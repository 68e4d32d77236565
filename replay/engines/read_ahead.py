"""Work done in threads: a little ahead of whoever takes the results, or divided among them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Event
from typing import TypeVar

from replay.limits import CalledOffError, check_limits, under_limits

Unit = TypeVar("Unit")
Read = TypeVar("Read")
Done = TypeVar("Done")

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
    The limits of the query are checked before each one is handed on.
    """
    if not in_threads or thread_count() == 1:
        for unit in units:
            found = read(unit)
            check_limits()
            yield unit, found
        return
    ahead = thread_count() * UNITS_AHEAD_PER_THREAD
    waiting: deque[tuple[Unit, Future[Read]]] = deque()
    try:
        for unit in units:
            waiting.append((unit, _pool().submit(read, unit)))
            if len(waiting) >= ahead:
                yield _next_read(waiting)
        while waiting:
            yield _next_read(waiting)
    finally:
        for _, future in waiting:
            future.cancel()


def _next_read(waiting: deque[tuple[Unit, Future[Read]]]) -> tuple[Unit, Read]:
    unit, future = waiting.popleft()
    found = future.result()
    check_limits()
    return unit, found


_sharing: ContextVar[int] = ContextVar("chronicle_sharing", default=1)


@contextmanager
def shared(n_threads: int) -> Iterator[None]:
    """Let so many threads share what is cut by `part_count`."""
    token = _sharing.set(n_threads)
    try:
        yield
    finally:
        _sharing.reset(token)


def part_count(n: int, least: int) -> int:
    """Return into how many parts so many things are cut to `divide` them; ``least`` in each."""
    return max(1, min(_sharing.get(), n // least))


def divide(units: Sequence[Unit], work: Callable[[Unit], Done]) -> list[Done]:
    """Return what ``work`` gives for every unit, in order; threads that are free take part.

    ``work`` may be called by several threads at once, and pays where it lets others run for long.
    What is raised is what would be where units are worked on one by one: by the first of those that
    fail. No unit is begun once one has failed, and none is worked on any more: those at work end
    where they check the limits of the query, which are those of whoever asks.

    Notes
    -----
    Whoever asks works as well, and waits for others only where they are at work on a unit. So work
    within work that is divided may be divided too, and ends however busy the threads are.
    """
    n_others = min(thread_count(), len(units)) - 1
    if n_others < 1:
        return [work(unit) for unit in units]
    left = deque(enumerate(units))
    done: dict[int, Done] = {}
    failed: dict[int, BaseException] = {}
    is_over = Event()

    def take_part() -> None:
        while not is_over.is_set():
            try:
                place, unit = left.popleft()
            except IndexError:
                return
            try:
                done[place] = work(unit)
            except BaseException as error:  # noqa: BLE001 - raised where the work was asked for
                failed[place] = error
                is_over.set()

    others = [_pool().submit(under_limits(take_part, is_over)) for _ in range(n_others)]
    try:
        take_part()
        for other in others:
            if not other.cancel():
                other.result()
    except BaseException:  # an interrupt: nobody waits for the rest
        is_over.set()
        raise
    if failed:
        own = [place for place, error in failed.items() if not isinstance(error, CalledOffError)]
        raise failed[min(own or failed)]
    return [done[place] for place in range(len(units))]
