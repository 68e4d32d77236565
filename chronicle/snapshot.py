"""One version of a stream: its data files, blocks and TAB+-tree, and reads of them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.errors import SchemaError, did_you_mean, sentences_on
from chronicle.settings import StreamSettings
from chronicle.time import TimeType, time_type, times_of
from chronicle.tree.blocks import BlockReader, Stored
from chronicle.tree.by_key import ByKey, KeySummaries
from chronicle.tree.derived_attributes import Delta, parse_derived
from chronicle.tree.file_tree import FileTree
from chronicle.tree.summarise import summarise, summarise_times
from chronicle.tree.summary import (
    AttributeBounds,
    AttributeSummary,
    Ints,
    Kind,
    Leaves,
    TimeSummary,
    kind_of,
)
from chronicle.tree.tab_tree import Aggregate, TabTree, TreeLevel, to_aggregate
from chronicle.tree.tree_file import extremes_to_arrow


@dataclass(frozen=True, slots=True)
class DataFile:
    """A live file of the events table."""

    name: str
    ordinal: str
    """Orders files of equal times."""

    n_events: int
    n_blocks: int
    size_bytes: int
    t_min: int
    t_max: int
    has_tree: bool
    """Whether its TAB+-tree entries are stored; without them it is always read in full."""


def to_data_file(tree: FileTree) -> DataFile:
    """Return what a data file's tree entries say of it."""
    leaves = tree.times()[0]
    return DataFile(
        name=tree.name,
        ordinal=tree.ordinal,
        n_events=int(leaves.count.sum()),
        n_blocks=len(leaves),
        size_bytes=tree.size_bytes,
        t_min=int(leaves.t_min[0]),
        t_max=int(leaves.t_max[-1]),
        has_tree=tree.is_stored,
    )


def to_leaves(times: TimeSummary, files: Sequence[DataFile]) -> Leaves:
    """Return the blocks of data files that follow each other, from their summaries of times."""
    n_blocks = [file.n_blocks for file in files]
    return Leaves(
        count=times.count,
        base=np.concatenate(([0], np.cumsum(times.count))).astype(np.int64),
        t_min=times.t_min,
        t_max=times.t_max,
        gap_min=times.gap_min,
        gap_max=times.gap_max,
        file=np.repeat(np.arange(len(files), dtype=np.int32), n_blocks),
        row_group=np.concatenate(
            [np.zeros(0, np.int32), *(np.arange(n, dtype=np.int32) for n in n_blocks)]
        ),
    )


