"""Events are fetched once each, wherever they stand, and found again by ``seq``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from replay.language.bound import Attribute
from replay.patterns.measures import FetchedEvents
from tests.unit.patterns.bound_queries import INT, STRING

SEQS = st.one_of(st.integers(-1, 12), st.sampled_from([-1, 500, 10**6, 10**12]))


def fetch(columns: list[str], seq: Any) -> pa.Table:
    """Read events whose ``i`` is their ``seq``; each seventh has no ``s``."""
    assert (np.diff(seq) > 0).all()
    assert (seq >= 0).all()
    texts = [None if s % 7 == 0 else f"#{s}" for s in seq.tolist()]
    table = pa.table({"i": seq, "s": pa.array(texts, pa.string()).dictionary_encode()})
    return table.select(columns)


@given(st.lists(st.lists(SEQS, max_size=6), max_size=3))
def test_events_are_read_where_they_are_wanted(wanted: list[list[int]]) -> None:
    arrays = [np.array(seq, np.int64) for seq in wanted]
    events = FetchedEvents(fetch, ["s", "i", "i"], arrays)
    for seq in arrays:
        rows = events.rows(seq)
        expected = [None if s < 0 else s for s in seq.tolist()]
        texts = [None if s is None or s % 7 == 0 else f"#{s}" for s in expected]
        data, valid = events.values(Attribute("i", INT), rows)
        known = valid.tolist()
        assert [d if v else None for d, v in zip(data.tolist(), known, strict=True)] == expected
        assert events.plain("i", rows).to_pylist() == expected
        assert events.values(Attribute("s", STRING), rows).data.to_pylist() == texts
        assert events.plain("s", rows).to_pylist() == texts


def test_where_no_column_is_wanted_nothing_is_fetched() -> None:
    def never(columns: list[str], seq: Any) -> pa.Table:
        raise AssertionError(columns)

    FetchedEvents(never, [], [np.array([1, 2])])
