"""Joins: which columns both sides give, what ON asks of a pair, and the windows over the sides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from replay.expressions.types import TIME_TYPES, type_of_moments
from replay.language import fold, syntax
from replay.language.bound import (
    JOIN_TIME,
    Attribute,
    Call,
    DataType,
    Expression,
    JoinKind,
    JoinRelation,
    JoinWindow,
    OneRow,
    Relation,
    attributes,
)
from replay.language.expression_binder import ExpressionBinder
from replay.language.outer_scope import OuterScope, RowRules
from replay.language.printer import to_sql
from replay.language.relation_columns import RelationColumn, RelationColumns, unique_names
from replay.language.row_values import without_rows
from replay.language.source import Source
from replay.language.syntax import Join, Span
from replay.language.window_binder import SPAN_MAX, count_of_rows, span_of_time

OF_ASOF = frozenset({JoinKind.ASOF, JoinKind.ASOF_LEFT})


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side as it was bound."""

    relation: Relation
    columns: tuple[RelationColumn, ...]
    """All that can be named, under their names in ``relation``."""
    time: tuple[str, DataType] | None
    """Name and type of its time, where that is known."""
    node: syntax.Node


@dataclass(frozen=True, slots=True)
class _Compared:
    """A comparison of a left with a right column, by their own names."""

    op: str
    left: str
    right: str
    type: DataType


def bind_join(
    node: Join, left: JoinSide, right: JoinSide, source: Source
) -> tuple[JoinRelation, RelationColumns]:
    """Return the join and how its columns are named."""
    return _JoinBinder(node, left, right, source).bind()


