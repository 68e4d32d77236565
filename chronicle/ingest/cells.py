"""Read cells of text into values of a type, exactly or not at all, and find out types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

Mask = npt.NDArray[np.bool_]

_CLOCK = r"[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_TEXT_LENGTH_MAX = 5000
"""Digits of a number: more mean a mistake, and casts of them take for ever."""


def read_cells(
    cells: pa.Array, data_type: pa.DataType, *, decimal_comma: bool = False
) -> tuple[pa.Array, Mask]:
    """Read a column of cells; blanks around a value do not count, but in text.

    Nothing is rounded but the digits a ``double`` or ``float`` cannot hold: ``1.5`` is no integer,
    ``0.125`` no DECIMAL(5, 2), and a time finer than a microsecond none. ``cells`` are texts, or
    what JSON says of the type. The values are null, and the mask is True, where a cell does not
    parse or holds a number beyond the type's range; ``decimal_comma``: ``1,5`` is one and a half.
    """
    values, bad = _read_cells(cells, data_type, decimal_comma)
    if not pat.is_floating(data_type):
        return values, bad
    # A number beyond the largest one is read as infinite, without an error. JSON has no infinity.
    too_large = _where(pc.is_inf(values))
    if too_large.any():
        if pat.is_string(cells.type):
            too_large &= ~_where(pc.match_substring(cells, "inf", ignore_case=True))
        values = pc.if_else(pa.array(too_large), pa.scalar(None, data_type), values)
    return values, bad | too_large


def _where(condition: pa.Array) -> Mask:
    """Return where a condition holds; a null is no."""
    return np.asarray(pc.fill_null(condition, False).to_numpy(zero_copy_only=False), bool)


def _read_cells(
    cells: pa.Array, data_type: pa.DataType, decimal_comma: bool
) -> tuple[pa.Array, Mask]:
    quick = _from_typed(cells, data_type)
    if quick is not None:
        return quick, np.zeros(len(cells), bool)
    cells = as_text(cells)
    if pat.is_string(data_type) or pat.is_binary(data_type):
        return cells.cast(data_type), np.zeros(len(cells), bool)
    if decimal_comma and is_number(data_type):
        cells = _with_points(cells)
    if not _needs_care(cells, data_type):
        try:
            return cells.cast(data_type), np.zeros(len(cells), bool)
        except pa.ArrowInvalid:
            pass
    return _read_with_care(cells, data_type)


def as_text(cells: pa.Array) -> pa.Array:
    """Return cells as they would be written."""
    if pat.is_string(cells.type):
        return cells
    if pat.is_floating(cells.type):
        return pa.array([None if x is None else repr(x) for x in cells.to_pylist()], pa.string())
    return cells.cast(pa.string())


def _from_typed(cells: pa.Array, data_type: pa.DataType) -> pa.Array | None:
    """Return what JSON said as values of a type that holds all of it; None if it is text."""
    found = cells.type
    if found == data_type or pat.is_null(found):
        return cells.cast(data_type)
    if pat.is_int64(found) and (pat.is_signed_integer(data_type) or pat.is_floating(data_type)):
        try:
            return cells.cast(data_type, safe=not pat.is_floating(data_type))
        except pa.ArrowInvalid:
            return None
    if pat.is_float64(found) and pat.is_float32(data_type):
        return cells.cast(data_type)
    return None


def is_number(data_type: pa.DataType) -> bool:
    """Return whether values of a type are integers, DECIMAL or floating. Pure."""
    return bool(
        pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type)
    )


def _with_points(cells: pa.Array) -> pa.Array:
    """Return numbers with a point for a comma; one with a point is none."""
    pointed = pc.replace_substring(cells, ",", ".", max_replacements=1)
    return pc.if_else(pc.match_substring(cells, "."), pa.scalar("?"), pointed)


def _needs_care(cells: pa.Array, data_type: pa.DataType) -> bool:
    """Return whether Arrow's cast might take what is no value of the type."""
    if pat.is_integer(data_type):
        return _any(pc.match_substring(cells, "x", ignore_case=True))  # hexadecimals
    if pat.is_boolean(data_type):
        return _any(pc.match_substring_regex(cells, "^[01]$"))
    return bool(pat.is_decimal(data_type))  # of exponents, some are read and some are not


