"""Aggregates over symbols in the outer query: the rows that matches map, by their symbols."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replay.errors import BindError
from replay.language import syntax
from replay.language.aggregate_binder import aggregate_of, check_aggregate
from replay.language.bound import Attribute, Expression, SymbolSet
from replay.language.expression_binder import Bind, ExpressionBinder, Reading
from replay.language.pattern_names import Attributes, Symbols, symbol_name
from replay.language.printer import to_sql
from replay.language.source import Source, resolve, shown
from replay.language.syntax import Identifier


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """What ``S.x`` means in an aggregate around MATCH_RECOGNIZE: x at every row mapped to S.

    The answer's alias wins over a symbol of its name.
    """

    source: Source
    attributes: Attributes
    symbols: Symbols
    alias: Identifier | None
    read: str | None
    """What the stream or subquery is called."""
    one_row: bool
    """Whether a row of the answer is a match, not one of its rows."""

    def has(self, qualifier: Identifier) -> bool:
        """Tell whether a name before a dot is a symbol, and not the answer's alias."""
        return not self._is_alias(qualifier) and self.symbols.has(qualifier)

    def reads(self, node: syntax.Function) -> bool:
        """Tell whether an aggregate is over rows of symbols: its first qualified name says so."""
        return any(True for _ in self._qualifiers(node.args))

    def bind(self, node: syntax.Function) -> Expression:
        """Return an aggregate over the rows mapped to a symbol or subset, in all matches."""
        check_aggregate(node, self.source)
        first = next(self._qualifiers(node.args))
        symbols = self._find(first)
        if not self.one_row:
            raise self.source.not_supported(
                f"{shown(node)}, an aggregate over rows of matches, with ALL ROWS PER MATCH",
                node,
                "leave ALL ROWS PER MATCH out",
            )
        part = node.args[0]
        if isinstance(part, syntax.Star):
            return aggregate_of(node, None, self.source, symbols=symbols)
        scope = _RowScope(self, node, first, symbols)
        argument = ExpressionBinder(self.source, scope).bind(part)
        return aggregate_of(node, argument, self.source, symbols=symbols)

    def unaggregated(self, symbol: Identifier) -> BindError:
        """Return the error on ``S.x`` outside of an aggregate."""
        name = to_sql(symbol)
        return self.source.error(
            f"'{symbol_name(symbol)}' is a symbol, whose rows are many in many matches: aggregate "
            f"them, as in MAX({name}.x), or name one of each match in MEASURES, as in {name}.x AS "
            "x",
            symbol,
        )

    def column(
        self, node: syntax.Column, first: Identifier, symbols: SymbolSet, call: syntax.Function
    ) -> Expression:
        """Return an attribute of the row that an aggregate looks at."""
        name = call.name.name.upper()
        if node.symbol is None or self._is_alias(node.symbol):
            raise self.source.error(
                f"{name} looks at the rows mapped to {to_sql(first)}, and {to_sql(node)} is no "
                f"value of such a row; write {to_sql(first)} before each name",
                node,
            )
        if self._find(node.symbol) != symbols:
            raise self.source.error(
                f"{name} reads the rows of one symbol, and {to_sql(first)} and "
                f"{to_sql(node.symbol)} are of different symbols; a SUBSET joins symbols to one",
                node,
            )
        return Attribute(*self.attributes.find(node.name, node.name))

    def _find(self, symbol: Identifier) -> SymbolSet:
        found = self.symbols.find(symbol)
        if found[0] in self.symbols.negated:
            raise self.symbols.unmapped(found[0], symbol)
        return found

    def _qualifiers(self, part: object) -> Iterator[Identifier]:
        """Yield what stands before a dot, but for the names of the answer and of what is read."""
        for node in syntax.nodes_of(part):
            if isinstance(node, syntax.Column | syntax.Star):
                symbol = node.symbol
                if symbol is not None and self._is_of_rows(symbol):
                    yield symbol

    def _is_of_rows(self, qualifier: Identifier) -> bool:
        """Tell whether a name before a dot is a symbol, or a mistake for one."""
        if self._is_alias(qualifier):
            return False
        is_read = self.read is not None and resolve(qualifier, [self.read]) is not None
        return self.symbols.has(qualifier) or not is_read

    def _is_alias(self, qualifier: Identifier) -> bool:
        """Tell whether a name is the answer's alias; refuse one that may be a symbol's as well."""
        alias = self.alias
        if alias is None:
            return False
        is_symbol = self.symbols.has(qualifier) or self.symbols.has(alias)
        if resolve(qualifier, [alias.name]) is None:
            return False
        if is_symbol and symbol_name(alias) != alias.name:
            raise self.source.error(
                f"'{alias.name}' is the alias of the answer and '{symbol_name(alias)}' a symbol, "
                "one name in different cases; give the alias another name",
                qualifier,
            )
        return True


@dataclass(frozen=True, slots=True)
class _RowScope:
    """Names in the argument of an aggregate over symbols."""

    rows: MatchedRows
    call: syntax.Function
    first: Identifier
    symbols: SymbolSet

    def __call__(self, node: Reading, _: Bind) -> Expression:
        """Return an attribute of the row; refuse all else."""
        source, name = self.rows.source, self.call.name.name.upper()
        match node:
            case syntax.Column():
                return self.rows.column(node, self.first, self.symbols, self.call)
            case syntax.Function():
                raise source.error(f"{name} cannot hold another aggregate, {shown(node)}", node)
            case syntax.ScalarQuery():
                raise source.not_supported("a subquery", node)
        raise source.error(
            f"{name} looks at each row by itself and cannot hold {shown(node)}; name it in "
            "MEASURES and use that name here",
            node,
        )
