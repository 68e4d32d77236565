"""A disk that loses what was not flushed: watches a store, and gives it as a power failure may.

What was flushed is known from ``os.fsync``, whoever wrote the bytes: of a file its content at that
time, of a folder the names in it. Everything that changed since may be there or not, and what a
file got since may be there, be cut, empty, or zeros.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch


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
