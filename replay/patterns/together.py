"""Several queries summed over in one go: their machines are one, what begins alike is one in it.

A mapping of rows to symbols is in one state of the automaton that all patterns are compiled to,
whichever of them it may become a match of: what patterns begin with alike is counted once, as in
A-Seq's prefix tree (SIGMOD 2014, section 4.1), and each row is read, tested and looked up once.
Where windows are products of rows, so is what patterns have in common elsewhere: see
`replay.patterns.trends.factors`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from replay.engines.source import EventSource
from replay.errors import NotSupportedError, QueryError
from replay.language.bound import (
    Alternate,
    Attribute,
    BoundPatternQuery,
    Concat,
    Exclusion,
    Expression,
    Negation,
    Pattern,
    Repeat,
    Semantics,
    Symbol,
    attributes,
)
from replay.patterns.automaton import StrategyCode, compile_strategy
from replay.patterns.config import SYMBOLS_MAX
from replay.patterns.local import Replay
from replay.patterns.predicates import plan_masks, text_equalled, to_bounds
from replay.patterns.program import MatchProgram
from replay.patterns.summing.choice import new_summing
from replay.patterns.summing.lanes import FACTOR_STATES_MAX, Lanes, lanes_of
from replay.patterns.summing.operator import TooManyCodesError, Totals
from replay.patterns.trends.factors import Factors
from replay.patterns.trends.fewer_states import with_fewer_states
from replay.patterns.trends.machine import Sums

IntArray = npt.NDArray[np.int64]

SEMANTICS = (Semantics.SKIP_TILL_ANY, Semantics.CONTIGUOUS)
"""Those by which no run goes on otherwise because another query could map the row, too. With SKIP
TILL NEXT it has to."""

WORDS_MAX = 512
"""Sets of conditions that rows may satisfy, each of which has its steps: queries that have little
in common have as many as their own multiplied."""

Source = Callable[[list[str]], EventSource]
"""Gives events with some columns at least."""

AskedTogether = Callable[[Source, Replay], Totals | None]
"""Gives the sums of a query, found with those of others, by the stream's events and what would find
them alone; None: it is to be asked alone."""

Place = tuple[tuple[Expression, ...], int]
"""A symbol of any query: its conditions, and how many symbols of the same come before."""


def kind_of(program: MatchProgram) -> Hashable:
    """Return what programs agree in that can be one; None: this one cannot be one with others."""
    sums, code = program.sums, program.strategy
    if sums is None or sums.grain is not None or code is None or code.semantics not in SEMANTICS:
        return None
    query = program.query
    if query.windows is not None:
        return None
    if program.within is not None and lanes_of(query, program) is not Lanes.ENTRIES:
        return None
    places = _places_of(program)
    fields = tuple(
        (replace(f, symbols=None), f.symbols and frozenset(places[s] for s in f.symbols))
        for f in sums.fields
    )
    margins = program.rows_before, program.rows_after, program.needs_all_rows, program.beside
    return (
        code.semantics, query.partition_by, query.time, query.order_by, margins,
        program.partition_edges, sums.values, sums.operands, fields, sums.first_seq, program.within,
    )  # fmt: skip


def _places_of(program: MatchProgram) -> list[Place]:
    seen = Counter[tuple[Expression, ...]]()
    places = []
    for conditions in program.conditions:
        places.append((conditions, seen[conditions]))
        seen[conditions] += 1
    return places


def joined(programs: Sequence[MatchProgram], lanes: Lanes) -> MatchProgram | None:
    """Return a program that sums over the matches of all, of one kind; None: it would be larger.

    Query k of its automaton is that of program k. All tell runs apart by the same ``lanes``.
    """
    numbers: dict[Place, int] = {}
    of_each = [
        [numbers.setdefault(place, len(numbers)) for place in _places_of(program)]
        for program in programs
    ]
    if len(numbers) > SYMBOLS_MAX:
        return None
    first = programs[0]
    names = tuple(f"S{number}" for number in range(len(numbers)))
    patterns = [
        _renumbered(program.query.pattern, own)
        for program, own in zip(programs, of_each, strict=True)
    ]
    try:
        code = compile_strategy(replace(first.query, symbols=names), patterns)
    except NotSupportedError:
        return None
    assert first.sums is not None
    code, sums = with_fewer_states(code, _renumbered_sums(first.sums, of_each[0]))
    codes = [program.strategy for program in programs]
    if _n_cells(code, lanes) > sum(_n_cells(one, lanes) for one in codes if one is not None):
        return None
    conjuncts = [
        (number, condition)
        for (conditions, _), number in numbers.items()
        for condition in conditions
    ]
    return replace(
        first,
        columns=tuple(sorted({name for program in programs for name in program.columns})),
        conditions=tuple(conditions for conditions, _ in numbers),
        masks=plan_masks(conjuncts, len(numbers)),
        strategy=code,
        sums=sums,
    )


def _n_cells(code: StrategyCode, lanes: Lanes) -> int:
    """Return how many cells a row may change of a partition."""
    if lanes is not Lanes.ENTRIES:
        return code.n_states
    if code.n_states > FACTOR_STATES_MAX:
        return FACTOR_STATES_MAX**2
    return len(Factors(code, with_matches=False).behind)


def _renumbered_sums(sums: Sums, numbers: Sequence[int]) -> Sums:
    fields = (
        replace(f, symbols=f.symbols and tuple(numbers[s] for s in f.symbols)) for f in sums.fields
    )
    return replace(sums, fields=tuple(fields))


def _renumbered(pattern: Pattern, numbers: Sequence[int]) -> Pattern:
    match pattern:
        case Symbol(index):
            return Symbol(numbers[index])
        case Negation(index):
            return Negation(numbers[index])
        case Concat(parts):
            return Concat(tuple(_renumbered(part, numbers) for part in parts))
        case Alternate(branches):
            return Alternate(tuple(_renumbered(branch, numbers) for branch in branches))
        case Repeat(body) | Exclusion(body):
            return replace(pattern, body=_renumbered(body, numbers))
        case _:
            return pattern


def kind_in_windows(query: BoundPatternQuery, program: MatchProgram) -> Hashable:
    """Return what queries in windows agree in that can be one; None: this one cannot be.

    ``program`` is what sums over the matches of a window. They are given the same columns of rows,
    and no condition may have a fault, which would be of one of them alone.
    """
    conditions = chain.from_iterable(program.conditions)
    lanes = lanes_of(query, program)
    if lanes not in (Lanes.PANES, Lanes.ENTRIES) or program.within is not None:
        return None
    if None in map(_attribute_of, conditions):
        return None
    kind = kind_of(program)
    return None if kind is None else (lanes, query.windows, program.columns, kind)


def _attribute_of(condition: Expression) -> Attribute | None:
    """Return what a condition compares with a constant; None if it is of another form."""
    bounds = to_bounds(condition)
    if bounds is not None:
        return bounds[0]
    return next(iter(attributes(condition))) if text_equalled(condition) is not None else None


def _joined_in_windows(programs: Sequence[MatchProgram], lanes: Lanes) -> MatchProgram | None:
    """Do what `joined` does, unless rows could satisfy too many sets of conditions."""
    conditions = {one for program in programs for own in program.conditions for one in own}
    # Comparisons with k constants tell so many values apart at most, and NULL.
    words = math.prod(2 * k + 2 for k in Counter(map(_attribute_of, conditions)).values())
    return joined(programs, lanes) if words <= WORDS_MAX else None


@dataclass(slots=True)
class _Group:
    """Queries that are summed over in one go once the first of them is asked."""

    programs: list[MatchProgram]
    joined: MatchProgram
    replay: Replay | None = None
    found: list[Totals] | None = None
    """Of each."""

    def run(self, source: Source, replay: Replay) -> Replay:
        """Find the sums of all, or of none.

        Where there is an error or a fault each is to be asked alone, to tell of which query it is.
        """
        query = self.joined.query
        events = source(sorted({*self.joined.columns, query.time, *query.order_by}))
        self.replay = ran = replay.of(events, self.joined)
        operator = new_summing(self.joined, events.n_events)
        operator.codes_max = WORDS_MAX
        try:
            for _ in ran.pushed_into(operator):
                if operator.n_faults:
                    return ran
            found = [operator.totals(k, one.sums) for k, one in enumerate(self.programs)]
        except (TooManyCodesError, QueryError):
            return ran
        replay.seconds_read = ran.seconds_read
        self.found = found
        return ran


@dataclass(slots=True)
class InWindows:
    """Queries in the same windows, summed over the rows that the first of them is given."""

    sums: list[Sums]
    joined: MatchProgram
    found: list[list[tuple[IntArray, Totals]]]
    """By query, start and end of windows, and the sums of each."""
    n_faults: int = 0
    is_begun: bool = False
    is_done: bool = False
    """Whether everything is found."""


@dataclass(slots=True, eq=False)
class _Entry:
    """A query that is asked beside others."""

    program: MatchProgram
    lanes: Lanes
    waiting: dict[int, _Entry]
    """Those of its kind by their programs, itself among them, until the first of them is asked."""
    group: _Group | InWindows | None = None
    """What it is summed over with, once that is known; None: nothing."""
    number: int = 0
    """Which of the group's queries it is."""

    def asked(self) -> list[_Entry]:
        """Return those that wait, who do no more: the first of them is asked."""
        some = list(self.waiting.values())
        self.waiting.clear()
        return some


