"""Decide how files are read: columns, types, times; and what is told of them beforehand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.errors import SchemaError, SourceError, did_you_mean
from chronicle.ingest.cells import Guess, as_text, is_number
from chronicle.ingest.csv_records import (
    CsvRecords,
    Dialect,
    find_delimiter,
    line_of_header,
    read_header,
)
from chronicle.ingest.json_records import JsonRecords, starts_array
from chronicle.ingest.raw_text import lines_of
from chronicle.ingest.read_options import (
    ReadOptions,
    check_read_options,
    encoding_of,
    parse_schema,
)
from chronicle.ingest.sources import SourceFormat, SourceSet, check_column_names
from chronicle.ingest.times import (
    Look,
    TimeReading,
    TimeSource,
    choose_time_reading,
    look_at_times,
    named_zone,
    stored_type,
    time_source,
)
from chronicle.ingest.typed_files import (
    common_schema,
    has_other_units,
    read_schemas,
    read_typed,
    rows_of_groups,
)
from chronicle.schema import check_same_schema, normalise_schema
from chronicle.time import TimeType, time_type
from chronicle.type_names import sql_type

_JSON_RECORDS_LOOKED_AT = 100

Guesses = Mapping[str, Guess]


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How every file of an ingest is read."""

    format: SourceFormat
    options: ReadOptions
    time: str
    reading: TimeReading
    schema: pa.Schema
    """Of the events, as the stream stores them."""

    dialect: Dialect | None = None
    """Of CSV files."""

    names: tuple[str, ...] = ()
    """Names of the sources, for people, by position."""

    left_out: frozenset[str] = frozenset()
    """Fields of JSON that are not taken, for they hold objects or arrays."""

    firm: frozenset[str] = frozenset()
    """Columns of numbers of the stream, whose type nobody stated: digits behind a 0 or + are
    refused, and where they are integers a fraction is."""

    has_other_units: bool = False
    """Whether files that state their types have times in another unit than microseconds."""

    notes: tuple[str, ...] = ()
    """What whoever asked should know of types."""

    constants: tuple[Mapping[str, pa.Scalar], ...] = ()
    """By position of the file, values of columns that stand in its path; empty without such."""

    table_schema: pa.Schema | None = None
    """Of a Delta table, whose files may lack columns."""

    @property
    def folder_columns(self) -> tuple[str, ...]:
        """Names and types of columns whose values stand in names of folders, for people."""
        names = self.constants[0] if self.constants else ()
        return tuple(f"{one.name} {sql_type(one.type)}" for one in self.schema if one.name in names)

    @property
    def in_files(self) -> ReadPlan:
        """How the columns are read that stand in the files themselves."""
        if not self.constants:
            return self
        left = [one for one in self.schema if one.name not in self.constants[0]]
        return replace(self, schema=pa.schema(left), constants=())


@dataclass(frozen=True, slots=True)
class Inspected:
    """What footers, headers and first lines of the sources tell."""

    sources: SourceSet
    names: tuple[str, ...] = ()
    """Of the sources, for people, by position."""

    schema: pa.Schema | None = None
    """Of formats that state their types."""

    has_other_units: bool = False
    """Whether they have times in another unit than microseconds."""

    columns: tuple[str, ...] = ()
    """Of CSV files."""

    dialect: Dialect | None = None
    nested: frozenset[str] = field(default_factory=frozenset)
    """Fields of JSON that hold an object or an array somewhere in the first records."""


