"""A flipped byte anywhere in a store costs time or is one clear error, and never an answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import replay
from chronicle import create_store, open_store
from chronicle.errors import CorruptBlockError
from indexing.index import clear_caches
from tests.helpers import fill_stream
from tests.strategies import SmallStream

N_FLIPS = 40

APART = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, B.t AS b "
    "PATTERN (A Z*? B) WITHIN 9 DEFINE A AS A.a = 1, B AS B.s = 's2')"
)
NEXT = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, B.x AS x "
    "PATTERN (A B) WITHIN 4 DEFINE A AS A.x BETWEEN 20 AND 21, B AS B.f)"
)
QUERIES = (APART, NEXT)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five data files with tree files and runs of three attributes."""
    rows = [
        {"t": t, "a": t % 37, "x": t / 2, "s": f"s{t * 7 % 11}", "f": t % 3 == 0, "k": 0}
        for t in range(70)
    ]
    small = SmallStream(rows, block_events=4, file_events=16, fan_out=2, cuts=())
    folder = tmp_path_factory.mktemp("flipped") / "store"
    fill_stream(create_store(folder), "s", small, index=("a", "x", "s"))
    return folder


@pytest.fixture(scope="module")
def expected(store: Path) -> list[list[dict[str, object]]]:
    """What full replays answer while nothing is damaged."""
    answers = [_ask(store, sql, "full")[0] for sql in QUERIES]
    assert all(answers)
    return answers


def _ask(store: Path, sql: str, plan: str) -> tuple[list[dict[str, object]], tuple[str, ...]]:
    clear_caches()
    result = replay.query(open_store(store), sql, plan=plan)
    return result.table.to_pylist(), result.actual.warnings


def _flips(
    folders: list[Path], plans: tuple[str, ...], *, seed: int
) -> Iterator[tuple[Path, int, str]]:
    """Flip one random byte of one file after the other, and put it back; say a plan to ask by.

    Each file is met by every plan.
    """
    paths = sorted(path for folder in folders for path in folder.glob("*.parquet"))
    rng = np.random.default_rng(seed)
    for i in range(N_FLIPS):
        path = paths[i % len(paths)]
        content = path.read_bytes()
        damaged = bytearray(content)
        at = int(rng.integers(len(content)))
        damaged[at] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            yield path, at, plans[(i + i // len(paths)) % len(plans)]
        finally:
            path.write_bytes(content)


def test_a_flipped_byte_of_derived_data_costs_no_answer_and_warns_where_it_was_met(
    store: Path, expected: list[list[dict[str, object]]]
) -> None:
    derived = [store / "s/tree", *(store / "s/index" / name for name in ("a", "x", "s"))]
    n_warned = 0
    for path, at, plan in _flips(derived, ("tree", "all"), seed=7):
        for sql, answer in zip(QUERIES, expected, strict=True):
            found, warnings = _ask(store, sql, plan)
            assert found == answer, (path, at, plan)
            assert all(path.name in warning for warning in warnings)
            n_warned += bool(warnings)
    assert n_warned > N_FLIPS // 4
    assert all(_ask(store, sql, "all")[1] == () for sql in QUERIES)


def test_a_flipped_byte_of_the_events_gives_the_right_answer_or_names_the_file(
    store: Path, expected: list[list[dict[str, object]]]
) -> None:
    n_stopped = 0
    for path, at, plan in _flips([store / "s/events"], ("full", "tree", "all"), seed=11):
        for sql, answer in zip(QUERIES, expected, strict=True):
            try:
                assert _ask(store, sql, plan)[0] == answer, (path, at, plan)
            except CorruptBlockError as error:
                n_stopped += error.path == str(path)
    assert n_stopped > N_FLIPS // 4
