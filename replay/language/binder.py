"""Binding: a syntax tree and a schema to a query that can be planned and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import pyarrow as pa

from chronicle.words import number_of
from replay.expressions.types import (
    TIME_TYPES,
    columns_of_schema,
    remedy_for,
    to_data_type,
    type_of_moments,
)
from replay.language import syntax
from replay.language.answers import (
    Answer,
    columns_of_pattern,
    columns_of_select,
    in_full,
    times_of_pattern,
    times_of_select,
    times_of_stream,
)
from replay.language.bound import (
    JOIN_TIME,
    ROW_NUMBER,
    WINDOW_END,
    WINDOW_START,
    Attribute,
    BoundCreate,
    BoundPatternQuery,
    BoundQuery,
    BoundSelect,
    Columns,
    CumulateWindows,
    DataType,
    JoinRelation,
    OneRow,
    Outer,
    Relation,
    RowWindows,
    SessionWindows,
    StreamRelation,
    SubqueryRelation,
    Windows,
    attributes,
)
from replay.language.outer_binder import Keys, bind_clauses
from replay.language.pattern_binder import bind_order, bind_pattern_query, needs_sort
from replay.language.pattern_names import Attributes
from replay.language.pattern_scope import Answering
from replay.language.relation_columns import RelationColumn, RelationColumns
from replay.language.source import Source
from replay.language.syntax import (
    OF_ROWS,
    CreateStream,
    Join,
    PatternQuery,
    Query,
    Reference,
    SelectQuery,
    Situations,
    StreamName,
    Subquery,
    WindowCall,
    scalar_queries,
)

_NO_PARAMETERS: Mapping[str, object] = MappingProxyType({})


def bind(
    query: Query,
    schema: pa.Schema,
    *,
    time: str | None = None,
    text: str | None = None,
    params: Mapping[str, object] = _NO_PARAMETERS,
) -> BoundPatternQuery:
    """Resolve every name and type of a query with MATCH_RECOGNIZE against one stream's schema.

    Parameters
    ----------
    query
        As ``parse_query`` gives it.
    schema
        Schema of the stream. Attributes of a type that queries cannot use do no harm as long as
        the query does not name them.
    time
        Name of the stream's time column, which ORDER BY must name. None for a table in memory:
        ORDER BY says which column it is, one of whole numbers, timestamps or dates.
    text, params
        As for :func:`bind_query`.

    Raises
    ------
    BindError, NotSupportedError
        As :func:`bind_query` does.
    TypeError
        If it is another query.

    Examples
    --------
    >>> from replay.language import parse_query
    >>> sql = '''SELECT * FROM ticks MATCH_RECOGNIZE (
    ...     ORDER BY t MEASURES A.t AS start PATTERN (A B+) WITHIN 60 DEFINE B AS x > PREV(x))'''
    >>> bound = bind(parse_query(sql), pa.schema({"t": pa.int64(), "x": pa.float64()}), text=sql)
    >>> bound.symbols, bound.within
    (('A', 'B'), 60)
    """
    if not isinstance(query, PatternQuery) or not isinstance(query.source, StreamName):
        raise TypeError("one schema binds MATCH_RECOGNIZE over a stream; use bind_query")
    source = Source(text, params)
    attributes = Attributes.of_schema(schema, source)
    return bind_pattern_query(query, attributes, source, times=times_of_stream(time))


def bind_query(
    query: Query,
    catalog: Catalog,
    *,
    text: str | None = None,
    params: Mapping[str, object] = _NO_PARAMETERS,
) -> BoundPatternQuery | BoundSelect | BoundCreate:
    """Resolve every name and type of a query against the schemas of its streams.

    Parameters
    ----------
    query
        As ``parse_query`` gives it.
    catalog
        Gives schema and time column of a stream by its name, and raises what fits if there is none.
        None for the time of a table in memory: ORDER BY or DESCRIPTOR says which column it is, one
        of whole numbers, timestamps or dates. Attributes of a type that queries cannot use do no
        harm as long as the query does not compute with them.
    text
        The text that was parsed, for the carets of errors; None for a tree that was not.
    params
        Values of the query's parameters: int, float, str, bool, None, datetime, date or timedelta.
        More than the query uses are allowed.

    Raises
    ------
    BindError
        If a name or type does not fit; ``UnknownNameError`` among them, with ``.candidates``.
    NotSupportedError
        If the query is legal and Chronicle cannot answer it yet.

    Examples
    --------
    >>> from replay.language import parse_query
    >>> schema = pa.schema({"t": pa.int64(), "x": pa.float64()})
    >>> bound = bind_query(parse_query("SELECT t FROM s WHERE x > 1"), lambda name: (schema, "t"))
    >>> bound.time
    't'
    """
    source = Source(text, params)
    if isinstance(query, CreateStream):
        return _create(query, catalog, source)
    return _answer(query, catalog, source).query


# ---------------------------------------------------------------------------------------------
# Queries inside queries, each with what its answer is like


def _answer(query: SelectQuery | PatternQuery, catalog: Catalog, source: Source) -> Answer:
    """Resolve names and check types of a query and of those inside."""
    if isinstance(query, SelectQuery):
        return _select(query, catalog, source)
    return _pattern(query, catalog, source)


def _answer_of(node: Subquery, catalog: Catalog, source: Source) -> Answer:
    """Resolve names and check types of a subquery whose alias may name its columns."""
    answer = _answer(node.query, catalog, source)
    if not node.columns:
        return answer
    own = [name for name, _ in answer.columns]
    if len(node.columns) > len(own):
        raise source.error(
            f"this subquery has {number_of(len(own), 'column')}, and {len(node.columns)} names are "
            "given to them",
            node.columns[len(own)],
        )
    given = [name.name for name in node.columns]
    names = (*given, *own[len(given) :])
    for place, name in enumerate(node.columns):
        if names.index(name.name) != place or names.count(name.name) > 1:
            raise source.error(f"two columns are called '{name.name}'", name)
    columns = tuple((name, kind) for name, (_, kind) in zip(names, answer.columns, strict=True))
    items = tuple(
        (name, Attribute(old, kind or DataType.NULL))
        for name, (old, kind) in zip(names, answer.columns, strict=True)
    )
    new = dict(zip(own, names, strict=True))
    times = tuple(new[time] for time in answer.times)
    bound = BoundSelect(
        source=SubqueryRelation(answer.query, answer.columns, next(iter(answer.times), None)),
        outer=Outer(items),
        windows=None,
        columns=columns,
        time=next(iter(times), None),
    )
    return Answer(bound, columns, times, answer.is_untimed)


def _create(query: CreateStream, catalog: Catalog, source: Source) -> BoundCreate:
    """Resolve names and check types of ``CREATE STREAM``; a column must be the stream's time."""
    answer = _answer(query.query, catalog, source)
    if not answer.times:
        raise source.error(
            f"the stream '{query.name.name}' needs a time: SELECT a column of time by which its "
            "rows ascend, or write ORDER BY with one",
            query.query,
        )
    types = dict(answer.columns)
    if types[answer.times[0]] is DataType.DATE:
        name = answer.times[0]
        raise source.error(
            f"the time of the stream '{query.name.name}' would be '{name}', a DATE; select "
            f"CAST({name} AS TIMESTAMP) AS {name}",
            query.query,
        )
    return BoundCreate(query.name.name, answer.query, answer.times[0])


