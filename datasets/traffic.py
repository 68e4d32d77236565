"""Cars that cruise, accelerate, speed and brake, one reading a second each: speed and accel.

What situations are asked of: "a sharp acceleration, then hard braking, both around a stretch of
speeding" (TPStream, EDBT 2018, section 2). Speed is in miles an hour, accel in miles an hour a
second; a car's speed is what its acceleration adds up to.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datasets.synthetic import SEED

SCHEMA = pa.schema(
    [("t", pa.int64()), ("car", pa.int32()), ("speed", pa.float64()), ("accel", pa.float64())]
)

AGGRESSIVE = """
FROM {source} PARTITION BY car ORDER BY t
DEFINE A AS accel > 8, B AS speed > 70, C AS accel < -9
PATTERN A meets;overlaps;starts;during B AND B contains;finished by;overlaps;meets C AND A before C
WITHIN 300 {more}
"""
"""The papers' query without durations; EMIT FINAL or RETURN goes to ``more``."""

# Seconds of each phase of a car's round, the least and the most, and its mean acceleration.
_PHASES = (
    ("cruise", 20, 120, 0.0),
    ("accelerate", 3, 8, 9.5),
    ("hold", 5, 60, 0.0),
    ("brake", 2, 8, -10.0),
)


def generate(n_cars: int, seconds: int, *, seed: int = SEED) -> pa.Table:
    """Return the readings of all cars, ``n_cars * seconds`` rows in order of time, then car."""
    random = np.random.default_rng(seed)
    accel = np.stack([_car(seconds, random) for _ in range(n_cars)], axis=1)
    speed = np.clip(_speeds(accel, random), 0.0, 120.0)
    t = np.repeat(np.arange(seconds), n_cars)
    car = np.tile(np.arange(n_cars), seconds)
    return pa.table([t, car, speed.ravel(), accel.ravel()], schema=SCHEMA)


def _car(seconds: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return the accelerations of one car."""
    least, most, mean = (np.array([phase[k] for phase in _PHASES]) for k in (1, 2, 3))
    rounds = seconds // int(least.sum()) + 1
    lasting = random.integers(least, most, size=(rounds, len(_PHASES)), endpoint=True).ravel()
    means = np.repeat(np.tile(mean, rounds), lasting)[:seconds]
    return np.asarray(means + random.normal(0.0, 0.5, seconds))


def _speeds(accel: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Return the speeds that accelerations lead to, of each car by itself.

    Each is drawn to the car's usual speed a little, so that errors do not add up.
    """
    usual = random.uniform(30.0, 60.0, size=accel.shape[1])
    speed, speeds = usual, np.empty_like(accel)
    for second, change in enumerate(accel):
        speed = speed + change + 0.02 * (usual - speed)
        speeds[second] = speed
    return speeds