class Snapshot:
    """An unchanging view of a stream at one version. Thread-safe.

    Made by ``Stream.snapshot``. Block ordinals count the stream's blocks in stream order.
    """

    def __init__(
        self,
        *,
        name: str,
        stream_dir: Path,
        version: int,
        schema: pa.Schema,
        settings: StreamSettings,
        trees: Sequence[FileTree],
        reader: BlockReader,
        faults: Sequence[str | None] = (),
    ) -> None:
        self.name = name
        self.stream_dir = stream_dir
        self.version = version
        self.schema = schema
        self.settings = settings
        self._trees = tuple(trees)
        self._faults = tuple(faults)
        self._reader = reader
        self.files = tuple(to_data_file(tree) for tree in trees)
        self.tree = TabTree(
            [tree.times() for tree in trees], fan_out=settings.fan_out, load=self._load_attribute
        )
        self.leaves = to_leaves(self.tree.level(0).times, self.files)
        self._first_block = {file.name: 0 for file in self.files}
        first = 0
        for file in self.files:
            self._first_block[file.name] = first
            first += file.n_blocks
        self._columns = frozenset(schema.names)
        self._bounds: dict[str, AttributeBounds] = {}
        self._by_key: dict[str, KeySummaries | None] = {}
        self._lock = threading.Lock()

    @property
    def time_type(self) -> TimeType:
        """Kind of the time column."""
        return time_type(self.schema.field(self.settings.time).type, column=self.settings.time)

    @property
    def n_events(self) -> int:
        """Number of events."""
        return int(self.leaves.base[-1])

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.leaves.count)

    @property
    def bases(self) -> Ints:
        """First ``seq`` of each block and, last, the number of events, shape (n_blocks + 1,)."""
        return self.leaves.base

    @property
    def t_min(self) -> int | None:
        """Time of the first event; None if there is none."""
        return int(self.leaves.t_min[0]) if self.n_blocks else None

    @property
    def t_max(self) -> int | None:
        """Time of the last event; None if there is none."""
        return int(self.leaves.t_max[-1]) if self.n_blocks else None

    @property
    def gap_min(self) -> int:
        """Smallest time between neighbouring events of the stream; 0 below two events."""
        if not self.n_blocks:
            return 0
        return max(0, int(self.tree.level(self.tree.n_levels - 1).times.gap_min[0]))

    @property
    def faults(self) -> tuple[str, ...]:
        """Sentences on tree files found missing or damaged so far; answers are right without."""
        found = [tree.fault for tree in self._trees if tree.fault is not None]
        return (*(fault for fault in self._faults if fault is not None), *sentences_on(found))

    def file_blocks(self, name: str) -> tuple[int, int]:
        """Return the first block and the number of blocks of a live data file.

        Raises
        ------
        KeyError
            If the data file does not live in this version.
        """
        first = self._first_block[name]
        return first, self.files[int(self.leaves.file[first])].n_blocks

    def bounds(self, attribute: str) -> AttributeBounds:
        """Return least and greatest values per block, from tree entries; reads no event.

        Raises
        ------
        SchemaError
            If there is no such column or derived attribute.
        """
        with self._lock:
            found = self._bounds.get(attribute)
        if found is None:
            found = self._to_bounds(attribute, self._kind(attribute))
            with self._lock:
                self._bounds[attribute] = found
        return found

    def by_key(self, attribute: str) -> KeySummaries | None:
        """Return the blocks' summaries of an attribute for each value of the key column.

        None where the stream does not declare ``by(attribute)``, or a data file has too many
        keys. Reads events of those data files alone whose tree files lack them.

        Raises
        ------
        SchemaError
            If there is no such column.
        CorruptBlockError
            If a data file must be read and cannot be.
        """
        kind, by_key = self._kind(attribute), ByKey(attribute)
        key = self.settings.key
        if by_key.name not in self.settings.derived or key is None:
            return None
        with self._lock:
            if attribute in self._by_key:
                return self._by_key[attribute]
        parts = [tree.by_key(by_key, key, kind) for tree in self._trees]
        known = [part for part in parts if part is not None]
        whole = KeySummaries.concat(known, kind) if len(known) == len(parts) else None
        with self._lock:
            self._by_key[attribute] = whole
        return whole

    def level(self, k: int, attribute: str | None = None) -> TreeLevel:
        """Return level k of the TAB+-tree, see ``TabTree.level``.

        Of a derived attribute it summarises the values that data files tell by themselves; of
        ``open(...)`` of it the number of nulls is that of the events whose values they do not.
        """
        if attribute is not None:
            self._kind(attribute)
        return self.tree.level(k, attribute)

    def aggregate(
        self, start: int | None, stop: int | None, attribute: str | None = None
    ) -> Aggregate:
        """Aggregate the events of [start, stop) from the tree; reads at most two blocks.

        Parameters
        ----------
        start, stop
            Internal times, half-open; None is unbounded.
        attribute
            Attribute to aggregate besides times.

        Raises
        ------
        SchemaError
            If there is no such column, or it is a derived attribute.
        """
        if attribute is not None and attribute not in self.schema.names:
            attribute = self._derived(attribute).name
            raise SchemaError(
                f"'{attribute}' has no exact aggregates: values at the start of a data file depend "
                "on the file before; aggregate a column, or ask for its bounds"
            )
        kind = None if attribute is None else self._kind(attribute)
        first, last = self.tree.covering(start, stop)
        inner_first, inner_last = self._inner(first, last, start, stop)
        borders = sorted({*range(first, inner_first), *range(inner_last, last)})
        parts = [self._read_border(b, start, stop, attribute) for b in borders if b < inner_first]
        nodes = self.tree.nodes_of_ranges(np.array([inner_first]), np.array([inner_last]))
        if len(nodes):
            inner = None if attribute is None else self.tree.attribute_of_entries(nodes, attribute)
            parts.append((self.tree.times_of_entries(nodes), inner))
        right = [b for b in borders if b >= inner_first]
        parts += [self._read_border(b, start, stop, attribute) for b in right]
        parts = [part for part in parts if len(part[0])]
        return to_aggregate(parts, kind=kind, n_blocks_read=len(borders))

    def seq_at(self, time: int) -> int:
        """Return the ``seq`` of the first event at or after ``time``; reads at most one block."""
        block = int(np.searchsorted(self.leaves.t_max, time, "left"))
        if block == self.n_blocks:
            return self.n_events
        offset = 0
        if self.leaves.t_min[block] < time:
            offset = int(np.searchsorted(self._block_times(block), time, "left"))
        return int(self.leaves.base[block]) + offset

    def block_at(self, seq: int) -> tuple[int, int]:
        """Return block and offset of a sequence number; O(log n).

        Raises
        ------
        IndexError
            If the stream has no such event.
        """
        if not 0 <= seq < self.n_events:
            raise IndexError(f"the stream has events 0 to {self.n_events - 1}, not {seq}")
        block = int(np.searchsorted(self.leaves.base, seq, "right")) - 1
        return block, seq - int(self.leaves.base[block])

    def read_blocks(self, blocks: npt.NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """Read columns of blocks.

        Parameters
        ----------
        blocks
            Strictly ascending block ordinals.
        columns
            Names; none gives a table of rows without columns.

        Returns
        -------
        pa.Table
            Events in stream order; strings dictionary-encoded, one dictionary per chunk.

        Raises
        ------
        CorruptBlockError
            If a data file is missing or damaged.
        SchemaError
            If there is no such column.
        """
        for column in columns:
            if column not in self._columns:
                raise self._unknown(column)
        if len(blocks) == 0:
            return self._reader.empty(columns)
        tables = [
            self._reader.read(self.files[file].name, row_groups, columns)
            for file, row_groups in self._by_file(blocks)
        ]
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def block_bytes(self, blocks: npt.NDArray[np.int64], columns: Sequence[str]) -> int:
        """Return the compressed bytes that reading columns of blocks takes."""
        return sum(
            int(self._reader.column_bytes(self.files[file].name, column)[row_groups].sum())
            for file, row_groups in self._by_file(blocks)
            for column in columns
        )

    def stored_files(self, columns: Sequence[str]) -> list[Stored]:
        """Return the data files in stream order, for another reader that reads these columns.

        Their footers are verified, and the bytes of these columns unless they were before.

        Raises
        ------
        CorruptBlockError
            If a data file is missing or damaged.
        """
        return [self._reader.to_be_read(file.name, columns) for file in self.files]

    def _by_file(self, blocks: npt.NDArray[np.int64]) -> list[tuple[int, list[int]]]:
        """Group ascending blocks by data file: file position and row groups."""
        ordinals = np.asarray(blocks, np.int64)
        if len(ordinals) == 0:
            return []
        if ordinals[0] < 0 or ordinals[-1] >= self.n_blocks or (np.diff(ordinals) <= 0).any():
            raise ValueError(
                f"blocks must ascend strictly within 0 to {self.n_blocks - 1}: {ordinals}"
            )
        files = self.leaves.file[ordinals]
        row_groups = self.leaves.row_group[ordinals].tolist()
        cuts = [0, *(np.flatnonzero(np.diff(files)) + 1).tolist(), len(ordinals)]
        return [(int(files[a]), row_groups[a:b]) for a, b in itertools.pairwise(cuts)]

    def _kind(self, attribute: str) -> Kind:
        position = self.schema.get_field_index(attribute)
        if position >= 0:
            return kind_of(self.schema.field(position).type)
        derived = self._derived(attribute)
        if attribute == derived.open_name:
            return Kind.OPAQUE
        return kind_of(derived.data_type(self.schema))

    def _derived(self, attribute: str) -> Delta:
        for derived in map(parse_derived, self.settings.derived):
            if derived is not None and attribute in (derived.name, derived.open_name):
                return derived
        raise self._unknown(attribute)

    def _unknown(self, attribute: str) -> SchemaError:
        names = (*self.schema.names, *self.settings.derived)
        what = f"columns: {', '.join(self.schema.names)}"
        if self.settings.derived:
            what += f"; derived: {', '.join(self.settings.derived)}"
        return SchemaError(
            f"stream '{self.name}' has no column '{attribute}' ({what})"
            f"{did_you_mean(attribute, names)}"
        )

    def _load_attribute(self, attribute: str) -> list[list[AttributeSummary]]:
        kind = self._kind(attribute)
        if attribute in self.schema.names:
            return [tree.attribute(attribute, kind) for tree in self._trees]
        derived = self._derived(attribute)
        return [tree.derived(attribute, derived, self.settings.key) for tree in self._trees]

    def _stored_leaves(
        self, tree: FileTree, attribute: str, kind: Kind
    ) -> tuple[AttributeSummary, npt.NDArray[np.bool_]] | None:
        """Return what is stored of one file's blocks, and where that is all there is to know."""
        if not kind.has_extremes:
            return None
        if attribute in self.schema.names:
            leaves = tree.stored_leaves(attribute, kind)
            return None if leaves is None else (leaves, np.ones(len(leaves), np.bool_))
        found = tree.stored_derived(self._derived(attribute))
        return None if found is None else (found[0], found[1] == 0)

    def _to_bounds(self, attribute: str, kind: Kind) -> AttributeBounds:
        minima, maxima, values, known, means, variances = [], [], [], [], [], []
        value_type = {Kind.FLOAT: pa.float64(), Kind.STRING: pa.string()}.get(kind, pa.int64())
        for tree in self._trees:
            found = self._stored_leaves(tree, attribute, kind)
            count = tree.times()[0].count
            if found is None:
                known.append(np.zeros(len(count), np.bool_))
                values.append(count)
                minima.append(pa.nulls(len(count), value_type))
                maxima.append(pa.nulls(len(count), value_type))
                means.append(np.full(len(count), np.nan))
                variances.append(np.full(len(count), np.nan))
            else:
                leaves, is_known = found
                n_values = np.where(is_known, leaves.n_values, 0)
                known.append(is_known)
                values.append(np.where(is_known, n_values, count))
                minima.append(extremes_to_arrow(leaves.minimum, n_values))
                maxima.append(extremes_to_arrow(leaves.maximum, n_values))
                mean, variance = _moments(leaves)
                means.append(np.where(n_values > 0, mean, np.nan))
                variances.append(np.where(n_values > 0, variance, np.nan))
        nothing = pa.array([], value_type)
        return AttributeBounds(
            minimum=pa.concat_arrays(minima) if minima else nothing,
            maximum=pa.concat_arrays(maxima) if maxima else nothing,
            n_values=np.concatenate([np.zeros(0, np.int64), *values]),
            known=np.concatenate([np.zeros(0, np.bool_), *known]),
            mean=np.concatenate([np.zeros(0), *means]),
            variance=np.concatenate([np.zeros(0), *variances]),
        )

    def _inner(self, first: int, last: int, start: int | None, stop: int | None) -> tuple[int, int]:
        """Return the blocks, half-open, that lie wholly in [start, stop)."""
        inner_first, inner_last = first, last
        if first < last and start is not None and self.leaves.t_min[first] < start:
            inner_first += 1
        if inner_first < last and stop is not None and self.leaves.t_max[last - 1] >= stop:
            inner_last -= 1
        return inner_first, inner_last

    def _block_times(self, block: int) -> Ints:
        time = self.settings.time
        return times_of(self.read_blocks(np.array([block]), [time]), time)

    def _read_border(
        self, block: int, start: int | None, stop: int | None, attribute: str | None
    ) -> tuple[TimeSummary, AttributeSummary | None]:
        """Summarise the events of one block that lie in [start, stop)."""
        time = self.settings.time
        columns = [time] if attribute in (None, time) else [time, str(attribute)]
        events = self.read_blocks(np.array([block]), columns)
        times = times_of(events, time)
        low = 0 if start is None else int(np.searchsorted(times, start, "left"))
        high = len(times) if stop is None else int(np.searchsorted(times, stop, "left"))
        if low >= high:
            return TimeSummary.concat([]), None
        summary = None
        if attribute is not None:
            summary = summarise(events.column(attribute).slice(low, high - low), [high - low])
        return summarise_times(times[low:high], [high - low]), summary


def _moments(leaves: AttributeSummary) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    """Return means and variances, which say nothing of blocks without a value; NaN without sums."""
    if not leaves.kind.has_sum:
        return np.nan, np.nan
    with np.errstate(invalid="ignore"):
        return leaves.mean(), leaves.m2 / np.maximum(leaves.n_values, 1)
