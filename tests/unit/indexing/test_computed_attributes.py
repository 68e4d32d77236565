"""Composite and derived attributes: keys that sort as tuples do, and indexes worked out by hand."""

from __future__ import annotations

import math
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chronicle import StreamSettings, create_store, open_store
from chronicle.errors import SchemaError
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.finding import Severity
from chronicle.schema import composite_parts
from chronicle.store import Stream
from chronicle.write.evolve import add_column, add_derived
from chronicle.write.lifecycle import rename_stream
from indexing import IndexingError, RunWriter, UnknownIndexError
from indexing.attributes import indexed_field
from indexing.check import ENTRIES, check_runs
from indexing.composite import (
    Composite,
    composite_ranges,
    parse_composite,
    to_composite_column,
)
from indexing.config import COMPOSITE_POINTS_MAX, COMPOSITE_RANGES_MAX
from indexing.index import Index, clear_caches, open_indexes
from indexing.key_range import KeyRange, KeyRanges
from indexing.keys import KeyKind, key_kind
from indexing.lifecycle import create_index, drop_index, list_indexes
from indexing.run import open_run
from indexing.writer import writer_for
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


SCHEMA = pa.schema(
    [("t", pa.int64()), ("k", pa.string()), ("kind", pa.string()), ("beat", pa.int32())]
)
NAME = "beat+kind"


def table(*rows: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)


EVENTS = table(
    (0, "p", "ROBBERY", 35), (1, "q", "THEFT", 35), (2, "p", "ROBBERY", 8), (3, "q", None, 35),
    (4, "p", "ROBBERY", None), (5, "q", "ROBBERY", 35), (6, "p", "ARSON", 35), (7, "q", "THEFT", 9),
)  # fmt: skip


# Of a: 5, 6, 4, 4; of b: 50, 40, 60, null.
SPEEDS = table(
    (0, "a", 5.0), (1, "b", 50.0), (2, "a", 6.0), (3, "b", 40.0),
    (4, "a", 4.0), (5, "b", 60.0), (6, "a", 4.0), (7, "b", None),
    schema=pa.schema([("t", pa.int64()), ("k", pa.string()), ("speed", pa.float64())]),
)  # fmt: skip


def empty_stream(folder: Path, schema: pa.Schema, *, key: str | None = "k") -> Stream:
    settings = StreamSettings(time="t", key=key, block_events=2, file_events=64)
    return create_store(folder / "store").create_stream("s", schema, settings)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    stream = empty_stream(tmp_path, SCHEMA)
    stream.append(EVENTS)
    return stream


@pytest.fixture
def speed_stream(tmp_path: Path) -> Stream:
    stream = empty_stream(tmp_path, SPEEDS.schema)
    stream.append(SPEEDS)
    return stream


def index_of(stream: Stream, name: str = NAME, version: int | None = None) -> Index:
    clear_caches()
    return open_indexes(stream.snapshot(version)).index(name)


def ranges(*parts: KeyRange | None, name: str = NAME) -> KeyRanges:
    kinds = [key_kind(SCHEMA.field(part).type, part) for part in name.split("+")]
    asked = [None if part is None else KeyRanges((part,)) for part in parts]
    found = composite_ranges(kinds, [*asked, *[None] * (len(kinds) - len(asked))])
    assert found is not None
    return found[0]


ROBBERY_IN_35 = ranges(KeyRange(35, 35), KeyRange("ROBBERY", "ROBBERY"))
UP_TO_R_IN_35 = ranges(KeyRange(35, 35), KeyRange(None, "R", high_closed=False))
IN_35 = ranges(KeyRange(35, 35))


def found(
    stream: Stream, asked: KeyRanges = ROBBERY_IN_35, *, version: int | None = None
) -> list[int]:
    seq: list[int] = index_of(stream, version=version).lookup(asked).seq.tolist()
    return seq


def faults_of(stream: Stream) -> list[str]:
    findings = check_stream(stream, deep=True, derived_checks=(check_runs,))
    return [one.invariant for one in findings if one.severity is not Severity.OK]


@pytest.mark.parametrize("least_events", [0, 100], ids=["runs", "tail"])
def test_lookup_finds_the_events_all_of_whose_columns_are_in_range(
    stream: Stream, least_events: int
) -> None:
    [report] = create_index(stream, [NAME], least_events=least_events)
    # Event 4 has no beat and is no entry; event 3 has no kind and is one.
    assert (report.attribute, report.existed) == (NAME, False)
    assert report.n_entries == (7 if least_events == 0 else 0)
    assert found(stream) == [0, 5]
    assert found(stream, UP_TO_R_IN_35) == [6]
    assert found(stream, IN_35) == [0, 1, 3, 5, 6]
    assert found(stream, ranges(KeyRange(8, 9))) == [2, 7]
    assert index_of(stream).estimate_count(ROBBERY_IN_35)[1] >= 2


