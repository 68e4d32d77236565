"""What many tests need: events written and committed without Spark, and a mark."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from numba import config

from chronicle import Store, StreamSettings, open_store
from chronicle.store import Stream
from chronicle.write.block_writer import WrittenFile, write_ordered
from chronicle.write.commit import Change, commit_change
from indexing import RunWriter
from tests.memory_stream import MemoryStore, fill_memory
from tests.strategies import SmallStream


def write_table(
    stream: Stream,
    table: pa.Table,
    *,
    generation: int | None = None,
    batch_events: int | None = None,
    derived: Any = None,
) -> list[WrittenFile]:
    """Write events as files of a stream, of the next generation if none is given; no commit."""
    number = stream.next_generation() if generation is None else generation
    return write_ordered(
        table.to_batches(max_chunksize=batch_events),
        stream_dir=stream.path,
        schema=stream.schema,
        settings=stream.settings,
        ordinal_prefix=f"{number:06d}-000000",
        derived=derived,
    )


def commit_table(stream: Stream, table: pa.Table, **how: Any) -> int:
    """Write and commit events behind the stream's end; return the version they made."""
    version = stream.snapshot().version
    files = write_table(stream, table, **how)
    return commit_change(stream, Change(tuple(files)), read_version=version, metadata={}).version


def fill_stream(
    store: Store,
    name: str,
    small: SmallStream,
    *,
    index: tuple[str, ...] = (),
    key: str | None = None,
) -> Stream:
    """Create a stream and commit the rows in as many commits as the stream has cuts, plus one."""
    if isinstance(store, MemoryStore):
        return fill_memory(store, name, small, index, key)
    settings = StreamSettings(
        time="t",
        block_events=small.block_events,
        file_events=small.file_events,
        fan_out=small.fan_out,
        key=key,
    )
    stream = store.create_stream(name, small.schema, settings)
    writer = RunWriter(attributes=index, time="t", key=key)
    borders = (0, *small.cuts, len(small.rows))
    for start, stop in itertools.pairwise(borders):
        if start == stop:
            continue
        commit_table(stream, small.table.slice(start, stop - start), derived=writer)
    return stream


def copy_stream(made: Stream, folder: Path) -> Stream:
    """Copy the store of a stream that several tests begin with, to be changed; open it there."""
    return open_store(shutil.copytree(made.path.parent, folder / "store")).stream(made.name)


def damage_events(stream: Stream, *places: int) -> list[str]:
    """Overwrite the pages of the data files at these places in stream order."""
    names = [stream.snapshot().files[place].name for place in places]
    for name in names:
        path = stream.path / "events" / name
        content = bytearray(path.read_bytes())
        content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
        path.write_bytes(content)
    return names


def only_compiled(reason: str) -> pytest.MarkDecorator:
    """Skip a test where kernels run as plain Python, as `make test-nojit` lets them."""
    return pytest.mark.skipif(bool(config.DISABLE_JIT), reason=reason)
