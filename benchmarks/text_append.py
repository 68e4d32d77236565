"""Text appended to a new stream: CSV with and without quotes, and JSON lines."""

from __future__ import annotations

import csv
import json
import random
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.harness import Timing, fail, new_parser, run_child, write_results

NAMES = ("Anna", "Bob, jr", 'O"Neil', "Zoë", "plain")
SEED = 1

CHILD = """
import json, sys, time
from pathlib import Path
from chronicle import create_store
from chronicle.ingest.local import AppendOptions, append_files
source, store = sys.argv[1:]
made = create_store(Path(store))
wall, cpu = time.perf_counter(), time.process_time()
append_files(made, "s", [source], AppendOptions(time="ts"))
took = [time.perf_counter() - wall, time.process_time() - cpu]
print(json.dumps([*took, made.stream("s").snapshot().n_events]))
"""


def write_files(folder: Path, n_events: int) -> dict[str, Path]:
    """Write the same events in every format; names with commas and quotes only where they may."""
    generator = random.Random(SEED)
    paths = {name: folder / name for name in ("quoted.csv", "plain.csv", "lines.jsonl")}
    files = {name: path.open("w", encoding="utf-8", newline="") for name, path in paths.items()}
    quoted = csv.writer(files["quoted.csv"], quoting=csv.QUOTE_ALL, lineterminator="\n")
    plain = csv.writer(files["plain.csv"], lineterminator="\n")
    columns = ("ts", "id", "speed", "name", "alt", "ok")
    quoted.writerow(columns)
    plain.writerow(columns)
    begin = datetime(2024, 1, 1)  # noqa: DTZ001 -- local times
    for n in range(n_events):
        time = str(begin + timedelta(seconds=n))
        speed, alt = round(100 * generator.random(), 3), generator.randrange(40_000)
        name, ok = generator.choice(NAMES), generator.choice(("true", "false"))
        quoted.writerow((time, n, speed, name, alt, ok))
        plain.writerow((time, n, speed, "Anna", alt, ok))
        row = (time, n, speed, name, alt, ok == "true")
        files["lines.jsonl"].write(json.dumps(dict(zip(columns, row, strict=True))) + "\n")
    for file in files.values():
        file.close()
    return paths


def append_once(source: Path, n_events: int) -> tuple[float, float]:
    """Append a file in a process of its own; return wall and CPU seconds."""
    with TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        wall, cpu, found = run_child("-c", CHILD, str(source), store)
    if found != n_events:
        fail(f"{source.name} became {found:,} events, not {n_events:,}")
    return wall, cpu


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("text_append", __doc__, rounds=3)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    timings = []
    with TemporaryDirectory() as folder:
        for name, path in write_files(Path(folder), options.events).items():
            rounds = [append_once(path, options.events) for _ in range(options.rounds)]
            walls, cpus = zip(*rounds, strict=True)
            timings.append(Timing(name, walls, cpu_rounds_s=cpus))
            print(f"{name}: {timings[-1].median_s:.2f} s, of a processor {timings[-1].cpu_s:.2f} s")
    write_results("text_append", {"n_events": options.events, "files": timings})


if __name__ == "__main__":
    main()
