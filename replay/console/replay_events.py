"""The command that hands out a stretch of history at a pace."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from chronicle.words import number_of
from replay.console.answers import STANDARD_OUTPUT, check_target
from replay.console.options import (
    StoreOption,
    StreamArgument,
    names,
    out_path,
    pairs,
    parameters,
    store_of,
)
from replay.console.show import INTERRUPTED, say
from replay.console.startup import keep_heavy_libraries_out

if TYPE_CHECKING:
    import pyarrow as pa

    from chronicle import StreamSettings
    from replay.online import Threads
    from replay.pacing.outlets import Outlet

BEAT_S = 0.05
"""Seconds after which a query is told how far time has come, where no event tells it."""


def replay(
    stream: StreamArgument,
    store: StoreOption,
    start: Annotated[
        str | None, typer.Option("--from", help="Time of the first event; else the stream's.")
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", help="Time before which to stop; else after the last.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", help="Only events that satisfy this condition.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", help="Only these columns, as a,b.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", help="Value of :name, as name=value.")
    ] = None,
    speed: Annotated[
        str,
        typer.Option("--speed", help="Stream time in a second, as 60: a minute; or max."),
    ] = "max",
    loop: Annotated[str, typer.Option("--loop", help="How many times; or forever.")] = "1",
    query: Annotated[
        str | None,
        typer.Option("--query", help="Answer this query as events come; its rows are the output."),
    ] = None,
    threads: Annotated[
        str, typer.Option("--threads", help="Threads that share pushes of situations; or auto.")
    ] = "1",
    output_format: Annotated[
        Literal["json", "csv", "arrow"],
        typer.Option("--format", help="json (one object a line), csv or arrow."),
    ] = "json",
    out: Annotated[
        Path,
        typer.Option("--out", help="File to write to; - is standard output.", callback=out_path),
    ] = STANDARD_OUTPUT,
    to_kafka: Annotated[
        str | None, typer.Option("--to-kafka", help="Topic to send each row to, as JSON.")
    ] = None,
    kafka: Annotated[
        list[str] | None,
        typer.Option("--kafka", help="Setting of the producer, as bootstrap.servers=host:9092."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="Version of the stream: its number or a time."),
    ] = None,
) -> None:
    """Hand out a stretch of a stream in order, at the pace it had or any other.

    Example: chronicle replay crimes --store data --from 2015-06-01 --to 2015-06-02 --speed 3600
    """
    keep_heavy_libraries_out()
    if to_kafka is not None and (output_format != "json" or out != STANDARD_OUTPUT):
        raise typer.BadParameter("topics take JSON, and no file", param_hint="--to-kafka")
    if to_kafka is None and kafka:
        raise typer.BadParameter("name the topic with --to-kafka", param_hint="--kafka")
    if query is not None and columns is not None:
        raise typer.BadParameter("a query names its columns itself", param_hint="--columns")
    n_threads = _threads(threads)
    if query is None and n_threads != 1:
        raise typer.BadParameter("there is no --query to share", param_hint="--threads")
    if query is not None and _loop(loop) != 1:
        raise typer.BadParameter(
            "a query takes events in order of time, so once", param_hint="--loop"
        )
    if out != STANDARD_OUTPUT:
        check_target(out)
    from replay import events, online
    from replay.pacing.attached import answers
    from replay.running.statement import unused_parameters

    opened = store_of(store)
    values = parameters(param or [])
    for unused in unused_parameters(f"{where or ''}\n{query or ''}", values):
        raise typer.BadParameter(
            f"neither condition nor query has a parameter {unused}", param_hint="--param"
        )
    snapshot = opened.stream(stream).snapshot(as_of)
    settings = snapshot.settings
    attached = None
    if query is not None:
        _check_asks_of(stream, query)
        attached = online(
            query, snapshot.schema, time=settings.time, params=values, threads=n_threads
        )
    paced = events(
        opened,
        stream,
        start=start,
        stop=stop,
        where=where,
        columns=names(columns) if attached is None else attached.columns,
        params=values,
        speed=_speed(speed),
        loop=_loop(loop),
        beat=None if attached is None else BEAT_S,
        as_of=snapshot.version,
    )
    schema, tables = paced.schema, iter(paced)
    if attached is not None:
        schema, tables = attached.schema, answers(paced, attached)
    began = time.monotonic()
    with _outlet(output_format, out, to_kafka, kafka or [], schema, settings) as outlet:
        try:
            for table in tables:
                if table.num_rows:
                    outlet.write(table)
        except KeyboardInterrupt:
            say(f"interrupted after {number_of(paced.n_events, 'event')}, at {paced.position}")
            raise typer.Exit(INTERRUPTED) from None
    say(f"{number_of(paced.n_events, 'event')} in {time.monotonic() - began:.1f} s")


def _check_asks_of(stream: str, query: str) -> None:
    """Refuse a query over other streams than the one whose events are handed out."""
    from replay.language.syntax import streams_of
    from replay.running.statement import parse

    read = streams_of(parse(query))
    if len(read) > 1:
        raise typer.BadParameter(
            f"a replay hands out the events of one stream, and the query reads {', '.join(read)}; "
            "push the events of each to replay.online in Python",
            param_hint="--query",
        )
    if read and read != (stream,):  # without FROM, it is told when it is asked
        raise typer.BadParameter(
            f"the replay hands out the events of '{stream}', and the query reads '{read[0]}'; "
            f"replay that stream, or write FROM {stream}",
            param_hint="--query",
        )


@contextmanager
def _outlet(
    output_format: str,
    out: Path,
    topic: str | None,
    kafka: list[str],
    schema: pa.Schema,
    settings: StreamSettings,
) -> Iterator[Outlet]:
    """Open where rows go, and end it properly whatever happens."""
    from replay.pacing.outlets import KafkaOutlet, open_outlet

    with ExitStack() as stack:
        outlet: Outlet
        if topic is not None:
            time_column = settings.time if settings.time in schema.names else None
            key = settings.key if settings.key in schema.names else None
            outlet = KafkaOutlet(
                topic, dict(pairs(kafka, hint="--kafka")), time=time_column, key=key
            )
        elif out == STANDARD_OUTPUT:
            outlet = open_outlet(output_format, sys.stdout.buffer, schema)
        else:
            outlet = open_outlet(output_format, stack.enter_context(out.open("wb")), schema)
        stack.callback(outlet.close)
        yield outlet


def _speed(text: str) -> float:
    """Read a speed: a number, or max."""
    if text.strip().lower() == "max":
        return math.inf
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"'{text}' is no number; write 60 for a minute in a second, or max",
            param_hint="--speed",
        ) from None


def _threads(text: str) -> Threads:
    """Read how many threads: a whole number from 1 on, or auto."""
    if text.strip().lower() == "auto":
        return "auto"
    if not text.strip().isdecimal() or not int(text):
        raise typer.BadParameter(
            f"'{text}' is no number of threads; write 2, or auto", param_hint="--threads"
        )
    return int(text)


def _loop(text: str) -> int | None:
    """Read how many times: a whole number, or forever."""
    if text.strip().lower() == "forever":
        return None
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(
            f"'{text}' is no whole number; write 2 for twice, or forever", param_hint="--loop"
        ) from None
