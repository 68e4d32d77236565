"""What names mean inside MATCH_RECOGNIZE: the rows that attributes and symbols are read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from replay.errors import BindError
from replay.language import fold, syntax
from replay.language.aggregate_binder import (
    OF_MATCHES,
    aggregate_of,
    check_aggregate,
    filtered,
    is_of_values,
    joined,
    picked,
    takes_key,
    takes_separator,
)
from replay.language.bound import (
    CURRENT,
    Aggregate,
    Anchor,
    AnchorKind,
    Asked,
    Attribute,
    BoundQuery,
    Call,
    Classifier,
    Columns,
    DataType,
    Expression,
    Literal,
    MatchNumber,
    ScalarQuery,
    SortKey,
    SymbolSet,
    is_array,
)
from replay.language.expression_binder import Bind, ExpressionBinder, Reading
from replay.language.pattern_names import Attributes, Symbols
from replay.language.printer import to_sql
from replay.language.source import Source, resolve, shown
from replay.language.syntax import Identifier

_PHYSICAL = frozenset({"PREV", "NEXT"})

OFFSET_MAX = 2**31 - 1
"""Rows that navigation can go; more than any stream has in one match."""

DEFINED_OFFSET_MAX = 1_000_000
"""Rows of a symbol that FIRST and LAST in DEFINE can go: while a match is found, so many places are
held for each of them."""


Answering = Callable[[syntax.SelectQuery | syntax.PatternQuery], tuple[BoundQuery, Columns]]
"""Gives a query bound, and the columns of its answer."""


@dataclass(frozen=True, slots=True)
class Clause:
    """Where in MATCH_RECOGNIZE an expression stands, and what that lets it see."""

    defined: int | None
    """The symbol whose condition it is; None in MEASURES."""
    time: Attribute
    """The time column, which every row has a value of."""
    all_rows: bool = False
    """Whether a measure is computed at each row of a match."""
    counted: bool = True
    """Whether a match has its number while it is being found."""
    read: str | None = None
    """What the stream or subquery is called."""
    measures: tuple[str, ...] = ()
    """Names of all measures."""
    earlier: Mapping[str, Expression] = field(default_factory=dict)
    """The measures before this one, which it can read."""
    measure: syntax.Expression | None = None
    """The measure itself."""
    answer: Answering | None = None
    """Binds a subquery that is a value; None where the query has none."""

    @property
    def name(self) -> str:
        """MEASURES or DEFINE."""
        return "MEASURES" if self.defined is None else "DEFINE"


@dataclass(slots=True)
class _Frame:
    """The navigation or aggregate that an expression stands in."""

    kind: str
    is_aggregate: bool = False
    logical: str | None = None
    logical_offset: int = 0
    final: bool = False
    offset: int = 0
    """Physical rows further on."""
    read: syntax.Column | syntax.ClassifierCall | syntax.Star | None = None
    """The first read inside; all others must be of its symbol."""
    symbols: SymbolSet = None


class PatternScope:
    """Names in DEFINE of one symbol, or in MEASURES."""

    def __init__(
        self, source: Source, attributes: Attributes, symbols: Symbols, clause: Clause
    ) -> None:
        self._source = source
        self._attributes = attributes
        self._symbols = symbols
        self._clause = clause
        self._frame: _Frame | None = None

    def __call__(self, node: Reading, bind: Bind) -> Expression:
        """Return what is read: of which rows, or of which row."""
        match node:
            case syntax.Column():
                return self._column(node)
            case syntax.Function():
                return self._aggregate(node, bind)
            case syntax.Navigation():
                return self._navigation(node, bind)
            case syntax.ClassifierCall():
                return self._classifier(node)
            case syntax.ScalarQuery():
                return self._scalar_query(node)
        return self._match_number(node)

    def _column(self, node: syntax.Column) -> Expression:
        """Return the attribute and the row it is read from, as ``bound.Anchor`` says.

        Or an earlier measure, where that is no name of an attribute.
        """
        if node.symbol is None and self._frame is None and not self._attributes.has(node.name):
            name = resolve(node.name, self._clause.earlier)
            if name is not None and not is_array(self._clause.earlier[name]):
                return self._clause.earlier[name]
        self._check_is_no_other_name(node)
        symbols = self._find(node.symbol)
        name, data_type = self._attributes.find(node.name, node.name)
        return Attribute(name, data_type, *self._row(node, symbols))

    def _scalar_query(self, node: syntax.ScalarQuery) -> Expression:
        """Return the value of a subquery."""
        assert self._clause.answer is not None
        query, columns = self._clause.answer(node.query)
        if node.asked is Asked.EXISTS:
            return ScalarQuery(query, DataType.BOOLEAN, node.asked)
        if len(columns) != 1:
            raise self._source.error(
                f"a subquery that is a value has one column, and this one has {len(columns)}", node
            )
        name, kind = columns[0]
        if kind is None or kind is DataType.NULL:
            raise self._source.error(f"'{name}' has a type that queries cannot use", node)
        return ScalarQuery(query, kind, node.asked)

    def _classifier(self, node: syntax.ClassifierCall) -> Expression:
        """Return ``CLASSIFIER()`` or ``CLASSIFIER(A)``; of the row under test it is known."""
        anchor, offset = self._row(node, self._find(node.symbol))
        in_aggregate = self._frame is not None and self._frame.is_aggregate
        if anchor == CURRENT and offset == 0 and not in_aggregate:
            assert self._clause.defined is not None
            return Literal(self._symbols.names[self._clause.defined], DataType.STRING)
        return Classifier(DataType.STRING, anchor, offset)

    def _match_number(self, node: syntax.MatchNumberCall) -> Expression:
        """Return ``MATCH_NUMBER()``."""
        if not self._clause.counted:
            raise self._source.error(
                "MATCH_NUMBER() in DEFINE needs matches found one after the other; SEMANTICS "
                "finds all of them at once",
                node,
            )
        in_aggregate = self._frame is not None and self._frame.is_aggregate
        if in_aggregate and self._clause.defined is not None:
            raise self._source.not_supported("MATCH_NUMBER() in an aggregate of DEFINE", node)
        return MatchNumber()

    def _navigation(self, node: syntax.Navigation, bind: Bind) -> Expression:
        """Return the operand with its attributes read from the row navigated to."""
        self._check_navigation(node)
        frame = _Frame(node.kind)
        inner: syntax.Navigation = node
        if node.kind in _PHYSICAL:
            distance = offset_of(node, 1, bind, self._source)
            frame.offset = -distance if node.kind == "PREV" else distance
            if isinstance(node.operand, syntax.Navigation) and node.operand.kind not in _PHYSICAL:
                inner = node.operand
        if inner.kind not in _PHYSICAL:
            frame.logical = inner.kind
            frame.logical_offset = self._logical_offset(inner, bind)
            frame.final = self._is_final(inner)
        self._frame = frame
        operand = bind(inner.operand)
        if frame.read is None:
            raise self._source.error(f"{inner.kind} needs an attribute inside", inner)
        assert not isinstance(frame.read, syntax.Star), "it stands in aggregates alone"
        row = self._row(frame.read, frame.symbols)
        self._frame = None
        always_there = row == (CURRENT, 0)
        time = Attribute(self._clause.time.name, self._clause.time.type, *row)
        return operand if always_there else null_without_row(operand, time)

    def _aggregate(self, node: syntax.Function, bind: Bind) -> Expression:
        """Return an aggregate over the rows of a symbol, of a subset, or of the whole match."""
        name = node.name.name.upper()
        if self._frame is not None:
            raise self._nested_aggregate(self._frame, name, node)
        check_aggregate(node, self._source, of_match=True)
        final = self._is_final(node)
        if name in OF_MATCHES and self._clause.defined is not None:
            raise self._source.not_supported(
                f"{name} in DEFINE",
                node,
                "it is for MEASURES, and a WHERE behind the parenthesis tests a measure",
            )
        between = bind(node.args[1]) if takes_separator(node) else None
        part = node.args[0]
        self._frame = frame = _Frame(name, is_aggregate=True)
        argument: Expression | None = None
        if isinstance(part, syntax.Star):
            frame.read, frame.symbols = part, self._find(part.symbol)
        else:
            argument = bind(part)
        where = None
        if node.where is not None:
            binder = ExpressionBinder(self._source, self)
            where = binder.condition(node.where, f"the FILTER of {name}")
        order = self._order_of(node, argument, bind)
        self._frame = None
        if name == "COUNT" and isinstance(argument, Literal) and argument.value is not None:
            argument = None if not node.distinct else argument
        if is_of_values(node):
            assert argument is not None
            return self._array(node, argument, where, order, frame.symbols, final=final)
        if where is not None:
            argument = filtered(argument, where)
        if between is not None:
            assert argument is not None
            return joined(node, argument, between, self._source, frame.symbols, order, final=final)
        one = None
        if argument is not None:
            one = picked(node, argument, order, frame.symbols, final=final)
        if one is not None:
            return one
        return aggregate_of(node, argument, self._source, symbols=frame.symbols, final=final)

    def _order_of(
        self, node: syntax.Function, argument: Expression | None, bind: Bind
    ) -> tuple[SortKey, ...]:
        """Return the keys of an aggregate's ORDER BY, or what MAX_BY and MIN_BY go by."""
        if takes_key(node):
            return (SortKey(bind(node.args[1])),)
        keys = tuple(
            SortKey(bind(item.expression), item.descending, item.nulls_first)
            for item in node.order_by
        )
        if node.distinct and any(key.expression != argument for key in keys):
            raise self._source.error(
                f"of {node.name.name.upper()}(DISTINCT …) equal values are one, so ORDER BY takes "
                f"{to_sql(node.args[0])} alone",
                node,
            )
        return tuple(key for key in keys if key.expression.type is not DataType.NULL)

    def _array(
        self,
        node: syntax.Function,
        argument: Expression,
        where: Expression | None,
        order: tuple[SortKey, ...],
        symbols: SymbolSet,
        *,
        final: bool,
    ) -> Expression:
        """Return the values of rows as an array, which stands by itself."""
        if node is not self._clause.measure:
            name = node.name.name.upper()
            raise self._source.error(
                f"{name} is a measure of its own: write {name}(…) AS name", node
            )
        kind = argument.type
        if kind is DataType.NULL:
            raise self._source.error("an array has values of a type, not NULL", node.args[0])
        return Aggregate(
            "array", argument, symbols, kind, node.distinct, final, where=where, order=order
        )

    # -----------------------------------------------------------------------------------------
    # Rows

    def _find(self, identifier: Identifier | None) -> SymbolSet:
        """Return the symbols of a name; the name of what is read stands for all, as no name does.

        A symbol of that name wins.
        """
        if identifier is None:
            return None
        read = self._clause.read
        if read is not None and not self._symbols.has(identifier) and resolve(identifier, [read]):
            return None
        symbols = self._symbols.find(identifier)
        if symbols[0] in self._symbols.negated and not self._is_row_under_test(symbols[0]):
            raise self._symbols.unmapped(symbols[0], identifier)
        return symbols

    def _is_row_under_test(self, symbol: int) -> bool:
        """Tell whether a name in the condition of a symbol is the row under test itself."""
        frame = self._frame
        return symbol == self._clause.defined and (
            frame is None or not (frame.is_aggregate or frame.logical is not None)
        )

    def _row(
        self, node: syntax.Column | syntax.ClassifierCall, symbols: SymbolSet
    ) -> tuple[Anchor, int]:
        """Return the row that a name reads, as anchor and physical offset."""
        frame = self._frame
        if frame is None:
            return self._anchor(symbols, None, 0, final=False), 0
        if frame.read is None:
            frame.read, frame.symbols = node, symbols
        elif frame.symbols != symbols:
            raise self._two_symbols(frame, node)
        if frame.is_aggregate:
            return CURRENT, 0
        anchor = self._anchor(symbols, frame.logical, frame.logical_offset, final=frame.final)
        return anchor, frame.offset

    def _anchor(
        self, symbols: SymbolSet, logical: str | None, offset: int, *, final: bool
    ) -> Anchor:
        if logical == "FIRST":
            return Anchor(AnchorKind.FIRST, symbols, offset, final)
        defined = self._clause.defined
        if offset == 0 and defined is not None and (symbols is None or defined in symbols):
            return CURRENT
        return Anchor(AnchorKind.LAST, symbols, offset, final)

    def _is_final(self, node: syntax.Navigation | syntax.Function) -> bool:
        if node.scope == "FINAL" and self._clause.defined is not None:
            raise self._source.error(
                "FINAL looks at rows that are not mapped yet when DEFINE is tested; leave it out",
                node,
            )
        return node.scope == "FINAL" and self._clause.all_rows

    def _logical_offset(self, node: syntax.Navigation, bind: Bind) -> int:
        offset = offset_of(node, 0, bind, self._source)
        if self._clause.defined is None or offset <= DEFINED_OFFSET_MAX or node.offset is None:
            return offset
        raise self._source.not_supported(
            f"{node.kind} in DEFINE with an offset above {DEFINED_OFFSET_MAX:,}", node.offset
        )

    # -----------------------------------------------------------------------------------------
    # Errors

    def _check_is_no_other_name(self, node: syntax.Column) -> None:
        if node.symbol is not None:
            return
        if resolve(node.name, self._clause.measures) and not self._attributes.has(node.name):
            what = self._clause.name if self._frame is None else self._frame.kind
            if resolve(node.name, self._clause.earlier) and self._frame is None:
                what = "an expression, as it is an array,"
            elif self._clause.defined is None and self._frame is None:
                what = "a measure before it"
            raise self._source.error(
                f"'{node.name.name}' is a measure, which {what} cannot read; write its expression "
                "here",
                node.name,
            )

    def _check_navigation(self, node: syntax.Navigation) -> None:
        frame = self._frame
        if frame is None:
            return
        if frame.is_aggregate:
            message = (
                f"{frame.kind} looks at each row by itself and cannot hold {node.kind}; put the "
                "navigation outside"
            )
        elif frame.kind in _PHYSICAL and node.kind in _PHYSICAL:
            message = (
                f"{frame.kind} cannot hold {node.kind}; give the offset, as in {node.kind}(x, 2)"
            )
        elif frame.kind in _PHYSICAL:
            message = (
                f"{node.kind} stands alone in {frame.kind}, as in {frame.kind}({node.kind}(x)); "
                f"put the rest of the expression inside {node.kind}"
            )
        elif node.kind in _PHYSICAL:
            message = f"{frame.kind} cannot hold {node.kind}; write {node.kind}({frame.kind}(x))"
        else:
            message = f"{frame.kind} cannot hold {node.kind}; give the offset, as in LAST(x, 2)"
        raise self._source.error(message, node)

    def _nested_aggregate(self, frame: _Frame, name: str, node: syntax.Function) -> BindError:
        if frame.is_aggregate:
            reason = "aggregates do not nest"
        else:
            reason = f"an aggregate has no row to go to; take it out of {frame.kind}"
        return self._source.error(f"{frame.kind} cannot hold {name}: {reason}", node)

    def _two_symbols(self, frame: _Frame, node: syntax.Column | syntax.ClassifierCall) -> BindError:
        assert frame.read is not None
        what = "reads the rows of one symbol" if frame.is_aggregate else "reads one row"
        remedy = "; a SUBSET joins symbols to one" if frame.is_aggregate else ""
        return self._source.error(
            f"{frame.kind} {what}, and {to_sql(frame.read)} and {to_sql(node)} are of different "
            f"symbols{remedy}",
            node,
        )


