"""What MATCH_RECOGNIZE is bound to: rows, symbols and aggregates that are read, and patterns."""

from __future__ import annotations

from itertools import permutations, product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import QueryError
from replay.language import bind, parse_query, syntax
from replay.language.bound import (
    CURRENT,
    MATCH_LAST,
    Aggregate,
    Alternate,
    Anchor,
    AnchorKind,
    Attribute,
    Call,
    Classifier,
    Concat,
    DataType,
    Edge,
    EdgeKind,
    Exclusion,
    Literal,
    MatchNumber,
    Negation,
    Pattern,
    Repeat,
    RowsPerMatch,
    Semantics,
    SkipMode,
    Symbol,
    TimedOut,
    is_nullable,
)
from replay.language.row_pattern_binder import bind_row_pattern, name_symbols
from replay.language.source import Source
from replay.language.syntax import Identifier

T = DataType
SCHEMA = pa.schema(
    {
        "t": pa.int64(),
        "x": pa.int64(),
        "y": pa.float64(),
        "name": pa.string(),
        "flag": pa.bool_(),
        "took": pa.duration("us"),
        "day": pa.date32(),
    }
)
X, Y = Attribute("x", T.INTEGER), Attribute("y", T.DOUBLE)
SUBSETS = "SUBSET U = (C, A), V = (A, B)"
"""Symbols are A, B, C with the numbers 0, 1, 2, so U is (0, 2)."""


def query(inside, *, select="*", schema=SCHEMA, order_by="t", after=""):
    text = f"SELECT {select} FROM s MATCH_RECOGNIZE (ORDER BY {order_by} {inside}) {after}"
    return bind(parse_query(text), schema, text=text)


def condition(text, symbol="B"):
    inside = f"PATTERN (A B C) {SUBSETS} DEFINE {symbol} AS {text}"
    bound = query(f"MEASURES MATCH_NUMBER() AS no {inside}")
    return bound.defines["ABC".index(symbol)]


def measure(text, rows=""):
    return query(f"MEASURES {text} AS m {rows} PATTERN (A B C) {SUBSETS}").measures[0].expression


def first(*symbols, offset=0, final=False):
    return Anchor(AnchorKind.FIRST, symbols or None, offset, final)


def last(*symbols, offset=0, final=False):
    return Anchor(AnchorKind.LAST, symbols or None, offset, final)


# -- Navigation --


@pytest.mark.parametrize(
    ("text", "anchor", "offset"),
    [
        ("x", CURRENT, 0),
        ("B.x", CURRENT, 0),
        ("LAST(B.x)", CURRENT, 0),
        ("LAST(x)", CURRENT, 0),
        ("A.x", last(0), 0),
        ("LAST(A.x)", last(0), 0),
        ("LAST(A.x, 0)", last(0), 0),
        ("FIRST(x)", first(), 0),
        ("FIRST(B.x)", first(1), 0),
        ("PREV(x)", CURRENT, -1),
        ("PREV(x, 0)", CURRENT, 0),
        ("NEXT(x)", CURRENT, 1),
        ("NEXT(FIRST(B.x))", first(1), 1),
        ("FIRST(A.x, 2)", first(0, offset=2), 0),
        ("LAST(A.x, 2)", last(0, offset=2), 0),
        ("FIRST(x, 1)", first(offset=1), 0),
        ("LAST(x, 1)", last(offset=1), 0),
        ("LAST(B.x, 1)", last(1, offset=1), 0),
        ("RUNNING LAST(A.x)", last(0), 0),
        ("U.x", last(0, 2), 0),
        ("LAST(U.x)", last(0, 2), 0),
        ("FIRST(U.x)", first(0, 2), 0),
        ("V.x", CURRENT, 0),
        ("LAST(V.x)", CURRENT, 0),
        ("LAST(V.x, 1)", last(0, 1, offset=1), 0),
        ("FIRST(V.x)", first(0, 1), 0),
        ("PREV(V.x)", CURRENT, -1),
        ("PREV(U.x, 2)", last(0, 2), -2),
        ("PREV(FIRST(A.x, 1), 2)", first(0, offset=1), -2),
        ("NEXT(RUNNING LAST(U.x, 3))", last(0, 2, offset=3), 1),
        ("PREV(LAST(x, 1), 0)", last(offset=1), 0),
    ],
)
def test_row_read_in_the_condition_of_b(text, anchor, offset):
    bound = condition(f"{text} = 1")
    assert bound.args[0] == Attribute("x", T.INTEGER, anchor, offset)


