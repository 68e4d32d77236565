"""The query around MATCH_RECOGNIZE: what it binds to, and what is wrong with it where."""

from __future__ import annotations

import pytest

from replay.errors import BindError, NotSupportedError, PatternSyntaxError, QueryError
from replay.language import parse_query
from replay.language.bound import Aggregate, Attribute, Call, DataType, Literal, Outer, SortKey
from replay.language.outer_binder import bind_outer
from replay.language.query_printer import to_sql
from replay.language.source import Source

T = DataType
COLUMNS = (
    ("key", T.STRING),
    ("n", T.INTEGER),
    ("x", T.DOUBLE),
    ("took", T.INTERVAL),
    ("ok", T.BOOLEAN),
    ("at", T.TIMESTAMP),
    ("tags", None),
)
KEY, N, X = Attribute("key", T.STRING), Attribute("n", T.INTEGER), Attribute("x", T.DOUBLE)
TOOK, OK = Attribute("took", T.INTERVAL), Attribute("ok", T.BOOLEAN)
COUNT = Aggregate("count", None, None, T.INTEGER)
INSIDE = "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES n AS n PATTERN (A))"


def text_of(select, after=""):
    return f"SELECT {select} {INSIDE} {after}"


def bound(select, after="", columns=COLUMNS, **params):
    text = text_of(select, after)
    query = parse_query(text)
    assert parse_query(to_sql(query)) == query
    return bind_outer(query, columns, Source(text, params), ("t", "n", "speed"))


def outer_of(select, after="", **params) -> Outer:
    outer = bound(select, after, **params)[1]
    assert outer is not None
    return outer


def item(expression, **params):
    return outer_of(f"{expression} AS it", "OFFSET 0", **params).items[0][1]


def total(argument, function="sum", data_type=None, **more):
    return Aggregate(function, argument, None, data_type or argument.type, **more)


# ---------------------------------------------------------------------------------------------
# Plain columns need no outer query


def test_plain_columns_and_limit_are_left_to_the_inner_query():
    everything = tuple((name, name) for name, _ in COLUMNS)
    assert bound("*") == (everything, None, None)
    assert bound("*", "LIMIT 3") == (everything, None, 3)
    assert bound("*", "FETCH FIRST 3 ROWS ONLY") == (everything, None, 3)
    assert bound("*", "FETCH NEXT ROW ONLY") == (everything, None, 1)
    assert bound("*", "LIMIT ALL") == (everything, None, None)
    assert bound("m.*", "m LIMIT :k", k=2) == (everything, None, 2)
    assert bound("N, x AS y, N AS again") == ((("n", "n"), ("x", "y"), ("n", "again")), None, None)
    assert bound('m."n"', "AS m") == ((("n", "n"),), None, None)
    assert bound("tags") == ((("tags", "tags"),), None, None)


def test_star_stands_among_other_columns():
    output, outer, _ = bound("*, n AS again")
    assert outer is None
    assert output == (*((name, name) for name, _ in COLUMNS), ("n", "again"))


def test_only_columns_that_are_read_are_asked_of_the_inner_query():
    output, outer, limit = bound("x + 1", "WHERE n > 2 ORDER BY at")
    assert output == (("n", "n"), ("x", "x"), ("at", "at"))
    assert limit is None
    assert outer is not None
    assert bound("MAX(took)", "GROUP BY key")[0] == (("key", "key"), ("took", "took"))
    assert bound("COUNT(*)")[0] == (("key", "key"),)
    assert bound("COUNT(*)", columns=())[0] == ()


@pytest.mark.parametrize(
    ("after", "limit"),
    [
        ("LIMIT 3", 3),
        ("LIMIT 3 OFFSET 4", 7),
        ("OFFSET 4 ROWS FETCH FIRST 3 ROWS ONLY", 7),
        ("OFFSET 1 ROW FETCH FIRST 3 ROWS ONLY", 4),
        ("OFFSET 4", None),
        ("WHERE n > 1 LIMIT 3", None),
        ("ORDER BY n LIMIT 3", None),
    ],
)
def test_inner_query_stops_where_no_later_row_can_matter(after, limit):
    _, outer, found = bound("n + 1", after)
    assert found == limit
    assert outer is not None
    assert outer.limit == (None if after == "OFFSET 4" else 3)


def test_distinct_and_aggregates_need_every_row():
    assert bound("DISTINCT n", "LIMIT 2")[2] is None
    assert bound("COUNT(*)", "LIMIT 1")[2] is None


