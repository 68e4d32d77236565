"""Checks the quarantine: the records that were put aside are all there and can be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.config import EVENTS_TABLE
from chronicle.disk_errors import reason_of, unread_remedy
from chronicle.errors import StorageError
from chronicle.log import delta_log
from chronicle.log.delta_log import LiveFile, TableState
from chronicle.maintenance.finding import Findings
from chronicle.write.quarantine import QUARANTINE_SCHEMA, QUARANTINE_TABLE

QUARANTINE = "records put aside are there, and every page matches its checksum"

_RESTORE = "restore it from a copy, or take the records from the sources of that ingest"


def check_quarantine(path: Path, state: TableState | None, findings: Findings) -> None:
    """Check the quarantine table of a stream.

    ``state`` is None where there is no such table or its log cannot be read.
    """
    folder = path / QUARANTINE_TABLE
    if state is None and folder.exists():
        return  # said of its log already
    files = () if state is None else state.files
    batches: set[str] = set()
    for file in sorted(files, key=lambda file: file.name):
        batches |= _check_file(folder / file.name, file, findings)
    missing = _named_batches(path) - batches
    if missing and not findings.has(QUARANTINE):
        what = f"records of {len(missing)} batches are gone that commits of the events name"
        findings.fault(QUARANTINE, folder, what, _RESTORE)
    n_records = sum(file.n_rows or 0 for file in files)
    findings.conclude(QUARANTINE, path, f"{n_records} records of {len(batches)} batches")


def _check_file(path: Path, file: LiveFile, findings: Findings) -> set[str]:
    """Check one file; return the batches it holds."""
    try:
        size = path.stat().st_size
        table = pq.read_table(path, page_checksum_verification=True, partitioning=None)
    except (OSError, ValueError, pa.ArrowException) as error:
        what = "the file is missing" if isinstance(error, FileNotFoundError) else reason_of(error)
        findings.fault(QUARANTINE, path, what, _RESTORE, unread=unread_remedy(error))
        return set()
    wrong = None
    if list(table.schema) not in (list(QUARANTINE_SCHEMA), list(QUARANTINE_SCHEMA)[:-1]):
        wrong = "its columns are not those of the quarantine"
    elif size != file.size_bytes:
        wrong = f"it has {size} bytes, the log says {file.size_bytes}"
    elif file.n_rows is not None and table.num_rows != file.n_rows:
        wrong = f"it has {table.num_rows} records, the log says {file.n_rows}"
    if wrong is not None:
        findings.fault(QUARANTINE, path, wrong, _RESTORE)
        return set()
    return set(table.column("batch").unique().to_pylist())


def _named_batches(path: Path) -> set[str]:
    """Return the batches that commits of the events name, as far back as the log reaches."""
    try:
        commits = delta_log.commits(path / EVENTS_TABLE)
    except StorageError:
        return set()  # said of that log already
    found = (commit.metadata.get("quarantine_batch") for commit in commits)
    return {batch for batch in found if batch is not None}
