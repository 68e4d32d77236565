"""Which earlier row the future of a run depends on, and what conditions say of it on each edge.

Conditions that read rows mapped before make runs of one state go on differently. But seldom is more
than one earlier row read by all that is still to come: the last one (``x < LAST(x, 1)``), or that
of one symbol (``x > A.x``), the *live* row. Runs that agree in state and live row go on alike and
share a cell: COGRA's event grain (SIGMOD 2019, section 5), where states without a live row keep the
type grain.

An anchor here names a row among those mapped before the one under test. First, forwards over the
automaton: what is known of the row of each anchor in all runs of a state. With that, the condition
of each edge is simplified. Then, backwards: what conditions to come still read. Pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from replay.language import fold
from replay.language.bound import (
    CURRENT,
    Anchor,
    AnchorKind,
    Attribute,
    Call,
    Classifier,
    DataType,
    Expression,
    Literal,
    rewritten,
    walk,
)
from replay.patterns.automaton import States, StrategyCode
from replay.patterns.conditions.across import AcrossCode, AcrossCompiler

IntArray = npt.NDArray[np.int64]

ALWAYS = -1
"""Of an edge: its condition is true."""

NEVER = -2
"""It is not."""

LIVE = Anchor(AnchorKind.FIRST)
"""The anchor of the live row in conditions that are compiled."""


class Move(IntEnum):
    """Which row is the live one of runs that map a row."""

    ROW = 0
    """That row; none if the future reads none."""
    KEPT = 1
    """The one it was."""
    KEPT_OR_ROW = 2
    """The one it was, or that row where there was none."""
    NONE = 3
    """None: the row that the future reads is not there."""


@dataclass(frozen=True, slots=True)
class Told:
    """A conditioned edge, for people."""

    state: int
    before: str | None
    """Symbol of the row before; None: the run begins."""
    symbol: int
    """Symbol of the row under test."""
    condition: str


@dataclass(frozen=True, slots=True)
class EventGrain:
    """The automaton with a live row, and a condition on each edge. Immutable."""

    across: AcrossCode
    """The conditions, each as that of a symbol; of anchors they have `LIVE` alone."""
    step: States
    """As `StrategyCode.step`, without edges whose condition never holds."""
    conditions: IntArray
    """By whether there is a live row, state and symbol: place in ``across``, `ALWAYS`, `NEVER`."""
    negations: IntArray
    """Likewise, by negation instead of symbol."""
    moves: IntArray
    """By state and symbol: a `Move`."""
    keeps: npt.NDArray[np.bool_]
    """By state and negation: whether runs that go to another state there keep their live row."""
    has_live: npt.NDArray[np.bool_]
    """By state: whether the future of its runs depends on a row."""
    may_miss: npt.NDArray[np.bool_]
    """By state: whether that row may not be there."""
    edges: tuple[Told, ...]
    """Those whose condition is looked at."""


def to_event_grain(
    code: StrategyCode, names: tuple[str, ...], conditions: tuple[tuple[Expression, ...], ...]
) -> EventGrain | str:
    """Return the event grain of an automaton, or why matches need to be made.

    ``conditions`` are by symbol those across rows, all of which must hold.
    """
    for name, parts in zip(names, conditions, strict=True):
        for part in (inner for condition in parts for inner in walk(condition)):
            if not isinstance(part, Attribute | Classifier | Call | Literal):
                return f"the condition of {name} reads more than rows mapped before"
            if isinstance(part, Classifier) and part.offset:
                return f"the condition of {name} reads neighbours of rows mapped before"
            if isinstance(part, Attribute | Classifier) and _is_counted(part.anchor):
                return f"the condition of {name} counts rows from the first one on"
    try:
        return _Analysis(code, names, conditions).grain()
    except _NotLiveError as error:
        return str(error)


def _is_counted(anchor: Anchor) -> bool:
    return anchor.kind is AnchorKind.FIRST and anchor.offset > 0


class _NotLiveError(Exception):
    """Why runs do not depend on one row."""


# ---------------------------------------------------------------------------------------------
# What is known of rows


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of the row that an anchor names, in all runs of a state."""

    same: Hashable
    """Anchors with the same one name the same row, or all none."""
    symbol: int | None
    """Its symbol where there is one; None: it may be of several."""
    exists: bool | None
    """None: in some runs."""


Facts = dict[Anchor, _Known]

_ROW = "row"


def _covers(anchor: Anchor, symbol: int) -> bool:
    return anchor.symbols is None or symbol in anchor.symbols


