"""Choosing how a join reads its sides: in full, by their conditions, or around events of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from chronicle.schema import SEPARATOR, composite_parts
from costmodel.guard import in_words
from indexing.composite import Composite, parse_composite
from replay.errors import PlanError
from replay.filters.requirements import requirements
from replay.joins.spans import Reaches, blocks_within, spans_around, stretches_within
from replay.language.bound import Expression, JoinKind, JoinRelation, Relation, StreamRelation
from replay.language.join_conditions import JoinConditions, JoinNames
from replay.planning import explain
from replay.planning.block_ranges import count_blocks, mask_of
from replay.planning.named_plans import PREFIX, check_request
from replay.planning.plan import Plan, PlanKind
from replay.planning.planner import choose_plan
from replay.planning.statistics import StreamStatistics

WORTH: Final = 0.8
"""A plan that leaves anything out must be expected to take at most this share of reading all."""

BLOCKS_BACK: Final = 8.0
"""Blocks that are expected to be looked at on the way from an event to the nearest one of its key,
twice; where it leads further, it is given up in time."""


@dataclass(frozen=True, slots=True)
class SidePlan:
    """How the events of one side are found by what is asked of that side alone."""

    stream: str
    condition: Expression | None
    """Over the side's own names; None: any event may matter."""
    plan: Plan


