"""A plan as a tree in HTML: its steps with what was expected and what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from chronicle.words import number_of
from costmodel.guard import in_words

Json = Mapping[str, Any]

PHASES = ("plan", "index", "read", "match")


def plan_section(stats: Json) -> str:
    """Return the tree of a plan, the numbers beside it, and where the time went.

    ``stats`` is a plan as ``docs/explain.schema.json`` has it; ``actual`` is None unless it ran.
    """
    actual = stats.get("actual")
    parts = [f'<ul class="tree">{_node(stats)}</ul>']
    if stats.get("tree"):
        parts.append(f'<h3>DuckDB\'s plan</h3><pre class="drawn">{escape(stats["tree"])}</pre>')
    parts.append(_numbers(stats.get("estimated"), actual))
    if actual is not None:
        parts.append(_time_bar(actual["seconds"]))
        notes = [actual["switched"]] if actual.get("switched") else []
        notes += actual.get("warnings", ())
        parts += [f'<p class="note">{escape(str(note))}</p>' for note in notes]
    return "".join(parts)


def _node(plan: Json, title: str | None = None) -> str:
    """Return a plan as a list item, with its steps and its inputs below it."""
    head = title or str(plan.get("operator") or "read a stream")
    items = [_item(line) for line in _facts(plan)]
    items += [_step(step) for step in plan.get("steps", ())]
    items += [_node(part) for part in plan.get("inputs", ())]
    for side, part in zip(("left side", "right side"), plan.get("sides", ()), strict=False):
        items.append(_item(f"{side}: its rows as they come") if part is None else _node(part, side))
    items += [_rival(rival) for rival in plan.get("rivals", ())]
    below = f"<ul>{''.join(items)}</ul>" if items else ""
    name = escape(str(plan.get("plan", "")))
    reason = escape(str(plan.get("reason", "")))
    return (
        f"<li><details open><summary><b>{escape(head)}</b>: plan <code>{name}</code></summary>"
        f"<p>{reason}</p>{below}</details></li>"
    )


def _facts(plan: Json) -> Iterator[str]:
    """Yield what is known of a plan before its steps."""
    if plan.get("pattern"):
        yield f"needs {plan['pattern']}"
    for position in plan.get("positions", ()):
        for told in position["ranges"]:
            share = "" if told["selectivity"] is None else f": {told['selectivity']:.3%} of events"
            index = "" if told["indexed"] is not False else ", no index"
            used = ", looked up" if told["used"] else ""
            name = f"{position['symbol']}.{told['attribute']} {told['range']}"
            yield f"{name}{share}{index}{used}"
    stretches = plan.get("stretches")
    if stretches:
        left = number_of(stretches["count"], "stretch", "stretches")
        yield (
            f"the tree leaves {stretches['blocks']:,} of {stretches['blocks_total']:,} blocks, "
            f"in {left}"
        )
    windows = plan.get("windows")
    if windows:
        count = "" if windows["count"] is None else f", {windows['count']:,} of them"
        yield f"windows: {windows['kind']}{count}"
    where = plan.get("where")
    if where:
        yield (
            f"WHERE: all events pass in {where['all_pass']:,} blocks, none in "
            f"{where['none_pass']:,}, read are {where['must_read']:,}"
        )


def _item(text: str) -> str:
    return f"<li>{escape(text)}</li>"


def _step(step: Json) -> str:
    """Return a lookup: what was counted, what it left, and why it was taken or not."""
    least, most = step["counted"]
    entries = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    left = "" if step["left"] is None else f", leaves {number_of(step['left']['blocks'], 'block')}"
    took = f" in {in_words(step['seconds'])}" if step["taken"] else ""
    verdict = "looked up" if step["taken"] else "not looked up"
    kind = "taken" if step["taken"] else "refused"
    return (
        f'<li class="{kind}"><b>{escape(step["lookup"])}</b> {verdict}{took}: {entries} entries'
        f"{left}. {escape(step['why'])}</li>"
    )


def _rival(rival: Json) -> str:
    cost = in_words(rival["estimated"]["cost"])
    return f'<li class="refused">instead: <code>{escape(rival["plan"])}</code>, about {cost}</li>'


def _numbers(estimated: Json | None, actual: Json | None) -> str:
    """Return the table of what was expected beside what happened."""
    rows: list[tuple[str, str, str]] = []
    known = estimated or {}

    def row(name: str, expected: str | None, happened: str | None) -> None:
        if expected is not None or happened is not None:
            rows.append((name, expected or "", happened or ""))

    row(
        "time",
        _seconds(known.get("cost")),
        _seconds(None if actual is None else actual["seconds"]["total"]),
    )
    for name, wanted, counted in (
        ("blocks", "blocks", "blocks_read"),
        ("index entries", "entries", "entries_read"),
        ("candidates", "candidates", "candidates"),
    ):
        row(name, _count(known.get(wanted)), _count(None if actual is None else actual[counted]))
    row(
        "share of events",
        _share(known.get("alpha")),
        _share(None if actual is None else actual["alpha"]),
    )
    if actual is not None:
        row("events replayed", None, f"{actual['rows_replayed']:,} of {actual['rows_total']:,}")
        row("bytes read", None, _count(actual["bytes_read"]))
    if not rows:
        return ""
    return html_table(
        "Expected and happened", ("", "expected", "happened"), rows, (False, True, True)
    )


def _seconds(value: float | None) -> str | None:
    return None if value is None else in_words(value)


def _count(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f}"


def _share(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.3g}%"


def _time_bar(seconds: Json) -> str:
    """Return where the time went, as a bar whose parts are also said."""
    total = sum(seconds[phase] for phase in PHASES) or 1.0
    said = [f"{phase} {in_words(seconds[phase])}" for phase in PHASES]
    parts = "".join(
        f'<i class="{phase}" style="width:{100 * seconds[phase] / total:.2f}%"></i>'
        for phase in PHASES
    )
    keys = "".join(
        f'<li><i class="{phase}"></i>{escape(text)}</li>'
        for phase, text in zip(PHASES, said, strict=True)
    )
    label = escape("Where the time went: " + ", ".join(said))
    return (
        f'<h3>Where the time went</h3><div class="timebar" role="img" aria-label="{label}">{parts}'
        f'</div><ul class="keys">{keys}</ul>'
    )


def html_table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    is_number: Sequence[bool],
) -> str:
    """Return a table; None is NULL."""
    kinds = ['class="n"' if number else "" for number in is_number]
    cells = "".join(
        f'<th scope="col" {k}>{escape(h)}</th>' for h, k in zip(head, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td {k}>{'<i>NULL</i>' if cell is None else escape(cell)}</td>"
            for cell, k in zip(row, kinds, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption><thead><tr>{cells}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
