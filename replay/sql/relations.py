"""What DuckDB reads by itself: the files of a version of a stream, and files that are named."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chronicle import Snapshot, SourceError
from chronicle.disk_errors import reason_of
from chronicle.ingest.table_files import text_format
from chronicle.log.foreign_layouts import check_named
from chronicle.tree.blocks import Stored
from chronicle.tree.page_checksums import check_pages
from replay.errors import QueryError
from replay.language.tokens import in_quotes, place, quoted
from replay.limits import check_limits
from replay.sql.apart import Apart, Read

_PARQUET = (".parquet", ".pq")

_TYPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "TINYINT"),
    (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_int32, "INTEGER"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_string, "VARCHAR"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_binary, "BLOB"),
)


def columns_read(snapshot: Snapshot, words: frozenset[str]) -> list[str]:
    """Return the columns of a stream that a statement with these words may read."""
    names = snapshot.schema.names
    return names if "*" in words else [name for name in names if name.lower() in words]


def select_of(
    snapshot: Snapshot, files: Sequence[Stored], columns: Sequence[str], row: str | None = None
) -> str:
    """Return the SELECT by which DuckDB reads ``columns`` of a version of a stream, in its order.

    Data files follow each other in time, so that reading one after the other is that order. Files
    that hold the same columns are one scan. ``row`` names a further column that numbers the rows.
    """
    with_nan = frozenset(
        name
        for name in columns
        if pa.types.is_floating(snapshot.schema.field(name).type)
        and snapshot.aggregate(None, None, name).nan_count
    )

    def kind(file: Stored) -> tuple[object, ...]:
        constants = tuple((name, str(value)) for name, value in sorted(file.constants.items()))
        return file.held.intersection(snapshot.schema.names), constants

    groups = (list(group) for _, group in groupby(files, key=kind))
    selects = [
        _scan(snapshot.schema, group, with_nan, _numbers(row, n)) for n, group in enumerate(groups)
    ]
    if not selects:
        nothing = [f"CAST(NULL AS {sql_type(f.type)}) AS {quoted(f.name)}" for f in snapshot.schema]
        nothing += [] if row is None else [f"CAST(NULL AS BIGINT) AS {row}"]
        return f"SELECT {', '.join(nothing)} WHERE FALSE"
    return " UNION ALL ".join(selects)


def _numbers(row: str | None, scan: int) -> list[str]:
    """Return the column that numbers the rows of a scan, behind those of the scans before it.

    DuckDB tells the place of a file in the list and of a row in its file, and reads no more by it.
    """
    if row is None:
        return []
    return [f"({scan << 56} | (CAST(file_index AS BIGINT) << 36) | file_row_number) AS {row}"]


def _scan(
    schema: pa.Schema, files: list[Stored], with_nan: frozenset[str], numbers: Sequence[str]
) -> str:
    """Return the SELECT that reads files which hold the same columns, and numbers their rows.

    DuckDB passes blocks over by their extremes, which say nothing of NaN, and NaN is greater than
    any number there: it must not know that a value is that of a column which has one.
    """
    columns = []
    for field in schema:
        name, kind = quoted(field.name), sql_type(field.type)
        if field.name in files[0].held:
            value = name
            if field.name in with_nan:
                value = f"CASE WHEN isnan({name}) THEN 'nan' ELSE {name} END"
        elif field.name in files[0].constants:
            value = literal(files[0].constants[field.name])
        else:
            value = "NULL"
        columns.append(f"CAST({value} AS {kind}) AS {name}")
    listed = ", ".join(in_quotes(str(file.path)) for file in files)
    selected = ", ".join([*columns, *numbers])
    return f"SELECT {selected} FROM read_parquet([{listed}], hive_partitioning=false)"


def sql_type(kind: pa.DataType) -> str:
    """Return DuckDB's name of the type of a stream's column."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz is None else "TIMESTAMPTZ"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return next(name for fits, name in _TYPES if fits(kind))


def literal(value: pa.Scalar) -> str:
    """Return a value as DuckDB reads it, still to be cast to its type."""
    found = value.as_py()
    return "NULL" if found is None else in_quotes(str(found))


def paths_of(read: Read, apart: Apart) -> list[str]:
    """Return the files that a name in FROM stands for, with absolute paths."""
    where = place(apart.text, read.at)
    if "://" in read.name:
        raise QueryError(
            f"'{read.name}' is a URL, and no statement reads from the network; fetch the file and "
            "name it, or give its rows as tables={…}",
            **where,
        )
    _check_format(read, apart)
    found = sorted(glob.glob(str(Path(read.name).expanduser()), recursive=True))  # noqa: PTH207
    if not found:
        raise QueryError(f"there is no file '{read.name}'", **where)
    try:
        check_named([Path(path) for path in found], is_pattern=glob.has_magic(read.name))
    except SourceError as error:
        raise QueryError(str(error), **where) from error
    return [str(Path(path).absolute()) for path in found]


def check_files(read: Read, apart: Apart, paths: Iterable[str]) -> None:
    """Compare the checksums of pages of Parquet files, of columns a statement may read.

    DuckDB compares none, and answers from flipped bits.
    """
    columns = None if "*" in apart.words else apart.words
    for path in paths:
        try:
            footer = pq.read_metadata(path)
        except (OSError, pa.ArrowException):
            continue  # DuckDB says what is wrong with it
        try:
            for group in range(footer.num_row_groups):
                check_limits()
                check_pages(Path(path), footer, groups=[group], columns=columns)
        except (OSError, ValueError) as error:
            raise QueryError(
                f"'{path}' is damaged ({reason_of(error)}); restore it from a copy",
                **place(apart.text, read.at),
            ) from error


def select_of_parquet(paths: Iterable[str], row: str | None = None) -> str:
    """Return the SELECT by which DuckDB reads files of Parquet that a statement names.

    Without external access it takes paths to the letter, whatever signs they have. ``row`` names a
    further column that numbers the rows.
    """
    numbers = "" if row is None else f", row_number() OVER () AS {row}"
    listed = ", ".join(in_quotes(path) for path in paths)
    return f"SELECT *{numbers} FROM read_parquet([{listed}])"


def _check_format(read: Read, apart: Apart) -> None:
    """Refuse a name that ends as those of no format do that FROM reads."""
    if Path(read.name.lower()).suffix not in _PARQUET and text_format(read.name) is None:
        raise QueryError(
            f"what format has '{read.name}'? FROM reads files that end with .parquet, .pq, .csv, "
            ".tsv, .txt, .json, .jsonl or .ndjson, text also packed (.gz, .bz2, .zst); a stream is "
            'named without quotes or in "…"',
            **place(apart.text, read.at),
        )
