"""Events with a column of every type that can be indexed."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

DAY = dt.date(2024, 1, 1)


def rows(n: int, *, first: int = 0) -> pa.Table:
    """``n`` events with a column of every type that can be indexed."""
    at = range(first, first + n)
    return pa.table(
        {
            "t": pa.array([i // 2 for i in at], pa.int64()),
            "small": pa.array([None if i % 7 == 0 else i % 11 for i in at], pa.int16()),
            "price": [float("nan") if i % 5 == 0 else (i * 37) % 50 / 4 for i in at],
            "single": pa.array([i * 0.5 for i in at], pa.float32()),
            "venue": [f"v{(i * 7) % 9}" for i in at],
            "is_late": [i % 3 == 0 for i in at],
            "day": [DAY + dt.timedelta(days=i % 6) for i in at],
            "seen": pa.array([i * 1_000_000 for i in at], pa.timestamp("us")),
            "seen_utc": pa.array([i * 1_000_000 for i in at], pa.timestamp("us", "UTC")),
            "blob": pa.array([b"x"] * n, pa.binary()),
        }
    )
