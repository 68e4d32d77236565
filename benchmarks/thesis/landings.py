"""Figure 3.17: landings of an aircraft under all 64 plans, estimated in three ways."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks import question_sets
from benchmarks.harness import WARM, quantiles
from benchmarks.planned import Question, relative_error
from benchmarks.real_stores import aircraft_source, real_store
from benchmarks.thesis import figures
from benchmarks.thesis.all_plans import rank_correlation, rank_of, run_all_plans
from benchmarks.thesis.common import figure_folder, new_parser, report
from costmodel.plan_cost import Estimate

NAME = "thesis_landings"
WAYS = ("no map", "coarse map")
"""The thesis compares no map with a coarse one of 658 buckets and a fine one of 1.1 million; here
the map is drawn over blocks, and a sample of events corrects the most promising plans."""


def open_question(options: argparse.Namespace) -> Question:
    """Return the landing question over one aircraft."""
    if options.data is None:
        raise SystemExit("give --data DIR, the folder with the flights; they cannot be shipped")
    source = aircraft_source(options.data, options.times, options.real_events)
    store = real_store(options.stores, source)
    return Question(store, question_sets.landing_of_one(), "landing")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the aircraft."""
    parser.add_argument("--data", type=Path, help="folder with the file of flights")
    parser.add_argument("--times", type=int, default=1, help="copies, one after the other")
    parser.add_argument("--real-events", type=int, help="take only so many events of a copy")


def estimates_of(question: Question, plan: str) -> dict[str, Estimate]:
    """Return what a plan is estimated at in each of the ways."""
    even, mapped = question.uniform_features, question.features
    assert even is not None
    assert mapped is not None
    return {
        "no map": question.estimate_by(even, plan),
        "coarse map": question.estimate_by(mapped, plan),
    }


def compare_ways(question: Question, found: dict[str, Any]) -> dict[str, Any]:
    """Return, for each way, the errors of its estimates and the plan it would choose."""
    by_plan = {row["plan"]: row for row in found["plans"]}
    estimates = {plan: estimates_of(question, plan) for plan in by_plan}
    seconds = [by_plan[plan]["seconds"] for plan in estimates]
    ways = {}
    for way in WAYS:
        costs = [estimates[plan][way].cost for plan in estimates]
        chosen = min(estimates, key=lambda plan, way=way: estimates[plan][way].cost)
        errors = [
            relative_error(estimates[plan][way].blocks, by_plan[plan]["actual_blocks"])
            for plan in estimates
        ]
        ways[way] = {
            "plan": chosen,
            "seconds": by_plan[chosen]["seconds"],
            "rank": rank_of(by_plan[chosen]["seconds"], seconds),
            "errors": [error for error in errors if error is not None],
            "rank_correlation": rank_correlation(costs, seconds),
            "seconds_by_cost": [
                by_plan[plan]["seconds"]
                for plan in sorted(estimates, key=lambda plan, way=way: estimates[plan][way].cost)
            ],
        }
    return ways


def print_table(found: dict[str, Any]) -> None:
    """Print a line for each way of estimating."""
    worse = sum(row["seconds"] > found["replay_s"] for row in found["plans"])
    print(
        f"\nFig. 3.17: {found['n_matches']} landings, {len(found['plans'])} plans, replay "
        f"{1e3 * found['replay_s']:.1f} ms, {worse} plans slower than it; {WARM}"
    )
    for way, one in found["ways"].items():
        middle, high = quantiles(one["errors"], (0.5, 1.0)) if one["errors"] else (0.0, 0.0)
        print(
            f"  {way:15} chooses {one['plan']}: {one['rank']}. by time, "
            f"{found['replay_s'] / one['seconds']:.1f}x replay; ErrPIO median {middle:.1%}, "
            f"worst {high:.1%}"
        )
    print(f"  auto took {found['chosen']}: {found['replay_s'] / found['auto_s']:.1f}x replay")


def draw(found: dict[str, Any], options: argparse.Namespace) -> None:
    """Draw times in each way's order, and its errors."""
    figure, (times, errors) = figures.new_figure(2)
    for way, one in found["ways"].items():
        values = [1e3 * seconds for seconds in one["seconds_by_cost"]]
        times.plot(range(1, len(values) + 1), values, ".-", linewidth=0.6, label=way)
    times.axhline(1e3 * found["replay_s"], color="grey", linewidth=0.8, label="full replay")
    times.set(xlabel="plans by estimated cost", ylabel="ms", yscale="log", title="(a)")
    times.legend(fontsize=7)
    values = [[100 * e for e in one["errors"]] for one in found["ways"].values()]
    figures.boxes(errors, list(found["ways"]), values)
    errors.set(ylabel="ErrPIO, %", title="(b)")
    figures.log_scale(errors, [e for some in values for e in some], least=0.1)
    figures.save(figure, "fig_3_17", figure_folder(options))


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("landings", __doc__)
    add_options(parser)
    options = parser.parse_args(arguments)
    question = open_question(options)
    found = run_all_plans(question, options.rounds, by_lookup=False)
    found["ways"] = compare_ways(question, found)
    print_table(found)
    if not options.no_figures:
        draw(found, options)
    report(NAME, options, {"n_events": question.statistics.n_events, **found})


if __name__ == "__main__":
    main()
