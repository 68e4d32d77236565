"""Which engine runs a statement, and where it is cut: decided by its text alone."""

import re
from contextlib import suppress
from random import Random

import duckdb
import pytest

from replay.errors import QueryError
from replay.language.functions import CLOCKS, FUNCTIONS, RANDOM
from replay.sql.apart import Apart, Ours, take_apart
from replay.sql.constructs import CALLABLE
from tests.test_docs import FENCES, is_ordinary
from tests.unit.sql.sql_cases import FALLS

BEYOND = [
    "SELECT LAG(t) OVER (ORDER BY t) AS l FROM s",
    "SELECT t FROM s WINDOW w AS (ORDER BY t)",
    "SELECT t FROM s QUALIFY rank() OVER (ORDER BY t) = 1",
    "SELECT t FROM s UNION ALL SELECT t FROM r",
    "SELECT t FROM s EXCEPT SELECT t FROM r",
    "SELECT t FROM s INTERSECT SELECT t FROM r",
    "SELECT t FROM s WHERE t IN (SELECT t FROM r)",
    "SELECT t FROM s WHERE EXISTS (SELECT 1 FROM r)",
    "SELECT (SELECT MAX(t) FROM r) AS m FROM s",
    "SELECT s.t FROM s JOIN r ON s.k = r.k",
    "SELECT s.t FROM s LEFT JOIN r USING (k)",
    "SELECT s.t FROM s FULL JOIN r ON s.k = r.k",
    "SELECT s.t FROM s CROSS JOIN r",
    "SELECT s.t FROM s, r",
    "SELECT * FROM 'f.parquet'",
    "SELECT * FROM (VALUES (1)) v(x)",
    "SELECT * FROM range(3)",
    "SELECT t::VARCHAR AS x FROM s",
    "SELECT CAST(t AS DECIMAL(9, 2)) AS x FROM s",
    "SELECT ARRAY_AGG(t) AS x FROM s",
    "SELECT COUNT(*) FILTER (WHERE t > 1) AS n FROM s",
    "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY t) AS m FROM s",
    "SELECT strftime(ts, '%H') AS h FROM s",
    "SELECT EXTRACT(CENTURY FROM ts) AS c FROM s",
    "SELECT t FROM s WHERE k SIMILAR TO 'a.*'",
    "SELECT t FROM s WHERE k ~ 'a.*'",
    "SELECT k, COUNT(*) AS n FROM s GROUP BY ALL",
    "SELECT k, COUNT(*) AS n FROM s GROUP BY ROLLUP (k)",
    "SELECT t FROM s ORDER BY ALL",
    "SELECT DISTINCT ON (k) t FROM s",
    "SELECT * EXCLUDE (k) FROM s",
    "SELECT * REPLACE (1 AS k) FROM s",
    "SELECT [t, 1] AS l FROM s",
    "SELECT {'a': t} AS l FROM s",
    "SELECT ts + INTERVAL 1 MONTH AS x FROM s",
    "SELECT t FROM s TABLESAMPLE 3 ROWS REPEATABLE (1)",
    "WITH RECURSIVE r AS (SELECT 1 AS n) SELECT n FROM r",
    "WITH r(n) AS (SELECT t FROM s) SELECT n FROM r",
    f"SELECT MEDIAN(top) AS m FROM s {FALLS}",
]


@pytest.mark.parametrize("sql", BEYOND)
def test_what_duckdb_adds_is_its(sql):
    assert isinstance(take_apart(sql), Apart)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t FORM s",
        "SELCT t FROM s",
        "SELECT t FROM s WERE t > 1",
        "SELECT lagg(t) FROM s",
        "SELECT lagg(t), EXTRACT(DAY FROM ts) AS d FROM s",
        "SELECT k FROM a JOIN b WITHIN 1 HOUR ON EXTRACT('hour' FROM b.ts) = a.k || 'x'",
        "SELECT t FROM s GROUP t",
        "SELECT t FROM s MATCH_RECOGNIZ (ORDER BY t)",
        "SELECT t, FROM s",
        "SELECT t FROM s ORDER t",
        "DROP TABLE s",
        "PIVOT s ON k",
        f"SELECT began FROM s {FALLS.replace('PATTERN', 'PATERN')}",
    ],
)
def test_a_typo_keeps_our_message(sql):
    assert take_apart(sql) is None


