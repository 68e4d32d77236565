"""Delta tables of other owners: the files of a version, and those that were added since one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.types as pat
from deltalake.exceptions import DeltaError

from chronicle.disk_errors import reason_of
from chronicle.errors import SourceError
from chronicle.foreign_text import actions_of
from chronicle.log.delta_log.files import commit_path, has_commit, list_log
from chronicle.log.delta_log.reading import check_commits, first_line, open_table, read_marks
from chronicle.paths import url_scheme

_FEATURES = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
)
"""Features of tables that are read rightly, the first two where no file makes use of them."""

_COLUMN_MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """A Parquet file of the table."""

    inside: str
    """Path relative to the table's folder."""

    values: Mapping[str, str | None]
    """Values of the partition columns, which the file lacks, as Delta spells them."""


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A version of a table that another program writes."""

    path: Path
    id: str
    """Another table at the same place has another; one that moves keeps it. Older versions of
    delta-rs gave a table a new one when its columns changed, see ``former_ids``."""

    version: int
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    files: tuple[ForeignFile, ...]
    """Those that live in it, sorted by path."""


def load_foreign(path: Path) -> ForeignTable:
    """Read the newest version of a Delta table that Chronicle does not write.

    Refuses tables of which reading file by file does not give the rows: some have deletion vectors
    or mapped columns, lie elsewhere, or have a feature that is not known here.
    """
    table = open_table(path, None)
    version = table.version()
    check_commits(path, version, identity=None, after=-1)
    _check_features(table, path)
    metadata = table.metadata()
    columns = tuple(metadata.partition_columns)
    actions = pa.table(table.get_add_actions())
    values: Iterable[tuple[str | None, ...]] = ((),) * actions.num_rows
    if columns:
        partition = actions.column("partition").combine_chunks()
        values = zip(*(_spelled(partition.field(name)) for name in columns), strict=True)
    resolve = cache(os.path.realpath)
    files = [
        ForeignFile(inside_table(logged, path, resolve), dict(zip(columns, row, strict=True)))
        for logged, row in zip(actions.column("path").to_pylist(), values, strict=True)
    ]
    return ForeignTable(
        path,
        str(metadata.id),
        version,
        pa.schema(table.schema().to_arrow()),
        columns,
        tuple(sorted(files, key=lambda file: file.inside)),
    )


def files_added_since(table: ForeignTable, version: int) -> tuple[ForeignFile, ...]:
    """Return the files that brought rows after a version, in the order of their commits.

    Commits that only rearrange rows (``dataChange`` false, as OPTIMIZE writes them) bring none,
    so what they replaced is returned though it lives no more.

    Refuses where rows were deleted or changed since, or the log does not reach back to the version.
    """
    found: dict[str, ForeignFile] = {}
    for number in range(version + 1, table.version + 1):
        if not has_commit(table.path, number):
            raise SourceError(
                f"Delta table '{table.path}' was taken up to its version {version}, and commit "
                f"{number} is in its log no more, so what is new cannot be told; take the table "
                "whole into a new stream"
            )
        for action in _actions(commit_path(table.path, number)):
            _check_kept(action, table, number, version)
            if "add" in action and action["add"].get("dataChange", True):
                inside = inside_table(action["add"]["path"], table.path)
                values = action["add"].get("partitionValues") or {}
                found[inside] = ForeignFile(inside, values)
    return tuple(found.values())


def _check_kept(action: Mapping[str, Any], table: ForeignTable, number: int, since: int) -> None:
    """Refuse a commit that took rows away, or changed them, which is the same to Delta."""
    if action.get("remove", {}).get("dataChange", False):
        raise SourceError(
            f"version {number} of Delta table '{table.path}' deleted or changed rows, after the "
            f"table was taken at version {since}, and a stream only takes what is added; take the "
            "table whole into a new stream"
        )


def _actions(commit: Path) -> list[dict[str, Any]]:
    try:
        return actions_of(commit.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(
            f"commit '{commit}' cannot be read ({error}); restore it, or take the table whole into "
            "a new stream"
        ) from error


def _check_features(table: deltalake.DeltaTable, path: Path) -> None:
    protocol, configuration = table.protocol(), table.metadata().configuration
    unknown = sorted(set(protocol.reader_features or ()) - _FEATURES)
    if unknown:
        raise SourceError(
            f"Delta table '{path}' has the feature '{unknown[0]}', which Chronicle cannot read; "
            "write its rows to a table without, and name that"
        )
    if configuration.get(_COLUMN_MAPPING, "none") != "none":
        raise SourceError(
            f"Delta table '{path}' maps its columns to other names in its files "
            f"({_COLUMN_MAPPING}), which Chronicle cannot read; write its rows to a table without "
            "column mapping, and name that"
        )
    if "deletionVectors" not in (protocol.reader_features or ()):
        return
    try:
        n_vectors = sum(batch.num_rows for batch in pa.table(table.deletion_vectors()).to_batches())
    except DeltaError as error:
        raise SourceError(
            f"the deletion vectors of Delta table '{path}' cannot be read ({first_line(error)}); "
            "write its rows to a table without, and name that"
        ) from error
    if n_vectors:
        raise SourceError(
            f"rows of Delta table '{path}' are deleted by deletion vectors, which Chronicle does "
            "not apply; have the table rewritten without them (REORG TABLE … APPLY (PURGE)), and "
            "run it again"
        )


def inside_table(logged: str, path: Path, resolve: Callable[[str], str] = os.path.realpath) -> str:
    """Return a path relative to the table from how the log spells it.

    Refuses one that leads out of the table's folder, be it through a link: a log that somebody
    else wrote must not decide what is read of this machine. ``resolve`` follows the links of a
    folder's path; of many files in few folders it may remember them.
    """
    inside = unquote(logged)
    if url_scheme(logged) is not None or "\0" in inside or not _is_below(path, inside, resolve):
        raise SourceError(
            f"Delta table '{path}' has files in other places, such as {logged!r} (is it a shallow "
            "clone?); name the table that they belong to"
        )
    return inside


def _is_below(table: Path, inside: str, resolve: Callable[[str], str]) -> bool:
    """Return whether a file lies in a table's folder, links followed."""
    folder, name = os.path.split(os.path.join(table, inside))  # noqa: PTH118 -- of each file
    place = os.path.normpath(os.path.join(resolve(folder), name))  # noqa: PTH118
    if os.path.islink(place):  # noqa: PTH114
        place = os.path.realpath(place)
    return place.startswith(os.path.join(resolve(str(table)), ""))  # noqa: PTH118


