"""Row patterns bound: PERMUTE written out, exclusions, edges and negations kept in place."""

from __future__ import annotations

from itertools import permutations, product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import QueryError
from replay.language import bind, parse_query, syntax
from replay.language.bound import (
    Alternate,
    Concat,
    Edge,
    EdgeKind,
    Exclusion,
    Negation,
    Pattern,
    Repeat,
    Symbol,
    is_nullable,
)
from replay.language.row_pattern_binder import bind_row_pattern, name_symbols
from replay.language.source import Source
from replay.language.syntax import Identifier

A, B, C, D = (Symbol(i) for i in range(4))
SCHEMA = pa.schema({"t": pa.int64(), "x": pa.int64()})


def query(inside):
    text = f"SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES MATCH_NUMBER() AS no {inside})"
    return bind(parse_query(text), SCHEMA, text=text)


def pattern(text, after=""):
    return query(f"PATTERN ({text}) {after}").pattern


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("^ A $", Concat((Edge(EdgeKind.START), A, Edge(EdgeKind.END)))),
        ("A {- B C -} D", Concat((A, Exclusion(Concat((B, C))), D))),
        ("{- A | B -}+", Repeat(Exclusion(Alternate((A, B))), 1, None)),
        ("A{,3}? B{2,}", Concat((Repeat(A, 0, 3, greedy=False), Repeat(B, 2, None)))),
        ("(A | (B | C)) D", Concat((Alternate((A, B, C)), D))),
        ("PERMUTE(A)", A),
        ("PERMUTE(A, B)", Alternate((Concat((A, B)), Concat((B, A))))),
        ("PERMUTE(A, B){2}", Repeat(Alternate((Concat((A, B)), Concat((B, A)))), 2, 2)),
    ],
)
def test_pattern_as_bound(text, expected):
    assert pattern(text) == expected


def test_permute_of_plain_symbols_shares_beginnings():
    def then(first, second, third):
        pair = Alternate((Concat((second, third)), Concat((third, second))))
        return Concat((first, pair))

    expected = Alternate((then(A, B, C), then(B, A, C), then(C, A, B)))
    assert pattern("PERMUTE(A, B, C)") == expected


def test_permute_does_not_share_a_beginning_that_can_be_mapped_in_several_ways():
    repeated = Repeat(A, 0, 2)
    assert pattern("PERMUTE(A{,2}, B, C)").branches[:2] == (
        Concat((repeated, B, C)),
        Concat((repeated, C, B)),
    )


# -- Laws of PERMUTE: the words of a pattern in order of preference, written from the standard --


def words(bound: Pattern) -> list[str]:
    """Return the words of a pattern without unbounded repetition, the preferred first."""
    match bound:
        case Symbol(index):
            return ["ABCD"[index]]
        case Concat(parts):
            return ["".join(word) for word in product(*map(words, parts))]
        case Alternate(branches):
            return [word for branch in branches for word in words(branch)]
        case Exclusion(body):
            return words(body)
        case Repeat(body, low, high, greedy):
            return repeated(words(body), low, high, greedy)
    raise AssertionError(bound)


def repeated(body: list[str], low: int, high: int, greedy: bool) -> list[str]:
    if high == 0:
        return [""]
    longer = [
        word + rest for word in body for rest in repeated(body, max(low - 1, 0), high - 1, greedy)
    ]
    if low > 0:
        return longer
    return [*longer, ""] if greedy else ["", *longer]


symbols = st.sampled_from("ABC").map(lambda name: syntax.SymbolPattern(Identifier(name)))
elements = st.one_of(
    symbols,
    st.builds(syntax.Excluded, symbols),
    st.builds(syntax.Alternation, st.tuples(symbols, symbols)),
    st.builds(syntax.Sequence, st.tuples(symbols, symbols)),
    st.builds(
        lambda body, bounds, greedy: syntax.Quantified(body, *bounds, greedy),
        symbols,
        st.sampled_from([(0, 1), (0, 2), (2, 2)]),
        st.booleans(),
    ),
)


def bound_of(tree: syntax.RowPattern) -> Pattern:
    source = Source(None, {})
    return bind_row_pattern(tree, name_symbols(tree, source), source)


@given(st.lists(elements, min_size=1, max_size=3))
def test_permute_is_the_alternation_of_all_orders_in_order_of_the_list(parts):
    orders = tuple(syntax.Sequence(order) for order in permutations(parts))
    # In a sequence with the elements first, both number the symbols alike.
    ahead = syntax.Sequence(tuple(parts))
    written_out = syntax.Sequence((ahead, syntax.Alternation(orders)))
    permuted = syntax.Sequence((ahead, syntax.Permutation(tuple(parts))))
    assert words(bound_of(permuted)) == words(bound_of(written_out))


