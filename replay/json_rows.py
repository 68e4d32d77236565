"""Rows as JSON texts, a column at a time.

Each column becomes an array of texts by Arrow's own casts, and one join makes the rows of them, so
no row is an object of Python. Types that are rare in answers go value by value.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

_ESCAPED_ALWAYS = {"\\": "\\\\", '"': '\\"'}
_ESCAPED_CONTROLS = {chr(code): json.dumps(chr(code))[1:-1] for code in range(0x20)}

_LARGE = pa.large_string()
"""Texts of a piece may hold more bytes than 32 bits count."""


def json_rows(table: pa.Table, *, before: str = "", after: str = "") -> pa.LargeStringArray:
    r"""Return each row as a JSON object on one line, between two texts.

    Numbers keep their exact value, a double its point or exponent. Times are ISO 8601, those of UTC
    with Z; intervals seconds; bytes hexadecimal digits; NaN and the infinities null; decimals with
    a fraction texts, as a double does not hold them.

    Parameters
    ----------
    table
        Rows of one column or more, whose names are distinct.
    before, after
        What stands around each object.

    Examples
    --------
    >>> json_rows(pa.table({"a": [1, None], "b": ["x", 'say "y"']})).to_pylist()
    ['{"a": 1, "b": "x"}', '{"a": null, "b": "say \\"y\\""}']
    """
    parts: list[pa.LargeStringArray | str] = []
    opening = before + "{"
    for name, column in zip(table.column_names, table.columns, strict=True):
        parts.append(f"{opening}{json.dumps(name, ensure_ascii=False)}: ")
        parts.append(pc.coalesce(_texts(_whole(column)), _literal("null")))
        opening = ", "
    return _joined(*parts, "}" + after)


def bytes_of(texts: pa.LargeStringArray) -> memoryview:
    """Return what an array made by `json_rows` holds, one text after the other, without a copy."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)
    return memoryview(data)[ends[texts.offset] : ends[texts.offset + len(texts)]]


def values_as_texts(column: pa.ChunkedArray) -> list[str | None]:
    """Return values as a person reads them: as in JSON, but NaN and the infinities have names.

    Texts are without quotes and escapes; None where a value is null.
    """
    data_type = column.type
    if pat.is_timestamp(data_type) and data_type.tz in (None, "UTC"):
        return list(_of_times(_whole(column)).to_pylist())
    return [_as_text(value) for value in column.to_pylist()]


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.timedelta):
        return str(value)
    return str(value) if isinstance(value, float) else str(json_value(value))


def json_value(value: Any) -> Any:
    """Return what JSON can carry of a value."""
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        return int(value)  # a count beyond 64 bits, say: JSON's whole numbers have any length
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _literal(text: str) -> pa.Scalar:
    return pa.scalar(text, _LARGE)


def _joined(*parts: pa.LargeStringArray | str) -> pa.LargeStringArray:
    """Return the parts of each row one after the other; null where one is null."""
    texts = [_literal(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*texts, _literal(""))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def _texts(column: pa.Array) -> pa.Array:
    """Return the JSON text of every value; null where it is null."""
    data_type = column.type
    if pat.is_dictionary(data_type):
        return _texts(column.cast(data_type.value_type))
    if pat.is_boolean(data_type) or pat.is_integer(data_type):
        return column.cast(_LARGE)
    if pat.is_floating(data_type):
        return _of_doubles(column.cast(pa.float64()))
    if pat.is_string(data_type) or pat.is_large_string(data_type):
        return _quoted(_escaped(column.cast(_LARGE)))
    if pat.is_timestamp(data_type) and data_type.tz in (None, "UTC"):
        return _quoted(_of_times(column))
    if pat.is_date32(data_type):
        return _quoted(column.cast(_LARGE))
    values = (json_value(value) for value in column.to_pylist())
    texts = [None if v is None else json.dumps(v, ensure_ascii=False) for v in values]
    return pa.array(texts, _LARGE)


def _quoted(texts: pa.Array) -> pa.Array:
    return _joined('"', texts, '"')


def _of_doubles(column: pa.Array) -> pa.Array:
    """Return the shortest texts that are these doubles again; readers see that they are none else.

    Arrow leaves the point of a whole number out, which would read as an integer.
    """
    finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, pa.float64()))
    texts = finite.cast(_LARGE)
    has_point = pc.match_substring_regex(texts, "[.e]")
    if pc.all(has_point).as_py() is not False:
        return texts
    return pc.if_else(has_point, texts, _joined(texts, ".0"))


def _escaped(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, r'["\\\x00-\x1f]')).as_py():
        return texts
    for character, escaped in _ESCAPED_ALWAYS.items():
        texts = pc.replace_substring(texts, character, escaped)
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        for character, escaped in _ESCAPED_CONTROLS.items():
            texts = pc.replace_substring(texts, character, escaped)
    return texts


def _of_times(column: pa.Array) -> pa.Array:
    """Return times as ISO 8601, with a fraction where there is one."""
    data_type = column.type
    unit = "ns" if data_type.unit == "ns" else "us"
    # Without a zone: a cast with one looks it up for every value.
    naive = column.view(pa.timestamp(data_type.unit)).cast(pa.timestamp(unit))
    texts = pc.replace_substring(naive.cast(_LARGE), " ", "T")
    texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    return texts if data_type.tz is None else _joined(texts, "Z")
