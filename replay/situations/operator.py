"""Temporal patterns as an operator: rows in, in the order of time; matches out once certain."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.time import from_int64, type_of_moments
from replay.engines.scan import decoded
from replay.expressions.columns import Columns
from replay.expressions.scalars import Faults
from replay.language.bound import SituationRelation
from replay.limits import check_limits
from replay.operators.outer_pieces import Alike, Counts, Gap, RowsBefore
from replay.operators.packing import State
from replay.situations.derive import Deriver, Situations
from replay.situations.detection import OPEN
from replay.situations.matching import Matcher, Matches
from replay.situations.network import why_never
from replay.situations.returns import GroupsOf, Returns


class SituationOperator:
    """Finds the matches of a temporal pattern.

    ``push`` gives those that were certain before the time of the last row, since more rows of that
    time may come; ``advance`` those before a time that no row to come is before; ``finish`` the
    rest up to the time of the last row. ``groups_of`` makes what aggregates rows for RETURN.

    Attributes
    ----------
    reached
        The time before which no further match is detected; None before the first row.
    """

    def __init__(self, query: SituationRelation, schema: pa.Schema, groups_of: GroupsOf) -> None:
        self._query = query
        self._faults = Faults()
        self._deriver = Deriver(query, schema, self._faults)
        self._returns = Returns(query, schema, groups_of, self._faults)
        self._matcher = Matcher(query)
        self.is_done = why_never(query) is not None
        self.reached: int | None = None
        self._last_time: int | None = None
        self._rows_before: RowsBefore | None = None
        """Finds rows before those at hand, if some were left out."""
        self._held_before: dict[int, npt.NDArray[np.bool_]] = {}
        """Which conditions held in the row before the first at hand, as far as it was asked for."""
        self._counts = np.zeros(4, np.int64)
        self.schema = _schema(query, schema, self._returns.schema)

    @property
    def n_faults(self) -> int:
        """Evaluations whose arithmetic or cast gave NULL."""
        return self._faults.count

    @property
    def counts(self) -> Counts:
        """How many situations were derived, and were live at once at most.

        Partial results are combinations of some situations, but not all, for which the rest was
        looked for. Suspects are situations of matches that may have begun before the rows at hand;
        refuted is what had.
        """
        derived, live, suspects, refuted = self._counts.tolist()
        return {
            "situations": {
                "derived": derived,
                "live": live,
                "partial_results": self._matcher.n_partial,
                "suspects": suspects,
                "refuted": refuted,
            }
        }

    @property
    def n_held(self) -> int:
        """Rows, and what stands for rows, that are held for RETURN."""
        return self._returns.n_held

    def push(self, events: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows."""
        if not events.num_rows or self.is_done:
            return
        first = self._deriver.n_rows
        rows = self._deriver.push(events)
        self._returns.push(events, rows, first)
        self._note(rows.situations, first)
        self._last_time = int(rows.times[-1])
        yield from self._until(self._last_time - 1)

    def skip(self, gap: Gap) -> Iterator[pa.Table]:
        """Take it that rows were left out here, none of which a match contains.

        Up to their begin all is known. What goes on there belongs to no match behind them, nor does
        a run that has begun among them: `Deriver.skip`.
        """
        yield from self._until(gap.begins - 1, gap.last_time)
        self._matcher.clear()
        self._rows_before, self._held_before = gap.rows_before, {}
        self._deriver.skip(gap)
        if gap.rows_beside is not None:
            self._deriver.remember(gap.rows_beside)
        self._returns.forget()
        self._last_time = gap.time

    def tell(self, events: pa.Table, alike: Alike) -> Iterator[pa.Table]:
        """Take the next rows: some, and parts between them that are known unread."""
        if self.is_done:
            return
        first = self._deriver.n_rows
        self._returns.aggregate_by(alike.aggregate)
        rows = self._deriver.tell(events, alike)
        self._note(rows.situations, first)
        self._last_time = int(rows.times[-1])
        yield from self._until(self._last_time - 1)

    def advance(self, time: int) -> Iterator[pa.Table]:
        """Take it that no row to come is before a time."""
        return self._until(time - 1)

    def finish(self) -> Iterator[pa.Table]:
        """End the input: history ends at its last row."""
        if self._last_time is not None:
            yield from self._until(self._last_time)

    # -----------------------------------------------------------------------------------------
    # Situations as they begin and end

    def _note(self, situations: Situations, first_seq: int) -> None:
        """Take in situations that begin or end from a row on."""
        self._counts[0] += np.count_nonzero(situations.first >= first_seq)
        self._matcher.note(np.stack(situations, axis=1), first_seq, self._deriver.partitions.n)

    def _fall_silent(self, since: int, clock: int) -> None:
        """End what goes on in partitions whose last row speaks up to a time behind ``since``."""
        valid_for = self._query.valid_for
        if valid_for is None:
            return
        times = self._deriver.last_times
        silent = np.flatnonzero((times > since - valid_for) & (times <= clock - valid_for))
        silent = silent[self._deriver.holds[silent] != 0]
        n = len(self._query.situations)
        partitions, names = np.repeat(silent, n), np.tile(np.arange(n), len(silent))
        begun = np.full(len(names), -1)  # before all rows
        stops = np.full(len(names), self._deriver.n_rows)
        ends = times[partitions] + valid_for
        self._note(Situations(partitions, names, begun, begun, ends, stops), 0)

    # -----------------------------------------------------------------------------------------
    # The clock

    def _until(
        self, clock: int, last_time: Callable[[], int | None] | None = None
    ) -> Iterator[pa.Table]:
        """Yield the matches that are certain by a time, but for those before.

        ``last_time`` tells when history ends, if that may be before the clock.
        """
        since = -OPEN if self.reached is None else self.reached - 1
        if self.reached is not None and clock <= since:
            return
        self.reached = clock + 1
        self._fall_silent(since, clock)
        self._counts[1] = max(self._counts[1], self._matcher.n_lives)
        for piece in self._matcher.until(clock):
            found = self._begun_at_hand(piece)
            if last_time is not None and len(found.detections) and self._last_time is not None:
                ends = self._last_time
                if (found.detections > ends).any():
                    later = last_time()
                    ends = ends if later is None else later
                    found = found.take(found.detections <= ends)
            if len(found.detections):
                check_limits()
                yield self._told(found)
        if self._returns.is_full:
            self._returns.add_to_entries(self._matcher.lives())

    def _begun_at_hand(self, found: Matches) -> Matches:
        """Leave out matches with a situation that had begun before the rows at hand.

        Only a run from the first row of its partition at hand may have, and the row before tells.
        """
        if self._rows_before is None:
            return found
        firsts = self._deriver.first_rows[found.partitions]
        suspects = found.firsts == firsts[:, None]
        partitions = found.partitions[suspects.any(axis=1)]
        asked = sorted(set(partitions.tolist()) - self._held_before.keys())
        if asked:
            keys = self._deriver.partitions.keys.take(pa.array(asked))
            places, rows = self._rows_before(keys)
            held = np.zeros((len(asked), len(self._query.situations)), np.bool_)
            held[places] = self._deriver.truths_of(Columns(rows))
            self._held_before |= dict(zip(asked, held, strict=True))
        self._counts[2] += np.count_nonzero(suspects)
        for row in np.flatnonzero(suspects.any(axis=1)):
            suspects[row] &= self._held_before[int(found.partitions[row])]
        self._counts[3] += np.count_nonzero(suspects)
        return found.take(~suspects.any(axis=1))

    # -----------------------------------------------------------------------------------------
    # Rows of the answer

    def _told(self, matches: Matches) -> pa.Table:
        keys = self._deriver.partitions.keys
        keys = keys.take(pa.array(matches.partitions)) if keys.num_columns else keys
        columns: list[pa.Array | pa.ChunkedArray] = [*keys.columns]
        columns += self._returns.of(matches, keys)
        time_type = self.schema.field(self.schema.names[-1]).type
        goes_on = matches.ends > matches.detections[:, None]
        for place in range(len(self._query.situations)):
            starts = pa.array(matches.starts[:, place])
            ends = pa.array(matches.ends[:, place], mask=goes_on[:, place])
            columns += [from_int64(starts, time_type), from_int64(ends, time_type)]
        columns.append(from_int64(pa.array(matches.detections), time_type))
        return pa.table(columns, schema=self.schema)

    # -----------------------------------------------------------------------------------------
    # State

    def state(self) -> State:
        """Return all that is known of the rows pushed."""
        return {
            "deriver": self._deriver.state(),
            "returns": self._returns.state(),
            "reached": self.reached,
            "last_time": self._last_time,
            "n_faults": self._faults.count,
            "lives": self._matcher.state(),
        }

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._deriver.take_over(state["deriver"])
        self._returns.take_over(state["returns"])
        self.reached, self._last_time = state["reached"], state["last_time"]
        self._faults.count = state["n_faults"]
        since = -OPEN if self.reached is None else self.reached - 1
        self._matcher.take_over(state["lives"], self._deriver.partitions.n, since)


def _schema(query: SituationRelation, schema: pa.Schema, returns: pa.Schema) -> pa.Schema:
    """Return the columns of the answer, those of PARTITION BY and times with their types."""
    plain = decoded(schema.empty_table()).schema
    keys = [plain.field(name).with_nullable(True) for name in query.partition_by]
    # Durations may be finer than the column.
    time_type = type_of_moments(schema.field(query.source_time.name).type)
    names = [name for name, _ in query.columns[len(keys) + len(returns) :]]
    return pa.schema([*keys, *returns, *(pa.field(name, time_type) for name in names)])
