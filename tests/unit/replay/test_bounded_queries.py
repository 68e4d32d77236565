"""Limits of time, rows and memory: a whole answer, or an error that names the limit."""

from __future__ import annotations

import datetime as dt
import itertools
import sys

import pyarrow as pa
import pytest

import replay
from chronicle import Store, create_store
from replay import LimitExceededError
from replay.limits import Limits, LimitWatch
from tests.helpers import fill_stream
from tests.strategies import SmallStream, repeating_rows

N_EVENTS = 64

ASKED = {
    "filter": "SELECT t, a FROM s WHERE a < 5",
    "pattern": "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS began "
    "PATTERN (A B) DEFINE A AS a = 1, B AS a = 2)",
    "pattern over a filter": "SELECT * FROM (SELECT * FROM s WHERE a < 5) MATCH_RECOGNIZE "
    "(ORDER BY t MEASURES A.t AS began PATTERN (A B) DEFINE A AS a = 1)",
    "windows": "SELECT window_start, SUM(x) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 4)) "
    "GROUP BY window_start, window_end",
    "join": "SELECT l.t, r.a FROM s l JOIN other r ON l.k = r.k WITHIN 2",
    "as-of join": "SELECT l.t, r.a FROM s l ASOF JOIN other r ON l.k = r.k AND r.t <= l.t",
    "groups": "SELECT k, COUNT(*) AS n FROM s GROUP BY k ORDER BY k",
}
PLANS = {
    "filter": ("auto", "full"),
    "pattern": ("auto", "full", "all"),
    "windows": ("tree", "tree-naive", "replay"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    rows = repeating_rows(N_EVENTS, keys=2)
    made = create_store(tmp_path_factory.mktemp("bounded") / "store")
    for name in ("s", "other"):
        fill_stream(made, name, SmallStream(rows, 4, 16, 2, cuts=(32,)), index=("a",))
    return made


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a second pass whenever a limit looks at the clock."""
    clock = itertools.count()
    monkeypatch.setattr("replay.limits.perf_counter", lambda: next(clock))


def cases() -> list[pytest.param]:
    return [
        pytest.param(sql, plan, id=f"{kind}-{plan}")
        for kind, sql in ASKED.items()
        for plan in PLANS.get(kind, ("auto",))
    ]


@pytest.mark.parametrize(("sql", "plan"), cases())
def test_a_timeout_gives_the_whole_answer_or_none(
    store: Store, ticking: None, monkeypatch: pytest.MonkeyPatch, sql: str, plan: str
) -> None:
    for module in ("engines.scan", "patterns.local"):
        monkeypatch.setattr(f"replay.{module}.UNIT_EVENTS", 8)
    expected = replay.query(store, sql, plan=plan).table
    replay.clear_caches()

    n_ended = 0
    while (found := _answer_within(store, sql, plan, n_ended + 1)) is None:
        n_ended += 1
    assert found.equals(expected)
    # Once planned, and then between pieces of work.
    assert n_ended >= 3


def _answer_within(store: Store, sql: str, plan: str, timeout: int) -> pa.Table | None:
    """Return the answer; None where the query took longer."""
    try:
        return replay.query(store, sql, plan=plan, timeout=timeout).table
    except LimitExceededError as error:
        is_named = error.limit == "timeout" and f"more than {timeout} s" in str(error)
        assert is_named, str(error)  # noqa: PT017
        return None


@pytest.mark.parametrize(("sql", "plan"), cases())
def test_rows_beyond_max_rows_are_an_error_and_generous_limits_change_nothing(
    store: Store, sql: str, plan: str
) -> None:
    expected = replay.query(store, sql, plan=plan).table
    n = expected.num_rows
    assert n > 1

    bounds = {"timeout": dt.timedelta(hours=1), "max_rows": n, "memory": 10**12}
    assert replay.query(store, sql, plan=plan, **bounds).table.equals(expected)
    if plan == "auto":
        assert replay.batches(store, sql, **bounds).read_all().equals(expected)
    with pytest.raises(LimitExceededError, match=rf"more than {n - 1} rows?\b") as ended:
        replay.query(store, sql, plan=plan, max_rows=n - 1)
    assert ended.value.limit == "max_rows"


@pytest.mark.parametrize(("sql", "plan"), cases())
def test_memory_beyond_the_limit_ends_a_query(
    store: Store, monkeypatch: pytest.MonkeyPatch, sql: str, plan: str
) -> None:
    grown = itertools.count(0, 1_000_000)
    monkeypatch.setattr("replay.limits.resident_bytes", lambda: next(grown))
    monkeypatch.setattr("replay.limits._LOOK_S", 0.0)

    with pytest.raises(LimitExceededError, match="and 2 MB are allowed") as ended:
        replay.query(store, sql, plan=plan, memory=2_000_000)
    assert ended.value.limit == "memory"


def test_the_memory_of_the_process_is_looked_at_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = itertools.count()
    monkeypatch.setattr("replay.limits.resident_bytes", lambda: next(looks))
    watch = LimitWatch(Limits.of(None, None, "900GB"))
    for _ in range(3000):
        watch.check()
    assert 2 <= next(looks) < 1000


def test_memory_that_arrow_holds_counts_though_the_process_does_not_grow(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.limits.resident_bytes", lambda: 0)

    with pytest.raises(LimitExceededError, match="memory"):
        replay.query(store, ASKED["groups"], memory=1)


@pytest.mark.parametrize("bound", [{"max_rows": 3}, {"timeout": 2}])
def test_a_stream_that_goes_beyond_a_limit_is_not_created(
    store: Store, ticking: None, bound: dict[str, int]
) -> None:
    before = sorted(store.path.rglob("*"))
    with pytest.raises(LimitExceededError):
        replay.query(store, f"CREATE STREAM made AS {ASKED['filter']}", **bound)

    assert sorted(store.stream_names()) == ["other", "s"]
    assert sorted(store.path.rglob("*")) == before


def test_batches_go_beyond_a_limit_where_they_are_read(store: Store) -> None:
    reader = replay.batches(store, ASKED["filter"], max_rows=3)

    with pytest.raises(LimitExceededError):
        reader.read_all()


def test_a_query_inside_the_reading_of_another_has_limits_of_its_own(store: Store) -> None:
    reader = replay.batches(store, ASKED["filter"], max_rows=1_000)
    reader.read_next_batch()

    assert len(replay.query(store, ASKED["windows"])) == 16
    with pytest.raises(LimitExceededError):
        replay.query(store, ASKED["windows"], max_rows=1)
    reader.read_all()


@pytest.mark.parametrize("bound", [{"timeout": 0}, {"max_rows": -1}, {"memory": 0}])
def test_limits_that_nothing_can_keep_are_refused(store: Store, bound: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="give"):
        replay.query(store, ASKED["filter"], **bound)


IN_PIECES = {
    "groups of an ordered subquery": "SELECT k, COUNT(*) AS n FROM "
    "(SELECT * FROM s ORDER BY t) GROUP BY k",
    "groups of many keys": "SELECT t, SUM(x) AS n FROM s GROUP BY t",
    "join of ordered subqueries": "SELECT l.t, r.a FROM (SELECT * FROM s ORDER BY t) l "
    "JOIN (SELECT * FROM other ORDER BY t) r ON l.k = r.k WITHIN 2",
}


@pytest.mark.parametrize("sql", IN_PIECES.values(), ids=IN_PIECES)
def test_limits_are_looked_at_between_pieces_of_what_comes_in_one_table(
    store: Store, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    looks = itertools.count()
    monkeypatch.setattr("replay.limits.perf_counter", lambda: next(looks))
    n_looks = []
    for at_once in (N_EVENTS, N_EVENTS // 16):
        before = next(looks)
        monkeypatch.setattr("replay.engines.scan.UNIT_EVENTS", at_once)
        replay.query(store, sql, timeout=10**9)
        n_looks.append(next(looks) - before)

    assert n_looks[1] >= n_looks[0] + 15


def test_limits_are_taken_as_the_texts_of_the_command_line(store: Store) -> None:
    sql = ASKED["filter"]
    expected = replay.query(store, sql).table
    assert replay.query(store, sql, timeout="1 hour", memory="900GB").table.equals(expected)
    with pytest.raises(ValueError, match="'5' is no duration; a number needs its unit, as in '5s'"):
        replay.query(store, sql, timeout="5")
    with pytest.raises(ValueError, match="'much' is no amount of memory; write it like '2GB'"):
        replay.query(store, sql, memory="much")


@pytest.mark.parametrize(
    ("loads", "grown", "allowed", "is_told"),
    [(True, 1_000, 10, True), (False, 1_000, 10, False), (True, 10**9, 10**8, False)],
)
def test_too_little_memory_to_load_code_in_is_told_with_what_to_give(
    store: Store, monkeypatch: pytest.MonkeyPatch, *,
    loads: bool, grown: int, allowed: int, is_told: bool,
) -> None:  # fmt: skip
    replay.query(store, ASKED["filter"])  # which loads what it needs
    sizes = itertools.chain([0], itertools.repeat(grown))

    def size_now() -> int:
        found = next(sizes)
        if found and loads:
            monkeypatch.setitem(sys.modules, "loaded_meanwhile", sys)
        return found

    monkeypatch.setattr("replay.limits.resident_bytes", size_now)
    with pytest.raises(LimitExceededError, match="are allowed") as ended:
        replay.query(store, ASKED["filter"], memory=allowed)
    assert ("give 500MB" in str(ended.value)) == is_told
    assert ("10 bytes" in str(ended.value)) == (allowed == 10)
