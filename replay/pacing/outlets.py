"""Where rows go as they come: lines of JSON, CSV, an Arrow stream, a topic of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from chronicle.time import to_int64
from replay.errors import QueryError
from replay.formats import as_csv, to_json_rows

STREAMED_FORMATS = ("json", "csv", "arrow")


class Outlet(Protocol):
    """Takes rows piece by piece."""

    def write(self, table: pa.Table) -> None:
        """Take rows, and let whoever listens have them at once."""
        ...

    def close(self) -> None:
        """End what was written as its format wants it."""
        ...


def open_outlet(output_format: str, stream: BinaryIO, schema: pa.Schema) -> Outlet:
    """Return what writes rows of a schema to a binary stream, which is left open.

    ``json`` is one object on a line for each row; values are those of ``formats.write_answer``.

    Raises
    ------
    ValueError
        If the format is none of `STREAMED_FORMATS`.
    """
    if output_format == "json":
        return _Streamed(stream, lambda table: stream.write(_lines(table)))
    if output_format == "csv":
        import pyarrow.csv as pa_csv

        writer: Any = pa_csv.CSVWriter(stream, as_csv(schema.empty_table()).schema)
        return _Streamed(stream, lambda table: writer.write_table(as_csv(table)), writer.close)
    if output_format == "arrow":
        writer = pa.ipc.new_stream(stream, schema)
        return _Streamed(stream, writer.write_table, writer.close)
    raise ValueError(f"unknown format '{output_format}'; use one of {STREAMED_FORMATS}")


def _lines(table: pa.Table) -> bytes:
    return "".join(f"{row}\n" for row in to_json_rows(table)).encode()


@dataclass(frozen=True, slots=True)
class _Streamed:
    """Writes to a stream of bytes, and lets nothing wait in it."""

    stream: BinaryIO
    put: Callable[[pa.Table], object]
    end: Callable[[], object] | None = None

    def write(self, table: pa.Table) -> None:
        self.put(table)
        self.stream.flush()

    def close(self) -> None:
        if self.end is not None:
            self.end()
        self.stream.flush()


class KafkaOutlet:
    """Sends each row as a message of a topic.

    A message is the row as a JSON object. Where ``key`` is given its value is the message's key,
    so that rows of one key stay in order; where ``time`` names a timestamp it is the message's.

    Parameters
    ----------
    topic
        Name of the topic.
    settings
        Of librdkafka's producer, ``bootstrap.servers`` among them.
    time, key
        Columns of the rows; None for none.

    Raises
    ------
    QueryError
        If the package ``confluent-kafka`` is not installed, or the settings are refused.
    """

    def __init__(
        self, topic: str, settings: Mapping[str, str], *, time: str | None, key: str | None
    ) -> None:
        try:
            from confluent_kafka import KafkaException, Producer
        except ModuleNotFoundError as error:
            raise QueryError(
                "sending to Kafka needs the package confluent-kafka; install "
                "chronicle-events[kafka]"
            ) from error
        self._topic = topic
        self._time, self._key = time, key
        self._failed: str | None = None
        # Order is what a replay is for: no message may overtake one that is sent again.
        defaults = {"enable.idempotence": "true", "linger.ms": "5"}
        try:
            self._producer: Any = Producer({**defaults, **settings})
        except KafkaException as error:
            raise QueryError(f"Kafka refuses the settings: {error}") from error

    def write(self, table: pa.Table) -> None:
        """Send rows.

        Raises
        ------
        QueryError
            If a message could not be delivered: this one or one before.
        """
        rows = to_json_rows(table)
        keys = [None] * len(rows) if self._key is None else table.column(self._key).to_pylist()
        for row, key, time in zip(rows, keys, self._times(table), strict=True):
            self._send(row.encode(), None if key is None else str(key).encode(), time)
        self._producer.poll(0)
        self._check()

    def _send(self, value: bytes, key: bytes | None, time: int) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key=key, timestamp=time, on_delivery=self._delivered
                )
            except BufferError:  # as many are under way as may be; wait for some to arrive
                self._producer.poll(0.1)
                self._check()
            else:
                return

    def _times(self, table: pa.Table) -> list[int]:
        """Return the messages' times in milliseconds; 0 lets the broker say when it came."""
        if self._time is None or not pa.types.is_timestamp(table.schema.field(self._time).type):
            return [0] * table.num_rows
        micros = to_int64(table.column(self._time), name=self._time)
        return [max(0, time // 1000) for time in micros.to_pylist()]

    def _delivered(self, error: object, _: object) -> None:
        if error is not None and self._failed is None:
            self._failed = str(error)

    def _check(self) -> None:
        if self._failed is not None:
            raise QueryError(
                f"topic '{self._topic}' did not take a message ({self._failed}); messages after "
                "it may have arrived"
            )

    def close(self) -> None:
        """Wait until every message was delivered or given up.

        Raises
        ------
        QueryError
            If one could not be delivered.
        """
        self._producer.flush()
        self._check()
