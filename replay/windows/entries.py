"""Entries: what is kept of the events of one pane and key, as long as a window holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.tree.summary import AttributeSummary, Ints, Kind, counted
from replay.errors import NotSupportedError
from replay.expressions.columns import Values, to_arrays, to_arrow
from replay.expressions.types import SCALES
from replay.language.bound import Aggregate, DataType, Expression
from replay.operators.distinct import distinct
from replay.operators.grouping import encode_strings, group_rows, string_ranks
from replay.operators.packing import INT64, State, integers
from replay.operators.place_kernels import order_rows
from replay.windows.keys import KeyTable
from replay.windows.merging import merge_counts, merge_windows, without_squares
from replay.windows.moment_kernels import summarise_floats, summarise_integers
from replay.windows.results import MERGEABLE, SPREADS, is_mergeable, summarised

_ALL_VALID = np.zeros(0, np.bool_)
_NO_NUMBERS = np.zeros(0)

KINDS = {
    DataType.INTEGER: Kind.INTEGER,
    DataType.INTERVAL: Kind.INTEGER,
    **dict.fromkeys(SCALES, Kind.INTEGER),
    DataType.DOUBLE: Kind.FLOAT,
    DataType.STRING: Kind.STRING,
    DataType.BOOLEAN: Kind.ORDINAL,
    DataType.DATE: Kind.ORDINAL,
    DataType.TIMESTAMP: Kind.ORDINAL,
    DataType.TIMESTAMP_UTC: Kind.ORDINAL,
}


class Needs(NamedTuple):
    """What the aggregates ask of one argument."""

    argument: Expression
    kind: Kind | None
    """How it is summarised; None where nothing asks for a summary."""
    squares: bool
    edges: bool
    """Whether its first and last values are asked for."""
    values: bool
    """Whether every value is."""


def needs_of(aggregates: Sequence[Aggregate]) -> tuple[Needs, ...]:
    """Return what is needed of each argument, each once.

    Raises a NotSupportedError for an aggregate that windows do not have yet.
    """
    arguments = dict.fromkeys(map(summarised, aggregates))
    return tuple(_needs(argument, aggregates) for argument in arguments if argument is not None)


def _needs(argument: Expression, aggregates: Sequence[Aggregate]) -> Needs:
    parts = [part for part in aggregates if summarised(part) == argument]
    merged = {part.function for part in parts if is_mergeable(part)}
    kind = None
    if merged:  # that a value is there is all that COUNT asks
        kind = Kind.OPAQUE if merged == {"count"} else KINDS[argument.type]
    edges = values = False
    for part in parts:
        if is_mergeable(part):
            continue
        if part.function in ("first", "last"):
            edges = True
        elif part.function == "percentile" or part.function in MERGEABLE:
            values = True
        else:
            raise NotSupportedError(f"{part.function.upper()} of events is not supported yet")
    return Needs(argument, kind, bool(merged & SPREADS), edges, values)


PACKED_LEAST = 1 << 20
"""Values that are held as they are: equal ones are found in some 0.05 us each."""

_SAMPLED = 1 << 16


class Rows(NamedTuple):
    """The values of the events of each entry."""

    counts: Ints
    """How many each entry has."""
    values: pa.Array
    """Of the entries, one after the other, without NULLs."""
    times: Ints
    """How many events each stands for; of many, equal ones of an entry are held once."""

    @property
    def evaluated(self) -> Values:
        """The values as expressions have them."""
        if pa.types.is_string(self.values.type):
            return Values(self.values, None)
        return to_arrays(pa.chunked_array([self.values]))

    def since(self, first: int) -> Rows:
        """Return the values of the entries from one on."""
        before = int(self.counts[:first].sum())
        return Rows(self.counts[first:], self.values.slice(before), self.times[before:])

    def merged(self, lo: Ints, hi: Ints) -> Rows:
        """Return the values of the entries ``lo[i]`` to ``hi[i]`` as those of one, for every i."""
        rows = self._replace(counts=merge_counts(self.counts, lo, hi))
        return rows if len(self.values) < PACKED_LEAST else rows.packed()

    def packed(self) -> Rows:
        """Return equal values of an entry once, as 0.0 and -0.0 are, where many are equal."""
        entries = np.repeat(np.arange(len(self.counts)), self.counts)
        some = slice(None, None, 1 + len(entries) // _SAMPLED)
        of_some = Values(entries[some], None), self._replace(values=self.values[some]).evaluated
        n_some = len(entries[some])
        if 2 * group_rows([*of_some], n_some).n_groups > n_some:
            return self
        of_value = group_rows([self.evaluated], len(entries))
        which = entries * of_value.n_groups + of_value.of_row
        which, of_row = np.unique(which, return_inverse=True)
        entry, value = np.divmod(which, of_value.n_groups)
        return Rows(
            np.bincount(entry, minlength=len(self.counts)),
            self.values.take(pa.array(of_value.first_rows[value])),
            np.bincount(of_row, weights=self.times).astype(np.int64),
        )

    def take(self, entries: Ints) -> Rows:
        """Return the values of entries."""
        ends = np.cumsum(self.counts)
        counts = self.counts[entries]
        total = int(counts.sum())
        shift = (ends - self.counts)[entries] - (np.cumsum(counts) - counts)
        rows = np.arange(total, dtype=np.int64) + np.repeat(shift, counts)
        return Rows(counts, self.values.take(pa.array(rows)), self.times[rows])


class Kept(NamedTuple):
    """What is kept of one argument, entry by entry; None where `Needs` does not ask for it."""

    summary: AttributeSummary | None
    first: pa.Array | None
    last: pa.Array | None
    rows: Rows | None

    def state(self) -> State:
        """Return it as it is packed."""
        summary, rows = self.summary, self.rows
        return {
            "summary": None if summary is None else [summary.kind.name, summary.columns()],
            "first": self.first,
            "last": self.last,
            "rows": None if rows is None else [rows.counts, rows.values, rows.times],
        }

    @classmethod
    def from_state(cls, state: State, n: int) -> Kept:
        """Return what `state` was asked of, for so many entries."""
        summary = rows = None
        columns = [column for column in (state["first"], state["last"]) if column is not None]
        if state["summary"] is not None:
            kind, summaries = state["summary"]
            summary = AttributeSummary(Kind[kind], *summaries)
            columns += [column for column in summaries if len(column)]  # empty: not asked for
        if any(len(column) != n for column in columns):
            raise ValueError("the state has more or fewer summaries than entries")
        if state["rows"] is not None:
            counts, values, times = state["rows"]
            times = integers(times, (len(values),), 1, INT64.max)
            rows = Rows(integers(counts, (n,), 0, len(values)), values, times)
            if sum(counts.tolist()) != len(values):
                raise ValueError("the state has other values than it says")
        return cls(summary, state["first"], state["last"], rows)


@dataclass(frozen=True, slots=True)
class WindowEntries:
    """Entries in the order in which they were met; every array has their number of elements."""

    key: Ints
    """Number of the key."""
    position: Ints
    """Of the first event: its time, or the number of its row or session."""
    counts: Ints
    """Events; at least one."""
    kept: tuple[Kept, ...]
    """By argument, as in ``needs_of``."""

    def __len__(self) -> int:
        return len(self.key)

    @property
    def weight(self) -> int:
        """Entries and values held."""
        return len(self) + sum(len(part.rows.values) for part in self.kept if part.rows is not None)

    def since(self, first: int) -> WindowEntries:
        """Return the entries from one on; views."""
        kept = tuple(
            Kept(
                None if part.summary is None else part.summary.slice(first, len(self)),
                None if part.first is None else part.first.slice(first),
                None if part.last is None else part.last.slice(first),
                None if part.rows is None else part.rows.since(first),
            )
            for part in self.kept
        )
        return WindowEntries(self.key[first:], self.position[first:], self.counts[first:], kept)

    def take(self, chosen: Ints) -> WindowEntries:
        """Return chosen entries in a new order."""
        kept = tuple(
            Kept(
                None if part.summary is None else part.summary.take(chosen),
                None if part.first is None else part.first.take(pa.array(chosen)),
                None if part.last is None else part.last.take(pa.array(chosen)),
                None if part.rows is None else part.rows.take(chosen),
            )
            for part in self.kept
        )
        return WindowEntries(self.key[chosen], self.position[chosen], self.counts[chosen], kept)

    def merged(self, begins: Ints) -> WindowEntries:
        """Return the entries ``begins[i]`` to ``begins[i + 1]`` as one, for every i.

        ``begins`` ascends strictly from 0 to the number of entries.
        """
        lo, hi = begins[:-1], begins[1:]
        kept = tuple(
            Kept(
                None
                if part.summary is None
                else merge_windows(part.summary, lo, hi, squares=len(part.summary.m2) > 0),
                None if part.first is None else part.first.take(pa.array(lo)),
                None if part.last is None else part.last.take(pa.array(hi - 1)),
                None if part.rows is None else part.rows.merged(lo, hi),
            )
            for part in self.kept
        )
        return WindowEntries(
            self.key[lo], self.position[lo], merge_counts(self.counts, lo, hi), kept
        )

    def state(self) -> State:
        """Return them as they are packed."""
        return {
            "key": self.key,
            "position": self.position,
            "counts": self.counts,
            "kept": [part.state() for part in self.kept],
        }

    @classmethod
    def from_state(cls, state: State) -> WindowEntries:
        """Return what `state` was asked of."""
        n = len(state["key"])
        key = integers(state["key"], (n,), 0, INT64.max)
        position = integers(state["position"], (n,), INT64.min, INT64.max)
        counts = integers(state["counts"], (n,), 1, INT64.max)
        return cls(key, position, counts, tuple(Kept.from_state(k, n) for k in state["kept"]))

    @classmethod
    def concat(cls, parts: Sequence[WindowEntries]) -> WindowEntries:
        """Return the entries of all parts, at least one."""
        if len(parts) == 1:
            return parts[0]
        key, position, counts = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("key", "position", "counts")
        )
        kept = tuple(_concat(column) for column in zip(*(p.kept for p in parts), strict=True))
        return cls(key, position, counts, kept)


def _concat(parts: Sequence[Kept]) -> Kept:
    firsts = [part.first for part in parts if part.first is not None]
    lasts = [part.last for part in parts if part.last is not None]
    summaries = [part.summary for part in parts if part.summary is not None]
    rows = [part.rows for part in parts if part.rows is not None]
    return Kept(
        AttributeSummary.concat(summaries) if summaries else None,
        pa.concat_arrays(firsts) if firsts else None,
        pa.concat_arrays(lasts) if lasts else None,
        Rows(
            np.concatenate([part.counts for part in rows]),
            pa.concat_arrays([part.values for part in rows]),
            np.concatenate([part.times for part in rows]),
        )
        if rows
        else None,
    )


def keep(needs: Needs, values: Values, begins: Ints) -> Kept:
    """Return what is kept of an argument.

    Rows of an entry stand together. ``begins`` holds the first row of each entry and, last, the
    number of rows; int64[n_entries + 1].
    """
    data, valid = values
    data = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    summary = first = last = rows = None
    if needs.kind is not None:
        summary = summarise_rows(Values(data, valid), needs.kind, begins, squares=needs.squares)
    if needs.edges or needs.values:
        column = to_arrow(Values(data, valid), needs.argument.type)
        if needs.edges:
            first, last = column.take(pa.array(begins[:-1])), column.take(pa.array(begins[1:] - 1))
        if needs.values:
            rows = _known(column, begins)
    return Kept(summary, first, last, rows)


def _known(column: pa.Array, begins: Ints) -> Rows:
    """Return the values that are not NULL."""
    counts = np.diff(begins)
    if column.null_count:
        known = column.is_valid().to_numpy(zero_copy_only=False)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(known)])
        counts, column = np.diff(before[begins]), column.drop_null()
    return Rows(counts, column, np.ones(len(column), np.int64))


def summarise_rows(values: Values, kind: Kind, begins: Ints, *, squares: bool) -> AttributeSummary:
    """Summarise rows entry by entry.

    ``values`` and ``begins`` as in `keep`. OPAQUE counts those that are not NULL, NaN among them;
    without ``squares`` there are no second moments.
    """
    data, valid = values
    counts = np.diff(begins)
    none = np.zeros(len(counts), np.int64)
    if kind is Kind.OPAQUE:
        nulls = _nulls(values, begins)
        return counted(counts - nulls, nulls)
    known = _ALL_VALID if valid is None else np.ascontiguousarray(valid)
    if kind is Kind.FLOAT:
        with np.errstate(over="ignore", invalid="ignore"):  # infinite values, in plain Python
            tallies, numbers = summarise_floats(
                np.ascontiguousarray(data), known, begins, squares or None
            )
        found = AttributeSummary(kind, *(*tallies, *numbers))
        return found if squares else without_squares(found)
    if kind is Kind.STRING:
        return _summarise_strings(data, begins)
    plain = np.ascontiguousarray(data, np.int64)
    tallies, whole, spread = summarise_integers(plain, known, begins, squares or None)
    sums = (_NO_NUMBERS,) * 4 if kind is Kind.ORDINAL else (whole[2], whole[3], *spread)
    found = AttributeSummary(kind, *(*tallies, none, whole[0], whole[1], *sums))
    return found if squares else without_squares(found)


def _nulls(values: Values, begins: Ints) -> Ints:
    """Return the NULLs of each entry."""
    data, valid = values
    if isinstance(data, pa.Array):
        valid = data.is_valid().to_numpy(zero_copy_only=False) if data.null_count else None
    if valid is None:
        return np.zeros(len(begins) - 1, np.int64)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(~valid)])
    return np.diff(before[begins])


def _summarise_strings(data: pa.Array, begins: Ints) -> AttributeSummary:
    """Return counts and extremes of texts, found by their places in the order of all of them."""
    codes, dictionary = encode_strings(data)
    ranks = string_ranks(dictionary)
    by_rank = dictionary.take(pa.array(np.argsort(ranks)))
    known = codes < len(dictionary)
    tallies, whole, _ = summarise_integers(np.append(ranks, 0)[codes], known, begins, None)
    missing = tallies[0] == 0
    least, most = (
        by_rank.take(pa.array(np.where(missing, 0, side), mask=missing)) for side in whole[:2]
    )
    none = np.zeros(len(missing), np.int64)
    n_values, nulls = tallies
    sums = (_NO_NUMBERS,) * 4
    return AttributeSummary(Kind.STRING, n_values, nulls, none, least, most, *sums)


COMPACTED_LEAST = 1 << 12
"""Entries that are held as they come."""


def runs_of(entries: WindowEntries) -> Ints:
    """Return where entries of another key or position begin, and their number at the end."""
    n = len(entries)
    differ = np.ones(n, np.bool_)
    differ[1:] = (np.diff(entries.key) != 0) | (np.diff(entries.position) != 0)
    return np.append(np.flatnonzero(differ), n)


class EntryStore:
    """Entries in the order of their keys, then as they were added."""

    def __init__(self, none: WindowEntries) -> None:
        self._parts = [none]
        self.weight = 0
        """Entries and values held."""
        self.added = 0
        """Entries and values added since entries were last kept or sorted."""
        self._is_sorted = True

    def add(self, entries: WindowEntries) -> None:
        """Add entries that come after those of the same key held."""
        if len(entries):
            self._parts.append(entries)
            self.weight += entries.weight
            self.added += entries.weight
            self._is_sorted = False

    def sorted(self, ranks: Ints) -> WindowEntries:
        """Return all entries by the rank of their key."""
        entries = WindowEntries.concat(self._parts)
        if not self._is_sorted and len(ranks) > 1:
            entries = entries.take(order_rows(ranks[entries.key], len(ranks))[0])
        self._replace(entries)
        return entries

    def keep(self, which: npt.NDArray[np.bool_]) -> None:
        """Drop the other ones of the entries sorted last."""
        if which.all():
            return
        entries = self._parts[0]
        first = int(np.argmax(which)) if which.any() else len(which)
        if which[first:].all():  # as it is without keys: nothing has to be copied
            self._replace(entries.since(first))
        else:
            self._replace(entries.take(np.flatnonzero(which)))

    def compact(self, keys: KeyTable) -> None:
        """Merge entries of one key and position, once they are twice as many as were left.

        Keys are put in order only then: that takes time in all of them.
        """
        if self.added <= max(self.weight - self.added, COMPACTED_LEAST):
            return
        entries = self.sorted(keys.ranks())
        self._replace(entries.merged(runs_of(entries)))

    def keys(self) -> Ints:
        """Return the numbers of the keys that entries have, ascending."""
        return distinct(*(part.key for part in self._parts))

    def renumber(self, numbers: Ints) -> None:
        """Give the keys other numbers in the same order."""
        self._parts = [replace(part, key=numbers[part.key]) for part in self._parts]

    def state(self) -> State:
        """Return the entries and how they came."""
        entries = WindowEntries.concat(self._parts)
        return {
            "entries": entries.state(),
            "added": self.added,
            "is_sorted": self._is_sorted,
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._replace(WindowEntries.from_state(state["entries"]))
        self.added, self._is_sorted = state["added"], state["is_sorted"]

    def _replace(self, entries: WindowEntries) -> None:
        self._parts = [entries]
        self.weight = entries.weight
        self.added = 0
        self._is_sorted = True
