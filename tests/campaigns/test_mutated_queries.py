"""Whatever a query says: an answer, or an error of Chronicle with its place; soon, in some memory.

Mutations of the queries in docs, goldens and the pattern fuzz are asked of tables in memory and of
a store, online, and explained. Any other exception fails with seed and text of the query.
"""

from __future__ import annotations

import resource
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

import replay
from chronicle import Store, create_store
from chronicle.errors import ChronicleError
from replay.errors import BindError, PatternSyntaxError
from replay.running.online_query import OnlineQuery
from tests.helpers import fill_stream
from tests.pattern_cases import pattern_case
from tests.query_mutations import mutated_query
from tests.strategies import SmallStream
from tests.unit.language.test_error_messages import SCHEMA as CRIMES

HANGS_AFTER_S = 120
"""A query that takes longer is said to hang: the slowest takes some seconds on one busy core."""

MEMORY_MORE = 4 << 30
"""Bytes a query may take beside what the process has."""

PARAMETERS = {"n": 3, "p": 2, "from": 1}

TICKS = """
1,AAA,10,100 2,AAA,12,200 3,BBB,50,10 4,AAA,11,50 5,AAA,9,300 6,BBB,49,40
7,AAA,13,150 8,BBB,51,20 9,AAA,14,100 10,BBB,48,30 11,AAA,12,90 12,BBB,52,60
"""


def tables() -> dict[str, pa.Table]:
    """Return what queries read, by the names they have for it."""
    cells = [row.split(",") for row in TICKS.split()]
    t, symbol, price, volume = zip(*cells, strict=True)
    numbers = {
        name: pa.array(map(int, of))
        for name, of in (("t", t), ("price", price), ("volume", volume))
    }
    ticks = pa.table({**numbers, "symbol": pa.array(symbol)})
    case = next(
        c for c in map(pattern_case, range(1000)) if not c.stream.has_timestamps and c.planned
    )
    names = ("ts", "id", "district", "beat", "speed", "arrest")
    rows = [(t, t, "ab"[t % 2], t % 3, t / 2, t > 3) for t in range(6)]
    crimes = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], CRIMES)
    # Of few rows: SKIP TILL ANY may have exponentially many matches in their number.
    few = case.stream.table.slice(0, 9)
    return {"ticks": ticks, "a": ticks, "b": ticks, "s": few, "crimes": crimes}


@contextmanager
def bounded() -> Iterator[None]:
    """End a query that hangs or takes memory without bound by an error that is none of ours."""

    def hang(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no answer after {HANGS_AFTER_S} s")

    taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, hang)
    signal.alarm(HANGS_AFTER_S)
    resource.setrlimit(
        resource.RLIMIT_AS, (taken * resource.getpagesize() + MEMORY_MORE, before[1])
    )
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


class Asker:
    """Asks queries, and counts what became of them."""

    def __init__(self, store: Store) -> None:
        self._tables = tables()
        self._store = store
        for name in ("ticks", "s"):
            table = self._tables[name]
            small = SmallStream(table.to_pylist(), 2, 5, 2, (), schema=table.schema)
            fill_stream(store, name, small)
        self.counts: Counter[str] = Counter()

    def ask(self, seed: int) -> None:
        """Ask the query of a seed."""
        sql = mutated_query(seed)
        try:
            with bounded():
                self._ask(seed, sql)
            self.counts["answered"] += 1
        except ChronicleError as error:
            is_of_language = isinstance(error, PatternSyntaxError | BindError)
            if is_of_language and not (error.line and error.column):
                pytest.fail(f"seed {seed}: an error without a place: {error}\n{_shown(sql)}")
            self.counts[type(error).__name__] += 1
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}\n{_shown(sql)}") from error

    def _ask(self, seed: int, sql: str) -> None:
        if seed % 5 == 0:
            replay.query(self._store, sql, params=PARAMETERS)
        elif seed % 5 == 1:
            replay.explain(self._store, sql, params=PARAMETERS)
        elif seed % 5 == 2:
            online = replay.online(
                sql,
                {name: table.schema for name, table in self._tables.items()},
                time={name: "ts" if name == "crimes" else "t" for name in self._tables},
                params=PARAMETERS,
            )
            if isinstance(online, OnlineQuery):
                online.push(self._tables["ticks" if "ticks" in sql else "s"])
            online.finish()
        else:
            replay.query(self._tables, sql, params=PARAMETERS)


def _shown(sql: str) -> str:
    return sql if len(sql) < 2000 else f"{sql[:1000]} … {sql[-1000:]}"


def ask_seeds(seeds: range, folder: Path) -> None:
    """Ask the queries of some seeds; most must fail, and not all."""
    asker = Asker(create_store(folder / "store"))
    for seed in seeds:
        asker.ask(seed)
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {dict(asker.counts)}")
    assert asker.counts["answered"] >= len(seeds) / 50
    assert asker.counts["PatternSyntaxError"] >= len(seeds) / 5


def test_a_mutated_query_is_answered_or_refused_in_a_sentence(tmp_path: Path) -> None:
    ask_seeds(range(400), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 20_000, 1000))
def test_20_000_mutated_queries_are_answered_or_refused(first: int, tmp_path: Path) -> None:
    ask_seeds(range(first, first + 1000), tmp_path)
