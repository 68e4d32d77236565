"""Summaries of derived attributes: of the values a file tells, and how many events are open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from chronicle.tree.by_key import summarise_by_key, to_entries
from chronicle.tree.derived_attributes import Declared, Delta, extend, parse_declared, split_open
from chronicle.tree.summarise import summarise
from chronicle.tree.summary import AttributeSummary, counted


def summarise_derived(
    events: pa.Table, derived: Delta, key: str | None, block_counts: Sequence[int]
) -> dict[str, AttributeSummary]:
    """Summarise a derived attribute over the blocks of one data file.

    ``events`` are all of the file, with the columns it is computed from, or its own. Under the
    attribute's name stand summaries of the values the file tells, in which open events count as
    null; under its ``open_name`` how many are open, as their number of nulls.
    """
    column = extend(events, [derived.name], key).column(derived.name)
    values, is_open = split_open(column)
    counts = np.asarray(block_counts, np.int64)
    n_before = np.concatenate(([0], np.cumsum(is_open, dtype=np.int64)))
    ends = np.cumsum(counts)
    n_open = n_before[ends] - n_before[ends - counts]
    opened = counted(counts - n_open, n_open)
    return {derived.name: summarise(values, block_counts), derived.open_name: opened}


def summarise_declared(
    events: pa.Table, declared: Declared, key: str | None, block_counts: Sequence[int]
) -> dict[str, AttributeSummary]:
    """Return by name the entries that tree files have of what a stream declares.

    ``events`` are all of the file, with the columns it is computed from at least.
    """
    if isinstance(declared, Delta):
        return summarise_derived(events, declared, key, block_counts)
    assert key is not None, "checked when they were declared"
    found = summarise_by_key(events, declared, key, block_counts)
    return to_entries(found, declared, block_counts)


def summarise_all(
    events: pa.Table, derived: Iterable[str], key: str | None, block_counts: Sequence[int]
) -> dict[str, AttributeSummary]:
    """Summarise the columns and the derived attributes of one data file.

    ``events`` are all of the file; columns of ``derived`` may be there already.
    """
    names = tuple(derived)
    found = {
        name: summarise(events.column(name), block_counts)
        for name in events.column_names
        if name not in names
    }
    for name in names:
        found |= summarise_declared(events, parse_declared(name), key, block_counts)
    return found
