"""CSV and JSON files that a statement names, read as streams would take them, kept on disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from chronicle.disk_errors import reason_of
from chronicle.errors import ChronicleError, SourceError
from chronicle.ingest.sources import SourceFormat
from chronicle.ingest.table_files import TextTable, open_text_table
from replay.errors import LimitExceededError, QueryError
from replay.limits import check_limits


def read_text_files(
    paths: Sequence[Path], format_: SourceFormat, names: Sequence[str], *, is_dry: bool = False
) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the rows of text files that are one table, and what is to be known of their types.

    Rows do not stay in memory: they are those of a file in the temporary folder, which is gone with
    the table. ``is_dry``: without rows. Whatever is wrong with a file is a QueryError.
    """
    try:
        found = open_text_table(paths, format_, names=names, look=check_limits)
        table = found.schema.empty_table() if is_dry else _on_disk(found)
    except LimitExceededError:
        raise
    except (ChronicleError, OSError) as error:
        what = f"cannot read '{names[0]}' ({reason_of(error)})"
        what = str(error) if isinstance(error, ChronicleError) else what
        options = " (an option of 'chronicle append': tables are read without)" * (" --" in what)
        raise QueryError(f"{what}{options}") from error
    shown = f"'{names[0]}'" + (f" and {len(names) - 1:,} more" if len(names) > 1 else "")
    return table, tuple(f"{shown}: {note}" for note in found.notes)


def _on_disk(found: TextTable) -> pa.Table:
    """Return the rows as a table over a file that nobody else can see."""
    handle, path = tempfile.mkstemp(prefix="chronicle-table-")
    try:
        with os.fdopen(handle, "wb") as file, pa.ipc.new_file(file, found.schema) as writer:
            for batch in found.batches():
                writer.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
    except OSError as error:
        raise SourceError(
            f"the rows do not fit into the temporary folder ({reason_of(error)}); free some room, "
            "or name another one with TMPDIR"
        ) from error
    finally:
        Path(path).unlink()
