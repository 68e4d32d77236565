"""SELECT and its clauses: WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from replay.language import syntax
from replay.language.bound import DataType, Expression, Literal, Outer, SortKey
from replay.language.expression_binder import ExpressionBinder, bind_constant
from replay.language.functions import AGGREGATES
from replay.language.matched_rows import MatchedRows
from replay.language.outer_scope import (
    KeyedBinder,
    OuterScope,
    Output,
    RowRules,
)
from replay.language.printer import to_sql
from replay.language.relation_columns import AnswerColumns, Columns
from replay.language.source import Source, shown
from replay.language.symbol_aggregates import names_of_answer
from replay.language.syntax import PatternQuery, SelectQuery

ROWS_MAX = 2**63 - 1
"""Rows are counted in 64 bits: what LIMIT would take behind the last of them is not there."""

Keys = tuple[Expression, ...] | None
"""What rows are grouped by; None: they are not, and no key at all is one group of all rows."""
InnerOutput = tuple[tuple[str, str], ...]


def bind_outer(
    query: PatternQuery,
    columns: tuple[tuple[str, DataType | None], ...],
    source: Source,
    attribute_names: Sequence[str] = (),
    matched: MatchedRows | None = None,
) -> tuple[InnerOutput, Outer | None, int | None]:
    """Resolve names and check types of the query around MATCH_RECOGNIZE.

    ``columns`` are those the answer of MATCH_RECOGNIZE can have, in the order of ``SELECT *``;
    ``attribute_names`` those of the stream, for the error on one that the answer does not have;
    ``matched`` says what symbols mean in aggregates.

    Returns the columns that MATCH_RECOGNIZE has to give, as (source, name); what is done with them,
    None where they are the answer as they come; and how many of its rows are enough, in canonical
    order, None if all are needed.
    """
    answer = AnswerColumns(query, columns, source, attribute_names, matched)
    items = _items(query, answer, source)
    if _is_plain(query):
        output = tuple(
            (answer.name(item.node), item.name)
            for item in items
            if isinstance(item.node, syntax.Column)
        )
        return output, None, _row_count(query.limit, "LIMIT", source)
    outer = _Clauses(query, answer, items, source).bind()
    return _needed(outer, columns), outer, outer.rows_enough


def bind_clauses(
    query: SelectQuery, columns: Columns, source: Source, check_keys: Callable[[Keys], Keys]
) -> Outer:
    """Resolve names and check types of SELECT and its clauses over the rows of a relation.

    ``check_keys`` returns what rows are grouped by, from what GROUP BY names.
    """
    return _Clauses(query, columns, _items(query, columns, source), source, check_keys).bind()


@dataclass(frozen=True, slots=True)
class _Item:
    """A column of the result."""

    name: str
    node: syntax.Expression


def _items(query: PatternQuery | SelectQuery, answer: Columns, source: Source) -> tuple[_Item, ...]:
    """Return the columns of SELECT, ``*`` written out.

    Of a join ``*`` gives columns the names they have on their sides, but where two clash.
    """
    columns = [(item, *column) for item in query.select for column in _columns_of(item, answer)]
    names = Counter(name for _, name, _ in columns)
    items: list[_Item] = []
    for item, title, node in columns:
        name = title
        if isinstance(item.expression, syntax.Star) and names[title] > 1:
            assert isinstance(node, syntax.Column)
            name = node.name.name
        if name in (other.name for other in items):
            remedy = "; name one of them with AS" if len(query.select) > 1 else ""
            raise source.error(f"two columns of the answer are named '{name}'{remedy}", item)
        items.append(_Item(name, node))
    return tuple(items)


def _columns_of(item: syntax.SelectItem, answer: Columns) -> list[tuple[str, syntax.Expression]]:
    node = item.expression
    if isinstance(node, syntax.Star):
        return [(answer.title(column), column) for column in answer.all(node)]
    if item.alias is not None:
        if isinstance(node, syntax.Column):
            answer.name(node)
        return [(item.alias.name, node)]
    return [(answer.title(node) if isinstance(node, syntax.Column) else to_sql(node), node)]


def _is_plain(query: PatternQuery) -> bool:
    """Tell whether the query only picks and names columns, and maybe the first rows."""
    clauses = (query.where, query.having, query.offset)
    return (
        all(isinstance(item.expression, syntax.Star | syntax.Column) for item in query.select)
        and not (query.distinct or query.group_by or query.order_by)
        and all(clause is None for clause in clauses)
    )


@dataclass(frozen=True, slots=True)
class _Clauses:
    """Binds the clauses in the order SQL looks at them."""

    query: PatternQuery | SelectQuery
    answer: Columns
    items: tuple[_Item, ...]
    source: Source
    check_keys: Callable[[Keys], Keys] = lambda keys: keys

    def bind(self) -> Outer:
        """Return the bound outer query."""
        query, source = self.query, self.source
        where = None
        if query.where is not None:
            where = self._of_rows("WHERE").condition(query.where, "WHERE")
        keys = self.check_keys(self._keys())
        select = self._of_answer("SELECT", keys)
        expressions = tuple(self._expression(item, select, keys) for item in self.items)
        outputs = tuple(
            Output(item.name, expression)
            for item, expression in zip(self.items, expressions, strict=True)
        )
        limit = _row_count(query.limit, "LIMIT", source)
        offset = _row_count(query.offset, "OFFSET", source) or 0
        having = None
        if query.having is not None:
            having = self._of_answer("HAVING", keys, outputs).condition(query.having, "HAVING")
        return Outer(
            items=tuple((output.name, output.expression) for output in outputs),
            where=where,
            group_by=keys,
            having=having,
            order_by=tuple(self._sort_key(item, keys, outputs) for item in query.order_by),
            distinct=query.distinct,
            limit=None if limit is None else min(limit, ROWS_MAX - offset),
            offset=offset,
        )

    def _expression(self, item: _Item, select: ExpressionBinder, keys: Keys) -> Expression:
        """Return what SELECT makes of one row; a column as it is needs no type of ours."""
        node = item.node
        if isinstance(node, syntax.Column) and keys is None and not self.query.distinct:
            name = self.answer.find(node)
            if name is not None:
                return self.answer.selected(name, node)
        return select.bind(node)

    def _of_rows(self, clause: str) -> ExpressionBinder:
        """Return a binder of expressions over one row of what is asked."""
        rules = RowRules(clause, hidden=tuple(item.name for item in self.items))
        answer = self.answer.of_rows() if clause == "WHERE" else self.answer
        return ExpressionBinder(self.source, OuterScope(self.source, answer, rules))

    def _of_answer(
        self, clause: str, keys: Keys, outputs: tuple[Output, ...] = ()
    ) -> ExpressionBinder:
        """Return a binder of expressions over one row or, where there are keys, one group."""
        source, answer = self.source, self.answer
        hidden = () if outputs else tuple(item.name for item in self.items)
        is_order = clause == "ORDER BY"
        rules = RowRules(
            clause,
            outputs=outputs,
            outputs_first=is_order,
            hidden=hidden,
            aggregates=keys is not None,
        )
        of_matches = answer.matched is not None and keys is not None
        free = ExpressionBinder(source, OuterScope(source, answer, rules), of_matches=of_matches)
        if keys is None:
            return free
        return KeyedBinder(source, OuterScope(source, answer, rules, keys), free, keys)

    def _keys(self) -> Keys:
        """Return what GROUP BY names: nothing at all is one group of all rows."""
        query = self.query
        if not query.group_by:
            parts = (*(item.node for item in self.items), *query.order_by)
            is_grouped = query.having is not None or any(map(_holds_aggregate, parts))
            return () if is_grouped else None
        return tuple(dict.fromkeys(self._key(node) for node in query.group_by))

    def _key(self, node: syntax.Expression) -> Expression:
        binder = self._of_rows("GROUP BY")
        item = self._ordinal(node, "GROUP BY") or self._named(node)
        if item is not None:
            return binder.bind(item.node)
        key = binder.bind(node)
        self._refuse_constant(key, node, "GROUP BY")
        return key

    def _named(self, node: syntax.Expression) -> _Item | None:
        """Return the item whose name this is, where no column has it."""
        if not isinstance(node, syntax.Column) or node.symbol is not None:
            return None
        if self.answer.find(node) is not None:
            return None
        name = Output.resolve(node, [item.name for item in self.items])
        return next((item for item in self.items if item.name == name), None)

    def _sort_key(
        self,
        item: syntax.OrderItem,
        keys: Keys,
        outputs: tuple[Output, ...],
    ) -> SortKey:
        node = item.expression
        chosen = self._ordinal(node, "ORDER BY")
        if chosen is not None:
            rules = RowRules("ORDER BY")
            scope = OuterScope(self.source, self.answer, rules)
            expression = scope.computable(outputs[self.items.index(chosen)].expression, node)
            return SortKey(expression, item.descending, item.nulls_first)
        binder = self._of_answer("ORDER BY", keys, outputs)
        expression = binder.bind(node)
        if not isinstance(node, syntax.Column):
            self._refuse_constant(expression, node, "ORDER BY")
        if self.query.distinct:
            self._check_selected(node, binder, outputs)
        return SortKey(expression, item.descending, item.nulls_first)

    def _check_selected(
        self, node: syntax.Expression, free: ExpressionBinder, outputs: tuple[Output, ...]
    ) -> None:
        """Check that rows which are the same row of the answer have the same sort key."""
        selected = tuple(output.expression for output in outputs)
        rules = RowRules("ORDER BY", distinct=True)
        scope = OuterScope(self.source, self.answer, rules, selected)
        KeyedBinder(self.source, scope, free, selected).bind(node)

    def _ordinal(self, node: syntax.Expression, clause: str) -> _Item | None:
        """Return the item that a plain number in GROUP BY or ORDER BY means."""
        if not isinstance(node, syntax.Number):
            return None
        count = len(self.items)
        if not isinstance(node.value, int) or not 1 <= node.value <= count:
            columns = "1 column" if count == 1 else f"{count} columns"
            raise self.source.error(
                f"{clause} {to_sql(node)} names no column: SELECT has {columns}, numbered from 1",
                node,
            )
        return self.items[node.value - 1]

    def _refuse_constant(self, bound: Expression, node: syntax.Expression, clause: str) -> None:
        if isinstance(bound, Literal):
            raise self.source.error(
                f"{clause} takes a column or what is computed from one, and {shown(node)} is a "
                "constant",
                node,
            )


def _holds_aggregate(part: object) -> bool:
    return any(_is_aggregate(node) for node in syntax.nodes_of(part))


def _is_aggregate(node: syntax.Node) -> bool:
    if isinstance(node, syntax.Function):
        return node.name.name.upper() in AGGREGATES
    return isinstance(node, syntax.Navigation) and node.kind in ("FIRST", "LAST")


def _row_count(node: syntax.Expression | None, clause: str, source: Source) -> int | None:
    if node is None:
        return None
    bound = bind_constant(node, clause, source)
    if bound.type is not DataType.INTEGER or not isinstance(bound.value, int) or bound.value < 0:
        raise source.error(f"{clause} takes a whole number from 0", node)
    return bound.value


def _needed(outer: Outer, columns: tuple[tuple[str, DataType | None], ...]) -> InnerOutput:
    """Return the columns the expressions read: one at least, for there must be rows to count."""
    read = {name for part in outer.expressions for name in names_of_answer(part)}
    names = tuple(dict.fromkeys(name for name, _ in columns if name in read))
    names = names or tuple(name for name, _ in columns[:1])
    return tuple((name, name) for name in names)
