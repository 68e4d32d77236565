"""Disks that fail an operation: a kill at its n-th step, an error, a power failure.

Kill: every call that leaves something on disk is two steps.

Error: opening, reading, writing, renaming, deleting or flushing fails at the n-th touch.

Power failure: a store is watched, and given as one may leave it. What was flushed is known from
``os.fsync``, whoever wrote the bytes: of a file its content at that time, of a folder the names in
it. Everything that changed since may be there or not, and what a file got since may be there, be
cut, empty, or zeros.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import deltalake
import deltalake.table
import pyarrow.parquet as pq

Calls = tuple[tuple[Any, str], ...]
"""Functions by owner and name."""

WRITES: Calls = (
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


@contextmanager
def wrapped(calls: Calls, wrap: Callable[[Any, Any, str], Any]) -> Iterator[None]:
    """Put what ``wrap`` makes of a call, its owner and name in the place of each, in the block."""
    with ExitStack() as stack:
        for owner, name in calls:
            found = vars(owner)[name] if isinstance(owner, type) else getattr(owner, name)
            is_bound = isinstance(found, classmethod | staticmethod)
            fresh = wrap(getattr(owner, name) if is_bound else found, owner, name)
            stack.enter_context(
                patch.object(owner, name, staticmethod(fresh) if is_bound else fresh)
            )
        yield


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

    with wrapped(WRITES, lambda call, owner, name: counting(call)):
        yield steps


TOUCHES: Calls = (
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

    def touching(call: Any, owner: Any, name: str) -> Any:
        kind = f"{owner!r}.{name}"
        changes = (owner, name) in WRITES or name in ("mkdir", "rmdir", "fsync")

        @wraps(call)
        def touched(*args: Any, **options: Any) -> Any:
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

        return touched

    with wrapped(TOUCHES, touching):
        yield fault


@dataclass
class Disk:
    """What the disk holds for certain, by inode."""

    contents: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, dict[str, int]] = field(default_factory=dict)

    def flush(self, path: Path) -> None:
        """Take in a file or a folder as it is now."""
        inode = path.stat().st_ino
        if path.is_dir():
            self.names[inode] = {each.name: each.stat().st_ino for each in path.iterdir()}
        else:
            self.contents[inode] = path.read_bytes()

    def after_power_failure(self, root: Path, target: Path, rng: random.Random) -> None:
        """Write to ``target`` what may be found of ``root``, a folder that was flushed once."""
        paths = {path.stat().st_ino: path for path in [root, *root.rglob("*")]}
        self._write_folder(root, target, paths, rng)

    def _write_folder(
        self, folder: Path, target: Path, paths: dict[int, Path], rng: random.Random
    ) -> None:
        target.mkdir()
        held = self.names.get(folder.stat().st_ino, {})
        now = {each.name: each.stat().st_ino for each in folder.iterdir()}
        for name in sorted({*held, *now}):
            inode = rng.choice((held.get(name), now.get(name)))
            if inode is None:
                continue
            path = paths.get(inode)
            if path is not None and path.is_dir():
                self._write_folder(path, target / name, paths, rng)
                continue
            content = self._content(inode, path, rng)
            if content is not None:
                (target / name).write_bytes(content)

    def _content(self, inode: int, path: Path | None, rng: random.Random) -> bytes | None:
        held = self.contents.get(inode)
        now = None if path is None else path.read_bytes()
        if now is None or now == held:
            return held
        cut = now[: rng.randrange(len(now) + 1)]
        zeros = cut + bytes(len(now) - len(cut))
        return rng.choice((now, cut, zeros, b"", bytes(len(now)), held or b""))


@contextmanager
def watched_disk() -> Iterator[Disk]:
    """Note all that is flushed in the block, where flushing is turned on."""
    disk = Disk()
    real = os.fsync

    def flushed(descriptor: int) -> None:
        real(descriptor)
        disk.flush(Path(f"/proc/self/fd/{descriptor}").readlink())

    with patch("os.fsync", flushed), patch.dict(os.environ, CHRONICLE_SYNC="on"):
        yield disk
