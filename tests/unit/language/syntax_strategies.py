"""Random syntax trees, for tests of parser and printer."""

from __future__ import annotations

from hypothesis import strategies as st

from replay.language import syntax
from replay.language.bound import SkipMode
from replay.language.cursor import RESERVED
from replay.language.expression_parser import UNITS
from replay.language.syntax import Identifier

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
        st.sampled_from(sorted(set(UNITS.values()))),
    ),
    st.builds(syntax.Parameter, st.sampled_from(["p", "from", "q_1"])),
)

atoms = st.one_of(
    constants,
    columns,
    st.builds(syntax.ClassifierCall, st.none() | identifiers),
    st.builds(syntax.MatchNumberCall),
    st.builds(
        syntax.Function, st.just(Identifier("count")), st.builds(syntax.Star).map(lambda s: (s,))
    ),
)


def compound(inner):
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    maybe = st.none() | inner
    return st.one_of(
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
        st.builds(syntax.Like, inner, inner, maybe, st.booleans()),
        st.builds(syntax.IsNull, inner, st.booleans()),
        st.builds(
            syntax.Case,
            maybe,
            st.lists(st.tuples(inner, inner), min_size=1, max_size=2).map(tuple),
            maybe,
        ),
        st.builds(syntax.Cast, inner, st.sampled_from(["DOUBLE PRECISION", "BIGINT"])),
        st.builds(
            syntax.Function,
            st.sampled_from(["floor", "coalesce", "left"]).map(Identifier),
            st.lists(inner, max_size=2).map(tuple),
        ),
        st.builds(
            syntax.Navigation, st.sampled_from(["FIRST", "LAST", "PREV", "NEXT"]), inner, maybe
        ),
    )


expressions = st.recursive(atoms, compound, max_leaves=12)

_symbols = st.builds(syntax.SymbolPattern, identifiers)
_bounds = st.one_of(
    st.sampled_from([(0, None), (1, None), (0, 1), (1, 1), (2, 2), (2, None), (0, 3), (2, 5)])
)


def _compound_patterns(inner):
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(syntax.Sequence, several),
        st.builds(syntax.Alternation, several),
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

_few = st.lists(identifiers, max_size=2).map(tuple)

pattern_queries = st.builds(
    syntax.PatternQuery,
    st.none()
    | st.lists(
        st.builds(syntax.SelectItem, identifiers, st.none() | identifiers, st.none() | identifiers),
        min_size=1,
        max_size=2,
    ).map(tuple),
    identifiers,
    st.builds(
        syntax.MatchRecognize,
        _few,
        st.lists(identifiers, min_size=1, max_size=2).map(tuple),
        st.lists(st.builds(syntax.Measure, expressions, identifiers), max_size=2).map(tuple),
        st.none() | st.sampled_from(SkipMode),
        row_patterns,
        st.none() | constants,
        st.lists(st.builds(syntax.Define, identifiers, expressions), max_size=2).map(tuple),
    ),
    st.none() | identifiers,
    st.none() | st.builds(syntax.Number, st.integers(0, 10)),
)
