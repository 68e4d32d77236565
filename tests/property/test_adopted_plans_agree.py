"""Every plan over an adopted table gives what a full replay of the same events gives.

Foreign files have row groups of any size, columns in any order and types of their own writer's;
some come after the stream was made. The oracle knows the events alone.
"""

from __future__ import annotations

import itertools
import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import replay
from chronicle import adopt, create_store
from indexing.lifecycle import create_index
from indexing.writer import writer_for
from replay.language import bind, parse_query
from tests.oracles.matcher import match_rows
from tests.property.law import assert_plans_agree, comparable
from tests.property.test_plans_agree import INDEXED
from tests.strategies import SmallStream, cases

_WIDER = {pa.string(): (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))}


@st.composite
def foreign_schemas(draw: st.DrawFn, schema: pa.Schema) -> pa.Schema:
    """The columns as another program may write them."""
    fields = []
    for field in draw(st.permutations(list(schema))):
        kinds = _WIDER.get(field.type, (field.type,))
        if pa.types.is_timestamp(field.type):
            kinds = (field.type, pa.timestamp("ms", field.type.tz))
        fields.append(pa.field(field.name, draw(st.sampled_from(kinds))))
    return pa.schema(fields)


class Lake:
    """A table of another owner; each file is named by its place in time."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self._kind = kind
        self._n_files = 0

    def put(self, events: pa.Table, group_rows: int) -> None:
        """Add a file, an empty one too."""
        name = f"{self._n_files:03d}.parquet"
        self._n_files += 1
        if self._kind == "delta":
            write_deltalake(self.path, events, mode="append")
            return
        folder = self.path / (f"part={self._n_files}" if self._kind == "folders" else "")
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(events, folder / name, row_group_size=group_rows)


@given(
    case=cases(),
    indexes=st.sets(st.sampled_from((*INDEXED, "a+s"))),
    kind=st.sampled_from(("files", "folders", "delta")),
    data=st.data(),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_over_an_adopted_table_gives_the_answer_of_the_oracle(
    case: tuple[SmallStream, str], indexes: set[str], kind: str, data: st.DataObject
) -> None:
    stream, sql = case
    bound = bind(parse_query(sql), stream.schema, time="t", text=sql)
    expected = comparable(match_rows(stream.rows, bound))
    schema = stream.schema if kind == "delta" else data.draw(foreign_schemas(stream.schema))
    events = stream.table.select(schema.names).cast(schema)
    borders = (0, *stream.cuts, len(stream.rows))
    with tempfile.TemporaryDirectory() as folder:
        lake, store = Lake(Path(folder) / "lake", kind), create_store(Path(folder) / "store")
        adopt_it = partial(
            adopt, store, "s", lake.path, derived=partial(writer_for, least_events=0)
        )
        for number, (start, stop) in enumerate(itertools.pairwise(borders)):
            lake.put(events.slice(start, stop - start), stream.block_events)
            if number == 0:
                begin = partial(create_index, attributes=sorted(indexes), least_events=0)
                adopt_it(time="t", begin=begin if indexes else None)
            elif number == len(borders) - 2 or data.draw(st.booleans()):
                adopt_it()
        assert store.stream("s").snapshot().n_events == len(stream.rows)
        event(kind)
        assert_plans_agree(store, sql, ("tree", "all", "auto"), expected=expected)


def test_the_answers_are_those_of_a_stream_of_the_same_events(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    events = pa.table({"t": range(10_000), "a": [t * 7919 % 1009 for t in range(10_000)]})
    for i in range(5):
        pq.write_table(events.slice(i * 2_000, 2_000), lake / f"{i}.parquet", row_group_size=333)
    store = create_store(tmp_path / "store")
    adopt(
        store, "s", lake, time="t", derived=partial(writer_for, least_events=0),
        begin=partial(create_index, attributes=["a"], least_events=0),
    )  # fmt: skip
    sql = (
        "SELECT b FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES LAST(B.t) AS b "
        "PATTERN (A B) WITHIN 1 DEFINE A AS a = 3, B AS a = 859)"
    )
    expected = replay.query({"s": events}, sql).table.to_pylist()
    assert len(expected) == 10
    for plan in ("full", "all", "auto"):
        found = replay.query(store, sql, plan=plan)
        assert found.table.to_pylist() == expected
    assert replay.query(store, sql, plan="all").actual.blocks_read < 25
