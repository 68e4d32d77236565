"""Ingests a file and kills itself at a step: ``python -m tests.campaigns.ingest_victim``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from chronicle import ensure_store
from chronicle.ingest import IngestOptions, ingest
from indexing import RunWriter
from tests.crash_points import dying_at

STREAM = "s"


def main() -> None:
    store, source, step = sys.argv[1:]
    options = IngestOptions(
        time="t", index=("a",), block_events=16, file_events=100, master="local[2]"
    )
    opened = ensure_store(Path(store))
    with dying_at(int(step) if step else None, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        ingest(opened, STREAM, [source], options, derived=RunWriter)


if __name__ == "__main__":
    main()
