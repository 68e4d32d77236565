"""Casts by column, and times of zones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.tree.double_double import divide
from replay.errors import NotSupportedError
from replay.expressions.columns import Values
from replay.expressions.functions.faults import Faults
from replay.expressions.functions.numbers import by_column, compiled
from replay.expressions.functions.texts import by_row
from replay.language.bound import Call, DataType, Literal
from replay.language.types import CASTS, DECIMAL_DIGITS, SCALES
from replay.language.zones import to_instants, to_local

T = DataType

_TWO_63 = 2.0**63

DECIMAL_LIMIT = 10**DECIMAL_DIGITS
"""Units that a DECIMAL has fewer than."""


def cast(call: Call, args: list[Values], faults: Faults) -> Values:
    """Evaluate a cast."""
    source, target = call.args[0].type, call.type
    value = args[0]
    if source is T.NULL:
        return _null(target)
    if source is target or {source, target} == {T.TIMESTAMP, T.TIMESTAMP_UTC}:
        return value
    if (source, target) not in CASTS:
        raise NotSupportedError(f"CAST from {source.value} to {target.value} is not supported yet")
    if target is T.DOUBLE and source in (T.INTEGER, T.BOOLEAN):
        return Values(value.data.astype(np.float64), value.valid)
    if source in SCALES and target is T.DOUBLE:
        return Values(_quotients(value.data, 10 ** SCALES[source]), value.valid)
    if target in SCALES:
        return _scaled(value, SCALES[target] - SCALES.get(source, 0), faults)
    if source in SCALES and target is T.INTEGER:
        return Values(_whole(value.data, 10 ** SCALES[source]), value.valid)
    if target is T.INTEGER and source is T.DOUBLE:
        return _to_integer(value, faults)
    if target is T.STRING and source in (T.INTEGER, T.BOOLEAN):
        return _to_strings(value, pa.array(np.atleast_1d(value.data)).cast(pa.string()))
    if T.STRING in (source, target):
        return by_row(call, args, faults)
    assert compiled(call) is not None
    return by_column(call, args, faults)


def _null(target: DataType) -> Values:
    if target is T.STRING:
        return Values(pa.scalar(None, pa.string()), None)
    dtype: Any = {T.DOUBLE: np.float64, T.BOOLEAN: np.bool_}.get(target, np.int64)
    return Values(dtype(0), np.False_)


def _to_integer(value: Values, faults: Faults) -> Values:
    """Round doubles half away from zero; NaN and what int64 cannot hold is a fault."""
    whole = np.trunc(value.data)
    whole = np.where(np.abs(value.data - whole) >= 0.5, whole + np.sign(value.data), whole)
    exists = (whole >= -_TWO_63) & (whole < _TWO_63)
    return faults.drop(Values(np.where(exists, whole, 0.0).astype(np.int64), value.valid), exists)


def _quotients(units: Any, by: int) -> Any:
    """Return integers divided by a power of ten, rounded once."""
    rounded = np.asarray(units, np.float64)
    rest = (units - rounded.astype(np.int64)).astype(np.float64)
    return divide((rounded, rest), np.float64(by))[0]


def _scaled(value: Values, digits: int, faults: Faults) -> Values:
    """Return units of a power of ten less; more than 18 digits is a fault."""
    limit = -(-DECIMAL_LIMIT // 10**digits)
    exists = (value.data < limit) & (value.data > -limit)
    return faults.drop(Values(np.where(exists, value.data, 0) * 10**digits, value.valid), exists)


def saturated(call: Call, args: list[Values], _: Faults) -> Values:
    """Return units to be compared: those beyond 18 digits lie beyond all DECIMALs there are."""
    power = 10 ** (SCALES[call.type] - SCALES.get(call.args[0].type, 0))
    limit = -(-DECIMAL_LIMIT // power)
    return Values(np.clip(args[0].data, -limit, limit) * power, args[0].valid)


def _whole(units: Any, by: int) -> Any:
    """Return whole numbers, rounded half away from zero."""
    magnitude = (np.abs(units) + by // 2) // by
    return np.where(units < 0, -magnitude, magnitude)


def _to_strings(value: Values, array: Any) -> Values:
    if value.valid is not None:
        mask = ~np.broadcast_to(value.valid, np.shape(value.data))
        array = pc.if_else(pa.array(np.atleast_1d(mask)), pa.scalar(None, pa.string()), array)
    return Values(array if np.ndim(value.data) else array[0], None)


def in_zone(convert: Callable[[Any, str], tuple[Any, Any]]) -> Callable[..., Values]:
    """Return a conversion between instants and local times of a constant zone."""

    def apply(call: Call, args: list[Values], faults: Faults) -> Values:
        zone = call.args[1]
        assert isinstance(zone, Literal)
        if zone.value is None:
            return Values(np.int64(0), np.False_)
        data, known = convert(np.atleast_1d(args[0].data), str(zone.value))
        if not np.ndim(args[0].data):
            data, known = data[0], known[0]
        return faults.drop(Values(data, args[0].valid), known)

    return apply


local_time = in_zone(to_local)
instant = in_zone(to_instants)
