"""Figure 3.16: both variants of the crime question under all their plans."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import question_sets
from benchmarks.harness import WARM, quantiles
from benchmarks.planned import Question
from benchmarks.real_stores import crimes_source, real_store
from benchmarks.thesis import figures
from benchmarks.thesis.all_plans import draw_blocks, draw_plans, run_all_plans
from benchmarks.thesis.common import figure_folder, new_parser, report

NAME = "thesis_crimes"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the crimes."""
    parser.add_argument("--times", type=int, default=1, help="copies, one after the other")
    parser.add_argument("--real-events", type=int, help="take only so many events of a copy")


def open_questions(options: argparse.Namespace) -> dict[str, Question]:
    """Return both variants over the crimes, by name."""
    store = real_store(options.stores, crimes_source(options.times, options.real_events))
    return {
        "Q1 (area)": Question(store, question_sets.crimes_by_area(), "variant 1, area"),
        "Q2 (box)": Question(store, question_sets.crimes_by_box(), "variant 2, box"),
    }


def print_table(found: dict[str, dict[str, Any]]) -> None:
    """Print a line for each variant."""
    print(f"\nFig. 3.16: all plans of both variants; {WARM}")
    for name, one in found.items():
        errors = [row["error"] for row in one["plans"] if row["error"] is not None]
        middle, high = quantiles(errors, (0.5, 0.95)) if errors else (0.0, 0.0)
        low = sum(r["estimated_blocks"] < r["actual_blocks"] for r in one["plans"])
        print(
            f"  {name}: {one['n_matches']} matches, {len(one['plans'])} plans, replay "
            f"{1e3 * one['replay_s']:.1f} ms, auto {1e3 * one['auto_s']:.1f} ms\n"
            f"    ErrPIO median {middle:.1%}, 95th {high:.1%}; too low for {low} plans; rank "
            f"correlation of cost and time {one['rank_correlation']:.2f}\n"
            f"    chosen {one['chosen']}: {one['rank']}. by time, {one['regret']:.2f}x the best"
        )


def draw(found: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    """Draw blocks and times of all plans."""
    figure, panels = figures.new_figure(2 * len(found))
    for k, one in enumerate(found.values()):
        draw_blocks(panels[k], one)
    spare_figure, spare = figures.new_figure(len(found))
    for k, one in enumerate(found.values()):
        draw_plans(spare[k], panels[len(found) + k], one)
    figures.save(spare_figure, "fig_3_16_errors", figure_folder(options))
    figures.save(figure, "fig_3_16", figure_folder(options))


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("crimes", __doc__)
    add_options(parser)
    parser.add_argument(
        "--by-lookup",
        action="store_true",
        help="plans that differ in which conditions of one lookup they use are one plan",
    )
    options = parser.parse_args(arguments)
    found = {
        name: run_all_plans(question, options.rounds, by_lookup=options.by_lookup)
        for name, question in open_questions(options).items()
    }
    print_table(found)
    if not options.no_figures:
        draw(found, options)
    report(NAME, options, {"variants": found})


if __name__ == "__main__":
    main()
