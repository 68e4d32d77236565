"""The experiments at toy size: they run, compare answers, write JSON, draw, and fill the tables."""

import json
from contextlib import redirect_stdout
from functools import partial
from importlib.util import find_spec
from io import StringIO

import pytest

from benchmarks import calibrate_twice, estimates, hard_cases, plans, query_sets
from benchmarks.planned import Question
from benchmarks.real_stores import aircraft_source, flights_source, real_store, ticks_source
from benchmarks.thesis import (
    crimes,
    landings,
    real_world,
    single_query,
    skewed,
    tables,
    uniform,
)
from benchmarks.thesis.all_plans import rank_correlation, rank_of
from chronicle import open_store
from datasets.synthetic import SIGMAS
from datasets.thesis_queries import draw_queries
from tests.unit.benchmarks.conftest import N_EVENTS

SYNTHETIC = ["--events", str(N_EVENTS), "--queries", "1"]
REAL = ["--real-events", "4000"]
ARGUMENTS = {
    uniform: [*SYNTHETIC, "--symbols", "2,3"],
    single_query: [*SYNTHETIC, "--symbols", "3"],
    skewed: [*SYNTHETIC, "--symbols", "3"],
    crimes: [*REAL, "--by-lookup"],
    landings: [],
    real_world: [*REAL, "--times", "2"],
}
WANT_DATA = (landings, real_world)
HAS_MATPLOTLIB = find_spec("matplotlib") is not None


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def run(stores, data, out):
    """Return a function that runs a module at toy size, once, and gives back its JSON."""
    places = ["--stores", str(stores), "--out", str(out), "--rounds", "1"]
    figures = [] if HAS_MATPLOTLIB else ["--no-figures"]
    done: dict[str, dict[str, object]] = {}

    def run(module):
        if module.NAME not in done:
            real = ["--data", str(data)] if module in WANT_DATA else []
            module.main([*ARGUMENTS[module], *real, *places, *figures])
            done[module.NAME] = json.loads((out / f"{module.NAME}.json").read_text())
        return done[module.NAME]

    return run


@pytest.fixture(scope="module")
def measured_plans(stores, data, out):
    """Return what `benchmarks.plans` measures at toy size on every set, and what it prints."""
    printed = StringIO()
    with redirect_stdout(printed):
        plans.main(
            [
                *("--events", str(N_EVENTS), "--extra-events", "6000", *REAL, "--times", "2"),
                *("--queries", "1", "--real-queries", "1", "--regret-queries", "1"),
                *("--symbols", "2,8", "--regret-symbols", "2,7", "--rounds", "1"),
                *("--data", str(data)),
                *("--stores", str(stores), "--out", str(out)),
            ]
        )
    return json.loads((out / "plans.json").read_text()), printed.getvalue()


def test_uniform_runs_every_strategy_for_every_m(run):
    results = run(uniform)
    assert list(results["summary"]) == ["m=2", "m=3"]
    assert set(results["summary"]["m=2"]["speedup"]) == {
        *("All", "Budget", "Greedy", "Pareto", "Optimal", "Greedy*", "Optimal*", "auto")
    }
    assert all(row["replay_s"] > 0 for row in results["questions"])


def test_single_query_runs_all_plans(run):
    results = run(single_query)
    assert len(results["plans"]) == 2**3
    costs = [row["cost_s"] for row in results["plans"]]
    assert costs == sorted(costs)


def test_skewed_moves_one_symbol_to_each_attribute(run):
    results = run(skewed)
    assert list(results["summary"]) == list(SIGMAS)
    for attribute in SIGMAS:
        moved = skewed.questions_of(attribute, 4, 3)
        others = [[s.attribute for s in query.symbols].count("A5") for query in moved]
        assert others == [3 if attribute == "A5" else 2] * 4


def test_crimes_run_all_plans_of_both_variants(run):
    results = run(crimes)
    # Three kinds of crime and one area, or one range each of latitude and longitude.
    assert [len(one["plans"]) for one in results["variants"].values()] == [2**4, 2**5]


def test_landings_are_found_under_all_plans(run):
    results = run(landings)
    assert results["n_matches"] == 4  # as many as the toy aircraft makes
    assert len(results["plans"]) == 64
    assert set(results["ways"]) == set(landings.WAYS)


