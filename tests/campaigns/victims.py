"""Adopts or ingests and is killed at a step: ``python -m tests.campaigns.victims WHAT …``."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

from chronicle import adopt, ensure_store
from chronicle.ingest import IngestOptions, ingest
from indexing import RunWriter
from indexing.lifecycle import create_index
from indexing.writer import writer_for
from tests.crash_points import dying_at

STREAM = "s"


def adopt_it(store: Path, lake: Path) -> int:
    """Adopt the table as ``s``, indexed; return the number of its events."""
    opened = ensure_store(store)
    is_new = STREAM not in opened.stream_names() or opened.stream(STREAM).version_of(None) == 0
    begin = partial(create_index, attributes=["a"], least_events=0) if is_new else None
    derived = partial(writer_for, least_events=0)
    return adopt(opened, STREAM, lake, time="t", derived=derived, begin=begin).n_events


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def adopt_at_steps(folder: Path, lake: Path, steps: list[int]) -> None:
    """Print the exit status of a process for each step, each on a store of its own."""
    for step in steps:
        child = os.fork()  # imports take long
        if child == 0:
            with dying_at(step, die):
                adopt_it(folder / f"store-{step}", lake)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))


def ingest_to_step(store: Path, source: str, step: int | None) -> None:
    """Ingest a file; None kills nothing."""
    options = IngestOptions(
        time="t", index=("a",), block_events=16, file_events=100, master="local[2]"
    )
    with dying_at(step, die):
        ingest(ensure_store(store), STREAM, [source], options, derived=RunWriter)


if __name__ == "__main__":
    what, first, second, *steps = sys.argv[1:]
    if what == "adopt":
        adopt_at_steps(Path(first), Path(second), [*map(int, steps)])
    else:
        ingest_to_step(Path(first), second, int(steps[0]) if steps else None)
