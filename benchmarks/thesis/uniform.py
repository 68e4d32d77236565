"""Figures 3.9 to 3.11: even data, m symbols on A5; run time, errors of estimates, selection."""

from __future__ import annotations

import argparse
from statistics import mean
from typing import Any

from benchmarks.planned import Question
from benchmarks.stores import SYNTHETIC
from benchmarks.thesis import figures
from benchmarks.thesis.common import (
    PRINTED,
    RULE_NAMES,
    add_synthetic,
    draw_errors,
    draw_speedups,
    figure_folder,
    grouped,
    new_parser,
    open_synthetic,
    print_errors,
    print_speedups,
    report,
    run_strategies,
    summaries,
)
from datasets.thesis_queries import PAST_LAST_ROW, draw_queries

NAME = "thesis_uniform"
SHOWN = {name: name for name in ("Optimal", "Optimal*", PRINTED)}
"""Whose errors are shown: estimates without and with the coarse pattern map, which on even data
should not matter, and the thesis' printed formulas for Optimal's plan."""


def print_selection(groups: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Print and return the mean time of a selection and the sets it examined."""
    print("\nFig. 3.11: selection alone, features given: mean ms (sets examined)")
    print(f"  {'':6} " + " ".join(f"{name:>18}" for name in RULE_NAMES))
    found: dict[str, Any] = {}
    for group, rows in groups.items():
        cells = []
        for name in RULE_NAMES:
            ms = 1e3 * mean(row["selection_s"][name] for row in rows)
            examined = mean(row["examined"][name] for row in rows)
            found.setdefault(group, {})[name] = {"ms": ms, "examined": examined}
            cells.append(f"{ms:8.2f} ({examined:7.0f})")
        print(f"  {group:6} {' '.join(cells)}")
    return found


def draw(groups: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> None:
    """Draw the three figures."""
    labels = list(groups)
    folder = figure_folder(options)
    draw_speedups("fig_3_09", groups, options)

    draw_errors("fig_3_10", groups, SHOWN, options)

    figure, (times, sets) = figures.new_figure(2)
    for panel, key, unit in ((times, "selection_s", 1e3), (sets, "examined", 1.0)):
        for name in ("Greedy", "Pareto", "Optimal"):
            values = [unit * mean(row[key][name] for row in rows) for rows in groups.values()]
            panel.plot(labels, values, marker="o", label=name)
        panel.set_yscale("log")
        panel.legend(fontsize=7)
    times.set(ylabel="mean selection time, ms")
    sets.set(ylabel="mean sets of indexes examined")
    figures.save(figure, "fig_3_11", folder)


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("uniform", __doc__)
    add_synthetic(parser, queries=10)
    parser.add_argument("--symbols", default="2,4,8,16,32", help="the values of m")
    options = parser.parse_args(arguments)
    store = open_synthetic(options)
    rows = []
    for m in (int(word) for word in options.symbols.split(",")):
        for k, query in enumerate(draw_queries(options.queries, m)):
            question = Question(store, query.to_sql(SYNTHETIC, skip=PAST_LAST_ROW), f"m={m} #{k}")
            rows.append(run_strategies(question, options.rounds, f"m={m}"))
    groups = grouped(rows)
    print_speedups("Fig. 3.9: times as fast as a full replay, mean over the questions", groups)
    print("\nFig. 3.10: ErrPIO of the plan chosen (5th, 25th, 50th, 75th, 95th percentile)")
    errors = print_errors(groups, SHOWN, (0.05, 0.25, 0.5, 0.75, 0.95))
    selection = print_selection(groups)
    if not options.no_figures:
        draw(groups, options)
    summary = {
        group: {**found, "selection": selection[group]}
        for group, found in summaries(groups, errors).items()
    }
    report(NAME, options, {"n_events": options.events, "summary": summary, "questions": rows})


if __name__ == "__main__":
    main()
