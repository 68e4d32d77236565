"""How files are read: the options that ``append`` and ``ingest`` share, and what they mean."""

from __future__ import annotations

import codecs
import json
import re
import shlex
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from chronicle.errors import SchemaError, SourceError, did_you_mean
from chronicle.ingest.local_times import AMBIGUOUS, Ambiguous

TIME_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0}
"""Microseconds in a unit of time; a nanosecond is less than one."""

_TEXT_ONLY = {
    "delimiter": "--delimiter",
    "quote": "--quote",
    "encoding": "--encoding",
    "decimal_comma": "--decimal-comma",
    "null": "--null",
    "columns": "--columns",
    "schema": "--schema",
    "flatten": "--flatten",
}
_CSV_ONLY = ("delimiter", "quote", "decimal_comma", "columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How files become typed events."""

    format: str | None = None
    """``parquet``, ``csv``, ``json`` or ``arrow``; by the files' endings if None."""

    delimiter: str | None = None
    """What separates cells, one sign; by the ending and the first line if None."""

    quote: str | None = None
    """What encloses a cell, one sign, doubled inside; ``"`` if None, empty for nothing."""

    encoding: str | None = None
    """Name of the texts' encoding, as Python knows it; UTF-8 if None."""

    decimal_comma: bool = False
    """Whether ``1,5`` is one and a half."""

    null: tuple[str, ...] = ()
    """Texts that stand for no value, beside the empty cell."""

    columns: tuple[str, ...] = ()
    """Names of the columns of CSV files without a header line."""

    schema: str | None = None
    """Types of columns as ``ts TIMESTAMP_NTZ, x DOUBLE``; the others are those of the stream, or
    found out for a new one."""

    flatten: bool = False
    """Whether fields of JSON objects become columns, ``{"a": {"b": 1}}`` column ``a_b``; nested
    values are left out otherwise."""

    time_format: str | None = None
    """Pattern of times written as text, Java's (``dd/MM/yyyy HH:mm``) or C's (``%d/%m/%Y``);
    ISO 8601 if None."""

    time_unit: str | None = None
    """Unit of times written as numbers since 1970, UTC: ``s``, ``ms``, ``us`` or ``ns``."""

    time_zone: str | None = None
    """Zone in which times without an offset are local; they are stored as instants then."""

    ambiguous: Ambiguous | None = None
    """Which instant is meant by a local time that clocks show twice: ``earlier``, ``later``, or
    ``infer``, by the order of the file. None puts such records aside, as it does with times that
    clocks skip."""


VALUE_OPTIONS = ("decimal_comma", "null", "time_format", "time_unit", "time_zone", "ambiguous")
"""Options that say what a cell means, wherever it stands."""


def options_to_json(options: ReadOptions) -> str:
    """Return the options that were given as a JSON object. Pure."""
    found = {one.name: getattr(options, one.name) for one in fields(ReadOptions)}
    return json.dumps({name: value for name, value in found.items() if value or value == ""})


def options_from_json(text: str | None) -> ReadOptions:
    """Return options that `options_to_json` wrote; without a text, those that say nothing."""
    given: dict[str, Any] = {} if text is None else json.loads(text)
    unknown = sorted(given.keys() - {one.name for one in fields(ReadOptions)})
    if unknown:
        raise SourceError(
            f"rows of the quarantine were read with {unknown[0]!r}, which this version does not "
            "know; put them back with the version that put them aside, or a newer one"
        )
    lists = {name: tuple(one) for name, one in given.items() if type(one) is list}
    return ReadOptions(**{**given, **lists})


def options_in_words(options: ReadOptions) -> str:
    """Return what cells are read by, as it is given to a command; empty if nothing is. Pure.

    Examples
    --------
    >>> options_in_words(ReadOptions(decimal_comma=True, null=("NA",), time_format="dd.MM.yyyy"))
    "--decimal-comma --null NA --time-format dd.MM.yyyy"
    """
    words: list[str] = []
    for name in VALUE_OPTIONS:
        value, flag = getattr(options, name), f"--{name.replace('_', '-')}"
        for one in value if type(value) is tuple else [value]:
            words += [flag] if one is True else [flag, shlex.quote(one)] if one else []
    return " ".join(words)


def check_read_options(options: ReadOptions, format_name: str) -> None:
    """Check that options fit the format of the files and have a meaning."""
    given = [one.name for one in fields(ReadOptions) if getattr(options, one.name)]
    for name in given:
        if name in _TEXT_ONLY and format_name in ("parquet", "arrow"):
            raise SourceError(
                f"{format_name.capitalize()} files state their own schema and values; leave "
                f"{_TEXT_ONLY[name]} out"
            )
        if name in _CSV_ONLY and format_name == "json":
            raise SourceError(f"{_TEXT_ONLY[name]} is for CSV files; leave it out")
        if name == "flatten" and format_name == "csv":
            raise SourceError("--flatten is for JSON files; leave it out")
    for name, text in (("--delimiter", options.delimiter), ("--quote", options.quote or None)):
        if text is not None and (len(text) != 1 or text in "\r\n" or not text.isascii()):
            raise SourceError(f"{name} is '{text}'; give one ASCII sign, such as ';' or a tab")
    if options.delimiter is not None and options.delimiter == (options.quote or '"'):
        raise SourceError("--delimiter and --quote are the same sign; give two")
    if options.time_unit not in (None, *TIME_UNITS):
        raise SourceError(
            f"no time unit '{options.time_unit}' (there are: {', '.join(TIME_UNITS)})"
        )
    if options.ambiguous not in (None, *AMBIGUOUS):
        raise SourceError(
            f"no way '{options.ambiguous}' to take times that clocks show twice (there are: "
            f"{', '.join(AMBIGUOUS)})"
        )
    if options.time_unit is not None and options.time_format is not None:
        raise SourceError("--time-unit is for numbers and --time-format for text; give one")
    encoding_of(options)
    if options.schema is not None:
        parse_schema(options.schema)


def encoding_of(options: ReadOptions) -> str:
    """Return Python's name of the encoding."""
    try:
        found = codecs.lookup(options.encoding or "utf-8")
    except LookupError:
        found = None
    if found is None or not found._is_text_encoding:
        raise SourceError(
            f"no encoding '{options.encoding}'; name one like utf-8, utf-16, latin-1 or cp1252"
        )
    return "utf-8" if found.name == "utf-8-sig" else found.name


_TYPES = {
    "tinyint byte int8": pa.int8(),
    "smallint short int16": pa.int16(),
    "int integer int32": pa.int32(),
    "bigint long int64": pa.int64(),
    "real float float32": pa.float32(),
    "double float64": pa.float64(),
    "boolean bool": pa.bool_(),
    "string varchar text": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_TYPE_OF = {name: data_type for names, data_type in _TYPES.items() for name in names.split()}
_COLUMN = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`|([^\s`,]+))\s+([A-Za-z_0-9]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?"
    r"\s*(,|$)"
)


