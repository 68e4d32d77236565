"""Read cells of text into values of a type, exactly or not at all, and find out types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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

EXACT_INTEGER_MAX = 1 << 53
"""Up to here every integer is a double."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """A cell that somebody may be told of."""

    source: int
    """Position of its file among the sources."""

    line: int
    """Its line; the number of its record while the file is being read."""

    text: str


@dataclass(frozen=True, slots=True)
class Likeness:
    """How many cells of a column are of a family of kinds, and the first that is not."""

    n: int = 0
    odd: Culprit | None = None

    def joined(self, other: Likeness) -> Likeness:
        """Return that of the cells of both; this one's came first."""
        return Likeness(self.n + other.n, self.odd or other.odd)


_FAMILIES = {
    "number": ("int", "double"),
    "bool": ("bool",),
    "time": ("date", "timestamp"),
    "time_utc": ("timestamp_utc",),
}
"""Kinds of which one holds the values of another."""

JSON_NUMBER, JSON_LARGE, JSON_BOOL, JSON_OTHER = 1, 2, 3, 4
"""What a value of JSON is, where a column has several kinds of them; 0 is none. Large: a 64-bit
integer that no double may hold."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What the cells of a column seem to be, as far as they were seen; grows by ``seen``."""

    kind: str = "nothing"
    largest: int = 0
    """Largest integer, its sign left out."""

    n_cells: int = 0
    """Cells that hold something."""

    n_nested: int = 0
    """Cells that hold an object or an array."""

    first: Culprit | None = None
    """The first cell that holds something."""

    like: Mapping[str, Likeness] = field(default_factory=dict)
    """Of a text column, by family."""

    inexact: Culprit | None = None
    """The first number that made a column of numbers text, for its digits."""

    @property
    def data_type(self) -> pa.DataType:
        """The type of all cells that were seen."""
        return _TYPES[self.kind]

    @property
    def is_nested(self) -> bool:
        """Whether no cell holds a plain value."""
        return self.n_nested > 0 and self.kind == "nothing"

    @property
    def culprit(self) -> Culprit | None:
        """The first cell that made the column text, where at least half of the others are not."""
        if self.kind != "text":
            return None
        most = max(map(self._like, _FAMILIES), key=lambda one: one.n)
        return (most.odd or self.inexact) if 2 * most.n >= self.n_cells else None

    def _like(self, family: str) -> Likeness:
        if self.kind == "text":
            return self.like[family]
        if self.kind in _FAMILIES[family]:
            return Likeness(self.n_cells)
        return Likeness(0, self.first)

    @property
    def cells_told(self) -> list[Culprit]:
        """The cells that somebody may be told of, whatever further cells hold."""
        found = (self.first, self.inexact, *(one.odd for one in self.like.values()))
        return [cell for cell in found if cell is not None]

    def with_lines(self, lines: Mapping[int, int]) -> Guess:
        """Return the guess with the lines of these cells, given by the numbers of records."""

        def placed(cell: Culprit | None) -> Culprit | None:
            return None if cell is None else replace(cell, line=lines[cell.line])

        like = {name: Likeness(one.n, placed(one.odd)) for name, one in self.like.items()}
        return replace(self, first=placed(self.first), inexact=placed(self.inexact), like=like)

    def joined(self, other: Guess) -> Guess:
        """Return what the cells of both are together; this one's came first."""
        n_nested = self.n_nested + other.n_nested
        if "nothing" in (self.kind, other.kind):
            known = other if self.kind == "nothing" else self
            return replace(known, n_nested=n_nested)
        n_cells = self.n_cells + other.n_cells
        largest = max(self.largest, other.largest)
        for wide in (self.kind, other.kind):
            narrow = _narrower(wide)
            both = {self.kind, other.kind} <= {wide, narrow}
            if wide != "text" and both and (wide != "double" or largest <= EXACT_INTEGER_MAX):
                return Guess(wide, largest, n_cells, n_nested, self.first)
        like = {one: self._like(one).joined(other._like(one)) for one in _FAMILIES}
        inexact = self.inexact or other.inexact or other.first
        return Guess("text", 0, n_cells, n_nested, self.first, like, inexact)

    def seen(
        self, cells: pa.Array, where: tuple[int, int], *, decimal_comma: bool = False
    ) -> Guess:
        """Return the guess once further cells of text were seen.

        ``where`` is the position of the source and the number of the first record.
        """
        n_cells = len(cells) - cells.null_count
        if not n_cells:
            return self
        begin = _kind_of_first(cells, decimal_comma) if self.kind == "nothing" else self.kind
        first = self.first or _culprit(cells, _valid(cells), where)
        kind = begin
        while kind != "text":
            values = _all_of_kind(cells, kind, decimal_comma)
            if values is not None:
                largest = max(self.largest, _largest(values) if kind == "int" else 0)
                if kind == "double" and largest > EXACT_INTEGER_MAX:
                    break
                return Guess(kind, largest, self.n_cells + n_cells, self.n_nested, first)
            kind = _WIDER.get(kind, "text")
        like = _likeness(cells, where, decimal_comma)
        if self.kind != "nothing":
            like = {one: self._like(one).joined(like[one]) for one in _FAMILIES}
        inexact = self.inexact
        if inexact is None and begin in _FAMILIES["number"]:
            inexact = _first_inexact(cells, where, decimal_comma)
        return Guess("text", 0, self.n_cells + n_cells, self.n_nested, first, like, inexact)

    def seen_typed(
        self, cells: pa.Array, where: tuple[int, int], kinds: npt.NDArray[np.int8] | None = None
    ) -> Guess:
        """Return the guess once further cells were seen whose types JSON tells.

        ``kinds`` says what each is, where they are of several.
        """
        n_cells = len(cells) - cells.null_count
        if not n_cells:
            return self
        first = _culprit(cells, _valid(cells), where)
        if kinds is None and not pat.is_string(cells.type):
            kind = "double" if pat.is_floating(cells.type) else "int"
            kind = "bool" if pat.is_boolean(cells.type) else kind
            largest = _largest(cells) if kind == "int" else 0
            return self.joined(Guess(kind, largest, n_cells, first=first))
        if kinds is None:
            like = {family: Likeness(0, first) for family in _FAMILIES}
            return self.joined(Guess("text", 0, n_cells, first=first, like=like))
        of_family = {"number": (JSON_NUMBER, JSON_LARGE), "bool": (JSON_BOOL,)}
        like = {}
        for family in _FAMILIES:
            is_one = np.isin(kinds, of_family.get(family, ()))
            odd = _culprit(cells, ~is_one & (kinds != 0), where)
            like[family] = Likeness(int(np.count_nonzero(is_one)), odd)
        inexact = _culprit(cells, kinds == JSON_LARGE, where)
        return self.joined(Guess("text", 0, n_cells, 0, first, like, inexact))


