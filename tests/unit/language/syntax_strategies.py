"""Random syntax trees, for tests of parser and printer."""

from __future__ import annotations

from hypothesis import strategies as st

from replay.expressions.literals import UNIT_SPANS
from replay.language import syntax
from replay.language.bound import EdgeKind, JoinKind, RowsPerMatch, Semantics, SkipMode
from replay.language.cursor import RESERVED
from replay.language.duration_parser import UNITS
from replay.language.syntax import (
    WINDOW_ARGUMENTS,
    WITH_ORIGIN,
    CreateStream,
    Identifier,
    Join,
    SelectQuery,
    Span,
    StreamName,
    Subquery,
    WindowCall,
)

NAMES = ["A", "B", "x", "speed", "date", "timestamp", "first", "within", "pattern", "_u1", "été"]
assert not {name.upper() for name in NAMES} & RESERVED

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)

identifiers = st.one_of(
    st.sampled_from(NAMES).map(Identifier),
    st.builds(Identifier, TEXTS.filter(bool), st.just(True)),
)
columns = st.builds(syntax.Column, identifiers, st.none() | identifiers)

constants = st.one_of(
    st.builds(syntax.Number, st.integers(0, 2**63)),
    st.builds(syntax.Number, st.floats(0, allow_nan=False, allow_infinity=False)),
    st.builds(syntax.Text, TEXTS),
    st.builds(syntax.Truth, st.booleans()),
    st.builds(syntax.Null),
    st.builds(syntax.TimeText, st.sampled_from(["DATE", "TIMESTAMP"]), TEXTS),
    st.builds(
        syntax.Duration,
        st.sampled_from(["30", "-1", "0.5"]),
        st.sampled_from(sorted({*UNITS.values(), *UNIT_SPANS})),
    ),
    st.builds(syntax.Parameter, st.sampled_from(["p", "from", "q_1"])),
)

scopes = st.sampled_from(["RUNNING", "FINAL"])

atoms = st.one_of(
    constants,
    columns,
    st.builds(syntax.ClassifierCall, st.none() | identifiers),
    st.builds(syntax.MatchNumberCall),
    st.builds(
        syntax.Function,
        st.just(Identifier("count")),
        st.builds(syntax.Star, st.none() | identifiers).map(lambda s: (s,)),
        st.booleans(),
        st.none() | scopes,
    ),
)


def compound(inner):
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    maybe = st.none() | inner
    rows = st.builds(syntax.RowValue, st.lists(inner, min_size=2, max_size=3).map(tuple))
    keys = st.builds(syntax.OrderItem, inner, st.booleans(), st.booleans())
    return st.one_of(
        st.builds(syntax.Binary, st.sampled_from(["=", "<", ">="]), rows, rows),
        st.builds(syntax.InList, rows, st.lists(rows, min_size=1, max_size=2).map(tuple)),
        st.builds(
            syntax.Function,
            st.sampled_from(["ARRAY_AGG", "list"]).map(Identifier),
            st.tuples(inner),
            st.booleans(),
            st.none() | scopes,
            maybe,
            st.lists(keys, max_size=2).map(tuple),
        ),
        st.builds(syntax.Unary, st.sampled_from(["NOT", "-", "+"]), inner),
        st.builds(syntax.Binary, st.sampled_from("+-*/%<>="), inner, inner),
        st.builds(syntax.Binary, st.sampled_from(["<>", "<=", ">="]), inner, inner),
        st.builds(
            syntax.Logical,
            st.sampled_from(["AND", "OR"]),
            st.lists(inner, min_size=2, max_size=3).map(tuple),
        ),
        st.builds(syntax.Between, inner, inner, inner, st.booleans()),
        st.builds(syntax.InList, inner, several, st.booleans()),
        st.builds(syntax.Like, inner, inner, maybe, st.booleans(), st.booleans()),
        st.builds(syntax.IsTruth, inner, st.sampled_from([True, False, None]), st.booleans()),
        st.builds(syntax.IsDistinct, inner, inner, st.booleans()),
        st.builds(syntax.IsNull, inner, st.booleans()),
        st.builds(
            syntax.Case,
            maybe,
            st.lists(st.tuples(inner, inner), min_size=1, max_size=2).map(tuple),
            maybe,
        ),
        st.builds(syntax.Cast, inner, st.sampled_from(["DOUBLE PRECISION", "INT"]), st.booleans()),
        st.builds(syntax.Cast, inner, st.just("VARCHAR"), st.booleans(), st.integers(1, 9)),
        st.builds(
            syntax.Function,
            st.sampled_from(["floor", "coalesce", "left"]).map(Identifier),
            st.lists(inner, max_size=2).map(tuple),
        ),
        st.builds(syntax.Function, st.just(Identifier("sum")), st.tuples(inner), st.booleans()),
        st.builds(
            syntax.Function,
            st.sampled_from(["SUM", "stddev", "every"]).map(Identifier),
            inner.map(lambda argument: (argument,)),
            st.booleans(),
            st.none() | scopes,
            maybe,
        ),
        *_navigations(inner, maybe),
    )


def _navigations(inner, maybe):
    return (
        st.builds(syntax.Navigation, st.sampled_from(["PREV", "NEXT"]), inner, maybe),
        st.builds(
            syntax.Navigation,
            st.sampled_from(["FIRST", "LAST"]),
            inner,
            maybe,
            st.none() | scopes,
        ),
    )


expressions = st.recursive(atoms, compound, max_leaves=12)

