"""The plan of a windowed aggregation: from the tree or by replay, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from chronicle.errors import did_you_mean
from costmodel.guard import in_words
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from costmodel.plan_cost import Estimate
from costmodel.windows import (
    WindowFeatures,
    estimate_naive,
    estimate_replay,
    estimate_tree,
)
from replay.engines.block_truth import ALL_PASS, MUST_READ, NONE_PASS, BlockClasses
from replay.errors import PlanError
from replay.language.bound import (
    CumulateWindows,
    Expression,
    RowWindows,
    SessionWindows,
    TimeWindows,
    Windows,
)
from replay.planning.explain import BELOW, estimate_to_json
from replay.planning.statistics import BoolArray, IntArray
from replay.windows.calendar_units import local_starts
from replay.windows.where import BY_KEY, KeyClasses


class Way(StrEnum):
    """How a windowed aggregation is answered."""

    REPLAY = "replay"
    """Every event is looked at once (thesis 3.3, "online")."""
    TREE_NAIVE = "tree-naive"
    """One query of the tree per window (thesis 3.3.1, "naive")."""
    TREE = "tree"
    """One query of the tree per slice between borders of windows; slices are merged (thesis
    3.3.1, "optimized", and 3.3.3)."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A way that was weighed, with its estimate."""

    name: str
    estimated: Estimate


@dataclass(frozen=True, slots=True, eq=False)
class BlockWhere:
    """What WHERE leaves, as far as blocks tell."""

    start: int | None = None
    """Events before this time do not pass; None: no bound."""
    stop: int | None = None
    """Nor do events at or after this time; not before ``start``."""
    condition: Expression | None = None
    """What events in this range must satisfy besides; None: nothing."""
    classes: BlockClasses | None = None
    """Whether all events of a block satisfy ``condition``, or none; None without one."""
    by_key: KeyClasses | None = None
    """The same of each key's events, where keys are summarised; ``classes`` follows from it."""

    def clip(self, times: IntArray) -> IntArray:
        """Return times moved into the range."""
        if self.start is None and self.stop is None:
            return times
        return np.clip(times, self.start, self.stop)


@dataclass(frozen=True, slots=True, eq=False)
class WindowPlan:
    """How a windowed aggregation is carried out."""

    way: Way
    estimated: Estimate
    rivals: tuple[Rival, ...]
    """The other ways weighed, cheapest first."""
    reason: str
    """One sentence on why this way."""
    where: BlockWhere
    n_blocks: int
    """Blocks of the stream."""
    windows: Windows
    n_windows: int | None = None
    """Windows of the answer, of each key; None where only events tell."""
    break_even: float | None = None
    """Slide from which on the tree is expected to win: microseconds, or the unit of an integer
    time column, or rows; None where no slide makes it win, or nothing slides."""
    in_timestamps: bool = False
    """Whether time is in microseconds."""
    weights: CostParameters = DEFAULT_PARAMETERS

    @property
    def name(self) -> str:
        """The plan as ``--plan`` takes it."""
        return self.way.value

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values; ``docs/explain.schema.json`` has the keys."""
        return {
            "plan": self.name,
            "indexes": [],
            "operator": "window aggregation",
            "reason": self.reason,
            "windows": {
                "kind": _kind(self.windows),
                "origin": origin_in_words(self.windows, in_timestamps=self.in_timestamps),
                "count": self.n_windows,
                "break_even_slide": self.break_even,
            },
            "where": self._blocks_by_where(),
            "estimated": estimate_to_json(self.estimated),
            "weights": self.weights.source,
            "rivals": [
                {"plan": r.name, "estimated": estimate_to_json(r.estimated)} for r in self.rivals
            ],
        }

    def to_lines(self) -> list[str]:
        """Return the plan as lines for a person."""
        count = "" if self.n_windows is None else f", {self.n_windows:,} of them"
        origin = origin_in_words(self.windows, in_timestamps=self.in_timestamps)
        from_there = "" if origin is None else f", counted from {origin}"
        lines = [
            f"plan      {self.name}",
            f"because   {self.reason}",
            f"windows   {_kind(self.windows)}{count}{from_there}",
        ]
        if self.break_even is not None:
            unit, per = self._unit
            lines.append(f"break-even at a slide of about {self.break_even / per:,.3g}{unit}")
        where = self._blocks_by_where()
        if where is not None:
            lines.append(
                f"where     all events pass in {where['all_pass']:,} of {self.n_blocks:,} blocks, "
                f"none in {where['none_pass']:,}, {_of_keys(where)}read are {where['must_read']:,}"
            )
        lines.append(f"weights   {self.weights.source}")
        lines.append("estimated")
        chosen = (self.name, self.estimated)
        for name, estimate in [chosen, *((r.name, r.estimated) for r in self.rivals)]:
            lines.append(
                f"{BELOW}{name:<10}  {in_words(estimate.cost):>10}  "
                f"{estimate.blocks:>12,.0f} blocks read"
            )
        return lines

    @property
    def _unit(self) -> tuple[str, float]:
        """What a slide is told in, and how many of the time column's units that is."""
        if isinstance(self.windows, RowWindows):
            return " rows", 1
        return (" seconds", 1e6) if self.in_timestamps else ("", 1)

    def _blocks_by_where(self) -> dict[str, int] | None:
        """Return how many blocks WHERE decides as a whole; None without one that blocks tell of."""
        classes = self.where.classes
        if classes is None:
            return None
        found = {
            "all_pass": int((classes == ALL_PASS).sum()),
            "none_pass": int((classes == NONE_PASS).sum()),
            "must_read": int((classes == MUST_READ).sum()),
        }
        if self.where.by_key is not None:
            found["by_key"] = int((classes == BY_KEY).sum())
        return found


