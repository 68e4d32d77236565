"""A join's plan in words and as JSON: how each side is read, and which other ways were weighed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.guard import in_words
from replay.joins.plan import JoinPlan
from replay.planning import explain
from replay.planning.named_plans import PREFIX

Json = dict[str, Any]


def to_json(plan: JoinPlan, actual: Mapping[str, Any] | None = None) -> Json:
    """Return the plan as JSON values; ``docs/explain.schema.json`` has the keys, which are stable.

    ``actual`` is what happened; null in the result unless the query has been run.
    """
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
        "actual": None if actual is None else dict(actual),
    }


def to_text(plan: JoinPlan, actual: Mapping[str, Any] | None = None) -> str:
    """Return the plan as lines a person can read, without a line break at the end.

    ``actual`` as in `to_json`; with it, the text says what happened.
    """
    lines = [f"plan      {plan.name}", f"because   {plan.reason}"]
    for what, side in zip(("left", "right"), plan.sides, strict=True):
        lines.append(f"{what:<9} {_side(plan, what, None if side is None else side.plan.name)}")
    if plan.rivals:
        lines.append("rivals, as estimated")
        lines += [f"  {rival.name}  {in_words(rival.cost)}" for rival in plan.rivals]
    if actual is not None:
        lines += explain.happened(actual)
    return "\n".join(lines)


def _side(plan: JoinPlan, what: str, own: str | None) -> str:
    """Return how a side is read."""
    if own is None:
        return "its rows as they come"
    if plan.drives == what:
        return f"its events are found first, by plan {own}"
    if plan.drives is not None:
        return "only around the events of the other side"
    return f"by plan {own}" if plan.prunes else "in full"