_symbols = st.one_of(
    st.builds(syntax.SymbolPattern, identifiers | st.just(Identifier("Permute"))),
    st.builds(syntax.EdgePattern, st.sampled_from(EdgeKind)),
    st.builds(syntax.Negated, identifiers),
)
_bounds = st.one_of(
    st.sampled_from([(0, None), (1, None), (0, 1), (1, 1), (2, 2), (2, None), (0, 3), (2, 5)])
)


def _compound_patterns(inner):
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(syntax.Sequence, several),
        st.builds(syntax.Alternation, several),
        st.builds(syntax.Excluded, inner),
        st.builds(syntax.Permutation, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(
            lambda body, bounds, greedy: syntax.Quantified(body, *bounds, greedy),
            inner,
            _bounds,
            st.booleans(),
        ),
    )


row_patterns = st.recursive(
    _symbols | st.just(syntax.Sequence(())), _compound_patterns, max_leaves=10
)

_skips = st.one_of(
    st.builds(syntax.Skip, st.sampled_from([SkipMode.PAST_LAST_ROW, SkipMode.TO_NEXT_ROW])),
    st.builds(
        syntax.Skip,
        st.sampled_from([SkipMode.TO_FIRST, SkipMode.TO_LAST]),
        identifiers | st.sampled_from(["FIRST", "Last"]).map(Identifier),
    ),
)
_strategies = [semantics for semantics in Semantics if semantics is not Semantics.SQL]

match_recognizes = st.builds(
    syntax.MatchRecognize,
    st.lists(st.builds(syntax.OrderItem, columns, st.booleans(), st.booleans()), max_size=2).map(
        tuple
    ),
    row_patterns,
    st.lists(columns, max_size=2).map(tuple),
    st.lists(st.builds(syntax.Measure, expressions, identifiers), max_size=2).map(tuple),
    st.none() | _skips,
    st.none() | constants,
    st.lists(st.builds(syntax.Define, identifiers, expressions), max_size=2).map(tuple),
    st.none() | st.builds(syntax.Rows, st.sampled_from(RowsPerMatch)),
    st.none() | st.builds(syntax.Strategy, st.sampled_from(_strategies)),
    st.none() | st.builds(syntax.Timeouts),
    st.lists(
        st.builds(
            syntax.Subset, identifiers, st.lists(identifiers, min_size=1, max_size=2).map(tuple)
        ),
        max_size=2,
    ).map(tuple),
)

_select_items = st.one_of(
    st.builds(syntax.SelectItem, expressions, st.none() | identifiers),
    st.builds(syntax.SelectItem, st.builds(syntax.Star, st.none() | identifiers)),
)

_clauses = {
    "limit": st.none() | st.builds(syntax.Number, st.integers(0, 10)),
    "offset": st.none() | st.builds(syntax.Number, st.integers(0, 10)),
    "distinct": st.booleans(),
    "where": st.none() | expressions,
    "group_by": st.lists(expressions, max_size=2).map(tuple),
    "having": st.none() | expressions,
    "order_by": st.lists(
        st.builds(syntax.OrderItem, expressions, st.booleans(), st.booleans()), max_size=2
    ).map(tuple),
}
_select_lists = st.lists(_select_items, min_size=1, max_size=2).map(tuple)

_maybe_name = st.none() | identifiers


def pattern_queries_over(sources):
    return st.builds(
        syntax.PatternQuery, _select_lists, sources, match_recognizes, _maybe_name, **_clauses
    )


pattern_queries = pattern_queries_over(st.builds(StreamName, identifiers, _maybe_name))


# ---------------------------------------------------------------------------------------------
# Queries without a row pattern, and queries over queries


def _window_calls(sources):
    def of(function):
        count = len(WINDOW_ARGUMENTS[function])
        return st.builds(
            WindowCall,
            st.just(function),
            sources,
            st.lists(identifiers, max_size=2).map(tuple),
            identifiers,
            st.tuples(*[expressions] * count),
            st.none() | expressions | st.just(syntax.FirstEvent())
            if function in WITH_ORIGIN
            else st.none(),
            st.none() | expressions if function in WITH_ORIGIN else st.none(),
            _maybe_name,
        )

    # SLIDING stands before MATCH_RECOGNIZE alone.
    return st.sampled_from(sorted(WINDOW_ARGUMENTS.keys() - {"SLIDING"})).flatmap(of)


_spans = st.builds(Span, expressions, st.none() | expressions, st.booleans())


def _joins(left, right):
    return st.builds(
        Join,
        st.sampled_from(JoinKind),
        left,
        right,
        st.lists(_spans, max_size=2).map(tuple),
        st.none() | expressions,
    ) | st.builds(
        Join,
        st.sampled_from(JoinKind),
        left,
        right,
        st.lists(_spans, max_size=2).map(tuple),
        st.none(),
        st.lists(identifiers, min_size=1, max_size=2).map(tuple),
    )


def _queries_over(queries):
    tables = st.builds(StreamName, identifiers, _maybe_name)
    names = st.lists(identifiers, min_size=1, max_size=2).map(tuple)
    renamed = st.builds(Subquery, queries, identifiers, names)
    sources = tables | st.builds(Subquery, queries, _maybe_name) | renamed
    unnamed = st.builds(StreamName, identifiers) | st.builds(Subquery, queries)
    one_join = _joins(sources, sources)
    references = st.one_of(sources, _window_calls(unnamed), one_join, _joins(one_join, sources))
    return st.one_of(
        st.builds(SelectQuery, _select_lists, references, **_clauses),
        pattern_queries_over(st.builds(Subquery, queries, _maybe_name)),
    )


_filters = st.builds(
    SelectQuery, _select_lists, st.builds(StreamName, identifiers, _maybe_name), **_clauses
)
queries = st.recursive(_filters, _queries_over, max_leaves=3)
creations = st.builds(CreateStream, identifiers, queries | pattern_queries)
