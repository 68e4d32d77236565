"""Keep commands quick to start and to end, and say what the first of them wait for."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import cast

from replay.console.progress import shown
from replay.console.show import INTERRUPTED

COLLECTED = 200_000
"""Objects made between two searches for garbage: more than those of a cold query, about 105,000.

With Python's 700, imports take a tenth longer."""

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
    # A terminal shows ^C where it is, behind a bar perhaps, which takes what is said otherwise.
    os.write(STDERR, b"\ninterrupted\n" if os.isatty(STDERR) else b"interrupted\n")
    os._exit(INTERRUPTED)


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
            print(f"\r\033[2K{text}", end="", file=sys.stderr, flush=True)


def tell_compiling() -> None:
    """Let a person know why the first query of its kind takes longer."""
    log = logging.getLogger("chronicle.machine_code")
    log.setLevel(logging.DEBUG)
    log.propagate = False
    if not log.handlers:
        log.addHandler(_Compiling())
