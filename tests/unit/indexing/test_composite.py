"""Composite attributes: keys that sort as tuples do, and ranges of them that admit the same."""

from __future__ import annotations

import math
from itertools import pairwise, product
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indexing.composite import (
    Composite,
    composite_ranges,
    parse_composite,
    to_composite_column,
)
from indexing.config import COMPOSITE_POINTS_MAX, COMPOSITE_RANGES_MAX
from indexing.key_range import KeyRange, KeyRanges
from indexing.keys import KeyKind, key_kind
from tests.oracles.index import admits, to_key
from tests.unit.indexing.index_strategies import TYPES, keys_like

EXTREMES = [-(1 << 63), -(1 << 63) + 1, -1, 0, 1, 127, 128, (1 << 63) - 2, (1 << 63) - 1]
DOUBLES = [-math.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, 1.7e308, math.inf, math.nan]
STRINGS = ["", "\x00", "\x00\x00", "\x01", "\x01\x01", "\x02", "a", "a\x00", "a\x01", "ab", "é"]
STRINGS += ["\u07ff", "\uffff", "\U0001f600", "\U0010ffff", "x" * 300, "x" * 300 + "y"]
AWKWARD = {"int64": EXTREMES, "double": DOUBLES, "string": STRINGS}


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 12) -> pa.Table:
    """Columns ``a``, ``b``, ... of any indexable types, with nulls and values that recur."""
    n_rows, choose = draw(st.integers(1, max_rows)), Random(draw(st.integers(0, 1 << 32)))
    columns = {}
    for name in "abcd"[: draw(st.integers(2, 4))]:
        type_name = draw(st.sampled_from(sorted(TYPES)))
        data_type, values = TYPES[type_name]
        if type_name in AWKWARD:
            values = st.one_of(st.sampled_from(AWKWARD[type_name]), values)
        pool = draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=6))
        columns[name] = pa.array(choose.choices(pool, k=n_rows), data_type)
    return pa.table(columns)


def tuples_of(table: pa.Table) -> list[tuple]:
    """Each row's parts as keys, None where a part is null or NaN."""
    return list(zip(*(map(to_key, column.to_pylist()) for column in table.columns), strict=True))


def sortable(row: tuple) -> tuple:
    return tuple((part is not None, part if part is not None else 0) for part in row)


def keys_of(table: pa.Table) -> list[str | None]:
    return to_composite_column(table, Composite(tuple(table.column_names))).to_pylist()


@given(tables())
def test_keys_sort_as_tuples_do_and_only_rows_without_a_first_part_have_none(
    table: pa.Table,
) -> None:
    every = list(zip(tuples_of(table), keys_of(table), strict=True))
    assert all((key is None) == (row[0] is None) for row, key in every)
    rows = [(row, key) for row, key in every if key]
    rows.sort(key=lambda pair: sortable(pair[0]))
    for (row, key), (later_row, later_key) in pairwise(rows):
        # Arrow compares the UTF-8 bytes.
        assert key.encode() <= later_key.encode()
        assert (key == later_key) == (sortable(row) == sortable(later_row))


@pytest.mark.parametrize("kind", list(AWKWARD), ids=str)
def test_awkward_values_ascend_as_they_do_alone(kind: str) -> None:
    values = sorted(v for v in AWKWARD[kind] if v == v)
    column = pa.array(values, TYPES[kind][0])
    for order in (("x", "n"), ("n", "x")):
        table = pa.table({"x": column, "n": pa.array([7] * len(values))}).select(order)
        keys = keys_of(table)
        for i, j in product(range(len(values)), repeat=2):
            assert (keys[i] < keys[j]) == (values[i] < values[j])
            assert (keys[i] == keys[j]) == (values[i] == values[j])


