"""Functions of texts by column: by Arrow where it has just that, otherwise row by row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.expressions.columns import Values, from_arrow
from replay.expressions.functions.faults import Faults
from replay.expressions.nodes import Call, DataType, Literal
from replay.limits import check_asked

_FAR = 2**31
"""More characters than a text has; Arrow counts in int64, and -2**63 has no negative there."""


def by_row(call: Call, args: list[Values], faults: Faults, function: Callable[..., Any]) -> Values:
    """Evaluate a call row by row with a function of values that are not NULL; None is a fault.

    A call that reads one dictionary of texts gets its entries as rows, so that this is a loop over
    different texts.
    """
    sizes = [len(value.data) for value in args if _is_column(value.data)]
    n_rows = sizes[0] if sizes else 1
    columns = [_values(value, n_rows) for value in args]
    results, fault = [], np.zeros(n_rows, np.bool_)
    n_bytes = n_checked = 0
    for row, values in enumerate(zip(*columns, strict=False)):
        result = None
        if None not in values:
            result = function(*values)
            fault[row] = result is None
        results.append(result)
        if isinstance(result, str):
            n_bytes += len(result) if result.isascii() else 4 * len(result)
            if n_bytes - n_checked > PIECE_BYTES:
                n_checked = n_bytes
                check_asked(n_bytes, f"{call.op.upper()} of so many rows at once")
    faults.add(fault if sizes else fault[0])
    return _collect(results, call.type, single=not sizes)


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
    _check_joined(args)
    texts = [value.data for value in args]
    return Values(pc.binary_join_element_wise(*texts, "", null_handling="emit_null"), None)


def _check_joined(args: list[Values]) -> None:
    """Refuse to join texts that are too long together, before memory is taken for it."""
    n_rows = max((len(value.data) for value in args if _is_column(value.data)), default=1)
    n_bytes = 0
    for data, _ in args:
        if isinstance(data, pa.StringScalar):
            n_bytes += n_rows * data.as_buffer().size if data.is_valid else 0
        else:
            n_bytes += data.nbytes
    if n_bytes > PIECE_BYTES:
        check_asked(n_bytes, f"joining texts of {n_rows:,} rows")


def concat_ws(call: Call, args: list[Values], _: Faults) -> Values:
    """Join those texts that are not NULL, with the first argument between them.

    Arrow's ``binary_join_element_wise`` loses rows where it skips all texts.
    """
    sizes = [len(value.data) for value in args if _is_column(value.data)]
    _check_joined([*args, *args[:1] * len(args)])
    results = []
    columns = [_values(value, sizes[0] if sizes else 1) for value in args]
    for between, *texts in zip(*columns, strict=True):
        known = [text for text in texts if text is not None]
        results.append(None if between is None else between.join(known))
    return _collect(results, call.type, single=not sizes)


def by_pattern(call: Call, args: list[Values], _: Faults) -> Values:
    """Match texts against a constant pattern, of LIKE or a regular expression."""
    constants = _constants(call)
    if constants is None:  # NULL as the pattern or the escape
        return Values(np.False_, np.False_)
    pattern = like_regex(*constants) if call.op == "like" else constants[0]
    return from_arrow(pc.match_substring_regex(args[0].data, pattern=pattern))


def check_regexp(pattern: str) -> None:
    """Raise ValueError, with what is wrong, unless the pattern is a regular expression (RE2)."""
    pc.match_substring_regex("", pattern=pattern)


def like_regex(pattern: str, escape: str | None = None) -> str:
    """Return the regular expression (RE2) of a LIKE pattern, anchored at both ends."""
    wild = {"%": ".*", "_": "."}
    parts = [
        re.escape(character) if literally else wild[character]
        for character, literally in _like_parts(pattern, escape)
    ]
    return rf"\A(?s:{''.join(parts)})\z"


def lower_like(pattern: str, escape: str | None = None) -> str:
    r"""Return a LIKE pattern in lower case, with ``\`` as its escape character."""
    return "".join(
        ("\\" if literally and character in "%_\\" else "") + pc.utf8_lower(character).as_py()
        for character, literally in _like_parts(pattern, escape)
    )


def _like_parts(pattern: str, escape: str | None) -> Iterator[tuple[str, bool]]:
    """Yield the characters of a pattern, and whether they stand for themselves."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError("the pattern ends with its escape character")
            yield escaped, True
        else:
            yield character, character not in "%_"


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
}


