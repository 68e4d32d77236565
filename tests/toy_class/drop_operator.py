"""The operator of drops: events in order of time in, drops out as they come."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from replay.operators.outer_pieces import Gap
from replay.operators.packing import State
from tests.toy_class.drop_query import DropQuery

SCHEMA = pa.schema([("since", pa.int64()), ("t", pa.int64()), ("seq", pa.int64())])


class DropOperator:
    n_faults = 0
    is_done = False

    def __init__(self, query: DropQuery) -> None:
        self._query = query
        self._n_seen = 0
        self._since: int | None = None

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        query, found = self._query, []
        for row in table.select(["t", "x"]).to_pylist():
            if row["x"] >= query.high:
                self._since = row["t"]
            near = self._since is not None and row["t"] - self._since <= query.within
            if row["x"] <= query.low and near:
                found.append({"since": self._since, "t": row["t"], "seq": self._n_seen})
            self._n_seen += 1
        yield pa.Table.from_pylist(found, SCHEMA)

    def skip(self, gap: Gap) -> Iterator[pa.Table]:
        assert gap.first == self._n_seen
        self._n_seen = gap.stop
        if self._since is not None and gap.time - self._since > self._query.within:
            self._since = None
        return iter(())

    def advance(self, time: int) -> Iterator[pa.Table]:
        return iter(())

    def finish(self) -> Iterator[pa.Table]:
        return iter(())

    def state(self) -> State:
        return {"n_seen": self._n_seen, "since": self._since}

    def take_over(self, state: State) -> None:
        self._n_seen, self._since = state["n_seen"], state["since"]