def _spelled(values: pa.Array) -> list[str | None]:
    """Return the values of a partition column as Delta spells them."""
    if pat.is_binary(values.type):  # delta-rs leaves them as they are spelled
        return [None if value is None else value.decode() for value in values.to_pylist()]
    if pat.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us"))
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    return texts


# ---------------------------------------------------------------------------------------------
# Whether a table is the one it was


def commit_fingerprint(path: Path, version: int) -> int | None:
    """Return 63 bits of what the commit of a version holds; None if it is in the log no more.

    A table that was restored from a copy, or made anew, has another commit of the same number.
    """
    commit = commit_path(path, version)
    try:
        digest = hashlib.sha256(commit.read_bytes()).digest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(
            f"commit '{commit}' cannot be read ({reason_of(error)}); check the file"
        ) from error
    return int.from_bytes(digest[:8], "big") >> 1


def former_ids(table: ForeignTable) -> tuple[str, ...]:
    """Return other ids that commits in the log of a table say it had, newest first.

    delta-rs up to 0.25.2 gave a table a new id when its columns changed.
    """
    found: dict[str, None] = {}
    commits = list_log(table.path).commits
    for number in sorted(commits, reverse=True):
        marks = read_marks(commits[number]) if number <= table.version else None
        if marks is not None and marks.identity not in (None, table.id):
            found[str(marks.identity)] = None
    return tuple(found)
