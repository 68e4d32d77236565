"""What is held of the runs of a strategy so that the outer query can be answered without matches.

A *run* is a partial match. Runs that will go on alike are summed: all that is kept of them is their
number and, for each aggregate of the outer query, a *channel* of a few numbers that a row, a merge
of runs and the end of a run change in a fixed way. A-Seq (SIGMOD 2014) and COGRA (SIGMOD 2019) call
this online aggregation; ``docs/sql.md`` says which queries it goes for. Whether a query is one of
them depends on its text alone, never on costs or data. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from replay.language import fold
from replay.language.answers import always_maps
from replay.language.bound import (
    CURRENT,
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Anchor,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Call,
    Classifier,
    Concat,
    DataType,
    Exclusion,
    Expression,
    Literal,
    MatchNumber,
    Outer,
    Pattern,
    RowsPerMatch,
    ScalarQuery,
    Semantics,
    SymbolSet,
    TimedOut,
    edges,
    rewritten,
    walk,
)
from replay.patterns.pattern import rows_most

_FIRST_ROW = Anchor(AnchorKind.FIRST)


class Held(Enum):
    """What a channel holds of the runs that are summed, besides their number."""

    ROWS = "values at every row of the symbols, a row once for each run that has it"
    COUNT = "of each run, at how many rows of the symbols there is a value"
    FIRST = "of each run, the value at the first row of the symbols"
    LAST = "of each run, the value at the last row of the symbols"
    LEAST = "of each run, the least value at rows of the symbols"
    GREATEST = "of each run, the greatest value at rows of the symbols"
    SUM = "of each run, the sum of the values at rows of the symbols"
    GAP = "of each run, the time of one row less that of an earlier one"


class Part(Enum):
    """One number of a channel."""

    COUNT = "count"
    """How many values there are. NULL is none, and to LEAST and GREATEST neither is NaN."""
    SUM = "sum"
    """Their exact sum, and whether there is a NaN, an inf or a -inf among them."""
    LEAST = "least"
    GREATEST = "greatest"


@dataclass(frozen=True, slots=True)
class Channel:
    """A few numbers that are held of runs."""

    held: Held
    symbols: SymbolSet
    """Rows of which symbols; None: all rows of a run."""
    value: Expression | None
    """What is looked at, its attributes those of the row itself (`CURRENT`). None: the row, a value
    that is always there. Of a GAP it is the time column."""
    since: SymbolSet = None
    """Of a GAP: the symbols of the earlier row, of which there is one in every match, as there is
    of ``symbols`` that of the later. None: the first row of the run, and of ``symbols`` its
    last."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number that an aggregate is read from."""

    channel: int | None
    """Its place in ``Summing.channels``; None: the number of runs that have become matches."""
    part: Part = Part.COUNT


MATCHES = Number(None)


@dataclass(frozen=True, slots=True)
class Reading:
    """How an aggregate of the outer query is read, from all matches of a group.

    ``number``, or ``number / over`` rounded once. NULL where ``over`` is 0, and of LEAST and
    GREATEST where there was no value.
    """

    number: Number
    over: Number | None = None
    is_ratio: bool = False
    """Whether it is divided by ``over``."""


@dataclass(frozen=True, slots=True)
class Summing:
    """What is held for a query, and how its aggregates are read."""

    channels: tuple[Channel, ...]
    """Each once."""
    readings: tuple[tuple[Aggregate, Reading], ...]
    """Of each aggregate of the outer query, each once, as the query has it."""


def why_enumerated(query: BoundPatternQuery) -> str | None:
    """Return why the answer of a query with SEMANTICS needs its matches made; None: it does not."""
    found = _to_summing(query)
    return found if isinstance(found, str) else None


def to_summing(query: BoundPatternQuery) -> Summing:
    """Return what is held for a query whose matches need not be made."""
    found = _to_summing(query)
    assert isinstance(found, Summing), found
    return found


def _to_summing(query: BoundPatternQuery) -> Summing | str:
    outer = query.outer
    if outer is None or outer.group_by is None:
        return "each of them is a row of the answer"
    why = _why_of_clauses(query) or _why_of_conditions(query) or _why_of_keys(query, outer)
    if why is not None:
        return why
    found = _Channels(query)
    try:
        readings = tuple((part, found.reading(part)) for part in aggregates_of(outer))
    except _NotHeldError as error:
        return str(error)
    return Summing(tuple(found.channels), readings)


def aggregates_of(outer: Outer) -> tuple[Aggregate, ...]:
    """Return the aggregates of an outer query, each once."""
    parts = (part for expression in outer.expressions for part in walk(expression))
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, Aggregate)))


# ---------------------------------------------------------------------------------------------
# Whether matches must be made


