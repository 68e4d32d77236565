"""Tree entries of one live data file: from its tree file, or from the events where that lacks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from chronicle.errors import CorruptBlockError, CorruptTreeError
from chronicle.log.adopted_file import is_adopted
from chronicle.log.delta_log import LiveFile
from chronicle.ordinal import ordinal_of, parse_ordinal
from chronicle.settings import StreamSettings
from chronicle.time import times_of
from chronicle.tree.blocks import BlockReader, block_counts
from chronicle.tree.by_key import (
    ByKey,
    Key,
    KeySummaries,
    from_entries,
    is_too_many,
    keys_among,
    rows_of,
    summarise_by_key,
)
from chronicle.tree.derived_attributes import Delta, summarise_derived
from chronicle.tree.summarise import summarise, summarise_times
from chronicle.tree.summary import AttributeSummary, Ints, Kind, TimeSummary, all_null, kind_of
from chronicle.tree.tree_file import TreeFile, build_levels


class FileTree:
    """Levels of the TAB+-tree within one data file; reads each column once. Thread-safe.

    A tree file that is missing, damaged or of other events costs time, never rows: the entries
    are then made from the events.

    ``tree_path`` is None if no tree file is committed; ``settings`` say which entries a tree file
    of so many events has.
    """

    def __init__(
        self,
        file: LiveFile,
        tree_path: Path | None,
        *,
        reader: BlockReader,
        settings: StreamSettings,
    ) -> None:
        self.name = file.name
        self.size_bytes = file.size_bytes
        self.key = parse_ordinal(file.name, events_dir=reader.path(file.name).parent)
        self._reader = reader
        self._time = settings.time
        self._fan_out = settings.fan_out
        self._block_events = settings.block_events
        self._lock = threading.Lock()
        self._made: dict[str, list[AttributeSummary]] = {}
        self._by_key: dict[str, KeySummaries | None] = {}
        self._fault: CorruptTreeError | None = None
        self._stored, self._times = self._open(tree_path, file.n_rows)

    @property
    def ordinal(self) -> str:
        """The ordinal as the file's name spells it."""
        return ordinal_of(self.name, events_dir=self._reader.path(self.name).parent)

    @property
    def is_stored(self) -> bool:
        """Whether entries come from a tree file."""
        return self._stored is not None and self._fault is None

    @property
    def fault(self) -> CorruptTreeError | None:
        """What was found wrong with the tree file so far; answers are right without it."""
        return self._fault

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
                self._made[name] = self._make(name, kind)
            return self._made[name]

    def stored_leaves(self, name: str, kind: Kind) -> AttributeSummary | None:
        """Return the blocks' summaries if they are stored; reads no event.

        Of a column added after the file was written they are known without.
        """
        stored = self._stored_attribute(name, kind)
        if stored is not None:
            return stored[0]
        try:
            is_held = self._reader.has_column(self.name, name)
        except CorruptBlockError:
            return None  # whoever has to read the file says so
        return None if is_held else self.attribute(name, kind)[0]

    def derived(self, name: str, derived: Delta, key: str | None) -> list[AttributeSummary]:
        """Return the levels' summaries of what the file tells of a derived attribute.

        ``name`` is the attribute's, or its ``open_name`` for the number of open events.
        """
        kind = Kind.OPAQUE if name == derived.open_name else self._kind_of(derived)
        stored = self._stored_attribute(name, kind)
        if stored is not None:
            return stored
        with self._lock:
            if name not in self._made:
                self._made |= self._derive(derived, key)
            return self._made[name]

    def stored_derived(self, derived: Delta) -> tuple[AttributeSummary, Ints] | None:
        """Return the blocks' summaries of a derived attribute and how many events are open.

        None where they are not stored; reads no event.
        """
        values = self._stored_attribute(derived.name, self._kind_of(derived))
        opened = self._stored_attribute(derived.open_name, Kind.OPAQUE)
        return None if values is None or opened is None else (values[0], opened[0].null_count)

    def by_key(self, by_key: ByKey, key: str, kind: Kind) -> KeySummaries | None:
        """Return the blocks' summaries of an attribute for each key.

        None if the file has too many keys.
        """
        with self._lock:
            if by_key.name not in self._by_key:
                is_stored, found = self._stored_by_key(by_key, kind)
                self._by_key[by_key.name] = found if is_stored else self._make_by_key(by_key, key)
            return self._by_key[by_key.name]

    def _stored_by_key(self, by_key: ByKey, kind: Kind) -> tuple[bool, KeySummaries | None]:
        """Return whether entries are stored, and what they say."""
        marker = self._stored_attribute(by_key.name, Kind.OPAQUE)
        if marker is None or self._stored is None:
            return False, None
        if is_too_many(marker[0]).any():
            return True, None
        rows: dict[Key, Ints] = {}
        values: dict[Key, AttributeSummary] = {}
        for found in keys_among(self._stored.attributes(), by_key):
            of_rows = self._stored_attribute(rows_of(found), Kind.OPAQUE)
            of_values = self._stored_attribute(by_key.values_of(found), kind)
            if of_rows is None or of_values is None:  # damaged
                return False, None
            rows[found], values[found] = of_rows[0].n_values, of_values[0]
        return True, from_entries(rows, values, self._times[0].count)

    def _make_by_key(self, by_key: ByKey, key: str) -> KeySummaries | None:
        counts = self._times[0].count.tolist()
        columns = list(dict.fromkeys((by_key.source, key)))
        events = self._reader.read(self.name, range(len(counts)), columns)
        return summarise_by_key(events, by_key, key, counts)

    def holds(self, attributes: Sequence[str]) -> bool:
        """Return whether entries of all these attributes are stored."""
        return self.is_stored and self._stored is not None and self._stored.holds(attributes)

    def _kind_of(self, derived: Delta) -> Kind:
        return kind_of(derived.data_type(self._reader.schema))

    def _derive(self, derived: Delta, key: str | None) -> dict[str, list[AttributeSummary]]:
        counts = self._times[0].count.tolist()
        columns = [derived.source] if key is None else list({derived.source: 0, key: 0})
        events = self._reader.read(self.name, range(len(counts)), columns)
        found = summarise_derived(events, derived, key, counts)
        return {name: build_levels(leaves, self._fan_out) for name, leaves in found.items()}

    def _make(self, name: str, kind: Kind) -> list[AttributeSummary]:
        # A tree file without the column proves nothing: who wrote it may have opened the stream
        # before the column was added, and the data file hold it all the same.
        if self._reader.has_column(self.name, name):
            return build_levels(self._summarise(name), self._fan_out)
        return [all_null(kind, level.count) for level in self._times]

    def _open(
        self, tree_path: Path | None, n_events: int | None
    ) -> tuple[TreeFile | None, list[TimeSummary]]:
        if tree_path is not None:
            stored = TreeFile(tree_path)
            try:
                levels = stored.times()
                self._check_sizes(levels, n_events, tree_path)
                return stored, levels
            except CorruptTreeError as error:
                self._fault = error
        counts = self._reader.block_counts(self.name)
        table = self._reader.read(self.name, range(len(counts)), [self._time])
        times = summarise_times(times_of(table, self._time), counts)
        return None, build_levels(times, self._fan_out)

    def _check_sizes(
        self, levels: Sequence[TimeSummary], n_events: int | None, tree_path: Path
    ) -> None:
        """Check that a tree file has the entries that a data file of so many events has.

        Why: positions of events and of entries are counted with them. Chronicle's own blocks are
        full but for the last; those of an adopted file have any size, which is compared once its
        footer is read.
        """
        if n_events is None:
            n_events = sum(self._reader.block_counts(self.name))
        found = levels[0].count.tolist()
        sizes = [len(found)]
        adopted = is_adopted(self.name)
        expected = found if adopted else block_counts(n_events, self._block_events)
        if found != expected or sum(found) != n_events:
            reason = f"it has {sum(found)} events in {len(found)} blocks, the data file {n_events}"
            raise CorruptTreeError(str(tree_path), f"{reason} in {len(expected)}")
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // self._fan_out))
        if [len(level) for level in levels] != sizes:
            raise CorruptTreeError(str(tree_path), f"its levels do not have {sizes} entries")
        if adopted:
            self._reader.expect_blocks(self.name, tree_path, found)

    def _stored_attribute(self, name: str, kind: Kind) -> list[AttributeSummary] | None:
        if self._stored is None or self._fault is not None:
            return None
        try:
            return self._stored.attribute(name, kind)
        except CorruptTreeError as error:
            self._fault = error
            return None

    def _summarise(self, name: str) -> AttributeSummary:
        counts = self._times[0].count.tolist()
        return summarise(self._reader.read(self.name, range(len(counts)), [name]).column(0), counts)
