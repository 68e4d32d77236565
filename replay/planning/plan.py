"""The plan: which blocks may be left out, which indexes are asked, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from costmodel.features import PlanFeatures
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from costmodel.plan_cost import Estimate
from indexing.key_range import KeyRanges
from replay.planning.shape import PatternShape
from replay.planning.statistics import BoolArray, IntArray


class PlanKind(Enum):
    """How a query is answered."""

    FULL = "full"
    """All blocks are replayed."""
    TREE = "tree"
    """The blocks the coarse pattern map leaves are replayed."""
    INDEXES = "indexes"
    """Of these, the blocks in which index results form candidates are replayed."""


Slot = tuple[int, str]
"""Where in the pattern the result of a lookup belongs: a place and an attribute."""


Lookup = tuple[str, KeyRanges]
"""What an index is asked: its attribute, and ranges of it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Ranges of one attribute to be looked up in its index: a (symbol position, attribute)."""

    position: int
    """Index into ``PatternShape.positions``."""
    symbol: str
    attribute: str
    ranges: KeyRanges
    fills_gap: bool = False
    """Whether it bounds not the event at the position but all rows of the gap before it
    (``PatternShape.fill_before``)."""
    together: tuple[Lookup, ...] = ()
    """Of a composite index, the ranges of its columns that ``ranges`` admits the keys of; none of
    an index over a single attribute."""

    @property
    def place(self) -> int:
        """The position, or for the gap before it its complement ``~position``, below zero."""
        return ~self.position if self.fills_gap else self.position

    @property
    def order(self) -> tuple[int, bool]:
        """Sorts conditions as they stand in the pattern."""
        return self.position, not self.fills_gap

    @property
    def slot(self) -> Slot:
        """Key of the condition's occurrences."""
        return self.place, self.attribute

    @property
    def name(self) -> str:
        """The condition as ``--plan`` takes it."""
        return f"{self.symbol}.{self.attribute}"

    @property
    def lookup(self) -> Lookup:
        """What is read; conditions that agree in it are read and charged once."""
        return self.attribute, self.ranges

    @property
    def parts(self) -> tuple[Lookup, ...]:
        """What it says of single attributes: ranges of each that hold together."""
        return self.together or (self.lookup,)

    def __str__(self) -> str:
        if not self.together:
            return str(self.ranges)
        return "; ".join(f"{attribute} {ranges}" for attribute, ranges in self.together)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Events an index lookup found: ``seq`` and time, int64 of one length, ascending, unique."""

    seq: IntArray
    t: IntArray
    keys: IntArray | None = None
    """Number of each event's value of the stream's key column, from 0: equal exactly where the
    values are, nulls included, in all occurrences of one plan. None where keys were not asked."""

    def take(self, chosen: IntArray | BoolArray | slice) -> Occurrences:
        """Return the occurrences at some positions."""
        keys = None if self.keys is None else self.keys[chosen]
        return Occurrences(self.seq[chosen], self.t[chosen], keys)


@dataclass(frozen=True, slots=True)
class Selectivity:
    """What planning knew of how many events satisfy a condition."""

    condition: Condition
    fraction: float
    """Of all events, from 0 to 1."""
    source: str
    """Where the number comes from, in words."""
    indexed: bool
    is_said: bool = False
    """Whether a composite index says it, and more, so that it is not asked by itself."""
    at_most: float = 1.0
    """What the fraction cannot exceed, as index fences prove."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A plan that was weighed, with its estimate."""

    name: str
    estimated: Estimate


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The part of the stream that lookups are asked in, where the rest is read through.

    Every match lies wholly within one of ``through``, or wholly within one of ``asked``.
    """

    asked: IntArray
    """Blocks that lookups are asked in, half-open ranges of ordinals, shape (n, 2)."""
    through: IntArray
    """Blocks that are read whatever is found, shape (m, 2). At their rims lookups are asked in some
    as well: a match may reach from one part into the other."""
    times: tuple[tuple[int, int], ...]
    """Least and greatest time of each range read through."""
    n_events: int
    """Events of the blocks asked in."""
    expected: Mapping[Lookup, float]
    """How many of these each lookup is expected to find."""
    features: PlanFeatures
    """What the cost model is told of the part asked in."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What an engine carries out."""

    kind: PlanKind
    conditions: tuple[Condition, ...]
    """Index lookups, by position; none unless ``kind`` is INDEXES."""
    shape: PatternShape
    stretches: IntArray
    """Blocks that may be replayed, shape (n, 2), half-open ordinals: the whole stream for FULL,
    else what the coarse pattern map leaves. None at all: no match can exist, nothing is read."""
    estimated: Estimate
    rivals: tuple[Rival, ...]
    """The other plans weighed, cheapest first."""
    reason: str
    """One sentence on why this plan."""
    selectivities: tuple[Selectivity, ...] = ()
    """What is known of each restricted position, by position."""
    n_blocks: int = 0
    """Blocks of the stream."""
    full_estimate: Estimate | None = None
    """The estimate of a full replay, as good as known; None where nothing was weighed."""
    weights: CostParameters = DEFAULT_PARAMETERS
    """Weights of the cost model, and where they come from."""
    strategy: str | None = None
    """How sets of conditions were searched for ``auto``; None where none were."""
    features: PlanFeatures | None = None
    """What the cost model was told; None where nothing was weighed."""
    sampled: str | None = None
    """What a sample of the events says of the estimate, in one sentence; None without a sample."""
    level: int = 0
    """Level of the tree the coarse pattern map began at; 0 are the blocks."""

    part: Part | None = None
    """Where lookups are asked, if only in a part of ``stretches``."""

    @property
    def asked(self) -> IntArray:
        """Blocks that lookups are asked in, shape (n, 2)."""
        return self.stretches if self.part is None else self.part.asked

    @property
    def name(self) -> str:
        """The plan as ``--plan`` takes it: ``full``, ``tree`` or ``indexes=A.price,C.x``."""
        return plan_name(self.kind, self.conditions)

    @property
    def finds_nothing(self) -> bool:
        """Whether it is known without reading an event that there is no match."""
        return self.kind is not PlanKind.FULL and len(self.stretches) == 0


def plan_name(kind: PlanKind, conditions: tuple[Condition, ...]) -> str:
    """Return the name under which a plan can be asked for."""
    if kind is not PlanKind.INDEXES:
        return str(kind.value)
    return "indexes=" + ",".join(dict.fromkeys(condition.name for condition in conditions))
