"""The names that ``import chronicle`` offers though a room above it has them.

Somebody who uses Chronicle should need one import. The rooms are imported in one direction
(``ARCHITECTURE.md``), and ``chronicle`` is the lowest: so a name is looked up here when it is asked
for, by the name of its module; names of ``chronicle.ingest``, which few need, are too. This, and
the types of the same names in ``chronicle/__init__.py``, is the one exception to that direction.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_NAMES = {
    "chronicle.ingest.local": ("AppendFilesReport", "append_files"),
    "chronicle.ingest.report": ("AppendOptions",),
    "indexing": ("create_index", "drop_index", "list_indexes"),
    "indexing.errors": ("CorruptRunError", "IndexingError", "UnknownIndexError"),
    "replay": (
        "Dataflow",
        "Explanation",
        "OnlineFlow",
        "OnlineQuery",
        "PacedReplay",
        "Result",
        "batches",
        "events",
        "explain",
        "online",
        "query",
        "stream",
    ),
    "replay.calibration.measure": ("CalibrationError",),
    "replay.errors": (
        "BindError",
        "LimitExceededError",
        "NotSupportedError",
        "PatternSyntaxError",
        "PlanError",
        "QueryError",
        "SkipError",
        "StepLimitError",
        "UnknownNameError",
    ),
}

_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def resolve(name: str) -> Any:
    """Return what a room above offers under ``name``; the ``__getattr__`` of ``chronicle``."""
    if name not in _HOMES:
        raise AttributeError(f"module 'chronicle' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    setattr(sys.modules["chronicle"], name, value)
    return value