class _JoinBinder:
    """Binds one join."""

    def __init__(self, node: Join, left: JoinSide, right: JoinSide, source: Source) -> None:
        self._node = node
        self._source = source
        self._left, self._right = left, right
        self._is_asof = node.kind in OF_ASOF
        self._check_qualifiers()
        self._shared = self._shared_columns()
        merged = {other.name for _, other in self._shared}
        columns = (
            *left.columns,
            *(replace(c, merged=True) if c.name in merged else c for c in right.columns),
        )
        self._own = tuple(column.name for column in columns)
        self._names = tuple(unique_names(columns, () if self._is_asof else (JOIN_TIME,)))
        self._columns = tuple(
            replace(column, name=name) for column, name in zip(columns, self._names, strict=True)
        )
        self._times = self._find_times()
        self._check_times()
        self._order: str | None = None
        """Of ASOF: how the left time compares with the right one."""

    def bind(self) -> tuple[JoinRelation, RelationColumns]:
        """Return the join and its columns."""
        n_left = len(self._left.columns)
        equal, conditions = self._on()
        columns = self._columns
        if not self._is_asof:
            columns += (RelationColumn(None, JOIN_TIME, JOIN_TIME, self._time_type),)
        named = RelationColumns(columns, self._source, what="column")
        left_window, right_window = self._windows()
        left_time = self._times[0][0]
        time = self._names[self._own[:n_left].index(left_time)] if self._is_asof else JOIN_TIME
        join = JoinRelation(
            kind=self._node.kind,
            left=_with_time(self._left.relation, left_time),
            right=_with_time(self._right.relation, self._times[1][0]),
            columns=named.names_and_types,
            left_names=self._own[:n_left],
            right_names=self._own[n_left:],
            equal=tuple(equal),
            condition=fold.joined(conditions),
            left_window=left_window,
            right_window=right_window,
            time=time,
            left_time=left_time,
            right_time=self._times[1][0],
            asof_strict=self._order in ("<", ">"),
            asof_forward=self._order in ("<", "<="),
            null_safe=tuple(equal.values()) if any(equal.values()) else (),
        )
        return join, named

    # -----------------------------------------------------------------------------------------
    # Sides

    def _check_qualifiers(self) -> None:
        left, right = ({c.qualifier for c in side.columns} for side in (self._left, self._right))
        if None in right or (None in left and len(left) == 1):
            side = self._right if None in right else self._left
            raise self._source.error(
                "a subquery in a join needs a name, such as (SELECT …) AS a", side.node
            )
        for name in sorted(filter(None, left & right)):
            raise self._source.error(
                f"both sides of the join are called '{name}'; give one another name with AS",
                self._right.node,
            )

    def _shared_columns(self) -> tuple[tuple[RelationColumn, RelationColumn], ...]:
        """Return the columns that USING names, those of the left and of the right."""
        shared: list[tuple[RelationColumn, RelationColumn]] = []
        for name in self._node.using:
            pair: list[RelationColumn] = []
            for side in (self._left, self._right):
                columns = RelationColumns(side.columns, self._source, what="column")
                found = columns.name(syntax.Column(name, at=name.at))
                pair.append(next(column for column in side.columns if column.name == found))
            if any(pair[0].name == one.name for one, _ in shared):
                raise self._source.error(f"USING names '{name.name}' twice", name)
            shared.append((pair[0], pair[1]))
        return tuple(shared)

    def _terms(self) -> list[syntax.Expression]:
        """Return the conditions of ON, or of USING: equal columns, of ASOF the time last."""
        if not self._node.using:
            return _terms(self._node.on, self._source)
        last = len(self._shared) - 1 if self._is_asof else None
        return [
            syntax.Binary(
                ">=" if place == last else "=",
                _column(one, name),
                _column(other, name),
                at=name.at,
            )
            for place, (name, (one, other)) in enumerate(
                zip(self._node.using, self._shared, strict=True)
            )
        ]

    def _find_times(self) -> tuple[tuple[str, DataType], tuple[str, DataType]]:
        """Return name and type of the times of both sides."""
        sides = (self._left, self._right)
        times = [side.time or _only_moment(side) for side in sides]
        if None in times and self._is_asof:
            times = [known or named for known, named in zip(times, self._ordered(), strict=True)]
        for side, time in zip(sides, times, strict=True):
            if time is None:
                raise self._source.error(_which_time(side.node), side.node)
        left, right = times
        assert left is not None
        assert right is not None
        return left, right

    def _ordered(self) -> tuple[tuple[str, DataType] | None, tuple[str, DataType] | None]:
        """Return the columns of time that ON compares by order."""
        binder = self._binder()
        for node in self._terms():
            order = self._compared(binder.condition(node, "ON"), _ORDERS)
            if order is not None and order.type in TIME_TYPES:
                return (order.left, order.type), (order.right, order.type)
        return None, None

    def _check_times(self) -> None:
        (left, left_type), (right, right_type) = self._times
        if type_of_moments(left_type) is not type_of_moments(right_type):
            raise self._source.error(
                f"the times of the sides do not go together: '{left}' is {left_type.value} and "
                f"'{right}' is {right_type.value}",
                self._node,
            )
        assert left_type in TIME_TYPES

    @property
    def _time_type(self) -> DataType:
        """The type of the time of a pair, which the times of both sides fit in."""
        left, right = (kind for _, kind in self._times)
        return left if left is right else type_of_moments(left)

    # -----------------------------------------------------------------------------------------
    # ON

    def _on(self) -> tuple[dict[tuple[str, str], bool], list[Expression]]:
        """Return the columns that must be equal, whether NULL is like NULL, and what else holds."""
        equal: dict[tuple[str, str], bool] = {}
        others: list[Expression] = []
        binder = self._binder()
        for node in self._terms():
            condition = binder.condition(node, "ON")
            same = self._compared(condition, ("=", _NULL_SAFE))
            if same is not None:
                pair = same.left, same.right
                equal[pair] = equal.get(pair, True) and same.op == _NULL_SAFE
            elif self._is_asof and self._is_order(condition, node):
                continue
            elif condition != fold.TRUE:
                others.append(condition)
        if self._is_asof and self._order is None:
            raise self._source.error(
                f"{self._node.kind.value} needs the order of the times in ON, {self._asof_form()}",
                self._node,
            )
        return equal, others

    def _binder(self) -> ExpressionBinder:
        columns = RelationColumns(self._columns, self._source, what="column")
        return ExpressionBinder(self._source, OuterScope(self._source, columns, RowRules("ON")))

    def _compared(self, condition: Expression, ops: Collection[str]) -> _Compared | None:
        """Return the comparison of a left with a right column; None if it is no such condition."""
        match condition:
            case Call("not", (Call("is_distinct", (Attribute() as one, Attribute() as other)),)):
                op = _NULL_SAFE
            case Call(op, (Attribute() as one, Attribute() as other)):
                pass
            case _:
                return None
        n_left = len(self._left.columns)
        places = [self._names.index(part.name) for part in (one, other) if part.name in self._names]
        if op not in ops or len(places) != 2 or (places[0] < n_left) == (places[1] < n_left):
            return None
        if places[0] > places[1]:
            op, places = _MIRRORED[op], places[::-1]
        return _Compared(op, self._own[places[0]], self._own[places[1]], one.type)

    def _is_order(self, condition: Expression, node: syntax.Node) -> bool:
        """Take in the order of the times; refuse another condition that reads both sides."""
        order = self._compared(condition, _ORDERS)
        times = (self._times[0][0], self._times[1][0])
        if order is not None and (order.left, order.right) == times:
            if self._order is not None:
                raise self._source.error("the order of the times is given twice", node)
            self._order = order.op
            return True
        places = {self._names.index(part.name) for part in attributes(condition)}
        n_left = len(self._left.columns)
        if self._node.using:
            raise self._source.error(
                f"USING of {self._node.kind.value} names the times of both sides last, as in "
                f"USING (k, {to_sql(syntax.Identifier(times[0]))})",
                node,
            )
        if len({place < n_left for place in places}) > 1:
            raise self._source.not_supported(
                f"a condition of {self._node.kind.value} on both sides other than equal columns "
                f"and {self._asof_form()}",
                node,
                "put it into WHERE, which is asked of the nearest event alone, or write JOIN … "
                "WITHIN, which pairs all events that are near",
            )
        return False

    def _asof_form(self) -> str:
        n_left = len(self._left.columns)
        sides = (self._columns[:n_left], self._columns[n_left:])
        left, right = (
            f"{column.qualifier}.{column.title}" if column.qualifier else column.title
            for side, own, (time, _) in zip(
                sides, (self._own[:n_left], self._own[n_left:]), self._times, strict=True
            )
            for column in [side[own.index(time)]]
        )
        return f"{left} >= {right}"

    # -----------------------------------------------------------------------------------------
    # WITHIN

    def _windows(self) -> tuple[JoinWindow | None, JoinWindow | None]:
        spans = self._node.within
        if self._is_asof:
            return None, self._asof_window(spans)
        if not spans:
            example = "300" if self._times[0][1] is DataType.INTEGER else "10 MINUTES"
            raise self._source.error(
                f"{self._node.kind.value} needs WITHIN and how far apart the events of a pair may "
                f"be, such as WITHIN {example} or WITHIN 10 ROWS; a join by columns alone is "
                "written with ON and no WITHIN",
                self._node,
            )
        left, right = (self._window(span) for span in (spans[0], spans[-1]))
        return left, right

    def _asof_window(self, spans: tuple[Span, ...]) -> JoinWindow | None:
        if not spans:
            return None
        span = spans[0]
        if len(spans) > 1 or span.in_rows or span.slide is not None:
            raise self._source.not_supported(
                f"WITHIN of {self._node.kind.value} other than one span of time", span
            )
        return self._window(span)

    def _window(self, span: Span) -> JoinWindow:
        if span.in_rows:
            size = count_of_rows(span.size, "WITHIN … ROWS", self._source)
            slide = None if span.slide is None else count_of_rows(span.slide, "SLIDE", self._source)
        else:
            size = span_of_time(span.size, "WITHIN", self._times[0], self._source)
            slide = (
                None
                if span.slide is None
                else span_of_time(span.slide, "SLIDE", self._times[0], self._source)
            )
        if slide is not None and slide > size:
            assert span.slide is not None
            raise self._source.error("SLIDE cannot be longer than the window", span.slide)
        if size > SPAN_MAX:
            raise self._source.error("this span is too long for a join", span)
        return JoinWindow(size, 1 if slide is None else slide, span.in_rows)


