"""Read values written as text, to the same outcome as Spark's readers of CSV and JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, DecimalException, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.local.text_times import date_days, instant_us, local_us


@dataclass(frozen=True, slots=True)
class _Rule:
    """How cells become values of one type."""

    plain: str
    """Cells that match it mean the same to Arrow's cast as to Spark, if the cast takes them."""

    read: Callable[[str], Any]
    """Reads any other cell; None if it is no value."""

    storage: pa.DataType
    """Type of what ``read`` returns."""


def read_cells(cells: pa.Array, data_type: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Read a column of cells.

    Parameters
    ----------
    cells
        Strings; null where there is no value.
    data_type
        A type a stream stores.

    Returns
    -------
    values : pa.Array
        Of ``data_type``; null where the cell is null or does not parse.
    bad : ndarray of bool
        True where the cell does not parse.
    """
    if pat.is_string(data_type):
        return cells, np.zeros(len(cells), bool)
    if pat.is_binary(data_type):
        return cells.cast(pa.binary()), np.zeros(len(cells), bool)
    rule = _rule(data_type)
    plain = pc.fill_null(pc.match_substring_regex(cells, rule.plain), True)
    odd = np.flatnonzero(~plain.to_numpy(zero_copy_only=False))
    try:
        quick = (pc.if_else(plain, cells, None) if len(odd) else cells).cast(data_type)
    except pa.ArrowInvalid:  # such as the 30th of February, or an integer that is too large
        odd = np.flatnonzero(cells.is_valid().to_numpy(zero_copy_only=False))
        quick = pa.nulls(len(cells), data_type)
    bad = np.zeros(len(cells), bool)
    if not len(odd):
        return quick, bad
    found = [rule.read(text) for text in cells.take(pa.array(odd)).to_pylist()]
    values = pa.array(found, rule.storage).cast(data_type)
    bad[odd] = values.is_null().to_numpy(zero_copy_only=False)
    mask = np.zeros(len(cells), bool)
    mask[odd] = True
    return pc.replace_with_mask(quick, pa.array(mask), values), bad


def _rule(data_type: pa.DataType) -> _Rule:
    if pat.is_signed_integer(data_type):
        limit = 1 << (data_type.bit_width - 1)
        return _Rule("^-?[0-9]{1,18}$", lambda text: read_integer(text, limit), data_type)
    if pat.is_floating(data_type):
        # By way of double a float could be rounded twice, so plain numbers are left to the cast.
        return _Rule(r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$", _float_reader(data_type), data_type)
    if pat.is_boolean(data_type):
        return _Rule("^(true|false)$", _read_boolean, data_type)
    if pat.is_decimal(data_type):
        read = _decimal_reader(data_type.precision, data_type.scale)
        return _Rule("^$", read, data_type)
    if pat.is_date(data_type):
        return _Rule("^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}$", date_days, pa.int32())
    assert pat.is_timestamp(data_type), data_type
    clock = r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    if data_type.tz is None:
        return _Rule(clock + "$", local_us, pa.int64())
    return _Rule(clock + "(Z|[+-]0[0-9]:[0-5][0-9])$", instant_us, pa.int64())


# ---------------------------------------------------------------------------------------------
# One cell.


def read_integer(text: str, limit: int) -> int | None:
    """Return an integer from -limit to limit - 1, as ``Long.parseLong`` reads it."""
    if not re.fullmatch(r"[+-]?\d+", text):
        return None
    value = int(text) if len(text) <= 40 else limit
    return value if -limit <= value < limit else None


_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEX_FLOAT = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII
)
_NOT_FINITE = {"Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf"} | dict.fromkeys(
    ("NaN", "+NaN", "-NaN"), "nan"
)
_EXACT = {"Inf": "inf", "-Inf": "-inf"}
_BLANKS = "".join(map(chr, range(33)))


def _float_reader(data_type: pa.DataType) -> Callable[[str], Any]:
    """Return what reads a number as Java does, with blanks, a suffix or in hexadecimals."""

    def read(text: str) -> Any:
        if text in _EXACT:
            return _rounded(float(_EXACT[text]), data_type)
        bare = text.strip(_BLANKS)
        if bare in _NOT_FINITE:
            return _rounded(float(_NOT_FINITE[bare]), data_type)
        number = bare[:-1] if bare[-1:] in {"d", "D", "f", "F"} else bare
        if _FLOAT.fullmatch(number):
            return _to_float(number, data_type)
        if _HEX_FLOAT.fullmatch(number):
            try:
                return _rounded(float.fromhex(number), data_type)
            except OverflowError:
                return _rounded(-np.inf if number.startswith("-") else np.inf, data_type)
        return None

    return read


def _to_float(number: str, data_type: pa.DataType) -> Any:
    value = float(number)
    if pat.is_float64(data_type):
        return value
    if not abs(value) < float(np.finfo(np.float32).max):
        return _rounded(value, data_type)
    return pa.scalar(number.removeprefix("+")).cast(data_type).as_py()


def _rounded(value: float, data_type: pa.DataType) -> float:
    if pat.is_float64(data_type):
        return value
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _read_boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def _decimal_reader(precision: int, scale: int) -> Callable[[str], Decimal | None]:
    """Return what reads a decimal, rounded half up to the scale; commas are thousands."""
    quantum = Decimal(1).scaleb(-scale)

    def read(text: str) -> Decimal | None:
        bare = text.replace(",", "")
        if not _DECIMAL.fullmatch(bare):
            return None
        try:
            with localcontext(prec=precision):
                return Decimal(bare).quantize(quantum, rounding=ROUND_HALF_UP)
        except DecimalException:
            return None

    return read


# ---------------------------------------------------------------------------------------------
# Types nobody states.


def infer_type(cells: pa.Array) -> pa.DataType:
    """Return the type Spark infers for a CSV column: the narrowest one all cells parse as.

    Integers are 64 bits wide, so that the next file fits too; a column of no cell is of strings.
    """
    present = pc.unique(cells.drop_null())
    if len(present) == 0:
        return pa.string()
    if _all_match(present, "^[+-]?[0-9]+$"):
        n_digits = pc.max(pc.utf8_length(pc.utf8_ltrim(present, "+-"))).as_py()
        if not read_cells(present, pa.int64())[1].any():
            return pa.int64()
        return pa.decimal128(max(20, n_digits), 0) if n_digits <= 38 else pa.float64()
    no_number = read_cells(present, pa.float64())[1]
    if not no_number.all():
        return pa.string() if no_number.any() else pa.float64()
    candidates = [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.bool_()]
    if _all_match(present, "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"):
        candidates.insert(0, pa.date32())
    for data_type in candidates:
        if not read_cells(present, data_type)[1].any():
            return data_type
    return pa.string()


def _all_match(cells: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(cells, pattern)).as_py())
