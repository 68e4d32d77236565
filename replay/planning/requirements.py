"""What every answer to a query contains: events in an order, their ranges, gaps between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from indexing.key_range import KeyRanges
from replay.planning.statistics import BoolArray

Details = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows of JSON values by their key."""


@dataclass(frozen=True, slots=True)
class Position:
    """One event that every match must have, and what is known of it."""

    symbol: str
    """Name of the symbol; names of alternatives joined by ``|``."""
    ranges: dict[str, KeyRanges] = field(default_factory=dict)
    """Ranges the event's attributes lie in; attributes not named are not restricted."""
    possible: bool = True
    """False if no event can satisfy the symbol's condition, whatever its attributes."""
    is_all: bool = False
    """Whether every event whose attributes lie in the ranges satisfies the condition."""

    @property
    def is_impossible(self) -> bool:
        """Whether no event can stand here."""
        return not self.possible or any(r.is_empty() for r in self.ranges.values())


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How aggregates over all matches are found, as explain tells it."""

    way: str
    """``summed``: no match is made; ``enumerated``: all are."""
    why: str
    """In words that go on from "matches are made:"; empty where they are summed."""
    grain: str | None = None
    """Where they are summed, what partial matches in one cell have in common: ``type``, the state
    alone, or ``event``, a row that conditions read, too."""
    edges: tuple[tuple[str | None, str, str, str], ...] = ()
    """Of the grain ``event``: symbol of the row before (None: a match begins), symbol, condition,
    and how the cells that satisfy it are found."""
    lanes: str | None = None
    """Where they are summed, by what partial matches are told apart so that some can be left out
    later: ``one`` (none is), ``starts``, ``entries``, ``panes``, ``rows`` or ``windows``."""
    states: int | None = None
    """Where they are summed, the states that a partial match can be in."""


@dataclass(frozen=True, slots=True)
class Network:
    """How far from each other in time the events of positions lie, in the units of times."""

    low: tuple[tuple[int, ...], ...]
    """``low[i][j]`` is the least distance from the event of position i to that of position j."""
    high: tuple[tuple[int, ...], ...]
    """The greatest."""
    before: tuple[int, ...]
    """A match's rows begin at most so long before the event of each position."""
    behind: tuple[int, ...]
    """A match is certain, and its rows end, at most so long after it."""
    lasting: tuple[int, ...]
    """For so long after it an event of each position is followed by others that satisfy it: by no
    row of its partition that does not."""
    silence: int | None = None
    """Rows of a partition further apart do not follow each other; None: they do."""
    is_whole: bool = True
    """Whether all rows of the stream are of one partition."""


@dataclass(frozen=True, slots=True, eq=False)
class AlikeBlocks:
    """Blocks that need not be read, as the operator is told what all of their rows say."""

    mask: BoolArray
    """Which blocks they are, shape (n_blocks,)."""
    says: BoolArray
    """What the rows of each say, shape (n_blocks, n); of other blocks anything."""
    goes_on: BoolArray
    """Whether a block says what the one before does, as if both were one."""


