"""Find the files of an ingest and check them before any JVM starts."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

import pyarrow as pa

from chronicle.disk_errors import reason_of
from chronicle.errors import SchemaError, SourceError, did_you_mean
from chronicle.ingest.helper_columns import RESERVED_PREFIX
from chronicle.ingest.table_memory import Taken, to_transactions
from chronicle.log import delta_log
from chronicle.log.delta_log import ForeignFile, ForeignTable
from chronicle.log.foreign_layouts import check_named, check_ordinary, loose_files
from chronicle.paths import (
    check_folder,
    infer_type,
    kind_of_special,
    local_path,
    to_constant,
    url_scheme,
    values_in,
)
from chronicle.schema import normalise_schema
from chronicle.type_names import sql_type


class SourceFormat(Enum):
    """How events are written in a file."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"
    """Arrow IPC."""


_ENDINGS = {
    ".parquet": SourceFormat.PARQUET,
    ".pq": SourceFormat.PARQUET,
    ".csv": SourceFormat.CSV,
    ".tsv": SourceFormat.CSV,
    ".json": SourceFormat.JSON,
    ".jsonl": SourceFormat.JSON,
    ".ndjson": SourceFormat.JSON,
    ".arrow": SourceFormat.ARROW,
    ".feather": SourceFormat.ARROW,
    ".ipc": SourceFormat.ARROW,
}
_COMPRESSED = (".gz", ".bz2", ".zst")


