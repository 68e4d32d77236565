"""What names mean in the conditions of situations, and in what their matches return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replay.errors import BindError
from replay.language import syntax
from replay.language.aggregate_binder import aggregate_of, check_aggregate, takes_fraction
from replay.language.bound import CURRENT, Attribute, Expression
from replay.language.expression_binder import Bind, ExpressionBinder, Reading
from replay.language.outer_scope import first_or_last, fraction_of
from replay.language.pattern_scope import null_without_row, offset_of
from replay.language.printer import to_sql
from replay.language.relation_columns import RelationColumns
from replay.language.source import Source, resolve, shown
from replay.language.syntax import Identifier


@dataclass(slots=True)
class ConditionScope:
    """Names in the condition of one situation: the event's columns, and PREV of them."""

    source: Source
    columns: RelationColumns
    names: Sequence[str]
    """Of all situations."""
    own: str
    time: Attribute
    _back: int | None = None
    """How many rows further back an expression inside PREV is read."""
    _n_read: int = 0

    def __call__(self, node: Reading, bind: Bind) -> Expression:
        """Return the value read of the event, or of one before it."""
        match node:
            case syntax.Column():
                return self._column(node)
            case syntax.Navigation(kind="PREV"):
                return self._previous(node, bind)
        raise self._refused(node)

    def _column(self, node: syntax.Column) -> Expression:
        symbol = node.symbol
        if symbol is not None:
            name = resolve(symbol, self.names)
            if name == self.own:
                node = syntax.Column(node.name, at=node.at)
            elif name is not None and resolve(symbol, self.columns.qualifiers) is None:
                raise self.source.error(
                    f"the condition of '{self.own}' looks at one event and cannot read "
                    f"'{to_sql(symbol)}', another situation; write {to_sql(node.name)} alone",
                    symbol,
                )
        found = self.columns.attribute(self.columns.name(node), node)
        self._n_read += 1
        return Attribute(found.name, found.type, CURRENT, -(self._back or 0))

    def _previous(self, node: syntax.Navigation, bind: Bind) -> Expression:
        if self._back is not None:
            raise self.source.error("PREV cannot hold PREV; write PREV(x, 2)", node)
        back = offset_of(node, 1, bind, self.source)
        self._back, n_read = back, self._n_read
        operand = bind(node.operand)
        self._back = None
        if self._n_read == n_read:
            raise self.source.error("PREV needs a column inside", node)
        if back == 0:
            return operand
        return null_without_row(operand, Attribute(self.time.name, self.time.type, CURRENT, -back))

    def _refused(self, node: Reading) -> BindError:
        what = f"the condition of '{self.own}' looks at one event and those before it"
        if isinstance(node, syntax.Navigation) and node.kind == "NEXT":
            return self.source.error(f"{what}, so NEXT has no event to read; write PREV", node)
        if isinstance(node, syntax.Function | syntax.Navigation):
            return self.source.error(
                f"{what} and cannot hold the aggregate {shown(node)}; name it in RETURN", node
            )
        kind = "CLASSIFIER" if isinstance(node, syntax.ClassifierCall) else "MATCH_NUMBER"
        return self.source.error(f"{kind} belongs into MATCH_RECOGNIZE; leave it out", node)


@dataclass(slots=True)
class ReturnScope:
    """Names in RETURN: columns of PARTITION BY, and aggregates of one situation each."""

    source: Source
    columns: RelationColumns
    names: Sequence[str]
    partition_by: tuple[str, ...]

    def __call__(self, node: Reading, bind: Bind) -> Expression:  # noqa: ARG002 - as scopes are
        """Return a column of PARTITION BY or an aggregate."""
        match node:
            case syntax.Column():
                return self._column(node)
            case syntax.Function():
                return self._aggregate(node)
            case syntax.Navigation(kind="FIRST" | "LAST"):
                if node.offset is not None:
                    raise self.source.not_supported(f"{node.kind}(x, n) in RETURN", node)
                return self._aggregate(first_or_last(node))
        kind = getattr(node, "kind", "CLASSIFIER or MATCH_NUMBER")
        raise self.source.error(
            f"RETURN takes aggregates of situations, such as FIRST(B.x), not {kind}", node
        )

    def _column(self, node: syntax.Column) -> Expression:
        situation = None if node.symbol is None else resolve(node.symbol, self.names)
        if situation is None:
            name = self.columns.name(node)
            if name in self.partition_by:
                return self.columns.attribute(name, node)
        column = to_sql(node.name)
        of = situation or self.names[0]
        raise self.source.error(
            f"{to_sql(node)} has a value for each event of a situation; write FIRST({of}.{column}) "
            f"or LAST({of}.{column})",
            node,
        )

    def _aggregate(self, node: syntax.Function) -> Expression:
        check_aggregate(node, self.source, of_stream=True)
        part = node.args[0]
        if isinstance(part, syntax.Star):
            situation = self._star(part)
            return aggregate_of(node, None, self.source, symbols=(situation,))
        inside = _RowScope(self, node)
        argument = ExpressionBinder(self.source, inside).bind(part)
        if inside.situation is None:
            raise self._of_which(node)
        fraction = fraction_of(node, self.source) if takes_fraction(node) else None
        symbols = (inside.situation,)
        return aggregate_of(node, argument, self.source, symbols=symbols, fraction=fraction)

    def _star(self, star: syntax.Star) -> int:
        if star.symbol is None:
            raise self.source.error(
                f"COUNT(*) of which situation? Write COUNT({self.names[0]}.*)", star
            )
        return self.place(star.symbol)

    def _of_which(self, node: syntax.Node) -> BindError:
        return self.source.error(
            f"an aggregate of which situation? Write its name before a column, such as "
            f"{self.names[0]}.x",
            node,
        )

    def place(self, symbol: Identifier) -> int:
        """Return the place of a situation."""
        name = resolve(symbol, self.names)
        if name is None:
            raise self.source.unknown("situation", symbol.name, self.names, symbol)
        return self.names.index(name)


@dataclass(slots=True)
class _RowScope:
    """Names inside an aggregate: columns of the events of one situation."""

    outside: ReturnScope
    node: syntax.Function
    situation: int | None = None

    def __call__(self, node: Reading, bind: Bind) -> Expression:  # noqa: ARG002 - as scopes are
        """Return a column of the situation's events."""
        source, function = self.outside.source, self.node.name.name.upper()
        if not isinstance(node, syntax.Column):
            raise source.error(
                f"{function.removesuffix('_VALUE')} looks at each event by itself and cannot hold "
                f"{shown(node)}",
                node,
            )
        if node.symbol is None:
            column = to_sql(node)
            raise source.error(
                f"'{column}' of which situation? Write {self.outside.names[0]}.{column}", node
            )
        place = self.outside.place(node.symbol)
        if self.situation is not None and place != self.situation:
            first, second = self.outside.names[self.situation], self.outside.names[place]
            raise source.error(
                f"{function} takes events of one situation, and these are of '{first}' and "
                f"'{second}'; aggregate each by itself",
                node,
            )
        self.situation = place
        plain = syntax.Column(node.name, at=node.at)
        columns = self.outside.columns
        return columns.attribute(columns.name(plain), plain)
