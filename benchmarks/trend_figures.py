"""Figures 12 to 16 of A-Seq [1]_ and 5 to 13 of COGRA [2]_, in shape: ratios within one run.

Three ways of ours stand for the papers' opponents. *Made* stands for two steps (SASE, Flink): our
matching makes every match, in each window again, and counts them. *Row by row* stands for GRETA:
our event grain looks at every earlier row, where it has a tree. *By lengths* stands for A-Seq on a
Kleene plus: one query for each length, all asked at once. Two opponents are left out, because
nothing here works as they do: ECube, and an event grain that keeps all rows under SKIP TILL NEXT
and CONTIGUOUS. Of COGRA's memory figures only 8 is measured.

Streams are generated, and small enough for two steps to end within seconds. A time is the processor
time of all threads; 3 to 4 ms of it are parsing and planning, which bounds the ratios. Memory is
the peak of a process of its own, less its peak after it has asked the same of the first events.

References
----------
.. [1] Y. Qi, L. Cao, M. Ray, E. A. Rundensteiner, Complex event analytics: online aggregation of
   stream sequence patterns, SIGMOD 2014.
.. [2] O. Poppe, C. Lei, E. A. Rundensteiner, D. Maier, Event trend aggregation under rich event
   matching semantics, SIGMOD 2019.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyarrow import feather

import replay
from benchmarks.harness import RESULTS, Side, fail, interleave, new_parser, run_child, write_results
from benchmarks.memory import peak_mib
from benchmarks.trends import ABC, MADE, hop, letters, over, same, sliding
from datasets.synthetic import SEED
from replay.patterns.summing import event_grain

SUMMED, WAS_MADE, SCANNED, BY_LENGTHS = "summed", "made", "row by row", "by lengths"
TOGETHER, APART = "together", "apart"
ANY, NEXT, CONTIGUOUS = "SKIP TILL ANY", "SKIP TILL NEXT", "CONTIGUOUS"
N_TYPES = 5
N_SHARED_TYPES = 20
"""Of A-Seq's single queries, and of those that share a part."""
WARM_ROWS = 20

Found = dict[str, dict[str, Any]]
Ways = dict[str, Callable[[], list[pa.Table]]]


@dataclass(frozen=True, slots=True)
class Sized:
    """How much is asked, and how often."""

    scale: float
    rounds: int

    def events(self, n: int) -> int:
        """Return the number of events at this scale."""
        return max(4, int(self.scale * n))


@dataclass(frozen=True, slots=True)
class Trend:
    """A pattern with a Kleene plus, and how others ask for it."""

    pattern: str
    define: str
    linked: str
    """Conditions that also read the row before, and always hold: the grain is the event."""
    repeated: str
    """The pattern with a number in the place of the plus."""
    types: tuple[int, ...]
    """Those that the plus takes."""


TRIP = Trend(
    pattern="A B+ C",
    define=ABC,
    linked="A AS k = 0, B AS k = 1 AND t >= LAST(t, 1), C AS k = 2 AND t >= LAST(t, 1)",
    repeated="A B{{{}}} C",
    types=(1,),
)
"""COGRA's q2, a pick-up, a trip and a drop-off; and q4, a low rate, activities and a high one."""

STOCK = Trend(
    pattern="S T*",
    define="T AS v >= 0",
    linked="T AS t >= LAST(t, 1)",
    repeated="T{{{}}}",
    types=(0, 1, 2, 3),
)
"""COGRA's q3 without its condition: any trades of a sector."""

EVENT_RATES = {
    "5": (ANY, "activity", TRIP, 14, (200, 400, 600)),
    "6": (NEXT, "activity", TRIP, 14, (1_000, 10_000, 100_000)),
    "7": (CONTIGUOUS, "activity", TRIP, 14, (1_000, 10_000, 100_000)),
    "8": (ANY, "stock", STOCK, 10, (40, 80, 120)),
    "9": (NEXT, "trips", TRIP, 30, (1_000, 10_000, 100_000)),
    "11": (CONTIGUOUS, "trips", TRIP, 30, (1_000, 10_000, 100_000)),
}
"""COGRA's figures over events in a window: semantics, stream, trend, groups, and windows."""


EXACT = "CAST(COUNT(*) AS VARCHAR)"
"""The number of matches, however large it is."""


