"""Adopt a table where it is: verify its files, and keep tree and indexes of them beside links."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronicle.arguments import check_name, check_type
from chronicle.config import EVENTS_TABLE
from chronicle.derived import DerivedFile, DerivedWriter
from chronicle.errors import (
    ChangedFileError,
    CorruptBlockError,
    SchemaError,
    SourceError,
    StorageError,
    did_you_mean,
)
from chronicle.log import delta_log
from chronicle.log.adopted_file import (
    adopted_name,
    fingerprint_in,
    link_target,
    settled_stamp,
    stamp_of,
    to_fingerprint,
)
from chronicle.log.foreign_layouts import check_ordinary, loose_files
from chronicle.ordinal import child, levels_of
from chronicle.parquet_files import open_parquet
from chronicle.paths import check_folder, infer_type, local_path, to_constant, values_in
from chronicle.schema import check_texts, normalise_schema, parquet_schema
from chronicle.settings import StreamSettings
from chronicle.store import Store, Stream
from chronicle.stream_folder import check_stream_name
from chronicle.time import TimeType, is_ascending, show_time, to_int64
from chronicle.tree.blocks import BlockReader
from chronicle.tree.checksummed_file import parse_metadata, read_footer
from chronicle.tree.derived_attributes import canonical_names, extend
from chronicle.type_names import sql_type
from chronicle.words import number_of
from chronicle.write.block_writer import WrittenFile, write_tree
from chronicle.write.commit import (
    ADOPT,
    OPERATION,
    Change,
    commit_change,
    complete_derived,
    remove_uncommitted,
)
from chronicle.write.lifecycle import drop_stream

_PARQUET = (".parquet", ".pq")

INGEST_IT = "take it in with 'chronicle ingest', which puts events in order"


@dataclass(frozen=True, slots=True)
class AdoptableTable:
    """The files of a table at one moment."""

    path: Path
    """Its folder, absolute."""

    version: int | None
    """Of a Delta table; None for Parquet files."""

    schema: pa.Schema
    """As a stream stores it; columns of partitions among the others."""

    files: tuple[str, ...]
    """Paths relative to the folder, sorted."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it was found, not looked into yet."""

    inside: str
    """Path relative to the table."""

    target: str
    """What the link to it is to hold."""

    fingerprint: str
    size_bytes: int
    n_events: int


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The first and the last time of a file; ``subject`` names it for people."""

    subject: str
    t_min: int
    t_max: int
    ordinal: tuple[int, ...]


def find_table(path: str | Path, adopted: pa.Schema | None = None) -> AdoptableTable:
    """Return the table at a path: a Delta table, a folder of Parquet files, or one such file.

    Columns that names of folders give have the types they have in ``adopted``, the schema of a
    stream that the table was made before. Refuses files that cannot be read one by one where they
    are.
    """
    place = local_path(path, what="table").resolve()
    if not place.exists():
        raise SourceError(f"no table at '{place}'; correct the path")
    if delta_log.table_exists(place):
        return _delta_table(place)
    if place.is_file():
        return _parquet_files(place.parent, (place.name,), adopted)
    check_ordinary(place)
    found = loose_files(place, _is_parquet)
    inside = sorted(path.relative_to(place).as_posix() for path in found if _is_parquet(path))
    if not inside:
        raise SourceError(
            f"'{place}' holds neither a Delta table nor Parquet files; name one, or take other "
            "files in with 'chronicle ingest'"
        )
    return _parquet_files(place, tuple(inside), adopted)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in _PARQUET


def _delta_table(place: Path) -> AdoptableTable:
    found = delta_log.load_foreign(place)
    schema = normalise_schema(found.schema)
    for file in found.files:
        said = values_in(file.inside)
        for name, value in file.values.items():
            data_type = schema.field(name).type
            wanted = to_constant(value, data_type, column=name)
            if name not in said or not to_constant(said[name], data_type, column=name).equals(
                wanted
            ):
                raise SourceError(
                    f"the path of '{place / file.inside}' does not say what partition column "
                    f"'{name}' is in it; {INGEST_IT}"
                )
    return AdoptableTable(place, found.version, schema, tuple(file.inside for file in found.files))


def _parquet_files(
    place: Path, inside: tuple[str, ...], adopted: pa.Schema | None
) -> AdoptableTable:
    known = {} if adopted is None else {one.name: one.type for one in adopted}
    first = _stored_schema(place / inside[0])
    said = [values_in(one) for one in inside]
    for name in said[0]:
        if name not in first.names and all(name in values for values in said):
            found = known.get(name) or infer_type(values[name] for values in said)
            first = first.append(pa.field(name, found))
    return AdoptableTable(place, None, first, inside)


def _stored_schema(path: Path) -> pa.Schema:
    """Return the columns of a Parquet file as a stream stores them."""
    try:
        with pq.ParquetFile(path) as file:
            return normalise_schema(parquet_schema(file))
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"'{path}' is not a Parquet file ({error}); take it away") from error
    except SchemaError as error:
        raise SchemaError(f"'{path}': {error}") from error


def find_file(table: AdoptableTable, inside: str) -> FoundFile:
    """Look at a file: what it is now, by its footer."""
    path = table.path / inside
    try:
        stamp = settled_stamp(path)
        with path.open("rb", buffering=0) as file:
            footer = read_footer(cast("BinaryIO", file))
        n_events = parse_metadata(footer).num_rows
        is_at_rest = stamp_of(path) == stamp
    except (OSError, ValueError, pa.ArrowException) as error:
        raise SourceError(f"'{path}' cannot be read ({error}); check the file") from error
    if not is_at_rest:
        raise SourceError(f"'{path}' is being written; run it again once it is whole")
    target = link_target(table.path, inside)
    fingerprint = to_fingerprint(target, stamp, footer)
    return FoundFile(inside, target, fingerprint, stamp.size_bytes, n_events)


def check_file(table: AdoptableTable, inside: str, time: str, kind: TimeType) -> tuple[int, int]:
    """Check that a file can be read as blocks of the stream; return its first and last time.

    Its columns are those of the table, its row groups hold events, and time ascends and is never
    NULL.
    """
    path = table.path / inside
    _check_columns(table, inside)
    with open_parquet(path) as file:
        if time not in file.schema_arrow.names:
            raise SourceError(f"'{path}' has no column '{time}' in itself; {INGEST_IT}")
        borders: list[int] = []
        for group in range(file.metadata.num_row_groups):
            try:
                column = file.read_row_group(group, columns=[time]).column(0)
            except (OSError, pa.ArrowException) as error:
                raise SourceError(f"'{path}' cannot be read ({error}); check the file") from error
            if column.null_count:
                raise SourceError(
                    f"{column.null_count:,} events of '{path}' have no time (column '{time}'), so "
                    f"it cannot be adopted; {INGEST_IT}"
                )
            if len(column) == 0:
                raise SourceError(f"row group {group} of '{path}' is empty; {INGEST_IT}")
            try:
                times = np.asarray(to_int64(column, name=time).to_numpy(), np.int64)
            except SchemaError as error:
                raise SchemaError(f"'{path}' cannot be adopted: {error}") from error
            whole = times if not borders else np.concatenate(([borders[-1]], times))
            if not is_ascending(whole):
                at = int(np.flatnonzero(whole[1:] < whole[:-1])[0])
                later, earlier = (show_time(int(whole[i]), kind) for i in (at + 1, at))
                raise SourceError(
                    f"time goes back from {earlier} to {later} in row group {group} of '{path}', "
                    f"so it cannot be adopted; {INGEST_IT}"
                )
            borders += [int(times[0]), int(times[-1])]
    return borders[0], borders[-1]


def _check_columns(table: AdoptableTable, inside: str) -> None:
    """Check that a file has the table's columns; one of a Delta table may lack some (NULL)."""
    path, said = table.path / inside, values_in(inside)
    found = _stored_schema(path)
    for field in table.schema:
        if field.name in found.names:
            if field.name in said and table.version is not None:
                _check_partition(path, field, said[field.name])
            data_type = found.field(field.name).type
            if data_type != field.type:
                raise SchemaError(
                    f"column '{field.name}' of '{path}' is {sql_type(data_type)}, and the table "
                    f"has it as {sql_type(field.type)}; {INGEST_IT}"
                )
        elif field.name in said:
            if table.version is None:
                check_folder(said[field.name], field.type, column=field.name)
            to_constant(said[field.name], field.type, column=field.name)
        elif table.version is None:
            raise SchemaError(
                f"'{path}' lacks column '{field.name}' that the other files have; {INGEST_IT}"
            )
    unknown = [name for name in found.names if name not in table.schema.names]
    if unknown and table.version is None:
        raise SchemaError(
            f"'{path}' has a column '{unknown[0]}' that the other files lack; {INGEST_IT}"
        )