def offset_of(node: syntax.Navigation, default: int, bind: Bind, source: Source) -> int:
    """Return how many rows a navigation goes."""
    if node.offset is None:
        return default
    offset = bind(node.offset)
    if not isinstance(offset, Literal) or offset.type is not DataType.INTEGER:
        found = f"not {shown(node.offset)}"
    elif isinstance(offset.value, int) and 0 <= offset.value <= OFFSET_MAX:
        return offset.value
    else:
        found = f"not {offset.value}"
    raise source.error(
        f"the offset of {node.kind} is a constant whole number from 0, {found}", node.offset
    )


def null_without_row(operand: Expression, time: Attribute) -> Expression:
    """Return the operand, NULL as a whole where the row that ``time`` is read from is not there."""
    if operand.type is DataType.NULL or _is_null_without_values(operand):
        return operand
    is_there = fold.negate(fold.call("is_null", (time,), DataType.BOOLEAN))
    nothing = Literal(None, operand.type)
    return fold.call("case", (is_there, operand, nothing), operand.type)


def _is_null_without_values(expression: Expression) -> bool:
    """Tell whether an expression is NULL when all it reads is."""
    value = _without_values(expression)
    return isinstance(value, Literal) and value.value is None


def _without_values(expression: Expression) -> Expression:
    if isinstance(expression, Attribute | Classifier):
        return Literal(None, expression.type)
    if isinstance(expression, Call):
        args = [_without_values(argument) for argument in expression.args]
        return fold.call(expression.op, args, expression.type)
    return expression
