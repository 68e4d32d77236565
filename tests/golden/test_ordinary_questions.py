"""Everyday questions of six trades: each has an answer, and DuckDB alone gives the same.

Where a question has one of Chronicle's clauses, the answer of that part is what DuckDB is given.
"""

import datetime as dt
import re
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings, create_store
from chronicle.schema import normalise_schema
from datasets import crimes
from replay.language import parse_query
from replay.sql.apart import Apart, take_apart
from tests.helpers import commit_table

TEXT = Path(__file__).with_name("ordinary_questions.sql").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"^-- ([a-z ]+: .*)\n((?:(?!--).*\n)+)", TEXT, re.MULTILINE)
PARAMS = {"suspects": ["a3", "a5"], "least": 5}
DAY = dt.datetime(2024, 3, 1, 8)


def rows(seed: int, n: int, seconds: int, row) -> pa.Table:
    """Return events, a few seconds apart, of what ``row`` makes of chance."""
    random, ts, found = Random(seed), DAY, []
    for i in range(n):
        ts += dt.timedelta(seconds=random.randint(1, seconds))
        found.append({"ts": ts, **row(random, i)})
    return pa.Table.from_pylist(found)


def tick(random: Random, i: int) -> dict:
    price = 50 + random.randint(-20, 20) / 4
    return {
        "symbol": random.choice(["AAA", "BBB", "CCC"]),
        "price": price,
        "volume": random.randint(1, 9) * 100,
    }


def position(random: Random, i: int) -> dict:
    altitude = random.choice([900, 1500, 3100, 9000, 31000]) + random.randint(0, 200)
    plane = random.randint(0, 5)
    rate = random.choice([-800, -300, 0, 400, 1200])
    return {
        "icao24": f"3c{plane}",
        "callsign": f"DLH{plane}{plane}",
        "altitude": altitude,
        "vertical_rate": rate,
    }


def reading(random: Random, i: int) -> dict:
    temperature = random.gauss(70, 10)
    state = "failed" if temperature > 85 else "hot" if temperature > 75 else "ok"
    return {
        "machine": random.choice("XYZ"),
        "temperature": temperature,
        "vibration": random.random(),
        "state": state,
    }


def click(random: Random, i: int) -> dict:
    user = random.randint(1, 12)
    action = random.choice(["view", "view", "cart", "pay" if user < 10 else "view"])
    page = random.choice(["/", "/search", "/item"])
    referrer = random.choice([None, "https://a.example/x", "http://b.example/y"])
    return {"user_id": user, "page": page, "action": action, "referrer": referrer}


def payment(random: Random, i: int) -> dict:
    amount = random.choice([1, 1.5, 20, 100, 700, -30]) * random.randint(1, 3)
    kind = random.choice(["card", "transfer"])
    merchant = f"a{random.randint(1, 5)}" if kind == "transfer" else random.choice(["shop", "fuel"])
    country = random.choice(["DE", "DE", "FR"])
    return {
        "account": f"a{random.randint(1, 6)}",
        "merchant": merchant,
        "country": country,
        "amount": float(amount),
        "kind": kind,
    }


STREAMS = {
    "ticks": rows(1, 200, 120, tick),
    "flights": rows(2, 150, 90, position),
    "readings": rows(3, 200, 120, reading),
    "clicks": rows(4, 200, 900, click),
    "payments": rows(5, 200, 300, payment),
}
TABLES = {
    "neighborhoods": pa.table({
        "neighborhood": range(40),
        "name": [f"N{i}" for i in range(40)],
        "population": range(1000, 5000, 100),
    }),
    "companies": pa.table({"symbol": ["AAA", "BBB", "CCC"], "sector": ["tech", "tech", "oil"]}),
    "aircraft": pa.table({"icao24": ["3c0", "3c1", "3c2"], "operator": ["DLH", "DLH", "EWG"]}),
    "machines": pa.table({
        "machine": ["W", "X", "Y", "Z"], "hall": [1, 1, 2, 2], "limit_c": [80.0, 82.0, 84.0, 86.0],
    }),
    "users": pa.table({"user_id": range(1, 13), "plan": ["free", "paid", "free"] * 4}),
    "accounts": pa.table({
        "account": [f"a{i}" for i in range(1, 7)],
        "owner": list("UVWXYZ"),
        "home_country": ["DE", "FR"] * 3,
    }),
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Lend a store with the streams that the questions are about."""
    made = create_store(tmp_path_factory.mktemp("ordinary") / "store")
    found = crimes.to_usable(crimes.load()).slice(300_000, 20_000)
    streams = {"crimes": found.cast(normalise_schema(found.schema)), **STREAMS}
    for name, table in streams.items():
        commit_table(
            made.create_stream(name, table.schema, StreamSettings("ts", block_events=500)), table
        )
    return made


def by_duckdb(store: Store, apart: Apart) -> list[tuple]:
    """Return the answer of DuckDB alone, over the events and the answers of the cuts as tables."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for read in apart.reads:
            table = TABLES.get(read.name)
            if table is None:
                snapshot = store.stream(read.name).snapshot()
                table = pa.concat_tables(
                    snapshot.read_blocks([block], snapshot.schema.names)
                    for block in range(snapshot.n_blocks)
                )
            connection.register(read.relation, table)
        for cut in apart.cuts:
            assert cut.inputs == ()
            connection.register(
                cut.relation, replay.query(store, cut.query.text, tables=TABLES).table
            )
        params = {name: PARAMS[name] for name in apart.main.parameters}
        return connection.execute(apart.main.text, params).fetchall()


@pytest.mark.parametrize(("question", "sql"), QUESTIONS, ids=[name for name, _ in QUESTIONS])
def test_question_is_answered_as_duckdb_would(store, question, sql):
    sql = sql.strip().removesuffix(";")
    if question.endswith("(not answered)"):
        with pytest.raises(replay.QueryError, match="QUALIFY with GROUP BY ALL is not supported"):
            replay.query(store, sql)
        return
    found = replay.query(store, sql, tables=TABLES, params=PARAMS).table.to_pylist()
    assert found, question
    apart = None if is_ours(sql) else take_apart(sql)
    if isinstance(apart, Apart):
        assert [tuple(row.values()) for row in found] == by_duckdb(store, apart)


def is_ours(sql: str) -> bool:
    """Tell whether our language reads a question."""
    try:
        parse_query(sql)
    except replay.QueryError:
        return False
    return True


def test_there_are_questions_of_six_trades_of_which_one_in_twenty_may_go_unanswered():
    assert len({name.partition(":")[0] for name, _ in QUESTIONS}) == 6
    unanswered = [name for name, _ in QUESTIONS if name.endswith("(not answered)")]
    assert len(QUESTIONS) >= 60
    assert len(unanswered) * 20 <= len(QUESTIONS)
