"""Draw the pictures of README.md: `python -m scripts.make_pictures`.

What is shown is a question of the demo over the bundled crimes, drawn as its report draws it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import vl_convert

import replay
from chronicle import Store, StreamSettings, create_store
from datasets import crimes
from datasets.tour import INDEXES, ROBBERY_TO_CAR_THEFT
from indexing import create_index
from replay import Result
from replay.report.answers import found_marks
from replay.report.charts import Chart, stream_chart
from replay.report.timeline import timelines

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
STYLE = Path(replay.__file__).parent / "report" / "page.css"
WIDTH = 720


def colours() -> tuple[dict[str, str], dict[str, str]]:
    """Return the colours of a report by name, for light and dark."""
    light, dark = (
        dict(re.findall(r"(--[a-z]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.DOTALL)
    )
    return light, dark


def svg(chart: Chart, names: dict[str, str]) -> str:
    """Return a chart as an SVG in some colours."""
    text = re.sub(r'"(--[a-z]+)"', lambda m: f'"{names[m[1]]}"', json.dumps(chart.spec))
    ink, quiet, line = names["--ink"], names["--quiet"], names["--line"]
    axis = {"labelColor": ink, "titleColor": quiet, "domainColor": line, "tickColor": line,
            "gridColor": line}  # fmt: skip
    config = {"background": None, "view": {"stroke": None}, "axis": axis, "axisX": {"grid": False},
              "legend": {"labelColor": ink}, "font": "sans-serif"}  # fmt: skip
    spec: dict[str, Any] = {**json.loads(text), "datasets": chart.data, "config": config}
    return str(vl_convert.vegalite_to_svg({**spec, "width": WIDTH}))


def answer(folder: Path) -> Result:
    """Ask the crimes of twelve years for robberies, assaults and car thefts within half an hour."""
    store: Store = create_store(folder / "store")
    events = crimes.to_usable(crimes.load())
    stream = store.create_stream("crimes", events.schema, StreamSettings(crimes.TIME))
    stream.append(events)
    create_index(stream, INDEXES)
    return replay.query(store, ROBBERY_TO_CAR_THEFT)


def main() -> None:
    """Write both pictures."""
    with tempfile.TemporaryDirectory() as folder:
        result = answer(Path(folder))
        [stream], [found] = timelines(result.actual.reads), result.actual.found
        marks = found_marks(found, result.table, stream.axis)
        chart = stream_chart(stream, stream.axis, marks)
    PICTURES.mkdir(exist_ok=True)
    for name, names in zip(("light", "dark"), colours(), strict=True):
        path = PICTURES / f"replayed-{name}.svg"
        path.write_text(svg(chart, names))
        sys.stdout.write(f"{path.name}: {path.stat().st_size:,} bytes\n")
    sys.stdout.write(f"{chart.summary}\n")


if __name__ == "__main__":
    main()
