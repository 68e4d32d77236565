"""Weights measured twice in a row, and whether they choose the same plans."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import plans
from benchmarks.harness import RESULTS, write_results
from benchmarks.planned import Question
from benchmarks.stores import SYNTHETIC
from chronicle import Store
from costmodel.parameters import CostParameters
from datasets.synthetic import SIGMAS
from datasets.thesis_queries import PAST_LAST_ROW, draw_queries
from replay.calibration.measure import calibrate, choose_stream

GOAL_AGREE = 0.95
"""Share of questions of which both weights choose the same plan."""


def questions(name: str, store: Store, n: int) -> Iterator[Question]:
    """Yield n questions: the thesis' of 2, 4 and 8 symbols, or drawn ones over real data."""
    if name == "synthetic":
        cases = [(m, ("A5",)) for m in (2, 4, 8)] + [(8, tuple(SIGMAS))]
        for m, attributes in cases:
            for k, query in enumerate(draw_queries(n // len(cases), m, attributes=attributes)):
                sql = query.to_sql(SYNTHETIC, skip=PAST_LAST_ROW)
                yield Question(store, sql, f"{'+'.join(attributes)}, m={m} #{k}")
        return
    of_size = plans.real_questions(name, store, n // 3 + 1, (2, 3, 4))
    for _, question in islice(of_size, n):
        yield question


def compare(question: Question, first: CostParameters, second: CostParameters) -> dict[str, Any]:
    """Plan a question by both weights."""
    by_first = question.plan(parameters=first)
    by_second = question.plan(parameters=second)
    costs = {by_second.name: by_second.estimated.cost}
    costs.update((rival.name, rival.estimated.cost) for rival in by_second.rivals)
    known = costs.get(by_first.name)
    return {
        "name": question.name,
        "first": by_first.name,
        "second": by_second.name,
        "agrees": by_first.name == by_second.name,
        # Seconds the first choice takes longer, by the second weights; None: it was not weighed.
        "loses_s": None if known is None else known - by_second.estimated.cost,
    }


def run(name: str, store: Store, options: argparse.Namespace) -> dict[str, Any]:
    """Measure weights twice, compare the plans and print how many agree."""
    stream = choose_stream(store, None)
    first, second = (calibrate(stream, seconds=options.seconds).fit for _ in range(2))
    found = [
        compare(question, first.parameters, second.parameters)
        for question in questions(name, store, options.queries)
    ]
    agree = sum(row["agrees"] for row in found)
    losses = [row["loses_s"] for row in found if not row["agrees"] and row["loses_s"] is not None]
    print(
        f"{name}: {agree} of {len(found)} plans agree (goal: {GOAL_AGREE:.0%}); of the others the "
        f"first takes at most {1e3 * max(losses, default=0.0):.1f} ms longer by the second weights"
    )
    for row in found:
        if not row["agrees"]:
            print(f"  {row['name']}: {row['first']} | {row['second']}")
    return {
        "agree": agree,
        "questions": found,
        "weights": [asdict(fit.parameters) for fit in (first, second)],
        "r2": [fit.r2 for fit in (first, second)],
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibrate_twice", description=__doc__
    )
    parser.add_argument("--seconds", type=float, default=45.0, help="to measure, each time")
    parser.add_argument("--queries", type=int, default=100, help="of each set")
    parser.add_argument("--events", type=int, default=1_000_000, help="of the synthetic stream")
    parser.add_argument("--real-events", type=int, help="take only so many events of real data")
    parser.add_argument("--times", type=int, default=20, help="copies of the crimes in crimes20")
    parser.add_argument("--sets", default="synthetic,crimes", help="some of benchmarks.plans'")
    parser.add_argument("--data", type=Path, help="folder with the files of flights and ticks")
    parser.add_argument("--stores", type=Path, default=RESULTS, help="where stores are kept")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are written")
    options = parser.parse_args(arguments)
    # Plans are made by the weights passed to them: the store's own are neither used nor changed.
    options.calibrate = 0.0
    results = {}
    for name in options.sets.split(","):
        store = plans.open_set(name, options)
        if store is not None:
            results[name] = run(name, store, options)
    write_results("calibrate_twice", results, folder=options.out)


if __name__ == "__main__":
    main()
