"""Plans of all kinds, and of queries made of several parts, in words and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from chronicle.foreign_text import split_lines
from chronicle.words import number_of
from replay.planning import explain
from replay.planning.plan import Plan
from replay.planning.requirements import Aggregation

Json = dict[str, Any]


class OwnPlan(Protocol):
    """The plan of an operator that is chosen in its own room, which tells it."""

    @property
    def name(self) -> str:
        """The plan as ``--plan`` takes it."""
        ...

    @property
    def reason(self) -> str:
        """Why this one, in a sentence."""
        ...

    def to_json(self) -> Json:
        """Return it as JSON values."""
        ...

    def to_lines(self) -> list[str]:
        """Return it as lines for a person."""
        ...


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """What is done with the rows of other plans."""

    operator: str
    """What is done, in a few words: ``window aggregation by replay``."""
    inputs: tuple[AnyPlan, ...]
    """The plans of what it reads; none for tables in memory."""
    chosen: OwnPlan | None = None
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


AnyPlan = Plan | FlowPlan | OwnPlan


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
        case FlowPlan():
            own = _flow_json(plan)
        case _:
            own = plan.to_json()
    return {**own, "actual": None if actual is None else dict(actual)}


def to_text(plan: AnyPlan, actual: Mapping[str, Any] | None) -> str:
    """Return what is read in a few words, and the plan below it as a tree for a person to read.

    Parameters as in `to_json`; there is no line break at the end.
    """
    lines = [headline(to_json(plan, actual)), *explain.as_tree(_lines(plan, actual))]
    if isinstance(plan, FlowPlan) and plan.tree:
        lines += ["", "DuckDB's plan", *split_lines(plan.tree)]
    return "\n".join(lines)


def _lines(plan: AnyPlan, actual: Mapping[str, Any] | None) -> list[str]:
    match plan:
        case Plan():
            return explain.to_lines(plan, actual)
        case FlowPlan():
            lines = [f"operator  {plan.operator}"]
            lines += explain.aggregation_lines(plan.aggregation)
            if plan.chosen is not None:
                lines += _lines(plan.chosen, None)
            for part in plan.inputs:
                lines.append("input")
                lines += [f"{explain.BELOW}{line}" for line in _lines(part, None)]
        case _:
            lines = plan.to_lines()
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