OURS = [
    fence.code
    for fence in FENCES
    if fence.language == "sql" and fence.reason is None and not is_ordinary(fence)
]


@pytest.mark.parametrize("sql", OURS)
def test_a_statement_of_our_language_has_nothing_for_duckdb(sql):
    assert take_apart(sql) is None


def cuts_of(sql: str) -> list[str]:
    apart = take_apart(sql)
    assert isinstance(apart, Apart)
    return [cut.query.text for cut in apart.cuts]


def test_the_largest_query_of_ours_with_a_clause_of_ours_is_cut_out():
    inner = f"SELECT symbol, COUNT(*) AS n FROM s {FALLS} WHERE top > 1 GROUP BY symbol"
    sql = f"SELECT n, LAG(n) OVER () AS l FROM ({inner}) AS x"
    [cut] = cuts_of(sql)
    assert cut.split() == inner.split()
    assert take_apart(sql).main.text == (
        "SELECT n, LAG(n) OVER () AS l FROM (SELECT * FROM chronicle_part_0) AS x"
    ).replace("(SELECT", "( SELECT")


def test_of_a_select_that_is_duckdbs_the_clause_alone_is_cut_out():
    apart = take_apart(f"SELECT strftime(began, '%H') AS h FROM s {FALLS} m WHERE top > :low")
    assert [cut.query.text.split() for cut in apart.cuts] == [f"SELECT * FROM s {FALLS}".split()]
    assert apart.main.text.startswith("SELECT strftime(began, '%H') AS h FROM chronicle_part_0 m")
    assert apart.main.text.endswith("WHERE top > $low")
    assert apart.main.parameters == {"low"}


def test_sides_of_union_are_cut_out_and_the_order_is_of_all():
    windows = "TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 5))"
    side = f"SELECT window_start, COUNT(*) AS n FROM {windows} GROUP BY window_start"
    apart = take_apart(f"{side} UNION ALL {side} ORDER BY 1 LIMIT 3")
    assert [cut.query.text.split() for cut in apart.cuts] == [side.split()] * 2
    assert apart.main.text == (
        "SELECT * FROM chronicle_part_0 UNION ALL SELECT * FROM chronicle_part_1 ORDER BY 1 LIMIT 3"
    )


def test_sources_are_found_wherever_they_stand():
    sql = """SELECT LAG(1) OVER () AS l
      FROM (TABLE a) x, LATERAL (SELECT 1 FROM b) y, (c JOIN d USING (k))
      WHERE 1 IN (TABLE e) AND EXISTS (FROM f) AND extract(hour FROM t) = 1 AND k IS DISTINCT FROM v
      AND 1 IN ((SELECT 1) UNION (TABLE k) EXCEPT SELECT 1 FROM ((SELECT 1) UNION FROM l) z)
      UNION ALL BY NAME FROM g UNION (SELECT 1 FROM h ORDER BY (SELECT 1 FROM i)) EXCEPT TABLE j"""
    assert [read.name for read in take_apart(sql).reads] == list("abcdefklghij")


def test_a_name_of_with_hides_the_stream_of_its_name():
    apart = take_apart(
        "WITH s AS (SELECT 1 AS t) SELECT t, LAG(t) OVER () AS l FROM S JOIN r USING (t)"
    )
    assert [read.name for read in apart.reads] == ["r"]


def test_a_query_of_with_that_is_ours_goes_into_the_cut():
    sql = f"WITH a AS (SELECT * FROM s WHERE price > 1) SELECT LAG(top) OVER () AS l FROM a {FALLS}"
    apart = take_apart(sql)
    assert apart.cuts[0].query.text.startswith("WITH a AS (SELECT * FROM s WHERE price > 1) SELECT")
    assert apart.cuts[0].inputs == ()


