"""Temporal patterns as an operator: rows in, in the order of time; matches out once certain."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow.types import is_timestamp

from chronicle.config import TIME_UNIT
from chronicle.time import from_int64
from replay.expressions.columns import Columns
from replay.expressions.scalars import Faults
from replay.language.bound import SituationRelation
from replay.operators.outer_pieces import Alike, Gap, RowsBefore
from replay.operators.packing import State
from replay.situations.derive import Change, Deriver
from replay.situations.detection import OPEN
from replay.situations.matching import Live, Match, Matcher
from replay.situations.network import why_never
from replay.situations.returns import AggregateGroups, Returns

KEPT_ROWS_MIN = 1 << 14
"""Rows that pile up at least before those of no live situation are dropped."""


class SituationOperator:
    """Finds the matches of a temporal pattern.

    ``push`` gives those that were certain before the time of the last row, since more rows of that
    time may come; ``advance`` those before a time that no row to come is before; ``finish`` the
    rest up to the time of the last row. ``aggregate`` computes what RETURN asks for.

    Attributes
    ----------
    reached
        The time before which no further match is detected; None before the first row.
    """

    def __init__(
        self, query: SituationRelation, schema: pa.Schema, aggregate: AggregateGroups
    ) -> None:
        self._query = query
        self._faults = Faults()
        self._deriver = Deriver(query, schema, self._faults)
        self._returns = Returns(query, schema, aggregate, self._faults)
        self._matcher = Matcher(query)
        self.is_done = why_never(query) is not None
        self.reached: int | None = None
        self._last_time: int | None = None
        self._lives: dict[int, list[list[Live]]] = {}
        """By partition and name, the situations that a match may still contain."""
        self._going_on: dict[tuple[int, int], Live] = {}
        self._due: list[tuple[int, int, Live | int]] = []
        """A heap: at a time, what may be certain then by a situation; or whether the rows of a
        partition have fallen silent. The second value tells pushes apart."""
        self._pushes = count()
        self._watched: set[int] = set()
        """Partitions that are in ``_due``, each once however often they speak."""
        self._rows_before: RowsBefore | None = None
        """Finds rows before those at hand, if some were left out."""
        self._held_before: dict[int, npt.NDArray[np.bool_]] = {}
        """Which conditions held in the row before the first at hand, as far as it was asked for."""
        self._kept = 0
        self.schema = _schema(query, schema, self._returns.schema)

    @property
    def n_faults(self) -> int:
        """Evaluations whose arithmetic or cast gave NULL."""
        return self._faults.count

    def push(self, events: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows."""
        if not events.num_rows or self.is_done:
            return
        first = self._deriver.n_rows
        rows = self._deriver.push(events)
        self._returns.push(events, rows, first)
        for change in rows.changes:
            self._note(change)
        if self._query.valid_for is not None:
            self._expect_silence(np.unique(rows.partitions).tolist())
        self._last_time = int(rows.times[-1])
        yield from self._until(self._last_time - 1)

    def skip(self, gap: Gap) -> Iterator[pa.Table]:
        """Take it that rows were left out here, none of which a match contains.

        Up to their begin all is known. What goes on there belongs to no match behind them, nor does
        a run that has begun among them: `Deriver.skip`.
        """
        yield from self._until(gap.begins - 1)
        self._lives, self._going_on, self._due, self._watched = {}, {}, [], set()
        self._rows_before, self._held_before = gap.rows_before, {}
        self._deriver.skip(gap)
        self._returns.forget(gap.stop)
        self._last_time = gap.time

    def tell(self, rows: Alike) -> Iterator[pa.Table]:
        """Take the next rows, all alike."""
        if self.is_done:
            return
        self._returns.aggregate_by(rows.aggregate)
        told = self._deriver.tell(rows)
        for change in told.changes:
            self._note(change)
        if self._query.valid_for is not None:
            self._expect_silence([0])
        self._last_time = rows.time
        yield from self._until(rows.time - 1)

    def advance(self, time: int) -> Iterator[pa.Table]:
        """Take it that no row to come is before a time."""
        return self._until(time - 1)

    def finish(self) -> Iterator[pa.Table]:
        """End the input: history ends at its last row."""
        if self._last_time is not None:
            yield from self._until(self._last_time)

    # -----------------------------------------------------------------------------------------
    # Situations as they begin and end

    def _note(self, change: Change) -> None:
        key = change.partition, change.situation
        if change.begins:
            live = Live(*key, change.time, change.seq)
            self._going_on[key] = live
            self._of_partition(change.partition)[change.situation].append(live)
            self._expect(live)
            return
        ended = self._going_on.pop(key, None)
        if ended is not None:  # else it has fallen silent before, or no match contains it
            self._end(ended, change.time, change.seq)

    def _of_partition(self, partition: int) -> list[list[Live]]:
        """Return the live situations of a partition by name."""
        if partition not in self._lives:
            self._lives[partition] = [[] for _ in self._query.situations]
        return self._lives[partition]

    def _end(self, live: Live, time: int, stop: int) -> None:
        live.end, live.stop = time, stop
        terms = self._matcher.terms(live)
        if live.end == live.start or not terms:  # it covers no time, or is too short or too long
            last = self._lives[live.partition][live.situation].pop()
            assert last is live
            return
        if live.end in terms:
            heappush(self._due, (live.end, next(self._pushes), live))

    def _expect(self, live: Live) -> None:
        for term in self._matcher.terms(live):
            heappush(self._due, (term, next(self._pushes), live))

    def _expect_silence(self, partitions: list[int]) -> None:
        assert self._query.valid_for is not None
        holds, times = self._deriver.holds, self._deriver.last_times
        for partition in partitions:
            if partition not in self._watched and holds[partition].any():
                self._watched.add(partition)
                due = int(times[partition]) + self._query.valid_for
                heappush(self._due, (due, next(self._pushes), partition))

    def _fall_silent(self, partition: int, time: int) -> None:
        """End what goes on in a partition whose last row speaks no longer."""
        assert self._query.valid_for is not None
        self._watched.discard(partition)
        if int(self._deriver.last_times[partition]) + self._query.valid_for > time:
            self._expect_silence([partition])  # it has spoken since
            return
        for situation in range(len(self._query.situations)):
            live = self._going_on.pop((partition, situation), None)
            if live is not None:
                self._end(live, time, self._deriver.n_rows)

    # -----------------------------------------------------------------------------------------
    # The clock

    def _until(self, clock: int) -> Iterator[pa.Table]:
        """Yield the matches that are certain by a time, but for those before."""
        since = clock if self.reached is None else self.reached - 1
        if self.reached is None:
            since = -OPEN
        if clock <= since:
            return
        self.reached = clock + 1
        seeds: dict[Live, None] = {}
        while self._due and self._due[0][0] <= clock:
            time, _, what = heappop(self._due)
            if isinstance(what, int):
                self._fall_silent(what, time)
            elif self._matcher.terms(what):
                seeds[what] = None
        found: list[Match] = []
        for partition in {seed.partition for seed in seeds}:
            self._forget(partition, since)
        for seed in seeds:
            lives = self._lives[seed.partition]
            found += self._matcher.matches(seed, lives, since, clock)
        found = self._begun_at_hand(found)
        found.sort(key=lambda match: match.place)
        if found:
            yield self._told(found)
        for partition in {seed.partition for seed in seeds}:
            self._forget(partition, clock)
        if self._returns.n_rows > 2 * self._kept + KEPT_ROWS_MIN:
            self._forget_rows(clock)

    def _begun_at_hand(self, found: list[Match]) -> list[Match]:
        """Leave out matches with a situation that had begun before the rows at hand.

        Only a run from the first row of its partition at hand may have, and the row before tells.
        """
        if self._rows_before is None or not found:
            return found
        firsts = self._deriver.first_rows.tolist()
        suspects = [
            (match, [live for live in match.situations if live.first == firsts[live.partition]])
            for match in found
        ]
        partitions = {lives[0].partition for _, lives in suspects if lives}
        asked = sorted(partitions - self._held_before.keys())
        if asked:
            keys = self._deriver.partitions.keys.take(pa.array(asked))
            places, rows = self._rows_before(keys)
            held = np.zeros((len(asked), len(self._query.situations)), np.bool_)
            held[places] = self._deriver.truths_of(Columns(rows))
            self._held_before |= dict(zip(asked, held, strict=True))
        return [
            match
            for match, lives in suspects
            if not any(self._held_before[live.partition][live.situation] for live in lives)
        ]

    def _forget(self, partition: int, clock: int) -> None:
        """Drop the situations of a partition that no match to come contains."""
        for situation, lives in enumerate(self._lives[partition]):
            if lives and self._matcher.is_over(lives[-1], clock):
                lives.pop()
                self._going_on.pop((partition, situation), None)  # only the last can go on
            n_over = 0  # those that started first are over first
            while n_over < len(lives) and self._matcher.is_over(lives[n_over], clock):
                n_over += 1
            del lives[:n_over]

    def _forget_rows(self, clock: int) -> None:
        firsts = [self._deriver.n_rows]
        for partition, by_name in self._lives.items():
            self._forget(partition, clock)
            firsts += [live.first for lives in by_name for live in lives]
        self._returns.forget(min(firsts))
        self._kept = self._returns.n_rows

    # -----------------------------------------------------------------------------------------
    # Rows of the answer

    def _told(self, matches: list[Match]) -> pa.Table:
        numbers = pa.array([match.situations[0].partition for match in matches])
        keys = self._deriver.partitions.keys
        keys = keys.take(numbers) if keys.num_columns else keys
        columns: list[pa.Array | pa.ChunkedArray] = [*keys.columns]
        columns += self._returns.of(matches, keys)
        time_type = self.schema.field(self.schema.names[-1]).type
        for place in range(len(self._query.situations)):
            lives = [match.situations[place] for match in matches]
            ends = [
                live.end if live.end <= match.detection else None
                for live, match in zip(lives, matches, strict=True)
            ]
            columns += [_times([live.start for live in lives], time_type), _times(ends, time_type)]
        columns.append(_times([match.detection for match in matches], time_type))
        return pa.table(columns, schema=self.schema)

    # -----------------------------------------------------------------------------------------
    # State

    def state(self) -> State:
        """Return all that is known of the rows pushed."""
        lives = [live for names in self._lives.values() for each in names for live in each]
        return {
            "deriver": self._deriver.state(),
            "returns": self._returns.state(),
            "reached": self.reached,
            "last_time": self._last_time,
            "n_faults": self._faults.count,
            "lives": np.array([_packed(live) for live in lives], np.int64).reshape(-1, 6),
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._deriver.take_over(state["deriver"])
        self._returns.take_over(state["returns"])
        self.reached, self._last_time = state["reached"], state["last_time"]
        self._faults.count = state["n_faults"]
        self._lives, self._going_on, self._due, self._watched = {}, {}, [], set()
        self._kept = 0
        since = -OPEN if self.reached is None else self.reached - 1
        for live in (Live(*values) for values in state["lives"].tolist()):
            if live.end == OPEN:
                self._going_on[live.partition, live.situation] = live
            self._of_partition(live.partition)[live.situation].append(live)
            for term in self._matcher.terms(live):
                if term > since:
                    heappush(self._due, (term, next(self._pushes), live))
        if self._query.valid_for is not None:
            self._expect_silence(list(range(self._deriver.partitions.n)))


def _packed(live: Live) -> tuple[int, ...]:
    return (live.partition, live.situation, live.start, live.first, live.end, live.stop)


def _times(values: list[int] | list[int | None], time_type: pa.DataType) -> pa.Array:
    return from_int64(pa.array(values, pa.int64()), time_type)


def _schema(query: SituationRelation, schema: pa.Schema, returns: pa.Schema) -> pa.Schema:
    """Return the columns of the answer, those of PARTITION BY and times with their types."""
    keys = [schema.field(name).with_nullable(True) for name in query.partition_by]
    time_type = schema.field(query.source_time.name).type
    # Durations may be finer than the column.
    time_type = pa.timestamp(TIME_UNIT, time_type.tz) if is_timestamp(time_type) else pa.int64()
    names = [name for name, _ in query.columns[len(keys) + len(returns) :]]
    return pa.schema([*keys, *returns, *(pa.field(name, time_type) for name in names)])
