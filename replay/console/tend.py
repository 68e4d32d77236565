"""Commands that tend streams: their files, columns and names, and what breaks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chronicle.errors import StorageError, StreamNotFoundError
from chronicle.words import number_of
from replay.console.options import (
    JsonOption,
    SparkOption,
    StoreOption,
    StreamArgument,
    YesOption,
    confirm,
    duration,
    store_of,
    stream_of,
    time_range,
)
from replay.console.progress import Progress
from replay.console.show import say

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from chronicle.jobs import Runner
    from chronicle.maintenance.finding import Finding
    from chronicle.store import Store


def runner(spark: str | None, progress: Progress) -> AbstractContextManager[Runner]:
    """Lend what runs jobs, and tells how many are done: Spark, or threads of this process."""
    if spark is None:
        from chronicle.jobs import run_locally

        return nullcontext(partial(run_locally, told=progress.count))
    from chronicle.ingest import open_runner

    return open_runner(spark, told=progress.count)


def compact(
    stream: StreamArgument,
    store: StoreOption,
    full: Annotated[
        bool, typer.Option("--full", help="Merge all there is, whatever it costs.")
    ] = False,
    spark: SparkOption = None,
) -> None:
    """Merge small data files, and runs of indexes.

    Example: chronicle compact crimes --store data --full
    """
    from chronicle.maintenance.compaction import compact_events, merged
    from indexing.lifecycle import compact_index
    from indexing.writer import writer_for

    opened = stream_of(store, stream)
    with Progress("compacting") as progress, runner(spark, progress) as lent:
        report = compact_events(
            opened, derived=writer_for(opened), full=full, runner=lent, progress=progress
        )
        say(str(report))
        if report.fault is not None:
            say(f"warning: {report.fault}")
        for index in compact_index(opened, full=True, runner=lent) if full else ():
            runs = merged(index.n_runs_before, index.n_runs_after, "run")
            say(f"index '{index.attribute}': {runs}")


def vacuum(
    stream: StreamArgument,
    store: StoreOption,
    retain: Annotated[
        str, typer.Option("--retain", help="For how long older versions stay.")
    ] = "7 days",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed; remove nothing.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Delete the files that no retained version needs.

    Example: chronicle vacuum crimes --store data --retain "7 days" --dry-run
    """
    from chronicle.config import VACUUM_RETENTION
    from chronicle.maintenance.vacuum import vacuum as run
    from indexing.writer import writer_for

    retention = duration(retain, hint="--retain")
    opened = stream_of(store, stream)
    if retention < VACUUM_RETENTION and not dry_run:
        confirm(
            f"Versions of '{stream}' older than {retain} cannot be read afterwards, and nobody "
            "must be writing to it now. Go on?",
            yes=yes,
        )
    report = run(opened, derived=writer_for(opened), retention=retention, dry_run=dry_run)
    say(str(report))


def drop(stream: StreamArgument, store: StoreOption, yes: YesOption = False) -> None:
    """Remove a stream with all its versions and indexes; an adopted table stays as it is.

    Example: chronicle drop crimes --store data
    """
    from chronicle.write.lifecycle import drop_stream

    opened = store_of(store)
    held = _held(opened, stream)
    confirm(f"Drop stream '{stream}' with its {held}, for good?", yes=yes)
    drop_stream(opened, stream)
    say(f"stream '{stream}' dropped, {held}")


def _held(store: Store, name: str) -> str:
    """Return what a stream holds, in words; one too damaged to be opened can be dropped as well."""
    try:
        found = store.stream(name)
        if found.settings.adopted_from is not None:
            return f"tree and indexes of '{found.settings.adopted_from}', which stays as it is"
        return number_of(found.snapshot().n_events, "event")
    except StreamNotFoundError:
        raise
    except StorageError:
        return "damaged events"


def rename(
    stream: StreamArgument,
    new: Annotated[str, typer.Argument(help="Its new name.")],
    store: StoreOption,
) -> None:
    """Give a stream another name.

    Example: chronicle rename crimes crimes_of_denver --store data
    """
    from chronicle.write.lifecycle import rename_stream

    rename_stream(store_of(store), stream, new)
    say(f"stream '{stream}' is '{new}' now")


