"""A bound query compiled for the matcher, and the evaluation of its predicates on a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.errors import NotSupportedError
from replay.expressions.atoms import DAY_US
from replay.expressions.columns import Columns
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import (
    CURRENT,
    MATCH_LAST,
    Aggregate,
    Anchor,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Classifier,
    Concat,
    DataType,
    EdgeKind,
    Expression,
    MatchNumber,
    Negation,
    Pattern,
    RowsPerMatch,
    Semantics,
    SkipMode,
    edges,
    pattern_parts,
    walk,
)
from replay.limits import check_limits
from replay.operators.partition_keys import Partitions, group_keys
from replay.patterns.automaton import StrategyCode, compile_strategy
from replay.patterns.conditions.across import (
    AcrossCode,
    Split,
    SymbolConditions,
    split_conditions,
)
from replay.patterns.conditions.kernels import ANCHOR_FIRST, ANCHOR_LAST
from replay.patterns.config import SYMBOLS_MAX
from replay.patterns.liveness import StateKeys, with_state_keys
from replay.patterns.negation import without_negations
from replay.patterns.pattern import (
    PatternCode,
    compile_pattern,
    describe,
    rows_most,
)
from replay.patterns.predicates import MaskPlan, plan_masks
from replay.patterns.prepared import (
    BEFORE,
    BEHIND,
    Prepared,
    Strings,
)
from replay.patterns.trends.algebra import why_enumerated
from replay.patterns.trends.fewer_states import with_fewer_states
from replay.patterns.trends.machine import Sums, columns_of, to_sums, why_not_summed
from replay.patterns.windows import reach

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Skip:
    """AFTER MATCH SKIP: where the search goes on."""

    mode: SkipMode
    symbols: int
    """Bits of the symbols of TO FIRST and TO LAST."""
    name: str
    """Those symbols, for messages."""


@dataclass(frozen=True, slots=True)
class MatchProgram:
    """A query, ready to be matched. Immutable; shared by threads."""

    columns: tuple[str, ...]
    """What ``prepare`` reads: columns of predicates and partitions, and the time if WITHIN."""
    rows_before: int
    rows_after: int
    """How far PREV and NEXT look: margins that ``prepare`` wants at the ends of a batch."""
    anchors: tuple[Anchor, ...]
    """Rows the MEASURES read from: columns of ``Matches.anchors``; none if ``needs_rows``."""
    offsets: tuple[int, ...]
    """By anchor: how many rows on in the partition; all 0 unless partitioned."""
    needs_all_rows: bool
    """PREV or NEXT within partitions: rows cannot be evaluated without others of their partition,
    which are `beside` them there; unless these are known, nothing before the stream's end."""
    beside: tuple[int, int]
    """How many rows before and behind in the partition DEFINE and MEASURES look, and ``^`` and
    ``$``."""
    pattern: PatternCode
    """The pattern in SQL semantics; that of no row at all in others."""
    pattern_text: str
    strategy: StrategyCode | None
    """The pattern in semantics other than SQL."""
    conditions: tuple[tuple[Expression, ...], ...]
    """By symbol, its conditions on the row under test alone."""
    masks: MaskPlan
    across: AcrossCode
    """Conditions across rows by symbol; where they are summed over, by edge of the automaton."""
    states: StateKeys
    shown: IntArray
    """By symbol: the query's symbol it is; further ones stand for a symbol and negations of
    others, shape (n_symbols,)."""
    anchor_codes: IntArray
    """Kind of each anchor, its symbol (-1: any), and whether a match has at most one row of it,
    shape (n_anchors, 3)."""
    partition_by: tuple[str, ...]
    time: Attribute
    within: int | None
    skip: Skip
    needs_rows: bool
    """Whether `Matches.rows` is what MEASURES are read from, not `Matches.anchors`."""
    row_offsets: tuple[int, ...]
    """Columns of `MatchRows.moved`: how far from rows of a match MEASURES read in partitions."""
    with_unmatched: bool
    """Whether rows that no match maps are told as well."""
    partition_edges: tuple[int, ...]
    """Offsets of the rows that the first and the last of a partition have not: `BEFORE` where the
    pattern has ``^``, `BEHIND` where it has ``$``."""
    stands_alone: bool
    """Whether matches depend on their rows alone, not on others of the partition wherever they lie:
    those PREV and NEXT ask for, its ends, rows that no match maps, the number of matches before."""
    sums: Sums | None
    """What is summed over matches that are not made; None: they are."""
    query: BoundPatternQuery
    """What was compiled."""

    @property
    def is_double(self) -> tuple[bool, ...]:
        """By value that is summed over matches: whether it is a DOUBLE."""
        values = () if self.sums is None else self.sums.values
        return tuple(value.type is DataType.DOUBLE for value in values)

    @property
    def told_offsets(self) -> tuple[int, ...]:
        """How far from rows of a match MEASURES, ``^`` and ``$`` look in partitions, each once."""
        return tuple(sorted({*self.offsets, *self.row_offsets, *self.partition_edges} - {0}))

    def prepare(self, table: pa.Table, *, before: int = 0, after: int = 0) -> Prepared:
        """Evaluate the predicates on rows in ``seq`` order. Pure, and safe to call in threads.

        The first ``before`` and the last ``after`` rows are margins, not among those returned. Give
        ``rows_before`` and ``rows_after`` unless the stream begins or ends there: PREV and NEXT
        read NULL beyond.
        """
        if self.needs_all_rows:
            kept = table.slice(before, table.num_rows - before - after).select(list(self.columns))
            return deferred(kept)
        columns = Columns(table, before=before, after=after)
        groups = None
        if self.partition_by:
            groups = group_keys(columns, table, self.partition_by, before=before)
        return self.evaluate(columns, groups)

    def evaluate(self, columns: Columns, groups: Partitions | None) -> Prepared:
        """Evaluate the predicates on columns whose neighbours are those PREV and NEXT mean."""
        faults = Faults()
        words = self.masks.words(columns, faults)
        leaves, known, strings = self._leaves(columns, faults)
        times = np.empty(0, np.int64)
        if self.within is not None:
            times = columns.at(self.time).data
            if self.time.type is DataType.DATE:
                times = times.astype(np.int64) * DAY_US
        return Prepared(words, times, leaves, known, strings, groups, faults.count)

    def _leaves(
        self, columns: Columns, faults: Faults
    ) -> tuple[IntArray, Bools, tuple[Strings, ...]]:
        """Evaluate what conditions across rows read, and what is summed: by leaf and row."""
        summed = () if self.sums is None else self.sums.values
        n_leaves = len(self.across.leaves)
        shape = (n_leaves + len(summed), columns.n_rows)
        leaves = np.zeros(shape, np.int64)
        known = np.ones(shape, np.bool_)
        strings = []
        for number, leaf in enumerate((*self.across.leaves, *summed)):
            check_limits()
            if leaf.type is DataType.STRING:
                codes, entries = _string_codes(leaf, columns, faults)
                known[number] = codes < len(entries)
                if number < n_leaves:  # of a text it is only counted whether there is one
                    strings.append(Strings(number, codes, entries))
                continue
            data, valid = evaluate(leaf, columns, faults)
            target = leaves[number].view(np.float64) if data.dtype.kind == "f" else leaves[number]
            target[:] = data
            if valid is not None:
                known[number] = valid
        return leaves, known, tuple(strings)