@dataclass(frozen=True)  # without slots, to keep what follows from the fields
class Requirements:
    """What every answer to a query contains, and what a replay of it takes.

    A class of query states them; planning knows of a query nothing else. An answer, called a match
    here, has events that stand in an order (positions), with ``true*`` (a gap) between some.
    """

    positions: tuple[Position, ...]
    gap_before: tuple[bool, ...]
    """For each position whether other rows may stand between it and the one before it; for the
    first position, whether rows that decide over the match may stand before it: its own, or those
    a negation at its start forbids."""
    trailing_gap: bool
    """Whether rows that decide over the match may stand after the last position."""
    rows_min: int
    rows_max: int | None
    """Rows that decide over a match; None: no limit."""
    scattered: bool
    """Whether rows that are not of the match lie between its rows: with PARTITION BY those of
    other partitions, with SKIP TILL any."""
    fill_before: tuple[Position | None, ...]
    """For each position what all rows of the gap before it have in common; None where there is no
    gap or where anything may stand, and for the first position."""
    agreeing: tuple[str, ...] = ()
    """Attributes of which all rows of a match have the same value, or all none."""
    within: int | None = None
    """Largest span of a match in time, in the units of the stream's times; None: no limit."""
    at_start: bool = False
    """Whether every match begins with the stream's first row."""
    at_end: bool = False
    """Whether every match ends with the stream's last row."""
    rows_beside: tuple[int, int] = (0, 0)
    """How many rows before and behind those of a match it may ask for, of ``agreeing``."""
    network: Network | None = None
    """How far in time the events of positions, a basic block each, lie from each other, where they
    stand in no order; None: they do."""
    alike: AlikeBlocks | None = None
    """Blocks that need not be read where less than everything is; None: none."""
    row_before_by: str | None = None
    """The attribute in whose value the row before agrees that a match found may ask for; None: it
    asks for none."""
    time: str | None = None
    """The attribute whose ranges are those of times."""
    times: tuple[KeyRanges, ...] = ()
    """An event of every match that is wanted lies in each of these ranges of time; others may be
    found, or not, as long as a stretch that holds wanted ones is searched whole."""
    symbols: tuple[str, ...] = ()
    """Names that plans may be asked with, also of what an answer need not contain."""
    columns: frozenset[str] = frozenset()
    """Attributes that the operator must see of every row replayed."""
    n_predicates: int = 0
    """Different conditions that it evaluates for each of these."""
    closes_early: bool = False
    """Whether it looks for the next match behind the last one alone."""
    matches_wanted: int | None = None
    """How many matches end a replay; None: all are looked for."""
    of_events: bool = False
    """Whether a match is one event that passes: words speak of events then, and indexes may be
    named without a symbol."""
    aggregation: Aggregation | None = None
    """Of aggregates over all matches of a strategy."""
    details: Details = field(default_factory=dict)
    """What explain tells besides of the query."""
    only_full: str | None = None
    """Why nothing but a full replay can answer, in words; None: it can be pruned."""
    relevant: tuple[Position, ...] = ()
    """Unless ``why_not_relevant`` says otherwise: a row in the ranges of none of these changes no
    answer, wherever it lies."""
    why_not_relevant: str | None = "it is for row patterns with SEMANTICS SKIP TILL alone"
    """Why rows may matter whatever their attributes, in words."""
    why_not_index_only: str | None = "it is for aggregates over matches that need not be made"
    """Why more is read of rows than which of ``relevant`` they are, their times, and their values
    of the stream's key column, in words."""
    of_entries: frozenset[str] = frozenset()
    """Which of time and key plan `index-only` takes from entries."""

    @property
    def leading_gap(self) -> bool:
        """Whether rows that decide over the match may stand before the first position."""
        return self.gap_before[0] if self.positions else self.trailing_gap

    @cached_property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Basic blocks as half-open ranges of positions: maximal runs without a gap inside."""
        borders = [i for i in range(1, len(self.positions)) if self.gap_before[i]]
        return tuple(pairwise((0, *borders, len(self.positions)))) if self.positions else ()

    @cached_property
    def block_at(self) -> dict[int, int]:
        """Basic block of each position."""
        return {p: b for b, (a, z) in enumerate(self.blocks) for p in range(a, z)}

    @property
    def row_window(self) -> int | None:
        """Largest span of a match in rows of the stream, or None if there is no such bound."""
        return None if self.scattered else self.rows_max

    @cached_property
    def is_impossible(self) -> bool:
        """Whether no match can exist, whatever the data."""
        return any(position.is_impossible for position in self.positions)

    @property
    def is_restricted(self) -> bool:
        """Whether any position can be looked for, so that something can be pruned."""
        return self.is_impossible or any(position.ranges for position in self.positions)

    def __str__(self) -> str:
        parts: list[str] = []
        for position, gap in zip(self.positions, self.gap_before, strict=True):
            parts += ["…", position.symbol] if gap else [position.symbol]
        return " ".join([*parts, "…"] if self.trailing_gap else parts)
