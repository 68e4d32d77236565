"""Sources of events: tables cut into slices, single events looked up, small replays kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.engines import source as source_module
from replay.engines.source import OnceRead, TableSource, fetch_events


def table_of(n_rows: int) -> pa.Table:
    return pa.table({"t": list(range(n_rows)), "s": [f"s{i % 7}" for i in range(n_rows)]})


@given(data=st.data(), n_rows=st.integers(1, 60), slice_rows=st.integers(1, 9))
def test_fetched_events_are_those_asked_for(
    data: st.DataObject, n_rows: int, slice_rows: int
) -> None:
    seqs = sorted(data.draw(st.sets(st.integers(0, n_rows - 1))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "TABLE_BLOCK_EVENTS", slice_rows)
        patch.setattr(source_module, "FETCH_BLOCKS", 2)
        plain = TableSource(table_of(n_rows), ["s", "t"], time="t", name="x")
        for source in (plain, OnceRead(plain, ["s", "t"])):
            for columns in (["t"], ["s", "t"]):
                found = fetch_events(source, columns, np.array(seqs, dtype=np.int64))
                assert found.column("t").to_pylist() == seqs
                assert found.column_names == columns
        assert found.column("s").to_pylist() == [f"s{i % 7}" for i in seqs]