def _select(query: SelectQuery, catalog: Catalog, source: Source) -> Answer:
    read = _reference(query.source, catalog, source)
    check_keys = partial(_keys_of_windows, query, read, source)
    outer = bind_clauses(query, read.columns, source, check_keys)
    times = times_of_select(outer, read.windows, read.times)
    columns = columns_of_select(outer)
    bound = BoundSelect(
        source=read.relation,
        outer=outer,
        windows=read.windows,
        columns=columns,
        time=times[0] if times else None,
    )
    is_as_read = read.windows is None and outer.group_by is None and not outer.order_by
    return Answer(bound, columns, times, read.is_untimed and is_as_read)


def _pattern(query: PatternQuery, catalog: Catalog, source: Source) -> Answer:
    if isinstance(query.source, StreamName):
        schema, time = catalog(query.source.name.name)
        attributes = Attributes.of_schema(schema, source)
        if needs_sort(query, attributes.columns, times_of_stream(time) or None):
            every = syntax.SelectItem(syntax.Star(at=query.at), at=query.at)
            below = SelectQuery((every,), query.source, at=query.at)
            return _sorted_pattern(query, _answer(below, catalog, source), catalog, source)
        bound = bind_pattern_query(
            query, attributes, source, times=times_of_stream(time), answer=_scalars(catalog, source)
        )
    else:
        inner = _answer_of(query.source, catalog, source)
        if needs_sort(query, inner.columns, None if inner.is_untimed else inner.times):
            return _sorted_pattern(query, inner, catalog, source)
        if not inner.times and not inner.is_untimed:
            raise source.error(
                "MATCH_RECOGNIZE needs rows in the order of time, and no column of time by which "
                "those of this subquery ascend is selected",
                query.source,
            )
        attributes = Attributes(inner.columns, source, what="column")
        relation = SubqueryRelation(inner.query, inner.columns, None)
        answer = _scalars(catalog, source)
        bound = bind_pattern_query(
            query, attributes, source, times=inner.times, relation=relation, answer=answer
        )
    columns = columns_of_pattern(bound, dict(attributes.columns))
    return Answer(bound, columns, times_of_pattern(bound))


