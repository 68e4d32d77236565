"""DuckDB as it is let run: locked, without files but those named, one query away from Ctrl-C."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import sleep
from typing import TypeVar

import duckdb

from replay.language.tokens import in_quotes
from replay.limits import check_limits
from replay.sql.overrides import OVERRIDES

T = TypeVar("T")

_KEPT_MAX = 4
"""Connections kept, each for what it may read: a new one takes tens of milliseconds."""

_WORKERS_MAX = 32
"""Statements that run at once; further ones wait."""

_LOOK_S = 0.02
"""Seconds between looks at the limits while DuckDB works."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a connection may do; it cannot be changed once it is open."""

    paths: tuple[str, ...]
    """The files it may read."""
    threads: int
    memory: int | None
    """Bytes; None: DuckDB's default, four fifths of the machine's."""


_kept: OrderedDict[tuple[int, Allowed], duckdb.DuckDBPyConnection] = OrderedDict()
_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}
"""By process, the threads in which DuckDB works; those that nobody needs sleep."""
_folders: dict[int, str] = {}
"""By process, the private folder for what does not fit in memory."""


def _connect(allowed: Allowed) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that reads the files allowed and nothing else, for good.

    Paths come before external access is ended: afterwards none can be added.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": allowed.threads,
        "temp_directory": _folder(),
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,
        "errors_as_json": True,
        "error_on_division_by_zero": False,
        "ieee_floating_point_ops": False,
    }
    if allowed.memory is not None:
        config["memory_limit"] = f"{allowed.memory}B"
    connection = duckdb.connect(":memory:", config=config)
    paths = ", ".join(map(in_quotes, allowed.paths))
    connection.execute(
        f"SET TimeZone='UTC'; SET allowed_paths=[{paths}]; SET enable_external_access=false;"
        f"SET lock_configuration=true; {OVERRIDES}"
    )
    return connection


def _folder() -> str:
    """Return the private folder of this process, which is gone with it."""
    process = os.getpid()
    with _lock:
        if process not in _folders:
            _folders[process] = tempfile.mkdtemp(prefix="chronicle-sql-")
            atexit.register(_remove_folder, process)
        return _folders[process]


def _remove_folder(process: int) -> None:
    if process == os.getpid():  # and not one that was forked from it
        shutil.rmtree(_folders[process], ignore_errors=True)


def _cursor(allowed: Allowed) -> duckdb.DuckDBPyConnection:
    """Return a cursor of a connection, which sees nothing of what others register."""
    key = (os.getpid(), allowed)
    with _lock:
        connection = _kept.pop(key, None)
    if connection is None:
        connection = _connect(allowed)
    cursor = connection.cursor()
    with _lock:
        _kept[key] = connection
        while len(_kept) > _KEPT_MAX:
            _kept.popitem(last=False)  # closes once its last cursor is
    return cursor


class Session:
    """One statement's use of a connection."""

    def __init__(self, allowed: Allowed) -> None:
        self.cursor = _cursor(allowed)

    def run(self, work: Callable[[], T]) -> T:
        """Have DuckDB do something that may take long; a limit passed, or Ctrl-C, interrupts it.

        It works in a thread of its own meanwhile: what reads its rows hears no signal.
        """
        future = _workers().submit(work)
        try:
            while True:
                try:
                    return future.result(timeout=_LOOK_S)
                except TimeoutError:
                    if future.done():
                        raise
                    check_limits()
        except BaseException:
            while not future.done():  # an interrupt before DuckDB has begun is lost
                self.cursor.interrupt()
                sleep(0.005)
            raise

    def close(self) -> None:
        """Let go of what was registered."""
        self.cursor.close()


def _workers() -> ThreadPoolExecutor:
    """Return the threads of this process; those of a process that it was forked from are gone."""
    process = os.getpid()
    with _lock:
        if process not in _pools:
            _pools[process] = ThreadPoolExecutor(_WORKERS_MAX, "chronicle-sql")
        return _pools[process]
