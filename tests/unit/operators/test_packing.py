"""State as bytes, and back: every value as it was, and damage is noticed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.errors import QueryError
from replay.operators.packing import pack, unpack


def test_values_come_back_as_they_were() -> None:
    state = {
        "limit": None,
        "n": 2**70,
        "name": "ß",
        "floats": [-0.0, math.inf, math.nan, 0.1],
        "in": {"deep": [[b"", b"\x00\xff"], {"x": True}]},
    }
    assert repr(unpack(pack(state))) == repr(state)


@pytest.mark.parametrize(
    "numbers",
    [
        np.zeros((3, 0), np.int64),
        np.arange(6, dtype=np.int64).reshape(2, 3)[:, 1:],
        np.array([math.nan, -0.0, 5e-324]),
        np.array([True, False]),
    ],
    ids=["empty", "cut out", "floats", "booleans"],
)
def test_numbers_come_back_bit_by_bit_and_may_be_written_to(numbers: Any) -> None:
    found = unpack(pack({"numbers": numbers}))["numbers"]
    assert (found.dtype, found.shape) == (numbers.dtype, numbers.shape)
    assert found.tobytes() == numbers.tobytes()
    assert found.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        pa.array([], pa.string()),
        pa.array(["a", None, "b"]).slice(1),
        pa.array([1, None], pa.timestamp("us", "UTC")),
        pa.array(["x", "y", "x"]).dictionary_encode(),
    ],
    ids=["empty", "slice", "times", "dictionary"],
)
def test_arrow_comes_back_with_its_type(array: pa.Array) -> None:
    table = pa.table({"a": array, "b": array})
    found = unpack(pack({"array": array, "table": table, "none": table.slice(0, 0)}))
    assert isinstance(found["array"], pa.Array)
    assert found["array"].equals(array)
    assert found["table"].equals(table)
    assert found["none"].equals(table.slice(0, 0))


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[:20], lambda b: b"x" + b[1:]])
def test_bytes_that_are_no_snapshot_are_refused(damage: Any) -> None:
    with pytest.raises(QueryError, match="no snapshot"):
        unpack(damage(pack({"bytes": b"abc"})))


def test_a_flipped_byte_is_noticed() -> None:
    data = bytearray(pack({"bytes": b"abc"}))
    data[data.index(b"abc")] ^= 1
    with pytest.raises(QueryError, match="checksum"):
        unpack(bytes(data))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"chronicle-online\x01\x02\x03\x04", id="before-0.3"),
        pytest.param(pack({}).replace(b"4", b"3"), id="before-windows-counted-from-1970"),
    ],
)
def test_a_snapshot_of_another_version_is_refused_with_what_to_do(data: bytes) -> None:
    with pytest.raises(QueryError, match="push the events to an operator made anew"):
        unpack(data)


def test_a_snapshot_is_an_arrow_stream() -> None:
    table = pa.ipc.open_stream(pack({"numbers": np.arange(3)})).read_all()
    assert table.schema.names == ["part"]
    assert table.schema.metadata[b"chronicle.snapshot"] == b"4"
