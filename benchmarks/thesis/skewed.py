"""Figures 3.13 and 3.14: one of eight symbols on data that follows time more or less closely."""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.harness import quantiles
from benchmarks.planned import Question
from benchmarks.stores import SYNTHETIC, synthetic_store
from benchmarks.thesis import figures
from benchmarks.thesis.common import (
    add_synthetic,
    draw_speedups,
    errors_of,
    figure_folder,
    grouped,
    mean_speedups,
    new_parser,
    print_speedups,
    report,
    run_strategies,
)
from datasets.synthetic import SEED, SIGMAS
from datasets.thesis_queries import PAST_LAST_ROW, ThesisQuery, draw_queries

NAME = "thesis_skewed"
PAIRS = {"without the coarse map": "Optimal", "with it": "Optimal*"}


def questions_of(attribute: str, n_queries: int, n_symbols: int) -> list[ThesisQuery]:
    """Draw queries on A5, one symbol of each moved to another attribute with its range kept."""
    random = np.random.default_rng([SEED, n_symbols, 313])
    moved = []
    for query in draw_queries(n_queries, n_symbols):
        at = int(random.integers(n_symbols))
        symbols = tuple(
            replace(symbol, attribute=attribute) if k == at else symbol
            for k, symbol in enumerate(query.symbols)
        )
        moved.append(replace(query, symbols=symbols))
    return moved


def print_errors(groups: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Print and return quantiles of ErrPIO by attribute, without and with the map."""
    print("\nFig. 3.14: ErrPIO of the plan chosen (5th, 50th, 95th percentile)")
    found: dict[str, Any] = {}
    for group, rows in groups.items():
        for label, strategy in PAIRS.items():
            errors = errors_of(rows, strategy)
            if errors:
                found.setdefault(group, {})[label] = quantiles(errors, (0.05, 0.5, 0.95))
                shown = " ".join(f"{q:10.1%}" for q in found[group][label])
                print(f"  {group:4} {label:24} {shown}")
    return found


def draw(groups: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> None:
    """Draw both figures."""
    labels = list(groups)
    draw_speedups("fig_3_13", groups, options)

    figure, panels = figures.new_figure(len(PAIRS))
    for panel, (label, strategy) in zip(panels, PAIRS.items(), strict=True):
        errors = [[100 * e for e in errors_of(rows, strategy)] for rows in groups.values()]
        figures.boxes(panel, labels, errors)
        panel.set(ylabel="ErrPIO, %", title=label)
        figures.log_scale(panel, [e for found in errors for e in found], least=0.1)
    figures.save(figure, "fig_3_14", figure_folder(options))


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("skewed", __doc__)
    add_synthetic(parser, queries=10)
    parser.add_argument("--symbols", type=int, default=8, help="m; default: %(default)s")
    options = parser.parse_args(arguments)
    store = synthetic_store(options.stores / f"store-synthetic-{options.events}", options.events)
    rows = []
    for attribute in SIGMAS:
        for k, query in enumerate(questions_of(attribute, options.queries, options.symbols)):
            sql = query.to_sql(SYNTHETIC, skip=PAST_LAST_ROW)
            question = Question(store, sql, f"{attribute} #{k}")
            rows.append(run_strategies(question, options.rounds, attribute))
    groups = grouped(rows)
    print_speedups("Fig. 3.13: times as fast as a full replay, mean over the questions", groups)
    errors = print_errors(groups)
    if not options.no_figures:
        draw(groups, options)
    summary = {
        group: {
            "n": len(found),
            "replay_ms": 1e3 * mean(row["replay_s"] for row in found),
            "auto_ms": 1e3 * mean(row["auto_s"] for row in found),
            "speedup": mean_speedups(found),
            "errors": errors.get(group, {}),
        }
        for group, found in groups.items()
    }
    report(NAME, options, {"n_events": options.events, "summary": summary, "questions": rows})


if __name__ == "__main__":
    main()