def test_real_world_compares_what_there_is(run):
    results = run(real_world)
    assert [one["n_events"] for one in results["questions"].values()] == [
        *(4_000, 4_000),
        *(8_000, 8_000),
        4_000,
    ]


def test_experiments_that_need_data_say_so(stores, out):
    with pytest.raises(SystemExit, match="--data"):
        landings.main(["--stores", str(stores), "--out", str(out)])


def test_plans_measures_every_goal_on_every_set(measured_plans):
    results, printed = measured_plans
    asked = {row["set"] for row in results["summary"]["p2"]}
    for name in ("synthetic A5, m=2", "crimes, Q1", "crimes20, Q1", "aircraft, Q1", "flights, Q1"):
        assert name in asked
    assert "ticks, Q1" in asked
    assert {"adversarial", "adversarial, dropped", "partition", "delta"} <= asked
    assert {"synthetic, m=7", "crimes, Q2"} <= set(results["regrets"])
    assert {row["of"] for row in results["summary"]["p4"]} == {
        *("blocks", "candidates", "entries", "alpha")
    }
    assert "forgotten before every timed call" in printed


def test_what_explain_tells_is_measured_beside_what_plans_are_chosen_by(stores):
    """Lookups in a stream as small as this one are quick: what is told is what is read."""
    query = next(iter(draw_queries(1, 2)))
    question = Question(
        open_store(stores / f"store-synthetic-{N_EVENTS}"), query.to_sql("synthetic"), "drawn"
    )
    # Of toys a full replay is quicker.
    question.__dict__["chosen"] = question.plan("all")
    question.__dict__["run"] = partial(question.run, "all")
    rows = {row["by"]: row for row in estimates.estimate_errors(question) if row["is_chosen"]}
    assert list(rows) == list(estimates.BY)
    told = rows["explain"]
    assert told["blocks_actual"] > 0
    for of in ("blocks", "candidates", "entries"):
        assert told[f"{of}_estimated"] == told[f"{of}_actual"]
    assert rows["choice"]["blocks_estimated"] != pytest.approx(told["blocks_actual"])


def test_weights_measured_twice_are_held_against_each_other(stores, tmp_path, capsys):
    places = ["--stores", str(stores), "--out", str(tmp_path), "--events", str(N_EVENTS)]
    calibrate_twice.main(["--sets", "synthetic", "--seconds", "1", "--queries", "4", *places])
    found = json.loads((tmp_path / "calibrate_twice.json").read_text())["synthetic"]
    assert [question["name"] for question in found["questions"]] == [
        *("A5, m=2 #0", "A5, m=4 #0", "A5, m=8 #0", "A1 to A5, m=8 #0")
    ]
    assert found["agree"] == sum(q["first"] == q["second"] for q in found["questions"])
    first, second = found["weights"]
    assert first != second
    assert f"{found['agree']} of 4 plans agree" in capsys.readouterr().out


@pytest.mark.parametrize("benchmark", [plans, calibrate_twice])
def test_sets_nobody_knows_are_refused_by_name(benchmark, capsys):
    with pytest.raises(SystemExit):
        benchmark.main(["--sets", "crimes,fligths"])
    assert "not known: fligths" in capsys.readouterr().err


def test_sets_without_their_data_are_left_out_and_said(stores, tmp_path, capsys):
    places = ["--stores", str(stores), "--out", str(tmp_path)]
    plans.main(["--sets", "flights,ticks,aircraft_long", "--only", "p2", *places])
    assert capsys.readouterr().out.count("left out") == 3


def test_copies_of_the_aircraft_are_asked_for_its_landings(stores, data, tmp_path, capsys):
    places = ["--stores", str(stores), "--out", str(tmp_path), "--data", str(data)]
    few = ["--only", "p2", "--real-queries", "1", "--rounds", "1", "--aircraft-times", "2"]
    plans.main(["--sets", "aircraft_long", *few, *places])
    assert "aircraft_long, Q1" in capsys.readouterr().out
    snapshot = open_store(stores / "store-aircraft-x2").stream("aircraft").snapshot()
    assert snapshot.n_events == 2 * aircraft_source(data).table().num_rows


def test_an_absent_symbol_is_answered_without_reading_a_block(stores):
    store = open_store(stores / f"store-synthetic-{N_EVENTS}")
    absent = [case for case in hard_cases.hard_cases(N_EVENTS) if case.reads_nothing]
    assert len(absent) == 1
    assert Question(store, absent[0].sql).run().actual.blocks_read == 0


