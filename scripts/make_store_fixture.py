"""Makes the store that later versions must be able to read: ``tests/fixtures/store-v3``.

    python scripts/make_store_fixture.py tests/fixtures/store-v3

Its content is the same each time; names of files, times of commits and so the bytes are not. It is
made once for each format version, by the code that writes this version, and then kept. Beside the
store lies ``expected.json``: the rows, from the list the script itself keeps and not from reading
the store.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from chronicle import StreamSettings, config, create_store
from chronicle.maintenance.compaction import compact_events
from chronicle.store import Stream
from chronicle.write.append import Late, append
from chronicle.write.evolve import add_column
from indexing import RunWriter

FORMAT_VERSION = 3
"""The version this script makes a store of; a new one gets a fixture, and a script, of its own."""

STREAM = "trades"
INDEXED = ("delta(price)", "price", "symbol")
START = dt.datetime(2024, 2, 29, 23, 0, tzinfo=dt.UTC)

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("arrival", pa.int32()),
        ("symbol", pa.string()),
        ("price", pa.float64()),
        ("odd", pa.bool_()),
    ]
)

PRICES = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-300)


class Past:
    """The events in order of arrival, which is all a stream depends on."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._random = random.Random(20240229)  # noqa: S311 - the same content each time

    def make(self, minutes: range | list[int], *, with_note: bool = False) -> list[dict[str, Any]]:
        """Return new events, at these minutes after the start."""
        rows = []
        for minute in minutes:
            arrival = len(self.rows) + len(rows)
            rows.append(self._event(minute, arrival))
            if with_note:
                rows[-1]["note"] = self._random.choice((None, "", "late", "Ärger", f"n{arrival}"))
        return rows

    def _event(self, minute: int, arrival: int) -> dict[str, Any]:
        choose = self._random.choice
        number = round(self._random.gauss(100, 5), 2)
        return {
            "at": START + dt.timedelta(minutes=minute, microseconds=arrival % 3),
            "arrival": arrival,
            "symbol": choose(("AAA", "BBB", "BBB", "C\u00e9", "", None)),
            "price": choose((number, number, number, number, *PRICES, None)),
            "odd": choose((True, False, None)),
        }

    def sorted(self, schema: pa.Schema) -> list[dict[str, Any]]:
        """Return the events as the stream must have them, with nulls for what they lack."""
        rows = [{name: row.get(name) for name in schema.names} for row in self.rows]
        return sorted(rows, key=lambda row: (row["at"], row["arrival"]))


def to_plain(value: object) -> object:
    """Return a value as JSON can hold it, told apart from every other of its column."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dt.datetime):
        return str(value)
    return value


def fill(stream: Stream, past: Past) -> dict[int, int]:
    """Bring about all that a stream can go through; return versions and their number of events."""
    writer = RunWriter(INDEXED, "at", key="symbol")
    counts = {0: 0}

    def take(rows: list[dict[str, Any]], *, indexed: bool = True, late: Late = Late.MERGE) -> None:
        table = pa.Table.from_pylist(rows, schema=stream.schema)
        derived = writer if indexed else None
        report = append(stream, table, late=late, derived=derived)
        if late is Late.MERGE:
            past.rows += rows
        counts[report.version] = len(past.rows)

    take(past.make(range(0, 200, 2)))  # two data files
    take(past.make([240, 241, 241, 241, 242]))
    take(past.make([3, 3, 100, 241, 243]))  # late but for the last
    take(past.make([1, 2]), late=Late.QUARANTINE)
    counts[add_column(stream, "note", pa.string())] = len(past.rows)
    take(past.make([10, 241, *range(243, 260)], with_note=True))
    compact_events(stream, derived=writer, full=True)
    take(past.make(range(260, 268), with_note=True), indexed=False)  # a tail
    return counts


def main() -> None:
    """Make the store in the folder named on the command line."""
    target = Path(sys.argv[1])
    if config.FORMAT_VERSION != FORMAT_VERSION:
        sys.exit(f"this is a Chronicle of format {config.FORMAT_VERSION}, not {FORMAT_VERSION}")
    if target.exists():
        sys.exit(f"'{target}' exists; a fixture is made once and kept")
    settings = StreamSettings(
        "at", block_events=16, file_events=80, fan_out=4, key="symbol", derived=("delta(price)",)
    )
    store = create_store(target / "store")
    stream = store.create_stream(STREAM, SCHEMA, settings)
    past = Past()
    versions = fill(stream, past)
    rows = [[to_plain(value) for value in row.values()] for row in past.sorted(stream.schema)]
    expected = {
        "columns": stream.schema.names,
        "rows": rows,
        "versions": {str(version): count for version, count in versions.items()},
        "n_quarantined": 2,
    }
    lines = json.dumps(expected, ensure_ascii=False, indent=None).replace("], [", "],\n[")
    (target / "expected.json").write_text(lines + "\n", encoding="utf-8")
    size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    sys.stdout.write(f"{len(rows)} events, {size:,} bytes in '{target}'\n")


if __name__ == "__main__":
    main()