def parse_schema(text: str) -> pa.Schema:
    """Read a list of columns and types such as ``ts TIMESTAMP_NTZ, `a b` DECIMAL(5, 2)``. Pure.

    The words are those of Spark SQL: a ``TIMESTAMP`` is an instant, a ``TIMESTAMP_NTZ`` local.
    """
    found: list[pa.Field] = []
    at, more = 0, ","
    while more:
        part = _COLUMN.match(text, at)
        if part is None:
            raise SchemaError(
                f"schema '{text}' cannot be read from '{text[at:].strip()}' on; "
                "write it as 'ts TIMESTAMP_NTZ, price DOUBLE, name STRING'"
            )
        name = part[1].replace("``", "`") if part[1] else part[2]
        found.append(pa.field(name, _type_named(part, name)))
        at, more = part.end(), part[6]
    if len({field.name for field in found}) != len(found):
        raise SchemaError(f"schema '{text}' names a column twice; name each once")
    return pa.schema(found)


def _type_named(part: re.Match[str], column: str) -> pa.DataType:
    name = part[3].lower()
    if name in ("decimal", "numeric") and int(part[4] or 10) <= 38:
        return pa.decimal128(int(part[4] or 10), int(part[5] or 0))
    if name not in _TYPE_OF or (part[4] and name != "varchar"):
        known = [*_TYPE_OF, "decimal"]
        raise SchemaError(
            f"column '{column}' cannot be of type '{part[3]}'{did_you_mean(name, known)}; take "
            "TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), BOOLEAN, STRING, "
            "BINARY, DATE, TIMESTAMP or TIMESTAMP_NTZ"
        )
    return _TYPE_OF[name]
