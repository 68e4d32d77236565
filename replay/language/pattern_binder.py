"""``MATCH_RECOGNIZE`` queries: syntax tree and schema to ``BoundPatternQuery``."""

from __future__ import annotations

import pyarrow as pa

from replay.language import fold, syntax
from replay.language.bound import (
    Alternate,
    BoundPatternQuery,
    Concat,
    DataType,
    Expression,
    Measure,
    Pattern,
    Repeat,
    SkipMode,
    Symbol,
)
from replay.language.expression_binder import ExpressionBinder
from replay.language.pattern_scope import Attributes, PatternScope, Symbols, bind_constant
from replay.language.printer import to_sql
from replay.language.source import Source, resolve
from replay.language.syntax import Identifier, PatternQuery, RowPattern
from replay.language.types import TIME_TYPES


def bind_pattern_query(
    query: PatternQuery, schema: pa.Schema, *, time: str | None, source: Source
) -> BoundPatternQuery:
    """Resolve names and check types of a pattern query; see :func:`replay.language.bind`."""
    clause = query.recognize
    attributes = Attributes(schema, source)
    if len(clause.order_by) > 1:
        raise source.not_supported("ORDER BY with further columns", clause.order_by[1])
    time_name, time_type = _time(clause.order_by[0], time, attributes, source)
    partition_by = _partition_by(clause.partition_by, attributes, source)
    symbols = Symbols(source)
    pattern = _pattern(clause.pattern, symbols)
    binder = _ClauseBinder(source, attributes, symbols, bool(partition_by))
    defines = binder.defines(clause.defines)
    measures = binder.measures(clause.measures)
    return BoundPatternQuery(
        stream=query.stream,
        time=time_name,
        time_type=time_type,
        partition_by=partition_by,
        symbols=tuple(symbols.names),
        pattern=pattern,
        defines=defines,
        within=_within(clause.within, time_name, time_type, source),
        skip=clause.skip or SkipMode.PAST_LAST_ROW,
        measures=measures,
        output=_output(query, partition_by, measures, attributes, source),
        limit=_limit(query.limit, source),
    )


def _time(
    order_by: Identifier, time: str | None, attributes: Attributes, source: Source
) -> tuple[str, DataType]:
    name, data_type = attributes.find(order_by, order_by)
    if time is not None and name != time:
        raise source.error(
            f"ORDER BY takes the stream's time column '{time}', not '{name}'", order_by
        )
    if data_type not in TIME_TYPES:
        raise source.error(
            f"ORDER BY takes a column of whole numbers or timestamps, and '{name}' is "
            f"{data_type.value}",
            order_by,
        )
    return name, data_type


def _partition_by(
    columns: tuple[Identifier, ...], attributes: Attributes, source: Source
) -> tuple[str, ...]:
    names: list[str] = []
    for column in columns:
        name, _ = attributes.find(column, column)
        if name in names:
            raise source.error(f"PARTITION BY names '{name}' twice", column)
        names.append(name)
    return tuple(names)


def _pattern(pattern: RowPattern, symbols: Symbols) -> Pattern:
    if isinstance(pattern, syntax.SymbolPattern):
        return Symbol(symbols.add(pattern.symbol))
    if isinstance(pattern, syntax.Quantified):
        body = _pattern(pattern.body, symbols)
        if pattern.low == pattern.high == 1:
            return body
        return Repeat(body, pattern.low, pattern.high, pattern.greedy)
    flat: list[Pattern] = []
    if isinstance(pattern, syntax.Alternation):
        for branch in pattern.branches:
            bound = _pattern(branch, symbols)
            flat.extend(bound.branches if isinstance(bound, Alternate) else (bound,))
        return Alternate(tuple(flat))
    for part in pattern.parts:
        bound = _pattern(part, symbols)
        flat.extend(bound.parts if isinstance(bound, Concat) else (bound,))
    return flat[0] if len(flat) == 1 else Concat(tuple(flat))