def _read_with_care(cells: pa.Array, data_type: pa.DataType) -> tuple[pa.Array, Mask]:
    bare = pc.utf8_trim_whitespace(cells)
    if pat.is_integer(data_type):
        bare = pc.replace_substring_regex(bare, r"^\+?(-?[0-9]+)(\.0*)?$", r"\1")
    if pat.is_timestamp(data_type):
        bare = capitalised(bare)
    shape = _shape(data_type)
    fits = pc.and_(
        pc.match_substring_regex(bare, f"^({shape})$"),
        pc.less_equal(pc.binary_length(bare), _TEXT_LENGTH_MAX),
    )
    values = _cast_each(pc.if_else(fits, bare, pa.scalar(None, pa.string())), data_type)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return values, missing & cells.is_valid().to_numpy(zero_copy_only=False)


def capitalised(cells: Any) -> Any:
    """Return times with a capital T and Z, which may be small letters after RFC 3339."""
    cells = pc.replace_substring_regex(cells, r"^([0-9]{4}-[0-9]{2}-[0-9]{2})t([0-9])", r"\1T\2")
    return pc.replace_substring_regex(cells, r"([0-9])z$", r"\1Z")


def _shape(data_type: pa.DataType) -> str:
    if pat.is_integer(data_type):
        return "-?[0-9]+"
    if pat.is_floating(data_type):
        return _NUMBER + r"|[+-]?(?i:nan|inf|infinity)"
    if pat.is_boolean(data_type):
        return "(?i:true|false)"
    if pat.is_decimal(data_type):
        return _NUMBER
    if pat.is_date(data_type):
        return _DATE
    assert pat.is_timestamp(data_type), data_type
    if data_type.tz is None:
        return f"{_DATE}({_CLOCK})?"
    return rf"{_DATE}{_CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)"


