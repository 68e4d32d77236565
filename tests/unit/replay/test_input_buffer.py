"""Events kept as they come in: placed in order, found by number, forgotten when told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from replay.engines.input_buffer import InputBuffer
from replay.operators.packing import pack, unpack

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64()), ("n", pa.int64())])


def rows_of(steps: list[tuple[int, int]]) -> list[dict[str, Any]]:
    times = np.cumsum([step for step, _ in steps]).tolist()
    return [
        {"t": t, "a": a, "n": n} for n, (t, (_, a)) in enumerate(zip(times, steps, strict=True))
    ]


STEPS = st.lists(st.tuples(st.sampled_from((0, 0, 1)), st.integers(0, 2)), max_size=20)


@given(steps=STEPS, data=st.data(), ordered=st.booleans())
def test_events_are_placed_as_a_sort_of_the_whole_stream_places_them(
    steps: list[tuple[int, int]], data: st.DataObject, ordered: bool
) -> None:
    rows = rows_of(steps)
    expected = sorted(rows, key=lambda r: (r["t"], r["a"], r["n"])) if ordered else rows
    arrivals = InputBuffer(SCHEMA, "t", ("a",) if ordered else ())
    seen: list[int] = []
    at = first = 0
    while at < len(rows):
        n = data.draw(st.integers(1, 6))
        arrivals.append(pa.Table.from_pylist(rows[at : at + n], schema=SCHEMA))
        at += n
        if data.draw(st.booleans()):
            copy = InputBuffer(SCHEMA, "t", ("a",) if ordered else ())
            copy.restore(unpack(pack(arrivals.state())))
            arrivals = copy
        placed = arrivals.between(len(seen), arrivals.n_placed).column("n").to_pylist()
        seen += placed
        assert arrivals.n_placed == len(seen)
        first = max(first, arrivals.n_placed - data.draw(st.integers(0, 3)))
        arrivals.drop_before(first)
        kept = arrivals.at(["n"], np.arange(first, len(seen))).column("n").to_pylist()
        assert kept == seen[first:]
    arrivals.close()
    seen += arrivals.between(len(seen), arrivals.n_placed).column("n").to_pylist()
    assert seen == [row["n"] for row in expected]


def test_only_events_of_the_newest_time_wait_and_dropped_ones_are_gone() -> None:
    arrivals = InputBuffer(SCHEMA, "t", ("a",))
    arrivals.append(pa.Table.from_pylist(rows_of([(0, 2), (1, 1), (0, 0)]), schema=SCHEMA))
    assert (arrivals.n_placed, arrivals.n_kept, arrivals.last_time) == (1, 3, 1)
    arrivals.append(pa.table({"t": [1, 2], "a": [0, 0], "n": [3, 4]}))
    assert arrivals.between(1, 4).column("n").to_pylist() == [2, 3, 1]
    arrivals.drop_before(3)
    assert (arrivals.n_placed, arrivals.n_kept) == (4, 2)