def _culprit(cells: pa.Array, is_one: Mask, where: tuple[int, int]) -> Culprit | None:
    """Return the first of some cells; None if there is none."""
    if not is_one.any():
        return None
    row = int(np.argmax(is_one))
    return Culprit(where[0], where[1] + row, str(as_text(cells.slice(row, 1))[0].as_py()))


def _valid(cells: pa.Array) -> Mask:
    return np.asarray(cells.is_valid().to_numpy(zero_copy_only=False), bool)


def _likeness(cells: pa.Array, where: tuple[int, int], decimal_comma: bool) -> dict[str, Likeness]:
    """Return how many cells of text are of each family."""
    is_there = _valid(cells)
    first_bytes, lengths = _first_bytes(cells)
    found = {}
    for family, kinds in _FAMILIES.items():
        could = is_there & _FIRST_BYTES[family][first_bytes]
        if family in ("time", "time_utc"):
            could &= lengths >= len("2024-05-01")
        rows = np.flatnonzero(could)
        is_one = np.zeros(len(cells), bool)
        if len(rows):
            some = cells.take(pa.array(rows))
            for kind in kinds:
                is_one[rows] |= _is_kind(some, kind, decimal_comma)
        n_cells = int(np.count_nonzero(is_one))
        found[family] = Likeness(n_cells, _culprit(cells, is_there & ~is_one, where))
    return found


def _among(signs: bytes) -> Mask:
    """Return which bytes are among these or blanks, by their number."""
    return np.isin(np.arange(256, dtype=np.uint8), np.frombuffer(signs + b" \t\n\r\f\v", np.uint8))


