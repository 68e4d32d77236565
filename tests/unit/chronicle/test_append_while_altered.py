"""An append that loses to another process that adds a column says so and leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import chronicle.write.append as module
from chronicle import StreamSettings, create_store, open_store
from chronicle.errors import SchemaError
from chronicle.write.evolve import add_column

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64())])


@pytest.mark.parametrize("times", [[7], [1], [1, 7]], ids=["new", "late", "both"])
def test_append_that_meets_a_new_column_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: list[int]
) -> None:
    store = create_store(tmp_path / "store")
    stream = store.create_stream("s", SCHEMA, StreamSettings(time="t"))
    stream.append(pa.table({"t": [5, 6], "a": [1, 2]}, SCHEMA))
    commit_change = module.commit_change

    def beaten(*arguments: object, **options: object) -> object:
        monkeypatch.undo()
        add_column(open_store(store.path).stream("s"), "c", "int64")
        return commit_change(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "commit_change", beaten)
    before = sorted((stream.path / "events").glob("*.parquet"))
    with pytest.raises(SchemaError, match="lack column 'c'"):
        stream.append(pa.table({"t": times, "a": [3] * len(times)}, SCHEMA))
    assert stream.snapshot().n_events == 2
    assert sorted((stream.path / "events").glob("*.parquet")) == before
