"""What the experiments share: options, and how the plans of a question are timed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.harness import RESULTS, WARM, write_results
from benchmarks.planned import Question, first_runs, race, relative_error
from benchmarks.thesis import figures
from benchmarks.thesis.strategies import AUTO, REPLAY, RULE_NAMES, Picked, pick, plans_to_run

FULL = "full"

PRINTED = "printed"
"""The thesis' printed formulas, which estimate Optimal's plan, among the strategies of errors."""


def new_parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options all experiments have."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.thesis.{module}", description=doc)
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--stores", type=Path, default=RESULTS, help="where stores are kept")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are written")
    parser.add_argument("--no-figures", action="store_true", help="needs no matplotlib")
    return parser


def add_synthetic(parser: argparse.ArgumentParser, *, queries: int) -> None:
    """Add the options of experiments over the synthetic stream."""
    parser.add_argument("--events", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--queries", type=int, default=queries, help="default: %(default)s")


def report(name: str, options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Write an experiment's numbers."""
    told = {key: str(value) for key, value in vars(options).items()}
    write_results(name, {"warm": WARM, "options": told, **results}, folder=options.out)


def figure_folder(options: argparse.Namespace) -> Path:
    """Return where figures are saved."""
    folder: Path = options.out / "figures"
    return folder


def run_strategies(question: Question, rounds: int, group: str) -> dict[str, Any]:
    """Run what every strategy picks, compare the answers, time the distinct plans in turn.

    Returns
    -------
    dict
        ``group``, ``name``, ``replay_s``, ``auto_s``, ``auto_plan``, and by strategy ``plans``,
        ``seconds``, ``selection_s``, ``examined``, blocks ``estimated`` and ``actual``; and the
        blocks that the thesis' ``printed`` formulas estimate for Optimal's plan.
    """
    picked = pick(question)
    plans = plans_to_run(picked)
    runs = first_runs(question, plans)
    timed = race(question, [FULL, *plans], rounds)
    switched = [p for p in plans if runs[p][0].stats["actual"].get("switched")]
    return {
        "group": group,
        "name": question.name,
        "n_matches": len(runs[FULL][0]),
        "replay_s": timed[FULL].median_s,
        "auto_s": timed[AUTO].median_s,
        "auto_plan": runs[AUTO][0].plan.name if runs[AUTO][0].plan else FULL,
        "switched": switched,
        "plans": {name: choice.plan for name, choice in picked.items()},
        "seconds": {name: timed[choice.plan].median_s for name, choice in picked.items()},
        "selection_s": {name: choice.seconds for name, choice in picked.items()},
        "examined": {name: choice.n_examined for name, choice in picked.items()},
        "estimated": {name: choice.blocks for name, choice in picked.items()},
        "printed": question.printed_blocks(picked["Optimal"].plan),
        "actual": actual_blocks(question, picked),
    }


def actual_blocks(question: Question, picked: dict[str, Picked]) -> dict[str, int]:
    """Return the blocks that the intervals of each strategy's plan touch."""
    of_plan = {choice.plan for choice in picked.values()}
    blocks = {plan: question.work(plan).blocks for plan in sorted(of_plan)}
    return {name: blocks[choice.plan] for name, choice in picked.items()}


def mean_speedups(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the mean over questions of how many times as long the full replay takes."""
    factors = {
        name: sum(row["replay_s"] / row["seconds"][name] for row in rows) / len(rows)
        for name in RULE_NAMES
    }
    return {**factors, AUTO: sum(row["replay_s"] / row["auto_s"] for row in rows) / len(rows)}


def print_speedups(title: str, groups: dict[str, list[dict[str, Any]]]) -> None:
    """Print mean times and mean factors, a line for each group of questions."""
    print(f"\n{title}; {WARM}")
    names = [*RULE_NAMES, AUTO]
    print(f"  {'':8} {'n':>4} {REPLAY + ' ms':>10} " + " ".join(f"{name:>9}" for name in names))
    for group, rows in groups.items():
        replayed = 1e3 * sum(row["replay_s"] for row in rows) / len(rows)
        factors = mean_speedups(rows)
        cells = (f"{factors[name]:8.2f}x" for name in names)
        print(f"  {group:8} {len(rows):4} {replayed:10.1f} {' '.join(cells)}")
    rows = [row for found in groups.values() for row in found]
    switched = sum(bool(row["switched"]) for row in rows)
    if switched:
        print(f"  in {switched} questions the engine left a plan once it knew its intervals")


def grouped(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows by their group, in order."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    return groups


def draw_speedups(
    name: str, groups: Mapping[str, Sequence[dict[str, Any]]], options: argparse.Namespace
) -> None:
    """Draw the mean run time, and how many times as fast as the full replay strategies are."""
    labels = list(groups)
    figure, (times, factors) = figures.new_figure(2)
    figures.bars(
        times,
        labels,
        {
            "Replay": [1e3 * mean(row["replay_s"] for row in rows) for rows in groups.values()],
            "auto": [1e3 * mean(row["auto_s"] for row in rows) for rows in groups.values()],
        },
    )
    times.set(ylabel="mean run time, ms", yscale="log", title="(a)")
    speedups = [mean_speedups(rows) for rows in groups.values()]
    shown = (*RULE_NAMES, AUTO)
    figures.bars(factors, labels, {name: [found[name] for found in speedups] for name in shown})
    factors.axhline(1.0, color="grey", linewidth=0.8)
    factors.set(ylabel="mean times as fast as Replay", yscale="log", title="(b)")
    figures.save(figure, name, figure_folder(options))


def errors_of(rows: Sequence[dict[str, Any]], strategy: str) -> list[float]:
    """Return the thesis' ErrPIO of a strategy's plans: relative errors of the blocks to be read.

    Questions that touch no block have none.
    """
    errors = [_error_of(row, strategy) for row in rows]
    return [error for error in errors if error is not None]


def _error_of(row: dict[str, Any], strategy: str) -> float | None:
    if strategy == PRINTED:
        printed = row["printed"]
        return None if printed is None else relative_error(printed, row["actual"]["Optimal"])
    return relative_error(row["estimated"][strategy], row["actual"][strategy])
