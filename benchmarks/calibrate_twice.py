"""Weights measured twice in a row, and whether they choose the same plans."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

from benchmarks.harness import write_results
from benchmarks.planned import Question
from benchmarks.question_sets import (
    add_set_options,
    open_set,
    real_questions,
    synthetic_questions,
)
from chronicle import Store
from costmodel.parameters import CostParameters
from replay.calibration.measure import calibrate, choose_stream

GOAL_AGREE = 0.95
"""Share of questions of which both weights choose the same plan."""


def questions(name: str, store: Store, n: int) -> Iterator[Question]:
    """Yield n questions: a quarter each of the thesis' four kinds, or drawn ones over real data."""
    if name == "synthetic":
        asked = synthetic_questions(store, n // 4, (2, 4, 8))
    else:
        asked = real_questions(name, store, n // 3 + 1, (2, 3, 4))
    for _, question in islice(asked, n):
        yield question


def compare(question: Question, first: CostParameters, second: CostParameters) -> dict[str, Any]:
    """Plan a question by both weights."""
    by_first = question.plan(parameters=first)
    by_second = question.plan(parameters=second)
    costs = {by_second.name: by_second.estimated.cost}
    if by_second.full_estimate is not None:
        costs["full"] = by_second.full_estimate.cost
    if by_first.conditions:
        named = question.plan(by_first.name, parameters=second)
        costs.setdefault(named.name, named.estimated.cost)
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
    add_set_options(parser, sets=("synthetic", "crimes"))
    options = parser.parse_args(arguments)
    results = {}
    for name in options.sets:
        store = open_set(name, options)
        if store is not None:
            results[name] = run(name, store, options)
    write_results("calibrate_twice", results, folder=options.out)


if __name__ == "__main__":
    main()
