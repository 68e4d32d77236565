"""The one law over streams whose columns came one by one: every plan gives the oracle's answer."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from chronicle import Store, StreamSettings, create_store, open_store
from chronicle.write.commit import complete_derived
from chronicle.write.evolve import add_column
from indexing import RunWriter
from replay.language import bind, parse_query
from tests.helpers import commit_table
from tests.oracles.matcher import match_rows
from tests.property.law import assert_plans_agree, comparable
from tests.strategies import SmallStream, cases

INDEXED = ("a", "x", "s", "f")
ADDABLE = ("a", "x", "s", "f", "k")


def without_values(stream: SmallStream, since: dict[str, int]) -> list[dict[str, object]]:
    """The rows as the stream has them: a column has no value before the cut it came at."""
    cuts = (0, *stream.cuts)
    return [
        row | {name: None for name, cut in since.items() if i < cuts[cut]}
        for i, row in enumerate(stream.rows)
    ]


def fill(
    store: Store,
    stream: SmallStream,
    rows: list[dict[str, object]],
    since: dict[str, int],
    indexes: tuple[str, ...],
) -> None:
    """Add each column just before the commit that first has it."""
    schema = pa.schema([field for field in stream.schema if field.name not in since])
    made = store.create_stream(
        "s",
        schema,
        StreamSettings(
            "t",
            block_events=stream.block_events,
            file_events=stream.file_events,
            fan_out=stream.fan_out,
        ),
    )
    borders = (0, *stream.cuts, len(rows))
    for position, (start, stop) in enumerate(itertools.pairwise(borders)):
        for name, cut in since.items():
            if cut == position:
                add_column(made, name, stream.schema.field(name).type)
        there = tuple(name for name in indexes if name in made.schema.names)
        table = pa.Table.from_pylist(rows[start:stop], schema=made.schema)
        commit_table(made, table, derived=RunWriter(there, time="t"))


@given(case=cases(), indexes=st.sets(st.sampled_from(INDEXED)), data=st.data())
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_gives_the_answer_of_the_oracle_over_added_columns(
    case: tuple[SmallStream, str], indexes: set[str], data: st.DataObject
) -> None:
    stream, sql = case
    cut = st.integers(0, len(stream.cuts))
    since = data.draw(st.dictionaries(st.sampled_from(ADDABLE), cut, min_size=1), label="since")
    rows = without_values(stream, since)
    bound = bind(parse_query(sql), stream.schema, time="t", text=sql)
    expected = comparable(match_rows(rows, bound))
    event(f"matches: {min(len(expected), 3)}")
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        fill(store, stream, rows, since, tuple(sorted(indexes)))
        for tree in sorted((store.path / "s" / "tree").glob("*.parquet")):
            if data.draw(st.integers(0, 3), label="loses tree") == 0:
                tree.unlink()
        if data.draw(st.booleans(), label="repaired"):
            complete_derived(store.stream("s"), RunWriter(tuple(sorted(indexes)), time="t"))
        for opened in (store, open_store(store.path)):
            assert_plans_agree(opened, sql, ("tree", "all", "auto"), expected=expected)