def _cast_each(cells: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Cast cells, null where one cannot be: halves are tried where a whole cannot."""
    try:
        return cells.cast(data_type)
    except pa.ArrowInvalid:
        if len(cells) == 1:
            return pa.nulls(1, data_type)
        half = len(cells) // 2
        parts = (cells.slice(0, half), cells.slice(half))
        return pa.concat_arrays([_cast_each(part, data_type) for part in parts])


def _any(mask: pa.Array) -> bool:
    return bool(pc.any(mask).as_py())


# ---------------------------------------------------------------------------------------------
# Types nobody states.

_TYPES = {
    "nothing": pa.string(),
    "bool": pa.bool_(),
    "int": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp_utc": pa.timestamp("us", "UTC"),
    "text": pa.string(),
}
_WIDER = {"int": "double", "date": "timestamp"}
_KINDS = ("int", "double", "bool", "date", "timestamp", "timestamp_utc")

_EXACT_INTEGER_MAX = 1 << 53
"""Up to here every integer is a double."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first cell that made a column wider than it began."""

    source: int
    """Position of its file among the sources."""

    line: int
    """Its line; the number of its record while the file is being read."""

    text: str


@dataclass(frozen=True, slots=True)
class Guess:
    """What the cells of a column seem to be, as far as they were seen; grows by ``seen``."""

    kind: str = "nothing"
    largest: int = 0
    """Largest integer, its sign left out."""

    culprit: Culprit | None = None
    """What made it text."""

    n_nested: int = 0
    """Cells that hold an object or an array."""

    first: Culprit | None = None
    """The first cell that holds something."""

    @property
    def data_type(self) -> pa.DataType:
        """The type of all cells that were seen."""
        return _TYPES[self.kind]

    @property
    def is_nested(self) -> bool:
        """Whether no cell holds a plain value."""
        return self.n_nested > 0 and self.kind == "nothing"

    def joined(self, other: Guess) -> Guess:
        """Return what the cells of both are together; this one's came first."""
        n_nested = self.n_nested + other.n_nested
        if "nothing" in (self.kind, other.kind):
            known = other if self.kind == "nothing" else self
            return replace(known, n_nested=n_nested)
        largest = max(self.largest, other.largest)
        for wide in (self.kind, other.kind):
            narrow = _narrower(wide)
            both = {self.kind, other.kind} <= {wide, narrow}
            if both and (wide != "double" or largest <= _EXACT_INTEGER_MAX):
                return Guess(wide, largest, None, n_nested, self.first)
        culprit = self.culprit or other.culprit
        if self.kind != "text" and other.first is not None and culprit is None:
            culprit = other.first
        return Guess("text", 0, culprit, n_nested, self.first)

    def seen(
        self, cells: pa.Array, where: tuple[int, int], *, decimal_comma: bool = False
    ) -> Guess:
        """Return the guess once further cells of text were seen.

        ``where`` is the position of the source and the number of the first record.
        """
        if self.kind == "text" or cells.null_count == len(cells):
            return self
        begin = _kind_of_first(cells, decimal_comma) if self.kind == "nothing" else self.kind
        first = self.first or _first(cells, where)
        kind = begin
        while kind != "text":
            values = _all_of_kind(cells, kind, decimal_comma)
            if values is not None:
                largest = max(self.largest, _largest(values) if kind == "int" else 0)
                if kind == "double" and largest > _EXACT_INTEGER_MAX:
                    break
                return Guess(kind, largest, None, self.n_nested, first)
            kind = _WIDER.get(kind, "text")
        culprit = None if begin == "text" else _culprit(cells, begin, where, decimal_comma)
        return Guess("text", 0, culprit, self.n_nested, first)

    def seen_typed(self, cells: pa.Array, where: tuple[int, int]) -> Guess:
        """Return the guess once further cells were seen whose types JSON tells."""
        if self.kind == "text" or cells.null_count == len(cells):
            return self
        kind = "double" if pat.is_floating(cells.type) else "text"
        if pat.is_boolean(cells.type):
            kind = "bool"
        if pat.is_int64(cells.type):
            kind = "int"
        largest = _largest(cells) if kind == "int" else 0
        return self.joined(Guess(kind, largest, first=_first(cells, where)))


def _first(cells: pa.Array, where: tuple[int, int]) -> Culprit:
    """Return the first cell that holds something."""
    row = int(np.flatnonzero(cells.is_valid().to_numpy(zero_copy_only=False))[0])
    return Culprit(where[0], where[1] + row, str(as_text(cells.slice(row, 1))[0].as_py()))


def _narrower(wide: str) -> str | None:
    return next((narrow for narrow, one in _WIDER.items() if one == wide), None)


def _kind_of_first(cells: pa.Array, decimal_comma: bool) -> str:
    first = cells.drop_null().slice(0, 1)
    found = (kind for kind in _KINDS if _all_of_kind(first, kind, decimal_comma) is not None)
    return next(found, "text")


def _all_of_kind(cells: pa.Array, kind: str, decimal_comma: bool) -> pa.Array | None:
    """Return the values if all cells are of a kind, and no number is written as names are."""
    values, bad = read_cells(cells, _TYPES[kind], decimal_comma=decimal_comma)
    if bad.any() or (kind in ("int", "double") and _any(_like_a_name(cells, kind))):
        return None
    if kind == "int" and _any(pc.match_substring(cells, "." if not decimal_comma else ",")):
        return None
    return values


_NAMES = {"int": r"^\s*(\+|-?0[0-9])", "double": r"^\s*(\+|-?0[0-9]|-?[0-9]{16,}\s*$)"}
"""Cells that begin with 0 or + are names, and digits that a double drops are meant."""


def _like_a_name(cells: pa.Array, kind: str) -> pa.Array:
    return pc.match_substring_regex(cells, _NAMES[kind])


def _largest(values: pa.Array) -> int:
    found = pc.min_max(values).as_py()
    return max(abs(int(found["min"] or 0)), abs(int(found["max"] or 0)))


def _culprit(
    cells: pa.Array, begin: str, where: tuple[int, int], decimal_comma: bool
) -> Culprit | None:
    """Return the first cell that is of no kind that the others could be."""
    kinds = [begin] if begin not in _WIDER else [begin, _WIDER[begin]]
    by_kind = []
    for kind in reversed(kinds):
        _, wrong = read_cells(cells, _TYPES[kind], decimal_comma=decimal_comma)
        if kind in ("int", "double"):
            names = pc.fill_null(_like_a_name(cells, kind), False)
            wrong = wrong | names.to_numpy(zero_copy_only=False)
        by_kind.append(wrong)
    # Digits that a double drops are wrong as a double, and may be right as an integer.
    for wrong in (np.logical_and.reduce(by_kind), *by_kind):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            return Culprit(where[0], where[1] + row, str(cells[row].as_py()))
    return None


def join_guesses(parts: Iterable[dict[str, Guess]]) -> dict[str, Guess]:
    """Return what columns are over several files, in their order."""
    found: dict[str, Guess] = {}
    for part in parts:
        for name, guess in part.items():
            found[name] = found[name].joined(guess) if name in found else guess
    return found