@pytest.mark.parametrize(
    ("text", "anchor", "offset"),
    [
        ("x", MATCH_LAST, 0),
        ("A.x", last(0), 0),
        ("FIRST(x)", first(), 0),
        ("PREV(x)", MATCH_LAST, -1),
        ("NEXT(FIRST(A.x), 2)", first(0), 2),
        ("U.x", last(0, 2), 0),
        ("LAST(x, 1)", last(offset=1), 0),
        ("FINAL LAST(x)", last(final=True), 0),
        ("FINAL FIRST(A.x, 2)", first(0, offset=2, final=True), 0),
        ("RUNNING FIRST(A.x)", first(0), 0),
        ("PREV(FINAL LAST(U.x, 1), 2)", last(0, 2, offset=1, final=True), -2),
    ],
)
def test_row_read_in_measures_of_all_rows(text, anchor, offset):
    assert measure(text, "ALL ROWS PER MATCH") == Attribute("x", T.INTEGER, anchor, offset)


def test_one_row_per_match_sees_all_rows_anyway():
    assert measure("FINAL LAST(A.x)") == measure("LAST(A.x)") == measure("RUNNING LAST(A.x)")
    assert measure("FINAL SUM(A.x)") == measure("SUM(A.x)", "ONE ROW PER MATCH")


def test_navigation_to_no_row_is_null_as_a_whole():
    there = Call(
        "not", (Call("is_null", (Attribute("t", T.INTEGER, CURRENT, -1),), T.BOOLEAN),), T.BOOLEAN
    )
    previous = Attribute("x", T.INTEGER, CURRENT, -1)
    value = Call("coalesce", (previous, Literal(0, T.INTEGER)), T.INTEGER)
    expected = Call("case", (there, value, Literal(None, T.INTEGER)), T.INTEGER)
    assert condition("PREV(COALESCE(x, 0)) = 1").args[0] == expected


@pytest.mark.parametrize(
    "text", ["PREV(x + 1)", "PREV(COALESCE(x, x * 2))", "PREV(ABS(x))", "LAST(COALESCE(x, 0))"]
)
def test_navigation_that_is_null_by_itself_or_stays_is_not_guarded(text):
    assert "case" not in {part.op for part in [condition(f"{text} = 1").args[0]]}
    assert "is_null" not in repr(condition(f"{text} = 1"))


def test_navigation_inside_a_condition_of_its_own():
    assert condition("COALESCE(PREV(x), 0) = 1").args[0].op == "coalesce"


# -- CLASSIFIER and MATCH_NUMBER --


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CLASSIFIER()", Literal("B", T.STRING)),
        ("CLASSIFIER(B)", Literal("B", T.STRING)),
        ("CLASSIFIER(V)", Literal("B", T.STRING)),
        ("LAST(CLASSIFIER())", Literal("B", T.STRING)),
        ("CLASSIFIER(A)", Classifier(anchor=last(0))),
        ("CLASSIFIER(U)", Classifier(anchor=last(0, 2))),
        ("LAST(CLASSIFIER(), 1)", Classifier(anchor=last(offset=1))),
        ("FIRST(CLASSIFIER(V))", Classifier(anchor=first(0, 1))),
        ("PREV(CLASSIFIER())", Classifier(anchor=CURRENT, offset=-1)),
        ("PREV(LAST(CLASSIFIER(U), 1), 3)", Classifier(anchor=last(0, 2, offset=1), offset=-3)),
    ],
)
def test_classifier_in_the_condition_of_b(text, expected):
    assert condition(f"name = {text}").args[1] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CLASSIFIER()", Classifier()),
        ("CLASSIFIER(B)", Classifier(anchor=last(1))),
        ("FINAL LAST(CLASSIFIER())", Classifier(anchor=last(final=True))),
        ("FIRST(CLASSIFIER(U), 1)", Classifier(anchor=first(0, 2, offset=1))),
    ],
)
def test_classifier_in_measures_of_all_rows(text, expected):
    assert measure(text, "ALL ROWS PER MATCH") == expected