def _before(anchor: Anchor, symbol: int, facts: Facts) -> Anchor:
    """Return what an anchor that may name the row under test, of a symbol, names without it.

    `CURRENT` where it is the row under test. The first row of symbols may be that row, too, where
    there is none before.
    """
    if anchor.kind is AnchorKind.CURRENT or not _covers(anchor, symbol):
        return anchor
    if anchor.kind is AnchorKind.FIRST:
        return CURRENT if facts[anchor].exists is False else anchor
    return replace(anchor, offset=anchor.offset - 1) if anchor.offset else CURRENT


def _is_either(anchor: Anchor, symbol: int, facts: Facts) -> bool:
    """Tell whether an anchor names the row under test in those runs where no row came before."""
    is_first = anchor.kind is AnchorKind.FIRST
    return is_first and _covers(anchor, symbol) and facts[anchor].exists is None


def _after(facts: Facts, symbol: int) -> Facts:
    """Return what is known once a row is mapped to a symbol."""
    found: Facts = {}
    for anchor in facts:
        was = _before(anchor, symbol, facts)
        if was == CURRENT:
            found[anchor] = _Known(_ROW, symbol, exists=True)
        elif _is_either(anchor, symbol, facts):
            known = facts[anchor]
            of = symbol if known.symbol == symbol else None
            found[anchor] = _Known((_ROW, known.same), of, exists=True)
        else:
            found[anchor] = facts[was]
    return _numbered(found)


def _of_both(one: Facts, two: Facts) -> Facts:
    """Return what is known of runs of either kind."""
    return _numbered({anchor: _joined(one[anchor], two[anchor]) for anchor in one})


def _joined(one: _Known, two: _Known) -> _Known:
    if one.exists is False:
        symbol = two.symbol
    elif two.exists is False or one.symbol == two.symbol:
        symbol = one.symbol
    else:
        symbol = None
    exists = one.exists if one.exists is two.exists else None
    return _Known((one.same, two.same), symbol, exists)


def _numbered(facts: Facts) -> Facts:
    numbers: dict[Hashable, int] = {}
    return {
        anchor: replace(known, same=numbers.setdefault(known.same, len(numbers)))
        for anchor, known in facts.items()
    }


# ---------------------------------------------------------------------------------------------
# The analysis