_FIRST_BYTES = {
    "number": _among(b"-.0123456789nNiI"),
    "bool": _among(b"tTfF"),
    "time": _among(b"0123456789"),
    "time_utc": _among(b"0123456789"),
}
"""With which bytes cells of a family may begin; most texts begin with others."""

_BEFORE_NAMES = _among(b"+-0")


def _first_bytes(cells: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Return the first byte of each text, any of an empty one, and how many bytes each has."""
    _, offsets, data = cells.buffers()
    ends = np.frombuffer(offsets, np.int32)[cells.offset : cells.offset + len(cells) + 1]
    held = np.frombuffer(data or b"\0", np.uint8)
    return held[np.minimum(ends[:-1], len(held) - 1)], np.diff(ends)


def _is_kind(cells: pa.Array, kind: str, decimal_comma: bool) -> Mask:
    """Return which cells are of a kind, and no names."""
    _, wrong = read_cells(cells, _TYPES[kind], decimal_comma=decimal_comma)
    if kind in _FAMILIES["number"]:
        wrong = wrong | is_like_a_name(cells, kind)
    return ~wrong


def _first_inexact(cells: pa.Array, where: tuple[int, int], decimal_comma: bool) -> Culprit | None:
    """Return the first number that is no double, or else the first with a fraction."""
    for kind in ("double", "int"):
        is_odd = _valid(cells) & ~_is_kind(cells, kind, decimal_comma)
        if is_odd.any():
            return _culprit(cells, is_odd, where)
    return None


def _narrower(wide: str) -> str | None:
    return next((narrow for narrow, one in _WIDER.items() if one == wide), None)


def _kind_of_first(cells: pa.Array, decimal_comma: bool) -> str:
    first = cells.drop_null().slice(0, 1)
    found = (kind for kind in _KINDS if _all_of_kind(first, kind, decimal_comma) is not None)
    return next(found, "text")


def _all_of_kind(cells: pa.Array, kind: str, decimal_comma: bool) -> pa.Array | None:
    """Return the values if all cells are of a kind, and no number is written as names are."""
    values, bad = read_cells(cells, _TYPES[kind], decimal_comma=decimal_comma)
    if bad.any() or (kind in ("int", "double") and is_like_a_name(cells, kind).any()):
        return None
    if kind == "int" and _any(pc.match_substring(cells, "." if not decimal_comma else ",")):
        return None
    return values


_DIGITS_OF_NAMES = 16

_NAMES = {"int": r"^\s*(\+|-?0[0-9])", "double": r"^\s*(\+|-?0[0-9]|-?[0-9]{16,}\s*$)"}
"""Cells that begin with 0 or + are names, and digits that a double drops are meant."""


def is_like_a_name(cells: pa.Array, kind: str = "int") -> Mask:
    """Return which cells, of text, are names though they hold digits alone."""
    first_bytes, lengths = _first_bytes(cells)
    could = _valid(cells) & (lengths > 1) & _BEFORE_NAMES[first_bytes]
    if kind == "double":
        could |= lengths >= _DIGITS_OF_NAMES
    rows = np.flatnonzero(could)
    if len(rows):
        could[rows] = _where(pc.match_substring_regex(cells.take(pa.array(rows)), _NAMES[kind]))
    return could


def may_lose_digits(cells: pa.Array) -> Mask:
    """Return which cells are whole numbers that a double may not hold to the last digit."""
    if pat.is_string(cells.type):
        return is_like_a_name(cells, "double") & ~is_like_a_name(cells)
    if pat.is_integer(cells.type):
        limit = pa.scalar(EXACT_INTEGER_MAX, pa.int64())
        return _where(pc.or_(pc.greater(cells, limit), pc.less(cells, pc.negate(limit))))
    return np.zeros(len(cells), bool)


def _largest(values: pa.Array) -> int:
    found = pc.min_max(values).as_py()
    return max(abs(int(found["min"] or 0)), abs(int(found["max"] or 0)))


def join_guesses(parts: Iterable[dict[str, Guess]]) -> dict[str, Guess]:
    """Return what columns are over several files, in their order."""
    found: dict[str, Guess] = {}
    for part in parts:
        for name, guess in part.items():
            found[name] = found[name].joined(guess) if name in found else guess
    return found
