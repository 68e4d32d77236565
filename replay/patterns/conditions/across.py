"""Conditions of the symbols: those on the row under test, and those across rows, compiled.

A condition that reads rows mapped earlier becomes a stack program over hoisted sub-expressions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.errors import NotSupportedError
from replay.expressions.columns import Values, literal
from replay.expressions.evaluate import evaluate
from replay.expressions.functions.numbers import Compiled, compiled, operands, spelling
from replay.expressions.scalars import Faults
from replay.language import fold
from replay.language.bound import (
    CURRENT,
    Aggregate,
    Anchor,
    AnchorKind,
    Attribute,
    Call,
    Classifier,
    DataType,
    Expression,
    Literal,
    MatchNumber,
    SymbolSet,
    TimedOut,
    walk,
)
from replay.patterns.conditions import kernels
from replay.patterns.conditions import total_kernels as totals

IntArray = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

Conditions = tuple[
    IntArray, IntArray, IntArray, IntArray, IntArray, Doubles, IntArray, Doubles, Bools, bool | None
]
"""``conds`` as ``kernels.py`` says; plain tuples, for the reason given there."""

Mapped = tuple[
    IntArray, IntArray, IntArray, Doubles, npt.NDArray[np.uint8], IntArray, Doubles, Bools
]
"""``mapped`` likewise."""

_ANCHORS = {
    AnchorKind.CURRENT: kernels.ANCHOR_CURRENT,
    AnchorKind.FIRST: kernels.ANCHOR_FIRST,
    AnchorKind.LAST: kernels.ANCHOR_LAST,
}
_ARITHMETIC = {"+": 0, "-": 1, "*": 2, "/": 3, "%": 4, "mod": 4}
_BY_CODE = ("case", "coalesce", "nullif", "is_null", "is_distinct", "in")
"""What is done on the codes of strings as on any other values."""
_COMPARE = {"=": 0, "<>": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}


_SPREAD = {
    "var_pop": totals.F_VAR_POP,
    "var_samp": totals.F_VAR_SAMP,
    "stddev_pop": totals.F_STDDEV_POP,
    "stddev_samp": totals.F_STDDEV_SAMP,
}
_TOTALS = {
    "count": (totals.TOTAL_COUNT, totals.F_COUNT),
    "sum": (totals.TOTAL_SUM, totals.F_VALUE),
    "avg": (totals.TOTAL_SUM, totals.F_AVG),
    "min": (totals.TOTAL_MIN, totals.F_VALUE),
    "max": (totals.TOTAL_MAX, totals.F_VALUE),
    **{name: (totals.TOTAL_SPREAD, function) for name, function in _SPREAD.items()},
}
"""What an aggregate keeps up, and which function of it is asked."""

_ALL_ROWS = -1
"""Slot of all rows of a match whose rows are adjacent: they need not be listed."""


@dataclass(frozen=True, slots=True)
class AcrossCode:
    """Conditions across rows of all symbols, compiled; see ``conds`` in ``kernels.py``.

    ``code`` has shape (n, 7): operation, operand, anchor, slot, offset, and which constant a leaf
    has whose anchor has no row (-1: NULL); the last field is of one operation alone.
    ``constants`` are int64, or the bits of doubles.
    """

    code: IntArray
    by_symbol: IntArray
    """Its parts of ``code`` and ``slots`` and its shape, shape (n_symbols, 5)."""
    constants: IntArray
    leaves: tuple[Expression, ...]
    """Read by column, each attribute anchored at the row itself."""
    texts: tuple[str, ...]
    """Strings among the constants; their codes are their places here."""
    text_places: IntArray
    """Which of the constants are codes of strings."""
    orders_texts: bool
    """Whether some condition asks which of two strings is less, not only whether they are equal."""
    n_slots: int
    slots: IntArray
    """Slots of the symbols, each with its part of ``totals``, half-open; shape (n, 3)."""
    totals: IntArray
    """By total, see ``totals`` in ``kernels.py``; shape (n_totals, 5)."""

    @property
    def bound(self) -> frozenset[int]:
        """Symbols whose rows are bound one by one: a condition across rows tests or reads them."""
        is_read = self.by_symbol[:, kernels.SLOTS_END] > self.by_symbol[:, kernels.SLOTS_BEGIN]
        return frozenset(np.flatnonzero(is_read | self.conditioned).tolist())

    @property
    def text_leaves(self) -> list[int]:
        """Leaves that are strings."""
        return [k for k, leaf in enumerate(self.leaves) if leaf.type is DataType.STRING]

    @property
    def conditioned(self) -> npt.NDArray[np.bool_]:
        """Symbols with a condition across rows, shape (n_symbols,)."""
        shapes: IntArray = self.by_symbol[:, kernels.SHAPE]
        return np.not_equal(shapes, kernels.SHAPE_NONE)

    @property
    def has_calls(self) -> bool:
        """Whether some condition calls a function of ``functions/kernels.py``."""
        return bool((self.code[:, 0] >= kernels.X_FUNCTION_I).any())

    @property
    def slots_of_symbols(self) -> list[list[int]]:
        """By symbol, the slots that its rows are in."""
        slots = self.slots[:, 0].tolist()
        parts = self.by_symbol[:, [kernels.SLOTS_BEGIN, kernels.SLOTS_END]].tolist()
        return [slots[begin:end] for begin, end in parts]

    @property
    def code_of_symbols(self) -> list[list[list[int]]]:
        """By symbol, the instructions of its condition."""
        code = self.code.tolist()
        parts = self.by_symbol[:, [kernels.CODE_BEGIN, kernels.CODE_END]].tolist()
        return [code[begin:end] for begin, end in parts]


def _shape(code: list[list[int]]) -> int:
    """Return how the kernels evaluate a condition."""
    ops = [instruction[0] for instruction in code]
    if not ops:
        return kernels.SHAPE_NONE
    if ops[:-1] == [kernels.X_LEAF_I] * 2 and 0 <= ops[2] - kernels.X_COMPARE_I < len(_COMPARE):
        return kernels.SHAPE_COMPARE_I
    if ops[:-1] == [kernels.X_LEAF_F] * 2 and 0 <= ops[2] - kernels.X_COMPARE_F < len(_COMPARE):
        return kernels.SHAPE_COMPARE_F
    return kernels.SHAPE_ANY


class AcrossCompiler:
    """Compiles the conditions of one query.

    ``names`` are those CLASSIFIER gives the symbols; ``shown`` and ``adjacent`` are as in
    `SymbolConditions` and `split_conditions`.
    """

    def __init__(
        self, names: tuple[str, ...], *, shown: tuple[int, ...] | None = None, adjacent: bool = True
    ) -> None:
        self._names = names
        self._shown = tuple(range(len(names))) if shown is None else shown
        self._adjacent = adjacent
        self._code: list[list[int]] = []
        self._slices = np.zeros((len(names), 2), dtype=np.int64)
        self._constants: list[int] = []
        self._leaves: list[Expression] = []
        self._hoisted: dict[tuple[Expression, ...], int] = {}
        self._texts: dict[str, int] = {}
        self._text_places: list[int] = []
        self._orders_texts = False
        self._slots: dict[SymbolSet, int] = {}
        self._totals: dict[tuple[int, int, int, int, int, int], int] = {}
        self._named_from: int | None = None
        self._symbol = 0

    def add(self, symbol: int, conjuncts: list[Expression]) -> None:
        """Compile the conjuncts of a symbol, all of which must hold.

        NotSupportedError says which operator cannot be evaluated over values of different rows.
        """
        self._symbol = symbol
        self._slices[symbol] = len(self._code)
        for position, conjunct in enumerate(conjuncts):
            self._compile(conjunct)
            if position:
                self._emit(kernels.X_AND)
        self._slices[symbol, 1] = len(self._code)

    def finish(self) -> AcrossCode:
        """Return what was compiled."""
        by_symbol = [
            [slot for symbols, slot in self._slots.items() if symbols is None or s in symbols]
            for s in self._shown
        ]
        in_order = sorted(self._totals.items())  # by slot
        place = {total: at for at, (_, total) in enumerate(in_order)}
        for instruction in self._code:
            if instruction[0] == kernels.X_TOTAL:
                instruction[1] = place[instruction[1]]
        of_slot = np.array([key[0] for key, _ in in_order], dtype=np.int64)
        begins = np.searchsorted(of_slot, np.arange(len(self._slots) + 1)).tolist()
        ends = np.cumsum([0, *map(len, by_symbol)])
        slots = [(slot, begins[slot], begins[slot + 1]) for own in by_symbol for slot in own]
        shapes = [_shape(self._code[begin:end]) for begin, end in self._slices.tolist()]
        return AcrossCode(
            code=np.array(self._code, dtype=np.int64).reshape(-1, kernels.X_WIDTH),
            by_symbol=np.column_stack((self._slices, ends[:-1], ends[1:], shapes)).astype(np.int64),
            constants=np.array(self._constants or [0], dtype=np.int64),
            leaves=tuple(self._leaves),
            texts=tuple(self._texts),
            text_places=np.array(self._text_places, dtype=np.int64),
            orders_texts=self._orders_texts,
            n_slots=len(self._slots),
            slots=np.array(slots, dtype=np.int64).reshape(-1, 3),
            totals=np.array([key[1:] for key, _ in in_order], dtype=np.int64).reshape(-1, 5),
        )

    def _emit(
        self,
        op: int,
        operand: int = 0,
        anchor: int = 0,
        slot: int = _ALL_ROWS,
        offset: int = 0,
        absent: int = -1,
        mapped: int = -1,
    ) -> None:
        self._code.append([op, operand, anchor, slot, offset, absent, mapped])

    def _compile(self, expression: Expression) -> None:
        match expression:
            case Classifier():
                self._classifier(expression)
                return
            case MatchNumber():
                self._emit(kernels.X_MATCH_NUMBER)
                return
            case Aggregate():
                self._aggregate(expression)
                return
            case Literal() if expression.type is not DataType.STRING:
                self._constant(expression)
                return
            case TimedOut():
                raise self._unsupported("TIMED_OUT")
        anchors = _anchors_read(expression)
        if anchors is not None:
            anchors = frozenset(map(self._own, anchors))
            if len(anchors) <= 1:
                self._leaf(expression, next(iter(anchors), CURRENT))
                return
        assert isinstance(expression, Call)  # only a call can read two rows
        self._call(expression)

    def _own(self, anchor: Anchor) -> Anchor:
        """Return CURRENT for what is the row under test, by whatever name."""
        return CURRENT if _is_own_row(anchor, self._shown[self._symbol]) else anchor

    def _slot(self, symbols: SymbolSet, *, listed: bool = False) -> int:
        """Return the slot of a set of symbols."""
        if symbols is None and self._adjacent and not listed:
            return _ALL_ROWS
        return self._slots.setdefault(symbols, len(self._slots))

    def _constant(self, literal: Literal) -> None:
        if literal.value is None:
            self._emit(kernels.X_NULL)
            return
        op = kernels.X_CONST_F if literal.type is DataType.DOUBLE else kernels.X_CONST_I
        self._emit(op, self._keep(literal.value))

    def _keep(self, value: float | str | bool) -> int:
        """Add a constant, as int64 or as the bits of a double; return its place."""
        if isinstance(value, str):
            self._text_places.append(len(self._constants))
            value = self._texts.setdefault(value, len(self._texts))
        bits = np.float64(value).view(np.int64) if isinstance(value, float) else value
        self._constants.append(int(bits))
        return len(self._constants) - 1

    def _leaf(self, expression: Expression, anchor: Anchor) -> None:
        hoisted = _at_current_row(expression)
        op = kernels.X_LEAF_F if expression.type is DataType.DOUBLE else kernels.X_LEAF_I
        value = _value_without_row(hoisted)
        absent = -1 if value is None else self._keep(value)
        own = anchor.kind is AnchorKind.CURRENT
        slot = _ALL_ROWS if own else self._slot(anchor.symbols)
        kind = _ANCHORS[anchor.kind]
        self._emit(op, self._hoist(hoisted), kind, slot, anchor.offset, absent)

    def _hoist(self, *expressions: Expression) -> int:
        """Return the leaf of an expression, or the first of several that follow each other."""
        if expressions not in self._hoisted:
            self._hoisted[expressions] = len(self._leaves)
            self._leaves += expressions
        return self._hoisted[expressions]

    def _classifier(self, classifier: Classifier) -> None:
        if self._named_from is None:
            self._named_from = len(self._constants)
            for name in self._names:
                self._keep(name)
        anchor = self._own(classifier.anchor)
        own = anchor.kind is AnchorKind.CURRENT
        # The rows are listed even if adjacent: what was mapped tells states of the search apart.
        slot = _ALL_ROWS if own else self._slot(anchor.symbols, listed=True)
        read = (self._named_from, _ANCHORS[anchor.kind], slot, anchor.offset)
        if classifier.offset:
            mapped = self._slot(None, listed=True)
            self._emit(kernels.X_CLASSIFIER_NEAR, *read, classifier.offset, mapped)
        else:
            self._emit(kernels.X_CLASSIFIER, *read)

    def _aggregate(self, aggregate: Aggregate) -> None:
        name = aggregate.function.upper()
        argument = aggregate.argument
        if argument is None:
            self._emit(kernels.X_COUNT, slot=self._slot(aggregate.symbols))
            return
        if aggregate.function not in _TOTALS:
            raise self._unsupported(name)
        keeps, function = _TOTALS[aggregate.function]
        real = argument.type is DataType.DOUBLE
        if function >= totals.F_AVG and not (real or argument.type is DataType.INTEGER):
            raise self._unsupported(f"{name} of {argument.type.value}")
        if function == totals.F_VALUE and argument.type is DataType.STRING:
            self._orders_texts = True
        slot = self._slot(aggregate.symbols, listed=True)
        named = _anchors_read(argument) is None
        arguments: tuple[Expression, ...] = (argument,)
        if named:  # each symbol's rows read what CLASSIFIER is to them
            arguments = tuple(_with_name(argument, self._names[shown]) for shown in self._shown)
        leaf = self._hoist(*map(_at_current_row, arguments))
        key = (slot, keeps, leaf, int(real), int(aggregate.distinct), int(named))
        total = self._totals.setdefault(key, len(self._totals))
        self._emit(kernels.X_TOTAL, total, function, slot)

    def _call(self, call: Call) -> None:
        op, args = call.op, call.args
        function = compiled(call)
        if op not in _BY_CODE and any(part.type is DataType.STRING for part in (call, *args)):
            self._strings(call)
        elif function is not None:
            self._function(call, function)
        elif op == "epoch":
            self._apply(kernels.X_TO_F, args)
            self._constant(Literal(1e6, DataType.DOUBLE))
            self._emit(kernels.X_ARITHMETIC_F + _ARITHMETIC["/"])
        elif op in ("and", "or"):
            self._chain(args, kernels.X_AND if op == "and" else kernels.X_OR)
        elif op == "in":
            self._membership(call)
        elif op in _COMPARE:
            real = DataType.DOUBLE in (args[0].type, args[1].type)
            base = kernels.X_COMPARE_F if real else kernels.X_COMPARE_I
            self._apply(base + _COMPARE[op], args)
        elif op in _ARITHMETIC and call.type is not DataType.DATE:
            real = call.type is DataType.DOUBLE
            base = kernels.X_ARITHMETIC_F if real else kernels.X_ARITHMETIC_I
            self._apply(base + _ARITHMETIC[op], args)
        elif op == "case":
            self._case(args)
        elif op == "coalesce":
            self._chain(args, kernels.X_COALESCE)
        elif op == "nullif":
            same = Call("=", args, DataType.BOOLEAN)
            self._case((same, Literal(None, call.type), args[0]))
        else:
            self._apply(self._simple(call), args)

    def _simple(self, call: Call) -> int:
        """Return the operation of a call with one argument."""
        real = call.args[0].type is DataType.DOUBLE
        match call.op:
            case "not":
                return kernels.X_NOT
            case "is_null":
                return kernels.X_IS_NULL
            case "neg":
                return kernels.X_NEG_F if real else kernels.X_NEG_I
            case "abs":
                return kernels.X_ABS_F if real else kernels.X_ABS_I
            case "cast":
                if real and call.type is DataType.INTEGER:
                    return kernels.X_TO_I
                whole = call.args[0].type in (DataType.INTEGER, DataType.BOOLEAN)
                if whole and call.type is DataType.DOUBLE:
                    return kernels.X_TO_F
        raise self._unsupported(call)

    def _unsupported(self, what: Call | str) -> NotSupportedError:
        symbol = self._names[self._symbol]
        if isinstance(what, str):
            return NotSupportedError(f"{what} in the condition of {symbol} is not supported yet")
        return NotSupportedError(
            f"'{spelling(what)}' over values of different rows in the condition of {symbol} is "
            "not supported yet; use it on the attributes of one row, and compare the results"
        )

    def _function(self, call: Call, function: Compiled) -> None:
        arguments = operands(call)
        for argument in arguments:
            self._compile(argument)
        op = kernels.X_FUNCTION_F if function.of_doubles else kernels.X_FUNCTION_I
        self._emit(op, function.number, len(arguments))

    def _apply(self, op: int, args: tuple[Expression, ...]) -> None:
        for argument in args:
            self._compile(argument)
        self._emit(op)

    def _chain(self, args: tuple[Expression, ...], op: int) -> None:
        self._compile(args[0])
        for argument in args[1:]:
            self._compile(argument)
            self._emit(op)

    def _case(self, args: tuple[Expression, ...]) -> None:
        """Compile (condition, value, …, otherwise); all parts are evaluated, one is taken."""
        if len(args) == 1:
            self._compile(args[0])
            return
        self._compile(args[0])
        self._compile(args[1])
        self._case(args[2:])
        self._emit(kernels.X_SELECT)

    def _strings(self, call: Call) -> None:
        """Compile what reads strings of different rows: whether two are equal, or in order."""
        if call.op == "in":
            self._membership(call)
            return
        if call.op not in _COMPARE:
            raise self._unsupported(call)
        for argument in call.args:
            if isinstance(argument, Call) and argument.op not in ("case", "coalesce", "nullif"):
                anchors = _anchors_read(argument)
                if anchors is None or len(set(map(self._own, anchors))) > 1:
                    raise self._unsupported(argument)
        self._orders_texts |= call.op not in ("=", "<>")
        self._apply(kernels.X_COMPARE_I + _COMPARE[call.op], call.args)

    def _membership(self, call: Call) -> None:
        value = call.args[0]
        equal = tuple(Call("=", (value, option), DataType.BOOLEAN) for option in call.args[1:])
        self._chain(equal, kernels.X_OR)


class _NoRow:
    """One event of which nothing is known: what an anchor without a row reads."""

    n_rows = 1

    def at(self, attribute: Attribute) -> Values:
        """Return NULL."""
        return literal(None, attribute.type)


def _value_without_row(expression: Expression) -> float | str | bool | None:
    """Return the value where every attribute is NULL, which need not be NULL itself."""
    if isinstance(expression, Attribute):
        return None
    data, valid = evaluate(expression, _NoRow(), Faults())
    if valid is not None and not valid[0]:
        return None
    value: float | str | bool | None
    value = data[0].as_py() if expression.type is DataType.STRING else data[0].item()
    return value


@dataclass(frozen=True, slots=True)
class SymbolConditions:
    """The conditions of a pattern's symbols.

    ``symbols`` are names, and ``defines`` conditions (None: always true), by symbol. ``shown`` is
    the symbol that one is in every output: itself, but for one made of another.
    """

    symbols: tuple[str, ...]
    defines: tuple[Expression | None, ...]
    shown: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Conditions, parted and compiled."""

    local: tuple[tuple[int, Expression], ...]
    """Symbol and condition that reads nothing but the row under test and its neighbours."""
    across: AcrossCode
    conjuncts: tuple[tuple[Expression, ...], ...]
    """By symbol, the conditions across rows that ``across`` is compiled from."""
    unconditional: frozenset[int]
    """Symbols that every row satisfies."""


