"""Summaries by key: for each value of the key column, what a block's events of it add up to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from chronicle.errors import SchemaError, did_you_mean
from chronicle.foreign_text import parse_json
from chronicle.tree.summarise import summarise, to_plain
from chronicle.tree.summary import AttributeSummary, Ints, Kind, all_null, counted, kind_of

KEYS_MAX = 64
"""Most keys of a data file that are summarised each; with more its blocks are read instead.

Each is seven or eight numbers for every block and attribute: 64 keys are some 4 KiB, a quarter of
what 2,048 doubles are."""

Key = str | int | bool | None

_FORM = re.compile(r"by\((.+)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ByKey:
    """``by(x)``: summaries of x for each value of the stream's key column. No attribute."""

    source: str
    """Column that is summarised."""

    @property
    def name(self) -> str:
        """The name it is declared and stored by.

        Its own entries count the events whose keys are too many to be summarised: a block's or
        none.
        """
        return f"by({self.source})"

    def values_of(self, key: Key) -> str:
        """Name of the entries of a key's values; events of other keys count as null in them."""
        return f"{self.name}={_to_text(key)}"

    def key_in(self, name: str) -> tuple[Key] | None:
        """Return the key whose values have entries of this name; None if they are no such."""
        prefix = f"{self.name}="
        if not name.startswith(prefix):
            return None
        try:
            key = parse_json(name.removeprefix(prefix))
        except ValueError:
            return None
        return (key,) if key is None or isinstance(key, str | int) else None

    def check(self, schema: pa.Schema, key: str | None) -> None:
        """Check that a stream can have it."""
        if self.source not in schema.names:
            raise SchemaError(
                f"no column '{self.source}' to summarise as '{self.name}' "
                f"(columns: {', '.join(schema.names)}){did_you_mean(self.source, schema.names)}"
            )
        found = schema.field(self.source).type
        if not kind_of(found).has_extremes:
            raise SchemaError(
                f"'{self.name}' cannot be had: column '{self.source}' is {found}, which has "
                "neither order nor sum"
            )
        if key is None:
            raise SchemaError(
                f"'{self.name}' needs the stream's key column, and it has none; name one when the "
                "stream is made (--key)"
            )
        of_key = schema.field(key).type
        if not (pat.is_string(of_key) or pat.is_integer(of_key) or pat.is_boolean(of_key)):
            raise SchemaError(
                f"'{self.name}' cannot be had: key column '{key}' is {of_key}; keys are texts, "
                "whole numbers or booleans"
            )


def rows_of(key: Key) -> str:
    """Name of the entries that count a key's events, whatever is summarised."""
    return f"by(*)={_to_text(key)}"


def _to_text(key: Key) -> str:
    return json.dumps(key, ensure_ascii=False)


def parse_by_key(text: str) -> ByKey | None:
    """Return what a text such as ``by(x)`` names; None if it names no summaries by key."""
    found = _FORM.fullmatch(text.strip())
    return None if found is None or not found[1].strip() else ByKey(found[1].strip())


@dataclass(frozen=True, slots=True)
class KeySummaries:
    """Summaries of one attribute for each of k keys over n consecutive blocks."""

    keys: tuple[Key, ...]
    """Ascending, null last."""

    rows: Ints
    """Events of each key, shape (k, n)."""

    values: tuple[AttributeSummary, ...]
    """One of n entries for each key; of its own events alone."""

    @classmethod
    def concat(cls, parts: Sequence[KeySummaries], kind: Kind) -> KeySummaries:
        """Return the blocks of all parts in order; a part's missing keys have no event there."""
        keys = _in_order({key for part in parts for key in part.keys})
        rows = np.zeros((len(keys), sum(part.n_blocks for part in parts)), np.int64)
        values: list[list[AttributeSummary]] = [[] for _ in keys]
        first = 0
        for part in parts:
            place = {key: i for i, key in enumerate(part.keys)}
            nothing = all_null(kind, np.zeros(part.n_blocks, np.int64))
            for i, key in enumerate(keys):
                at = place.get(key)
                values[i].append(nothing if at is None else part.values[at])
                if at is not None:
                    rows[i, first : first + part.n_blocks] = part.rows[at]
            first += part.n_blocks
        return cls(keys, rows, tuple(AttributeSummary.concat(found) for found in values))

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(self.rows.shape[1])