class _ClauseBinder:
    """Binds the clauses whose expressions look at events."""

    def __init__(
        self, source: Source, attributes: Attributes, symbols: Symbols, partitioned: bool
    ) -> None:
        self._source = source
        self._attributes = attributes
        self._symbols = symbols
        self._partitioned = partitioned

    def defines(self, defines: tuple[syntax.Define, ...]) -> tuple[Expression | None, ...]:
        """Return the condition of each symbol, None where it is always true."""
        conditions: list[Expression | None] = [None] * len(self._symbols.names)
        seen: set[int] = set()
        for define in defines:
            symbol = self._symbols.find(define.symbol)
            if symbol in seen:
                raise self._source.error(
                    f"symbol '{define.symbol.name}' is defined twice; join its conditions by AND",
                    define.symbol,
                )
            seen.add(symbol)
            condition = self._binder(symbol).condition(
                define.condition, f"DEFINE {define.symbol.name}"
            )
            conditions[symbol] = None if condition == fold.TRUE else condition
        return tuple(conditions)

    def measures(self, measures: tuple[syntax.Measure, ...]) -> tuple[Measure, ...]:
        """Return the measures."""
        binder = self._binder(None)
        bound: list[Measure] = []
        names: set[str] = set()
        for measure in measures:
            name = measure.name.name
            if name.casefold() in names:
                raise self._source.error(f"two measures are named '{name}'", measure.name)
            names.add(name.casefold())
            bound.append(Measure(name, binder.bind(measure.expression)))
        return tuple(bound)

    def _binder(self, defined: int | None) -> ExpressionBinder:
        scope = PatternScope(
            self._source,
            self._attributes,
            self._symbols,
            defined=defined,
            partitioned=self._partitioned,
        )
        return ExpressionBinder(self._source, scope)


def _within(
    node: syntax.Expression | None, time: str, time_type: DataType, source: Source
) -> int | None:
    if node is None:
        return None
    bound = bind_constant(node, "WITHIN", source)
    wanted = DataType.INTEGER if time_type is DataType.INTEGER else DataType.INTERVAL
    if bound.type is not wanted or bound.value is None:
        example = "300" if wanted is DataType.INTEGER else "30 MINUTES"
        what = (
            f"a plain whole number, in the unit of the time column '{time}'"
            if wanted is DataType.INTEGER
            else f"a duration with its unit, as the time column '{time}' holds timestamps"
        )
        raise source.error(f"WITHIN takes {what}, such as WITHIN {example}", node)
    assert isinstance(bound.value, int)
    if bound.value < 0:
        raise source.error("WITHIN cannot be negative", node)
    return bound.value


def _limit(node: syntax.Expression | None, source: Source) -> int | None:
    if node is None:
        return None
    bound = bind_constant(node, "LIMIT", source)
    if bound.type is not DataType.INTEGER or not isinstance(bound.value, int) or bound.value < 0:
        raise source.error("LIMIT takes a whole number from 0", node)
    return bound.value


# ---------------------------------------------------------------------------------------------
# Columns of the answer


def _output(
    query: PatternQuery,
    partition_by: tuple[str, ...],
    measures: tuple[Measure, ...],
    attributes: Attributes,
    source: Source,
) -> tuple[tuple[str, str], ...]:
    available = (*partition_by, *(measure.name for measure in measures))
    if not available:
        raise source.error(
            "nothing to select: the answer has the columns of PARTITION BY and MEASURES, and "
            "there are none; add a measure such as MEASURES MATCH_NUMBER() AS no",
            query,
        )
    if query.select is None:
        _check_distinct(query, available, source)
        return tuple((name, name) for name in available)
    output: list[tuple[str, str]] = []
    for item in query.select:
        _check_qualifier(item, query, source)
        column = resolve(item.name, available)
        if column is None:
            raise _missing_column(item, available, attributes, source)
        name = item.alias.name if item.alias is not None else column
        if name in (other for _, other in output):
            raise source.error(f"two columns of the answer are named '{name}'", item)
        output.append((column, name))
    return tuple(output)


def _check_distinct(query: PatternQuery, available: tuple[str, ...], source: Source) -> None:
    for measure in query.recognize.measures:
        if available.count(measure.name.name) > 1:
            raise source.error(
                f"two columns of the answer are named '{measure.name.name}': this measure and the "
                "column of PARTITION BY; give the measure another name",
                measure.name,
            )


def _check_qualifier(item: syntax.SelectItem, query: PatternQuery, source: Source) -> None:
    if item.qualifier is None:
        return
    known = [query.alias.name] if query.alias is not None else []
    if resolve(item.qualifier, known) is None:
        hint = f"its alias '{known[0]}'" if known else "no alias here"
        raise source.error(
            f"'{item.qualifier.name}' does not name the result of MATCH_RECOGNIZE, which has "
            f"{hint}; values of symbols are named in MEASURES",
            item.qualifier,
        )


def _missing_column(
    item: syntax.SelectItem, available: tuple[str, ...], attributes: Attributes, source: Source
) -> Exception:
    attribute = resolve(item.name, attributes.names)
    if attribute is not None:
        name = to_sql(item.name)
        return source.error(
            f"attribute '{attribute}' is not part of the answer, which has one row per match; "
            f"name it in MEASURES, such as LAST({name}) AS {name}",
            item.name,
        )
    return source.unknown("column of the answer called", item.name.name, available, item.name)