bodies = st.recursive(
    elements,
    lambda inner: st.one_of(
        st.builds(syntax.Sequence, st.tuples(inner, inner)),
        st.builds(syntax.Alternation, st.tuples(inner, inner)),
        st.builds(lambda body: syntax.Quantified(body, 1, 2), inner),
    ),
    max_leaves=2,
)


@given(bodies)
def test_nullable_is_having_the_empty_word(body):
    bound = bound_of(body)
    assert is_nullable(bound) == ("" in words(bound))


# -- Negation --


@pytest.mark.parametrize(
    "text",
    [
        "A Z* !X B",
        "A !X Z*? B",
        "A Z+ !X !Y B",
        "Z A Z* !X B",
        "(A Z{2,} !X B)+",
        "A ({- Z* -} !X | B)",
        "!X Z* A",
    ],
)
def test_negation_beside_a_gap_needs_no_strategy(text):
    bound = query(f"PATTERN ({text})")
    assert bound.symbols.index("X") >= 0


@pytest.mark.parametrize(
    "text",
    ["A !X B", "A Z{2} !X B", "(A Z)* !X B", "A Z* $ !X B", "A Z* (!X | B)", "!X A", "A !X"],
)
def test_negation_elsewhere_needs_a_strategy(text):
    with pytest.raises(QueryError, match="SEMANTICS SKIP TILL NEXT or SKIP TILL ANY"):
        query(f"PATTERN ({text})")


@pytest.mark.parametrize(
    "text", ["A !X B", "(A !X B)+", "A (!X B)? C", "A* B !X C", "A (!X | B) C", "^ A !X B $"]
)
@pytest.mark.parametrize("semantics", ["CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL ANY"])
def test_negation_between_two_symbols_needs_no_window(text, semantics):
    bound = query(f"PATTERN ({text}) SEMANTICS {semantics}")
    assert bound.within is None


@pytest.mark.parametrize("text", ["!X A", "A !X", "A !X B?", "A* !X B", "A (!X | B)", "!X"])
def test_negation_at_an_end_needs_a_window(text):
    with pytest.raises(QueryError, match="needs WITHIN"):
        query(f"PATTERN ({text}) SEMANTICS SKIP TILL ANY")
    assert query(f"PATTERN ({text}) SEMANTICS SKIP TILL ANY WITHIN 5").within == 5


@pytest.mark.parametrize("text", ["(A !X)+ B", "A (!X B)*", "A (B !X C?){2} D", "(A | !X)+ B"])
def test_negation_at_an_end_of_a_repeated_group_is_refused(text):
    with pytest.raises(QueryError, match="beginning or end of a repeated group"):
        query(f"PATTERN ({text}) SEMANTICS SKIP TILL ANY WITHIN 5")


def test_negation_keeps_its_place_and_number():
    bound = query("PATTERN (A !X B) SEMANTICS SKIP TILL NEXT DEFINE X AS x > A.x, B AS x = 1")
    assert bound.symbols == ("A", "X", "B")
    assert bound.pattern == Concat((A, Negation(1), C))
    assert bound.defines[0] is None
    assert bound.defines[1] is not None


@pytest.mark.parametrize(
    "condition", ["x > Z.x", "LAST(x, 1) > 0", "COUNT(*) > 1", "SUM(Z.x) > 1", "U.x > 1"]
)
def test_negated_condition_that_reads_its_gap_is_refused(condition):
    with pytest.raises(QueryError, match="rows that 'Z' may be mapped to is not supported"):
        query(f"PATTERN (A Z* !X B) SUBSET U = (A, Z) DEFINE X AS {condition}")


@pytest.mark.parametrize(
    "condition", ["x > A.x", "PREV(x) > X.x", "FIRST(x) > 0", "SUM(A.x) > 1", "CLASSIFIER() = 'X'"]
)
def test_negated_condition_reads_its_row_and_symbols_before(condition):
    assert len(query(f"PATTERN (A Z* !X B) DEFINE X AS {condition}").defines) == 4


def test_negated_condition_on_the_first_row_is_refused_where_the_gap_can_be_first():
    define = "DEFINE X AS x > FIRST(x)"
    assert query(f"PATTERN (A Z* !X B) {define}").defines[2] is not None
    for text in ("Z* !X A", "A? Z* !X B", "(Z* !X A)+", "B* (!X Z* A | B)"):
        with pytest.raises(QueryError, match="rows that 'Z' may be mapped to is not supported"):
            query(f"PATTERN ({text}) {define}")