def split_conditions(of: SymbolConditions, *, adjacent: bool) -> Split:
    """Part the conditions of all symbols, and compile those across rows. Pure.

    ``adjacent`` says whether the rows of a match are consecutive rows of the partition.
    """
    local: list[tuple[int, Expression]] = []
    compiler = AcrossCompiler(of.symbols, shown=of.shown, adjacent=adjacent)
    named = set()
    conjuncts: list[tuple[Expression, ...]] = []
    for symbol, define in enumerate(of.defines):
        across: list[Expression] = []
        shown = of.shown[symbol]
        for conjunct in fold.conjuncts(define):
            if conjunct == fold.TRUE:
                continue
            part, anchors = conjunct, _anchors_read(conjunct)
            if anchors is None:
                part = _with_name(conjunct, of.symbols[shown], shown)
                anchors = _anchors_read(part)
            if anchors is None or not all(_is_own_row(anchor, shown) for anchor in anchors):
                across.append(part)
            else:
                local.append((symbol, part if anchors <= {CURRENT} else _at_current_row(part)))
            named.add(symbol)
        conjuncts.append(tuple(across))
        if across:
            compiler.add(symbol, across)
    unconditional = frozenset(range(len(of.symbols))) - named
    return Split(tuple(local), compiler.finish(), tuple(conjuncts), unconditional)


