"""The command line: parse, call, print, exit code."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chronicle.errors import ChronicleError

if TYPE_CHECKING:
    from replay import Result

app = typer.Typer(
    name="chronicle",
    help="Keep event streams, and ask what happened in which order, without reading them whole.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the store.")]
FORMATS = ("table", "json", "csv", "parquet", "arrow")


def main() -> None:
    """Run the command line; stated failures become one sentence on stderr and exit code 1."""
    try:
        app()
    except ChronicleError as error:
        _say(f"error: {error}")
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        where = f"'{error.filename}'" if error.filename else "the disk"
        reason = error.strerror or str(error)
        _say(f"error: {where} cannot be used ({reason}); check path, permissions and space")
        sys.exit(1)
    except KeyboardInterrupt:
        _say("interrupted; nothing was committed after the last message above")
        sys.exit(130)


def _say(text: str) -> None:
    """Write words for a person to stderr."""
    print(text, file=sys.stderr, flush=True)


def _names(text: str | None) -> tuple[str, ...]:
    """Split a comma-separated option."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


@app.command()
def ingest(
    sources: Annotated[list[str], typer.Argument(help="Files, folders or globs, in order.")],
    store: StoreOption,
    stream: Annotated[str, typer.Option("--stream", help="Stream to append to or create.")],
    time: Annotated[str, typer.Option("--time", help="Column with the time of the event.")],
    index: Annotated[
        str | None, typer.Option("--index", help="Attributes to index, as A,B.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Column that tells the stream's objects apart.")
    ] = None,
    source_format: Annotated[
        str | None, typer.Option("--format", help="parquet, csv or json; else by file ending.")
    ] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", help="Columns of CSV or JSON, as 'a INT, b STRING'.")
    ] = None,
    time_format: Annotated[
        str | None, typer.Option("--time-format", help="Spark pattern of a time given as text.")
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option("--time-zone", help="Zone of local times, as Europe/Berlin.")
    ] = None,
    master: Annotated[str, typer.Option("--master", help="Spark master to run on.")] = "local[*]",
) -> None:
    """Append events to a stream, with tree and indexes, through Spark.

    Example: chronicle ingest crimes.parquet --store data --stream crimes --time ts --index beat
    """
    from chronicle import ensure_store
    from chronicle.ingest import IngestOptions
    from chronicle.ingest import ingest as run
    from indexing import RunWriter

    options = IngestOptions(
        time=time,
        index=_names(index),
        key=key,
        format=source_format,
        schema=schema,
        time_format=time_format,
        time_zone=time_zone,
        master=master,
    )
    report = run(ensure_store(store), stream, sources, options, derived=RunWriter, progress=_say)
    _say(str(report))


@app.command()
def streams(store: StoreOption) -> None:
    """List the streams of a store.

    Example: chronicle streams --store data
    """
    from chronicle import open_store
    from chronicle.describe import describe_stream

    opened = open_store(store)
    rows = []
    for name in opened.stream_names():
        shown = describe_stream(opened.stream(name).snapshot()).to_dict()
        rows.append((name, f"{shown['n_events']:,}", str(shown["t_min"]), str(shown["t_max"])))
    _print_table(("stream", "events", "first", "last"), rows)


