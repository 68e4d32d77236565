"""The linear machine that sums over matches without making them: what a row does to the sums.

Runs that are in one state of the automaton go on alike, whatever rows they have; where no condition
looks at other rows of the match, that is all there is to know. So they share a *cell*: how many
they are, and what the channels of the query hold of them. A row is a linear map of the cells, and
which one follows from the symbols that it satisfies alone. This is COGRA's type grain (SIGMOD 2019,
section 4) and A-Seq's prefix counting (SIGMOD 2014, section 3), over states instead of types.

Pure: kernels carry it out, `replay.patterns.summing.operator` drives them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from replay.expressions.types import SCALES
from replay.language.bound import (
    Aggregate,
    Attribute,
    BoundPatternQuery,
    Classifier,
    DataType,
    Expression,
    MatchNumber,
    ScalarQuery,
    Semantics,
    SymbolSet,
    attributes,
    walk,
)
from replay.patterns.automaton import StrategyCode
from replay.patterns.trends.algebra import (
    MATCHES,
    Channel,
    Held,
    Number,
    Part,
    Summing,
    to_summing,
    why_enumerated,
)
from replay.patterns.trends.references import EventGrain, to_event_grain

IntArray = npt.NDArray[np.int64]


class Kind(IntEnum):
    """What a field of a cell is, and so how those of runs that meet become one."""

    SUM = 0
    """A number of any size: they are added up."""
    FLAGS = 1
    """Bits: those of either."""
    LEAST = 2
    GREATEST = 3


class Rule(IntEnum):
    """How a row that is mapped changes a field."""

    KEEP = 0
    """Not at all."""
    EVERY = 1
    """Its value counts beside those before."""
    LAST = 2
    """Its value takes the place of those before."""
    FIRST = 3
    """Its value counts in runs that had no row of the symbols yet."""
    CLEAR = 4
    """There are no such runs any more: of the field that counts those of `FIRST`."""
    LENGTHEN = 5
    """One more: of the least and greatest number of rows."""
    SINCE = 6
    """Its value less that of the field ``waits`` takes the place of those before."""


RUNS = -1
"""The operand of fields that read nothing of a row."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What fields read of a row."""

    value: int | None
    """Which of ``Sums.values``; None: what is always there, as COUNT(*) counts it."""
    kind: Kind
    part: Part


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a cell; the first one of all counts the runs."""

    kind: Kind
    rule: Rule = Rule.KEEP
    symbols: SymbolSet = None
    """Rows of which symbols it looks at; None: all."""
    operand: int = RUNS
    """Which of ``Sums.operands``."""
    waits: int = RUNS
    """Of the rule FIRST, and of LAST in `joinable`: the field that counts runs without a row of the
    symbols. Of SINCE: that of the earlier row, which stands before."""


SEQ = Operand(None, Kind.LEAST, Part.LEAST)
"""The place of a row in the stream."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a number that an aggregate is read from is found."""

    field: int
    flags: int | None = None
    """Of a sum of DOUBLE: the field of its flags."""
    less: int | None = None
    """The field of what is to be taken from it."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What is held for a query: the fields of its cells, and where its numbers are found."""

    summing: Summing
    values: tuple[Expression, ...]
    """Expressions over one row."""
    operands: tuple[Operand, ...]
    fields: tuple[Field, ...]
    places: tuple[tuple[Number, Place], ...]
    """Of each number that an aggregate is read from."""
    first_seq: int | None
    """The field that tells the first row of all matches, where the order of groups depends on it.
    """
    grain: EventGrain | None
    """Where conditions read rows mapped before: which row the runs of a cell agree in. None: the
    type grain, which looks at their state alone."""


# ---------------------------------------------------------------------------------------------
# Which queries it is for


Conditions = tuple[tuple[Expression, ...], ...]
"""By symbol, the conditions that read other rows of the match, all of which must hold."""


def to_sums(query: BoundPatternQuery, code: StrategyCode, across: Conditions) -> Sums | None:
    """Return what is held for a query; None where its matches are made."""
    if _why_of_query(query, code) is not None:
        return None
    grain = to_event_grain(code, query.symbols, across) if any(across) else None
    return None if isinstance(grain, str) else _Fields(query, grain).sums


