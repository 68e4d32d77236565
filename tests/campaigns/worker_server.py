"""Starts workers in a process that has imported everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.campaigns.kill_worker import Job, to_line

ROOT = Path(__file__).resolve().parents[2]


class WorkerServer:
    """A process that forks a worker for each job, one at a time."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns.kill_worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, job: Job) -> int:
        """Do a job; return the worker's exit status, less than 0 if it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(to_line(job))
        self._process.stdin.flush()
        return int(self._process.stdout.readline())
