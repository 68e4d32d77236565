"""Take JSON lines apart into records and cells, as Spark does."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from chronicle.errors import SchemaError, SourceError
from chronicle.local.text_records import Records, decode, lines_of


class IntText(str):
    """An integer as it is written."""

    __slots__ = ()


class FloatText(str):
    """A number with a fraction or an exponent as it is written."""

    __slots__ = ()


class ConstantText(str):
    """``NaN`` or an infinity as it is written."""

    __slots__ = ()


class RawText(str):
    """An object or array as it is written."""

    __slots__ = ()


class Several(list[Any]):
    """The values of a name that is given more than once; the last one counts."""

    __slots__ = ()


Fields = dict[str, Any]
"""Values of a record by name: a ``str``, one of the texts above, True, False or None."""


def split_json(data: bytes, columns: pa.Schema) -> Records:
    """Take a file of JSON lines apart for columns of these types; other names are passed over.

    A line that holds an array of objects holds as many records, as Spark has it.
    """
    texts: list[str] = []
    malformed: list[bool] = []
    cells: list[list[Any]] = [[] for _ in columns]
    kinds = [(field.name, _kind(field.type)) for field in columns]
    for line, group in json_lines(data):
        rows = [[_to_cell(fields.get(name), kind) for name, kind in kinds] for fields in group]
        is_bad = not group or any(cell is _BAD for row in rows for cell in row)
        for row in rows or [[None] * len(kinds)]:
            for column, cell in zip(cells, row, strict=True):
                column.append(None if cell is _BAD else cell)
            texts.append(line)
            malformed.append(is_bad)
    arrays = {
        one.name: _to_array(column, pa.binary() if pat.is_binary(one.type) else pa.string())
        for one, column in zip(columns, cells, strict=True)
    }
    return Records(arrays, np.array(malformed, bool), texts)


def _to_array(column: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    try:
        return pa.array(column, data_type)
    except UnicodeEncodeError:  # half a surrogate pair, which Java writes as a question mark
        whole = [text and text.encode("utf-8", "replace").decode() for text in column]
        return pa.array(whole, data_type)


def infer_json(data: bytes, *, where: str) -> pa.Schema:
    """Return the columns of a file of JSON lines, by name, as Spark infers them.

    Raises
    ------
    SchemaError
        If a value is an object or array.
    SourceError
        If there is no record.
    """
    seen: dict[str, set[str]] = {}
    for _, group in json_lines(data):
        for fields in group:
            for name, value in fields.items():
                last = value[-1] if type(value) is Several else value
                seen.setdefault(name, set()).add(_token_kind(last))
    if not seen:
        raise SourceError(f"{where} holds no record; leave it out")
    for name, kinds in seen.items():
        if "raw" in kinds:
            raise SchemaError(
                f"column '{name}' of {where} holds objects or arrays, which a stream cannot store; "
                "events are flat, so take it out or apart into columns of their own"
            )
    return pa.schema([pa.field(name, _inferred(seen[name] - {"null"})) for name in sorted(seen)])


def _token_kind(value: Any) -> str:
    if value is None:
        return "null"
    named = {bool: "bool", IntText: "int", FloatText: "float", ConstantText: "float", str: "string"}
    return named.get(type(value), "raw")


def _inferred(kinds: set[str]) -> pa.DataType:
    if kinds == {"bool"}:
        return pa.bool_()
    if kinds == {"int"}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {"int", "float"} else pa.string()


# ---------------------------------------------------------------------------------------------
# From a value to the cell of a column.

_BAD: Any = object()
"""Stands for a value that is none of the column's kind."""

_NO_BLANKS = dict.fromkeys(range(33))
_NUMBERS = {"NaN": "NaN", "+INF": "Infinity", "-INF": "-Infinity", "Infinity": "Infinity",
            "+Infinity": "Infinity", "-Infinity": "-Infinity"}  # fmt: skip


def _kind(data_type: pa.DataType) -> str:
    if pat.is_timestamp(data_type):
        return "text" if data_type.tz is None else "instant"
    for kind, is_kind in (
        ("string", pat.is_string),
        ("int", pat.is_signed_integer),
        ("float", pat.is_floating),
        ("bool", pat.is_boolean),
        ("decimal", pat.is_decimal),
        ("text", pat.is_date),
        ("base64", pat.is_binary),
    ):
        if is_kind(data_type):
            return kind
    raise AssertionError(data_type)


def _to_cell(value: Any, kind: str) -> Any:
    """Return the cell, None if there is no value, or ``_BAD``."""
    if value is None:
        return None
    of = type(value)
    if of is str:
        if kind == "string":
            return value
        if kind == "float":
            return _NUMBERS.get(value, _BAD)
        if kind == "base64":
            return _from_base64(value)
        return _BAD if kind in {"int", "bool"} or value == "" else value
    if of is Several:
        cells = [_to_cell(one, kind) for one in value]
        return _BAD if any(cell is _BAD for cell in cells) else cells[-1]
    if of is bool:
        return ("true" if value else "false") if kind in {"string", "bool"} else _BAD
    if kind == "string":
        return str(value)
    if of is IntText:
        if kind == "instant":
            return _seconds_text(value)
        return str(value) if kind in {"int", "float", "decimal"} else _BAD
    if of is FloatText:
        return str(value) if kind in {"float", "decimal"} else _BAD
    return _NUMBERS[value] if of is ConstantText and kind == "float" else _BAD


def _from_base64(text: str) -> Any:
    try:
        return base64.b64decode(text.translate(_NO_BLANKS), validate=True)
    except ValueError:
        return _BAD


