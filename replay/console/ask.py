"""Commands that ask: query, demo, streams, describe, history."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chronicle.errors import StorageError
from chronicle.words import number_of
from replay.console.answers import FOR_PEOPLE, FORMATS, check_target, read_targets, write_to
from replay.console.options import (
    ExpandedOption,
    JsonOption,
    MaxRowsOption,
    MemoryOption,
    ReportOption,
    RowsOption,
    StoreOption,
    StreamArgument,
    TableOption,
    ThreadsOption,
    TimeoutOption,
    limits,
    out_path,
    parameters,
    store_path,
    stream_of,
    tables_of,
)
from replay.console.show import ROWS_SHOWN, own_name, print_result, print_table, say
from replay.console.startup import end_at_once_at_ctrl_c, keep_heavy_libraries_out

if TYPE_CHECKING:
    import pyarrow as pa

    from replay.console.answers import Target
    from replay.query import Explanation
    from replay.result import Answer, Result

FORMATS_EXPLAINED = ("table", "json")
"""Those a plan can be printed in: as text, or for machines."""

STANDARD_INPUT = Path("-")


def query(
    context: typer.Context,
    store: StoreOption,
    sql: Annotated[str | None, typer.Argument(help="The query.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the query from a file; - is stdin.")
    ] = None,
    plan: Annotated[
        str,
        typer.Option(
            "--plan",
            help="auto, full, tree, all, relevant, index-only, or indexes=A.x,C; of windows also "
            "replay, tree-naive.",
        ),
    ] = "auto",
    param: Annotated[
        list[str] | None, typer.Option("--param", help="Value of :name, as name=value.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the plan and its steps; do not run.")
    ] = False,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Print on stderr what happened.")
    ] = False,
    analysis: Annotated[
        Path | None, typer.Option("--analysis", help="Write what happened as JSON.")
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option("--format", help=f"{', '.join(FORMATS)}; of --out by the file's ending."),
    ] = None,
    expanded: ExpandedOption = False,
    rows: RowsOption = ROWS_SHOWN,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write the answer to a file; several, to a folder.", callback=out_path
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="Version of the stream to answer on: its number or a time."),
    ] = None,
    report: ReportOption = None,
    skip_damaged: Annotated[
        bool,
        typer.Option("--skip-damaged", help="Answer without damaged data files, and name them."),
    ] = False,
    timeout: TimeoutOption = None,
    max_rows: MaxRowsOption = None,
    memory: MemoryOption = None,
    table: TableOption = None,
    threads: ThreadsOption = 1,
) -> None:
    """Answer a query over history, or keep its answer: CREATE STREAM … AS ….

    Several, with ; between them, are answered one after the other, over the same versions.

    Example: chronicle query -f robbery.sql --store data --analyze
    """
    keep_heavy_libraries_out()
    import replay
    from chronicle import open_store
    from replay.language.statements import split_statements
    from replay.query import answers_in_pieces
    from replay.running.statement import needs_clearing_up, unused_parameters

    text = _query_text(sql, file)
    statements = split_statements(text)
    if explain:
        _refuse_of_answers(
            {
                "--out": out,
                "--analysis": analysis,
                "--analyze": analyze,
                "--skip-damaged": skip_damaged,
                "--timeout": timeout,
                "--max-rows": max_rows is not None,
                "--memory": memory,
            }
        )
    _refuse_of_one({"--report": report, "--analysis": analysis}, len(statements))
    targets = read_targets(len(statements), output_format, out, rows, is_expanded=expanded)
    if explain and targets[0].output_format not in FORMATS_EXPLAINED:
        raise typer.BadParameter(
            f"--explain prints no rows; use {' or '.join(FORMATS_EXPLAINED)}",
            param_hint="--format",
        )
    if analysis is not None:
        check_target(analysis)
    params = parameters(param or [])
    for unused in unused_parameters(text, params):
        raise typer.BadParameter(f"the query has no parameter {unused}", param_hint="--param")
    if not any(map(needs_clearing_up, statements)):
        context.call_on_close(end_at_once_at_ctrl_c())
    opened = open_store(store)
    if explain:
        for n, statement in enumerate(statements):
            _part(n, targets[0])
            explanation = replay.explain(
                opened, statement, params=params, tables=tables_of(table), plan=plan, as_of=as_of
            )
            if report is not None:
                explanation.report(report)
            print_explained(explanation, targets[0].output_format)
        return
    answers = answers_in_pieces(
        opened,
        statements,
        params=params,
        tables=tables_of(table),
        plan=plan,
        as_of=as_of,
        skip_damaged=skip_damaged,
        limits=limits(timeout, max_rows, memory),
        threads=threads,
    )
    for n, (target, answer) in enumerate(zip(targets, answers, strict=True)):
        _part(n, target)
        _tell(_written(answer, target, report), analyze, analysis)


def print_explained(explanation: Explanation, output_format: str) -> None:
    """Print a plan, for machines where the format is that of JSON."""
    is_json = output_format == "json"
    print(json.dumps(explanation.to_dict(), indent=2) if is_json else explanation)


def _part(n: int, target: Target) -> None:
    """Make room for answer ``n``: a line behind the one before, or the folder of its file."""
    if n and target.output_format in FOR_PEOPLE:
        print()
    if target.is_one_of_several and target.out is not None:
        target.out.parent.mkdir(exist_ok=True)


def _tell(result: Result, analyze: bool, analysis: Path | None) -> None:
    """Say on stderr what happened, or what to beware of, and write it to a file."""
    if analyze:
        say(result.analysis())
    else:
        for warning in result.actual.warnings:
            say(f"warning: {warning}")
    if analysis is not None:
        analysis.write_text(json.dumps(result.stats, indent=2) + "\n")


def _written(answer: Answer, target: Target, report: Path | None) -> Result:
    """Write an answer, and a page of it where one is wanted; return what happened."""
    kept: list[pa.Table] = []
    tables = answer.tables if report is None else _kept(answer.tables, kept)
    write_to(target, tables, answer.share)
    result = answer.told()
    if report is not None:
        result.with_rows(kept).report(report)
    return result


def _kept(tables: Iterator[pa.Table], kept: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables and keep them."""
    for table in tables:
        kept.append(table)
        yield table


