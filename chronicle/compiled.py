"""Decorator of the functions that are compiled, each when it is first called.

Every ``kernels.py`` takes its ``njit`` from here and `chronicle.machine_code` keeps what is
compiled, so that one place decides where. Numba is imported with the first call.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Kernel:
    """A function that is compiled when it is first called, from Python or by compiled code.

    Compiled for compiled callers it gets no wrapper for Python, which would take a tenth of the
    time; hence two dispatchers of Numba's.
    """

    def __init__(
        self,
        python: Callable[..., Any],
        options: dict[str, Any],
        signatures: Callable[[], list[Any]] | None,
    ) -> None:
        functools.update_wrapper(self, python)
        self._python = python
        self._options = options
        self._signatures = signatures
        self._called: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        """Call it; with arguments of types not seen before it is compiled, or loaded, first."""
        called = self._called
        if called is None:
            called = self._called = self.entry
        return called(*args)

    @functools.cached_property
    def entry(self) -> Any:
        """What Python calls: a dispatcher, or the function itself where nothing is compiled."""
        with compiling():
            from chronicle.machine_code import dispatcher

            signatures = [] if self._signatures is None else self._signatures()
            return dispatcher(self._python, self._options, signatures)

    @functools.cached_property
    def inner(self) -> Any:
        """What compiled code calls: a dispatcher of its own, without a wrapper for Python."""
        from chronicle.machine_code import dispatcher

        return dispatcher(self._python, {**self._options, "no_cpython_wrapper": True}, [])

    @property
    def _numba_type_(self) -> Any:
        """Let compiled code call it by its name; Numba asks for this attribute."""
        from chronicle.machine_code import type_of

        return type_of(self.inner)


def njit(
    *, signatures: Callable[[], list[Any]] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes a function a `Kernel`.

    Parameters
    ----------
    signatures
        Returns the types it is compiled for, instead of those of the arguments it is called with.
    options
        Of Numba's ``njit``. The GIL is released unless they say otherwise.
    """
    return lambda python: Kernel(python, {"nogil": True, **options}, signatures)


class _Spent(threading.local):
    """What this thread spends on compiling."""

    depth = 0
    """Compiled functions are compiled within those that call them: only the outermost counts."""
    began = 0.0
    seconds = 0.0


_SPENT = _Spent()


@contextmanager
def compiling() -> Iterator[None]:
    """Count what is done inside as compiling, in this thread."""
    if _SPENT.depth == 0:
        _SPENT.began = time.perf_counter()
    _SPENT.depth += 1
    try:
        yield
    finally:
        _SPENT.depth -= 1
        if _SPENT.depth == 0:
            _SPENT.seconds += time.perf_counter() - _SPENT.began


def compiling_s() -> float:
    """Return the seconds this thread has spent compiling and loading what was compiled."""
    return _SPENT.seconds


def clock() -> float:
    """Return a time in seconds that leaves out what this thread has spent compiling.

    Work timed by it takes as long as it will from the second time on.
    """
    return time.perf_counter() - _SPENT.seconds
