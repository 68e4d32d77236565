"""Bound a query: how long it may take, how many rows it may give, how much memory it may need.

A limit is checked between pieces of work: after each unit of blocks that is read, before each piece
of rows an operator takes, between the columns that are grouped, ordered or aggregated, before each
lookup and each table of the answer; how much the process grew, at most each 10 ms. So a query ends
a little after its limit, by what one piece takes; a step of compiling is one.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar, Token
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Final

import pyarrow as pa

from chronicle.words import number_of
from replay.errors import LimitExceededError

_STATM = Path("/proc/self/statm")

_CODE_BYTES = 200_000_000
"""About what a process grows by, at most, while it loads the code of queries."""

_LOOK_S = 0.01
"""Least seconds between looks at the memory of the process, which take 15 us each."""

_LOOK_BYTES: Final = 10_000_000
"""Before so many bytes are taken at once the process is looked at, however short ago it was."""

TOLD_MAX: Final = 100_000_000
"""Windows an answer that is kept whole has at most, those of each key counted: some GB of them."""

ASKED_MAX: Final = 1 << 31
"""Bytes that are set aside at most for a number in the text of a query; texts of one array in
Arrow have no more."""

Timeout = float | dt.timedelta | str
"""How long a query may take: seconds, a ``timedelta``, or a text such as ``30s``."""


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
        cls,
        timeout: Timeout | None,
        max_rows: int | None,
        memory: int | str | None,
    ) -> Limits:
        """Return limits as the entry points of queries take them.

        Texts are read as the command line reads them: ``30s``, ``2GB``. A TypeError says that a
        limit is none of what it may be; a ValueError that a text cannot be read, a time or an
        amount of memory is not positive, or a number of rows is negative.
        """
        timeout = duration(timeout) if isinstance(timeout, str) else timeout
        memory = size(memory) if isinstance(memory, str) else memory
        seconds = timeout.total_seconds() if isinstance(timeout, dt.timedelta) else timeout
        _check_number("timeout", seconds, Real, "seconds, a timedelta or a text such as '30s'")
        _check_number("memory", memory, Integral, "a whole number of bytes or a text such as '2GB'")
        _check_number("max_rows", max_rows, Integral, "a whole number of rows")
        if seconds is not None and not seconds > 0:
            raise ValueError(f"timeout is {seconds:g} seconds; give more than 0, or None")
        if memory is not None and memory <= 0:
            raise ValueError(f"memory is {memory:,} bytes; give more than 0, or None")
        if max_rows is not None and max_rows < 0:
            raise ValueError(f"max_rows is {max_rows:,}; give 0 or more, or None")
        return cls(seconds, max_rows, memory)


def _check_number(name: str, value: object, kind: type, what: str) -> None:
    """Refuse a limit that is no number of a kind; None is no limit."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
        raise TypeError(f"{name} takes {what}, or None, not {value!r}")


_SHORT_UNITS = {"s": 1, "sec": 1, "min": 60, "h": 3600, "d": 86_400}
_UNITS = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1, **_SHORT_UNITS}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|[a-z]+?)s?(?:\s+|$)")

_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20,
          "GIB": 2**30}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Z]*)")


def duration(text: str) -> dt.timedelta:
    """Read a duration such as ``7 days``, ``1 hour 30 minutes`` or ``0``.

    A ValueError says that it is none.
    """
    left = text.strip().lower()
    if left == "0":
        return dt.timedelta()
    seconds, part = 0.0, None
    while left or part is None:
        part = _DURATION_PART.match(left)
        if part is None or part[2] not in _UNITS:
            bare = left if re.fullmatch(r"\d+(\.\d+)?", left) else None
            said = "write it like '7 days', '1 hour' or '90 minutes'"
            if bare is not None:
                said = f"a number needs its unit, as in '{bare}s' or '{bare} minutes'"
            raise ValueError(f"'{text}' is no duration; {said}")
        seconds += float(part[1]) * _UNITS[part[2]]
        left = left[part.end() :]
    try:
        return dt.timedelta(seconds=seconds)
    except OverflowError as error:
        raise ValueError(f"'{text}' is too long") from error


def size(text: str) -> int:
    """Read an amount of memory such as ``2GB`` or ``512 MiB`` as bytes.

    A ValueError says that it is none.
    """
    found = _SIZE.fullmatch(text.strip().upper())
    if found is None or found[2] not in _BYTES:
        raise ValueError(f"'{text}' is no amount of memory; write it like '2GB' or '500MB'")
    return int(float(found[1]) * _BYTES[found[2]])


