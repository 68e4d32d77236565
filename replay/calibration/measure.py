"""Calibration: time operations on a stream and fit the weights of the cost model to them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from chronicle import Store, Stream
from chronicle.compiled import compile_at_once
from chronicle.errors import ChronicleError
from costmodel.calibration import UNITS, WEIGHTS, Fit, fit_weights
from costmodel.parameters import DEFAULT_PARAMETERS
from indexing import open_indexes
from replay.calibration.facts import look_at
from replay.calibration.flow_operations import flow_operations
from replay.calibration.operations import operations_on
from replay.calibration.timing import Meter, Operation, time_operations
from replay.engines.read_ahead import thread_count
from replay.engines.weights import calibration_content, store_weights

BLOCKS_ENOUGH: Final = 64
"""Blocks from which on the price of a block can be told from that of a query."""


class CalibrationError(ChronicleError):
    """Nothing can be measured here."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Weights, and what they were measured on."""

    stream: str
    n_events: int
    fit: Fit
    operations: tuple[Operation, ...]
    """Those that were timed."""
    seconds: tuple[float, ...]
    """What each took."""
    notes: tuple[str, ...]
    """What could not be measured, in sentences."""

    def kinds(self) -> list[dict[str, Any]]:
        """Return how well the weights tell each kind of operation."""
        kinds = dict.fromkeys(operation.kind for operation in self.operations)
        measured, errors = np.array(self.seconds), self.fit.errors
        rows = []
        for kind in kinds:
            of_kind = np.array([operation.kind == kind for operation in self.operations])
            rows.append(
                {
                    "kind": kind,
                    "operations": int(of_kind.sum()),
                    "seconds_min": float(measured[of_kind].min()),
                    "seconds_max": float(measured[of_kind].max()),
                    "median_error": float(np.median(np.abs(errors[of_kind]))),
                    "bias": float(np.median(errors[of_kind])),
                }
            )
        return rows

    def quality(self) -> dict[str, Any]:
        """Return how good the fit is, as it is stored."""
        size = np.abs(self.fit.errors)
        return {
            "operations": len(self.operations),
            "r2": self.fit.r2,
            "median_error": self.fit.median_error,
            "error_of_9_in_10": float(np.quantile(size, 0.9)),
            "overhead_s": self.fit.overhead_s,
            "fitted": list(self.fit.fitted),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as JSON has it."""
        parameters = self.fit.parameters
        return {
            "stream": self.stream,
            "n_events": self.n_events,
            "weights": {
                name: {
                    "value": getattr(parameters, name),
                    "unit": UNITS[name],
                    "default": getattr(DEFAULT_PARAMETERS, name),
                    "measured": name in self.fit.fitted,
                }
                for name in WEIGHTS
            },
            "fit": self.quality(),
            "kinds": self.kinds(),
            "residuals": [
                {"operation": operation.name, "seconds": took, "estimated": float(estimated)}
                for operation, took, estimated in zip(
                    self.operations, self.seconds, self.fit.estimated, strict=True
                )
            ],
            "notes": list(self.notes),
        }


def choose_stream(store: Store, name: str | None) -> Stream:
    """Return the stream asked for, or the one with most events.

    Raises
    ------
    CalibrationError
        If the store has no stream.
    StreamNotFoundError
        If there is none of that name.
    """
    if name is not None:
        return store.stream(name)
    streams = [store.stream(each) for each in store.stream_names()]
    if not streams:
        raise CalibrationError(
            f"the store '{store.path}' has no stream to measure on; ingest events first"
        )
    return max(streams, key=lambda stream: stream.snapshot().n_events)


def keep(store: Store, done: Calibration) -> Path:
    """Write weights that were measured into the store, for queries to be planned by."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    content = calibration_content(
        done.fit.parameters, stream=done.stream, calibrated_at=now, fit=done.quality()
    )
    return store_weights(store.path, content)


def calibrate(
    stream: Stream,
    *,
    seconds: float,
    progress: Callable[[float], None] = lambda _: None,
) -> Calibration:
    """Measure the weights of the cost model on a stream, the larger the better; changes nothing.

    All in all it takes up to twice ``seconds``; ``progress`` is told the share that is done.

    Raises
    ------
    CalibrationError
        If the stream has no event, or no column that conditions can be put on.
    """
    compile_at_once()
    snapshot = stream.snapshot()
    if snapshot.n_events == 0:
        raise CalibrationError(
            f"stream '{stream.name}' has no event, so nothing can be timed; append some, or "
            "calibrate on another stream"
        )
    indexed = frozenset(open_indexes(snapshot).attributes)
    facts = look_at(snapshot, indexed)
    if not facts.columns:
        raise CalibrationError(
            f"stream '{stream.name}' has no column of numbers or texts with two values or more, so "
            "there is nothing to ask of it; calibrate on another stream"
        )
    progress(0.0)
    operations = [
        *operations_on(snapshot, facts, seconds=seconds),
        *flow_operations(snapshot, facts, seconds=seconds),
    ]
    meter = Meter(n_cores=thread_count())
    times = time_operations(operations, seconds=seconds, meter=meter, progress=progress)
    timed = np.flatnonzero(np.isfinite(times) & (times > 0))
    if len(timed) == 0:
        raise CalibrationError(
            f"no operation on stream '{stream.name}' could be timed in {seconds:g} seconds; "
            "give it more"
        )
    done = tuple(operations[index] for index in timed.tolist())
    fit = fit_weights(np.array([operation.units for operation in done]), times[timed])
    notes = []
    if not indexed:
        notes.append(
            f"stream '{stream.name}' has no index, so the weights of lookups keep their defaults"
        )
    if snapshot.n_blocks < BLOCKS_ENOUGH:
        notes.append(
            f"stream '{stream.name}' has only {snapshot.n_blocks:,} blocks: its weights tell "
            "little of larger streams; calibrate on a larger one if there is one"
        )
    return Calibration(
        stream.name, snapshot.n_events, fit, done, tuple(times[timed].tolist()), tuple(notes)
    )
