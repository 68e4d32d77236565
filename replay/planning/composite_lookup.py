"""Indexes over several attributes: what each can be asked, and what need not be asked besides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from indexing.composite import composite_ranges
from indexing.key_range import KeyRanges
from replay.planning.plan import Condition, IndexLookup
from replay.planning.statistics import Composites

NO_COMPOSITES: Final[Composites] = MappingProxyType({})


def composed_conditions(
    place: Condition, ranges: Mapping[str, KeyRanges], composites: Composites
) -> tuple[Condition, ...]:
    """Return the conditions at a place that composite indexes can look up, best first.

    Best is what says most attributes; of these, what has fewest columns, then by name. ``place`` is
    any condition there, ``ranges`` are those of single attributes that the events there lie in.
    """
    found = []
    for name, columns in composites.items():
        kinds = [kind for _, kind in columns]
        asked = composite_ranges(kinds, [ranges.get(column) for column, _ in columns])
        if asked is not None:
            keys, n_used = asked
            parts = tuple((column, ranges[column]) for column, _ in columns[:n_used])
            found.append((-n_used, len(columns), name, keys, parts))
    return tuple(
        Condition(place.position, place.symbol, name, keys, place.fills_gap, parts)
        for _, _, name, keys, parts in sorted(found, key=lambda one: one[:3])
    )


def worth_weighing(
    composed: Sequence[Condition], singles: Sequence[Condition]
) -> tuple[Condition, ...]:
    """Return which lookups at one place are worth a thought.

    A composite index (``composed``, best first) decodes no more entries than one over any attribute
    it is asked for, and leaves no more events; so what it says is not asked of others besides.
    """
    chosen: list[Condition] = []
    indexed = {condition.lookup for condition in singles}
    for condition in composed:
        says_more = len(condition.parts) > 1 or condition.parts[0] not in indexed
        if says_more and not any(says_all(other, condition) for other in chosen):
            chosen.append(condition)
    return (*chosen, *(c for c in singles if not is_said(c, chosen)))


def says_all(one: Condition, other: Condition) -> bool:
    """Return whether a condition says all that another one at the same place does."""
    return set(other.parts) <= set(one.parts)


def is_said(condition: Condition, others: Iterable[Condition]) -> bool:
    """Return whether other conditions of a pattern say together what one says."""
    here = (c for c in others if c.place == condition.place and c != condition)
    return {part for c in here for part in c.parts}.issuperset(condition.parts)


def said_once(
    conditions: Iterable[Condition], composed: Collection[Condition]
) -> tuple[Condition, ...]:
    """Return conditions that say of each attribute at each place what is known, and say it once.

    Those of several attributes (``composed``, best first at each place) go before single ones: how
    many events satisfy one is known better than by what its attributes are alone.
    """
    chosen: list[Condition] = []
    said: set[tuple[int, IndexLookup]] = set()
    for condition in (*composed, *conditions):
        own = {(condition.place, part) for part in condition.parts}
        if not own & said:
            chosen.append(condition)
            said |= own
    return tuple(chosen)