def test_older_version_answers_from_the_same_runs(stream: Stream) -> None:
    create_index(stream, [NAME], least_events=0)
    version = stream.snapshot().version
    stream.append(table((1, "q", "ROBBERY", 35)), derived=writer_for(stream, least_events=0))
    assert found(stream) == [0, 2, 6]
    assert found(stream, version=version) == [0, 5]


def test_version_without_one_of_its_columns_has_no_such_index(stream: Stream) -> None:
    before = stream.snapshot().version
    add_column(stream, "lane", "int64")
    create_index(stream, ["lane+kind", NAME], least_events=0)
    assert open_indexes(stream.snapshot()).attributes == (NAME, "lane+kind")
    assert open_indexes(stream.snapshot(before)).attributes == (NAME,)
    # No event has a lane, so none has a key; the runs say so.
    [described] = [d for d in list_indexes(stream.snapshot()) if d.attribute == "lane+kind"]
    assert (described.n_runs, described.n_entries, described.n_tail_events) == (1, 0, 0)


@pytest.mark.parametrize("name", ["kind", "kind+beat"])
def test_check_takes_no_offence_at_long_texts_that_begin_alike(tmp_path: Path, name: str) -> None:
    stream = empty_stream(tmp_path, SCHEMA)
    kinds = ["ab" * 200 + end for end in ("", "c", "", "d", "c", "", "e", "d")]
    alike = EVENTS.set_column(2, "kind", pa.array(kinds))
    stream.append(alike, derived=RunWriter((name,), "t", key="k", fence_entries=2))
    asked = KeyRange(kinds[1], kinds[3])
    found = ranges(asked, name=name) if "+" in name else KeyRanges((asked,))
    assert index_of(stream, name).lookup(found).seq.tolist() == [1, 3, 4, 7]
    assert faults_of(stream) == []


def test_dropped_and_made_again_under_every_order_of_its_columns(stream: Stream) -> None:
    create_index(stream, [NAME, "kind+beat", "beat"], least_events=0)
    assert open_indexes(stream.snapshot()).attributes == ("beat", NAME, "kind+beat")
    asked = ranges(KeyRange("ROBBERY", "ROBBERY"), KeyRange(30, None), name="kind+beat")
    assert index_of(stream, "kind+beat").lookup(asked).seq.tolist() == [0, 5]
    assert drop_index(stream, NAME) > 0
    with pytest.raises(UnknownIndexError, match=r"no index on 'beat\+kind'.*mean 'kind\+beat'"):
        index_of(stream)
    with pytest.raises(UnknownIndexError, match=r"beat\+kind"):
        drop_index(stream, NAME)
    create_index(stream, [NAME], least_events=0)
    assert found(stream) == [0, 5]


def test_stream_can_be_renamed_with_it(stream: Stream) -> None:
    create_index(stream, [NAME], least_events=0)
    assert found(rename_stream(open_store(stream.path.parent), "s", "other")) == [0, 5]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        pytest.param("beet+kind", "no column 'beet' .*did you mean 'beat'", id="unknown"),
        pytest.param("beat+", "no column ''", id="empty"),
        pytest.param("beat+kind+beat", "'beat' twice", id="twice"),
        pytest.param("t+k+kind+beat+x", "names 5 columns; at most 4", id="five"),
        pytest.param("beat+delta(beat)", r"'delta\(beat\)' is derived", id="derived"),
        pytest.param("delta(t)+delta(beat)", r"'delta\(t\)' is derived", id="all-derived"),
        pytest.param("beat+a+c", r"column 'a\+c' has the sign '\+' in its name", id="holds-a-plus"),
        pytest.param("beat+kind+c", "no column 'c'", id="part-of-another"),
        pytest.param("beat+price", "'price' of type DECIMAL.* cannot be indexed", id="no-order"),
    ],
)
def test_what_cannot_be_indexed_together_is_refused(
    stream: Stream, attribute: str, message: str
) -> None:
    add_column(stream, "x", "int64")
    add_column(stream, "price", pa.decimal128(9, 2))
    add_column(stream, "a+c", "int64")
    for refused in (
        lambda: create_index(stream, [attribute]),
        lambda: RunWriter((attribute,), "t").tables(stream.schema),
    ):
        with pytest.raises(IndexingError, match=message):
            refused()
    assert list_indexes(stream.snapshot()) == []
    assert stream.settings.derived == ()