def demo(
    store: Annotated[
        Path,
        typer.Option(
            "--store", help="Folder for the demo's store; made new each time.", callback=store_path
        ),
    ] = Path("demo-store"),
) -> None:
    """Ingest twelve years of real crime reports and ask three questions about them.

    Example: chronicle demo
    """
    run_tour = _tour()
    run_tour(store, command=own_name(), say=say, show=print_result)


def _tour() -> Callable[..., None]:
    """Return the tour of the checkout this package runs from; an installed package has none.

    ``datasets`` is also the name of a well-known package: the checkout's folder comes first.
    """
    from chronicle.errors import EnvironmentFaultError

    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / "datasets" / "tour.py").is_file():
        raise EnvironmentFaultError(
            "the demo and its data are part of Chronicle's repository, not of the installed "
            "package; get a checkout and run 'make demo' there"
        )
    sys.path.insert(0, str(checkout))
    tour: Callable[..., None] = import_module("datasets.tour").run_tour
    return tour


def streams(store: StoreOption) -> None:
    """List the streams of a store.

    Example: chronicle streams --store data
    """
    from chronicle import open_store
    from chronicle.describe import describe_stream
    from chronicle.stream_folder import unlogged_streams

    opened = open_store(store)
    lost = unlogged_streams(opened.path)
    rows = [(name, "damaged", "", "") for name in lost]
    faults = [
        f"stream '{name}' has lost the log of its events; run chronicle check" for name in lost
    ]
    for name in opened.stream_names():
        try:
            shown = describe_stream(opened.stream(name).snapshot()).to_dict()
        except StorageError as error:
            faults.append(f"stream '{name}' cannot be read: {error}")
            rows.append((name, "damaged", "", ""))
            continue
        first, last = (str(shown[end]) if shown["n_events"] else "" for end in ("t_min", "t_max"))
        rows.append((name, f"{shown['n_events']:,}", first, last))
    print_table(("stream", "events", "first", "last"), sorted(rows))
    for fault in faults:
        say(f"error: {fault}")
    if faults:
        raise typer.Exit(1)


