"""Streams made whole from ordered events, such as the answer of a query."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from chronicle.derived import DerivedWriter
from chronicle.errors import StreamExistsError
from chronicle.settings import Lineage, StreamSettings
from chronicle.store import Store, Stream, create_store
from chronicle.stream_folder import check_stream_name, check_unclaimed, open_staging, put_in_place
from chronicle.write.block_writer import write_ordered
from chronicle.write.commit import MATERIALISE, OPERATION, Change, check_whole, commit_change


def materialise(
    store: Store,
    name: str,
    batches: Iterable[pa.RecordBatch],
    *,
    schema: pa.Schema,
    settings: StreamSettings,
    lineage: Lineage | None = None,
    derived: DerivedWriter | None = None,
) -> Stream:
    """Create a stream of events that come in order; it appears whole, or not at all.

    It is written where nobody sees it and then moved to its place, so that what fails, be it in
    ``batches``, leaves nothing behind. At most one data file is in memory.

    ``batches`` come in order of time; ``lineage`` stays with the stream. Raises StreamExistsError
    if there is one of that name, or another process makes one meanwhile.
    """
    check_stream_name(name)
    if name in store.stream_names():
        raise StreamExistsError(
            f"stream '{name}' exists in store '{store.path}'; drop it first or take another name"
        )
    check_unclaimed(store.path / name)
    with open_staging(store.path) as staging:
        target = create_store(staging / "store").create_stream(
            name, schema, settings, lineage=lineage
        )
        files = write_ordered(
            batches,
            stream_dir=target.path,
            schema=target.schema,
            settings=settings,
            ordinal_prefix=f"{0:06d}-{0:06d}",
            derived=derived,
        )
        if files:
            n_events = sum(file.n_events for file in files)
            metadata = {OPERATION: MATERIALISE, "n_events": str(n_events)}
            version = target.snapshot().version
            change = Change(tuple(files))
            committed = commit_change(target, change, read_version=version, metadata=metadata)
            check_whole(committed, store.path / name)
        taken = StreamExistsError(
            f"another process made '{name}' in store '{store.path}' meanwhile; take another name"
        )
        put_in_place(target.path, store.path / name, taken)
    return store.stream(name)
