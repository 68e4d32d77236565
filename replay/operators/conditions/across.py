"""Conditions that read rows mapped earlier, as stack programs over hoisted sub-expressions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.errors import NotSupportedError
from replay.language.bound import (
    CURRENT,
    Anchor,
    AnchorKind,
    Attribute,
    Call,
    DataType,
    Expression,
    Literal,
    attributes,
)
from replay.operators.columns import Values
from replay.operators.conditions import kernels
from replay.operators.evaluate import evaluate, literal
from replay.operators.scalars import Faults

IntArray = npt.NDArray[np.int64]

_ANCHORS = {
    AnchorKind.CURRENT: kernels.ANCHOR_CURRENT,
    AnchorKind.FIRST: kernels.ANCHOR_FIRST,
    AnchorKind.LAST: kernels.ANCHOR_LAST,
}
_ARITHMETIC = {"+": 0, "-": 1, "*": 2, "/": 3, "%": 4, "mod": 4}
_COMPARE = {"=": 0, "<>": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}


@dataclass(frozen=True, slots=True)
class AcrossCode:
    """Conditions across rows of all symbols, compiled.

    ``code`` has shape (n, 5): operation, operand, anchor, symbol of the anchor, and which constant
    a leaf has whose anchor has no row (-1: NULL). ``slices[s]`` is
    the half-open part of it for symbol s, shape (n_symbols, 2). ``constants`` are int64, or the
    bits of doubles.
    """

    code: IntArray
    slices: IntArray
    constants: IntArray
    leaves: tuple[Expression, ...]
    """Read by column, each attribute anchored at the row itself."""
    texts: tuple[str, ...]
    """Strings among the constants; their codes are their places here."""


class AcrossCompiler:
    """Compiles the conditions of one query."""

    def __init__(self, n_symbols: int) -> None:
        self._code: list[tuple[int, int, int, int, int]] = []
        self._slices = np.zeros((n_symbols, 2), dtype=np.int64)
        self._constants: list[int] = []
        self._leaves: dict[Expression, int] = {}
        self._texts: dict[str, int] = {}
        self._symbol = ""

    def add(self, symbol: int, name: str, conjuncts: list[Expression]) -> None:
        """Compile the conjuncts of a symbol, all of which must hold.

        Raises
        ------
        NotSupportedError
            If an operator cannot be evaluated over values of different rows.
        """
        self._symbol = name
        self._slices[symbol] = len(self._code)
        for position, conjunct in enumerate(conjuncts):
            self._compile(conjunct)
            if position:
                self._emit(kernels.X_AND)
        self._slices[symbol, 1] = len(self._code)

    def finish(self) -> AcrossCode:
        """Return what was compiled."""
        return AcrossCode(
            code=np.array(self._code, dtype=np.int64).reshape(-1, 5),
            slices=self._slices,
            constants=np.array(self._constants or [0], dtype=np.int64),
            leaves=tuple(self._leaves),
            texts=tuple(self._texts),
        )

    def _emit(
        self, op: int, operand: int = 0, anchor: int = 0, symbol: int = -1, absent: int = -1
    ) -> None:
        self._code.append((op, operand, anchor, symbol, absent))

    def _compile(self, expression: Expression) -> None:
        if isinstance(expression, Literal) and expression.type is not DataType.STRING:
            self._constant(expression)
            return
        anchors = {attribute.anchor for attribute in attributes(expression)}
        if len(anchors) <= 1:
            self._leaf(expression, next(iter(anchors), CURRENT))
            return
        assert isinstance(expression, Call)  # only a call can read two rows
        self._call(expression)

    def _constant(self, literal: Literal) -> None:
        if literal.value is None:
            self._emit(kernels.X_NULL)
            return
        op = kernels.X_CONST_F if literal.type is DataType.DOUBLE else kernels.X_CONST_I
        self._emit(op, self._keep(literal.value))

    def _keep(self, value: float | str | bool) -> int:
        """Add a constant, as int64 or as the bits of a double; return its place."""
        if isinstance(value, str):
            value = self._texts.setdefault(value, len(self._texts))
        bits = np.float64(value).view(np.int64) if isinstance(value, float) else value
        self._constants.append(int(bits))
        return len(self._constants) - 1

    def _leaf(self, expression: Expression, anchor: Anchor) -> None:
        hoisted = at_current_row(expression)
        number = self._leaves.setdefault(hoisted, len(self._leaves))
        op = kernels.X_LEAF_F if expression.type is DataType.DOUBLE else kernels.X_LEAF_I
        symbol = -1 if anchor.symbol is None else anchor.symbol
        value = _value_without_row(hoisted)
        absent = -1 if value is None else self._keep(value)
        self._emit(op, number, _ANCHORS[anchor.kind], symbol, absent)

    def _call(self, call: Call) -> None:
        op, args = call.op, call.args
        if any(argument.type is DataType.STRING for argument in args):
            self._strings(call)
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

    def _unsupported(self, call: Call) -> NotSupportedError:
        return NotSupportedError(
            f"'{call.op}' over values of different rows in the condition of {self._symbol} is "
            "not supported yet; use it on the attributes of one row, and compare the results"
        )

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
        """Compile what reads strings of different rows: only whether two are equal."""
        if call.op == "in":
            self._membership(call)
            return
        if call.op not in ("=", "<>"):
            raise self._unsupported(call)
        for argument in call.args:
            if isinstance(argument, Call):
                rows = {attribute.anchor for attribute in attributes(argument)}
                if len(rows) > 1:
                    raise self._unsupported(argument)
        self._apply(kernels.X_COMPARE_I + _COMPARE[call.op], call.args)

    def _membership(self, call: Call) -> None:
        value = call.args[0]
        equal = tuple(Call("=", (value, option), DataType.BOOLEAN) for option in call.args[1:])
        self._chain(equal, kernels.X_OR)


def at_current_row(expression: Expression) -> Expression:
    """Return the expression with every attribute read from the row itself; offsets stay."""
    if isinstance(expression, Attribute):
        return Attribute(expression.name, expression.type, CURRENT, expression.offset)
    if isinstance(expression, Call):
        return Call(expression.op, tuple(map(at_current_row, expression.args)), expression.type)
    return expression


class _NoRow:
    """One event of which nothing is known: what an anchor without a row reads."""

    n_rows = 1

    def at(self, attribute: Attribute) -> Values:
        """Return NULL."""
        return literal(None, attribute.type)


def _value_without_row(expression: Expression) -> float | str | bool | None:
    """Return the value where every attribute is NULL, which need not be NULL itself."""
    data, valid = evaluate(expression, _NoRow(), Faults())
    if valid is not None and not valid[0]:
        return None
    value: float | str | bool | None
    value = data[0].as_py() if expression.type is DataType.STRING else data[0].item()
    return value
