"""Figures 5.8 to 5.14 and 5.18: temporal patterns, in shape: what is told are ratios.

ISEQ is a matcher that waits for ends, as ours does with EMIT FINAL; other systems are those of
`benchmarks.situations`. Batches and threads over time (5.18) are those that the thesis' model asks
for; one thread takes all pushes, by whose time the rates of more are told.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import mean, median
from time import thread_time
from typing import Any

import numpy as np
import pyarrow as pa

import replay
from benchmarks import situations
from benchmarks.harness import Side, Timing, fail, interleave, quantiles
from benchmarks.thesis import figures
from benchmarks.thesis.common import figure_folder, new_parser, report
from costmodel.tuning import Load, Tuning, batch_size, tuned
from datasets import switching, traffic
from datasets.synthetic import SEED
from replay.language import allen

NAME = "thesis_situations"
N_CARS = 100
RANDOM = ("Chain", "Star", "Combined")
TOLD_EARLY = ("before", "meets", "overlaps", "starts", "during", "contains")
"""Relations that are certain before both ends are known: those that end together are not."""

WORKLOAD = (20e6, 10e6, 5e6, 1e6, 5e6, 10e6, 20e6)
"""Events a second offered, phase by phase, as in the thesis, 20 M for "as many as possible"."""

PUSHES = 3
"""Of each second, that tell what a batch takes."""

BATCH_RATE = 1_000.0
"""Batches a second, as a push takes a millisecond here; the thesis has 100,000."""

N_THREADS = 8

SIMPLE = """FROM cars PARTITION BY car ORDER BY t
DEFINE A AS accel > 8, B AS speed > 70, C AS accel < -9
PATTERN A meets;overlaps B AND B meets;overlaps C AND A before C WITHIN 300"""

Found = dict[str, Any]


def sizes(seconds: int, rounds: int) -> Found:
    """Fig. 5.8: time grows with the events as a line does, and hardly with alternatives."""
    found: Found = {}
    queries = {"full": situations.EARLY, "simplified": SIMPLE}
    tables = {k: traffic.generate(N_CARS, k * seconds // 4) for k in (1, 2, 4)}
    sides = [
        Side(f"{name} {k}", partial(replay.query, {"cars": table}, sql))
        for name, sql in queries.items()
        for k, table in tables.items()
    ]
    timings = {timing.name: timing.cpu_s for timing in interleave(sides, rounds=rounds)}
    for name in queries:
        found[name] = {k: timings[f"{name} {k}"] / timings[f"{name} 1"] / k for k in tables}
    found["full over simplified"] = {
        k: timings[f"full {k}"] / timings[f"simplified {k}"] for k in tables
    }
    return found


def windows(seconds: int, rounds: int) -> Found:
    """Figs. 5.9 and 5.12 a: a disconnected pattern by window, in all and for each match."""
    measured = situations.windows(seconds, rounds)
    taken = [timing.cpu_s for timing in measured.timings]
    counts = [int(name.split(", ", 1)[1].split()[0].replace(",", "")) for name in measured.seen]
    each = [one / max(n, 1) for one, n in zip(taken, counts, strict=True)]
    return {
        timing.name: {"matches": n, "in all": one / taken[0], "for each": per / each[0]}
        for timing, n, one, per in zip(measured.timings, counts, taken, each, strict=True)
    }


def patterns(seconds: int, n_queries: int, rounds: int) -> Found:
    """Fig. 5.10: time by situations, each over that of the same pattern's median with four."""
    random = np.random.default_rng([SEED, 510])
    table = switching.generate(seconds, 10)
    found: Found = {}
    for kind in ("Equal", "Meets", *RANDOM):
        taken = {}
        for n in (4, 6, 8, 10):
            sides = []
            for number in range(n_queries if kind in RANDOM else 1):
                sql = _pattern(kind, n, random)
                sides.append(Side(f"{number}", partial(replay.query, {"s": table}, sql)))
            taken[n] = [timing.cpu_s for timing in interleave(sides, rounds=rounds)]
        first = quantiles(taken[4], (0.5,))[0]
        found[kind] = {
            n: [q / first for q in quantiles(s, (0.25, 0.5, 0.75))] for n, s in taken.items()
        }
    return found