@given(st.data(), tables())
def test_ranges_admit_the_keys_whose_used_parts_lie_in_theirs(
    data: st.DataObject, table: pa.Table
) -> None:
    parts = [
        data.draw(st.one_of(st.none(), ranges_like(column.combine_chunks())))
        for column in table.columns
    ]
    kinds = [key_kind(field.type, field.name) for field in table.schema]
    found = composite_ranges(kinds, parts)
    bounded = [part is not None and not part.is_everything() for part in parts]
    if found is None:
        assert not bounded[0]
        return
    ranges, n_used = found
    assert n_used >= 1
    assert all(bounded[:n_used])
    for row, key in zip(tuples_of(table), keys_of(table), strict=True):
        inside = all(
            value is not None and any(admits(r, value) for r in part.ranges)
            for value, part in zip(row[:n_used], parts[:n_used], strict=True)
        )
        assert inside == (key is not None and any(admits(r, key) for r in ranges.ranges))


@pytest.mark.parametrize("kind", list(AWKWARD), ids=str)
@pytest.mark.parametrize("order", [("n", "x"), ("x", "n")], ids=["last", "first"])
def test_awkward_bounds_admit_the_awkward_values_they_should(
    kind: str, order: tuple[str, str]
) -> None:
    values = AWKWARD[kind]
    column = pa.array([None, *values], TYPES[kind][0])
    table = pa.table({"x": column, "n": pa.array([7] * len(column))}).select(order)
    kinds = [key_kind(field.type, field.name) for field in table.schema]
    keys = dict(zip(map(to_key, column.to_pylist()), keys_of(table), strict=True))
    low_high = product([None, *values], [None, *values], (True, False), (True, False))
    for r in (KeyRange(*bounds) for bounds in low_high):
        said = {"x": KeyRanges.of([r]), "n": points(7)}
        found = composite_ranges(kinds, [said[name] for name in order])
        if r.low is r.high is None:
            assert (found and found[1]) == (1 if order[0] == "n" else None)
            continue
        assert found is not None
        for value, key in keys.items():
            inside = value is not None and not r.is_empty() and admits(r, value)
            assert inside == (key is not None and any(admits(c, key) for c in found[0].ranges))


def ranges_like(column: pa.Array) -> st.SearchStrategy[KeyRanges]:
    bound = st.one_of(st.none(), keys_like(column))
    point = keys_like(column).map(lambda key: KeyRange(key, key))
    one = st.one_of(point, st.builds(KeyRange, bound, bound, st.booleans(), st.booleans()))
    return st.lists(one, max_size=4).map(KeyRanges.of)


def points(*keys: int | float | str) -> KeyRanges:
    return KeyRanges.of(KeyRange(key, key) for key in keys)


INTEGER, DOUBLE, STRING = KeyKind.INTEGER, KeyKind.DOUBLE, KeyKind.STRING


def key_of(*parts: int | float | str | None) -> str:
    types = [pa.int64() if part is None else None for part in parts]
    table = pa.table({f"c{i}": pa.array([p], types[i]) for i, p in enumerate(parts)})
    (key,) = keys_of(table)
    assert key is not None
    return key


def test_key_is_spelled_as_the_format_says() -> None:
    # 5 with its sign bit flipped is 2^63 + 5: of ten sevens of bits the first is 1, the last 5.
    assert key_of(5, "a") == "\x01" + "\x00" * 8 + "\x05" + "\x01" + "a\x00"
    assert key_of("a\x00\x01", -1) == "a\x01\x01\x01\x02\x00" + "\x01" + "\x00" + "\x7f" * 9
    assert key_of("", None) == "\x00\x00"
    # -0.0 is 0.0, whose bits are none but the sign, flipped.
    assert key_of(-0.0, 0.0) == "\x01" + "\x00" * 9 + "\x01" + "\x01" + "\x00" * 9


def test_range_of_whole_numbers_is_spelled_out_where_a_later_part_is_bounded() -> None:
    weekend = KeyRanges((KeyRange(5, 7, high_closed=False),))
    found = composite_ranges([INTEGER, STRING], [weekend, points("a")])
    assert found is not None
    assert found[1] == 2
    assert [r.low for r in found[0].ranges] == [key_of(5, "a"), key_of(6, "a")]


def test_what_is_said_behind_a_range_is_not_used() -> None:
    found = composite_ranges(
        [DOUBLE, STRING, STRING], [KeyRanges((KeyRange(0.0, 1.0),)), points("a"), points("b")]
    )
    assert found is not None
    assert found[1] == 1


