"""What the entry points of queries take, and what they refuse before it fails somewhere inside."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from typing import Any

from chronicle import Store
from chronicle.time import TimeType, to_internal_time
from replay.errors import NotSupportedError, PlanError

Tables = Mapping[str, Any]
"""Tables in memory by name: of Arrow, or whatever ``chronicle.frames.to_table`` takes."""

AsOf = int | dt.datetime | str
"""A version of a stream: its number, or a time; see ``chronicle.Stream.snapshot``."""

Moment = int | dt.datetime | str
"""A time of a stream: a number where its times are integers, else a ``datetime`` or ISO 8601."""


def to_internal(moment: Moment, kind: TimeType) -> int:
    """Return a time of a stream in internal form.

    Raises a SchemaError if it is no time of this kind.
    """
    text = moment.isoformat() if isinstance(moment, dt.datetime) else str(moment)
    return to_internal_time(text, kind)


def check_query(sql: object) -> None:
    """Refuse a query that is no text."""
    if not isinstance(sql, str):
        raise TypeError(f"expected the query as text, not {type(sql).__name__}")


def check_plan(plan: object) -> None:
    """Refuse a plan that is no name of one."""
    if not isinstance(plan, str):
        raise TypeError(
            f"plan is a text such as 'auto', 'full' or 'indexes=A.price', not {type(plan).__name__}"
        )


def check_params(params: object) -> None:
    """Refuse parameters that are not values by name."""
    if not isinstance(params, Mapping):
        raise TypeError(
            "params holds the values of parameters by name ({'symbol': 'ACME'} for :symbol), or a "
            "list of those of ?, not "
            f"{type(params).__name__}"
        )


def check_threads(threads: object) -> None:
    """Refuse what is no number of threads."""
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise ValueError(f"threads is a whole number from 1 on, not {threads!r}")


def by_name(params: object) -> object:
    """Return the values of ``?`` by their numbers; others as they are."""
    if isinstance(params, list | tuple):
        return {f"_{number}": value for number, value in enumerate(params)}
    return {} if params is None else params


def check_source(source: object) -> None:
    """Refuse what a query cannot be asked of."""
    if not isinstance(source, Store | Mapping):
        raise TypeError(
            "a query asks a store (chronicle.open_store(path)) or tables in memory by name "
            f'({{"s": table}}), not {type(source).__name__}'
        )


def check_engine(engine: str) -> None:
    """Refuse an engine that is not there."""
    if engine != "local":
        raise NotSupportedError(f"engine '{engine}' is not supported yet; use engine='local'")


def check_unversioned(as_of: AsOf | None) -> None:
    """Refuse a version of what has none."""
    if as_of is not None:
        raise PlanError("as_of names a version of a store; tables in memory have none")


def check_replayed(plan: str, allowed: Collection[str]) -> None:
    """Refuse a plan that is not among those of a table in memory."""
    if plan not in allowed:
        raise PlanError(
            f"plan '{plan}' needs a store with tree and indexes; a table in memory is replayed in "
            "full (plan 'auto' or 'full')"
        )