class _Analysis:
    def __init__(
        self,
        code: StrategyCode,
        names: tuple[str, ...],
        conditions: tuple[tuple[Expression, ...], ...],
    ) -> None:
        self._code, self._names = code, names
        self._conditions = [fold.all_of(parts) if parts else fold.TRUE for parts in conditions]
        self._facts = self._all_facts()
        self._simple = {
            (state, symbol): self._simplified(state, symbol)
            for state, symbol in (*self._steps(), *self._skips())
        }
        self._needs = self._all_needs()
        self._live = [self._live_row(state) for state in range(code.n_states)]

    def _steps(self) -> Iterator[tuple[int, int]]:
        """Yield the state and the symbol of each edge that maps a row."""
        for state, symbol in zip(*np.nonzero(self._code.step >= 0), strict=True):
            yield int(state), int(symbol)

    def _skips(self) -> Iterator[tuple[int, int]]:
        """Yield the state and the symbol of each negation that makes a difference."""
        for state in range(2, self._code.n_states):
            for place, symbol in enumerate(self._code.negated):
                if self._code.skip[state, place] != state:
                    yield state, symbol

    def _anchors(self) -> list[Anchor]:
        """Return the anchors of conditions, and those that they are before further rows."""
        found: dict[Anchor, None] = {}
        for part in (part for condition in self._conditions for part in walk(condition)):
            if not isinstance(part, Attribute | Classifier):
                continue
            anchor = part.anchor
            if anchor.kind is AnchorKind.CURRENT:
                continue
            for offset in range(anchor.offset + 1):
                found[replace(anchor, offset=offset)] = None
        return list(found)

    def _all_facts(self) -> list[Facts]:
        """Return what is known in each state: as much as holds on every way to it."""
        code = self._code
        nothing = {anchor: _Known(0, None, exists=False) for anchor in self._anchors()}
        found: list[Facts | None] = [nothing, nothing, *[None] * (code.n_states - 2)]
        waiting = [0, 1]
        while waiting:
            state = waiting.pop()
            facts = found[state]
            assert facts is not None
            ways = [
                (int(target), _after(facts, symbol))
                for symbol, target in enumerate(code.step[state])
            ]
            ways += [(int(target), facts) for target in code.skip[state]]
            for target, reached in ways:
                if target < 0:
                    continue
                old = found[target]
                new = reached if old is None else _of_both(old, reached)
                if new != old:
                    found[target] = new
                    waiting.append(target)
        return [nothing if facts is None else facts for facts in found]

    def _simplified(self, state: int, symbol: int) -> Expression:
        """Return a condition behind runs of a state, with anchors that name rows before alone."""
        facts = self._facts[state]

        def change(part: Expression) -> Expression | None:
            if not isinstance(part, Attribute | Classifier) or part.anchor == CURRENT:
                return None
            was = _before(part.anchor, symbol, facts)
            if was == CURRENT or facts[was].exists is not False:
                return self._read(part, was, facts, symbol)
            return Literal(None, part.type)

        return _folded(rewritten(self._conditions[symbol], change))

    def _read(
        self, part: Attribute | Classifier, anchor: Anchor, facts: Facts, symbol: int
    ) -> Expression:
        if isinstance(part, Attribute):
            return replace(part, anchor=anchor)
        of = symbol if anchor == CURRENT else facts[anchor].symbol
        if of is None:
            name = self._names[symbol]
            raise _NotLiveError(f"the condition of {name} asks which symbol a row is mapped to")
        if anchor == CURRENT or facts[anchor].exists:
            return Literal(self._names[of], DataType.STRING)
        return replace(part, anchor=anchor)

    def _all_needs(self) -> list[frozenset[Anchor]]:
        """Return the anchors that conditions to come read, by state; a least fixed point."""
        needs = [frozenset[Anchor]()] * self._code.n_states
        changed = True
        while changed:
            changed = False
            for state in range(self._code.n_states - 1, -1, -1):
                found = frozenset(self._needed(state, needs))
                if found != needs[state]:
                    needs[state], changed = found, True
        return needs

    def _needed(self, state: int, needs: list[frozenset[Anchor]]) -> Iterator[Anchor]:
        code, facts = self._code, self._facts[state]
        for symbol, target in enumerate(code.step[state].tolist()):
            if target >= 0 and not _is_never(self._simple[state, symbol]):
                yield from _reads(self._simple[state, symbol])
                for anchor in needs[target]:
                    was = _before(anchor, symbol, facts)
                    if was != CURRENT and facts[was].exists is not False:
                        yield was
        for place, symbol in enumerate(code.negated):
            target = int(code.skip[state, place])
            if (state, symbol) in self._simple and target != state:
                yield from _reads(self._simple[state, symbol])
                yield from needs[target] if target >= 0 else ()

    def _live_row(self, state: int) -> Anchor | None:
        """Return an anchor of the row that the future of a state reads; None: it reads none."""
        facts = self._facts[state]
        needed = sorted(self._needs[state], key=repr)
        rows = {facts[a].same: a for a in needed if facts[a].exists is not False}
        if len(rows) > 1:
            symbol = self._symbol_of(state)
            behind = "" if symbol is None else f" behind {self._names[symbol]}"
            raise _NotLiveError(f"conditions{behind} read {len(rows)} rows mapped before, not one")
        return next(iter(rows.values()), None)

    def _symbol_of(self, state: int) -> int | None:
        """Return the symbol of the last row of the runs in a state: all have the same."""
        if state < 2:
            return None
        sources = {symbol for q, symbol in self._steps() if self._code.step[q, symbol] == state}
        if sources:
            return next(iter(sources))
        before = next(q for q in range(2, state) if state in self._code.skip[q])
        return self._symbol_of(before)

    # -----------------------------------------------------------------------------------------
    # What comes of it

    def grain(self) -> EventGrain:
        """Return the automaton with its conditions."""
        code = self._code
        compiled: dict[Expression, int] = {}
        of_symbol: list[int] = []
        edges: dict[tuple[int, int], Told] = {}

        def place(state: int, symbol: int, *, is_there: bool) -> int:
            condition = self._specialised(state, symbol, is_there=is_there)
            if isinstance(condition, Literal):
                return ALWAYS if condition.value is True else NEVER
            if condition not in compiled:
                of_symbol.append(symbol)
            before = self._symbol_of(state)
            name = None if before is None else self._names[before]
            told = self._in_words(self._simple[state, symbol], symbol)
            edges[state, symbol] = Told(state, name, symbol, told)
            return compiled.setdefault(condition, len(compiled))

        shape = (2, code.n_states)
        conditions = np.full((*shape, code.step.shape[1]), NEVER, np.int64)
        negations = np.full((*shape, len(code.negated)), NEVER, np.int64)
        places = {symbol: at for at, symbol in enumerate(code.negated)}
        for is_there in (0, 1):
            for state, symbol in self._steps():
                found = place(state, symbol, is_there=bool(is_there))
                conditions[is_there, state, symbol] = found
            for state, symbol in self._skips():
                found = place(state, symbol, is_there=bool(is_there))
                negations[is_there, state, places[symbol]] = found
        compiler = AcrossCompiler(
            tuple(self._names[symbol] for symbol in of_symbol), adjacent=False
        )
        for condition, at in compiled.items():
            compiler.add(at, [condition])
        can_hold = (conditions != NEVER).any(axis=0)
        return EventGrain(
            across=compiler.finish(),
            step=np.where(can_hold, code.step, -1).astype(np.int32),
            conditions=conditions,
            negations=negations,
            moves=self._moves(),
            keeps=self._keeps(),
            has_live=np.array([live is not None for live in self._live], np.bool_),
            may_miss=np.array(
                [
                    live is not None and not facts[live].exists
                    for live, facts in zip(self._live, self._facts, strict=True)
                ],
                np.bool_,
            ),
            edges=tuple(edges.values()),
        )

    def _in_words(self, expression: Expression, symbol: int) -> str:
        """Return an expression over rows before one of a symbol, and that row, as SQL has it."""
        match expression:
            case Attribute(name, _, anchor):
                return self._row_in_words(name, anchor, symbol)
            case Classifier(anchor=anchor):
                return self._row_in_words("CLASSIFIER()", anchor, symbol)
            case Literal(value):
                return f"'{value}'" if isinstance(value, str) else str(value).upper()
            case Call(op, args):
                told = [self._in_words(part, symbol) for part in args]
                if len(args) > 1 and (not op.isalpha() or op in ("and", "or")):
                    return f"({f' {op.upper()} '.join(told)})"
                return f"{op.upper()}({', '.join(told)})"
        return str(expression)

    def _row_in_words(self, value: str, anchor: Anchor, symbol: int) -> str:
        if anchor == CURRENT:
            return value
        symbols = [self._names[of] for of in anchor.symbols or ()]
        named = f"{'|'.join(symbols)}.{value}" if symbols else value
        is_last = anchor.kind is AnchorKind.LAST
        back = anchor.offset + (is_last and _covers(anchor, symbol))
        if is_last and symbols and not back:
            return named
        return f"{anchor.kind.name}({named}{f', {back}' if back else ''})"

    def _specialised(self, state: int, symbol: int, *, is_there: bool) -> Expression:
        """Return a condition in runs that have a live row, or have none."""
        facts, live = self._facts[state], self._live[state]
        exists = False if live is None else facts[live].exists
        if exists is not None and exists is not is_there:
            return fold.FALSE

        def change(part: Expression) -> Expression | None:
            if not isinstance(part, Attribute | Classifier) or part.anchor == CURRENT:
                return None
            if isinstance(part, Classifier):
                of = facts[part.anchor].symbol if is_there else symbol
                assert of is not None
                name = Literal(self._names[of], DataType.STRING)
                is_row = is_there or _is_either(part.anchor, symbol, facts)
                return name if is_row else Literal(None, DataType.STRING)
            if is_there:
                return replace(part, anchor=LIVE)
            if _is_either(part.anchor, symbol, facts):
                return replace(part, anchor=CURRENT)
            return Literal(None, part.type)

        return _folded(rewritten(self._simple[state, symbol], change))

    def _moves(self) -> IntArray:
        moves = np.full(self._code.step.shape, Move.ROW, np.int64)
        for state, symbol in self._steps():
            facts, live = self._facts[state], self._live[self._code.step[state, symbol]]
            if live is None:
                continue
            was = _before(live, symbol, facts)
            if was == CURRENT:
                continue
            if _is_either(live, symbol, facts):
                moves[state, symbol] = Move.KEPT_OR_ROW
            else:
                exists = facts[was].exists is not False
                moves[state, symbol] = Move.KEPT if exists else Move.NONE
        return moves

    def _keeps(self) -> npt.NDArray[np.bool_]:
        skip = self._code.skip
        keeps = np.zeros(skip.shape, np.bool_)
        for state, place in np.argwhere(skip >= 0).tolist():
            live = self._live[skip[state, place]]
            if live is not None:
                keeps[state, place] = self._facts[state][live].exists is not False
        return keeps


def _reads(condition: Expression) -> Iterator[Anchor]:
    """Yield the anchors, but for that of the row under test, that a condition reads."""
    for part in walk(condition):
        if isinstance(part, Attribute | Classifier) and part.anchor != CURRENT:
            yield part.anchor


def _is_never(condition: Expression) -> bool:
    return isinstance(condition, Literal) and condition.value is not True


def _folded(expression: Expression) -> Expression:
    """Return an expression with constants computed."""
    if not isinstance(expression, Call):
        return expression
    return fold.call(expression.op, [_folded(part) for part in expression.args], expression.type)
