"""Each benchmark runs at toy size, compares answers and writes what its tables are made from."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import feather

from benchmarks import (
    calibrate_twice,
    hard_cases,
    joins,
    ordinary_sql,
    plans,
    question_sets,
    trend_figures,
    trends,
    windows,
)
from benchmarks.planned import Question
from benchmarks.real_stores import aircraft_source, flights_source, real_store, ticks_source
from benchmarks.thesis import (
    crimes,
    landings,
    real_world,
    single_query,
    situations,
    skewed,
    tables,
    uniform,
)
from chronicle import open_store
from tests.unit.benchmarks.conftest import N_EVENTS

SYNTHETIC = ["--events", str(N_EVENTS), "--queries", "1"]
REAL = ["--real-events", "4000"]
FEW = [
    *("--queries", "1", "--real-queries", "1", "--regret-queries", "1"),
    *("--symbols", "2,8", "--regret-symbols", "2,3"),
]
ARGUMENTS: dict[Any, list[str]] = {
    uniform: [*SYNTHETIC, "--symbols", "2,3"],
    single_query: [*SYNTHETIC, "--symbols", "3"],
    skewed: [*SYNTHETIC, "--symbols", "3"],
    crimes: [*REAL, "--by-lookup"],
    landings: ["--data"],
    real_world: [*REAL, "--times", "2", "--data"],
    plans: [*SYNTHETIC[:2], "--extra-events", "6000", *REAL, "--times", "2", *FEW, "--data"],
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, stores: Path, data: Path) -> Path:
    """Run every benchmark that tables are made from, and return the folder of what they wrote."""
    out = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:  # no time measured here is looked at
        for limit, value in {"RETIMED_ROUNDS": 1, "ALL_PLANS_SYMBOLS": 2, "DRAWN_PLANS": 3}.items():
            patch.setattr(plans, limit, value)
        for module, given in ARGUMENTS.items():
            own = [*given, str(data)] if given[-1] == "--data" else given
            figures = [] if module is plans else ["--no-figures"]
            places = ["--stores", str(stores), "--out", str(out), "--rounds", "1"]
            module.main([*own, *places, *figures])
    return out


def test_every_table_can_be_made_from_what_the_experiments_write(out: Path) -> None:
    document = tables.DOCUMENT.read_text(encoding="utf-8")
    for name, (file, _) in tables.TABLES.items():
        lines = tables.table_of(name, json.loads((out / f"{file}.json").read_text())).splitlines()
        assert sum(line.startswith("| ") for line in lines) == len(tables.PAPER[name]) + 2
        assert f"<!-- table {name} -->" in document


def test_experiments_run_all_plans_of_what_they_ask(out: Path) -> None:
    def written(module: Any) -> Any:
        return json.loads((out / f"{module.NAME}.json").read_text())

    assert list(written(uniform)["summary"]) == ["m=2", "m=3"]
    assert len(written(single_query)["plans"]) == 2**3
    variants = written(crimes)["variants"].values()
    assert [len(one["plans"]) for one in variants] == [2**4, 2**5]
    found = written(landings)
    # As many landings as the toy aircraft makes.
    assert (found["n_matches"], len(found["plans"])) == (4, 64)
    asked = {row["set"] for row in json.loads((out / "plans.json").read_text())["summary"]["p2"]}
    assert {"synthetic A5, m=2", "crimes, Q1", "aircraft, Q1", "adversarial", "delta"} <= asked


def test_tables_are_filled_from_what_was_measured_and_else_left(out: Path, tmp_path: Path) -> None:
    old = "| | paper | ours |\n| --- | --- | --- |\n| kept | as | is |"
    document, results = tmp_path / "experiments.md", tmp_path / "results"
    document.write_text(
        f"<!-- table 3.12 -->\n<!-- end -->\n<!-- table 3.15 -->\n{old}\n<!-- end -->\n"
    )
    results.mkdir()
    measured = "thesis_single_query.json"
    (results / measured).write_bytes((out / measured).read_bytes())
    tables.main(["--results", str(results), "--document", str(document)])
    text = document.read_text()
    assert "| plans above 30 % | 5 of 256 | " in text
    assert old in text


def test_what_is_asked_without_its_data_is_left_out_or_refused(
    stores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--stores", str(stores), "--out", str(tmp_path)]
    plans.main(["--sets", "flights,ticks,aircraft_long", "--only", "p2", *places])
    assert capsys.readouterr().out.count("left out") == 3
    with pytest.raises(SystemExit, match="--data"):
        landings.main(places)
    with pytest.raises(SystemExit):
        plans.main(["--sets", "crimes,fligths"])
    assert "not known: fligths" in capsys.readouterr().err


@pytest.mark.usefixtures("made_up_time")
def test_weights_measured_twice_are_held_against_each_other(stores: Path, tmp_path: Path) -> None:
    places = ["--stores", str(stores), "--out", str(tmp_path), "--events", str(N_EVENTS)]
    calibrate_twice.main(["--sets", "synthetic", "--seconds", "0.2", "--queries", "2", *places])
    found = json.loads((tmp_path / "calibrate_twice.json").read_text())["synthetic"]
    assert found["agree"] == sum(q["first"] == q["second"] for q in found["questions"])


def test_drawn_questions_run_and_are_the_same_each_time(stores: Path, data: Path) -> None:
    for source in (flights_source(data), ticks_source(data)):
        store = real_store(stores, source)
        drawn_from = question_sets.DRAWN_FROM[source.stream]
        first = question_sets.drawn(store, drawn_from, 3, 2)
        assert first == question_sets.drawn(store, drawn_from, 3, 2)
        for sql in first:
            question = Question(store, sql, "drawn")
            assert question.run("auto").table.equals(question.run("full").table)
    one = Question(real_store(stores, aircraft_source(data)), question_sets.landing_of_one())
    assert len(one.run("full")) == 4


def test_hard_cases_are_what_they_say(stores: Path) -> None:
    store = open_store(stores / f"store-synthetic-{N_EVENTS}")
    [absent] = [case for case in hard_cases.hard_cases(N_EVENTS) if case.reads_nothing]
    assert Question(store, absent.sql).run().actual.blocks_read == 0


def test_joins_compare_all_ways(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    asked = ["--quotes", "600000", "--rounds", "1", "--stores", str(tmp_path)]
    joins.main([*asked, "--results", str(tmp_path / "out")])
    written = json.loads((tmp_path / "out" / "joins.json").read_text())
    for name, found in written["joins"].items():
        assert found["blocks_read"] < joins.READ_GOAL * found["blocks_of_quotes"], name
        assert {t["name"] for t in found["timings"]} == {"full", "auto", "indexes=size", "duckdb"}


def test_the_boundary_to_duckdb_is_measured(tmp_path: Path) -> None:
    ordinary_sql.main(
        ["--events", "2000", "--rounds", "1", "--calls", "1", "--results", str(tmp_path)]
    )
    written = json.loads((tmp_path / "ordinary-sql.json").read_text())
    for found in written["statements"].values():
        assert {t["name"] for t in found["timings"]} == {"statement", "parts", "duckdb"}


def test_aggregates_over_matches_compare_all_ways(tmp_path: Path, data: Path) -> None:
    asked = ["--events", "1500", "--rows", "6", "--queries", "2", "--rounds", "1"]
    places = ["--stores", str(tmp_path), "--data", str(data)]
    trends.main([*asked, *places, "--only", "scan,windows,panes,enumerated,duckdb,many"])
    trends.main([*asked, *places[:2], "--only", "varpulis,trees,kleene,latency"])
    goals = json.loads((tmp_path / "trends.json").read_text())["goals"]
    assert [goal.split(":")[0] for goal in goals] == ["T4", "T7", "T9", "T11"]


def test_figures_of_aggregates_over_matches_are_ratios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trend_figures, "run_child", lambda *_, given: len(given))
    trend_figures.main(["--scale", "0.03", "--rounds", "1", "--out", str(tmp_path)])
    figures = json.loads((tmp_path / "trend_figures.json").read_text())["figures"]
    assert list(figures) == list(trend_figures.FIGURES)
    told = capsys.readouterr().out
    assert all(f"{name}; paper: {found['paper']}" in told for name, found in figures.items())
    for found in figures.values():
        assert set(next(iter(found["rows"].values()))["over the first"].values()) == {1.0}
    (three,) = figures["aseq-15"]["rows"].values()
    assert set(three["over together"]) == {"apart", "made"}
    (*_, longest) = figures["cogra-8"]["rows"].values()
    assert set(longest["over summed"]) == {"made", "row by row", "by lengths"}
    assert set(longest["MiB"]) == {"summed", "made"}
    assert longest["log10 of matches"] > 0  # what was compared is not nothing


def test_figures_of_ways_that_count_otherwise_are_none() -> None:
    table = trends.letters(30, 3)
    texts = {"all": trend_figures.count("A B C", trends.ABC, trends.hop(10, 30))}
    texts["fewer"] = texts["all"].replace("SKIP TILL ANY", "SKIP TILL NEXT")
    cases = {"abc": trend_figures.ways_of(table, texts)}
    with pytest.raises(SystemExit, match="figure, abc: answers differ"):
        trend_figures.compare("figure", cases, rounds=1)


def test_memory_is_told_by_the_process_that_took_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    feather.write_feather(trends.letters(30, 3), tmp_path / "events")
    asked = trend_figures.count("A B C", trends.ABC, trends.hop(10, 30))
    monkeypatch.setattr("sys.stdin", io.StringIO(asked))
    trend_figures.main(["--peak", str(tmp_path / "events")])
    assert json.loads(capsys.readouterr().out) >= 0


def test_windows_compare_all_ways(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    asked = ["--events", "30000", "--doubles", "1", "--slides", "60", "--rounds", "1"]
    places = ["--stores", str(tmp_path), "--results", str(tmp_path / "out"), "--no-figures"]
    windows.main([*asked, *places])
    (week,) = json.loads((tmp_path / "out" / "windows.json").read_text())["weeks"]
    assert {timing["name"] for timing in week["slides"][0]["timings"]} == {
        *("replay", "tree", "auto", "tree-naive", "duckdb")
    }


def test_the_break_even_slide_lies_between_the_last_lost_and_the_first_won() -> None:
    # Halfway by the logarithms: 0.5x at 1 s and 2x at 100 s cross at 10 s.
    ratios = {0.1: 2.0, 1.0: 0.5, 100.0: 2.0, 1000.0: 9.0}
    rows = [{"slide_s": slide, "tree_over_replay": ratio} for slide, ratio in ratios.items()]
    assert windows.break_even(rows) == pytest.approx(10.0)


def test_figures_of_situations_are_ratios(tmp_path: Path) -> None:
    sizes = ["--seconds", "8000", "--cars", "160", "--queries", "1", "--rounds", "1"]
    situations.main([*sizes, "--phase", "1", "--no-figures", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "thesis_situations.json").read_text())["figures"]
    assert [figure.split()[0] for figure in found] == [
        *("5.8", "5.9", "5.10", "5.11", "5.13", "5.18")
    ]
    assert found["5.9 and 5.12 a"]["WITHIN 500"]["in all"] == 1
    relative = found["5.11 and 5.12 b"]["1:1"]["before"]["relative"]
    assert 0 < relative < 1  # before is certain as B starts, EMIT FINAL waits for its end
    rates = [one["rate"] for one in found["5.18"]["disconnected, 500 s"]["timeline"]]
    assert rates == [20e6, 10e6, 5e6, 1e6, 5e6, 10e6, 20e6]