def _pattern(kind: str, n: int, random: np.random.Generator) -> str:
    """Return a query of n situations related in a chain, to the first, or half and half."""
    fixed = {"Equal": "equals", "Meets": "meets"}.get(kind)
    chained = {"Star": 1, "Combined": n // 2}.get(kind, n)
    terms = []
    for place in range(1, n):
        relation = fixed or random.choice(list(allen.BITS))
        terms.append(f"S{place - 1 if place < chained else 0} {relation} S{place}")
    defines = ", ".join(f"S{place} AS c{place}" for place in range(n))
    return f"FROM s ORDER BY t DEFINE {defines} PATTERN {' AND '.join(terms)} WITHIN 2000"


def latency(seconds: int) -> Found:
    """Figs. 5.11 and 5.12 b: how soon a match is told, over how soon it is with EMIT FINAL.

    With an event a second what lies between is the event latency of whoever waits for ends; that of
    EMIT EARLY is none, as `advance` tells a match with the event that makes it certain.
    """
    found: Found = {}
    for name, lasts in {"2:1": 0.5, "1:1": 1.0, "1:2": 2.0}.items():
        on = (int(10 * lasts), int(100 * lasts))
        columns = [
            switching.generate(seconds, 1, on=span, seed=SEED + k)["c0"]
            for k, span in enumerate(((10, 100), on))
        ]
        table = pa.table([pa.array(np.arange(seconds)), *columns], names=["t", "a", "b"])
        found[name] = {relation: _latency(table, relation) for relation in TOLD_EARLY}
    return found


def _latency(table: pa.Table, relation: str) -> dict[str, float]:
    sql = f"FROM s ORDER BY t DEFINE A AS a, B AS b PATTERN A {relation} B WITHIN 1000 EMIT "
    early, final = (
        replay.query({"s": table}, sql + emit).table.to_pylist() for emit in ("EARLY", "FINAL")
    )
    told = {(row["A_start"], row["B_start"]): row["detection_time"] for row in early}
    known = {(row["A_start"], row["B_start"]): row["detection_time"] for row in final}
    if not known.keys() <= told.keys():
        fail(f"{relation}: EMIT FINAL tells what EMIT EARLY does not")
    shares = [(told[starts] - min(starts)) / (end - min(starts)) for starts, end in known.items()]
    waits = [end - told[starts] for starts, end in known.items()]
    if not shares:
        return {"n": 0}
    return {"n": len(shares), "relative": mean(shares), "event_latency_s": mean(waits)}


def orders(seconds: int, rounds: int) -> Found:
    """Figs. 5.13 and 5.14: the orders taken over the best, and the worst over it."""
    measured = situations.orders(seconds, rounds)
    found: Found = {}
    for name in ("Q1", "Q2", "Q3", "Q3 in 1:1:1, 1:50:50, 50:1:50"):
        own = [t for t in measured.timings if t.name.startswith(f"{name} ") and _is_of(t, name)]
        taken, fixed = own[0], own[1:]
        n_phases = len(fixed) // 6
        by_order = [
            sum(t.cpu_s for t in fixed[i : i + n_phases]) for i in range(0, len(fixed), n_phases)
        ]
        best = sum(min(t.cpu_s for t in fixed[i::n_phases]) for i in range(n_phases))
        found[name] = {
            "as it is seen": taken.cpu_s / best,
            "best of one order": min(by_order) / best,
            "worst": max(by_order) / best,
        }
    return found


def _is_of(timing: Timing, name: str) -> bool:
    return (" in " in name) == (" in " in timing.name)


def tuning(phase_s: int) -> Found:
    """Fig. 5.18: batch sizes and threads as the rate of events falls and rises again.

    It is tuned once a second. Rates are only said: of a second some batches are pushed, and what
    they take tells how many events a second so many threads could have taken.
    """
    most = batch_size(max(WORKLOAD), BATCH_RATE)
    n_rows = len(WORKLOAD) * phase_s * PUSHES * most
    cars = traffic.generate(N_CARS, n_rows // N_CARS + 1)
    table = switching.generate(n_rows, 4)
    asked = {
        "aggressive drivers": (cars, "cars", situations.EARLY, Tuning(256, N_THREADS)),
        "disconnected, 20,000 s": (
            table,
            "s",
            situations.DISCONNECTED.format(20_000),
            Tuning(256, N_THREADS),
        ),
        "disconnected, 500 s": (
            table,
            "s",
            situations.DISCONNECTED.format(500),
            Tuning(512, N_THREADS),
        ),
    }
    return {name: _tuned(phase_s, *of) for name, of in asked.items()}


def _tuned(phase_s: int, table: pa.Table, name: str, sql: str, initial: Tuning) -> Found:
    flow, found, timeline = replay.online(sql, table.schema, time="t"), [], []
    at, chosen, spent = 0, initial, 0.0
    for offered in WORKLOAD:
        for _ in range(phase_s):
            taken = []
            for _ in range(PUSHES):
                began = thread_time()
                found.append(flow.push(table.slice(at, chosen.batch)))
                taken.append(thread_time() - began)
                at += chosen.batch
            took, spent = median(taken), spent + sum(taken)
            rate = min(offered, chosen.n_threads * chosen.batch / took)
            timeline.append({"rate": offered, "batch": chosen.batch, "threads": chosen.n_threads})
            chosen = tuned(Load(rate, chosen.batch, took), BATCH_RATE, N_THREADS)
    rows = table.slice(0, at)
    fixed, began = replay.online(sql, table.schema, time="t"), thread_time()
    pieces = [fixed.push(rows.slice(first, initial.batch)) for first in range(0, at, initial.batch)]
    fixed_s = thread_time() - began
    whole = replay.query({name: rows}, sql).table
    for flow_, parts in ((flow, found), (fixed, pieces)):
        if not pa.concat_tables([*parts, flow_.finish()]).equals(whole):
            fail(f"pushes of {name} give other matches than a query")
    last = timeline[phase_s - 1 :: phase_s]
    return {
        "phases": {f"{k + 1}, {one['rate'] / 1e6:g} M/s": one for k, one in enumerate(last)},
        "timeline": timeline,
        "events": at,
        "fixed over tuned": fixed_s / spent,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("situations", __doc__)
    parser.add_argument("--seconds", type=int, default=200_000, help="of booleans")
    parser.add_argument("--cars", type=int, default=10_000, help=f"seconds of {N_CARS} cars")
    parser.add_argument("--queries", type=int, default=10, help="of each random pattern")
    parser.add_argument("--phase", type=int, default=5, help="seconds of a rate that changes")
    options = parser.parse_args(arguments)
    seconds, rounds = options.seconds, options.rounds
    run: dict[str, Callable[[], Found]] = {
        "5.8": lambda: sizes(options.cars, rounds),
        "5.9 and 5.12 a": lambda: windows(seconds, rounds),
        "5.10": lambda: patterns(seconds // 4, options.queries, rounds),
        "5.11 and 5.12 b": lambda: latency(seconds // 4),
        "5.13 and 5.14": lambda: orders(seconds // 4, rounds),
        "5.18": lambda: tuning(options.phase),
    }
    found = {}
    for figure, ask in run.items():
        found[figure] = ask()
        print(f"\nFig. {figure}")
        for name, row in found[figure].items():
            told = {key: value for key, value in row.items() if key != "timeline"}
            print(f"  {name:<32} {_words(told)}")
    if not options.no_figures:
        draw(found, options)
    report(NAME, options, {"figures": found})


def _words(row: Any) -> str:
    if isinstance(row, dict):
        return "  ".join(f"{key}: {_words(value)}" for key, value in row.items())
    if isinstance(row, list):
        return " ".join(map(_words, row))
    return f"{row:.2f}" if isinstance(row, float) else f"{row}"


def draw(found: Found, options: Any) -> None:
    """Draw what is told early, and what orders take."""
    figure, (early, taken) = figures.new_figure(2)
    relative = {
        name: [row[relation].get("relative", 0.0) for relation in TOLD_EARLY]
        for name, row in found["5.11 and 5.12 b"].items()
    }
    figures.bars(early, TOLD_EARLY, relative)
    early.set(ylabel="detected, over EMIT FINAL", title="5.11")
    kinds = list(found["5.13 and 5.14"].values())
    names = ["Q1", "Q2", "Q3", "Q3, changing"]
    figures.bars(taken, names, {kind: [row[kind] for row in kinds] for kind in kinds[0]})
    taken.set(ylabel="time, over the best", title="5.13, 5.14")
    figures.save(figure, "fig_5_11", figure_folder(options))
    figure, panels = figures.new_figure(len(found["5.18"]))
    for panel, (name, row) in zip(panels, found["5.18"].items(), strict=True):
        of_threads = panel.twinx()
        for axis, key, colour in ((panel, "batch", "C0"), (of_threads, "threads", "C1")):
            axis.step(range(len(row["timeline"])), [one[key] for one in row["timeline"]], colour)
            axis.set_ylabel(key, color=colour)
        panel.set(xlabel="seconds", title=f"5.18: {name}")
    figures.save(figure, "fig_5_18", figure_folder(options))


if __name__ == "__main__":
    main()