def delete(
    stream: StreamArgument,
    store: StoreOption,
    start: Annotated[
        str | None, typer.Option("--from", help="First time to delete; from the beginning on.")
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", help="First time to keep; to the end.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Delete the events of a range of time; vacuum takes them off the disk.

    Example: chronicle delete crimes --store data --from 2011-01-01 --to 2011-02-01T12:00
    """
    from chronicle.write.lifecycle import delete_range, plan_deletion
    from indexing.writer import writer_for

    if start is None and stop is None:
        raise typer.BadParameter("give --from, --to or both; 'chronicle drop' removes a stream")
    opened = stream_of(store, stream)
    first, end = time_range(opened, start, stop)
    n_events = plan_deletion(opened.snapshot(), first, end).n_events
    confirm(f"Delete {number_of(n_events, 'event')} of stream '{stream}'?", yes=yes)
    with Progress("deleting") as progress:
        report = delete_range(opened, first, end, derived=writer_for(opened), progress=progress)
    say(str(report))
    if report.fault is not None:
        say(f"warning: {report.fault}")


def add_column(
    stream: StreamArgument,
    name: Annotated[str, typer.Argument(help="Name of the column.")],
    data_type: Annotated[
        str, typer.Argument(metavar="TYPE", help="Its type, as double, bigint or string.")
    ],
    store: StoreOption,
) -> None:
    """Add a column to a stream; the events there are have no value in it.

    Example: chronicle add-column crimes weapon string --store data
    """
    from chronicle.write.evolve import add_column as run

    version = run(stream_of(store, stream), name, data_type)
    say(f"stream '{stream}' has column '{name}' from version {version} on")


def check(
    store: StoreOption,
    stream: Annotated[str | None, typer.Argument(help="Name of the stream; else all.")] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Compare all derived data with the events.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say of everything that was checked how it is.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify that nothing is damaged, and name what is; exit code 1 if there is a fault.

    Example: chronicle check crimes --store data --deep
    """
    from chronicle.maintenance.check import check_store, check_stream
    from chronicle.maintenance.finding import faults_of
    from chronicle.stream_folder import is_stream_name
    from indexing.check import check_runs

    if stream is not None and (not is_stream_name(stream) or not (store / stream).is_dir()):
        stream_of(store, stream)  # says which streams there are
    with Progress("checking") as progress:
        checks: dict[str, Any] = {
            "deep": deep,
            "derived_checks": [check_runs],
            "told": progress.count,
        }
        if stream is None:
            findings = check_store(store, **checks)
        else:
            findings = check_stream(store / stream, **checks)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        print("\n".join(report_lines(findings, verbose=verbose)))
    if faults_of(findings):
        raise typer.Exit(1)


def report_lines(findings: Sequence[Finding], *, verbose: bool) -> list[str]:
    """Return what a check says to a person: what is wrong, or everything, and a summary. Pure."""
    counts = Counter(finding.severity.value for finding in findings)
    lines = []
    for finding in findings:
        if verbose or finding.severity != "ok":
            where = f" ({finding.file})" if finding.file else ""
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            lines.append(f"{finding.severity:<9}{finding.invariant}: {finding.what}{where}{remedy}")
    wrong = [number_of(counts[kind], kind) for kind in ("fault", "warning") if counts[kind]]
    whole = f"{number_of(counts['ok'], 'check')} found nothing wrong"
    return [*lines, ", ".join([*wrong, whole])]


def repair(
    store: StoreOption,
    stream: Annotated[str | None, typer.Argument(help="Name of the stream; else all.")] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Compare all derived data with the events first.")
    ] = False,
) -> None:
    """Make tree and indexes whole again from the events, and clear what killed work left.

    Example: chronicle repair crimes --store data
    """
    from chronicle.maintenance.repair import put_aside_torn, remove_stale_hints, repair_stream
    from chronicle.stream_folder import check_unclaimed, is_stream_name, with_unlogged
    from indexing.check import check_runs
    from indexing.writer import writer_for

    opened = store_of(store)
    n_left = 0
    every = with_unlogged(opened.stream_names(), opened.path) if stream is None else [stream]
    for name in every:
        try:
            if not is_stream_name(name):
                raise StreamNotFoundError(name, candidates=opened.stream_names())
            check_unclaimed(opened.path / name)
            for place in put_aside_torn(opened.path / name):
                say(_kept(opened.path, place))
            for hint in remove_stale_hints(opened.path / name):
                say(f"{hint} named a checkpoint that is gone and was removed")
            one = opened.stream(name)
            report = repair_stream(
                one, derived=writer_for(one), derived_checks=[check_runs], deep=deep
            )
        except StorageError as error:
            # One stream that only a copy can save must not keep the others from being repaired.
            say(f"stream '{name}' cannot be repaired: {error}")
            n_left += 1
            continue
        n_left += len(report.left)
        for place in report.put_aside:
            say(_kept(opened.path, place))
        say(
            f"stream '{name}': {number_of(len(report.replaced), 'damaged file')} taken out, "
            f"{report.n_written:,} written, {number_of(len(report.removed), 'leftover')} removed"
        )
        for finding in report.left:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            say(f"{finding.severity:<9}{finding.file}: {finding.what}{remedy}")
    if n_left:
        raise typer.Exit(1)


def _kept(store: Path, place: str) -> str:
    """Return what is said of something that a repair put aside."""
    if (store / place).is_dir():
        return f"a folder lay in the place of a file: it is kept as '{place}'"
    return f"a power failure had cut a file of a log: it is kept as '{place}'"
