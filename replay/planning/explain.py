"""A plan in words and as JSON: what is expected, what happened, which plans lost and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from costmodel.plan_cost import Estimate
from replay.planning.block_ranges import count_blocks
from replay.planning.plan import Part, Plan, PlanKind, Selectivity
from replay.planning.shape import Position
from replay.planning.told import Told

Json = dict[str, Any]

NOT_COMPARED: Final = "-"

LOOKED_AT: Final = "the same, looked at"
LOOKED_UP: Final = "the same, looked up"
"""What the estimate of the chosen plan is called in the table, once more is known of it."""


def to_json(plan: Plan, actual: Mapping[str, Any] | None = None, told: Told | None = None) -> Json:
    """Return the plan as JSON values; ``docs/explain.schema.json`` has the keys, which are stable.

    Parameters
    ----------
    plan
        The plan.
    actual
        What happened, as ``replay.result.Actual.to_dict`` has it; null in the result unless the
        query has been run.
    """
    return {
        "plan": plan.name,
        "indexes": _indexes(plan),
        "reason": plan.reason,
        "pattern": str(plan.shape),
        "positions": [
            {"symbol": position.symbol, "ranges": _ranges(plan, position, index)}
            for index, position in enumerate(plan.shape.positions)
        ],
        "gaps": [
            {"symbol": fill.symbol, "before": index, "ranges": _ranges(plan, fill, ~index)}
            for index, fill in _fills(plan)
        ],
        "stretches": {
            "count": len(plan.stretches),
            "blocks": count_blocks(plan.stretches),
            "blocks_total": plan.n_blocks,
            "level": plan.level,
        },
        "through": _through(plan),
        "estimated": _estimated(plan.estimated),
        "sampled": plan.sampled,
        "told": None if told is None else _told_json(told),
        "strategy": plan.strategy,
        "weights": plan.weights.source,
        "actual": None if actual is None else dict(actual),
        "rivals": [{"plan": r.name, "estimated": _estimated(r.estimated)} for r in plan.rivals],
    }


def _told_json(told: Told) -> Json:
    return {
        "by": "lookups" if told.is_asked else "blocks",
        "blocks_looked": told.n_looked,
        "estimated": _estimated(told.estimated),
        "blocks_min": told.blocks_min,
        "blocks_max": told.blocks_max,
        "switched": told.switched,
    }


def _through(plan: Plan) -> Json | None:
    part = plan.part
    if part is None:
        return None
    return {
        "count": len(part.through),
        "blocks": count_blocks(part.through),
        "blocks_asked": count_blocks(part.asked),
        "times": [[first, last] for first, last in part.times],
    }


def _indexes(plan: Plan) -> list[str]:
    return list(dict.fromkeys(condition.name for condition in plan.conditions))


def _fills(plan: Plan) -> list[tuple[int, Position]]:
    """Return what fills each gap of which anything is known, by the position behind it."""
    return [(i, fill) for i, fill in enumerate(plan.shape.fill_before) if fill is not None]


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


def _estimated(estimated: Estimate) -> Json:
    return {
        "cost": estimated.cost,
        "blocks": estimated.blocks,
        "entries": estimated.entries,
        "alpha": estimated.alpha,
        "candidates": estimated.candidates,
    }


def to_text(plan: Plan, actual: Mapping[str, Any] | None = None, told: Told | None = None) -> str:
    """Return the plan as lines a person can read, without a line break at the end.

    ``actual`` and ``told`` as in `to_json`; with ``actual``, the text says what happened and how
    far estimates erred.
    """
    lines = [f"plan      {plan.name}", f"because   {plan.reason}", f"pattern   {plan.shape}"]
    lines += _position_lines(plan)
    lines.append(f"stretches {_stretches(plan)}")
    if plan.part is not None:
        lines.append(f"through   {_read_through(plan.part)}")
    if plan.sampled is not None:
        lines.append(f"sample    {plan.sampled}")
    if told is not None:
        lines.append(f"looked    {_seen(told)}")
    lines += _weights_line(plan)
    lines += _plan_lines(plan, told) if actual is None else _actual_lines(plan, actual)
    return "\n".join(lines)


def _position_lines(plan: Plan) -> list[str]:
    """Return a line for each range: symbol, range, selectivity and where the number comes from."""
    fills = dict(_fills(plan))
    rows: list[tuple[str, ...]] = []
    for index, position in enumerate(plan.shape.positions):
        if index in fills:
            rows += _range_rows(plan, fills[index], ~index)
        if not position.ranges:
            never = "no event can satisfy it" if position.is_impossible else "any event"
            rows.append((position.symbol, never, ""))
        rows += _range_rows(plan, position, index)
    # A{14} is fourteen positions that say the same.
    return _aligned(list(dict.fromkeys(rows)), "<<<")


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
    """Return rows as lines with columns of one width, indented; ``<`` or ``>`` for each column."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(sides))] if rows else []
    return [
        "  "
        + "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _stretches(plan: Plan) -> str:
    n, blocks = len(plan.stretches), count_blocks(plan.stretches)
    if plan.kind is PlanKind.FULL:
        return f"all {plan.n_blocks:,} blocks"
    drawn = f", by the tree from level {plan.level}" if plan.level else ""
    left = f"{_counted(n, 'stretch', 'stretches')} of {blocks:,} of {plan.n_blocks:,} blocks"
    return f"{left}{drawn}"


def _read_through(part: Part) -> str:
    """Return in a sentence what is read whatever lookups find, and why."""
    n, blocks = len(part.through), count_blocks(part.through)
    return (
        f"{_counted(n, 'stretch', 'stretches')} of {blocks:,} blocks read without asking, as "
        f"lookups would leave most of them; asked are {count_blocks(part.asked):,} blocks"
    )


def _seen(told: Told) -> str:
    """Return in a sentence what was looked up or at, and what the plan will read by it."""
    blocks = f"{told.estimated.blocks:,.0f}"
    if told.is_asked:
        reads = f"up all that is asked: the plan reads {blocks} blocks"
        beside = "" if told.is_certain else ", and some beside them for neighbours in partitions"
        return f"{reads}{beside}{'' if told.switched is None else f'; {told.switched}'}"
    if told.is_certain:
        return f"at all {told.n_remaining:,} blocks: the plan reads {blocks}"
    least, most = math.floor(told.blocks_min), math.ceil(told.blocks_max)
    return (
        f"at {told.n_looked:,} of {told.n_remaining:,} blocks: the plan reads about {blocks}, at "
        f"least {least:,} and at most {most:,} (95 % each)"
    )


def _counted(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _weights_line(plan: Plan) -> list[str]:
    if plan.full_estimate is None:
        return []
    searched = "" if plan.strategy is None else f"; sets of indexes searched by {plan.strategy}"
    return [f"weights   {plan.weights.source}{searched}"]


def _plan_lines(plan: Plan, told: Told | None) -> list[str]:
    """Return what is expected of the plan, after a look too, and of its rivals, side by side."""
    own = plan.estimated
    rows = [("", "time", "", "blocks", "entries", "events", "candidates")]
    rows.append((plan.name, _ms(own.cost), "", *_quantities(own)))
    if told is not None:
        same = LOOKED_UP if told.is_asked else LOOKED_AT
        rows.append((same, _ms(told.estimated.cost), "", *_quantities(told.estimated)))
    rows += [
        (
            r.name,
            _ms(r.estimated.cost),
            _times(r.estimated.cost, own.cost),
            *_quantities(r.estimated),
        )
        for r in plan.rivals
    ]
    return ["estimated", *_aligned(rows, "<>>>>>>")]


def _quantities(estimated: Estimate) -> tuple[str, str, str, str]:
    return (
        f"{estimated.blocks:,.0f}",
        f"{estimated.entries:,.0f}",
        _percent(estimated.alpha),
        f"{estimated.candidates:,.0f}",
    )


def _times(cost: float, chosen: float) -> str:
    return "" if chosen <= 0 else f"{cost / chosen:,.1f}x"


def _actual_lines(plan: Plan, actual: Mapping[str, Any]) -> list[str]:
    """Return what was expected beside what happened, then where the time went, then the rivals."""
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
    phases = [f"{phase} {_ms(seconds[phase])}" for phase in ("plan", "index", "read", "match")]
    events = f"{actual['rows_replayed']:,} of {actual['rows_total']:,} events"
    parts = (
        f"{events} in {actual['blocks_read']:,} of {actual['blocks_total']:,} blocks",
        f"{actual['bytes_read']:,} bytes",
        _counted(actual["intervals"], "interval", "intervals"),
    )
    switched = actual.get("switched")
    return [
        *_aligned(rows, "<>>>"),
        f"replayed  {', '.join(parts)}",
        f"time      {', '.join(phases)}",
        *([] if switched is None else [f"switched  {switched}"]),
        *(f"warning   {warning}" for warning in actual.get("warnings", ())),
        *_rival_lines(plan),
    ]


def happened(actual: Mapping[str, Any]) -> list[str]:
    """Return lines on what a query of several parts took, ``actual`` as in `to_json`."""
    seconds = actual["seconds"]
    phases = [f"{phase} {_ms(seconds[phase])}" for phase in ("plan", "index", "read", "match")]
    read = (
        f"{actual['rows_replayed']:,} of {actual['rows_total']:,} events in "
        f"{actual['blocks_read']:,} of {actual['blocks_total']:,} blocks, "
        f"{actual['bytes_read']:,} bytes, {actual['entries_read']:,} index entries"
    )
    switched = actual.get("switched")
    return [
        f"replayed  {read}",
        f"time      {', '.join(phases)}",
        *([] if switched is None else [f"switched  {switched}"]),
        *(f"warning   {warning}" for warning in actual.get("warnings", ())),
    ]


def _rival_lines(plan: Plan) -> list[str]:
    rows = [
        (r.name, _ms(r.estimated.cost), _times(r.estimated.cost, plan.estimated.cost))
        for r in plan.rivals
    ]
    return ["rivals, as estimated", *_aligned(rows, "<>>")] if rows else []


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
