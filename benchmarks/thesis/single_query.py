"""Figure 3.12: one question of eight symbols under all its 256 plans."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.harness import WARM, quantiles
from benchmarks.planned import Question
from benchmarks.stores import SYNTHETIC
from benchmarks.thesis import figures
from benchmarks.thesis.all_plans import draw_plans, run_all_plans
from benchmarks.thesis.common import (
    add_synthetic,
    figure_folder,
    new_parser,
    open_synthetic,
    report,
)
from datasets.thesis_queries import PAST_LAST_ROW, draw_queries

NAME = "thesis_single_query"


def print_table(found: dict[str, Any]) -> None:
    """Print the errors, and where the plan chosen stands."""
    errors = [row["error"] for row in found["plans"] if row["error"] is not None]
    middle, high = quantiles(errors, (0.5, 0.95)) if errors else (0.0, 0.0)
    mean = sum(errors) / max(len(errors), 1)
    above = sum(error > 0.3 for error in errors)
    print(f"\nFig. 3.12: {len(found['plans'])} plans of one question; {WARM}")
    print(f"  ErrPIO mean {mean:.1%}, median {middle:.1%}, 95th {high:.1%}; above 30 %: {above}")
    print(f"  rank correlation of estimated cost and time {found['rank_correlation']:.2f}")
    print(f"  chosen {found['chosen']}: {found['rank']}. by time, {found['regret']:.2f}x the best")


def draw(found: dict[str, Any], options: argparse.Namespace) -> None:
    """Draw the errors and the times by estimated cost."""
    figure, (errors, times) = figures.new_figure(2)
    draw_plans(errors, times, found)
    figures.save(figure, "fig_3_12", figure_folder(options))


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("single_query", __doc__)
    add_synthetic(parser, queries=1)
    parser.add_argument("--symbols", type=int, default=8, help="m; 2**m plans are run")
    parser.add_argument("--query", type=int, default=0, help="which of the drawn queries")
    options = parser.parse_args(arguments)
    store = open_synthetic(options)
    query = draw_queries(options.query + 1, options.symbols)[options.query]
    name = f"m={options.symbols} #{options.query}"
    question = Question(store, query.to_sql(SYNTHETIC, skip=PAST_LAST_ROW), name)
    found = run_all_plans(question, options.rounds, by_lookup=True)
    print_table(found)
    if not options.no_figures:
        draw(found, options)
    report(NAME, options, {"n_events": options.events, **found})


if __name__ == "__main__":
    main()