def test_one_that_is_not_is_answered_by_duckdb_first():
    sql = (
        f"WITH a AS (SELECT *, LAG(t) OVER () AS l FROM s) SELECT * FROM a {FALLS} WHERE [1] = [1]"
    )
    [cut] = take_apart(sql).cuts
    assert [one.name for one in cut.inputs] == ["a"]
    assert cut.inputs[0].query.text.endswith('SELECT * FROM "a"')
    assert cut.streams == ()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "SELECT LAG(1) OVER () FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 5))",
            "a query of its own",
        ),
        ("SELECT LAG(1) OVER () FROM a JOIN b WITHIN 3 ON a.k = b.k", "in a subquery of its own"),
        ("SELECT LAG(1) OVER () FROM a ASOF JOIN b ON a.t >= b.t", "in a subquery of its own"),
        ("CREATE STREAM x AS SELECT LAG(t) OVER () AS l FROM s", "CREATE STREAM of a statement"),
        ("SELECT random() AS r, LAG(1) OVER () AS l", "must not depend on chance"),
        ('SELECT "random"() AS r, LAG(1) OVER () AS l', "the clock or on chance"),
        ("SELECT CURRENT_DATE AS r, LAG(1) OVER () AS l", "must not depend on the clock"),
        ("SELECT LAG(1) OVER () FROM s TABLESAMPLE 10%", "REPEATABLE (1)"),
        (
            "SELECT LAG(1) OVER () FROM s TABLESAMPLE 1%, r TABLESAMPLE 1% REPEATABLE (1)",
            "REPEATABLE (1)",
        ),
        ("SELECT LAG(1) OVER () FROM read_csv('x.csv')", "the table function read_csv"),
        ("SELECT LAG(1) OVER () FROM query('SELECT 1')", "the table function query"),
        ("SELECT LAG(1) OVER (), read_text('x')", "a file is named in FROM"),
        ("SELECT LAG(1) OVER (), getenv('HOME')", "no function 'getenv'"),
        ("SELECT LAG(1) OVER () FROM information_schema.tables", "no stream 'information_schema"),
        ("WITH x AS (INSERT INTO t VALUES (1)) SELECT LAG(1) OVER () FROM x", "begins with SELECT"),
        ("SELECT LAG(1) OVER (); SELECT 2", "one statement at a time"),
        ("SELECT LAG(1) OVER () FROM chronicle_part_0", "Chronicle's own"),
        ("SELECT day_of_week(t), LAG(1) OVER () FROM s", "write isodow(ts)"),
        ("SELECT :a, ?, LAG(1) OVER ()", "not both"),
        ("SELECT $$a$$, LAG(1) OVER ()", "the name of a parameter"),
        (r"SELECT [1] AS k, E'\'', random() AS r, 'x' --'", "a text with escapes"),
        ("SELECT LAG(1) OVER (", "is not closed"),
        ("SELECT LAG(1) OVER () FROM s MATCH_RECOGNISE (ORDER BY t)", "did you mean"),
        ("SELECT LAG(1) OVER () FROM TABLE(TUMBEL(TABLE s, DESCRIPTOR(t), 5))", "'TUMBLE'"),
        (f"SELECT {'(' * 151}1{')' * 151}, LAG(1) OVER ()", "over 150 levels deep"),
    ],
)
def test_what_neither_may_answer_is_refused_with_its_place(sql, said):
    with pytest.raises(QueryError, match=re.escape(said)) as caught:
        take_apart(sql)
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("sql", "all_columns"),
    [
        ("SELECT COLUMNS('p.*') FROM s", True),
        ("SELECT t FROM s NATURAL JOIN r", True),
        ("SELECT DISTINCT ON (k) * FROM s", True),
        ("WITH a AS (SELECT 1::INT AS x) FROM s", True),
        ("SELECT 1 EXCEPT FROM s", True),
        ("SELECT 1 INTERSECT TABLE s", True),
        ("SELECT s FROM s, r", True),
        ("SELECT a.* FROM s a, r", True),
        ("SELECT DISTINCT ON (k) t FROM s", False),
        ("SELECT COUNT(*), (t) * t FROM s, r", False),
    ],
)
def test_columns_that_are_read_without_their_names_are_known_to_be(sql, all_columns):
    assert ("*" in take_apart(sql).words) == all_columns


