"""A bound query compiled for the matcher, and the evaluation of its predicates on a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.errors import NotSupportedError
from replay.language.bound import (
    CURRENT,
    Anchor,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Call,
    Classifier,
    DataType,
    Expression,
    Literal,
    MatchNumber,
    attributes,
    walk,
)
from replay.operators.columns import Columns
from replay.operators.conditions.across import AcrossCode, AcrossCompiler, at_current_row
from replay.operators.conditions.kernels import ANCHOR_FIRST, ANCHOR_LAST, X_LEAF_F, X_LEAF_I
from replay.operators.config import SYMBOLS_MAX
from replay.operators.evaluate import evaluate
from replay.operators.masks.predicates import MaskPlan, plan_masks
from replay.operators.pattern import PatternCode, compile_pattern, describe
from replay.operators.prepared import Partitions, Prepared, Strings, group_keys
from replay.operators.scalars import Faults

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEAVES = (X_LEAF_I, X_LEAF_F)

MATCH_LAST = Anchor(AnchorKind.LAST)
"""The last row of the match, which MEASURES read from unless they say otherwise."""


@dataclass(frozen=True, slots=True)
class MatchProgram:
    """A query, ready to be matched. Immutable; shared by threads."""

    columns: tuple[str, ...]
    """What ``prepare`` reads: columns of predicates and partitions, and the time if WITHIN."""
    rows_before: int
    rows_after: int
    """How far PREV and NEXT look: margins that ``prepare`` wants at the ends of a batch."""
    anchors: tuple[Anchor, ...]
    """Rows the MEASURES read from: columns of ``Matches.anchors``."""
    offsets: tuple[int, ...]
    """By anchor: how many rows on in the partition; all 0 unless partitioned."""
    needs_all_rows: bool
    """PREV or NEXT within partitions: nothing can be decided before the stream's end."""
    pattern: PatternCode
    pattern_text: str
    masks: MaskPlan
    across: AcrossCode
    tracked: Bools
    """Symbols whose rows conditions across rows read."""
    anchor_codes: IntArray
    """Kind and symbol (-1: any) of each anchor, shape (n_anchors, 2)."""
    partition_by: tuple[str, ...]
    time: Attribute
    within: int | None
    skip_past: bool

    @property
    def in_order(self) -> bool:
        """Whether matches are found in canonical order."""
        return not self.partition_by

    @property
    def n_symbols(self) -> int:
        """Number of symbols."""
        return len(self.tracked)

    def prepare(self, table: pa.Table, *, before: int = 0, after: int = 0) -> Prepared:
        """Evaluate the predicates on a batch. Pure and safe to call from many threads.

        Parameters
        ----------
        table
            Rows in ``seq`` order with at least the columns of ``self.columns``.
        before, after
            How many rows at the ends are margins. Give ``rows_before`` and ``rows_after`` unless
            the stream begins or ends there: PREV and NEXT read NULL beyond.

        Returns
        -------
        Prepared
            The rows that are no margins.
        """
        if self.needs_all_rows:
            kept = table.slice(before, table.num_rows - before - after).select(list(self.columns))
            return _deferred(kept)
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
        return Prepared(words, times, leaves, known, strings, groups, faults.count)

    def _leaves(
        self, columns: Columns, faults: Faults
    ) -> tuple[IntArray, Bools, tuple[Strings, ...]]:
        """Evaluate what conditions across rows read: by leaf and row."""
        shape = (len(self.across.leaves), columns.n_rows)
        leaves = np.zeros(shape, np.int64)
        known = np.ones(shape, np.bool_)
        strings = []
        for number, leaf in enumerate(self.across.leaves):
            if leaf.type is DataType.STRING:
                codes, entries = _string_codes(leaf, columns, faults)
                known[number] = codes < len(entries)
                strings.append(Strings(number, codes, entries))
                continue
            data, valid = evaluate(leaf, columns, faults)
            target = leaves[number].view(np.float64) if data.dtype.kind == "f" else leaves[number]
            target[:] = data
            if valid is not None:
                known[number] = valid
        return leaves, known, tuple(strings)