def _is_own_row(anchor: Anchor, symbol: int) -> bool:
    """Whether the anchor is the row under test: the last row of its symbol or of the match."""
    if anchor.kind is AnchorKind.LAST and anchor.offset == 0:
        return anchor.symbols is None or symbol in anchor.symbols
    return anchor.kind is AnchorKind.CURRENT


def _anchors_read(expression: Expression) -> frozenset[Anchor] | None:
    """Return the anchors an expression reads attributes from; None: it reads more of the match."""
    anchors = set()
    for part in walk(expression):
        if isinstance(part, Attribute):
            anchors.add(part.anchor)
        elif not isinstance(part, Literal | Call):
            return None
    return frozenset(anchors)


def _at_current_row(expression: Expression) -> Expression:
    """Return the expression with every attribute read from the row itself; offsets stay."""
    if isinstance(expression, Attribute):
        return Attribute(expression.name, expression.type, CURRENT, expression.offset)
    if isinstance(expression, Call):
        return Call(expression.op, tuple(map(_at_current_row, expression.args)), expression.type)
    return expression


def _with_name(expression: Expression, name: str, symbol: int | None = None) -> Expression:
    """Return the expression with CLASSIFIER of the row under test replaced by its name.

    In an aggregate's argument, without a symbol, that is each row the argument is evaluated at.
    """
    if isinstance(expression, Call):
        args = tuple(_with_name(argument, name, symbol) for argument in expression.args)
        return Call(expression.op, args, expression.type)
    if isinstance(expression, Classifier):
        is_own = not expression.offset and symbol is not None
        if symbol is None or (is_own and _is_own_row(expression.anchor, symbol)):
            return Literal(name, DataType.STRING)
    return expression


