"""The stream that pages of these tests show."""

from __future__ import annotations

import pytest

from chronicle import Store, create_store
from tests.helpers import fill_stream
from tests.strategies import SmallStream

N_EVENTS, BLOCK = 1000, 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Lend a stream of 50 blocks; event i has t = 2 i and x = i / 10, so places tell values."""
    rows = [
        {"t": 2 * i, "a": i % 100, "x": i / 10, "s": "abc"[i % 3], "f": True, "k": i % 5}
        for i in range(N_EVENTS)
    ]
    store = create_store(tmp_path_factory.mktemp("report") / "store")
    small = SmallStream(rows, BLOCK, file_events=260, fan_out=4, cuts=(500,))
    fill_stream(store, "s", small, index=("a", "x"))
    fill_stream(store, "r", SmallStream(rows[:200], BLOCK, 260, 4, ()))
    return store
