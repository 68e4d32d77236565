"""One self-contained HTML page: its head, charts and sections. It needs no network.

Texts are escaped where they become HTML. Scripts run by their hash alone, so that a text that got
through unescaped would still not run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from chronicle.version import __version__
from replay.report.charts import Chart
from replay.report.vega import vega_script

_ACTS = (
    ("in", "+", "Zoom in"),
    ("out", "\N{MINUS SIGN}", "Zoom out"),
    ("left", "←", "Earlier"),
    ("right", "→", "Later"),
    ("whole", "All", "Show the whole width"),
)
_STEPS = (("back", "◀ previous"), ("next", "next ▶"))

HINT = (
    "Drag to move, double-click or Ctrl and wheel to zoom; with the keyboard + - ← → 0, "
    "n and p for next and previous."
)


def page(title: str, lead: str, sections: Sequence[str], charts: Sequence[Chart]) -> str:
    """Return a page as text; ``title`` and ``lead`` are plain texts, ``sections`` HTML."""
    scripts = [vega_script(), _own("page.js")] if charts else []
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts) or "'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {hashes}"
    data = ""
    if charts:
        data = f'<script type="application/json" id="charts">{to_json(_plain(charts))}</script>'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_own('page.css')}</style></head>\n"
        f'<body><a class="skip" href="#main">Skip to the content</a>'
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>\n'
        '<main id="main">\n'
        + "\n".join(sections)
        + f"\n</main>\n<footer>Made by Chronicle {escape(__version__)}.</footer>\n{data}\n"
        + "\n".join(f"<script>{script}</script>" for script in scripts)
        + "\n</body></html>\n"
    )


def section(name: str, title: str, body: str) -> str:
    """Return a section under a heading; ``body`` is HTML."""
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{escape(title)}</h2>{body}</section>'


def figures(charts: Sequence[Chart]) -> str:
    """Return the section of charts, with a word on how one moves in them."""
    body = "".join(_figure(chart, number) for number, chart in enumerate(charts))
    return section("time", "Over time", f'<p class="quiet">{escape(HINT)}</p>{body}')


def _figure(chart: Chart, number: int) -> str:
    """Return the place of a chart, with its words and the buttons that move it."""
    acts = [(act, sign, name) for act, sign, name in _ACTS]
    buttons = [
        f'<button type="button" data-do="{act}" aria-label="{name}" title="{name}">{sign}</button>'
        for act, sign, name in acts
    ]
    if chart.stops is not None:
        buttons += [
            f'<button type="button" data-do="{act}">{escape(name)}</button>' for act, name in _STEPS
        ]
    label = escape(f"{chart.title}. {chart.summary}")
    return (
        f'<figure data-chart="{number}"><h3>{escape(chart.title)}</h3>'
        f'<div class="tools" role="group" aria-label="Move in time">{"".join(buttons)}</div>'
        f'<div class="chart" tabindex="0" role="group" aria-label="{label}"></div>'
        f'<output aria-live="polite"></output>'
        f"<figcaption>{escape(chart.summary)}</figcaption></figure>"
    )


def _plain(charts: Sequence[Chart]) -> list[dict[str, Any]]:
    return [
        {
            "spec": chart.spec,
            "data": chart.data,
            "first": chart.first,
            "last": chart.last,
            "clock": chart.is_clock,
            "stops": chart.stops,
            "labels": chart.labels,
        }
        for chart in charts
    ]


def to_json(value: Any) -> str:
    """Return JSON that may stand inside a script element: no ``<`` ends it early."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def _own(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
