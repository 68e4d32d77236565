"""What names mean inside MATCH_RECOGNIZE: attributes, symbols, and the row they are read from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from chronicle.errors import did_you_mean
from replay.errors import BindError
from replay.language import syntax
from replay.language.bound import (
    CURRENT,
    Anchor,
    AnchorKind,
    Attribute,
    Classifier,
    DataType,
    Expression,
    Literal,
    MatchNumber,
)
from replay.language.expression_binder import ExpressionBinder
from replay.language.printer import to_sql
from replay.language.source import Source, resolve, shown
from replay.language.syntax import Identifier
from replay.language.types import remedy_for, to_data_type

_PHYSICAL = frozenset({"PREV", "NEXT"})


class Attributes:
    """The attributes of a stream by name."""

    def __init__(self, schema: pa.Schema, source: Source) -> None:
        self.names: tuple[str, ...] = tuple(schema.names)
        self._schema = schema
        self._source = source
        self._found: dict[Identifier, tuple[str, DataType]] = {}

    def find(self, identifier: Identifier, at: syntax.Node) -> tuple[str, DataType]:
        """Return name and type of an attribute.

        Raises
        ------
        UnknownNameError
            If there is none of that name.
        BindError
            If its type is none of the language's.
        """
        found = self._found.get(identifier)
        if found is None:
            found = self._found[identifier] = self._look_up(identifier, at)
        return found

    def _look_up(self, identifier: Identifier, at: syntax.Node) -> tuple[str, DataType]:
        name = resolve(identifier, self.names)
        if name is None:
            raise self._unknown(identifier, at)
        arrow_type = self._schema.field(self.names.index(name)).type
        data_type = to_data_type(arrow_type)
        if data_type is None:
            raise self._source.error(
                f"attribute '{name}' has the type {arrow_type}, which queries cannot use; "
                f"{remedy_for(arrow_type)}",
                at,
            )
        return name, data_type

    def _unknown(self, identifier: Identifier, at: syntax.Node) -> BindError:
        name = identifier.name
        if identifier.quoted and not did_you_mean(name, self.names):
            return self._source.error(
                f"no attribute '{name}'; a text is written in single quotes: '{name}'", at
            )
        return self._source.unknown("attribute", name, self.names, at)


class Symbols:
    """The symbols of a pattern, numbered in the order they appear in."""

    def __init__(self, source: Source) -> None:
        self.names: list[str] = []
        self._source = source

    def add(self, identifier: Identifier) -> int:
        """Return the number of a symbol in PATTERN, a new one if it was not there before."""
        known = resolve(identifier, self.names)
        if known is None:
            self.names.append(identifier.name)
            return len(self.names) - 1
        return self.names.index(known)

    def find(self, identifier: Identifier) -> int:
        """Return the number of a symbol used outside PATTERN.

        Raises
        ------
        UnknownNameError
            If PATTERN has no such symbol.
        """
        known = resolve(identifier, self.names)
        if known is None:
            raise self._source.unknown(
                "symbol in PATTERN called", identifier.name, self.names, identifier
            )
        return self.names.index(known)


@dataclass(slots=True)
class _Frame:
    """The navigation an expression stands in."""

    logical: str | None = None
    physical: str | None = None
    offset: int = 0
    column: syntax.Column | None = None
    """The first column inside; all others must be of its symbol."""


class PatternScope:
    """Names in DEFINE of one symbol, or in MEASURES."""

    def __init__(
        self,
        source: Source,
        attributes: Attributes,
        symbols: Symbols,
        *,
        defined: int | None,
        partitioned: bool,
    ) -> None:
        self._source = source
        self._attributes = attributes
        self._symbols = symbols
        self._defined = defined
        self._partitioned = partitioned
        self._frame: _Frame | None = None

    def column(self, node: syntax.Column) -> Expression:
        """Return the attribute and the row it is read from, as ``bound.Anchor`` says."""
        symbol = self._symbols.find(node.symbol) if node.symbol is not None else None
        name, data_type = self._attributes.find(node.name, node.name)
        if self._frame is None:
            return Attribute(name, data_type, self._anchor(symbol, None), 0)
        self._check_one_symbol(node)
        return Attribute(
            name, data_type, self._anchor(symbol, self._frame.logical), self._frame.offset
        )

    def navigation(
        self, node: syntax.Navigation, bind: Callable[[syntax.Expression], Expression]
    ) -> Expression:
        """Return the operand with its attributes read from the row navigated to."""
        frame = _Frame() if self._frame is None else self._frame
        outermost = self._frame is None
        if node.kind in _PHYSICAL:
            self._enter_physical(node, frame, bind)
        else:
            self._enter_logical(node, frame, bind)
        self._frame = frame
        operand = bind(node.operand)
        if frame.column is None:
            raise self._source.error(f"{node.kind} needs an attribute inside", node)
        if outermost:
            self._frame = None
        else:
            frame.logical = None
        return operand

    def classifier(self, node: syntax.ClassifierCall) -> Expression:
        """Return ``CLASSIFIER()``, in MEASURES."""
        if node.symbol is not None:
            raise self._source.not_supported(f"CLASSIFIER({to_sql(node.symbol)})", node)
        self._check_match_function("CLASSIFIER()", node)
        return Classifier()

    def match_number(self, node: syntax.MatchNumberCall) -> Expression:
        """Return ``MATCH_NUMBER()``, in MEASURES."""
        self._check_match_function("MATCH_NUMBER()", node)
        return MatchNumber()

    def aggregate(self, node: syntax.Function) -> Expression:
        """Refuse an aggregate."""
        name = node.name.name.upper()
        raise self._source.not_supported(f"the aggregate {name} in {self._clause}", node)

    @property
    def _clause(self) -> str:
        return "MEASURES" if self._defined is None else "DEFINE"

    def _anchor(self, symbol: int | None, logical: str | None) -> Anchor:
        if logical == "FIRST":
            return Anchor(AnchorKind.FIRST, symbol)
        if self._defined is not None and symbol in (None, self._defined):
            return CURRENT
        return Anchor(AnchorKind.LAST, symbol)

    def _enter_physical(
        self,
        node: syntax.Navigation,
        frame: _Frame,
        bind: Callable[[syntax.Expression], Expression],
    ) -> None:
        outer = frame.physical or frame.logical
        if outer is not None:
            remedy = (
                f"give the offset, as in {node.kind}(x, 2)"
                if frame.physical
                else f"write {node.kind}({outer}(x))"
            )
            raise self._source.error(f"{outer} cannot hold {node.kind}; {remedy}", node)
        if self._defined is None and self._partitioned:
            raise self._source.not_supported(f"{node.kind} in MEASURES under PARTITION BY", node)
        distance = self._offset(node, 1, bind)
        frame.physical = node.kind
        frame.offset = -distance if node.kind == "PREV" else distance

    def _enter_logical(
        self,
        node: syntax.Navigation,
        frame: _Frame,
        bind: Callable[[syntax.Expression], Expression],
    ) -> None:
        if frame.logical is not None:
            raise self._source.error(f"{frame.logical} cannot hold {node.kind}", node)
        if self._offset(node, 0, bind) > 0:
            raise self._source.not_supported(f"{shown(node)} (an offset in {node.kind})", node)
        frame.logical = node.kind

    def _offset(
        self,
        node: syntax.Navigation,
        default: int,
        bind: Callable[[syntax.Expression], Expression],
    ) -> int:
        if node.offset is None:
            return default
        offset = bind(node.offset)
        if not isinstance(offset, Literal) or offset.type is not DataType.INTEGER:
            found = f"not {shown(node.offset)}"
        elif isinstance(offset.value, int) and offset.value >= 0:
            return offset.value
        else:
            found = f"not {offset.value}"
        raise self._source.error(
            f"the offset of {node.kind} is a constant whole number from 0, {found}", node.offset
        )

    def _check_one_symbol(self, node: syntax.Column) -> None:
        frame = self._frame
        assert frame is not None
        if frame.column is None:
            frame.column = node
        elif frame.column.symbol != node.symbol:
            kind = frame.logical or frame.physical
            raise self._source.error(
                f"{kind} reads one row, and {to_sql(frame.column)} and {to_sql(node)} are of "
                "different symbols",
                node,
            )

    def _check_match_function(self, name: str, node: syntax.Node) -> None:
        if self._defined is not None:
            raise self._source.not_supported(f"{name} in DEFINE", node)
        if self._frame is not None:
            kind = self._frame.logical or self._frame.physical
            raise self._source.not_supported(f"{name} inside {kind}", node)


class ConstantScope:
    """A place where no event is at hand, such as WITHIN."""

    def __init__(self, source: Source, where: str) -> None:
        self._source = source
        self._where = where

    def column(self, node: syntax.Column) -> Expression:
        """Refuse an attribute."""
        raise self._refusal(node)

    def navigation(
        self, node: syntax.Navigation, _: Callable[[syntax.Expression], Expression]
    ) -> Expression:
        """Refuse navigation."""
        raise self._refusal(node)

    def classifier(self, node: syntax.ClassifierCall) -> Expression:
        """Refuse ``CLASSIFIER()``."""
        raise self._refusal(node)

    def match_number(self, node: syntax.MatchNumberCall) -> Expression:
        """Refuse ``MATCH_NUMBER()``."""
        raise self._refusal(node)

    def aggregate(self, node: syntax.Function) -> Expression:
        """Refuse an aggregate."""
        raise self._refusal(node)

    def _refusal(self, node: syntax.Node) -> BindError:
        return self._source.error(f"{self._where} takes a constant, not {shown(node)}", node)


def bind_constant(node: syntax.Expression, where: str, source: Source) -> Literal:
    """Return the value of an expression without attributes.

    Raises
    ------
    BindError
        If it reads an event.
    """
    bound = ExpressionBinder(source, ConstantScope(source, where)).bind(node)
    assert isinstance(bound, Literal)
    return bound
