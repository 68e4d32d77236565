"""The weights calibration measured, as they lie beside the streams of a store."""

from __future__ import annotations

import json
import os
import platform
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from chronicle.disk import discard, flush, writing
from chronicle.errors import StorageError
from chronicle.foreign_text import parse_json
from costmodel.calibration import WEIGHTS
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters

CALIBRATION_FILE = "calibration.json"
"""File at the root of a store."""

FORMAT = "chronicle-calibration"
FORMAT_VERSION = 3

OF_WINDOWS = ("fold_s", "pane_s", "cut_s", "merge_s", "node_s", "ask_s", "join_s")
SINCE_VERSION = dict.fromkeys(OF_WINDOWS, 2) | dict.fromkeys(("entry_s", "sort_s"), 3)
"""Version from which on a weight is of the work it is now; for files before it the default counts.
Up to version 2 an entry was charged for decoding its key, and for being ordered under one key."""

WEIGHT_MAX_S = 10.0
"""A unit of work that takes longer was never measured; the file was written by something else."""


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """What planning is told of the machine."""

    parameters: CostParameters
    warning: str | None = None
    """Why a file that lies there was not used, in a sentence."""


def load_weights(store: Path | str) -> LoadedWeights:
    """Return the weights measured on a store, or the defaults; read again when the file changes.

    A file that is damaged or not Chronicle's is never an error: weights decide how long an answer
    takes and not what it is.
    """
    path = f"{store}/{CALIBRATION_FILE}"
    try:
        stat = os.stat(path)  # noqa: PTH116 - by every query
    except OSError:
        return LoadedWeights(DEFAULT_PARAMETERS)
    return _load(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(64)
def _load(path: str, *_identity: int) -> LoadedWeights:
    try:
        return LoadedWeights(parse_weights(_read(Path(path)), machine_facts()))
    except ValueError as error:
        warning = (
            f"the weights in '{path}' are not used, planning takes its defaults ({error}); "
            "run 'chronicle calibrate' again, or remove the file"
        )
        source = f"defaults, as {CALIBRATION_FILE} cannot be used"
        return LoadedWeights(replace(DEFAULT_PARAMETERS, source=source), warning)


def _read(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError("it is no JSON") from error


def parse_weights(content: Any, here: Mapping[str, Any]) -> CostParameters:
    """Return the weights a calibration file holds. Pure.

    ``here`` are facts of this machine: where they differ from those of the machine the weights were
    measured on, ``source`` says so, and the weights count all the same.

    Raises a ValueError for what is no calibration, for one of a later format, and for a weight that
    is missing or absurd.
    """
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("it is no calibration of Chronicle's")
    version = content.get("format_version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise ValueError(f"its format is version {version!r}, this one is {FORMAT_VERSION}")
    weights = content.get("weights")
    if not isinstance(weights, dict):
        raise ValueError("it holds no weights")
    found: dict[str, float] = {}
    for name in WEIGHTS:
        if version < SINCE_VERSION.get(name, 1):
            continue
        value = weights.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"weight {name} is {value!r}, no number")
        if not 0 <= value <= WEIGHT_MAX_S:  # nor is NaN
            raise ValueError(f"weight {name} is {value!r}, not between 0 and {WEIGHT_MAX_S:g} s")
        found[name] = float(value)
    return replace(DEFAULT_PARAMETERS, **found, source=_source(content, here))


def _source(content: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return in words where weights come from."""
    source = f"calibrated {str(content.get('calibrated_at', 'at an unknown time'))[:10]}"
    if "stream" in content:
        source += f" on stream '{content['stream']}'"
    there = content.get("machine")
    there = there if isinstance(there, dict) else {}
    changed = [
        f"{name} {there.get(name, 'unknown')} then, {value} now"
        for name, value in here.items()
        if there.get(name) != value
    ]
    return source + (f", in other circumstances ({'; '.join(changed)})" if changed else "")


def check_storable(store: Path) -> None:
    """Check that a calibration file can be written, before measuring takes its time.

    Raises a StorageError if no file can be made there.
    """
    probe = _draft(store)
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise StorageError(
            f"weights cannot be stored in '{store}' ({error.strerror}); check its permissions and "
            "space, or measure with --dry-run, which stores nothing"
        ) from error


def store_weights(store: Path, content: Mapping[str, Any]) -> Path:
    """Write a calibration file; it is whole or as it was before, whatever happens.

    ``content`` is what `calibration_content` returns.
    """
    path = store / CALIBRATION_FILE
    draft = _draft(store)
    try:
        with writing(path):
            draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
            flush([draft])
            draft.replace(path)
    finally:
        discard([draft])
    return path


def _draft(store: Path) -> Path:
    return store / f".{CALIBRATION_FILE}.{uuid.uuid4().hex}"


def calibration_content(
    parameters: CostParameters, *, stream: str, calibrated_at: str, fit: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a calibration file holds.

    ``calibrated_at`` is an ISO 8601 time; ``fit`` says how good the weights are, for people.
    """
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "weights": {name: getattr(parameters, name) for name in WEIGHTS},
        "stream": stream,
        "calibrated_at": calibrated_at,
        "machine": machine_facts(),
        "fit": dict(fit),
    }


@lru_cache(1)
def _processor() -> str:
    """Return the processor's model, as far as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.processor() or platform.machine()
    return platform.processor() or platform.machine()


def machine_facts() -> dict[str, Any]:
    """Return what weights depend on besides the data."""
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "cores": len(affinity(0)) if affinity is not None else os.cpu_count() or 1,
        "processor": _processor(),
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
    }
