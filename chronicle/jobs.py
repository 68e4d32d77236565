"""Jobs that write files: the same ones run on threads here or on Spark elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

Told = Callable[[int, int], None]
"""Hears how much of some work is done, and of how much; may be called by another thread."""


class Runner(Protocol):
    """Runs one job for many tasks, on whatever machines it has.

    A job can be pickled, so can its tasks and results. It writes files and commits nothing, and
    may run twice for one task.
    """

    def __call__(self, job: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Return the result of each task, in their order; raise what a task raises."""
        ...


def run_locally(
    job: Callable[[Task], Result], tasks: Sequence[Task], *, told: Told = lambda *_: None
) -> list[Result]:
    """Run a job for every task on threads, one for each core.

    ``told`` hears how many tasks are done, and of how many.

    Jobs spend their time in Arrow, NumPy and compiled code, which let other threads run.

    If a task fails, those not started are given up, those started are waited for, and its exception
    is raised.
    """
    told(0, len(tasks))
    n_threads = min(len(tasks), os.cpu_count() or 1)
    if n_threads <= 1:
        return [_done(job(task), told, n, len(tasks)) for n, task in enumerate(tasks, 1)]
    with ThreadPoolExecutor(n_threads, thread_name_prefix="chronicle-job") as pool:
        running = [pool.submit(job, task) for task in tasks]
        try:
            return [
                _done(future.result(), told, n, len(tasks)) for n, future in enumerate(running, 1)
            ]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _done(result: Result, told: Told, n: int, n_tasks: int) -> Result:
    told(n, n_tasks)
    return result
