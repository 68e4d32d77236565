"""The process in which DuckDB works: one can end it, whatever DuckDB does.

It is run as a script, by `connection.Worker`, and imports nothing of ours. A request is the name of
a method of `Served` with its arguments; its answer, or what DuckDB says against it, goes back.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import threading
from collections import OrderedDict
from multiprocessing.connection import Connection
from time import sleep
from typing import Any

import duckdb
import pyarrow as pa

KEPT_MAX = 4
"""Connections kept, each for what it may read: a new one takes tens of milliseconds."""

_PARENT_S = 2.0
"""Seconds between looks whether the process that asks is still there."""


class Served:
    """What is asked of DuckDB, one statement after the other."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, duckdb.DuckDBPyConnection] = OrderedDict()
        self._cursor: Any = None
        self._batches: list[pa.RecordBatch] = []
        self._relation: Any = None
        self._reader: Any = None

    def open(self, config: dict[str, Any], words: str) -> None:
        """Begin a statement on a connection that is set up so; others see nothing of it."""
        key = (tuple(sorted(config.items())), words)
        connection = self._kept.pop(key, None)
        if connection is None:
            connection = duckdb.connect(":memory:", config=config)
            connection.execute(words)
        self._kept[key] = connection
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        self._cursor = connection.cursor()

    def give(self, rows: bytes) -> None:
        """Take further rows of a table, as an Arrow stream."""
        self._batches += pa.ipc.open_stream(rows)

    def register(self, name: str, schema: bytes) -> None:
        """Name the rows taken."""
        table = pa.Table.from_batches(self._batches, pa.ipc.open_stream(schema).schema)
        self._batches = []
        self._cursor.register(name, table)

    def bind(self, text: str, params: dict[str, Any]) -> tuple[list[str], list[str]] | None:
        """Bind a query; return names and types of its columns. None: it is not one SELECT."""
        statements = self._cursor.extract_statements(text)
        if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
            return None
        self._relation = self._cursor.sql(text, params=params)
        self._reader = None
        return list(self._relation.columns), list(map(str, self._relation.types))

    def fetch(self, projection: str | None, n_rows: int, *, is_dry: bool) -> tuple[bytes, bool]:
        """Return further rows of the query bound, about so many, and whether they are the last."""
        if self._reader is None:
            relation = self._relation if projection is None else self._relation.project(projection)
            relation = relation.limit(0) if is_dry else relation
            self._reader = relation.to_arrow_reader(n_rows)
        sink = pa.BufferOutputStream()
        found = 0
        with pa.ipc.new_stream(sink, self._reader.schema) as stream:
            while found < n_rows:
                batch = next(self._reader, None)
                if batch is None:
                    break
                stream.write_batch(batch)
                found += len(batch)
        return sink.getvalue().to_pybytes(), found < n_rows

    def execute(self, text: str, params: dict[str, Any]) -> list[Any]:
        """Return the rows of a statement as tuples."""
        rows: list[Any] = self._cursor.execute(text, params).fetchall()
        return rows

    def close(self) -> None:
        """Let go of a statement and what was registered for it."""
        self._relation = self._reader = None
        self._batches = []
        self._cursor.close()


def serve(channel: Connection) -> None:
    """Answer requests until there is nobody who asks."""
    served = Served()
    while True:
        try:
            request = channel.recv_bytes()
        except EOFError:
            return
        try:
            name, arguments, options = pickle.loads(request)  # noqa: S301 -- of our own process
            answer = True, getattr(served, name)(*arguments, **options)
        except Exception as error:  # noqa: BLE001 -- the process that asks says it
            answer = False, str(error)
        channel.send(answer)


def _end_with(parent: int, folder: str) -> None:
    """End this process, with its folder, once that of another number is not its parent any more."""
    while os.getppid() == parent:
        sleep(_PARENT_S)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def main(channel: str, parent: str, folder: str) -> None:
    """Serve a process, and leave nothing behind if that ends without having ended this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(int(parent), folder), daemon=True).start()
    try:
        serve(Connection(int(channel)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
