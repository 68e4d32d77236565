"""Plans of windows, joins and queries made of several parts, in words and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chronicle.words import number_of
from costmodel.guard import in_words
from costmodel.plan_cost import Estimate
from replay.engines.block_truth import ALL_PASS, MUST_READ, NONE_PASS
from replay.joins.plan import JoinPlan
from replay.language.bound import CumulateWindows, RowWindows, SessionWindows, TimeWindows, Windows
from replay.planning import explain
from replay.planning.named_plans import PREFIX
from replay.planning.plan import Plan
from replay.planning.requirements import Aggregation
from replay.windows.plan import WindowPlan, origin_in_words
from replay.windows.where import BY_KEY

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """What is done with the rows of other plans."""

    operator: str
    """What is done, in a few words: ``window aggregation by replay``."""
    inputs: tuple[AnyPlan, ...]
    """The plans of what it reads; none for tables in memory."""
    chosen: WindowPlan | JoinPlan | None = None
    """How the operator does it, where that was chosen."""
    tree: str = ""
    """The plan of another engine that does it, as that engine tells it."""
    aggregation: Aggregation | None = None
    """Of aggregates over all matches of a strategy."""

    @property
    def name(self) -> str:
        """The plan of the operator, or the names of those that read, each once."""
        if self.chosen is not None:
            return self.chosen.name
        return " + ".join(dict.fromkeys(plan.name for plan in self.inputs)) or "full"

    @property
    def reason(self) -> str:
        """Why, in a sentence for each part."""
        chosen = () if self.chosen is None else (self.chosen,)
        return "; ".join(plan.reason for plan in (*chosen, *self.inputs))


AnyPlan = Plan | WindowPlan | JoinPlan | FlowPlan


def headline(stats: Mapping[str, Any]) -> str:
    """Return in a few words what is read, of a plan as `to_json` gives it: before or after."""
    actual, about = stats["actual"], ""
    if "reason" not in stats:
        return "reads a table in memory"
    if actual is None:
        n_blocks, n_total, about = _blocks_planned(stats)
    else:
        n_blocks, n_total = actual["blocks_read"], actual["blocks_total"]
    if stats.get("inputs") == [] and not n_total:
        return "reads no block itself"  # but DuckDB does
    attributes = {name.partition(".")[2] for name in stats["indexes"]}
    through = f", through {number_of(len(attributes), 'index', 'indexes')}" if attributes else ""
    if n_blocks is None:
        return f"reads what its parts need{through}"
    if n_total is None:
        return f"reads {about}{number_of(round(n_blocks), 'block')}{through}"
    if n_blocks >= n_total and not about:
        return f"reads all {number_of(n_total, 'block')}{through}"
    return f"reads {about}{n_blocks:,.0f} of {number_of(n_total, 'block')}{through}"


def _blocks_planned(stats: Mapping[str, Any]) -> tuple[float | None, int | None, str]:
    """Return how many blocks a plan that was not run reads, of how many, and how sure that is.

    None is unknown.
    """
    if "stretches" in stats:
        taken = [step for step in stats["steps"] if step["taken"]]
        left = [step["left"]["blocks"] for step in taken if step["left"]]
        stretches = stats["stretches"]
        is_known = not stats["indexes"] or bool(taken and taken[-1]["left"])
        least = min([stretches["blocks"], *left])
        return least, stretches["blocks_total"], "" if is_known else "at most "
    sides = stats.get("sides", ()) if stats.get("drives") is None else (None,)
    parts = [*stats.get("inputs", ()), *sides]
    if not parts:
        return stats.get("estimated", {}).get("blocks"), None, "about "
    if None in parts:
        return None, None, ""
    found = [_blocks_planned(part) for part in parts]
    if any(n is None or of is None for n, of, _ in found):
        return None, None, ""
    about = max(about for *_, about in found)
    return sum(n or 0 for n, *_ in found), sum(of or 0 for _, of, _ in found), about


def to_json(plan: AnyPlan, actual: Mapping[str, Any] | None) -> Json:
    """Return a plan as JSON values; ``docs/explain.schema.json`` has the keys, which are stable.

    ``actual`` is what happened to the whole query, null in the result unless it has been run.
    """
    match plan:
        case Plan():
            return explain.to_json(plan, actual)
        case WindowPlan():
            own = _window_json(plan)
        case JoinPlan():
            own = _join_json(plan)
        case FlowPlan():
            own = _flow_json(plan)
    return {**own, "actual": None if actual is None else dict(actual)}


def to_text(plan: AnyPlan, actual: Mapping[str, Any] | None) -> str:
    """Return what is read in a few words, and the plan below it as a tree for a person to read.

    Parameters as in `to_json`; there is no line break at the end.
    """
    lines = [headline(to_json(plan, actual)), *explain.as_tree(_lines(plan, actual))]
    if isinstance(plan, FlowPlan) and plan.tree:
        lines += ["", "DuckDB's plan", *plan.tree.splitlines()]
    return "\n".join(lines)


def _lines(plan: AnyPlan, actual: Mapping[str, Any] | None) -> list[str]:
    match plan:
        case Plan():
            return explain.to_lines(plan, actual)
        case WindowPlan():
            lines = _window_lines(plan)
        case JoinPlan():
            lines = _join_lines(plan)
        case FlowPlan():
            lines = [f"operator  {plan.operator}"]
            lines += explain.aggregation_lines(plan.aggregation)
            if plan.chosen is not None:
                lines += _lines(plan.chosen, None)
            for part in plan.inputs:
                lines.append("input")
                lines += [f"{explain.BELOW}{line}" for line in _lines(part, None)]
    return lines if actual is None else lines + explain.happened(actual)


def _flow_json(plan: FlowPlan) -> Json:
    inputs = [to_json(part, None) for part in plan.inputs]
    own: Json = {} if plan.chosen is None else to_json(plan.chosen, None)
    parts = [own, *inputs] if own else inputs
    if plan.tree:
        own = {**own, "tree": plan.tree}
    return {
        **own,
        **explain.aggregation_json(plan.aggregation),
        "plan": plan.name,
        "indexes": list(dict.fromkeys(name for part in parts for name in part["indexes"])),
        "operator": plan.operator,
        "reason": plan.reason,
        "inputs": inputs,
    }


# ---------------------------------------------------------------------------------------------
# Joins


def _join_json(plan: JoinPlan) -> Json:
    name = plan.name
    return {
        "plan": name,
        "indexes": name.removeprefix(PREFIX).split(",") if name.startswith(PREFIX) else [],
        "operator": "join",
        "reason": plan.reason,
        "drives": plan.drives,
        "prunes": plan.prunes,
        "sides": [None if side is None else explain.to_json(side.plan) for side in plan.sides],
        "estimated": {"cost": plan.cost},
        "rivals": [{"plan": r.name, "estimated": {"cost": r.cost}} for r in plan.rivals],
    }


def _join_lines(plan: JoinPlan) -> list[str]:
    lines = [f"plan      {plan.name}", f"because   {plan.reason}"]
    for what, side in zip(("left", "right"), plan.sides, strict=True):
        lines.append(f"{what:<9} {_side(plan, what, None if side is None else side.plan.name)}")
    if plan.rivals:
        lines.append("rivals, as estimated")
        lines += [f"{explain.BELOW}{rival.name}  {in_words(rival.cost)}" for rival in plan.rivals]
    return lines


def _side(plan: JoinPlan, what: str, own: str | None) -> str:
    """Return how a side is read."""
    if own is None:
        return "its rows as they come"
    if plan.drives == what:
        return f"its events are found first, by plan {own}"
    if plan.drives is not None:
        return "only around the events of the other side"
    return f"by plan {own}" if plan.prunes else "in full"


# ---------------------------------------------------------------------------------------------
# Windows


def _window_json(plan: WindowPlan) -> Json:
    return {
        "plan": plan.name,
        "indexes": [],
        "operator": "window aggregation",
        "reason": plan.reason,
        "windows": {
            "kind": _kind(plan.windows),
            "origin": origin_in_words(plan.windows, in_timestamps=plan.in_timestamps),
            "count": plan.n_windows,
            "break_even_slide": plan.break_even,
        },
        "where": _blocks_by_where(plan),
        "estimated": _estimated(plan.estimated),
        "weights": plan.weights.source,
        "rivals": [{"plan": r.name, "estimated": _estimated(r.estimated)} for r in plan.rivals],
    }


def _window_lines(plan: WindowPlan) -> list[str]:
    count = "" if plan.n_windows is None else f", {plan.n_windows:,} of them"
    origin = origin_in_words(plan.windows, in_timestamps=plan.in_timestamps)
    from_there = "" if origin is None else f", counted from {origin}"
    lines = [
        f"plan      {plan.name}",
        f"because   {plan.reason}",
        f"windows   {_kind(plan.windows)}{count}{from_there}",
    ]
    if plan.break_even is not None:
        unit, per = _unit(plan)
        lines.append(f"break-even at a slide of about {plan.break_even / per:,.3g}{unit}")
    where = _blocks_by_where(plan)
    if where is not None:
        lines.append(
            f"where     all events pass in {where['all_pass']:,} of {plan.n_blocks:,} blocks, "
            f"none in {where['none_pass']:,}, {_of_keys(where)}read are {where['must_read']:,}"
        )
    lines.append(f"weights   {plan.weights.source}")
    lines.append("estimated")
    chosen = (plan.name, plan.estimated)
    for name, estimate in [chosen, *((r.name, r.estimated) for r in plan.rivals)]:
        lines.append(
            f"{explain.BELOW}{name:<10}  {in_words(estimate.cost):>10}  "
            f"{estimate.blocks:>12,.0f} blocks read"
        )
    return lines


def _estimated(estimated: Estimate) -> Json:
    return {
        "cost": estimated.cost,
        "blocks": estimated.blocks,
        "entries": estimated.entries,
        "alpha": estimated.alpha,
        "candidates": estimated.candidates,
    }


def _blocks_by_where(plan: WindowPlan) -> Json | None:
    """Return how many blocks WHERE decides as a whole; None without one that blocks tell of."""
    classes = plan.where.classes
    if classes is None:
        return None
    found = {
        "all_pass": int((classes == ALL_PASS).sum()),
        "none_pass": int((classes == NONE_PASS).sum()),
        "must_read": int((classes == MUST_READ).sum()),
    }
    if plan.where.by_key is not None:
        found["by_key"] = int((classes == BY_KEY).sum())
    return found


def _of_keys(where: Json) -> str:
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


def _unit(plan: WindowPlan) -> tuple[str, float]:
    """Return what a slide is told in, and how many of the time column's units that is."""
    if isinstance(plan.windows, RowWindows):
        return " rows", 1
    return (" seconds", 1e6) if plan.in_timestamps else ("", 1)
