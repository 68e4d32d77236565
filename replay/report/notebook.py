"""An answer as a notebook shows it: small, without scripts, and with the colours of its theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pyarrow as pa

from chronicle.words import number_of
from replay.engines.evidence import BlocksRead
from replay.query_plan import headline
from replay.report.answers import table_view
from replay.report.timeline import StreamTimeline, timelines

ROWS_MAX = 20
WIDTH, HEIGHT = 720, 14


def notebook_html(
    table: pa.Table, stats: Mapping[str, Any], reads: Sequence[BlocksRead] = ()
) -> str:
    """Return the first rows of an answer under a strip of what was replayed."""
    shown = table_view(table, ROWS_MAX)
    head = "".join(f"<th>{escape(name)}</th>" for name in shown.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{'NULL' if c is None else escape(c)}</td>" for c in row) + "</tr>"
        for row in shown.rows
    )
    strips = "".join(map(_strip, timelines(reads)))
    said = f"{number_of(table.num_rows, 'row')}; {headline(stats)}; result.report('answer.html')"
    return f"{strips}<table><tr>{head}</tr>{rows}</table><p>{escape(said)}</p>"


def _strip(stream: StreamTimeline) -> str:
    """Return a stream from its first to its last time, grey where it was skipped."""
    width = (stream.last - stream.first) or 1.0
    places: dict[tuple[int, int], None] = {}
    for row in stream.stretches:
        begin = int(WIDTH * (row["from"] - stream.first) / width)
        end = int(WIDTH * (row["to"] - stream.first) / width)
        places[begin, max(1, end - begin)] = None
    path = "".join(f"M{x},0h{w}v{HEIGHT}h-{w}z" for x, w in places)
    label = escape(f"Stream '{stream.name}': {stream.sentence}")
    return (
        f'<svg role="img" aria-label="{label}" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" style="max-width:100%"><title>{label}</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#8b949e" fill-opacity="0.45"/>'
        f'<path d="{path}" fill="#388bfd"/></svg>'
    )
