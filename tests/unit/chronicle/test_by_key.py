"""Summaries by key: what each block's events of each key add up to."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle import (
    StreamSettings,
    add_derived,
    check_stream,
    create_store,
    delete_range,
    repair_stream,
)
from chronicle.errors import SchemaError
from chronicle.maintenance.finding import faults_of
from chronicle.store import Stream
from chronicle.tree.by_key import KEYS_MAX, KeySummaries
from chronicle.tree.summary import Kind, integer_sums
from chronicle.tree.tree_file import TREE_TABLE, TreeFile
from chronicle.write.block_writer import write_tree
from chronicle.write.commit import complete_derived

SCHEMA = pa.schema(
    {"t": pa.int64(), "k": pa.string(), "x": pa.float64(), "n": pa.int64(), "s": pa.string()}
)
DECLARED = ("by(x)", "by(n)", "by(s)")

Row = tuple[int, str | None, float | None, int | None, str | None]


def table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 5
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


def made(path: Path, parts: list[list[Row]], *, declared: tuple[str, ...] = DECLARED) -> Stream:
    chosen = StreamSettings(
        "t", block_events=3, file_events=7, fan_out=2, key="k", derived=declared
    )
    stream = create_store(path).create_stream("s", SCHEMA, chosen)
    for part in parts:
        stream.append(table(part))
    return stream


def naive(stream: Stream, column: str) -> dict[object, list[dict[str, object]]]:
    """Per key and block, in plain Python: rows, values, nulls, NaN, extremes, sum."""
    snapshot = stream.snapshot()
    blocks = [
        snapshot.read_blocks(np.array([b]), ["k", column]).to_pylist()
        for b in range(snapshot.n_blocks)
    ]
    keys = {row["k"] for block in blocks for row in block}
    return {
        key: [summary([r[column] for r in block if r["k"] == key]) for block in blocks]
        for key in keys
    }


def summary(values: list) -> dict[str, object]:
    nans = [v for v in values if isinstance(v, float) and math.isnan(v)]
    real = [v for v in values if v is not None and v not in nans and v == v]
    found: dict[str, object] = {
        "rows": len(values),
        "values": len(real),
        "nulls": sum(v is None for v in values),
        "nans": len(nans),
    }
    if real:
        found |= {"min": min(real), "max": max(real)}
        if not isinstance(real[0], str):
            found["sum"] = sum(map(Fraction, real))
    return found


def told(found: KeySummaries) -> dict[object, list[dict[str, object]]]:
    answer: dict[object, list[dict[str, object]]] = {}
    for i, key in enumerate(found.keys):
        values = found.values[i]
        answer[key] = []
        for b in range(found.n_blocks):
            entry: dict[str, object] = {
                "rows": int(found.rows[i, b]),
                "values": int(values.n_values[b]),
                "nulls": int(values.null_count[b]),
                "nans": int(values.nan_count[b]),
            }
            if values.n_values[b]:
                low, high = values.minimum[b], values.maximum[b]
                entry |= {
                    "min": low.as_py() if isinstance(low, pa.Scalar) else low.item(),
                    "max": high.as_py() if isinstance(high, pa.Scalar) else high.item(),
                }
                if values.kind is Kind.INTEGER:
                    cut = slice(b, b + 1)
                    entry["sum"] = integer_sums(values.sum_high[cut], values.sum_low[cut])[0]
                elif values.kind is Kind.FLOAT:
                    entry["sum"] = Fraction(float(values.sum_high[b])) + Fraction(
                        float(values.sum_low[b])
                    )
            answer[key].append(entry)
    return answer


keys = st.sampled_from(["a", "b", "é\"'", ""]) | st.none()
rows = st.lists(
    st.tuples(
        st.integers(0, 40),
        keys,
        st.none() | st.sampled_from([math.nan, 0.5, -1.25, 3.0, 1e300]),
        st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        st.none() | st.sampled_from(["", "p", "q"]),
    ),
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(rows=rows, n_parts=st.integers(1, 3), is_stored=st.booleans())
def test_they_say_what_the_events_of_each_key_say(
    rows: list[Row], n_parts: int, is_stored: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    size = -(-len(rows) // n_parts) or 1
    parts = [sorted(rows[i : i + size], key=lambda r: r[0]) for i in range(0, len(rows), size)]
    path = tmp_path_factory.mktemp("by")
    stream = made(path / "store", parts)  # later parts hold late events too
    if not is_stored:
        for tree in (stream.path / TREE_TABLE).glob("*.parquet"):
            tree.unlink()
        stream = create_again(path / "store")
    for column in ("x", "n", "s"):
        found = stream.snapshot().by_key(column)
        assert found is not None
        assert told(found) == naive(stream, column)
    assert not faults_of(check_stream(stream, deep=True)) or not is_stored


def create_again(path: Path) -> Stream:
    from chronicle import open_store

    return open_store(path).stream("s")


TWO = [
    (1, "a", 1.0, 1, "p"),
    (2, "b", 2.0, 2, "q"),
    (3, "a", 4.0, 3, None),
    (4, None, None, 4, "r"),
]


def test_keys_ascend_and_null_comes_last(tmp_path: Path) -> None:
    stream = made(
        tmp_path / "store", [[(i, k, 1.0, 1, "") for i, k in enumerate(["b", None, "a"])]]
    )
    found = stream.snapshot().by_key("x")
    assert found is not None
    assert found.keys == ("a", "b", None)


@pytest.mark.parametrize(
    ("key_type", "values"), [(pa.int64(), [7, -1, None]), (pa.bool_(), [True, False, None])]
)
def test_keys_may_be_whole_numbers_or_booleans(
    tmp_path: Path, key_type: pa.DataType, values: list
) -> None:
    schema = pa.schema({"t": pa.int64(), "k": key_type, "x": pa.float64()})
    chosen = StreamSettings("t", key="k", derived=("by(x)",))
    stream = create_store(tmp_path / "store").create_stream("s", schema, chosen)
    stream.append(pa.table({"t": [1, 2, 3], "k": pa.array(values, key_type), "x": [1.0, 2.0, 4.0]}))
    found = create_again(tmp_path / "store").snapshot().by_key("x")
    assert found is not None
    assert found.keys == (*sorted(v for v in values if v is not None), None)


def test_nothing_is_read_where_they_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = made(tmp_path / "store", [TWO, TWO])
    stream = create_again(tmp_path / "store")
    snapshot = stream.snapshot()
    monkeypatch.setattr("chronicle.tree.blocks.BlockReader.read", None)
    found = snapshot.by_key("x")
    assert found is not None
    assert found.keys == ("a", "b", None)


def test_a_stream_that_does_not_declare_them_has_none(tmp_path: Path) -> None:
    stream = made(tmp_path / "store", [TWO], declared=("by(x)",))
    assert stream.snapshot().by_key("n") is None
    with pytest.raises(SchemaError, match="no column 'nope'"):
        stream.snapshot().by_key("nope")


@pytest.mark.parametrize("is_stored", [True, False])
def test_too_many_keys_in_a_file_are_not_summarised(tmp_path: Path, is_stored: bool) -> None:
    chosen = StreamSettings("t", key="k", derived=("by(x)",))
    stream = create_store(tmp_path / "store").create_stream("s", SCHEMA, chosen)
    stream.append(table([(i, f"k{i}", 1.0, 1, "") for i in range(KEYS_MAX)]))
    assert stream.snapshot().by_key("x") is not None
    stream.append(table([(100 + i, f"k{i}", 1.0, 1, "") for i in range(KEYS_MAX + 1)]))
    if not is_stored:
        for tree in (stream.path / TREE_TABLE).glob("*.parquet"):
            tree.unlink()
    stream = create_again(tmp_path / "store")
    assert stream.snapshot().by_key("x") is None
    assert not faults_of(check_stream(stream, deep=True)) or not is_stored


def test_they_can_be_declared_when_there_are_events(tmp_path: Path) -> None:
    stream = made(tmp_path / "store", [TWO, TWO], declared=())
    assert stream.snapshot().by_key("x") is None
    assert add_derived(stream, ["by(x)"]) == ("by(x)",)
    before = stream.snapshot().by_key("x")  # made from the events
    assert before is not None
    assert complete_derived(stream, None) == len(stream.snapshot().files)
    trees = [TreeFile(stream.path / TREE_TABLE / f.name) for f in stream.snapshot().files]
    assert all(tree.holds(["by(x)"]) for tree in trees)
    after = create_again(tmp_path / "store").snapshot().by_key("x")
    assert after is not None
    assert told(after) == told(before)


def test_deleting_a_range_writes_them_anew(tmp_path: Path) -> None:
    stream = made(tmp_path / "store", [TWO])
    delete_range(stream, 1, 2, derived=None)
    found = stream.snapshot().by_key("x")
    assert found is not None
    assert told(found) == naive(stream, "x")


def test_a_deep_check_finds_wrong_ones_and_repair_puts_them_right(tmp_path: Path) -> None:
    stream = made(tmp_path / "store", [TWO])
    (name,) = [file.name for file in stream.snapshot().files]
    wrong = table([(t, "a", x, n, s) for t, _, x, n, s in TWO])
    write_tree(stream.path, name, wrong, np.array([1, 2, 3, 4]), [3, 1], stream.settings)
    faults = faults_of(check_stream(stream, deep=True))
    assert len(faults) == 1
    # Rewritten under its name: nobody but a deep check can tell.
    repair_stream(stream, deep=True)
    stream = create_again(tmp_path / "store")
    found = stream.snapshot().by_key("x")
    assert found is not None
    assert told(found) == naive(stream, "x")


@pytest.mark.parametrize(
    ("name", "key", "said"),
    [
        ("by(nope)", "k", "no column 'nope'"),
        ("by(x)", None, "needs the stream's key column"),
        ("by(x)", "x", "keys are texts, whole numbers or booleans"),
        ("by(raw)", "k", "neither order nor sum"),
        ("sum(x)", "k", "write delta"),
    ],
)
def test_what_cannot_be_summarised_by_key_is_refused(
    tmp_path: Path, name: str, key: str | None, said: str
) -> None:
    schema = SCHEMA.append(pa.field("raw", pa.binary()))
    with pytest.raises(SchemaError, match=said):
        create_store(tmp_path / "store").create_stream(
            "s", schema, StreamSettings("t", key=key, derived=(name,))
        )
