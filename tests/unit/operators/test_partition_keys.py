"""Numbers that keys of partitions keep, from table to table."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from replay.expressions.columns import Columns
from replay.expressions.scalars import Faults
from replay.language.bound import Attribute, DataType
from replay.operators import partition_keys
from replay.operators.partition_keys import UNKNOWN, KeyNumbers, KnownValues, group_keys
from replay.windows.keys import KeyTable

KINDS = {pa.int64(): DataType.INTEGER, pa.string(): DataType.STRING, pa.int8(): DataType.INTEGER}


def some_tables(random: Random, kind: pa.DataType) -> list[pa.Table]:
    """Return tables of a key whose values come in bursts, some far away, some missing."""
    tables, begun = [], random.randint(0, 60)
    for _ in range(20):
        begun += random.choice((-3, 0, 0, 2, 40))
        values: list[object] = [max(0, begun + random.randint(0, 5)) % 128 for _ in range(8)]
        if kind == pa.int64() and random.random() < 0.2:
            values[0] = random.choice((-(2**63), 2**63 - 1))
        if random.random() < 0.2:
            values[1] = None
        if kind == pa.string():
            values = [None if value is None else str(value) for value in values]
        tables.append(pa.table({"k": pa.array(values, kind)}))
    return tables


@pytest.mark.parametrize("kind", list(KINDS), ids=str)
@pytest.mark.parametrize("seed", range(10))
def test_a_key_keeps_its_number_whatever_comes_between(
    monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, seed: int
) -> None:
    monkeypatch.setattr(partition_keys, "TABLE_MAX", 30)
    random = Random(seed)
    tables, known = some_tables(random, kind), KeyNumbers()
    of_windows = KeyTable([Attribute("k", KINDS[kind])], tables[0].schema)
    for table in tables:
        values = table["k"].to_pylist()
        numbers = known.of(group_keys(Columns(table), table, ("k",)))
        assert [known.keys[number] for number in numbers] == [(value,) for value in values]
        codes, own = of_windows.number(table, Faults())
        assert of_windows.columns(own[codes])[0].to_pylist() == values
        if random.random() < 0.2:
            kept = np.unique(own[codes])
            of_windows.forget_others(kept)
    assert len(set(known.keys)) == len(known)
    (every,) = of_windows.columns(np.arange(len(of_windows)))
    assert len(every.unique()) == len(of_windows)


def test_whole_numbers_are_found_in_a_table_and_those_far_apart_beside_it() -> None:
    known, far = KnownValues(), 10**12
    assert known.numbers(np.array([5])).tolist() == [UNKNOWN]
    for number, value in enumerate((5, 6, -20, 300, far)):
        known.enter(np.array([value]), np.array([number]))
    assert known.numbers(np.array([300, -20, 5, far, 6])).tolist() == [3, 2, 0, 4, 1]
    assert known.numbers(np.array([5, 7, -far, far])).tolist() == [0, UNKNOWN, UNKNOWN, 4]
    known.enter(np.array([7, -far, 8]), np.array([5, UNKNOWN, 6]))
    assert known.numbers(np.array([7, -far, 8])).tolist() == [5, UNKNOWN, 6]
    known.enter(np.array([-far, far]), np.array([7, 4]))
    assert known.numbers(np.array([-(2**63), 2**63 - 1, -far, far])).tolist() == [-1, -1, 7, 4]


def test_texts_are_found_together_with_what_is_missing_among_them() -> None:
    known = KnownValues()
    known.enter(pa.array(["b", None, "a"]), np.array([1, 0, 2]))
    assert known.numbers(pa.array(["a", "c", None, "b", "a"])).tolist() == [2, UNKNOWN, 0, 1, 2]
    known.enter(pa.array(["a", "c"]), np.array([2, 3]))
    assert known.numbers(pa.array(["c", "a"])).tolist() == [3, 2]


def test_a_few_values_are_not_looked_up_among_very_many() -> None:
    known = KnownValues()
    known.enter(pa.array([f"{number}" for number in range(100)]), np.arange(100))
    with patch.object(partition_keys.pc, "index_in"), patch.object(partition_keys.pc, "is_in"):
        known.enter(pa.array(["100", "7"]), np.array([100, 7]))
        assert known.numbers(pa.array(["7", "100"])).tolist() == [UNKNOWN, UNKNOWN]
        partition_keys.pc.index_in.assert_not_called()
        partition_keys.pc.is_in.assert_not_called()
    assert known.numbers(pa.array([f"{number}" for number in range(50)])).tolist() == [*range(50)]