def why_not_summed(query: BoundPatternQuery, code: StrategyCode, across: Conditions) -> str | None:
    """Return why the matches of a query are made; None: the machine sums over them."""
    why = _why_of_query(query, code)
    if why is not None or not any(across):
        return why
    grain = to_event_grain(code, query.symbols, across)
    return grain if isinstance(grain, str) else None


def _why_of_query(query: BoundPatternQuery, code: StrategyCode) -> str | None:
    why = why_enumerated(query)
    if why is not None:
        return why
    if query.limit is not None:
        return "LIMIT asks for the first of them"
    if code.timeouts or code.conditions.any():
        return "rows behind or before a match decide whether it is one"
    return _why_of_channels(to_summing(query)) or _why_of_keys(query)


_HELD = {Held.ROWS, Held.FIRST, Held.LAST, Held.COUNT, Held.GAP}
_BEST = {(Held.LEAST, Part.LEAST), (Held.GREATEST, Part.GREATEST)}
"""The least of what is least in each match is the least at all its rows; so with the greatest."""
_ADDED = {DataType.INTEGER, DataType.DOUBLE, DataType.INTERVAL, *SCALES}


def _is_held(held: Held, part: Part) -> bool:
    return held in _HELD or (held, part) in _BEST


def _why_of_channels(summing: Summing) -> str | None:
    for part, reading in summing.readings:
        for number in (reading.number, reading.over):
            if number is None or number.channel is None:
                continue
            channel = summing.channels[number.channel]
            if not _is_of_row(channel.value):
                return f"{part.function.upper()} reads more of each than values of its rows"
            if not _is_held(channel.held, number.part):
                return f"{part.function.upper()} of what each match computes is not summed yet"
            type_ = None if channel.value is None else channel.value.type
            is_added = type_ in _ADDED or channel.held is Held.GAP
            if number.part is Part.SUM and type_ is not None and not is_added:
                return f"{part.function.upper()} of {type_.value} is not summed yet"
    return None


def _is_of_row(value: Expression | None) -> bool:
    """Tell whether a value is that of one row, whatever stands beside it."""
    parts = [] if value is None else list(walk(value))
    if any(isinstance(part, Aggregate | Classifier | MatchNumber | ScalarQuery) for part in parts):
        return False
    return all(not part.offset for part in parts if isinstance(part, Attribute))


def _why_of_keys(query: BoundPatternQuery) -> str | None:
    """Return why groups need rows: one partition has 0.0 and -0.0, and a group tells its first."""
    outer = query.outer
    assert outer is not None
    read = [*(outer.group_by or ()), *([outer.where] if outer.where is not None else [])]
    for attribute in (found for key in read for found in attributes(key)):
        if attribute.type is DataType.DOUBLE:
            return f"a group tells which 0.0 or -0.0 its first match has in '{attribute.name}'"
    return None


