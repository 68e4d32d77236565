"""Decorator of the functions that are compiled, each once that is worth its time.

Every ``*kernels.py`` takes its ``njit`` from here and `chronicle.machine_code` keeps what is
compiled, so that one place decides where.

Compiling takes seconds, and loading Numba and what was compiled half of one: longer than many a
query. So a process runs its kernels as plain Python at first, while it has spent less on that than
loading would take, and only on small arrays. A call that takes too long, or fails, is made again
by compiled code, after what it wrote has been taken back: kernels do nothing but write to the
arrays they are given, which no other thread writes to meanwhile. `make test-nojit` holds plain
Python to the same answers.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np

from chronicle.compile_time import compiling

PLAIN_S: Final = 0.4
"""Seconds a process spends on plain Python, about those of loading Numba and machine code."""

PLAIN_SIZE: Final = 200_000
"""Numbers in the arrays of a call beyond which it is compiled at once."""

COPIED_SIZE: Final = 4_000_000
"""The same where the call can be given up: its arrays are copied, but not all of them passed."""

NO_SIZE: Final = -1
"""The same where no call may be made by plain Python."""


class _Plain(threading.local):
    """How this thread runs kernels as plain Python."""

    until: float | None = None
    """When the call under way is given up; None outside of such calls."""


class _Budget:
    """Seconds that are left for plain Python; all threads of the process share them."""

    left = PLAIN_S


_PLAIN = _Plain()
_BUDGET = _Budget()


class _TooLongError(Exception):
    """Plain Python has taken too long."""


def compile_at_once() -> None:
    """Run nothing as plain Python from here on: for measuring, and services that stay."""
    _BUDGET.left = 0.0


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
        size: int,
    ) -> None:
        functools.update_wrapper(self, python)
        self._python = python
        self._options = options
        self._signatures = signatures
        self._size = size
        self._called: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        """Call it; with arguments of types not seen before it is compiled, or loaded, first."""
        called = self._called
        return self._call_early(args) if called is None else called(*args)

    def _call_early(self, args: tuple[Any, ...]) -> Any:
        """Call it as plain Python, or compile it if that has become worth its time."""
        if _PLAIN.until is not None:
            if self._size == NO_SIZE or time.thread_time() > _PLAIN.until:
                raise _TooLongError
            return self._python(*args)
        if _BUDGET.left > 0.0:
            # Told as compiling, in whose place it stands: work measured is that of compiled code.
            with suppress(_TooLongError), compiling():
                return _call_plain(self._python, args, self._size)
        called = self._called = self.entry
        return called(*args)

    def plain(self, *args: Any) -> Any:
        """Call it as plain Python, whatever that takes and whatever is compiled already."""
        before, _PLAIN.until = _PLAIN.until, math.inf
        try:
            return self._python(*args)
        finally:
            _PLAIN.until = before

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


def _call_plain(python: Callable[..., Any], args: tuple[Any, ...], size: int) -> Any:
    """Call a function as plain Python, with no more than ``size`` numbers.

    Raises _TooLongError if it is to be called compiled instead; arrays are as they were then.
    """
    arrays = list(_arrays(args))
    if sum(array.size for array in arrays) > size:
        raise _TooLongError
    written = [(array, array.copy()) for array in arrays if array.flags.writeable]
    began = time.thread_time()
    _PLAIN.until = began + _BUDGET.left
    try:
        with np.errstate(all="ignore"):
            return python(*args)
    except Exception as error:  # compiled code decides what it means
        for array, before in written:
            array[...] = before
        raise _TooLongError from error
    finally:
        _PLAIN.until = None
        _BUDGET.left -= time.thread_time() - began


def _arrays(values: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the arrays among arguments, and in tuples among them."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple):
            yield from _arrays(value)


def njit(
    *,
    signatures: Callable[[], list[Any]] | None = None,
    gives_up: bool = False,
    is_exact: bool = True,
    **options: Any,
) -> Callable[[Callable[..., Any]], Kernel]:
    """Return a decorator that makes a function a `Kernel`.

    Parameters
    ----------
    signatures
        Returns the types it is compiled for, instead of those of the arguments it is called with.
    gives_up
        Whether it calls others all along, so that it can be given up at any time.
    is_exact
        Whether plain Python gives the same bits; it need not where functions of the C library are
        called, and rows may be seen by either.
    options
        Of Numba's ``njit``. The GIL is released unless they say otherwise.
    """
    size = NO_SIZE if not is_exact else COPIED_SIZE if gives_up else PLAIN_SIZE
    return lambda python: Kernel(python, {"nogil": True, **options}, signatures, size)
