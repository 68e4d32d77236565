"""Goal P4: how far what is estimated of plans is from what comes out."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import quantiles
from benchmarks.planned import Question, relative_error

LEAST = {"blocks": 1.0, "candidates": 1.0, "entries": 1.0, "alpha": 1e-4}
"""P4: what is estimated, and below which values no error is worth a word."""

BY = ("summaries", "choice", "explain")
"""P4: estimates by tree and fences alone, those the choice was made by, those explain tells."""


def estimate_errors(question: Question) -> list[dict[str, Any]]:
    """Compare the estimates of the plan chosen, and of each single lookup, with what comes out."""
    if question.chosen.features is None or question.chosen.finds_nothing:
        return []
    singles = [f"indexes={condition.name}" for condition in question.conditions]
    chosen = question.chosen.name
    rows = []
    for plan in dict.fromkeys((chosen, "all", *singles)):
        if plan in ("full", "tree"):
            continue
        work = question.work(plan, with_alpha=True)
        estimates = [(question.estimate(plan), work)]
        if plan == chosen:
            # A query may leave its plan: what explain tells is held to what is then read.
            estimates.append((question.chosen.estimated, work))
            estimates.append((question.told, question.work_of_run()))
        for by, (estimated, actual) in zip(BY, estimates, strict=False):
            pairs = {
                name: (float(getattr(estimated, name)), float(getattr(actual, name)))
                for name in LEAST
            }
            rows.append(
                {
                    "name": question.name,
                    "plan": plan,
                    "is_chosen": plan == chosen,
                    "by": by,
                    **{f"{name}_estimated": pair[0] for name, pair in pairs.items()},
                    **{f"{name}_actual": pair[1] for name, pair in pairs.items()},
                    **{f"{name}_error": relative_error(*pair) for name, pair in pairs.items()},
                }
            )
    return rows


def off_by(estimated: float, actual: float, least: float = 1.0) -> float:
    """Return how many times too high or too low an estimate is; less than ``least`` counts as it.

    Examples
    --------
    >>> off_by(5.0, 10.0), off_by(20.0, 10.0), off_by(0.2, 0.0)
    (2.0, 2.0, 1.0)
    """
    low, high = sorted((max(estimated, least), max(actual, least)))
    return high / low


def goal_p4(errors: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Print and return quantiles of the relative errors of estimates."""
    rows = []
    print("\nP4: relative error of estimates, |estimated - actual| / actual")
    print("(all plans looked into); how many times too high or too low (plans chosen)")
    print(f"  {'set':24} {'of':10} {'by':9} {'n':>5} {'median':>8} {'95th':>8}   factors")
    for name, found in errors.items():
        for by in BY:
            for of, least in LEAST.items():
                values = [
                    row[f"{of}_error"]
                    for row in found
                    if row["by"] == by and row[f"{of}_error"] is not None
                ]
                if not values:
                    continue
                middle, high = quantiles(values, (0.5, 0.95))
                factors = [
                    off_by(row[f"{of}_estimated"], row[f"{of}_actual"], least)
                    for row in found
                    if row["by"] == by and row["is_chosen"]
                ]
                off = quantiles(factors, (0.5, 0.95)) if factors else [1.0, 1.0]
                rows.append(
                    {
                        "set": name,
                        "of": of,
                        "by": by,
                        "n": len(values),
                        "median": middle,
                        "p95": high,
                        "chosen_factor_median": off[0],
                        "chosen_factor_p95": off[1],
                    }
                )
                print(
                    f"  {name:24} {of:10} {by:9} {len(values):5}"
                    f" {middle:8.1%} {high:8.1%}   {off[0]:6.2f}x {off[1]:6.2f}x"
                )
    return rows
