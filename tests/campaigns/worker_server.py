"""Forks workers in a process that has imported everything, so that a fork costs milliseconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]

FAILED = 3
"""Exit status of a worker that met an error."""


class WorkerServer:
    """A process that forks a worker for each job; its module calls `serve`."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.campaigns.{self._module}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, *jobs: Any) -> list[int]:
        """Do jobs at once; return the workers' exit statuses, less than 0 of those killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([asdict(job) for job in jobs]) + "\n")
        self._process.stdin.flush()
        ends: list[int] = json.loads(self._process.stdout.readline())
        return ends


def serve(job_type: Callable[..., Any], work: Callable[[Any], None]) -> None:
    """Fork a worker for each job of a line on standard input, all at once; print how they ended."""
    for line in sys.stdin:
        workers = [_fork(job_type(**fields), work) for fields in json.loads(line)]
        ends = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
        print(json.dumps(ends), flush=True)


def _fork(job: Any, work: Callable[[Any], None]) -> int:
    """Return the number of a process that does a job."""
    worker = os.fork()
    if worker == 0:
        try:
            work(job)
        except BaseException:  # noqa: BLE001 - whatever it is, the process must not go on as a server
            traceback.print_exc()
            os._exit(FAILED)
        os._exit(0)
    return worker
