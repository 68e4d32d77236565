"""Late events staged by tasks and merged by jobs give what one sorted load would have given."""

from __future__ import annotations

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronicle.errors import SchemaError
from chronicle.ingest.late import (
    LateFile,
    LateJob,
    LateMerge,
    LateRoute,
    LateWriter,
    merge_batches,
    plan_late,
    to_slots,
)
from chronicle.settings import StreamSettings
from chronicle.snapshot import DataFile
from chronicle.store import Stream, create_store
from chronicle.write.commit import Change, commit_change
from tests.helpers import commit_table

SCHEMA = pa.schema([("t", pa.int64()), ("n", pa.int64())])

Events = list[tuple[int, int]]


def to_batch(events: Events) -> pa.RecordBatch:
    columns = [[t for t, _ in events], [n for _, n in events]]
    return pa.RecordBatch.from_arrays([pa.array(c, pa.int64()) for c in columns], schema=SCHEMA)


def read(stream: Stream) -> Events:
    snapshot = stream.snapshot()
    table = snapshot.read_blocks(np.arange(snapshot.n_blocks), ["t", "n"])
    columns = [table.column(name).to_pylist() for name in ("t", "n")]
    return list(zip(*columns, strict=True))


def fill(stream: Stream, events: Events) -> None:
    commit_table(stream, pa.Table.from_batches([to_batch(events)]))


def route_of(stream: Stream, folder: Path) -> LateRoute:
    live = stream.snapshot().files
    t_min, t_max = tuple(f.t_min for f in live), tuple(f.t_max for f in live)
    return LateRoute(t_max[-1], None, "", t_min, t_max, folder)


def merge(stream: Stream, late: Events, cuts: list[int], folder: Path) -> None:
    """Merge sorted late events that come in several tasks, cut at ``cuts``."""
    live, version = stream.snapshot().files, stream.snapshot().version
    staged: list[LateFile] = []
    for part, (start, stop) in enumerate(itertools.pairwise([0, *cuts, len(late)])):
        writer = LateWriter(route_of(stream, folder), SCHEMA, "t", part=part)
        for at in range(start, stop, 3):
            writer.write(to_batch(late[at : min(at + 3, stop)]))
        staged += writer.close()
    generation = stream.next_generation()
    file_events = stream.settings.file_events
    jobs = plan_late(staged[::-1], live, generation=generation, file_events=file_events)
    run = LateMerge(stream.path / "events", stream.path, SCHEMA, stream.settings, None)
    written = [file for job in jobs for file in run(job)]
    removed = tuple(job.file for job in jobs if job.file is not None)
    change = Change(tuple(written), removed)
    commit_change(stream, change, read_version=version, metadata={"chronicle.operation": "ingest"})


@st.composite
def loads(draw: st.DrawFn) -> tuple[list[Events], list[list[int]], StreamSettings]:
    """Loads of few distinct times, each sorted; the later ones are late, or end the stream."""
    numbers = itertools.count()
    events: list[Events] = []
    cuts = []
    for _ in range(draw(st.integers(2, 4))):
        times = draw(st.lists(st.integers(0, 12), min_size=1, max_size=14))
        events.append([(t, next(numbers)) for t in sorted(times)])
        cuts.append(sorted(draw(st.lists(st.integers(0, len(times)), max_size=2))))
    file_events = draw(st.integers(1, 9))
    chosen = StreamSettings(time="t", block_events=2, file_events=file_events, fan_out=2)
    return events, cuts, chosen


@settings(max_examples=20)
@given(loads())
def test_loads_in_any_order_of_time_are_one_load_sorted_by_time_and_arrival(
    case: tuple[list[Events], list[list[int]], StreamSettings],
) -> None:
    events, cuts, chosen = case
    with TemporaryDirectory() as folder:
        stream = create_store(Path(folder) / "store").create_stream("s", SCHEMA, chosen)
        fill(stream, events[0])
        for number, (load, cut) in enumerate(zip(events[1:], cuts[1:], strict=True)):
            end = stream.snapshot().t_max
            assert end is not None
            late = [event for event in load if event[0] < end]
            cut = [min(at, len(late)) for at in cut]
            if late:
                merge(stream, late, cut, Path(folder) / f"late{number}")
            if len(late) < len(load):
                fill(stream, load[len(late) :])
        assert read(stream) == sorted(itertools.chain(*events))
        assert all(file.n_events <= chosen.file_events for file in stream.snapshot().files)


def test_slots_are_before_inside_and_behind_files() -> None:
    # Files [10..20], [20..20], [30..40].
    t_min, t_max = np.array([10, 20, 30]), np.array([20, 20, 40])
    times = np.array([9, 10, 19, 20, 29, 30, 39])
    assert to_slots(times, t_min, t_max).tolist() == [0, 1, 1, 4, 4, 5, 5]


def file_at(t_min: int, t_max: int, n: int) -> DataFile:
    return DataFile(f"f{n}", f"{n:06d}", 4, 1, 100, t_min, t_max, True)


def test_little_between_files_goes_into_the_earlier_one_and_much_becomes_a_file() -> None:
    live = [file_at(10, 20, 0), file_at(30, 40, 1)]
    staged = [
        LateFile(0, 1, "b0", 1, 0, 0),
        LateFile(0, 0, "a0", 1, 0, 0),
        LateFile(1, 1, "b1", 2, 0, 0),
        LateFile(2, 1, "b2", 2, 0, 0),
        LateFile(2, 2, "c2", 2, 0, 0),
        LateFile(3, 2, "c3", 9, 0, 0),
    ]
    assert plan_late(staged, live, generation=7, file_events=8) == [
        LateJob(None, "000007-000002", ("b2", "c2"), 4),
        LateJob("f0", "000000", ("a0", "b0", "b1"), 4),
        LateJob("f1", "000001", ("c3",), 9),
    ]


@pytest.mark.parametrize("before", [[], [(3, 0)]], ids=["in a batch", "between batches"])
def test_late_events_out_of_order_are_refused(tmp_path: Path, before: Events) -> None:
    writer = LateWriter(LateRoute(9, None, "", (0,), (9,), tmp_path), SCHEMA, "t", part=0)
    writer.write(to_batch(before))
    with pytest.raises(SchemaError, match="goes back among late events"):
        writer.write(to_batch([(2, 1)] if before else [(3, 0), (2, 1)]))
    writer.discard()
    assert not list(tmp_path.iterdir())


def test_more_late_events_than_a_file_holds_are_merged_batch_by_batch() -> None:
    events = pa.Table.from_batches([to_batch([(1, 0), (3, 1), (3, 2), (5, 3)])])
    late = [to_batch([(0, 4), (3, 5)]), to_batch([(3, 6), (4, 7)])]
    merged = pa.Table.from_batches(merge_batches(events, late, "t"))
    assert merged.column("t").to_pylist() == [0, 1, 3, 3, 3, 3, 4, 5]
    assert merged.column("n").to_pylist() == [4, 0, 1, 2, 5, 6, 7, 3]