def test_parameters_are_written_as_each_engine_does():
    sql = f"SELECT x[1:n], $low AS a FROM s {FALLS.replace('price <', ':up <')} WHERE [:low] = [1]"
    apart = take_apart(sql)
    assert "x[1 :n]".replace(" ", "") in apart.main.text.replace(" ", "")
    assert ":up <" in apart.cuts[0].query.text
    assert isinstance(take_apart("SELECT t FROM s WHERE t > $low"), Ours)
    assert take_apart("SELECT t FROM s WHERE t > ? AND k = ?").query.parameters == {"_0", "_1"}


@pytest.mark.parametrize("seed", range(20))
def test_whatever_stands_there_is_taken_apart_or_refused_in_a_sentence(seed):
    random = Random(seed)
    words = [re.findall(r"\w+|'[^']*'|\S", sql) for sql in BEYOND]
    for _ in range(25):
        chosen = list(random.choice(words))
        for _ in range(3):
            i = random.randrange(len(chosen) or 1)
            other = random.choice(random.choice(words))
            chosen[i : i + random.randint(0, 1)] = [other][: random.randint(0, 1)]
        with suppress(QueryError):
            take_apart(" ".join(chosen[: random.randint(1, 60)]))


def test_functions_that_may_be_called_give_the_same_for_the_same():
    """Of DuckDB's catalog: none reads the clock, chance, a file or a setting."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT lower(function_name), bool_or(stability <> 'CONSISTENT')"
            " FROM duckdb_functions()"
            " WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro') GROUP BY 1"
        ).fetchall()
    found = dict(rows)
    syntax = {"coalesce", "ifnull"}
    assert sorted(CALLABLE - found.keys() - syntax) == []
    assert sorted(name for name in CALLABLE if found.get(name)) == []
    assert not CALLABLE & {word.lower() for word in CLOCKS | RANDOM}
    assert not {
        name for name in CALLABLE if re.match("read_|pg_|current_|query|getenv|sleep", name)
    }
    assert FUNCTIONS.keys() & CALLABLE


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("m.began >= TIMESTAMP '2020-01-01'", "began >= TIMESTAMP '2020-01-01'"),
        ("began < '2020-01-01 12:00:00.5'", "began < TIMESTAMP '2020-01-01 12:00:00.5'"),
        (
            "top > 3 AND M.began BETWEEN '2020-01-01' AND '2020-01-02' AND (top < 9 OR top > 11)",
            "began BETWEEN TIMESTAMP '2020-01-01' AND TIMESTAMP '2020-01-02'",
        ),
        ("began > '2020-01-01' GROUP BY ALL", "began > TIMESTAMP '2020-01-01'"),
        ("began > '2020-01-01' OR top > 3", None),
        ("CASE WHEN top > 3 AND began > '2020-01-01' AND top < 9 THEN true END", None),
        ("NOT began > '2020-01-01'", None),
        ("began > TIMESTAMP '2020-01-01' AT TIME ZONE 'America/Chicago'", None),
        ("began > '2020-01-01 12:00:00.1234567'", None),
        ("began > 'yesterday'", None),
        ("began + INTERVAL 1 DAY > '2020-01-01'", None),
        ("other.began > '2020-01-01'", None),
        ("top BETWEEN 1 AND began AND '2020-01-01' > began", None),
    ],
)
def test_a_cut_is_told_of_bounds_of_time_around_it(where, told):
    (cut,) = take_apart(f"SELECT LAG(top) OVER () AS l FROM s {FALLS} AS m WHERE {where}").cuts
    assert "WHERE" not in cut.query.text
    assert (cut.bounds and cut.bounds.query.text.partition(" WHERE ")[2]) == told


@pytest.mark.parametrize(
    "source",
    [
        f"s {FALLS} AS m(began, bottom, top)",
        f"s {FALLS} AS m, r",
        f"s {FALLS} AS m JOIN r ON r.t = m.top",
        f"r LEFT JOIN s {FALLS} AS m ON r.t = m.top",
    ],
)
def test_bounds_on_renamed_columns_and_of_several_sources_are_left_to_duckdb(source):
    sql = f"SELECT LAG(top) OVER () AS l FROM {source} WHERE began > '2020-01-01'"
    assert all(cut.bounds is None for cut in take_apart(sql).cuts)