def inspect_sources(
    sources: SourceSet,
    options: ReadOptions,
    *,
    time: str | None,
    stream_schema: pa.Schema | None = None,
    names: Sequence[str] | None = None,
) -> Inspected:
    """Check what can be told from footers, headers and first lines.

    ``time`` is None for a table, ``stream_schema`` for that and a new stream; ``names``, for
    people, are the paths if None. Options that do not fit the files are refused, and files that do
    not fit each other or the stream.
    """
    check_read_options(options, sources.format.value)
    called = tuple(names or map(str, sources.files))
    where = f"'{called[0]}'"
    found = Inspected(sources, called)
    if sources.format in (SourceFormat.PARQUET, SourceFormat.ARROW):
        stated = read_schemas(sources)
        if sources.schema is None:  # of a Delta table the log counts, whatever its files hold
            sources = sources.without_own(stated[0].names if stated else ())
        schema = common_schema(sources, stated)
        check_column_names(schema.names, time=time, where=where)
        return replace(
            found, sources=sources, schema=schema, has_other_units=has_other_units(stated)
        )
    if sources.format is SourceFormat.CSV:
        dialect, columns = _inspect_csv(sources.files, options, time=time)
        if time is not None and time not in columns:
            _check_first_line(sources.files[0], dialect, time)
        check_column_names(columns, time=time, where=where)
        sources = sources.without_own(columns)
        if stream_schema is not None:
            names = sources.schema_in_files(stream_schema).names
            check_columns(columns, names, where=called[0], whose="the stream")
        return replace(found, sources=sources, dialect=dialect, columns=columns)
    nested, fields = _inspect_json(sources.files, options, stream_schema)
    return replace(found, sources=sources.without_own(fields), nested=nested)


def make_plan(
    found: Inspected,
    options: ReadOptions,
    *,
    time: str,
    stream_schema: pa.Schema | None,
    guess: Callable[[], Guesses],
) -> ReadPlan:
    """Decide how files are read; ``guess`` reads them through, and is asked only if need be."""
    in_files = None if stream_schema is None else found.sources.schema_in_files(stream_schema)
    plan = _plan_in_files(found, options, time=time, stream_schema=in_files, guess=guess)
    return _with_constants(plan, found.sources, stream_schema)


def _with_constants(
    plan: ReadPlan, sources: SourceSet, stream_schema: pa.Schema | None
) -> ReadPlan:
    """Add the columns whose values stand in the paths of files."""
    sources = sources.without_own(plan.schema.names)
    if not sources.partitions.names:
        return plan
    typed = sources.partitions if stream_schema is None else stream_schema
    constants = tuple(sources.constants(path, typed) for path in sources.files)
    names = [*plan.schema.names, *sources.partitions.names]
    fields = {one.name: one for one in (*typed, *plan.schema)}
    order = names if stream_schema is None else stream_schema.names
    schema = normalise_schema(pa.schema([fields[name] for name in order]))
    return replace(plan, schema=schema, constants=constants)


def _plan_in_files(
    found: Inspected,
    options: ReadOptions,
    *,
    time: str,
    stream_schema: pa.Schema | None,
    guess: Callable[[], Guesses],
) -> ReadPlan:
    """Decide how the columns are read that stand in the files themselves."""
    plan = replace(text_plan(found, options), time=time)
    if found.schema is not None:
        table_schema = None if found.sources.schema is None else found.schema
        plan = replace(plan, has_other_units=found.has_other_units, table_schema=table_schema)
        return _plan_typed(plan, found.schema, stream_schema, found.sources.files)
    stated = (
        {} if options.schema is None else {one.name: one for one in parse_schema(options.schema)}
    )
    if stream_schema is not None:
        _check_stated(stated, stream_schema)
        numbers = [one.name for one in stream_schema if is_number(one.type)]
        plan = replace(
            plan, left_out=found.nested, firm=frozenset(numbers) - stated.keys() - {time}
        )
        return _with_times(plan, found, stream_schema, stream_schema, None)
    names = found.columns
    guesses: Guesses = {}
    if not names or not stated.keys() >= set(names):
        guesses = {**{name: Guess() for name in names}, **guess()}
        names = names or tuple(dict.fromkeys((*guesses, *stated)))
        if not names:
            raise SourceError(f"'{found.names[0]}' holds no record; leave it out")
    check_columns(tuple(stated), names, where="--schema", whose=f"'{found.names[0]}'", all_=False)
    nested = [name for name in names if name not in stated and guesses[name].is_nested]
    taken = [name for name in names if name not in nested]
    check_column_names(taken, time=time, where=f"'{found.names[0]}'")
    columns = pa.schema(
        [stated.get(name) or pa.field(name, guesses[name].data_type) for name in taken]
    )
    untold = {name: one for name, one in guesses.items() if name not in (*stated, time)}
    has_points = plan.dialect is not None and not options.decimal_comma
    notes = [*_left_out_notes(nested), *type_notes(untold, found.names, has_points=has_points)]
    plan = replace(plan, left_out=frozenset(nested), notes=tuple(notes))
    declared = columns if time in stated else None
    return _with_times(plan, found, columns, declared, None if time in stated else guesses[time])