# ---------------------------------------------------------------------------------------------
# What clauses bind to


def test_clauses():
    outer = outer_of(
        "DISTINCT key AS k, COUNT(*) AS c",
        "AS m WHERE m.x > 0.5 GROUP BY key HAVING COUNT(*) > 1 "
        "ORDER BY c DESC NULLS FIRST, key ASC NULLS LAST LIMIT 5 OFFSET 2",
    )
    assert outer == Outer(
        items=(("k", KEY), ("c", COUNT)),
        where=Call(">", (X, Literal(0.5, T.DOUBLE)), T.BOOLEAN),
        group_by=(KEY,),
        having=Call(">", (COUNT, Literal(1, T.INTEGER)), T.BOOLEAN),
        order_by=(SortKey(COUNT, True, True), SortKey(KEY)),
        distinct=True,
        limit=5,
        offset=2,
    )


def test_unnamed_expressions_are_named_by_their_text():
    names = [name for name, _ in outer_of("COUNT(*), n+1, m.x", "m GROUP BY n, x").items]
    assert names == ["COUNT(*)", "n + 1", "x"]


def test_aggregates():
    assert item("COUNT(x)") == total(X, "count", T.INTEGER)
    assert item("count(DISTINCT key)") == total(KEY, "count", T.INTEGER, distinct=True)
    assert item("SUM(n)") == total(N)
    assert item("SUM(ALL took)") == total(TOOK)
    assert item("AVG(n)") == total(N, "avg", T.DOUBLE)
    assert item("AVG(took)") == total(TOOK, "avg")
    assert item("MIN(DISTINCT key)") == total(KEY, "min")
    assert item("MAX(at)").type is T.TIMESTAMP
    as_double = Call("cast", (N,), T.DOUBLE)
    assert item("STDDEV(n)") == total(as_double, "stddev_samp")
    assert item("VAR_POP(x)") == total(X, "var_pop")
    assert item("VARIANCE(x)") == total(X, "var_samp")
    assert item("SUM(NULL)") == total(Literal(None, T.DOUBLE))


def test_conditions_are_counted_with_other_aggregates():
    one, zero, none = (Literal(value, T.INTEGER) for value in (1, 0, None))
    counted = Call("case", (OK, one, none), T.INTEGER)
    assert item("COUNT_IF(ok)") == total(counted, "count")
    number = Call("case", (OK, one, Call("not", (OK,), T.BOOLEAN), zero, none), T.INTEGER)
    assert item("BOOL_AND(ok)") == Call("=", (total(number, "min"), one), T.BOOLEAN)
    assert item("EVERY(ok)") == item("BOOL_AND(ok)")
    assert item("BOOL_OR(ok)") == Call("=", (total(number, "max"), one), T.BOOLEAN)


def test_rows_are_one_group_where_something_is_aggregated():
    assert outer_of("COUNT(*)").group_by == ()
    assert outer_of("1 AS one", "HAVING TRUE").group_by == ()
    assert outer_of("1 AS one", "ORDER BY COUNT(*)").group_by == ()
    assert outer_of("n + 1", "ORDER BY n").group_by is None
    # The constant wins over the aggregate, which still makes it one row.
    assert outer_of("COUNT(*) > 1 AND FALSE AS no").group_by == ()


def test_group_by_takes_ordinals_and_names_of_select():
    doubled = Call("*", (N, Literal(2, T.INTEGER)), T.INTEGER)
    assert outer_of("n * 2 AS d, COUNT(*)", "GROUP BY 1").group_by == (doubled,)
    assert outer_of("n * 2 AS d, COUNT(*)", "GROUP BY d").group_by == (doubled,)
    # A column wins over a name of SELECT.
    assert outer_of("x AS n, COUNT(*)", "GROUP BY x, n").group_by == (X, N)
    assert outer_of("'all' AS k, COUNT(*)", "GROUP BY k").group_by == (Literal("all", T.STRING),)


def test_grouped_expressions_are_recognised_as_they_were_written():
    for select in ("n > 1", "NOT (n > 1)", "n > 1 AND COUNT(*) > 2", "(n > 1) = TRUE"):
        outer_of(f"{select} AS it", "GROUP BY n > 1")
    outer_of("n % 7 + 1 AS it, m.n % 7 AS that", "AS m GROUP BY N % 7")
    outer_of("MAX(n) - MIN(n) AS it", "GROUP BY key HAVING key > 'a' ORDER BY key, SUM(x) / 2")