def test_ramps_rise_six_times_in_a_row_and_index_and_replay_find_them(stores):
    store = hard_cases.steps_store(stores / "store-steps", 510_000)
    question = Question(store, hard_cases.RISING, "rising")
    found = question.run("full").table
    # Eight rises from events 0 and 500,000 on; the very first event has none before it.
    assert {6, 500_005} <= set(found["last_t"].to_pylist())
    assert question.run("auto").table.equals(found)


def test_drawn_questions_run_and_are_the_same_each_time(stores, data):
    for source in (flights_source(data), ticks_source(data)):
        store = real_store(stores, source)
        drawn_from = query_sets.DRAWN_FROM[source.stream]
        first = query_sets.drawn(store, drawn_from, 3, 2)
        assert first == query_sets.drawn(store, drawn_from, 3, 2)
        assert len(set(first)) == 3
        for sql in first:
            question = Question(store, sql, "drawn")
            assert question.run("auto").table.equals(question.run("full").table)


def test_the_landing_question_of_all_aircraft_finds_what_that_of_one_finds(stores, data):
    one = Question(real_store(stores, aircraft_source(data)), query_sets.landing_of_one())
    every = Question(real_store(stores, flights_source(data)), query_sets.landing_of_all())
    assert len(one.run("full")) == len(every.run("auto")) == 4


def test_rank_counts_plans_that_are_clearly_faster():
    assert rank_of(1.00, [0.99, 1.00, 0.5, 2.0]) == 2
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1], [1]) == 0.0


def test_tables_are_filled_from_what_was_measured_and_else_left(run, out, tmp_path):
    run(single_query)
    document = tmp_path / "experiments.md"
    old = "| | paper | ours |\n| --- | --- | --- |\n| kept | as | is |"
    document.write_text(
        "# Text\n<!-- table 3.12 -->\n<!-- end -->\n"
        f"<!-- table 3.15 -->\n{old}\n<!-- end -->\n<!-- table 3.16 -->\n<!-- end -->\nMore.\n"
    )
    results = tmp_path / "results"
    results.mkdir()
    (results / "thesis_single_query.json").write_bytes(
        (out / "thesis_single_query.json").read_bytes()
    )
    tables.main(["--results", str(results), "--document", str(document)])
    text = document.read_text()
    assert "| plans above 30 % | 5 of 256 | " in text
    assert " of 8 |" in text
    assert old in text
    assert "| variant 1, the plan chosen by time | 1. of 64 | - |" in text
    assert text.startswith("# Text\n")
    assert text.endswith("More.\n")
    tables.main(["--results", str(results), "--document", str(document)])
    assert document.read_text() == text


def test_every_table_can_be_made_from_what_the_experiments_write(run, measured_plans, out):
    for module in ARGUMENTS:
        run(module)
    for name, (file, _) in tables.TABLES.items():
        results = json.loads((out / f"{file}.json").read_text())
        lines = tables.table_of(name, results).splitlines()
        assert sum(line.startswith("| ") for line in lines) == len(tables.PAPER[name]) + 2
        assert lines[-1].startswith("Measured on ")


def test_documents_have_a_place_for_every_table():
    text = tables.DOCUMENT.read_text(encoding="utf-8")
    for name in tables.TABLES:
        assert f"<!-- table {name} -->" in text


@pytest.mark.skipif(not HAS_MATPLOTLIB, reason="the extra 'bench' is not installed")
def test_figures_are_drawn_in_both_formats(run, out):
    for module in ARGUMENTS:
        run(module)
    drawn = {file.name for file in (out / "figures").iterdir()}
    for number in ("09", "10", "11", "12", "13", "14", "15", "16", "17"):
        assert {f"fig_3_{number}.png", f"fig_3_{number}.svg"} <= drawn


@pytest.mark.parametrize(("expected", "error"), [(1000.0, "0.0 %"), (4.0, "33 %"), (0.0, "-")])
def test_error_of_chance_is_that_of_a_number_drawn_with_the_right_mean(expected, error):
    # Of 1,000 blocks 4 are touched on average: 4 in a fifth of the cases, 3, 5 or 6 in half.
    question = {"group": "m=8", "estimated": {"Optimal*": expected}}
    results = {"n_events": 1000 * 2048, "summary": {"m=8": {}}, "questions": [question]}
    assert tables.by_chance(results, "Optimal*") == f"8: {error}"
