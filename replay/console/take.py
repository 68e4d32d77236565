"""Commands that take events in, or read them where they are: ingest, append, adopt."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from replay.console.options import (
    AgainOption,
    DeriveOption,
    IntoOption,
    LateOption,
    NewIndexOption,
    NewKeyOption,
    NewTimeOption,
    StoreOption,
    lateness,
    names,
)
from replay.console.progress import Progress
from replay.console.reading import reads_files
from replay.console.show import say, warn
from replay.console.startup import keep_heavy_libraries_out


@reads_files
def ingest(
    *,
    sources: Annotated[list[str], typer.Argument(help="Files, folders or globs, in order.")],
    store: StoreOption,
    stream: IntoOption,
    time: Annotated[str, typer.Option("--time", help="Column with the time of the event.")],
    index: Annotated[
        list[str] | None,
        typer.Option("--index", help="Attributes to index, as A,B; together, A+B."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Column that tells the stream's objects apart.")
    ] = None,
    derive: DeriveOption = None,
    reading: dict[str, Any],
    late: LateOption = "merge",
    again: AgainOption = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Take what is put into the folder, until Ctrl-C.")
    ] = False,
    late_by: Annotated[
        str | None,
        typer.Option(
            "--lateness",
            help="With --follow: how late an event may be, as '1 hour'; else put aside.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="With --follow: end when all that is there is taken.")
    ] = False,
    idle_seconds: Annotated[
        float | None,
        typer.Option("--idle-seconds", help="With --follow: end after so long without a file."),
    ] = None,
    master: Annotated[str, typer.Option("--master", help="Spark master to run on.")] = "local[*]",
) -> None:
    """Append events to a stream, with tree and indexes, through Spark.

    Example: chronicle ingest crimes.parquet --store data --stream crimes --time ts --index beat
    """
    from chronicle.ingest import IngestOptions
    from chronicle.ingest import follow as run_follow
    from chronicle.ingest import ingest as run
    from chronicle.store import open_or_create
    from indexing import RunWriter

    options = IngestOptions(
        time=time,
        index=names(index),
        key=key,
        derive=names(derive),
        master=master,
        late=late,
        again=again,
        **reading,
    )
    if not follow:
        if late_by is not None or once or idle_seconds is not None:
            raise typer.BadParameter("--lateness, --once and --idle-seconds go with --follow")
        with open_or_create(store) as opened:
            with Progress("ingesting") as progress:
                ingested = run(
                    opened,
                    stream,
                    sources,
                    options,
                    derived=RunWriter,
                    progress=progress,
                    told=progress.count,
                )
            say(str(ingested))
            warn(ingested.fault)
        return
    if len(sources) != 1:
        raise typer.BadParameter("name one folder to follow")
    limit = lateness(late_by)
    with open_or_create(store) as opened:
        report = run_follow(
            opened,
            stream,
            sources[0],
            options,
            derived=RunWriter,
            lateness=limit,
            once=once,
            idle_seconds=idle_seconds,
            progress=say,
        )
        say(str(report))
        warn(report.fault)


@reads_files
def append(
    *,
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders or globs, in order; or - for stdin.")
    ],
    store: StoreOption,
    stream: IntoOption,
    time: NewTimeOption = None,
    index: NewIndexOption = None,
    key: NewKeyOption = None,
    derive: DeriveOption = None,
    reading: dict[str, Any],
    late: LateOption = "merge",
    again: AgainOption = False,
) -> None:
    """Append events to a stream without Spark: quick for a few, in memory for all.

    Example: chronicle append today.csv --store data --stream crimes
    """
    keep_heavy_libraries_out()
    from chronicle.ingest.local import append_files
    from chronicle.ingest.report import AppendOptions
    from chronicle.store import open_or_create
    from indexing.lifecycle import create_index
    from indexing.writer import writer_for

    indexed = names(index)
    options = AppendOptions(
        time=time,
        key=key,
        derive=names(derive),
        late=late,
        again=again,
        **reading,
    )
    with open_or_create(store) as opened, Progress("appending"):
        report = append_files(
            opened,
            stream,
            sources,
            options,
            derived=writer_for,
            begin=partial(create_index, attributes=indexed) if indexed else None,
            stdin=sys.stdin.buffer,
        )
        say(str(report))
        warn(None if report.appended is None else report.appended.fault)


def adopt(
    table: Annotated[
        Path, typer.Argument(help="Folder of a Delta table or of Parquet files, or one file.")
    ],
    store: StoreOption,
    stream: Annotated[
        str | None, typer.Option("--stream", help="Name of the stream; else that of the folder.")
    ] = None,
    time: NewTimeOption = None,
    index: NewIndexOption = None,
    key: NewKeyOption = None,
    derive: DeriveOption = None,
) -> None:
    """Make a stream of a table where it is, without copying it; again, to take what is new.

    The table must be in order of time, file by file. It is read and never written.

    Example: chronicle adopt /lake/trades --store data --time ts --index price
    """
    keep_heavy_libraries_out()
    from chronicle.store import open_or_create
    from chronicle.write.adopt import adopt as run
    from indexing.lifecycle import create_index
    from indexing.writer import writer_for

    indexed = names(index)
    with open_or_create(store) as opened, Progress("adopting") as progress:
        report = run(
            opened,
            table.absolute().stem if stream is None else stream,
            table,
            time=time,
            key=key,
            derive=names(derive),
            derived=writer_for,
            begin=partial(create_index, attributes=indexed) if indexed else None,
            progress=progress,
        )
        say(str(report))
