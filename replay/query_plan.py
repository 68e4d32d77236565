"""Plans of every kind in words and as JSON, also of queries made of several parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replay.joins import explain as explain_joins
from replay.joins.plan import JoinPlan
from replay.planning import explain
from replay.planning.plan import Plan
from replay.windows import explain as explain_windows
from replay.windows.plan import WindowPlan

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """What is done with the rows of other plans.

    Attributes
    ----------
    operator
        What is done, in a few words: ``window aggregation by replay``.
    inputs
        The plans of what it reads; none for tables in memory.
    """

    operator: str
    inputs: tuple[AnyPlan, ...]
    chosen: WindowPlan | JoinPlan | None = None
    """How the operator does it, where that was chosen."""

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


def to_json(plan: AnyPlan, actual: Mapping[str, Any] | None) -> Json:
    """Return a plan as JSON values; ``docs/explain.schema.json`` has the keys, which are stable.

    ``actual`` is what happened to the whole query, null in the result unless it has been run.
    """
    match plan:
        case Plan():
            return explain.to_json(plan, actual)
        case WindowPlan():
            return explain_windows.to_json(plan, actual)
        case JoinPlan():
            return explain_joins.to_json(plan, actual)
    inputs = [to_json(part, None) for part in plan.inputs]
    own: Json = {} if plan.chosen is None else to_json(plan.chosen, None)
    parts = [own, *inputs] if own else inputs
    return {
        **own,
        "plan": plan.name,
        "indexes": list(dict.fromkeys(name for part in parts for name in part["indexes"])),
        "operator": plan.operator,
        "reason": plan.reason,
        "inputs": inputs,
        "actual": None if actual is None else dict(actual),
    }


def to_text(plan: AnyPlan, actual: Mapping[str, Any] | None) -> str:
    """Return a plan as lines a person can read, its parts indented; parameters as in `to_json`."""
    match plan:
        case Plan():
            return explain.to_text(plan, actual)
        case WindowPlan():
            return explain_windows.to_text(plan, actual)
        case JoinPlan():
            return explain_joins.to_text(plan, actual)
    lines = [f"operator  {plan.operator}"]
    if plan.chosen is not None:
        lines += to_text(plan.chosen, None).splitlines()
    for part in plan.inputs:
        lines += [f"  {line}" for line in to_text(part, None).splitlines()]
    if actual is not None:
        lines += explain.happened(actual)
    return "\n".join(lines)
