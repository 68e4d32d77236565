"""Keep commands quick to start and to end, and say what the first of them wait for."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import cast

from replay.console.progress import shown
from replay.console.show import INTERRUPTED, TERMINATED, undisguised

COLLECTED = 200_000
"""Objects made between two searches for garbage: more than those of a cold query, about 105,000.

With Python's 700, imports take a tenth longer."""

GRACE_S = 5.0
"""Seconds a query that SIGTERM ends has to let go of what it holds."""

STDERR = 2
"""Its file descriptor."""


def collect_seldom() -> None:
    """Let Python search for garbage in cycles less often: imports make objects and no garbage."""
    gc.set_threshold(COLLECTED)


def end_at_once_at_ctrl_c() -> Callable[[], None]:
    """Let Ctrl-C end the process wherever it is, with a word; for what leaves nothing to clear up.

    The main thread may be in compiled code, where it hears no handler of Python's for minutes. So
    the signal is written to a pipe, which happens at once in whichever thread it comes, and a
    thread that reads the pipe ends the process: compiled code keeps no other thread from running.
    Nothing is done where a caller handles the signal, or ignores it. Returns what undoes it.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        return lambda: None
    read, written = os.pipe()
    os.set_blocking(written, False)
    signal.signal(signal.SIGINT, lambda *_: None)  # without one nothing is written
    signal.set_wakeup_fd(written)
    threading.Thread(target=_end_when_interrupted, args=(read,), daemon=True).start()

    def undo() -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, before)
        os.close(written)

    return undo


def _end_when_interrupted(read: int) -> None:
    while (heard := os.read(read, 1)) != bytes([signal.SIGINT]):  # others have their own handlers
        if not heard:  # it was undone
            os.close(read)
            return
        if heard == bytes([signal.SIGTERM]):
            late = threading.Timer(GRACE_S, os._exit, (TERMINATED,))
            late.daemon = True
            late.start()
    # A terminal shows ^C where it is, behind a bar perhaps, which takes what is said otherwise.
    os.write(STDERR, b"\ninterrupted\n" if os.isatty(STDERR) else b"interrupted\n")
    os._exit(INTERRUPTED)


@contextmanager
def ending_at_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process as it does others, but for folders, which are removed before.

    What runs is left as by an exit, so that all it holds open goes. Then the signal is sent again,
    for good. Nothing is done where a caller handles the signal, or ignores it.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    process, is_heard = os.getpid(), False

    def leave(*_: object) -> None:
        nonlocal is_heard
        if os.getpid() != process:  # a process that was forked from it
            os._exit(TERMINATED)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one does not wait
        is_heard = True
        raise SystemExit(TERMINATED)

    def send_again() -> None:
        if is_heard:
            os.kill(process, signal.SIGTERM)

    # The first that is registered is the last that is called.
    atexit.register(send_again)
    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        if not is_heard:
            atexit.unregister(send_again)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _NoPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002
        if fullname == "pandas":
            raise ModuleNotFoundError(f"no module '{fullname}' is wanted", name=fullname)


def keep_heavy_libraries_out() -> None:
    """Let PyArrow find no pandas and Numba no SciPy, once and for all.

    PyArrow loads pandas with the first array it makes, and Numba SciPy's linear algebra with the
    first kernel, wherever they are installed (Spark's workers need pandas); that takes as long as
    many a query, and no query uses any of it.
    """
    import pyarrow as pa

    # Python takes None for a module that is not there.
    sys.modules.setdefault("scipy", cast("ModuleType", None))
    if "pandas" in sys.modules:
        return
    blind = _NoPandas()
    sys.meta_path.insert(0, blind)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(blind)


def let_scipy_in() -> None:
    """Undo for SciPy what `keep_heavy_libraries_out` did: `calibrate` fits with it."""
    if sys.modules.get("scipy", sys) is None:
        del sys.modules["scipy"]


class _Compiling(logging.Handler):
    """Says on stderr that code is compiled: one line, and in a terminal each step below it."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno > logging.DEBUG:
            print(record.getMessage(), file=sys.stderr, flush=True)
        elif sys.stderr.isatty():
            step, bar = getattr(record, "step", None), shown()
            if bar is not None:
                bar.step(step)
                return
            text = "" if step is None else f"  {step}"
            print(f"\r\033[2K{text}", end="", file=undisguised(sys.stderr), flush=True)


def tell_compiling() -> None:
    """Let a person know why the first query of its kind takes longer."""
    log = logging.getLogger("chronicle.machine_code")
    log.setLevel(logging.DEBUG)
    log.propagate = False
    if not log.handlers:
        log.addHandler(_Compiling())
