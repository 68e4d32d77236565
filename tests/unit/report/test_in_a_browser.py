"""Pages in a real browser, where there is one: drawn, moved by keys, without a complaint."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

import replay
from chronicle import Store
from replay.report import page
from replay.report.answers import pair_charts, row_marks, series_charts
from replay.report.charts import stream_chart
from replay.report.streams import stream_page
from replay.report.timeline import Axis
from tests.unit.report.reading import Page
from tests.unit.report.test_pages import NASTY, PATTERN, WINDOWS

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium here (Debian: apt install chromium)"
)

DRIVEN = """
(async () => {
  const wait = () => new Promise((go) => setTimeout(go, 50));
  const places = [...document.querySelectorAll(".chart")];
  while (!places.every((place) => place.parentElement.dataset.drawn)) await wait();
  const heard = [], [place] = places;
  for (const key of ["+", "ArrowRight", "0", "n", "n", "p"]) {
    place.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await wait();
    heard.push(place.parentElement.querySelector("output").textContent);
  }
  const canvas = place.querySelector("canvas"), colours = new Set();
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] === 255) colours.add(data.slice(i, i + 3).join());
  document.body.dataset.heard = JSON.stringify(heard);
  document.body.dataset.colours = [...colours].join(" ");
  document.body.dataset.wide = String(document.documentElement.scrollWidth > innerWidth);
})();
"""


def opened(path: Path, profile: Path, *more: str) -> Page:
    """Return a page as it is once its scripts have run; what a script complains of fails."""
    assert BROWSER is not None
    words = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--enable-logging=stderr",
        *more, "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=True)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return Page(re.sub(r"<(hr|input|path|rect)\b[^>]*>", "", done.stdout))


@pytest.fixture
def driven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages press keys on their first chart and note what they hear."""
    own = page._own
    monkeypatch.setattr(page, "_own", lambda name: own(name) + DRIVEN * (name == "page.js"))


@pytest.mark.usefixtures("driven")
@pytest.mark.parametrize("size", ["1280,900", "390,844"])
def test_matches_are_drawn_and_gone_through_by_keys(
    store: Store, tmp_path: Path, size: str
) -> None:
    result = replay.query(store, PATTERN, plan="indexes=A.a,B.x")
    result.report(tmp_path / "answer.html")
    seen = opened(tmp_path / "answer.html", tmp_path / "profile", f"--window-size={size}")
    [body] = seen.all("body")
    assert [a["data-drawn"] for a in seen.all("figure")] == ["yes"]
    assert body["data-heard"] == (
        '["Shown: 500 to 1499","Shown: 749 to 1748","Shown: 0 to 1998",'
        '"1 of 3: from 20, to 24, first 20, label a",'
        '"2 of 3: from 220, to 224, first 220, label b",'
        '"1 of 3: from 20, to 24, first 20, label a"]'
    )
    assert {"9,105,218", "196,202,209"} <= set(str(body["data-colours"]).split())
    assert body["data-wide"] == "false"


@pytest.mark.parametrize(("what", "n_charts"), [("windows", 2), ("stream", 4), ("clock", 3)])
def test_other_pages_are_drawn_too(store: Store, tmp_path: Path, what: str, n_charts: int) -> None:
    path = tmp_path / "page.html"
    if what == "stream":
        path.write_text(stream_page(store.stream("s")))
    elif what == "clock":  # pairs, series and marks over times of day and date
        times = pa.array([0, 10**9, 10**12], pa.timestamp("us"))
        table = pa.table({"t": times, "u": times, "n": [1.0, 2.0, 5.0]})
        charts = [*pair_charts(table), *series_charts(table)]
        marks = row_marks(table, "t", Axis(is_clock=True))
        charts.append(stream_chart(None, Axis(is_clock=True), marks))
        path.write_text(page.page("clock", "", [page.figures(charts)], charts))
    else:
        replay.query(store, WINDOWS, plan="replay").report(path)
    seen = opened(path, tmp_path / "profile")
    figures = seen.all("figure")
    assert len(figures) == n_charts
    assert {a.get("data-drawn") for a in figures} == {"yes"}


@pytest.mark.usefixtures("driven")
def test_markup_in_an_event_stays_text(tmp_path: Path) -> None:
    table = pa.table({"t": [1, 2], "a": [10, 12], "s": ["x", NASTY]})
    sql = """SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY t MEASURES B.s AS "<img src=x>"
      PATTERN (A B) DEFINE A AS a = 10)"""
    replay.query({"ticks": table}, sql).report(tmp_path / "answer.html")
    seen = opened(tmp_path / "answer.html", tmp_path / "profile")
    [body] = seen.all("body")
    heard = json.loads(str(body["data-heard"]))[-1]
    assert heard == f"1 of 1: from 1, to 2, <img src=x> {NASTY}"
    assert seen.all("img") == []
    assert len(seen.all("script")) == 3
