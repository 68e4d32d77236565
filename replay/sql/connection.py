"""DuckDB as it is let run: locked, without files but those named, in a process one can end."""

from __future__ import annotations

import atexit
import importlib.util
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import pyarrow as pa

from replay.errors import LimitExceededError, QueryError
from replay.language.tokens import in_quotes
from replay.limits import check_limits, resident_bytes
from replay.sql.overrides import OVERRIDES

_IDLE_MAX = 2
"""Processes kept for statements to come: a new one takes some tenths of a second."""

_LOOK_S = 0.02
"""Seconds between looks at the limits while DuckDB works."""

_GIVEN_ROWS = 1 << 16
"""Rows of a table that are given to DuckDB at a time."""


class DuckDBError(Exception):
    """What DuckDB says against a request, as it says it."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a connection may do; it cannot be changed once it is open."""

    paths: tuple[str, ...]
    """The files it may read."""
    threads: int
    memory: int | None
    """Bytes; None: DuckDB's default, four fifths of the machine's."""

    def config(self, folder: str) -> dict[str, str | bool | int]:
        """Return how its database in memory is configured; ``folder`` is for what does not fit."""
        config: dict[str, str | bool | int] = {
            "threads": self.threads,
            "temp_directory": folder,
            "autoload_known_extensions": False,
            "autoinstall_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
            "errors_as_json": True,
            "error_on_division_by_zero": False,
            "ieee_floating_point_ops": False,
        }
        if self.memory is not None:
            config["memory_limit"] = f"{self.memory}B"
        return config

    def words(self) -> str:
        """Return what lets it read its files and nothing else, for good.

        Paths come before external access is ended: afterwards none can be added.
        """
        paths = ", ".join(map(in_quotes, self.paths))
        return (
            f"SET TimeZone='UTC'; SET allowed_paths=[{paths}]; SET enable_external_access=false;"
            f"SET lock_configuration=true; {OVERRIDES}"
        )


class _Worker:
    """A process in which DuckDB works, and the private folder for what does not fit in memory."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="chronicle-sql-")
        self.channel, other = Pipe()
        script = Path(__file__).with_name("worker.py")
        searched = os.pathsep.join(filter(None, sys.path))
        try:
            # Of a session of its own, it hears no Ctrl-C of the terminal.
            self.process = subprocess.Popen(  # noqa: S603 -- our own script
                [sys.executable, "-P", script, str(other.fileno()), str(os.getpid()), self.folder],
                pass_fds=(other.fileno(),),
                env={**os.environ, "PYTHONPATH": searched},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            self.channel.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        finally:
            other.close()

    def end(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        self.channel.close()
        shutil.rmtree(self.folder, ignore_errors=True)


_idle: dict[int, list[_Worker]] = {}
"""By process, the workers that wait for a statement; those of a parent are not its child's."""
_lock = threading.Lock()


def _taken() -> _Worker:
    """Return a worker that has nothing to do."""
    process = os.getpid()
    with _lock:
        if process not in _idle:
            _idle[process] = []
            atexit.register(_end_idle, process)
        waiting = _idle[process]
        worker = waiting.pop() if waiting else None
    if worker is not None and worker.process.poll() is not None:  # somebody ended it
        worker.end()
        worker = None
    return _Worker() if worker is None else worker


def _end_idle(process: int) -> None:
    if process == os.getpid():  # and not one that was forked from it
        while _idle[process]:
            _idle[process].pop().end()


class Session:
    """One statement's use of a connection.

    Methods raise a DuckDBError for what DuckDB says. Each looks at the limits while DuckDB works; a
    limit passed, Ctrl-C or any other error there ends DuckDB's process.
    """

    def __init__(self, allowed: Allowed) -> None:
        self._worker: _Worker | None = _taken()
        self._resident = 0
        self._over: Exception = DuckDBError("the process in which DuckDB worked was ended")
        self._ask("open", allowed.config(self._worker.folder), allowed.words())
        self._resident = resident_bytes(self._worker.process.pid)

    def register(self, name: str, table: pa.Table) -> None:
        """Give DuckDB a table."""
        for rows in table.to_batches(_GIVEN_ROWS):
            self._ask("give", _packed(rows.schema, rows))
        self._ask("register", name, _packed(table.schema))

    def bind(self, text: str, params: dict[str, object]) -> tuple[list[str], list[str]] | None:
        """Return names and types of the columns of a query; None if it is not one SELECT."""
        found: tuple[list[str], list[str]] | None = self._ask("bind", text, params)
        return found

    def fetch(
        self, projection: str | None, n_rows: int, *, is_dry: bool
    ) -> tuple[pa.Schema, list[pa.RecordBatch], bool]:
        """Return further rows of the query bound last, and whether there are no more."""
        packed, is_last = self._ask("fetch", projection, n_rows, is_dry=is_dry)
        stream = pa.ipc.open_stream(packed)
        return stream.schema, [batch for batch in stream if len(batch)], is_last

    def execute(self, text: str, params: dict[str, object]) -> list[Any]:
        """Return the rows of a statement as tuples."""
        rows: list[Any] = self._ask("execute", text, params)
        return rows

    def close(self) -> None:
        """Let go of what was registered; DuckDB waits for the next statement."""
        if self._worker is None:
            return
        self._ask("close")
        worker, self._worker = self._worker, None
        with _lock:
            waiting = _idle[os.getpid()]
            if len(waiting) < _IDLE_MAX:
                waiting.append(worker)
                return
        worker.end()

    def _ask(self, name: str, *arguments: object, **options: object) -> Any:
        worker = self._worker
        if worker is None:
            raise self._over
        try:
            request = pickle.dumps((name, arguments, options))
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise DuckDBError(f"it takes no such value as a parameter: {error}") from None
        try:
            worker.channel.send_bytes(request)
            while not worker.channel.poll(_LOOK_S):
                grown = resident_bytes(worker.process.pid) - self._resident
                check_limits(n_bytes=grown if self._resident else 0)
            is_done, answer = worker.channel.recv()
        except (EOFError, OSError) as error:
            self._end(worker)
            self._over = _ended(worker.process.returncode)
            raise self._over from error
        except BaseException:
            self._end(worker)
            raise
        if not is_done:
            raise DuckDBError(answer)
        return answer

    def _end(self, worker: _Worker) -> None:
        self._worker = None
        worker.end()


def _ended(code: int) -> Exception:
    """Return what to say of DuckDB's process, which ended by itself."""
    if code == -signal.SIGKILL:
        return LimitExceededError(
            "memory", "the system ended DuckDB's part of the query, which needs too much memory"
        )
    if not _has_duckdb():
        return QueryError("ordinary SQL needs the package duckdb; run: pip install 'duckdb>=2.0'")
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit status {code}"
    return QueryError(f"the process in which DuckDB ran a part of the query {how}; ask again")


def _has_duckdb() -> bool:
    try:
        return importlib.util.find_spec("duckdb") is not None
    except ModuleNotFoundError:
        return False


def _packed(schema: pa.Schema, *batches: pa.RecordBatch) -> bytes:
    """Return rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