class _Fields:
    """Gathers the fields of the cells of a query, each once."""

    def __init__(self, query: BoundPatternQuery, grain: EventGrain | None) -> None:
        self._summing = summing = to_summing(query)
        self._values: list[Expression] = []
        self._operands: list[Operand] = []
        self._fields = [Field(Kind.SUM)]
        assert query.outer is not None
        first_seq = None
        if query.partition_by and query.outer.group_by:
            first_seq = self._field(Field(Kind.LEAST, Rule.EVERY, None, self._operand(SEQ)))
        numbers = dict.fromkeys(
            number
            for _, reading in summing.readings
            for number in (reading.number, reading.over)
            if number is not None
        )
        places = tuple((number, self._place(number)) for number in numbers)
        self.sums = Sums(
            summing,
            tuple(self._values),
            tuple(self._operands),
            tuple(self._fields),
            places,
            first_seq,
            grain,
        )

    def _place(self, number: Number) -> Place:
        if number == MATCHES:
            return Place(0)
        assert number.channel is not None
        channel = self._summing.channels[number.channel]
        if channel.held is Held.COUNT:
            return Place(self._of_counts(channel, number.part))
        if channel.held is Held.GAP:
            return self._of_gap(channel, number.part)
        kind = {Part.LEAST: Kind.LEAST, Part.GREATEST: Kind.GREATEST}.get(number.part, Kind.SUM)
        place = self._of_values(channel, kind, number.part)
        is_double = channel.value is not None and channel.value.type is DataType.DOUBLE
        if number.part is Part.SUM and is_double:
            return Place(place, flags=self._of_values(channel, Kind.FLAGS, number.part))
        return Place(place)

    def _of_gap(self, channel: Channel, part: Part) -> Place:
        """Return where times between two rows of each run are found."""
        if part is Part.COUNT:
            return Place(0)  # both rows are there, and have a time
        is_span = channel.symbols is None
        earlier = replace(
            channel, held=Held.FIRST if is_span else Held.ROWS, symbols=channel.since, since=None
        )
        if part is Part.SUM:
            later = replace(channel, held=Held.LAST if is_span else Held.ROWS, since=None)
            less = self._of_values(earlier, Kind.SUM, part)
            return Place(self._of_values(later, Kind.SUM, part), less=less)
        kind, of, other = Kind.LEAST, Kind.GREATEST, Part.GREATEST
        if part is Part.GREATEST:
            kind, of, other = Kind.GREATEST, Kind.LEAST, Part.LEAST
        since = self._of_values(earlier, of, other)
        operand = self._operand(Operand(self._value(channel.value), kind, part))
        return Place(self._field(Field(kind, Rule.SINCE, channel.symbols, operand, since)))

    def _of_counts(self, channel: Channel, part: Part) -> int:
        """Return the field of the least or greatest number of values of the runs."""
        assert part in (Part.LEAST, Part.GREATEST)
        kind = Kind.LEAST if part is Part.LEAST else Kind.GREATEST
        operand = self._operand(Operand(self._value(channel.value), Kind.SUM, Part.COUNT))
        return self._field(Field(kind, Rule.LENGTHEN, channel.symbols, operand))

    def _of_values(self, channel: Channel, kind: Kind, part: Part) -> int:
        operand = self._operand(Operand(self._value(channel.value), kind, part))
        if channel.held is Held.ROWS or (channel.held, part) in _BEST:
            return self._field(Field(kind, Rule.EVERY, channel.symbols, operand))
        if channel.held is Held.LAST:
            return self._field(Field(kind, Rule.LAST, channel.symbols, operand))
        waits = self._field(Field(Kind.SUM, Rule.CLEAR, channel.symbols))
        return self._field(Field(kind, Rule.FIRST, channel.symbols, operand, waits))

    def _value(self, value: Expression | None) -> int | None:
        if value is None:
            return None
        if value not in self._values:
            self._values.append(value)
        return self._values.index(value)

    def _operand(self, operand: Operand) -> int:
        if operand not in self._operands:
            self._operands.append(operand)
        return self._operands.index(operand)

    def _field(self, field: Field) -> int:
        if field not in self._fields:
            self._fields.append(field)
        return self._fields.index(field)


def joinable(sums: Sums) -> Sums:
    """Return sums that hold what is needed to join what runs have of rows and of those behind."""
    fields = list(sums.fields)
    for place, field in enumerate(sums.fields):
        if field.rule is Rule.LAST:
            waiting = Field(Kind.SUM, Rule.CLEAR, field.symbols)
            if waiting not in fields:
                fields.append(waiting)
            fields[place] = replace(field, waits=fields.index(waiting))
    return replace(sums, fields=tuple(fields))


def columns_of(sums: Sums) -> set[str]:
    """Return the columns that are read of a row."""
    return {part.name for value in sums.values for part in attributes(value)}


# ---------------------------------------------------------------------------------------------
# What a row does


class Op(IntEnum):
    """A step of what a row does to the cells of a lane; slots hold what becomes of them."""

    NONE = 0
    """``a``: a slot, which becomes that of no runs."""
    BEGIN = 1
    """``a``: a slot, which has one more run: that of no row."""
    ADD = 2
    """``a``: a slot, to which the runs of state ``b`` come."""
    MAP = 3
    """``a``: a slot, whose runs map the row to symbol ``b``."""
    FINISH = 4
    """``a``: a slot, whose runs are matches of query ``b``."""
    CLEAR = 5
    """``a``: a state, in which no run is left."""
    PUT = 6
    """``a``: a slot, whose runs come to state ``b``."""
    MOVE = 7
    """Runs like those of state ``b`` come to state ``a``, at once."""
    MATCH = 8
    """Runs like those of state ``b`` are matches of query ``a``, at once."""
    MOVE_NEW = 9
    """``a``: a state, which has one more run, of this row alone."""
    MATCH_NEW = 10
    """``a``: a query, which has one more match, of this row alone."""


