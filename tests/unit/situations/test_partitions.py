"""Numbers of partitions, however their rows come."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from replay.operators import partition_keys
from replay.situations.derive import Partitions


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.string()])
@pytest.mark.parametrize("seed", range(20))
def test_each_value_keeps_one_number(
    monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, seed: int
) -> None:
    monkeypatch.setattr(partition_keys, "TABLE_MAX", 30)
    random, schema = Random(seed), pa.schema([("k", kind)])
    known: list[object] = []
    partitions, begun = Partitions(("k",), schema), random.randint(0, 60)
    for _ in range(30):
        begun += random.choice((-3, -3, 0, 0, 0, 2, 2, 40))
        some = [max(0, begun + random.randint(0, 5)) for _ in range(random.randint(1, 6))]
        values = [None if random.random() < 0.05 else min(v, 127) for v in some]
        if kind == pa.int64():
            far = random.choice((-(2**63), 2**63 - 1))
            values = [far if random.random() < 0.1 else v for v in values]
        if kind == pa.string():
            values = [None if v is None else str(v) for v in values]
        found = partitions.number(pa.table({"k": pa.array(values, kind)}, schema))
        keys = partitions.keys["k"].to_pylist()
        assert [keys[number] for number in found] == values
        assert keys[: len(known)] == known
        assert len(set(keys)) == len(keys) == partitions.n
        known = keys
        if random.random() < 0.2:
            state, partitions = partitions.state(), Partitions(("k",), schema)
            partitions.take_over(state)