def _why_of_clauses(query: BoundPatternQuery) -> str | None:
    if query.semantics is Semantics.SQL:
        return "without SEMANTICS one match is preferred from each start"
    if query.rows_per_match is not RowsPerMatch.ONE:
        return "ALL ROWS PER MATCH gives the rows of each"
    if query.with_timeouts:
        return "WITH TIMEOUTS tells partial matches apart from others"
    if query.windows is not None and edges(query.pattern):
        return "^ and $ are the ends of each window"
    return None


def _why_of_conditions(query: BoundPatternQuery) -> str | None:
    """Return why conditions in DEFINE need to be looked at match by match.

    Those that read rows mapped before need not, where no run depends on more than one of them.
    """
    for name, condition in zip(query.symbols, query.defines, strict=True):
        for part in [] if condition is None else walk(condition):
            if isinstance(part, Aggregate):
                return f"the condition of {name} aggregates the rows mapped before"
            if isinstance(part, Attribute | Classifier) and part.offset and query.windows:
                return f"the condition of {name} reads neighbours, which each window has its own of"
    return None


def _why_of_keys(query: BoundPatternQuery, outer: Outer) -> str | None:
    """Return why WHERE or GROUP BY needs matches made: they read what is known of each alone."""
    measures = {measure.name for measure in query.measures}
    for clause, read in (("WHERE", [outer.where]), ("GROUP BY", list(outer.group_by or ()))):
        for expression in read:
            names = sorted(_names(expression) & measures) if expression is not None else []
            if names:
                return f"{clause} reads '{names[0]}', a measure of each"
    return None


def _names(expression: Expression) -> set[str]:
    return {part.name for part in walk(expression) if isinstance(part, Attribute)}


# ---------------------------------------------------------------------------------------------
# What is held for an aggregate


class _NotHeldError(Exception):
    """Why an aggregate needs matches made."""


_READ = {
    "count": Part.COUNT,
    "sum": Part.SUM,
    "avg": Part.SUM,
    "min": Part.LEAST,
    "max": Part.GREATEST,
}


