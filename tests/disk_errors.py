"""Let the n-th touch of the disk fail: opening, reading, writing, renaming, deleting, flushing."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import deltalake
import deltalake.table
import pyarrow.parquet as pq

from tests.crash_points import WRITES

TOUCHES: tuple[tuple[Any, str], ...] = (
    *WRITES,
    (deltalake.DeltaTable, "__init__"),
    (deltalake.DeltaTable, "update_incremental"),
    (deltalake.DeltaTable, "create_checkpoint"),
    (pq.ParquetFile, "__init__"),
    (pq.ParquetFile, "read_row_groups"),
    (pq.ParquetWriter, "__init__"),
    (os, "open"),
    (os, "pread"),
    (os, "preadv"),
    (os, "fsync"),
    (Path, "open"),
    (Path, "mkdir"),
    (Path, "rmdir"),
)
"""What touches the disk besides asking for a file's state. Called from the store alone: a library
does its own part, of which its one call stands for all."""


@dataclass
class Fault:
    """Which touch fails, and how."""

    at: int | None
    """Its number, from 0; None only counts."""

    number: int = 0
    """The system's number of the error."""

    lasts: bool = False
    """Whether the call of that kind fails from there on, as on a full disk."""

    afterwards: bool = False
    """Whether a call that changes the disk does its work all the same."""

    n_touches: int = 0
    n_failed: int = 0
    kind: str = ""
    """Name of the call that failed."""


def random_fault(rng: random.Random, n_touches: int, numbers: tuple[int, ...]) -> Fault:
    """Return a fault at one of so many touches."""
    return Fault(
        rng.randrange(n_touches),
        rng.choice(numbers),
        lasts=rng.random() < 0.5,
        afterwards=rng.random() < 0.2,
    )


@contextmanager
def failing(fault: Fault, root: Path) -> Iterator[Fault]:
    """Let touches of the disk fail in the block, of files below ``root`` where a call names one."""

    def names_other(args: tuple[Any, ...]) -> bool:
        first = args[0] if args else None
        return isinstance(first, str | Path) and not str(first).startswith(str(root))

    def wrapped(call: Any, kind: str, *, changes: bool) -> Any:
        @wraps(call)
        def touching(*args: Any, **options: Any) -> Any:
            if names_other(args):
                return call(*args, **options)
            here = fault.n_touches
            fault.n_touches += 1
            fails = here == fault.at or (fault.lasts and kind == fault.kind)
            if kind.endswith("ParquetWriter'>.close"):
                fails = here == fault.at  # its __del__ closes what could not be closed
            if not fails:
                return call(*args, **options)
            fault.kind = kind
            fault.n_failed += 1
            if fault.afterwards and changes:
                call(*args, **options)
            raise OSError(fault.number, os.strerror(fault.number))

        return touching

    with ExitStack() as stack:
        for owner, name in TOUCHES:
            found = vars(owner)[name] if isinstance(owner, type) else getattr(owner, name)
            is_change = (owner, name) in WRITES or name in ("mkdir", "rmdir", "fsync")
            is_bound = isinstance(found, classmethod | staticmethod)
            fresh = wrapped(
                getattr(owner, name) if is_bound else found, f"{owner!r}.{name}", changes=is_change
            )
            fresh = staticmethod(fresh) if is_bound else fresh
            stack.enter_context(patch.object(owner, name, fresh))
        yield fault
