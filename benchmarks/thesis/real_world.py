"""Figure 3.15: the crime questions and the landings, replayed in full and with indexes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.harness import WARM
from benchmarks.planned import Question, first_runs, race
from benchmarks.thesis import crimes, figures, landings
from benchmarks.thesis.common import AUTO, FULL, figure_folder, new_parser, report

NAME = "thesis_real_world"


def compare(question: Question, rounds: int) -> dict[str, Any]:
    """Return the times of ``auto`` and of the full replay, their answers found equal."""
    runs = first_runs(question, [AUTO])
    timed = race(question, [FULL, AUTO], rounds)
    result = runs[AUTO][0]
    return {
        "n_events": question.statistics.n_events,
        "n_matches": len(result),
        "plan": FULL if result.plan is None else result.plan.name,
        "replay_s": timed[FULL].median_s,
        "auto_s": timed[AUTO].median_s,
        "speedup": timed[FULL].median_s / timed[AUTO].median_s,
        "timings": list(timed.values()),
    }


def draw(found: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    """Draw run times of both ways."""
    figure, (panel,) = figures.new_figure(1)
    series = {
        "Replay": [1e3 * one["replay_s"] for one in found.values()],
        "auto": [1e3 * one["auto_s"] for one in found.values()],
    }
    figures.bars(panel, list(found), series)
    panel.set(ylabel="run time, ms", yscale="log")
    figures.save(figure, "fig_3_15", figure_folder(options))


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("real_world", __doc__)
    parser.add_argument("--data", type=Path, help="folder with the file of flights")
    parser.add_argument("--times", type=int, default=20, help="copies of the crimes")
    parser.add_argument("--real-events", type=int, help="take only so many events of a copy")
    options = parser.parse_args(arguments)
    questions = {}
    for times in dict.fromkeys((1, options.times)):
        opened = crimes.open_questions(argparse.Namespace(**{**vars(options), "times": times}))
        label = "" if times == 1 else f" x{times}"
        questions |= {f"Crime {name}{label}": question for name, question in opened.items()}
    if options.data is None:
        print("landings are left out, as no --data tells where the flights are")
    else:
        one = argparse.Namespace(**{**vars(options), "times": 1})
        questions["Landings"] = landings.open_question(one)
    found = {name: compare(question, options.rounds) for name, question in questions.items()}
    print(f"\nFig. 3.15: full replay against the planner's choice; {WARM}")
    for name, result in found.items():
        print(
            f"  {name:22} {result['n_events']:>10,} events {result['n_matches']:5} matches  "
            f"replay {1e3 * result['replay_s']:8.1f} ms  auto {1e3 * result['auto_s']:8.1f} ms"
            f"  {result['speedup']:7.1f}x  {result['plan']}"
        )
    if not options.no_figures:
        draw(found, options)
    report(NAME, options, {"questions": found})


if __name__ == "__main__":
    main()