def count(
    pattern: str,
    define: str,
    windows: str,
    semantics: str = ANY,
    *,
    key: str = "",
    where: str = "",
    number: str = EXACT,
) -> str:
    """Return a query for the number of matches of each window and group."""
    groups = f"window_end{key and ', '}{key}"
    return (
        f"SELECT {groups}, {number} AS n FROM TABLE({windows}) MATCH_RECOGNIZE ("
        f"PARTITION BY window_start, {groups} ORDER BY t MEASURES FIRST(t) AS began "
        f"PATTERN ({pattern}) SEMANTICS {semantics} DEFINE {define}){where} "
        f"GROUP BY window_start, {groups}"
    )


def two_steps(*asked: str, key: str = "") -> dict[str, str]:
    """Return the query as we answer it, and so that each match is made."""
    return {SUMMED: count(*asked, key=key), WAS_MADE: count(*asked, key=key, where=MADE)}


def typed(types: Sequence[int]) -> tuple[str, str]:
    """Return a pattern of events of these types, and its conditions."""
    names = [f"S{k}" for k in types]
    return " ".join(names), ", ".join(f"{name} AS k = {name[1:]}" for name in names)


def overlapping(window: int) -> str:
    """Return windows of so many events, each of which begins in the middle of the one before."""
    return hop(window // 2, 2 * (window // 2))


def ask(table: pa.Table, *texts: str) -> list[pa.Table]:
    return [replay.query({"s": table}, sql).table for sql in texts]


def ask_at_once(table: pa.Table, *texts: str) -> list[pa.Table]:
    return [result.table for result in replay.query_many({"s": table}, texts)]


def scan(table: pa.Table, sql: str) -> list[pa.Table]:
    """Answer with a look at every row before."""
    with patch.object(event_grain, "ROWS_MIN", 1 << 62):
        return ask(table, sql)


def ways_of(table: pa.Table, texts: Mapping[str, str]) -> Ways:
    return {name: partial(ask, table, sql) for name, sql in texts.items()}


def at_once_or_apart(table: pa.Table, texts: Sequence[str]) -> Ways:
    return {TOGETHER: partial(ask_at_once, table, *texts), APART: partial(ask, table, *texts)}


def online(table: pa.Table, trend: Trend, window: int) -> Ways:
    """Return the ways that count without making matches, under SKIP TILL ANY."""
    of, g = partial(count, windows=overlapping(window), key="g"), table["g"].to_numpy()
    is_of = np.isin(table["k"].to_numpy(), trend.types)
    spans = [slice(at, at + window) for at in range(0, table.num_rows, window // 2)]
    most = max(int(np.bincount(g[span][is_of[span]]).max(initial=0)) for span in spans)
    lengths = [of(trend.repeated.format(n), trend.define) for n in range(1, most + 1)]
    return {
        SUMMED: partial(ask, table, of(trend.pattern, trend.define)),
        SCANNED: partial(scan, table, of(trend.pattern, trend.linked)),
        BY_LENGTHS: partial(ask_at_once, table, *lengths),
    }


def counts_of(answers: Sequence[pa.Table], n_queries: int) -> list[Counter[Any]]:
    """Return counts by window and group of each query; further answers add to the last one's."""
    counts: list[Counter[Any]] = [Counter() for _ in range(n_queries)]
    for place, answer in enumerate(answers):
        for *group, n in zip(*(column.to_pylist() for column in answer.columns), strict=True):
            counts[min(place, n_queries - 1)][tuple(group)] += int(n)
    return counts


def compare(what: str, cases: Mapping[str, Ways], rounds: int) -> Found:
    """Return what ways of each case take, over its first way and over the same in the first case.

    The benchmark ends where two ways of a case give other counts.
    """
    found: Found = {}
    for case, ways in cases.items():
        first, *others = (run() for run in ways.values())
        counts = counts_of(first, len(first))
        same(f"{what}, {case}", counts, *(counts_of(other, len(first)) for other in others))
        n_matches = sum(sum(by_group.values()) for by_group in counts)
        found[case] = {"log10 of matches": math.log10(max(n_matches, 1))}
    sides = [Side(name, run) for ways in cases.values() for name, run in ways.items()]
    timings = iter(interleave(sides, rounds=rounds, warm_up=False))  # they have all run
    taken = {case: {name: next(timings).cpu_s for name in ways} for case, ways in cases.items()}
    start = next(iter(taken.values()))
    for case, times in taken.items():
        base, base_s = next(iter(times.items()))
        over_base = {name: time_s / base_s for name, time_s in times.items() if name != base}
        grown = {name: time_s / start[name] for name, time_s in times.items() if name in start}
        found[case] |= {"ms": 1e3 * base_s, f"over {base}": over_base, "over the first": grown}
    return found


def memory(table: pa.Table, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the MiB that each query takes in a process of its own."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "events"
        feather.write_feather(table, file)
        asked = ("-m", "benchmarks.trend_figures", "--peak", str(file))
        return {"MiB": {name: run_child(*asked, given=sql) for name, sql in texts.items()}}


def tell_peak(file: Path, sql: str) -> None:
    """Be the process that is measured: warm up on a few events, then ask."""
    table = feather.read_table(file, memory_map=False)
    ask(table.slice(0, WARM_ROWS), sql)
    before = peak_mib()
    ask(table, sql)
    print(peak_mib() - before)


def pattern_lengths(sized: Sized) -> Found:
    """A-Seq 12: the length of the pattern."""
    table, windows = letters(sized.events(400), N_TYPES), sliding(sized.events(80))
    texts = {f"length {n}": two_steps(*typed(range(n)), windows) for n in range(2, 6)}
    ways = {case: ways_of(table, asked) for case, asked in texts.items()}
    found = compare("A-Seq 12", ways, sized.rounds)
    return {case: row | memory(table, texts[case]) for case, row in found.items()}


def window_sizes(sized: Sized) -> Found:
    """A-Seq 13: the size of the window, at length 3."""
    table = letters(sized.events(400), N_TYPES)
    sizes = [sized.events(size) for size in (10, 20, 50, 100)]
    texts = {f"window of {size}": two_steps("A B C", ABC, sliding(size)) for size in sizes}
    ways = {case: ways_of(table, asked) for case, asked in texts.items()}
    found = compare("A-Seq 13", ways, sized.rounds)
    return {case: row | memory(table, texts[case]) for case, row in found.items()}


def scalability(sized: Sized) -> Found:
    """A-Seq 14 a: what an event takes in long patterns, and where the least is made."""
    table, few = letters(sized.events(40_000), 10), letters(sized.events(400), N_TYPES)
    windows, small = sliding(sized.events(1_000)), sliding(sized.events(10))
    cases = {
        f"length {n}": ways_of(table, {SUMMED: count(*typed(range(n)), windows)})
        for n in range(6, 11)
    }
    least = {"length 2, small window": ways_of(few, two_steps(*typed(range(2)), small))}
    found = compare("A-Seq 14 a", cases, sized.rounds)
    (made,) = compare("A-Seq 14 a", least, sized.rounds).values()
    made_us = 1e3 * made["ms"] * made["over summed"][WAS_MADE] / few.num_rows
    for row in found.values():
        row["µs an event"] = 1e3 * row["ms"] / table.num_rows
        row["made at length 2, over it"] = made_us / row["µs an event"]
    return found


def negation(sized: Sized) -> Found:
    """A-Seq 14 b: DELL, IPIX, AMAT, and the same without a QQQ before the last."""
    table, windows = letters(sized.events(400), N_TYPES), sliding(sized.events(80))
    texts = {
        "without": two_steps("A B C", ABC, windows),
        "with !QQQ": two_steps("A B !X C", f"{ABC}, X AS k = 3", windows),
    }
    ways = {case: ways_of(table, asked) for case, asked in texts.items()}
    return compare("A-Seq 14 b", ways, sized.rounds)


def three_queries(sized: Sized) -> Found:
    """A-Seq 15: three queries, together, each alone, and with their matches made."""
    table, windows = letters(sized.events(400), N_TYPES + 3), sliding(sized.events(80))
    asked = [typed(chopped(place, 3, 2)) for place in range(3)]
    ways = at_once_or_apart(table, [count(*one, windows) for one in asked])
    made = partial(ask, table, *(count(*one, windows, where=MADE) for one in asked))
    return compare("A-Seq 15", {"3 queries": {**ways, WAS_MADE: made}}, sized.rounds)


def prefixed(place: int, n_queries: int, n_shared: int) -> list[int]:
    """Return the types of a query in a workload: they begin alike, and end as no other's."""
    return [*range(n_shared), n_shared + place, n_shared + n_queries + place]


def chopped(place: int, n_queries: int, n_shared: int) -> list[int]:
    """Return the types of a query in a workload: all but the first and last are alike."""
    return [n_shared + place, *range(n_shared), n_shared + n_queries + place]


def shared(part: str, types: Callable[[int, int, int], list[int]], sized: Sized) -> Found:
    """A-Seq 16: more queries that share three types (a, d), or three that share more (b, c)."""
    table, window = letters(sized.events(300_000), N_SHARED_TYPES), sized.events(1_000)
    history = partial(over, select=f"{EXACT} AS n")
    places = {
        "SLIDING": partial(count, windows=sliding(window), number="COUNT(*)"),
        "WITHIN": partial(history, within=f"WITHIN {window}"),
        "all history": history,
    }
    found: Found = {}
    for where, asked in places.items():
        cases = {}
        for varied in range(2, 7):
            n_queries, n_shared = (varied, 3) if part in "ad" else (3, varied)
            workload = [typed(types(place, n_queries, n_shared)) for place in range(n_queries)]
            name = f"{n_queries} queries share {n_shared}, {where}"
            cases[name] = at_once_or_apart(table, [asked(*one) for one in workload])
        found |= compare(f"A-Seq 16 {part}", cases, sized.rounds)
    return found


def stream(kind: str, n_events: int, n_groups: int) -> pa.Table:
    """Return events of groups; ``k`` is their type: A, B, C or another.

    Types are random; those of trips are A, six B and C in turn, every twentieth event another.
    """
    random = np.random.default_rng(SEED)
    g, v = random.integers(0, n_groups, n_events), random.random(n_events)
    k = random.choice(4, n_events, p=(0.1, 0.3, 0.1, 0.5))
    if kind == "trips":
        for one in range(n_groups):
            places = np.flatnonzero(g == one)
            k[places] = np.array([0, 1, 1, 1, 1, 1, 1, 2])[np.arange(len(places)) % 8]
        k[random.random(n_events) < 0.05] = 3
    return pa.table({"t": np.arange(n_events), "g": g, "k": k, "v": v})


def event_rates(figure: str, sized: Sized) -> Found:
    """COGRA 5 to 9 and 11: more events in a window, three windows' worth."""
    semantics, kind, trend, n_groups, sizes = EVENT_RATES[figure]
    cases, found_mib = {}, {}
    for window in map(sized.events, sizes):
        name, table = f"window of {window:,}", stream(kind, 3 * window, n_groups)
        asked = (trend.pattern, trend.define, overlapping(window), semantics)
        texts = two_steps(*asked, key="g")
        others = online(table, trend, window) if semantics == ANY else {}
        cases[name] = {**ways_of(table, texts), **others}
        found_mib[name] = memory(table, texts) if figure == "8" else {}
    found = compare(f"COGRA {figure}", cases, sized.rounds)
    return {name: row | found_mib[name] for name, row in found.items()}


def high_rate(sized: Sized) -> Found:
    """COGRA 10: windows of more events than two steps can count."""
    table = stream("stock", sized.events(20_000), 10)
    sizes = [table.num_rows // part for part in (80, 40, 20)]
    cases = {f"window of {size:,}": online(table, STOCK, size) for size in sizes}
    return compare("COGRA 10", cases, sized.rounds)


def grouping(sized: Sized) -> Found:
    """COGRA 12: trends grow longer with fewer groups."""
    window, cases = sized.events(120), {}
    for n_groups in (5, 10, 20, 30):
        table = stream("trips", 3 * window, n_groups)
        texts = two_steps(TRIP.pattern, TRIP.define, overlapping(window), key="g")
        cases[f"{n_groups} groups"] = {**ways_of(table, texts), **online(table, TRIP, window)}
    return compare("COGRA 12", cases, sized.rounds)


def selectivity(sized: Sized) -> Found:
    """COGRA 13: of pairs of rows, the more may follow each other."""
    window, large = sized.events(120), sized.events(5_000)
    low, high = stream("stock", 3 * window, 10), stream("stock", 3 * large, 10)
    made, scanned = dict[str, Ways](), dict[str, Ways]()
    for percent in (10, 30, 50, 70, 90):
        share = percent / 100  # of pairs v, w, each even in [0, 1), of which v < w + offset
        offset = (2 * share) ** 0.5 - 1 if share <= 0.5 else 1 - (2 - 2 * share) ** 0.5
        asked = (STOCK.pattern, f"T AS v < LAST(v, 1) + {offset:.6f}")
        made[f"{percent} %"] = ways_of(low, two_steps(*asked, overlapping(window), key="g"))
        sql = count(*asked, overlapping(large), key="g")
        ways: Ways = {SUMMED: partial(ask, high, sql), SCANNED: partial(scan, high, sql)}
        scanned[f"{percent} %, window of {large:,}"] = ways
    found = compare("COGRA 13", made, sized.rounds)
    return found | compare("COGRA 13", scanned, sized.rounds)


FIGURES: dict[str, tuple[str, Callable[[Sized], Found]]] = {
    "aseq-12": ("making exponential, sums constant: 16,736 times at length 5", pattern_lengths),
    "aseq-13": ("both grow with the window, making far faster", window_sizes),
    "aseq-14a": ("flat to length 10, there as the least made (0.02 ms an event)", scalability),
    "aseq-14b": ("almost nothing for sums, much for two steps", negation),
    "aseq-15": ("two steps at least 100 times both", three_queries),
    "aseq-16a": ("2 times with 2 to 6 queries", partial(shared, "a", prefixed)),
    "aseq-16b": ("3 times at a prefix of 2, 5 at 6", partial(shared, "b", prefixed)),
    "aseq-16c": ("1.3 times at 2, 2.6 at 6", partial(shared, "c", chopped)),
    "aseq-16d": ("2 times, more with more queries", partial(shared, "d", chopped)),
    "cogra-5": ("two steps 10^6 times at 30,000 events", partial(event_rates, "5")),
    "cogra-6": ("two steps similar to figure 5", partial(event_rates, "6")),
    "cogra-7": ("two steps 10^4 times at 4 M events", partial(event_rates, "7")),
    "cogra-8": ("two steps 10^3 times, 10^4 in memory, at 40,000", partial(event_rates, "8")),
    "cogra-9": ("two steps 10^4 times at 4 M events", partial(event_rates, "9")),
    "cogra-10": ("GRETA 10^4 times at 20 M events, A-Seq 10^3 at 100 M", high_rate),
    "cogra-11": ("two steps 10^3 times at 10 M events", partial(event_rates, "11")),
    "cogra-12": ("5 groups: two steps 10^4 times, GRETA 7, A-Seq 5", grouping),
    "cogra-13": ("two steps 100 to 1,000 times, GRETA 2 at 90 %", selectivity),
}
"""What a paper says of each figure, and what measures it here."""


def words(row: Mapping[str, Any]) -> str:
    """Return a row as text, with the values of a nested row in brackets."""
    told = (
        f"{key} ({words(value)})" if isinstance(value, dict) else f"{key} {value:.3g}"
        for key, value in row.items()
        if value != {}
    )
    return ", ".join(told)


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("trend_figures", __doc__, rounds=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of all streams and windows")
    parser.add_argument("--only", help="some figures, as aseq-12,cogra-5; default: all")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are written")
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.peak is not None:
        tell_peak(options.peak, sys.stdin.read())
        return
    wanted = list(FIGURES) if options.only is None else options.only.split(",")
    if unknown := sorted(set(wanted) - FIGURES.keys()):
        fail(f"--only takes some of {','.join(FIGURES)}, not {','.join(unknown)}")
    sized, found = Sized(options.scale, options.rounds), {}
    for figure in wanted:
        claim, measure = FIGURES[figure]
        rows = measure(sized)
        found[figure] = {"paper": claim, "rows": rows}
        print(f"\n{figure}; paper: {claim}")
        for name, row in rows.items():
            print(f"  {name:<34} {words(row)}", flush=True)
    write_results("trend_figures", {"scale": sized.scale, "figures": found}, folder=options.out)


if __name__ == "__main__":
    main()
