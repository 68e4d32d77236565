"""Decide what an ingest is about before Spark starts: the stream, its settings, what is new."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from chronicle.config import EVENTS_TABLE
from chronicle.derived import DerivedWriter
from chronicle.errors import SchemaError, SourceError, did_you_mean
from chronicle.ingest.report import AppendOptions, IngestOptions
from chronicle.ingest.source_memory import Source, fingerprints, names_of, read_source, taken
from chronicle.ingest.sources import SourceSet
from chronicle.ingest.times import Fault
from chronicle.log import delta_log
from chronicle.log.stream_metadata import declared_tables
from chronicle.schema import composite_parts
from chronicle.settings import StreamSettings
from chronicle.snapshot import DataFile
from chronicle.store import Store, Stream
from chronicle.stream_folder import check_stream_name, check_unclaimed
from chronicle.time import TimeType
from chronicle.tree.derived_attributes import canonical_names, check_derived
from chronicle.words import because
from chronicle.write.append import Late


class DerivedFactory(Protocol):
    """Makes what derives indexes (``indexing.RunWriter`` is one)."""

    def __call__(
        self, attributes: tuple[str, ...], time: str, *, key: str | None = None
    ) -> DerivedWriter:
        """Return what derives indexes on ``attributes``."""
        ...


Lateness = timedelta | int
"""How much older than the end of the stream an event may be, in the unit of its time."""


@dataclass(frozen=True, slots=True)
class Request:
    """What an ingest was asked to do; stays the same over all attempts."""

    store: Store
    stream_name: str
    options: IngestOptions
    derived: DerivedFactory | None
    progress: Callable[[str], None]
    lateness: Lateness | None = None
    """Late events older than this go to the quarantine; None merges all."""

    transactions: Mapping[str, int] = field(default_factory=dict)
    """Application ids and rising numbers; a number that the stream has means all was done."""

    may_be_empty: bool = False
    """Whether sources without any event are fine."""

    attempts_max: int = 3
    """Times it is begun because others committed first what it does not go with."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one attempt at an ingest is about."""

    request: Request
    stream: Stream | None
    """None if the stream is new."""

    version: int
    """Version of the stream the attempt is prepared on."""

    live: tuple[DataFile, ...]
    """Its data files, in stream order."""

    settings: StreamSettings
    attributes: tuple[str, ...]
    """To index."""

    late: Late
    sources: SourceSet
    """Those that are not taken yet."""

    n_skipped: int
    """Number of those that are."""

    @property
    def stream_end(self) -> int | None:
        """Time of the stream's last event; None without one."""
        return self.live[-1].t_max if self.live else None


