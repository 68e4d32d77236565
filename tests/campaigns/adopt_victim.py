"""Adopts a table and is killed at a step; forked once for each step, since imports take long."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from chronicle import adopt, ensure_store
from indexing.lifecycle import create_index
from indexing.writer import writer_for
from tests.crash_points import dying_at

KILLED = 9


def adopt_it(store: Path, lake: Path) -> int:
    """Adopt the table as ``s``, indexed; return the number of its events."""
    opened = ensure_store(store)
    is_new = "s" not in opened.stream_names() or opened.stream("s").version_of(None) == 0
    begin = partial(create_index, attributes=["a"], least_events=0) if is_new else None
    derived = partial(writer_for, least_events=0)
    return adopt(opened, "s", lake, time="t", derived=derived, begin=begin).n_events


def main(folder: Path, lake: Path, steps: list[int]) -> None:
    """Print the exit status of a process for each step, each on a store of its own."""
    for step in steps:
        child = os.fork()
        if child == 0:
            with dying_at(step, lambda: os._exit(KILLED)):
                adopt_it(folder / f"store-{step}", lake)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(word) for word in sys.argv[3:]])