def test_match_number():
    assert condition("MATCH_NUMBER() = x").args[0] == measure("MATCH_NUMBER()") == MatchNumber()


# -- Aggregates --


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COUNT(*)", Aggregate("count", None, None, T.INTEGER)),
        ("COUNT(A.*)", Aggregate("count", None, (0,), T.INTEGER)),
        ("COUNT(U.*)", Aggregate("count", None, (0, 2), T.INTEGER)),
        ("COUNT(1)", Aggregate("count", None, None, T.INTEGER)),
        ("COUNT(B.x)", Aggregate("count", X, (1,), T.INTEGER)),
        ("COUNT(DISTINCT x)", Aggregate("count", X, None, T.INTEGER, distinct=True)),
        ("SUM(A.x)", Aggregate("sum", X, (0,), T.INTEGER)),
        ("RUNNING SUM(V.y)", Aggregate("sum", Y, (0, 1), T.DOUBLE)),
        ("AVG(x)", Aggregate("avg", X, None, T.DOUBLE)),
        ("MIN(A.name)", Aggregate("min", Attribute("name", T.STRING), (0,), T.STRING)),
        ("MAX(day)", Aggregate("max", Attribute("day", T.DATE), None, T.DATE)),
        ("STDDEV(A.y)", Aggregate("stddev_samp", Y, (0,), T.DOUBLE)),
        ("VARIANCE(A.y)", Aggregate("var_samp", Y, (0,), T.DOUBLE)),
        ("MAX(CLASSIFIER())", Aggregate("max", Classifier(anchor=CURRENT), None, T.STRING)),
        ("MAX(CLASSIFIER(U))", Aggregate("max", Classifier(anchor=CURRENT), (0, 2), T.STRING)),
    ],
)
def test_aggregate_reads_rows_of_one_symbol(text, expected):
    assert measure(text) == expected
    assert measure(text, "ALL ROWS PER MATCH") == expected


def test_aggregate_of_the_whole_match_at_each_row_is_final():
    bound = measure("FINAL COUNT(A.*)", "ALL ROWS PER MATCH")
    assert bound == Aggregate("count", None, (0,), T.INTEGER, final=True)


def test_aggregate_in_define_looks_at_each_row_by_itself():
    bound = condition("x > SUM(B.x + B.x)")
    assert bound.args[1] == Aggregate("sum", Call("+", (X, X), T.INTEGER), (1,), T.INTEGER)
    named = condition("COUNT(CASE WHEN CLASSIFIER() = 'A' THEN x END) > 1").args[0]
    assert isinstance(named, Aggregate)
    assert "Classifier" in repr(named.argument)


def test_aggregates_of_conditions_are_written_with_others():
    flag = Attribute("flag", T.BOOLEAN)
    one, nothing = Literal(1, T.INTEGER), Literal(None, T.INTEGER)
    counted = Call("case", (flag, one, nothing), T.INTEGER)
    assert measure("COUNT_IF(A.flag)") == Aggregate("count", counted, (0,), T.INTEGER)
    every = measure("EVERY(A.flag)")
    assert (every.op, every.args[0].function, every.args[1]) == ("=", "min", one)
    assert measure("BOOL_AND(A.flag)") == every
    assert measure("BOOL_OR(A.flag)").args[0].function == "max"


def test_aggregate_beside_navigation_and_columns_of_other_symbols():
    bound = measure("SUM(A.x) + LAST(B.x) - COUNT(C.*)")
    assert bound.type is T.INTEGER


# -- Clauses --


