"""Tree entries of one live data file: from its tree file, or from the events where that lacks."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa

from chronicle.blocks import BlockReader
from chronicle.delta_log import LiveFile
from chronicle.errors import ForeignFileError
from chronicle.summarise import summarise, summarise_times
from chronicle.summary import AttributeSummary, Kind, TimeSummary
from chronicle.time import to_int64
from chronicle.tree_file import TreeFile, build_levels

_DATA_FILE = re.compile(r"((\d{6,})-(\d{6,})-(\d{6,}))-[0-9a-f]{32}\.parquet")

_UNREADABLE = (OSError, pa.ArrowException, KeyError, IndexError)


def file_ordinal(name: str, *, events_dir: Path) -> tuple[int, int, int]:
    """Return generation, part and piece that a data file's name carries.

    Raises
    ------
    ForeignFileError
        If Chronicle did not write the file.
    """
    found = _DATA_FILE.fullmatch(name)
    if found is None:
        raise ForeignFileError(str(events_dir / name))
    return int(found[2]), int(found[3]), int(found[4])


class FileTree:
    """Levels of the TAB+-tree within one data file; reads each column once. Thread-safe.

    A tree file that is missing, damaged or of other events costs time, never rows: the entries
    are then made from the events.

    Parameters
    ----------
    file
        The live data file.
    tree_path
        Its tree file; None if none is committed.
    reader
        Reads the stream's data files.
    time
        Name of the time column.
    fan_out
        Entries aggregated by one entry of the next level.
    """

    def __init__(
        self,
        file: LiveFile,
        tree_path: Path | None,
        *,
        reader: BlockReader,
        time: str,
        fan_out: int,
    ) -> None:
        self.name = file.name
        self.size_bytes = file.size_bytes
        self.key = file_ordinal(file.name, events_dir=reader.path(file.name).parent)
        self._reader = reader
        self._time = time
        self._fan_out = fan_out
        self._lock = threading.Lock()
        self._made: dict[str, list[AttributeSummary]] = {}
        self._stored, self._times = self._open(tree_path, file.n_rows)

    @property
    def ordinal(self) -> str:
        """The ordinal as the file's name spells it."""
        return "-".join(self.name.split("-")[:3])

    @property
    def is_stored(self) -> bool:
        """Whether entries come from a tree file."""
        return self._stored is not None

    def times(self) -> list[TimeSummary]:
        """Return the levels' counts, times and gaps, level 0 first."""
        return self._times

    def attribute(self, name: str, kind: Kind) -> list[AttributeSummary]:
        """Return the levels' summaries of one attribute, made from the events if need be."""
        stored = self._stored_attribute(name, kind)
        if stored is not None:
            return stored
        with self._lock:
            if name not in self._made:
                self._made[name] = build_levels(self._summarise(name), self._fan_out)
            return self._made[name]

    def stored_leaves(self, name: str, kind: Kind) -> AttributeSummary | None:
        """Return the blocks' summaries if they are stored; reads no event."""
        stored = self._stored_attribute(name, kind)
        return None if stored is None else stored[0]

    def _open(
        self, tree_path: Path | None, n_events: int | None
    ) -> tuple[TreeFile | None, list[TimeSummary]]:
        if tree_path is not None:
            stored = TreeFile(tree_path)
            try:
                levels = stored.times()
            except _UNREADABLE:
                levels = []
            if levels and (n_events is None or int(levels[0].count.sum()) == n_events):
                return stored, levels
        counts = self._reader.block_counts(self.name)
        table = self._reader.read(self.name, range(len(counts)), [self._time])
        times = to_int64(table.column(self._time), name=self._time).to_numpy()
        return None, build_levels(summarise_times(np.asarray(times), counts), self._fan_out)

    def _stored_attribute(self, name: str, kind: Kind) -> list[AttributeSummary] | None:
        if self._stored is None:
            return None
        try:
            return self._stored.attribute(name, kind)
        except _UNREADABLE:
            return None

    def _summarise(self, name: str) -> AttributeSummary:
        counts = self._times[0].count.tolist()
        column = self._reader.read(self.name, range(len(counts)), [name]).column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        return summarise(column, counts)
