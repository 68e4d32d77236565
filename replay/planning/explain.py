"""A plan in words and as JSON: what is expected, what happened, which plans lost and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from costmodel.plan_cost import Estimate
from replay.planning.block_ranges import count_blocks
from replay.planning.plan import Plan, PlanKind, Selectivity

Json = dict[str, Any]


def to_json(plan: Plan, actual: Mapping[str, Any] | None = None) -> Json:
    """Return the plan as JSON values; the keys of ``docs/planning.md`` are stable.

    Parameters
    ----------
    plan
        The plan.
    actual
        What happened, with the stable keys ``blocks_read, blocks_total, bytes_read, entries_read,
        rows_replayed, rows_total, candidates, intervals, alpha, seconds{plan, index, read, match,
        total}``; null in the result unless the query has been run.
    """
    return {
        "plan": plan.name,
        "indexes": _indexes(plan),
        "reason": plan.reason,
        "pattern": str(plan.shape),
        "positions": _positions(plan),
        "stretches": {
            "count": len(plan.stretches),
            "blocks": count_blocks(plan.stretches),
            "blocks_total": plan.n_blocks,
        },
        "estimated": _estimated(plan.estimated),
        "actual": None if actual is None else dict(actual),
        "rivals": [{"plan": r.name, "estimated": _estimated(r.estimated)} for r in plan.rivals],
    }


def _indexes(plan: Plan) -> list[str]:
    return list(dict.fromkeys(condition.name for condition in plan.conditions))


def _positions(plan: Plan) -> list[Json]:
    known = {(s.condition.position, s.condition.attribute): s for s in plan.selectivities}
    used = {(c.position, c.attribute) for c in plan.conditions}
    return [
        {
            "symbol": position.symbol,
            "ranges": [
                {
                    "attribute": attribute,
                    "range": str(ranges),
                    "used": (index, attribute) in used,
                    **_known(known.get((index, attribute))),
                }
                for attribute, ranges in position.ranges.items()
            ],
        }
        for index, position in enumerate(plan.shape.positions)
    ]


def _known(selectivity: Selectivity | None) -> Json:
    if selectivity is None:
        return {"selectivity": None, "source": None, "indexed": None}
    return {
        "selectivity": selectivity.fraction,
        "source": selectivity.source,
        "indexed": selectivity.indexed,
    }


def _estimated(estimated: Estimate) -> Json:
    return {
        "cost": estimated.cost,
        "blocks": estimated.blocks,
        "entries": estimated.entries,
        "alpha": estimated.alpha,
        "candidates": estimated.candidates,
    }


def to_text(plan: Plan, actual: Mapping[str, Any] | None = None) -> str:
    """Return the plan as lines a person can read, without a line break at the end.

    ``actual`` as in `to_json`; with it, the text says what happened and how far estimates erred.
    """
    lines = [f"plan      {plan.name}", f"because   {plan.reason}", f"pattern   {plan.shape}"]
    lines += [f"  {line}" for line in _position_lines(plan)]
    lines.append(f"stretches {_stretches(plan)}")
    lines.append(f"estimated {_estimate_line(plan.estimated)}")
    if actual is not None:
        lines += _actual_lines(plan, actual)
    if plan.rivals:
        width = max(len(rival.name) for rival in plan.rivals)
        lines.append("rivals")
        lines += [f"  {r.name:<{width}}  {_estimate_line(r.estimated)}" for r in plan.rivals]
    return "\n".join(lines)


def _position_lines(plan: Plan) -> list[str]:
    known = {(s.condition.position, s.condition.attribute): s for s in plan.selectivities}
    used = {(c.position, c.attribute) for c in plan.conditions}
    lines: list[str] = []
    for index, position in enumerate(plan.shape.positions):
        if not position.ranges:
            never = "no event can satisfy it" if position.is_impossible else "any event"
            lines.append(f"{position.symbol}: {never}")
        for attribute, ranges in position.ranges.items():
            line = f"{position.symbol}: {attribute} {ranges}"
            selectivity = known.get((index, attribute))
            if selectivity is not None:
                index_state = "" if selectivity.indexed else ", no index"
                share = f"{_percent(selectivity.fraction)} of events"
                line += f", {share} ({selectivity.source}{index_state})"
            lines.append(line + (" <- looked up" if (index, attribute) in used else ""))
    return list(dict.fromkeys(lines))  # A{14} is fourteen positions that say the same


def _stretches(plan: Plan) -> str:
    n, blocks = len(plan.stretches), count_blocks(plan.stretches)
    if plan.kind is PlanKind.FULL:
        return f"all {plan.n_blocks:,} blocks"
    return f"{_counted(n, 'stretch', 'stretches')} of {blocks:,} of {plan.n_blocks:,} blocks"


def _counted(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _estimate_line(estimated: Estimate) -> str:
    return (
        f"{_ms(estimated.cost)}, {estimated.blocks:,.0f} blocks, {estimated.entries:,.0f} entries, "
        f"{_percent(estimated.alpha)} of events, {estimated.candidates:,.0f} candidates"
    )


def _actual_lines(plan: Plan, actual: Mapping[str, Any]) -> list[str]:
    seconds, estimated = actual["seconds"], plan.estimated
    counts = (
        _ms(seconds["total"]),
        f"{actual['blocks_read']:,} of {actual['blocks_total']:,} blocks",
        f"{actual['entries_read']:,} entries",
        f"{_percent(actual['alpha'])} of events",
        f"{actual['candidates']:,} candidates",
        _counted(actual["intervals"], "interval", "intervals"),
    )
    events = f"{actual['rows_replayed']:,} of {actual['rows_total']:,} events replayed"
    phases = [f"{phase} {_ms(seconds[phase])}" for phase in ("plan", "index", "read", "match")]
    errors = (
        f"blocks {_error(estimated.blocks, actual['blocks_read'])}",
        f"entries {_error(estimated.entries, actual['entries_read'])}",
        f"time {_error(estimated.cost, seconds['total'])}",
    )
    return [
        "actual    " + ", ".join(counts),
        f"          {events}, {actual['bytes_read']:,} bytes read",
        "time      " + ", ".join(phases),
        "error     " + ", ".join(errors),
        *(f"warning   {warning}" for warning in actual.get("warnings", ())),
    ]


def _error(estimated: float, actual: float) -> str:
    """Return the relative error of an estimate, with its sign."""
    if actual == 0:
        return "none" if estimated == 0 else f"{estimated:,.3g} instead of 0"
    return f"{(estimated - actual) / actual:+.0%}"


def _percent(fraction: float) -> str:
    if fraction == 0 or fraction >= 0.01:
        return f"{fraction:.1%}"
    digits = 2 - math.floor(math.log10(fraction * 100))
    return f"{fraction * 100:.{min(max(digits - 1, 1), 9)}f}%"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds < 10 else f"{seconds:,.1f} s"
