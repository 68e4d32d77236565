"""Whatever the blocks: the latest event of each key is in what is read on the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from replay.joins import asof_lookup
from replay.joins.asof_lookup import AsofLookup, find_asof_stretches
from replay.joins.keys import KeyNumbers
from replay.language.bound import Attribute, DataType, Expression, Literal
from replay.planning.block_ranges import mask_of
from tests.join_cases import Row, call, equals, row, rows_in_order, to_table
from tests.property.law import SLOW

KEYS = ("k", "s")
FEW = call("<", Attribute("k", DataType.INTEGER), Literal(2, DataType.INTEGER))


@dataclass
class Blocks:
    """Rows in blocks of any size: as much of a snapshot as is read."""

    rows: list[Row]
    ends: list[int]

    def __post_init__(self) -> None:
        self.t_min = np.array([self.rows[i]["t"] for i in self.begins], np.int64)
        self.t_max = np.array([self.rows[i - 1]["t"] for i in self.ends], np.int64)
        self.reads: list[int] = []

    @property
    def begins(self) -> list[int]:
        return [0, *self.ends][: len(self.ends)]

    @property
    def leaves(self) -> Blocks:
        return self

    @property
    def n_blocks(self) -> int:
        return len(self.ends)

    def read_blocks(self, blocks: Any, columns: list[str]) -> pa.Table:
        self.reads += blocks.tolist()
        rows = [self.rows[i] for b in blocks for i in range(self.begins[b], self.ends[b])]
        return to_table(rows).select(columns)


@st.composite
def blocks_of_rows(draw: st.DrawFn) -> Blocks:
    rows = draw(rows_in_order(60, rows_min=20))
    ends = draw(st.sets(st.integers(1, len(rows)), min_size=8, max_size=30)) | {len(rows)}
    return Blocks(rows, sorted(end for end in ends if 0 < end <= len(rows)))


def find(
    blocks: Blocks,
    seekers: list[Row],
    keys: tuple[str, ...],
    condition: Any,
    strict: bool,
    forward: bool = False,
) -> tuple[Any, int]:
    """Return the stretches found for rows of the other side, and how many blocks it took."""
    numbers = KeyNumbers(len(keys))
    times = np.array([row["t"] for row in seekers], np.int64)
    codes = numbers.number(to_table(seekers), keys)
    return find_asof_stretches(
        blocks,  # type: ignore[arg-type]
        AsofLookup("t", keys, condition, strict, forward),
        (times, codes),
        numbers,
        np.arange(blocks.n_blocks),
        n_blocks_max=None,
    )


@given(
    blocks=blocks_of_rows(),
    seekers=rows_in_order(24, rows_min=6),
    n_keys=st.integers(1, 2),
    strict=st.booleans(),
    forward=st.booleans(),
    condition=st.sampled_from((None, FEW)),
    at_once=st.integers(1, 8),
)
@SLOW
def test_the_nearest_event_of_each_key_is_in_what_is_read(
    blocks: Blocks,
    seekers: list[Row],
    n_keys: int,
    strict: bool,
    forward: bool,
    condition: Expression | None,
    at_once: int,
) -> None:
    keys = KEYS[:n_keys]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asof_lookup, "BLOCKS_AT_ONCE_MAX", at_once)
        stretches, n_read = find(blocks, seekers, keys, condition, strict, forward)
    assert stretches is not None
    assert n_read == len(blocks.reads) == len(set(blocks.reads))
    is_read = mask_of(stretches, blocks.n_blocks)
    assert set(np.flatnonzero(is_read).tolist()) == set(blocks.reads)
    n_found = 0
    for seeker in seekers:
        found = [
            i
            for i, one in enumerate(blocks.rows)
            if (one["t"] - seeker["t"]) * (1 if forward else -1) >= strict
            and all(equals(one[key], seeker[key]) for key in keys)
            and (condition is None or (one["k"] is not None and one["k"] < 2))
        ]
        if found:
            n_found += 1
            nearest = found[0 if forward else -1]
            assert is_read[np.searchsorted(blocks.ends, nearest, side="right")]
    event(f"found: {min(n_found, 3)}, reads all: {bool(is_read.all())}")


@pytest.mark.parametrize(
    ("strict", "second", "expected"),
    [
        (False, 15, [0, 1]),  # the event of 10 is too late for the seeker of 5
        (True, 10, [0, 1]),  # and is not before a seeker of 10
        (False, 10, [1]),
    ],
)
def test_each_seeker_of_a_key_is_satisfied(strict: bool, second: int, expected: list[int]) -> None:
    blocks = Blocks([row(0, 2), row(3, 1), row(4, 2), row(10, 1), row(12, 2)], [2, 5])
    seekers = [row(5 if second == 15 else 10, 1), row(second, 1)]
    find(blocks, seekers, ("k",), None, strict)
    assert sorted(blocks.reads) == expected


@pytest.mark.parametrize(
    "seeker", [pytest.param(row(5, None), id="no key"), pytest.param(row(-5, 1), id="too early")]
)
def test_nothing_is_read_where_nothing_is_sought(seeker: Row) -> None:
    blocks = Blocks([row(t, 1) for t in range(10)], [5, 10])
    stretches, n_read = find(blocks, [seeker], ("k",), None, strict=False)
    assert (len(stretches), n_read, blocks.reads) == (0, 0, [])
