"""Rows as JSON, value by value: what the writer that goes by columns is held to."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa


def json_objects(table: pa.Table) -> list[str]:
    """Return each row as a JSON object."""
    return [
        json.dumps({name: _value(v) for name, v in row.items()}, ensure_ascii=False)
        for row in table.to_pylist()
    ]


def _value(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value.as_tuple().exponent == 0 else str(value)
        case dt.datetime():
            return value.isoformat().replace("+00:00", "Z")
        case dt.date():
            return value.isoformat()
        case dt.timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
    return str(value)
