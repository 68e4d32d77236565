"""Decide what an ingest is about before Spark starts: the stream, its settings, what is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from chronicle.derived import DerivedWriter
from chronicle.errors import NoEventError, SchemaError, SourceError, did_you_mean
from chronicle.ingest.report import AppendOptions, IngestOptions
from chronicle.ingest.source_memory import (
    Sorted,
    Source,
    check_none_changed,
    read_source,
    remembered,
    sort_sources,
    stamp_of,
)
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

    is_following: bool = False
    """Whether files come one after the other: those that changed are passed over, and a stream
    takes files without any event, too."""

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

    found: Sorted = field(default_factory=Sorted)
    """The sources by what the stream has of them, as far as that was looked up."""

    memory: Mapping[str, int] = field(default_factory=dict)
    """What the stream remembers of sources."""

    n_taken_of_tables: int = 0
    """Files of Delta tables that were taken before."""

    @property
    def n_skipped(self) -> int:
        """Number of the sources that were taken before."""
        return len(self.found.had) + len(self.found.renamed) + self.n_taken_of_tables

    @property
    def stream_end(self) -> int | None:
        """Time of the stream's last event; None without one."""
        return self.live[-1].t_max if self.live else None


class Checksums:
    """Checksums of sources, each computed once and beside other work."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._found: dict[Path, Future[Source]] = {}

    def begin(self, sources: SourceSet) -> None:
        """Begin to read files."""
        for path in sources.files:
            if path not in self._found:
                said = None if sources.tables else sources.values.get(path)
                self._found[path] = self._pool.submit(read_source, path, said, stamp_of(path))

    def of(self, sources: SourceSet) -> list[Source]:
        """Return what was found out, once it was."""
        self.begin(sources)
        return [self._found[path].result() for path in sources.files]

    def known(self) -> list[Source]:
        """Return what has been found out so far, of whatever files."""
        done = (one for one in self._found.values() if one.done() and one.exception() is None)
        return [one.result() for one in done]

    def forget(self, paths: Iterable[Path]) -> None:
        """Forget files that changed or are gone."""
        for path in paths:
            self._found.pop(path, None)


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
        left, found = _left_to_take(request, {}, sources, checksums)
        return Job(request, None, 0, (), settings, options.index, late, left, found)
    stream = request.store.stream(request.stream_name)
    stream.check_writable()
    check_settings(request.stream_name, stream.settings, options)
    snapshot = stream.snapshot()  # before the sources are looked up, see ``remembered``
    memory = remembered(stream)
    left, found = _left_to_take(request, memory, sources, checksums)
    return Job(
        request,
        stream,
        snapshot.version,
        tuple(snapshot.files),
        stream.settings,
        to_attributes(stream, options),
        late,
        left,
        found,
        memory,
        sources.n_taken,
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
    request: Request, memory: Mapping[str, int], sources: SourceSet, checksums: Checksums
) -> tuple[SourceSet, Sorted]:
    """Return the sources to take, and what the stream has of the others; reads what it must."""
    if request.options.again:
        return sources, Sorted()
    to_read = sources if memory else _of_like_size(sources)
    read = checksums.of(to_read)
    beside = checksums.known() if request.is_following else ()
    found = sort_sources(memory, read, beside, by_content=not sources.tables)
    if not request.is_following:
        check_none_changed(request.stream_name, found)
    new = {Path(one.spelled) for one in found.new}
    unread = set(sources.files) - set(to_read.files)
    return sources.only(new | unread), found


def _of_like_size(sources: SourceSet) -> SourceSet:
    """Return the sources that may have the content of another one."""
    count = Counter(sources.sizes_bytes)
    by_size = zip(sources.files, sources.sizes_bytes, strict=True)
    return sources.only({path for path, size in by_size if count[size] > 1})


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
) -> NoEventError:
    """Return the refusal of files that hold no event, only ``n_bad`` other records.

    ``reasons`` are theirs, the most frequent one first, where they are known.
    """
    if n_bad == 0:
        return NoEventError(f"{where} holds no event; nothing was taken, name another file")
    if reasons is not None and list(reasons) == [Fault.NO_TIME.reason(time)]:
        return NoEventError(
            f"every time in column '{time}' of {where} is missing; nothing was taken, fill the "
            "column in, or name a file that has times there"
        )
    told = ", ".join(because(reasons or {}))
    return NoEventError(
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
