"""What the experiments share: options, the thesis' strategies, and how plans are timed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

from benchmarks import harness
from benchmarks.harness import RESULTS, WARM, quantiles, write_results
from benchmarks.planned import Question, first_runs, race, relative_error
from benchmarks.stores import synthetic_store
from benchmarks.thesis import figures
from chronicle import Store
from costmodel.thesis.selection import Strategy

REPLAY, FULL, AUTO = "Replay", "full", "auto"

PRINTED = "printed"
"""The thesis' printed formulas, which estimate Optimal's plan, among the strategies of errors."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A strategy, and whether it is told of the coarse pattern map."""

    name: str
    strategy: Strategy
    with_map: bool


RULES = (
    Rule("All", Strategy.ALL, False),
    Rule("Budget", Strategy.BUDGET, False),
    Rule("Greedy", Strategy.GREEDY, False),
    Rule("Pareto", Strategy.PARETO, False),
    Rule("Optimal", Strategy.OPTIMAL, False),
    Rule("Greedy*", Strategy.GREEDY, True),
    Rule("Optimal*", Strategy.OPTIMAL, True),
)
"""A star marks those that use the coarse pattern map for estimates, as in the thesis. Pareto is
Algorithm 3.2 as printed, Optimal the one corrected."""

RULE_NAMES = tuple(rule.name for rule in RULES)


@dataclass(frozen=True, slots=True)
class Picked:
    """What a strategy picks."""

    plan: str
    seconds: float
    """Time of the selection alone; features are given."""
    n_examined: int
    """Sets of lookups whose cost was estimated."""
    blocks: float
    """Blocks it estimates for its plan."""


def pick(question: Question) -> dict[str, Picked]:
    """Return what each strategy picks; where nothing is to be weighed, the one plan there is."""
    picked = {}
    for rule in RULES:
        features = question.features if rule.with_map else question.uniform_features
        if features is None or not question.conditions:
            only = question.chosen
            picked[rule.name] = Picked(only.name, 0.0, 0, only.estimated.blocks)
            continue
        question.select(rule.strategy, features)  # warm, as everything is that is timed
        started = perf_counter()
        plan, selection = question.select(rule.strategy, features)
        seconds = perf_counter() - started
        blocks = question.estimate_by(features, plan).blocks
        picked[rule.name] = Picked(plan, seconds, selection.n_examined, blocks)
    return picked


def new_parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options all experiments have."""
    parser = harness.new_parser(f"thesis.{module}", doc, rounds=3)
    parser.add_argument("--stores", type=Path, default=RESULTS, help="where stores are kept")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are written")
    parser.add_argument("--no-figures", action="store_true", help="needs no matplotlib")
    return parser


def add_synthetic(parser: argparse.ArgumentParser, *, queries: int) -> None:
    """Add the options of experiments over the synthetic stream."""
    parser.add_argument("--events", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--queries", type=int, default=queries, help="default: %(default)s")


def open_synthetic(options: argparse.Namespace) -> Store:
    """Return the synthetic store of the size that the options of `add_synthetic` say."""
    return synthetic_store(options.stores / f"store-synthetic-{options.events}", options.events)


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

    ``printed`` are the blocks that the thesis' printed formulas estimate for Optimal's plan.
    """
    picked = pick(question)
    plans = list(dict.fromkeys([*(choice.plan for choice in picked.values()), AUTO]))
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
    blocks = {plan: question.actual_blocks(plan) for plan in sorted(of_plan)}
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


def print_errors(
    groups: Mapping[str, Sequence[dict[str, Any]]],
    strategies: Mapping[str, str],
    shares: Sequence[float],
) -> dict[str, Any]:
    """Print and return quantiles of ErrPIO by group and by what the strategies are called."""
    found: dict[str, Any] = {group: {} for group in groups}
    for group, rows in groups.items():
        for label, strategy in strategies.items():
            errors = errors_of(rows, strategy)
            if errors:
                found[group][label] = quantiles(errors, shares)
                shown = " ".join(f"{q:8.1%}" for q in found[group][label])
                print(f"  {group:6} {label:24} {shown}")
    return found


def draw_errors(
    name: str,
    groups: Mapping[str, Sequence[dict[str, Any]]],
    strategies: Mapping[str, str],
    options: argparse.Namespace,
    *,
    log_from: float | None = None,
) -> None:
    """Draw ErrPIO of each group, a panel for each strategy; logarithms from ``log_from`` on."""
    figure, panels = figures.new_figure(len(strategies))
    for panel, (label, strategy) in zip(panels, strategies.items(), strict=True):
        errors = [[100 * e for e in errors_of(rows, strategy)] for rows in groups.values()]
        figures.boxes(panel, list(groups), errors)
        panel.set(ylabel="ErrPIO, %", title=label)
        if log_from is not None:
            figures.log_scale(panel, [e for found in errors for e in found], least=log_from)
    figures.save(figure, name, figure_folder(options))


def summaries(
    groups: Mapping[str, Sequence[dict[str, Any]]], errors: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return for each group its size, mean times, factors over the full replay and errors."""
    return {
        group: {
            "n": len(rows),
            "replay_ms": 1e3 * mean(row["replay_s"] for row in rows),
            "auto_ms": 1e3 * mean(row["auto_s"] for row in rows),
            "speedup": mean_speedups(rows),
            "best": max(row["replay_s"] / row["auto_s"] for row in rows),
            "errors": errors[group],
        }
        for group, rows in groups.items()
    }
