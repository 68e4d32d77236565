"""Summaries by the stream's key: which there are, and from when to when each key has events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronicle import Snapshot
from chronicle.time import to_int64
from chronicle.tree.by_key import KeySummaries, parse_by_key
from chronicle.tree.summarise import to_plain
from chronicle.tree.summary import AttributeBounds, Ints
from chronicle.tree.tree_file import extremes_to_arrow
from replay.engines.block_truth import NONE_PASS, classify_blocks
from replay.expressions.columns import Columns
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.language.bound import Attribute, Expression, RowWindows, WindowAggregation, attributes
from replay.windows.plan import BlockWhere, may_pass
from replay.windows.tree.stats import TreeStats
from replay.windows.tree.terms import Needed
from replay.windows.where import KeyClasses, of_all_keys

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """What is stored of each key of a stream."""

    column: str
    """The key column."""
    keys: pa.Array
    """Its values, of the column's type; ascending, null last."""
    rows: Ints
    """Events of each key in each block, shape (n_keys, n_blocks); 0 where none of them passes a
    WHERE, see `that_may`."""
    summaries: Mapping[str, KeySummaries]
    """Of each column that is aggregated."""

    def __len__(self) -> int:
        return len(self.keys)

    def that_may(self, by_key: KeyClasses | None) -> KeyGroups:
        """Return the keys without their events in blocks where WHERE lets none of them pass."""
        if by_key is None:
            return self
        return replace(self, rows=np.where(by_key == NONE_PASS, 0, self.rows))

    def numbers(self, table: pa.Table) -> Ints:
        """Return the position in ``keys`` of each row's key."""
        numbers = pc.index_in(to_plain(table.column(self.column)), value_set=self.keys)
        return np.asarray(numbers.to_numpy(zero_copy_only=False), np.int64)


def why_no_groups(
    what: WindowAggregation, needed: Sequence[Needed], snapshot: Snapshot
) -> str | None:
    """Return why stored summaries do not tell the keys of an aggregation apart, or None."""
    key = snapshot.settings.key
    if key is None:
        return "GROUP BY has keys, and the stream has no key column to keep summaries by"
    one = what.keys[0] if len(what.keys) == 1 else None
    if not isinstance(one, Attribute) or one.name != key or one.offset:
        return f"GROUP BY has keys besides the stream's key column '{key}', or others"
    if isinstance(what.windows, RowWindows):
        return "windows of rows by key begin and end where events do, which only the events tell"
    for name in _by_key_names(needed, snapshot):
        if snapshot.by_key(name) is None:
            return (
                f"there are no summaries of '{name}' by key; declare 'by({name})' as a derived "
                "attribute of the stream (more than 64 keys of a data file are not summarised)"
            )
    if not _by_key_names(needed, snapshot):
        return "there are no summaries by key; declare one as a derived attribute of the stream"
    return None


def groups_of(needed: Sequence[Needed], snapshot: Snapshot) -> KeyGroups:
    """Return what is stored of the keys; `why_no_groups` finds no fault with it."""
    found: dict[str, KeySummaries] = {}
    for name in _by_key_names(needed, snapshot):
        summaries = snapshot.by_key(name)
        assert summaries is not None, f"no summaries of {name} by key"
        found[name] = summaries
    key = snapshot.settings.key
    assert key is not None
    first = next(iter(found.values()))
    keys = pa.array(list(first.keys), snapshot.schema.field(key).type)
    return KeyGroups(key, keys, first.rows, found)


def where_by_key(
    where: BlockWhere, conditions: tuple[Expression, ...], groups: KeyGroups, snapshot: Snapshot
) -> BlockWhere:
    """Return what WHERE says of blocks, told by the extremes of each key's own values.

    A block may hold values of all sizes while those of each key lie wholly inside a range or
    wholly outside.

    ``conditions`` are those of which events must satisfy all, besides the range of time.
    """
    if not conditions:
        return where
    by_key = np.empty(groups.rows.shape, np.int8)
    for place, rows in enumerate(groups.rows):
        classes = classify_blocks(conditions, rows, partial(_bounds_of, snapshot, groups, place))
        assert classes is not None, "there are conditions"
        by_key[place] = classes
    return replace(where, classes=of_all_keys(by_key, groups.rows), by_key=by_key)


