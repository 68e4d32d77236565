"""``MATCH_RECOGNIZE`` queries: syntax tree and schema to ``BoundPatternQuery``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from replay.expressions.types import TIME_TYPES, type_of_moments
from replay.language import fold, syntax
from replay.language.bound import (
    ROW_NUMBER,
    WINDOW_END,
    WINDOW_START,
    Attribute,
    BoundPatternQuery,
    Columns,
    CumulateWindows,
    DataType,
    Exclusion,
    Expression,
    Measure,
    Outer,
    Pattern,
    PatternWindows,
    RowsPerMatch,
    Semantics,
    SkipMode,
    SortKey,
    SubqueryRelation,
    SymbolSet,
    TimedOut,
    pattern_parts,
)
from replay.language.expression_binder import ExpressionBinder, bind_constant
from replay.language.matched_rows import MatchedRows
from replay.language.outer_binder import bind_outer
from replay.language.pattern_names import Attributes, Symbols
from replay.language.pattern_scope import Answering, Clause, PatternScope
from replay.language.row_pattern_binder import (
    bind_row_pattern,
    check_gap_negations,
    check_negations,
    name_symbols,
)
from replay.language.source import Source, resolve
from replay.language.syntax import PatternQuery, StreamName

_NONE_EARLIER: Mapping[str, Expression] = MappingProxyType({})

TIMED_OUT = "timed_out"
"""Name of the column that WITH TIMEOUTS adds."""


def bind_pattern_query(
    query: PatternQuery,
    attributes: Attributes,
    source: Source,
    *,
    times: tuple[str, ...],
    relation: SubqueryRelation | None = None,
    keys: tuple[SortKey, ...] = (),
    answer: Answering | None = None,
) -> BoundPatternQuery:
    """Resolve names and check types of a pattern query; see :func:`replay.language.bind`.

    ``times`` are the columns that can be its time, none where ORDER BY says which is. Rows come
    from ``relation``, or where it is None from a stream; in the order of ``keys``, if any.
    ``answer`` binds subqueries that are values.
    """
    clause = query.recognize
    semantics = clause.strategy.kind if clause.strategy is not None else Semantics.SQL
    rows = clause.rows.kind if clause.rows is not None else RowsPerMatch.ONE
    named = _Named(query, attributes, source)
    if query.windows is not None:
        attributes.in_windows = True
        times = _time_of_windows(query, times, named)
    order = (
        _sorted_order(keys, times, needs_time=clause.within is not None)
        if keys
        else _order(clause, times, named)
    )
    windows, shown = _windows(query, order.time, named)
    partition_by = tuple(name for name in shown if name not in _OF_WINDOW or windows is None)
    symbols = name_symbols(clause.pattern, source)
    pattern = bind_row_pattern(clause.pattern, symbols, source)
    for subset in clause.subsets:
        symbols.add_subset(subset)
    within = _within(clause.within, order.time, source)
    _check_clauses(clause, pattern, source)
    binder = _ClauseBinder(query, source, attributes, symbols, order.time, answer)
    defines = binder.defines()
    if symbols.negated and semantics is Semantics.SQL:
        check_gap_negations(pattern, defines, symbols, source)
    elif symbols.negated:
        has_window = within is not None or windows is not None
        check_negations(pattern, symbols, source, has_window=has_window)
    measures = binder.measures()
    columns = _Columns(clause, attributes, source, shown, order, measures, windows is not None)
    one_row = rows is RowsPerMatch.ONE
    matched = MatchedRows(source, attributes, symbols, query.alias, query.qualifier, one_row)
    output, outer, limit = bind_outer(query, columns.available(), source, attributes.names, matched)
    return BoundPatternQuery(
        stream=_stream_name(query),
        time=order.time.name,
        time_type=order.time.type,
        partition_by=partition_by,
        symbols=tuple(symbols.names),
        pattern=pattern,
        defines=defines,
        within=within,
        skip=clause.skip.mode if clause.skip is not None else SkipMode.PAST_LAST_ROW,
        measures=measures,
        output=output,
        limit=limit,
        skip_to=_skip_to(clause.skip, symbols, source),
        rows_per_match=rows,
        semantics=semantics,
        with_timeouts=clause.timeouts is not None,
        order_by=order.further,
        outer=outer if windows is None or outer is None else _by_window(outer),
        source=None if relation is None else replace(relation, time=order.time.name),
        windows=windows,
    )


# ---------------------------------------------------------------------------------------------
# Clauses without expressions


@dataclass(frozen=True, slots=True)
class _Order:
    """``ORDER BY``."""

    time: Attribute
    further: tuple[str, ...]
    """Columns that order rows of one time."""
    shown: tuple[str, ...]
    """All columns, as ALL ROWS PER MATCH shows them first."""


def _stream_name(query: PatternQuery) -> str:
    """Return the name of the stream; of a subquery its alias, if it has one."""
    if isinstance(query.source, StreamName):
        return query.source.name.name
    return query.qualifier or "subquery"


@dataclass(frozen=True, slots=True)
class _Named:
    """The columns of what MATCH_RECOGNIZE reads, as PARTITION BY and ORDER BY name them."""

    query: PatternQuery
    attributes: Attributes
    source: Source

    def find(self, column: syntax.Column) -> tuple[str, DataType]:
        """Return name and type of a column."""
        name = self.query.qualifier
        if column.symbol is not None and (name is None or not resolve(column.symbol, [name])):
            known = f"is called '{name}'" if name is not None else "has no alias"
            raise self.source.error(
                f"'{column.symbol.name}' is not what MATCH_RECOGNIZE reads, which {known}",
                column.symbol,
            )
        return self.attributes.find(column.name, column.name)

    def distinct(self, columns: tuple[syntax.Column, ...]) -> tuple[str, ...]:
        """Return the names of columns, each once: rows that it groups or orders twice are alike."""
        return tuple(dict.fromkeys(self.find(column)[0] for column in columns))


def _order(clause: syntax.MatchRecognize, times: tuple[str, ...], named: _Named) -> _Order:
    items, source = clause.order_by, named.source
    if not items:
        if not times:
            raise source.error(
                "MATCH_RECOGNIZE needs ORDER BY with the time column, as nothing else says which "
                "it is; rows of FROM (SELECT … ORDER BY time) have theirs",
                clause,
            )
        time = syntax.Column(syntax.Identifier(times[0], True, at=clause.at), at=clause.at)
        items = (syntax.OrderItem(time, at=clause.at),)
    for item in items:
        if (item.descending or item.nulls_first) and named.query.windows is not None:
            raise source.error(
                "windows are of time, so their rows are matched in its order, ascending", item
            )
    first, *_ = columns = _columns_of(items)
    name, data_type = named.find(first)
    if times and name not in times:
        raise source.error(
            f"ORDER BY takes the stream's time column '{times[0]}', not '{name}'", first
        )
    if data_type not in TIME_TYPES:
        raise source.error(
            f"ORDER BY takes a column of whole numbers, timestamps or dates, and '{name}' is "
            f"{data_type.value}",
            first,
        )
    names = named.distinct(columns)
    return _Order(Attribute(name, data_type), names[1:], names)


def _columns_of(items: tuple[syntax.OrderItem, ...]) -> tuple[syntax.Column, ...]:
    """Return what ORDER BY names."""
    return tuple(item.expression for item in items if isinstance(item.expression, syntax.Column))


def needs_sort(query: PatternQuery, columns: Columns, times: tuple[str, ...] | None = None) -> bool:
    """Tell whether rows have to be sorted before they are matched, as ORDER BY is none of time.

    ``times`` are the columns by which they ascend; None: that is for ORDER BY to say. Rows in
    windows are always in the order of time.
    """
    clause = query.recognize
    if query.windows is not None:
        return False
    if any(item.descending or item.nulls_first for item in clause.order_by):
        return True
    types = dict(columns)
    first = _columns_of(clause.order_by)[:1]
    for name in (resolve(column.name, types) for column in first):
        if name is not None and (types[name] not in (*TIME_TYPES, None) or times is not None):
            return times is None or name not in times
    return False


def bind_order(query: PatternQuery, attributes: Attributes, source: Source) -> tuple[SortKey, ...]:
    """Return what rows are sorted by before they are matched."""
    named = _Named(query, attributes, source)
    items = query.recognize.order_by
    found: dict[str, SortKey] = {}
    for column, item in zip(_columns_of(items), items, strict=True):
        name, kind = named.find(column)
        # Rows that a column orders are alike in it, so a second mention orders none.
        found.setdefault(name, SortKey(Attribute(name, kind), item.descending, item.nulls_first))
    return tuple(found.values())


def _sorted_order(keys: tuple[SortKey, ...], times: tuple[str, ...], *, needs_time: bool) -> _Order:
    """Return the order of rows that are sorted.

    Their time is the first key where that is one of ``times``, or where WITHIN ``needs_time``; any
    other column may lack values.
    """
    attributes = [key.expression for key in keys if isinstance(key.expression, Attribute)]
    names = tuple(attribute.name for attribute in attributes)
    first = attributes[0]
    ascends = not (keys[0].descending or keys[0].nulls_first)
    if ascends and first.type in TIME_TYPES and (needs_time or first.name in times):
        return _Order(first, (), names)
    return _Order(Attribute(ROW_NUMBER, DataType.INTEGER), (), names)


def _within(node: syntax.Expression | None, time: Attribute, source: Source) -> int | None:
    if node is None:
        return None
    if time.name == ROW_NUMBER:
        raise source.error(
            "WITHIN measures time, and ORDER BY does not begin with a column of time, ascending",
            node,
        )
    bound = bind_constant(node, "WITHIN", source)
    wanted = DataType.INTEGER if time.type is DataType.INTEGER else DataType.INTERVAL
    if bound.type is not wanted or bound.value is None:
        example = "300" if wanted is DataType.INTEGER else "30 MINUTES"
        kind = "dates" if time.type is DataType.DATE else "timestamps"
        what = (
            f"a plain whole number, in the unit of the time column '{time.name}'"
            if wanted is DataType.INTEGER
            else f"a duration with its unit, as the time column '{time.name}' holds {kind}"
        )
        raise source.error(f"WITHIN takes {what}, such as WITHIN {example}", node)
    assert isinstance(bound.value, int)
    if bound.value < 0:
        raise source.error("WITHIN cannot be negative", node)
    return bound.value


_OF_WINDOW = (WINDOW_START, WINDOW_END)


def _time_of_windows(query: PatternQuery, times: tuple[str, ...], named: _Named) -> tuple[str, ...]:
    """Return the column of DESCRIPTOR as the one that can be the time.

    As ORDER BY it may be left out where the time is known.
    """
    call = query.windows
    assert call is not None
    if call.time is None:
        return times
    name, _ = named.attributes.find(call.time, call.time)
    if times and name not in times:
        raise named.source.error(
            f"DESCRIPTOR takes the stream's time column '{times[0]}', not '{name}'", call.time
        )
    return (name,)


def _windows(
    query: PatternQuery, time: Attribute, named: _Named
) -> tuple[PatternWindows | None, tuple[str, ...]]:
    """Return the windows, and what PARTITION BY names, columns of theirs among it."""
    call, clause, source = query.windows, query.recognize, named.source
    if call is None:
        return None, named.distinct(clause.partition_by)
    if clause.strategy is None:
        raise source.error(
            f"one match per start depends on where a window begins, so MATCH_RECOGNIZE over "
            f"{call.function}(…) needs SEMANTICS CONTIGUOUS, SKIP TILL NEXT or SKIP TILL ANY, "
            "which give every match",
            clause,
        )
    for name in _OF_WINDOW:
        if name in named.attributes.names:
            raise source.error(
                f"the windows add a column '{name}', and there is one of that name; select it "
                "under another name in a subquery",
                call,
            )
    from replay.language.window_binder import bind_pattern_windows  # no other query needs it

    windows = bind_pattern_windows(call, (time.name, type_of_moments(time.type)), source)
    shown: list[str] = []
    for column in clause.partition_by:
        of_window = resolve(column.name, _OF_WINDOW)
        name = of_window or named.find(column)[0]
        if name not in shown:
            shown.append(name)
    if isinstance(windows, CumulateWindows) and not {*_OF_WINDOW} <= {*shown}:
        raise source.error(
            "windows of CUMULATE start together, so PARTITION BY names both window_start and "
            "window_end",
            clause,
        )
    if not {*_OF_WINDOW} & {*shown}:
        raise source.error(
            f"matches are those of one window of {call.function}(…): write PARTITION BY "
            "window_start, window_end and further columns",
            clause,
        )
    return windows, tuple(shown)


def _by_window(outer: Outer) -> Outer:
    """Return an outer query whose groups come by window, then by their other keys."""
    if not outer.group_by:
        return outer
    of_window = [
        Attribute(name, key.type)
        for name in _OF_WINDOW
        for key in outer.group_by
        if isinstance(key, Attribute) and key.name == name
    ]
    others = [key for key in outer.group_by if key not in of_window]
    return replace(outer, group_by=(*of_window, *others), groups_ascend=True)


def _skip_to(skip: syntax.Skip | None, symbols: Symbols, source: Source) -> SymbolSet:
    if skip is None or skip.target is None:
        return None
    target = symbols.find(skip.target)
    if target[0] in symbols.negated:
        name = skip.target.name
        raise source.error(
            f"'{name}' stands in PATTERN only as !{name}, so no row is mapped to it to skip to",
            skip.target,
        )
    return target


def _check_clauses(clause: syntax.MatchRecognize, pattern: Pattern, source: Source) -> None:
    """Check which clauses go together."""
    rows, strategy = clause.rows, clause.strategy
    if rows is not None and rows.kind is RowsPerMatch.ALL_WITH_UNMATCHED:
        if any(isinstance(part, Exclusion) for part in pattern_parts(pattern)):
            raise source.error(
                "WITH UNMATCHED ROWS gives every row, and {- -} leaves some out; leave out one of "
                "the two",
                rows,
            )
        if strategy is not None:
            raise source.not_supported(
                "WITH UNMATCHED ROWS together with SEMANTICS", rows, "write ALL ROWS PER MATCH"
            )
    if strategy is not None and clause.skip is not None:
        raise source.error(
            f"SEMANTICS {strategy.kind.value} gives every match, so there is nothing to skip; "
            "leave out AFTER MATCH",
            clause.skip,
        )
    if clause.timeouts is None:
        return
    if strategy is None:
        raise source.error(
            "WITH TIMEOUTS needs SEMANTICS CONTIGUOUS, SKIP TILL NEXT or SKIP TILL ANY, which say "
            "how a partial match goes on",
            clause.timeouts,
        )
    if clause.within is None:
        raise source.error(
            "WITH TIMEOUTS needs WITHIN, which says when a partial match has run out of time",
            clause.timeouts,
        )


# ---------------------------------------------------------------------------------------------
# Clauses with expressions


@dataclass(frozen=True, slots=True)
class _ClauseBinder:
    """Binds DEFINE and MEASURES."""

    query: PatternQuery
    source: Source
    attributes: Attributes
    symbols: Symbols
    time: Attribute
    answer: Answering | None

    def defines(self) -> tuple[Expression | None, ...]:
        """Return the condition of each symbol, None where it is always true."""
        conditions: list[Expression | None] = [None] * len(self.symbols.names)
        seen: set[int] = set()
        counted = self.query.recognize.strategy is None
        for define in self.query.recognize.defines:
            symbol = self.symbols.find_defined(define.symbol)
            if symbol in seen:
                raise self.source.error(
                    f"symbol '{define.symbol.name}' is defined twice; join its conditions by AND",
                    define.symbol,
                )
            seen.add(symbol)
            binder = self._binder(symbol, counted=counted)
            condition = binder.condition(define.condition, f"DEFINE {define.symbol.name}")
            conditions[symbol] = None if condition == fold.TRUE else condition
        return tuple(conditions)

    def measures(self) -> tuple[Measure, ...]:
        """Return the measures, `TIMED_OUT` last where it is asked for."""
        rows = self.query.recognize.rows
        all_rows = rows is not None and rows.kind is not RowsPerMatch.ONE
        earlier: dict[str, Expression] = {}
        bound: list[Measure] = []
        names = {TIMED_OUT} if self.query.recognize.timeouts is not None else set()
        for measure in self.query.recognize.measures:
            name = measure.name.name
            if name.casefold() in names:
                what = f"two measures are named '{name}'"
                if name.casefold() == TIMED_OUT and self.query.recognize.timeouts is not None:
                    what = f"WITH TIMEOUTS adds a measure '{TIMED_OUT}'; give this one another name"
                raise self.source.error(what, measure.name)
            names.add(name.casefold())
            binder = self._binder(None, all_rows=all_rows, earlier=earlier, measure=measure)
            bound.append(Measure(name, binder.bind(measure.expression)))
            earlier[name] = bound[-1].expression
        if self.query.recognize.timeouts is not None:
            bound.append(Measure(TIMED_OUT, TimedOut()))
        return tuple(bound)

    def _binder(
        self,
        defined: int | None,
        *,
        all_rows: bool = False,
        counted: bool = True,
        earlier: Mapping[str, Expression] = _NONE_EARLIER,
        measure: syntax.Measure | None = None,
    ) -> ExpressionBinder:
        clause = Clause(
            defined,
            self.time,
            all_rows,
            counted,
            self.query.qualifier,
            measures=tuple(one.name.name for one in self.query.recognize.measures),
            earlier=earlier,
            measure=None if measure is None else measure.expression,
            answer=self.answer,
        )
        scope = PatternScope(self.source, self.attributes, self.symbols, clause)
        return ExpressionBinder(self.source, scope)


# ---------------------------------------------------------------------------------------------
# Columns of the answer


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns that the answer of MATCH_RECOGNIZE can have."""

    clause: syntax.MatchRecognize
    attributes: Attributes
    source: Source
    partition_by: tuple[str, ...]
    order: _Order
    measures: tuple[Measure, ...]
    in_windows: bool = False

    def available(self) -> tuple[tuple[str, DataType | None], ...]:
        """Return names and types in the order of ``SELECT *``."""
        before, after = self.partition_by, tuple[str, ...]()
        rows = self.clause.rows
        if rows is not None and rows.kind is not RowsPerMatch.ONE:
            before = tuple(dict.fromkeys((*before, *self.order.shown)))
            after = tuple(name for name in self.attributes.names if name not in before)
        self._check_names((*before, *after))
        measures: list[tuple[str, DataType | None]] = [
            (measure.name, measure.type) for measure in self.measures
        ]
        timed_out = measures[-1:] if self.clause.timeouts is not None else []
        return (
            *((name, self._type_of(name)) for name in before),
            *measures[: len(measures) - len(timed_out)],
            *((name, self.attributes.type_of(name)) for name in after),
            *timed_out,
        )

    def _type_of(self, name: str) -> DataType | None:
        is_of_window = self.in_windows and name in _OF_WINDOW
        of_window = type_of_moments(self.order.time.type)
        return of_window if is_of_window else self.attributes.type_of(name)

    def _check_names(self, columns: tuple[str, ...]) -> None:
        for measure in self.clause.measures:
            name = measure.name.name
            if name in columns:
                where = "column of PARTITION BY" if name in self.partition_by else "column"
                raise self.source.error(
                    f"two columns of the answer are named '{name}': this measure and the {where}; "
                    "give the measure another name",
                    measure.name,
                )
        if self.clause.timeouts is not None and TIMED_OUT in columns:
            raise self.source.error(
                f"WITH TIMEOUTS adds a column '{TIMED_OUT}', and the stream has one of that name",
                self.clause.timeouts,
            )
