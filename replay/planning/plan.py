"""The plan: which blocks may be left out, which indexes are asked, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from costmodel.features import PlanFeatures
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from costmodel.plan_cost import Estimate
from indexing.key_range import KeyRanges
from replay.planning.block_ranges import no_blocks
from replay.planning.requirements import Requirements
from replay.planning.statistics import BoolArray, IntArray


class PlanKind(Enum):
    """How a query is answered."""

    FULL = "full"
    """All blocks are replayed."""
    TREE = "tree"
    """The blocks the coarse pattern map leaves are replayed."""
    INDEXES = "indexes"
    """Of these, the blocks in which index results form candidates are replayed."""
    RELEVANT = "relevant"
    """The blocks that may hold a row of some symbol are replayed, as if no others were there."""
    INDEX_ONLY = "index-only"
    """The rows of each symbol are what lookups find; no block is read."""


Slot = tuple[int, str]
"""Where in the pattern the result of a lookup belongs: a place and an attribute."""


IndexLookup = tuple[str, KeyRanges]
"""What an index is asked: its attribute, and ranges of it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Ranges of one attribute to be looked up in its index: a (symbol position, attribute)."""

    position: int
    """Index into ``Requirements.positions``; of plans `relevant` and `index-only` into
    ``Requirements.relevant``."""
    symbol: str
    attribute: str
    ranges: KeyRanges
    fills_gap: bool = False
    """Whether it bounds not the event at the position but all rows of the gap before it
    (``Requirements.fill_before``)."""
    together: tuple[IndexLookup, ...] = ()
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
    def lookup(self) -> IndexLookup:
        """What is read; conditions that agree in it are read and charged once."""
        return self.attribute, self.ranges

    @property
    def parts(self) -> tuple[IndexLookup, ...]:
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


@dataclass(frozen=True, slots=True, eq=False)
class LookupOption:
    """A lookup that may be asked, with what is known of it before."""

    lookup: IndexLookup
    conditions: tuple[Condition, ...]
    """What it answers."""
    least: int
    most: int
    """Entries in its ranges inside what the tree leaves, at least and at most, by fences."""
    expected: float
    """Events expected among them."""
    is_uneven: bool
    """Whether the tree's summaries show that its events do not lie everywhere, about as many in
    each block: else no look at them is expected to surprise."""

    @property
    def name(self) -> str:
        """The conditions as ``--plan`` takes them."""
        return ",".join(dict.fromkeys(condition.name for condition in self.conditions))

    @property
    def fills_gap(self) -> bool:
        """Whether it bounds rows of gaps alone, which leaves nothing out by itself."""
        return all(condition.fills_gap for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class Left:
    """What is left to be replayed."""

    blocks: int
    events: int
    intervals: int


@dataclass(frozen=True, slots=True)
class Step:
    """A lookup carried out or refused."""

    lookup: str
    """Its conditions as ``--plan`` takes them."""
    counted: tuple[int, int]
    """Entries inside what the tree leaves, at least and at most, by fences."""
    estimated_left: float | None
    """Seconds to replay what it was expected to leave; None where nothing was estimated."""
    left: Left | None
    """What was left behind it; None where intervals were not computed then."""
    taken: bool
    why: str
    """One sentence."""
    seconds: float = 0.0
    """What it took, with the intervals."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What an engine carries out."""

    kind: PlanKind
    conditions: tuple[Condition, ...]
    """Index lookups, by position; of a plan that takes steps those that are expected to be worth
    it, and once it was carried out those that were."""
    required: Requirements
    stretches: IntArray
    """Blocks that matches can lie in, shape (n, 2), half-open ordinals: what the coarse pattern map
    leaves; the whole stream of a full replay asked for; of plans `relevant` and
    `index-only` those that may hold a row of some symbol. None at all: no match can exist."""
    estimated: Estimate
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
    features: PlanFeatures | None = None
    """What the cost model was told; None where nothing was weighed."""
    level: int = 0
    """Level of the tree the coarse pattern map began at; 0 are the blocks."""
    takes_steps: bool = False
    """Whether lookups are chosen from ``options`` while the plan is carried out."""
    options: tuple[LookupOption, ...] = ()
    """Lookups that steps choose from."""
    matches_wanted: int | None = None
    """How many matches end a replay; None: all are looked for."""
    wanted_share: float = 1.0
    """Share of a replay that is expected to find these."""
    steps: tuple[Step, ...] = ()
    """Lookups taken and refused, once the plan was carried out."""
    rival: Plan | None = None
    """Plan `relevant` or `index-only`, held against what lookups of this one really leave."""
    not_asked: IntArray = field(default_factory=no_blocks)
    """Of plan `relevant`, the blocks that may hold a row of symbols no lookup is asked for."""

    @property
    def name(self) -> str:
        """The plan as ``--plan`` takes it: ``full``, ``tree`` or ``indexes=A.price,C.x``."""
        return plan_name(self.kind, self.conditions)

    @property
    def is_of_symbols(self) -> bool:
        """Whether rows are looked for that any symbol can map, not those that every match has."""
        return self.kind in (PlanKind.RELEVANT, PlanKind.INDEX_ONLY)

    @property
    def finds_nothing(self) -> bool:
        """Whether it is known without reading an event that there is no match."""
        return self.kind is not PlanKind.FULL and len(self.stretches) == 0


def plan_name(kind: PlanKind, conditions: tuple[Condition, ...]) -> str:
    """Return the name under which a plan can be asked for."""
    if kind is not PlanKind.INDEXES:
        return str(kind.value)
    return "indexes=" + ",".join(dict.fromkeys(condition.name for condition in conditions))
