"""Kills the process, as far as a test can: at a chosen call of chosen functions."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from indexing import clear_caches


class Killed(BaseException):
    """What a process meets when it is killed."""


@contextmanager
def killed_at(step: int | None, targets: Sequence[str]) -> Iterator[list[int]]:
    """Let the ``step``-th call of any of ``targets`` kill the process, before it does anything.

    None kills nothing. Yields how many calls there were, as the one item of a list.
    """
    calls = [0]

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] == step:
                raise Killed
            return real(*args, **options)

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 1)
        for target in targets:
            module, name = target.rsplit(".", 1)
            patch.setattr(target, wrap(getattr(importlib.import_module(module), name)))
        try:
            yield calls
        except Killed:
            clear_caches()  # they were those of the dead process