def _deferred(table: pa.Table) -> Prepared:
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

    Raises
    ------
    NotSupportedError
        If the query has more than 64 symbols, an absurdly large pattern, or a condition that the
        matcher cannot evaluate over rows mapped earlier.
    """
    n_symbols = len(query.symbols)
    if n_symbols > SYMBOLS_MAX:
        raise NotSupportedError(
            f"the pattern has {n_symbols} symbols, more than {SYMBOLS_MAX} are not supported yet"
        )
    local, compiler, conditioned, unconditional = _split_conditions(query)
    across = compiler.finish()
    tracked = _tracked(across, n_symbols)
    anchors, offsets = _measured_anchors(query)
    margins = [a.offset for e in query.defines for a in attributes(e)]
    partitioned = bool(query.partition_by)
    return MatchProgram(
        columns=_columns(query),
        rows_before=0 if partitioned else max(0, *[-o for o in margins], 0),
        rows_after=0 if partitioned else max(0, *margins, 0),
        anchors=anchors,
        offsets=offsets,
        needs_all_rows=partitioned and (any(margins) or any(offsets)),
        pattern=compile_pattern(
            query.pattern,
            n_symbols=n_symbols,
            conditioned=conditioned | frozenset(np.flatnonzero(tracked).tolist()),
            unconditional=unconditional,
        ),
        pattern_text=describe(query.pattern, query.symbols),
        masks=plan_masks(local, n_symbols),
        across=across,
        tracked=tracked,
        anchor_codes=_anchor_codes(anchors),
        partition_by=query.partition_by,
        time=Attribute(query.time, query.time_type),
        within=query.within,
        skip_past=query.skip.name == "PAST_LAST_ROW",
    )


Conditions = list[tuple[int, Expression]]


def _split_conditions(
    query: BoundPatternQuery,
) -> tuple[Conditions, AcrossCompiler, frozenset[int], frozenset[int]]:
    """Return conditions on the row under test; those across rows, compiled; whose they are.

    The last value names the symbols that every row satisfies.
    """
    local: Conditions = []
    compiler = AcrossCompiler(len(query.symbols))
    conditioned = set()
    for symbol, define in enumerate(query.defines):
        across = []
        for conjunct in _conjuncts(define):
            if all(_is_own_row(attribute.anchor, symbol) for attribute in attributes(conjunct)):
                local.append((symbol, at_current_row(conjunct)))
            else:
                across.append(conjunct)
        if across:
            conditioned.add(symbol)
            compiler.add(symbol, query.symbols[symbol], across)
    named = {symbol for symbol, _ in local} | conditioned
    return local, compiler, frozenset(conditioned), frozenset(range(len(query.symbols))) - named


def _is_own_row(anchor: Anchor, symbol: int) -> bool:
    """Whether the anchor is the row under test, which LAST of symbol or match always is."""
    if anchor.kind is AnchorKind.LAST:
        return anchor.symbol is None or anchor.symbol == symbol
    return anchor.kind is AnchorKind.CURRENT


def _conjuncts(define: Expression | None) -> list[Expression]:
    """Return the parts that all must hold."""
    if define is None or (isinstance(define, Literal) and define.value is True):
        return []
    if isinstance(define, Call) and define.op == "and":
        return [part for argument in define.args for part in _conjuncts(argument)]
    for part in walk(define):
        if isinstance(part, Classifier | MatchNumber):
            name = "CLASSIFIER" if isinstance(part, Classifier) else "MATCH_NUMBER"
            raise NotSupportedError(f"{name}() in DEFINE is not supported yet")
    return [define]


def _tracked(across: AcrossCode, n_symbols: int) -> Bools:
    """Return which symbols' rows conditions across rows read."""
    tracked = np.zeros(n_symbols, np.bool_)
    read = np.isin(across.code[:, 0], LEAVES) & (across.code[:, 3] >= 0)
    tracked[across.code[read, 3]] = True
    return tracked


def _columns(query: BoundPatternQuery) -> tuple[str, ...]:
    """Return the columns the matcher must see; at least one, since they carry the row count."""
    read = {attribute.name for define in query.defines for attribute in attributes(define)}
    read.update(query.partition_by)
    if query.within is not None or not read:
        read.add(query.time)
    return tuple(sorted(read))


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


def _anchor_codes(anchors: tuple[Anchor, ...]) -> IntArray:
    kinds = {AnchorKind.FIRST: ANCHOR_FIRST, AnchorKind.LAST: ANCHOR_LAST}
    codes = [(kinds[a.kind], -1 if a.symbol is None else a.symbol) for a in anchors]
    return np.array(codes, dtype=np.int64).reshape(-1, 2)
