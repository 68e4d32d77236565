"""Puts measured numbers into docs/experiments.md, beside the thesis' figures and the goals."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS
from chronicle import config

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "experiments.md"
FIGURES = "figures"

Results = dict[str, Any]

MISSING = "-"

CHANCES = 1_000
"""Draws from which the error of a perfect estimate is told."""


def times(value: float) -> str:
    """Return a factor as it is written in the tables."""
    return f"{value:.0f}x" if value >= 20 else f"{value:.1f}x"


def percent(value: float) -> str:
    """Return a share as it is written in the tables."""
    return f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.1f} %"


def _by_m(summary: Results, tell: Callable[[Results], str]) -> str:
    return ", ".join(f"{name.removeprefix('m=')}: {tell(one)}" for name, one in summary.items())


def _quantile(errors: Results, name: str, index: int) -> str:
    return percent(errors[name][index]) if name in errors else MISSING


def _size(results: Results, group: str) -> str:
    """Return the events, and how many questions each group has."""
    n = max(one["n"] for one in results["summary"].values())
    return f"{results['n_events']:,}, {n} for each {group}"


def by_chance(results: Results, strategy: str) -> str:
    """Return the median error of the blocks if estimates were right and blocks fell by chance."""
    n_blocks = -(-results["n_events"] // config.BLOCK_EVENTS)
    told = []
    for name in results["summary"]:
        rows = [row for row in results["questions"] if row["group"] == name]
        estimated = np.array([row["estimated"][strategy] for row in rows])
        share = np.clip(estimated / n_blocks, 0.0, 1.0)
        drawn = np.random.default_rng(0).binomial(n_blocks, share, (CHANCES, len(rows)))
        errors = np.abs(drawn - estimated)[drawn > 0] / drawn[drawn > 0]
        middle = percent(float(np.median(errors))) if len(errors) else MISSING
        told.append(f"{name.removeprefix('m=')}: {middle}")
    return ", ".join(told)


def figure_9(results: Results) -> Iterator[str]:
    """Give ours for the rows of ``PAPER["3.9"]``."""
    summary = results["summary"]
    rows = results["questions"]
    yield _size(results, "m")
    yield _by_m(summary, lambda one: f"{one['replay_ms']:.0f} ms")
    yield _by_m(summary, lambda one: times(one["speedup"]["auto"]))
    yield times(max(one["best"] for one in summary.values()))
    for name in ("All", "Budget", "Greedy", "Optimal"):
        yield _by_m(summary, lambda one, name=name: times(one["speedup"][name]))
    gains = [row["seconds"]["Greedy"] / row["seconds"]["Optimal"] for row in rows]
    yield f"{mean(gains):.2f}, up to {max(gains):.1f}"


def figure_10(results: Results) -> Iterator[str]:
    """Give ours for the rows of ``PAPER["3.10"]``."""
    summary = results["summary"]
    for name, index in (("Optimal*", 2), ("Optimal*", 4), ("printed", 2)):
        yield _by_m(
            summary, lambda one, name=name, index=index: _quantile(one["errors"], name, index)
        )
    yield by_chance(results, "Optimal*")


def figure_11(results: Results) -> Iterator[str]:
    """Give ours for the rows of ``PAPER["3.11"]``."""
    summary = results["summary"]
    yield _by_m(summary, lambda one: f"{one['selection']['Optimal']['ms']:.1f} ms")
    yield _by_m(summary, lambda one: f"{one['selection']['Optimal']['examined']:,.0f}")


def figure_12(results: Results) -> Iterator[str]:
    """Give ours for the rows of ``PAPER["3.12"]``."""
    errors = [row["error"] for row in results["plans"] if row["error"] is not None]
    yield percent(mean(errors))
    yield f"{sum(error > 0.3 for error in errors)} of {len(results['plans'])}"
    yield f"{results['rank_correlation']:.2f}"
    yield f"{results['rank']}., {results['regret']:.2f}x the best, planning included"


def figure_13(results: Results) -> Iterator[str]:
    """Give ours for the rows of ``PAPER["3.13"]``."""
    summary = results["summary"]
    yield _size(results, "attribute")
    for name in ("Budget", "Greedy", "Optimal", "Greedy*", "Optimal*", "auto"):
        yield _by_m(summary, lambda one, name=name: times(one["speedup"][name]))


def figure_14(results: Results) -> Iterator[str]:
    """Give ours for the rows of ``PAPER["3.14"]``."""
    for way in ("without the coarse map", "with it"):
        yield _by_m(results["summary"], lambda one, way=way: _quantile(one["errors"], way, 1))
    yield by_chance(results, "Optimal*")


def figure_15(results: Results) -> Iterator[str]:
    """Give ours for the rows of ``PAPER["3.15"]``."""
    for wanted in ("Crime Q1", "Crime Q2", "Landings"):
        found = [
            f"{times(one['speedup'])} ({one['n_events']:,} events)"
            for name, one in results["questions"].items()
            if name.startswith(wanted)
        ]
        yield ", ".join(found) or MISSING


def figure_16(results: Results) -> Iterator[str]:
    """Give ours for the rows of ``PAPER["3.16"]``."""
    for one in results["variants"].values():
        yield f"{one['rank']}. of {len(one['plans'])}, {one['regret']:.2f}x the best"
    for one in results["variants"].values():
        low = sum(row["estimated_blocks"] < row["actual_blocks"] for row in one["plans"])
        yield f"{low} of {len(one['plans'])} plans too low"
    yield ", ".join(f"{one['rank_correlation']:.2f}" for one in results["variants"].values())


def figure_17(results: Results) -> Iterator[str]:
    """Give ours for the rows of ``PAPER["3.17"]``."""
    worse = sum(row["seconds"] > results["replay_s"] for row in results["plans"])
    yield f"{worse} of {len(results['plans'])}"
    for one in results["ways"].values():
        yield f"{times(results['replay_s'] / one['seconds'])} ({one['rank']}. by time)"
    yield times(results["replay_s"] / results["auto_s"])
    for one in results["ways"].values():
        yield f"median {percent(median(one['errors']))}, worst {percent(max(one['errors']))}"


def goals(results: Results) -> Iterator[str]:
    """Give ours for the rows of ``PAPER["goals"]``."""
    by_set = {row["set"]: row for row in results["summary"]["p2"]}
    eight = by_set.get("synthetic A5, m=8")
    yield f"{times(eight['mean'])} mean, {times(eight['best'])} best" if eight else MISSING
    for name in (
        "crimes, Q1",
        "crimes_composite, Q1",
        "crimes20, Q1",
        "crimes20_composite, Q1",
        "aircraft, Q1",
        "aircraft_long, Q1",
        "flights, Q1",
        "ticks, Q1",
    ):
        yield _speedups(by_set[name]) if name in by_set else MISSING
    n, broken = (sum(row[key] for row in by_set.values()) for key in ("n", "broken"))
    yield f"{broken} of {n}"
    yield _regrets(results, "ratio")
    yield _regrets(results, "choice_ratio")
    yield _planning(by_set, "synthetic A5, m=8")
    yield _planning(by_set, "synthetic A5, m=32")
    for name in ("partition", "delta"):
        yield _speedups(by_set[name]) if name in by_set else MISSING


def _speedups(row: Results) -> str:
    """Return factors by wall time, first asked and asked again, and by time of all cores."""
    first, again, cpu = (times(row[name]) for name in ("mean", "again", "cpu"))
    return f"{first}, asked again {again} (time of all cores: {cpu})"


def _regrets(results: Results, name: str) -> str:
    """Return mean and worst of a ratio by group of questions, of those that have it."""
    found = {group: [row.get(name) for row in rows] for group, rows in results["regrets"].items()}
    known = {group: [r for r in ratios if r is not None] for group, ratios in found.items()}
    told = [f"{group}: {mean(r):.2f}, {max(r):.2f}" for group, r in known.items() if r]
    return "; ".join(told) or MISSING


def _planning(by_set: dict[str, Results], name: str) -> str:
    if name not in by_set:
        return MISSING
    row = by_set[name]
    return f"{row['plan_ms_median']:.1f} ms, at most {row['plan_ms_worst']:.1f} ms"


PAPER: dict[str, list[tuple[str, str]]] = {
    "3.9": [
        ("events, questions", "50,000,000 of 128 bytes, 100 for each m"),
        ("full replay, mean, by m", "about 20 s"),
        ("planner's choice, mean, by m", "up to an order of magnitude"),
        ("planner's choice, best", "20x"),
        ("All, mean, by m", "down to 0.2x"),
        ("Budget, mean, by m", "little above 1x, at best 5x"),
        ("Greedy, mean, by m", "up to 20x at best"),
        ("Optimal, mean, by m", "up to 20x at best"),
        ("Optimal over Greedy", "1.2, up to 2"),
    ],
    "3.10": [
        ("median, by m", "great majority below 5 %"),
        ("95th percentile, by m", "slightly more at m = 32"),
        ("(3.5) to (3.7) as printed, median, by m", "below 5 % (of pages of 64 events)"),
        ("chance alone, median, by m", "small, of 780,000 pages"),
    ],
    "3.11": [
        ("Optimal, mean time, by m", "70 ms at m = 32"),
        ("Optimal, sets examined, by m", "1,689 of 2^32 at m = 32"),
    ],
    "3.12": [
        ("mean ErrPIO", "below 5 %"),
        ("plans above 30 %", "5 of 256"),
        ("rank correlation of estimated cost and time", "small differences (drawn)"),
        ("the plan chosen, by time", "not said"),
    ],
    "3.13": [
        ("events, questions", "50,000,000"),
        ("Budget, mean, A1 to A5", "slightly better than replay"),
        ("Greedy, mean", "much the same on all, a little better on A1"),
        ("Optimal, mean", "about 1.2 times Greedy"),
        ("Greedy\\*, mean", "considerably better than Greedy on A1 to A3"),
        ("Optimal\\*, mean", "about 1.2 times Greedy\\*"),
        ("auto, mean", "no such strategy"),
    ],
    "3.14": [
        ("median without the map, A1 to A5", "extremely high on A1 to A3"),
        ("median with it", "low in all cases"),
        ("chance alone, median", "small, of 780,000 pages"),
    ],
    "3.15": [
        ("Crime Q1", "two orders of magnitude (7 M events)"),
        ("Crime Q2", "one order of magnitude (7 M events)"),
        ("Landings", "as Crime Q2 (50 M events)"),
    ],
    "3.16": [
        ("variant 1, the plan chosen by time", "1. of 64"),
        ("variant 2, the plan chosen by time", "4. of 512"),
        ("variant 1, primary I/O", "tends to be too low"),
        ("variant 2, primary I/O", "tends to be too low"),
        ("rank correlation of cost and time, variants 1 and 2", "good ranking (drawn)"),
    ],
    "3.17": [
        ("plans slower than a full replay", "many of 64"),
        ("choice without a map", "at least 3x"),
        ("choice with the coarse map", "at least 3x (658 buckets)"),
        ("auto, planning included", "no such strategy"),
        ("ErrPIO without a map", "up to a factor 5"),
        ("ErrPIO with the coarse map", "up to a factor 5"),
    ],
    "goals": [
        ("P2, 8 symbols on A5", "5x mean, 20x best"),
        ("P2, rare crime question", "10x"),
        ("P2, the same, kind and place in one index", "10x"),
        ("P2, the same over 20 copies", "100x"),
        ("P2, over 20 copies, kind and place in one index", "100x"),
        ("P2, landings of one aircraft", "5x"),
        ("P2, the same over as many events as the thesis has", "5x (thesis: 3x)"),
        ("P2, landings of all aircraft, by key", "5x"),
        ("P2, equity ticks, large trades", "no number set"),
        ("P2b, questions slower than 1.1x plus 10 ms", "0"),
        ("P3, auto over the best plan: mean, worst", "1.10, 1.5"),
        ("P3, its choice over the best plan, both by name", "1.10, 1.5"),
        ("planning, 8 symbols: median, worst", "at most 10 ms"),
        ("planning, 32 symbols: median, worst", "at most 70 ms"),
        ("PARTITION BY, 1,000 keys", "10x"),
        ("six rises in a row", "5x"),
    ],
}
"""What stands in the left columns: the thesis' text and figures, or the goal."""