def text_plan(found: Inspected, options: ReadOptions) -> ReadPlan:
    """Return how text is read of whose columns nothing is known yet."""
    return ReadPlan(
        found.sources.format, options, "", _UNREAD, pa.schema([]), found.dialect, found.names
    )


_UNREAD = TimeReading(TimeSource.TEXT, "timestamp", None, None)


def _plan_typed(
    plan: ReadPlan, schema: pa.Schema, stream_schema: pa.Schema | None, files: Sequence[Path]
) -> ReadPlan:
    options, time = plan.options, plan.time
    source = time_source(schema.field(time).type, time)
    declared = None if stream_schema is None else _declared(stream_schema, time)
    look = _NOTHING_SEEN
    if source is TimeSource.TEXT and options.time_format is None:
        look = _look_at_times(plan, _typed_times(plan, files))
    reading = _reading(plan, source, declared, look)
    stored = stored_type(reading, schema.field(time).type)
    at = schema.get_field_index(time)
    events = normalise_schema(schema.set(at, pa.field(time, stored)))
    if stream_schema is not None:
        check_same_schema(events, stream_schema, where=plan.names[0])
        events = stream_schema
    return replace(plan, reading=reading, schema=events)


def _with_times(
    plan: ReadPlan,
    found: Inspected,
    columns: pa.Schema,
    declared_by: pa.Schema | None,
    guess: Guess | None,
) -> ReadPlan:
    """Decide how the times of text are read, now that all other types are known."""
    options, time = plan.options, plan.time
    declared = None if declared_by is None else _declared(declared_by, time)
    is_integer = declared == "integer" or (guess is not None and pat.is_integer(guess.data_type))
    has_unit = options.time_unit is not None
    are_numbers = is_integer or guess is None or pat.is_floating(guess.data_type)
    look = _NOTHING_SEEN
    if options.time_format is None and not (are_numbers if has_unit else is_integer):
        look = _look_at_times(plan, _text_times(plan, found.sources.files))
    if options.time_format is not None:
        source = TimeSource.TEXT
    elif has_unit:
        source = TimeSource.TEXT if look.source is TimeSource.TEXT else TimeSource.NUMBER
    elif declared is not None or guess is None:
        source = TimeSource.INTEGER if is_integer else TimeSource.TEXT
    else:
        source = TimeSource.INTEGER if is_integer else look.source or TimeSource.TEXT
    reading = _reading(plan, source, declared, look)
    integer = columns.field(time).type if pat.is_integer(columns.field(time).type) else pa.int64()
    stored = stored_type(reading, integer)
    events = columns.set(columns.get_field_index(time), pa.field(time, stored))
    return replace(plan, reading=reading, schema=normalise_schema(events))


def _reading(
    plan: ReadPlan, source: TimeSource, declared: TimeType | None, look: Look
) -> TimeReading:
    options = plan.options
    reading = choose_time_reading(
        source,
        column=plan.time,
        declared=declared,
        pattern=options.time_format,
        zone=options.time_zone,
        unit=options.time_unit,
        ambiguous=options.ambiguous,
        text_has_offset=look.has_offset,
    )
    if reading.zone is not None:
        named_zone(reading.zone)
    return reading


