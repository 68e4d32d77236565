"""What is lost where a data file cannot be read, and whether it was meant to be gone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from chronicle.config import EVENTS_TABLE
from chronicle.errors import (
    ChangedFileError,
    CorruptBlockError,
    CorruptTreeError,
    SchemaError,
    VacuumedVersionError,
)
from chronicle.log import delta_log
from chronicle.log.delta_log import TableState
from chronicle.store import Stream
from chronicle.time import TimeType, show_time, to_int64
from chronicle.tree.tree_file import TREE_TABLE, TreeFile
from chronicle.words import number_of


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A data file that an answer goes on without."""

    path: str
    reason: str
    time_type: TimeType
    n_events: int | None
    """None if not known."""

    t_min: int | None
    """Internal time of its first event; None if not known."""

    t_max: int | None

    def __str__(self) -> str:
        events = (
            "its events" if self.n_events is None else f"its {number_of(self.n_events, 'event')}"
        )
        if self.t_min is None or self.t_max is None:
            when = "of a time that is not known"
        else:
            first, last = (show_time(time, self.time_type) for time in (self.t_min, self.t_max))
            when = f"from {first} to {last}"
        return (
            f"events file '{self.path}' cannot be read ({self.reason}) and was left out: this is "
            f"the answer without {events} {when}; restore the file from a copy"
        )


def missing_file(stream: Stream, version: int, error: CorruptBlockError) -> MissingFile:
    """Return what an answer on a version lacks without the file that an error is about.

    Number and times come from the tree file, else from the commit that added the file.
    """
    name = Path(error.path).name
    state = delta_log.load_table(stream.path / EVENTS_TABLE, version)
    n_events = next((file.n_rows for file in state.files if file.name == name), None)
    try:
        leaves = TreeFile(stream.path / TREE_TABLE / name).times()[0]
        n_events = int(leaves.count.sum()) if n_events is None else n_events
        times: tuple[int | None, int | None] = int(leaves.t_min[0]), int(leaves.t_max[-1])
    except CorruptTreeError:
        times = _committed_times(state, name, stream.settings.time)
    path = error.target if isinstance(error, ChangedFileError) else error.path
    return MissingFile(path, error.reason, stream.time_type, n_events, *times)


def _committed_times(state: TableState, name: str, time: str) -> tuple[int | None, int | None]:
    """Return first and last time of a file as its commit says, None where it does not."""
    statistics = state.statistics
    row = pc.index(statistics.column("path"), name).as_py()
    if row < 0 or not {"min", "max"} <= set(statistics.column_names):
        return None, None
    borders = []
    for end in ("min", "max"):
        column = statistics.column(end).slice(row, 1)
        if column.type.get_field_index(time) < 0:
            return None, None
        try:
            value = to_int64(pc.struct_field(column, time), name=time)
        except (SchemaError, pa.ArrowException):
            return None, None
        borders.append(int(value[0].as_py()))
    return borders[0], borders[1]


def check_not_vacuumed(stream: Stream, version: int, error: CorruptBlockError) -> None:
    """Check that the file an error is about is not one that was vacuumed while it was read.

    Raises VacuumedVersionError if it is gone and the newest version does not have it.
    """
    path = Path(error.path)
    if path.exists():
        return
    newest = delta_log.live_files(stream.path / EVENTS_TABLE)
    if all(file.name != path.name for file in newest):
        raise VacuumedVersionError(version, error.path) from error
