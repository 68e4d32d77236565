"""Questions made to mislead a planner, and three that only new kinds of plans can speed up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.stores import SYNTHETIC, kept_store, moments
from chronicle import Store, StreamSettings
from datasets.synthetic import SCHEMA, SEED, SIGMAS, TIME, generate
from indexing import drop_index


@dataclass(frozen=True, slots=True)
class HardCase:
    """A question over the synthetic stream, and how it misleads."""

    name: str
    sql: str
    reads_nothing: bool = False
    """Whether it must be answered without reading a block."""


def _question(pattern: str, within: str, defines: dict[str, str], tail: str = "") -> str:
    conditions = ",\n    ".join(f"{symbol} AS {text}" for symbol, text in defines.items())
    last = list(defines)[-1]
    return (
        f"SELECT * FROM {SYNTHETIC} MATCH_RECOGNIZE (\n"
        f"  ORDER BY {TIME}\n"
        f"  MEASURES A.{TIME} AS first_t, {last}.{TIME} AS last_t\n"
        f"  AFTER MATCH SKIP PAST LAST ROW\n"
        f"  PATTERN ( {pattern} ){within}\n"
        f"  DEFINE\n    {conditions}\n){tail}"
    )


def _between(name: str, low: float, high: float) -> str:
    return f"{name} >= {low} AND {name} < {high}"


def hard_cases(n_events: int) -> list[HardCase]:
    """Return the questions; ``n_events`` is the length of the stream."""
    three, gapped = " WITHIN 300", "A Z* B Z* C"
    a5 = "{}.A5"
    rare = {
        s: _between(a5.format(s), x, x + 2e-6) for s, x in zip("ABC", (0.2, 0.5, 0.8), strict=True)
    }
    common = {s: _between(a5.format(s), 0.05, 0.95) for s in "ABC"}
    middle = {
        f"{s}": _between(f"{s}.{name}", 0.48, 0.52)
        for s, name in zip("ABC", ("A1", "A2", "A3"), strict=True)
    }
    drifting = {
        s: _between(f"{s}.A4", x, x + 0.02) for s, x in zip("ABC", (0.3, 0.5, 0.7), strict=True)
    }
    same = {s: _between(a5.format(s), 0.3, 0.31) for s in "ABC"}
    mixed = {
        "A": _between("A.A1", 0.2, 0.8),
        "B": _between("B.A5", 0.1, 0.101),
        "C": _between("C.A4", 0.45, 0.55),
    }
    return [
        HardCase("all symbols common", _question(gapped, three, common)),
        HardCase("all symbols in one place", _question(gapped, three, middle)),
        HardCase("all symbols one range", _question(gapped, three, same)),
        HardCase("drifting data", _question(gapped, three, drifting)),
        HardCase("drifting and even data", _question(gapped, three, mixed)),
        HardCase(
            "window longer than the stream", _question(gapped, f" WITHIN {10 * n_events}", rare)
        ),
        HardCase("no window", _question(gapped, "", rare)),
        HardCase(
            "one symbol absent",
            _question(gapped, three, {**common, "B": "B.A5 >= 1.5"}),
            reads_nothing=True,
        ),
        HardCase("one symbol hardly there", _question(gapped, three, {**common, "B": rare["B"]})),
        HardCase("first match of many", _question(gapped, three, common, tail=" LIMIT 1")),
        HardCase(
            "a tenth of all events",
            _question(
                "A B", three, {"A": _between("A.A5", 0.3, 0.4), "B": _between("B.A5", 0.5, 0.6)}
            ),
        ),
        HardCase("one rare event", _question("A", "", {"A": rare["A"]})),
        HardCase(
            "many ranges",
            _question(
                "A Z* B",
                three,
                {
                    "A": " OR ".join(f"A.A5 = {k / 97:.6f}" for k in range(97)),
                    "B": _between("B.A5", 0.0, 0.5),
                },
            ),
        ),
    ]


def index_dropped_store(path: Path, n_events: int) -> Store:
    """Return a store of synthetic events whose index on A5 has been dropped."""
    return kept_store(
        path,
        SYNTHETIC,
        SCHEMA,
        StreamSettings(time=TIME),
        generate(n_events),
        index=tuple(SIGMAS),
        then=lambda stream: drop_index(stream, "A5"),
    )


KEYED = "keyed"
N_KEYS = 1_000
RARE = 5e-6

PARTITIONED = f"""
SELECT * FROM {KEYED} MATCH_RECOGNIZE (
  PARTITION BY k
  ORDER BY t
  MEASURES A.t AS first_t, B.t AS rare_t, C.t AS last_t
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN ( A Z* B Z* C ) WITHIN 5000
  DEFINE A AS A.x < 0.2, B AS B.x >= {1 - RARE}, C AS C.x >= 0.3 AND C.x < 0.5
)"""
"""Each key sees an event every 1,000 units of time; one event in 200,000 is a B."""


def keyed_store(path: Path, n_events: int, *, seed: int = SEED) -> Store:
    """Return a store of events of ``N_KEYS`` keys in random order, indexed on ``x``."""
    schema = pa.schema([("t", pa.int64()), ("k", pa.int32()), ("x", pa.float64())])

    def batches() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng([seed, 1])
        for times in moments(n_events):
            keys = random.integers(0, N_KEYS, len(times), dtype=np.int32)
            yield pa.record_batch([times, keys, random.random(len(times))], schema=schema)

    settings = StreamSettings(time="t", key="k")
    return kept_store(path, KEYED, schema, settings, batches(), index=("x",))


STEPS = "steps"
N_RISES = 6
CHANGE_SHARE = 0.02
"""Share of the events whose value is not that of the event before, half of them up."""
EVENTS_PER_RAMP = 500_000
"""Every so many events, eight rise one after the other."""

_CHAIN = [f"S{x}" for x in range(1, N_RISES + 1)]
RISING = (
    f"SELECT * FROM {STEPS} MATCH_RECOGNIZE (\n"
    f"  ORDER BY t\n"
    f"  MEASURES S1.t AS first_t, S{N_RISES}.t AS last_t, S{N_RISES}.x AS top\n"
    f"  AFTER MATCH SKIP PAST LAST ROW\n"
    f"  PATTERN ( {' '.join(_CHAIN)} )\n"
    f"  DEFINE {', '.join(f'{s} AS {s}.x > PREV({s}.x)' for s in _CHAIN)}\n)"
)
"""Six rises in a row."""


def steps_store(path: Path, n_events: int, *, seed: int = SEED) -> Store:
    """Return a store of a reading that mostly stands still, indexed on its differences."""
    schema = pa.schema([("t", pa.int64()), ("x", pa.float64())])

    def batches() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng([seed, 2])
        value = 0.0
        half = CHANGE_SHARE / 2
        for times in moments(n_events):
            n, first = len(times), int(times[0])
            steps = random.choice([-1.0, 0.0, 1.0], n, p=[half, 1 - CHANGE_SHARE, half])
            for start in range(-first % EVENTS_PER_RAMP, n - 8, EVENTS_PER_RAMP):
                steps[start : start + 8] = 1.0
            readings = value + np.cumsum(steps)
            value = float(readings[-1])
            yield pa.record_batch([times, readings], schema=schema)

    settings = StreamSettings(time="t", derived=("delta(x)",))
    return kept_store(path, STEPS, schema, settings, batches(), index=("delta(x)",))


DRIFT = "drift"
LEVEL = 2.0
"""Standard deviations that readings of the second half of the history lie lower."""

_READINGS = {"A": "x", "B": "y", "C": "z"}
DRIFTING = (
    f"SELECT * FROM {DRIFT} MATCH_RECOGNIZE (\n"
    f"  ORDER BY t\n"
    f"  MEASURES A.t AS first_t, C.t AS last_t\n"
    f"  AFTER MATCH SKIP PAST LAST ROW\n"
    f"  PATTERN ( A B C ) WITHIN 300\n"
    f"  DEFINE {', '.join(f'{s} AS {s}.{name} > 0.5' for s, name in _READINGS.items())}\n)"
)
"""Three high readings in a row: in every block of the first half, in next to none of the second."""


def drifting_store(path: Path, n_events: int, *, seed: int = SEED) -> Store:
    """Return a store of three readings that are lower in the second half, indexed on each."""
    names = tuple(_READINGS.values())
    schema = pa.schema([("t", pa.int64()), *((name, pa.float64()) for name in names)])

    def batches() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng([seed, 3])
        for times in moments(n_events):
            level = np.where(times < n_events // 2, 0.0, -LEVEL)
            readings = [level + random.standard_normal(len(times)) for _ in names]
            yield pa.record_batch([times, *readings], schema=schema)

    return kept_store(path, DRIFT, schema, StreamSettings(time="t"), batches(), index=names)
