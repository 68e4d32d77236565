"""Bound a query: how long it may take, how many rows it may give, how much memory it may need.

A limit is checked between pieces of work: after each unit of blocks that is read, after each table
a join takes, before each lookup and each table of the answer. So a query ends a little after its
limit, by what one piece takes.
"""

from __future__ import annotations

import datetime as dt
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar, Token
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import pyarrow as pa

from replay.errors import LimitExceededError

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may take; None: as much as it needs.

    Attributes
    ----------
    timeout
        Seconds from the question to the last row.
    max_rows
        Rows of the answer.
    memory
        Bytes by which the process may grow while the query runs: its resident memory or what Arrow
        holds, whichever has grown more. Code compiled or loaded meanwhile counts.
    """

    timeout: float | None = None
    max_rows: int | None = None
    memory: int | None = None

    @classmethod
    def of(
        cls, timeout: float | dt.timedelta | None, max_rows: int | None, memory: int | None
    ) -> Limits:
        """Return limits as the entry points of queries take them.

        Raises a ValueError if a time or an amount of memory is not positive, or a number of rows is
        negative.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, dt.timedelta) else timeout
        if seconds is not None and not seconds > 0:
            raise ValueError(f"timeout is {seconds:g} seconds; give more than 0, or None")
        if memory is not None and memory <= 0:
            raise ValueError(f"memory is {memory:,} bytes; give more than 0, or None")
        if max_rows is not None and max_rows < 0:
            raise ValueError(f"max_rows is {max_rows:,}; give 0 or more, or None")
        return cls(seconds, max_rows, memory)


class LimitWatch:
    """Watches one query; it is asked where it is entered, or through the tables it hands on.

    ``limits`` count from now on.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._started = perf_counter()
        bounded = limits.memory is not None
        self._resident, self._arrow = (resident_bytes(), _arrow_bytes()) if bounded else (0, 0)
        self._tokens: list[Token[LimitWatch | None]] = []

    def __enter__(self) -> LimitWatch:
        self._tokens.append(_watch.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _watch.reset(self._tokens.pop())

    def over(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield tables that are watched while they are made, not while others look at them."""
        coming = iter(tables)
        while True:
            with self:
                table = next(coming, None)
            if table is None:
                return
            yield table

    def check(self, n_rows: int = 0) -> None:
        """Raise if the query, whose answer has this many rows so far, is beyond a limit."""
        limits = self._limits
        if limits.max_rows is not None and n_rows > limits.max_rows:
            raise LimitExceededError(
                "max_rows",
                f"the answer has more than {limits.max_rows:,} rows (limit --max-rows, max_rows)",
            )
        if limits.timeout is not None and perf_counter() - self._started > limits.timeout:
            raise LimitExceededError(
                "timeout", f"the query takes more than {limits.timeout:g} s (limit --timeout)"
            )
        if limits.memory is None:
            return
        grown = max(resident_bytes() - self._resident, _arrow_bytes() - self._arrow)
        if grown > limits.memory:
            raise LimitExceededError(
                "memory",
                f"the query needs {grown / 1e6:,.0f} MB of memory or more, and "
                f"{limits.memory / 1e6:,.0f} MB are allowed (limit --memory)",
            )


_watch: ContextVar[LimitWatch | None] = ContextVar("chronicle_limit_watch", default=None)
"""The watch of the query that runs. A variable of the context, since each piece of work checks it:
it would be an argument of everything that reads, looks up, joins or matches."""


def check_limits(n_rows: int = 0) -> None:
    """Raise if the query that runs here, whose answer has so many rows, is beyond a limit.

    The LimitExceededError names the limit.
    """
    watch = _watch.get()
    if watch is not None:
        watch.check(n_rows)


def resident_bytes() -> int:
    """Return the memory the process holds, in bytes; where only its peak is known, that."""
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def _arrow_bytes() -> int:
    return int(pa.total_allocated_bytes())
