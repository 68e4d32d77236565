"""Kill an operation at its n-th step: every call that leaves something on disk is two steps."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import deltalake
import deltalake.table
import pyarrow.parquet as pq

WRITES: tuple[tuple[Any, str], ...] = (
    (deltalake.DeltaTable, "create_write_transaction"),
    (deltalake.DeltaTable, "create"),
    (deltalake.table.TableAlterer, "add_columns"),
    (pq.ParquetWriter, "write_table"),
    (pq.ParquetWriter, "close"),
    (Path, "rename"),
    (Path, "symlink_to"),
    (Path, "replace"),
    (Path, "unlink"),
    (shutil, "rmtree"),
)
"""What the store changes a disk by. A crash comes right before or right after such a call."""


@dataclass
class Steps:
    """How many steps were taken."""

    n_taken: int = 0


@contextmanager
def dying_at(
    step: int | None, die: Callable[[], None], *, at_each: Callable[[], None] = lambda: None
) -> Iterator[Steps]:
    """Call ``die`` at the step of this number, from 0; None only counts, calling ``at_each``."""
    steps = Steps()
    is_at_work = False

    def tick() -> None:
        nonlocal is_at_work
        if is_at_work:  # what is done at a step takes steps of its own
            return
        is_at_work = True
        at_each()
        is_at_work = False
        steps.n_taken += 1
        if steps.n_taken - 1 == step:
            die()

    def counting(call: Any) -> Any:
        @wraps(call)
        def counted(*args: Any, **options: Any) -> Any:
            tick()
            result = call(*args, **options)
            tick()
            return result

        return counted

    with ExitStack() as stack:
        for owner, name in WRITES:
            found = vars(owner)[name] if isinstance(owner, type) else getattr(owner, name)
            is_bound = isinstance(found, classmethod | staticmethod)
            fresh = counting(getattr(owner, name) if is_bound else found)
            stack.enter_context(
                patch.object(owner, name, staticmethod(fresh) if is_bound else fresh)
            )
        yield steps
