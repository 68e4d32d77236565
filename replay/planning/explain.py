"""A plan in words and as JSON: the steps taken and refused, what was expected, what happened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from chronicle.words import number_of
from costmodel.plan_cost import Estimate
from replay.planning.block_ranges import count_blocks, without
from replay.planning.plan import Plan, PlanKind, Selectivity, Step
from replay.planning.requirements import Aggregation, Position

Json = dict[str, Any]

NOT_COMPARED: Final = "-"

VERSION: Final = 2
"""Of the keys that `to_json` gives; 1 had keys of samples, parts and rivals."""


def to_json(plan: Plan, actual: Mapping[str, Any] | None = None) -> Json:
    """Return the plan as JSON values; ``docs/explain.schema.json`` has the keys, which are stable.

    ``actual`` is what happened, as ``replay.result.Actual.to_dict`` has it; null unless it was run.
    """
    return {
        "version": VERSION,
        "plan": plan.name,
        "indexes": _indexes(plan),
        "reason": plan.reason,
        "pattern": str(plan.required),
        "positions": [
            {"symbol": position.symbol, "ranges": _ranges(plan, position, index)}
            for index, position in enumerate(_places(plan))
        ],
        "gaps": [
            {"symbol": fill.symbol, "before": index, "ranges": _ranges(plan, fill, ~index)}
            for index, fill in _fills(plan)
        ],
        **aggregation_json(plan.required.aggregation),
        "stretches": {
            "count": len(plan.stretches),
            "blocks": count_blocks(plan.stretches),
            "blocks_total": plan.n_blocks,
            "level": plan.level,
            **({} if plan.required.alike is None else {"alike": _n_alike(plan)}),
        },
        "steps": [_step(step) for step in plan.steps],
        "estimated": estimate_to_json(plan.estimated),
        "weights": plan.weights.source,
        "actual": None if actual is None else dict(actual),
        **{key: [dict(row) for row in rows] for key, rows in plan.required.details.items()},
    }


def aggregation_json(told: Aggregation | None) -> Json:
    """Return how aggregates over all matches are found, where there are any."""
    if told is None:
        return {}
    keys = ("from", "to", "condition", "by")
    edges = [dict(zip(keys, edge, strict=True)) for edge in told.edges]
    found = {"way": told.way, "why": told.why, "grain": told.grain, "edges": edges}
    return {"aggregation": {**found, "lanes": told.lanes, "states": told.states}}


def aggregation_lines(told: Aggregation | None) -> list[str]:
    """Return the same for a person to read."""
    if told is None:
        return []
    if told.way == "summed":
        lines = ["matches   are summed, none of them is made"]
        for before, symbol, condition, by in told.edges:
            words = f"{before or 'begin'} to {symbol} where {condition}, by {by}"
            lines.append(f"          {words}")
        return lines
    return [f"matches   are made: {told.why}; there can be exponentially many"]


def _step(step: Step) -> Json:
    left = step.left
    return {
        "lookup": step.lookup,
        "counted": list(step.counted),
        "estimated_left": step.estimated_left,
        "left": None
        if left is None
        else {"blocks": left.blocks, "events": left.events, "intervals": left.intervals},
        "taken": step.taken,
        "why": step.why,
        "seconds": step.seconds,
    }


def _indexes(plan: Plan) -> list[str]:
    return list(dict.fromkeys(condition.name for condition in plan.conditions))


def _places(plan: Plan) -> tuple[Position, ...]:
    """Return the positions; of plans that look for rows of any symbol all symbols."""
    return plan.required.relevant if plan.is_of_symbols else plan.required.positions


def _fills(plan: Plan) -> list[tuple[int, Position]]:
    """Return what fills each gap of which anything is known, by the position behind it."""
    if plan.is_of_symbols:
        return []
    return [(i, fill) for i, fill in enumerate(plan.required.fill_before) if fill is not None]


def _ranges(plan: Plan, rows: Position, place: int) -> list[Json]:
    """Return what is known of the rows at a place (``Condition.place``), range by range."""
    return [
        {"attribute": told.attribute, "range": told.range, "used": told.used, **_known(told.known)}
        for told in _told(plan, rows, place)
    ]


@dataclass(frozen=True, slots=True)
class _Told:
    """A range of one attribute, or those a composite index is asked for."""

    attribute: str
    range: str
    used: bool
    """Whether the plan looks it up."""
    known: Selectivity | None
    is_composite: bool

    @property
    def in_words(self) -> str:
        """What is said of which attributes."""
        return f"{self.attribute}{':' if self.is_composite else ''} {self.range}"


def _told(plan: Plan, rows: Position, place: int) -> list[_Told]:
    """Return what is said of the rows at a place: of each attribute, then of several at once."""
    known = {s.condition.slot: s for s in plan.selectivities}
    used = {condition.slot for condition in plan.conditions}
    said = {attribute: str(ranges) for attribute, ranges in rows.ranges.items()}
    for condition in (*(s.condition for s in plan.selectivities), *plan.conditions):
        if condition.place == place:
            said[condition.attribute] = str(condition)
    return [
        _Told(
            attribute,
            words,
            (place, attribute) in used,
            known.get((place, attribute)),
            attribute not in rows.ranges,
        )
        for attribute, words in said.items()
    ]


def _known(selectivity: Selectivity | None) -> Json:
    if selectivity is None:
        return {"selectivity": None, "source": None, "indexed": None}
    return {
        "selectivity": selectivity.fraction,
        "source": selectivity.source,
        "indexed": selectivity.indexed,
    }


def estimate_to_json(estimated: Estimate) -> Json:
    """Return an estimate as JSON values, as plans of every class tell it."""
    return {
        "cost": estimated.cost,
        "blocks": estimated.blocks,
        "entries": estimated.entries,
        "alpha": estimated.alpha,
        "candidates": estimated.candidates,
    }


BELOW: Final = "\t"
"""Begins a line of `to_lines` once for each level it stands below the top."""


def to_lines(plan: Plan, actual: Mapping[str, Any] | None = None) -> list[str]:
    """Return the plan as lines a person can read, each below those with fewer `BELOW`.

    ``actual`` as in `to_json`; with it, the text says what happened and how far estimates erred.
    """
    lines = [f"plan      {plan.name}", f"because   {plan.reason}", f"pattern   {plan.required}"]
    lines += aggregation_lines(plan.required.aggregation)
    lines += _position_lines(plan)
    lines += _detail_lines(plan)
    lines.append(f"stretches {_stretches(plan)}")
    lines += _step_lines(plan)
    if plan.full_estimate is not None:
        lines.append(f"weights   {plan.weights.source}")
    return lines + (_plan_lines(plan) if actual is None else _actual_lines(plan, actual))


def as_tree(lines: Sequence[str]) -> list[str]:
    r"""Return lines drawn as a tree, by how many `BELOW` each begins with.

    Examples
    --------
    >>> print("\n".join(as_tree(["steps", "\tA.a", "\tC.b", "time"])))
    ├─ steps
    │  ├─ A.a
    │  └─ C.b
    └─ time
    """
    drawn, continued = [], set[int]()
    for line in reversed(lines):  # from below one knows whether a branch goes on
        text = line.lstrip(BELOW)
        depth = len(line) - len(text)
        branch = "├─ " if depth in continued else "└─ "
        trunk = "".join("│  " if above in continued else "   " for above in range(depth))
        drawn.append(trunk + branch + text)
        continued = {above for above in continued if above < depth} | {depth}
    return drawn[::-1]


def _position_lines(plan: Plan) -> list[str]:
    """Return a line for each range: symbol, range, selectivity and where the number comes from."""
    fills = dict(_fills(plan))
    rows: list[tuple[str, ...]] = []
    for index, position in enumerate(_places(plan)):
        if index in fills:
            rows += _range_rows(plan, fills[index], ~index)
        if not position.ranges:
            never = "no event can satisfy it" if position.is_impossible else "any event"
            rows.append((position.symbol, never, ""))
        rows += _range_rows(plan, position, index)
    # A{14} is fourteen positions that say the same.
    return _aligned(list(dict.fromkeys(rows)), "<<<")


def _detail_lines(plan: Plan) -> list[str]:
    """Return what the class of the query tells besides, as a table under each key."""
    lines = []
    for key, rows in plan.required.details.items():
        names = list(rows[0])
        cells = [[_cell(value) for value in row.values()] for row in rows]
        lines += [key, *_aligned([tuple(names), *map(tuple, cells)], "<" + ">" * (len(names) - 1))]
    return lines


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return NOT_COMPARED if value is None else str(value)


def _range_rows(plan: Plan, rows: Position, place: int) -> list[tuple[str, ...]]:
    symbol = rows.symbol if place >= 0 else f"… {rows.symbol}"
    return [
        (
            symbol,
            told.in_words,
            _selectivity(told.known) + ("  <- looked up" if told.used else ""),
        )
        for told in _told(plan, rows, place)
    ]


def _selectivity(selectivity: Selectivity | None) -> str:
    if selectivity is None:
        return ""
    index_state = "" if selectivity.indexed else "; no index"
    return f"{_percent(selectivity.fraction)} of events, {selectivity.source}{index_state}"


def _aligned(rows: Sequence[tuple[str, ...]], sides: str) -> list[str]:
    """Return rows as lines below another, with columns of one width; ``<`` or ``>`` for each."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(sides))] if rows else []
    return [
        BELOW
        + "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _stretches(plan: Plan) -> str:
    n, blocks = len(plan.stretches), count_blocks(plan.stretches)
    if plan.kind is PlanKind.FULL:
        return f"all {number_of(plan.n_blocks, 'block')}"
    drawn = f", by the tree from level {plan.level}" if plan.level else ""
    left = f"{number_of(n, 'stretch', 'stretches')} of {blocks:,} of {plan.n_blocks:,} blocks"
    alike = _n_alike(plan)
    return f"{left}{drawn}" + (f", {alike:,} of them alike, and not read" if alike else "")


def _n_alike(plan: Plan) -> int:
    """Return how many blocks of the stretches need not be read, as all of their rows are alike."""
    alike, blocks = plan.required.alike, plan.stretches
    if alike is None or plan.kind is PlanKind.FULL:
        return 0
    return count_blocks(blocks) - count_blocks(without(blocks, alike.mask))


def _step_lines(plan: Plan) -> list[str]:
    """Return a line for each lookup: entries, what it left, whether it was taken, and why."""
    rows = []
    for step in plan.steps:
        least, most = step.counted
        entries = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        left = "" if step.left is None else f"leaves {number_of(step.left.blocks, 'block')}"
        took = _ms(step.seconds) if step.taken else ""
        entries += " entry" if most == 1 else " entries"
        rows.append((step.lookup, entries, left, took, step.why))
    return ["steps", *_aligned(rows, "<>>><")] if rows else []


def _plan_lines(plan: Plan) -> list[str]:
    """Return what was expected of the plan before its first step, beside a full replay."""
    rows = [("", "time", "blocks", "entries", "events", "candidates")]
    expected = [(plan.name if not plan.steps else "at first", plan.estimated)]
    if plan.full_estimate is not None and plan.kind is not PlanKind.FULL:
        expected.append(("full", plan.full_estimate))
    rows += [(name, _ms(e.cost), *_quantities(e)) for name, e in expected]
    return ["estimated", *_aligned(rows, "<>>>>>")]


def _quantities(estimated: Estimate) -> tuple[str, str, str, str]:
    return (
        f"{estimated.blocks:,.0f}",
        f"{estimated.entries:,.0f}",
        _percent(estimated.alpha),
        f"{estimated.candidates:,.0f}",
    )


def _actual_lines(plan: Plan, actual: Mapping[str, Any]) -> list[str]:
    """Return what was expected beside what happened, then where the time went."""
    seconds, estimated = actual["seconds"], plan.estimated
    counts = [
        ("blocks", estimated.blocks, actual["blocks_read"]),
        ("entries", estimated.entries, actual["entries_read"]),
        ("candidates", estimated.candidates, actual["candidates"]),
    ]
    rows = [("", "estimated", "actual", "error")]
    total = seconds["total"]
    rows.append(("time", _ms(estimated.cost), _ms(total), _error(estimated.cost, total)))
    rows += [(name, f"{e:,.0f}", f"{a:,}", _error(e, a)) for name, e, a in counts]
    alpha = actual["alpha"]
    shares = _percent(estimated.alpha), _percent(alpha)
    # Coverage is estimated in events of intervals, and what is read are whole blocks.
    rows.append(("events", *shares, NOT_COMPARED))
    return [
        "compared",
        *_aligned(rows, "<>>>"),
        *_took(actual, number_of(actual["intervals"], "interval")),
    ]


def _counted(actual: Mapping[str, Any]) -> list[str]:
    """Return lines on what classes of query did: rows of numbers among what happened."""
    return [
        f"{kind}  {', '.join(f'{n:,} {name}' for name, n in counts.items())}".replace("_", " ")
        for kind, counts in actual.items()
        if isinstance(counts, dict) and kind != "seconds"
    ]


def happened(actual: Mapping[str, Any]) -> list[str]:
    """Return lines on what a query of several parts took, ``actual`` as in `to_json`."""
    return _took(actual, f"{actual['entries_read']:,} index entries")


def _took(actual: Mapping[str, Any], further: str) -> list[str]:
    """Return what was read, ``further`` of it, what classes counted, and where the time went."""
    seconds = actual["seconds"]
    phases = [f"{phase} {_ms(seconds[phase])}" for phase in ("plan", "index", "read", "match")]
    read = (
        f"{actual['rows_replayed']:,} of {actual['rows_total']:,} events in "
        f"{actual['blocks_read']:,} of {actual['blocks_total']:,} blocks, "
        f"{actual['bytes_read']:,} bytes, {further}"
    )
    switched = actual.get("switched")
    return [
        f"replayed  {read}",
        *_counted(actual),
        f"time      {', '.join(phases)}",
        *([] if switched is None else [f"switched  {switched}"]),
        *(f"warning   {warning}" for warning in actual.get("warnings", ())),
    ]


def _error(estimated: float, actual: float) -> str:
    """Return the relative error of an estimate, with its sign."""
    if estimated == actual:
        return "none"
    if actual == 0:
        return NOT_COMPARED
    return f"{(estimated - actual) / actual:+.0%}"


def _percent(fraction: float) -> str:
    if fraction == 0 or fraction >= 0.01:
        return f"{fraction:.1%}"
    digits = 2 - math.floor(math.log10(fraction * 100))
    return f"{fraction * 100:.{min(max(digits - 1, 1), 9)}f}%"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds < 10 else f"{seconds:,.1f} s"