def by_arrow(call: Call, args: list[Values], faults: Faults) -> Values:
    """Evaluate a call with Arrow's function, or row by row where it does not fit."""
    constants = _constants(call)
    result = None if constants is None else _ARROW[call.op](args[0].data, *constants)
    if result is None:
        return _row_by_row(call, args, faults)
    return Values(result, None) if call.type is DataType.STRING else from_arrow(result)


# ---------------------------------------------------------------------------------------------
# Functions of single texts; None where there is no such text or number (a fault)

PIECE_BYTES = 1 << 20
"""Bytes of texts that are made before the limits of the query are looked at."""

TEXT_MAX = 2**20
"""The longest text that ``lpad``, ``rpad``, ``repeat`` and ``replace`` make, in characters."""


def _substring_of_row(text: str, start: int, length: int | None = None) -> str | None:
    """Return the characters at places ``start`` to ``start + length - 1``, the first being 1.

    There are places before the first character too, with nothing there.
    """
    if length is None:
        return text[max(start - 1, 0) :]
    if length < 0:
        return None
    return text[max(start - 1, 0) : max(start - 1 + length, 0)]


def _left_of_row(text: str, count: int) -> str:
    """Return the first characters; of a negative count, all but so many of the last."""
    return text[:count]


def _right_of_row(text: str, count: int) -> str:
    """Return the last characters; of a negative count, all but so many of the first."""
    return text[-count:] if count else ""


def _trim_of_row(text: str, characters: str = " ") -> str:
    """Return the text without any of the characters at both ends."""
    return text.strip(characters) if characters else text


def _ltrim(text: str, characters: str = " ") -> str:
    """Return the text without any of the characters at its beginning."""
    return text.lstrip(characters) if characters else text


def _rtrim(text: str, characters: str = " ") -> str:
    """Return the text without any of the characters at its end."""
    return text.rstrip(characters) if characters else text


def _replace_of_row(text: str, old: str, new: str) -> str | None:
    """Return the text with every ``old``, from the left, made ``new``; an empty one is nowhere."""
    if not old:
        return text
    if len(new) > len(old):
        length = len(text) + text.count(old) * (len(new) - len(old))
        if length > TEXT_MAX:
            return None
    return text.replace(old, new)


def _strpos(text: str, part: str) -> int:
    """Return where a part first begins, from 1; 0 if nowhere."""
    return text.find(part) + 1


def _lpad(text: str, length: int, fill: str = " ") -> str | None:
    """Return the text filled up at its beginning, or cut at its end, to a length."""
    if length > TEXT_MAX:
        return None
    return _filling(fill, length - len(text)) + text[: max(length, 0)]


def _rpad(text: str, length: int, fill: str = " ") -> str | None:
    """Return the text filled up, or cut, at its end to a length."""
    if length > TEXT_MAX:
        return None
    return text[: max(length, 0)] + _filling(fill, length - len(text))


def _filling(fill: str, count: int) -> str:
    return (fill * (count // len(fill) + 1))[:count] if fill and count > 0 else ""


def _repeat(text: str, count: int) -> str | None:
    """Return the text so many times; nothing for a count below 1."""
    if count > 0 and len(text) * count > TEXT_MAX:
        return None
    return text * max(count, 0) if text else ""


def _split_part(text: str, delimiter: str, number: int) -> str | None:
    """Return the part with a number, from 1, or from the end with -1; nothing where there is none.

    An empty delimiter is nowhere, so the text is one part.
    """
    if number == 0:
        return None
    parts = text.split(delimiter) if delimiter else [text]
    at = number - 1 if number > 0 else len(parts) + number
    return parts[at] if 0 <= at < len(parts) else ""


_BY_ROW: dict[str, Callable[..., Any]] = {
    "substring": _substring_of_row,
    "left": _left_of_row,
    "right": _right_of_row,
    "trim": _trim_of_row,
    "ltrim": _ltrim,
    "rtrim": _rtrim,
    "replace": _replace_of_row,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "strpos": _strpos,
    "lpad": _lpad,
    "rpad": _rpad,
    "repeat": _repeat,
    "split_part": _split_part,
}


def _row_by_row(call: Call, args: list[Values], faults: Faults) -> Values:
    return by_row(call, args, faults, _BY_ROW[call.op])


TEXTS: dict[str, Callable[[Call, list[Values], Faults], Values]] = {
    **dict.fromkeys(_BY_ROW, _row_by_row),
    **dict.fromkeys(_ARROW, by_arrow),
    "concat": concat,
    "concat_ws": concat_ws,
    **dict.fromkeys(("like", "regexp_like"), by_pattern),
}
"""Functions of texts, by operator."""
