"""How everything here is measured: interleaved rounds, medians, spread, and equal answers first."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

import replay
from chronicle.compiled import compile_at_once
from replay.engines.weights import machine_facts

compile_at_once()

RESULTS = Path(__file__).resolve().parent / "results"
"""Measurements and the stores they need; git ignores it."""

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things compared."""

    name: str
    run: Callable[[], Any]
    note: str = ""
    """Which advantage it has over the others (warm cache, cores, columns), if any."""
    keeps: bool = False
    """Whether what the side before it left in caches is kept: it asks the same again."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall time of one side, in seconds for each call."""

    name: str
    rounds_s: tuple[float, ...]
    note: str = ""
    cpu_rounds_s: tuple[float, ...] = ()
    """Time of all the process' threads, where it was taken."""

    @property
    def median_s(self) -> float:
        """Median over the rounds."""
        return median(self.rounds_s)

    @property
    def cpu_s(self) -> float:
        """Median over the rounds of the processor's time."""
        return median(self.cpu_rounds_s)

    @property
    def spread(self) -> float:
        """Slowest round less the fastest, as a fraction of the median."""
        return (max(self.rounds_s) - min(self.rounds_s)) / self.median_s

    def to_dict(self) -> dict[str, Any]:
        """Return the timing for a JSON file."""
        return {**asdict(self), "median_s": self.median_s, "spread": self.spread}


@dataclass(frozen=True, slots=True)
class Measured:
    """A goal, and what was seen of it."""

    goal: str
    seen: dict[str, float]
    timings: Sequence[Timing] = ()

    def tell(self) -> None:
        """Print it."""
        print(f"\n{self.goal}")
        for name, value in self.seen.items():
            print(f"  {name:<44} {value:12,.3f}")
        for timing in self.timings:
            print(f"    {timing.name:<42} {1e3 * timing.cpu_s:12.1f} ms of processor time")


def ratio(one: Timing, other: Timing) -> float:
    """Return how many times as much processor time the other takes."""
    return other.cpu_s / one.cpu_s


WARM = (
    "kept answers of lookups, plans and compiled statements are forgotten before every timed call, "
    "outside the time; opened runs, footers, tree levels, times and keys of a few blocks and the "
    "pages the system keeps stay warm"
)
"""What a time of a query means, said beside every table of them."""


def forget() -> None:
    """Forget what would make asking again cheaper than asking: answers, plans, statements."""
    replay.clear_caches()


def interleave(
    sides: Sequence[Side],
    *,
    rounds: int = ROUNDS,
    calls: int = 1,
    before: Callable[[], None] | None = None,
    warm_up: bool = True,
) -> list[Timing]:
    """Time the sides in turn, A B A B, so that a slow minute of the machine hits all of them.

    Each is measured ``rounds`` times, with ``calls`` calls a measurement for what takes less than
    some milliseconds; times are per call. ``before`` is called before every measurement, outside
    its time, but for sides that keep caches. With ``warm_up`` each side is called once before the
    first round, unmeasured, so that caches and compiled code are warm.
    """
    for side in sides if warm_up else ():
        side.run()
    measured: list[list[tuple[float, float]]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, times in zip(sides, measured, strict=True):
            if before is not None and not side.keeps:
                before()
            started = perf_counter(), process_time()
            for _ in range(calls):
                side.run()
            ended = perf_counter(), process_time()
            times.append(((ended[0] - started[0]) / calls, (ended[1] - started[1]) / calls))
    return [
        Timing(side.name, tuple(t[0] for t in times), side.note, tuple(t[1] for t in times))
        for side, times in zip(sides, measured, strict=True)
    ]


def new_parser(program: str, doc: str | None, *, rounds: int = ROUNDS) -> argparse.ArgumentParser:
    """Return the parser of a program, which measures so many rounds by default."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{program}", description=doc)
    parser.add_argument("--rounds", type=int, default=rounds, help="default: %(default)s")
    return parser


def run_child(*arguments: str, given: str | None = None) -> Any:
    """Return the JSON that a process of its own prints, a Python with these arguments."""
    done = subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, input=given
    )
    return json.loads(done.stdout)


def speedup(timing: Timing, baseline: Timing) -> float:
    """Return how many times as long the baseline takes."""
    return baseline.median_s / timing.median_s


def quantiles(values: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Return the values below which these shares of all values lie, interpolated."""
    return [float(value) for value in np.quantile(np.asarray(values, dtype=np.float64), shares)]


def print_comparison(title: str, timings: Sequence[Timing], *, baseline: str) -> None:
    """Print medians, spreads and ratios against the side named ``baseline``."""
    against = next(timing for timing in timings if timing.name == baseline)
    print(f"\n{title}")
    width = max(len(timing.name) for timing in timings)
    for timing in timings:
        note = f"   ({timing.note})" if timing.note else ""
        print(
            f"  {timing.name:<{width}}  {1e3 * timing.median_s:10.2f} ms"
            f"  ±{50 * timing.spread:3.0f} %  {speedup(timing, against):8.2f}x {baseline}{note}"
        )


def machine() -> dict[str, Any]:
    """Return what the figures depend on besides the code."""
    versions = {name: version(name) for name in ("numba", "numpy", "pyarrow", "deltalake")}
    return {**machine_facts(), "system": platform.platform(), "versions": versions}


def write_results(name: str, results: dict[str, Any], *, folder: Path = RESULTS) -> None:
    """Write the results, timings among them, as JSON below ``folder`` and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    text = json.dumps({"machine": machine(), **results}, indent=2, default=Timing.to_dict)
    file.write_text(text + "\n")
    print(f"\nwritten to {os.path.relpath(file)}")


def measure_goals(
    name: str, options: argparse.Namespace, run: Mapping[str, Callable[[], Measured]], **about: Any
) -> None:
    """Measure what ``--only`` names, all of it by default; tell and write what was seen."""
    wanted = list(run) if options.only is None else options.only.split(",")
    unknown = sorted(set(wanted) - run.keys())
    if unknown:
        fail(f"--only takes some of {','.join(run)}, not {','.join(unknown)}")
    goals = {}
    for part in (part for part in run if part in wanted):
        found = run[part]()
        found.tell()
        goals[found.goal] = {"seen": found.seen, "timings": list(found.timings)}
    write_results(name, {**about, "goals": goals}, folder=options.stores)


def fail(reason: str) -> None:
    """End the benchmark with a reason: a time next to a wrong answer means nothing."""
    sys.exit(f"benchmark failed: {reason}")