class LimitWatch:
    """Watches one query; it is asked where it is entered, or through the tables it hands on.

    ``limits`` count from now on.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._started = perf_counter()
        bounded = limits.memory is not None
        self._resident, self._arrow = (resident_bytes(), _arrow_bytes()) if bounded else (0, 0)
        self._next_look = self._started
        self._n_modules = len(sys.modules)
        self._tokens: list[Token[LimitWatch | None]] = []

    def __enter__(self) -> LimitWatch:
        self._tokens.append(_watch.set(self))
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        _watch.reset(self._tokens.pop())
        if isinstance(error, MemoryError):
            raise LimitExceededError(
                "memory",
                "the query needs more memory than this process can have",
            ) from error

    def over(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield tables that are watched while they are made, not while others look at them."""
        coming = iter(tables)
        while True:
            with self:
                table = next(coming, None)
            if table is None:
                return
            yield table

    def check(self, n_rows: int = 0, n_bytes: int = 0) -> None:
        """Raise if the query is beyond a limit, see `check_limits`."""
        limits = self.limits
        if limits.max_rows is not None and n_rows > limits.max_rows:
            raise LimitExceededError(
                "max_rows",
                f"the answer has more than {number_of(limits.max_rows, 'row')} (limit --max-rows, "
                "max_rows)",
            )
        if limits.timeout is not None and perf_counter() - self._started > limits.timeout:
            raise LimitExceededError(
                "timeout", f"the query takes more than {limits.timeout:g} s (limit --timeout)"
            )
        if limits.memory is None:
            return
        grown = _arrow_bytes() - self._arrow
        now = perf_counter()
        if now >= self._next_look or n_bytes > _LOOK_BYTES:
            self._next_look = now + _LOOK_S
            grown = max(grown, resident_bytes() - self._resident)
        grown += n_bytes
        if grown > limits.memory:
            allowed = f"{limits.memory / 1e6:,.0f} MB"
            if limits.memory < 1e6:
                allowed = f"{limits.memory:,} bytes"
            hint = ""
            has_loaded = len(sys.modules) > self._n_modules
            if has_loaded and max(limits.memory, grown - limits.memory) < _CODE_BYTES:
                hint = "; code loaded meanwhile, once in a process, takes up to 200 MB: give 500MB"
            raise LimitExceededError(
                "memory",
                f"the query needs {max(grown / 1e6, 1):,.0f} MB of memory or more, and {allowed} "
                f"are allowed (limit --memory){hint}",
            )


_watch: ContextVar[LimitWatch | None] = ContextVar("chronicle_limit_watch", default=None)
"""The watch of the query that runs. A variable of the context, since each piece of work checks it:
it would be an argument of everything that reads, looks up, joins or matches."""

_is_over: ContextVar[tuple[Event, ...]] = ContextVar("chronicle_is_over", default=())
"""What tells this thread that its work is not waited for any more."""


class CalledOffError(Exception):
    """Nobody waits for the work of this thread any more."""


def check_limits(n_rows: int = 0, n_bytes: int = 0) -> None:
    """Raise if the query that runs here is beyond a limit, or about to be.

    Its answer has so many rows so far; ``n_bytes`` more it is about to take, or another process
    holds for it. The LimitExceededError names the limit.
    """
    watch = _watch.get()
    if watch is not None:
        watch.check(n_rows, n_bytes)
    if any(is_over.is_set() for is_over in _is_over.get()):
        raise CalledOffError


def check_asked(n_bytes: float, what: str) -> None:
    """Refuse what a number in the text of the query asks for, before memory is taken for it.

    Every allocation whose size such a number gives, not the rows there are, is checked here.

    Raises
    ------
    LimitExceededError
        If it needs more than is allowed, or than any query may set aside at once.
    """
    allowed = min(current_limits().memory or ASKED_MAX, ASKED_MAX)
    if n_bytes > allowed:
        raise LimitExceededError(
            "memory",
            f"{what}: {n_bytes / 1e6:,.0f} MB of memory are needed at once, and "
            f"{allowed / 1e6:,.0f} MB are allowed (limit --memory, never more than "
            f"{ASKED_MAX / 1e6:,.0f} MB)",
        )
    check_limits(n_bytes=int(n_bytes))


def under_limits(work: Callable[[], None], is_over: Event) -> Callable[[], None]:
    """Return work that another thread does under the limits of the query that runs here.

    Once it is over for whoever asked, `check_limits` ends it with a CalledOffError.
    """
    watch, ends = _watch.get(), (*_is_over.get(), is_over)

    def done() -> None:
        tokens = _watch.set(watch), _is_over.set(ends)
        try:
            work()
        finally:
            _watch.reset(tokens[0])
            _is_over.reset(tokens[1])

    return done


def current_limits() -> Limits:
    """Return the limits of the query that runs here."""
    watch = _watch.get()
    return Limits() if watch is None else watch.limits


def resident_bytes(process: int | None = None) -> int:
    """Return the memory a process holds, by default this one, in bytes.

    Where only a peak is known, that; 0 where nothing is known of another process.
    """
    statm = _STATM if process is None else Path(f"/proc/{process}/statm")
    try:
        with statm.open("rb", buffering=0) as file:  # half the time of reading text
            pages = int(file.read().split()[1])
    except OSError:
        if process is not None:
            return 0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def _arrow_bytes() -> int:
    return int(pa.total_allocated_bytes())