def test_clauses_of_the_standard():
    bound = query(
        "MEASURES A.x AS m ALL ROWS PER MATCH OMIT EMPTY MATCHES AFTER MATCH SKIP TO FIRST U "
        f"PATTERN (A B C) {SUBSETS}",
        order_by="t, y, name",
    )
    assert bound.rows_per_match is RowsPerMatch.ALL_OMIT_EMPTY
    assert (bound.skip, bound.skip_to) == (SkipMode.TO_FIRST, (0, 2))
    assert bound.order_by == ("y", "name")
    assert bound.semantics is Semantics.SQL
    plain = query("MEASURES A.x AS m ALL ROWS PER MATCH AFTER MATCH SKIP TO B PATTERN (A B)")
    assert plain.rows_per_match is RowsPerMatch.ALL_SHOW_EMPTY
    assert (plain.skip, plain.skip_to) == (SkipMode.TO_LAST, (1,))


def test_extensions_in_any_order():
    tails = [
        "SEMANTICS SKIP TILL ANY WITHIN 5 WITH TIMEOUTS SUBSET U = (A, B)",
        "SUBSET U = (A, B) WITHIN 5 WITH TIMEOUTS SEMANTICS SKIP TILL ANY",
    ]
    one, other = (query(f"MEASURES U.x AS m PATTERN (A B) {tail}") for tail in tails)
    assert one == other
    assert (one.semantics, one.with_timeouts) == (Semantics.SKIP_TILL_ANY, True)


def test_columns_of_all_rows_in_the_order_of_the_standard():
    text = (
        "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY name ORDER BY t, day MEASURES A.x AS m "
        "ALL ROWS PER MATCH PATTERN (A))"
    )
    bound = bind(parse_query(text), SCHEMA, text=text)
    names = [source for source, _ in bound.output]
    assert names == ["name", "t", "day", "m", "x", "y", "flag", "took"]


def test_columns_of_all_rows_can_be_chosen():
    bound = query("MEASURES A.x AS m ALL ROWS PER MATCH PATTERN (A)", select="y AS z, m")
    assert bound.output == (("y", "z"), ("m", "m"))


def test_timeouts_add_a_last_column():
    inside = "MEASURES A.x AS m {} PATTERN (A B) SEMANTICS SKIP TILL NEXT WITHIN 5 WITH TIMEOUTS"
    one = query(inside.format(""))
    assert [name for _, name in one.output] == ["m", "timed_out"]
    assert one.measures[-1].expression == TimedOut()
    rows = query(inside.format("ALL ROWS PER MATCH"))
    assert [name for _, name in rows.output][-1] == "timed_out"
    with pytest.raises(QueryError, match="the stream has one of that name"):
        query(
            inside.format("ALL ROWS PER MATCH"),
            schema=SCHEMA.append(pa.field("timed_out", pa.bool_())),
        )


def test_names_that_are_keywords_elsewhere_stay_names():
    schema = pa.schema({"t": pa.int64(), "final": pa.int64(), "first": pa.int64()})
    bound = query(
        "MEASURES final AS running, LAST(first.final) AS last, first AS subset "
        "AFTER MATCH SKIP TO FIRST FIRST PATTERN (first permute seek) "
        "SUBSET within = (first, seek) DEFINE seek AS final > within.first",
        schema=schema,
    )
    assert bound.symbols == ("FIRST", "PERMUTE", "SEEK")
    assert [measure.name for measure in bound.measures] == ["running", "last", "subset"]
    assert bound.skip_to == (0,)


@pytest.mark.parametrize(
    ("skip", "symbol", "mode"),
    [
        ("last", "last", SkipMode.TO_LAST),
        ("first", "first", SkipMode.TO_LAST),
        ("FIRST pattern", "pattern", SkipMode.TO_FIRST),
        ('FIRST "LAST"', '"LAST"', SkipMode.TO_FIRST),
        ("LAST last", "last", SkipMode.TO_LAST),
    ],
)
def test_skip_to_symbols_with_awkward_names(skip, symbol, mode):
    bound = query(f"MEASURES x AS m AFTER MATCH SKIP TO {skip} PATTERN (A {symbol})")
    assert (bound.skip, bound.skip_to) == (mode, (1,))


def test_column_called_running_takes_an_alias():
    bound = query("MEASURES x AS running, y AS final PATTERN (A)", select="running total, final")
    assert bound.output == (("running", "total"), ("final", "final"))


A, B, C, D = (Symbol(i) for i in range(4))


