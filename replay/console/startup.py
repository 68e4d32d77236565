"""Keep commands quick to start, and say what the first of them wait for."""

from __future__ import annotations

import gc
import logging
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import cast

from replay.console.progress import shown

COLLECTED = 200_000
"""Objects made between two searches for garbage: more than those of a cold query, about 105,000.

With Python's 700, imports take a tenth longer."""


def collect_seldom() -> None:
    """Let Python search for garbage in cycles less often: imports make objects and no garbage."""
    gc.set_threshold(COLLECTED)


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