def _seconds_text(value: str) -> Any:
    """Return the instant so many seconds after 1970, as Spark reads a number, as text."""
    seconds = int(value) if len(value) <= 13 else 1 << 62
    if abs(seconds) >= 1 << 37:  # some four thousand years
        return _BAD
    return f"{np.datetime64(seconds, 's')}Z"


# ---------------------------------------------------------------------------------------------
# From a line to its values.


def json_lines(data: bytes) -> Iterator[tuple[str, list[Fields]]]:
    """Yield each line that is not empty, and its records: none where it is malformed."""
    try:
        data.decode("utf-8")
        is_text = True
    except UnicodeDecodeError:
        is_text = False
    for line in lines_of(decode(data)):
        if not is_text and "\ufffd" in line:
            yield line, []
            continue
        try:
            fields = _DECODER.decode(line)
        except (ValueError, RecursionError):
            fields = None
        if type(fields) is dict:
            yield line, [fields]
        else:  # what Python's module does not take, Spark's may
            yield from _scan_line(line)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of plain values; others are read by the slow way."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name is given twice")
    if any(type(value) in {dict, list} for value in fields.values()):
        raise ValueError("nested values are wanted as they are written")
    return fields


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_float=FloatText,
    parse_int=IntText,
    parse_constant=ConstantText,
)

_WS = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_CONSTANT = re.compile(r"NaN|[+-]?Infinity|[+-]INF")
_WORD = re.compile(r"true|false|null")
_STRING = {
    quote: re.compile(rf"{quote}((?:[^{quote}\\\x00-\x1f]|\\.)*+){quote}") for quote in "\"'"
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_ESCAPED = dict(zip("\"'\\/bfnrt", "\"'\\/\b\f\n\r\t", strict=True))
_DEPTH_MAX = 200


def _scan_line(line: str) -> Iterator[tuple[str, list[Fields]]]:
    """Read a line as leniently as Jackson: single quotes count, what follows its value does not."""
    at = _after_blanks(line, 1 if line.startswith("\ufeff") else 0)
    if at == len(line):
        return
    try:
        if line[at] == "{":
            yield line, [_scan_object(line, at, 0)[0]]
        elif line[at] == "[":
            group = _scan_objects(line, at)
            if group:
                yield line, group
        else:
            yield line, []
    except ValueError:
        yield line, []


def _after_blanks(text: str, at: int) -> int:
    found = _WS.match(text, at)
    assert found is not None
    return found.end()


def _scan_object(text: str, at: int, depth: int) -> tuple[Fields, int]:
    """Read the object that begins here, and return where it ends."""
    fields: Fields = {}
    at = _after_blanks(text, at + 1)
    if text.startswith("}", at):
        return fields, at + 1
    while True:
        name, at = _scan_string(text, at)
        at = _after_blanks(text, at)
        if not text.startswith(":", at):
            raise ValueError("no colon")
        value, at = _scan_value(text, _after_blanks(text, at + 1), depth)
        if name in fields:
            before = fields[name]
            value = Several([*(before if type(before) is Several else [before]), value])
        fields[name] = value
        at = _after_blanks(text, at)
        if text.startswith("}", at):
            return fields, at + 1
        if not text.startswith(",", at):
            raise ValueError("no comma")
        at = _after_blanks(text, at + 1)


def _scan_array(text: str, at: int, depth: int) -> tuple[list[tuple[int, int]], int]:
    """Return where the elements of the array that begins here lie, and where it ends."""
    places: list[tuple[int, int]] = []
    at = _after_blanks(text, at + 1)
    if text.startswith("]", at):
        return places, at + 1
    while True:
        _, end = _scan_value(text, at, depth)
        places.append((at, end))
        at = _after_blanks(text, end)
        if text.startswith("]", at):
            return places, at + 1
        if not text.startswith(",", at):
            raise ValueError("no comma")
        at = _after_blanks(text, at + 1)


def _scan_objects(text: str, at: int) -> list[Fields]:
    """Read an array of objects."""
    places, _ = _scan_array(text, at, 0)
    if any(text[start] != "{" for start, _ in places):
        raise ValueError("no object")
    return [_scan_object(text, start, 0)[0] for start, _ in places]


def _scan_value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > _DEPTH_MAX:
        raise ValueError("too deep")
    sign = text[at : at + 1]
    if sign in {'"', "'"}:
        return _scan_string(text, at)
    if sign == "{":
        _, end = _scan_object(text, at, depth + 1)
        return RawText(text[at:end]), end
    if sign == "[":
        _, end = _scan_array(text, at, depth + 1)
        return RawText(text[at:end]), end
    found = _WORD.match(text, at)
    if found is not None:
        return {"true": True, "false": False, "null": None}[found[0]], found.end()
    found = _CONSTANT.match(text, at)
    if found is not None:
        return ConstantText(found[0]), found.end()
    found = _NUMBER.match(text, at)
    if found is None:
        raise ValueError("no value")
    return (FloatText if found[1] else IntText)(found[0]), found.end()


def _scan_string(text: str, at: int) -> tuple[str, int]:
    pattern = _STRING.get(text[at : at + 1])
    found = None if pattern is None else pattern.match(text, at)
    if found is None:
        raise ValueError("no string")
    whole = _ESCAPE.sub(_unescaped, found[1])
    # Halves of a surrogate pair are joined, where both are there.
    return whole.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"), found.end()


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    if found[2] not in _ESCAPED:
        raise ValueError("no such escape")
    return _ESCAPED[found[2]]
