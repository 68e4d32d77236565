"""Commands on indexes: create, drop, list, compact."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from chronicle.words import megabytes, number_of
from replay.console.options import JsonOption, SparkOption, StoreOption, StreamArgument, stream_of
from replay.console.progress import Progress
from replay.console.show import print_table, say
from replay.console.tend import runner


def create(
    stream: StreamArgument,
    attributes: Annotated[
        list[str], typer.Argument(help="Columns, as 'delta(COLUMN)', or together as A+B.")
    ],
    store: StoreOption,
    spark: SparkOption = None,
) -> None:
    """Index attributes of a stream that holds events; complete what an index lacks.

    Columns joined by + make one index that answers conditions on all of them at once.

    Example: chronicle index create crimes district district+crime_code --store data
    """
    from indexing.lifecycle import create_index

    with Progress("indexing") as progress, runner(spark, progress) as lent:
        opened = stream_of(store, stream)
        for report in create_index(opened, attributes, runner=lent, progress=progress):
            for replaced in report.replaced:
                say(replaced)
            if report.existed and not report.n_files:
                done = "has all the runs it should, and all are whole"
            else:
                done = (
                    f"{'completed' if report.existed else 'created'}: {_entries(report.n_entries)} "
                    f"in {number_of(report.n_files, 'run')}, {megabytes(report.size_bytes)}"
                )
            rest = number_of(report.n_tail_events, "event")
            say(
                f"index '{report.attribute}' {done}; {rest} in small files are answered from memory"
            )


def drop(
    stream: StreamArgument,
    attribute: Annotated[str, typer.Argument(help="What is indexed, as 'list' names it.")],
    store: StoreOption,
) -> None:
    """Drop an index; queries answer the same without it.

    Example: chronicle index drop crimes district --store data
    """
    from indexing.lifecycle import drop_index

    n_bytes = drop_index(stream_of(store, stream), attribute)
    say(f"index '{attribute}' dropped, {megabytes(n_bytes)} freed")


def show(stream: StreamArgument, store: StoreOption, as_json: JsonOption = False) -> None:
    """List the indexes of a stream.

    Example: chronicle index list crimes --store data
    """
    from indexing.lifecycle import list_indexes

    indexes = list_indexes(stream_of(store, stream).snapshot())
    if as_json:
        print(json.dumps([asdict(index) for index in indexes], indent=2))
        return
    rows = [
        (
            index.attribute,
            f"{index.n_entries:,}",
            f"{index.n_runs:,}",
            megabytes(index.size_bytes),
            f"{index.bytes_per_entry:.2f}",
            f"{index.covered_share:.1%}",
        )
        for index in indexes
    ]
    print_table(("index", "entries", "runs", "size", "bytes per entry", "covered"), rows)
    for index in indexes:
        for fault in index.faults:
            say(f"warning: {fault}")


def compact(
    stream: StreamArgument,
    store: StoreOption,
    attribute: Annotated[
        str | None, typer.Option("--on", help="What is indexed; else all indexes.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Make one run of all.")] = False,
    spark: SparkOption = None,
) -> None:
    """Merge the runs of an index.

    Example: chronicle index compact crimes --on district --store data --full
    """
    from indexing.lifecycle import compact_index

    with Progress("merging runs") as progress, runner(spark, progress) as lent:
        for report in compact_index(stream_of(store, stream), attribute, full=full, runner=lent):
            say(
                f"index '{report.attribute}': {number_of(report.n_runs_before, 'run')} before, "
                f"{report.n_runs_after:,} now, {_entries(report.n_entries)} written"
            )


def _entries(n: int) -> str:
    return number_of(n, "entry", "entries")
