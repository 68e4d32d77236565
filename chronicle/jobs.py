"""Jobs over JSON text: the same ones run on threads here or on Spark elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

Job = Callable[[str], str]
"""A function of a module (so that it can be pickled) from the JSON text of a task to that of its
result. It writes files and commits nothing, and may run twice for one task."""


Told = Callable[[int, int], None]
"""Hears how much of some work is done, and of how much; may be called by another thread."""


class Runner(Protocol):
    """Runs one job for many tasks, on whatever machines it has."""

    def __call__(self, job: Job, tasks: Sequence[str]) -> list[str]:
        """Return the result of each task, in their order; raise what a task raises."""
        ...


def run_locally(job: Job, tasks: Sequence[str], *, told: Told = lambda *_: None) -> list[str]:
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


def _done(result: str, told: Told, n: int, n_tasks: int) -> str:
    told(n, n_tasks)
    return result