def test_having_sees_names_of_select_unless_a_column_has_them():
    assert outer_of("key, SUM(n) AS s", "GROUP BY key HAVING s > 3").having == Call(
        ">", (total(N), Literal(3, T.INTEGER)), T.BOOLEAN
    )
    with pytest.raises(BindError, match="column 'n' is neither in GROUP BY"):
        bound("key, SUM(n) AS n", "GROUP BY key HAVING n > 3")


def test_order_by_sees_names_of_select_first():
    keys = outer_of("-n AS x, key AS k", "AS m ORDER BY x, m.x, 2, k, ABS(x), took").order_by
    negated = Call("neg", (N,), T.INTEGER)
    absolute = Call("abs", (negated,), T.INTEGER)
    assert [key.expression for key in keys] == [negated, X, KEY, KEY, absolute, TOOK]
    (inside,) = outer_of("SUM(n) AS x", "ORDER BY SUM(x)").order_by
    assert inside.expression == total(X)


def test_distinct_orders_by_what_is_selected():
    keys = outer_of("DISTINCT n, x + 1 AS y", "ORDER BY n * 2, x + 1, 2, y").order_by
    assert [key.expression.type for key in keys] == [T.INTEGER, T.DOUBLE, T.DOUBLE, T.DOUBLE]
    outer_of("DISTINCT key, COUNT(*) AS c", "GROUP BY key, n ORDER BY COUNT(*) + 1, c")


# ---------------------------------------------------------------------------------------------
# What is wrong, and where

# An @ stands before the place that the message names.
WRONG = [
    ("n", "WHERE @n", "WHERE must be BOOLEAN, and n is INTEGER"),
    ("n + 1 AS y", "WHERE @y > 1", "'y' is a name that SELECT gives, which WHERE does not see"),
    ("n + 1 AS y, @y + 1", "", "'y' is a name that SELECT gives, which SELECT does not see"),
    (
        "@n, COUNT(*)",
        "",
        "column 'n' is neither in GROUP BY nor inside an aggregate; add GROUP BY n, or write MAX",
    ),
    ("@x, COUNT(*)", "GROUP BY n", "neither in GROUP BY .*; add it to GROUP BY, or write MAX"),
    ("@*", "GROUP BY key", "column 'n' is neither in GROUP BY"),
    ("@n + x AS y", "GROUP BY n + 1", "column 'n' is neither in GROUP BY"),
    ("key", "GROUP BY key HAVING @x > 1", "column 'x' is neither in GROUP BY"),
    ("key", "GROUP BY key ORDER BY @x", "column 'x' is neither in GROUP BY"),
    ("key", "GROUP BY key, @SUM(n)", "GROUP BY looks at one row and cannot hold the aggregate"),
    ("@SUM(n) AS s", "GROUP BY s", "GROUP BY looks at one row and cannot hold the aggregate"),
    ("SUM(@COUNT(*))", "", r"SUM cannot hold another aggregate, COUNT\(\*\)"),
    ("n", "GROUP BY @2", "GROUP BY 2 names no column: SELECT has 1 column, numbered from 1"),
    ("n, x + 1", "ORDER BY @0", "ORDER BY 0 names no column: SELECT has 2 columns"),
    ("n + 1", "ORDER BY @1.5", "ORDER BY 1.5 names no column"),
    ("n + 1", "ORDER BY @'n'", "ORDER BY takes a column .*, and 'n' is a constant"),
    ("n", "GROUP BY 1 @+ 1", r"GROUP BY takes a column .*, and 1 \+ 1 is a constant"),
    ("DISTINCT n", "ORDER BY @x", "with SELECT DISTINCT, ORDER BY takes what is selected, and x"),
    ("DISTINCT key", "GROUP BY key ORDER BY @COUNT(*)", "with SELECT DISTINCT, ORDER BY takes"),
    ("n, @x AS n", "", "two columns of the answer are named 'n'; name one of them with AS"),
    ("*, @n", "", "two columns of the answer are named 'n'"),
    ("n + 1, @n + 1", "", r"two columns of the answer are named 'n \+ 1'"),
    ("@speed + 1", "", "attribute 'speed' is not part of the answer, which has one row per match"),
    ("@kye = 'x'", "", "no column of the answer called 'kye'; did you mean 'key'?"),
    ("@A.n + 1", "", "'A' does not name the result of MATCH_RECOGNIZE"),
    ("COUNT(@A.*)", "", "'A' does not name the result of MATCH_RECOGNIZE"),
    ("@z.*", "AS m", "'z' does not name .*, which has its alias 'm'"),
    ("@LAST(n)", "", "LAST belongs into MATCH_RECOGNIZE; name it in MEASURES"),
    ("@CLASSIFIER()", "", "CLASSIFIER belongs into MATCH_RECOGNIZE"),
    ("@MATCH_NUMBER()", "", "MATCH_NUMBER belongs into MATCH_RECOGNIZE"),
    ("@FINAL SUM(n)", "", "FINAL belongs into MATCH_RECOGNIZE"),
    ("@COUNT(DISTINCT *)", "", r"COUNT\(DISTINCT \*\) names no value"),
    ("@SUM(n, x)", "", "SUM takes one argument, not 2"),
    ("SUM(@key)", "", "SUM takes numbers or intervals, and key is STRING"),
    ("STDDEV(@took)", "", "STDDEV takes numbers, and took is INTERVAL"),
    ("COUNT_IF(@n)", "", "COUNT_IF takes a condition, and n is INTEGER"),
    ("@COUNT_IF(DISTINCT ok)", "", "COUNT_IF counts rows; it takes no DISTINCT"),
    ("COUNT(@tags)", "", "column 'tags' has a type that queries can only select"),
    ("n + 1", "LIMIT @n", "LIMIT takes a constant, not n"),
    ("n + 1", "OFFSET @1.5", "OFFSET takes a whole number from 0"),
]


