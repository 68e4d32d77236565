"""The numbers that commits gave to applications: what a table remembers of what came into it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.disk_errors import reason_of
from chronicle.errors import StorageError, unread
from chronicle.log.delta_log.files import list_log

_ATTEMPTS_MAX = 5
"""Times a log is listed again because another process dropped commits that were listed."""


def numbers_by_application(path: Path, prefix: str) -> dict[str, int]:
    """Return the number last given to each application whose id begins with a prefix.

    They belong to the state of the table, not to its history: they outlive the commits. The Delta
    library tells the number of an id, and no ids, so the newest checkpoint and what follows it is
    read here.
    """
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        try:
            return _read_numbers(path, prefix)
        except FileNotFoundError as error:
            if attempt == _ATTEMPTS_MAX:
                raise _unreadable(path, error) from error
        except (OSError, ValueError, pa.ArrowException) as error:
            raise unread(path, error) or _unreadable(path, error) from error
    raise AssertionError("the last attempt returns or raises")


def _unreadable(path: Path, error: Exception) -> StorageError:
    return StorageError(
        f"the log of Delta table '{path}' cannot be read ({reason_of(error)}); 'chronicle check' "
        "says what is damaged"
    )


def _read_numbers(path: Path, prefix: str) -> dict[str, int]:
    commits, checkpoints = list_log(path)
    newest = max(checkpoints, default=-1)
    found: dict[str, int] = {}
    for part in checkpoints.get(newest, ()):
        schema = pq.read_schema(part)
        if "txn" in schema.names:
            column = pq.read_table(part, columns=["txn"]).column("txn").drop_null()
            for action in column.to_pylist():
                _take(action, prefix, found)
    for version in sorted(version for version in commits if version > newest):
        for line in commits[version].read_text(encoding="utf-8").split("\n"):
            if line.startswith('{"txn"'):
                _take(json.loads(line)["txn"], prefix, found)
    return found


def _take(action: dict[str, Any], prefix: str, found: dict[str, int]) -> None:
    if action["appId"].startswith(prefix):
        found[action["appId"]] = int(action["version"])