def describe(
    stream: StreamArgument,
    store: StoreOption,
    as_json: JsonOption = False,
    report: ReportOption = None,
) -> None:
    """Print time range, counts, tree levels, indexes and sizes of a stream.

    Example: chronicle describe crimes --store data --report crimes.html
    """
    from chronicle.describe import describe_stream
    from indexing import open_indexes

    found = stream_of(store, stream)
    snapshot, lineage = found.snapshot(), found.lineage
    described = describe_stream(snapshot)
    opened = open_indexes(snapshot)
    indexes = [opened.index(attribute) for attribute in opened.attributes]
    if report is not None:
        from replay.report.files import write
        from replay.report.streams import stream_page

        write(report, stream_page(found))
    if as_json:
        sizes = {
            i.attribute: {
                "entries": i.n_entries,
                "runs": i.n_runs,
                "bytes": i.size_bytes,
                "bytes_per_event": described.per_event(i.size_bytes),
            }
            for i in indexes
        }
        made_by = None if lineage is None else asdict(lineage)
        shown = {**described.to_dict(), "indexes": sizes, "made_by": made_by}
        print(json.dumps(shown, indent=2))
        return
    for name, value in described.lines():
        print(f"{name:<14}{value}")
    for i in indexes:
        held = f"{number_of(i.n_entries, 'entry', 'entries')} in {number_of(i.n_runs, 'run')}"
        print(f"{'index':<14}{i.attribute}: {held}, {described.sizes(i.size_bytes)}")
    if lineage is not None:
        print(f"{'made by':<14}{lineage}")


def history(stream: StreamArgument, store: StoreOption, as_json: JsonOption = False) -> None:
    """List the versions of a stream, newest first, and what made them.

    Example: chronicle history crimes --store data
    """
    from chronicle.describe import history as versions

    entries = versions(stream_of(store, stream))
    if as_json:
        print(json.dumps([entry.to_dict() for entry in entries], indent=2))
        return
    rows = [
        (
            str(entry.version),
            entry.time.isoformat(timespec="seconds").replace("+00:00", "Z"),
            entry.operation,
            _count(entry.n_events),
            _count(entry.n_late),
            _count(entry.n_events_total),
            ", ".join(Path(source).name for source in entry.sources),
        )
        for entry in entries
    ]
    heads = ("version", "committed", "operation", "events", "late", "in all", "files")
    print_table(heads, rows)


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _query_text(sql: str | None, file: Path | None) -> str:
    """Return the query from the argument or the file, whichever was given."""
    from chronicle.paths import kind_of_special

    if sql is None and file is None:
        raise typer.BadParameter("give a query, as an argument or with --file")
    if sql is not None and file is not None:
        raise typer.BadParameter("give the query as an argument or with --file, not both")
    if file is None:
        return str(sql)
    special = None if file == STANDARD_INPUT else kind_of_special(file)
    if special is not None:
        raise typer.BadParameter(f"'{file}' is {special}, not a file; give its text to --file -")
    try:
        if file == STANDARD_INPUT:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"cannot read '{file}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"'{file}' is not UTF-8 text ({error.reason})") from error


def _refuse_of_answers(given: Mapping[str, object]) -> None:
    """Refuse options that say what becomes of an answer: an explanation has none."""
    for option, value in given.items():
        if value:
            raise typer.BadParameter(
                "--explain runs nothing, so there is no answer; leave one of the two out",
                param_hint=option,
            )


def _refuse_of_one(given: Mapping[str, object], n_statements: int) -> None:
    """Refuse options that are for the answer of one statement, of several."""
    for option, value in given.items():
        if value is not None and n_statements > 1:
            raise typer.BadParameter(
                f"it is of one answer, and there are {n_statements} statements; ask them one by "
                "one, or leave it out",
                param_hint=option,
            )