class Checksums:
    """Checksums of sources, each computed once and beside other work."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._found: dict[Path, Future[Source]] = {}

    def begin(self, paths: Sequence[Path]) -> None:
        """Begin to read files."""
        for path in paths:
            if path not in self._found:
                self._found[path] = self._pool.submit(read_source, path)

    def of(self, paths: Sequence[Path]) -> list[Source]:
        """Return what was found out, once it was."""
        self.begin(paths)
        return [self._found[path].result() for path in paths]


def prepare(request: Request, sources: SourceSet, checksums: Checksums) -> Job:
    """Look at the stream as it is now, check that the options fit it, and see what is new.

    A source that was taken and has other content now is refused, and so are data files of a stream
    whose log is lost where a new one is to be.
    """
    options = request.options
    late = check_options(request)
    if request.stream_name not in request.store.stream_names():
        check_unclaimed(request.store.path / request.stream_name)
        settings = StreamSettings(
            time=options.time, key=options.key, derived=canonical_names(options.derive)
        )
        if options.block_events is not None:
            settings = replace(settings, block_events=options.block_events)
        if options.file_events is not None:
            settings = replace(settings, file_events=options.file_events)
        return Job(request, None, 0, (), settings, options.index, late, sources, 0)
    stream = request.store.stream(request.stream_name)
    stream.check_writable()
    check_settings(request.stream_name, stream.settings, options)
    snapshot = stream.snapshot()  # before the sources are looked up, see ``fingerprints``
    left = _left_to_take(request, stream, sources, checksums)
    return Job(
        request,
        stream,
        snapshot.version,
        tuple(snapshot.files),
        stream.settings,
        to_attributes(stream, options),
        late,
        left,
        len(sources.files) - len(left.files) + sources.n_taken,
    )


def check_options(request: Request) -> Late:
    """Check what needs no stream and no source; return what becomes of late events."""
    options = request.options
    check_stream_name(request.stream_name)
    if len(set(options.index)) != len(options.index):
        raise SchemaError("an attribute to index is named twice; name each once")
    late = Late.of(options.late)
    if request.lateness is not None:
        if late is not Late.MERGE:
            raise SourceError(
                "lateness bounds which late events are merged, and they are not to be merged; "
                f"leave it out, or --late {late}"
            )
        if _is_negative(request.lateness):
            raise SourceError(f"lateness is {request.lateness}; give none below zero")
    return late


def _is_negative(lateness: Lateness) -> bool:
    return lateness < timedelta() if isinstance(lateness, timedelta) else lateness < 0


def _left_to_take(
    request: Request, stream: Stream, sources: SourceSet, checksums: Checksums
) -> SourceSet:
    """Return the sources the stream has not taken; reads those it may have."""
    done = delta_log.transaction_versions(stream.path / EVENTS_TABLE, list(request.transactions))
    if any(done.get(name, -1) >= number for name, number in request.transactions.items()):
        return sources.only(())
    if request.options.again:
        return sources
    names = {path: names_of(path) for path in sources.files}
    known = fingerprints(stream, [name for path in sources.files for name in names[path]])
    had = taken(
        stream,
        checksums.of([path for path in sources.files if not known.keys().isdisjoint(names[path])]),
    )
    return sources.only({path for path in sources.files if had.isdisjoint(names[path])})


def check_settings(
    name: str, settings: StreamSettings, options: IngestOptions | AppendOptions
) -> None:
    """Check that what is given is what the stream has: its settings never change."""
    if options.time not in (None, settings.time):
        raise SchemaError(
            f"stream '{name}' is ordered by '{settings.time}', not by '{options.time}'; "
            f"give --time {settings.time}, or take the files into a new stream"
        )
    new = [name for name in canonical_names(options.derive) if name not in settings.derived]
    if new:
        raise SchemaError(
            f"stream '{name}' does not derive '{new[0]}'; index it with 'chronicle index create', "
            "which declares it, or take the files into a new stream"
        )
    for option in ("key", "block_events", "file_events"):
        given, has = getattr(options, option, None), getattr(settings, option)
        if given is not None and given != has:
            raise SchemaError(
                f"stream '{name}' has {option.replace('_', ' ')} {has!r}, not {given!r}, and it "
                "cannot be changed; leave it out, or take the files into a new stream"
            )


def nothing_usable(
    where: str, time: str, n_bad: int, reasons: Mapping[str, int] | None = None
) -> SourceError:
    """Return the refusal of files that hold no event, only ``n_bad`` other records.

    ``reasons`` are theirs, the most frequent one first, where they are known.
    """
    if n_bad == 0:
        return SourceError(f"{where} holds no event; nothing was taken, name another file")
    if reasons is not None and list(reasons) == [Fault.NO_TIME.reason(time)]:
        return SourceError(
            f"every time in column '{time}' of {where} is missing; nothing was taken, fill the "
            "column in, or name a file that has times there"
        )
    told = ", ".join(because(reasons or {}))
    return SourceError(
        f"none of the {n_bad:,} records in {where} has a usable time in column '{time}' and cells "
        f"that parse{f' ({told})' if told else ''}; nothing was taken, check --time, "
        "--time-format, --time-unit and --schema"
    )


def to_attributes(stream: Stream, options: IngestOptions) -> tuple[str, ...]:
    """Return what is to be indexed: what the stream has, or lost, index tables for, and asked."""
    folder = stream.path / "index"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    tables = [
        table.name
        for table in found
        if not table.name.startswith(".") and delta_log.table_exists(table)
    ]
    declared = [table.removeprefix("index/") for table in declared_tables(stream.path)]
    return tuple(dict.fromkeys((*tables, *declared, *options.index)))


def to_writer(
    request: Request, settings: StreamSettings, attributes: tuple[str, ...]
) -> DerivedWriter | None:
    """Return what writes indexes on ``attributes``; None if nothing does."""
    if request.derived is None or not attributes:
        return None
    return request.derived(attributes, settings.time, key=settings.key)


def check_names(job: Job, schema: pa.Schema) -> None:
    """Check that the columns with a role are there, and what can be derived from them."""
    check_derived(schema, job.settings.derived, key=job.settings.key)
    roles = [("key column", job.settings.key)]
    for attribute in job.request.options.index:
        parts = composite_parts((*schema.names, *job.settings.derived), attribute)
        roles += [("column to index", part) for part in parts or (attribute,)]
    for role, name in roles:
        if name is not None and name not in (*schema.names, *job.settings.derived):
            raise SchemaError(
                f"no {role} '{name}' (columns: {', '.join(schema.names)})"
                f"{did_you_mean(name, schema.names)}"
            )


def to_units(lateness: Lateness | None, kind: TimeType) -> int | None:
    """Return a lateness in the internal unit of a stream's time. Pure.

    A duration is refused where time is an integer, a number where it is a timestamp.
    """
    if lateness is None:
        return None
    if isinstance(lateness, timedelta):
        if kind == "integer":
            raise SchemaError(
                f"the stream's time is an integer, and lateness is the duration {lateness}; "
                "give it as a number in the unit of the time"
            )
        return lateness // timedelta(microseconds=1)
    if kind != "integer":
        raise SchemaError(
            f"the stream's time is a timestamp, and lateness is the number {lateness}; "
            "give it as a duration"
        )
    return lateness
