"""The plan of a windowed aggregation in words and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.guard import in_words
from costmodel.plan_cost import Estimate
from replay.language.bound import (
    CumulateWindows,
    RowWindows,
    SessionWindows,
    TimeWindows,
    Windows,
)
from replay.planning import explain
from replay.windows.plan import WindowPlan
from replay.windows.where import ALL_PASS, BY_KEY, MUST_READ, NONE_PASS

Json = dict[str, Any]


def to_json(plan: WindowPlan, actual: Mapping[str, Any] | None = None) -> Json:
    """Return the plan as JSON values; ``docs/explain.schema.json`` has the keys, which are stable.

    ``actual`` is what happened; null in the result unless the query has been run.
    """
    return {
        "plan": plan.name,
        "indexes": [],
        "operator": "window aggregation",
        "reason": plan.reason,
        "windows": {
            "kind": _kind(plan.windows),
            "count": plan.n_windows,
            "break_even_slide": plan.break_even,
        },
        "where": _blocks_by_where(plan),
        "estimated": _estimated(plan.estimated),
        "weights": plan.weights.source,
        "rivals": [{"plan": r.name, "estimated": _estimated(r.estimated)} for r in plan.rivals],
        "actual": None if actual is None else dict(actual),
    }


def to_text(plan: WindowPlan, actual: Mapping[str, Any] | None = None) -> str:
    """Return the plan as lines a person can read, without a line break at the end.

    ``actual`` as in `to_json`; with it, the text says what happened.
    """
    count = "" if plan.n_windows is None else f", {plan.n_windows:,} of them"
    lines = [
        f"plan      {plan.name}",
        f"because   {plan.reason}",
        f"windows   {_kind(plan.windows)}{count}",
    ]
    if plan.break_even is not None:
        unit = _unit(plan.windows, plan.in_timestamps)
        lines.append(f"break-even at a slide of about {_rounded(plan.break_even, unit)}")
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
            f"  {name:<10}  {in_words(estimate.cost):>10}  {estimate.blocks:>12,.0f} blocks read"
        )
    if actual is not None:
        lines += explain.happened(actual)
    return "\n".join(lines)


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


def _unit(windows: Windows, in_timestamps: bool) -> str:
    if isinstance(windows, RowWindows):
        return " rows"
    return " seconds" if in_timestamps else ""


def _rounded(slide: float, unit: str) -> str:
    return f"{slide / 1e6 if unit == ' seconds' else slide:,.3g}{unit}"
