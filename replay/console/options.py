"""Options several commands share, and the reading of their values."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from chronicle import Store, Stream

StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the store.")]
StreamArgument = Annotated[str, typer.Argument(help="Name of the stream.")]
JsonOption = Annotated[bool, typer.Option("--json", help="For machines.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
LateOption = Annotated[
    Literal["merge", "reject", "quarantine"],
    typer.Option("--late", help="What becomes of events older than the stream's end."),
]
AgainOption = Annotated[
    bool, typer.Option("--again", help="Take files again that were taken before.")
]
DeriveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--derive",
        help="Derived attributes of a new stream, as 'delta(speed)', and summaries by key, as "
        "'by(speed)'.",
    ),
]
ZoneOption = Annotated[
    str | None, typer.Option("--time-zone", help="Zone of local times, as Europe/Berlin.")
]
SparkOption = Annotated[
    str | None,
    typer.Option(
        "--master", "--spark", help="Spark master to run on, as 'local[*]'; else threads do it."
    ),
]

_UNITS = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?(?:\s+|$)")


def names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names that an option lists, separated by commas or given again."""
    parts = (part.strip() for text in given or () for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def duration(text: str, *, hint: str) -> dt.timedelta:
    """Read a duration such as ``7 days``, ``1 hour 30 minutes`` or ``0``."""
    left = text.strip().lower()
    if left == "0":
        return dt.timedelta()
    seconds, part = 0.0, None
    while left or part is None:
        part = _DURATION_PART.match(left)
        if part is None or part[2] not in _UNITS:
            raise typer.BadParameter(
                f"'{text}' is no duration; write it like '7 days', '1 hour' or '90 minutes'",
                param_hint=hint,
            )
        seconds += float(part[1]) * _UNITS[part[2]]
        left = left[part.end() :]
    try:
        return dt.timedelta(seconds=seconds)
    except OverflowError as error:
        raise typer.BadParameter(f"'{text}' is too long", param_hint=hint) from error


def lateness(text: str | None) -> dt.timedelta | int | None:
    """Read how late an event may be: a duration, or a number where time is an integer."""
    if text is None:
        return None
    bare = text.strip()
    return int(bare) if bare.isdecimal() else duration(bare, hint="--lateness")


def stream_of(store: Path, name: str) -> Stream:
    """Open a stream."""
    from chronicle import open_store

    return open_store(store).stream(name)


def store_of(store: Path) -> Store:
    """Open a store."""
    from chronicle import open_store

    return open_store(store)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before what cannot be undone; where nobody can be asked, --yes must be given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} Nobody can be asked here; give --yes to do it")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
