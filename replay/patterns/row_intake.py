"""What all matchers do with rows pushed into them, and how their state is packed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.language.bound import MatchNumber, walk
from replay.operators.packing import State
from replay.operators.partition_keys import Key
from replay.patterns.partitions import PartitionEdges, PartitionTable
from replay.patterns.prepared import BEFORE, Prepared
from replay.patterns.program import MatchProgram, deferred
from replay.patterns.search import Rows

IntArray = npt.NDArray[np.int64]

KNOWN_MIN = 1 << 14
"""Partitions, or texts, that are known at least before those of no row kept are forgotten: some MB,
since each push would number thousands anew that come again and again."""

Arrays = dict[str, npt.NDArray[Any]]

ROWS = ("words", "times", "leaves", "known", "seq", "group")
"""Fields of the rows of a state."""


class RowIntake(ABC):
    """Counts rows and faults, holds them to their order, and gives texts codes that last.

    Rows are pushed in order of ``seq``, contiguous within a stretch; ``finish`` ends a stretch.
    ``n_events`` are those of the stream the stretches are of; None: what is pushed is the stream.
    """

    kind = ""
    """Of a state: which class of matcher it is of."""

    numbers: tuple[str, ...] = ()
    """Of a state: the attributes that are one number or None."""

    def __init__(
        self, program: MatchProgram, partitions: PartitionTable, n_events: int | None
    ) -> None:
        self._program = program
        self._partitions = partitions
        self._edges = PartitionEdges.of(program, n_events)
        self._inbox: list[Rows] = []
        self._deferred: list[tuple[Prepared, int]] = []
        self._next_seq: int | None = None
        self._strings = {text: code for code, text in enumerate(program.across.texts)}
        self._ranks_of_known = np.empty(0, np.int64)
        self._known_max = [KNOWN_MIN, KNOWN_MIN]
        self._n_rows = 0
        self._n_faults = 0
        self._n_matches = 0

    @property
    def n_matches(self) -> int:
        """Number of matches found so far; of a strategy, of those taken."""
        return self._n_matches

    @property
    def n_faults(self) -> int:
        """Number of faults counted so far."""
        return self._n_faults

    def push(self, prepared: Prepared, first_seq: int) -> None:
        """Take the next rows of the stretch.

        Row i has ``seq`` ``first_seq + i``, unless some were left out and `Prepared.seq` says it.
        Rows that do not follow those pushed last raise ValueError.
        """
        if prepared.n_rows == 0:
            return
        self._note_pushed(prepared, first_seq)
        if prepared.table is not None:
            self._deferred.append((prepared, first_seq))
        else:
            self._inbox.append(self._admit(prepared, first_seq))
            self._advance()

    @abstractmethod
    def _admit(self, prepared: Prepared, first_seq: int) -> Rows:
        """Return the rows of a batch as they are searched."""

    @abstractmethod
    def _advance(self) -> None:
        """Search what was pushed, as far as it is worth it by now."""

    @abstractmethod
    def finish(self) -> None:
        """End the stretch: nothing more is to come."""

    @abstractmethod
    def _take_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        """Take whole stretches, of one row at least."""

    def push_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        """Take several whole stretches at once, each finished.

        ``starts`` are their first rows in ``prepared``, which has their rows one after the other.
        """
        if self._next_seq is not None:
            raise ValueError("a stretch is open; finish it before pushing whole ones")
        if prepared.n_rows:
            self._take_stretches(prepared, starts, n_rows, first_seqs)

    def _take_one_by_one(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        """Take whole stretches as if each were pushed by itself."""
        parts = zip(starts.tolist(), n_rows.tolist(), first_seqs.tolist(), strict=True)
        for start, n, first in parts:
            self.push(prepared.slice(start, n), first)
            self.finish()

    def _note_pushed(self, prepared: Prepared, first_seq: int) -> None:
        """Hold the next rows of a stretch to follow those pushed last."""
        follows, n, seq = self._next_seq, prepared.n_rows, prepared.seq
        first = first_seq if seq is None else int(seq[0])
        if follows is not None and (first < follows if seq is not None else first != follows):
            raise ValueError(
                f"rows from seq {first} pushed where {follows} follows; finish the stretch first"
            )
        self._next_seq = first + n if seq is None else int(seq[-1]) + 1
        self._n_rows += n

    def _ranks(self) -> IntArray | None:
        """Return what stands for texts in a search whose conditions order them: their ranks.

        They are of one search alone: a text seen later may come between those seen before.
        """
        if not self._program.across.orders_texts:
            return None
        known = list(self._strings)
        if len(self._ranks_of_known) != len(known) + 1:
            ranks = np.full(len(known) + 1, -1)
            ranks[sorted(range(len(known)), key=known.__getitem__)] = np.arange(len(known))
            self._ranks_of_known = ranks
        return self._ranks_of_known

    def _to_rows(
        self, prepared: Prepared, seq: IntArray | None, partition: IntArray | None
    ) -> Rows:
        """Return prepared rows with codes of strings that mean the same in every batch."""
        self._n_faults += prepared.n_faults
        leaves = prepared.leaves.copy() if prepared.strings else prepared.leaves
        known = self._strings
        for strings in prepared.strings:
            table = [known.setdefault(entry, len(known)) for entry in strings.entries]
            leaves[strings.leaf] = np.array([*table, -1], np.int64)[strings.codes]
        return Rows(
            prepared.words,
            prepared.times,
            leaves,
            prepared.known,
            seq,
            partition,
            prepared.moved,
        )

    def _to_state(self, small: State, arrays: Arrays) -> State:
        """Return all that the matcher knows: what every one does, and what only this kind does."""
        keys, known = self._partitions.to_snapshot()
        return {
            **small,
            "strings": tuple(self._strings),
            "partition_keys": tuple(keys),
            "numbers": {name: getattr(self, name) for name in self.numbers},
            "kind": self.kind,
            "arrays": {"partitions": known, **arrays},
            "waiting": [{"first": first, "table": batch.table} for batch, first in self._deferred],
        }

    def _from_state(self, state: State) -> Arrays:
        """Take over what every matcher knows; return the arrays.

        What compiled loops follow is checked: ValueError if it is not what a matcher of this
        program knows. That it is of this query, and of this version, is told by the snapshot.
        """
        if state["kind"] != self.kind:
            raise ValueError("a state of another kind of matcher")
        arrays: Arrays = state["arrays"]
        keys, known = [_to_key(key) for key in state["partition_keys"]], arrays["partitions"]
        if known.dtype != np.int64 or known.shape != (3, len(keys)):
            raise ValueError("the state knows of other partitions than it names")
        self._partitions = PartitionTable.from_snapshot(keys, known)
        self._strings = {text: code for code, text in enumerate(state["strings"])}
        self._deferred = [(deferred(batch["table"]), batch["first"]) for batch in state["waiting"]]
        for name in self.numbers:
            setattr(self, name, state["numbers"][name])
        return arrays

    @property
    def _reads_times(self) -> bool:
        """Whether rows that are kept have their times."""
        return self._program.within is not None

    def _take_rows(self, name: str, arrays: Arrays) -> Rows:
        """Return rows of a state, checked: compiled loops follow their partitions and lengths."""
        found = take_fields(name, arrays, ROWS)
        rows = Rows(**found)
        sums = self._program.sums
        n, n_leaves = len(rows.words), len(self._program.across.leaves)
        n_leaves += 0 if sums is None else len(sums.values)
        expected = {
            "words": (np.uint64, (n,)),
            "times": (np.int64, (n if self._reads_times else 0,)),
            "leaves": (np.int64, (n_leaves, n)),
            "known": (np.bool_, (n_leaves, n)),
            "seq": (np.int64, (n,)),
            "group": (np.int64, (n,)),
        }
        if any((of.dtype, of.shape) != expected[field] for field, of in found.items()):
            raise ValueError("the rows of the state are of other lengths or types")
        group = rows.group
        # A stream without PARTITION BY is of one partition.
        most = max(1, len(self._partitions)) - 1
        if group is not None and len(group) and not 0 <= group.min() <= group.max() <= most:
            raise ValueError("the rows of the state are of partitions it does not have")
        return rows

    def _forget_unused(self, kept: list[Rows]) -> list[Rows]:
        """Return the rows kept, having forgotten partitions and texts that none of them is of.

        Whenever as many have come as were left the last time, so that a row costs as much as ever.
        """
        if self._program.partition_by and len(self._partitions) >= self._known_max[0]:
            kept = self._forget_partitions(kept)
            self._known_max[0] = max(KNOWN_MIN, 2 * len(self._partitions))
        if len(self._strings) >= self._known_max[1]:
            kept = self._forget_texts(kept)
            self._known_max[1] = max(KNOWN_MIN, 2 * len(self._strings))
        return kept

    def _forget_partitions(self, kept: list[Rows]) -> list[Rows]:
        """Forget the partitions of no row kept.

        Why: a partition that comes again goes on as a new one would. Its rows are all behind what
        was mapped, so nothing of that covers them. But for two: where ``^`` is asked it is known
        to have begun, and MATCH_NUMBER goes on counting its matches.
        """
        if BEFORE in self._program.partition_edges:
            return kept
        table = self._partitions
        is_needed = np.zeros(len(table), np.bool_)
        if _reads_match_number(self._program):
            is_needed = table.n_matches[: len(table)] > 0
        for rows in kept:
            assert rows.group is not None
            is_needed[rows.group] = True
        numbers = table.forget_others(np.flatnonzero(is_needed))
        return [replace(rows, group=numbers[rows.group]) for rows in kept]

    def _forget_texts(self, kept: list[Rows]) -> list[Rows]:
        """Forget the texts of no row kept; the query's own come first and stay."""
        leaves = self._program.across.text_leaves
        known = list(self._strings)
        is_needed = np.arange(len(known) + 1) < len(self._program.across.texts)
        for rows in kept:
            is_needed[rows.leaves[leaves]] = True  # of -1, a missing text, it is the last entry
        is_needed[-1] = False
        codes = np.where(is_needed, np.cumsum(is_needed) - 1, -1)
        self._strings = {known[old]: int(codes[old]) for old in np.flatnonzero(is_needed)}
        self._ranks_of_known = np.empty(0, np.int64)
        changed = []
        for rows in kept:
            recoded = rows.leaves.copy()
            recoded[leaves] = codes[rows.leaves[leaves]]
            changed.append(replace(rows, leaves=recoded))
        return changed