def _check_partition(path: Path, field: pa.Field, said: str | None) -> None:
    """Check that a partition column that a file holds itself has the value that the log says."""
    wanted = to_constant(said, field.type, column=field.name)
    with open_parquet(path) as file:
        held = file.read(columns=[field.name]).column(0).cast(field.type)
    same = held.null_count if not wanted.is_valid else pc.sum(pc.equal(held, wanted)).as_py() or 0
    if same < len(held):
        raise SourceError(
            f"'{path}' holds values of partition column '{field.name}' that are not the one in the "
            f"log, which counts; {INGEST_IT}"
        )


def check_disjoint(spans: Sequence[TimeSpan], kind: TimeType) -> None:
    """Check that files do not overlap in time, ties at borders aside. Pure."""
    ordered = sorted(spans, key=lambda span: (span.t_min, span.t_max, span.ordinal))
    for first, second in itertools.pairwise(ordered):
        if first.t_max > second.t_min:
            start, end = show_time(second.t_min, kind), show_time(first.t_max, kind)
            raise SourceError(
                f"'{first.subject}' and '{second.subject}' overlap in time ({start} to {end} is in "
                f"both), so the table cannot be adopted; {INGEST_IT}"
            )


# ---------------------------------------------------------------------------------------------
# Adopting.