def _terms(node: syntax.Expression | None, source: Source) -> list[syntax.Expression]:
    """Return the conditions that ON joins by AND."""
    if node is None:
        return []
    node = without_rows(node, source) or node
    if isinstance(node, syntax.Logical) and node.op == "AND":
        return [part for term in node.terms for part in _terms(term, source)]
    return [node]


def _only_moment(side: JoinSide) -> tuple[str, DataType] | None:
    """Return the one column of timestamps, where nothing else says which column is the time."""
    found = [
        (column.name, column.type)
        for column in side.columns
        if column.type in (DataType.TIMESTAMP, DataType.TIMESTAMP_UTC)
    ]
    if len(found) != 1 or found[0][1] is None:
        return None
    return found[0][0], found[0][1]


def _which_time(side: syntax.Node) -> str:
    """Return what is said of a side whose time is not known."""
    if not isinstance(side, syntax.StreamName):
        return (
            "a join goes by time, and nothing says which column of this side is the time; write "
            "(SELECT * FROM … ORDER BY time) AS …"
        )
    name, alias = (to_sql(one) for one in (side.name, side.alias or side.name))
    return (
        "a join goes by time, and a table in memory does not say which column that is; write "
        f"(SELECT * FROM {name} ORDER BY time) AS {alias}, with the name of that column"
    )


_NULL_SAFE = "IS NOT DISTINCT FROM"
_ORDERS = ("<", "<=", ">", ">=")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", _NULL_SAFE: _NULL_SAFE}


def _column(column: RelationColumn, name: syntax.Identifier) -> syntax.Column:
    """Return the name of a column with its side before it."""
    title = syntax.Identifier(column.title, True, at=name.at)
    side = None
    if column.qualifier is not None:
        side = syntax.Identifier(column.qualifier, True, at=name.at)
    return syntax.Column(title, side, at=name.at)


def _with_time(relation: Relation, time: str) -> Relation:
    if isinstance(relation, JoinRelation | OneRow):
        return relation
    return replace(relation, time=time)
