"""Which runs hold nothing that any retained version of a stream needs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from chronicle.log import delta_log
from indexing.errors import CorruptRunError
from indexing.run import open_run
from indexing.tables import index_table, is_of_one_file


def expired_runs(stream_dir: Path, attribute: str, kept: Collection[str]) -> tuple[str, ...]:
    """Return the runs of an index that cover none of the data files in ``kept``, sorted.

    A merged run that cannot be read is not among them: nobody knows what it covers, and
    ``repair`` replaces it.

    Parameters
    ----------
    stream_dir
        Folder of the stream.
    attribute
        Whose runs; without an index table there are none.
    kept
        Names of data files; test of membership must be fast.

    Raises
    ------
    StorageError
        If the log of the index table cannot be read.
    """
    folder = stream_dir / index_table(attribute)
    if not delta_log.table_exists(folder):
        return ()
    names = sorted(file.name for file in delta_log.live_files(folder))
    return tuple(name for name in names if not _covers_any(folder / name, kept))


def _covers_any(run: Path, kept: Collection[str]) -> bool:
    if is_of_one_file(run.name):
        return run.name in kept
    try:
        return any(covered.name in kept for covered in open_run(run).cover)
    except CorruptRunError:
        return True