def _declared(schema: pa.Schema, time: str) -> TimeType | None:
    """Return what the time is to become; None where a stated type leaves it open."""
    data_type = schema.field(time).type
    if pat.is_string(data_type) or pat.is_date(data_type):
        return None
    return time_type(data_type, column=time)


_TIMES_LOOKED_AT = 1000
_NOTHING_SEEN = Look(None, False)


def _look_at_times(plan: ReadPlan, parts: Iterable[pa.Array]) -> Look:
    """Return what the first times look like that are there."""
    texts = [pa.array([], pa.string())]
    n_texts = 0
    for cells in parts:
        present = cells.drop_null().slice(0, _TIMES_LOOKED_AT)
        if pat.is_floating(present.type):  # a fraction among whole numbers of JSON
            whole = pc.replace_substring_regex(as_text(present), r"\.0$", "")
            texts.append(whole)
        else:
            texts.append(as_text(present))
        n_texts += len(present)
        if n_texts >= _TIMES_LOOKED_AT:
            break
    return look_at_times(pa.concat_arrays(texts), plan.time)


def _text_times(plan: ReadPlan, files: Sequence[Path]) -> Iterator[pa.Array]:
    """Yield the times of text files as they are written."""
    for path in files:
        for batch in open_records(path, plan, columns=None):
            if plan.time in batch.cells:
                yield batch.cells[plan.time]


def _typed_times(plan: ReadPlan, files: Sequence[Path]) -> Iterator[pa.Array]:
    """Yield the times of files that state their types."""
    for path in files:
        stop = len(rows_of_groups(path)) if plan.format is SourceFormat.PARQUET else 0
        for batch in read_typed(plan.format, path, [plan.time], 0, stop, schema=plan.table_schema):
            yield batch.column(0)


Records = CsvRecords | JsonRecords
"""The records of one text file, to be read once from front to back.

Iterating yields them batch by batch. Once all were read, ``rejects`` returns what is no record,
and ``places`` where records stand, given by ascending number.
"""


def open_records(path: Path, plan: ReadPlan, *, columns: tuple[str, ...] | None) -> Records:
    """Return the records of a text file.

    ``columns`` are fields of JSON that are wanted whether a batch has them or not.
    """
    options = plan.options
    if plan.dialect is not None:
        names = options.columns or read_header(path, plan.dialect)
        return CsvRecords(path, names, plan.dialect)
    has_decimals = any(pat.is_decimal(one.type) for one in plan.schema)
    texts = frozenset(one.name for one in plan.schema if pat.is_string(one.type))
    return JsonRecords(
        path, encoding_of(options), options.flatten, options.null, has_decimals, columns, texts
    )


# ---------------------------------------------------------------------------------------------
# CSV and JSON before they are read through.


def _inspect_csv(
    files: Sequence[Path], options: ReadOptions, *, time: str | None
) -> tuple[Dialect, tuple[str, ...]]:
    """Return how the files are written and the columns they share, in the order of the first."""
    quote = '"' if options.quote is None else options.quote
    dialect = Dialect(
        ",", quote, encoding_of(options), has_header=not options.columns, null=options.null
    )
    delimiter = options.delimiter or find_delimiter(files[0], dialect, time=time)
    dialect = replace(dialect, delimiter=delimiter)
    if options.columns:
        return dialect, options.columns
    headers = [read_header(path, dialect) for path in files]
    for path, header in zip(files[1:], headers[1:], strict=True):
        if sorted(header) != sorted(headers[0]):
            raise SourceError(
                f"'{path}' has the header {', '.join(header)}, and '{files[0]}' has "
                f"{', '.join(headers[0])}; ingest files of one header at a time"
            )
    return dialect, headers[0]


def _check_first_line(path: Path, dialect: Dialect, time: str) -> None:
    """Refuse a file with lines before its header."""
    line = line_of_header(path, dialect, time=time) if dialect.has_header else None
    if line is not None and line > 1:
        raise SourceError(
            f"the header of '{path}' is its line {line:,}; cut off what stands before the header "
            f"(tail -n +{line})"
        )