@dataclass(frozen=True, slots=True)
class AdoptReport:
    """What adopting a table did."""

    stream: str
    table: Path
    n_files: int
    """Files of the stream now."""

    n_events: int
    """Events of the stream now."""

    n_new: int
    """Files verified and taken."""

    n_gone: int
    """Files that left the stream: they left their table, or were changed and are taken anew."""

    version: int
    """Version of the stream that has them."""

    folder_columns: tuple[str, ...] = ()
    """Partition columns, which the files themselves lack."""

    def __str__(self) -> str:
        gone = f", {self.n_gone:,} left" if self.n_gone else ""
        told = (
            f"; partition columns ({', '.join(self.folder_columns)}) are NULL to other Delta "
            "readers of its events: let them read the table itself"
            if self.folder_columns
            else ""
        )
        return (
            f"stream '{self.stream}' reads '{self.table}' where it is: "
            f"{number_of(self.n_new, 'file')} verified{gone}; "
            f"{number_of(self.n_events, 'event')} in {number_of(self.n_files, 'file')}, version "
            f"{self.version}{told}"
        )


def adopt(  # noqa: PLR0913 -- the options of a command
    store: Store,
    stream_name: str,
    table: str | Path,
    *,
    time: str | None = None,
    key: str | None = None,
    derive: Sequence[str] = (),
    derived: Callable[[Stream], DerivedWriter] | None = None,
    begin: Callable[[Stream], object] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> AdoptReport:
    """Make a stream of a Delta table or of Parquet files without copying an event.

    Settings, tree and indexes are kept in the store; the files stay where they are and are never
    written. Each is verified first: its time ascends and is never NULL, and no two files overlap
    in time. Where files share a time at their border, the events of the earlier file come first.

    Run again for the same stream it takes what came to the table since, verifies anew what was
    changed, and lets go of what left. A file that was changed is not answered from until then.

    Parameters
    ----------
    store
        Where the stream is to be.
    stream_name
        Name of the stream, new or adopted from this table before.
    table
        Folder of a Delta table or of Parquet files, or one Parquet file.
    time, key, derive
        Time column, key column and derived attributes of a new stream.
    derived
        Makes the writer of the stream's runs.
    begin
        Told of a stream that holds no events yet; for new streams only.
    progress
        Told what is being done, in words.

    Raises
    ------
    SourceError
        If there is no such table, or it cannot be adopted; 'ingest' takes it in all the same.
    SchemaError
        If a column is of a type that no stream has, or the time or key column is missing.
    StorageError
        If the stream exists and was not adopted from this table.
    CommitConflictError
        If another process adopts it at the same time.
    """
    check_type(store, Store)
    check_name(stream_name, "stream")
    check_stream_name(stream_name)
    stream = store.stream(stream_name) if stream_name in store.stream_names() else None
    found = find_table(table, None if stream is None else stream.schema)
    if stream is None:
        stream = _create(store, stream_name, found, time, key, derive)
    is_new = stream.version_of(None) == 0  # or was killed before it held events
    _check_same(stream, found, time, key, derive, None if is_new else begin)
    try:
        if is_new and begin is not None:
            begin(stream)
        return _take(stream, found, derived, progress)
    except BaseException:
        if is_new:
            with suppress(StorageError):
                if store.stream(stream_name).version_of(None) == 0:
                    drop_stream(store, stream_name)
        raise


def _create(
    store: Store,
    name: str,
    table: AdoptableTable,
    time: str | None,
    key: str | None,
    derive: Sequence[str],
) -> Stream:
    if time is None:
        raise SchemaError(f"stream '{name}' is new; name the table's time column with --time")
    if time not in table.schema.names:
        raise SchemaError(
            f"no time column '{time}' in '{table.path}' (columns: {', '.join(table.schema.names)})"
            f"{did_you_mean(time, table.schema.names)}"
        )
    settings = StreamSettings(
        time=time, key=key, adopted_from=str(table.path), derived=canonical_names(derive)
    )
    return store.create_stream(name, table.schema, settings)


def _check_same(
    stream: Stream,
    table: AdoptableTable,
    time: str | None,
    key: str | None,
    derive: Sequence[str],
    begin: Callable[[Stream], object] | None,
) -> None:
    """Check that a stream that exists is the one that a table was adopted as."""
    name, settings = stream.name, stream.settings
    if settings.adopted_from != str(table.path):
        whose = (
            "holds events of its own"
            if settings.adopted_from is None
            else (f"was adopted from '{settings.adopted_from}'")
        )
        raise StorageError(
            f"stream '{name}' {whose}, so '{table.path}' cannot be adopted as it; take another name"
        )
    for role, given, has in (("time", time, settings.time), ("key", key, settings.key)):
        if given not in (None, has):
            raise SchemaError(
                f"the {role} column of stream '{name}' is {has!r}, not {given!r}, and it cannot be "
                "changed; leave it out, or adopt the table under another name"
            )
    if begin is not None:
        raise SchemaError(
            f"stream '{name}' exists; --index is for new streams, 'chronicle index create' indexes "
            "attributes of this one"
        )
    new = [one for one in canonical_names(derive) if one not in settings.derived]
    if new:
        raise SchemaError(
            f"stream '{name}' does not derive '{new[0]}'; index it with 'chronicle index create', "
            "which declares it"
        )
    if table.schema != stream.schema:
        now = ", ".join(f"{one.name} {sql_type(one.type)}" for one in table.schema)
        raise SchemaError(
            f"the columns of '{table.path}' are no longer those of stream '{name}' "
            f"({now}); drop the stream, "
            "which leaves the table as it is, and adopt it anew"
        )


# ---------------------------------------------------------------------------------------------
# What came and what left.


@dataclass(frozen=True, slots=True)
class _News:
    """A file that is to be taken, and where it lies in time."""

    found: FoundFile
    name: str
    """Of its link."""

    ordinal: str
    t_min: int
    t_max: int


def _take(
    stream: Stream,
    table: AdoptableTable,
    derived: Callable[[Stream], DerivedWriter] | None,
    progress: Callable[[str], None],
) -> AdoptReport:
    """Verify what is new, and commit what came and what left."""
    state = delta_log.load_table(stream.path / EVENTS_TABLE)
    version, live = state.version, {fingerprint_in(file.name): file for file in state.files}
    progress(f"looking at {number_of(len(table.files), 'file')} of '{table.path}'")
    found = [find_file(table, inside) for inside in table.files]
    here = {file.fingerprint for file in found}
    gone = [file for fingerprint, file in live.items() if fingerprint not in here]
    missing = [file for file in found if file.n_events and file.fingerprint not in live]
    snapshot = stream.snapshot(version, without=frozenset(file.name for file in gone))
    news = _verify(stream, table, missing, progress)
    kept = [
        TimeSpan(file.name, file.t_min, file.t_max, levels_of(file.ordinal))
        for file in snapshot.files
    ]
    coming = [
        TimeSpan(one.found.inside, one.t_min, one.t_max, levels_of(one.ordinal)) for one in news
    ]
    check_disjoint([*kept, *coming], stream.time_type)
    writer = None if derived is None else derived(stream)
    if news or gone:
        n_gone = sum(file.n_rows or 0 for file in gone)
        metadata = {
            OPERATION: ADOPT,
            "table": str(table.path),
            "n_events": str(sum(one.found.n_events for one in news) - n_gone),
        }
        if table.version is not None:
            metadata["table_version"] = str(table.version)
        leaving = tuple(sorted(file.name for file in gone))
        version = _commit(stream, news, leaving, version, metadata, writer, progress)
    complete_derived(stream, writer)
    now = stream.snapshot()
    return AdoptReport(
        stream.name,
        table.path,
        len(now.files),
        now.n_events,
        len(news),
        len(gone),
        version,
        _folder_columns(table),
    )


def _folder_columns(table: AdoptableTable) -> tuple[str, ...]:
    """Return the columns whose values stand in names of folders, and in no file."""
    if not table.files:
        return ()
    held = _stored_schema(table.path / table.files[0]).names
    said = values_in(table.files[0])
    return tuple(name for name in table.schema.names if name in said and name not in held)


def _verify(
    stream: Stream,
    table: AdoptableTable,
    found: Sequence[FoundFile],
    progress: Callable[[str], None],
) -> list[_News]:
    """Check that files can be adopted, and give them their places among those of equal times."""
    generation = stream.next_generation()
    news = []
    for part, file in enumerate(found):
        progress(f"verifying '{file.inside}' ({number_of(file.n_events, 'event')})")
        times = check_file(table, file.inside, stream.settings.time, stream.time_type)
        ordinal = child(f"{generation:06d}-{part:06d}", 0)
        news.append(_News(file, adopted_name(ordinal, file.fingerprint), ordinal, *times))
    return news


def _commit(
    stream: Stream,
    news: Sequence[_News],
    gone: tuple[str, ...],
    version: int,
    metadata: Mapping[str, str],
    derived: DerivedWriter | None,
    progress: Callable[[str], None],
) -> int:
    """Link files, derive tree and runs from them, and commit all at once."""
    written: list[WrittenFile] = []
    try:
        for one in news:
            progress(f"reading '{one.found.inside}' for its tree and indexes")
            written.append(_link_and_derive(stream, one, derived))
        committed = commit_change(
            stream, Change(tuple(written), gone), read_version=version, metadata=metadata
        )
        return committed.version
    except BaseException:
        remove_uncommitted(stream, written, since=version)
        raise


def _link_and_derive(stream: Stream, one: _News, derived: DerivedWriter | None) -> WrittenFile:
    """Link a file and write what is derived from it; leaves nothing behind on failure."""
    events_dir, settings, target = stream.path / EVENTS_TABLE, stream.settings, one.found.target
    link = events_dir / one.name
    files: list[DerivedFile] = []
    try:
        with suppress(FileExistsError):  # a crash left it; its name says what it holds
            link.symlink_to(target)
        reader = BlockReader(events_dir, stream.schema)
        counts = reader.block_counts(one.name)
        events = reader.read_file(one.name).combine_chunks()
        check_texts(events, where=f"'{target}'")
        events = extend(events, settings.derived, settings.key)
        times = to_int64(events.column(settings.time), name=settings.time)
        tree = write_tree(stream.path, one.name, events, times.to_numpy(), counts, settings)
        files.append(tree)
        if derived is not None:
            files += derived.write(stream.path, one.name, events, times, counts)
    except BaseException as error:
        link.unlink(missing_ok=True)
        for file in files:
            (stream.path / file.table / file.name).unlink(missing_ok=True)
        if isinstance(error, CorruptBlockError) and not isinstance(error, ChangedFileError):
            raise SourceError(  # it names the link, which is gone
                f"'{Path(target)}' cannot be adopted ({error.reason}); check the file"
            ) from error
        raise
    return WrittenFile(
        name=one.name,
        ordinal=one.ordinal,
        n_events=one.found.n_events,
        size_bytes=one.found.size_bytes,
        t_min=one.t_min,
        t_max=one.t_max,
        tree=tree,
        derived=tuple(files[1:]),
    )