def _scalars(catalog: Catalog, source: Source) -> Answering:
    """Return what binds subqueries that are values."""

    def answer(query: SelectQuery | PatternQuery) -> tuple[BoundQuery, Columns]:
        bound = _answer(query, catalog, source)
        return bound.query, bound.columns

    return answer


def _sorted_pattern(query: PatternQuery, inner: Answer, catalog: Catalog, source: Source) -> Answer:
    """Resolve names and check types of a pattern over rows that are sorted before."""
    attributes = Attributes(inner.columns, source, what="column")
    keys = bind_order(query, attributes, source)
    if ROW_NUMBER in attributes.names:
        raise source.error(f"rows are sorted, and get a column '{ROW_NUMBER}'; rename that", query)
    outer = in_full(inner.columns, keys)
    times = times_of_select(outer, None, ())
    below = BoundSelect(
        source=SubqueryRelation(inner.query, inner.columns, next(iter(inner.times), None)),
        outer=outer,
        windows=None,
        columns=inner.columns,
        time=next(iter(times), None),
    )
    relation = SubqueryRelation(below, inner.columns, None)
    answer = _scalars(catalog, source)
    bound = bind_pattern_query(
        query, attributes, source, times=inner.times, relation=relation, keys=keys, answer=answer
    )
    columns = columns_of_pattern(bound, dict(attributes.columns))
    return Answer(bound, columns, times_of_pattern(bound))


def is_bound_alone(query: PatternQuery, schema: pa.Schema, time: str | None) -> bool:
    """Tell whether `bind` takes a query over a stream: it reads no other, and sorts no rows."""
    if scalar_queries(query):
        return False
    return not needs_sort(query, columns_of_schema(schema), times_of_stream(time) or None)


# ---------------------------------------------------------------------------------------------
# What stands after FROM: names of streams looked up, subqueries bound, windows checked


Catalog = Callable[[str], tuple[pa.Schema, str | None]]
"""Gives schema and time column of a stream by name; raises what fits where there is none.

None for the time column of a table in memory, where the query says which it is.
"""