def _of_keys(where: dict[str, int]) -> str:
    return f"those of some keys in {where['by_key']:,}, " if where.get("by_key") else ""


def _kind(windows: Windows) -> str:
    match windows:
        case TimeWindows(size, slide):
            return "TUMBLE" if size == slide else "HOP"
        case RowWindows(size, slide):
            return "TUMBLE_ROWS" if size == slide else "HOP_ROWS"
        case CumulateWindows():
            return "CUMULATE"
        case SessionWindows():
            return "SESSION"
    return "all events"


def may_pass(where: BlockWhere, t_min: IntArray, t_max: IntArray) -> BoolArray:
    """Return the blocks that may hold an event WHERE lets pass.

    ``t_min`` and ``t_max`` are the least and greatest time of each block, shape (n_blocks,).
    """
    passes = np.ones(len(t_min), np.bool_)
    if where.start is not None:
        passes &= t_max >= where.start
    if where.stop is not None:
        passes &= t_min < where.stop
    if where.classes is not None:
        passes &= where.classes != NONE_PASS
    return passes


KINDS: Final = ("auto", "replay", "full", "tree", "tree-naive")
"""Names of plans; ``full`` is what ``replay`` is called elsewhere."""


def choose_way(
    features: WindowFeatures,
    requested: str,
    why_not_tree: str | None,
    parameters: CostParameters,
) -> tuple[Way, str]:
    """Return the way to go and why, in one sentence.

    ``requested`` is one of `KINDS`; ``why_not_tree`` says why the tree cannot answer the query,
    None if it can. Raises a PlanError for an unknown plan and for one that cannot answer the query.
    """
    if requested not in KINDS:
        hint = did_you_mean(requested, KINDS)
        raise PlanError(f"no plan '{requested}'{hint} (for windows there are: {', '.join(KINDS)})")
    if requested in ("replay", "full"):
        return Way.REPLAY, "it was asked for"
    if why_not_tree is not None:
        if requested != "auto":
            raise PlanError(
                f"plan '{requested}' cannot apply: {why_not_tree}; use plan 'replay' or 'auto'"
            )
        return Way.REPLAY, why_not_tree
    if requested != "auto":
        return Way(requested), "it was asked for"
    tree = estimate_tree(features, parameters).cost
    replayed = estimate_replay(features, parameters).cost
    shown = f"{in_words(tree)} by the tree and {in_words(replayed)} by a replay"
    # Asking for every window anew is never cheaper than making every slice once (thesis 3.3.1).
    return (Way.TREE if tree < replayed else Way.REPLAY), f"estimated at {shown}"


def estimate_ways(
    features: WindowFeatures, parameters: CostParameters, *, by_tree: bool
) -> dict[Way, Estimate]:
    """Return the estimate of every way that can answer, cheapest first."""
    found = {Way.REPLAY: estimate_replay(features, parameters)}
    if by_tree:
        found[Way.TREE] = estimate_tree(features, parameters)
        found[Way.TREE_NAIVE] = estimate_naive(features, parameters)
    return dict(sorted(found.items(), key=lambda one: one[1].cost))


def rivals_of(way: Way, estimates: dict[Way, Estimate]) -> tuple[Rival, ...]:
    """Return the ways not taken."""
    return tuple(Rival(w.value, estimate) for w, estimate in estimates.items() if w is not way)


def origin_in_words(windows: Windows, *, in_timestamps: bool) -> str | None:
    """Return where windows of time are counted from; None for windows of other kinds.

    Examples
    --------
    >>> origin_in_words(TimeWindows(7, 7, 0), in_timestamps=True)
    '1970-01-01 00:00:00'
    """
    if not isinstance(windows, TimeWindows | CumulateWindows):
        return None
    origin, calendar = windows.origin, windows.calendar
    if origin is None:
        return "the first event"
    if not in_timestamps:
        return str(origin)
    zone = None
    if calendar is not None:
        origin, zone = int(local_starts(calendar, np.array([origin]))[0]), calendar.zone
    shown = str(np.datetime64(origin, "us"))[:-7].replace("T", " ")
    return shown if zone is None else f"{shown} in {zone}"