def _reads_match_number(program: MatchProgram) -> bool:
    """Return whether the query counts the matches of a partition."""
    query = program.query
    defines = [define for define in query.defines if define is not None]
    measured = [measure.expression for measure in query.measures]
    parts = (part for expression in (*defines, *measured) for part in walk(expression))
    return any(isinstance(part, MatchNumber) for part in parts)


def seqs_of(prepared: Prepared, first_seq: int) -> IntArray:
    """Return the ``seq`` of prepared rows, which begin with ``first_seq`` unless they tell."""
    if prepared.seq is not None:
        return prepared.seq
    return np.arange(first_seq, first_seq + prepared.n_rows, dtype=np.int64)


def seqs_of_stretches(
    prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the stretch of each row, by number, and its ``seq``; see `push_stretches`."""
    stretch = np.repeat(np.arange(len(starts)), n_rows)
    if prepared.seq is not None:
        return stretch, prepared.seq
    return stretch, np.arange(prepared.n_rows) + (first_seqs - starts)[stretch]


def fields_of(name: str, of: object, fields: tuple[str, ...]) -> Arrays:
    """Return the arrays among an object's fields, by names that begin with ``name``."""
    present = ((field, getattr(of, field)) for field in fields)
    return {f"{name}.{field}": array for field, array in present if array is not None}


def take_fields(name: str, arrays: Arrays, fields: tuple[str, ...]) -> dict[str, Any]:
    """Return what `fields_of` was given, by field."""
    return {f: arrays[f"{name}.{f}"] for f in fields if f"{name}.{f}" in arrays}


def _to_key(listed: list[Any]) -> Key:
    """Return a key of PARTITION BY; JSON made lists of its tuples."""
    return tuple(tuple(part) if isinstance(part, list) else part for part in listed)
