"""Windows without number: few events, far apart or under a tiny slide, end in a stated limit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import replay
from chronicle import create_store
from replay.errors import QueryError
from tests.helpers import fill_stream
from tests.strategies import SmallStream

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64())])
NEAR = [{"t": t, "k": t % 2} for t in (1, 2, 3)]
FAR = [*NEAR, {"t": 10**12, "k": 0}]
BILLION = 10**9
ENDLESS = {
    "small slide": (NEAR, f"HOP(TABLE s, DESCRIPTOR(t), 1, {BILLION})"),
    "small step": (NEAR, f"CUMULATE(TABLE s, DESCRIPTOR(t), 1, {BILLION})"),
    "long gap": (FAR, "TUMBLE(TABLE s, DESCRIPTOR(t), 1)"),
}
BY_WINDOW = "GROUP BY window_start, window_end"
FIRST_FIVE = f"{BY_WINDOW} ORDER BY window_start LIMIT 5"


def counting(windows: str, grouped: str = BY_WINDOW) -> str:
    return f"SELECT window_start, COUNT(*) AS n FROM TABLE({windows}) {grouped}"


@pytest.mark.parametrize(("rows", "windows"), ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize(
    "grouped",
    [BY_WINDOW, f"{BY_WINDOW}, k", f"{BY_WINDOW} HAVING COUNT(*) > 9 LIMIT 1",
     f"{BY_WINDOW} ORDER BY n LIMIT 1", f"{BY_WINDOW} LIMIT {BILLION}"],
)  # fmt: skip
def test_windows_without_number_are_refused_with_the_limit(
    rows: list[dict[str, int]], windows: str, grouped: str
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    with pytest.raises(QueryError, match="the limit is 100,000,000; make the slide"):
        replay.query({"s": table}, counting(windows, grouped))


@pytest.mark.parametrize(("rows", "windows"), ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("grouped", [BY_WINDOW, f"{BY_WINDOW}, k"])
def test_they_are_refused_online(rows: list[dict[str, int]], windows: str, grouped: str) -> None:
    online = replay.online(counting(windows, grouped), SCHEMA, time="t")

    def to_the_end() -> None:
        online.push(pa.Table.from_pylist(rows, SCHEMA))
        online.finish()

    with pytest.raises(QueryError, match="the limit is 100,000,000"):
        to_the_end()


@pytest.mark.parametrize(("rows", "windows"), ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("plan", ["auto", "tree", "replay"])
def test_every_plan_refuses_them_and_takes_a_limit(
    tmp_path: Path, rows: list[dict[str, int]], windows: str, plan: str
) -> None:
    store = create_store(tmp_path / "store")
    fill_stream(store, "s", SmallStream(rows, 2, 3, 2, (), schema=SCHEMA))
    with pytest.raises(QueryError, match="the limit is 100,000,000"):
        replay.query(store, counting(windows), plan=plan)
    assert replay.query(store, counting(windows, FIRST_FIVE), plan=plan).table.num_rows == 5


def test_the_first_windows_are_told_with_limit() -> None:
    # Windows of a billion that slide by one: the first that overlaps ends behind the first event.
    table = pa.Table.from_pylist(NEAR, SCHEMA)
    found = replay.query({"s": table}, counting(ENDLESS["small slide"][1], FIRST_FIVE)).table
    assert found["window_start"].to_pylist() == [2 - BILLION + i for i in range(5)]
    assert found["n"].to_pylist() == [1, 2, 3, 3, 3]


@pytest.mark.parametrize(("rows", "windows"), ENDLESS.values(), ids=ENDLESS)
def test_a_reader_that_takes_them_piece_by_piece_is_not_refused(
    rows: list[dict[str, int]], windows: str
) -> None:
    batches = replay.batches({"s": pa.Table.from_pylist(rows, SCHEMA)}, counting(windows))
    assert sum(batches.read_next_batch().num_rows for _ in range(4)) > 1


def test_an_online_flow_tells_windows_for_ever_if_not_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("replay.running.input_ports.TOLD_MAX", 10)
    flow = replay.online(counting("TUMBLE(TABLE s, DESCRIPTOR(t), 1)"), SCHEMA, time="t")
    told = 0
    for t in range(0, 100, 9):
        told += flow.push(pa.table({"t": [t], "k": [0]})).num_rows
    assert told == 99
    with pytest.raises(QueryError, match="11 windows would be told, and the limit is 10"):
        flow.push(pa.table({"t": [110], "k": [0]}))
