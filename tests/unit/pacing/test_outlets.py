"""Rows that leave Chronicle one piece after the other."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from replay.errors import QueryError
from replay.pacing.outlets import KafkaOutlet, open_outlet

SCHEMA = pa.schema(
    {"t": pa.timestamp("us", "UTC"), "k": pa.string(), "x": pa.float64(), "d": pa.duration("us")}
)
ROWS = [
    {
        "t": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        "k": "é\n",
        "x": 1.5,
        "d": dt.timedelta(seconds=2),
    },
    {"t": dt.datetime(2020, 1, 2, tzinfo=dt.UTC), "k": None, "x": math.nan, "d": None},
    {"t": dt.datetime(2020, 1, 3, tzinfo=dt.UTC), "k": "z", "x": -0.0, "d": dt.timedelta(0)},
]
PIECES = [pa.Table.from_pylist(ROWS[:2], SCHEMA), pa.Table.from_pylist(ROWS[2:], SCHEMA)]


def written(output_format: str, pieces: list[pa.Table]) -> bytes:
    stream = io.BytesIO()
    outlet = open_outlet(output_format, stream, SCHEMA)
    for piece in pieces:
        outlet.write(piece)
    outlet.close()
    return stream.getvalue()


def test_json_is_one_object_on_a_line() -> None:
    lines = written("json", PIECES).decode().split("\n")
    assert lines[-1] == ""
    assert [json.loads(line) for line in lines[:-1]] == [
        {"t": "2020-01-01T00:00:00Z", "k": "é\n", "x": 1.5, "d": 2.0},
        {"t": "2020-01-02T00:00:00Z", "k": None, "x": None, "d": None},
        {"t": "2020-01-03T00:00:00Z", "k": "z", "x": -0.0, "d": 0.0},
    ]


def test_csv_has_its_header_once() -> None:
    table = pa_csv.read_csv(
        io.BytesIO(written("csv", PIECES)),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
    )
    assert table.column_names == SCHEMA.names
    assert table.column("d").to_pylist() == [2.0, None, 0.0]


def test_arrow_comes_back_as_it_went() -> None:
    table = pa.ipc.open_stream(written("arrow", PIECES)).read_all()
    assert table.schema == SCHEMA
    assert (
        table.drop_columns("x").to_pylist()
        == pa.concat_tables(PIECES).drop_columns("x").to_pylist()
    )


@pytest.mark.parametrize("output_format", ["json", "csv", "arrow"])
def test_no_row_at_all_is_still_a_whole_file(output_format: str) -> None:
    data = written(output_format, [])
    if output_format == "json":
        assert data == b""
    elif output_format == "csv":
        assert data == b'"t","k","x","d"\n'
    else:
        assert pa.ipc.open_stream(data).read_all().num_rows == 0


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="use one of"):
        open_outlet("xml", io.BytesIO(), SCHEMA)


# ---------------------------------------------------------------------------------------------
# Kafka, on the broker that librdkafka brings along for tests


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    kafka = pytest.importorskip("confluent_kafka")
    holder = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (found,) = holder.list_topics(timeout=10).brokers.values()
    yield f"{found.host}:{found.port}"
    holder.flush(0)


def received(broker: str, topic: str, n: int) -> list[tuple[bytes | None, object, int]]:
    import confluent_kafka as kafka

    consumer = kafka.Consumer(
        {"bootstrap.servers": broker, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    messages = []
    while len(messages) < n:
        message = consumer.poll(30)
        assert message is not None, "no message within 30 s"
        if message.error() is None:
            value = json.loads(message.value())
            messages.append((message.key(), value["x"], message.timestamp()[1]))
    consumer.close()
    return messages


def test_each_row_is_a_message_with_its_key_and_time(broker: str) -> None:
    outlet = KafkaOutlet("rows", {"bootstrap.servers": broker}, time="t", key="k")
    for piece in PIECES:
        outlet.write(piece)
    outlet.close()
    day = 86_400_000
    first = int(ROWS[0]["t"].timestamp() * 1000)
    messages = received(broker, "rows", 3)
    assert sorted(messages, key=lambda m: m[2]) == [
        ("é\n".encode(), 1.5, first),
        (None, None, first + day),
        (b"z", -0.0, first + 2 * day),
    ]


def test_rows_of_one_key_keep_their_order(broker: str) -> None:
    n = 500
    rows = pa.table({"k": ["same"] * n, "x": list(range(n))})
    outlet = KafkaOutlet("ordered", {"bootstrap.servers": broker}, time=None, key="k")
    for first in range(0, n, 7):
        outlet.write(rows.slice(first, 7))
    outlet.close()
    assert [x for _, x, _ in received(broker, "ordered", n)] == list(range(n))


def test_more_messages_than_the_queue_holds_all_arrive(broker: str) -> None:
    n = 300
    settings = {"bootstrap.servers": broker, "queue.buffering.max.messages": "10"}
    outlet = KafkaOutlet("many", settings, time=None, key=None)
    outlet.write(pa.table({"x": list(range(n))}))
    outlet.close()
    assert sorted(x for _, x, _ in received(broker, "many", n)) == list(range(n))


def test_what_cannot_be_delivered_is_an_error() -> None:
    pytest.importorskip("confluent_kafka")
    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "message.timeout.ms": "200",
        "log_level": "0",
        "enable.idempotence": "false",
    }
    outlet = KafkaOutlet("nowhere", settings, time=None, key=None)
    outlet.write(pa.table({"x": [1]}))
    with pytest.raises(QueryError, match="did not take a message"):
        outlet.close()


def test_a_setting_that_does_not_exist_is_refused() -> None:
    pytest.importorskip("confluent_kafka")
    with pytest.raises(QueryError, match="refuses the settings"):
        KafkaOutlet("t", {"no.such.setting": "1"}, time=None, key=None)