@dataclass(frozen=True, slots=True)
class _Read:
    """What a query reads."""

    relation: Relation
    columns: RelationColumns
    windows: Windows | None = None
    times: tuple[str, ...] = ()
    """Columns that ascend, any of which can be its time."""
    is_untimed: bool = False
    """As in `Answer`."""


def _reference(node: Reference, catalog: Catalog, source: Source) -> _Read:
    """Resolve what stands after FROM."""
    match node:
        case syntax.OneRow():
            return _Read(OneRow(), RelationColumns((), source, what="column"))
        case StreamName():
            return _stream(node, catalog, source)
        case Subquery():
            return _subquery(node, _answer_of(node, catalog, source), source)
        case Situations():
            return _situations(node, catalog, source)
        case WindowCall():
            aliased = node.source if node.alias is None else replace(node.source, alias=node.alias)
            return _windowed(node, _reference(aliased, catalog, source), source)
    assert isinstance(node, Join)  # a match as it is written is only printed
    return _joined(node, catalog, source)


def _joined(node: Join, catalog: Catalog, source: Source) -> _Read:
    from replay.language.join_binder import OF_ASOF, JoinSide, bind_join  # no other query needs it

    def bound(node_of_side: Reference) -> JoinSide:
        read = _reference(node_of_side, catalog, source)
        columns = read.columns.columns
        types = dict(read.columns.names_and_types)
        # The time of pairs of a join inside gives way to that of this one.
        if isinstance(read.relation, JoinRelation) and node.kind not in OF_ASOF:
            columns = tuple(column for column in columns if column.name != JOIN_TIME)
        time = None
        if read.times:
            data_type = types[read.times[0]]
            assert data_type is not None
            time = (read.times[0], data_type)
        return JoinSide(read.relation, columns, time, node_of_side)

    relation, columns = bind_join(node, bound(node.left), bound(node.right), source)
    return _Read(relation, columns, times=(relation.time,))


def _subquery(node: Subquery, answer: Answer, source: Source) -> _Read:
    qualifier = node.alias.name if node.alias is not None else None
    columns = tuple(RelationColumn(qualifier, name, name, kind) for name, kind in answer.columns)
    time = answer.times[0] if answer.times else None
    relation = SubqueryRelation(answer.query, answer.columns, time)
    named = RelationColumns(columns, source, what="column")
    return _Read(relation, named, None, answer.times, answer.is_untimed)


def _stream(node: StreamName, catalog: Catalog, source: Source) -> _Read:
    name = node.name.name
    schema, time = catalog(name)
    qualifier = node.alias.name if node.alias is not None else name
    columns = tuple(_column(qualifier, field) for field in schema)
    named = RelationColumns(columns, source)
    relation = StreamRelation(name, named.names_and_types, time)
    return _Read(relation, named, None, times_of_stream(time), time is None)


def _column(qualifier: str, field: pa.Field) -> RelationColumn:
    data_type = to_data_type(field.type)
    if data_type is not None:
        return RelationColumn(qualifier, field.name, field.name, data_type)
    what, remedy = f"the type {field.type}", remedy_for(field.type)
    return RelationColumn(qualifier, field.name, field.name, None, what, remedy)


# ---------------------------------------------------------------------------------------------
# Temporal patterns


def _situations(node: Situations, catalog: Catalog, source: Source) -> _Read:
    from replay.language.situation_binder import bind_situations

    inner = _reference(node.source, catalog, source)
    name, order_by = _ordered_by(node, inner, source), node.clauses.order_by
    column = syntax.Column(name, at=name.at) if order_by is None else order_by
    time = inner.columns.attribute(inner.columns.name(column), column)
    if time.type not in TIME_TYPES:
        raise source.error(
            f"ORDER BY takes a column of whole numbers, timestamps or dates, and '{time.name}' is "
            f"{time.type.value}",
            column,
        )
    if inner.times and time.name not in inner.times:
        raise source.error(
            f"ORDER BY takes the stream's time column '{inner.times[0]}', not '{time.name}'", column
        )
    assert isinstance(inner.relation, StreamRelation | SubqueryRelation)
    relation = replace(inner.relation, time=time.name)
    bound = bind_situations(node, relation, inner.columns, time, source)
    qualifier = None if node.alias is None else node.alias.name
    columns = tuple(RelationColumn(qualifier, name, name, kind) for name, kind in bound.columns)
    named = RelationColumns(columns, source, what="column")
    return _Read(bound, named, None, (bound.time,))


