"""Functions of texts by column: by Arrow where it has just that, otherwise row by row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.expressions.columns import Values, from_arrow
from replay.expressions.functions.faults import Faults
from replay.language.bound import Call, DataType, Literal
from replay.language.compute import cast, compute

_FAR = 2**31
"""More characters than a text has; Arrow counts in int64, and -2**63 has no negative there."""


def by_row(call: Call, args: list[Values], faults: Faults) -> Values:
    """Evaluate a call row by row with the function that computes constants.

    A call that reads one dictionary of texts gets its entries as rows, so that this is a loop over
    different texts.
    """
    sizes = [len(value.data) for value in args if _is_column(value.data)]
    n_rows = sizes[0] if sizes else 1
    columns = [_values(value, n_rows) for value in args]
    results, fault = [], np.zeros(n_rows, np.bool_)
    for row, values in enumerate(zip(*columns, strict=False)):
        result = None
        if None not in values:
            result = _apply(call, list(values))
            fault[row] = result is None
        results.append(result)
    faults.add(fault if sizes else fault[0])
    return _collect(results, call.type, single=not sizes)


def _apply(call: Call, values: list[Any]) -> Any:
    if call.op == "cast":
        return cast(values[0], call.args[0].type, call.type)
    return compute(call.op, values, call.type)


def _is_column(data: Any) -> bool:
    return isinstance(data, pa.Array) or (isinstance(data, np.ndarray) and data.ndim > 0)


def _values(value: Values, n_rows: int) -> Iterable[Any]:
    """Return the value of every row, None for NULL; without end where all rows have one."""
    data, valid = value
    if isinstance(data, pa.Scalar):
        return repeat(data.as_py(), n_rows)
    if isinstance(data, pa.Array):
        column: list[Any] = data.to_pylist()
        return column
    if not np.ndim(data):
        known = valid is None or bool(valid)
        return repeat(data.item() if known else None, n_rows)
    if valid is None:
        plain: list[Any] = data.tolist()
        return plain
    mask = np.broadcast_to(valid, data.shape)
    return [v if ok else None for v, ok in zip(data.tolist(), mask.tolist(), strict=True)]


def _collect(results: list[Any], data_type: DataType, *, single: bool) -> Values:
    if data_type is DataType.STRING:
        if single:
            return Values(pa.scalar(results[0], pa.string()), None)
        return Values(pa.array(results, pa.string()), None)
    dtype: Any = {DataType.DOUBLE: np.float64, DataType.BOOLEAN: np.bool_}.get(data_type, np.int64)
    data = np.array([0 if value is None else value for value in results], dtype)
    valid = np.array([value is not None for value in results], np.bool_)
    if single:
        return Values(data[0], valid[0])
    return Values(data, None if valid.all() else valid)


def _constants(call: Call) -> list[Any] | None:
    """Return the arguments after the first if all are constants that are not NULL."""
    rest = call.args[1:]
    values = [argument.value for argument in rest if isinstance(argument, Literal)]
    return values if len(values) == len(rest) and None not in values else None


def concat(_: Call, args: list[Values], __: Faults) -> Values:
    """Join texts; one that is NULL makes the result NULL."""
    texts = [value.data for value in args]
    return Values(pc.binary_join_element_wise(*texts, "", null_handling="emit_null"), None)


def concat_ws(call: Call, args: list[Values], _: Faults) -> Values:
    """Join those texts that are not NULL, with the first argument between them.

    Arrow's ``binary_join_element_wise`` loses rows where it skips all texts.
    """
    sizes = [len(value.data) for value in args if _is_column(value.data)]
    results = []
    columns = [_values(value, sizes[0] if sizes else 1) for value in args]
    for between, *texts in zip(*columns, strict=True):
        known = [text for text in texts if text is not None]
        results.append(None if between is None else between.join(known))
    return _collect(results, call.type, single=not sizes)


def like(call: Call, args: list[Values], _: Faults) -> Values:
    """Match texts against a constant pattern."""
    constants = _constants(call)
    if constants is None:  # NULL as the pattern or the escape
        return Values(np.False_, np.False_)
    return from_arrow(pc.match_substring_regex(args[0].data, pattern=like_regex(*constants)))


def like_regex(pattern: str, escape: str | None = None) -> str:
    """Return the regular expression (RE2) of a LIKE pattern, anchored at both ends."""
    parts = []
    escaped = False
    for character in pattern:
        if not escaped and character == escape:
            escaped = True
            continue
        wild = {"%": ".*", "_": "."}.get(character) if not escaped else None
        parts.append(wild or re.escape(character))
        escaped = False
    return rf"\A(?s:{''.join(parts)})\z"


# ---------------------------------------------------------------------------------------------
# Arrow's functions, given the texts and what stands after them; None where they do not fit


def _sliced(data: Any, start: int, stop: int | None) -> Any:
    bounded = [None if at is None else max(-_FAR, min(at, _FAR)) for at in (start, stop)]
    return pc.utf8_slice_codeunits(data, start=bounded[0], stop=bounded[1])


def _substring(data: Any, start: int, length: int | None = None) -> Any:
    if length is None:
        return _sliced(data, max(start - 1, 0), None)
    return None if length < 0 else _sliced(data, max(start - 1, 0), max(start - 1 + length, 0))


def _left(data: Any, count: int) -> Any:
    return _sliced(data, 0, count)


def _right(data: Any, count: int) -> Any:
    return _sliced(data, -count, None) if count else _sliced(data, 0, 0)


def _replace(data: Any, old: str, new: str) -> Any:
    if not old or len(new) > len(old):  # the result may be too long
        return None
    return pc.replace_substring(data, pattern=old, replacement=new)


def _trim(name: str) -> Callable[..., Any]:
    def apply(data: Any, characters: str = " ") -> Any:
        return pc.call_function(name, [data], pc.TrimOptions(characters)) if characters else None

    return apply


_ARROW: dict[str, Callable[..., Any]] = {
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "length": pc.utf8_length,
    "reverse": pc.utf8_reverse,
    "substring": _substring,
    "left": _left,
    "right": _right,
    "trim": _trim("utf8_trim"),
    "ltrim": _trim("utf8_ltrim"),
    "rtrim": _trim("utf8_rtrim"),
    "replace": _replace,
    "starts_with": lambda data, start: pc.starts_with(data, pattern=start),
    "ends_with": lambda data, end: pc.ends_with(data, pattern=end),
    "regexp_like": lambda data, pattern: pc.match_substring_regex(data, pattern=pattern),
}


def by_arrow(call: Call, args: list[Values], faults: Faults) -> Values:
    """Evaluate a call with Arrow's function, or row by row where it does not fit."""
    constants = _constants(call)
    result = None if constants is None else _ARROW[call.op](args[0].data, *constants)
    if result is None:
        return by_row(call, args, faults)
    return Values(result, None) if call.type is DataType.STRING else from_arrow(result)


TEXTS: dict[str, Callable[[Call, list[Values], Faults], Values]] = {
    **dict.fromkeys(_ARROW, by_arrow),
    **dict.fromkeys(("strpos", "lpad", "rpad", "repeat", "split_part"), by_row),
    "concat": concat,
    "concat_ws": concat_ws,
    "like": like,
}
"""Functions of texts, by operator."""