@dataclass(frozen=True, slots=True)
class JoinRival:
    """A way to read a join that was weighed."""

    name: str
    cost: float
    """Seconds, by the cost model."""


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """How a join reads its sides."""

    left: SidePlan | None
    """None: no stream of a store, which is read in full."""
    right: SidePlan | None
    drives: str | None
    """``left`` or ``right``: the side whose events are found first; of both sides only the blocks
    around them are read. None: each side is read by itself."""
    prunes: bool
    """Whether blocks of a side are left out where its own condition tells that none matters."""
    reason: str
    rivals: tuple[JoinRival, ...] = ()
    cost: float = 0.0
    """Seconds, by the cost model; 0 where nothing was weighed."""
    is_adaptive: bool = True
    """Whether the plan may be left for one that turns out to be cheaper on the way."""

    @property
    def sides(self) -> tuple[SidePlan | None, SidePlan | None]:
        """Left and right."""
        return self.left, self.right

    @property
    def name(self) -> str:
        """The plan as ``--plan`` takes it: ``full``, ``tree`` or ``indexes=a.x``."""
        asked = [side.plan for side in self._asked if side.plan.kind is not PlanKind.FULL]
        indexes = [condition.name for plan in asked for condition in plan.conditions]
        if indexes:
            return PREFIX + ",".join(dict.fromkeys(indexes))
        return str((PlanKind.TREE if asked else PlanKind.FULL).value)

    @property
    def _asked(self) -> Iterator[SidePlan]:
        """Sides whose own plan is carried out."""
        for what, side in zip(("left", "right"), self.sides, strict=True):
            if side is not None and (self.drives == what or (self.prunes and not self.drives)):
                yield side

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values; ``docs/explain.schema.json`` has the keys."""
        name = self.name
        return {
            "plan": name,
            "indexes": name.removeprefix(PREFIX).split(",") if name.startswith(PREFIX) else [],
            "operator": "join",
            "reason": self.reason,
            "drives": self.drives,
            "prunes": self.prunes,
            "sides": [None if side is None else explain.to_json(side.plan) for side in self.sides],
            "estimated": {"cost": self.cost},
            "rivals": [{"plan": r.name, "estimated": {"cost": r.cost}} for r in self.rivals],
        }

    def to_lines(self) -> list[str]:
        """Return the plan as lines for a person."""
        lines = [f"plan      {self.name}", f"because   {self.reason}"]
        for what, side in zip(("left", "right"), self.sides, strict=True):
            lines.append(f"{what:<9} {self._side(what, side)}")
        if self.rivals:
            lines.append("rivals, as estimated")
            lines += [f"{explain.BELOW}{r.name}  {in_words(r.cost)}" for r in self.rivals]
        return lines

    def _side(self, what: str, side: SidePlan | None) -> str:
        """Return how a side is read."""
        if side is None:
            return "its rows as they come"
        if self.drives == what:
            return f"its events are found first, by plan {side.plan.name}"
        if self.drives is not None:
            return "only around the events of the other side"
        return f"by plan {side.plan.name}" if self.prunes else "in full"


def choose_join_plan(
    join: JoinRelation,
    conditions: JoinConditions,
    statistics: tuple[StreamStatistics | None, StreamStatistics | None],
    *,
    requested: str = "auto",
) -> JoinPlan:
    """Choose how a join reads its sides. Pure but for what it asks of ``statistics``.

    ``statistics`` are those of each side's snapshot, None for a side that is no stream of a store.
    ``requested`` is ``auto``, ``full``, ``tree``, ``all``, or ``indexes=x,…`` with columns of the
    join of one side, which then drives. Raises a PlanError for a named plan that cannot answer the
    join; ``auto`` and ``full`` always can.
    """
    check_request(requested)
    wanted = _requests(join, requested)
    left, right = (
        _side_plan(relation, time, condition, known, request)
        for relation, time, condition, known, request in zip(
            (join.left, join.right),
            (join.left_time, join.right_time),
            (conditions.left_rows, conditions.right_partners),
            statistics,
            wanted,
            strict=True,
        )
    )
    if requested == "full":
        return JoinPlan(left, right, None, False, "every event is read: it was asked for")
    ways = list(ways_to_read(join, (left, right), statistics))
    named = [way for way in ways if way.drives or way.prunes]
    if requested != "auto":
        if not named:
            raise PlanError(
                f"plan '{requested}' cannot apply: {_why_full(left, right, statistics)}; "
                "use plan 'full' or 'auto'"
            )
        best = min(named, key=lambda way: way.cost)
        rivals = _rivals(ways, best)
        return replace(best, reason="it was asked for", rivals=rivals, is_adaptive=False)
    full = ways[0]
    best = min(ways, key=lambda way: way.cost)
    if best is not full and best.cost > WORTH * full.cost:
        best = full
    if best is full:
        why = _why_full(left, right, statistics)
        if named:
            why = f"leaving out blocks saves too little of {in_words(full.cost)}"
        return replace(full, reason=f"every event is read: {why}", rivals=_rivals(ways, full))
    reason = f"{best.reason} takes {in_words(best.cost)}, all events {in_words(full.cost)}"
    return replace(best, reason=reason, rivals=_rivals(ways, best))


def _requests(join: JoinRelation, requested: str) -> tuple[str, str]:
    """Return what is requested of each side."""
    if not requested.startswith(PREFIX):
        return requested, requested
    names = JoinNames.of(join)
    asked: tuple[list[str], list[str]] = ([], [])
    for item in (item.strip() for item in requested.removeprefix(PREFIX).split(",")):
        own = [_own_name(of, item) for of in (names.left, names.right)]
        sides = [place for place, name in enumerate(own) if name is not None]
        if not sides:
            known = ", ".join((*names.left, *names.right))
            raise PlanError(f"plan '{requested}': the join has no column '{item}' (it has {known})")
        relation = (join.left, join.right)[sides[0]]
        asked[sides[0]].append(f"{_stream(relation)}.{own[sides[0]]}")
    if all(asked):
        raise PlanError(f"plan '{requested}' names columns of both sides; one side drives a join")
    left, right = (PREFIX + ",".join(items) if items else "full" for items in asked)
    return left, right


def _own_name(names: Mapping[str, str], item: str) -> str | None:
    """Return a side's own name of a column of the join, or of several joined by ``+``.

    What names the side may stand before the first of several alone: ``l.a+b`` is ``l.a+l.b``.
    """
    if item in names:
        return names[item]
    first, *others = composite_parts(names, item) or (item,)
    if first not in names:
        return None
    side = first.removesuffix(names[first])
    parts = [first, *(part if part in names else side + part for part in others)]
    composite = parse_composite(names, SEPARATOR.join(parts))
    if composite is None:
        return None
    return Composite(tuple(names[part] for part in composite.parts)).name


def _stream(relation: Relation) -> str:
    return relation.name if isinstance(relation, StreamRelation) else ""


def _side_plan(
    relation: Relation,
    time: str,
    condition: Expression | None,
    statistics: StreamStatistics | None,
    requested: str,
) -> SidePlan | None:
    if statistics is None:
        return None
    stream = _stream(relation)
    required = requirements(stream, time, condition)
    try:
        plan = choose_plan(required, statistics, requested=requested)
    except PlanError:
        if requested.startswith(PREFIX):
            raise
        plan = choose_plan(required, statistics, requested="full")
    return SidePlan(stream, condition, plan)


Sides = tuple[SidePlan | None, SidePlan | None]


def ways_to_read(
    join: JoinRelation,
    sides: Sides,
    statistics: tuple[StreamStatistics | None, StreamStatistics | None],
) -> Iterator[JoinPlan]:
    """Yield the ways to read a join with their costs, reading all of it first.

    A side is None where it is no stream of a store.
    """
    full = [_full_cost(side, known) for side, known in zip(sides, statistics, strict=True)]
    yield JoinPlan(*sides, None, False, "", cost=sum(full))
    finds = [side is not None and side.plan.kind is not PlanKind.FULL for side in sides]
    if any(finds) and not Reaches.of(join, left_drives=True).count_rows:
        found = [_found_cost(side, known) for side, known in zip(sides, statistics, strict=True)]
        yield JoinPlan(
            *sides, None, True, "reading what each side's conditions leave", cost=sum(found)
        )
    for place, what in enumerate(("left", "right")):
        if not finds[place] or not can_drive(join, what):
            continue
        mine, yours = statistics[place], statistics[1 - place]
        side, other = sides[place], sides[1 - place]
        if mine is None or yours is None or side is None or other is None:
            continue
        reaches = Reaches.of(join, left_drives=place == 0)
        blocks = _estimate_covered(side.plan, reaches, mine, yours)
        again = min(full[place], _found_cost(side, mine) - side.plan.estimated.index_cost)
        if seeks_partner(join, other.condition):
            blocks = min(blocks * BLOCKS_BACK, float(yours.n_blocks))
        around = full[1 - place] * blocks / max(yours.n_blocks, 1)
        cost = side.plan.estimated.cost + again + around
        reason = f"finding the events of '{side.stream}' and reading around them"
        yield JoinPlan(*sides, what, not reaches.count_rows, reason, cost=cost)


def _full_cost(side: SidePlan | None, statistics: StreamStatistics | None) -> float:
    """Return the seconds to read and join all events of a side."""
    if side is None or statistics is None:
        return 0.0
    estimated = side.plan.full_estimate or side.plan.estimated
    return estimated.cost + statistics.parameters.join_s * statistics.n_events


def _found_cost(side: SidePlan | None, statistics: StreamStatistics | None) -> float:
    """Return the seconds to find, read and join the events that its plan leaves."""
    if side is None or statistics is None or side.plan.kind is PlanKind.FULL:
        return _full_cost(side, statistics)
    estimated = side.plan.estimated
    return estimated.cost + statistics.parameters.join_s * estimated.alpha * statistics.n_events


def can_drive(join: JoinRelation, side: str) -> bool:
    """Tell whether what a side's events need is found from them.

    The right of LEFT and ASOF joins decides over no row of the answer by itself.
    """
    return join.kind is JoinKind.INNER or side == "left"


def seeks_partner(join: JoinRelation, of_right: Expression | None) -> bool:
    """Tell whether the partner of an event may be anywhere on one side of it.

    It is the nearest event of its key, among those of the right that fulfil ``of_right``; without
    both, the block next to an event has it.
    """
    is_asof = join.kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT)
    is_some = bool(join.equal) or of_right is not None
    return is_asof and join.right_window is None and is_some


def _estimate_covered(
    plan: Plan, reaches: Reaches, mine: StreamStatistics, yours: StreamStatistics
) -> float:
    """Estimate how many blocks of the other side lie around the events that a plan finds."""
    if len(plan.stretches) == 0 or yours.n_blocks == 0:
        return 0.0
    leaves = mine.leaves
    blocks = np.flatnonzero(mask_of(plan.stretches, mine.n_blocks))
    first, last = leaves.t_min[blocks], leaves.t_max[blocks]
    spans = spans_around(first, last, reaches, leaves, yours.leaves)
    most = float(count_blocks(stretches_within(spans, yours.leaves, None)))
    if plan.kind is not PlanKind.INDEXES:
        return most
    # A candidate that lies in the middle of each block stands for those that are there.
    middle = first + (last - first) // 2
    each = blocks_within(spans_around(middle, middle, reaches, leaves, yours.leaves), yours.leaves)
    mean = float((each[:, 1] - each[:, 0]).sum()) / max(len(each), 1)
    covered = plan.estimated.candidates * max(mean, 1.0)
    return min(most, covered)


def _why_full(
    left: SidePlan | None,
    right: SidePlan | None,
    statistics: tuple[StreamStatistics | None, StreamStatistics | None],
) -> str:
    if all(known is None for known in statistics):
        return "neither side is a stream of a store"
    sides = [side for side in (left, right) if side is not None]
    if all(side.condition is None for side in sides):
        return "neither WHERE nor ON asks anything of one side alone that leaves out its events"
    if all(side.plan.kind is PlanKind.FULL for side in sides):
        return "the conditions on one side alone bound no attribute, or leave nearly all of it"
    return "the partners of the events found may be anywhere"


def _rivals(ways: list[JoinPlan], chosen: JoinPlan) -> tuple[JoinRival, ...]:
    others = sorted((way for way in ways if way is not chosen), key=lambda way: way.cost)
    names = [f"{way.name}, {way.drives} drives" if way.drives else way.name for way in others]
    return tuple(JoinRival(name, way.cost) for name, way in zip(names, others, strict=True))