def to_conditions(
    across: AcrossCode,
    leaves: IntArray,
    known: npt.NDArray[np.bool_],
    ranks: IntArray | None = None,
) -> Conditions:
    """Return compiled conditions together with the leaves of rows, for the kernels.

    Parameters
    ----------
    leaves, known
        Values (int64, or the bits of doubles) and whether they are not NULL, C-contiguous, shape
        (n_leaves, n_rows). Both are viewed, not copied, unless texts are ranked.
    ranks
        By code of a text its place in the order of texts, and -1 for the code -1: what stands for
        texts where conditions order them. None: the codes themselves do.
    """
    constants = across.constants
    if ranks is not None:
        leaves, constants = leaves.copy(), constants.copy()
        texts = across.text_leaves
        leaves[texts] = ranks[leaves[texts]]
        constants[across.text_places] = ranks[constants[across.text_places]]
    return (
        across.code,
        across.by_symbol,
        across.slots,
        across.totals,
        constants,
        constants.view(np.float64),
        leaves,
        leaves.view(np.float64),
        known,
        True if across.has_calls else None,
    )


def new_mapped(across: AcrossCode, n_rows: int) -> Mapped:
    """Return an empty mapping that has room for ``n_rows`` rows.

    Memory is touched only as rows are bound.
    """
    n_slots, n_totals = across.n_slots, len(across.totals)
    totals_i = np.empty((n_totals, n_rows + 1, 3), np.int64)
    totals_f = np.empty((n_totals, n_rows + 1, 2), np.float64)
    totals_i[:, 0] = 0
    totals_f[:, 0] = 0.0
    depth = len(across.code) + 3
    return (
        np.zeros(n_slots, np.int64),
        np.empty((n_slots, n_rows), np.int64),
        totals_i,
        totals_f,
        np.empty(n_rows + 1, np.uint8),
        np.empty(depth, np.int64),
        np.empty(depth, np.float64),
        np.zeros(depth, np.bool_),
    )