def query_on(inside):
    return query(f"MEASURES MATCH_NUMBER() AS no {inside}")


def pattern(text, after=""):
    return query_on(f"PATTERN ({text}) {after}").pattern


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
        (
            "PERMUTE(A, B){2}",
            Repeat(Alternate((Concat((A, B)), Concat((B, A)))), 2, 2),
        ),
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
    bound = query_on(f"PATTERN ({text})")
    assert bound.symbols.index("X") >= 0


@pytest.mark.parametrize(
    "text",
    [
        "A !X B",
        "A Z{2} !X B",
        "(A Z)* !X B",
        "A Z* $ !X B",
        "A Z* (!X | B)",
        "!X A",
        "A !X",
    ],
)
def test_negation_elsewhere_needs_a_strategy(text):
    with pytest.raises(QueryError, match="SEMANTICS SKIP TILL NEXT or SKIP TILL ANY"):
        query_on(f"PATTERN ({text})")


@pytest.mark.parametrize(
    "text",
    [
        "A !X B",
        "(A !X B)+",
        "A (!X B)? C",
        "A* B !X C",
        "A (!X | B) C",
        "^ A !X B $",
    ],
)
@pytest.mark.parametrize("semantics", ["CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL ANY"])
def test_negation_between_two_symbols_needs_no_window(text, semantics):
    bound = query_on(f"PATTERN ({text}) SEMANTICS {semantics}")
    assert bound.within is None


@pytest.mark.parametrize("text", ["!X A", "A !X", "A !X B?", "A* !X B", "A (!X | B)", "!X"])
def test_negation_at_an_end_needs_a_window(text):
    with pytest.raises(QueryError, match="needs WITHIN"):
        query_on(f"PATTERN ({text}) SEMANTICS SKIP TILL ANY")
    assert query_on(f"PATTERN ({text}) SEMANTICS SKIP TILL ANY WITHIN 5").within == 5


@pytest.mark.parametrize("text", ["(A !X)+ B", "A (!X B)*", "A (B !X C?){2} D", "(A | !X)+ B"])
def test_negation_at_an_end_of_a_repeated_group_is_refused(text):
    with pytest.raises(QueryError, match="beginning or end of a repeated group"):
        query_on(f"PATTERN ({text}) SEMANTICS SKIP TILL ANY WITHIN 5")


def test_negation_keeps_its_place_and_number():
    bound = query_on("PATTERN (A !X B) SEMANTICS SKIP TILL NEXT DEFINE X AS x > A.x, B AS x = 1")
    assert bound.symbols == ("A", "X", "B")
    assert bound.pattern == Concat((A, Negation(1), C))
    assert bound.defines[0] is None
    assert bound.defines[1] is not None


@pytest.mark.parametrize(
    "condition", ["x > Z.x", "LAST(x, 1) > 0", "COUNT(*) > 1", "SUM(Z.x) > 1", "U.x > 1"]
)
def test_negated_condition_that_reads_its_gap_is_refused(condition):
    with pytest.raises(QueryError, match="rows that 'Z' may be mapped to is not supported"):
        query_on(f"PATTERN (A Z* !X B) SUBSET U = (A, Z) DEFINE X AS {condition}")


@pytest.mark.parametrize(
    "condition",
    ["x > A.x", "PREV(x) > X.x", "FIRST(x) > 0", "SUM(A.x) > 1", "CLASSIFIER() = 'X'"],
)
def test_negated_condition_reads_its_row_and_symbols_before(condition):
    assert len(query_on(f"PATTERN (A Z* !X B) DEFINE X AS {condition}").defines) == 4


def test_negated_condition_on_the_first_row_is_refused_where_the_gap_can_be_first():
    define = "DEFINE X AS x > FIRST(x)"
    assert query_on(f"PATTERN (A Z* !X B) {define}").defines[2] is not None
    for text in ("Z* !X A", "A? Z* !X B", "(Z* !X A)+", "B* (!X Z* A | B)"):
        with pytest.raises(QueryError, match="rows that 'Z' may be mapped to is not supported"):
            query_on(f"PATTERN ({text}) {define}")