@dataclass(slots=True)
class Together:
    """The queries that are asked at once, as far as they may be summed over in one go."""

    _waiting: dict[Hashable, dict[int, _Entry]] = field(default_factory=dict)

    def enter(self, of: Hashable, program: MatchProgram) -> AskedTogether:
        """Take note of a query that reads all rows of a stream; ``of`` tells streams apart.

        What is returned is to be called once all have been noted.
        """
        lanes = Lanes.ONE if program.within is None else Lanes.ENTRIES
        return partial(_totals, self._enter(of, kind_of(program), program, lanes))

    def enter_windows(
        self, of: Hashable, query: BoundPatternQuery, program: MatchProgram
    ) -> Callable[[], tuple[InWindows, int] | None]:
        """Take note of a query in windows, as `enter` does.

        Returns what gives those it is summed over with, and its number among them.
        """
        kind, lanes = kind_in_windows(query, program), lanes_of(query, program)
        return partial(_windows, self._enter(of, kind, program, lanes))

    def _enter(self, of: Hashable, kind: Hashable, program: MatchProgram, lanes: Lanes) -> _Entry:
        waiting = {} if kind is None else self._waiting.setdefault((of, kind), {})
        return waiting.setdefault(id(program), _Entry(program, lanes, waiting))


def _totals(entry: _Entry, source: Source, replay: Replay) -> Totals | None:
    for some, one in _in_groups(entry.asked(), joined):
        _join(some, _Group([member.program for member in some], one))
    group = entry.group
    if not isinstance(group, _Group):
        return None
    ran = group.replay or group.run(source, replay)
    if group.found is None:
        return None
    replay.n_blocks, replay.n_rows = ran.n_blocks, ran.n_rows
    return group.found[entry.number]


def _windows(entry: _Entry) -> tuple[InWindows, int] | None:
    for some, one in _in_groups(entry.asked(), _joined_in_windows):
        sums = [member.program.sums for member in some if member.program.sums is not None]
        _join(some, InWindows(sums, one, [[] for _ in some]))
    group = entry.group
    return (group, entry.number) if isinstance(group, InWindows) else None


def _join(entries: list[_Entry], group: _Group | InWindows) -> None:
    for number, entry in enumerate(entries):
        entry.group, entry.number = group, number


def _in_groups(
    entries: list[_Entry], join: Callable[[list[MatchProgram], Lanes], MatchProgram | None]
) -> Iterator[tuple[list[_Entry], MatchProgram]]:
    """Yield groups of queries of one kind, each with one program that is not larger than they."""
    left = [entries]
    while left:
        some = left.pop()
        if len(some) < 2:
            continue
        program = join([entry.program for entry in some], some[0].lanes)
        if program is None:
            left += [some[: len(some) // 2], some[len(some) // 2 :]]
        else:
            yield some, program