def _bounds_of(snapshot: Snapshot, groups: KeyGroups, place: int, name: str) -> AttributeBounds:
    """Return least and greatest value of a column among one key's events, block by block."""
    rows, of_all = groups.rows[place], snapshot.bounds(name)
    by_key = snapshot.by_key(name) if name != groups.column else None
    if by_key is not None and by_key.values[place].kind.has_extremes:
        own = by_key.values[place]
        return replace(
            of_all,
            minimum=extremes_to_arrow(own.minimum, own.n_values),
            maximum=extremes_to_arrow(own.maximum, own.n_values),
            n_values=own.n_values,
            known=np.ones(len(rows), np.bool_),
        )
    if name == groups.column:
        key, known = groups.keys[place].as_py(), np.ones(len(rows), np.bool_)
        if key is None:
            return replace(of_all, n_values=np.zeros_like(rows), known=known)
        only = pa.repeat(int(key) if isinstance(key, bool) else key, len(rows))
        return replace(of_all, minimum=only, maximum=only, n_values=rows, known=known)
    # What no value of the block does, none of the key does. Where some event of the block lacks a
    # value, it may be one of the key's: any number but that of its events says so.
    has_all = of_all.n_values == snapshot.leaves.count
    some = np.where(of_all.n_values > 0, rows + 1, 0)
    return replace(of_all, n_values=np.where(has_all, rows, some))


def _by_key_names(needed: Sequence[Needed], snapshot: Snapshot) -> list[str]:
    """Return the columns whose summaries by key are asked for; any one where none is aggregated."""
    if needed:
        return [column.name for column in needed]
    declared = (parse_by_key(name) for name in snapshot.settings.derived)
    return [by_key.source for by_key in declared if by_key is not None][:1]


def n_blocks_of_ends(groups: KeyGroups, may: npt.NDArray[np.bool_]) -> int:
    """Return how many blocks are read for `key_spans`, if WHERE passes an event in each it may.

    ``may`` tells the blocks with events that WHERE may let pass, shape (n_blocks,).
    """
    holds = (groups.rows > 0) & may
    holds = holds[holds.any(axis=1)]
    if not len(holds):
        return 0
    ends = (holds.argmax(axis=1), holds[:, ::-1].argmax(axis=1))
    return sum(len(np.unique(places)) for places in ends)


def key_spans(
    snapshot: Snapshot, where: BlockWhere, groups: KeyGroups, work: TreeStats
) -> list[Span | None]:
    """Return the times of each key's first and last event that WHERE lets pass; None without one.

    Reads the blocks at both ends in which a key may have such an event, until all are found.
    """
    leaves = snapshot.leaves
    may = (groups.rows > 0) & may_pass(where, leaves.t_min, leaves.t_max)

    def passing(block: int) -> tuple[Ints, Ints]:
        """Return times and keys of the events of a block that pass WHERE."""
        time = snapshot.settings.time
        names = dict.fromkeys((time, groups.column, *_names(where.condition)))
        blocks = np.array([block])
        table = snapshot.read_blocks(blocks, list(names))
        work.read(blocks, table.num_rows, tuple(names))
        times = np.asarray(to_int64(table.column(time), name=time).to_numpy(), np.int64)
        passes = np.ones(len(times), np.bool_)
        if where.start is not None:
            passes &= times >= where.start
        if where.stop is not None:
            passes &= times < where.stop
        if where.condition is not None:
            passes &= truths(where.condition, Columns(table), Faults())
        return times[passes], groups.numbers(table)[passes]

    firsts = _ends(may, passing, backward=False)
    found = np.array([first is not None for first in firsts], np.bool_)
    lasts = _ends(may & found[:, None], passing, backward=True)
    return [
        None if first is None or last is None else (first, last)
        for first, last in zip(firsts, lasts, strict=True)
    ]


def _ends(
    may: npt.NDArray[np.bool_], passing: Callable[[int], tuple[Ints, Ints]], *, backward: bool
) -> list[int | None]:
    """Return the time of each key's first event, or last, in the first block that has any."""
    found: list[int | None] = [None] * len(may)
    candidates = [np.flatnonzero(row)[:: -1 if backward else 1].tolist() for row in may]
    places = [0] * len(may)
    missing = [key for key, blocks in enumerate(candidates) if blocks]
    nearest = max if backward else min
    while missing:
        block = nearest(candidates[key][places[key]] for key in missing)
        times, numbers = passing(block)
        left = []
        for key in missing:
            if candidates[key][places[key]] == block:
                own = times[numbers == key]
                if len(own):
                    found[key] = int(own[-1 if backward else 0])
                    continue
                places[key] += 1
            if places[key] < len(candidates[key]):
                left.append(key)
        missing = left
    return found


def _names(condition: Expression | None) -> list[str]:
    return sorted(attribute.name for attribute in attributes(condition))
