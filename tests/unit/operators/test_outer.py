"""The outer query, evaluated at once and in pieces: laws against plain Python, cases by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import QueryError
from replay.expressions.columns import Values
from replay.expressions.scalars import Faults
from replay.expressions.types import to_data_type
from replay.language import bind_query, parse_query
from replay.language.bound import BoundSelect, Outer
from replay.language.outer_binder import bind_outer
from replay.language.source import Source
from replay.operators import outer_pieces
from replay.operators.grouping import group_rows
from replay.operators.outer import apply_outer
from replay.operators.outer_pieces import OuterOperator, run_through

SCHEMA = pa.schema(
    {
        "key": pa.string(),
        "n": pa.int64(),
        "x": pa.float64(),
        "ok": pa.bool_(),
        "took": pa.duration("us"),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
    }
)
INT64 = 2**63


def bound(sql, schema=SCHEMA):
    select, _, after = sql.partition(" | ")
    text = f"SELECT {select} FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN (A)) AS m {after}"
    columns = tuple((field.name, to_data_type(field.type)) for field in schema)
    _, outer, _ = bind_outer(parse_query(text), columns, Source(text, {}))
    assert outer is not None
    return outer


def ask(rows, sql, faults=None):
    """Answer ``<select> | <clauses after the alias>`` on rows; the answer as rows of values."""
    table = rows if isinstance(rows, pa.Table) else table_of(rows)
    counted = Faults()
    answer = apply_outer(table, bound(sql, table.schema), counted)
    if faults is not None:
        assert counted.count == faults
    return [tuple(row.values()) for row in answer.to_pylist()]


def table_of(rows):
    """Return the rows in two chunks, as the answers of MATCH_RECOGNIZE may come."""
    half = len(rows) // 2
    parts = [pa.Table.from_pylist(part, schema=SCHEMA) for part in (rows[:half], rows[half:])]
    return pa.concat_tables(parts)


def same(left, right):
    """Whether answers are equal, NaN being equal to NaN and 0.0 different from -0.0."""
    return repr(left) == repr(right)


keys = st.none() | st.sampled_from(["a", "b", "", "é", "z"])
ints = st.none() | st.integers(-3, 3) | st.sampled_from([INT64 - 1, -INT64])
doubles = st.none() | st.sampled_from([0.0, -0.0, 0.1, 0.2, 1e16, -1e16, 2.5, math.inf, math.nan])
rows_of_answers = st.lists(
    st.fixed_dictionaries({"key": keys, "n": ints, "x": doubles, "ok": st.none() | st.booleans()}),
    max_size=12,
)
law = settings(max_examples=60, deadline=None)


def group_key(*values):
    """Equal for rows of one group."""
    return tuple("nan" if v is not None and v != v else (v,) for v in values)


def grouped(rows, *names):
    groups = {}
    for row in rows:
        groups.setdefault(group_key(*(row[name] for name in names)), []).append(row)
    return list(groups.values())


def known(rows, name):
    return [row[name] for row in rows if row[name] is not None]


def total(values):
    """Return the exact sum, of doubles rounded once; NaN and the infinities as IEEE has them."""
    if not values:
        return None
    if isinstance(values[0], int):
        return sum(values)
    infinities = sum(value for value in values if not math.isfinite(value))
    return infinities or float(sum(Fraction(value) for value in values if math.isfinite(value)))


def column_of_sums(sums):
    """Return whole numbers as a column has them: all DECIMAL where one has more than 64 bits."""
    fits = all(number is None or -INT64 <= number < INT64 for number in sums)
    return [number if fits or number is None else Decimal(number) for number in sums]


# ---------------------------------------------------------------------------------------------
# Filter, project, cut


def test_plain_columns_keep_their_type_and_others_take_the_expression_s():
    schema = pa.schema({"n": pa.int16(), "key": pa.dictionary(pa.int32(), pa.string())})
    table = pa.table({"n": [1, None], "key": ["a", None]}, schema=schema)
    outer = bound("n, n + 1 AS m, key AS k, 'c' AS c, NULL AS nothing, TRUE AS yes", schema)
    answer = apply_outer(table, outer, Faults())
    assert answer.schema.names == ["n", "m", "k", "c", "nothing", "yes"]
    assert answer.schema.types[0] == pa.int16()
    assert answer.schema.types[1] == pa.int64()
    assert answer.to_pylist() == [
        {"n": 1, "m": 2, "k": "a", "c": "c", "nothing": None, "yes": True},
        {"n": None, "m": None, "k": None, "c": "c", "nothing": None, "yes": True},
    ]


def test_a_fault_is_counted_once_per_row_of_each_expression():
    rows = [{"n": 1}, {"n": 0}, {"n": 0}]
    assert ask(rows, "1 / n AS a, 1 / n AS b | ORDER BY 1 / n", faults=2) == [
        (1, 1),
        (None, None),
        (None, None),
    ]
    assert ask(rows, "1 / n AS a | LIMIT 2", faults=1) == [(1,), (None,)]


# ---------------------------------------------------------------------------------------------
# Groups


@law
@given(rows_of_answers)
def test_groups_come_in_order_of_first_appearance_with_their_aggregates(rows):
    groups = grouped(rows, "key", "x")
    sums = column_of_sums([total(known(group, "n")) for group in groups])
    expected = [
        (
            group[0]["key"],
            group[0]["x"],
            len(group),
            len(known(group, "n")),
            of_n,
            total(known(group, "x")),
            min(known(group, "n"), default=None),
            max((x + 0.0 for x in known(group, "x") if x == x), default=None),
        )
        for group, of_n in zip(groups, sums, strict=True)
    ]
    sql = "key, x, COUNT(*), COUNT(n), SUM(n), SUM(x), MIN(n), MAX(x) | GROUP BY key, x"
    assert same(ask(rows, sql), expected)


@pytest.mark.parametrize(
    ("keys", "groups"),
    [
        ([], []),
        ([3], [0]),
        ([-(2**63), -1, -1, 2**63 - 1], [0, 1, 1, 2]),  # ascending, farther apart than 64 bits tell
        ([5, 5, 4, 5], [0, 0, 1, 0]),
    ],
)
def test_rows_that_come_by_group_are_numbered_as_others_are(
    keys: list[int], groups: list[int]
) -> None:
    found = group_rows([Values(np.array(keys, np.int64), None)], len(keys))
    assert found.of_row.tolist() == groups
    assert found.first_rows.tolist() == [groups.index(g) for g in range(found.n_groups)]
    assert found.n_groups == len(set(groups))


@law
@given(rows_of_answers)
def test_conditions_are_counted_and_joined(rows):
    values = known(rows, "ok")
    (found,) = ask(rows, "COUNT_IF(ok), BOOL_AND(ok), EVERY(ok), BOOL_OR(ok)")
    every = all(values) if values else None
    assert found == (sum(values), every, every, any(values) if values else None)


@law
@given(rows_of_answers)
def test_one_table_and_many_chunks_or_a_dictionary_give_the_same(rows):
    table = table_of(rows)
    sql = "key, MIN(LOWER(key)), COUNT(*), SUM(x) | WHERE key > '' GROUP BY key ORDER BY key"
    whole = ask(table.combine_chunks(), sql)
    encoded = table.set_column(0, "key", table.column("key").dictionary_encode())
    assert same(whole, ask(table, sql))
    assert same(whole, ask(encoded, sql))


def test_aggregates_of_no_row_are_zero_and_null():
    sql = "COUNT(*), COUNT(n), SUM(n), AVG(x), MIN(key), MAX(at), STDDEV(x), BOOL_AND(ok)"
    nothing = (0, 0, None, None, None, None, None, None)
    assert ask([], sql) == [nothing]
    assert ask([{"n": None}], sql.replace("COUNT(*), ", "")) == [nothing[1:]]
    assert ask([], sql + " | GROUP BY key") == []


def test_times_texts_and_intervals_are_aggregated():
    table = pa.table(
        {
            "key": ["b", "é", "a", None],
            "n": [1, 1, 2, 2],
            "x": [0.0] * 4,
            "ok": [True, False, None, True],
            "took": pa.array([1, 2, 10, None], pa.int64()).cast(pa.duration("us")),
            "at": pa.array([5, None, 3, 4], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "day": pa.array([7, 8, None, None], pa.int32()).cast(pa.date32()),
        },
        schema=SCHEMA,
    )
    sql = "n, MIN(key), MAX(key), SUM(took), MIN(at), MAX(day), MIN(ok), MAX(ok) | GROUP BY n"
    answer = apply_outer(table, bound(sql), Faults())
    types = [pa.int64(), pa.string(), pa.string(), pa.duration("us"), pa.timestamp("us", "UTC")]
    assert answer.schema.types == [*types, pa.date32(), pa.bool_(), pa.bool_()]
    numbers = answer.set_column(3, "sum", answer.column(3).cast(pa.int64()))
    numbers = numbers.set_column(4, "min", answer.column(4).cast(pa.int64()))
    numbers = numbers.set_column(5, "max", answer.column(5).cast(pa.int32()))
    assert [tuple(row.values()) for row in numbers.to_pylist()] == [
        (1, "b", "é", 3, 5, 8, False, True),
        (2, "a", "a", 10, 3, None, True, True),
    ]


def test_groups_by_expressions_are_filtered_ordered_and_cut():
    rows = [{"key": k, "n": n} for k, n in zip("aabbcc", (1, 2, 3, 40, 5, 61), strict=True)]
    sql = """n % 2 = 0 AS even, SUM(n) + 1 AS s, MAX(key) | GROUP BY n % 2 = 0
        HAVING COUNT(*) > 1 ORDER BY s DESC LIMIT 5"""
    assert ask(rows, sql) == [(False, 71, "c"), (True, 43, "b")]
    assert ask(rows, "NOT (n > 4) AS small, COUNT(*) | GROUP BY n > 4 ORDER BY 1") == [
        (False, 3),
        (True, 3),
    ]
    assert ask(rows, "key, n > 2 AND key > 'a' AS b, COUNT(*) | GROUP BY 1, 2 HAVING b") == [
        ("b", True, 2),
        ("c", True, 2),
    ]
    assert ask(rows, "key, SUM(n) AS s | GROUP BY key HAVING s > 10 ORDER BY MIN(n) DESC") == [
        ("c", 66),
        ("b", 43),
    ]
    assert ask(rows, "DISTINCT COUNT(*) AS c | GROUP BY key ORDER BY c") == [(2,)]
    assert ask(rows, "COUNT(*) | HAVING COUNT(*) > 6") == []
    assert ask(rows, "'all' AS what | HAVING COUNT(*) = 6") == [("all",)]


def test_the_first_row_of_a_group_says_which_zero_is_shown():
    rows = [{"x": -0.0}, {"x": 0.0}, {"x": math.nan}, {"x": -math.nan}, {"x": None}]
    assert same(ask(rows, "x, COUNT(*) | GROUP BY x"), [(-0.0, 2), (math.nan, 2), (None, 1)])


def test_names_of_columns_do_not_clash_with_those_of_groups():
    schema = pa.schema({"#0#": pa.int64(), "##0#": pa.int64()})
    table = pa.table({"#0#": [1, 1, 2], "##0#": [4, 5, 6]}, schema=schema)
    assert ask(table, '"#0#" + 0, SUM("##0#"), "#0#" | GROUP BY "#0#"') == [(1, 9, 1), (2, 6, 2)]


# ---------------------------------------------------------------------------------------------
# Counting without rows


def answer_count(outer: Outer, count: int, faults: Faults) -> pa.Table:
    """Return the answer over rows of which only is told how many there are."""
    return apply_outer(pa.table({"": pa.nulls(0)}), outer, faults, lambda *_: [count])


@pytest.mark.parametrize("n_rows", [0, 5])
@pytest.mark.parametrize(
    "sql",
    [
        "COUNT(*)",
        "COUNT(*) AS c, COUNT(*) * 2 + 1 AS d",
        "COUNT(*) | HAVING COUNT(*) > 3",
        "COUNT(*) | LIMIT 0",
        "10 / COUNT(*)",
        "'many' AS what | HAVING COUNT(*) > 3",
    ],
)
def test_answer_from_the_count_is_the_answer_from_the_rows(sql, n_rows):
    table = pa.table({"n": range(n_rows)})
    by_rows, by_count = Faults(), Faults()
    outer = bound(sql, table.schema)
    expected = apply_outer(table, outer, by_rows)
    assert answer_count(outer, n_rows, by_count) == expected
    assert apply_outer(table.select([]), outer, Faults()) == expected
    assert by_rows.count == by_count.count


def test_rows_without_columns_are_still_rows():
    table = pa.table({"n": range(3)})
    for sql, expected in (("1 AS one | WHERE 1 = 1", 3), ("1 AS one | WHERE 1 = 2", 0)):
        outer = bound(sql, table.schema)
        assert apply_outer(table.select([]), outer, Faults()).num_rows == expected


def test_count_that_no_integer_holds_is_a_decimal_or_says_that_it_is_too_large():
    outer, faults = bound("COUNT(*) AS c"), Faults()
    assert answer_count(outer, 2**63 - 1, faults).to_pylist() == [{"c": 2**63 - 1}]
    assert faults.count == 0
    assert answer_count(outer, 2**63, faults).to_pylist() == [{"c": Decimal(2**63)}]
    assert answer_count(bound("COUNT(*) AS c | ORDER BY c"), 10**75, faults).num_rows == 1
    assert faults.count == 0
    with pytest.raises(QueryError, match="77 digits"):
        answer_count(outer, 10**76, faults)
    with pytest.raises(QueryError, match="can be selected alone"):
        answer_count(bound("COUNT(*) + 1 AS c"), 2**63, faults)


NARROW = pa.schema([("t", pa.int64()), ("x", pa.float64()), ("s", pa.string())])


def outer_of(clauses: str) -> Outer:
    sql = clauses.replace("…", "FROM s")
    bound = bind_query(parse_query(sql), lambda _: (NARROW, "t"), text=sql)
    assert isinstance(bound, BoundSelect)
    return bound.outer


def pieces(n: int, each: int) -> list[pa.Table]:
    drawn = random.Random(n)
    values = (None, math.nan, -math.inf, -0.0, 0.0, 1.5, 2.5, 3.5)
    rows = [
        {"t": t, "x": drawn.choice(values), "s": drawn.choice((None, "", "a", "b"))}
        for t in range(n)
    ]
    table = pa.Table.from_pylist(rows, schema=NARROW)
    return [table.slice(at, each) for at in range(0, n, each)]


def test_a_limited_order_keeps_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer_pieces, "KEPT_ROWS_MIN", 8)
    operator = OuterOperator(outer_of("SELECT t … ORDER BY x DESC LIMIT 2"))
    for part in pieces(1000, 10):
        assert list(operator.push(part)) == []
        assert operator._rows._n_rows < 20  # type: ignore[union-attr]
    assert operator.needs_end
    assert [table.num_rows for table in operator.finish()] == [2]


def test_rows_go_out_as_they_come_until_there_are_enough() -> None:
    def endless() -> Iterator[pa.Table]:
        yield from pieces(40, 10)
        raise AssertionError("asked for more than it needs")

    query = outer_of("SELECT t + 1 AS u … WHERE t >= 5 LIMIT 20 OFFSET 2")
    tables = list(run_through(OuterOperator(query), endless()))

    assert [table.num_rows for table in tables] == [3, 10, 7]
    assert pa.concat_tables(tables).column("u").to_pylist() == list(range(8, 28))


def test_distinct_gives_each_row_when_it_is_new() -> None:
    operator = OuterOperator(outer_of("SELECT DISTINCT s … LIMIT 3"))
    given = []
    for part in pieces(100, 10):
        given += [row for table in operator.push(part) for row in table.to_pylist()]
        if operator.is_done:
            break
    assert len(given) == 3
    assert not operator.needs_end


@pytest.mark.parametrize("clauses", ["LIMIT 0", "ORDER BY x LIMIT 0"])
@pytest.mark.parametrize("head", ["SELECT t", "SELECT DISTINCT t"])
def test_no_row_wanted_is_an_answer_with_its_columns(head: str, clauses: str) -> None:
    head = head if "x" not in clauses or "DISTINCT" not in head else "SELECT DISTINCT x AS t"
    query = outer_of(f"{head} … {clauses}")
    answer = pa.concat_tables(run_through(OuterOperator(query), pieces(30, 10)))
    assert (answer.num_rows, answer.column_names) == (0, ["t"])