def check_columns(
    header: Sequence[str], names: Sequence[str], *, where: str, whose: str, all_: bool = True
) -> None:
    """Check that a header names just these columns, in any order; some of them, if not ``all_``."""
    for name in header:
        if name not in names:
            remedy = "make them agree"
            if all_ and whose == "the stream":
                remedy = "take it out, or add it to the stream with 'chronicle add-column'"
            raise SchemaError(
                f"'{where}' has a column '{name}' that {whose} lacks"
                f"{did_you_mean(name, names)}; {remedy}"
            )
    for name in names if all_ else ():
        if name not in header:
            raise SchemaError(
                f"'{where}' lacks column '{name}' that {whose} has"
                f"{did_you_mean(name, header)}; add it to the file, empty where it has no value"
            )


def _inspect_json(
    files: Sequence[Path], options: ReadOptions, stream_schema: pa.Schema | None
) -> tuple[frozenset[str], frozenset[str]]:
    """Look at the first records; return which fields hold objects or arrays, and all fields."""
    nested: set[str] = set()
    fields: set[str] = set()
    for path in files:
        encoding = encoding_of(options)
        records = JsonRecords(path, encoding, options.flatten, options.null)
        found = records.first(_JSON_RECORDS_LOOKED_AT)
        if not found and not starts_array(path, encoding) and _is_spread(path, encoding):
            raise SourceError(
                f"'{path}' spreads its records over lines; write one per line (jq -c .)"
            )
        for line, record in found:
            deep = {name for name, value in record.items() if type(value) in (dict, list)}
            nested |= deep
            fields |= record.keys()
            if stream_schema is not None:
                for name in record.keys() - deep - set(stream_schema.names):
                    raise unknown_field(name, line, str(path), stream_schema.names)
    left = nested - set([] if stream_schema is None else stream_schema.names)
    return frozenset(left), frozenset(fields)


def unknown_field(name: str, line: int, where: str, known: Sequence[str]) -> SourceError:
    """Return the refusal of a field of JSON that the stream has no column for."""
    return SourceError(
        f"line {line:,} of '{where}' has a column '{name}' that the stream lacks"
        f"{did_you_mean(name, known)}; take it out, or add it to the stream with "
        "'chronicle add-column'"
    )


def _is_spread(path: Path, encoding: str) -> bool:
    return next((line.strip() for line in lines_of(path, encoding) if line.strip()), b"") == b"{"


def _check_stated(stated: Mapping[str, pa.Field], stream_schema: pa.Schema) -> None:
    check_columns(
        tuple(stated), stream_schema.names, where="--schema", whose="the stream", all_=False
    )
    for name, one in stated.items():
        found = stream_schema.field(name).type
        if one.type != found:
            raise SchemaError(
                f"--schema says that column '{name}' is {sql_type(one.type)}, and the stream has "
                f"{sql_type(found)}; a stream's column keeps its type: take the file into a new "
                "stream, or leave --schema out"
            )


def _left_out_notes(nested: Sequence[str]) -> list[str]:
    return [
        f"{name} left out, since it holds objects or arrays (--flatten takes the fields of objects)"
        for name in nested
    ]


_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def type_notes(guesses: Guesses, names: Sequence[str], *, has_points: bool) -> list[str]:
    """Return which columns became text by a cell that the rest is not like, or by commas.

    ``has_points``: numbers were read with decimal points, and could be with commas.
    """
    notes = []
    for name, guess in guesses.items():
        cell = guess.culprit or (guess.first if guess.kind == "text" else None)
        has_comma = has_points and cell is not None and _DECIMAL_COMMA.fullmatch(cell.text)
        if cell is not None and (guess.culprit or has_comma):
            where = f" of '{names[cell.source]}'" if len(names) > 1 else ""
            hint = "; if its comma is a decimal one, give --decimal-comma" if has_comma else ""
            notes.append(
                f"{name} read as STRING, since line {cell.line:,}{where} holds "
                f"'{cell.text[:80]}'{hint}"
            )
    return notes