def test_derived_attribute_of_a_column_with_a_plus_is_no_composite() -> None:
    schema = pa.schema([("t", pa.int64()), ("a+b", pa.int64())])
    assert indexed_field(schema, "delta(a+b)") == pa.field("delta(a+b)", pa.int64())
    with pytest.raises(SchemaError, match=r"no column 'a\+c'.*mean 'a\+b'"):
        indexed_field(schema, "delta(a+c)")


def test_column_of_that_very_name_comes_first(tmp_path: Path) -> None:
    schema = pa.schema([(name, pa.int64()) for name in ("t", "a", "b", "a+b")])
    stream = empty_stream(tmp_path, schema, key=None)
    stream.append(pa.table({"t": [0, 1], "a": [1, 1], "b": [2, 2], "a+b": [3, 4]}, schema=schema))
    create_index(stream, ["a+b", "b+a"], least_events=0)
    assert index_of(stream, "a+b").lookup(KeyRanges((KeyRange(4, 4),))).seq.tolist() == [1]
    assert index_of(stream, "b+a").n_entries == 2


def test_no_column_can_be_added_that_would_take_its_name(stream: Stream) -> None:
    with pytest.raises(SchemaError, match=r"index on beat and kind together"):
        add_column(stream, NAME, "string")
    add_column(stream, "beat+lane", "string")  # there is no lane to be indexed with
    add_column(stream, "lane", "int64")
    assert parse_composite(stream.schema.names, "beat+lane") is None
    assert composite_parts(stream.schema.names, "beat+lane") is None


def test_its_runs_hold_strings(stream: Stream) -> None:
    create_index(stream, [NAME], least_events=0)
    runs = sorted((stream.path / "index" / NAME).glob("*.parquet"))
    assert {open_run(path).kind for path in runs} == {KeyKind.STRING}


DELTA = "delta(speed)"
ABOVE_ZERO = KeyRanges((KeyRange(low=0, low_closed=False),))


def test_index_on_a_derived_attribute_declares_it(speed_stream: Stream):
    [report] = create_index(speed_stream, ["delta( speed )"], least_events=0)
    assert (report.attribute, report.existed, report.n_entries) == (DELTA, False, 7)
    assert speed_stream.settings.derived == (DELTA,)
    assert [index.attribute for index in list_indexes(speed_stream.snapshot())] == [DELTA]


def test_dropped_index_leaves_the_attribute_declared(speed_stream: Stream):
    create_index(speed_stream, [DELTA], least_events=0)
    drop_index(speed_stream, DELTA)
    assert open_indexes(speed_stream.snapshot()).attributes == ()
    assert speed_stream.settings.derived == (DELTA,)
    with pytest.raises(UnknownIndexError):
        drop_index(speed_stream, DELTA)


def test_what_cannot_be_derived_is_refused_before_anything_is_made(speed_stream: Stream):
    with pytest.raises(SchemaError, match="column 'k' is STRING"):
        create_index(speed_stream, ["speed", "delta(k)"])
    assert speed_stream.settings.derived == ()
    assert open_indexes(speed_stream.snapshot()).attributes == ()


def test_runs_without_objects_of_a_stream_with_a_key_pass_a_deep_check(tmp_path: Path):
    stream = empty_stream(tmp_path, SPEEDS.schema)
    add_derived(stream, [DELTA])
    stream.append(SPEEDS, derived=RunWriter((DELTA,), "t"))
    assert index_of(stream, DELTA).lookup(ABOVE_ZERO).seq.tolist() == [0, 1, 2, 5]
    assert faults_of(stream) == []


def test_runs_of_other_values_are_found_by_a_deep_check(speed_stream: Stream):
    add_derived(speed_stream, [DELTA])
    create_index(speed_stream, [DELTA], least_events=0)
    [file] = speed_stream.snapshot().files
    # As many entries as there should be, one of another value: 21 instead of 20.
    wrong = pa.array([float("inf"), float("inf"), 1.0, -10.0, -2.0, 21.0, 0.0, None])
    values = SPEEDS.append_column(DELTA, wrong)
    times = SPEEDS.column("t").combine_chunks()
    RunWriter((DELTA,), "t", key="k").write(speed_stream.path, file.name, values, times, [2] * 4)
    assert ENTRIES in faults_of(speed_stream)