@app.command()
def describe(
    stream: Annotated[str, typer.Argument(help="Name of the stream.")],
    store: StoreOption,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Print time range, counts, tree levels, indexes and sizes of a stream.

    Example: chronicle describe crimes --store data
    """
    from chronicle import open_store
    from chronicle.describe import describe_stream
    from indexing import open_indexes

    snapshot = open_store(store).stream(stream).snapshot()
    described = describe_stream(snapshot)
    opened = open_indexes(snapshot)
    indexes = [opened.index(attribute) for attribute in opened.attributes]
    if as_json:
        sizes = {
            i.attribute: {"entries": i.n_entries, "runs": i.n_runs, "bytes": i.size_bytes}
            for i in indexes
        }
        print(json.dumps({**described.to_dict(), "indexes": sizes}, indent=2))
        return
    for name, value in described.lines():
        print(f"{name:<14}{value}")
    for i in indexes:
        held = f"{i.n_entries:,} entries in {i.n_runs:,} runs, {i.size_bytes:,} bytes"
        print(f"{'index':<14}{i.attribute}: {held}")


@app.command()
def query(
    store: StoreOption,
    sql: Annotated[str | None, typer.Argument(help="The query.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the query from a file.")
    ] = None,
    plan: Annotated[
        str, typer.Option("--plan", help="auto, full, tree, all, or indexes=A.x,C.")
    ] = "auto",
    param: Annotated[
        list[str] | None, typer.Option("--param", help="Value of :name, as name=value.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the plan and its rivals; do not run.")
    ] = False,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Print on stderr what happened.")
    ] = False,
    analysis: Annotated[
        Path | None, typer.Option("--analysis", help="Write what happened as JSON.")
    ] = None,
    output_format: Annotated[
        str, typer.Option("--format", help="table, json, csv, parquet or arrow.")
    ] = "table",
    out: Annotated[Path | None, typer.Option("--out", help="Write the answer to a file.")] = None,
    as_of: Annotated[
        int | None, typer.Option("--as-of", help="Version of the stream to answer on.")
    ] = None,
) -> None:
    """Answer a pattern query over history.

    Example: chronicle query -f robbery.sql --store data --analyze
    """
    import replay
    from chronicle import open_store

    text = _query_text(sql, file)
    if output_format not in FORMATS:
        raise typer.BadParameter(f"use one of {', '.join(FORMATS)}", param_hint="--format")
    for target in filter(None, (out, analysis)):
        _check_target(target)
    params = _parameters(param or [])
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Compiled matching hears no handler of Python's: let Ctrl-C end the process as it is.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    opened = open_store(store)
    if explain:
        explanation = replay.explain(opened, text, params=params, plan=plan, as_of=as_of)
        shown = explanation.to_dict()
        print(json.dumps(shown, indent=2) if output_format == "json" else explanation)
        return
    result = replay.query(opened, text, params=params, plan=plan, as_of=as_of)
    _write_answer(result, output_format, out)
    if analyze:
        _say(result.analysis())
    else:
        for warning in result.actual.warnings:
            _say(f"warning: {warning}")
    if analysis is not None:
        analysis.write_text(json.dumps(result.stats, indent=2) + "\n")


@app.command()
def demo(
    store: Annotated[
        Path, typer.Option("--store", help="Folder for the demo's store; made new each time.")
    ] = Path("demo-store"),
) -> None:
    """Ingest twelve years of real crime reports and ask three questions about them.

    Example: chronicle demo
    """
    from datasets.tour import run_tour

    run_tour(store, command=_own_name(), say=_say, show=_print_result)


def _own_name() -> str:
    """Return what the user typed to get here, for commands to try next."""
    typed = Path(sys.argv[0])
    return str(typed) if typed.name == "chronicle" else "chronicle"


def _query_text(sql: str | None, file: Path | None) -> str:
    """Return the query from the argument or the file, whichever was given."""
    if (sql is None) == (file is None):
        raise typer.BadParameter("give the query as an argument or with --file, not both")
    if file is None:
        return str(sql)
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"cannot read '{file}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"'{file}' is not UTF-8 text ({error.reason})") from error


def _check_target(target: Path) -> None:
    """Check that a file can be written here, before the query takes its time."""
    if target.is_dir():
        raise typer.BadParameter(f"cannot write '{target}': it is a folder")
    if not target.parent.is_dir():
        raise typer.BadParameter(f"cannot write '{target}': there is no folder '{target.parent}'")


def _parameters(given: list[str]) -> dict[str, object]:
    """Read ``name=value`` pairs; numbers and true/false become what they look like."""
    params: dict[str, object] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"'{pair}' is not name=value", param_hint="--param")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    return params


def _write_answer(result: Result, output_format: str, out: Path | None) -> None:
    from replay.formats import write_answer

    if output_format == "table":
        if out is not None:
            raise typer.BadParameter("give --format json, csv, parquet or arrow with --out")
        _print_result(result)
    elif out is not None:
        with out.open("wb") as stream:
            write_answer(result.table, output_format, stream)
    else:
        write_answer(result.table, output_format, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _print_result(result: Result, rows_max: int = 40) -> None:
    """Print an answer as a table for a person."""
    shown = result.table.slice(0, rows_max)
    rows = [tuple(_cell(value) for value in row.values()) for row in shown.to_pylist()]
    _print_table(tuple(result.table.column_names), rows)
    if len(result) > rows_max:
        print(f"… {len(result) - rows_max:,} more rows (--format json shows all)")
    else:
        print(f"{len(result):,} {'row' if len(result) == 1 else 'rows'}", flush=True)


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def _print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for name in head:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        # As text: brackets and colons in values are no markup, and no names of pictures.
        table.add_row(*map(Text, row))
    # Not a terminal: no wrapping, so that other programs can read the lines.
    console = Console() if sys.stdout.isatty() else Console(width=240)
    console.print(table)


if __name__ == "__main__":
    main()