def _in_order(keys: Iterable[Key]) -> tuple[Key, ...]:
    # All but null are of one type.
    return tuple(sorted(keys, key=lambda key: (key is None, "" if key is None else key)))


def summarise_by_key(
    events: pa.Table, by_key: ByKey, key: str, block_counts: Sequence[int]
) -> KeySummaries | None:
    """Summarise a column for each key over the blocks of one data file.

    ``events`` are all of the file, with the column and the key column at least. None if the file
    has too many keys.
    """
    codes, keys = _encode(events.column(key))
    if len(keys) > KEYS_MAX:
        return None
    n_blocks = len(block_counts)
    block = np.repeat(np.arange(n_blocks), block_counts)
    rows = np.bincount(codes * n_blocks + block, minlength=len(keys) * n_blocks)
    column = events.column(by_key.source).take(pa.array(np.argsort(codes, kind="stable")))
    groups = np.flatnonzero(rows)
    found = summarise(column, rows[groups].tolist())
    values = tuple(
        _spread(found, groups, slice(i * n_blocks, (i + 1) * n_blocks)) for i in range(len(keys))
    )
    by_place = KeySummaries(keys, rows.reshape(len(keys), n_blocks).astype(np.int64), values)
    return KeySummaries.concat([by_place], found.kind)


def _encode(column: pa.ChunkedArray) -> tuple[Ints, tuple[Key, ...]]:
    """Return the number of each event's key, and the keys by number."""
    encoded = to_plain(column).dictionary_encode(null_encoding="encode")
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, tuple(encoded.dictionary.to_pylist())


def _spread(found: AttributeSummary, groups: Ints, wanted: slice) -> AttributeSummary:
    """Return entries for the places of a slice from those of the groups that have events."""
    n = wanted.stop - wanted.start
    first, last = np.searchsorted(groups, (wanted.start, wanted.stop))
    empty = all_null(found.kind, np.zeros(n, np.int64))
    places = groups[first:last] - wanted.start
    columns = zip(empty.columns(), found.slice(int(first), int(last)).columns(), strict=True)
    return AttributeSummary(found.kind, *(_put(into, part, places) for into, part in columns))


def _put(into: Any, part: Any, places: Ints) -> Any:
    if not len(into):
        return into
    if isinstance(into, np.ndarray):
        filled = into.astype(np.asarray(part).dtype)
        filled[places] = part
        return filled
    index = np.full(len(into), -1)
    index[places] = np.arange(len(places))
    return part.take(pa.array(index, mask=index < 0))


# ---------------------------------------------------------------------------------------------
# As entries of a tree file


def to_entries(
    found: KeySummaries | None, by_key: ByKey, block_counts: Sequence[int]
) -> dict[str, AttributeSummary]:
    """Return summaries by key as entries of a tree file, one per block, by name."""
    count = np.asarray(block_counts, np.int64)
    if found is None:
        return {by_key.name: counted(np.zeros(len(count), np.int64), count)}
    entries = {by_key.name: counted(count, np.zeros(len(count), np.int64))}
    for i, key in enumerate(found.keys):
        entries[rows_of(key)] = counted(found.rows[i], count - found.rows[i])
        values = found.values[i]
        others = count - found.rows[i]
        entries[by_key.values_of(key)] = replace(values, null_count=values.null_count + others)
    return entries


def from_entries(
    rows: Mapping[Key, Ints], values: Mapping[Key, AttributeSummary], count: Ints
) -> KeySummaries:
    """Return what `to_entries` made entries of.

    ``rows`` and ``values`` are, of each key's entries, the numbers of events and the values by
    block; ``count`` the events per block.
    """
    keys = _in_order(values)
    own = tuple(
        replace(values[key], null_count=values[key].null_count - (count - rows[key]))
        for key in keys
    )
    shape = (len(keys), len(count))
    return KeySummaries(keys, np.array([rows[key] for key in keys], np.int64).reshape(shape), own)


def keys_among(names: Iterable[str], by_key: ByKey) -> list[Key]:
    """Return the keys whose values have entries among those of these names."""
    found = (by_key.key_in(name) for name in names)
    return [key for match in found if match is not None for key in match]


def is_too_many(marker: AttributeSummary) -> npt.NDArray[np.bool_]:
    """Tell from the entries named as the summaries themselves where keys were too many."""
    return marker.null_count > 0