@dataclass(frozen=True, slots=True)
class SourceSet:
    """The files of one ingest, in the order in which their events arrived."""

    format: SourceFormat
    files: tuple[Path, ...]
    """Absolute, each once."""

    sizes_bytes: tuple[int, ...]

    values: Mapping[Path, Mapping[str, str | None]] = field(default_factory=dict)
    """By file, what its path or its table says of columns that it lacks, as text."""

    partitions: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """Those columns, typed."""

    schema: pa.Schema | None = None
    """Of a Delta table; its files may lack columns. None for others."""

    tables: Mapping[str, int] = field(default_factory=dict)
    """What stands for Delta tables in a commit, see ``table_memory``."""

    notes: tuple[str, ...] = ()
    """What whoever asked should know of how they were found."""

    n_taken: int = 0
    """Files of Delta tables that are not among these since an earlier version was taken."""

    def constants(self, path: Path, schema: pa.Schema) -> dict[str, pa.Scalar]:
        """Return the values that events of a file have in ``partitions``, in types of a schema.

        A schema that lacks such a column is refused, and a value that is none of its type.
        """
        if not self.partitions.names:
            return {}
        said = self.values[path]
        for one in self.partitions:
            if one.name not in schema.names:
                raise SchemaError(
                    f"folders of the sources are named after a column '{one.name}' that the stream "
                    "lacks; add it with 'chronicle add-column', or name the files themselves"
                )
            has = schema.field(one.name).type
            if self.schema is None:
                check_folder(said.get(one.name), has, column=one.name)
            elif one.type != has:
                raise SchemaError(
                    f"partition column '{one.name}' of the Delta table is {sql_type(one.type)}, "
                    f"and the stream has it as {sql_type(has)}; take the table into a new stream"
                )
        return {
            name: to_constant(said.get(name), schema.field(name).type, column=name)
            for name in self.partitions.names
        }

    def without_own(self, names: Collection[str]) -> SourceSet:
        """Leave out columns that the files hold themselves: what stands in a file counts more."""
        left = [one for one in self.partitions if one.name not in names]
        return replace(self, partitions=pa.schema(left))

    def schema_in_files(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a schema that stand in the files themselves."""
        return pa.schema([one for one in schema if one.name not in self.partitions.names])

    def only(self, paths: Collection[Path]) -> SourceSet:
        """Return these of the files."""
        kept = [
            (path, size)
            for path, size in zip(self.files, self.sizes_bytes, strict=True)
            if path in paths
        ]
        return replace(
            self,
            files=tuple(path for path, _ in kept),
            sizes_bytes=tuple(size for _, size in kept),
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(self.sizes_bytes)

    @property
    def shown(self) -> str:
        """The first file and how many more there are, for people."""
        n_more = len(self.files) - 1
        return f"'{self.files[0]}'" + (f" and {n_more:,} more" if n_more else "")


_SHOWN_MAX = 100
"""Characters of a name that an error shows."""


def find_sources(
    sources: Sequence[str | Path],
    *,
    format_name: str | None,
    since: Since = lambda _: None,
    base: Path | None = None,
) -> SourceSet:
    """Expand files, glob patterns and folders, in the order they are given.

    A folder stands for its files at any depth, a pattern for what it matches, both by name. Hidden
    files (a leading ``.`` or ``_``) in folders are not taken, as Spark has it. A folder with the
    log of a Delta table stands for the files of its newest version. Folders ``column=value`` below
    a folder that is named give columns. Only what was added to a Delta table after the version that
    ``since`` tells is found. ``base`` is the folder that files named one by one were found in:
    folders below it give columns too. Files must exist, hold something, be named once and have one
    format.
    """
    if not sources:
        raise SourceError("no source was named; give at least one file")
    wanted = None if format_name is None else _to_format(format_name)
    folders = [_expand(str(source), wanted, since) for source in sources]
    files = [path for folder in folders for path in folder.files]
    seen: dict[Path, Path] = {}
    for path in files:
        same = seen.setdefault(path.resolve(), path)
        if same is not path:
            also = "" if same == path else f" (as '{same}' too)"
            raise SourceError(f"'{path}' is named twice{also}; name each file once")
    sizes = tuple(_check_file(path) for path in files)
    tables = [folder.table for folder in folders if folder.table is not None]
    format = wanted or (_common_format(files) if files else SourceFormat.PARQUET)  # noqa: A001
    values = {path: said for folder in folders for path, said in folder.values.items()}
    if base is not None:
        said_by = {path: values_in(path.relative_to(base).as_posix()) for path in files}
        values |= {path: said for path, said in said_by.items() if said}
    if values:
        values = {path: values.get(path, {}) for path in files}
    return SourceSet(
        format,
        tuple(files),
        sizes,
        values,
        _partitions(folders, values),
        _schema_in_files(tables, len(folders)),
        {name: number for table in tables for name, number in to_transactions(table).items()},
        tuple(note for folder in folders for note in folder.notes),
        sum(folder.n_taken for folder in folders),
    )


def _schema_in_files(tables: Sequence[ForeignTable], n_folders: int) -> pa.Schema | None:
    """Return the columns that the files of a table are to be read with."""
    if not tables:
        return None
    if n_folders > 1:
        raise SourceError(
            f"'{tables[0].path}' is a Delta table, and is taken alone; name other sources in a "
            "call of their own"
        )
    return normalise_schema(tables[0].schema)


def _partitions(
    folders: Sequence[Folder], values: Mapping[Path, Mapping[str, str | None]]
) -> pa.Schema:
    """Return the columns that paths and tables tell of."""
    stated = {name: kind for folder in folders for name, kind in folder.partitions.items()}
    names = dict.fromkeys(name for said in values.values() for name in said)
    return pa.schema(
        [
            (name, stated.get(name) or infer_type(said.get(name) for said in values.values()))
            for name in names
        ]
    )


def _to_format(name: str) -> SourceFormat:
    known = [one.value for one in SourceFormat]
    if name not in known:
        raise SourceError(
            f"no format '{name}' (there are: {', '.join(known)}){did_you_mean(name, known)}"
        )
    return SourceFormat(name)


def _shortened(name: str) -> str:
    return name if len(name) <= _SHOWN_MAX else f"{name[:_SHOWN_MAX]}…"


def _expand(source: str, wanted: SourceFormat | None, since: Since) -> Folder:
    if url_scheme(source) not in (None, "file"):
        raise SourceError(f"'{source}' is no path; mount or download it, and name the file")
    if not source.strip():
        raise SourceError("a source without a name was given; name a file, a folder or a pattern")
    if "\0" in source:
        raise SourceError(f"{_shortened(source)!r} is no path (it holds a NUL)")
    path = local_path(source, what="source").absolute()
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name too long, a loop of links
        raise SourceError(f"{_shortened(source)!r} is no path ({reason_of(error)})") from error
    if is_folder:
        found = files_of(path, lambda f: wanted is not None or format_of(f) is not None, since)
        if found.table is not None and wanted not in (None, SourceFormat.PARQUET):
            raise SourceError(
                f"'{source}' is a Delta table, whose files are Parquet; leave --format out"
            )
        if not found.files and not found.n_taken:
            raise SourceError(f"folder '{source}' holds no file to ingest; name another")
        return found
    if path.exists() or not glob.has_magic(source):
        return Folder((path,), {})
    matches = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207 -- absolute
    matches = [match for match in matches if match.is_file() or kind_of_special(match)]
    if not matches:
        raise SourceError(f"no file matches '{source}'; correct the pattern")
    check_named(matches, is_pattern=True)
    return Folder(tuple(matches), {})


def _check_file(path: Path) -> int:
    """Return the size of a file that can be taken."""
    if not path.exists():
        hint = did_you_mean(path.name, _neighbours(path))
        raise SourceError(f"no file '{path}'{hint or '; correct the path'}")
    check_ordinary(path)
    if not path.is_file():
        raise SourceError(f"'{path}' is no ordinary file; name files, folders or patterns")
    if path.name.startswith((".", "_")):
        raise SourceError(f"'{path}' is hidden from Spark by its first letter; rename it")
    size = path.stat().st_size
    if size == 0:
        raise SourceError(f"'{path}' is empty; leave it out")
    return size


def _neighbours(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


def tells_format(path: Path) -> bool:
    """Return whether a file's ending names a format."""
    return format_of(path) is not None


def format_of(path: Path) -> SourceFormat | None:
    """Return the format that a file's ending names; None if it names none."""
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return _ENDINGS.get(Path(name).suffix)


def _common_format(files: Sequence[Path]) -> SourceFormat:
    """Return the format all endings name."""
    formats = [format_of(path) for path in files]
    for path, one in zip(files, formats, strict=True):
        if one is None:
            raise SourceError(
                f"the ending of '{path}' tells no format; give --format parquet, csv, json or arrow"
            )
        if one is not formats[0] and formats[0] is not None:
            raise SourceError(
                f"'{files[0]}' is {formats[0].value} and '{path}' is {one.value}; "
                "ingest one format at a time"
            )
    assert formats[0] is not None
    return formats[0]


# ---------------------------------------------------------------------------------------------
# What the files hold, as far as it can be told without reading them through.


def check_column_names(names: Sequence[str], *, time: str | None, where: str) -> None:
    """Check that names are given once, are not reserved, and hold the time column, if any."""
    for name in names:
        if not name:
            raise SchemaError(f"a column of {where} has no name; name it")
        if name.startswith(RESERVED_PREFIX):
            raise SchemaError(
                f"column '{name}' of {where} has a name Chronicle keeps for itself; rename it"
            )
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise SchemaError(f"column '{twice}' stands twice in {where}; rename one")
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise SchemaError(
                f"columns '{other}' and '{name}' of {where} differ in case only; rename one"
            )
    if time is not None and time not in names:
        raise SchemaError(
            f"no time column '{time}' in {where} (columns: {', '.join(names)})"
            f"{did_you_mean(time, names)}"
        )


# ---------------------------------------------------------------------------------------------
# The files that a folder stands for: those of a Delta table by its log, else what lies in it.

Since = Callable[[ForeignTable], Taken | None]
"""Tells up to which version a Delta table was taken; None if it was not."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a folder, in the order in which their events arrived."""

    files: tuple[Path, ...]
    values: Mapping[Path, Mapping[str, str | None]]
    """By file, the values of columns that stand in its path or in the log of its table."""

    table: ForeignTable | None = None
    """None if it is no Delta table."""

    n_taken: int = 0
    """Files of the table that are not named, since it was taken up to a version that has them."""

    partitions: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types of the columns in ``values``, where a table says them."""

    notes: tuple[str, ...] = ()
    """What whoever asked should know."""


def files_of(folder: Path, wanted: Callable[[Path], bool], since: Since) -> Folder:
    """Return what a folder stands for.

    ``folder`` is absolute; ``wanted`` says which files are taken where no log does. Of a table that
    was taken up to a version, only what was added afterwards is returned. A folder that is a part
    of a table, or holds some, is refused, and so are tables of other layouts.
    """
    if delta_log.table_exists(folder):
        return _of_table(folder, since)
    files = tuple(filter(wanted, loose_files(folder, wanted)))
    values = {path: values_in(path.relative_to(folder).as_posix()) for path in files}
    return Folder(files, {path: said for path, said in values.items() if said})


def _of_table(folder: Path, since: Since) -> Folder:
    table = delta_log.load_foreign(folder)
    taken = since(table)
    added = table.files if taken is None else delta_log.files_added_since(table, taken.version)
    schema = normalise_schema(table.schema)
    return Folder(
        tuple(_on_disk(folder, file) for file in added),
        {folder / file.inside: file.values for file in added if file.values},
        table,
        0 if taken is None else _n_known(table, added),
        {name: schema.field(name).type for name in table.partition_columns},
        () if taken is None or not taken.note else (taken.note,),
    )


def _n_known(table: ForeignTable, added: Collection[ForeignFile]) -> int:
    """Return how many files of a table were there before some were added."""
    fresh = {file.inside for file in added}
    return sum(file.inside not in fresh for file in table.files)


def _on_disk(folder: Path, file: ForeignFile) -> Path:
    path = folder / file.inside
    if not path.exists():
        raise SourceError(
            f"'{path}' brought rows to Delta table '{folder}' and is gone (was it vacuumed?); take "
            "the table whole into a new stream"
        )
    return path
