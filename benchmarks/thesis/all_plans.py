"""Every plan of a question: estimated, carried out, ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.planned import Question, first_runs, race, relative_error
from benchmarks.thesis.common import AUTO, FULL

SAME_SHARE = 0.05
"""Times nearer than this are the same: many plans differ in a lookup they share anyway."""


def run_all_plans(question: Question, rounds: int, *, by_lookup: bool) -> dict[str, Any]:
    """Estimate and run every plan, all answers compared, times as medians of interleaved rounds.

    ``plans`` has for each its estimated cost and blocks, actual blocks and time, in order of
    estimated cost; beside it is said how the planner's choice stands among them.
    """
    plans = question.all_plans(by_lookup=by_lookup)
    runs = first_runs(question, [*plans, AUTO])
    timed = race(question, [FULL, *plans, AUTO], rounds)
    rows = []
    for plan in plans:
        estimated, blocks = question.estimate(plan), question.actual_blocks(plan)
        rows.append(
            {
                "plan": plan,
                "cost_s": estimated.cost,
                "estimated_blocks": estimated.blocks,
                "actual_blocks": blocks,
                "error": relative_error(estimated.blocks, blocks),
                "seconds": timed[plan].median_s,
                "switched": runs[plan][0].stats["actual"].get("switched"),
            }
        )
    rows.sort(key=lambda row: row["cost_s"])
    chosen = runs[AUTO][0].plan
    chosen_name = FULL if chosen is None else chosen.name
    seconds = [row["seconds"] for row in rows]
    best = min([*seconds, timed[FULL].median_s])
    own = timed[chosen_name].median_s if chosen_name in timed else timed[AUTO].median_s
    return {
        "name": question.name,
        "n_matches": len(runs[FULL][0]),
        "n_blocks": question.statistics.n_blocks,
        "plans": rows,
        "replay_s": timed[FULL].median_s,
        "auto_s": timed[AUTO].median_s,
        "chosen": chosen_name,
        "rank": rank_of(own, seconds),
        "regret": timed[AUTO].median_s / best,
        "rank_correlation": rank_correlation([row["cost_s"] for row in rows], seconds),
    }


def rank_of(own: float, seconds: Sequence[float]) -> int:
    """Return 1 + the number of plans that are faster by more than what times vary by."""
    return 1 + sum(s < own / (1 + SAME_SHARE) for s in seconds)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's correlation; ties keep their order, which matters little among times.

    0.0 for fewer than two values.

    Examples
    --------
    >>> round(rank_correlation([1, 2, 3], [10, 30, 20]), 6)
    0.5
    """
    if len(a) < 2:
        return 0.0
    ranks = [np.argsort(np.argsort(np.asarray(values), kind="stable")) for values in (a, b)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def draw_plans(errors: Any, times: Any, found: dict[str, Any]) -> None:
    """Draw the error of each plan's blocks, and its time beside its estimated cost."""
    rows = found["plans"]
    places = range(1, len(rows) + 1)
    errors.bar(places, [100 * (row["error"] or 0.0) for row in rows], width=1.0)
    errors.set(xlabel="plans by estimated cost", ylabel="ErrPIO, %")
    times.plot(places, [1e3 * row["seconds"] for row in rows], ".", label="measured")
    times.plot(places, [1e3 * row["cost_s"] for row in rows], "-", label="estimated")
    times.axhline(1e3 * found["replay_s"], color="grey", linewidth=0.8, label="full replay")
    times.set(xlabel="plans by estimated cost", ylabel="ms", yscale="log")
    times.legend(fontsize=7)


def draw_blocks(panel: Any, found: dict[str, Any]) -> None:
    """Draw estimated and actual blocks of each plan, by estimated blocks."""
    rows = sorted(found["plans"], key=lambda row: float(row["estimated_blocks"]))
    places = range(1, len(rows) + 1)
    panel.plot(places, [row["actual_blocks"] for row in rows], ".", label="actual")
    panel.plot(places, [row["estimated_blocks"] for row in rows], "-", label="estimated")
    panel.set(xlabel="plans by estimated blocks", ylabel="blocks", title=found["name"])
    panel.legend(fontsize=7)
