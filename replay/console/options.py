"""Options several commands share, and the reading of their values."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from chronicle.disk_errors import reason_of
from chronicle.errors import ChronicleError

if TYPE_CHECKING:
    import pyarrow as pa

    from chronicle import Store, Stream
    from replay.limits import Limits


def store_path(given: Path) -> Path:
    """Return the folder that ``--store`` names; a URL is refused."""
    from chronicle.paths import local_path

    return local_path(given)


def out_path(given: Path | None) -> Path | None:
    """Return the file that ``--out`` names; a URL is refused."""
    from chronicle.paths import local_path

    return None if given is None else local_path(given, what="file")


def report_path(given: Path | None) -> Path | None:
    """Return the file that ``--report`` names, which can be written and is a page by its name."""
    if given is None:
        return None
    from chronicle.paths import local_path
    from replay.console.answers import check_target

    path = local_path(given, what="file")
    if path.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"'{given}' is to be a page; end it with .html")
    check_target(path)
    return path


StoreOption = Annotated[
    Path,
    typer.Option(
        "--store", envvar="CHRONICLE_STORE", help="Folder of the store.", callback=store_path
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option("--report", help="Write a page to look at: FILE.html.", callback=report_path),
]
StreamArgument = Annotated[str, typer.Argument(help="Name of the stream.")]
IntoOption = Annotated[str, typer.Option("--stream", help="Stream to append to or create.")]
NewTimeOption = Annotated[
    str | None, typer.Option("--time", help="Time column of a stream that is new.")
]
NewIndexOption = Annotated[
    list[str] | None,
    typer.Option("--index", help="Attributes to index in a new stream, as A,B; together, A+B."),
]
NewKeyOption = Annotated[
    str | None, typer.Option("--key", help="Column that tells a new stream's objects apart.")
]
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
SparkOption = Annotated[
    str | None,
    typer.Option(
        "--master", "--spark", help="Spark master to run on, as 'local[*]'; else threads do it."
    ),
]

ExpandedOption = Annotated[
    bool, typer.Option("-x", help="Short for --format expanded: one column a line.")
]
RowsOption = Annotated[
    int, typer.Option("--rows", min=1, help="Rows a table for people shows; the rest is counted.")
]
TimeoutOption = Annotated[
    str | None, typer.Option("--timeout", help="End with an error after so long, as 30s.")
]
MaxRowsOption = Annotated[
    int | None,
    typer.Option("--max-rows", min=0, help="End with an error if the answer has more rows."),
]
MemoryOption = Annotated[
    str | None,
    typer.Option("--memory", help="End with an error if it needs more memory, as 2GB."),
]
TableOption = Annotated[
    list[str] | None,
    typer.Option("--table", help="A small table beside the streams, as stations=stations.csv."),
]
ThreadsOption = Annotated[
    int,
    typer.Option(
        "--threads", min=1, help="Threads of DuckDB; over 1, sums and order may differ by run."
    ),
]


def names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names that an option lists, separated by commas or given again."""
    parts = (part.strip() for text in given or () for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def duration(text: str, *, hint: str) -> dt.timedelta:
    """Read a duration such as ``7 days``, ``1 hour 30 minutes`` or ``0``."""
    from replay.limits import duration as read

    with _as_bad_parameter(hint):
        return read(text)


def size(text: str, *, hint: str) -> int:
    """Read an amount of memory such as ``2GB`` or ``512 MiB`` as bytes."""
    from replay.limits import size as read

    with _as_bad_parameter(hint):
        return read(text)


@contextmanager
def _as_bad_parameter(hint: str | None = None) -> Iterator[None]:
    """Let what is wrong with a value be told as wrong usage of its option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error


def limits(timeout: str | None, max_rows: int | None, memory: str | None) -> Limits:
    """Read the limits of a query."""
    from replay.limits import Limits

    seconds = None if timeout is None else duration(timeout, hint="--timeout")
    n_bytes = None if memory is None else size(memory, hint="--memory")
    with _as_bad_parameter():
        return Limits.of(seconds, max_rows, n_bytes)


def lateness(text: str | None) -> dt.timedelta | int | None:
    """Read how late an event may be: a duration, or a number where time is an integer."""
    if text is None:
        return None
    bare = text.strip()
    return int(bare) if bare.isdecimal() else duration(bare, hint="--lateness")


def pairs(given: Sequence[str], *, hint: str) -> Iterator[tuple[str, str]]:
    """Read ``name=value`` pairs."""
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"'{pair}' is not name=value", param_hint=hint)
        yield name, value


def parameters(given: Sequence[str]) -> dict[str, object]:
    """Read values of a query's parameters; numbers and true/false become what they look like."""
    params: dict[str, object] = {}
    for name, value in pairs(given, hint="--param"):
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    return params


def tables_of(given: Sequence[str] | None) -> dict[str, pa.Table]:
    """Read tables from files, as ``name=file``; the file's ending says its format.

    What is to be known of how text was read is told on stderr.
    """
    return {name: _read_table(path) for name, path in pairs(given or (), hint="--table")}


def _read_table(path: str) -> pa.Table:
    import pyarrow as pa

    from chronicle.ingest.table_files import text_format
    from chronicle.ingest.typed_files import arrow_table
    from chronicle.log.foreign_layouts import check_named
    from chronicle.parquet_files import parquet_table
    from replay.console.show import say
    from replay.errors import QueryError
    from replay.sql.text_files import read_text_files

    check_named([Path(path)], is_pattern=False)
    format_ = text_format(path)
    readers = {".parquet": parquet_table, ".arrow": arrow_table}
    reader = readers.get(Path(path).suffix.lower())
    if reader is None and format_ is None:
        known = ", ".join((".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", *readers))
        raise typer.BadParameter(f"'{path}' does not end with {known}", param_hint="--table")
    try:
        if reader is not None:
            return reader(path)
        assert format_ is not None
        table, notes = read_text_files([Path(path)], format_, [path])
    except QueryError as error:
        raise typer.BadParameter(str(error), param_hint="--table") from error
    except (OSError, pa.ArrowException) as error:
        what = f"cannot read '{path}' ({reason_of(error)})"
        raise typer.BadParameter(what, param_hint="--table") from error
    for note in notes:
        say(f"warning: {note}")
    return table


def time_range(
    stream: Stream, start: str | None, stop: str | None
) -> tuple[int | None, int | None]:
    """Read ``--from`` and ``--to`` as internal times of a stream; None is unbounded."""
    from chronicle.time import to_internal_time

    first, end = (
        None if text is None else to_internal_time(text, stream.time_type) for text in (start, stop)
    )
    if first is not None and end is not None and first >= end:
        raise typer.BadParameter(f"--from {start} is not before --to {stop}: no time lies between")
    return first, end


def stream_of(store: Path, name: str) -> Stream:
    """Open a stream."""
    return store_of(store).stream(name)


def store_of(store: Path) -> Store:
    """Open a store."""
    from chronicle import open_store

    return open_store(store)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before what cannot be undone; where nobody can be asked, --yes must be given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ChronicleError(f"not a terminal: add --yes to go on; nothing was done. {question}")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
