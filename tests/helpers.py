"""What many tests need: a stream filled without Spark."""

from __future__ import annotations

import itertools

from chronicle import Store, StreamSettings
from chronicle.store import Stream
from chronicle.write.block_writer import write_ordered
from chronicle.write.commit import commit_files
from indexing import RunWriter
from tests.memory_stream import MemoryStore, fill_memory
from tests.strategies import SmallStream


def fill_stream(
    store: Store, name: str, small: SmallStream, *, index: tuple[str, ...] = ()
) -> Stream:
    """Create a stream and commit the rows in as many commits as the stream has cuts, plus one."""
    if isinstance(store, MemoryStore):
        return fill_memory(store, name, small, index)
    settings = StreamSettings(
        time="t",
        block_events=small.block_events,
        file_events=small.file_events,
        fan_out=small.fan_out,
    )
    stream = store.create_stream(name, small.schema, settings)
    writer = RunWriter(attributes=index, time="t")
    borders = (0, *small.cuts, len(small.rows))
    for start, stop in itertools.pairwise(borders):
        if start == stop:
            continue
        batches = small.table.slice(start, stop - start).to_batches()
        files = write_ordered(
            batches,
            stream_dir=stream.path,
            schema=small.schema,
            settings=settings,
            ordinal_prefix=f"{stream.next_generation():06d}-{0:06d}",
            derived=writer,
        )
        commit_files(stream, files, read_version=stream.snapshot().version, metadata={})
    return stream
