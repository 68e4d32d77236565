"""What stands after FROM: names of streams looked up, subqueries bound, windows checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from replay.language import syntax
from replay.language.answers import Answer, times_of_stream
from replay.language.bound import (
    JOIN_TIME,
    JoinRelation,
    Relation,
    StreamRelation,
    SubqueryRelation,
    Windows,
)
from replay.language.join_binder import OF_ASOF, JoinSide, bind_join
from replay.language.relation_columns import RelationColumn, RelationColumns
from replay.language.source import Source
from replay.language.syntax import (
    OF_ROWS,
    Join,
    PatternQuery,
    Reference,
    SelectQuery,
    StreamName,
    Subquery,
    WindowCall,
)
from replay.language.types import TIME_TYPES, remedy_for, to_data_type
from replay.language.window_binder import bind_windows

Catalog = Callable[[str], tuple[pa.Schema, str | None]]
"""Gives schema and time column of a stream by name; raises what fits where there is none.

None for the time column of a table in memory, where the query says which it is.
"""


@dataclass(frozen=True, slots=True)
class BoundReference:
    """What a query reads."""

    relation: Relation
    columns: RelationColumns
    windows: Windows | None = None
    times: tuple[str, ...] = ()
    """Columns that ascend, any of which can be its time."""
    is_untimed: bool = False
    """As in `Answer`."""


BindAnswer = Callable[[SelectQuery | PatternQuery, Catalog, Source], Answer]
"""How a subquery is bound."""


def bind_reference(
    node: Reference, catalog: Catalog, source: Source, bind_answer: BindAnswer
) -> BoundReference:
    """Resolve what stands after FROM.

    Raises
    ------
    BindError, UnknownNameError, NotSupportedError
        With the place; and what the catalog raises.
    """
    match node:
        case StreamName():
            return _stream(node, catalog, source)
        case Subquery():
            return _subquery(node, bind_answer(node.query, catalog, source), source)
        case WindowCall():
            aliased = node.source if node.alias is None else replace(node.source, alias=node.alias)
            return _windowed(node, bind_reference(aliased, catalog, source, bind_answer), source)
    left, right = (
        bind_reference(side, catalog, source, bind_answer) for side in (node.left, node.right)
    )
    relation, columns = bind_join(
        node, _side(left, node.left, node), _side(right, node.right, node), source
    )
    return BoundReference(relation, columns, times=(relation.time,))


def _side(read: BoundReference, node: Reference, join: Join) -> JoinSide:
    """Return a side of a join; the time of pairs of a join inside gives way to that of this one."""
    columns = read.columns.columns
    types = dict(read.columns.names_and_types)
    if isinstance(read.relation, JoinRelation) and join.kind not in OF_ASOF:
        columns = tuple(column for column in columns if column.name != JOIN_TIME)
    time = None
    if read.times:
        data_type = types[read.times[0]]
        assert data_type is not None
        time = (read.times[0], data_type)
    return JoinSide(read.relation, columns, time, node)


def _subquery(node: Subquery, answer: Answer, source: Source) -> BoundReference:
    qualifier = node.alias.name if node.alias is not None else None
    columns = tuple(RelationColumn(qualifier, name, name, kind) for name, kind in answer.columns)
    time = answer.times[0] if answer.times else None
    relation = SubqueryRelation(answer.query, answer.columns, time)
    named = RelationColumns(columns, source, what="column")
    return BoundReference(relation, named, None, answer.times, answer.is_untimed)


def _stream(node: StreamName, catalog: Catalog, source: Source) -> BoundReference:
    name = node.name.name
    schema, time = catalog(name)
    qualifier = node.alias.name if node.alias is not None else name
    columns = tuple(_column(qualifier, field) for field in schema)
    named = RelationColumns(columns, source)
    relation = StreamRelation(name, named.names_and_types, time)
    return BoundReference(relation, named, None, times_of_stream(time), time is None)


def _column(qualifier: str, field: pa.Field) -> RelationColumn:
    data_type = to_data_type(field.type)
    if data_type is not None:
        return RelationColumn(qualifier, field.name, field.name, data_type)
    what, remedy = f"the type {field.type}", remedy_for(field.type)
    return RelationColumn(qualifier, field.name, field.name, None, what, remedy)


# ---------------------------------------------------------------------------------------------
# Windows


def _windowed(node: WindowCall, inner: BoundReference, source: Source) -> BoundReference:
    name = _time(node, inner, source)
    column = _found(name, inner.columns)
    data_type = inner.columns.attribute(column, syntax.Column(name, at=name.at)).type
    if data_type not in TIME_TYPES:
        raise source.error(
            f"DESCRIPTOR takes a column of whole numbers or timestamps, and '{column}' is "
            f"{data_type.value}",
            name,
        )
    _check_time(column, inner, name, source)
    partition_by = tuple(_found(part, inner.columns) for part in node.partition_by)
    windows = bind_windows(node, (column, data_type), partition_by, source)
    assert not isinstance(inner.relation, JoinRelation)
    return replace(
        inner,
        relation=replace(inner.relation, time=column),
        columns=inner.columns.with_windows(data_type, node),
        windows=windows,
        times=(column,),
        is_untimed=False,
    )


def _time(node: WindowCall, inner: BoundReference, source: Source) -> syntax.Identifier:
    """Return the column of DESCRIPTOR, or the one time there is."""
    if node.time is not None:
        return node.time
    assert node.function in OF_ROWS
    if not inner.times:
        raise source.error(
            f"{node.function} has to know which column is the time: write DESCRIPTOR(time) after "
            "the source",
            node,
        )
    return syntax.Identifier(inner.times[0], True, at=node.at)


def _check_time(
    column: str, inner: BoundReference, name: syntax.Identifier, source: Source
) -> None:
    if not inner.times and not inner.is_untimed:
        raise source.error(
            f"windows need rows in the order of time, and those of this subquery do not ascend by "
            f"'{column}'",
            name,
        )
    if inner.times and column not in inner.times:
        raise source.error(
            f"DESCRIPTOR takes the stream's time column '{inner.times[0]}', not '{column}'", name
        )


def _found(name: syntax.Identifier, columns: RelationColumns) -> str:
    return columns.name(syntax.Column(name, at=name.at))