TABLES: dict[str, tuple[str, Callable[[Results], Iterator[str]]]] = {
    "3.9": ("thesis_uniform", figure_9),
    "3.10": ("thesis_uniform", figure_10),
    "3.11": ("thesis_uniform", figure_11),
    "3.12": ("thesis_single_query", figure_12),
    "3.13": ("thesis_skewed", figure_13),
    "3.14": ("thesis_skewed", figure_14),
    "3.15": ("thesis_real_world", figure_15),
    "3.16": ("thesis_crimes", figure_16),
    "3.17": ("thesis_landings", figure_17),
    "goals": ("plans", goals),
}
"""For each table, the results it is made from and what gives its right column."""


def table_of(name: str, results: Results | None) -> str:
    """Return one table as Markdown; without results its right column is empty."""
    label = "goal" if name == "goals" else "paper"
    said = PAPER[name]
    ours = [MISSING] * len(said) if results is None else list(TABLES[name][1](results))
    lines = [f"| | {label} | ours |", "| --- | --- | --- |"]
    lines += [
        f"| {what} | {paper} | {own} |" for (what, paper), own in zip(said, ours, strict=True)
    ]
    if results is not None:
        machine = results["machine"]
        lines += ["", f"Measured on {machine['cores']} cores, {machine['processor']}."]
    return "\n".join(lines)


def fill(text: str, folder: Path) -> tuple[str, list[str]]:
    """Return the document with every table that has results written anew, and their names.

    A table lies between ``<!-- table NAME -->`` and ``<!-- end -->``. One without results stays as
    it is, unless it is empty.
    """
    filled: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        name, before = found[1], found[2]
        file = folder / f"{TABLES[name][0]}.json"
        if not file.exists() and before.strip():
            return found[0]
        results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        if results is not None:
            filled.append(name)
        return f"<!-- table {name} -->\n\n{table_of(name, results)}\n\n<!-- end -->"

    pattern = re.compile(r"<!-- table (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
    return pattern.sub(replaced, text), filled


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thesis.tables", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    options = parser.parse_args(arguments)
    text, filled = fill(options.document.read_text(encoding="utf-8"), options.results)
    options.document.write_text(text, encoding="utf-8")
    drawn = sorted((options.results / FIGURES).glob("fig_*.svg"))
    if drawn:
        folder = options.document.parent / FIGURES
        folder.mkdir(exist_ok=True)
        for file in drawn:
            shutil.copy(file, folder / file.name)
    print(f"filled: {', '.join(filled) or 'nothing'}; {len(drawn)} figures copied")


if __name__ == "__main__":
    main()
