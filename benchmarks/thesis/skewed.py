"""Figures 3.13 and 3.14: one of eight symbols on data that follows time more or less closely."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.planned import Question
from benchmarks.stores import SYNTHETIC
from benchmarks.thesis.common import (
    add_synthetic,
    draw_errors,
    draw_speedups,
    grouped,
    new_parser,
    open_synthetic,
    print_errors,
    print_speedups,
    report,
    run_strategies,
    summaries,
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


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("skewed", __doc__)
    add_synthetic(parser, queries=10)
    parser.add_argument("--symbols", type=int, default=8, help="m; default: %(default)s")
    options = parser.parse_args(arguments)
    store = open_synthetic(options)
    rows = []
    for attribute in SIGMAS:
        for k, query in enumerate(questions_of(attribute, options.queries, options.symbols)):
            sql = query.to_sql(SYNTHETIC, skip=PAST_LAST_ROW)
            question = Question(store, sql, f"{attribute} #{k}")
            rows.append(run_strategies(question, options.rounds, attribute))
    groups = grouped(rows)
    print_speedups("Fig. 3.13: times as fast as a full replay, mean over the questions", groups)
    print("\nFig. 3.14: ErrPIO of the plan chosen (5th, 50th, 95th percentile)")
    errors = print_errors(groups, PAIRS, (0.05, 0.5, 0.95))
    if not options.no_figures:
        draw_speedups("fig_3_13", groups, options)
        draw_errors("fig_3_14", groups, PAIRS, options, log_from=0.1)
    summary = summaries(groups, errors)
    report(NAME, options, {"n_events": options.events, "summary": summary, "questions": rows})


if __name__ == "__main__":
    main()