def deferred(table: pa.Table) -> Prepared:
    """Return rows that can be evaluated only once all of a partition are there."""
    nothing = np.empty((0, 0), np.int64)
    return Prepared(
        words=np.empty(0, np.uint64),
        times=np.empty(0, np.int64),
        leaves=nothing,
        known=nothing.astype(np.bool_),
        strings=(),
        partitions=None,
        n_faults=0,
        table=table,
    )


def _string_codes(
    leaf: Expression, columns: Columns, faults: Faults
) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Return codes of a string expression and its entries; NULL has the code past their end."""
    if isinstance(leaf, Attribute):
        codes, dictionary = columns.encoded(leaf)
        return codes, tuple(dictionary.to_pylist())
    encoded = evaluate(leaf, columns, faults).data.dictionary_encode()
    null = len(encoded.dictionary)
    indices = encoded.indices.fill_null(null).to_numpy(zero_copy_only=False)
    return indices.astype(np.int32), tuple(encoded.dictionary.to_pylist())


def compile_program(query: BoundPatternQuery) -> MatchProgram:
    """Compile a bound query for the matcher. Pure.

    NotSupportedError is raised if it has more than 64 symbols, an absurdly large pattern, or a
    condition that the matcher cannot evaluate over rows mapped earlier.
    """
    pattern, symbols = _to_match(query)
    n_symbols = len(symbols.symbols)
    if n_symbols > SYMBOLS_MAX:
        raise NotSupportedError(
            f"the pattern has {n_symbols} symbols, more than {SYMBOLS_MAX} are not supported yet"
        )
    split = split_conditions(symbols, adjacent=_is_adjacent(query))
    code = compile_pattern(
        pattern,
        bound=split.across.bound,
        unconditional=split.unconditional,
        plain=query.skip in (SkipMode.PAST_LAST_ROW, SkipMode.TO_NEXT_ROW),
        bounded=query.within is not None,
    )
    code, states = with_state_keys(code, split.across)
    needs_rows = _needs_rows(query)
    anchors, offsets = ((), ()) if needs_rows else _measured_anchors(query)
    row_offsets = _row_offsets(query) if needs_rows else ()
    read = [part for define in query.defines if define for part in walk(define)]
    margins = [part.offset for part in read if isinstance(part, Attribute)]
    partitioned = bool(query.partition_by)
    moves = (*margins, *offsets, *row_offsets) if partitioned else ()
    needs_all_rows = any(moves)
    with_unmatched = query.rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED
    partition_edges = _partition_edges(query.pattern)
    looks = (*moves, *partition_edges) if partitioned else ()
    numbered = MatchNumber in {type(part) for part in read}
    strategy, sums = _to_strategy(query, split)
    return MatchProgram(
        columns=_columns(query, read, sums),
        rows_before=0 if partitioned else max(0, *[-o for o in margins], 0),
        rows_after=0 if partitioned else max(0, *margins, 0),
        anchors=anchors,
        offsets=offsets,
        needs_all_rows=needs_all_rows,
        beside=(max(0, *[-o for o in looks], 0), max(0, *looks, 0)),
        pattern=code,
        pattern_text=describe(query.pattern, query.symbols),
        strategy=strategy,
        conditions=_by_symbol(split.local, n_symbols),
        masks=plan_masks(split.local, n_symbols),
        across=split.across if sums is None or sums.grain is None else sums.grain.across,
        states=states,
        shown=np.array(symbols.shown, dtype=np.int64),
        anchor_codes=_anchor_codes(anchors, query.pattern),
        partition_by=query.partition_by,
        time=Attribute(query.time, query.time_type),
        within=query.within,
        skip=_skip(query),
        needs_rows=needs_rows,
        row_offsets=row_offsets,
        with_unmatched=with_unmatched,
        partition_edges=partition_edges,
        stands_alone=not any((*margins, needs_all_rows, with_unmatched, partition_edges, numbered)),
        sums=sums,
        query=query,
    )


def _to_strategy(query: BoundPatternQuery, split: Split) -> tuple[StrategyCode | None, Sums | None]:
    """Return the automaton of a strategy, and what is summed over its matches, if any."""
    if query.semantics is Semantics.SQL:
        return None, None
    strategy = compile_strategy(query)
    sums = to_sums(query, strategy, split.conjuncts)
    return (strategy, None) if sums is None else with_fewer_states(strategy, sums)


def _by_symbol(
    conditions: tuple[tuple[int, Expression], ...], n_symbols: int
) -> tuple[tuple[Expression, ...], ...]:
    by_symbol: list[list[Expression]] = [[] for _ in range(n_symbols)]
    for symbol, condition in conditions:
        by_symbol[symbol].append(condition)
    return tuple(map(tuple, by_symbol))


def summed_in_windows(query: BoundPatternQuery) -> MatchProgram | None:
    """Return what sums over the matches of a window; None: they are made.

    Its rows are those of the window alone, so that WITHIN says nothing if it is no less.
    """
    if query.windows is None or why_enumerated(query) is not None:
        return None
    longest = reach(replace(query, within=None))
    assert longest is not None
    within = None if query.within is None or query.within >= longest else query.within
    program = compile_program(replace(query, windows=None, within=within))
    return program if program.sums is not None else None


def summed_as_pushed(query: BoundPatternQuery) -> MatchProgram | None:
    """Return what sums over matches as rows are pushed; None: they are made.

    Rows are not put in an order of further columns, nor kept for what PREV and NEXT read of them.
    """
    if query.outer is None or query.windows is not None or query.order_by:
        return None
    program = compile_program(query)
    waits = program.rows_before or program.rows_after or program.needs_all_rows
    return None if waits or program.sums is None else program


def why_made(query: BoundPatternQuery) -> str:
    """Return why the matches of a strategy are made, whose program has no ``sums``."""
    own = tuple(range(len(query.symbols)))
    split = split_conditions(
        SymbolConditions(query.symbols, query.defines, own), adjacent=_is_adjacent(query)
    )
    return why_not_summed(query, compile_strategy(query), split.conjuncts) or ""


def _to_match(query: BoundPatternQuery) -> tuple[Pattern, SymbolConditions]:
    """Return the pattern the machine is to run, and the conditions of its symbols."""
    if query.semantics is Semantics.SQL:
        return without_negations(query)
    own = tuple(range(len(query.symbols)))
    return Concat(()), SymbolConditions(query.symbols, query.defines, own)


def _is_adjacent(query: BoundPatternQuery) -> bool:
    """Whether every row that is tested follows the rows mapped before without a gap."""
    if query.semantics is Semantics.CONTIGUOUS:
        return not any(isinstance(part, Negation) for part in pattern_parts(query.pattern))
    return query.semantics is Semantics.SQL


def _partition_edges(pattern: Pattern) -> tuple[int, ...]:
    asked = edges(pattern)
    offsets = {EdgeKind.START: BEFORE, EdgeKind.END: BEHIND}
    return tuple(offsets[kind] for kind in EdgeKind if kind in asked)


def _skip(query: BoundPatternQuery) -> Skip:
    targets = query.skip_to or ()
    name = " or ".join(query.symbols[s] for s in targets)
    return Skip(query.skip, sum(1 << s for s in targets), name)


def _needs_rows(query: BoundPatternQuery) -> bool:
    """Whether measures read more of a match than rows that can be named beforehand."""
    if query.semantics is not Semantics.SQL or query.rows_per_match is not RowsPerMatch.ONE:
        return True
    parts = [part for measure in query.measures for part in walk(measure.expression)]
    anchors = [part.anchor for part in parts if isinstance(part, Attribute)]
    return (
        any(isinstance(part, Aggregate) for part in parts)
        or any(isinstance(part, Classifier) and part != Classifier() for part in parts)
        or any(a.offset or a.final or len(a.symbols or (0,)) > 1 for a in anchors)
    )


def _row_offsets(query: BoundPatternQuery) -> tuple[int, ...]:
    """Return how far from rows of a match MEASURES read, where that is not told by ``seq``."""
    if not query.partition_by:
        return ()
    parts = [part for measure in query.measures for part in walk(measure.expression)]
    found = {part.offset for part in parts if isinstance(part, Attribute | Classifier)}
    return tuple(sorted(found - {0}))


def _columns(
    query: BoundPatternQuery, read: list[Expression], sums: Sums | None
) -> tuple[str, ...]:
    """Return the columns the matcher must see; at least one, since they carry the row count."""
    names = {part.name for part in read if isinstance(part, Attribute)}
    names.update(set() if sums is None else columns_of(sums))
    names.update(query.partition_by)
    if query.within is not None or not names:
        names.add(query.time)
    return tuple(sorted(names))


def _measured_anchors(query: BoundPatternQuery) -> tuple[tuple[Anchor, ...], tuple[int, ...]]:
    """Return anchors and, in partitions, how far from them the MEASURES read."""
    found = [slot_of(a, query) for m in query.measures for a in sorted_attributes(m.expression)]
    slots = dict.fromkeys(found)
    return tuple(anchor for anchor, _ in slots), tuple(offset for _, offset in slots)


def sorted_attributes(expression: Expression) -> list[Attribute]:
    """Return the attributes an expression reads, each once, in order of appearance."""
    return list(dict.fromkeys(p for p in walk(expression) if isinstance(p, Attribute)))


def slot_of(attribute: Attribute, query: BoundPatternQuery) -> tuple[Anchor, int]:
    """Return the anchor of a measure's attribute, and the offset the matcher must apply.

    Without partitions a neighbour's ``seq`` is known from the anchor's, so it applies none.
    """
    anchor = MATCH_LAST if attribute.anchor == CURRENT else attribute.anchor
    return anchor, attribute.offset if query.partition_by else 0


def _anchor_codes(anchors: tuple[Anchor, ...], pattern: Pattern) -> IntArray:
    kinds = {AnchorKind.FIRST: ANCHOR_FIRST, AnchorKind.LAST: ANCHOR_LAST}
    symbols = [-1 if a.symbols is None else a.symbols[0] for a in anchors]
    codes = [
        (kinds[anchor.kind], symbol, rows_most(pattern, symbol) <= 1)
        for anchor, symbol in zip(anchors, symbols, strict=True)
    ]
    return np.array(codes, dtype=np.int64).reshape(-1, 3)
