"""Aggregates over the matches of a row pattern over rows that are pushed; no match is made."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from replay.expressions.scalars import Faults
from replay.language.bound import BoundPatternQuery
from replay.operators.packing import State
from replay.patterns.program import MatchProgram
from replay.patterns.summing.answer import answer_sums
from replay.patterns.summing.choice import new_summing


class PatternSums:
    """A row pattern and the outer query around it, which groups; the answer comes at the end."""

    is_done = False

    def __init__(self, query: BoundPatternQuery, program: MatchProgram, schema: pa.Schema) -> None:
        self._query, self._program, self._of_rows = query, program, schema
        self._operator = new_summing(program)
        self._n_rows = 0
        self._faults = Faults()
        self.schema = self._answer().schema

    @property
    def n_faults(self) -> int:
        """Faults of rows so far."""
        return self._operator.n_faults + self._faults.count

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows; nothing comes before the end."""
        rows = table.select(list(self._program.columns)).unify_dictionaries()
        self._operator.push(self._program.prepare(rows), self._n_rows)
        self._n_rows += table.num_rows
        return iter(())

    def advance(self, time: int) -> Iterator[pa.Table]:  # noqa: ARG002
        """Yield nothing: the answer waits for the end."""
        return iter(())

    def finish(self) -> Iterator[pa.Table]:
        """Yield the answer."""
        self._operator.finish()
        yield self._answer()

    def _answer(self) -> pa.Table:
        assert self._program.sums is not None
        summing, totals = self._program.sums.summing, self._operator.totals()
        return answer_sums(self._query, summing, totals, self._of_rows, self._faults)

    def state(self) -> State:
        """Return what is known: a few numbers for each partition, and rows within WITHIN."""
        return {
            "n_rows": self._n_rows,
            "n_faults": self._faults.count,
            "sums": self._operator.state(),
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._n_rows, self._faults.count = state["n_rows"], state["n_faults"]
        self._operator.take_over(state["sums"])
