"""Law: a query by the rules of the standard binds, prints, and keeps its invariants."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from replay.language import bind, parse_query, to_sql
from replay.language.bound import (
    CURRENT,
    Aggregate,
    Anchor,
    Attribute,
    Classifier,
    RowsPerMatch,
    Symbol,
    pattern_parts,
    walk,
)

SCHEMA = pa.schema({"t": pa.int64(), "x": pa.int64(), "y": pa.float64(), "p": pa.string()})

QUALIFIERS = ["", "A.", "B.", "C.", "U."]
"""Symbols of every pattern below; U is a subset."""


def draws(*parts):
    """Return texts put together of texts and strategies."""
    strategies = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*strategies).map("".join)


def values(qualifier):
    """Return numbers computed from columns of one symbol, or of any."""
    columns = st.sampled_from([f"{qualifier}x", f"{qualifier}y"])
    names = f"CASE WHEN CLASSIFIER({qualifier[:-1]}) = 'A' THEN {qualifier}x ELSE 2 END"
    return st.one_of(
        columns,
        columns,
        st.just(names),
        draws("abs(", columns, " - 1)"),
        draws("COALESCE(", columns, ", 0)"),
    )


def with_one_symbol(build):
    return st.sampled_from(QUALIFIERS).flatmap(lambda qualifier: build(values(qualifier)))


offsets = st.sampled_from(["", ", 0", ", 1", ", 3"])


def navigations(scopes):
    logical = draws(scopes, st.sampled_from(["FIRST(", "LAST("]), "{}", offsets, ")")
    physical = st.sampled_from(["PREV(", "NEXT("])
    templates = st.one_of(
        logical, draws(physical, "{}", offsets, ")"), draws(physical, logical, offsets, ")")
    )
    return with_one_symbol(
        lambda value: st.builds(lambda template, v: template.format(v), templates, value)
    )


def aggregates(scopes):
    functions = st.sampled_from(
        ["COUNT(", "COUNT(DISTINCT ", "SUM(", "AVG(", "min(", "MAX(", "STDDEV(", "VAR_POP("]
    )
    stars = st.sampled_from(["COUNT(*)", "COUNT(A.*)", "count(U.*)"])
    of_values = with_one_symbol(lambda value: draws(functions, value, ")"))
    of_conditions = with_one_symbol(lambda value: draws("COUNT_IF(", value, " > 0)"))
    conditions = draws(scopes, st.sampled_from(["EVERY(", "BOOL_OR("]))
    return st.one_of(
        draws(scopes, st.one_of(stars, of_values, of_conditions)),
        with_one_symbol(lambda v: draws("CASE WHEN ", conditions, v, " > 0) THEN 1 END")),
    )


def numbers(scopes):
    reads = st.one_of(
        with_one_symbol(lambda value: value),
        navigations(scopes),
        aggregates(scopes),
        st.sampled_from(["1", "2.5", "MATCH_NUMBER()"]),
    )
    return st.one_of(reads, draws(reads, st.sampled_from([" + ", " * ", " / "]), reads))


plain = numbers(st.just(""))
measured = numbers(st.sampled_from(["", "RUNNING ", "FINAL "]))


@st.composite
def row_patterns(draw):
    def group(inner):
        quantifiers = st.sampled_from(["*", "+?", "?", "{2}", "{,3}?", "{1,}"])
        return st.one_of(
            draws(inner, " ", inner),
            draws("(", inner, " | ", inner, ")"),
            draws("(", inner, ")", quantifiers),
            draws("{- ", inner, " -}"),
            draws("PERMUTE(", inner, ", ", inner, ")"),
            draws("(^ ", inner, ")"),
            draws("(", inner, " $)"),
        )

    body = draw(st.recursive(st.sampled_from(["A", "B", "C", "()"]), group, max_leaves=5))
    return f"A B? C* {body}"


@st.composite
def queries(draw):
    pattern = draw(row_patterns())
    strategy = draw(st.sampled_from(["", "CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL ANY"]))
    rows = ["", "ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH OMIT EMPTY MATCHES"]
    if "{-" not in pattern and not strategy:
        rows.append("ALL ROWS PER MATCH WITH UNMATCHED ROWS")
    number = plain if not strategy else plain.filter(lambda text: "MATCH_NUMBER" not in text)
    skips = ["", "AFTER MATCH SKIP TO NEXT ROW", "AFTER MATCH SKIP TO LAST U"]
    lines = [
        draw(st.sampled_from(["", "PARTITION BY p"])),
        draw(st.sampled_from(["ORDER BY t", "ORDER BY t, y"])),
        f"MEASURES {draw(measured)} AS m, {draw(measured)} AS n, CLASSIFIER(U) AS c",
        draw(st.sampled_from(rows)),
        draw(st.sampled_from(skips)) if not strategy else "",
        f"PATTERN ({pattern})",
        f"SEMANTICS {strategy}" if strategy else "",
        "WITHIN 5",
        draw(st.sampled_from(["", "WITH TIMEOUTS"])) if strategy else "",
        "SUBSET U = (A, C)",
        f"DEFINE A AS {draw(number)} > {draw(number)}, B AS {draw(number)} < 1",
    ]
    return f"SELECT * FROM s MATCH_RECOGNIZE ({' '.join(line for line in lines if line)})"


@given(queries())
def test_query_by_the_rules_binds_and_prints(text):
    tree = parse_query(text)
    assert parse_query(to_sql(tree)) == tree
    bound = bind(tree, SCHEMA, text=text)
    all_rows = bound.rows_per_match is not RowsPerMatch.ONE
    conditions = [define for define in bound.defines if define is not None]
    measures = [measure.expression for measure in bound.measures]
    assert all(not part.final for part in scoped(conditions))
    assert all_rows or all(not part.final for part in scoped(measures))
    for anchor in (part for part in scoped([*conditions, *measures]) if isinstance(part, Anchor)):
        assert anchor.kind is not CURRENT.kind or anchor == CURRENT
    assert all(anchor_or_sum != CURRENT for anchor_or_sum in scoped(measures))
    mapped = {part.index for part in pattern_parts(bound.pattern) if isinstance(part, Symbol)}
    for part in scoped([*conditions, *measures]):
        assert part.symbols is None or set(part.symbols) <= mapped
        assert part.symbols is None or list(part.symbols) == sorted(set(part.symbols))


def scoped(expressions):
    """Return the anchors and aggregates of expressions, and check what stands in aggregates."""
    found = []
    for expression in expressions:
        inside = set()
        for part in walk(expression):
            if isinstance(part, Aggregate):
                found.append(part)
                arguments = [] if part.argument is None else list(walk(part.argument))
                assert not any(isinstance(inner, Aggregate) for inner in arguments)
                reads = [inner for inner in arguments if isinstance(inner, Attribute | Classifier)]
                assert all((read.anchor, read.offset) == (CURRENT, 0) for read in reads)
                inside.update(map(id, reads))
            elif isinstance(part, Attribute | Classifier) and id(part) not in inside:
                found.append(part.anchor)
    return found
