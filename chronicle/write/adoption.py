"""What can be adopted: a Delta table or Parquet files of another owner, whose rows are in order.

Everything here reads and decides; ``chronicle.adopt`` acts on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.errors import SchemaError, SourceError
from chronicle.log import delta_log
from chronicle.log.adopted_file import link_target, settled_stamp, stamp_of, to_fingerprint
from chronicle.partitions import infer_type, to_constant, values_in
from chronicle.paths import local_path
from chronicle.schema import normalise_schema
from chronicle.time import TimeType, is_ascending, show_time, to_int64
from chronicle.tree.checksummed_file import parse_metadata, read_footer

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


def find_table(path: str | Path) -> AdoptableTable:
    """Return the table at a path: a Delta table, a folder of Parquet files, or one such file.

    Refuses files that cannot be read one by one where they are.
    """
    place = local_path(path, what="table").resolve()
    if not place.exists():
        raise SourceError(f"no table at '{place}'; correct the path")
    if delta_log.table_exists(place):
        return _delta_table(place)
    if place.is_file():
        return _parquet_files(place.parent, (place.name,))
    inside = sorted(
        file.relative_to(place).as_posix()
        for file in place.rglob("*")
        if file.suffix.lower() in _PARQUET and file.is_file()
    )
    nested = next((file for file in place.rglob("_delta_log") if file.is_dir()), None)
    if nested is not None:
        raise SourceError(
            f"'{place}' holds the Delta table '{nested.parent}', whose log says which files live; "
            "name that table"
        )
    visible = [one for one in inside if not any(p.startswith((".", "_")) for p in one.split("/"))]
    if not visible:
        raise SourceError(
            f"'{place}' holds neither a Delta table nor Parquet files; name one, or take other "
            "files in with 'chronicle ingest'"
        )
    return _parquet_files(place, tuple(visible))


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


def _parquet_files(place: Path, inside: tuple[str, ...]) -> AdoptableTable:
    first = _stored_schema(place / inside[0])
    said = [values_in(one) for one in inside]
    for name in said[0]:
        if name not in first.names and all(name in values for values in said):
            first = first.append(pa.field(name, infer_type(values[name] for values in said)))
    return AdoptableTable(place, None, first, inside)


def _stored_schema(path: Path) -> pa.Schema:
    """Return the columns of a Parquet file as a stream stores them."""
    try:
        with pq.ParquetFile(path) as file:
            arrow, columns = file.schema_arrow, file.schema
            int96 = {
                columns.column(i).path
                for i in range(len(columns))
                if columns.column(i).physical_type == "INT96"
            }
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"'{path}' is not a Parquet file ({error}); take it away") from error
    # Arrow calls INT96 nanoseconds; Spark and Impala write instants of microseconds in it.
    fields = [
        pa.field(one.name, pa.timestamp("us", "UTC")) if one.name in int96 else one for one in arrow
    ]
    try:
        return normalise_schema(pa.schema(fields))
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
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
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
            times = np.asarray(to_int64(column, name=time).to_numpy(), np.int64)
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
            data_type = found.field(field.name).type
            if data_type != field.type:
                raise SchemaError(
                    f"column '{field.name}' of '{path}' is {data_type}, and the table has it as "
                    f"{field.type}; {INGEST_IT}"
                )
        elif field.name in said:
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
