"""Streams for the tests of the event store: events, writing them, and looking at what is there."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from chronicle.log import delta_log
from chronicle.settings import StreamSettings
from chronicle.store import Stream, ensure_store, open_store
from indexing import RunWriter
from tests.helpers import commit_table

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("x", pa.float64()),
        ("n", pa.int64()),
        ("small", pa.int16()),
        ("s", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("raw", pa.binary()),
    ]
)

TICKS = pa.schema([("t", pa.int64()), ("x", pa.float64())])

RUNS = RunWriter(("x",), "t")


class KilledError(BaseException):
    """Stands for a kill: nothing that handles errors handles it."""


def kill() -> None:
    raise KilledError


_FLOATS = st.one_of(
    st.none(),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf"), float("-inf"), 1e16, -1e16]),
    st.floats(-1e6, 1e6),
)
_INTEGERS = st.one_of(
    st.none(), st.integers(-5, 5), st.sampled_from([2**63 - 1, -(2**63), 2**40, -(2**40)])
)


@st.composite
def events(draw: st.DrawFn, max_size: int = 40) -> pa.Table:
    """Events in time order with ties, bursts, holes, nulls, NaN and infinities."""
    steps = draw(st.lists(st.sampled_from([0, 0, 1, 2, 1000]), max_size=max_size))
    times, now = [], draw(st.integers(-50, 50))
    for step in steps:
        now += step
        times.append(now)
    n = len(times)

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=n, max_size=n))

    columns = {
        "t": times,
        "x": column(_FLOATS),
        "n": column(_INTEGERS),
        "small": column(st.one_of(st.none(), st.integers(-(2**15), 2**15 - 1))),
        "s": column(st.one_of(st.none(), st.text("abÄ😀", max_size=2))),
        "flag": column(st.one_of(st.none(), st.booleans())),
        "day": column(st.one_of(st.none(), st.integers(-1000, 1000))),
        "at": column(st.one_of(st.none(), st.integers(-(10**15), 10**15))),
        "raw": column(st.one_of(st.none(), st.binary(max_size=2))),
    }
    return pa.table([to_array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def to_array(values: list[object], data_type: pa.DataType) -> pa.Array:
    """Make an array; dates and timestamps are given as int."""
    if pa.types.is_date(data_type):
        return pa.array(values, pa.int32()).cast(data_type)
    if pa.types.is_timestamp(data_type):
        return pa.array(values, pa.int64()).cast(data_type)
    return pa.array(values, data_type)


def to_internal(column: pa.ChunkedArray) -> list[object]:
    """Return the values as summaries see them: bools, dates and timestamps as int."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.to_pylist()


def make_stream(
    folder: Path,
    tables: list[pa.Table],
    *,
    schema: pa.Schema = SCHEMA,
    time: str = "t",
    block_events: int = 4,
    file_events: int = 16,
    fan_out: int = 2,
) -> Stream:
    """Create a stream of small blocks and append the tables one after the other."""
    settings = StreamSettings(
        time, block_events=block_events, file_events=file_events, fan_out=fan_out
    )
    stream = ensure_store(folder / "store").create_stream("ticks", schema, settings)
    for table in tables:
        commit_table(stream, table)
    return stream


def ticks(first: int, stop: int) -> pa.Table:
    """One event for each of the times, x being the time."""
    return at(*range(first, stop))


def at(*times: int) -> pa.Table:
    """Events of these times, x being the time."""
    return pa.table({"t": list(times), "x": [float(t) for t in times]}, TICKS)


def arrived(times: list[int], first_x: int = 0) -> pa.Table:
    """Events of these times, x numbering them in order of arrival."""
    return pa.table({"t": times, "x": [float(first_x + i) for i in range(len(times))]}, TICKS)


def seen_rows(stream: Stream, version: int | None = None) -> list[tuple[int, float]]:
    """Read what another process would."""
    snapshot = open_store(stream.path.parent).stream(stream.name).snapshot(version)
    table = snapshot.read_blocks(np.arange(snapshot.n_blocks), ["t", "x"])
    return list(zip(table["t"].to_pylist(), table["x"].to_pylist(), strict=True))


def seen_times(stream: Stream, version: int | None = None) -> list[int]:
    return [t for t, _ in seen_rows(stream, version)]


def names_of(stream: Stream) -> list[str]:
    return [file.name for file in stream.snapshot().files]


def on_disk(stream: Stream, table: str = "events") -> set[str]:
    return {path.name for path in (stream.path / table).iterdir() if path.is_file()}


def live(stream: Stream, table: str = "events") -> set[str]:
    return {file.name for file in delta_log.live_files(stream.path / table)}


def ever_live(stream: Stream) -> set[str]:
    """Return the names of the data files of all versions."""
    table = stream.path / "events"
    versions = range(stream.snapshot().version + 1)
    return {file.name for version in versions for file in delta_log.live_files(table, version)}


def meet(
    patch: pytest.MonkeyPatch,
    owner: object,
    step: str,
    act: Callable[[], object],
    *,
    after: bool = False,
) -> None:
    """Let another process act right before (or after) the first call of a step."""
    original, once = getattr(owner, step), iter([act])

    def met(*args: Any, **options: Any) -> Any:
        for do in () if after else once:
            do()
        done = original(*args, **options)
        for do in once:
            do()
        return done

    patch.setattr(owner, step, met)


def date_commits(stream: Stream, first: dt.datetime, step: dt.timedelta) -> None:
    """Date version v to v steps after version 0, that to the first time."""
    for commit in sorted((stream.path / "events" / "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        time_ms = int((first + int(commit.stem) * step).timestamp() * 1000)
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] = time_ms
        commit.write_text("".join(json.dumps(line) + "\n" for line in lines))


def flip(path: Path, at: int = 40) -> None:
    """Change a byte of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)
