"""Paths as people give them: a ``~`` of a shell that left it, and URLs, which are no paths."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.types as pat

from chronicle.errors import SchemaError, StorageError
from chronicle.type_names import sql_type

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A scheme of two letters at least (one is a drive); ``Path`` leaves one slash of two."""


def url_scheme(path: str | Path) -> str | None:
    """Return the scheme of a URL in small letters; None for a path. Pure.

    Examples
    --------
    >>> url_scheme("s3://bucket/events"), url_scheme("data/events")
    ('s3', None)
    """
    found = _URL.match(os.fspath(path))
    return None if found is None else found[1].lower()


def local_path(path: str | Path, *, what: str = "store") -> Path:
    """Return a path on this machine, with ``~`` expanded; ``file://`` URLs are paths too.

    ``what`` names in messages what is to lie there.

    Raises
    ------
    StorageError
        If it is a URL of another machine, or names the home of a user who has none.
    """
    text, scheme = os.fspath(path), url_scheme(path)
    if scheme == "file":
        place = re.sub(r"^/+(?:localhost/)?", "/", text[len("file:") :])
        return Path(unquote(place))
    if scheme is not None:
        if isinstance(path, Path):  # it leaves one slash of two
            text = _URL.sub(r"\1://", text, count=1)
        raise StorageError(
            f"{what} '{text}' is a URL, and Chronicle reads and writes local files only; name a "
            "folder of this machine, such as one the bucket is mounted at"
        )
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise StorageError(
            f"{what} '{text}' names no home folder ({error}); write the path in full"
        ) from error


def kind_of_special(path: str | Path) -> str | None:
    """Return what a path is that stands in the place of a file, as "a pipe".

    None for files and folders, and where nothing is. Opening a pipe waits for who writes it.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


NULL_TEXT = "__HIVE_DEFAULT_PARTITION__"
"""What Hive, Spark and Delta call a folder of rows that have no value."""

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def values_in(path: PurePosixPath | str) -> dict[str, str | None]:
    """Return what the folders of a relative path say, by column: ``year=2024/month=05/x.csv``.

    Examples
    --------
    >>> values_in("year=2024/city=S%C3%A3o%20Paulo/x.parquet")
    {'year': '2024', 'city': 'São Paulo'}
    """
    found: dict[str, str | None] = {}
    for folder in PurePosixPath(path).parts[:-1]:
        name, equals, value = folder.partition("=")
        if equals and name:
            text = unquote(value)
            found[unquote(name)] = None if text == NULL_TEXT else text
    return found


def infer_type(values: Iterable[str | None]) -> pa.DataType:
    """Return the type of a partition column: whole numbers, dates, or else text.

    ``05`` is text, as it is in a cell of CSV: it may be a name, whose 0 counts.

    Examples
    --------
    >>> infer_type(["2024", "-5", None]), infer_type(["2024-05-01"]), infer_type(["12", "05"])
    (DataType(int64), DataType(date32[day]), DataType(string))
    """
    texts = [value for value in values if value is not None]
    if texts and all(_INTEGER.fullmatch(text) for text in texts):
        return pa.int64()
    if texts and all(_is_date(text) for text in texts):
        return pa.date32()
    return pa.string()


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    try:
        pa.scalar(text).cast(pa.date32())
    except pa.ArrowInvalid:
        return False
    return True


_NAME = re.compile(r"\+|-?0[0-9]")


def check_folder(text: str | None, data_type: pa.DataType, *, column: str) -> None:
    """Refuse the name of a folder whose digits behind a 0 or + would be a number in a stream."""
    is_number = pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type)
    if is_number and text is not None and _NAME.match(text):
        raise SchemaError(
            f"a folder is called '{column}={text}', and column '{column}' is {sql_type(data_type)} "
            "in the stream: digits behind a 0 or + may be a name, as of a town; take the files "
            "into a new stream, where the column is STRING, or rename the folder"
        )


def to_constant(text: str | None, data_type: pa.DataType, *, column: str) -> pa.Scalar:
    """Return the value that the path of a file or the log of its table spells."""
    if not text:  # Delta, too, knows no empty text here
        return pa.scalar(None, data_type)
    if pat.is_binary(data_type):
        return pa.scalar(_to_bytes(text), data_type)
    try:
        if pat.is_timestamp(data_type):
            return pa.scalar(text.removesuffix("Z")).cast(pa.timestamp("us")).cast(data_type)
        return pa.scalar(text).cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"'{text}' in a path is no {data_type}, as partition column '{column}' has it; "
            "rename the folder"
        ) from error


_ESCAPED = re.compile(r"(?:\\u00[0-9A-Fa-f]{2})+")


def _to_bytes(text: str) -> bytes:
    r"""Return the bytes of a binary partition: delta-rs spells each ``\u00ff``, Spark as UTF-8."""
    if _ESCAPED.fullmatch(text):
        return bytes(int(part, 16) for part in text.split("\\u")[1:])
    return text.encode()


def repeated(value: pa.Scalar, n_rows: int, data_type: pa.DataType) -> pa.Array:
    """Return a column of one value; of a dictionary type too."""
    if not value.is_valid:
        return pa.nulls(n_rows, data_type)
    column = pa.repeat(value, n_rows)
    if pat.is_dictionary(data_type):
        return column.cast(data_type.value_type).dictionary_encode()
    return column.cast(data_type)