@pytest.mark.parametrize("ranges", [None, KeyRanges.everything()], ids=["nothing-said", "all"])
def test_nothing_said_of_the_first_part_gives_no_ranges(ranges: KeyRanges | None) -> None:
    assert composite_ranges([INTEGER, INTEGER], [ranges, points(1)]) is None


def test_part_that_admits_nothing_admits_no_key() -> None:
    nothing = KeyRanges(())
    assert composite_ranges([INTEGER, STRING], [nothing, points("a")]) == (nothing, 1)
    assert composite_ranges([INTEGER, STRING], [points(1), nothing]) == (nothing, 2)


def test_more_leading_keys_than_are_combined_leave_the_next_part_unused() -> None:
    few = points(*range(0, 2 * COMPOSITE_POINTS_MAX, 2))
    many = points(*range(0, 2 * COMPOSITE_POINTS_MAX + 2, 2))
    used = [composite_ranges([INTEGER, STRING], [keys, points("a")]) for keys in (few, many)]
    assert [found and found[1] for found in used] == [2, 1]


def test_keys_of_all_leading_parts_together_are_counted() -> None:
    eight, nine = points(*range(0, 16, 2)), points(*range(0, 18, 2))
    kinds = [INTEGER, INTEGER, STRING]
    used = [composite_ranges(kinds, [eight, keys, points("a")]) for keys in (eight, nine)]
    assert [found and (found[1], len(found[0].ranges)) for found in used] == [(3, 64), (2, 72)]


def test_more_ranges_than_a_lookup_is_worth_leave_the_last_part_unused() -> None:
    n = COMPOSITE_RANGES_MAX // 2
    texts = [points(*(f"{i:04}" for i in range(m))) for m in (n, n + 1)]
    used = [composite_ranges([INTEGER, STRING], [points(1, 2), part]) for part in texts]
    assert [found and (found[1], len(found[0].ranges)) for found in used] == [(2, 2 * n), (1, 1)]
    alone = composite_ranges([INTEGER, STRING], [points(1), points(*map(str, range(2 * n + 1)))])
    assert alone is not None
    assert alone[1] == 2  # as many as an index on the part itself is asked


@pytest.mark.parametrize(
    ("attribute", "parts"),
    [
        pytest.param("a+b", ("a", "b"), id="two"),
        pytest.param("b+a+d+c", ("b", "a", "d", "c"), id="four-in-their-order"),
        pytest.param("a", None, id="one"),
        pytest.param("a+x", None, id="unknown-part"),
        pytest.param("a+a", None, id="twice"),
        pytest.param("a+", None, id="empty-part"),
        pytest.param("a+b+c+d+e", None, id="five"),
        pytest.param("b+c", None, id="column-of-that-name"),
        pytest.param("a+b+c", ("a", "b", "c"), id="columns-with-plus-are-no-parts"),
        pytest.param("a + b", None, id="spaces-are-not-taken-off"),
    ],
)
def test_name_of_a_composite_attribute(attribute: str, parts: tuple[str, ...] | None) -> None:
    columns = ("a", "b", "c", "d", "e", "b+c", "c ")
    found = parse_composite(columns, attribute)
    assert (found and found.parts) == parts
    assert found is None or found.name == attribute


def test_dictionary_columns_and_no_rows_at_all_are_taken() -> None:
    words = pa.array(["a", None, "a"]).dictionary_encode()
    table = pa.table({"s": words, "n": pa.array([1, 1, 1], pa.int8())})
    assert keys_of(table) == [key_of("a", 1), None, key_of("a", 1)]
    assert keys_of(table.slice(0, 0)) == []
    assert keys_of(table.slice(1, 1)) == [None]


@given(st.lists(st.tuples(st.sampled_from(EXTREMES), st.sampled_from(EXTREMES)), min_size=1))
@example([(1, 2), (1, 2), (2, 1)])
def test_equal_keys_share_their_code(pairs: list[tuple[int, int]]) -> None:
    a, b = (pa.array(column, pa.int64()) for column in zip(*pairs, strict=True))
    column = to_composite_column(pa.table({"a": a, "b": b}), Composite(("a", "b")))
    assert len(column.dictionary) == len(set(pairs)) == len(np.unique(column.indices))