@pytest.mark.parametrize(("select", "after", "message"), WRONG)
def test_mistake_is_named_where_it_is(select, after, message):
    with pytest.raises(BindError, match=message) as raised:
        bound(select.replace("@", ""), after.replace("@", ""))
    assert raised.value.column == text_of(select, after).index("@") + 1


NOT_YET = [
    ("MEDIAN(n)", "", "the aggregate MEDIAN is not supported yet"),
    ("SUM(n) OVER (ORDER BY at)", "", r"a window function \(OVER …\) is not supported yet"),
    ("DISTINCT ON (n) n", "", r"SELECT DISTINCT ON \(…\) is not supported yet"),
    ("key", "GROUP BY ALL", "GROUP BY ALL is not supported yet"),
    ("key", "GROUP BY ROLLUP (key)", "GROUP BY ROLLUP"),
    ("key", "GROUP BY GROUPING SETS ((key))", "GROUP BY GROUPING SETS"),
    ("n", "FETCH FIRST 2 ROWS WITH TIES", "FETCH … WITH TIES is not supported yet"),
    ("n", "UNION SELECT 1", r"UNION after MATCH_RECOGNIZE \(…\) is not supported yet"),
    ("n", "QUALIFY n > 1", "QUALIFY after MATCH_RECOGNIZE"),
]
NO_OUTER_QUERY = [
    ("n", "ORDER BY n GROUP BY n", "GROUP BY stands before ORDER BY"),
    ("n", "LIMIT 1 LIMIT 2", "LIMIT is given twice"),
    ("n", "LIMIT 1 FETCH FIRST ROW ONLY", "LIMIT and FETCH say the same"),
    ("n", "ORDER BY n NULLS", "expected LAST or FIRST after NULLS"),
    ("n", "ORDER n", "expected BY after ORDER"),
    ("* AS all", "", "stands for several columns and cannot take a name"),
    ("n,", "", "expected a column of the answer or \\*, found 'FROM'"),
    ("n 5", "", "expected ',' and a column, or FROM, found the number 5"),
]


@pytest.mark.parametrize(
    ("select", "after", "message", "error"),
    [
        *((*case, NotSupportedError) for case in NOT_YET),
        *((*case, PatternSyntaxError) for case in NO_OUTER_QUERY),
    ],
)
def test_what_is_not_there_yet_or_no_query_is_refused_by_name(select, after, message, error):
    with pytest.raises(error, match=message):
        bound(select, after)


def test_words_of_the_outer_query_are_still_names():
    columns = tuple((name, T.INTEGER) for name in ("distinct", "all", "order", "limit", "group"))
    output, outer, _ = bound("distinct, all, order, limit, group AS fetch", columns=columns)
    assert outer is None
    assert output[0] == ("distinct", "distinct")
    bound("COUNT(distinct)", "AS m", columns=columns)


def test_query_without_a_column_can_be_counted_but_not_selected():
    assert bound("COUNT(*) AS c", columns=())[1] is not None
    for select in ("*", "n", "n + 1", "MAX(n)"):
        with pytest.raises(QueryError, match="nothing to select"):
            bound(select, columns=())