Steps = list[tuple[int, int, int]]

_OF_SLOTS = {Op.NONE, Op.BEGIN, Op.ADD, Op.MAP, Op.FINISH, Op.PUT}


class Change(NamedTuple):
    """Runs that a row brings to cells, all changes of a row being of what was there before it."""

    symbol: int | None
    """What they map the row to; None: it stays unmapped."""
    sources: tuple[int, ...]
    """The states, or cells, that they come from."""
    targets: tuple[int, ...]
    """The states, or cells, to which they come."""
    queries: tuple[int, ...] = ()
    """Of which they are matches."""


BEGIN = -1
"""The empty mapping among the sources of a change."""

Changes = tuple[list[Change], list[int]]
"""What a row changes, and the states, or cells, that runs have left by then."""


def changes_of(
    code: StrategyCode, word: int, begin: int | None, *, goes_on: bool = True
) -> Changes:
    """Return what a row that satisfies the symbols of ``word`` changes in the states of a lane.

    ``begin`` is the state of the empty mapping there, which begins runs; None: none begin.
    ``goes_on``: whether there are runs that go on.
    """
    sources: dict[tuple[int, int], list[int]] = {}
    n_symbols = code.step.shape[1]
    symbols = [symbol for symbol in range(n_symbols) if word >> symbol & 1]
    targets = code.step[:, symbols].tolist()
    goes = goes_on_from(code)
    begins = [] if begin is None else [begin]
    going = [state for state in range(2, code.n_states) if goes[state]] if goes_on else []
    for state in (*begins, *going):
        for symbol, target in zip(symbols, targets[state], strict=True):
            if target >= 0:
                source = BEGIN if state < 2 else state
                sources.setdefault((target, symbol), []).append(source)
    kept = {state: _state_kept(code, state, word) for state in going}
    moved = [state for state in going if kept[state] != state]
    changes = [
        Change(symbol, tuple(states), (target,) if goes[target] else (), code.answers[target])
        for (target, symbol), states in sources.items()
    ]
    for target in sorted({kept[state] for state in moved if kept[state] >= 0}):
        if goes[target]:
            states = tuple(state for state in moved if kept[state] == target)
            changes.append(Change(None, states, (target,)))
    return changes, moved


def goes_on_from(code: StrategyCode) -> list[bool]:
    """Return of each state whether runs go on from there."""
    goes: list[bool] = np.any(code.step >= 0, axis=1).tolist()
    return goes


def steps_of(code: StrategyCode, word: int, begin: int | None, *, goes_on: bool = True) -> Steps:
    """Return the steps that a row takes; see `changes_of`."""
    return to_steps(*changes_of(code, word, begin, goes_on=goes_on))


def to_steps(changes: Iterable[Change], left: Iterable[int]) -> Steps:
    """Return the steps that make changes, and let no run be in what is ``left``."""
    steps: Steps = []
    put: Steps = []
    for slot, change in enumerate(changes):
        steps.append((Op.NONE, slot, 0))
        steps += [
            (Op.BEGIN, slot, 0) if source == BEGIN else (Op.ADD, slot, source)
            for source in change.sources
        ]
        if change.symbol is not None:
            steps.append((Op.MAP, slot, change.symbol))
        steps += [(Op.FINISH, slot, query) for query in change.queries]
        put += [(Op.PUT, slot, target) for target in change.targets]
    return [*steps, *((Op.CLEAR, state, 0) for state in left), *put]