class _Channels:
    """Gathers channels, each once."""

    def __init__(self, query: BoundPatternQuery) -> None:
        self.channels: list[Channel] = []
        self._query = query
        self._measures = {measure.name: measure.expression for measure in query.measures}
        borders = () if query.windows is None else (WINDOW_START, WINDOW_END)
        self._of_window = {name for source, name in query.output if source in borders}

    def reading(self, part: Aggregate) -> Reading:
        """Return how an aggregate of the outer query is read."""
        if part.distinct or part.function not in _READ:
            what = "DISTINCT" if part.distinct else part.function.upper()
            raise _NotHeldError(f"{what} needs all values one by one")
        is_text = part.argument is not None and part.argument.type is DataType.STRING
        if is_text and part.function in ("min", "max"):
            raise _NotHeldError(f"{part.function.upper()} of texts is asked for")
        if part.symbols is not None:
            return self._of_channel(part, Channel(Held.ROWS, part.symbols, part.argument))
        if part.argument is None:
            return Reading(MATCHES)
        value = self._of_match(part.argument)
        if isinstance(value, Aggregate):
            return self._of_aggregate(part, value)
        return self._of_channel(part, self._gap(value) or self._one_value(value))

    def _of_channel(self, part: Aggregate, channel: Channel) -> Reading:
        """Return what an aggregate of the values of a channel reads."""
        number = self._number(channel, _READ[part.function])
        if part.function in ("count", "min", "max"):
            return Reading(number)
        return Reading(number, self._number(channel, Part.COUNT), part.function == "avg")

    def _of_aggregate(self, part: Aggregate, inner: Aggregate) -> Reading:
        """Return what an aggregate reads of those that each match has of its rows."""
        if inner.distinct or inner.function not in _HELD:
            what = "DISTINCT" if inner.distinct else inner.function.upper()
            raise _NotHeldError(f"{what} of the rows of each is asked for")
        channel = Channel(_HELD[inner.function], inner.symbols, inner.argument)
        if part.function in ("min", "max"):
            return Reading(self._number(channel, _READ[part.function]))
        if inner.function == "count":
            return self._of_counts(part, inner)
        if part.function == "count":
            return Reading(self._number(channel, Part.COUNT))
        if inner.function != "sum" or inner.type is DataType.DOUBLE:
            what = f"{part.function.upper()} of the {inner.function.upper()} of each"
            raise _NotHeldError(f"the {what} is asked for")
        rows = Channel(Held.ROWS, inner.symbols, inner.argument)
        with_value = self._number(channel, Part.COUNT)
        return Reading(self._number(rows, Part.SUM), with_value, part.function == "avg")

    def _of_counts(self, part: Aggregate, inner: Aggregate) -> Reading:
        """Return what COUNT, SUM and AVG of the counts of matches read."""
        if part.function == "count":
            return Reading(MATCHES)
        rows = self._number(Channel(Held.ROWS, inner.symbols, inner.argument), Part.COUNT)
        return Reading(rows, MATCHES, part.function == "avg")

    def _number(self, channel: Channel, part: Part) -> Number:
        if channel not in self.channels:
            self.channels.append(channel)
        return Number(self.channels.index(channel), part)

    def _of_match(self, argument: Expression) -> Expression:
        """Return the argument of an aggregate over measures as an expression over a match.

        A column of PARTITION BY is read from the first row.
        """

        def change(part: Expression) -> Expression | None:
            if not isinstance(part, Attribute):
                return None
            if part.name in self._of_window:
                raise _NotHeldError(f"{part.name} is no value of a row")
            first = Attribute(part.name, part.type, _FIRST_ROW)
            return self._measures.get(part.name, first)

        return rewritten(argument, change)

    def _one_value(self, value: Expression) -> Channel:
        """Return the channel of an expression over one row of each match."""
        anchors = {part.anchor for part in _reads(value)}
        if len(anchors) > 1:
            raise _NotHeldError("a measure reads more than one row of each")
        anchor = next(iter(anchors), _FIRST_ROW)
        if anchor.offset or any(part.offset for part in _reads(value)):
            raise _NotHeldError("a measure reads a row beside those of a match, or behind its ends")
        if not self._is_there(anchor.symbols) and not _is_null_without_row(value):
            raise _NotHeldError("a measure has a value where a symbol has no row, too")
        held = Held.FIRST if anchor.kind is AnchorKind.FIRST else Held.LAST

        def change(part: Expression) -> Expression | None:
            if not isinstance(part, Attribute):
                return None
            return Attribute(part.name, part.type, CURRENT)

        return Channel(held, anchor.symbols, rewritten(value, change))

    def _gap(self, value: Expression) -> Channel | None:
        """Return the channel of a difference of two times; None if it is another expression."""
        if not isinstance(value, Call) or value.op != "-" or len(value.args) != 2:
            return None
        later, earlier = map(self._time, value.args)
        if later is None or earlier is None:
            return None
        is_span = later.anchor.symbols is None and earlier.anchor.symbols is None
        ends = later.anchor.kind is AnchorKind.LAST and earlier.anchor.kind is AnchorKind.FIRST
        if is_span and not ends:
            return None
        if not is_span and not self._are_apart(earlier.anchor.symbols, later.anchor.symbols):
            return None
        time = Attribute(later.name, later.type)
        return Channel(Held.GAP, later.anchor.symbols, time, earlier.anchor.symbols)

    def _time(self, value: Expression) -> Attribute | None:
        """Return what is the time of a row of a match; None for other expressions."""
        if not isinstance(value, Attribute) or value.name != self._query.time:
            return None
        if value.type is DataType.DATE:  # the difference of two is a number of days
            return None
        return None if value.offset or value.anchor.offset else value

    def _is_there(self, symbols: SymbolSet) -> bool:
        """Tell whether every match has a row of the symbols."""
        return symbols is None or always_maps(self._query.pattern, symbols)

    def _are_apart(self, earlier: SymbolSet, later: SymbolSet) -> bool:
        """Tell whether every match has one row of each, in this order."""
        pattern = self._query.pattern
        if earlier is None or later is None:
            return False
        once = (sum(rows_most(pattern, s) for s in symbols) == 1 for symbols in (earlier, later))
        return all(once) and _is_before(pattern, earlier, later)


def _is_before(pattern: Pattern, earlier: tuple[int, ...], later: tuple[int, ...]) -> bool:
    """Tell whether every way through a pattern maps a row to the one before one to the other."""
    match pattern:
        case Concat(parts):
            at = [i for i, part in enumerate(parts) if always_maps(part, earlier)]
            then = [i for i, part in enumerate(parts) if always_maps(part, later)]
            if not at or not then:
                return False
            return at[0] < then[0] or (
                at[0] == then[0] and _is_before(parts[at[0]], earlier, later)
            )
        case Exclusion(body):
            return _is_before(body, earlier, later)
    return False


_HELD = {"count": Held.COUNT, "sum": Held.SUM, "min": Held.LEAST, "max": Held.GREATEST}


def _reads(value: Expression) -> Iterator[Attribute]:
    """Yield what an expression over a match reads of single rows; refuse all else."""
    for part in walk(value):
        if isinstance(part, Aggregate):
            raise _NotHeldError("a measure computes with an aggregate of the rows of each")
        if isinstance(part, Classifier | MatchNumber | TimedOut | ScalarQuery):
            raise _NotHeldError("a measure reads more of each than values of its rows")
        if isinstance(part, Attribute):
            yield part


def _is_null_without_row(value: Expression) -> bool:
    """Tell whether an expression is NULL where the row that it reads is not there."""

    def change(part: Expression) -> Expression | None:
        return Literal(None, part.type) if isinstance(part, Attribute) else None

    def folded(part: Expression) -> Expression:
        if not isinstance(part, Call):
            return part
        return fold.call(part.op, [folded(argument) for argument in part.args], part.type)

    nothing = folded(rewritten(value, change))
    return isinstance(nothing, Literal) and nothing.value is None