def _ordered_by(node: Situations, inner: _Read, source: Source) -> syntax.Identifier:
    """Return the column of ORDER BY, or the one time there is."""
    if node.clauses.order_by is not None:
        return node.clauses.order_by.name
    if inner.times:
        return syntax.Identifier(inner.times[0], True, at=node.at)
    if inner.is_untimed:
        remedy = "write ORDER BY and the time column after PARTITION BY"
        raise source.error(f"nothing says which column is the time; {remedy}", node)
    raise source.error(
        "situations need rows in the order of time, and no column of time by which those of this "
        "subquery ascend is selected",
        node.source,
    )


# ---------------------------------------------------------------------------------------------
# Windows


def _windowed(node: WindowCall, inner: _Read, source: Source) -> _Read:
    from replay.language.window_binder import bind_windows

    name = _time(node, inner, source)
    column = _found(name, inner.columns)
    data_type = inner.columns.attribute(column, syntax.Column(name, at=name.at)).type
    if data_type not in TIME_TYPES:
        raise source.error(
            f"DESCRIPTOR takes a column of whole numbers, timestamps or dates, and '{column}' is "
            f"{data_type.value}",
            name,
        )
    _check_time(column, inner, name, source)
    partition_by = tuple(_found(part, inner.columns) for part in node.partition_by)
    moments = type_of_moments(data_type)
    windows = bind_windows(node, (column, moments), partition_by, source)
    assert isinstance(inner.relation, StreamRelation | SubqueryRelation)
    return replace(
        inner,
        relation=replace(inner.relation, time=column),
        columns=inner.columns.with_windows(moments, node),
        windows=windows,
        times=(column,),
        is_untimed=False,
    )


def _time(node: WindowCall, inner: _Read, source: Source) -> syntax.Identifier:
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


def _check_time(column: str, inner: _Read, name: syntax.Identifier, source: Source) -> None:
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


# ---------------------------------------------------------------------------------------------
# What rows of windows are grouped by


def _keys_of_windows(query: SelectQuery, read: _Read, source: Source, keys: Keys) -> Keys:
    """Return what GROUP BY names, both columns of the windows first."""
    windows = read.windows
    if windows is None:
        return keys
    start, end = (
        read.columns.attribute(name, syntax.Column(syntax.Identifier(name, True)))
        for name in (WINDOW_START, WINDOW_END)
    )
    given = keys or ()
    place = query.group_by[0] if query.group_by else query.source
    remedy = "write GROUP BY window_start, window_end"
    if isinstance(windows, CumulateWindows) and not (start in given and end in given):
        raise source.error(
            f"windows of CUMULATE start together and are grouped by start and end; {remedy}", place
        )
    if start not in given and end not in given:
        raise source.error(f"a query over windows is grouped by them; {remedy}", place)
    others = tuple(key for key in given if key not in (start, end))
    for key in others:
        named = {attribute.name for attribute in attributes(key)}
        if named & {WINDOW_START, WINDOW_END} and named - {WINDOW_START, WINDOW_END}:
            raise source.not_supported("a key of GROUP BY computed from a window and a row", place)
    partition_by = windows.partition_by if isinstance(windows, SessionWindows | RowWindows) else ()
    for name in partition_by:
        if name not in (key.name for key in others if isinstance(key, Attribute)):
            raise source.error(
                f"the windows are partitioned by '{name}'; write it in GROUP BY, too", place
            )
    return (start, end, *others)