def at_once(steps: Steps, fields: Iterable[Field]) -> Steps:
    """Return steps that do the same, without slots if that can be.

    Rows of which fields read something need them. A state may be changed at once if no other is to
    read it afterwards.
    """
    mapped = {symbol for op, _, symbol in steps if op is Op.MAP}
    for field in fields:
        seen = mapped if field.symbols is None else mapped.intersection(field.symbols)
        if seen and field.rule is not Rule.KEEP:
            return steps
    sources: dict[int, list[tuple[int, int]]] = {}
    direct: Steps = []
    cleared = [a for op, a, _ in steps if op is Op.CLEAR]
    changes: dict[int, Steps] = {state: [] for state in cleared}
    for op, a, b in steps:
        if op in (Op.BEGIN, Op.ADD):
            sources.setdefault(a, []).append((op, b))
        elif op is Op.FINISH:
            direct += [
                (Op.MATCH, b, state) if of is Op.ADD else (Op.MATCH_NEW, b, 0)
                for of, state in sources[a]
            ]
        elif op is Op.PUT:
            changes.setdefault(b, []).extend(
                (Op.MOVE, b, source) if of is Op.ADD else (Op.MOVE_NEW, b, 0)
                for of, source in sources[a]
            )
    reads = {s: {b for op, _, b in moves if op is Op.MOVE} - {s} for s, moves in changes.items()}
    n_readers = Counter(state for read in reads.values() for state in read)
    ready = [state for state in changes if not n_readers[state]]
    for state in ready:
        own = [move for move in changes[state] if move == (Op.MOVE, state, state)]
        if len(own) > 1:
            break
        if state in cleared:
            direct += [] if own else [(Op.CLEAR, state, 0)]
        else:
            direct += own
        direct += [move for move in changes[state] if move not in own]
        n_readers.subtract(reads[state])
        ready += [other for other in reads[state] & changes.keys() if not n_readers[other]]
    else:
        if len(ready) == len(changes):
            return direct
    return [step for step in steps if step[0] is not Op.MAP]


def in_ranges(steps: Steps) -> list[tuple[int, int, int, int]]:
    """Return steps that do the same, each with how many states or queries in a row it is of.

    These do not look at each other. Steps that go through slots are as they were, one by one.
    """
    if any(op in _OF_SLOTS for op, _, _ in steps):
        return [(op, a, b, 1) for op, a, b in steps]
    # Steps of one level may be taken in any order: none reads what another of them changes.
    of_levels: list[tuple[int, int, int, int]] = []
    read, changed, cleared = Counter[int](), Counter[int](), Counter[int]()
    for op, a, b in steps:
        level = changed[b] if op in (Op.MOVE, Op.MATCH) else 0
        if op not in (Op.MATCH, Op.MATCH_NEW):
            level = max(level, read[a], changed[a] if op is Op.CLEAR else cleared[a])
            of_op = cleared if op is Op.CLEAR else changed
            of_op[a] = changed[a] = max(changed[a], level + 1)
        if op in (Op.MOVE, Op.MATCH):
            read[b] = max(read[b], level + 1)
        of_levels.append((level, op, b - a, a))
    found: list[tuple[int, int, int, int]] = []
    before = (-1, 0, 0)
    for level, op, apart, a in sorted(of_levels):
        _, first, source, n = found[-1] if found else (0, 0, 0, 0)
        if op in (Op.MOVE, Op.MATCH) and (level, op, apart, a) == (*before, first + n):
            found[-1] = (op, first, source, n + 1)
        else:
            found.append((op, a, a + apart, 1))
        before = (level, op, apart)
    return found


def relevant(code: StrategyCode) -> int:
    """Return the symbols that make a difference, as bits."""
    used = {symbol for symbol in range(code.step.shape[1]) if (code.step[:, symbol] >= 0).any()}
    return sum(1 << symbol for symbol in used | set(code.negated))


def _state_kept(code: StrategyCode, state: int, word: int) -> int:
    """Return the state of runs that leave a row unmapped; -1 if they may not or can do no more."""
    if code.semantics is Semantics.CONTIGUOUS:
        return -1
    if code.semantics is Semantics.SKIP_TILL_NEXT:
        ways = np.flatnonzero(code.step[state] >= 0).tolist()
        if any(word >> symbol & 1 for symbol in ways):
            return -1
    for place, symbol in enumerate(code.negated):
        if word >> symbol & 1:
            state = int(code.skip[state, place])
            if state < 0:
                return -1
    return state
