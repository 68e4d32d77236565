"""Pages: what they say and draw is what was read and found; nothing of an event becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

import replay
from chronicle import Store, create_store
from replay.query_plan import headline
from replay.report import answers
from replay.report.files import write
from replay.report.page import to_json
from replay.report.plans import plan_section
from replay.report.streams import stream_page
from replay.report.timeline import STRETCHES_MAX, timelines
from replay.report.vega import vega_script
from tests.helpers import fill_stream
from tests.strategies import SmallStream
from tests.unit.report.reading import Page

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028&\"'"

PATTERN = """SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS first, B.s AS label
  PATTERN (A C B) DEFINE A AS a = 10, B AS a = 12 AND x < 30)"""
"""Matches begin with event 10, 110 and 210, of times 20, 220 and 420."""


def page_of(result: replay.Result, folder: Path) -> Page:
    result.report(folder / "answer.html")
    return Page((folder / "answer.html").read_text(encoding="utf-8"))


def test_page_of_matches_shows_what_was_replayed_and_found(store: Store, tmp_path: Path) -> None:
    result = replay.query(store, PATTERN, plan="indexes=A.a,B.x")
    page = page_of(result, tmp_path)
    [chart] = page.charts
    data = chart["data"]
    # Blocks have 20 events: 10 to 12 are in block 0, 110 to 112 in 5, 210 to 212 in block 10.
    assert result.actual.blocks_read == 3
    assert [(row["from"], row["to"]) for row in data["stretches"]] == [
        (0, 38), (200, 238), (400, 438),
    ]  # fmt: skip
    assert [(row["blocks"], row["events"]) for row in data["stretches"]] == [(1, 20)] * 3
    assert data["whole"] == [{"from": 0, "to": 1998}]
    assert [(m["from"], m["to"], m["c0"], m["c1"]) for m in data["marks"]] == [
        (20, 24, "20", "a"), (220, 224, "220", "b"), (420, 424, "420", "c"),
    ]  # fmt: skip
    assert (chart["labels"]["c0"], chart["labels"]["c1"]) == ("first", "label")
    assert not chart["clock"]
    by_kind = {"replayed": 0.0, "skipped": 0.0}
    for bar in data["bars"]:
        by_kind[bar["what"]] += bar["events"]
    assert by_kind["replayed"] == pytest.approx(60, abs=2)
    assert by_kind["skipped"] == pytest.approx(940, abs=12)
    assert "3 of 50 blocks were replayed, in 3 stretches" in page.texts["figcaption"][0]
    assert "reads 3 of 50 blocks, through 2 indexes" in page.texts["p"][0]
    assert page.texts["pre"] == [PATTERN]


def test_page_is_whole_by_itself_and_runs_only_its_own_scripts(
    store: Store, tmp_path: Path
) -> None:
    page = page_of(replay.query(store, PATTERN), tmp_path)
    assert not [a for _, a in page.elements if "src" in a or str(a.get("href", "#"))[0] != "#"]
    [policy] = [a["content"] for a in page.all("meta") if "http-equiv" in a]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    scripts = zip(page.all("script"), page.texts["script"], strict=True)
    for script in (text for attributes, text in scripts if "type" not in attributes):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert not re.search(
        r"\bon\w+=", (tmp_path / "answer.html").read_text().partition("<script")[0]
    )


def test_charts_are_named_and_moved_by_buttons_and_keys(store: Store, tmp_path: Path) -> None:
    page = page_of(replay.query(store, PATTERN), tmp_path)
    [chart] = [a for a in page.all("div") if a.get("class") == "chart"]
    assert chart["tabindex"] == "0"
    assert "3 matches in all" in str(chart["aria-label"])
    acts = {button["data-do"]: button.get("aria-label") for button in page.all("button")}
    assert acts.keys() == {"in", "out", "left", "right", "whole", "next", "back"}
    assert [a["aria-live"] for a in page.all("output")] == ["polite"]
    assert page.all("html") == [{"lang": "en"}]
    named = [a["aria-labelledby"] for a in page.all("section")]
    assert named == [a["id"] for a in page.all("h2")]


def test_texts_of_events_columns_and_queries_are_texts(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    rows = [
        {"t": i, "a": i, "x": 0.5, "s": NASTY if i == 5 else "b", "f": True, "k": 1}
        for i in range(40)
    ]
    fill_stream(store, "s", SmallStream(rows, 10, 40, 4, ()))
    name = '"<b>"'
    sql = f"""SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.s AS {name}
      PATTERN (A) DEFINE A AS a = 5 OR s = '<i>')"""
    page = page_of(replay.query(store, sql), tmp_path)
    assert NASTY in page.cells
    assert page.charts[0]["data"]["marks"][0]["c0"] == NASTY
    assert page.charts[0]["labels"]["c0"] == "<b>"
    assert page.texts["pre"] == [sql]
    assert "<b>" in page.texts["th"]
    scripts = [a for a in page.all("script") if "type" not in a]
    assert len(scripts) == 2
    assert page.all("img") == []
    of_stream = Page(stream_page(store.stream("s")))
    assert any(NASTY[:20] in cell for cell in of_stream.cells)
    assert of_stream.all("img") == []


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=5))
def test_json_in_a_page_comes_back_and_never_ends_its_element(value: Any) -> None:
    text = to_json(value)
    assert json.loads(text) == value
    assert not set("<\u2028\u2029") & set(text)


def test_long_answers_are_thinned_and_the_page_says_so(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "POINTS_MAX", 100)
    times = pa.array(np.arange(1000) * 1_000_000, pa.timestamp("us"))
    table = pa.table({"w": times, "n": pa.array(range(1000))})
    assert (
        answers.table_view(table, 10).said == "The first 10 of 1,000 rows; --out writes them all."
    )
    [chart] = answers.series_charts(table)
    assert [row["y"] for row in chart.data["series"]] == list(range(0, 1000, 10))
    assert [row["x"] for row in chart.data["series"]][:2] == [0, 10_000]
    assert "1,000 windows. One of 10 is drawn." in chart.summary


def test_windows_of_several_keys_are_lines_of_their_own() -> None:
    table = pa.table({
        "window_start": [0, 0, 10, 10], "window_end": [10, 10, 20, 20],
        "k": ["a", "b", "a", None], "mean": [1.0, None, 3.0, float("nan")],
    })  # fmt: skip
    [chart] = answers.series_charts(table)
    assert chart.data["series"] == [
        {"x": 0.0, "y": 1.0, "key": "a"}, {"x": 10.0, "y": 3.0, "key": "a"},
    ]  # fmt: skip
    assert not chart.is_clock


def test_pairs_of_a_join_are_drawn_by_how_far_they_are_apart() -> None:
    us = pa.timestamp("us")
    table = pa.table({
        "l": pa.array([0, 60_000_000, None], us), "r": pa.array([30_000_000, 70_000_000, 5], us)
    })  # fmt: skip
    [chart] = answers.pair_charts(table)
    assert chart.data["pairs"] == [
        {"x": 0.0, "to": 30_000.0, "y": 30.0}, {"x": 60_000.0, "to": 70_000.0, "y": 10.0},
    ]  # fmt: skip
    assert chart.labels == {"x": "l", "to": "r", "y": "apart, seconds"}


WINDOWS = """SELECT window_start, AVG(x) AS m FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 100))
  GROUP BY window_start, window_end"""


@pytest.mark.parametrize(
    ("sql", "n_charts"),
    [
        (WINDOWS, 2),
        ("SELECT s.t AS t, r.t AS u FROM s JOIN r WITHIN 4 ON s.k = r.k", 2),
        ("SELECT t, x FROM s WHERE x < 3", 1),
        ("SELECT COUNT(*) AS n FROM s", 1),
        ("SELECT t FROM s WHERE x < -1", 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("plan", ["auto", "full"])
def test_every_kind_of_query_has_a_page(
    store: Store, tmp_path: Path, sql: str, n_charts: int, plan: str
) -> None:
    result = replay.query(store, sql, plan=plan)
    page = page_of(result, tmp_path)
    n_streams = len({read.snapshot.name for read in result.actual.reads})
    assert len(page.charts) <= max(n_charts, n_streams)
    assert len(page.charts) >= n_streams
    told = {row["what"] for chart in page.charts for row in chart["data"].get("bars", ())}
    by_summaries = "windows" in result.stats and result.stats["plan"] == "tree"
    rest = "told by summaries" if by_summaries else "skipped"
    assert told <= {"replayed", rest}
    assert page.texts["h2"][-3:] == ["The answer", "The plan", "The query"]


def test_a_table_in_memory_has_a_page(tmp_path: Path) -> None:
    table = pa.table({"t": [3, 1, 2], "a": [12, 10, 11]})
    sql = PATTERN.replace("FROM s", "FROM ticks").replace("B.s", "B.a").replace("AND x < 30", "")
    page = page_of(replay.query({"ticks": table}, sql), tmp_path)
    assert page.charts[0]["data"]["marks"] == [{"from": 1.0, "to": 3.0, "c0": "1", "c1": "12"}]
    assert "reads a table in memory" in page.texts["p"][0]


def test_stretches_that_lie_closest_are_drawn_as_one(tmp_path: Path) -> None:
    # 3 blocks of every 4 are read; between the others lies a time that grows with the block.
    n = 4 * (STRETCHES_MAX + 500)
    t_min = np.cumsum(np.arange(n) // 4 + 5)
    leaves = type("L", (), {"t_min": t_min, "t_max": t_min + 1, "count": np.ones(n, np.int64)})
    snapshot: Any = type("S", (), {})()
    snapshot.leaves, snapshot.n_blocks, snapshot.n_events = leaves, n, n
    snapshot.name, snapshot.version, snapshot.time_type = "s", 1, "integer"
    read: Any = type("R", (), {"snapshot": snapshot})()
    read.blocks = lambda: np.flatnonzero(np.arange(n) % 4)
    [line] = timelines([read])
    assert line.n_stretches == STRETCHES_MAX + 500
    assert len(line.stretches) == STRETCHES_MAX
    # The first 501 stretches, which lie closest, are one; no block is lost.
    assert line.stretches[0]["blocks"] == 3 * 501
    assert sum(row["blocks"] for row in line.stretches) == line.n_read == n // 4 * 3
    assert f"drawn as one: {STRETCHES_MAX:,}" in line.sentence


def test_a_page_takes_the_place_of_another_at_once_or_not_at_all(tmp_path: Path) -> None:
    write(tmp_path / "a.html", "one")
    with pytest.raises(UnicodeEncodeError):
        write(tmp_path / "a.html", "\ud800")
    assert (tmp_path / "a.html").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


@pytest.mark.parametrize("place", ["nowhere/a.html", "file/a.html", "folder", "a" * 300])
def test_a_page_that_cannot_be_written_is_told_by_the_path_given(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"Is a|Not a|No such|too long") as told:
        write(tmp_path / place, "one")
    with pytest.raises(type(told.value)) as plain:
        (tmp_path / place).write_text("one")
    assert str(told.value) == str(plain.value)
    assert told.value.filename == str(tmp_path / place)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "file"}


ACTUAL = {"blocks_read": 5, "blocks_total": 314}
STEP = {"taken": True, "left": {"blocks": 53}}
PLAN = {
    "plan": "indexes=A.a,B.b", "indexes": ["A.a", "B.b"], "reason": "", "actual": None,
    "stretches": {"blocks": 200, "blocks_total": 314}, "steps": [STEP],
}  # fmt: skip


@pytest.mark.parametrize(
    ("stats", "says"),
    [
        (PLAN, "reads 53 of 314 blocks, through 2 indexes"),
        ({**PLAN, "indexes": ["A.a", "B.a"]}, "reads 53 of 314 blocks, through 1 index"),
        ({**PLAN, "steps": [STEP, {"taken": True, "left": None}]},
         "reads at most 53 of 314 blocks, through 2 indexes"),
        ({**PLAN, "steps": []}, "reads at most 200 of 314 blocks, through 2 indexes"),
        ({**PLAN, "steps": [], "indexes": []}, "reads 200 of 314 blocks"),
        ({**PLAN, "actual": ACTUAL}, "reads 5 of 314 blocks, through 2 indexes"),
        ({**PLAN, "actual": {**ACTUAL, "blocks_read": 314}},
         "reads all 314 blocks, through 2 indexes"),
        ({"inputs": [PLAN, PLAN], "indexes": [], "reason": "", "actual": None},
         "reads 106 of 628 blocks"),
        ({"sides": [PLAN, PLAN], "drives": None, "indexes": ["a"], "reason": "", "actual": None},
         "reads 106 of 628 blocks, through 1 index"),
        ({"sides": [PLAN, PLAN], "drives": "left", "indexes": ["a"], "reason": "", "actual": None},
         "reads what its parts need, through 1 index"),
        ({"estimated": {"blocks": 7.4}, "indexes": [], "reason": "", "actual": None},
         "reads about 7 blocks"),
        ({"plan": "full", "indexes": [], "actual": {**ACTUAL}}, "reads a table in memory"),
    ],
)  # fmt: skip
def test_headline_says_what_is_read(stats: dict[str, Any], says: str) -> None:
    assert headline(stats) == says


def test_plan_is_a_tree_of_what_was_taken_and_refused(store: Store) -> None:
    stats = replay.query(store, PATTERN, plan="all").stats
    page = Page(plan_section(stats))
    kinds = [a["class"] for a in page.all("li") if a.get("class")]
    taken = ["taken" if step["taken"] else "refused" for step in stats["steps"]]
    assert kinds == taken
    bar = next(a["aria-label"] for a in page.all("div") if a.get("role") == "img")
    assert str(bar).startswith("Where the time went: plan ")
    blocks = page.cells.index("blocks")
    assert page.cells[blocks + 2] == f"{stats['actual']['blocks_read']:,}"


def test_page_of_a_stream_says_what_it_holds(store: Store) -> None:
    page = Page(stream_page(store.stream("s")))
    cells = page.cells
    at = cells.index("x")
    assert cells[at : at + 8] == ["x", "DOUBLE", "1,000", "0", "0", "0", "99.9", "49.95"]
    assert "1,000 events from 0 to 1998, in 50 blocks" in page.texts["p"][0]
    titles = [re.sub(" over time", "", text) for text in page.texts["h3"]]
    assert titles == ["Events", "a", "x", "k"]
    events, a, *_ = page.charts
    assert sum(row["events"] for row in events["data"]["bars"]) == pytest.approx(1000, abs=12)
    first = a["data"]["band"][0]
    assert (first["low"], first["mean"], first["high"], first["to"]) == (0, 9.5, 19, 38)
    assert {"a", "x"} <= set(cells[cells.index("1,000") :])
    assert "0 events came late" in "".join(page.texts["p"])


def test_page_of_a_stream_without_events_says_so(tmp_path: Path) -> None:
    store = create_store(tmp_path / "store")
    fill_stream(store, "s", SmallStream([], 10, 40, 4, ()))
    page = Page(stream_page(store.stream("s")))
    assert page.charts == []
    assert "0 events, in 0 blocks" in page.texts["p"][0]


def test_page_of_a_plan_is_told_without_running_it(store: Store, tmp_path: Path) -> None:
    explained = replay.explain(store, PATTERN)
    explained.report(tmp_path / "plan.html")
    page = Page((tmp_path / "plan.html").read_text())
    assert page.texts["h2"] == ["The plan", "The query"]
    assert page.texts["p"][0] == f"{str(explained).splitlines()[0]}."


def test_notebook_shows_a_strip_of_what_was_replayed_and_the_first_rows(store: Store) -> None:
    shown = Page(replay.query(store, PATTERN, plan="indexes=A.a,B.x")._repr_html_())
    [strip] = shown.all("svg")
    assert "3 of 50 blocks were replayed" in str(strip["aria-label"])
    [path] = shown.all("path")
    # Of 720 pixels for times 0 to 1998: 0 to 38, 200 to 238, 400 to 438.
    assert path["d"] == "M0,0h13v14h-13zM72,0h13v14h-13zM144,0h13v14h-13z"
    assert shown.cells == ["20", "a", "220", "b", "420", "c"]
    assert shown.all("script") == []
    assert "3 rows; reads 3 of 50 blocks, through 2 indexes" in shown.texts["p"][0]


@pytest.mark.parametrize(
    ("rows", "end", "n_told"),
    [("", "", 3), ("", "OFFSET 1", 2), ("", "LIMIT 1 OFFSET 1", 1), ("ALL ROWS PER MATCH", "", 3)],
)
def test_marks_tell_the_row_of_their_own_match(
    store: Store, tmp_path: Path, rows: str, end: str, n_told: int
) -> None:
    measured = PATTERN.replace("label\n", f"label {rows}\n").replace("A.t", "FINAL FIRST(A.t)")
    sql = f"{measured.replace('*', 'first, label', 1)} {end}"
    page = page_of(replay.query(store, sql), tmp_path)
    told = [mark for mark in page.charts[0]["data"]["marks"] if "c0" in mark]
    assert len(told) == n_told
    assert [mark["c0"] for mark in told] == [f"{mark['from']:.0f}" for mark in told]


def test_plan_that_duckdb_takes_part_in_shows_its_own(store: Store, tmp_path: Path) -> None:
    sql = f"SELECT first, LAG(first) OVER (ORDER BY first) AS x FROM ({PATTERN})"
    explained = replay.explain(store, sql)
    explained.report(tmp_path / "plan.html")
    page = Page((tmp_path / "plan.html").read_text())
    assert page.texts["pre"] == [explained.to_dict()["tree"], sql]
    answer = page_of(replay.query(store, sql), tmp_path)
    marks = answer.charts[0]["data"]["marks"]
    assert [(mark["from"], "c0" in mark) for mark in marks] == [
        (20, False),
        (220, False),
        (420, False),
    ]


def test_script_of_charts_is_kept_and_a_damaged_one_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda s: made.append(s) or "a</script>b")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    anew = vega_script.__wrapped__
    assert [anew(), anew()] == ["a<\\/script>b"] * 2
    assert len(made) == 1
    [kept] = (tmp_path / "cache" / "chronicle").iterdir()
    kept.write_text(kept.read_text() + " ")
    assert anew() == "a<\\/script>b"
    assert len(made) == 2
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept))  # no folder: it is made each time
    assert anew() == "a<\\/script>b"
    assert len(made) == 3


@pytest.mark.parametrize("open_to_all", ["folder", "file"])
def test_no_script_is_taken_from_where_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_to_all: str
) -> None:
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda _: "ours")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    anew = vega_script.__wrapped__
    assert anew() == "ours"
    [kept] = (tmp_path / "chronicle").iterdir()
    script = "of somebody else"
    kept.write_text(f"// {hashlib.sha256(script.encode()).hexdigest()}\n{script}")
    assert anew() == script  # as nobody else can have written it
    (kept.parent if open_to_all == "folder" else kept).chmod(0o777)
    assert anew() == "ours"
